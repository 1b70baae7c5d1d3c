//! Decisions about accounts of agents: park and unpark.

use crate::decide::command::{CommandReply, Context};
use crate::decide::draft::{Decision, Draft};
use crate::log::event::Event;
use crate::log::state;
use crate::log::stop::Stop;
use crate::model::account::{AccountAction, AccountId, Hit, after};
use crate::model::refusal::{Code, Refusal};

/// Parks an account.
pub fn park(draft: &mut Draft<'_>, hit: &Hit, cx: &Context) -> Result<Decision, Stop> {
    let before = state::account(draft.state(), &hit.account)?;
    let account = after(before.as_ref(), hit, cx.now.wall);
    // An agent that waits by itself says so again and again.
    if let Some(before) = &before
        && hit.waits
        && before.unit == account.unit
        && before.attempt == account.attempt
        && before.parked(cx.now.wall).is_some()
        && before.until == account.until
    {
        return Ok(Decision::Already(CommandReply::Account(Box::new(before.clone()))));
    }
    draft.emit(Event::Account {
        did: AccountAction::Parked,
        account: Box::new(account),
    })?;
    Ok(Decision::Done)
}

/// A person knows better: agents may be started on it again.
pub fn unpark(draft: &mut Draft<'_>, id: &AccountId, cx: &Context) -> Result<Decision, Stop> {
    let Some(mut account) = state::account(draft.state(), id)? else {
        return Err(
            Refusal::new(Code::NotFound, format!("the account {id} was never parked"))
                .help("jit status")
                .into(),
        );
    };
    if account.parked(cx.now.wall).is_none() && account.level == 0 {
        return Ok(Decision::Already(CommandReply::Account(Box::new(account))));
    }
    account.until = None;
    account.level = 0;
    account.lifted_at = Some(cx.now.wall);
    draft.emit(Event::Account {
        did: AccountAction::Unparked,
        account: Box::new(account),
    })?;
    Ok(Decision::Done)
}
