//! Reply of `jit verify`: whether each commit was made under the lease that it names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Verified,
    Violated,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    pub commit: String,
    pub verdict: Verdict,
    pub lease_id: Option<String>,
    pub agent_id: Option<String>,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    pub commits: Vec<Judged>,
}

impl Verified {
    pub fn any(&self, verdict: Verdict) -> bool {
        self.commits.iter().any(|one| one.verdict == verdict)
    }
}
