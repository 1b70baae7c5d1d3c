//! Records of JSON, one a line or all in one array, read field by field.
//!
//! A field that is not what it should be is a warning, not the end of its record. Nothing is copied before it is
//! wanted, nesting costs no stack, and of a field that is there twice the last counts. What nobody asked for is named in a
//! warning, as is what is there twice.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{ForeignIssue, MAX_COMMENTS, MAX_LIST, Parsed, time, word, word_of};
use crate::issue_files::{format, strict_json};
use crate::model::issue::check_word;
use crate::model::time::Wall;

/// Longest record, in bytes: a full description in which every byte is escaped still fits.
const MAX_RECORD: usize = 32 << 20;
/// Fields of one record that are looked at.
const MAX_FIELDS: usize = 200;
/// Names of fields that are told in one warning.
const MAX_TOLD: usize = 20;

/// Reads every record of a file. `issue` makes one issue of a record, or says why it cannot.
pub(super) fn read(
    bytes: &[u8],
    mut issue: impl FnMut(&mut Record<'_>, usize) -> Result<Option<ForeignIssue>, String>,
) -> Parsed {
    let mut parsed = Parsed::default();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut places = Vec::new();
    let mut one = |parsed: &mut Parsed, line: usize, text: &str| {
        if text.len() > MAX_RECORD {
            parsed.problem(
                None,
                line,
                format!("the record is longer than {MAX_RECORD} bytes"),
            );
            return;
        }
        let made = Record::parse(text).and_then(|mut record| {
            let made = issue(&mut record, line)?;
            Ok(made.map(|mut made| {
                record.tell_unread();
                record.warnings.into_iter().for_each(|warning| made.warn(warning));
                made
            }))
        });
        match made {
            Ok(made) => {
                places.extend(made.is_some().then_some((None, line)));
                parsed.issues.extend(made);
            }
            Err(what) => parsed.problem(None, line, what),
        }
    };
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        read_array(bytes, &mut parsed, &mut one);
    } else {
        for (number, line) in bytes.split(|&b| b == b'\n').enumerate() {
            match std::str::from_utf8(line) {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => one(&mut parsed, number + 1, line.trim()),
                Err(_) => parsed.problem(None, number + 1, "the line is not UTF-8"),
            }
        }
    }
    parsed.settled(&places)
}

fn read_array(bytes: &[u8], parsed: &mut Parsed, one: &mut impl FnMut(&mut Parsed, usize, &str)) {
    let text = String::from_utf8_lossy(bytes);
    if matches!(text, Cow::Owned(_)) {
        parsed.problem(
            None,
            0,
            "the file is not UTF-8: what could not be read is shown as \u{fffd}",
        );
    }
    let mut records = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(&text);
    let end = de::Deserializer::deserialize_seq(&mut reader, Gather(&mut records));
    let (mut line, mut counted) = (1, 0);
    for record in records {
        let start = (record.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        line += text.as_bytes()[counted..start]
            .iter()
            .filter(|&&b| b == b'\n')
            .count();
        counted = start;
        one(parsed, line, record.get());
    }
    // Records before the broken end of the array are kept.
    if let Err(error) = end.and_then(|()| reader.end()) {
        parsed.problem(None, error.line(), format!("the array ends early: {error}"));
    }
}

/// Puts the items of an array where they stay even if a later one cannot be read.
struct Gather<'v, 'a>(&'v mut Vec<&'a RawValue>);

impl<'a> Visitor<'a> for Gather<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            self.0.push(item);
        }
        Ok(())
    }
}

/// The fields of a JSON object, not yet read.
#[derive(Default)]
pub(super) struct Record<'a> {
    fields: BTreeMap<Cow<'a, str>, &'a RawValue>,
    /// Those that somebody asked for.
    asked: BTreeSet<String>,
    /// We wrote it ourselves: words stay as they are, and there may be any number of comments.
    pub is_own: bool,
    pub warnings: Vec<String>,
}

