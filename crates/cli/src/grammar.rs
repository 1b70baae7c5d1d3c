//! The grammar of one command: its name, its flags, and the function that runs it.

use clap::{ArgMatches, Command};
use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

/// A command: its name, its one-line description, its flags, and the function that runs it.
pub struct Verb {
    pub name: &'static str,
    pub about: &'static str,
    pub flags: fn(Command) -> Command,
    pub run: fn(&ArgMatches, &Invocation) -> Outcome<Output>,
    /// Tells which help lists the command: `jit --help`, only `jit --help --all`, or none.
    pub shown: Shown,
}

#[derive(PartialEq, Eq, Clone, Copy)]
pub enum Shown {
    Everyday,
    WithAll,
    Never,
}

/// Builds a `Verb` from a module that has `Flags` and `run`: `verb!("acquire", "about", acquire)`.
macro_rules! verb {
    ($name:literal, $about:literal, $module:ident) => {
        verb!($name, $about, $module, $crate::grammar::Shown::Everyday)
    };
    ($name:literal, $about:literal, $module:ident, $shown:expr) => {
        $crate::grammar::Verb {
            name: $name,
            about: $about,
            flags: <$module::Flags as clap::Args>::augment_args,
            run: |matches, call| {
                let flags = <$module::Flags as clap::FromArgMatches>::from_arg_matches(matches)
                    .map_err(|e| $crate::grammar::usage(&e))?;
                $module::run(flags, call)
            },
            shown: $shown,
        }
    };
}
pub(crate) use verb;

/// Turns an error of clap into a refusal.
pub fn usage(e: &clap::Error) -> Box<Refusal> {
    let text = e.render().to_string();
    let mut lines = text.lines();
    let message = lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned();
    let rest: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut message = message;
    let mut help = Vec::new();
    for line in rest {
        if let Some(usage) = line.strip_prefix("Usage: ") {
            help.push(usage.to_owned());
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            help.push(tip.to_owned());
        } else if !line.starts_with("For more information") {
            message.push(' ');
            message.push_str(line);
        }
    }
    let mut refusal = Refusal::new(Code::Usage, message);
    refusal.help = help;
    Box::new(refusal)
}
