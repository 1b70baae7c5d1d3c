//! The parser: one pass over the bytes, with recursion only for substitutions.

mod here_documents;

use super::{DEEPEST, Item, MOST_WORDS, Simple, Unreadable, Word};

pub(super) fn read(text: &str) -> Result<Vec<Item>, Unreadable> {
    let mut reader = ShellReader {
        text: text.as_bytes(),
        at: 0,
        items: Vec::new(),
        words: 0,
        heredocs: Vec::new(),
        announced: 0,
        bodies: Vec::new(),
    };
    reader.commands(Terminator::Text, 0)?;
    let ShellReader {
        mut items,
        mut bodies,
        ..
    } = reader;
    bodies.sort_unstable_by_key(|(number, _)| *number);
    for item in &mut items {
        if let Item::Run(simple) = item
            && let Some(number) = simple.document.take()
        {
            let body = bodies.binary_search_by_key(&number, |(of, _)| *of).ok();
            simple.input = body.and_then(|at| bodies.get(at)).map(|(_, body)| body.clone());
        }
    }
    Ok(items)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Terminator {
    Text,
    Bracket,
    Backtick,
}

struct Heredoc {
    number: usize,
    delimiter: Vec<u8>,
    tabs: bool,
    expands: bool,
}

struct ShellReader<'a> {
    text: &'a [u8],
    at: usize,
    items: Vec<Item>,
    /// The number of words so far.
    words: usize,
    heredocs: Vec<Heredoc>,
    /// The number of here-documents so far.
    announced: usize,
    /// The text of each here-document, by its number.
    bodies: Vec<(usize, Word)>,
}

/// The current word.
#[derive(Default)]
struct PartialWord {
    bytes: Vec<u8>,
    /// Some part is not plain text.
    hidden: bool,
    /// The position of the first opening brace outside of quotes that is not closed.
    brace: Option<usize>,
}

/// The current command.
#[derive(Default)]
struct CurrentCommand {
    simple: Simple,
    word: Option<PartialWord>,
    /// The meaning of the next word, if it is not an argument.
    redirect: Redirect,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Redirect {
    #[default]
    None,
    Write,
    Read,
    /// `<<<`
    Text,
    /// `>&`: a number or a file.
    Duplicate,
    Here {
        tabs: bool,
        /// Whether any part of the delimiter was quoted.
        quoted: bool,
    },
}

impl CurrentCommand {
    fn letters(&mut self) -> &mut PartialWord {
        self.word.get_or_insert_default()
    }

    fn push(&mut self, byte: u8) {
        self.letters().bytes.push(byte);
    }

    fn unquoted(&mut self, byte: u8) {
        let letters = self.letters();
        match byte {
            b'{' => letters.brace = letters.brace.or(Some(letters.bytes.len())),
            b'}' => {
                // `{a,b}` and `{1..3}` stand for several words.
                let inside = letters.brace.take().and_then(|at| letters.bytes.get(at..));
                letters.hidden |= inside.is_some_and(|inside| {
                    inside.contains(&b',') || inside.windows(2).any(|two| two == b"..")
                });
            }
            _ => {}
        }
        letters.bytes.push(byte);
    }

    fn unknown(&mut self, bytes: &[u8]) {
        let letters = self.letters();
        letters.bytes.extend_from_slice(bytes);
        letters.hidden = true;
    }

    fn quoted(&mut self) {
        self.letters();
        if let Redirect::Here { quoted, .. } = &mut self.redirect {
            *quoted = true;
        }
    }
}

impl ShellReader<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn end_word(&mut self, current: &mut CurrentCommand) -> Result<(), Unreadable> {
        let Some(letters) = current.word.take() else {
            return Ok(());
        };
        self.words += 1;
        if self.words > MOST_WORDS {
            return Err(Unreadable::Words);
        }
        let word = Word {
            text: String::from_utf8_lossy(&letters.bytes).into_owned(),
            known: !letters.hidden,
        };
        match std::mem::take(&mut current.redirect) {
            Redirect::None => current.simple.words.push(word),
            Redirect::Write => current.simple.writes.push(word),
            Redirect::Read => {}
            Redirect::Text => current.simple.input = Some(word),
            Redirect::Duplicate => {
                let descriptor = word.text == "-" || word.text.bytes().all(|b| b.is_ascii_digit());
                if !descriptor {
                    current.simple.writes.push(word);
                }
            }
            Redirect::Here { tabs, quoted } => {
                current.simple.fed = true;
                self.announced += 1;
                current.simple.document = Some(self.announced);
                self.heredocs.push(Heredoc {
                    number: self.announced,
                    delimiter: letters.bytes,
                    tabs,
                    expands: !quoted,
                });
            }
        }
        Ok(())
    }

