//! Shortens text to a maximum length.

/// The first `most` characters of a text, followed by `…` if some were dropped.
pub fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The same for bytes, which need not be valid UTF-8.
pub fn short_bytes(bytes: &[u8], most: usize) -> String {
    // A character has at most four bytes.
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
