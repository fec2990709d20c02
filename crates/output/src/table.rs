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
use crate::style::{DIM, Ink, PLAIN, Style, runs};

/// Blanks between two columns.
const GAP: usize = 2;

/// A last column of sentences with less room than this stands below its row.
const MIN_WIDTH: usize = 16;

/// So does one that would be cut, such as a place in a program.
const MIN_CUT_WIDTH: usize = 28;

/// Blanks before a cell that stands below its row.
const BELOW: usize = 4;

/// How the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For text.
    Left,
    /// For numbers, which are never cut.
    Right,
}

/// What a column shows in a row.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: Printable,
    style: Style,
    /// Of a drawing, the style of each character.
    drawn: Option<fn(char) -> Style>,
}

impl Cell {
    /// A text in a style.
    pub fn new(text: impl Into<Printable>, style: Style) -> Self {
        Self { text: text.into(), style, drawn: None }
    }

    /// A drawing, whose characters have styles of their own.
    pub fn drawn(drawing: impl Into<Printable>, of: fn(char) -> Style) -> Self {
        Self { text: drawing.into(), style: PLAIN, drawn: Some(of) }
    }

    /// Writes its text, or what of it has room.
    fn ink(&self, out: &mut impl Ink, text: &str) -> io::Result<()> {
        match self.drawn {
            Some(of) => runs(text, of).into_iter().try_for_each(|(style, run)| out.ink(style, run)),
            None => out.ink(self.style, text),
        }
    }

    pub(crate) fn text(&self) -> &Printable {
        &self.text
    }

    pub(crate) fn style(&self) -> Style {
        self.style
    }
}

impl<T: Into<Printable>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, PLAIN)
    }
}

/// The cells of a row, and whole lines that stand below it.
#[derive(Debug, Default)]
struct Row {
    cells: Vec<Cell>,
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
    optional: Vec<usize>,
}

/// Which columns are shown, and how wide.
struct Layout {
    /// The columns that stand beside each other, with the cells of each.
    columns: Vec<(usize, usize)>,
    /// Cells of the last column, where it stands below the others.
    below: Option<usize>,
    /// The first column stands above the others.
    is_headed: bool,
    /// Cells of a line; what stands beyond goes on in the next.
    limit: usize,
}

