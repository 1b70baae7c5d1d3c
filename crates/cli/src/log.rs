//! `jit log`: lists the landings: when, which unit, on which branch, by which agent, and the checks that passed.

use jit_core::model::unit::Passed;
use jit_engine::api::landing::Landing;
use jit_engine::api::landing::LandingRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Only this unit: by its name, issue, branch or path
    #[arg(long, value_name = "UNIT")]
    unit: Option<String>,
    /// The newest so many
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(LandingRequest::History {
        unit: flags.unit,
        limit: flags.limit,
    })
}

pub fn text(landed: &[Landing]) -> String {
    if landed.is_empty() {
        return "Nothing has landed yet.\n".into();
    }
    landed
        .iter()
        .map(|one| {
            let commit = one.merge_commit.as_deref().unwrap_or("-");
            let commit: String = commit.chars().take(12).collect();
            let issue = one.issue_id.as_ref().map_or("-".into(), ToString::to_string);
            let passed: Vec<String> = one.tested.iter().map(passed).collect();
            let passed = match passed.as_slice() {
                [] => String::new(),
                all => format!(", passed {}", all.join(", ")),
            };
            format!(
                "{}  {commit:<12}  {}  {issue}  on {} by {}{passed}\n",
                one.landed_at,
                one.unit,
                clean_line(&one.target),
                clean_line(one.made_by.as_str())
            )
        })
        .collect()
}

fn passed(one: &Passed) -> String {
    let name = clean_line(&one.name);
    match one.tests {
        Some(tests) => format!("{name} ({tests} tests)"),
        None => name.to_string(),
    }
}
