//! The text of a hook, and how jit recognizes its own.
//!
//! Format: `#!/bin/sh`, then a line that begins with `MARK` and has a checksum of everything below it, then the
//! script. An edit of the script breaks the checksum. A hook is ours to replace or remove only while the checksum
//! fits, whatever version wrote it.

use jit_os::shell::shell_word;
use xxhash_rust::xxh3::xxh3_64;

const MARK: &str = "# jit hook, sum ";
const ABOUT: &str = ": written by `jit hooks install`, taken away by `jit hooks uninstall`.";
/// The suffix of a kept hook's file name, beside ours.
pub const KEPT: &str = ".before-jit";

/// The owner of a file in a folder of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Ours,
    /// Ours, but edited since.
    Edited,
    Theirs,
}

/// The earlier hook, which ours calls first.
#[derive(Debug, Clone, Copy)]
pub enum Theirs<'a> {
    /// Beside ours, under another name.
    Beside,
    /// In its own folder, where git would have found it. A path in shell syntax, relative to where git starts hooks.
    At(&'a str),
}

fn reads_input(hook: &str) -> bool {
    matches!(hook, "pre-push" | "post-rewrite" | "pre-receive")
}

/// Returns the script for a hook. `jit` is the program to start; `None` if the script only calls the other hook.
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
                // Both hooks read the input. A shell drops final newlines unless other text follows them.
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
