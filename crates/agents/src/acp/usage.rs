//! What an attempt has used, from what an agent says of its turns and of its session (G9).
//!
//! What must hold: nothing is less than nothing, nothing is taken back, nothing overflows; what a session had cost before it was
//! gone on with is not this attempt's.

use jit_core::unit::{Tokens, Usd};
use serde_json::Value;

use super::wire::{Cost, Prompted, TurnUsage};

#[derive(Debug, Default)]
pub struct AcpUsage {
    resumed: bool,
    /// What the session had cost when this attempt began, if that is known.
    before: Option<Usd>,
    cost: Option<Usd>,
    /// Of the turns that have ended.
    tokens: Tokens,
    /// The largest that the conversation was in this turn: at least so much went through the model.
    context: u64,
    turns: u64,
    /// The model is at it; what comes next is not a new turn of it.
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

    /// Before the first word of this attempt was said.
    pub fn began(&mut self, cost: &Cost) {
        if let Some(usd) = dollars(cost) {
            self.before = Some(usd);
        }
    }

    /// A session's cost is all that it ever cost.
    pub fn cost(&mut self, cost: &Cost) {
        let Some(all) = dollars(cost) else { return };
        let before = match (self.resumed, self.before) {
            (false, _) => Usd(0),
            // It has begun to count anew.
            (true, Some(before)) if all < before => {
                self.before = Some(Usd(0));
                Usd(0)
            }
            (true, Some(before)) => before,
            // Another attempt's may be in it.
            (true, None) => return,
        };
        let own = Usd(all.0.saturating_sub(before.0));
        self.cost = Some(self.cost.map_or(own, |known| known.max(own)));
    }

    pub fn context(&mut self, used: u64) {
        self.context = self.context.max(used);
    }

    /// The model said something or called a tool.
    pub fn speaks(&mut self) {
        if !self.speaking {
            self.speaking = true;
            self.turns += 1;
        }
    }

    /// A tool came back: the model is asked again.
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
        // It was more than it says, if the conversation was.
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

/// Nothing that is no amount of dollars.
fn dollars(cost: &Cost) -> Option<Usd> {
    let fine = cost.amount.is_finite() && cost.amount < 1e12 && cost.currency.eq_ignore_ascii_case("usd");
    fine.then(|| Usd((cost.amount.max(0.0) * 1e6).round() as u64))
}

/// How Gemini CLI says it.
fn quota(meta: &Value) -> Option<TurnUsage> {
    let count = meta.get("quota")?.get("token_count")?;
    let number = |name: &str| count.get(name).and_then(Value::as_u64).unwrap_or_default();
    Some(TurnUsage {
        input_tokens: number("input_tokens"),
        output_tokens: number("output_tokens"),
        ..TurnUsage::default()
    })
}