    fn end_command(&mut self, current: &mut CurrentCommand) -> Result<(), Unreadable> {
        self.end_word(current)?;
        let simple = std::mem::take(current).simple;
        if !simple.words.is_empty() || !simple.writes.is_empty() {
            self.items.push(Item::Run(simple));
        }
        Ok(())
    }

    /// Parses commands up to the end of the text, a closing bracket or a closing backtick.
    fn commands(&mut self, end: Terminator, depth: usize) -> Result<(), Unreadable> {
        if depth > DEEPEST {
            return Err(Unreadable::Deep);
        }
        let mut current = CurrentCommand::default();
        // Subshells that were opened here.
        let mut open = 0usize;
        loop {
            if self.at >= self.text.len() {
                self.end_command(&mut current)?;
                return match end == Terminator::Text && open == 0 {
                    true => Ok(()),
                    false => Err(Unreadable::Open),
                };
            }
            let byte = self.peek(0);
            match byte {
                b' ' | b'\t' | b'\r' => {
                    self.at += 1;
                    self.end_word(&mut current)?;
                }
                b'\n' => {
                    self.at += 1;
                    self.end_command(&mut current)?;
                    self.here_documents(depth)?;
                }
                b'#' if current.word.is_none() => {
                    while self.at < self.text.len() && self.peek(0) != b'\n' {
                        self.at += 1;
                    }
                }
                b'&' if self.peek(1) == b'>' => {
                    self.end_word(&mut current)?;
                    self.at += if self.peek(2) == b'>' { 3 } else { 2 };
                    current.redirect = Redirect::Write;
                }
                b';' | b'&' => {
                    self.at += 1;
                    self.end_command(&mut current)?;
                }
                b'|' => {
                    self.at += 1;
                    let or = self.peek(0) == b'|';
                    self.at += usize::from(or || self.peek(0) == b'&');
                    self.end_command(&mut current)?;
                    current.simple.fed = !or;
                }
                b'(' => open += self.open_bracket(&mut current)?,
                b')' => {
                    self.at += 1;
                    self.end_command(&mut current)?;
                    match open.checked_sub(1) {
                        Some(left) => {
                            open = left;
                            self.items.push(Item::Leave);
                        }
                        None if end == Terminator::Bracket => return Ok(()),
                        // The end of a `case` pattern.
                        None => {}
                    }
                }
                b'`' if end == Terminator::Backtick => {
                    self.at += 1;
                    self.end_command(&mut current)?;
                    return Ok(());
                }
                b'<' | b'>' => self.redirection(&mut current, depth)?,
                _ => self.part(&mut current, depth)?,
            }
        }
    }

    /// Parses `(` outside of words. Returns the number of subshells that it opens.
    fn open_bracket(&mut self, current: &mut CurrentCommand) -> Result<usize, Unreadable> {
        self.at += 1;
        self.end_command(current)?;
        // `name()` declares a function: its body is parsed as if it ran.
        if self.peek(0) == b')' {
            self.at += 1;
            return Ok(0);
        }
        self.items.push(Item::Enter);
        Ok(1)
    }

    fn redirection(&mut self, current: &mut CurrentCommand, depth: usize) -> Result<(), Unreadable> {
        // A number directly before it belongs to the redirection.
        if let Some(letters) = &current.word
            && !letters.bytes.is_empty()
            && letters.bytes.iter().all(u8::is_ascii_digit)
        {
            current.word = None;
        }
        self.end_word(current)?;
        let rest = self.text.get(self.at..).unwrap_or_default();
        if rest.starts_with(b"<(") || rest.starts_with(b">(") {
            self.at += 2;
            self.nested(Terminator::Bracket, depth)?;
            current.unknown(b"/dev/fd");
            return Ok(());
        }
        let here = |tabs| Redirect::Here { tabs, quoted: false };
        let (length, redirect) = match rest {
            [b'<', b'<', b'<', ..] => (3, Redirect::Text),
            [b'<', b'<', b'-', ..] => (3, here(true)),
            [b'<', b'<', ..] => (2, here(false)),
            [b'<', b'>', ..] => (2, Redirect::Write),
            [b'<', b'&', ..] => (2, Redirect::Read),
            [b'<', ..] => (1, Redirect::Read),
            [b'>', b'&', ..] => (2, Redirect::Duplicate),
            [b'>', b'>' | b'|', ..] => (2, Redirect::Write),
            _ => (1, Redirect::Write),
        };
        self.at += length;
        current.simple.fed |= rest.starts_with(b"<<<");
        current.redirect = redirect;
        Ok(())
    }

