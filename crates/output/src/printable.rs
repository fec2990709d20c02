//! Text that is safe to print: the only text that tables, documents and rows of CSV take.

use std::borrow::{Borrow, Cow};
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::ops::Deref;

use anstyle::Style;

use crate::style::{Ink, on_stdout};

/// A line of text without control characters, however it was made: they are written as escapes (`\n`, `\u{1b}`).
///
/// A snapshot, a log and a command line are untrusted: a function's name could otherwise move the cursor, retitle the
/// window, break a line in two or, with a change of writing direction, show other text than it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printable(String);

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Nothing but words, whatever characters are in them.
    Words(&'a str),
    /// Something of a program, which stands between backticks on a terminal.
    Code(&'a str),
}

impl Printable {
    /// The text without its line ends and other control characters.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        match printable(&text) {
            Cow::Borrowed(_) => Self(text),
            Cow::Owned(safe) => Self(safe),
        }
    }

    /// The text in parts: text between two backticks is code, and a backtick without another is a character.
    ///
    /// A name with backticks in it can make words look like code, and code like words, and no more than that: whoever
    /// writes the parts escapes the words, and quotes the code.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            if let Some(inner) = rest.strip_prefix('`')
                && let Some((code, after)) = inner.split_once('`')
                && !code.is_empty()
            {
                rest = after;
                return Some(Piece::Code(code));
            }
            // At least one character, or a lone backtick would be found again and again.
            let end = rest.char_indices().skip(1).find(|&(_, c)| c == '`').map_or(rest.len(), |(at, _)| at);
            let (words, after) = rest.split_at(end);
            rest = after;
            Some(Piece::Words(words))
        })
    }
}

impl Deref for Printable {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Printable {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Printable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<String> for Printable {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Printable {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<Cow<'_, str>> for Printable {
    fn from(text: Cow<'_, str>) -> Self {
        Self::new(text)
    }
}

/// The text with its control characters written as escapes, to put into a longer text.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_unsafe)
}

fn escaped(text: &str, is_unsafe: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_unsafe) {
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
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

/// Writes lines for people: whatever reaches it, only line ends stay of the control characters.
///
/// The styles of [`Ink`] are its own: they are written where the terminal shows them, around text that is escaped.
#[derive(Debug)]
pub struct Lines<W> {
    inner: W,
    has_styles: bool,
}

impl<W> Lines<W> {
    /// Lines without styles: for files, pipes and texts.
    pub fn plain(inner: W) -> Self {
        Self { inner, has_styles: false }
    }

    /// Lines for standard output, with styles [if it shows them](on_stdout).
    pub fn for_stdout(inner: W) -> Self {
        Self { inner, has_styles: on_stdout() }
    }

    /// Lines with styles.
    pub fn with_styles(inner: W) -> Self {
        Self { inner, has_styles: true }
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.inner
    }
}

impl<W: Write> Ink for Lines<W> {
    fn ink(&mut self, style: Style, text: &str) -> io::Result<()> {
        if !self.has_styles || style.is_plain() || text.is_empty() {
            return self.write_all(text.as_bytes());
        }
        write!(self.inner, "{style}")?;
        self.write_all(text.as_bytes())?;
        write!(self.inner, "{style:#}")
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Formatting hands on whole characters.
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) if error.valid_up_to() > 0 => {
                std::str::from_utf8(&bytes[..error.valid_up_to()]).map_err(io::Error::other)?
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        self.inner.write_all(escaped(text, |c| c != '\n' && is_unsafe(c)).as_bytes())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_escapes_and_other_text_stays() {
        assert_eq!(printable("train.py:3 größe 重み"), "train.py:3 größe 重み");
        assert_eq!(printable("\x1b]0;title\x07\r\nx\u{9b}31m"), r"\u{1b}]0;title\u{7}\r\nx\u{9b}31m");
        assert_eq!(printable("abc\u{202e}fdp"), r"abc\u{202e}fdp");
        assert_eq!(&*Printable::from("\x1b[2J\n"), r"\u{1b}[2J\n");
        assert_eq!(Printable::new(Printable::from("\x1b").to_string()), Printable::from("\x1b"));
    }

    #[test]
    fn code_is_what_two_backticks_enclose() {
        let pieces = |text: &str| {
            let text = Printable::from(text);
            let code = |piece| match piece {
                Piece::Words(words) => words.to_owned(),
                Piece::Code(code) => format!("<{code}>"),
            };
            text.pieces().map(code).collect::<Vec<_>>().join("|")
        };
        assert_eq!(pieces("call `empty_cache()` or `x`."), "call |<empty_cache()>| or |<x>|.");
        assert_eq!(pieces("`<img src=x>"), "`<img src=x>");
        assert_eq!(pieces("a``b`c"), "a|`|<b>|c");
        assert_eq!(pieces("`"), "`");
        assert_eq!(pieces(""), "");
    }

    #[test]
    fn lines_keep_their_ends_and_no_other_control_character() {
        let mut out = Lines::plain(Vec::new());
        out.write_all("größe \u{9b}\n\x1b[31m\r\u{202e}\n".as_bytes()).unwrap();
        assert_eq!(String::from_utf8(out.inner).unwrap(), "größe \\u{9b}\n\\u{1b}[31m\\r\\u{202e}\n");
    }

    #[test]
    fn styles_are_written_around_text_whose_own_escapes_are_not() {
        let mut out = Lines::with_styles(Vec::new());
        out.ink(crate::style::STRONG, "a\x1b[31mb").unwrap();
        out.ink(crate::style::PLAIN, "c").unwrap();
        assert_eq!(String::from_utf8(out.inner).unwrap(), "\u{1b}[1ma\\u{1b}[31mb\u{1b}[0mc");
        let mut out = Lines::plain(Vec::new());
        out.ink(crate::style::BAD, "a").unwrap();
        assert_eq!(out.into_inner(), b"a");
    }
}
