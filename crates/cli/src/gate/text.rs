//! Text of gates and their results.

use crate::render::{Style, clean, clean_line, table};
use jit_engine::api::gates::GateReport;
use jit_engine::api::gates::GateStatus;
use jit_engine::api::gates::GateView;
use jit_engine::api::gates::{GateReply, Gates};
use jit_engine::api::gates::{GateResult, Status};
use std::path::Path;

/// Text of a reply about gates.
pub fn text(reply: &GateReply, style: Style) -> String {
    match reply {
        GateReply::Gates(Gates { gates }) => gates_text(gates, style),
        GateReply::Report(report) => report_text(report, None, style),
        GateReply::Judged(result) => format!("{}\n", if result.passed { "passed" } else { "failed" }),
    }
}

/// Number of output lines that are shown for a failed gate.
const TAIL: usize = 20;

/// Formats all gates, or the gates of one issue with their status.
pub fn gates_text(gates: &[GateView], style: Style) -> String {
    if gates.is_empty() {
        return "No gates.\n".into();
    }
    let row = |gate: &GateView| {
        let what = match (&gate.command, gate.manual) {
            (Some(command), _) => clean_line(command),
            (None, true) => "(somebody has to look)".to_owned(),
            (None, false) => "(not defined)".to_owned(),
        };
        let mut row = vec![clean_line(&gate.name)];
        row.extend(gate.standing.as_ref().map(|standing| {
            match standing.status {
                GateStatus::Passed => "passed",
                GateStatus::Failed => "failed",
                GateStatus::Missing => "missing",
            }
            .to_owned()
        }));
        row.push(what + &style.dim(&remarks(gate)));
        row
    };
    table(&gates.iter().map(row).collect::<Vec<_>>())
}

fn remarks(gate: &GateView) -> String {
    let mut remarks = Vec::new();
    if let Some(standing) = &gate.standing {
        if let (Some(by), Some(at)) = (&standing.by, &standing.at) {
            remarks.push(format!("{} at {at}", clean_line(by.as_str())));
        }
        remarks.extend(standing.note.as_ref().map(|note| clean_line(note)));
        if standing.status == GateStatus::Passed && !standing.counts {
            remarks.push("does not count: defined anew since, run or pass it again".to_owned());
        } else if standing.stale {
            remarks.push("stale: on other content than is here now".to_owned());
        }
        if !standing.required {
            remarks.push("not required".to_owned());
        }
    } else if !gate.required_for.is_empty() {
        remarks.push(format!(
            "required for {}",
            clean_line(&gate.required_for.join(", "))
        ));
    }
    if gate.trusted == Some(false) {
        remarks.push("not approved on this machine: jit trust".to_owned());
    }
    if remarks.is_empty() {
        String::new()
    } else {
        format!("  ({})", remarks.join("; "))
    }
}

/// Formats the results of gates. `control` is the folder that has the files with the whole output.
pub fn report_text(report: &GateReport, control: Option<&Path>, style: Style) -> String {
    let mut out = String::new();
    for gate in &report.gates {
        out.push_str(&line(&gate.name, &gate.result, style));
        if gate.result.status == Status::Failed {
            out.push_str(&tail(&gate.result, control));
        }
    }
    if report.gates.is_empty() {
        out.push_str(&format!("{} has no gate to run.\n", report.issue_id));
    }
    if !report.missing.is_empty() {
        out.push_str(&format!(
            "{} has not passed: {}\n",
            report.issue_id,
            clean_line(&report.missing.join(", "))
        ));
    }
    if let Some(next) = &report.next {
        out.push_str(&format!("All gates have passed: {next}\n"));
    }
    out
}

fn line(name: &str, result: &GateResult, style: Style) -> String {
    let (mark, word) = match result.status {
        Status::Passed => (style.good("✓"), "passed"),
        Status::Failed => (style.bad("✗"), "failed"),
    };
    let took = result.duration_ms.map_or(String::new(), |ms| {
        format!(" after {}.{}s", ms / 1000, ms % 1000 / 100)
    });
    let why = result.reason.as_ref().or(result.note.as_ref());
    let why = why.map_or(String::new(), |why| format!(": {}", clean_line(why)));
    format!("{mark} {} {word}{took}{why}\n", clean_line(name))
}

/// Returns the last lines of the output, and the path of the whole output.
fn tail(result: &GateResult, control: Option<&Path>) -> String {
    let text = clean(&result.output);
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines.get(lines.len().saturating_sub(TAIL)..).unwrap_or_default();
    let mut out: String = shown.iter().map(|line| format!("    {line}\n")).collect();
    if (lines.len() > TAIL || result.output_truncated)
        && let (Some(control), Some(file)) = (control, &result.output_file)
    {
        let path = control.join(file);
        out.push_str(&format!(
            "    (all of it: {})\n",
            clean_line(&path.to_string_lossy())
        ));
    }
    out
}
