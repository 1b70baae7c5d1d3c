//! Edits the entry `[mcp_servers.jit]` in a TOML file. The rest of the file keeps its order, comments and spaces.

use toml_edit::{DocumentMut, Item, Table, Value, value};

use super::{Edit, EditError, NAME, is_ours};

const SECTION: &str = "mcp_servers";

/// The entry by itself.
pub fn fresh() -> String {
    format!("[{SECTION}.{NAME}]\ncommand = \"{NAME}\"\nargs = [\"mcp\"]\n")
}

fn entry() -> Table {
    let mut entry = Table::new();
    entry.insert("command", value(NAME));
    let args: toml_edit::Array = ["mcp"].into_iter().collect();
    entry.insert("args", value(args));
    entry
}

fn ours(item: &Item) -> bool {
    let Some(entry) = item.as_table_like() else {
        return false;
    };
    let args = entry.get("args").and_then(Item::as_array);
    let words: Vec<&str> = args.into_iter().flatten().filter_map(Value::as_str).collect();
    is_ours(entry.get("command").and_then(Item::as_str), &words)
}

/// The file with the entry at its end. If the last line has no newline, neither has the result: so [`before`] can tell
/// later.
fn appended(text: Option<&str>) -> String {
    match text {
        None => fresh(),
        Some("") => fresh().trim_end().to_owned(),
        Some(text) if text.ends_with('\n') => format!("{text}\n{}", fresh()),
        Some(text) => format!("{text}\n\n{}", fresh().trim_end()),
    }
}

/// Undoes [`appended`]; `None` if the text was changed since.
fn before(text: &str) -> Option<Edit> {
    let (entry, open) = (fresh(), fresh().trim_end().to_owned());
    if text == entry {
        return Some(Edit::Delete);
    }
    if text == open {
        return Some(Edit::Write(String::new()));
    }
    let rest = match text.strip_suffix(&entry) {
        Some(rest) => rest.strip_suffix('\n').filter(|rest| rest.ends_with('\n')),
        None => text.strip_suffix(&open)?.strip_suffix("\n\n"),
    };
    // The same text could be inside a multi-line string.
    let document: DocumentMut = rest?.parse().ok()?;
    let section = document.get(SECTION).and_then(Item::as_table_like);
    let gone = section.is_none_or(|section| !section.contains_key(NAME));
    gone.then(|| Edit::Write(rest.unwrap_or_default().to_owned()))
}

/// Adds or removes the entry. `None` is no file.
pub fn edit(file: Option<&str>, install: bool) -> Result<Edit, EditError> {
    let text = file.unwrap_or_default();
    let mut document: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| {
        let at = e.span().map_or(0, |span| span.start);
        let (line, column) = super::json::position(text, at);
        EditError::Broken(line, column, e.message().to_owned())
    })?;
    let broken = |what: &str| EditError::Broken(1, 1, format!("{what} is not a table"));
    let there = match document.get_mut(SECTION) {
        None => None,
        Some(section) => {
            let section = section.as_table_like_mut().ok_or_else(|| broken(SECTION))?;
            section.get(NAME).map(ours)
        }
    };
    match (install, there) {
        (_, Some(false)) => return Err(EditError::Foreign),
        (true, Some(true)) | (false, None) => return Ok(Edit::Nothing),
        (true, None) if appended(file).parse::<DocumentMut>().is_ok() => {
            return Ok(Edit::Write(appended(file)));
        }
        (true, None) => {
            let section = document.entry(SECTION).or_insert_with(|| {
                let mut section = Table::new();
                // Without a header: that of the entry is enough.
                section.set_implicit(true);
                Item::Table(section)
            });
            match section {
                Item::Table(section) => {
                    let mut entry = entry();
                    if !text.trim().is_empty() {
                        entry.decor_mut().set_prefix("\n");
                    }
                    section.insert(NAME, Item::Table(entry));
                }
                // An inline table; the entry becomes one too.
                other => {
                    let section = other.as_table_like_mut().ok_or_else(|| broken(SECTION))?;
                    section.insert(NAME, value(entry().into_inline_table()));
                }
            }
        }
        (false, Some(true)) if let Some(edit) = before(text) => return Ok(edit),
        (false, Some(true)) => {
            let Some(section) = document.get_mut(SECTION).and_then(Item::as_table_like_mut) else {
                return Ok(Edit::Nothing);
            };
            section.remove(NAME);
            let made_by_us = section.is_empty();
            if made_by_us
                && document
                    .get(SECTION)
                    .and_then(Item::as_table)
                    .is_some_and(Table::is_implicit)
            {
                document.remove(SECTION);
            }
        }
    }
    let mut edited = document.to_string();
    if !text.ends_with('\n') && edited.ends_with('\n') {
        edited.pop();
    }
    let text = edited;
    Ok(match text.trim().is_empty() {
        true => Edit::Delete,
        false => Edit::Write(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, install: bool) -> String {
        match edit(Some(text), install).expect("an edit") {
            Edit::Write(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn i4_what_was_there_is_kept_to_the_byte_and_comes_back() {
        for text in [
            "# mine\nmodel = \"x\"  # why\n\n[mcp_servers.other]\ncommand = 'npx'\nargs = [ \"-y\" ]\n\n[tui]\ntheme=\"dark\"\n",
            "model = \"x\"\n",
            "model = \"x\"",
            "",
            "\n",
            "# nothing yet",
            "[mcp_servers]",
            "mcp_servers = {}",
            "mcp_servers.other.command = \"x\"\n",
            "[tui]\r\ntheme = 1\r\n",
            "[mcp_servers]\n# none yet\n",
            "mcp_servers = { other = { command = \"x\" } }\n",
        ] {
            let with = written(text, true);
            for line in text.lines().filter(|line| !line.starts_with("mcp_servers =")) {
                assert!(with.lines().any(|l| l == line), "{line} is lost:\n{with}");
            }
            let parsed: DocumentMut = with.parse().expect("TOML");
            assert_eq!(parsed["mcp_servers"]["jit"]["command"].as_str(), Some("jit"));
            assert_eq!(edit(Some(&with), true), Ok(Edit::Nothing), "twice is once");
            assert_eq!(written(&with, false), text);
        }
    }

    #[test]
    fn i4_a_new_file_has_only_the_entry_and_goes_with_it() {
        let with = edit(None, true);
        assert_eq!(with, Ok(Edit::Write(fresh())));
        assert_eq!(edit(Some(&fresh()), false), Ok(Edit::Delete));
        assert_eq!(edit(None, false), Ok(Edit::Nothing));
        assert_eq!(edit(Some(""), false), Ok(Edit::Nothing));
    }

    #[test]
    fn i4_broken_and_foreign_files_are_refused() {
        match edit(Some("a = 1\n[b\n"), true) {
            Err(EditError::Broken(2, _, _)) => {}
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            edit(Some("mcp_servers = 3\n"), true),
            Err(EditError::Broken(..))
        ));
        for text in [
            "[mcp_servers.jit]\ncommand = \"other\"\n",
            "[mcp_servers]\njit = 3\n",
        ] {
            assert_eq!(edit(Some(text), true), Err(EditError::Foreign));
            assert_eq!(edit(Some(text), false), Err(EditError::Foreign));
        }
        let own = "[mcp_servers.jit]\ncommand = \"/opt/jit\"\nargs = [\"mcp\"]\nenv = { JIT_AGENT_ID = \"agent:x\" }\n";
        assert_eq!(edit(Some(own), true), Ok(Edit::Nothing));
    }
}
