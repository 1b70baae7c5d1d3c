//! A job for unit tests.

use std::path::PathBuf;

use crate::agent::Agent;
use crate::job::Job;

/// A job with this prompt, in a temporary folder.
pub fn job(prompt: &str) -> (tempfile::TempDir, Job) {
    let folder = tempfile::tempdir().expect("a folder");
    let prompt_file = folder.path().join("prompt.md");
    std::fs::write(&prompt_file, prompt).expect("a prompt");
    let job = Job {
        unit: "u".parse().expect("a unit"),
        attempt: 1,
        agent: "command".into(),
        worker: "agent:u-1".parse().expect("an agent"),
        dir: PathBuf::from("/tree"),
        prompt_file,
        command: Vec::new(),
        vars: Vec::new(),
        session: None,
        resume: None,
        cost_before: None,
        meter_before: None,
        prices: Vec::new(),
        model: None,
        allowed_tools: Vec::new(),
        permission_mode: None,
        one_shot: false,
        max_turns: None,
        budget: None,
        budget_tokens: None,
        timeout_secs: 60,
        idle_secs: 60,
        linger_secs: 5,
        grace_secs: 5,
        artifacts: Vec::new(),
        artifact_dir: None,
        validate: Vec::new(),
        writes: Vec::new(),
        task: None,
        task_file: None,
        asked: Default::default(),
    };
    (folder, job)
}

/// The arguments that this agent would be started with.
pub fn args(agent: &dyn Agent, job: &Job) -> Vec<String> {
    let launch = agent.launch(job).expect("a launch");
    launch
        .args
        .iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect()
}
