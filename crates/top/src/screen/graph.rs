//! Bars and graphs of letters.

use std::collections::VecDeque;

/// A cell filled from below, in eighths.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar of `width` cells: `███▌░░░` where `used` of `total` is used and `kept` beyond that is not to be had.
pub(super) fn bar(used: u64, kept: u64, total: u64, width: usize) -> String {
    let cells = |bytes: u64| scaled(bytes, total, width);
    let full = cells(used);
    // Anything at all is to be seen.
    let full = if used > 0 { full.max(1.min(width)) } else { full };
    let end = (cells(used.saturating_add(kept)).max(full)).min(width);
    let mut text = "█".repeat(full);
    text.push_str(&"░".repeat(width - end));
    text.push_str(&"▒".repeat(end - full));
    text
}

/// `bytes` of `total` as a part of `parts`, rounded to the nearest.
fn scaled(bytes: u64, total: u64, parts: usize) -> usize {
    if total == 0 {
        return 0;
    }
    let parts = parts as u128;
    let scaled = (u128::from(bytes) * parts + u128::from(total) / 2) / u128::from(total);
    usize::try_from(scaled.min(parts)).unwrap_or(0)
}

/// A graph of `rows` lines of `width` cells: the newest value, the first, at the right; `total` is the top.
pub(super) fn graph(values: &VecDeque<u64>, total: u64, width: usize, rows: usize) -> Vec<String> {
    let heights: Vec<usize> = values.iter().take(width).map(|&value| height(value, total, rows * 8)).collect();
    let line = |row: usize| {
        let below = (rows - 1 - row) * 8;
        let cells = heights.iter().rev().map(|height| EIGHTHS[height.saturating_sub(below).min(8)]);
        let padding = " ".repeat(width - heights.len());
        padding.chars().chain(cells).collect()
    };
    (0..rows).map(line).collect()
}

/// In eighths of a cell; anything at all has one.
fn height(value: u64, total: u64, most: usize) -> usize {
    let height = scaled(value, total, most);
    if value > 0 { height.max(1) } else { height }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_three_parts() {
        assert_eq!(bar(50, 10, 100, 10), "█████░░░░▒");
        assert_eq!(bar(1, 0, 100_000, 10), "█░░░░░░░░░");
        assert_eq!(bar(0, 0, 0, 4), "░░░░");
        assert_eq!(bar(u64::MAX, u64::MAX, 1, 4), "████");
        assert_eq!(bar(5, 5, 10, 0), "");
    }

    #[test]
    fn a_graph_grows_from_below_and_to_the_left() {
        let values = VecDeque::from([100, 50, 0, 1]);
        assert_eq!(graph(&values, 100, 6, 1), ["  ▁ ▄█"]);
        assert_eq!(graph(&values, 100, 4, 2), ["   █", "▁ ██"]);
        assert_eq!(graph(&values, 100, 2, 1), ["▄█"]);
    }
}
