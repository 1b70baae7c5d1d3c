//! Reads the few git settings that decide where things are, without starting git.
//!
//! Format: git's own configuration syntax (sections, subsections, quoting, escapes, continued lines, comments).
//! Understood: `core.bare`, `core.worktree`, `core.sharedRepository`, `core.ignoreCase`, `core.excludesFile`,
//! `extensions.worktreeConfig`, `jit.defaultBranch`. Names are compared
//! without regard to case; the last value wins.
//! Invariant: a file git would refuse is refused here too, with its line; nothing is guessed from a damaged file.
//! Limitations: `include.path` and `includeIf` are ignored, as is everything outside the repository's own files.
//! Git itself does not follow includes for the first two keys when it looks for the repository either.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// `core.sharedRepository`: the users that may write to the repository besides its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shared {
    /// As the umask says.
    #[default]
    Umask,
    Group,
    Everybody,
    /// An explicit file mode such as 0660.
    Mode(u32),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepoConfig {
    pub bare: Option<bool>,
    pub worktree: Option<OsString>,
    pub shared: Shared,
    pub worktree_config: bool,
    /// `core.ignoreCase`: names that differ in case only are one file.
    pub ignore_case: bool,
    pub excludes_file: Option<OsString>,
    /// `jit.defaultBranch`: recorded by `jit init` if nothing else names the default branch.
    pub default_branch: Option<OsString>,
}

/// A syntax error in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BadConfig {
    pub line: usize,
    pub why: String,
}

impl RepoConfig {
    /// Reads `text` over the present values, so that a later file wins.
    pub fn read(&mut self, text: &[u8]) -> Result<(), BadConfig> {
        settings(text).try_for_each(|setting| self.take(setting?))
    }

    fn take(&mut self, setting: Setting) -> Result<(), BadConfig> {
        if setting.subsection.is_some() {
            return Ok(());
        }
        let (value, line) = (setting.value, setting.line);
        let bad = |why: &str| {
            Err(BadConfig {
                line,
                why: why.to_owned(),
            })
        };
        match (setting.section.as_slice(), setting.name.as_slice()) {
            (b"core", b"bare") => match boolean(value.as_deref()) {
                Some(bare) => self.bare = Some(bare),
                None => return bad("core.bare is not a boolean"),
            },
            (b"core", b"worktree") => match value {
                Some(path) => self.worktree = Some(OsString::from_vec(path)),
                None => return bad("core.worktree has no value"),
            },
            (b"core", b"sharedrepository") => match shared(value.as_deref()) {
                Some(shared) => self.shared = shared,
                None => return bad("core.sharedRepository is neither a known word nor a file mode"),
            },
            (b"core", b"ignorecase") => self.ignore_case = boolean(value.as_deref()).unwrap_or(false),
            (b"core", b"excludesfile") => {
                self.excludes_file = value.filter(|path| !path.is_empty()).map(OsString::from_vec);
            }
            (b"jit", b"defaultbranch") => self.default_branch = value.map(OsString::from_vec),
            (b"extensions", b"worktreeconfig") => match boolean(value.as_deref()) {
                Some(on) => self.worktree_config = on,
                None => return bad("extensions.worktreeConfig is not a boolean"),
            },
            _ => {}
        }
        Ok(())
    }
}

/// A branch with an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Upstream {
    pub branch: String,
    pub remote: String,
    /// A full ref name.
    pub merge: String,
    /// The remote it is pushed to, if that is another one.
    pub push_remote: Option<String>,
}

/// Upstreams and push settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sharing {
    pub branches: Vec<Upstream>,
    /// `remote.pushDefault`.
    pub push_remote: Option<String>,
    /// `push.default`.
    pub push_default: String,
}

