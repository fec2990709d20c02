//! A small timeline for the terminal: allocated bytes as bars, reserved bytes above, the capacity as a line.

use crate::document::Text;
use crate::style::{self, BAD, BAR, DIM, PLAIN, STRONG, WARNING};
use crate::units;

/// Rows of the picture.
const HEIGHT: usize = 10;

/// Cells of the labels left of it, with the axis.
const LABEL: usize = 12;

/// Cells before the labels.
const INDENT: usize = 2;

/// Cells of a line at most, also where no terminal sets a bound.
const WIDEST: usize = 100;

/// Between two parts of the legend.
const GAP: &str = "   ";

/// Columns of the picture when the terminal has `width` cells.
pub(crate) fn columns(width: Option<usize>) -> usize {
    const NARROWEST: usize = 20;
    (width.unwrap_or(WIDEST).min(WIDEST)).saturating_sub(LABEL + INDENT).max(NARROWEST)
}

/// What is drawn.
pub(crate) struct Chart<'a> {
    /// Of each column, the highest bytes of the total that the bars show, and the highest reserved bytes.
    pub(crate) columns: &'a [(u64, u64)],
    /// What the device, or a limit, allows.
    pub(crate) capacity_bytes: Option<u64>,
    /// Entries of the whole trace.
    pub(crate) entries: usize,
    /// Marks below the axis: (entry, character), later ones win.
    pub(crate) marks: Vec<(usize, char)>,
}

impl Chart<'_> {
    /// The picture, a line a row.
    pub(crate) fn lines(&self) -> Vec<String> {
        let drawn_capacity = self.capacity_bytes.filter(|_| self.shows_capacity());
        let top = drawn_capacity.unwrap_or(0).max(self.highest()).max(1);
        let mut lines: Vec<String> = (0..HEIGHT).rev().map(|row| self.row(row, top, drawn_capacity)).collect();
        lines.push(format!("{:>width$} └{}", units::size(0), "─".repeat(self.columns.len()), width = LABEL - 2));
        lines.push(self.mark_line());
        lines.push(self.axis_line());
        lines
    }

    /// Whether the capacity is a line of the picture: far above everything it would press the curve flat.
    pub(crate) fn shows_capacity(&self) -> bool {
        self.capacity_bytes.is_some_and(|capacity| capacity <= self.highest().saturating_mul(3))
    }

    fn highest(&self) -> u64 {
        self.columns.iter().map(|&(bytes, reserved)| bytes.max(reserved)).max().unwrap_or(0)
    }

    fn row(&self, row: usize, top: u64, capacity: Option<u64>) -> String {
        let capacity_row = capacity.map(|bytes| eighths(bytes, top).saturating_sub(1) / 8);
        let cells = self.columns.iter().map(|&(bytes, reserved)| {
            let filled = eighths(bytes, top);
            let reserved_row = eighths(reserved, top).saturating_sub(1) / 8;
            match filled.saturating_sub(row * 8) {
                0 if Some(row) == capacity_row => '─',
                0 if row == reserved_row && reserved > 0 => '·',
                0 => ' ',
                part => [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][part.min(8)],
            }
        });
        let cells: String = cells.collect();
        let label = match row {
            _ if row + 1 == HEIGHT => units::size(top),
            _ if row + 1 == HEIGHT / 2 => units::size(top / 2),
            _ => String::new(),
        };
        let tick = if label.is_empty() { '│' } else { '┤' };
        format!("{label:>width$} {tick}{}", cells.trim_end(), width = LABEL - 2)
    }

    fn mark_line(&self) -> String {
        let mut cells = vec![' '; self.columns.len()];
        for &(entry, mark) in &self.marks {
            if let Some(cell) = cells.get_mut(entry * self.columns.len() / self.entries.max(1)) {
                *cell = mark;
            }
        }
        let cells: String = cells.into_iter().collect();
        format!("{:LABEL$}{}", "", cells.trim_end())
    }

    fn axis_line(&self) -> String {
        let last = format!("entry {}", units::count(self.entries.saturating_sub(1)));
        let between = self.columns.len().saturating_sub(last.len() + 1).max(1);
        format!("{:LABEL$}0{:between$}{last}", "", "")
    }
}

/// A line of the picture or its legend, with the styles of its marks.
pub(crate) fn styled(line: &str) -> Text {
    let style_of = |c: char| match c {
        '✗' => BAD,
        '▲' => STRONG,
        '─' => WARNING,
        '·' | '│' | '┤' | '└' => DIM,
        '▁'..='█' => BAR,
        _ => PLAIN,
    };
    // The axis is drawn as the capacity is, and is no such line.
    let of = |c: char| if line.contains('└') && c == '─' { DIM } else { style_of(c) };
    style::runs(line, of).into_iter().fold(Text::default(), |text, (style, run)| text.and(run, style))
}

/// The legend below a picture, on as many lines as a terminal of `width` cells needs.
pub(crate) fn legend(parts: &[String], width: Option<usize>) -> Vec<String> {
    let room = width.unwrap_or(WIDEST).saturating_sub(INDENT);
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut().filter(|line| line.chars().count() + GAP.len() + part.chars().count() <= room) {
            Some(line) => line.extend([GAP, part]),
            None => lines.push(format!("{:LABEL$}{part}", "")),
        }
    }
    lines
}

/// How many eighths of a cell a value fills, of [`HEIGHT`] cells; something for anything above 0.
fn eighths(bytes: u64, top: u64) -> usize {
    let cells = u128::from(bytes) * (HEIGHT as u128) * 8;
    let filled = usize::try_from(cells.div_ceil(u128::from(top))).unwrap_or(usize::MAX);
    filled.min(HEIGHT * 8)
}

/// Cells of a bar that lies.
const BAR_CELLS: u128 = 24;

/// A bar as long as the share of a part, in eighths of a cell; something for anything above 0.
pub(crate) fn bar(part: u64, whole: u64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (u128::from(part) * BAR_CELLS * 8).div_ceil(u128::from(whole.max(1))).min(BAR_CELLS * 8);
    let eighths = usize::try_from(eighths).unwrap_or_default();
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_rise_to_the_peak_and_the_capacity_is_a_line() {
        let columns: Vec<_> = (0..20).map(|i| (i << 20, (i + 2) << 20)).collect();
        let chart = Chart {
            columns: &columns,
            capacity_bytes: Some(32 << 20),
            entries: 200,
            marks: vec![(0, '|'), (100, '|'), (199, '▲')],
        };
        insta::assert_snapshot!(chart.lines().join("\n"), @r"
        32.00 MiB ┤────────────────────
                  │
                  │
                  │                  ··
                  │               ··▃▅█
        16.00 MiB ┤           ··▁▃▆████
                  │        ··▁▄▆███████
                  │     ··▂▄▇██████████
                  │  ··▂▅▇█████████████
                  │·▃▅█████████████████
              0 B └────────────────────
                   |         |        ▲
                   0          entry 199
        ");
    }

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(1, 1).chars().count(), 24);
        assert_eq!(bar(1, 2).chars().count(), 12);
        assert_eq!(bar(1, 1_000_000), "▏");
        assert_eq!(bar(0, 1), "");
        assert_eq!(bar(0, 0), "");
        assert_eq!(bar(u64::MAX, u64::MAX).chars().count(), 24);
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let chart = Chart { columns: &[], capacity_bytes: None, entries: 0, marks: Vec::new() };
        assert_eq!(chart.lines().len(), HEIGHT + 3);
    }
}
