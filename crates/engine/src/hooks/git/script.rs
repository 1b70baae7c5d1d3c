//! The text of a hook, and how it is known again.
//!
//! Format: `#!/bin/sh`, then a line that begins with [`MARK`] and has a checksum of all that follows, then the script.
//! Whoever changes the script changes the checksum: a hook is ours to replace or remove only while they agree, whatever
//! version wrote it.

use jit_os::shell::shell_word;
use xxhash_rust::xxh3::xxh3_64;

const MARK: &str = "# jit hook, sum ";
const ABOUT: &str = ": written by `jit hooks install`, taken away by `jit hooks uninstall`.";
/// What a hook that was there before is called beside ours.
pub const KEPT: &str = ".before-jit";

/// Whose a file in a folder of hooks is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Ours,
    /// Ours, but changed by somebody since.
    Edited,
    Theirs,
}

/// The hook that was there before, and is called first.
#[derive(Debug, Clone, Copy)]
pub enum Theirs<'a> {
    /// Beside ours, under another name.
    Beside,
    /// Where git would have found it: a path as the shell reads it, seen from where git starts hooks.
    At(&'a str),
}

fn reads_input(hook: &str) -> bool {
    matches!(hook, "pre-push" | "post-rewrite" | "pre-receive")
}

/// The script for a hook. `jit` is what to start, and `None` where only the other hook is to be reached.
pub fn text(hook: &str, theirs: Theirs<'_>, jit: Option<&str>) -> String {
    let theirs = match theirs {
        Theirs::Beside => format!("\"$0{KEPT}\""),
        Theirs::At(path) => path.to_owned(),
    };
    let mut body = format!("theirs={theirs}\n");
    let there = r#"if [ -f "$theirs" ] && [ -x "$theirs" ]; then"#;
    match jit {
        None => body.push_str(&format!("{there} exec \"$theirs\" \"$@\"; fi\n")),
        Some(jit) => {
            let jit = shell_word(jit);
            let input = reads_input(hook);
            let fed = if input { "printf %s \"$in\" | " } else { "" };
            if input {
                // Both hooks read it; a shell drops line ends unless something follows them.
                body.push_str("in=$(cat; echo .); in=${in%.}\n");
            }
            body.push_str(&format!("{there} {fed}\"$theirs\" \"$@\" || exit; fi\n"));
            body.push_str(&format!("if ! command -v {jit} >/dev/null 2>&1; then\n"));
            body.push_str(&format!(
                "  echo \"jit: the program is not on PATH; {hook} was not checked\" >&2\n"
            ));
            if hook == "pre-commit" {
                body.push_str(
                    "  git diff --cached --quiet -- .jit || echo \"jit: warning: this commit changes .jit/\" >&2\n",
                );
            }
            body.push_str("  exit 0\nfi\n");
            if input {
                body.push_str(&format!("printf %s \"$in\" | {jit} hooks run {hook} \"$@\"\n"));
            } else {
                body.push_str(&format!("exec {jit} hooks run {hook} \"$@\"\n"));
            }
        }
    }
    format!(
        "#!/bin/sh\n{MARK}{:016x}{ABOUT}\n{body}",
        xxh3_64(body.as_bytes())
    )
}

pub fn whose(content: &[u8]) -> Whose {
    let ours = content
        .strip_prefix(b"#!/bin/sh\n")
        .and_then(|rest| rest.strip_prefix(MARK.as_bytes()))
        .and_then(|rest| rest.split_at_checked(16));
    if let Some((sum, rest)) = ours
        && let Some(end) = rest.iter().position(|b| *b == b'\n')
        && rest.get(..end) == Some(ABOUT.as_bytes())
        && format!("{:016x}", xxh3_64(rest.get(end + 1..).unwrap_or_default())).as_bytes() == sum
    {
        return Whose::Ours;
    }
    let marked = content
        .split(|b| *b == b'\n')
        .any(|line| line.starts_with(MARK.as_bytes()));
    if marked { Whose::Edited } else { Whose::Theirs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_our_hooks_are_known_again_until_somebody_edits_them() {
        for hook in ["pre-commit", "pre-push"] {
            let ours = text(hook, Theirs::Beside, Some("/a b/jit"));
            assert!(ours.contains("'/a b/jit' hooks run"), "{ours}");
            assert_eq!(whose(ours.as_bytes()), Whose::Ours);
            assert_eq!(whose(format!("{ours}echo mine\n").as_bytes()), Whose::Edited);
            assert_eq!(whose(ours.replace("exit 0", "exit 1").as_bytes()), Whose::Edited);
        }
        assert_eq!(whose(b"#!/bin/sh\njit hooks run pre-commit\n"), Whose::Theirs);
        assert_eq!(whose(b""), Whose::Theirs);
        assert_eq!(whose(b"\xff\x7fELF"), Whose::Theirs);
    }
}
