//! The layout of parameters in a young process, predicted: the allocator is deterministic, so from their sizes in the order of the
//! modules follows which of them share a segment.
//!
//! # Source
//! PyTorch v2.11, `c10/cuda/CUDACachingAllocator.cpp`: the best fit among free blocks of the pool, and the rest of a block is split
//! off.

use std::collections::{BTreeMap, BTreeSet};

use highwater_allocator::Settings;
use highwater_allocator::sizes::SMALL_MAX_BYTES;
use rustc_hash::FxHashMap;

use super::before::Held;

/// Copies of all parameters beside them: an average, a target network.
const MAX_COPIES: usize = 2;

/// A segment as it should be: its bytes, and the sizes of its blocks from its begin on.
type Predicted = (u64, Vec<u64>);

/// A segment as it is.
pub(super) struct Begun<'a> {
    pub(super) total_bytes: u64,
    /// Its blocks from its begin on, without a gap.
    pub(super) blocks: &'a [Held],
}

/// What one order of the parameters explains.
struct Explained {
    bytes: u64,
    predicted_bytes: u64,
    segments: Vec<Explanation>,
}

/// What an order of the parameters says of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Explanation {
    /// How many of its blocks, from its begin on, are parameters if it is one of theirs; 0 where the order has no such segment.
    pub(super) blocks: usize,
    /// Whether it is: no more segments begin so than are predicted.
    pub(super) is_sure: bool,
}

