//! Accounts on which agents are started. A refused account is parked: no agent is started on it for a while (G13).

use crate::api::attempts::AttemptReply;
use jit_core::decide::command::{Command, CommandReply as Decided};
use jit_core::log::state;
use jit_core::model::account::{self, AccountId, Hit};
use jit_core::model::ids::UnitId;
use jit_core::model::plan::Settings;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::time::Wall;
use jit_store::Outcome;

use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::refusals::refuse;
use crate::write_path::WriteOptions;

/// Returns the account for a new agent. Refuses a parked account unless `force` is set.
pub fn require_open_account(
    cx: &Context,
    run: &Settings,
    force: bool,
    unit: Option<&UnitId>,
) -> Outcome<Option<AccountId>> {
    let Some(id) = AccountId::of(&run.over(&crate::attempts::dispatch::run_settings(cx))) else {
        return Ok(None);
    };
    let view = crate::write_path::view(cx)?;
    let known = state::account(&*view.table, &id).map_err(|e| refuse(Code::Io, e))?;
    let now = view.now.wall;
    if let (false, Some(known)) = (force, known)
        && let Some(until) = known.parked(now)
    {
        let help = match unit {
            Some(unit) => format!("jit worktree dispatch {unit} --force"),
            None => "the same again with --force".to_owned(),
        };
        return Err(Box::new(account::refusal(&known, until, now, help)));
    }
    Ok(Some(id))
}

/// Parks the account of a running agent that was refused and waits by itself. No other agent is started on it
/// meanwhile.
pub fn park_while_it_waits(cx: &Context, id: &UnitId, attempt: u32, until: Wall, why: &str) -> Outcome<()> {
    let unit = crate::units::service::load_unit(cx, id)?;
    let (Some(account), true) = (unit.account, unit.attempt == attempt) else {
        return Ok(());
    };
    // The refusal is recorded even if the wait is over by now.
    let soon = cx.clock.wall().plus_secs(1);
    let command = Command::ParkAccount(Box::new(Hit {
        account,
        until: Some(until.max(soon)),
        why: why.to_owned(),
        unit: Some(unit.id),
        attempt,
        backoff_ms: park_ms(cx),
        waits: true,
    }));
    crate::write_path::transact_as(cx, None, &command, WriteOptions::default()).map(drop)
}

/// Unparks an account: agents may be started on it again.
pub(crate) fn unpark(cx: &Context, account: AccountId) -> Outcome<Answer> {
    if let Some(agent) = crate::context::calling_agent::asking_agent(cx) {
        let message = format!("{agent} is an agent, and whether {account} is used again is up to a person");
        return Err(Box::new(
            Refusal::new(Code::NotAllowed, message)
                .help(format!("ask a person to run: jit worktree unpark {account}")),
        ));
    }
    let done = crate::write_path::transact(cx, &Command::UnparkAccount { account })?;
    match done.reply {
        Decided::Account(account) => Ok(crate::context::plain(
            cx,
            Reply::Attempts(AttemptReply::Account(account)),
        )),
        _ => Err(Box::new(Refusal::bug("an account in the reply of the log"))),
    }
}

/// Returns the first parking time of an account, for a refusal that does not say how long it lasts.
pub(crate) fn park_ms(cx: &Context) -> u64 {
    cx.config.dispatching().park_secs.saturating_mul(1000)
}