impl Table {
    /// A table of these columns; a header is printed unless every title is empty.
    pub fn new(columns: impl IntoIterator<Item = (impl Into<Printable>, Align)>) -> Self {
        let columns: Vec<(Printable, Align)> =
            columns.into_iter().map(|(title, align)| (title.into(), align)).collect();
        Self {
            has_header: columns.iter().any(|(title, _)| !title.is_empty()),
            columns,
            rows: Vec::new(),
            indent: 0,
            is_wrapped: false,
            optional: Vec::new(),
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

    /// Columns that a narrow terminal may lack, by number; the first is left out first.
    #[must_use]
    pub fn optional(self, columns: &[usize]) -> Self {
        Self { optional: columns.into(), ..self }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(Row { cells, below: Vec::new() });
    }

    /// Adds a line above the next row, outside the columns, half as far to the right.
    pub fn heading(&mut self, line: impl Into<Printable>) {
        self.rows.push(Row { cells: Vec::new(), below: vec![line.into()] });
    }

    /// Adds a line below the last row, outside the columns.
    pub fn below(&mut self, line: impl Into<Printable>) {
        let row = self.rows.last_mut().expect("a row comes before what stands below it");
        row.below.push(line.into());
    }

    /// Writes the table in lines of at most `width` cells, where there is one.
    ///
    /// Columns that may be left out go first. Then the last column's texts are cut in the middle, or broken if the table is
    /// [wrapped](Self::wrapped), and stand below their rows where hardly any room is left. Numbers are never cut: where they leave
    /// no room, the names before them stand above, and as a last resort a row goes on in a second line.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Ink, width: Option<usize>) -> io::Result<()> {
        let layout = self.layout(width);
        if self.has_header {
            let titles: Vec<Cell> = self.columns.iter().map(|(title, _)| Cell::new(title.clone(), DIM)).collect();
            if layout.below.is_some() || layout.is_headed {
                self.write_row(out, &titles, &layout)?;
            } else {
                self.write_lines(out, &titles, &layout)?;
            }
        }
        for row in &self.rows {
            if row.cells.is_empty() {
                row.below
                    .iter()
                    .try_for_each(|line| writeln!(out, "{:indent$}{line}", "", indent = self.indent / 2))?;
                continue;
            }
            self.write_lines(out, &row.cells, &layout)?;
            for line in &row.below {
                // Its own blanks stand before every part of it.
                let text = line.trim_start();
                let indent = self.indent + line.len() - text.len();
                let room = width.map_or(usize::MAX, |width| width.saturating_sub(indent));
                for part in broken(text, room) {
                    writeln!(out, "{:indent$}{part}", "")?;
                }
            }
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
        for row in self.rows.iter().filter(|row| !row.cells.is_empty()) {
            writeln!(out, "{}", line(row.cells.iter().map(|cell| markdown(&cell.text, Place::Cell)).collect()))?;
        }
        writeln!(out)?;
        for below in self.rows.iter().flat_map(|row| &row.below) {
            writeln!(out, "{}\n", markdown(below, Place::Paragraph))?;
        }
        Ok(())
    }

    fn layout(&self, limit: Option<usize>) -> Layout {
        let widest = |column: usize| {
            self.rows.iter().filter_map(|row| row.cells.get(column)).map(|cell| cell.text.width()).max().unwrap_or(0)
        };
        let title = |column: usize| if self.has_header { self.columns[column].0.width() } else { 0 };
        let mut columns: Vec<_> =
            (0..self.columns.len()).map(|column| (column, widest(column).max(title(column)))).collect();
        let Some(limit) = limit else { return Layout { columns, below: None, is_headed: false, limit: usize::MAX } };
        let taken =
            |columns: &[(usize, usize)]| self.indent + columns.iter().map(|(_, width)| width + GAP).sum::<usize>();
        let is_text = self.columns.last().is_some_and(|&(_, align)| align == Align::Left);
        let least = if self.is_wrapped { MIN_WIDTH } else { MIN_CUT_WIDTH };
        let mut optional = self.optional.iter();
        while let Some((&(column, last), others)) = columns.split_last() {
            // One that may be left out is not cut.
            let needed = if is_text && !self.optional.contains(&column) { last.min(least) } else { last };
            if taken(others) + needed <= limit {
                break;
            }
            let Some(dropped) = optional.next() else { break };
            columns.retain(|(column, _)| column != dropped);
        }
        let mut below = None;
        if let Some(&(column, last)) = columns.last().filter(|_| is_text) {
            let room = limit.saturating_sub(taken(&columns[..columns.len() - 1]));
            let beneath = limit.saturating_sub(self.indent + BELOW).max(MIN_WIDTH);
            let enough = if self.is_wrapped { self.longest_word(column, beneath).max(least) } else { least };
            if last > room && room < enough && columns.len() > 1 {
                columns.pop();
                below = Some(beneath);
            } else if let Some((_, width)) = columns.last_mut() {
                *width = last.min(room.max(enough));
            }
        }
        // Numbers only: a name before them goes above.
        let is_named = self.columns.first().is_some_and(|&(_, align)| align == Align::Left);
        let is_headed = !is_text && is_named && columns.len() > 2 && taken(&columns) - GAP > limit;
        if is_headed {
            columns.remove(0);
        }
        Layout { columns, below, is_headed, limit }
    }

    /// Cells of the longest word of a column that a line of so many cells holds: a name that can be read whole is not cut.
    fn longest_word(&self, column: usize, most: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
        let words = cells.flat_map(|cell| kept_together(&cell.text)).map(str::width);
        words.filter(|&width| width <= most).max().unwrap_or(0)
    }

    /// Writes a row, over several lines if the last cell does not fit in one.
    fn write_lines(&self, out: &mut impl Ink, cells: &[Cell], layout: &Layout) -> io::Result<()> {
        let Some(last) = cells.last() else { return Ok(()) };
        if layout.is_headed && !cells[0].text.is_empty() {
            write!(out, "{:indent$}", "", indent = self.indent)?;
            cells[0].ink(out, &cells[0].text)?;
            writeln!(out)?;
        }
        if let Some(width) = layout.below {
            self.write_row(out, cells, layout)?;
            let lines = if self.is_wrapped { broken(&last.text, width) } else { vec![last.text.to_string()] };
            for line in lines.iter().filter(|line| !line.is_empty()) {
                write!(out, "{:indent$}", "", indent = self.indent + BELOW)?;
                last.ink(out, &shorten(line, width))?;
                writeln!(out)?;
            }
            return Ok(());
        }
        let Some(&(column, width)) = layout.columns.last().filter(|_| self.is_wrapped) else {
            return self.write_row(out, cells, layout);
        };
        let mut line = cells.to_vec();
        for part in broken(&cells[column].text, width) {
            line[column].text = part.into();
            self.write_row(out, &line, layout)?;
            line[..column].fill(Cell::default());
        }
        Ok(())
    }

    /// Writes the cells that stand beside each other.
    fn write_row(&self, out: &mut impl Ink, cells: &[Cell], layout: &Layout) -> io::Result<()> {
        // Blanks are written before the next text only, so that none ends a line.
        let mut blanks = self.indent + if layout.is_headed { GAP } else { 0 };
        let mut end = blanks;
        for &(column, width) in &layout.columns {
            if end + width > layout.limit && end > self.indent + BELOW {
                writeln!(out)?;
                (blanks, end) = (self.indent + BELOW, self.indent + BELOW);
            }
            end += width + GAP;
            let text = &cells[column].text;
            let is_number = self.columns[column].1 == Align::Right;
            let text = if is_number { text.to_string() } else { shorten(text, width) };
            let text = text.trim_end();
            let padding = width.saturating_sub(text.width());
            if text.is_empty() {
                blanks += width + GAP;
                continue;
            }
            let before = if is_number { padding } else { 0 };
            write!(out, "{:blanks$}", "", blanks = blanks + before)?;
            cells[column].ink(out, text)?;
            blanks = padding - before + GAP;
        }
        writeln!(out)
    }
}

/// The text broken at blanks into lines of at most `width` terminal cells; a longer word has a line of its own.
///
/// A number stays beside its unit: `1.50 GiB`, `33 %`.
pub fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for words in kept_together(text) {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + words.width() <= width => line.extend([" ", words]),
            _ => lines.push(words.to_owned()),
        }
    }
    lines
}

