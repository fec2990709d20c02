//! What was there before the recording and stays: which blocks are parameters, which optimizer state.
//!
//! Three things tell them apart, beside sizes that pair with gradients:
//!
//! - How many there are. Adam keeps two blocks for each parameter, so of a size with one gradient there are three blocks; a fourth
//!   is a copy of the parameter.
//! - Where they lie. Parameters come first in a young process, when nothing is cached: each segment was reserved for the block that
//!   it begins with, and the others follow without a gap. What the first step makes goes into holes that the first pass left.
//! - In which order. Gradients come in the reverse order of the modules, and parameters in their order; the two blocks that Adam
//!   keeps are neighbours.

use rustc_hash::FxHashMap;

/// A block from before the recording that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Its row among the lifetimes.
    pub(super) row: usize,
    pub(super) address: u64,
    /// Bytes as asked for.
    pub(super) size_bytes: u64,
    /// Bytes of the block.
    pub(super) block_bytes: u64,
}

/// A segment at the dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) address: u64,
    pub(super) total_bytes: u64,
    pub(super) is_expandable: bool,
}

/// Requests above this come from the pool of large segments.
///
/// # Source
/// PyTorch v2.11, `c10/cuda/CUDACachingAllocator.cpp`, `kSmallSize`.
const SMALL: u64 = 1 << 20;

/// Requests below [`MIN_OWN`] share segments of this size; larger ones have their own, in steps of [`STEP`].
///
/// # Source
/// `kLargeBuffer`, `kMinLargeAlloc`, `kRoundLarge`, in the same file.
const SHARED: u64 = 20 << 20;
const MIN_OWN: u64 = 10 << 20;
const STEP: u64 = 2 << 20;

/// How well a block's place suits a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Behind a gap, or in a segment that was reserved for something else.
    Reused,
    /// In a segment that was reserved for what it begins with, without a gap.
    Fresh,
    /// The same, and in the order of the modules.
    InOrder,
}

/// Which of the blocks are parameters, as many of each size as `wanted` says. `orders` are the sizes of gradients in the order in
/// which passes make them.
///
/// `held` and `regions` ascend by address. The answer is by index into `held`.
pub(super) fn parameters(
    held: &[Held],
    regions: &[Region],
    wanted: &FxHashMap<u64, usize>,
    orders: &[Vec<u64>],
) -> Vec<bool> {
    let is_wanted = |block: &Held| wanted.get(&block.size_bytes).is_some_and(|&count| count > 0);
    let mut layout = Layout::new(held, regions, &Orders::new(orders), is_wanted);
    let mut left = wanted.clone();
    layout.drop_the_most_isolated(held, &left);
    let mut is_parameter = vec![false; held.len()];
    for place in [Place::InOrder, Place::Fresh, Place::Reused] {
        // From the highest address down, as drivers hand out segments; within a segment upwards.
        for region in layout.regions.iter().rev() {
            for at in region.blocks.clone() {
                let block = &held[at];
                if layout.places[at] == place
                    && !is_parameter[at]
                    && let Some(count) = left.get_mut(&block.size_bytes).filter(|count| **count > 0)
                {
                    *count -= 1;
                    is_parameter[at] = true;
                }
            }
        }
    }
    is_parameter
}

/// Whether the blocks lie as in a young process: nearly all bytes in segments that were reserved for what they begin with, without
/// gaps.
pub(super) fn lie_as_when_made(held: &[Held], regions: &[Region]) -> bool {
    let layout = Layout::new(held, regions, &Orders::default(), |_| true);
    let all: u64 = held.iter().map(|block| block.size_bytes).fold(0, u64::saturating_add);
    let fresh = held.iter().zip(&layout.places).filter(|(_, place)| **place != Place::Reused);
    let fresh: u64 = fresh.map(|(block, _)| block.size_bytes).fold(0, u64::saturating_add);
    all > 0 && fresh >= all / 20 * 19
}

/// The blocks of one segment.
struct Blocks {
    blocks: std::ops::Range<usize>,
    /// Whether it may hold parameters, [in order](Place::InOrder).
    is_candidate: bool,
}

/// Where everything lies.
struct Layout {
    regions: Vec<Blocks>,
    places: Vec<Place>,
}

