//! Would git ignore this path? Asked of what the ignore files say, without git and without a disk.
//!
//! What must hold (F3; proven against `git check-ignore --no-index` in the tests of the engine):
//! - the answer, and the line it comes from, are those of git;
//! - a rule is read once and matched in time linear in the path, whatever the rule is.
//!
//! The first file with a matching line decides: the `.gitignore` nearest to the path, then those of the folders above,
//! then `info/exclude`, then the file of `core.excludesFile`; in each file the last line that matches. A folder that is
//! ignored takes all below with it, and the `.gitignore` in it is not read.
//!
//! Limitations: whether the path is tracked, which git asks first, is not known here. Nested repositories are folders.

use std::collections::BTreeMap;

/// The ignore files of a worktree.
#[derive(Debug, Clone, Default)]
pub struct Ignore {
    excludes_file: Vec<IgnoreRule>,
    info_exclude: Vec<IgnoreRule>,
    /// By folder: `""` is the root, others have no `/` at their end.
    gitignores: BTreeMap<Vec<u8>, Vec<IgnoreRule>>,
    /// `core.ignoreCase`
    any_case: bool,
}

/// Where a rule was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoreSource<'a> {
    /// The `.gitignore` of this folder.
    Gitignore(&'a [u8]),
    InfoExclude,
    ExcludesFile,
}

/// The line that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IgnoreVerdict<'a> {
    pub source: IgnoreSource<'a>,
    /// From 1.
    pub line: usize,
    /// False when the line begins with `!`.
    pub ignored: bool,
}

#[derive(Debug, Clone)]
struct IgnoreRule {
    line: usize,
    negated: bool,
    /// Had a `/` at its end.
    dirs_only: bool,
    /// Compared with the last part of the path, not with all of it.
    name_only: bool,
    /// Nothing matches a rule that is malformed.
    tokens: Option<Vec<Token>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// After a `\`, where git never folds case.
    Escaped(u8),
    Of(Box<Class>),
    /// Any bytes but `/`.
    Star,
    /// Any bytes.
    Any,
    /// `**/`: any bytes and a `/`, or nothing.
    AnyParts,
}

/// Sets of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Class {
    exact: [bool; 256],
    /// When case does not count: git then looks for either case in a range, but for lower case among single members.
    any_case: [bool; 256],
}

impl Class {
    fn new(member: impl Fn(u8) -> bool, in_range: impl Fn(u8) -> bool, negated: bool) -> Self {
        let table = |is: &dyn Fn(u8) -> bool| {
            std::array::from_fn(|at| {
                let byte = u8::try_from(at).unwrap_or(b'/');
                byte != b'/' && is(byte) != negated
            })
        };
        Self {
            exact: table(&|byte| member(byte) || in_range(byte)),
            any_case: table(&|byte| {
                let low = byte.to_ascii_lowercase();
                member(low) || in_range(low) || in_range(low.to_ascii_uppercase())
            }),
        }
    }
}

impl Ignore {
    pub fn new() -> Self {
        Self::default()
    }

    /// Case does not count, as with `core.ignoreCase`.
    #[must_use]
    pub fn any_case(mut self, yes: bool) -> Self {
        self.any_case = yes;
        self
    }

    /// The contents of the file that `core.excludesFile` names.
    #[must_use]
    pub fn excludes_file(mut self, contents: &[u8]) -> Self {
        self.excludes_file = rules(contents);
        self
    }

    /// The contents of `info/exclude` in the git folder.
    #[must_use]
    pub fn info_exclude(mut self, contents: &[u8]) -> Self {
        self.info_exclude = rules(contents);
        self
    }

    /// The contents of the `.gitignore` in `dir`; the root is `""`.
    #[must_use]
    pub fn gitignore(mut self, dir: impl AsRef<[u8]>, contents: &[u8]) -> Self {
        let dir = dir.as_ref();
        let dir = dir.strip_suffix(b"/").unwrap_or(dir);
        self.gitignores.insert(dir.to_vec(), rules(contents));
        self
    }

