//! Accounts of agents, as far as starting agents goes: one that was refused is left alone for a while (G13).

use jit_core::account::{self, AccountId, Hit};
use jit_core::command::{Command, Reply as Decided};
use jit_core::ids::UnitId;
use jit_core::plan::Settings;
use jit_core::refusal::{Code, Refusal};
use jit_core::state;
use jit_core::time::Wall;
use jit_store::Outcome;

use super::{App, Kept};
use crate::refusals::refuse;
use crate::request::{Answer, Reply};

impl App {
    /// The account that an agent would be started on. Refused while it is parked, unless somebody insists.
    pub fn require_open_account(
        &self,
        run: &Settings,
        force: bool,
        unit: Option<&UnitId>,
    ) -> Outcome<Option<AccountId>> {
        let Some(id) = AccountId::of(&run.over(&self.run_settings())) else {
            return Ok(None);
        };
        let view = self.view()?;
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

    /// A running agent was refused and waits by itself: meanwhile nobody else is started on its account.
    pub fn park_while_it_waits(&self, id: &UnitId, attempt: u32, until: Wall, why: &str) -> Outcome<()> {
        let unit = self.load_unit(id)?;
        let (Some(account), true) = (unit.account, unit.attempt == attempt) else {
            return Ok(());
        };
        // It was refused, though the wait may be over by now.
        let soon = Wall::from_ms(jit_os::clock::wall_ms()).plus_secs(1);
        let command = Command::ParkAccount(Box::new(Hit {
            account,
            until: Some(until.max(soon)),
            why: why.to_owned(),
            unit: Some(unit.id),
            attempt,
            backoff_ms: self.park_ms(),
            waits: true,
        }));
        self.transact_as(None, &command, Kept::default()).map(drop)
    }

    /// Agents may be started on an account again.
    pub(super) fn unpark(&self, account: AccountId) -> Outcome<Answer> {
        if let Some(agent) = self.asking_agent() {
            let message =
                format!("{agent} is an agent, and whether {account} is used again is up to a person");
            return Err(Box::new(
                Refusal::new(Code::NotAllowed, message)
                    .help(format!("ask a person to run: jit worktree unpark {account}")),
            ));
        }
        let done = self.transact(&Command::UnparkAccount { account })?;
        match done.reply {
            Decided::Account(account) => Ok(self.plain(Reply::Account(account))),
            _ => Err(refuse(Code::Io, "the log has no answer to that")),
        }
    }

    /// How long an account is left alone at first, where it is not said how long.
    pub(super) fn park_ms(&self) -> u64 {
        self.config.dispatching().park_secs.saturating_mul(1000)
    }
}
