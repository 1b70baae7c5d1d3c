//! Secrets in the command line of an agent: they are in no file.
//!
//! What must hold:
//! - `job.json` has the command line with each secret redacted. The process that starts the shim passes the whole
//!   command line on in the shim's environment; the agent does not get that variable;
//! - a shim that was started without it starts no agent, and says why.

use crate::job::Job;
use crate::redact::{REDACTED, Redactor};

/// The variable that passes a command line with secrets to the shim.
const COMMAND: &str = "JIT_AGENT_COMMAND";

/// The words of a command line without their secrets.
fn without_secrets(words: &[String]) -> Vec<String> {
    Redactor::of_process().clean_words(words)
}

/// Whether these words were a command line with secrets.
pub fn had_secrets(words: &[String]) -> bool {
    words.iter().any(|word| word.contains(REDACTED))
}

/// The job as its file keeps it.
pub fn to_keep(job: &Job) -> Job {
    let mut kept = job.clone();
    kept.command = without_secrets(&job.command);
    kept.asked.command = job.asked.command.as_deref().map(without_secrets);
    kept
}

/// The variable that passes this command line on, if its secrets are in no file.
pub fn passed_on(command: &[String]) -> Option<(&'static str, String)> {
    had_secrets(&without_secrets(command))
        .then(|| serde_json::to_string(command).ok())
        .flatten()
        .map(|text| (COMMAND, text))
}

/// Puts the secrets of the command line back that were passed on to this process.
pub fn restore_secrets(job: &mut Job) -> Result<(), String> {
    if !had_secrets(&job.command) {
        return Ok(());
    }
    let passed = std::env::var(COMMAND).ok();
    let passed: Option<Vec<String>> = passed.and_then(|text| serde_json::from_str(&text).ok());
    match passed.filter(|words| without_secrets(words) == job.command) {
        Some(words) => {
            job.command = words;
            Ok(())
        }
        None => Err(format!(
            "the command line of {} has a secret, which jit keeps in no file: dispatch it again with --command",
            job.agent
        )),
    }
}
