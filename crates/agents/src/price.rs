//! Prices of tokens, for agents that report tokens and no dollars (G9).
//!
//! Format of `dispatch.prices`, a list of `<model> = <input> / <cached> / <output>`:
//!
//! - amounts are dollars for a million tokens;
//! - `cached` is the price of input tokens that the model read from its cache;
//! - `<model>` is the name of a model, a prefix followed by `*`, or the name of an agent, for all of its models;
//! - the first matching entry applies.
//!
//! What must hold: without a price the cost is unknown, which is different from zero.

use jit_core::model::cost::Usd;
use serde::{Deserialize, Serialize};

use crate::event::Meter;

/// The highest price of a million tokens, in dollars.
const MOST: f64 = 1e6;

/// The largest cost. A larger one could not be read back.
pub const LARGEST: Usd = Usd(999_999_999_999_000_000);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    pub model: String,
    /// All three amounts are for a million tokens.
    pub input: Usd,
    pub cached: Usd,
    pub output: Usd,
}

impl Price {
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not <model> = <input> / <cached> / <output>");
        let (model, amounts) = text.split_once('=').ok_or_else(wrong)?;
        let model = model.trim();
        let is_name = |name: &str| {
            !name.is_empty()
                && name.len() <= 100
                && !name.contains('*')
                && !name.chars().any(|c| c.is_control() || c.is_whitespace())
        };
        if !is_name(model.strip_suffix('*').unwrap_or(model)) {
            return Err(wrong());
        }
        let amounts: Option<Vec<Usd>> = amounts.split('/').map(dollars).collect();
        match amounts.as_deref() {
            Some([input, cached, output]) => Ok(Self {
                model: model.to_owned(),
                input: *input,
                cached: *cached,
                output: *output,
            }),
            _ => Err(wrong()),
        }
    }

    fn is_for(&self, name: &str) -> bool {
        match self.model.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => self.model == name,
        }
    }

    pub fn of(&self, used: Meter) -> Usd {
        let cached = used.cached.min(used.input);
        let parts = [
            (used.input - cached, self.input),
            (cached, self.cached),
            (used.output, self.output),
        ];
        let all: u128 = parts
            .iter()
            .map(|(tokens, price)| u128::from(*tokens) * u128::from(price.0))
            .sum();
        Usd(u64::try_from(all.div_ceil(1_000_000)).unwrap_or(u64::MAX)).min(LARGEST)
    }
}

fn dollars(text: &str) -> Option<Usd> {
    let text = text.trim();
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let amount: f64 = text.parse().ok().filter(|_| plain)?;
    (amount <= MOST).then(|| Usd((amount * 1e6).round() as u64))
}

/// The price that applies to this agent. `model` is `None` if the agent chooses its model itself.
pub fn find<'a>(prices: &'a [Price], agent: &str, model: Option<&str>) -> Option<&'a Price> {
    let named = model.and_then(|model| prices.iter().find(|price| price.is_for(model)));
    named.or_else(|| prices.iter().find(|price| price.model == agent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g9_a_price_is_three_amounts_for_a_model() {
        let price = Price::parse("gpt-5* = 1.25 / 0.125 / 10").expect("a price");
        assert_eq!(
            (price.input, price.cached, price.output),
            (Usd(1_250_000), Usd(125_000), Usd(10_000_000))
        );
        for bad in [
            "",
            "gpt-5",
            "gpt-5 = 1",
            "gpt-5 = 1 / 2",
            "gpt-5 = 1 / 2 / 3 / 4",
            "gpt-5 = 1 / 2 / -3",
            "gpt-5 = 1 / 2 / nan",
            "gpt-5 = 1 / 2 / 1e3",
            "gpt-5 = 1 / 2 / inf",
            "gpt-5 = 1 / 2 / 9999999",
            "= 1 / 2 / 3",
            "* = 1 / 2 / 3",
            "a*b = 1 / 2 / 3",
            "a b = 1 / 2 / 3",
            "gpt-5 = 1 / 2 / $3",
        ] {
            assert!(Price::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn g9_the_first_price_that_fits_counts_and_then_that_of_the_agent() {
        let prices: Vec<Price> = ["m-1 = 1/1/1", "m-* = 2/2/2", "codex = 3/3/3"]
            .iter()
            .map(|text| Price::parse(text).expect("a price"))
            .collect();
        let found = |model| find(&prices, "codex", model).map(|price| price.input.0 / 1_000_000);
        assert_eq!(found(Some("m-1")), Some(1));
        assert_eq!(found(Some("m-2")), Some(2));
        assert_eq!(found(Some("other")), Some(3));
        assert_eq!(found(None), Some(3));
        assert_eq!(find(&prices, "gemini", Some("other")), None);
    }

    #[test]
    fn g9_a_cost_is_of_all_three_and_never_too_large() {
        let price = Price::parse("m = 2 / 0.5 / 8").expect("a price");
        let used = Meter {
            input: 1_000,
            cached: 400,
            output: 100,
        };
        assert_eq!(price.of(used), Usd(600 * 2 + 200 + 800));
        let one = Meter {
            output: 1,
            ..Meter::default()
        };
        let cheap = Price::parse("m = 0 / 0 / 0.01").expect("a price");
        assert_eq!(cheap.of(one), Usd(1), "the smallest coin, not nothing");
        let most = Meter {
            input: u64::MAX,
            cached: u64::MAX,
            output: u64::MAX,
        };
        let dear = Price::parse("m = 1000000 / 1000000 / 1000000").expect("a price");
        assert_eq!(dear.of(most), LARGEST);
    }
}