/// For each segment, whether it begins with just what an order of the parameters predicts. The order that explains the most bytes
/// decides, if these are at least half.
pub(super) fn explanations(
    segments: &[Begun<'_>],
    wanted: &FxHashMap<u64, usize>,
    orders: &[Vec<u64>],
    settings: &Settings,
) -> Vec<Explanation> {
    let all: u64 = wanted.iter().map(|(&size, &count)| size.saturating_mul(count as u64)).fold(0, u64::saturating_add);
    let mut by_begin: FxHashMap<(u64, u64), Vec<usize>> = FxHashMap::default();
    for (at, segment) in segments.iter().enumerate() {
        if let Some(first) = segment.blocks.first() {
            by_begin.entry((segment.total_bytes, first.size_bytes)).or_default().push(at);
        }
    }
    let explained = orders.iter().map(|order| explain(segments, &by_begin, wanted, (order, settings)));
    let best = explained.reduce(|best, next| if next.bytes > best.bytes { next } else { best });
    let Some(mut best) = best.filter(|best| best.bytes >= all / 2 && all > 0) else {
        return vec![Explanation::default(); segments.len()];
    };
    // An order that explains nearly all is the right one: only then are those that are not sure told anything.
    if best.bytes < best.predicted_bytes / 10 * 9 {
        best.segments.iter_mut().filter(|of| !of.is_sure).for_each(|of| *of = Explanation::default());
    }
    best.segments
}

fn explain(
    segments: &[Begun<'_>],
    by_begin: &FxHashMap<(u64, u64), Vec<usize>>,
    wanted: &FxHashMap<u64, usize>,
    (order, settings): (&[u64], &Settings),
) -> Explained {
    /// Segments that begin alike are compared up to here.
    const MAX_ALIKE: usize = 256;
    let mut counts: FxHashMap<u64, usize> = FxHashMap::default();
    for &size in order {
        *counts.entry(size).or_default() += 1;
    }
    let wants = |size: u64| wanted.get(&size).copied().unwrap_or(0);
    let mut times = counts.iter().map(|(&size, &count)| wants(size) / count);
    let copies = times.next().filter(|&first| (2..=1 + MAX_COPIES).contains(&first) && times.all(|time| time == first));
    let copies = copies.unwrap_or(1);
    let mut groups: BTreeMap<Predicted, usize> = BTreeMap::new();
    for segment in predict(&order.repeat(copies), settings) {
        *groups.entry(segment).or_default() += 1;
    }
    let mut groups: Vec<(Predicted, usize)> = groups.into_iter().collect();
    groups.sort_by_key(|((_, sizes), _)| std::cmp::Reverse(sizes.len()));
    let mut explained =
        Explained { bytes: 0, predicted_bytes: 0, segments: vec![Explanation::default(); segments.len()] };
    for ((total, sizes), count) in groups {
        let begins_so = |&&at: &&usize| {
            let blocks = segments[at].blocks;
            !explained.segments[at].is_sure
                && blocks.len() >= sizes.len()
                && blocks.iter().zip(&sizes).all(|(block, &size)| block.size_bytes == size)
        };
        let bytes: u64 = sizes.iter().fold(0, |sum, &size| sum.saturating_add(size));
        explained.predicted_bytes = explained.predicted_bytes.saturating_add(bytes.saturating_mul(count as u64));
        let alike = by_begin.get(&(total, sizes[0])).map_or(&[][..], Vec::as_slice);
        if alike.len() > MAX_ALIKE {
            continue;
        }
        let found: Vec<usize> = alike.iter().filter(begins_so).copied().collect();
        explained.bytes = explained.bytes.saturating_add(bytes.saturating_mul(count.min(found.len()) as u64));
        let is_sure = found.len() <= count;
        for at in found {
            // Copies that the order does not have lie behind the parameters.
            let is_copy =
                |block: &&Held| wants(block.size_bytes) > copies * counts.get(&block.size_bytes).unwrap_or(&0);
            let blocks = sizes.len() + segments[at].blocks[sizes.len()..].iter().take_while(is_copy).count();
            let of = &mut explained.segments[at];
            *of = Explanation { blocks: of.blocks.max(blocks), is_sure };
        }
    }
    explained
}

/// The segments that a young process fills with blocks of these sizes.
fn predict(order: &[u64], settings: &Settings) -> Vec<Predicted> {
    let mut segments: Vec<Predicted> = Vec::new();
    // What is left at the end of each segment, by pool: (bytes, segment).
    let mut left: [BTreeSet<(u64, usize)>; 2] = Default::default();
    for &size in order {
        let block = settings.round(size);
        let is_small = block <= SMALL_MAX_BYTES;
        let left = &mut left[usize::from(is_small)];
        let (free, at) = left.range((block, 0)..).next().copied().unwrap_or_else(|| {
            segments.push((settings.segment_bytes(block), Vec::new()));
            (settings.segment_bytes(block), segments.len() - 1)
        });
        left.remove(&(free, at));
        segments[at].1.push(size);
        let rest = free.saturating_sub(block);
        if is_small && rest > 0 || rest > SMALL_MAX_BYTES {
            left.insert((rest, at));
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use highwater_allocator::TorchVersion;

    use super::*;

    const KIB: u64 = 1 << 10;

    fn blocks(sizes: &[u64]) -> Vec<Held> {
        let block = |&size: &u64| Held { row: 0, address: 0, size_bytes: size * KIB, block_bytes: size * KIB };
        sizes.iter().map(block).collect()
    }

    fn explained(total: u64, segments: &[&[u64]], order: &[u64], times: usize) -> Vec<(usize, bool)> {
        let blocks: Vec<Vec<Held>> = segments.iter().map(|sizes| blocks(sizes)).collect();
        let found: Vec<Begun<'_>> = blocks.iter().map(|blocks| Begun { total_bytes: total * KIB, blocks }).collect();
        let order: Vec<u64> = order.iter().map(|size| size * KIB).collect();
        let mut wanted: FxHashMap<u64, usize> = FxHashMap::default();
        for &size in &order {
            *wanted.entry(size).or_default() += times;
        }
        let of = |segment: Explanation| (segment.blocks, segment.is_sure);
        explanations(&found, &wanted, &[order], &Settings::new(TorchVersion::v2(11))).into_iter().map(of).collect()
    }

    #[test]
    fn what_fits_goes_into_the_least_hole() {
        let order = [700, 800, 900, 100, 300, 1200];
        let predicted = predict(&order.map(|size| size * KIB), &Settings::new(TorchVersion::v2(11)));
        let of_kib =
            |(total, sizes): &Predicted| (total / KIB, sizes.iter().map(|size| size / KIB).collect::<Vec<_>>());
        let predicted: Vec<_> = predicted.iter().map(of_kib).collect();
        assert_eq!(predicted, [(2048, vec![700, 800, 100, 300]), (2048, vec![900]), (20480, vec![1200])]);
    }

    #[test]
    fn a_segment_that_has_what_is_predicted_is_sure_and_of_two_alike_neither() {
        let order = [700, 800, 100, 900, 900];
        let segments: [&[u64]; 3] = [&[700, 800, 100, 300], &[900, 900], &[700, 700]];
        assert_eq!(explained(2048, &segments, &order, 1), [(3, true), (2, true), (0, false)]);
        let segments: [&[u64]; 3] = [&[700, 800, 100], &[900, 900, 100], &[900, 900]];
        assert_eq!(explained(2048, &segments, &order, 1), [(3, true), (2, false), (2, false)]);
        assert_eq!(explained(2048, &[&[700], &[900, 800]], &order, 1), [(0, false); 2], "little is explained");
    }

    #[test]
    fn copies_of_all_follow_the_order_again() {
        let order = [700, 600, 500];
        assert_eq!(explained(2048, &[&[700, 600, 500], &[700, 600, 500, 100]], &order, 2), [(3, true); 2]);
    }
}
