//! Delivers a notification by the ways that the user's settings name.
//!
//! What must hold:
//!
//! - A program is started with its arguments as configured, never through a shell. It gets the notification as JSON
//!   on its standard input.
//! - A webhook is called by `curl`, which gets everything on its standard input: every user of the machine can read
//!   argument lists.
//! - No redirect is followed, and only http and https are used.
//! - A delivery that exceeds its timeout is ended, together with all processes in its group.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jit_agents::redact::Redactor;
use jit_agents::short;
use jit_os::{children, process};
use rustix::process::{Signal, kill_process_group};

use super::Notice;
use crate::api::notify::Sent;
use crate::config::Notifying;

/// Delivers by every configured way.
pub fn all(set: &Notifying, notice: &Notice) -> Vec<Sent> {
    let mut sent = Vec::new();
    let json = serde_json::to_string(notice).unwrap_or_default();
    let mut note = |way: &'static str, done: Result<(), String>| {
        let why = done
            .err()
            .map(|why| Redactor::of_process().clean(&why).into_owned());
        sent.push(Sent {
            way: way.into(),
            ok: why.is_none(),
            why,
        });
    };
    if let Some((program, args)) = set.command.split_first() {
        note("command", by_command(program, args, &json, set.timeout));
    }
    if !set.webhook.is_empty() {
        note("webhook", by_webhook(&set.webhook, &json, set.timeout));
    }
    sent
}

fn by_command(program: &str, args: &[String], json: &str, timeout: Duration) -> Result<(), String> {
    run(
        Command::new(program).args(args),
        program,
        format!("{json}\n").as_bytes(),
        timeout,
    )
}

fn by_webhook(address: &str, json: &str, timeout: Duration) -> Result<(), String> {
    let secs = timeout.as_secs().max(1);
    let config = format!(
        "url = {}\nrequest = \"POST\"\nheader = \"Content-Type: application/json\"\nheader = \"Expect:\"\nuser-agent = \"jit\"\n\
         data-raw = {}\nmax-time = {secs}\nproto = \"=http,https\"\nmax-redirs = 0\nsilent\nshow-error\nfail\noutput = \"/dev/null\"\n",
        quoted(address),
        quoted(json)
    );
    // Without the user's own curl configuration, which could follow redirects or store data.
    run(
        Command::new("curl").args(["-q", "--config", "-"]),
        "curl",
        config.as_bytes(),
        timeout + Duration::from_secs(1),
    )
}

/// Quotes a value for a configuration of curl.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0' => {}
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn run(command: &mut Command, name: &str, input: &[u8], timeout: Duration) -> Result<(), String> {
    let until = Instant::now() + timeout;
    children::own_session(command);
    // The program is not an agent, so it does not inherit these variables of the coordinator.
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("JIT_") || name_text.starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{name}: {e}"))?;
    // The input is smaller than any pipe buffer, so the program need not read it.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input);
    }
    let stderr = child.stderr.take();
    // All output is read, so that the program never blocks on a full pipe, but not longer than the timeout.
    let (say, said) = std::sync::mpsc::channel();
    let listener = std::thread::Builder::new().spawn(move || {
        let mut text = Vec::new();
        if let Some(stderr) = stderr {
            let _ = stderr.take(2_000).read_to_end(&mut text);
        }
        let _ = say.send(text);
    });
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if Instant::now() >= until => {
                // The child was not waited for yet, so its process id and group id still belong to it.
                if let Some(group) = process::raw(child.id()) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.kill();
                let _ = child.wait();
                break Err(format!("{name}: it took longer than {} s", timeout.as_secs()));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(10)),
            Err(e) => break Err(format!("{name}: {e}")),
        }
    }?;
    if status.success() {
        return Ok(());
    }
    let text = match listener {
        Ok(_) => said.recv_timeout(Duration::from_millis(200)).unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let text = String::from_utf8_lossy(&text);
    let last = text
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    Err(match last {
        "" => format!("{name}: {status}"),
        last => format!("{name}: {status}: {}", short(last.trim(), 200)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g13_values_for_curl_cannot_end_early() {
        assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
        assert_eq!(quoted("x\0\"\noutput = \"/etc/x"), r#""x\"\noutput = \"/etc/x""#);
    }

    #[test]
    fn g13_a_program_that_fails_hangs_or_is_not_there_is_told_of_in_time() {
        let long = Duration::from_secs(60);
        let words = |all: &[&str]| -> Vec<String> { all.iter().map(|word| (*word).to_owned()).collect() };
        assert_eq!(by_command("true", &[], "{}", long), Ok(()));
        let failed = by_command(
            "sh",
            &words(&["-c", "echo one >&2; echo two >&2; exit 3"]),
            "{}",
            long,
        );
        assert!(
            failed
                .as_ref()
                .is_err_and(|why| why.contains("3") && why.contains("two")),
            "{failed:?}"
        );
        assert!(by_command("/nowhere/at/all", &[], "{}", long).is_err());
        let hangs = words(&["-c", "sleep 600 & wait"]);
        let hung = by_command("sh", &hangs, "{}", Duration::from_millis(50));
        assert!(hung.is_err_and(|why| why.contains("longer")));
    }
}
