//! `jit mcp`: the program for agents that speak the Model Context Protocol (I4), and how they are told of it.
//!
//! A codec: a tool call becomes a `Request`, a `Reply` becomes compact JSON. Nothing is decided here. All of tokio and of
//! the SDK is behind [`serve`], so that no other command pays for it.
//!
//! What must hold:
//! - standard output carries messages of the protocol and nothing else;
//! - a refusal is an answer of the tool (`isError`, with `code`, `message` and `help`); errors of JSON-RPC are for
//!   messages that are no proper calls;
//! - one agent for each connection; what it claims here is renewed while it is connected (B5), and kept until its time
//!   runs out when it is gone: an agent that comes back under the same id finds its work as it was;
//! - no process is started, and nothing is done while nobody asks, but for the renewals.
//!
//! Limitations: calls are carried out one at a time, in the order in which they came. A line may have 16 MiB.

pub mod install;
mod lease_keeper;
mod server;
mod stdio;
mod tools;

use jit_core::refusal::{Code, Refusal};
use jit_engine::app::Options;
use jit_store::Outcome;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;

/// Serves the agent at the other end of standard input and output until it hangs up.
pub fn serve(options: Options) -> Outcome<()> {
    let failed = |why: String| Box::new(Refusal::new(Code::Io, format!("the MCP server failed: {why}")));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|e| failed(e.to_string()))?;
    let ended = runtime.block_on(async {
        let transport = stdio::Stdio::open().map_err(|e| failed(e.to_string()))?;
        let server = server::Server::new(options);
        let keeper = server.keeper();
        let renewing = tokio::spawn(server.keeper().run());
        let ended = match server.serve(transport).await {
            Ok(running) => running
                .waiting()
                .await
                .map(drop)
                .map_err(|e| failed(e.to_string())),
            // It hung up before it said anything.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(e) => Err(failed(e.to_string())),
        };
        renewing.abort();
        keeper.release_locks();
        ended
    });
    // The thread that reads standard input may be waiting still; it is not waited for.
    runtime.shutdown_background();
    ended
}
