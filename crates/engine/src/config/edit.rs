//! Changes one setting in a file.
//!
//! Invariants:
//! - Everything else in the file stays as it is, including comments and order.
//! - The file is written only if the result is valid as a whole.
//! - A reader sees the old file or the new one.
//! - Two concurrent changes are both kept.
//! - A repository's file is not written through a symbolic link, which may come from a clone. The user's own may be one.

use std::io;
use std::path::Path;

use jit_os::file;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

use super::keys::{Key, Kind, Value};
use super::{Config, ConfigError, Document, Layer, Origin, does_not_fit, require_key};

/// Sets `key` to the typed text in the user's own file, which is created if missing. Returns the value.
pub fn set(path: &Path, key: &str, text: &str) -> Result<Value, ConfigError> {
    set_in(Layer::User, path, key, text)
}

/// Does the same in a repository's file.
pub fn set_in_repository(path: &Path, key: &str, text: &str) -> Result<Value, ConfigError> {
    set_in(Layer::Repository, path, key, text)
}

fn set_in(layer: Layer, path: &Path, key: &str, text: &str) -> Result<Value, ConfigError> {
    let known = require_key(key)?;
    let at = || Origin::File {
        file: path.into(),
        line: 1,
        column: 1,
    };
    let checked = known
        .from_text(text)
        .map_err(|misfit| does_not_fit(misfit, key.to_owned(), at()))?;
    let item = item(known, &checked, text);
    let failed = |source: io::Error| ConfigError::Write {
        file: path.to_owned(),
        source,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    match layer {
        Layer::User => std::fs::create_dir_all(folder).map_err(failed)?,
        Layer::Repository => {
            file::ensure_real_dir(folder).map_err(failed)?;
            file::refuse_link(path).map_err(failed)?;
        }
    }
    let _lock = file::lock_folder(folder).map_err(failed)?;
    let old = old_text(path)?;
    let mut document: DocumentMut = old.parse().map_err(|error: toml_edit::TomlError| {
        let document = Document {
            file: path.into(),
            text: &old,
        };
        ConfigError::Syntax {
            at: document.origin(error.span().map_or(0, |span| span.start)),
            why: error.message().to_owned(),
        }
    })?;
    let header = key.rsplit_once('.').map_or("", |(table, _)| table);
    let is_new = find(document.as_table_mut(), header).is_none();
    put(document.as_table_mut(), key, item).map_err(|part| ConfigError::WrongType {
        at: at(),
        key: part,
        expected: "a table".to_owned(),
        found: "something else".to_owned(),
    })?;
    if is_new {
        // At the very end: text after the last table, mostly comments, belongs to that table.
        let behind = document.trailing().as_str().unwrap_or_default().to_owned();
        if let Some(table) = find(document.as_table_mut(), header) {
            table.set_position(Some(isize::MAX));
            let gap = match old.trim().is_empty() {
                true => "",
                false => "\n",
            };
            table.decor_mut().set_prefix(format!("{behind}{gap}"));
            document.set_trailing("");
        }
    }
    let new = document.to_string();
    Config::check(path, &new)?;
    if new != old {
        let replace = match layer {
            Layer::User => file::replace,
            Layer::Repository => file::replace_here,
        };
        replace(path, new.as_bytes()).map_err(failed)?;
    }
    Ok(checked)
}

/// Returns the value as it is written into the file.
fn item(key: &Key, checked: &Value, text: &str) -> Item {
    match (checked, key.kind) {
        // As typed: `10m` is clearer than 600.
        (Value::Int(_), Kind::Seconds { .. }) if !text.bytes().all(|b| b.is_ascii_digit()) => value(text),
        (Value::Int(number), _) => value(i64::try_from(*number).unwrap_or(i64::MAX)),
        (Value::Dollars(usd), _) => match i64::try_from(usd.0 / 1_000_000) {
            Ok(whole) if usd.0 % 1_000_000 == 0 => value(whole),
            _ => value(usd.0 as f64 / 1e6),
        },
        (Value::Word(word), _) => value(*word),
        (Value::Flag(flag), _) => value(*flag),
        (Value::Text(text), _) => value(text.as_str()),
        (Value::List(items), _) => value(items.iter().map(String::as_str).collect::<Array>()),
    }
}

/// Returns the content of the file; empty if there is none.
fn old_text(path: &Path) -> Result<String, ConfigError> {
    match std::fs::read_to_string(path) {
        Ok(old) => Ok(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(ConfigError::Read {
            file: path.to_owned(),
            source,
        }),
    }
}

/// Returns the table of that name, if it has its own header or could have one.
fn find<'t>(root: &'t mut Table, name: &str) -> Option<&'t mut Table> {
    name.split('.')
        .try_fold(root, |table, part| table.get_mut(part)?.as_table_mut())
}

/// Puts the item at the end of the path and creates missing tables. Fails with the part that is not a table.
fn put(root: &mut dyn TableLike, key: &str, item: Item) -> Result<(), String> {
    let mut table = root;
    let mut done = String::new();
    let mut parts = key.split('.').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            match (table.get_mut(part).and_then(Item::as_value_mut), item.as_value()) {
                (Some(old), Some(new)) => {
                    // The comment after the old value stays.
                    let decor = old.decor().clone();
                    *old = new.clone();
                    *old.decor_mut() = decor;
                }
                _ => {
                    table.insert(part, item);
                }
            }
            return Ok(());
        }
        if !done.is_empty() {
            done.push('.');
        }
        done.push_str(part);
        let inner = table.entry(part).or_insert_with(|| {
            let mut table = Table::new();
            // No header while it contains only tables.
            table.set_implicit(true);
            Item::Table(table)
        });
        table = inner.as_table_like_mut().ok_or(done.clone())?;
    }
    Ok(())
}