/// The same, but code between backticks stays on one line, so that it can be copied; longer code has a line of its own.
pub fn broken_around_code(text: &str, width: usize) -> Vec<String> {
    const BLANK: &str = "\u{e000}";
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(i, part)| if i % 2 == 1 { part.replace(' ', BLANK) } else { part.to_owned() });
    let lines = broken(&parts.collect::<Vec<_>>().join("`"), width);
    lines.into_iter().map(|line| line.replace(BLANK, " ")).collect()
}

/// The words of a text, a number and its unit being one.
fn kept_together(text: &str) -> impl Iterator<Item = &str> {
    const UNITS: [&str; 12] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "GB", "MB", "%", "ms", "s"];
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut end = text.find(' ').unwrap_or(text.len());
        if text[..end].ends_with(|c: char| c.is_ascii_digit()) {
            let after = text.get(end + 1..).unwrap_or_default();
            let next = &after[..after.find(' ').unwrap_or(after.len())];
            let unit = next.trim_end_matches([',', '.', ';', ':', ')', ']']);
            if UNITS.contains(&unit) {
                end += 1 + next.len();
            }
        }
        rest = text.get(end + 1..);
        Some(&text[..end])
    })
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

/// Cells that a line of prose has at most: longer ones are hard to read.
const PROSE: usize = 100;

/// Cells of a line: of the terminal, or elsewhere as many as `COLUMNS` says; `None` where nothing does and nothing need be cut.
pub fn terminal_width() -> Option<usize> {
    let of_terminal = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    let asked = || std::env::var("COLUMNS").ok()?.trim().parse().ok().filter(|&columns| columns > 0);
    of_terminal.or_else(asked)
}

/// Cells of a line of prose on standard error's terminal; `None` where it is none, and lines need not be broken.
pub fn error_width() -> Option<usize> {
    let of_terminal = terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0));
    of_terminal.map(|width| prose_width(Some(width)))
}

