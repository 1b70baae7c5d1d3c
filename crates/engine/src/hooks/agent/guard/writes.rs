//! Programs that are known to read or to write, and which of their words are the files they write.
//!
//! Limitations: a program that is not listed counts as writing nothing. Only the name of another checkout in its
//! words is seen. For `find` every file below its roots counts, whatever its tests exclude.

use jit_agents::hooks::decision::Objection;
use jit_agents::hooks::shell::{Simple, Word};

use super::{Cwd, Judge, Scope, foreign};

const READERS: &[&str] = &[
    "cat",
    "less",
    "more",
    "head",
    "tail",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "ag",
    "ls",
    "ll",
    "tree",
    "stat",
    "wc",
    "diff",
    "cmp",
    "comm",
    "file",
    "du",
    "df",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "cksum",
    "uniq",
    "cut",
    "tr",
    "nl",
    "od",
    "xxd",
    "hexdump",
    "strings",
    "jq",
    "yq",
    "column",
    "paste",
    "fold",
    "echo",
    "printf",
    "test",
    "true",
    "false",
    ":",
    "pwd",
    "which",
    "whereis",
    "type",
    "realpath",
    "readlink",
    "dirname",
    "basename",
    "date",
    "id",
    "whoami",
    "hostname",
    "uname",
    "printenv",
    "export",
    "set",
    "unset",
    "local",
    "declare",
    "read",
    "return",
    "exit",
    "sleep",
    "wait",
    "seq",
    "ps",
    "pgrep",
    "cd",
    "pushd",
    "popd",
    "break",
    "continue",
    "shift",
    "bat",
    "fd",
];
/// Programs that write every file they are given.
const WRITERS: &[&str] = &[
    "touch", "rm", "rmdir", "mkdir", "tee", "truncate", "chmod", "chown", "chgrp", "unlink", "shred",
    "mkfifo", "mv",
];
/// Programs that write the last file they are given.
const COPIERS: &[&str] = &["cp", "ln", "install", "rsync", "scp"];
/// Programs that open the files they are given, to change them.
const EDITORS: &[&str] = &[
    "vi", "vim", "nvim", "nano", "pico", "emacs", "ed", "ex", "micro", "hx", "kak",
];

/// Returns the options of a program whose value is the next word and is not a written file.
fn valued(name: &str) -> &'static [&'static str] {
    match name {
        "truncate" => &["-s", "--size", "-r", "--reference"],
        "touch" => &["-d", "--date", "-t", "-r", "--reference"],
        "mkdir" | "mkfifo" => &["-m", "--mode"],
        "shred" => &["-n", "--iterations", "-s", "--size"],
        "cp" | "mv" | "ln" => &["-S", "--suffix", "-t", "--target-directory"],
        "install" => &[
            "-S",
            "--suffix",
            "-t",
            "--target-directory",
            "-m",
            "--mode",
            "-o",
            "--owner",
            "-g",
            "--group",
        ],
        "rsync" => &["-e", "--rsh", "--exclude", "--include", "-f", "--filter"],
        "scp" => &["-i", "-P", "-o", "-F", "-J", "-l", "-c", "-S"],
        "nano" => &["-T", "-r", "-Y", "-C", "-o"],
        "vi" | "vim" | "nvim" | "ex" => &["-c", "--cmd", "-S", "-u", "-i", "-T"],
        "emacs" => &["-f", "-l", "--eval", "--load", "--funcall"],
        "awk" | "gawk" => &[
            "-f",
            "--file",
            "-v",
            "--assign",
            "-F",
            "--field-separator",
            "-i",
            "--include",
        ],
        _ => &[],
    }
}

/// Returns the values of these options: `-o F`, `-oF`, `-xyo F`, `--output F`, `--output=F`.
pub(super) fn values(args: &[Word], flags: &[&str]) -> Vec<Word> {
    let mut out = Vec::new();
    for (at, word) in args.iter().enumerate() {
        let text = word.text.as_str();
        if text == "--" {
            break;
        }
        for flag in flags {
            let next = || args.get(at + 1).cloned();
            if text == *flag {
                out.extend(next());
            } else if flag.starts_with("--") {
                let value = text.strip_prefix(flag).and_then(|rest| rest.strip_prefix('='));
                out.extend(value.map(|value| word.part(value)));
            } else if text.starts_with('-')
                && !text.starts_with("--")
                && let Some(letter) = flag.get(1..)
                && let Some((bundle, value)) = text.get(1..).and_then(|rest| rest.split_once(letter))
                && bundle.bytes().all(|b| b.is_ascii_alphanumeric())
            {
                match value.is_empty() {
                    true => out.extend(next()),
                    false => out.push(word.part(value)),
                }
            }
        }
    }
    out
}

