//! The usage of an attempt, from the reports of Claude Code.
//!
//! There are four kinds of reports; later ones are more exact:
//!
//! 1. the usage in each message: its output tokens are those at the start of the answer, and all parts of a message
//!    repeat them;
//! 2. the final usage of a message, if API events are shown;
//! 3. the totals of the session, on request;
//! 4. the result.
//!
//! Totals include all sessions that the session was resumed or forked from.
//!
//! What must hold: only this attempt is counted; reported usage never decreases.
//!
//! Limitations: costs are Claude Code's own estimates from list prices. Tokens read from its cache count as input.

use std::collections::HashMap;

use jit_core::model::cost::{Tokens, Usd};

use super::stream::{ModelUsage, ModelUsages, Outcome, SessionUsage, Usage};

/// Tokens, and dollars if known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Amount {
    tokens: Tokens,
    cost: f64,
}

impl Amount {
    fn of(models: &ModelUsages, cost: Option<f64>) -> Self {
        let tokens = models
            .values()
            .map(model_tokens)
            .fold(Tokens::default(), Tokens::plus);
        let sum = || models.values().map(|model| model.cost_usd).sum();
        Self {
            tokens,
            cost: cost.unwrap_or_else(sum),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            tokens: Tokens {
                input: self.tokens.input.saturating_sub(other.tokens.input),
                output: self.tokens.output.saturating_sub(other.tokens.output),
            },
            cost: self.cost - other.cost,
        }
    }
}

fn model_tokens(model: &ModelUsage) -> Tokens {
    Tokens {
        input: model
            .input_tokens
            .saturating_add(model.cache_creation_input_tokens)
            .saturating_add(model.cache_read_input_tokens),
        output: model.output_tokens,
    }
}

fn call_tokens(usage: &Usage) -> Tokens {
    Tokens {
        input: usage
            .input_tokens
            .saturating_add(usage.cache_creation_input_tokens)
            .saturating_add(usage.cache_read_input_tokens),
        output: usage.output_tokens,
    }
}

/// `None` if it is not an amount of money.
fn dollars(amount: f64) -> Option<Usd> {
    let fine = amount.is_finite() && amount < 1e12;
    fine.then(|| Usd((amount.max(0.0) * 1e6).round() as u64))
}

fn larger(a: Tokens, b: Tokens) -> Tokens {
    Tokens {
        input: a.input.max(b.input),
        output: a.output.max(b.output),
    }
}

#[derive(Debug)]
pub struct ClaudeUsage {
    /// The totals of the session when this attempt began.
    base: Option<Amount>,
    resumed: bool,
    /// The earlier cost of the session, as recorded by an earlier attempt.
    cost_before: Option<Usd>,
    /// From messages alone.
    messages: HashMap<String, Tokens>,
    heard: Tokens,
    /// Messages of the main conversation, without subagents.
    turns: u64,
    /// The sum of results that reported only their own usage.
    since: Amount,
    tokens: Tokens,
    cost: Option<Usd>,
}

impl ClaudeUsage {
    pub fn new(resumed: bool, cost_before: Option<Usd>) -> Self {
        Self {
            base: (!resumed).then(Amount::default),
            resumed,
            cost_before,
            messages: HashMap::new(),
            heard: Tokens::default(),
            turns: 0,
            since: Amount::default(),
            tokens: Tokens::default(),
            cost: None,
        }
    }

    pub fn tokens(&self) -> Tokens {
        larger(self.tokens, self.heard)
    }

    pub fn cost(&self) -> Option<Usd> {
        self.cost
    }

    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Adds a message or another part of one. Returns whether the message is new.
    pub fn message(&mut self, id: &str, usage: &Usage, is_main: bool) -> bool {
        let now = call_tokens(usage);
        let (tokens, new) = match self.messages.get(id) {
            Some(before) => (larger(*before, now), false),
            None => (now, true),
        };
        let before = self.messages.insert(id.to_owned(), tokens).unwrap_or_default();
        self.heard = self.heard.plus(Tokens {
            input: tokens.input - before.input,
            output: tokens.output - before.output,
        });
        self.turns += u64::from(new && is_main);
        new
    }

    /// The totals of the session before the prompt.
    pub fn began(&mut self, session: &SessionUsage) {
        self.base = Some(Amount::of(&session.model_usage, Some(session.total_cost_usd)));
    }

    /// The current totals of the session.
    pub fn totals(&mut self, session: &SessionUsage) {
        if let Some(base) = self.base {
            self.take(Amount::of(&session.model_usage, Some(session.total_cost_usd)).minus(base));
        }
    }