/// Reads upstreams and push settings from a configuration text. Stops at a syntax error: git reports it to the user.
pub fn sharing(text: &[u8]) -> Sharing {
    let mut found: Vec<Upstream> = Vec::new();
    let (mut push_remote, mut push_default) = (None, String::new());
    for setting in settings(text).map_while(Result::ok) {
        let value = String::from_utf8(setting.value.unwrap_or_default()).unwrap_or_default();
        let (section, name) = (setting.section.as_slice(), setting.name.as_slice());
        match (section, setting.subsection, name) {
            (b"branch", Some(branch), name) => {
                let Ok(branch) = String::from_utf8(branch) else {
                    continue;
                };
                let at = found.iter().position(|one| one.branch == branch);
                let at = at.unwrap_or_else(|| {
                    found.push(Upstream {
                        branch,
                        ..Upstream::default()
                    });
                    found.len() - 1
                });
                match (name, found.get_mut(at)) {
                    (b"remote", Some(one)) => one.remote = value,
                    (b"merge", Some(one)) => one.merge = value,
                    (b"pushremote", Some(one)) => one.push_remote = Some(value),
                    _ => {}
                }
            }
            (b"remote", None, b"pushdefault") => push_remote = Some(value),
            (b"push", None, b"default") => push_default = value,
            _ => {}
        }
    }
    found.retain(|one| !one.remote.is_empty() && one.remote != "." && one.merge.starts_with("refs/heads/"));
    Sharing {
        branches: found,
        push_remote,
        push_default,
    }
}

struct ConfigReader<'a> {
    rest: &'a [u8],
    line: usize,
}

/// Splits the old way to write a subsection: `[section.subsection]`.
fn with_dots((mut section, subsection): (Vec<u8>, Option<Vec<u8>>)) -> (Vec<u8>, Option<Vec<u8>>) {
    let Some(dot) = section.iter().position(|byte| *byte == b'.') else {
        return (section, subsection);
    };
    let mut below = section.split_off(dot + 1);
    section.pop();
    if let Some(more) = subsection {
        below.push(b'.');
        below.extend(more);
    }
    (section, Some(below))
}

/// A setting as it stands in a file. Section and name are in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) section: Vec<u8>,
    pub(crate) subsection: Option<Vec<u8>>,
    pub(crate) name: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    line: usize,
}

/// The settings of a text, in order. After a syntax error there are no more.
pub(crate) fn settings(text: &[u8]) -> impl Iterator<Item = Result<Setting, BadConfig>> {
    let mut reader = ConfigReader::of(text);
    let mut here = (Vec::new(), None);
    // For git a name ends there, so it sees another setting.
    let nul = text.iter().position(|byte| *byte == 0);
    let mut nul = nul.map(|at| BadConfig {
        line: 1 + text.iter().take(at).filter(|byte| **byte == b'\n').count(),
        why: "there is a NUL byte".to_owned(),
    });
    std::iter::from_fn(move || {
        let next = match nul.take() {
            Some(bad) => Some(Err(bad)),
            None => reader.next_setting(&mut here).transpose(),
        };
        if matches!(next, Some(Err(_))) {
            reader.rest = &[];
        }
        next
    })
}

impl<'a> ConfigReader<'a> {
    fn of(text: &'a [u8]) -> Self {
        let rest = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        Self { rest, line: 1 }
    }

    /// The next setting; `here` is the section that the reader is in.
    fn next_setting(&mut self, here: &mut (Vec<u8>, Option<Vec<u8>>)) -> Result<Option<Setting>, BadConfig> {
        loop {
            self.skip_blank();
            match self.peek() {
                None => return Ok(None),
                Some(b'\n') => self.bump(),
                Some(b'#' | b';') => self.skip_line(),
                Some(b'[') => *here = with_dots(self.section()?),
                Some(_) => {
                    let (name, value) = self.setting()?;
                    let (section, subsection) = here.clone();
                    return Ok(Some(Setting {
                        section,
                        subsection,
                        name,
                        value,
                        line: self.line,
                    }));
                }
            }
        }
    }
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn bump(&mut self) {
        if self.peek() == Some(b'\n') {
            self.line += 1;
        }
        self.rest = self.rest.get(1..).unwrap_or_default();
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.bump();
        Some(byte)
    }

