//! Quoting for the shell.

/// Quotes `text` so that a shell reads it back as one word. The result is one line without control characters, because
/// people see it.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else if text.chars().any(|c| c.is_ascii_control()) && !text.ends_with('\n') {
        // `$(…)` drops newlines at the end of the output, and only there.
        let mut inner = String::new();
        for (n, c) in text.chars().enumerate() {
            match c {
                // printf would read it as the start of an option.
                '-' if n == 0 => inner.push_str("\\055"),
                '\n' => inner.push_str("\\n"),
                '\'' => inner.push_str(r"'\''"),
                '\\' => inner.push_str(r"\\"),
                '%' => inner.push_str("%%"),
                c if c.is_ascii_control() => inner.push_str(&format!("\\{:03o}", u32::from(c))),
                c => inner.push(c),
            }
        }
        format!("\"$(printf '{inner}')\"")
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn h3_a_word_for_a_shell_is_read_back_as_it_was() {
        for text in [
            "-x\ny",
            "-\n",
            "--\u{1}",
            "a\nb",
            "it's 100% \\ so\n-",
            "plain",
            "",
            "two words",
        ] {
            let script = format!("printf '%s|' {}", shell_word(text));
            let ran = std::process::Command::new("sh").args(["-c", &script]).output();
            let said = String::from_utf8(ran.expect("a shell").stdout).expect("text");
            assert_eq!(said, format!("{text}|"), "{script}");
        }
    }
}
