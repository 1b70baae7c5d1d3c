//! All commands: the table of nouns and verbs, and the parser that is built from it.
//!
//! Only the commands and options that were typed are built, because clap's tree of all commands takes longer to build
//! than a claim takes.
//!
//! What must hold: if the shortened grammar parses the words, the whole grammar parses them with the same meaning.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::grammar::{Shown, Verb, verb};
use crate::invocation::GLOBAL_ARGS;
use crate::render;
use crate::{
    block, blocked, changelog, claim, completions, config, conflicts, demo, dep, doctor, events, finish,
    gate, graph, handoff, heartbeat, hooks, init, issue, lock, log, man, mcp, merge_driver, migrate, notify,
    pivot, progress, ready, recover, rescue, run, schema, session, shim, start, status, trust, unblock,
    uninstall, validate, verify, whoami, workflow, worktree,
};

enum Entry {
    Noun(&'static str, &'static str, Shown, &'static [Verb]),
    Verb(Verb),
}

const TABLE: &[Entry] = &[
    Entry::Verb(verb!("init", "Set up jit in this repository", init)),
    Entry::Noun("issue", "Work to be done", Shown::Everyday, issue::VERBS),
    Entry::Verb(verb!("status", "Who does what, and what needs you", status)),
    Entry::Verb(verb!("ready", "What can be taken now, best first", ready)),
    Entry::Verb(verb!(
        "blocked",
        "What cannot go on, and why",
        blocked,
        Shown::WithAll
    )),
    Entry::Noun(
        "claim",
        "Take, keep and give back issues",
        Shown::Everyday,
        claim::VERBS,
    ),
    Entry::Noun("dep", "What waits for what", Shown::Everyday, dep::VERBS),
    Entry::Noun(
        "gate",
        "What an issue must pass to be done",
        Shown::Everyday,
        gate::VERBS,
    ),
    Entry::Verb(verb!(
        "graph",
        "What waits for what, as text or as a picture",
        graph,
        Shown::WithAll
    )),
    Entry::Verb(verb!("progress", "How far everything has come", progress)),
    Entry::Verb(verb!(
        "block",
        "Say why an issue cannot go on",
        block,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "unblock",
        "Nothing stands in its way any more",
        unblock,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "changelog",
        "What was worked on",
        changelog,
        Shown::WithAll
    )),
    Entry::Noun(
        "pivot",
        "Its scope is being revised",
        Shown::WithAll,
        pivot::VERBS,
    ),
    Entry::Verb(verb!(
        "trust",
        "Approve commands that came with the repository",
        trust,
        Shown::WithAll
    )),
    Entry::Verb(verb!("start", "Claim an issue and get a worktree for it", start)),
    Entry::Verb(verb!(
        "run",
        "Agents for a plan, or for everything that is ready",
        run
    )),
    Entry::Verb(verb!(
        "handoff",
        "Let another agent go on, and tell it what there is",
        handoff,
        Shown::WithAll
    )),
    Entry::Noun(
        "workflow",
        "Plans that are being worked off",
        Shown::WithAll,
        workflow::VERBS,
    ),
    Entry::Noun(
        "notify",
        "Who is told of what happens",
        Shown::WithAll,
        notify::VERBS,
    ),
    Entry::Verb(verb!(
        "log",
        "What landed when, and from whom",
        log,
        Shown::WithAll
    )),
    Entry::Noun("lock", "Locks on files", Shown::Everyday, lock::VERBS),
    Entry::Noun("session", "Agents at work", Shown::WithAll, session::VERBS),
    Entry::Noun("worktree", "Where work happens", Shown::Everyday, worktree::VERBS),
    Entry::Noun(
        "rescue",
        "Work of worktrees that are gone",
        Shown::WithAll,
        rescue::VERBS,
    ),
    Entry::Verb(verb!(
        "finish",
        "Land the work of a unit, and mark its issue as done",
        finish
    )),
    Entry::Verb(verb!(
        "conflicts",
        "Which worktrees would be in each other's way",
        conflicts,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "whoami",
        "Which agent jit takes you for, and why",
        whoami,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "events",
        "Everything that happened, in order",
        events,
        Shown::WithAll
    )),
    Entry::Verb(verb!("doctor", "Check everything and say how to mend it", doctor)),
    Entry::Verb(verb!("demo", "The whole story on a scratch repository", demo)),
    Entry::Noun(
        "config",
        "Settings and where they come from",
        Shown::Everyday,
        config::VERBS,
    ),
    Entry::Noun(
        "hooks",
        "Where git and agents ask jit before they act",
        Shown::WithAll,
        hooks::VERBS,
    ),
    Entry::Verb(verb!(
        "mcp",
        "Serve an agent by the Model Context Protocol",
        mcp,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "heartbeat",
        "Sign of life that also keeps leases alive",
        heartbeat,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "verify",
        "Were commits made under the leases they name?",
        verify,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "validate",
        "Compare every file with the log",
        validate,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "schema",
        "The formats of files that other programs read",
        schema,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "migrate",
        "Bring a registry of an older version to the newest",
        migrate,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "recover",
        "Save what can be saved from a damaged log",
        recover,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "uninstall",
        "Remove jit from this repository, after an export",
        uninstall,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "completions",
        "A script that completes commands in a shell",
        completions,
        Shown::WithAll
    )),
    Entry::Verb(verb!("man", "Manual pages", man, Shown::WithAll)),
    Entry::Verb(verb!(
        "merge-driver",
        "Called by git to merge issue files",
        merge_driver,
        Shown::Never
    )),
    Entry::Verb(verb!(
        "shim",
        "Called by jit to own one running agent",
        shim,
        Shown::Never
    )),
];

/// Returns a hint for a value that looks like an option. It applies if joining an option and the next word with `=` makes
/// the command line valid.
pub fn as_value(args: &[OsString]) -> Option<String> {
    (1..args.len()).find_map(|n| {
        let (option, value) = (args[n - 1].to_str()?, args[n].to_str()?);
        if !option.starts_with("--") || option.contains('=') || !value.starts_with('-') || value == "--" {
            return None;
        }
        let joined = format!("{option}={value}");
        let mut words = args.to_vec();
        words.splice(n - 1..=n, [OsString::from(&joined)]);
        let parsed = tree(Wanted::All).try_get_matches_from(words);
        parsed.is_ok().then(|| {
            let shown = jit_os::shell::shell_word(&joined);
            format!("to pass {value:?} as the value of {option}, use {shown}")
        })
    })
}

/// Returns the whole grammar, for completions and manual pages. It hides only the commands that programs call.
pub fn documented() -> Command {
    let mut root = tree(Wanted::All);
    for entry in TABLE {
        let (name, shown) = match entry {
            Entry::Verb(verb) => (verb.name, verb.shown),
            Entry::Noun(name, _, shown, _) => (*name, *shown),
        };
        root = root.mut_subcommand(name, |command| command.hide(shown == Shown::Never));
    }
    root
}

/// The part of the grammar to build. Building all of it takes longer than a claim takes.
#[derive(Clone, Copy)]
pub enum Wanted<'a> {
    All,
    /// Only the commands and options that these words could name. If this part parses the words, the whole grammar parses
    /// them with the same meaning. Help, mistakes and the suggestions after a mistake need the whole grammar.
    Among(&'a [OsString]),
}

impl Wanted<'_> {
    fn command(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Among(words) => words.iter().any(|word| word == name),
        }
    }

    /// Tells whether to build `--help` and `--version`. Each command has its own copy, and few calls use them.
    fn help(self) -> bool {
        self.option("help") || self.option("version")
    }

    fn option(self, name: &str) -> bool {
        let Self::Among(words) = self else { return true };
        // Several short options may share one word.
        let short = match name {
            "dir" => b'C',
            "quiet" => b'q',
            "help" => b'h',
            "version" => b'V',
            _ => 0,
        };
        words
            .iter()
            .map(|word| word.as_encoded_bytes())
            .any(|word| match word {
                [b'-', b'-', long @ ..] => long.starts_with(name.as_bytes()),
                [b'-', letters @ ..] => letters.contains(&short),
                _ => false,
            })
    }
}