    fn skip_blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r')) {
            self.bump();
        }
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|b| b != b'\n') {
            self.bump();
        }
    }

    fn bad<T>(&self, why: &str) -> Result<T, BadConfig> {
        Err(BadConfig {
            line: self.line,
            why: why.to_owned(),
        })
    }

    /// The names of the section and of its subsection.
    fn section(&mut self) -> Result<(Vec<u8>, Option<Vec<u8>>), BadConfig> {
        self.bump();
        let mut name = Vec::new();
        let mut subsection = None;
        loop {
            match self.next() {
                Some(b']') => break,
                Some(b) if b.is_ascii_alphanumeric() || b == b'-' || b == b'.' => {
                    name.push(b.to_ascii_lowercase());
                }
                Some(b' ' | b'\t') => {
                    subsection = Some(self.subsection()?);
                    break;
                }
                _ => return self.bad("the section header is not complete"),
            }
        }
        Ok((name, subsection))
    }

    fn subsection(&mut self) -> Result<Vec<u8>, BadConfig> {
        let mut name = Vec::new();
        self.skip_blank();
        if self.next() != Some(b'"') {
            return self.bad("the subsection is not quoted");
        }
        loop {
            match self.next() {
                Some(b'"') => break,
                Some(b'\\') if self.peek().is_some_and(|b| b != b'\n') => name.extend(self.next()),
                None | Some(b'\n' | b'\\') => return self.bad("the subsection's quote is not closed"),
                Some(byte) => name.push(byte),
            }
        }
        match self.next() {
            Some(b']') => Ok(name),
            _ => self.bad("the section header is not closed"),
        }
    }

    fn setting(&mut self) -> Result<(Vec<u8>, Option<Vec<u8>>), BadConfig> {
        let mut name = Vec::new();
        while let Some(byte) = self.peek().filter(|b| b.is_ascii_alphanumeric() || *b == b'-') {
            name.push(byte.to_ascii_lowercase());
            self.bump();
        }
        if !name.first().is_some_and(u8::is_ascii_alphabetic) {
            return self.bad("this is neither a section, a setting nor a comment");
        }
        self.skip_blank();
        match self.peek() {
            Some(b'=') => {
                self.bump();
                Ok((name, Some(self.value()?)))
            }
            // A name alone means true.
            None | Some(b'\n' | b'#' | b';') => Ok((name, None)),
            Some(_) => self.bad("a setting's name must be followed by '='"),
        }
    }

    fn value(&mut self) -> Result<Vec<u8>, BadConfig> {
        self.skip_blank();
        let mut value = Vec::new();
        // Length up to which the value certainly counts: blanks outside quotes at the end do not.
        let mut kept = 0;
        let mut quoted = false;
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => break,
                b'\r' if self.rest.get(1) == Some(&b'\n') => {
                    self.bump();
                    continue;
                }
                b'#' | b';' if !quoted => {
                    self.skip_line();
                    break;
                }
                b'"' => {
                    quoted = !quoted;
                    kept = value.len();
                }
                b'\\' => {
                    self.bump();
                    if self.peek() == Some(b'\r') && self.rest.get(1) == Some(&b'\n') {
                        self.bump();
                    }
                    match self.peek() {
                        Some(b'\n') => {}
                        Some(b'n') => value.push(b'\n'),
                        Some(b't') => value.push(b'\t'),
                        Some(b'b') => value.push(0x08),
                        Some(b @ (b'"' | b'\\')) => value.push(b),
                        _ => return self.bad("there is an unknown escape in the value"),
                    }
                    if self.peek() != Some(b'\n') {
                        kept = value.len();
                    }
                }
                _ => {
                    value.push(byte);
                    if quoted || !matches!(byte, b' ' | b'\t' | b'\r') {
                        kept = value.len();
                    }
                }
            }
            self.bump();
        }
        if quoted {
            return self.bad("a quote in the value is not closed");
        }
        value.truncate(kept);
        Ok(value)
    }
}

fn boolean(value: Option<&[u8]>) -> Option<bool> {
    let Some(value) = value else { return Some(true) };
    match value.to_ascii_lowercase().as_slice() {
        b"true" | b"yes" | b"on" => Some(true),
        b"false" | b"no" | b"off" | b"" => Some(false),
        number => std::str::from_utf8(number)
            .ok()?
            .parse::<i64>()
            .ok()
            .map(|n| n != 0),
    }
}

