//! Parses a shell command line far enough to see which programs it runs, with which words, and which files it writes.
//!
//! What must hold:
//! - quotes, escapes, comments, here-documents, redirections, pipes, lists, subshells and substitutions are recognized
//!   as in a POSIX shell, and in bash where agents use it; commands inside a substitution are found too;
//! - a word that depends on more than the text (variables, substitutions) is marked: [`Word::known`] is false. Its
//!   plain variables are listed, for callers that know their values;
//! - brace lists (`a{b,c}`) become the words they stand for;
//! - a line that cannot be parsed is an error, never a guess. Parsing always ends, for any depth and length.
//!
//! Limitations: keywords (`if`, `do`, `{`) become words of commands, and callers skip them. Aliases and functions are
//! not followed. `case` patterns look like commands that run nothing.

/// Maximum nesting depth. Real command lines are far less deep.
const DEEPEST: usize = 40;
/// Maximum number of words of one brace list.
const MOST_WORDS: usize = 256;
/// Maximum bytes of a command line.
const LONGEST: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// Without quotes. Unknown parts are written as in the command line.
    pub text: String,
    /// Whether the text is the whole word.
    pub known: bool,
    /// The variables in it.
    pub variables: Vec<Variable>,
    /// Some part is neither text nor a plain variable.
    pub hidden: bool,
}

impl Word {
    pub fn plain(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            known: true,
            ..Self::default()
        }
    }

    /// A word that is known only as it was written.
    pub fn unknown(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hidden: true,
            ..Self::default()
        }
    }

    /// A part of this word; known only if the whole word is.
    pub fn part(&self, text: &str) -> Self {
        match self.known {
            true => Self::plain(text),
            false => Self::unknown(text),
        }
    }
}

/// `$NAME` or `${NAME}` in the text of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub begin: usize,
    pub end: usize,
    pub quoted: bool,
}

/// One program with its words: a "simple command" in the shell's grammar.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Simple {
    pub words: Vec<Word>,
    /// Files that its output is redirected to.
    pub writes: Vec<Word>,
    /// Whether its standard input may itself be commands: a pipe or a here-document.
    pub fed: bool,
    /// That input, if it is part of the command line.
    pub input: Option<Word>,
    /// The number of the here-document that it comes from.
    document: Option<usize>,
}

impl Simple {
    pub fn of(words: Vec<Word>) -> Self {
        Self {
            words,
            ..Self::default()
        }
    }
}

/// A part of a command line, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Run(Simple),
    /// A directory change between this and the matching [`Item::Leave`] has no effect outside.
    Enter,
    Leave,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("a quote or bracket is never closed")]
    Open,
    #[error("it is nested too deeply")]
    Deep,
    #[error("it is too long")]
    Long,
}

