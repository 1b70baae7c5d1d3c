//! Locks files against edits by other agents (F2). The server renews the locks like claims.

use jit_engine::api::file_locks::FileLockReply;
use jit_engine::api::file_locks::FileLockRequest;
use jit_engine::api::file_locks::Locks;
use jit_engine::api::file_locks::ReleasedLocks;
use jit_engine::api::path::ApiPath;

use jit_core::model::scope::LockScope;
use jit_core::query::session_and_lock_views::LockView;
use jit_engine::api::Reply;
use jit_engine::api::file_locks::{LockPaths, OwnLocks};
use jit_store::Outcome;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Length, Tool, ToolCall, invalid, read, seconds, unexpected};

pub static LOCK: Tool = Tool {
    name: "lock",
    about: "Lock files before you edit them, all or none: paths, folders (dir/) or patterns. Kept while connected.",
    takes: r#"{"paths":{"type":"array","items":{"type":"string"}},"shared":{"type":"boolean","description":"others may share"},"scope":{"type":"string","enum":["worktree","global"]},"ttl":{"type":"string"}}"#,
    needs: &["paths"],
    run: lock,
};

pub static UNLOCK: Tool = Tool {
    name: "unlock",
    about: "Let go of files as you locked them; without paths, of all.",
    takes: r#"{"paths":{"type":"array","items":{"type":"string"}}}"#,
    needs: &[],
    run: unlock,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockArgs {
    paths: Vec<String>,
    shared: Option<bool>,
    scope: Option<LockScope>,
    ttl: Option<Length>,
}

/// The fields of a lock in answers.
fn brief(lock: &LockView) -> Value {
    json!({ "path": lock.file_path, "type": lock.lock_type, "scope": lock.lock_scope, "expires_at": lock.expires_at })
}

fn lock(call: &mut ToolCall<'_>, given: JsonObject) -> Outcome<Value> {
    let asked: LockArgs = read(given)?;
    if asked.paths.is_empty() {
        return Err(invalid("paths: name at least one"));
    }
    let paths = LockPaths {
        paths: asked.paths.into_iter().map(ApiPath::from).collect(),
        literal: false,
        shared: asked.shared.unwrap_or(false),
        scope: asked.scope,
        ttl_secs: seconds(asked.ttl)?,
    };
    match call.ask(FileLockRequest::Acquire {
        paths,
        wait_secs: None,
    })? {
        Reply::FileLocks(FileLockReply::Locks(Locks { locks })) => {
            for lock in &locks {
                call.keeper.begin_lock(lock);
            }
            let locks: Vec<Value> = locks.iter().map(brief).collect();
            Ok(json!({ "locks": locks }))
        }
        other => Err(unexpected(&other)),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnlockArgs {
    paths: Option<Vec<String>>,
}

fn unlock(call: &mut ToolCall<'_>, given: JsonObject) -> Outcome<Value> {
    let UnlockArgs { paths } = read(given)?;
    let which = match paths {
        None => OwnLocks::All,
        Some(paths) if paths.is_empty() => {
            return Err(invalid(
                "paths: name at least one, or leave them out to unlock all",
            ));
        }
        Some(paths) => OwnLocks::Paths(paths.into_iter().map(ApiPath::from).collect()),
    };
    match call.ask(FileLockRequest::Release { which })? {
        Reply::FileLocks(FileLockReply::Released(ReleasedLocks { released })) => {
            for lock in &released {
                call.keeper.end_lease(&lock.lease_id);
            }
            let paths: Vec<String> = released.into_iter().map(|lock| lock.file_path).collect();
            Ok(json!({ "unlocked": paths }))
        }
        other => Err(unexpected(&other)),
    }
}
