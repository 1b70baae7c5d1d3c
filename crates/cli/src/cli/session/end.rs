use jit_core::ids::SessionId;
use jit_core::session::Status;
use jit_engine::api::Request;
use jit_store::Outcome;

use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Yours when not given
    session: Option<SessionId>,
    /// How it ended: completed or failed
    #[arg(long, value_name = "STATUS", default_value = "completed", value_parser = ended)]
    status: Status,
}

fn ended(text: &str) -> Result<Status, String> {
    match text.parse() {
        Ok(status @ (Status::Completed | Status::Failed)) => Ok(status),
        _ => Err("a session ends as completed or failed".to_owned()),
    }
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(Request::EndSession {
        session: flags.session,
        status: flags.status,
    })
}