    pub fn result(&mut self, outcome: &Outcome<'_>) {
        // Counting messages is exact; the result counts one more if a limit was reached. Without messages only the
        // result is left.
        self.turns = match self.turns {
            0 => outcome.num_turns,
            turns => turns,
        };
        let whole = Amount::of(&outcome.model_usage, outcome.total_cost_usd);
        if let Some(base) = self.base {
            return self.take(whole.minus(base));
        }
        if let Some(since) = &outcome.model_usage_since_last_result {
            let since = Amount::of(since, None);
            self.since = Amount {
                tokens: self.since.tokens.plus(since.tokens),
                cost: self.since.cost + since.cost,
            };
            return self.take(self.since);
        }
        let turn = outcome.usage.as_ref().map(call_tokens).unwrap_or_default();
        self.tokens = larger(self.tokens, turn);
        if let (Some(before), Some(total)) = (self.cost_before, outcome.total_cost_usd) {
            self.pay(dollars(total - before.0 as f64 / 1e6));
        }
        debug_assert!(self.resumed, "a fresh session begins at nothing");
    }

    fn take(&mut self, amount: Amount) {
        self.tokens = larger(self.tokens, amount.tokens);
        self.pay(dollars(amount.cost));
    }

    fn pay(&mut self, cost: Option<Usd>) {
        self.cost = self.cost.max(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            ..Usage::default()
        }
    }

    fn session(input: u64, output: u64, cost: f64) -> SessionUsage {
        let text = format!(
            r#"{{"total_cost_usd":{cost},"model_usage":{{"m":{{"inputTokens":{input},"outputTokens":{output}}}}}}}"#
        );
        serde_json::from_str(&text).expect("usage")
    }

    #[test]
    fn g9_parts_of_a_message_are_counted_once_and_the_larger_count_stays() {
        let mut spent = ClaudeUsage::new(false, None);
        assert!(spent.message("a", &usage(100, 1), true));
        assert!(!spent.message("a", &usage(100, 1), true));
        assert!(!spent.message("a", &usage(0, 20), true));
        assert!(spent.message("b", &usage(50, 1), false));
        assert_eq!(
            spent.tokens(),
            Tokens {
                input: 150,
                output: 21
            }
        );
        assert_eq!((spent.turns(), spent.cost()), (1, None));
    }

    #[test]
    fn g9_only_what_came_after_the_beginning_is_this_attempts() {
        let mut spent = ClaudeUsage::new(true, Some(Usd(1)));
        spent.totals(&session(900, 90, 9.0));
        assert_eq!(spent.cost(), None, "where it began is not known yet");
        spent.began(&session(700, 140, 0.0056));
        spent.totals(&session(800, 160, 0.0064));
        assert_eq!(spent.cost(), Some(Usd(800)));
        assert_eq!(
            spent.tokens(),
            Tokens {
                input: 100,
                output: 20
            }
        );
        // Values never decrease and never become negative.
        spent.totals(&session(0, 0, 0.0));
        assert_eq!(spent.cost(), Some(Usd(800)));
        let result = r#"{"total_cost_usd":0.0088,"modelUsage":{"m":{"inputTokens":1100,"outputTokens":220,"cacheReadInputTokens":5}}}"#;
        spent.result(&serde_json::from_str(result).expect("a result"));
        assert_eq!(spent.cost(), Some(Usd(3_200)));
        assert_eq!(
            spent.tokens(),
            Tokens {
                input: 405,
                output: 80
            }
        );
    }

    #[test]
    fn g9_without_a_beginning_the_result_or_our_memory_tells() {
        let result = r#"{"num_turns":1,"total_cost_usd":0.0096,"usage":{"input_tokens":100,"output_tokens":20},"modelUsage":{"m":{"inputTokens":1200,"outputTokens":240,"costUSD":0.0096}}}"#;
        let mut spent = ClaudeUsage::new(true, Some(Usd(8_800)));
        spent.result(&serde_json::from_str(result).expect("a result"));
        assert_eq!((spent.cost(), spent.turns()), (Some(Usd(800)), 1));
        assert_eq!(
            spent.tokens(),
            Tokens {
                input: 100,
                output: 20
            }
        );
        let mut spent = ClaudeUsage::new(true, None);
        spent.result(&serde_json::from_str(result).expect("a result"));
        assert_eq!(spent.cost(), None, "it would be another attempt's");
        let mut spent = ClaudeUsage::new(false, None);
        spent.result(&serde_json::from_str(result).expect("a result"));
        assert_eq!(spent.cost(), Some(Usd(9_600)));
    }

    #[test]
    fn g9_what_is_no_amount_is_no_amount() {
        for (amount, expected) in [
            (-1.0, Some(Usd(0))),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (1e13, None),
        ] {
            assert_eq!(dollars(amount), expected, "{amount}");
        }
    }
}