impl<'a> Record<'a> {
    pub fn parse(text: &'a str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => "the record is not an object".to_owned(),
            _ => format!("the record is not JSON: {error}"),
        })
    }

    fn raw(&mut self, name: &str) -> Option<&'a RawValue> {
        let raw = self.fields.get(name).copied()?;
        self.asked.insert(name.to_owned());
        Some(raw)
    }

    /// These mean nothing here, and nobody misses them.
    pub fn pass_over(&mut self, names: &[&str]) {
        self.asked.extend(names.iter().map(|name| (*name).to_owned()));
    }

    /// Fields that say something and that nobody asked for.
    fn tell_unread(&mut self) {
        let says = |raw: &RawValue| !matches!(raw.get(), "null" | "false" | "\"\"" | "[]" | "{}");
        let unread = self.fields.iter().filter(|(_, raw)| says(raw));
        let names: Vec<String> = unread
            .filter(|(name, _)| !self.asked.contains(name.as_ref()))
            .map(|(name, _)| word(name))
            .collect();
        if !names.is_empty() {
            let more = match names.len() {
                0..=MAX_TOLD => String::new(),
                many => format!(" and {} more", many - MAX_TOLD),
            };
            let told = names[..names.len().min(MAX_TOLD)].join(", ");
            self.warnings
                .push(format!("left out, as nothing here is called so: {told}{more}"));
        }
    }

    /// Takes over what was noticed about a record within this one.
    pub fn noticed(&mut self, what: &str, within: Record<'_>) {
        let said = within.warnings.into_iter();
        self.warnings
            .extend(said.map(|warning| format!("{what}: {warning}")));
    }

    fn fit(&mut self, text: String, what: &str) -> String {
        match self.is_own && check_word(&text).is_ok() {
            true => text,
            false => word_of(&text, what, &mut self.warnings),
        }
    }

    fn read<T: Deserialize<'a>>(&mut self, name: &str, wanted: &str) -> Option<T> {
        let raw = self.raw(name)?;
        if raw.get() == "null" {
            return None;
        }
        let value = serde_json::from_str(raw.get()).ok();
        if value.is_none() {
            self.warnings.push(format!("{name} is not {wanted}: left out"));
        }
        value
    }

    /// Identifies this record by its content, wherever it stands in a file.
    pub fn digest(&self) -> String {
        let mut all = String::new();
        for (name, value) in &self.fields {
            // Names are told from values by a character that neither can hold.
            all.push_str(&format!("{name}\0{}\0", value.get()));
        }
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(all.as_bytes()))
    }

    pub fn text(&mut self, name: &str) -> Option<String> {
        self.read(name, "text")
    }

    /// A text where there is one; anything else is passed over without a word.
    pub fn plain_text(&mut self, name: &str) -> Option<String> {
        serde_json::from_str(self.raw(name)?.get())
            .ok()
            .filter(|text: &String| !text.is_empty())
    }

    /// Whether it says anything of that name.
    pub fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// Whether it is the JSON word `true`.
    pub fn is_true(&mut self, name: &str) -> bool {
        self.raw(name).is_some_and(|raw| raw.get() == "true")
    }

    /// A text that is not empty, on one line, not longer than a word may be.
    pub fn word(&mut self, name: &str) -> Option<String> {
        let text = self.text(name)?;
        Some(self.fit(text, name)).filter(|word| !word.is_empty())
    }

    /// A number, or a text: some trackers cannot decide.
    pub fn number_or_word(&mut self, name: &str) -> Option<String> {
        let raw = self.raw(name).map_or("", RawValue::get);
        if raw.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            return Some(word(raw));
        }
        self.word(name)
    }

    pub fn time(&mut self, name: &str) -> Option<Wall> {
        let text = self.text(name).filter(|text| !text.is_empty())?;
        // Go and GitHub write this for "never".
        if text.starts_with("0001-01-01") {
            return None;
        }
        let found = time(&text);
        if found.is_none() {
            self.warnings.push(format!("{name} is not a time: left out"));
        }
        found
    }

    fn items(&mut self, name: &str, most: usize) -> Vec<&'a RawValue> {
        let mut items: Vec<&RawValue> = self.read(name, "a list").unwrap_or_default();
        if items.len() > most {
            self.warnings
                .push(format!("only the first {most} of {name} are kept"));
            items.truncate(most);
        }
        items
    }

    /// A list of texts, of numbers, or of objects that carry the text in a field called `inner`.
    pub fn words(&mut self, name: &str, inner: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for item in self.items(name, MAX_LIST) {
            let text = match item.get() {
                number if number.starts_with(|c: char| c.is_ascii_digit()) => Some(word(number)),
                text if text.starts_with('"') => serde_json::from_str(text).ok(),
                other => Record::parse(other).ok().and_then(|mut item| item.text(inner)),
            };
            let what = format!("an item of {name}");
            match text.map(|text: String| self.fit(text, &what)) {
                Some(word) if word.is_empty() || words.contains(&word) => {}
                Some(word) => words.push(word),
                None => self
                    .warnings
                    .push(format!("{name} has an item that is not text: left out")),
            }
        }
        words
    }

    /// Fields that this program does not know, as an export has them.
    pub fn others(&mut self, name: &str) -> BTreeMap<String, Value> {
        let written = self.fields.get(name).map_or("null", |raw| raw.get());
        let exact = strict_json::check(written.as_bytes()).map_err(|e| e.to_string());
        let others: BTreeMap<String, Value> = self.read(name, "an object").unwrap_or_default();
        match exact.and_then(|()| format::check_others(&others)) {
            Ok(()) => others,
            Err(why) => {
                self.warnings.push(format!("{name}: {why}: left out"));
                BTreeMap::new()
            }
        }
    }

    pub fn record(&mut self, name: &str) -> Option<Record<'a>> {
        self.read(name, "an object")
    }

    pub fn records(&mut self, name: &str) -> Vec<Record<'a>> {
        let mut records = Vec::new();
        let most = if self.is_own { usize::MAX } else { MAX_COMMENTS };
        for item in self.items(name, most) {
            match Record::parse(item.get()) {
                Ok(record) => records.push(record),
                Err(_) => self
                    .warnings
                    .push(format!("{name} has an item that is not an object: left out")),
            }
        }
        records
    }
}

impl<'de> Deserialize<'de> for Record<'de> {
    fn deserialize<D: de::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Record<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record<'de>, A::Error> {
                let (mut record, mut is_cut) = (Record::default(), false);
                while let Some(Name(name)) = map.next_key()? {
                    let is_twice = record.fields.contains_key(&name);
                    if is_twice {
                        let name = word(&name);
                        record
                            .warnings
                            .push(format!("{name} is there more than once: the last counts"));
                    }
                    if record.fields.len() < MAX_FIELDS || is_twice {
                        record.fields.insert(name, map.next_value()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                        is_cut = true;
                    }
                }
                if is_cut {
                    record
                        .warnings
                        .push(format!("only the first {MAX_FIELDS} fields are looked at"));
                }
                Ok(record)
            }
        }
        from.deserialize_map(Fields)
    }
}

/// The name of a field, copied only if it was escaped.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