impl Layout {
    fn new(held: &[Held], regions: &[Region], orders: &Orders, is_wanted: impl Fn(&Held) -> bool) -> Self {
        let mut layout = Self { regions: Vec::new(), places: vec![Place::Reused; held.len()] };
        let mut at = 0;
        for region in regions {
            let end_address = region.address.saturating_add(region.total_bytes);
            at += held[at..].partition_point(|block| block.address < region.address);
            let end = at + held[at..].partition_point(|block| block.address < end_address);
            if at == end {
                continue;
            }
            let blocks = &held[at..end];
            let fresh = without_gap(region, blocks);
            layout.places[at..at + fresh].fill(Place::Fresh);
            let in_order = orders.matching(&blocks[..fresh], end_address, &is_wanted);
            layout.places[at..at + in_order].fill(Place::InOrder);
            layout.regions.push(Blocks { blocks: at..end, is_candidate: in_order > 0 });
            at = end;
        }
        layout
    }

    /// Where more blocks are in order than wanted, those of the segments go that have the fewest neighbours of their kind, the
    /// lowest first: parameters lie in runs of segments.
    fn drop_the_most_isolated(&mut self, held: &[Held], wanted: &FxHashMap<u64, usize>) {
        /// Segments beyond this are not compared again and again.
        const MAX: usize = 2000;
        let in_order = |layout: &Self, region: &Blocks| -> Vec<u64> {
            let blocks = region.blocks.clone().filter(|&at| layout.places[at] == Place::InOrder);
            blocks.map(|at| held[at].size_bytes).collect()
        };
        let mut counts: FxHashMap<u64, usize> = FxHashMap::default();
        for region in &self.regions {
            for size in in_order(self, region) {
                *counts.entry(size).or_default() += 1;
            }
        }
        while self.regions.len() <= MAX {
            let is_spare = |region: &Blocks| {
                let mut own: FxHashMap<u64, usize> = FxHashMap::default();
                for size in in_order(self, region) {
                    *own.entry(size).or_default() += 1;
                }
                own.iter().all(|(size, own)| {
                    let wanted = wanted.get(size).copied().unwrap_or(0);
                    counts.get(size).is_some_and(|&count| count >= wanted.saturating_add(*own))
                })
            };
            let kind = |at: usize| self.regions.get(at).is_some_and(|region| region.is_candidate);
            let isolation = |at: usize| usize::from(at == 0 || !kind(at - 1)) + usize::from(!kind(at + 1));
            let spare = (0..self.regions.len()).filter(|&at| kind(at) && is_spare(&self.regions[at]));
            let Some(most) = spare.max_by_key(|&at| (isolation(at), std::cmp::Reverse(at))) else { return };
            for size in in_order(self, &self.regions[most]) {
                if let Some(count) = counts.get_mut(&size) {
                    *count -= 1;
                }
            }
            for at in self.regions[most].blocks.clone() {
                self.places[at] = self.places[at].min(Place::Fresh);
            }
            self.regions[most].is_candidate = false;
        }
    }
}

/// How many of the blocks, the first ones, fill a segment without a gap that was reserved for the first of them.
fn without_gap(region: &Region, blocks: &[Held]) -> usize {
    let first = &blocks[0];
    let is_small = first.block_bytes <= SMALL;
    let own = if first.block_bytes < MIN_OWN { SHARED } else { first.block_bytes.next_multiple_of(STEP) };
    let was_for_first = region.is_expandable || is_small || region.total_bytes == own;
    if first.address != region.address || !was_for_first {
        return 0;
    }
    let follow = blocks.windows(2).take_while(|pair| pair[0].address + pair[0].block_bytes == pair[1].address);
    1 + follow.count()
}

/// The orders in which modules have their parameters, of large blocks and of small ones.
#[derive(Default)]
struct Orders {
    of_pool: [Vec<Vec<u64>>; 2],
    /// Where a size is in them: (order, position).
    found: FxHashMap<u64, Vec<(usize, usize)>>,
}

impl Orders {
    fn new(gradients: &[Vec<u64>]) -> Self {
        /// Programs have few passes that differ.
        const MAX_ORDERS: usize = 8;
        let mut orders = Self::default();
        for gradients in gradients.iter().take(MAX_ORDERS) {
            for (is_small, of_pool) in orders.of_pool.iter_mut().enumerate() {
                let of = gradients.iter().rev().copied().filter(|&size| (size <= SMALL) == (is_small == 1));
                let order = of_pool.len();
                let sizes: Vec<u64> = of.collect();
                for (position, &size) in sizes.iter().enumerate() {
                    orders.found.entry(size).or_default().push((order, position));
                }
                of_pool.push(sizes);
            }
        }
        orders
    }

