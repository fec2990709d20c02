//! Text from a file, made safe to print.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with its control characters written as escapes (`\n`, `\u{1b}`).
///
/// A snapshot is untrusted: a function's name could otherwise move the cursor, retitle the window, break a line in two
/// or, with a change of writing direction, show other text than it holds.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) {
            // Writing to a string does not fail.
            let _ = write!(safe, "{}", c.escape_default());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Control characters, line separators, and marks that turn the direction of writing.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_escapes_and_other_text_stays() {
        assert_eq!(printable("train.py:3 größe 重み"), "train.py:3 größe 重み");
        assert_eq!(printable("\x1b]0;title\x07\r\nx\u{9b}31m"), r"\u{1b}]0;title\u{7}\r\nx\u{9b}31m");
        assert_eq!(printable("abc\u{202e}fdp"), r"abc\u{202e}fdp");
    }
}