/// Cells of a line of prose where lines have `width`: 100 at most, also where nothing says a width.
pub fn prose_width(width: Option<usize>) -> usize {
    width.unwrap_or(PROSE).min(PROSE)
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
    fn code_stays_on_one_line() {
        let text = "`highwater diff a.pickle b.pickle` shows what changed, `highwater view a b` shows both";
        assert_eq!(
            broken_around_code(text, 40),
            ["`highwater diff a.pickle b.pickle` shows", "what changed, `highwater view a b` shows", "both"]
        );
        assert_eq!(broken_around_code("a `b c d e f` g", 6), ["a", "`b c d e f`", "g"]);
        assert_eq!(broken_around_code("an `open backtick stays", 80), ["an `open backtick stays"]);
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
    fn a_last_column_without_room_stands_below_its_row() {
        insta::assert_snapshot!(text(&sample(), Some(36)), @r"
            size
        1.50 GiB
            train.py:12 step
           512 B
            /home/me/…ention.py:88 forward
        ");
    }

    #[test]
    fn optional_columns_go_before_anything_is_cut_and_numbers_stay_whole() {
        let mut table = Table::new([("a", Align::Right), ("b", Align::Right), ("c", Align::Right)]).optional(&[1]);
        table.row(["14.90 GiB", "1.02x", "+14.90 GiB  +52.0 %"]);
        insta::assert_snapshot!(text(&table, Some(37)), @r"
                a      b                    c
        14.90 GiB  1.02x  +14.90 GiB  +52.0 %
        ");
        insta::assert_snapshot!(text(&table, Some(36)), @r"
                a                    c
        14.90 GiB  +14.90 GiB  +52.0 %
        ");
        assert!(text(&table, Some(10)).contains("+14.90 GiB  +52.0 %"));
    }

    #[test]
    fn numbers_without_room_go_on_in_the_next_line() {
        let mut table = Table::new([("a", Align::Right), ("b", Align::Right), ("c", Align::Right)]).indented(2);
        table.row(["14.90 GiB", "52.50 MiB requested", "1.00 GiB"]);
        insta::assert_snapshot!(text(&table, Some(34)), @r"
                  a                    b
                     c
          14.90 GiB  52.50 MiB requested
              1.00 GiB
        ");
    }

    #[test]
    fn names_stand_above_numbers_that_leave_no_room() {
        let mut table = Table::new([("", Align::Left), ("A", Align::Right), ("change", Align::Right)]).indented(2);
        table.row(["peak reserved", "14.90 GiB", "+14.90 GiB"]);
        insta::assert_snapshot!(text(&table, Some(30)), @r"
                    A      change
          peak reserved
            14.90 GiB  +14.90 GiB
        ");
    }

    #[test]
    fn a_number_stays_beside_its_unit() {
        assert_eq!(broken("it needs 1.50 GiB, 33 % of all", 13), ["it needs", "1.50 GiB,", "33 % of all"]);
        assert_eq!(broken("", 10), [""]);
        // All blanks but those at the ends of lines stay.
        assert_eq!(broken("  a  b ", 3), ["  a", " b "]);
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
    fn a_name_that_would_be_cut_stands_below_its_row_if_it_is_whole_there() {
        let mut table = Table::new([("size", Align::Right), ("", Align::Right), ("settings", Align::Left)]).wrapped();
        table.row(["8.15 GiB", "8.15 GiB", "garbage_collection_threshold:0.8"]);
        insta::assert_snapshot!(text(&table, Some(46)), @r"
            size
        8.15 GiB  8.15 GiB
            garbage_collection_threshold:0.8
        ");
    }

    #[test]
    fn the_last_column_that_is_shown_is_broken() {
        let mut table = Table::new([("", Align::Right), ("", Align::Left), ("", Align::Left)]).optional(&[2]).wrapped();
        table.row(["409.60 MiB", "this process: outside PyTorch", "███"]);
        insta::assert_snapshot!(text(&table, Some(30)), @r"
        409.60 MiB  this process:
                    outside PyTorch
        ");
    }

    #[test]
    fn a_title_is_broken_like_its_cells() {
        let mut table = Table::new([("entries", Align::Right), ("peak of each phase", Align::Left)]).wrapped();
        table.row(["0–10,832", "forward 6.62 GiB, backward 13.34 GiB"]);
        insta::assert_snapshot!(text(&table, Some(26)), @r"
         entries  peak of each
                  phase
        0–10,832  forward
                  6.62 GiB,
                  backward
                  13.34 GiB
        ");
    }

    #[test]
    fn shortening_counts_cells_not_bytes() {
        assert_eq!(shorten("重み重み重み", 12), "重み重み重み");
        assert_eq!(shorten("重み重み重み", 8), "重…重み");
        assert_eq!(shorten("abcdef", 0).width(), 1);
    }
}