    /// How many blocks, from the first, are in order, if they may have been all of the segment when it was filled: what comes next
    /// in the order did not fit behind them.
    fn matching(&self, blocks: &[Held], end: u64, is_wanted: impl Fn(&Held) -> bool) -> usize {
        /// A size may recur in every layer.
        const MAX_STARTS: usize = 256;
        let Some(first) = blocks.first() else { return 0 };
        let Some(starts) = self.found.get(&first.size_bytes) else { return 0 };
        let of_pool = &self.of_pool[usize::from(first.size_bytes <= SMALL)];
        let is_small = first.size_bytes <= SMALL;
        let step = starts.len().div_ceil(MAX_STARTS).max(1);
        let mut best = 0;
        for &(order, start) in starts.iter().step_by(step) {
            let order = &of_pool[order];
            let (mut position, mut matched, mut passed) = (start, 0, 0);
            for (at, block) in blocks.iter().enumerate() {
                if order.get(position) == Some(&block.size_bytes) {
                    position += 1;
                    matched = at + 1;
                } else if is_small || !is_wanted(block) {
                    // A buffer: statistics are as large as the weights that they go with.
                    passed += 1;
                    if passed > 4 + 2 * (position - start) {
                        break;
                    }
                } else {
                    break;
                }
            }
            let behind = blocks[..matched].last().map_or(end, |last| last.address + last.block_bytes);
            let fits_behind = order.get(position).is_some_and(|&next| !is_small && next <= end.saturating_sub(behind));
            if !fits_behind {
                best = best.max(matched);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Blocks of so many MiB from an address on, without gaps; 0 is a gap of one.
    fn blocks(rows: &mut Vec<Held>, address: u64, sizes: &[u64]) {
        let mut at = address;
        for &size in sizes {
            if size > 0 {
                rows.push(Held { row: rows.len(), address: at, size_bytes: size * MIB, block_bytes: size * MIB });
            }
            at += size.max(1) * MIB;
        }
    }

    fn region(address: u64, total: u64) -> Region {
        Region { address, total_bytes: total * MIB, is_expandable: false }
    }

    #[test]
    fn parameters_lie_in_order_without_gaps_in_segments_that_were_reserved_for_them() {
        let (mut held, base) = (Vec::new(), 1 << 30);
        let regions = [region(base, 20), region(base + (1 << 28), 20), region(base + (2 << 28), 24), region(base + (3 << 28), 20)];
        // Moments: neighbours of one size, and behind a gap, and in a segment that was reserved for more.
        blocks(&mut held, regions[0].address, &[3, 3, 9, 0, 3]);
        blocks(&mut held, regions[1].address, &[9, 9]);
        blocks(&mut held, regions[2].address, &[3, 9, 4]);
        blocks(&mut held, regions[3].address, &[3, 9, 4]);
        let wanted: FxHashMap<u64, usize> = [(3 * MIB, 1), (9 * MIB, 1), (4 * MIB, 1)].into_iter().collect();
        let gradients = [vec![4 * MIB, 9 * MIB, 3 * MIB]];
        let found = parameters(&held, &regions, &wanted, &gradients);
        let of_last: Vec<bool> = held.iter().map(|block| block.address >= regions[3].address).collect();
        assert_eq!(found, of_last);
    }

    #[test]
    fn of_segments_that_look_alike_those_that_lie_together_are_parameters() {
        let (mut held, base) = (Vec::new(), 1 << 30);
        let regions: Vec<Region> = (0..6).map(|i| region(base + i * (192 << 20), 192)).collect();
        for region in &regions {
            blocks(&mut held, region.address, &[192]);
        }
        // A segment of something else between the pair and the rest.
        let other = region(base + (3 << 30), 20);
        blocks(&mut held, other.address, &[0, 5]);
        let last = region(base + (4 << 30), 192);
        blocks(&mut held, last.address, &[192]);
        let regions: Vec<Region> = regions.into_iter().chain([other, last]).collect();
        let wanted: FxHashMap<u64, usize> = [(192 * MIB, 2)].into_iter().collect();
        let found = parameters(&held, &regions, &wanted, &[vec![192 * MIB, 192 * MIB]]);
        assert_eq!(found, [false, false, false, false, true, true, false, false]);
    }

    #[test]
    fn nothing_is_asked_of_nothing() {
        assert!(parameters(&[], &[], &FxHashMap::default(), &[]).is_empty());
        assert!(!lie_as_when_made(&[], &[]));
    }
}
