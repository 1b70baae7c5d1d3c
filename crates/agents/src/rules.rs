//! Rules for tools that an agent may use without asking: `Bash(git add *)`, `WebFetch(domain:docs.rs)`, `mcp__jit__*`.
//!
//! The syntax is that of Claude Code, so that one list serves both.
//!
//! What must hold:
//!
//! - a rule never allows more than it says. A command line is parsed first, and a rule must allow each command in it. A
//!   command that writes to a file, or that has words the text does not show, needs a rule for the whole tool;
//! - paths are relative to the worktree. A path outside of it needs a rule for the whole tool;
//! - an argument with an unknown meaning for its tool allows nothing.

use std::path::{Component, Path, PathBuf};

use jit_core::model::glob::Pattern;
use serde::Deserialize;

use crate::ask::Question;
use crate::hooks::shell::{self, Item, Simple};
use crate::text::short;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// May end in `*`.
    tool: String,
    argument: Option<String>,
}

impl Rule {
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "{:?} is not a tool such as WebFetch or Bash(git add *)",
                short(text, 60)
            )
        };
        let (tool, argument) = match text.trim().split_once('(') {
            None => (text.trim(), None),
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or_else(bad)?)),
        };
        let name = tool.strip_suffix('*').unwrap_or(tool);
        let letters = name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        // A star alone would allow every tool.
        if name.is_empty() || !letters || text.len() > 1_000 || text.contains(['\0', '\n']) {
            return Err(bad());
        }
        Ok(Self {
            tool: tool.to_owned(),
            // As in Claude Code, `Bash(*)` is the same as `Bash`.
            argument: argument.filter(|argument| *argument != "*").map(str::to_owned),
        })
    }

    fn is_about(&self, tool: &str) -> bool {
        match self.tool.strip_suffix('*') {
            Some(beginning) => tool.starts_with(beginning),
            None => self.tool == tool,
        }
    }
}

/// The fields of a tool's input that rules check.
#[derive(Debug, Deserialize, Default)]
struct Input {
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    file_path: Option<PathBuf>,
    #[serde(default)]
    notebook_path: Option<PathBuf>,
    #[serde(default)]
    url: Option<String>,
}

/// Whether one of the rules allows this, for an agent whose worktree is `root`.
pub fn allow(rules: &[Rule], question: &Question<'_>, root: &Path) -> bool {
    let about = || rules.iter().filter(|rule| rule.is_about(question.tool));
    if about().any(|rule| rule.argument.is_none()) {
        return true;
    }
    let arguments: Vec<&str> = about().filter_map(|rule| rule.argument.as_deref()).collect();
    if arguments.is_empty() {
        return false;
    }
    let Ok(input) = serde_json::from_str::<Input>(question.input.get()) else {
        return false;
    };
    match question.tool {
        "Bash" => input.command.is_some_and(|text| commands(&arguments, &text)),
        "Edit" | "Write" | "MultiEdit" | "Read" => input
            .file_path
            .is_some_and(|path| paths(&arguments, &path, question.cwd, root)),
        "NotebookEdit" => input
            .notebook_path
            .is_some_and(|path| paths(&arguments, &path, question.cwd, root)),
        "WebFetch" => input.url.is_some_and(|url| domains(&arguments, &url)),
        _ => false,
    }
}

fn commands(arguments: &[&str], text: &str) -> bool {
    let Ok(items) = shell::read(text) else {
        return false;
    };
    let mut runs = items
        .iter()
        .filter_map(|item| match item {
            Item::Run(simple) => Some(simple),
            Item::Enter | Item::Leave => None,
        })
        .peekable();
    runs.peek().is_some() && runs.all(|simple| command(arguments, simple))
}

fn command(arguments: &[&str], simple: &Simple) -> bool {
    if !simple.writes.is_empty() || simple.words.iter().any(|word| !word.known) {
        return false;
    }
    let words: Vec<&str> = simple.words.iter().map(|word| word.text.as_str()).collect();
    let line = words.join(" ");
    arguments.iter().any(|argument| {
        let old = argument.strip_suffix(":*").map(|prefix| format!("{prefix} *"));
        let pattern = old.as_deref().unwrap_or(argument);
        // `git add *` allows `git add` too.
        pattern.strip_suffix(" *").is_some_and(|whole| whole == line) || like(pattern, &line)
    })
}

/// Whether the text matches a pattern in which `*` stands for any text.
fn like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        if let Some(before) = last.replace(part) {
            match rest.find(before) {
                Some(at) => rest = &rest[at + before.len()..],
                None => return false,
            }
        }
    }
    match last {
        None => rest.is_empty(),
        Some(end) => rest.ends_with(end),
    }
}

fn paths(arguments: &[&str], path: &Path, cwd: Option<&Path>, root: &Path) -> bool {
    let whole = cwd.unwrap_or(root).join(path);
    if !is_inside(root, &whole) {
        return false;
    }
    let Some(below) = whole.strip_prefix(root).ok().and_then(Path::to_str) else {
        return false;
    };
    arguments
        .iter()
        .filter_map(|argument| Pattern::parse(argument).ok())
        .any(|pattern| pattern.matches(below))
}