pub fn tree(wanted: Wanted<'_>) -> Command {
    let help = wanted.help();
    let mut root = Command::new("jit")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Many agents, one repository: work is never lost and never given to two")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_flag(!help)
        .disable_version_flag(!help)
        .disable_help_subcommand(true);
    if wanted.option("all") {
        let all = Arg::new("all").long("all").action(ArgAction::SetTrue);
        root = root.arg(all.help("With --help: show every command"));
    }
    root = with_global_args(root.next_help_heading("Everywhere"), wanted);
    let name_of = |entry: &Entry| match entry {
        Entry::Verb(verb) => verb.name,
        Entry::Noun(name, ..) => name,
    };
    for entry in TABLE.iter().filter(|entry| wanted.command(name_of(entry))) {
        root = root.subcommand(match entry {
            Entry::Verb(verb) => verb_command(verb, wanted),
            Entry::Noun(name, about, shown, verbs) => {
                let mut noun = Command::new(*name)
                    .about(*about)
                    .hide(*shown != Shown::Everyday)
                    .subcommand_required(true)
                    .arg_required_else_help(true)
                    .disable_help_flag(!help)
                    .disable_help_subcommand(true);
                for verb in verbs.iter().filter(|verb| wanted.command(verb.name)) {
                    noun = noun.subcommand(verb_command(verb, wanted));
                }
                noun
            }
        });
    }
    root
}