    fn nested(&mut self, end: Terminator, depth: usize) -> Result<(), Unreadable> {
        self.items.push(Item::Enter);
        self.commands(end, depth + 1)?;
        self.items.push(Item::Leave);
        Ok(())
    }

    /// Parses one piece of a word.
    fn part(&mut self, current: &mut CurrentCommand, depth: usize) -> Result<(), Unreadable> {
        let byte = self.peek(0);
        self.at += 1;
        match byte {
            b'\\' => {
                let next = self.peek(0);
                self.at += 1;
                // An escaped line end is not part of the word.
                if next != b'\n' && self.at <= self.text.len() {
                    current.quoted();
                    current.push(next);
                }
            }
            b'\'' => {
                current.quoted();
                let rest = self.text.get(self.at..).unwrap_or_default();
                let length = rest.iter().position(|b| *b == b'\'').ok_or(Unreadable::Open)?;
                for byte in rest.iter().take(length) {
                    current.push(*byte);
                }
                self.at += length + 1;
            }
            b'"' => self.double_quotes(current, depth)?,
            b'$' if self.peek(0) == b'\'' => {
                self.at += 1;
                self.ansi_quotes(current)?;
            }
            b'$' if self.peek(0) == b'"' => {}
            b'$' | b'`' => {
                self.at -= 1;
                self.expansion(current, depth)?;
            }
            other => current.unquoted(other),
        }
        Ok(())
    }

    /// Parses the rest of `"…"`.
    fn double_quotes(&mut self, current: &mut CurrentCommand, depth: usize) -> Result<(), Unreadable> {
        current.quoted();
        loop {
            if self.at >= self.text.len() {
                return Err(Unreadable::Open);
            }
            match self.peek(0) {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    let next = self.peek(1);
                    self.at += 2;
                    match next {
                        b'\n' => {}
                        b'"' | b'\\' | b'$' | b'`' => current.push(next),
                        _ => {
                            current.push(b'\\');
                            current.push(next);
                        }
                    }
                }
                b'$' | b'`' => self.expansion(current, depth)?,
                other => {
                    self.at += 1;
                    current.push(other);
                }
            }
        }
    }

    /// Parses the rest of `$'…'`.
    fn ansi_quotes(&mut self, current: &mut CurrentCommand) -> Result<(), Unreadable> {
        current.quoted();
        // Escapes in it could produce any text.
        current.unknown(b"");
        loop {
            let byte = *self.text.get(self.at).ok_or(Unreadable::Open)?;
            self.at += 1;
            match byte {
                b'\'' => return Ok(()),
                b'\\' => self.at += 1,
                other => current.push(other),
            }
        }
    }

    /// Parses `$…` or a backtick.
    fn expansion(&mut self, current: &mut CurrentCommand, depth: usize) -> Result<(), Unreadable> {
        let begin = self.at;
        match (self.peek(0), self.peek(1), self.peek(2)) {
            (b'`', ..) => {
                self.at += 1;
                self.nested(Terminator::Backtick, depth)?;
            }
            (_, b'(', b'(') => {
                self.at += 3;
                let mut open = 2usize;
                while open > 0 {
                    let byte = *self.text.get(self.at).ok_or(Unreadable::Open)?;
                    self.at += 1;
                    match byte {
                        b'(' => open += 1,
                        b')' => open -= 1,
                        _ => {}
                    }
                }
            }
            (_, b'(', _) => {
                self.at += 2;
                self.nested(Terminator::Bracket, depth)?;
            }
            (_, b'{', _) => {
                self.at += 2;
                let mut open = 1usize;
                while open > 0 {
                    match *self.text.get(self.at).ok_or(Unreadable::Open)? {
                        b'{' => open += 1,
                        b'}' => open -= 1,
                        b'`' => {
                            self.expansion(current, depth + 1)?;
                            continue;
                        }
                        b'$' if self.peek(1) == b'(' => {
                            self.expansion(current, depth + 1)?;
                            continue;
                        }
                        _ => {}
                    }
                    self.at += 1;
                }
            }
            (_, next, _) if next == b'_' || next.is_ascii_alphabetic() => {
                self.at += 1;
                while self.peek(0) == b'_' || self.peek(0).is_ascii_alphanumeric() {
                    self.at += 1;
                }
            }
            (_, b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'$' | b'!' | b'-', _) => self.at += 2,
            _ => {
                self.at += 1;
                current.push(b'$');
                return Ok(());
            }
        }
        current.unknown(self.text.get(begin..self.at).unwrap_or_default());
        Ok(())
    }
}