    /// Whether git would leave the path alone. It is relative to the root, without a `/` at either end.
    pub fn ignores(&self, path: impl AsRef<[u8]>, is_dir: bool) -> bool {
        self.verdict(path.as_ref(), is_dir)
            .is_some_and(|verdict| verdict.ignored)
    }

    /// The line that decides about `path`; `None` when no line says anything.
    pub fn verdict(&self, path: &[u8], is_dir: bool) -> Option<IgnoreVerdict<'_>> {
        let path: Vec<u8> = if self.any_case {
            path.to_ascii_lowercase()
        } else {
            path.to_vec()
        };
        let slashes = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        for (at, _) in slashes {
            let above = self.own_verdict(&path[..at], true);
            if above.is_some_and(|verdict| verdict.ignored) {
                return above;
            }
        }
        self.own_verdict(&path, is_dir)
    }

    /// Without asking about the folders above.
    fn own_verdict(&self, path: &[u8], is_dir: bool) -> Option<IgnoreVerdict<'_>> {
        let folders = path
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, b)| **b == b'/')
            .map(|(at, _)| &path[..at])
            .chain([&b""[..]]);
        for folder in folders {
            if let Some((dir, rules)) = self.gitignore_of(folder) {
                let inside = if folder.is_empty() {
                    path
                } else {
                    &path[folder.len() + 1..]
                };
                if let Some(rule) = self.last(rules, inside, is_dir) {
                    return Some(rule.verdict(IgnoreSource::Gitignore(dir)));
                }
            }
        }
        let general = [
            (IgnoreSource::InfoExclude, &self.info_exclude),
            (IgnoreSource::ExcludesFile, &self.excludes_file),
        ];
        general
            .into_iter()
            .find_map(|(source, rules)| self.last(rules, path, is_dir).map(|rule| rule.verdict(source)))
    }

    fn gitignore_of(&self, folder: &[u8]) -> Option<(&[u8], &[IgnoreRule])> {
        let found = if self.any_case {
            self.gitignores
                .iter()
                .find(|(dir, _)| dir.eq_ignore_ascii_case(folder))
        } else {
            self.gitignores.get_key_value(folder)
        };
        found.map(|(dir, rules)| (dir.as_slice(), rules.as_slice()))
    }

    fn last<'a>(&self, rules: &'a [IgnoreRule], path: &[u8], is_dir: bool) -> Option<&'a IgnoreRule> {
        rules
            .iter()
            .rev()
            .find(|rule| rule.matches(path, is_dir, self.any_case))
    }
}

fn rules(contents: &[u8]) -> Vec<IgnoreRule> {
    let contents = contents.strip_prefix(b"\xef\xbb\xbf").unwrap_or(contents);
    contents
        .split(|b| *b == b'\n')
        .enumerate()
        .filter_map(|(at, line)| IgnoreRule::parse(at + 1, line))
        .collect()
}

impl IgnoreRule {
    fn parse(line: usize, text: &[u8]) -> Option<Self> {
        if text.is_empty() || text[0] == b'#' {
            return None;
        }
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        // A NUL ends the line for git.
        let text = text.split(|b| *b == 0).next().unwrap_or(text);
        let text = without_trailing_spaces(text);
        let (negated, text) = match text.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (dirs_only, text) = match text.strip_suffix(b"/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let name_only = !text.contains(&b'/');
        let text = text.strip_prefix(b"/").unwrap_or(text);
        Some(Self {
            line,
            negated,
            dirs_only,
            name_only,
            tokens: tokens(text, name_only),
        })
    }

    fn verdict<'a>(&self, source: IgnoreSource<'a>) -> IgnoreVerdict<'a> {
        IgnoreVerdict {
            source,
            line: self.line,
            ignored: !self.negated,
        }
    }

    fn matches(&self, path: &[u8], is_dir: bool, any_case: bool) -> bool {
        if self.dirs_only && !is_dir {
            return false;
        }
        let Some(tokens) = &self.tokens else { return false };
        let text = if self.name_only {
            path.rsplit(|b| *b == b'/').next().unwrap_or(path)
        } else {
            path
        };
        !text.is_empty() && matches(tokens, text, any_case)
    }
}

