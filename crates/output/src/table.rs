//! Small text tables: columns line up, numbers to the right, long paths give way in the middle.
//!
//! ```text
//!     size  count  where
//! 1.50 GiB      3  train.py:12 step
//!    512 B  1,204  models/…/attention.py:88 forward
//! ```

use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::markdown::{Place, markdown};
use crate::printable::Printable;

/// Blanks between two columns.
const GAP: usize = 2;

/// No column is cut below this many cells.
const MIN_WIDTH: usize = 16;

/// How the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For text.
    Left,
    /// For numbers.
    Right,
}

/// The cells of a row, and whole lines that stand below it.
#[derive(Debug, Default)]
struct Row {
    cells: Vec<Printable>,
    below: Vec<Printable>,
}

/// A table in the making: columns first, then rows of as many cells.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(Printable, Align)>,
    rows: Vec<Row>,
    indent: usize,
    has_header: bool,
    is_wrapped: bool,
}

impl Table {
    /// A table of these columns; a header is printed unless every title is empty.
    pub fn new<const N: usize>(columns: [(&str, Align); N]) -> Self {
        Self {
            has_header: columns.iter().any(|(title, _)| !title.is_empty()),
            columns: columns.map(|(title, align)| (title.into(), align)).into(),
            rows: Vec::new(),
            indent: 0,
            is_wrapped: false,
        }
    }

    /// Blanks before each line.
    #[must_use]
    pub fn indented(self, indent: usize) -> Self {
        Self { indent, ..self }
    }

    /// Breaks the last column's cells at blanks, rather than to cut them: for sentences, and where every part counts.
    #[must_use]
    pub fn wrapped(self) -> Self {
        Self { is_wrapped: true, ..self }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [impl Into<Printable>; N]) {
        assert_eq!(N, self.columns.len(), "a cell for each column");
        self.rows.push(Row { cells: cells.map(Into::into).into(), below: Vec::new() });
    }

    /// Adds a line below the last row, outside the columns.
    pub fn below(&mut self, line: impl Into<Printable>) {
        let row = self.rows.last_mut().expect("a row comes before what stands below it");
        row.below.push(line.into());
    }

    /// Writes the table; if a line would be longer than `width`, the last column's cells are cut in the middle.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write, width: Option<usize>) -> io::Result<()> {
        let widths = self.widths(width);
        if self.has_header {
            let titles: Vec<&str> = self.columns.iter().map(|(title, _)| &**title).collect();
            self.write_row(out, &titles, &widths)?;
        }
        for row in &self.rows {
            let cells: Vec<&str> = row.cells.iter().map(|cell| &**cell).collect();
            self.write_lines(out, &cells, &widths)?;
            row.below.iter().try_for_each(|line| writeln!(out, "{:indent$}{line}", "", indent = self.indent))?;
        }
        Ok(())
    }

    /// Writes the table as Markdown, nothing cut.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_markdown(&self, out: &mut impl Write) -> io::Result<()> {
        let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        writeln!(out, "{}", line(self.columns.iter().map(|(title, _)| markdown(title, Place::Cell)).collect()))?;
        let rule = |align: &Align| if *align == Align::Right { "---:" } else { "---" }.to_owned();
        writeln!(out, "{}", line(self.columns.iter().map(|(_, align)| rule(align)).collect()))?;
        for row in &self.rows {
            writeln!(out, "{}", line(row.cells.iter().map(|cell| markdown(cell, Place::Cell)).collect()))?;
        }
        writeln!(out)?;
        for below in self.rows.iter().flat_map(|row| &row.below) {
            writeln!(out, "{}\n", markdown(below, Place::Paragraph))?;
        }
        Ok(())
    }

    fn widths(&self, limit: Option<usize>) -> Vec<usize> {
        let widest = |column: usize| self.rows.iter().map(|row| row.cells[column].width()).max().unwrap_or(0);
        let mut widths: Vec<_> = self
            .columns
            .iter()
            .enumerate()
            .map(|(column, (title, _))| widest(column).max(if self.has_header { title.width() } else { 0 }))
            .collect();
        if let (Some(limit), Some((last, others))) = (limit, widths.split_last_mut()) {
            let taken = self.indent + others.iter().map(|width| width + GAP).sum::<usize>();
            *last = (*last).min(limit.saturating_sub(taken).max(MIN_WIDTH));
        }
        widths
    }

    /// Writes a row, over several lines if the table is wrapped and the last cell is too wide.
    fn write_lines(&self, out: &mut impl Write, cells: &[&str], widths: &[usize]) -> io::Result<()> {
        let (Some((last, others)), Some(&width), true) = (cells.split_last(), widths.last(), self.is_wrapped) else {
            return self.write_row(out, cells, widths);
        };
        let mut others = others.to_vec();
        for line in broken(last, width) {
            self.write_row(out, &[&others[..], &[line.as_str()]].concat(), widths)?;
            others.fill("");
        }
        Ok(())
    }

    fn write_row(&self, out: &mut impl Write, cells: &[&str], widths: &[usize]) -> io::Result<()> {
        let mut line = " ".repeat(self.indent);
        for ((cell, &width), &(_, align)) in cells.iter().zip(widths).zip(&self.columns) {
            let cell = shorten(cell, width);
            let padding = " ".repeat(width - cell.width());
            let [before, after] = if align == Align::Right { [padding.as_str(), ""] } else { ["", padding.as_str()] };
            line.extend([before, &cell, after, &" ".repeat(GAP)]);
        }
        writeln!(out, "{}", line.trim_end())
    }
}

