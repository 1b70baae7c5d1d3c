//! `jit uninstall`: exports every issue and removes jit from the repository.
//!
//! The engine removes what jit keeps in the repository. This file also removes the entries about jit from the settings of
//! agent programs in the project. Entries in the user's own settings are only reported, with the command to remove them.
//!
//! What must hold: a settings file that is committed in another worktree is not changed. It is reported as kept.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use jit_agents::hooks::Program;
use jit_agents::hooks::settings::Reach;
use jit_core::model::refusal::Code;
use jit_engine::init::uninstall::{Uninstall, Uninstalled};
use jit_engine::worktree_identity::identity::Need;
use jit_mcp::install::{self, Agent, ConfigEdit as Plan, InstallScope as Scope};
use jit_store::Outcome;

use crate::hooks::agent_settings::Hooked;
use crate::invocation::{Invocation, Output, invalid};
use crate::render::{self, clean_line};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Removes the log and everything else that jit keeps in the git directory, its lines in git's \
    configuration and info/exclude, what it wrote into worktrees and was never committed, and what agents' programs were \
    told of it in this project; what they were told for all that you do is named, with the command to take it back. Every \
    issue is exported first, and in a file beside it what only the trees had about gates. What else is committed stays, and so does anything that would be lost: it is named."
)]
pub struct Flags {
    /// Where to write the issues [default: jit-export-TIME.jsonl in the git directory]
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Remove .jit/ from this worktree although it is committed
    #[arg(long)]
    purge_tree: bool,
    /// Do not ask; without a terminal nobody is asked
    #[arg(long, short)]
    yes: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let cx = call.open(Need::Write)?;
    jit_engine::init::uninstall::may_uninstall(&cx)?;
    // Scripts are not asked: every issue is exported first, and jit refuses to be removed while it is in use.
    if !flags.yes && io::stdin().is_terminal() {
        render::say(&format!(
            "This removes jit from {}. Every issue is exported first. Go on? [y/N]",
            clean_line(&cx.place.control_dir.display().to_string())
        ));
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map_err(invalid)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err(invalid("nothing was removed"));
        }
    }
    let options = Uninstall {
        export: flags.export,
        purge_tree: flags.purge_tree,
    };
    let mut commit = Vec::new();
    let mut done = jit_engine::init::uninstall::uninstall(&cx, &options, &mut |tree, done| {
        for told in told_in(tree.root, Whose::Project, done) {
            let file = told.file().to_owned();
            let tracked = tree.tracks(&file);
            if tracked && !tree.here {
                done.keep(
                    &file,
                    "it is committed in that worktree, and names jit until the change is merged there",
                );
                continue;
            }
            match told.take_back() {
                Ok(()) => {
                    done.removed
                        .push(format!("{} in {}", told.what(), file.display()));
                    if tracked {
                        commit.push(file.display().to_string());
                    }
                }
                Err(refusal) => done.keep(&file, refusal.message),
            }
        }
    })?;
    for told in told_in(&cx.place.start, Whose::User, &mut Uninstalled::default()) {
        let why = format!(
            "{} of yours, for every repository: {}",
            told.what(),
            told.command()
        );
        done.keep(told.file(), why);
    }
    let shown = call.show(&done, |style| {
        let mut text = String::new();
        if call.quiet() {
            return text;
        }
        if let Some(file) = &done.export {
            text.push_str(&format!(
                "{} issues are in {}\n",
                done.issues,
                style.bold(&clean_line(file))
            ));
        }
        if let Some(file) = &done.gates {
            text.push_str(&format!(
                "Definitions and results of gates are in {}\n",
                style.bold(&clean_line(file))
            ));
        }
        for file in &commit {
            text.push_str(&format!("Changed, and to be committed: {}\n", clean_line(file)));
        }
        for one in &done.kept {
            let (path, why) = (clean_line(&one.path), clean_line(&one.why));
            text.push_str(&format!("Kept: {path} ({why})\n"));
        }
        text.push_str(&format!(
            "{} jit is removed from this repository.\n",
            style.good("✓")
        ));
        text
    });
    Ok(shown.warn(done.warnings))
}

#[derive(Clone, Copy)]
enum Whose {
    Project,
    User,
}

/// An entry about jit in the settings of an agent program.
enum Told {
    Hook(Program, Hooked),
    Server(Agent, Scope, PathBuf, PathBuf),
}

impl Told {
    fn file(&self) -> &Path {
        match self {
            Self::Hook(_, hooked) => &hooked.file,
            Self::Server(_, _, _, file) => file,
        }
    }

    fn what(&self) -> &'static str {
        match self {
            Self::Hook(..) => "the agent hook",
            Self::Server(..) => "the MCP server",
        }
    }

    /// Returns the command that removes the entry from the user's own settings.
    fn command(&self) -> String {
        match self {
            Self::Hook(program, _) => format!("jit hooks uninstall --agent {program} --user"),
            Self::Server(agent, ..) => {
                format!("jit mcp install --agent {} --user --uninstall", agent.as_str())
            }
        }
    }

    fn take_back(&self) -> Outcome<()> {
        match self {
            Self::Hook(_, hooked) => hooked.take_out(),
            // The file is read again, because removing a hook may have changed it.
            Self::Server(agent, scope, root, _) => planned(*agent, *scope, root)?.carry_out(),
        }
    }
}

/// Finds the entries about jit in the settings of all agent programs. Files that cannot be read are reported as kept.
fn told_in(root: &Path, whose: Whose, done: &mut Uninstalled) -> Vec<Told> {
    let (reach, scope) = match whose {
        Whose::Project => (Reach::Project, Scope::Project),
        Whose::User => (Reach::User, Scope::User),
    };
    let mut told = Vec::new();
    for program in Program::ALL {
        match Hooked::find(program, reach, root) {
            Ok(Some(hooked)) => told.push(Told::Hook(program, hooked)),
            Ok(None) => {}
            Err(refusal) => done.keep(root, refusal.message),
        }
    }
    for agent in Agent::ALL {
        match planned(agent, scope, root) {
            Ok(plan) if plan.changes_something() => {
                told.push(Told::Server(agent, scope, root.to_owned(), plan.file));
            }
            // An entry with our name that jit did not write is left alone.
            Ok(_) => {}
            Err(refusal) if refusal.code == Code::Exists => {}
            Err(refusal) => done.keep(root, refusal.message),
        }
    }
    told
}

fn planned(agent: Agent, scope: Scope, root: &Path) -> Outcome<Plan> {
    install::plan(agent, scope, Some(root), |name| std::env::var_os(name), false)
}
