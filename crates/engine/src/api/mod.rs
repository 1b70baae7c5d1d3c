//! The API: one [`Request`] type and one [`Reply`] type for the command line and every other surface. A surface
//! converts its own language into a [`Request`], and the [`Reply`] back. It decides nothing.
//!
//! Both are grouped by noun, one file a noun, and travel as JSON both ways. Beside each variant of a request stand its
//! facts: whether it writes, and what of the tree it needs.

pub mod attempts;
pub mod claims;
pub mod config;
pub mod content;
pub mod doctor;
pub mod facts;
pub mod file_locks;
pub mod gates;
pub mod hooks;
pub mod init;
pub mod issue_list;
pub mod issues;
pub mod landing;
pub mod notify;
mod options;
pub mod overview;
pub mod path;
pub mod rescue;
pub mod sessions;
pub mod setup;
pub mod stream;
pub mod trust;
pub mod units;
pub mod verify;
pub mod workflows;
pub mod worktrees;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

pub use options::Options;

use attempts::{AttemptReply, AttemptRequest};
use claims::{ClaimReply, ClaimRequest};
use config::{ConfigReply, ConfigRequest};
use doctor::{DoctorReply, DoctorRequest};
use facts::Facts;
use file_locks::{FileLockReply, FileLockRequest};
use gates::{GateReply, GateRequest};
use hooks::{HookReply, HookRequest};
use issues::{IssueReply, IssueRequest};
use landing::{LandingReply, LandingRequest};
use notify::{NotifyReply, NotifyRequest};
use overview::{OverviewReply, OverviewRequest};
use rescue::{RescueReply, RescueRequest};
use sessions::{SessionReply, SessionRequest};
use setup::{SetupReply, SetupRequest};
use trust::{TrustReply, TrustRequest};
use units::{UnitReply, UnitRequest};
use workflows::{WorkflowReply, WorkflowRequest};

/// Defines [`Request`] and [`Reply`] from the nouns.
macro_rules! nouns {
    ( $( $noun:ident ( $request:ty, $reply:ty ) ),* $(,)? ) => {
        /// A request to the engine.
        #[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Request {
            $( $noun($request) ),*
        }

        /// The reply to a request. As part of the API it is tagged with its noun and name; [`Reply::value`] is the
        /// documented JSON of the command line.
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Reply {
            $( $noun($reply) ),*
        }

        impl Request {
            pub fn facts(&self) -> Facts {
                match self {
                    $( Self::$noun(request) => request.facts() ),*
                }
            }
        }

        impl Serialize for ReplyValue<'_> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self.0 {
                    $( Reply::$noun(reply) => reply.serialize_value(to) ),*
                }
            }
        }

        $(
            impl From<$request> for Request {
                fn from(request: $request) -> Self {
                    Self::$noun(request)
                }
            }

            impl From<$reply> for Reply {
                fn from(reply: $reply) -> Self {
                    Self::$noun(reply)
                }
            }
        )*
    };
}

nouns! {
    Claims(ClaimRequest, ClaimReply),
    Issues(IssueRequest, IssueReply),
    Gates(GateRequest, GateReply),
    Trust(TrustRequest, TrustReply),
    Overview(OverviewRequest, OverviewReply),
    Units(UnitRequest, UnitReply),
    Attempts(AttemptRequest, AttemptReply),
    Workflows(WorkflowRequest, WorkflowReply),
    Landing(LandingRequest, LandingReply),
    Rescue(RescueRequest, RescueReply),
    Sessions(SessionRequest, SessionReply),
    FileLocks(FileLockRequest, FileLockReply),
    Hooks(HookRequest, HookReply),
    Notify(NotifyRequest, NotifyReply),
    Setup(SetupRequest, SetupReply),
    Config(ConfigRequest, ConfigReply),
    Doctor(DoctorRequest, DoctorReply),
}

/// A reply without the names of its noun and variant.
#[derive(Debug)]
pub struct ReplyValue<'a>(&'a Reply);

impl Reply {
    /// Returns the reply as the documented JSON of the command line has it.
    pub fn value(&self) -> ReplyValue<'_> {
        ReplyValue(self)
    }
}

/// A reply, and the warnings that belong to it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    pub reply: Reply,
    /// Findings beside the request. They are never part of the reply itself.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests;