/// Spaces at the end do not count, unless a `\` is before them.
fn without_trailing_spaces(text: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b' ' => at += 1,
            b'\\' => {
                at += 2;
                end = at;
            }
            _ => {
                at += 1;
                end = at;
            }
        }
    }
    // A `\` that is the very last byte escapes the end: git then trims nothing, and there is nothing to trim.
    &text[..end.min(text.len())]
}

/// `None` when no text can match.
fn tokens(text: &[u8], name_only: bool) -> Option<Vec<Token>> {
    let mut out = Vec::new();
    // Git compares the bytes before the first wildcard by themselves and takes what follows for a pattern of its own.
    let wild = text
        .iter()
        .position(|b| matches!(b, b'*' | b'?' | b'[' | b'\\'))
        .unwrap_or(text.len());
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'*' => {
                let begins = at == wild || text[at - 1] == b'/';
                let from = at;
                while text.get(at) == Some(&b'*') {
                    at += 1;
                }
                let rest = &text[at..];
                let ends = rest.is_empty() || rest[0] == b'/' || rest.starts_with(b"\\/");
                if name_only {
                    out.push(Token::Any);
                } else if at - from == 1 || !begins || !ends {
                    out.push(Token::Star);
                } else if rest.first() == Some(&b'/') {
                    at += 1;
                    out.push(Token::AnyParts);
                } else {
                    out.push(Token::Any);
                }
            }
            b'?' => {
                at += 1;
                out.push(Token::Of(Box::new(Class::new(|_| true, |_| true, false))));
            }
            b'[' => {
                let (set, next) = class(text, at)?;
                at = next;
                out.push(Token::Of(set));
            }
            b'\\' => {
                out.push(Token::Escaped(*text.get(at + 1)?));
                at += 2;
            }
            byte => {
                at += 1;
                out.push(Token::Byte(byte));
            }
        }
    }
    Some(out)
}

/// The class that begins at `at`, and where the text goes on.
fn class(text: &[u8], mut at: usize) -> Option<(Box<Class>, usize)> {
    let mut set = [false; 256];
    let mut ranges = [false; 256];
    at += 1;
    let negated = matches!(text.get(at), Some(b'!' | b'^'));
    if negated {
        at += 1;
    }
    // The byte a range would begin with.
    let mut before: Option<u8> = None;
    let mut first = true;
    loop {
        let byte = *text.get(at)?;
        if byte == b']' && !first {
            at += 1;
            break;
        }
        first = false;
        let next = text.get(at + 1);
        match (byte, before) {
            (b'\\', _) => {
                let escaped = *next?;
                set[usize::from(escaped)] = true;
                before = Some(escaped);
                at += 2;
            }
            (b'-', Some(from)) if next.is_some_and(|b| *b != b']') => {
                at += 1;
                let mut to = *text.get(at)?;
                if to == b'\\' {
                    at += 1;
                    to = *text.get(at)?;
                }
                for b in from..=to {
                    ranges[usize::from(b)] = true;
                }
                before = None;
                at += 1;
            }
            (b'[', _) if next == Some(&b':') => {
                let start = at + 2;
                let close = start + text.get(start..)?.iter().position(|b| *b == b']')?;
                if close > start && text[close - 1] == b':' {
                    let is = named(&text[start..close - 1])?;
                    // Of the names only this one has another case to look for.
                    let into = if &text[start..close - 1] == b"upper" {
                        &mut ranges
                    } else {
                        &mut set
                    };
                    for b in (0..=255u8).filter(is) {
                        into[usize::from(b)] = true;
                    }
                    before = None;
                    at = close + 1;
                } else {
                    // Not a name after all.
                    set[usize::from(b'[')] = true;
                    before = Some(b'[');
                    at += 1;
                }
            }
            _ => {
                set[usize::from(byte)] = true;
                before = Some(byte);
                at += 1;
            }
        }
    }
    let class = Class::new(
        |byte| set[usize::from(byte)],
        |byte| ranges[usize::from(byte)],
        negated,
    );
    Some((Box::new(class), at))
}

