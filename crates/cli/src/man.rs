//! `jit man`: prints the manual page of `jit`, or writes a page for each command into a folder.
//!
//! The pages are generated from the whole grammar, without the commands that programs call.

use std::path::PathBuf;

use clap::Command;
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output, invalid, write_file};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --output the page of jit itself is printed.\n\nExamples:\n  jit man | man -l -\n  \
    jit man --output ~/.local/share/man/man1"
)]
pub struct Flags {
    /// Write a page for each command into this folder
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let mut root = (call.program.grammar)();
    root.build();
    let Some(folder) = flags.output else {
        let page = String::from_utf8_lossy(&page(&root)?).into_owned();
        return Ok(call.show(&json!({ "page": page }), |_| page));
    };
    let mut pages = vec![(String::from("jit"), &root)];
    let mut next = 0;
    while next < pages.len() {
        let (name, command) = pages[next].clone();
        let below = command.get_subcommands().filter(|below| !below.is_hide_set());
        pages.extend(below.map(|below| (format!("{name}-{}", below.get_name()), below)));
        next += 1;
    }
    std::fs::create_dir_all(&folder).map_err(invalid)?;
    let mut files = Vec::new();
    for (name, command) in pages {
        files.push(write_file(&folder.join(format!("{name}.1")), &page(command)?)?);
    }
    Ok(call.done(&json!({ "files": files }), &[], |_| {
        let many = files.len();
        format!(
            "Wrote {many} pages into {}\n",
            clean_line(&folder.display().to_string())
        )
    }))
}

fn page(command: &Command) -> Outcome<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .manual("jit")
        .render(&mut page)
        .map_err(invalid)?;
    Ok(page)
}