/// Returns whether the next word is the value of such a bundle: `-xyo`, where `-o` needs a value.
fn ends_valued(text: &str, valued: &[&str]) -> bool {
    let is_valued = |letter: char| {
        valued
            .iter()
            .any(|flag| flag.len() == 2 && flag.ends_with(letter))
    };
    let bundle = text.strip_prefix('-').filter(|bundle| !bundle.starts_with('-'));
    // The rest after the first such letter is already its value.
    bundle.is_some_and(|bundle| bundle.find(is_valued).is_some_and(|at| at + 1 == bundle.len()))
}

/// Returns the words that are neither options nor values of these options.
pub(super) fn free(args: &[Word], valued: &[&str]) -> Vec<Word> {
    let mut out = Vec::new();
    let mut args = args.iter();
    while let Some(word) = args.next() {
        let text = word.text.as_str();
        if text == "--" {
            out.extend(args.by_ref().cloned());
        } else if valued.contains(&text) || ends_valued(text, valued) {
            args.next();
        } else if !text.starts_with('-') || text == "-" {
            out.push(word.clone());
        }
    }
    out
}

/// The arguments of sed, perl or ruby.
#[derive(Default)]
struct Edit {
    in_place: bool,
    scripts: Vec<Word>,
    files: Vec<Word>,
}

fn edit(name: &str, args: &[Word]) -> Edit {
    let mut out = Edit::default();
    // A script from a file is a script too, but it cannot be read here.
    let mut scripted = false;
    let mut args = args.iter();
    while let Some(word) = args.next() {
        let text = word.text.as_str();
        if text == "--" {
            out.files.extend(args.by_ref().cloned());
        } else if let Some(long) = text.strip_prefix("--") {
            let (option, value) = long.split_once('=').unwrap_or((long, ""));
            out.in_place |= option == "in-place";
            scripted |= matches!(option, "expression" | "file");
            if option == "expression" {
                match value.is_empty() {
                    true => out.scripts.extend(args.next().cloned()),
                    false => out.scripts.push(word.part(value)),
                }
            } else if option == "file" && value.is_empty() {
                args.next();
            }
        } else if let Some(bundle) = text.strip_prefix('-').filter(|bundle| !bundle.is_empty()) {
            for (at, letter) in bundle.char_indices() {
                let rest = bundle.get(at + letter.len_utf8()..).unwrap_or_default();
                let value = |args: &mut std::slice::Iter<'_, Word>| match rest.is_empty() {
                    true => args.next().cloned(),
                    false => Some(word.part(rest)),
                };
                match letter {
                    // The rest is the suffix of the backup copy.
                    'i' => {
                        out.in_place = true;
                        break;
                    }
                    'e' | 'E' if letter == 'e' || name == "perl" => {
                        scripted = true;
                        out.scripts.extend(value(&mut args));
                        break;
                    }
                    'f' if name == "sed" => {
                        scripted = true;
                        value(&mut args);
                        break;
                    }
                    'l' if name == "sed" => {
                        value(&mut args);
                        break;
                    }
                    'I' | 'M' | 'm' | 'C' | 'x' | 'F' | 'D' if name != "sed" => break,
                    _ => {}
                }
            }
        } else {
            out.files.push(word.clone());
        }
    }
    if !scripted && !out.files.is_empty() {
        let first = out.files.remove(0);
        // For the other programs this word is a script file, which is only read.
        if name == "sed" {
            out.scripts.push(first);
        }
    }
    out
}

/// Returns the files that a sed script writes: `w F`, and the flag `w` of `s`.
fn sed_files(script: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut rest = script.chars().peekable();
    // Skips to the delimiter, across escaped characters.
    fn skip(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, delimiter: char) {
        while let Some(c) = rest.next() {
            match c {
                '\\' => {
                    rest.next();
                }
                c if c == delimiter => return,
                _ => {}
            }
        }
    }
    fn line(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
        rest.by_ref()
            .take_while(|c| *c != '\n')
            .collect::<String>()
            .trim()
            .to_owned()
    }
    while let Some(c) = rest.next() {
        match c {
            '/' => skip(&mut rest, '/'),
            '\\' => {
                if let Some(delimiter) = rest.next() {
                    skip(&mut rest, delimiter);
                }
            }
            's' | 'y' => {
                let Some(delimiter) = rest.next() else { break };
                skip(&mut rest, delimiter);
                skip(&mut rest, delimiter);
                while let Some(flag) = rest.next_if(|flag| flag.is_ascii_alphanumeric()) {
                    if flag == 'w' {
                        files.push(line(&mut rest));
                        break;
                    }
                }
            }
            'w' | 'W' => files.push(line(&mut rest)),
            'a' | 'i' | 'c' | 'r' | 'R' | '#' => drop(line(&mut rest)),
            ':' | 'b' | 't' | 'T' => while rest.next_if(|c| !matches!(c, ';' | '\n' | '}')).is_some() {},
            _ => {}
        }
    }
    files
}

