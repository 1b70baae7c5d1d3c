//! Gate files that only the trees had and git did not: `jit uninstall` exports them, and `jit` imports them again.
//!
//! Only definitions are imported. Results are exported for reading: the log decides which result counts, and it is
//! gone.

use std::collections::BTreeMap;
use std::path::Path;

use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;
use serde::{Deserialize, Serialize};

use super::json;
use super::registry::Registry;
use crate::api::gates::{Gate, GateName};

/// A gate file of a worktree, unchanged.
#[derive(Debug, Serialize, Deserialize)]
pub struct GateFile {
    pub path: String,
    pub text: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct GateExport {
    schema_version: u32,
    files: Vec<GateFile>,
}

impl GateExport {
    pub fn new(files: Vec<GateFile>) -> Self {
        Self {
            schema_version: json::SCHEMA,
            files,
        }
    }

    /// Returns the gates that an exported file defines.
    pub fn definitions(file: &Path, bytes: &[u8]) -> Outcome<Vec<(GateName, Gate)>> {
        let export: Self = json::decode(file, bytes)?;
        let mut all: BTreeMap<GateName, Gate> = BTreeMap::new();
        for one in export.files {
            let path = Path::new(&one.path);
            if !path.ends_with(".jit/gates/registry.json") {
                continue;
            }
            for (name, gate) in Registry::parse(path, one.text.as_bytes())?.iter() {
                match all.insert(name.clone(), gate.clone()) {
                    Some(other) if other != *gate => {
                        let message = format!(
                            "{} has {name} twice, from trees that defined it differently",
                            file.display()
                        );
                        let refusal = Refusal::new(Code::Invalid, message);
                        return Err(Box::new(
                            refusal.help(format!("jit gate define {name} --command …")),
                        ));
                    }
                    _ => {}
                }
            }
        }
        Ok(all.into_iter().collect())
    }
}
