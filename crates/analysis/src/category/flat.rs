//! Flat buffers: a program keeps the gradients of all parameters in one block, and its optimizer's state in others of that size.
//!
//! Hooks add each gradient to the flat one while the backward pass runs and drop it, so no pass leaves any. A flat block has as many
//! numbers as all parameters together, in their precision or twice as wide.

use rustc_hash::FxHashMap;

/// A block that was there before the first backward pass, and stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) row: usize,
    pub(super) size_bytes: u64,
    /// The segment that holds nothing else, if it was there before the recording.
    pub(super) segment: Option<(u64, u64)>,
    /// In the order in which blocks were made.
    pub(super) order: (u32, std::cmp::Reverse<u64>),
}

/// The rows of flat blocks, the first one made first: that of gradients comes before what the optimizer keeps.
///
/// `is_dropped` says of a size whether backward makes and frees gradients of it, and leaves none.
pub(super) fn flat(standing: &[Standing], is_dropped: impl Fn(u64) -> bool) -> Vec<usize> {
    /// Gradients, a copy in full precision, and what the optimizer keeps.
    const MOST: usize = 6;
    /// Padding may make a flat block longer, and other small blocks may stand beside the parameters: one in so many bytes.
    const TOLERANCE: u64 = 1000;
    let total = standing.iter().map(|block| block.size_bytes).fold(0, u64::saturating_add);
    let mut counts: FxHashMap<u64, usize> = FxHashMap::default();
    for block in standing {
        *counts.entry(block.size_bytes).or_default() += 1;
    }
    let dropped = standing.iter().map(|block| block.size_bytes).filter(|&size| is_dropped(size));
    let dropped = dropped.fold(0, u64::saturating_add);
    let is_flat = |&(&size, &count): &(&u64, &usize)| {
        let parameters = total.saturating_sub(size.saturating_mul(count as u64));
        let is_as_large = |bytes: u64| size.abs_diff(bytes) <= bytes / TOLERANCE;
        count <= MOST
            && dropped > parameters / 2
            && !is_dropped(size)
            && (is_as_large(parameters) || is_as_large(parameters.saturating_mul(2)))
    };
    let Some((&size, _)) = counts.iter().filter(is_flat).max_by_key(|(size, _)| **size) else { return Vec::new() };
    let mut found: Vec<Standing> = standing.iter().copied().filter(|block| block.size_bytes == size).collect();
    let segments: Vec<(u64, u64)> = found.iter().filter_map(|block| block.segment).collect();
    found.sort_by_key(|block| (!is_apart(block, &segments), block.order));
    found.into_iter().map(|block| block.row).collect()
}

/// Whether all the others lie side by side, and this one does not: the intermediates of a copy of the weights came between.
fn is_apart(block: &Standing, segments: &[(u64, u64)]) -> bool {
    let touches = |&(start, end): &(u64, u64)| segments.iter().any(|other| other.0 == end || other.1 == start);
    let Some(own) = block.segment else { return false };
    segments.len() > 2 && !touches(&own) && segments.iter().all(|other| *other == own || touches(other))
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    fn standing(sizes: &[u64]) -> Vec<Standing> {
        let of = |(row, &size_bytes): (usize, &u64)| Standing {
            row,
            size_bytes,
            segment: None,
            order: (0, Reverse(row as u64)),
        };
        sizes.iter().enumerate().map(of).collect()
    }

    #[test]
    fn a_block_with_as_many_numbers_as_all_parameters_is_flat() {
        let blocks = standing(&[40_000, 60_000, 30, 200_000, 200_000]);
        assert_eq!(flat(&blocks, |size| size < 100_000), [4, 3], "twice as wide, the highest address first");
        assert_eq!(
            flat(&standing(&[40_000, 60_000, 100_010]), |size| size < 100_000),
            [2],
            "of one precision, with padding"
        );
    }

    #[test]
    fn the_block_apart_is_the_one_of_gradients() {
        let mut blocks = standing(&[40_000, 60_000, 200_000, 200_000, 200_000]);
        for (block, start) in blocks[2..].iter_mut().zip([100, 900, 1000]) {
            block.segment = Some((start, start + 100));
        }
        assert_eq!(flat(&blocks, |size| size < 100_000), [2, 4, 3]);
        blocks[2].segment = Some((1100, 1200));
        assert_eq!(flat(&blocks, |size| size < 100_000), [4, 3, 2]);
    }

    #[test]
    fn others_are_not() {
        let none: Vec<usize> = Vec::new();
        assert_eq!(flat(&standing(&[40_000, 60_000, 150_000]), |size| size < 100_000), none, "another size");
        assert_eq!(flat(&standing(&[40_000, 60_000, 200_000]), |_| false), none, "passes leave gradients");
        assert_eq!(flat(&[], |_| true), none);
    }
}