/// Returns the files that an awk program names after `>`.
fn awk_files(program: &str) -> Vec<&str> {
    let behind = program.split('>').skip(1);
    behind
        .filter_map(|text| text.trim_start().strip_prefix('"')?.split_once('"'))
        .map(|(file, _)| file)
        .filter(|file| !file.is_empty())
        .collect()
}

impl Judge<'_> {
    pub(super) fn program(&mut self, name: &str, args: &[Word], cwd: &Cwd) {
        let is = |list: &[&str]| list.contains(&name);
        if is(READERS) {
            return;
        }
        let written = match name {
            "sed" | "perl" | "ruby" => Self::edited(name, args),
            "awk" | "gawk" | "mawk" => Some(Self::awk(args)),
            "sort" => Some(values(args, &["-o", "--output"])),
            "dd" => Some(
                args.iter()
                    .filter_map(|word| Some(word.part(word.text.strip_prefix("of=")?)))
                    .collect(),
            ),
            "wget" => Some(downloads(args, &["-O", "--output-document"], true)),
            "curl" => Some(downloads(
                args,
                &["-o", "--output"],
                args.iter().any(|word| {
                    let text = word.text.as_str();
                    matches!(text, "--remote-name" | "--remote-name-all")
                        || (text.starts_with('-') && !text.starts_with("--") && text.contains('O'))
                }),
            )),
            _ if is(EDITORS) => {
                let mut files = free(args, valued(name));
                // `+12` is a line number, `+cmd` a command.
                files.retain(|word| !word.text.starts_with('+'));
                Some(files)
            }
            _ if is(WRITERS) && name != "mv" => {
                let referenced = args.iter().any(|word| word.text.starts_with("--reference"));
                let mode = matches!(name, "chmod" | "chown" | "chgrp") && !referenced;
                Some(
                    free(args, valued(name))
                        .into_iter()
                        .skip(usize::from(mode))
                        .collect(),
                )
            }
            _ if is(COPIERS) || name == "mv" => Some(self.copied(name, args, cwd)),
            _ => None,
        };
        if written.as_ref().is_some_and(Vec::is_empty)
            && matches!(name, "sed" | "awk" | "gawk" | "mawk" | "sort")
        {
            return;
        }
        if let Some(path) = cwd
            && let Some(objection) = foreign(self.ground, path)
        {
            let what = format!("{name} would run there: {}", objection.what);
            self.verdict.add(
                self.rules.outside_worktree,
                Objection::new(what, objection.instead),
            );
        }
        match written {
            Some(words) => {
                for word in words {
                    self.operand(&word, cwd);
                }
            }
            None => {
                for word in args {
                    self.named(word, cwd);
                }
            }
        }
    }

    /// Returns the files that sed, perl and ruby write; `None` for a program that may do anything.
    fn edited(name: &str, args: &[Word]) -> Option<Vec<Word>> {
        let edit = edit(name, args);
        let mut written = Vec::new();
        if name == "sed" {
            for script in &edit.scripts {
                // A variable in a script counts as the text of its name.
                let files = sed_files(&script.text).into_iter();
                written.extend(files.filter(|file| !file.is_empty()).map(|file| {
                    match file.contains(['$', '`']) && !script.known {
                        true => Word::unknown(file),
                        false => Word::plain(file),
                    }
                }));
            }
        }
        match edit.in_place {
            true => written.extend(edit.files),
            false if name != "sed" => return None,
            false => {}
        }
        Some(written)
    }

    fn awk(args: &[Word]) -> Vec<Word> {
        let mut free = free(args, valued("awk"));
        let from_file = args
            .iter()
            .any(|word| word.text.starts_with("-f") || word.text.starts_with("--file"));
        let program = (!from_file && !free.is_empty()).then(|| free.remove(0));
        let in_place = values(args, &["-i", "--include"])
            .iter()
            .any(|word| word.text.starts_with("inplace"));
        let mut written: Vec<Word> = program
            .iter()
            .flat_map(|program| awk_files(&program.text))
            .map(Word::plain)
            .collect();
        if in_place {
            written.extend(
                free.into_iter()
                    .filter(|word| super::assignment(&word.text).is_none()),
            );
        }
        written
    }

    /// Returns the files that cp and similar programs write: the file, or files of the same names in the folder.
    fn copied(&self, name: &str, args: &[Word], cwd: &Cwd) -> Vec<Word> {
        let short = |letter: char| {
            args.iter().any(|word| {
                word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains(letter)
            })
        };
        let mut sources = free(args, valued(name));
        if name == "install" && (short('d') || args.iter().any(|word| word.text == "--directory")) {
            return sources;
        }
        let places = match matches!(name, "rsync" | "scp") {
            true => Vec::new(),
            false => values(args, &["-t", "--target-directory"]),
        };
        let named = places.into_iter().next();
        let is_folder = named.is_some();
        // With one name only, `ln` makes the link in the current folder.
        if name == "ln" && !is_folder && sources.len() == 1 {
            sources.push(Word::plain("."));
        }
        let Some(to) = named.or_else(|| sources.pop()) else {
            return Vec::new();
        };
        let is_folder = is_folder
            || to.known && self.below(cwd, &to.text).is_some_and(|path| path.is_dir())
            || to.text.ends_with('/');
        let whole = matches!(name, "rsync" | "scp")
            || short('r')
            || short('R')
            || short('a')
            || args
                .iter()
                .any(|word| matches!(word.text.as_str(), "--recursive" | "--archive"));
        let mut written = match is_folder && !whole && to.known {
            true => sources.iter().map(|source| within(&to, source)).collect(),
            false => vec![to],
        };
        if name == "mv" {
            written.extend(sources);
        }
        written
    }

    /// Judges `find`: the files it deletes and the commands it runs, below its roots.
    pub(super) fn find(&mut self, args: &[Word], scope: &Scope, depth: usize) {
        let flags = |word: &&Word| matches!(word.text.as_str(), "-H" | "-L" | "-P");
        let args = args
            .get(args.iter().take_while(flags).count()..)
            .unwrap_or_default();
        let begins =
            |word: &Word| word.text.starts_with('-') || matches!(word.text.as_str(), "(" | "!" | ",");
        let end = args.iter().position(begins).unwrap_or(args.len());
        let (roots, tests) = args.split_at(end);
        let roots = match roots.is_empty() {
            true => vec![Word::plain(".")],
            false => roots.to_vec(),
        };
        for (at, word) in tests.iter().enumerate() {
            match word.text.as_str() {
                "-delete" => {
                    for root in &roots {
                        self.operand(root, &scope.cwd);
                    }
                }
                "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                    if let Some(file) = tests.get(at + 1) {
                        self.operand(file, &scope.cwd);
                    }
                }
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    let behind = tests.iter().skip(at + 1);
                    let run = behind.take_while(|word| !matches!(word.text.as_str(), ";" | "+"));
                    let words = run.flat_map(|word| match word.text.as_str() {
                        "{}" => roots.clone(),
                        text if text.contains("{}") => vec![Word::unknown(text)],
                        _ => vec![word.clone()],
                    });
                    let simple = Simple::of(words.collect());
                    let mut inner = scope.clone();
                    // The command runs in the folder of each file.
                    if word.text.ends_with("dir") {
                        inner.cwd = roots
                            .first()
                            .filter(|root| root.known)
                            .and_then(|root| self.below(&scope.cwd, &root.text));
                    }
                    self.simple(&simple, None, &mut inner, depth + 1);
                }
                _ => {}
            }
        }
    }
}

/// Returns the file of that name in the folder; the folder itself if the text does not show the name.
fn within(folder: &Word, source: &Word) -> Word {
    let text = source.text.trim_end_matches('/');
    let name = text.rsplit('/').next().unwrap_or_default();
    let plain = source.known && !name.contains(['*', '?', '[']) && !matches!(name, "" | "." | "..");
    match plain {
        true => Word::plain(format!("{}/{name}", folder.text.trim_end_matches('/'))),
        false => folder.clone(),
    }
}

/// Returns the files that are downloaded to: the named ones, else the last part of each address if the program uses
/// that.
fn downloads(args: &[Word], flags: &[&str], by_address: bool) -> Vec<Word> {
    let mut named = values(args, flags);
    let any = !named.is_empty();
    named.retain(|word| word.text != "-");
    if any || !by_address {
        return named;
    }
    let addresses = args.iter().filter(|word| word.text.contains("://"));
    addresses
        .filter_map(|word| {
            let (_, path) = word.text.split_once("://")?;
            let path = path.split(['?', '#']).next()?;
            let (_, name) = path.rsplit_once('/')?;
            (!name.is_empty()).then(|| word.part(name))
        })
        .collect()
}
