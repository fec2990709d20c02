//! Which blocks live at the same time as a block.

use super::moments::Span;

/// For each block, the blocks that live at some moment of its life.
///
/// What is live is written down now and then. The neighbours of a block are then among those live at the last such
/// row before it, and those that start from there until it ends.
#[derive(Clone, Debug)]
pub(super) struct Neighbours<'a> {
    spans: &'a [Span],
    /// Rows of `spans` before which the live blocks were written down, each with where its list begins in `live`.
    checkpoints: Vec<(u32, u32)>,
    /// Rows of `spans`: one list after the other.
    live: Vec<u32>,
}

/// The fewest blocks between two checkpoints.
const STRIDE_MIN: u32 = 32;

impl<'a> Neighbours<'a> {
    /// For blocks by first moment.
    pub(super) fn new(spans: &'a [Span]) -> Self {
        let mut checkpoints = Vec::new();
        let mut listed = Vec::new();
        let mut live: Vec<u32> = Vec::new();
        let mut next = 0;
        for (row, span) in (0_u32..).zip(spans) {
            if row == next {
                live.retain(|&other| spans[other as usize].to > span.from);
                checkpoints.push((row, super::number(listed.len())));
                listed.extend_from_slice(&live);
                // At least as many blocks until the next as are live, so that all lists are no longer than `spans`.
                next += super::number(live.len()).max(STRIDE_MIN);
            }
            live.push(row);
        }
        Self { spans, checkpoints, live: listed }
    }

    /// Calls `each` with the row of each neighbour of a block; how many rows were looked at.
    pub(super) fn visit(&self, row: u32, mut each: impl FnMut(u32)) -> u64 {
        let Some(span) = self.spans.get(row as usize) else {
            return 0;
        };
        let after = self.checkpoints.partition_point(|&(at, _)| at <= row);
        let (first, list) = self.checkpoints[after - 1];
        let end = self.checkpoints.get(after).map_or(self.live.len(), |&(_, next)| next as usize);
        let mut looked = 0;
        for &other in &self.live[list as usize..end] {
            looked += 1;
            if self.spans[other as usize].to > span.from {
                each(other);
            }
        }
        for (other, candidate) in (first..).zip(&self.spans[first as usize..]) {
            looked += 1;
            if candidate.from >= span.to {
                break;
            }
            if candidate.to > span.from && other != row {
                each(other);
            }
        }
        looked
    }
}
