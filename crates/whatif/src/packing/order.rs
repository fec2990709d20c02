//! In which order to place blocks.

use std::cmp::Reverse;

use super::moments::Span;

/// What goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Blocks that live through the highest live bytes; of those, the ones that end last.
    TightestThenLast,
    /// The same; of those, the ones that live longest.
    TightestThenLongest,
    /// The same; of those, the ones with most bytes.
    TightestThenLargest,
    /// The same; of those, the ones with most bytes times life.
    TightestThenWidest,
    /// Most bytes.
    Largest,
    /// Most bytes times life.
    Widest,
}

impl Order {
    /// All, the ones that succeed most often first.
    pub(super) const ALL: [Self; 6] = [
        Self::TightestThenLast,
        Self::TightestThenLongest,
        Self::TightestThenLargest,
        Self::TightestThenWidest,
        Self::Largest,
        Self::Widest,
    ];

    /// The rows of `spans` in this order; `contention` is the highest live bytes during each one's life.
    pub(super) fn of(self, spans: &[Span], contention: &[u64]) -> Vec<u32> {
        let mut keyed: Vec<_> = (0_u32..)
            .zip(spans.iter().zip(contention))
            .map(|(row, (span, &tight))| {
                let area = u128::from(span.bytes) * u128::from(span.moments());
                let key = match self {
                    Self::TightestThenLast => (tight, u128::from(span.to)),
                    Self::TightestThenLongest => (tight, u128::from(span.moments())),
                    Self::TightestThenLargest => (tight, u128::from(span.bytes)),
                    Self::TightestThenWidest => (tight, area),
                    Self::Largest => (span.bytes, u128::from(span.moments())),
                    Self::Widest => (0, area),
                };
                Reverse((key, row))
            })
            .collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|Reverse((_, row))| row).collect()
    }
}

/// Moves some rows to the front, in the order they have.
pub(super) fn promote(order: &mut [u32], rows: &[u32]) {
    let chosen: hashbrown::HashSet<u32> = rows.iter().copied().collect();
    order.sort_by_key(|row| !chosen.contains(row));
}
