//! Text of bounded length.

/// At most so many characters, and a sign where some were left out.
pub fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Bytes that may be anything, as a text of at most so many characters.
pub fn short_bytes(bytes: &[u8], most: usize) -> String {
    // No character has more than four bytes.
    let head = &bytes[..bytes.len().min(most.saturating_mul(4).saturating_add(4))];
    short(&String::from_utf8_lossy(head), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g4_what_is_shortened_stays_text() {
        assert_eq!(short("äöü", 3), "äöü");
        assert_eq!(short("äöüx", 3), "äöü…");
        assert_eq!(short_bytes("äöüx".as_bytes(), 2), "äö…");
        assert_eq!(short_bytes(&[0xff; 100], 1).chars().count(), 2);
    }
}
