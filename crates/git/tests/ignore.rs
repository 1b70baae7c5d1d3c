//! `jit_core::model::gitignore` gives the same answers as git (F3): generated trees and rules, a git process for each tree.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use jit_core::model::gitignore::{Ignore, IgnoreSource};
use jit_git::Git;
use proptest::prelude::*;

/// Every folder and file of the trees.
const DIRS: &[&str] = &["a", "b", "a/a", "a/b", "a/b/a", "b.c", "a/b/a/b.c"];
const FILES: &[&str] = &[
    "a", "b", "ab", "b.c", "c", "a.b", " ", "c ", "#a", "!a", "[a]", "a*", "aab", "a\\", "-", "é", "B", "7",
];

fn paths() -> Vec<(String, bool)> {
    let folders = DIRS.iter().map(|dir| ((*dir).to_owned(), true));
    let files = [""].iter().chain(DIRS).flat_map(|dir| {
        FILES.iter().map(move |file| match *dir {
            "" => (*file).to_owned(),
            dir => format!("{dir}/{file}"),
        })
    });
    let files = files.filter(|file| !DIRS.contains(&file.as_str()));
    folders.chain(files.map(|file| (file, false))).collect()
}

struct Tree {
    root: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let tree = Self { root };
        tree.git(&["init", "-q"], b"");
        for (path, is_dir) in paths() {
            let path = tree.root.path().join(path);
            if is_dir {
                fs::create_dir_all(path).expect("a folder");
            } else {
                fs::write(path, "").expect("a file");
            }
        }
        tree
    }

    fn git(&self, args: &[&str], stdin: &[u8]) -> Vec<u8> {
        let excludes = self.root.path().join(".git/excludes");
        let result = Git::at(self.root.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .setting("core.excludesFile", excludes)
            .args(args)
            .stdin(stdin)
            .run();
        result.expect("git runs")
    }

    /// Git's answers for all paths: source, line and pattern, each ended by NUL, or three times nothing.
    fn answers(&self, settings: &[&str]) -> Vec<(String, String, String)> {
        let mut stdin = String::new();
        for (path, _) in paths() {
            let _ = write!(stdin, "{path}\0");
        }
        let mut args = settings.to_vec();
        args.extend(["check-ignore", "--no-index", "--stdin", "-z", "-v", "-n"]);
        // Nothing ignored is exit code 1, so there is always one path that is.
        let mut stdin = stdin.into_bytes();
        stdin.extend(b"surely-ignored\0");
        let out = self.git(&args, &stdin);
        let words: Vec<String> = out
            .split(|b| *b == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        let answers = words.chunks_exact(4);
        let all: Vec<_> = answers
            .map(|four| (four[0].clone(), four[1].clone(), four[2].clone()))
            .collect();
        all[..all.len() - 1].to_vec()
    }
}

#[derive(Debug, Clone)]
struct Files {
    root: Vec<u8>,
    a: Option<Vec<u8>>,
    a_b: Option<Vec<u8>>,
    info: Vec<u8>,
    excludes: Vec<u8>,
}

impl Files {
    fn write(&self, tree: &Path) {
        let put = |name: &str, text: Option<&Vec<u8>>| match text {
            Some(text) => fs::write(tree.join(name), text).expect("a file"),
            None => {
                let _ = fs::remove_file(tree.join(name));
            }
        };
        put(".gitignore", Some(&self.root));
        put("a/.gitignore", self.a.as_ref());
        put("a/b/.gitignore", self.a_b.as_ref());
        put(".git/info/exclude", Some(&self.info));
        put(
            ".git/excludes",
            Some(&[&self.excludes[..], b"\n/surely-ignored\n"].concat()),
        );
    }

    fn read(&self) -> Ignore {
        let mut ignore = Ignore::new()
            .gitignore("", &self.root)
            .info_exclude(&self.info)
            .excludes_file(&self.excludes);
        for (dir, text) in [("a", &self.a), ("a/b", &self.a_b)] {
            if let Some(text) = text {
                ignore = ignore.gitignore(dir, text);
            }
        }
        ignore
    }
}

fn ours(ignore: &Ignore, path: &str, is_dir: bool) -> (String, String) {
    let Some(verdict) = ignore.verdict(path.as_bytes(), is_dir) else {
        return (String::new(), String::new());
    };
    let source = match verdict.source {
        IgnoreSource::Gitignore(b"") => ".gitignore".to_owned(),
        IgnoreSource::Gitignore(dir) => format!("{}/.gitignore", String::from_utf8_lossy(dir)),
        IgnoreSource::InfoExclude => ".git/info/exclude".to_owned(),
        IgnoreSource::ExcludesFile => "excludes".to_owned(),
    };
    (source, verdict.line.to_string())
}

fn compare(tree: &Tree, files: &Files, settings: &[&str], any_case: bool) -> Result<(), TestCaseError> {
    files.write(tree.root.path());
    let ignore = files.read().any_case(any_case);
    let answers = tree.answers(settings);
    prop_assert_eq!(answers.len(), paths().len());
    for ((path, is_dir), (source, line, pattern)) in paths().iter().zip(&answers) {
        let source = if source.ends_with(".git/excludes") {
            "excludes"
        } else {
            source
        };
        let git = (source.to_owned(), line.clone());
        prop_assert_eq!(
            ours(&ignore, path, *is_dir),
            git,
            "path {:?}, git's rule {:?}",
            path,
            pattern
        );
        prop_assert_eq!(
            ignore.ignores(path, *is_dir),
            !line.is_empty() && !pattern.starts_with('!'),
            "path {:?}, git's rule {:?}",
            path,
            pattern
        );
    }
    Ok(())
}

/// Lines as people write them, and as nobody would.
fn line() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "a",
        "b",
        "b",
        "c",
        ".c",
        "/",
        "/",
        "/",
        "*",
        "*",
        "**",
        "**/",
        "/**",
        "?",
        "[ab]",
        "[!a]",
        "[^b]",
        "[a-c]",
        "[]a]",
        "[a",
        "[[:alpha:]]",
        "[[:digit:]",
        "[[:x:]]",
        "[\\]a]",
        "[a-",
        "[--0]",
        "\\",
        "\\*",
        "\\ ",
        " ",
        "\\a",
        "é",
        "\t",
        "[/]",
        "B",
        "[:a:]",
        "[[:]a]",
        "[A-C]",
        "[[:upper:]]",
        "[B]",
        "#",
        "!",
        "\\!",
        "\\#",
        "-",
    ]);
    let text = prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat());
    let front = prop::sample::select(vec!["", "", "", "", "!", "/", "!/", "#", "\\#", "\\!", "**/"]);
    let back = prop::sample::select(vec!["", "", "", "", "/", "/**", " ", "  ", "\\ ", "\r", "/ "]);
    (front, text, back).prop_map(|(front, text, back)| format!("{front}{text}{back}"))
}