fn named(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |b| matches!(b, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |b| b.is_ascii_graphic() || *b == b' ',
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |b| matches!(b, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

/// Follows all ways through the tokens at once: `now[n]` is whether the first `n` can have matched what was read.
fn matches(tokens: &[Token], text: &[u8], any_case: bool) -> bool {
    let same = |token: &Token, byte: u8| match token {
        Token::Byte(own) => *own == byte || (any_case && own.eq_ignore_ascii_case(&byte)),
        Token::Escaped(own) => *own == byte,
        Token::Of(class) if any_case => class.any_case[usize::from(byte)],
        Token::Of(class) => class.exact[usize::from(byte)],
        Token::Star => byte != b'/',
        Token::Any | Token::AnyParts => true,
    };
    // Stars may be nothing.
    let skip = |now: &mut [bool]| {
        for (at, token) in tokens.iter().enumerate() {
            if now[at] && matches!(token, Token::Star | Token::Any | Token::AnyParts) {
                now[at + 1] = true;
            }
        }
    };
    let mut now = vec![false; tokens.len() + 1];
    // Inside the parts of a `**/`, where only a `/` leads out.
    let mut inside = vec![false; tokens.len()];
    now[0] = true;
    skip(&mut now);
    for &byte in text {
        let mut next = vec![false; now.len()];
        for (at, token) in tokens.iter().enumerate() {
            if *token == Token::AnyParts {
                inside[at] |= now[at];
                next[at + 1] |= inside[at] && byte == b'/';
            } else if now[at] && same(token, byte) {
                let stays = matches!(token, Token::Star | Token::Any);
                next[if stays { at } else { at + 1 }] = true;
            }
        }
        skip(&mut next);
        now = next;
    }
    now[tokens.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(contents: &str) -> Ignore {
        Ignore::new().gitignore("", contents.as_bytes())
    }

    #[test]
    fn f3_an_ignored_folder_takes_all_below_with_it() {
        let ignore = root("build/\n!build/keep\n").gitignore("build", b"!*\n");
        assert!(ignore.ignores("build/keep", false));
        assert!(ignore.ignores("build", true));
        assert!(!ignore.ignores("build", false));
    }

    #[test]
    fn f3_the_nearest_file_and_the_last_line_decide() {
        let ignore = root("*.log\n!a.log\n")
            .gitignore("sub", b"!*.log\n")
            .info_exclude(b"*.tmp\n")
            .excludes_file(b"!x.tmp\n");
        assert!(ignore.ignores("b.log", false));
        assert!(!ignore.ignores("a.log", false));
        assert!(!ignore.ignores("sub/b.log", false));
        assert!(ignore.ignores("x.tmp", false));
        let verdict = ignore.verdict(b"sub/b.log", false).expect("a line");
        assert_eq!(
            (verdict.source, verdict.line),
            (IgnoreSource::Gitignore(b"sub"), 1)
        );
    }

    #[test]
    fn f3_case_is_folded_when_the_repository_says_so() {
        let folded = root("Build/*.O\n[A-C]x\n").any_case(true);
        for path in ["build/a.o", "BUILD/A.O", "bx", "Bx"] {
            assert!(folded.ignores(path, false), "{path}");
        }
        assert!(!root("Build/*.O\n").ignores("build/a.o", false));
    }
}
