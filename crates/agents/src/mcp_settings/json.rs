//! Edits the entry in a JSON file as text: the rest of the file keeps its order, spaces and comments.
//!
//! Method: comments and trailing commas are replaced by blanks in a copy of the same length. A real parser checks the copy,
//! then it is searched for the places of keys and values. The text itself is cut at these places.

use serde_json::{Value, json};

use super::{Edit, EditError, NAME, is_ours};

fn entry(typed: bool) -> Value {
    match typed {
        true => json!({ "type": "stdio", "command": NAME, "args": ["mcp"] }),
        false => json!({ "command": NAME, "args": ["mcp"] }),
    }
}

/// The entry on lines of its own, or on one; without the indentation of its first line.
fn member(typed: bool, style: &Style, depth: &str) -> String {
    let fields: Vec<String> = ["type", "command", "args"]
        .iter()
        .filter_map(|name| Some((name, entry(typed).get(name)?.to_string())))
        .map(|(name, value)| format!("\"{name}\": {value}"))
        .collect();
    match style.on_lines {
        false => format!("\"{NAME}\": {{ {} }}", fields.join(", ")),
        true => {
            let (end, unit) = (style.end, &style.unit);
            let separator = format!(",{end}{depth}{unit}");
            let fields = fields.join(&separator);
            format!("\"{NAME}\": {{{end}{depth}{unit}{fields}{end}{depth}}}")
        }
    }
}

/// How the file is laid out.
#[derive(Debug, Clone)]
struct Style {
    on_lines: bool,
    end: &'static str,
    unit: String,
}

/// A file with nothing but the entry.
pub fn fresh(section: &str, typed: bool) -> String {
    let style = Style {
        on_lines: true,
        end: "\n",
        unit: "  ".into(),
    };
    format!(
        "{{\n  \"{section}\": {{\n    {}\n  }}\n}}\n",
        member(typed, &style, "    ")
    )
}

/// Line and column of a byte, from one.
pub fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[start..].chars().count() + 1,
    )
}

/// The text without comments and without commas before a closing bracket, byte for byte as long as before.
fn blanked(text: &str) -> Vec<u8> {
    let mut out = text.as_bytes().to_vec();
    let mut comma = None;
    let mut at = 0;
    while at < out.len() {
        let (skip, comment) = match &out[at..] {
            [b'"', ..] => (string_length(&out[at..]), false),
            rest @ [b'/', b'/', ..] => {
                let end = rest.iter().position(|b| *b == b'\n' || *b == b'\r');
                (end.unwrap_or(rest.len()), true)
            }
            rest @ [b'/', b'*', ..] => {
                let end = rest[2..].windows(2).position(|two| two == b"*/");
                match end {
                    Some(end) => (end + 4, true),
                    // Not closed: the parser reports it.
                    None => (1, false),
                }
            }
            _ => (1, false),
        };
        if comment {
            for byte in &mut out[at..at + skip] {
                if *byte != b'\n' && *byte != b'\r' {
                    *byte = b' ';
                }
            }
        } else {
            match out[at] {
                b',' => comma = Some(at),
                b'}' | b']' => {
                    if let Some(comma) = comma.take() {
                        out[comma] = b' ';
                    }
                }
                byte if byte.is_ascii_whitespace() => {}
                _ => comma = None,
            }
        }
        at += skip;
    }
    out
}

/// The length of the string that begins here, with its quotes; all of the text if it does not end.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// A name with its value: where they begin, and where the value ends.
#[derive(Debug, Clone, Copy)]
struct Member {
    name: usize,
    value: usize,
    end: usize,
}

/// An object in a text that is known to be JSON: its brackets and its members.
#[derive(Debug)]
struct Object {
    open: usize,
    close: usize,
    members: Vec<Member>,
}