fn file() -> impl Strategy<Value = Vec<u8>> {
    let start = prop::sample::select(vec!["", "", "", "\u{feff}"]);
    let end = prop::sample::select(vec!["", "\n"]);
    (start, prop::collection::vec(line(), 0..7), end)
        .prop_map(|(start, lines, end)| format!("{start}{}{end}", lines.join("\n")).into_bytes())
}

fn files() -> impl Strategy<Value = Files> {
    let maybe = || prop::option::weighted(0.4, file());
    (file(), maybe(), maybe(), file(), file()).prop_map(|(root, a, a_b, info, excludes)| Files {
        root,
        a,
        a_b,
        info,
        excludes,
    })
}

/// So many cases, or as many as the environment asks for.
fn config(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").is_ok();
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    ProptestConfig {
        cases: if asked { config.cases } else { usual },
        ..config
    }
}

#[test]
fn heavy_f3_what_is_ignored_is_what_git_ignores() {
    let tree = Tree::new();
    let long = jit_testkit::world::tools::long();
    proptest!(config(if long { 2000 } else { 150 }), |(files in files())| {
        compare(&tree, &files, &[], false)?;
    });
}

#[test]
fn heavy_f3_case_counts_as_in_git() {
    let tree = Tree::new();
    let long = jit_testkit::world::tools::long();
    proptest!(config(if long { 2000 } else { 40 }), |(files in files())| {
        compare(&tree, &files, &["-c", "core.ignoreCase=true"], true)?;
    });
}
