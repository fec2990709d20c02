//! A segment drawn as a bar: what each part of its address range holds.

use highwater_snapshot::{Block, BlockState, Segment};

use crate::style::{BAR, DIM, PLAIN, Style, WARNING};

/// Cells of a bar.
const CELLS: usize = 48;

/// What the cells mean.
pub(crate) const LEGEND: &str = "█ allocated  ▄ partly allocated  ~ awaiting free  · free";

/// The style of a cell.
pub(crate) fn style_of(cell: char) -> Style {
    match cell {
        '█' | '▄' => BAR,
        '~' => WARNING,
        '·' => DIM,
        _ => PLAIN,
    }
}

/// Bytes of one cell, by what holds them.
#[derive(Clone, Copy, Default)]
struct Cell {
    allocated: u128,
    awaiting_free: u128,
    free: u128,
}

impl Cell {
    fn draw(self) -> char {
        match self {
            Self { allocated: 0, awaiting_free: 0, .. } => '·',
            Self { allocated, awaiting_free, .. } if awaiting_free >= allocated => '~',
            Self { awaiting_free: 0, free: 0, .. } => '█',
            _ => '▄',
        }
    }
}

/// The bar: the first cell is the lowest address, all cells cover equally many bytes.
pub(crate) fn bar(segment: &Segment, blocks: &[Block]) -> String {
    // In units of 1/48 byte every cell has a whole length, that of the segment.
    let unit = CELLS as u128;
    let length = u128::from(segment.total_bytes.max(1));
    let mut cells = [Cell::default(); CELLS];
    for block in blocks {
        let offset = u128::from(block.address.saturating_sub(segment.address)) * unit;
        let start = offset.min(length * unit);
        let end = (offset + u128::from(block.size_bytes) * unit).min(length * unit);
        for (cell, begin) in cells.iter_mut().zip((0..).map(|i: u128| i * length)).skip(index(start / length)) {
            if begin >= end {
                break;
            }
            let bytes = end.min(begin + length) - start.max(begin);
            match block.state {
                BlockState::ActiveAllocated => cell.allocated += bytes,
                BlockState::ActiveAwaitingFree => cell.awaiting_free += bytes,
                BlockState::Inactive => cell.free += bytes,
            }
        }
    }
    cells.iter().map(|cell| cell.draw()).collect()
}

/// The number of a cell; past the last one for what lies outside the segment.
fn index(cell: u128) -> usize {
    usize::try_from(cell).unwrap_or(CELLS)
}

#[cfg(test)]
mod tests {
    use highwater_snapshot::{PoolId, SegmentType, StackId, StreamId};

    use super::*;

    fn draw(total_bytes: u64, blocks: &[(u64, u64, BlockState)]) -> String {
        let segment = Segment {
            device: 0,
            address: 1 << 40,
            total_bytes,
            stream: StreamId::DEFAULT,
            segment_type: SegmentType::Large,
            pool: PoolId::DEFAULT,
            is_expandable: false,
            stack: StackId::MISSING,
            blocks: 0..0,
        };
        let blocks: Vec<_> = blocks
            .iter()
            .map(|&(offset, size_bytes, state)| Block {
                address: segment.address + offset,
                size_bytes,
                requested_bytes: size_bytes,
                state,
                stack: StackId::MISSING,
            })
            .collect();
        bar(&segment, &blocks)
    }

    #[test]
    fn a_cell_shows_what_its_bytes_hold() {
        use BlockState::{ActiveAllocated, ActiveAwaitingFree, Inactive};
        assert_eq!(draw(4800, &[(0, 4800, ActiveAllocated)]), "█".repeat(48));
        assert_eq!(draw(4800, &[(0, 4800, Inactive)]), "·".repeat(48));
        let mixed = draw(
            4800,
            &[
                (0, 2400, ActiveAllocated),
                (2400, 1250, Inactive),
                (3650, 50, ActiveAllocated),
                (3700, 1100, ActiveAwaitingFree),
            ],
        );
        assert_eq!(mixed, ["█".repeat(24), "·".repeat(12), "▄".to_owned(), "~".repeat(11)].concat());
    }

    #[test]
    fn blocks_outside_the_segment_are_clipped() {
        assert_eq!(draw(10, &[(5, u64::MAX, BlockState::ActiveAllocated)]).chars().filter(|&c| c == '█').count(), 24);
        assert_eq!(draw(10, &[(1 << 50, 1, BlockState::ActiveAllocated)]), "·".repeat(48));
        assert_eq!(draw(0, &[]), "·".repeat(48));
    }
}
