//! Arguments of a command: options, their values, and the other words.

use jit_agents::hooks::shell::Word;

/// Splits `NAME=value`.
pub(super) fn assignment(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let mut letters = name.bytes();
    let begins = letters
        .next()
        .is_some_and(|b| b == b'_' || b.is_ascii_alphabetic());
    (begins && letters.all(|b| b == b'_' || b.is_ascii_alphanumeric())).then_some((name, value))
}

/// Returns the values of these options: `-o F`, `-oF`, `-xyo F`, `--output F`, `--output=F`.
pub(super) fn values(args: &[Word], flags: &[&str]) -> Vec<Word> {
    let mut out = Vec::new();
    for (at, word) in args.iter().enumerate() {
        let text = word.text.as_str();
        if text == "--" {
            break;
        }
        for flag in flags {
            let next = || args.get(at + 1).cloned();
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            if is_option(name, flag) {
                out.extend(value.map(|value| word.part(value)).or_else(next));
            } else if flag.starts_with("--") {
                continue;
            } else if text.starts_with('-')
                && !text.starts_with("--")
                && let Some(letter) = flag.get(1..)
                && let Some((bundle, value)) = text.get(1..).and_then(|rest| rest.split_once(letter))
                && bundle.bytes().all(|b| b.is_ascii_alphanumeric())
            {
                match value.is_empty() {
                    true => out.extend(next()),
                    false => out.push(word.part(value)),
                }
            }
        }
    }
    out
}

/// Returns whether a word is this option. Git accepts the beginning of a long one.
pub(super) fn is_option(word: &str, flag: &str) -> bool {
    word == flag || (word.len() > 2 && word.starts_with("--") && flag.starts_with(word))
}

/// Returns the names of the options, without their values.
pub(super) fn flags<'a>(args: &'a [Word], valued: &[&str]) -> Vec<&'a str> {
    let mut out = Vec::new();
    let mut args = args.iter().map(|word| word.text.as_str());
    while let Some(text) = args.next().filter(|text| *text != "--") {
        if text.starts_with('-') {
            out.push(text.split('=').next().unwrap_or(text));
        }
        if valued.iter().any(|flag| is_option(text, flag)) || ends_valued(text, valued) {
            args.next();
        }
    }
    out
}

/// Returns the words that are neither options nor values of these options.
pub(super) fn free(args: &[Word], valued: &[&str]) -> Vec<Word> {
    let mut out = Vec::new();
    let mut args = args.iter();
    while let Some(word) = args.next() {
        let text = word.text.as_str();
        if text == "--" {
            out.extend(args.by_ref().cloned());
        } else if valued.iter().any(|flag| is_option(text, flag)) || ends_valued(text, valued) {
            args.next();
        } else if !text.starts_with('-') || text == "-" {
            out.push(word.clone());
        }
    }
    out
}

/// Returns whether the next word is the value of such a bundle: `-xyo`, where `-o` needs a value.
fn ends_valued(text: &str, valued: &[&str]) -> bool {
    let is_valued = |letter: char| {
        valued
            .iter()
            .any(|flag| flag.len() == 2 && flag.ends_with(letter))
    };
    let bundle = text.strip_prefix('-').filter(|bundle| !bundle.starts_with('-'));
    // The rest after the first such letter is already its value.
    bundle.is_some_and(|bundle| bundle.find(is_valued).is_some_and(|at| at + 1 == bundle.len()))
}
