use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;

use jit_core::issue_file::{EXACT, MAX_FILE};
use jit_core::merge::{merge, render};
use jit_core::refusal::{Code, Refusal};
use jit_engine::os::file;
use jit_engine::store::Outcome;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

use super::{Cx, Output, invalid};
use crate::render::{clean_line, say};

#[derive(Debug, clap::Args)]
pub struct Flags {
    base: PathBuf,
    ours: PathBuf,
    theirs: PathBuf,
    /// Where the file is in the repository, for messages
    path: Option<String>,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let shown = flags.path.as_deref().unwrap_or("the file");
    let read = |path: &PathBuf, side: &str| -> Outcome<Option<Map<String, Value>>> {
        let bytes = file::read_real(path, MAX_FILE).map_err(invalid)?;
        let bytes = bytes.ok_or_else(|| invalid(format!("{} is not there", path.display())))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let fields =
            serde_json::from_slice(&bytes).map_err(|e| invalid(format!("{shown} is not an issue: {e}")))?;
        // What would not be written as it was read is left to a person, with both sides as they are.
        serde_json::from_slice::<Exact>(&bytes).map_err(|e| {
            let message = format!("{shown} is not merged, {side}: {e}");
            Box::new(Refusal::new(Code::Invalid, message).help(format!(
                "git checkout --ours -- {shown}, or --theirs; mend it, then: git add {shown}"
            )))
        })?;
        Ok(Some(fields))
    };
    let base = read(&flags.base, "what both sides began with")?;
    let (ours, theirs) = (read(&flags.ours, "our side")?, read(&flags.theirs, "their side")?);
    let merged = merge(
        base.as_ref(),
        &ours.unwrap_or_default(),
        &theirs.unwrap_or_default(),
    );
    let text = render(&merged);
    file::replace(&flags.ours, text.as_bytes()).map_err(invalid)?;
    if merged.conflicts.is_empty() {
        jit_engine::hooks::remember_merged(text.as_bytes());
    }
    let fields: Vec<&str> = merged
        .conflicts
        .iter()
        .map(|conflict| conflict.field.as_str())
        .collect();
    if !fields.is_empty() && !cx.json() {
        let path = flags.path.as_deref().unwrap_or("an issue");
        say(&clean_line(&format!(
            "jit: {path}: both sides changed {}",
            fields.join(", ")
        )));
    }
    let code = u8::from(!fields.is_empty());
    Ok(cx
        .show(&json!({ "conflicts": fields }), |_| String::new())
        .exit(code))
}

/// JSON that is written as it was read: no key comes twice, and no number is rounded.
struct Exact;

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Exact {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Self, E> {
        match number.abs() < EXACT {
            true => Ok(self),
            false => Err(E::custom(
                "a number so large is not kept to the digit: write it as a text",
            )),
        }
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self, A::Error> {
        while all.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Self, A::Error> {
        let mut names = HashSet::new();
        while let Some((name, _)) = all.next_entry::<String, Self>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format!("{name:?} is there twice")));
            }
            names.insert(name);
        }
        Ok(self)
    }
}