/// The end of the value that begins here.
fn value_end(text: &[u8], start: usize) -> usize {
    let mut depth = 0usize;
    let mut at = start;
    while at < text.len() {
        match text[at] {
            b'"' => at += string_length(&text[at..]),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            b',' if depth == 0 => return at,
            byte if byte.is_ascii_whitespace() && depth == 0 => return at,
            _ => {
                at += 1;
                continue;
            }
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

fn skip_blank(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && text[at].is_ascii_whitespace() {
        at += 1;
    }
    at
}

/// The object that begins at or after `start`; `None` if there is another value.
fn object(text: &[u8], start: usize) -> Option<Object> {
    let open = skip_blank(text, start);
    if text.get(open) != Some(&b'{') {
        return None;
    }
    let mut members = Vec::new();
    let mut at = skip_blank(text, open + 1);
    while text.get(at)? != &b'}' {
        let name = at;
        let colon = skip_blank(text, name + string_length(&text[name..]));
        let value = skip_blank(text, colon + 1);
        let end = value_end(text, value);
        members.push(Member { name, value, end });
        at = skip_blank(text, end);
        if text.get(at)? == &b',' {
            at = skip_blank(text, at + 1);
        }
    }
    Some(Object {
        open,
        close: at,
        members,
    })
}

impl Object {
    /// Whether the first member was put into an object that existed before and was empty.
    fn was_there(&self) -> bool {
        self.members
            .first()
            .is_some_and(|first| first.name == self.open + 1)
    }

    /// The last member of that name: it is the one that counts.
    fn named(&self, text: &[u8], name: &str) -> Option<usize> {
        let is = |member: &Member| {
            let end = member.name + string_length(&text[member.name..]);
            serde_json::from_slice::<String>(&text[member.name..end]).is_ok_and(|found| found == name)
        };
        self.members.iter().rposition(is)
    }
}

/// The indentation of the line of `at`; `None` if there is other text before `at`.
fn indentation(text: &str, at: usize) -> Option<&str> {
    let start = text[..at].rfind('\n')? + 1;
    let blank = &text[start..at];
    blank.bytes().all(|b| b == b' ' || b == b'\t').then_some(blank)
}

/// Adds `member` at the end of the object.
fn put_in(text: &str, object: &Object, member: &str, depth: &str, style: &Style) -> String {
    let end = style.end;
    let Some(last) = object.members.last() else {
        // Directly behind the bracket: so it is known later that the brackets were there before.
        let (before, after) = (&text[..=object.open], &text[object.open + 1..]);
        return format!("{before}{member}{after}");
    };
    // If there is a trailing comma, the new member gets one too. Comments stay in place.
    let tail = &text[last.end..object.close];
    let (comma, own) = if closing_comma(tail) { ("", ",") } else { (",", "") };
    let line = tail.rfind('\n').map(|newline| last.end + newline + 1);
    let line = line.filter(|line| text[*line..object.close].trim().is_empty());
    match line {
        Some(line) if style.on_lines => {
            let (before, tail, after) = (&text[..last.end], &text[last.end..line], &text[line..]);
            format!("{before}{comma}{tail}{depth}{member}{own}{end}{after}")
        }
        _ => {
            let kept = tail.trim_end();
            let (before, after) = (&text[..last.end], &text[last.end + kept.len()..]);
            format!("{before}{comma}{kept} {member}{own}{after}")
        }
    }
}

/// Whether there is a trailing comma, outside comments.
fn closing_comma(tail: &str) -> bool {
    // Blanking removes only commas before a bracket.
    blanked(tail).contains(&b',')
}

/// Removes a member, with its line and the comma that is no longer needed.
fn take_out(text: &str, blank: &[u8], object: &Object, which: usize) -> String {
    let member = object.members[which];
    if which == 0 && object.was_there() {
        let end = object.members.get(1).map_or(member.end, |next| next.name);
        return format!("{}{}", &text[..=object.open], &text[end..]);
    }
    // From the end of the line before, so that the lines around it stay whole.
    let start = match indentation(text, member.name) {
        Some(spaces) => {
            let start = member.name - spaces.len();
            start - if text[..start].ends_with("\r\n") { 2 } else { 1 }
        }
        None => {
            member.name - text[..member.name].len() + text[..member.name].trim_end_matches([' ', '\t']).len()
        }
    };
    let is_last = which + 1 == object.members.len();
    // Up to the next member or the bracket, so that a trailing comma is seen too.
    let follows = object
        .members
        .get(which + 1)
        .map_or(object.close, |next| next.name);
    let own_comma = blanked(&text[member.end..follows])
        .iter()
        .position(|b| *b == b',');
    let end = own_comma.map_or(member.end, |comma| member.end + comma + 1);
    let mut before = text[..start].to_owned();
    if is_last && which > 0 && own_comma.is_none() {
        // The one before is the last one now.
        let previous = object.members[which - 1].end;
        if let Some(comma) = blank[previous..start].iter().position(|b| *b == b',') {
            before.remove(previous + comma);
        }
    }
    let mut after = &text[end..];
    if object.members.len() == 1
        && text[object.open + 1..start].trim().is_empty()
        && after.trim_start().starts_with('}')
    {
        before.truncate(object.open + 1);
        after = after.trim_start();
    }
    before + after
}

/// Adds or removes the entry. `None` is no file.
pub fn edit(
    file: Option<&str>,
    section: &str,
    typed: bool,
    comments: bool,
    install: bool,
) -> Result<Edit, EditError> {
    let text = file.unwrap_or_default();
    // A mark at the beginning is not JSON; it stays where it is.
    let (mark, text) = match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    };
    let whole = fresh(section, typed);
    if text.trim().is_empty() {
        return Ok(match (install, file) {
            (true, None) => Edit::Write(whole),
            // Without the end of its last line: so it is known later that there was a file.
            (true, Some(_)) => Edit::Write(format!("{mark}{text}{}", whole.trim_end())),
            (false, _) => Edit::Nothing,
        });
    }
    if let Some(blanks) = text.strip_suffix(whole.trim_end()).filter(|_| !install)
        && blanks.trim().is_empty()
    {
        return Ok(Edit::Write(format!("{mark}{blanks}")));
    }
    let document = Document::read(text, section, comments)?;
    let edited = match (install, document.entry) {
        (_, Some((_, false))) => return Err(EditError::Foreign),
        (true, Some((_, true))) | (false, None) => return Ok(Edit::Nothing),
        (true, None) => Some(document.with_entry(section, typed)),
        (false, Some((which, true))) => document.without_entry(which),
    };
    Ok(match edited {
        Some(edited) => Edit::Write(format!("{mark}{edited}")),
        None => Edit::Delete,
    })
}

/// A configuration file that was read.
#[derive(Debug)]
struct Document<'a> {
    text: &'a str,
    /// The text without comments, if its program allows them.
    blank: Vec<u8>,
    root: Object,
    /// The section with the servers, and its place in `root`.
    servers: Option<(usize, Object)>,
    /// The place of an entry of our name in that section, and whether it starts jit.
    entry: Option<(usize, bool)>,
    style: Style,
}

impl<'a> Document<'a> {
    fn read(text: &'a str, section: &str, comments: bool) -> Result<Self, EditError> {
        let blank = if comments {
            blanked(text)
        } else {
            text.as_bytes().to_vec()
        };
        let broken = |line, column, why: &str| EditError::Broken(line, column, why.to_owned());
        let value: Value = serde_json::from_slice(&blank).map_err(|e| {
            let why = e.to_string();
            let why = why.split(" at line ").next().unwrap_or_default();
            broken(e.line(), e.column(), why)
        })?;
        let is_object = |found: Option<Object>, at: usize, what: &str| {
            let (line, column) = position(text, at);
            found.ok_or_else(|| broken(line, column, &format!("{what} is not an object")))
        };
        let root = is_object(object(&blank, 0), 0, "the whole")?;
        let servers = match root.named(&blank, section) {
            Some(which) => {
                let at = root.members[which].value;
                Some((which, is_object(object(&blank, at), at, section)?))
            }
            None => None,
        };
        let entry = servers
            .as_ref()
            .and_then(|(_, servers)| servers.named(&blank, NAME))
            .map(|which| (which, ours(&value[section][NAME])));
        Ok(Self {
            text,
            style: style(text, &root),
            blank,
            root,
            servers,
            entry,
        })
    }

    fn with_entry(&self, section: &str, typed: bool) -> String {
        let (text, style) = (self.text, &self.style);
        let Some((which, servers)) = &self.servers else {
            let (unit, end) = (&style.unit, style.end);
            let whole = match style.on_lines {
                true => {
                    let member = member(typed, style, &format!("{unit}{unit}"));
                    format!("\"{section}\": {{{end}{unit}{unit}{member}{end}{unit}}}")
                }
                false => format!("\"{section}\": {{ {} }}", member(typed, style, "")),
            };
            return put_in(text, &self.root, &whole, &style.unit, style);
        };
        let outer = indentation(text, self.root.members[*which].name).unwrap_or_default();
        let first = servers.members.first();
        let depth = match first.and_then(|first| indentation(text, first.name)) {
            Some(depth) => depth.to_owned(),
            None => format!("{outer}{}", style.unit),
        };
        // One line stays one line.
        let on_lines = match servers.members.is_empty() {
            true => style.on_lines,
            false => text[servers.open..servers.close].contains('\n'),
        };
        let style = Style {
            on_lines,
            ..style.clone()
        };
        put_in(text, servers, &member(typed, &style, &depth), &depth, &style)
    }

    /// `None` if nothing would be left of the file.
    fn without_entry(&self, entry: usize) -> Option<String> {
        let (section, servers) = self.servers.as_ref()?;
        if servers.members.len() > 1 || servers.was_there() {
            return Some(take_out(self.text, &self.blank, servers, entry));
        }
        // A comment may be left, if nothing else.
        let has_comments = self.blank != self.text.as_bytes();
        let keeps = self.root.members.len() > 1 || self.root.was_there() || has_comments;
        keeps.then(|| take_out(self.text, &self.blank, &self.root, *section))
    }
}

fn style(text: &str, root: &Object) -> Style {
    let first = root
        .members
        .first()
        .and_then(|first| indentation(text, first.name));
    Style {
        on_lines: first.is_some() || root.members.is_empty(),
        end: if text.contains("\r\n") { "\r\n" } else { "\n" },
        unit: first.filter(|unit| !unit.is_empty()).unwrap_or("  ").to_owned(),
    }
}

fn ours(entry: &Value) -> bool {
    let args = entry["args"].as_array().map(Vec::as_slice).unwrap_or_default();
    let words: Vec<&str> = args.iter().filter_map(Value::as_str).collect();
    is_ours(entry["command"].as_str(), &words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tried(text: &str, install: bool) -> Result<Edit, EditError> {
        edit(Some(text), "mcpServers", false, true, install)
    }

    #[track_caller]
    fn written(text: &str, install: bool) -> String {
        match tried(text, install).expect("an edit") {
            Edit::Write(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn parsed(text: &str) -> Value {
        let text = text.trim_start_matches('\u{feff}');
        serde_json::from_slice(&blanked(text)).unwrap_or_else(|e| panic!("{e}:\n{text}"))
    }

    #[test]
    fn i4_what_was_there_is_kept_to_the_byte_and_comes_back() {
        for text in [
            "{\"a\":1}",
            "",
            "\n",
            "\u{feff}",
            "{}",
            "{}\n",
            " { }",
            "{\n}\n",
            "{\n  // mine\n}\n",
            "{\"mcpServers\":{}}",
            "{\n  \"mcpServers\": {\n  },\n  \"a\": 1\n}",
            "{ \"a\": 1 }\n",
            "{\n  \"a\": 1\n}\n",
            "{\r\n\t\"a\": [1,\r\n\t2]\r\n}\r\n",
            "\u{feff}{\n    \"b\": {\"mcpServers\": 3},\n    \"a\": \"}{\\\"\"\n}",
            "{\n  \"mcpServers\": {\n    \"x\": {\"command\": \"y\"}\n  },\n  \"z\": null\n}\n",
            "{\"mcpServers\":{\"x\":{\"command\":\"y\"}}}",
            "{\n  \"mcpServers\": { \"x\": 1 }\n}\n",
            "{\n  // one\n  \"a\": 1, // two\n  /* three, */\n}\n",
            "{\n  \"mcpServers\": {\n    \"x\": 1, // y\n    // z\n  },\n}\n",
            "{\n  \"a\": \"// no comment, really\" // but this is one\n}\n",
        ] {
            let with = written(text, true);
            let value = parsed(&with);
            assert_eq!(value["mcpServers"][NAME], entry(false), "{with}");
            assert_eq!(tried(&with, true), Ok(Edit::Nothing), "twice is once:\n{with}");
            assert_eq!(written(&with, false), text, "by way of\n{with}");
        }
    }

    #[test]
    fn i4_it_looks_like_what_is_around_it() {
        let text = "{\n\t\"mcpServers\": {\n\t\t\"x\": 1\n\t}\n}\n";
        assert_eq!(
            written(text, true),
            "{\n\t\"mcpServers\": {\n\t\t\"x\": 1,\n\t\t\"jit\": {\n\t\t\t\"command\": \"jit\",\n\t\t\t\"args\": [\"mcp\"]\n\t\t}\n\t}\n}\n"
        );
        assert_eq!(
            written("{\"a\":1}", true),
            "{\"a\":1, \"mcpServers\": { \"jit\": { \"command\": \"jit\", \"args\": [\"mcp\"] } }}"
        );
    }

    #[test]
    fn i4_a_new_file_has_only_the_entry_and_goes_with_it() {
        let fresh = fresh("mcpServers", false);
        let edited = |file: Option<&str>, install| edit(file, "mcpServers", false, true, install);
        assert_eq!(parsed(&fresh), json!({ "mcpServers": { "jit": entry(false) } }));
        assert_eq!(edited(None, true), Ok(Edit::Write(fresh.clone())));
        assert_eq!(edited(Some(&fresh), false), Ok(Edit::Delete));
        assert_eq!(edited(None, false), Ok(Edit::Nothing));
        assert_eq!(tried("", false), Ok(Edit::Nothing));
    }

    #[test]
    fn i4_broken_files_are_refused_with_line_and_column() {
        for (text, line, column) in [
            ("{\n  \"a\": 1\n  \"b\": 2\n}", 3, 3),
            ("{\"a\": ", 1, 6),
            ("[1]", 1, 1),
            ("{\n \"mcpServers\": 3\n}", 2, 16),
            ("{} x", 1, 4),
            ("{\"a\": 1 /* }", 1, 9),
        ] {
            match tried(text, true) {
                Err(EditError::Broken(l, c, why)) => assert_eq!((l, c), (line, column), "{text}: {why}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let strict = |text: &str| edit(Some(text), "mcpServers", true, false, true);
        for text in ["{ // no\n}", "{\"a\": 1,}"] {
            assert!(matches!(strict(text), Err(EditError::Broken(..))), "{text}");
        }
    }

    #[test]
    fn i4_an_entry_that_is_not_ours_is_refused_and_one_that_is_stays_as_it_is() {
        for entry in [
            "3",
            "{}",
            "{\"command\":\"other\",\"args\":[\"mcp\"]}",
            "{\"url\":\"http://x\"}",
        ] {
            let text = format!("{{\"mcpServers\":{{\"jit\":{entry}}}}}");
            assert_eq!(tried(&text, true), Err(EditError::Foreign), "{text}");
            assert_eq!(tried(&text, false), Err(EditError::Foreign), "{text}");
        }
        let own = r#"{"mcpServers":{"jit":{"command":"/opt/jit","args":["-C","x","mcp"],"env":{"A":"b"}}}}"#;
        assert_eq!(tried(own, true), Ok(Edit::Nothing));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z/*,{}\\[\\]\"\\\\é\n]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z\"/,]{0,4}", inner, 0..4)
                    .prop_map(|fields| fields.into_iter().collect()),
            ]
        })
    }

    fn any_file() -> impl Strategy<Value = Value> {
        let fields = || prop::collection::btree_map("[a-z]{1,3}x", any_json(), 0..4);
        (fields(), prop::option::of(fields())).prop_map(|(mut file, servers)| {
            if let Some(servers) = servers {
                file.insert("mcpServers".into(), servers.into_iter().collect());
            }
            file.into_iter().collect()
        })
    }

    proptest! {
        #[test]
        fn i4_any_file_keeps_what_it_says(file in any_file(), pretty in any::<bool>(), comments in any::<bool>()) {
            let text = match pretty {
                true => serde_json::to_string_pretty(&file).expect("JSON"),
                false => file.to_string(),
            };
            let with = match edit(Some(&text), "mcpServers", true, comments, true) {
                Ok(Edit::Write(with)) => with,
                other => panic!("{other:?}"),
            };
            let mut expected = file.clone();
            expected["mcpServers"][NAME] = entry(true);
            let read: Value = serde_json::from_str(&with).expect(&with);
            prop_assert_eq!(read, expected);
            let without = edit(Some(&with), "mcpServers", true, comments, false);
            prop_assert_eq!(without, Ok(Edit::Write(text)), "by way of\n{}", with);
        }

        #[test]
        fn i4_no_text_makes_it_panic(text in "[{}\\[\\]\":,/* \n\\\\a1é]{0,40}", install in any::<bool>()) {
            let _ = tried(&text, install);
            let whole = format!("{{\"mcpServers\": {{\"a\": 1 {text}}}}}");
            let _ = tried(&whole, install);
        }
    }
}
