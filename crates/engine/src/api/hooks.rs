//! Requests and replies about hooks: git and agents ask jit before they act, and commits are verified afterwards.

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, replies, requests};
use crate::api::verify::Verified;

requests! {
    /// Hooks of git and of agents.
    pub enum HookRequest {
        /// Verifies that the commits of a range were made under the leases that they name.
        Verify { range: String } => reads(Nothing),
    }
}

replies! {
    pub enum HookReply {
        Verified(Verified),
    }
}
