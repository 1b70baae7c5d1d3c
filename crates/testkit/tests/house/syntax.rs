//! Rust source as tokens with their lines: words, strings and punctuation, without comments.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A name or a keyword.
    Word,
    /// The contents of a string literal.
    Text,
    /// One character of punctuation, or `::`, `->`, `=>`.
    Mark,
    /// A lifetime, a number or a character.
    Other,
}

#[derive(Debug, Clone, Copy)]
pub struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    pub line: usize,
}

impl Token<'_> {
    pub fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Mark) && self.text == text
    }
}

fn in_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// How many bytes a block comment has; comments nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Bytes before the contents of a string literal that starts here, the contents, and the bytes after them.
fn string(rest: &str) -> Option<(usize, &str, usize)> {
    if !rest.starts_with(['"', 'b', 'c', 'r']) {
        return None;
    }
    let prefix = rest.len() - rest.trim_start_matches(['b', 'c']).len();
    let (raw, hashes_at) = match rest[prefix..].strip_prefix('r') {
        _ if prefix > 1 => return None,
        Some(_) => (true, prefix + 1),
        None => (false, prefix),
    };
    let hashes = rest[hashes_at..].chars().take_while(|c| *c == '#').count();
    if !raw && hashes > 0 || !rest[hashes_at + hashes..].starts_with('"') {
        return None;
    }
    let start = hashes_at + hashes + 1;
    let body = &rest[start..];
    let close = format!("\"{}", "#".repeat(hashes));
    let end = if raw {
        body.find(&close)
    } else {
        let mut escaped = false;
        body.char_indices()
            .find(|(_, c)| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            })
            .map(|(at, _)| at)
    };
    let end = end.unwrap_or(body.len());
    Some((start, &body[..end], close.len().min(body.len() - end)))
}

/// How many bytes a character literal or a lifetime has, from its quote on.
fn quoted(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    let Some((_, first)) = chars.next() else { return 1 };
    if first == '\\' {
        // The character after the backslash may itself be a quote.
        let end = rest[2..].char_indices().skip(1).find(|(_, c)| *c == '\'');
        return end.map_or(rest.len(), |(at, _)| at + 3);
    }
    match chars.next() {
        Some((at, '\'')) => at + 1,
        _ => 1 + rest[1..].find(|c| !in_word(c)).unwrap_or(rest.len() - 1),
    }
}

pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(c) = source[at..].chars().next() {
        let rest = &source[at..];
        let mut add = |kind, text| found.push(Token { kind, text, line });
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some((before, text, after)) = string(rest) {
            add(Kind::Text, text);
            before + text.len() + after
        } else if c == '\'' || rest.starts_with("b'") {
            let byte = usize::from(c == 'b');
            let length = byte + quoted(&rest[byte..]);
            add(Kind::Other, &rest[..length]);
            length
        } else if in_word(c) {
            // A raw identifier is the same name.
            let raw = if rest.starts_with("r#") { 2 } else { 0 };
            let end = rest[raw..].find(|c| !in_word(c)).map_or(rest.len(), |n| n + raw);
            let kind = if c.is_ascii_digit() {
                Kind::Other
            } else {
                Kind::Word
            };
            add(kind, &rest[raw..end]);
            end
        } else if c.is_whitespace() {
            c.len_utf8()
        } else {
            let pair = ["::", "->", "=>"].iter().any(|pair| rest.starts_with(pair));
            let length = if pair { 2 } else { c.len_utf8() };
            add(Kind::Mark, &rest[..length]);
            length
        };
        line += rest[..length].matches('\n').count();
        at += length;
    }
    found
}

/// The index after the bracket that closes the one at `open`.
pub fn after_close(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0usize;
    for (n, token) in tokens.iter().enumerate().skip(open) {
        if token.kind != Kind::Mark {
            continue;
        }
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth -= 1;
                if depth == 0 {
                    return n + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::{Kind, tokens};

    fn words(source: &str) -> Vec<(String, usize)> {
        let all = tokens(source).into_iter();
        let words = all.filter(|token| token.kind == Kind::Word);
        words.map(|token| (token.text.to_owned(), token.line)).collect()
    }

    #[test]
    fn comments_and_strings_hold_no_words() {
        let source = "// a\n/* b /* c */ d */ e \"f \\\" g\" r#\"h \" i\"# b\"j\" br\"k\" l";
        assert_eq!(words(source), [("e".to_owned(), 2), ("l".to_owned(), 2)]);
    }

    #[test]
    fn quotes_of_characters_and_lifetimes_open_no_string() {
        let source = "'\"' '\\'' b'\"' '{' <'a> &'static str \n fn_a";
        let found: Vec<String> = words(source).into_iter().map(|(word, _)| word).collect();
        assert_eq!(found, ["str", "fn_a"]);
    }

    #[test]
    fn lines_are_counted_through_strings() {
        assert_eq!(
            words("\"a\nb\" c r#type"),
            [("c".to_owned(), 2), ("type".to_owned(), 2)]
        );
    }
}