fn shared(value: Option<&[u8]>) -> Option<Shared> {
    let text = value.map(<[u8]>::to_ascii_lowercase);
    match text.as_deref() {
        None | Some(b"group" | b"true" | b"yes" | b"on" | b"1") => Some(Shared::Group),
        Some(b"umask" | b"false" | b"no" | b"off" | b"" | b"0") => Some(Shared::Umask),
        Some(b"all" | b"world" | b"everybody" | b"2") => Some(Shared::Everybody),
        Some(mode) => u32::from_str_radix(std::str::from_utf8(mode).ok()?, 8)
            .ok()
            .filter(|mode| mode & 0o600 == 0o600)
            .map(|mode| Shared::Mode(mode & 0o666)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<RepoConfig, BadConfig> {
        let mut config = RepoConfig::default();
        config.read(text)?;
        Ok(config)
    }

    #[test]
    fn a2_git_config_syntax() {
        let config = read(
            b"\xef\xbb\xbf# comment\n[Core] Bare = no ; x\n\tworktree = \"../a ; b\" # c\n\
              [core \"sub]\\\"\"]\n bare = true\n[remote \"o\"] url = x\n[EXTENSIONS]\r\n\tworktreeConfig\r\n",
        )
        .expect("parses");
        assert_eq!(config.bare, Some(false));
        assert_eq!(config.worktree, Some(OsString::from("../a ; b")));
        assert!(config.worktree_config);

        let paths: [(&[u8], &[u8]); 7] = [
            (b"[core]\nworktree = a  b  \n", b"a  b"),
            (b"[core]\nworktree = \"a \" \n", b"a "),
            (b"[core]\nworktree = a\\\n  b\n", b"a  b"),
            (b"[core]\nworktree = \"a\\n\\t\\\\\\\"\"", b"a\n\t\\\""),
            (b"[core]\nworktree = z\xeb\n", b"z\xeb"),
            // To git these two are no blanks.
            (b"[core]\nworktree = \x0ba\x0c\n", b"\x0ba\x0c"),
            (b"[core]\nworktree = first\nworktree = last\n", b"last"),
        ];
        for (text, path) in paths {
            let found = read(text).expect("parses").worktree.expect("set");
            assert_eq!(found.into_vec(), path, "{}", text.escape_ascii());
        }
        for (word, shared) in [
            ("group", Shared::Group),
            ("true", Shared::Group),
            ("all", Shared::Everybody),
            ("0", Shared::Umask),
            ("0640", Shared::Mode(0o640)),
        ] {
            let text = format!("[core]\nsharedRepository = {word}\n");
            assert_eq!(read(text.as_bytes()).expect("parses").shared, shared, "{word}");
        }
    }

    #[test]
    fn h3_branches_that_follow_one_are_read_without_git() {
        let text = b"[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/trunk\n[branch \"a\\\"b\"] merge = refs/heads/x\n\
            [branch \"local\"]\nremote = .\nmerge = refs/heads/main\n[core]\nremote = no\n\
            [remote]\npushDefault = fork\n[push] default = upstream\n[branch \"main\"]\npushRemote = mine\n";
        let all = sharing(text);
        assert_eq!(all.push_remote.as_deref(), Some("fork"));
        assert_eq!(all.push_default, "upstream");
        let found = all.branches;
        assert_eq!(found[0].push_remote.as_deref(), Some("mine"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (
                found[0].branch.as_str(),
                found[0].remote.as_str(),
                found[0].merge.as_str()
            ),
            ("main", "origin", "refs/heads/trunk")
        );
        assert_eq!(sharing(b"[branch \"x").branches, []);
    }

    #[test]
    fn a2_damaged_config_names_its_line() {
        for (text, line) in [
            ("[core\nbare = true", 1),
            ("\n[core \"x]\n", 2),
            ("[core]\nbare = maybe\n", 2),
            ("[core]\n\nbare true\n", 3),
            ("[core]\n= 3\n", 2),
            ("[core]\nworktree = \"open\n", 2),
            ("[core]\nworktree = \\q\n", 2),
            ("[core]\nworktree\n", 2),
            ("[core]\n[a \"b\0\"]\nc = d\n", 2),
            ("[core]\n\x0bbare = true\n", 2),
        ] {
            let error = read(text.as_bytes()).expect_err(text);
            assert!(
                error.line == line || error.line == line + 1,
                "{text:?} said line {}",
                error.line
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn a2_no_config_panics(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = read(&text);
        }
    }
}
