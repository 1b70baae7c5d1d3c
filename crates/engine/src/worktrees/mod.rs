//! Worktrees of units: created and retried (`service`, `provisioning`), finished (`finish`), removed (`cleanup`),
//! checked (`orphans`, `half_made`), and rescued (`rescue`, `rescue_commands`).
//!
//! What must hold: a removal first keeps all work that is not on the target (see `rescue`).

pub mod cleanup;
pub mod finish;
pub(crate) mod half_made;
pub mod orphans;
pub mod provisioning;
pub mod removed_worktree;
pub mod rescue;
pub mod rescue_commands;
pub mod service;

use crate::api::Answer;
use crate::api::units::UnitRequest;
use crate::context::Context;
use jit_store::Outcome;

/// Carries out a request about units.
pub(crate) fn handle(cx: &Context, request: UnitRequest) -> Outcome<Answer> {
    match request {
        UnitRequest::Create(create) => service::create_unit(cx, &create),
        UnitRequest::Beginning { base } => service::preview_beginning(cx, base.as_deref()),
        UnitRequest::Status { unit, all } => service::unit_status(cx, unit.as_deref(), all),
        UnitRequest::Settle { unit, all } => service::settle_units(cx, unit.as_deref(), all),
        UnitRequest::Env { unit } => crate::units::service::unit_env(cx, unit.as_deref()),
        UnitRequest::Diff { unit } => service::unit_diff(cx, unit.as_deref()),
        UnitRequest::Finish { unit, pr: false } => finish::finish_unit(cx, unit.as_deref()),
        UnitRequest::Finish { unit, pr: true } => finish::propose_unit(cx, unit.as_deref()),
        UnitRequest::Retry { unit } => service::retry_by_hand(cx, unit.as_deref()),
        UnitRequest::Prune { settle } => orphans::prune_units(cx, settle),
    }
}
