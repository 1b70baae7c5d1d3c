//! The two reasons why a decision wrote nothing: it refused, or the state could not be read.

use crate::log::table::Unreadable;
use crate::model::refusal::Refusal;

/// Why a decision did not come about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    Refused(Box<Refusal>),
    Unreadable(Unreadable),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl From<Unreadable> for Stop {
    fn from(trouble: Unreadable) -> Self {
        Self::Unreadable(trouble)
    }
}