pub fn read(text: &str) -> Result<Vec<Item>, Unreadable> {
    if text.len() > LONGEST {
        return Err(Unreadable::Long);
    }
    let mut reader = ShellReader {
        text: text.as_bytes(),
        at: 0,
        items: Vec::new(),
        heredocs: Vec::new(),
        announced: 0,
        bodies: Vec::new(),
    };
    reader.commands(Terminator::Text, 0)?;
    let ShellReader {
        mut items, bodies, ..
    } = reader;
    for item in &mut items {
        if let Item::Run(simple) = item
            && let Some(number) = simple.document.take()
        {
            let body = bodies.iter().find(|(of, _)| *of == number);
            simple.input = body.map(|(_, body)| body.clone());
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
    variables: Vec<Variable>,
    hidden: bool,
    /// Positions of braces and commas outside of quotes.
    braces: Vec<usize>,
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
        if matches!(byte, b'{' | b',' | b'}') {
            letters.braces.push(letters.bytes.len());
        }
        letters.bytes.push(byte);
    }

    fn unknown(&mut self, bytes: &[u8]) {
        let letters = self.letters();
        letters.bytes.extend_from_slice(bytes);
        letters.hidden = true;
    }

    fn variable(&mut self, raw: &[u8], name: &[u8], quoted: bool) {
        let letters = self.letters();
        let begin = letters.bytes.len();
        letters.bytes.extend_from_slice(raw);
        letters.variables.push(Variable {
            name: String::from_utf8_lossy(name).into_owned(),
            begin,
            end: letters.bytes.len(),
            quoted,
        });
    }

    fn quoted(&mut self) {
        self.letters();
        if let Redirect::Here { quoted, .. } = &mut self.redirect {
            *quoted = true;
        }
    }
}

/// The words that a word with brace lists stands for. `None` if they are too many, or the braces are no list.
fn spread(bytes: &[u8], braces: &[usize]) -> Option<Vec<Vec<u8>>> {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    // Finds the outermost group that has a comma of its own.
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut group = None;
    for &at in braces {
        match (byte(at), open.last_mut()) {
            (b'{', _) => open.push((at, Vec::new())),
            (b',', Some((_, commas))) => commas.push(at),
            (b'}', Some(_)) => {
                let Some((begin, commas)) = open.pop() else {
                    continue;
                };
                let inside = bytes.get(begin + 1..at).unwrap_or_default();
                if commas.is_empty() && inside.windows(2).any(|two| two == b"..") {
                    return None;
                }
                let outer = |(first, ..): &(usize, _, _)| begin < *first;
                if !commas.is_empty() && group.as_ref().is_none_or(outer) {
                    group = Some((begin, commas, at));
                }
            }
            _ => {}
        }
    }
    let Some((begin, commas, end)) = group else {
        return Some(vec![bytes.to_vec()]);
    };
    let mut out = Vec::new();
    let mut from = begin + 1;
    for to in commas.into_iter().chain([end]) {
        let mut one = bytes.get(..begin).unwrap_or_default().to_vec();
        one.extend_from_slice(bytes.get(from..to).unwrap_or_default());
        // Move the remaining brace positions along with the text around them.
        let middle = one.len();
        let mut left: Vec<usize> = braces.iter().copied().filter(|at| *at < begin).collect();
        let inner = braces.iter().copied().filter(|at| (from..to).contains(at));
        left.extend(inner.map(|at| at - from + begin));
        let outer = braces.iter().copied().filter(|at| *at > end);
        left.extend(outer.map(|at| at - end - 1 + middle));
        one.extend_from_slice(bytes.get(end + 1..).unwrap_or_default());
        out.extend(spread(&one, &left)?);
        if out.len() > MOST_WORDS {
            return None;
        }
        from = to + 1;
    }
    Some(out)
}

impl ShellReader<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn end_word(&mut self, current: &mut CurrentCommand) {
        let Some(letters) = current.word.take() else {
            return;
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let known = letters.variables.is_empty() && !letters.hidden;
        let spread = match (known, letters.braces.is_empty()) {
            (_, true) => None,
            (true, false) => Some(spread(&letters.bytes, &letters.braces)),
            // If a variable is in the list, the text does not show where its words end.
            (false, false) => match spread(&letters.bytes, &letters.braces) {
                Some(words) if words.len() == 1 => None,
                _ => Some(None),
            },
        };
        let words = match spread {
            Some(Some(words)) => words.iter().map(|bytes| Word::plain(text(bytes))).collect(),
            Some(None) => vec![Word::unknown(text(&letters.bytes))],
            None => vec![Word {
                text: text(&letters.bytes),
                known,
                variables: letters.variables,
                hidden: letters.hidden,
            }],
        };
        match std::mem::take(&mut current.redirect) {
            Redirect::None => current.simple.words.extend(words),
            Redirect::Write => current.simple.writes.extend(words),
            Redirect::Read => {}
            Redirect::Text => current.simple.input = words.into_iter().next(),
            Redirect::Duplicate => current.simple.writes.extend(
                words
                    .into_iter()
                    .filter(|word| word.text != "-" && !word.text.bytes().all(|b| b.is_ascii_digit())),
            ),
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
    }

    fn end_command(&mut self, current: &mut CurrentCommand) {
        self.end_word(current);
        let simple = std::mem::take(current).simple;
        if !simple.words.is_empty() || !simple.writes.is_empty() {
            self.items.push(Item::Run(simple));
        }
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
                self.end_command(&mut current);
                return match end == Terminator::Text && open == 0 {
                    true => Ok(()),
                    false => Err(Unreadable::Open),
                };
            }
            let byte = self.peek(0);
            match byte {
                b' ' | b'\t' | b'\r' => {
                    self.at += 1;
                    self.end_word(&mut current);
                }
                b'\n' => {
                    self.at += 1;
                    self.end_command(&mut current);
                    self.here_documents(depth)?;
                }
                b'#' if current.word.is_none() => {
                    while self.at < self.text.len() && self.peek(0) != b'\n' {
                        self.at += 1;
                    }
                }
                b'&' if self.peek(1) == b'>' => {
                    self.end_word(&mut current);
                    self.at += if self.peek(2) == b'>' { 3 } else { 2 };
                    current.redirect = Redirect::Write;
                }
                b';' | b'&' => {
                    self.at += 1;
                    self.end_command(&mut current);
                }
                b'|' => {
                    self.at += 1;
                    let or = self.peek(0) == b'|';
                    self.at += usize::from(or || self.peek(0) == b'&');
                    self.end_command(&mut current);
                    current.simple.fed = !or;
                }
                b'(' => {
                    self.at += 1;
                    // `name()` declares a function: its body is parsed as if it ran.
                    if self.peek(0) == b')' {
                        self.at += 1;
                        self.end_command(&mut current);
                    } else {
                        self.end_command(&mut current);
                        self.items.push(Item::Enter);
                        open += 1;
                    }
                }
                b')' => {
                    self.at += 1;
                    self.end_command(&mut current);
                    if open > 0 {
                        open -= 1;
                        self.items.push(Item::Leave);
                    } else if end == Terminator::Bracket {
                        return Ok(());
                    }
                    // Otherwise this is the end of a `case` pattern.
                }
                b'`' if end == Terminator::Backtick => {
                    self.at += 1;
                    self.end_command(&mut current);
                    return Ok(());
                }
                b'<' | b'>' => self.redirection(&mut current, depth)?,
                _ => self.part(&mut current, depth)?,
            }
        }
    }

    fn redirection(&mut self, current: &mut CurrentCommand, depth: usize) -> Result<(), Unreadable> {
        // A number directly before it belongs to the redirection.
        if let Some(letters) = &current.word
            && !letters.bytes.is_empty()
            && letters.bytes.iter().all(u8::is_ascii_digit)
        {
            current.word = None;
        }
        self.end_word(current);
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
                self.expansion(current, false, depth)?;
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
                b'$' | b'`' => self.expansion(current, true, depth)?,
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
    fn expansion(
        &mut self,
        current: &mut CurrentCommand,
        quoted: bool,
        depth: usize,
    ) -> Result<(), Unreadable> {
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
                            self.expansion(current, quoted, depth + 1)?;
                            continue;
                        }
                        b'$' if self.peek(1) == b'(' => {
                            self.expansion(current, quoted, depth + 1)?;
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
        let raw = self.text.get(begin..self.at).unwrap_or_default();
        let braced = raw.strip_prefix(b"${").and_then(|rest| rest.strip_suffix(b"}"));
        let name = braced.or(raw.strip_prefix(b"$")).unwrap_or_default();
        let begins = name
            .first()
            .is_some_and(|b| *b == b'_' || b.is_ascii_alphabetic());
        match begins && name.iter().all(|b| *b == b'_' || b.is_ascii_alphanumeric()) {
            true => current.variable(raw, name, quoted),
            false => current.unknown(raw),
        }
        Ok(())
    }

    /// Parses the bodies of the here-documents of the previous line.
    fn here_documents(&mut self, depth: usize) -> Result<(), Unreadable> {
        for document in std::mem::take(&mut self.heredocs) {
            let begin = self.at;
            let mut last = self.text.len();
            loop {
                let rest = self.text.get(self.at..).unwrap_or_default();
                if rest.is_empty() {
                    // bash accepts the end of the text as the delimiter.
                    break;
                }
                let length = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                let line = rest.get(..length).unwrap_or_default();
                let end = self.at + length;
                let bare = match document.tabs {
                    true => line.trim_ascii_start(),
                    false => line,
                };
                if bare == document.delimiter {
                    last = self.at;
                    self.at = (end + 1).min(self.text.len());
                    break;
                }
                // Its substitutions run.
                while document.expands && self.at < end {
                    match (self.peek(0), self.peek(1)) {
                        (b'\\', _) => self.at += 2,
                        (b'`', _) | (b'$', b'(') => {
                            self.expansion(&mut CurrentCommand::default(), true, depth + 1)?;
                        }
                        _ => self.at += 1,
                    }
                }
                // A substitution may span several lines.
                if self.at <= end {
                    self.at = (end + 1).min(self.text.len());
                }
            }
            let body = self.text.get(begin..last).unwrap_or_default();
            let text = String::from_utf8_lossy(body).into_owned();
            let word = match document.expands && body.iter().any(|b| matches!(b, b'$' | b'`' | b'\\')) {
                true => Word::unknown(text),
                false => Word::plain(text),
            };
            self.bodies.push((document.number, word));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands as words joined by blanks; unknown words in `<>`, written files after `>`, subshells in brackets.
    fn shown(text: &str) -> String {
        let mut out = Vec::new();
        for item in read(text).expect(text) {
            out.push(match item {
                Item::Enter => "(".to_owned(),
                Item::Leave => ")".to_owned(),
                Item::Run(simple) => {
                    let show = |word: &Word| match word.known {
                        true => word.text.clone(),
                        false => format!("<{}>", word.text),
                    };
                    let mut words: Vec<String> = simple.words.iter().map(show).collect();
                    words.extend(simple.writes.iter().map(|word| format!(">{}", show(word))));
                    words.join(" ")
                }
            });
        }
        out.join(" ; ")
    }

    #[test]
    fn f9_command_lines_are_read_as_a_shell_reads_them() {
        for (text, expected) in [
            ("git stash", "git stash"),
            ("a && b || c; d & e | f", "a ; b ; c ; d ; e ; f"),
            ("echo 'a b' \"c d\" e\\ f", "echo a b c d e f"),
            ("echo a > x 2>> 'y z' 2>&1 >&log &> w", "echo a >x >y z >log >w"),
            ("cat < in > out", "cat >out"),
            ("(cd x && y); z", "( ; cd x ; y ; ) ; z"),
            (
                "echo \"$(git stash) b\"",
                "( ; git stash ; ) ; echo <$(git stash) b>",
            ),
            ("echo `git stash`", "( ; git stash ; ) ; echo <`git stash`>"),
            (
                "diff <(a) <(b c)",
                "( ; a ; ) ; ( ; b c ; ) ; diff </dev/fd> </dev/fd>",
            ),
            ("echo $HOME/x ${A:-b} $1 a$", "echo <$HOME/x> <${A:-b}> <$1> a$"),
            ("a # git stash\nb", "a ; b"),
            ("a#b", "a#b"),
            ("a \\\n b", "a b"),
            ("cat <<'E' > f\ngit stash\nE\nls", "cat >f ; ls"),
            ("cat <<E\n$(git stash)\nE\nls", "cat ; ( ; git stash ; ) ; ls"),
            ("cat <<-E\n\tx\n\tE\nls", "cat ; ls"),
            (
                "git commit -m \"$(cat <<'EOF'\nit's; fine\nEOF\n)\"",
                "( ; cat ; ) ; git commit -m <$(cat <<'EOF'\nit's; fine\nEOF\n)>",
            ),
            ("f() { git stash; }", "f ; { git stash ; }"),
            ("case x in a) b;; esac", "case x in a ; b ; esac"),
            ("x=$((1+(2))) y", "<x=$((1+(2)))> y"),
            ("a x{b,c}y", "a xby xcy"),
            ("a {b,c{d,e}}{1,2}", "a b1 b2 cd1 cd2 ce1 ce2"),
            ("a '{b,c}' {} {1..3} {$X,y}", "a {b,c} {} <{1..3}> <{$X,y}>"),
            ("g$'\\x69't stash", "<g69t> stash"),
            ("cat <<< 'x' > y", "cat >y"),
            ("", ""),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn f9_what_cannot_be_read_is_an_error_and_every_input_ends() {
        for text in [
            "echo 'a",
            "echo \"a",
            "echo $(a",
            "echo `a",
            "(a",
            "echo ${a",
            "$'",
            "echo $((1)",
            "<(",
        ] {
            assert_eq!(read(text), Err(Unreadable::Open), "{text}");
        }
        assert_eq!(read(&"$(".repeat(500)), Err(Unreadable::Deep));
        assert_eq!(read(&"${`".repeat(500)), Err(Unreadable::Deep));
        assert_eq!(read(&"x".repeat(LONGEST + 1)), Err(Unreadable::Long));
        let _ = read("\\");
        let _ = read("cat <<E");
        let _ = read("cat <<E\n\\");
        // Random text of its own grammar: parsing must end.
        let letters = b"ab'\"\\$(){}`<>&|;#\n -";
        let mut seed = 1u32;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push(letters[(seed >> 24) as usize % letters.len()] as char);
            }
            let _ = read(&text);
        }
    }
}
