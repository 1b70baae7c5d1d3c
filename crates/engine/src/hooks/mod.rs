//! Hooks: git and agent programs call jit here before they act.

pub mod agent;
pub mod git;

use std::path::Path;

use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;

use crate::api::Answer;
use crate::api::Options;
use crate::api::facts::{TreeScope, reads};
use crate::api::hooks::{AgentAnswer, HookRan, HookReply, HookRequest};
use crate::context::{Surroundings, not_initialized};
use crate::hooks::agent::settings::HookEdit;
use crate::worktree_identity::identity::Need;

/// Carries out a request about hooks.
pub(crate) fn handle(options: &Options, request: HookRequest) -> Outcome<Answer> {
    let reply = match request {
        HookRequest::Verify { range } => return verify(options, &range),
        HookRequest::List => {
            let place = Surroundings::find(options)?.place;
            HookReply::Survey(git::install::survey(&place, place.is_bare())?)
        }
        HookRequest::Install { server, dry_run } => install(options, server, dry_run)?,
        HookRequest::Uninstall { dry_run } => {
            let found = Surroundings::find(options)?;
            if !dry_run && let Some(agent) = found.asking_agent() {
                let message = format!("{agent} is an agent, and removing hooks is not for agents");
                let refusal = Refusal::new(Code::NotAllowed, message);
                return Err(Box::new(refusal.help("ask a person to run: jit hooks uninstall")));
            }
            HookReply::Removed(git::install::uninstall(&found.place, dry_run)?)
        }
        HookRequest::Run { hook, args, input } => {
            let args: Vec<_> = args.iter().map(|arg| arg.as_os_str().to_owned()).collect();
            let warnings = git::run::run(options, &hook, &args, input.as_bytes())?;
            let ran = HookReply::Ran(HookRan {
                ok: true,
                warnings: warnings.clone(),
            });
            return Ok(Answer {
                reply: ran.into(),
                warnings,
            });
        }
        HookRequest::Permission(ask) => return agent::permission::answer(options, &ask),
        HookRequest::MergeFile(merge) => HookReply::Merged(git::merge_driver::merge_file(options, &merge)?),
        HookRequest::AgentEvent {
            program,
            event,
            input,
        } => HookReply::Answer(AgentAnswer {
            text: agent::run(options, program, event, input.as_bytes()),
        }),
        HookRequest::AgentHook {
            program,
            user,
            register,
            write,
            seen,
        } => {
            let edit = HookEdit {
                program,
                user,
                register,
                write,
                seen,
            };
            HookReply::AgentHook(agent::settings::change(options, &edit)?)
        }
    };
    Ok(Answer {
        reply: reply.into(),
        warnings: Vec::new(),
    })
}

/// Installs the git hooks. Without `server`, refuses a bare repository and a repository without jit.
fn install(options: &Options, server: bool, dry_run: bool) -> Outcome<HookReply> {
    let place = Surroundings::find(options)?.place;
    if place.has_git() && place.is_bare() && !server {
        let message = "this is a bare repository: nobody commits here, but somebody may push";
        return Err(Box::new(
            Refusal::new(Code::Invalid, message).help("jit hooks install --server"),
        ));
    }
    let set_up = place.control_dir.is_dir() || place.local_jit.as_deref().is_some_and(Path::is_dir);
    if place.has_git() && !server && !set_up {
        let mut refusal = not_initialized(&place);
        refusal.help = vec!["jit init --hooks".into()];
        return Err(refusal);
    }
    git::install(&place, server, dry_run).map(HookReply::Installed)
}

fn verify(options: &Options, range: &str) -> Outcome<Answer> {
    let found = Surroundings::find(options)?;
    let place = found.place.clone();
    let (verified, warnings) = match crate::opening::within(found, options, Need::Read) {
        Ok(cx) => {
            // After a pull, the log learns first of the issues that came with the commits.
            let (mut warnings, _) = crate::issues::sync::sync_tree(&cx, &reads(TreeScope::IfMoved), || ());
            let verified = git::verify::range(&place, Some(&cx), range)?;
            warnings.extend(cx.warnings);
            (verified, warnings)
        }
        // Without jit there is no log, so every commit is reported as unknown.
        Err(refusal) if refusal.code == Code::NotInitialized => {
            (git::verify::range(&place, None, range)?, Vec::new())
        }
        Err(refusal) => return Err(refusal),
    };
    Ok(Answer {
        reply: HookReply::Verified(verified).into(),
        warnings,
    })
}
