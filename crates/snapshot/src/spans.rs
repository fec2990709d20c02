//! Rows of varying length in one buffer.

/// Where row `row` lies, given where each row ends; it begins where the one before it ends.
pub(crate) fn span(ends: &[usize], row: u32) -> std::ops::Range<usize> {
    let row = row as usize;
    let start = if row == 0 { 0 } else { ends[row - 1] };
    start..ends[row]
}
