//! Text of replies about hooks.

use jit_engine::api::hooks::{HookReply, HookStatus, InstalledHooks, RemovedHooks, Survey};

use crate::render::{Style, clean_line, table};
use crate::verify;

/// Text of a reply about hooks. Some have none: git and agent programs read them.
pub fn text(reply: &HookReply, style: Style) -> String {
    match reply {
        HookReply::Verified(verified) => verify::text(verified, style),
        // Only a shim asks for it.
        HookReply::Permission(_) => String::new(),
        HookReply::Survey(survey) => survey_text(survey, style),
        HookReply::Installed(done) => installed_text(done, style),
        HookReply::Removed(done) => removed_text(done, style),
        HookReply::Answer(answer) => answer.text.clone(),
        HookReply::Ran(_) | HookReply::Merged(_) | HookReply::AgentHook(_) => String::new(),
    }
}

fn survey_text(survey: &Survey, style: Style) -> String {
    let rows: Vec<Vec<String>> = survey
        .hooks
        .iter()
        .map(|hook| {
            let state = match hook.state {
                HookStatus::Installed => style.good("installed"),
                HookStatus::Edited => style.bold("edited"),
                HookStatus::Foreign => style.bold("foreign"),
                HookStatus::Shadowed => style.bad("shadowed"),
                HookStatus::Missing => style.dim("missing"),
            };
            let first = hook
                .calls_first
                .as_deref()
                .map_or(String::new(), |path| format!("after {}", clean_line(path)));
            vec![hook.name.clone().into_owned(), state, first]
        })
        .collect();
    let mut text = format!("{}\n{}", clean_line(&survey.folder), table(&rows));
    for note in &survey.notes {
        text.push_str(&format!("{} {}\n", style.bold("!"), clean_line(note)));
    }
    text
}

fn steps_text(steps: &[String]) -> String {
    steps
        .iter()
        .map(|step| format!("  {}\n", clean_line(step)))
        .collect()
}

fn installed_text(done: &InstalledHooks, style: Style) -> String {
    let mut text = steps_text(&done.steps);
    for note in &done.notes {
        text.push_str(&format!("{} {}\n", style.bold("!"), clean_line(note)));
    }
    let folder = clean_line(&done.folder);
    text.push_str(&match (done.dry_run, done.steps.is_empty()) {
        (_, true) => format!("The hooks are in {folder} already; nothing was changed.\n"),
        (true, false) => "That is what would be done.\n".to_owned(),
        (false, false) => format!("{} hooks are in {folder}\n", style.good("✓")),
    });
    text
}

fn removed_text(done: &RemovedHooks, style: Style) -> String {
    let mut text = steps_text(&done.steps);
    for left in &done.kept {
        let (path, why) = (clean_line(&left.path), clean_line(&left.why));
        text.push_str(&format!("Kept: {path} ({why})\n"));
    }
    text.push_str(&match (done.dry_run, done.steps.is_empty()) {
        (_, true) => "There are no hooks of jit's here.\n".to_owned(),
        (true, false) => "That is what would be done.\n".to_owned(),
        (false, false) => format!("{} the hooks are as they were before\n", style.good("✓")),
    });
    text
}
