//! Secrets that are no variables: private keys that an agent prints, and the command line of the agent (G8).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::running::Yard;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.file_type().expect("a type").is_dir() {
            true => files(&entry.path(), found),
            false => found.push(entry.path()),
        }
    }
}

/// The files below the control plane that have this text.
fn having(yard: &Yard, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&yard.world.control(), &mut found);
    let has = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(text)
    };
    found.retain(has);
    found
}

fn program(yard: &Yard, text: &str) -> String {
    let path = yard.world.home().join("agent-of-this-test");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    path.display().to_string()
}

#[test]
fn g8_a_private_key_of_several_lines_is_in_no_file_and_not_on_the_screen() {
    let yard = Yard::new("");
    let agent = program(
        &yard,
        r#"cat <<'X'
looking at the key
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ
QyNTUxOQAAACBTZWNyZXRTZWNyZXRTZWNyZXQ=
-----END OPENSSH PRIVATE KEY-----
     1	-----BEGIN RSA PRIVATE KEY-----
     2	MIIBOgIBAAJBAKj34GkyNumbered
> MIIBOgIBAAJBAKj34GkyQuoted
     3	-----END RSA PRIVATE KEY-----
that was it
X
echo '{"kind":"text","text":"-----BEGIN RSA PRIVATE KEY-----"}'
echo '{"kind":"text","text":"MIIEpAIBAAKCAQEA7Ztexample"}'
echo '{"kind":"text","text":"-----END RSA PRIVATE KEY-----"}'"#,
    );
    let _ = yard.world.jit(["worktree", "create", "u"]).ok();
    let ran = yard.world.jit([
        "worktree",
        "dispatch",
        "u",
        "--prompt",
        "x",
        "--wait",
        "--command",
        &agent,
    ]);
    let logs = yard.world.jit(["worktree", "logs", "u"]).ok().stdout;
    assert!(
        logs.contains("looking at the key") && logs.contains("that was it"),
        "{logs}"
    );
    for secret in [
        "b3BlbnNzaC1rZXk",
        "QyNTUxOQAAACBTZWNy",
        "MIIBOgIBAAJBAKj34Gky",
        "MIIEpAIBAAKCAQEA7",
    ] {
        assert_eq!(having(&yard, secret), Vec::<PathBuf>::new(), "{secret}");
        for shown in [&logs, &ran.stdout, &ran.stderr] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

#[test]
fn g8_a_secret_of_the_command_line_reaches_the_agent_and_no_file() {
    let yard = Yard::new("");
    let agent = program(&yard, r#"echo "$1 $2" > "$HOME/args"; env > "$HOME/env"; exit 1"#);
    let token = "ghp_0123456789abcdefABCD";
    let _ = yard.world.jit(["worktree", "create", "u"]).ok();
    let dispatch = |more: &[&str]| {
        let begin = ["worktree", "dispatch", "u", "--prompt", "x", "--wait"];
        yard.world.jit(begin.iter().chain(more))
    };
    let _ = dispatch(&["--command", &agent, "--token", token]).exits(6);
    let args = || fs::read_to_string(yard.world.home().join("args")).unwrap_or_default();
    assert_eq!(args(), format!("--token {token}\n"));
    let env = fs::read_to_string(yard.world.home().join("env")).expect("variables");
    assert!(!env.contains(token), "{env}");
    assert_eq!(having(&yard, token), Vec::<PathBuf>::new());
    let job = yard.world.control().join("units/u/attempt-1/job.json");
    let job = fs::read_to_string(job).expect("a job");
    assert!(job.contains("[redacted]"), "{job}");
    // What was not kept cannot be taken over.
    fs::remove_file(yard.world.home().join("args")).expect("a file");
    let again = dispatch(&[]).exits(2);
    assert!(
        again.stderr.contains("had a secret, which was not kept"),
        "{}",
        again.stderr
    );
    assert!(again.stderr.contains("--command"), "{}", again.stderr);
    assert_eq!(args(), "");
    let _ = dispatch(&["--command", &agent, "--token", token]).exits(6);
    assert_eq!(args(), format!("--token {token}\n"));
}
