//! Parses a shell command line far enough to see which programs it runs, with which words, and which files it writes.
//!
//! What must hold:
//! - quotes, escapes, comments, here-documents, redirections, pipes, lists, subshells and substitutions are recognized
//!   as in a POSIX shell, and in bash where agents use it; commands inside a substitution are found too;
//! - a word that depends on more than its own text (variables, substitutions, brace lists) is marked: [`Word::known`] is
//!   false;
//! - a line that cannot be parsed is an error, never a guess. Parsing always ends, within fixed bounds of bytes, words
//!   and nesting.
//!
//! Limitations: keywords (`if`, `do`, `{`) become words of commands, and callers skip them. Aliases and functions are
//! not followed. `case` patterns look like commands that run nothing. A substitution inside `$((…))` is not looked into.

mod reader;
#[cfg(test)]
mod tests;

/// Maximum nesting depth. Real command lines are far less deep.
const DEEPEST: usize = 40;
/// Maximum bytes of a command line. Linux starts no shell with a longer one.
pub const LONGEST: usize = 128 << 10;
/// Maximum number of words of a command line.
pub const MOST_WORDS: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// Without quotes. Unknown parts are written as in the command line.
    pub text: String,
    /// Whether the text is the whole word.
    pub known: bool,
}

impl Word {
    pub fn plain(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            known: true,
        }
    }

    /// A word that is known only as it was written.
    pub fn unknown(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            known: false,
        }
    }

    /// A part of this word; known only if the whole word is.
    pub fn part(&self, text: &str) -> Self {
        Self {
            text: text.to_owned(),
            known: self.known,
        }
    }
}

/// One program with its words: a "simple command" in the shell's grammar.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Simple {
    pub words: Vec<Word>,
    /// Files that its output is redirected to.
    pub writes: Vec<Word>,
    /// Whether its standard input may itself be commands: a pipe or a here-document.
    pub fed: bool,
    /// That input, if it is part of the command line.
    pub input: Option<Word>,
    /// The number of the here-document that it comes from.
    document: Option<usize>,
}

/// A part of a command line, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Run(Simple),
    /// A directory change between this and the matching [`Item::Leave`] has no effect outside.
    Enter,
    Leave,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("a quote or bracket is never closed")]
    Open,
    #[error("it is nested too deeply")]
    Deep,
    #[error("it is longer than {} KiB", LONGEST >> 10)]
    Long,
    #[error("it has more than {MOST_WORDS} words")]
    Words,
}

pub fn read(text: &str) -> Result<Vec<Item>, Unreadable> {
    match text.len() > LONGEST {
        true => Err(Unreadable::Long),
        false => reader::read(text),
    }
}