fn verb_command(verb: &Verb, wanted: Wanted<'_>) -> Command {
    let command = Command::new(verb.name)
        .about(verb.about)
        .disable_help_flag(!wanted.help())
        .hide(verb.shown != Shown::Everyday)
        .defer(verb.flags);
    match wanted {
        Wanted::All => command,
        Wanted::Among(_) => with_global_args(command, wanted),
    }
}

/// Adds the global options. In the whole grammar clap passes them on to every subcommand, which takes long. The shortened
/// grammar has them only where they are usually typed: at the beginning and at the end.
fn with_global_args(mut command: Command, wanted: Wanted<'_>) -> Command {
    let all = matches!(wanted, Wanted::All);
    for (name, build) in GLOBAL_ARGS.iter().filter(|(name, _)| wanted.option(name)) {
        command = command.arg(build(Arg::new(*name)).global(all));
    }
    command
}

pub fn all_commands() -> String {
    let mut rows = Vec::new();
    for entry in TABLE {
        match entry {
            Entry::Verb(verb) if verb.shown != Shown::Never => {
                rows.push(vec![format!("  jit {}", verb.name), verb.about.to_owned()]);
            }
            Entry::Verb(_) => {}
            Entry::Noun(noun, _, _, verbs) => {
                for verb in *verbs {
                    rows.push(vec![format!("  jit {noun} {}", verb.name), verb.about.to_owned()]);
                }
            }
        }
    }
    format!("Every command (each has --help):\n\n{}", render::table(&rows))
}

pub fn find(matches: &ArgMatches) -> Option<(&'static Verb, &ArgMatches)> {
    let (name, below) = matches.subcommand()?;
    TABLE.iter().find_map(|entry| match entry {
        Entry::Verb(verb) if verb.name == name => Some((verb, below)),
        Entry::Noun(noun, _, _, verbs) if *noun == name => {
            let (name, below) = below.subcommand()?;
            verbs
                .iter()
                .find(|verb| verb.name == name)
                .map(|verb| (verb, below))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invocation::GlobalArgs;

    #[test]
    fn i1_the_shortened_grammar_means_what_the_whole_one_means() {
        for line in [
            "jit claim acquire X",
            "jit --json claim acquire X --agent-id agent:a",
            "jit -C a -C b claim release X -C c --quiet",
            "jit --agent-id agent:a claim acquire X --agent-id agent:b --fields a,b --fields c",
            "jit -qC a whoami --color never --lock-timeout 5s",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let meant = |wanted| {
                let matches = tree(wanted).try_get_matches_from(&words).expect(line);
                format!("{:?}", GlobalArgs::of(&matches))
            };
            assert_eq!(meant(Wanted::Among(&words)), meant(Wanted::All), "{line}");
        }
    }

    #[test]
    fn i1_the_tree_of_commands_is_sound() {
        let mut all = tree(Wanted::All);
        all.build();
        all.debug_assert();
    }
}