/// The text broken at blanks into lines of at most `width` terminal cells; a longer word has a line of its own.
pub fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("it begins with one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.width() + 1 + word.width() <= width {
            line.extend([" ", word]);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// The text in at most `width` terminal cells, its middle replaced by `…` if it is longer.
///
/// Of what stays, a third is the beginning: the end of `path/file.py:12 name` says more.
pub fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let head_width = width.saturating_sub(1) / 3;
    let tail_width = width.saturating_sub(1 + head_width);
    let head = &text[..prefix_bytes(text.chars(), head_width)];
    let tail = &text[text.len() - prefix_bytes(text.chars().rev(), tail_width)..];
    format!("{head}…{tail}")
}

/// Bytes of the first characters that fit in `width` cells.
fn prefix_bytes(chars: impl Iterator<Item = char>, width: usize) -> usize {
    let mut taken = 0;
    chars
        .take_while(|c| {
            taken += c.width().unwrap_or(0);
            taken <= width
        })
        .map(char::len_utf8)
        .sum()
}

/// Cells of a line on the terminal; `None` where the output is no terminal and need not be cut.
pub fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new([("size", Align::Right), ("where", Align::Left)]).indented(2);
        table.row(["1.50 GiB".to_owned(), "train.py:12 step".to_owned()]);
        table.row(["512 B".to_owned(), "/home/me/project/models/attention.py:88 forward".to_owned()]);
        table
    }

    fn text(table: &Table, width: Option<usize>) -> String {
        let mut out = Vec::new();
        table.write(&mut out, width).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_line_up() {
        insta::assert_snapshot!(text(&sample(), None), @r"
            size  where
        1.50 GiB  train.py:12 step
           512 B  /home/me/project/models/attention.py:88 forward
        ");
    }

    #[test]
    fn the_last_column_is_cut_in_the_middle() {
        let text = text(&sample(), Some(40));
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        assert!(text.contains("512 B  /home/me/…tion.py:88 forward"), "{text}");
    }

    #[test]
    fn the_last_column_is_broken_at_blanks_where_that_was_asked_for() {
        insta::assert_snapshot!(text(&sample().wrapped(), Some(40)), @r"
            size  where
        1.50 GiB  train.py:12 step
           512 B  /home/me/…ls/attention.py:88
                  forward
        ");
    }

    #[test]
    fn shortening_counts_cells_not_bytes() {
        assert_eq!(shorten("重み重み重み", 12), "重み重み重み");
        assert_eq!(shorten("重み重み重み", 8), "重…重み");
        assert_eq!(shorten("abcdef", 0).width(), 1);
    }
}
