//! The usage of an attempt, from the agent's reports about turns and its session (G9).
//!
//! What must hold: values never become negative, never decrease and never overflow; the cost of a resumed session
//! before this attempt does not count.

use jit_core::model::cost::{Tokens, Usd};
use serde_json::Value;

use super::wire::{Cost, Prompted, TurnUsage};

#[derive(Debug, Default)]
pub struct AcpUsage {
    resumed: bool,
    /// The cost of the session when this attempt began, if known.
    before: Option<Usd>,
    cost: Option<Usd>,
    /// Of completed turns.
    tokens: Tokens,
    /// The largest size of the conversation in this turn: at least so many tokens went through the model.
    context: u64,
    turns: u64,
    /// The model is answering; its next message does not start a new turn.
    speaking: bool,
}

impl AcpUsage {
    pub fn new(resumed: bool, before: Option<Usd>) -> Self {
        Self {
            resumed,
            before,
            ..Self::default()
        }
    }

    /// A cost that was reported before the prompt of this attempt.
    pub fn began(&mut self, cost: &Cost) {
        if let Some(usd) = dollars(cost) {
            self.before = Some(usd);
        }
    }

    /// The reported cost is that of the whole session.
    pub fn cost(&mut self, cost: &Cost) {
        let Some(all) = dollars(cost) else { return };
        let before = match (self.resumed, self.before) {
            (false, _) => Usd(0),
            // The agent's counter was reset.
            (true, Some(before)) if all < before => {
                self.before = Some(Usd(0));
                Usd(0)
            }
            (true, Some(before)) => before,
            // It may include other attempts.
            (true, None) => return,
        };
        let own = Usd(all.0.saturating_sub(before.0));
        self.cost = Some(self.cost.map_or(own, |known| known.max(own)));
    }

    pub fn context(&mut self, used: u64) {
        self.context = self.context.max(used);
    }

    /// The model sent text or called a tool.
    pub fn speaks(&mut self) {
        if !self.speaking {
            self.speaking = true;
            self.turns += 1;
        }
    }

    /// A tool returned: the model is called again.
    pub fn listens(&mut self) {
        self.speaking = false;
    }

    pub fn turn_ended(&mut self, answer: &Prompted) {
        let told = answer.usage.or_else(|| answer.meta.as_ref().and_then(quota));
        let turn = match told {
            Some(usage) => Tokens {
                input: usage
                    .input_tokens
                    .saturating_add(usage.cached_read_tokens)
                    .saturating_add(usage.cached_write_tokens),
                output: usage.output_tokens.saturating_add(usage.thought_tokens),
            },
            None => Tokens::default(),
        };
        // A turn used at least as many tokens as the conversation has.
        let turn = match turn.total() < self.least().total() {
            true => self.least(),
            false => turn,
        };
        self.tokens = self.tokens.plus(turn);
        self.context = 0;
        self.speaking = false;
    }

    fn least(&self) -> Tokens {
        Tokens {
            input: self.context,
            output: 0,
        }
    }

    pub fn tokens(&self) -> Tokens {
        self.tokens.plus(self.least())
    }

    pub fn usd(&self) -> Option<Usd> {
        self.cost
    }

    pub fn turns(&self) -> u64 {
        self.turns
    }
}

/// `None` if it is not an amount in dollars.
fn dollars(cost: &Cost) -> Option<Usd> {
    let fine = cost.amount.is_finite() && cost.amount < 1e12 && cost.currency.eq_ignore_ascii_case("usd");
    fine.then(|| Usd((cost.amount.max(0.0) * 1e6).round() as u64))
}

/// The format of Gemini CLI.
fn quota(meta: &Value) -> Option<TurnUsage> {
    let count = meta.get("quota")?.get("token_count")?;
    let number = |name: &str| count.get(name).and_then(Value::as_u64).unwrap_or_default();
    Some(TurnUsage {
        input_tokens: number("input_tokens"),
        output_tokens: number("output_tokens"),
        ..TurnUsage::default()
    })
}