/// Whether a path, relative to `root`, is below it, and neither `..` nor a symbolic link leads out. Paths of git itself
/// are not inside: the file `.git` of a worktree decides which repository the worktree belongs to.
pub fn is_inside(root: &Path, path: &Path) -> bool {
    let whole = root.join(path);
    let leaves = |part: Component<'_>| match part {
        Component::ParentDir => true,
        part => part.as_os_str().eq_ignore_ascii_case(".git"),
    };
    let stays = |path: &Path| !path.components().any(leaves);
    if !whole.strip_prefix(root).is_ok_and(stays) {
        return false;
    }
    // The existing part of the path must be below `root` too. A dangling link exists: writing to it writes to its
    // target.
    let Some(there) = whole.ancestors().find(|part| part.symlink_metadata().is_ok()) else {
        return false;
    };
    match (there.canonicalize(), root.canonicalize()) {
        (Ok(there), Ok(root)) => there.starts_with(root),
        _ => false,
    }
}

fn domains(arguments: &[&str], url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    arguments
        .iter()
        .filter_map(|argument| argument.strip_prefix("domain:"))
        .any(|domain| !domain.is_empty() && domain.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    fn allowed(rules: &[&str], tool: &str, input: Value, root: &Path) -> bool {
        let rules: Vec<Rule> = rules
            .iter()
            .map(|rule| Rule::parse(rule).expect("a rule"))
            .collect();
        let input = RawValue::from_string(input.to_string()).expect("JSON");
        let question = Question {
            tool,
            input: &input,
            cwd: Some(root),
        };
        allow(&rules, &question, root)
    }

    fn runs(rules: &[&str], command: &str) -> bool {
        allowed(rules, "Bash", json!({ "command": command }), Path::new("/"))
    }

    #[test]
    fn g5_a_rule_for_a_command_allows_that_command_and_no_other_beside_it() {
        let git = &["Bash(git add *)", "Bash(git commit:*)", "Bash(cargo test)"];
        for fine in [
            "git add a.txt",
            "git add",
            "git add -A && git commit -q -m 'a; rm -rf /'",
            "git commit -F - <<'X'\nwords\nX\n",
            "cargo test",
            "(git add x)",
        ] {
            assert!(runs(git, fine), "{fine}");
        }
        for not in [
            "git adds",
            "git push",
            "git add x; rm -rf y",
            "git add x | sh",
            "git add $(rm x)",
            "git add `rm x`",
            "git add $X",
            "git add x > ../y",
            "git add x\nrm y",
            "git add x & rm y",
            "PATH=. git add x",
            "cargo test --release",
            "sudo git add x",
            "git add 'x",
            "",
            "git add <(rm x)",
        ] {
            assert!(!runs(git, not), "{not}");
        }
        for any in [&["Bash"][..], &["Bash(*)"], &["Ba*"]] {
            assert!(runs(any, "rm x > y"), "{any:?}");
        }
        assert!(!runs(&["Write", "Bash2", "Bash()"], "ls"));
        assert!(runs(&["Bash(npm run * --silent)"], "npm run a b --silent"));
        assert!(!runs(&["Bash(npm run * --silent)"], "npm run a b"));
    }

    #[test]
    fn g5_a_rule_for_paths_stays_in_the_worktree() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a path").join("tree");
        std::fs::create_dir_all(root.join("docs")).expect("folders");
        std::os::unix::fs::symlink("/etc", root.join("docs/out")).expect("a link");
        std::os::unix::fs::symlink("/nowhere/new", root.join("docs/hanging")).expect("a link");
        let write = |path: &str| allowed(&["Write(docs/**)"], "Write", json!({ "file_path": path }), &root);
        assert!(write("docs/a.md"));
        assert!(write(&root.join("docs/new/a.md").to_string_lossy()));
        for not in [
            "src/a.rs",
            "docs/../src/a.rs",
            "/docs/a.md",
            "../tree/docs/a.md",
            "docs/out/passwd",
            "docs/hanging",
            "docs/.git",
            "docs/.Git/config",
            "",
        ] {
            assert!(!write(not), "{not}");
        }
        assert!(!allowed(
            &["Write(docs/**)"],
            "Edit",
            json!({ "file_path": "docs/a" }),
            &root
        ));
    }

    #[test]
    fn g5_a_rule_for_a_domain_looks_at_the_host() {
        let fetch = |url: &str| {
            allowed(
                &["WebFetch(domain:docs.rs)"],
                "WebFetch",
                json!({ "url": url }),
                Path::new("/"),
            )
        };
        assert!(fetch("https://docs.rs/serde") && fetch("http://DOCS.rs:80"));
        for not in [
            "https://docs.rs.evil.example/",
            "https://evil.example/docs.rs",
            "https://docs.rs@evil.example/",
            "https://evil.example\\@docs.rs",
            "https://xdocs.rs",
            "docs.rs",
            "",
        ] {
            assert!(!fetch(not), "{not}");
        }
    }

    #[test]
    fn g5_what_is_not_a_rule_is_said_and_what_is_not_understood_allows_nothing() {
        for bad in ["", "*", "Bash(", "Bash)x", "(x)", "a b", "Bash(x", "Web Fetch"] {
            assert!(Rule::parse(bad).is_err(), "{bad}");
        }
        let root = Path::new("/");
        assert!(allowed(&["mcp__jit__*"], "mcp__jit__claim", json!({}), root));
        assert!(!allowed(&["mcp__jit__*"], "mcp__other", json!({}), root));
        assert!(!allowed(&["Task(x)"], "Task", json!({ "command": "x" }), root));
        assert!(!allowed(&["Bash(x)"], "Bash", json!([1]), root));
        assert!(!allowed(&["Bash(x)"], "Bash", json!({ "command": 1 }), root));
    }

    #[test]
    fn g5_stars_stand_for_anything() {
        for (pattern, text, fits) in [
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acb", false),
            ("a*b*c", "axbxbxc", true),
            ("a*a", "a", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("*ab*ab", "ab", false),
        ] {
            assert_eq!(like(pattern, text), fits, "{pattern} {text}");
        }
    }
}
