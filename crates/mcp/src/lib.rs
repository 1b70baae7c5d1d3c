//! `jit mcp`: the face for agents that speak the Model Context Protocol (I4).
//!
//! It is a codec: a tool call becomes a `Request`, a `Reply` becomes compact JSON. It decides nothing. All of tokio and of
//! the SDK is behind [`serve`], so that no other command pays for it.
//!
//! What must hold:
//! - Standard output carries messages of the protocol and nothing else.
//! - A refusal is an answer of the tool (`isError`, with `code`, `message` and `help`). JSON-RPC errors are for messages
//!   that are not proper calls.
//! - A connection has one agent. The server renews its claims while it is connected (B5). Afterwards they stay until they
//!   expire: an agent that comes back with the same id finds its work as it was.
//! - The server does nothing between calls except renewals. It starts git only where a request needs it.
//!
//! Limitations: calls are carried out one at a time, in the order in which they came. A line may have 16 MiB.
//!
//! Begin reading with `tools.rs` (the table of tools), then `server.rs` and `lease_keeper.rs`.

mod lease_keeper;
mod server;
mod stdio;
mod tools;

use jit_core::model::refusal::{Code, Refusal};
use jit_engine::api::Options;
use jit_store::Outcome;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;

/// Serves the agent on standard input and output until it hangs up.
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
            // The client hung up before it introduced itself.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(e) => Err(failed(e.to_string())),
        };
        renewing.abort();
        keeper.release_locks();
        ended
    });
    // Does not wait for the thread that reads standard input: it may still be blocked.
    runtime.shutdown_background();
    ended
}
