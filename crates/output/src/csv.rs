//! CSV as RFC 4180 has it, with cells that no spreadsheet runs.

use std::fmt;
use std::io::{self, Write};

use crate::printable::printable;

/// Cells, one after the other, and the end of the row.
///
/// A cell is a number or a text. Control characters in a text are escapes, so that no row breaks over two lines; a text that
/// a spreadsheet would take for a formula begins with an apostrophe: names and command lines are anybody's.
#[derive(Debug)]
pub struct Row<'a, W> {
    out: &'a mut W,
    has_cells: bool,
}

/// A number that a cell may show.
pub trait Number: fmt::Display {}

impl Number for u16 {}
impl Number for u32 {}
impl Number for u64 {}
impl Number for i64 {}
impl Number for f64 {}
impl Number for usize {}

/// A piece of the text of a cell, prepared once for all the cells that it is in.
#[derive(Clone, Debug)]
pub struct Piece {
    /// As it stands between quotes.
    doubled: String,
    needs_quotes: bool,
    is_formula: bool,
}

impl Piece {
    /// Prepares a text.
    pub fn new(text: &str) -> Self {
        let text = printable(text);
        Self {
            needs_quotes: text.contains(['"', ',']),
            // The wide forms, too: a spreadsheet in Japanese takes them for the same.
            is_formula: text.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']),
            doubled: text.replace('"', "\"\""),
        }
    }
}

impl<'a, W: Write> Row<'a, W> {
    /// A row without cells.
    pub fn new(out: &'a mut W) -> Self {
        Self { out, has_cells: false }
    }

    /// Adds a number; nothing where it is not known.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn number(&mut self, number: Option<impl Number>) -> io::Result<()> {
        self.next()?;
        number.map_or(Ok(()), |number| write!(self.out, "{number}"))
    }

    /// Adds a text.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        // Most texts of millions of rows are words that need nothing.
        if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b' ' | b'.' | b'/')) {
            self.next()?;
            return self.out.write_all(text.as_bytes());
        }
        self.joined([&Piece::new(text)])
    }

    /// Adds a text in pieces, with `;` between.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn joined<'p>(&mut self, pieces: impl IntoIterator<Item = &'p Piece, IntoIter: Clone>) -> io::Result<()> {
        self.next()?;
        let pieces = pieces.into_iter();
        let is_formula = pieces.clone().next().is_some_and(|first| first.is_formula);
        let needs_quotes = is_formula || pieces.clone().any(|piece| piece.needs_quotes);
        let quote = if needs_quotes { "\"" } else { "" };
        write!(self.out, "{quote}{}", if is_formula { "'" } else { "" })?;
        for (number, piece) in pieces.enumerate() {
            self.out.write_all(if number == 0 { b"" } else { b";" })?;
            self.out.write_all(piece.doubled.as_bytes())?;
        }
        self.out.write_all(quote.as_bytes())
    }

    /// Ends the row.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn end(self) -> io::Result<()> {
        self.out.write_all(b"\n")
    }

    fn next(&mut self) -> io::Result<()> {
        let comma: &[u8] = if self.has_cells { b"," } else { b"" };
        self.has_cells = true;
        self.out.write_all(comma)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(write: impl FnOnce(&mut Row<'_, Vec<u8>>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        let mut row = Row::new(&mut out);
        write(&mut row).and_then(|()| row.end()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn cells_are_quoted_where_needed() {
        for (text, want) in [
            ("plain text; with this", "plain text; with this"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", r"two\nlines"),
            ("\x1b]0;t\x07", r"\u{1b}]0;t\u{7}"),
            ("", ""),
        ] {
            assert_eq!(row(|row| row.text(text)), format!("{want}\n"));
        }
    }

    #[test]
    fn no_text_is_a_formula_and_numbers_stay_numbers() {
        for text in ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "＝1"] {
            assert_eq!(row(|row| row.text(text)), format!("\"'{text}\"\n"));
        }
        let written = row(|row| {
            row.number(Some(-1_i64))?;
            row.number(None::<u64>)?;
            row.text("=1,\"2\"")?;
            row.joined(&["=a:1 f", "b,c:2 g"].map(Piece::new))
        });
        assert_eq!(written, "-1,,\"'=1,\"\"2\"\"\",\"'=a:1 f;b,c:2 g\"\n");
    }
}
