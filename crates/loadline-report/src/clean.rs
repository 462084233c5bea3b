//! Foreign strings made harmless. Names, targets, error kinds and sentences of a record may hold
//! anything, up to what steers a terminal or turns text around.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The text on one line, with `?` for whatever does not print: control characters (so that no escape
/// sequence is left), line separators, and the marks that change the direction of text or hide.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_hostile) {
        text.chars()
            .map(|c| if is_hostile(c) { '?' } else { c })
            .collect()
    } else {
        Cow::Borrowed(text)
    }
}

/// Width of the text in columns of a terminal.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// The text cut to at most `width` columns, with `~` where something is missing.
pub(crate) fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    if columns(text) <= width {
        return Cow::Borrowed(text);
    }
    let mut cut = String::new();
    let mut taken = 0;
    for c in text.chars() {
        taken += c.width().unwrap_or(0);
        if taken > width.saturating_sub(1) {
            break;
        }
        cut.push(c);
    }
    cut.push('~');
    Cow::Owned(cut)
}

fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A text for an element or a quoted attribute of HTML or XML. XML 1.0 cannot hold control characters and the two
/// non-characters, even as entities, so they are replaced.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('?'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleaned_text_has_no_control_sequences() {
        for (text, expected) in [
            ("\x1b[31mred\x1b[0m", "?[31mred?[0m"),
            ("\u{9b}31m", "?31m"),
            ("a\r\nb\tc\x07\x7f", "a??b?c??"),
            ("\u{202e}txt.exe", "?txt.exe"),
            ("zero\u{200b}width\u{feff}", "zero?width?"),
            ("line\u{2028}separator", "line?separator"),
            ("Grüße, 世界", "Grüße, 世界"),
        ] {
            assert_eq!(plain(text), expected);
        }
    }

    #[test]
    fn cut_text_fits_with_wide_letters() {
        assert_eq!(shortened("embedded", 8), "embedded");
        assert_eq!(shortened("embedded", 7), "embedd~");
        assert_eq!(shortened("世界世界", 6), "世界~");
        assert_eq!(shortened("anything", 1), "~");
        assert!(columns(&shortened(&"x".repeat(200), 18)) == 18);
    }
}
