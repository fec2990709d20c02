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

mod labelling;

use std::ops::Range;

use highwater_allocator::Settings;
use highwater_allocator::sizes::SMALL_MAX_BYTES;
use rustc_hash::{FxHashMap, FxHashSet};

use self::labelling::{Answer, IN_DOUBT, Labelling};
use super::ages::ages;
use super::orders::Orders;
use super::runs::Longest;
use super::young::{self, Begun};

/// A block from before the recording that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Its row among the lifetimes.
    pub(super) row: usize,
    pub(super) address: u64,
    /// Requested bytes.
    pub(super) size_bytes: u64,
    /// Bytes of the block.
    pub(super) block_bytes: u64,
}

/// A segment at the dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(super) address: u64,
    pub(super) total_bytes: u64,
    pub(super) is_expandable: bool,
}

/// Where they lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'a> {
    /// By address.
    pub(super) regions: &'a [Region],
    /// By which segments were reserved.
    pub(super) settings: &'a Settings,
    /// Sizes of the blocks that forward passes leave behind, each with its first turn and whether others leave more.
    pub(super) left: &'a FxHashMap<u64, (u32, bool)>,
}

/// Which of the blocks are parameters, as many of each size as `wanted` says. `orders` are the sizes of gradients in the order in
/// which passes make them, `modules` those of parameters in the order of the modules, as far as known. `told` says of some blocks
/// whether they are parameters.
///
/// `held` ascends by address. The answers are by index into it.
pub(super) fn parameters(
    held: &[Held],
    ground: Ground<'_>,
    wanted: &FxHashMap<u64, usize>,
    orders: &[Vec<u64>],
    modules: &[Vec<u64>],
    told: &FxHashMap<usize, bool>,
) -> Found {
    let is_wanted = |block: &Held| wanted.get(&block.size_bytes).is_some_and(|&count| count > 0);
    let reversed = orders.iter().map(|order| order.iter().rev().copied().collect());
    let predicted: Vec<Vec<u64>> = modules.iter().cloned().chain(reversed).flat_map(as_moved).collect();
    let orders = Orders::new(orders);
    let mut left = wanted.clone();
    let mut is_parameter = vec![false; held.len()];
    let mut take = |at: usize| {
        let may_be = !is_parameter[at] && told.get(&at) != Some(&false);
        if let Some(count) = left.get_mut(&held[at].size_bytes).filter(|count| **count > 0 && may_be) {
            *count -= 1;
            is_parameter[at] = true;
        }
    };
    told.iter().filter(|(_, is_parameter)| **is_parameter).for_each(|(&at, _)| take(at));
    let mut segments = segments(held, ground, &orders, is_wanted);
    let begun = |segment: &Segment| Begun {
        total_bytes: segment.end_address - segment.address,
        blocks: &held[segment.blocks.start..segment.blocks.start + segment.fresh],
    };
    let begun: Vec<Begun<'_>> = segments.iter().map(begun).collect();
    let explained = young::explanations(&begun, wanted, &predicted, ground.settings);
    for (segment, explained) in segments.iter_mut().zip(explained).filter(|(_, explained)| explained.blocks > 0) {
        segment.is_explained = true;
        segment.fresh = explained.blocks;
        segment.exactly = segment.exactly.min(explained.blocks);
        if explained.is_sure {
            (segment.is_sure, segment.exactly) = (true, explained.blocks);
        }
    }
    let mut is_in_doubt = vec![false; held.len()];
    // Small segments that are parameters for sure, and those that are not: by their addresses.
    let mut known: FxHashMap<u64, bool> = FxHashMap::default();
    for is_small in [true, false] {
        let of_pool: Vec<&Segment> = segments.iter().filter(|segment| segment.is_small == is_small).collect();
        // The oldest first; within a segment upwards.
        let answers = Labelling::new(held, wanted, &of_pool, &known).answers();
        let explains = |answer: &&Answer<'_>| answer.segment.is_explained && !answer.is_tied;
        let in_doubt = answers.iter().filter(|answer| answer.margin < IN_DOUBT && !explains(answer));
        for at in in_doubt.flat_map(|answer| answer.segment.blocks.clone().take(answer.segment.fresh)) {
            is_in_doubt[at] = wanted.contains_key(&held[at].size_bytes) && !told.contains_key(&at);
        }
        let mut chosen: Vec<&Segment> =
            answers.iter().filter(|answer| answer.is_parameter).map(|answer| answer.segment).collect();
        chosen.sort_unstable_by_key(|segment| segment.age);
        if is_small && of_pool.iter().any(|segment| segment.is_sure) {
            let told = of_pool.iter().filter(|segment| segment.is_sure || !segment.is_explained);
            known.extend(told.map(|segment| (segment.address, segment.is_sure)));
        }
        let if_sure = |s: &Segment| if s.is_sure { s.fresh } else { 0 };
        for part in [if_sure, |s: &Segment| s.exactly, |s: &Segment| s.fresh] {
            chosen.iter().flat_map(|segment| segment.blocks.clone().take(part(segment))).for_each(&mut take);
        }
    }
    segments.sort_unstable_by_key(|segment| segment.age);
    segments.iter().flat_map(|segment| segment.blocks.clone().take(segment.fresh)).for_each(&mut take);
    (0..held.len()).rev().for_each(&mut take);
    Found { is_parameter, is_in_doubt }
}

/// What was there before: for each block, an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Whether it is a parameter.
    pub(super) is_parameter: Vec<bool>,
    /// Whether another answer explains the segments nearly as well.
    pub(super) is_in_doubt: Vec<bool>,
}

/// Orders in which parameters may have been moved to the device that are in this order in their model: what a model has beside its
/// modules is listed first and moved last.
///
/// # Source
/// PyTorch v2.11, `torch/nn/modules/module.py`, `_apply` and `named_parameters`.
pub(super) fn as_moved(order: Vec<u64>) -> impl Iterator<Item = Vec<u64>> {
    /// Parameters that a model has beside its modules, at most.
    const MOST: usize = 3;
    (0..order.len().clamp(1, MOST + 1)).map(move |own| {
        let mut moved = order.clone();
        moved.rotate_left(own);
        moved
    })
}

/// The blocks in the order of their segments' age, as a function of [`super::ages`] tells it, within a segment upwards.
pub(super) fn by_age<'a>(
    held: &'a [Held],
    regions: &[Region],
    ages: fn(&[Region]) -> Vec<usize>,
) -> impl Iterator<Item = &'a Held> {
    let mut order: Vec<(usize, &Held)> = Vec::new();
    for (region, age) in regions.iter().zip(ages(regions)) {
        let first = held.partition_point(|block| block.address < region.address);
        let end = held.partition_point(|block| block.address < region.address.saturating_add(region.total_bytes));
        order.extend(held[first..end].iter().map(|block| (age, block)));
    }
    order.sort_by_key(|row| row.0);
    order.into_iter().map(|row| row.1)
}

/// Which of the blocks lie as in a young process: in a segment that was reserved for what it begins with, without a gap before them.
pub(super) fn lie_as_when_made(held: &[Held], ground: Ground<'_>) -> Vec<bool> {
    let mut is_fresh = vec![false; held.len()];
    for segment in segments(held, ground, &Orders::default(), |_| true) {
        is_fresh[segment.blocks.start..segment.blocks.start + segment.fresh].fill(true);
    }
    is_fresh
}

/// A segment, and how well its blocks suit parameters.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question about one segment")]
struct Segment {
    address: u64,
    end_address: u64,
    /// Its place among all segments, the oldest first.
    age: usize,
    is_small: bool,
    /// Whether it has the size of a segment that is reserved for one of the wanted blocks.
    is_usual: bool,
    /// Its blocks among those held.
    blocks: Range<usize>,
    /// Of these, how many follow from the begin without a gap, if the segment was reserved for the first.
    fresh: usize,
    /// Whether it begins as one of parameters should.
    is_explained: bool,
    /// Whether these are parameters for sure.
    is_sure: bool,
    /// Of these, how many are in the order of the modules.
    exactly: usize,
    /// The same, but for the order among neighbours.
    nearly: usize,
    /// Whether most of its bytes lie in runs of equal blocks that are longer than those of parameters.
    in_runs: bool,
}

impl Segment {
    /// Whether exactly one of the two held other blocks at first and was filled again later. Such a pair shows little: a model's last
    /// segment is always followed by one that was reserved for something else.
    fn is_filled_beside(&self, other: &Self) -> bool {
        (self.fresh == 0) != (other.fresh == 0)
    }
}

fn segments(held: &[Held], ground: Ground<'_>, orders: &Orders, is_wanted: impl Fn(&Held) -> bool) -> Vec<Segment> {
    let Ground { regions, settings, left } = ground;
    let wanted = held.iter().filter(|block| is_wanted(block));
    let usual: FxHashSet<u64> = wanted.map(|block| settings.segment_bytes(block.block_bytes)).collect();
    let mut at = 0;
    let mut segments = Vec::new();
    for (region, age) in regions.iter().zip(ages(regions)) {
        let end_address = region.address.saturating_add(region.total_bytes);
        at += held[at..].partition_point(|block| block.address < region.address);
        let end = at + held[at..].partition_point(|block| block.address < end_address);
        if at == end {
            continue;
        }
        let blocks = &held[at..end];
        // What passes left in earlier iterations, too, is younger than all parameters.
        let is_left = left.get(&blocks[0].size_bytes).is_some_and(|&(_, in_several)| in_several);
        let fresh = if is_left && !is_wanted(&blocks[0]) { 0 } else { without_gap(region, blocks, settings) };
        let (exactly, nearly) = orders.matching(&blocks[..fresh], end_address, &is_wanted);
        segments.push(Segment {
            address: region.address,
            end_address,
            age,
            is_small: blocks[0].block_bytes <= SMALL_MAX_BYTES,
            is_usual: region.is_expandable || usual.contains(&region.total_bytes),
            blocks: at..end,
            fresh,
            is_explained: false,
            is_sure: false,
            exactly,
            nearly,
            in_runs: orders.longest.are_exceeded(blocks),
        });
        at = end;
    }
    mark_runs(&mut segments, held, &orders.longest);
    segments
}

/// Marks the runs of equal blocks that have a segment each: what an optimizer keeps for a large parameter.
fn mark_runs(segments: &mut [Segment], held: &[Held], longest: &Longest) {
    let alone = |segment: &Segment| (segment.blocks.len() == 1).then(|| held[segment.blocks.start].size_bytes);
    let is_next = |a: &Segment, b: &Segment| a.end_address == b.address && alone(a).is_some() && alone(a) == alone(b);
    for run in segments.chunk_by_mut(is_next) {
        if run.len() > 1 && alone(&run[0]).is_some_and(|size| run.len() > longest.joined(size)) {
            for segment in run {
                segment.in_runs = true;
            }
        }
    }
}

/// How many of the blocks, the first ones, fill a segment without a gap that was reserved for the first of them.
fn without_gap(region: &Region, blocks: &[Held], settings: &Settings) -> usize {
    let first = &blocks[0];
    let was_for_first = region.is_expandable || region.total_bytes == settings.segment_bytes(first.block_bytes);
    if first.address != region.address || !was_for_first {
        return 0;
    }
    let follow = blocks.windows(2).take_while(|pair| pair[0].address + pair[0].block_bytes == pair[1].address);
    1 + follow.count()
}

#[cfg(test)]
mod tests {
    use highwater_allocator::TorchVersion;

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

    fn found_of(
        held: &[Held],
        regions: &[Region],
        wanted: &FxHashMap<u64, usize>,
        orders: &[Vec<u64>],
        modules: &[Vec<u64>],
        told: &FxHashMap<usize, bool>,
    ) -> Found {
        parameters(
            held,
            Ground { regions, settings: &Settings::new(TorchVersion::v2(11)), left: &FxHashMap::default() },
            wanted,
            orders,
            modules,
            told,
        )
    }

    #[test]
    fn segments_are_as_large_as_the_settings_say() {
        let mut held = Vec::new();
        let regions = [region(1 << 30, 64)];
        blocks(&mut held, regions[0].address, &[9, 9, 9]);
        let usual = Settings::new(TorchVersion::v2(11));
        let mut larger = usual.clone();
        larger.large_segment_bytes = 64 * MIB;
        assert_eq!(
            lie_as_when_made(&held, Ground { regions: &regions, settings: &usual, left: &FxHashMap::default() }),
            [false; 3]
        );
        assert_eq!(
            lie_as_when_made(&held, Ground { regions: &regions, settings: &larger, left: &FxHashMap::default() }),
            [true; 3]
        );
    }

    #[test]
    fn parameters_lie_in_order_without_gaps_in_segments_that_were_reserved_for_them() {
        let (mut held, base) = (Vec::new(), 1 << 30);
        let regions = [
            region(base, 20),
            region(base + (1 << 28), 20),
            region(base + (2 << 28), 24),
            region(base + (3 << 28), 20),
        ];
        // Moments: neighbours of one size, and behind a gap, and in a segment that was reserved for more.
        blocks(&mut held, regions[0].address, &[3, 3, 9, 0, 3]);
        blocks(&mut held, regions[1].address, &[9, 9]);
        blocks(&mut held, regions[2].address, &[3, 9, 4]);
        blocks(&mut held, regions[3].address, &[3, 9, 4]);
        let wanted: FxHashMap<u64, usize> = [(3 * MIB, 1), (9 * MIB, 1), (4 * MIB, 1)].into_iter().collect();
        let gradients = [vec![4 * MIB, 9 * MIB, 3 * MIB]];
        let found = found_of(&held, &regions, &wanted, &gradients, &[], &FxHashMap::default());
        let found = found.is_parameter;
        let of_last: Vec<bool> = held.iter().map(|block| block.address >= regions[3].address).collect();
        assert_eq!(found, of_last);
    }

    /// Two networks that are trained in turns, as they lay on an H200: each large block has a segment of its own.
    #[test]
    fn of_segments_that_look_alike_those_that_lie_together_are_parameters() {
        let mut held = Vec::new();
        let segments: [(u64, u64, &[u64]); 10] = [
            (0x42c, 192, &[192]),
            (0x438, 192, &[192]),
            (0x45c, 192, &[192]),
            (0x4a2, 192, &[192]),
            (0x4ae, 192, &[192]),
            (0x4bc, 20, &[8]),
            (0x4c2, 192, &[192]),
            (0x4ce, 20, &[0, 8]),
            (0x4d0, 20, &[8, 8]),
            (0x4d8, 20, &[8, 8]),
        ];
        for (at, _, sizes) in segments {
            blocks(&mut held, at << 24, sizes);
        }
        let regions: Vec<Region> = segments.iter().map(|&(at, total, _)| region(at << 24, total)).collect();
        let wanted: FxHashMap<u64, usize> = [(192 * MIB, 2), (8 * MIB, 2)].into_iter().collect();
        let found = found_of(
            &held,
            &regions,
            &wanted,
            &[vec![192 * MIB, 8 * MIB, 8 * MIB, 192 * MIB]],
            &[],
            &FxHashMap::default(),
        );
        let addresses: Vec<u64> =
            held.iter().zip(found.is_parameter).filter(|row| row.1).map(|row| row.0.address >> 24).collect();
        assert_eq!(addresses, [0x4a2, 0x4ae, 0x4d8, 0x4d8]);
    }

    #[test]
    fn what_age_alone_tells_is_in_doubt_where_no_order_explains_it() {
        let (mut held, base) = (Vec::new(), 1 << 30);
        let regions = [region(base, 30), region(base + (1 << 28), 30), region(base + (2 << 28), 20)];
        blocks(&mut held, regions[0].address, &[30]);
        blocks(&mut held, regions[1].address, &[30]);
        blocks(&mut held, regions[2].address, &[9]);
        let wanted: FxHashMap<u64, usize> = [(30 * MIB, 1), (9 * MIB, 1)].into_iter().collect();
        let found = |orders: &[Vec<u64>], told: &FxHashMap<usize, bool>| {
            found_of(&held, &regions, &wanted, orders, &[], told).is_in_doubt
        };
        let none = FxHashMap::default();
        assert_eq!(found(&[], &none), [true, true, false], "of 9 MiB there is no other");
        assert_eq!(found(&[], &[(0, true), (1, false)].into_iter().collect()), [false; 3]);
        let order = vec![9 * MIB, 30 * MIB];
        assert_eq!(found(&[order], &none), [false; 3], "an order of the modules explains both");
    }

    #[test]
    fn what_a_model_has_beside_its_modules_is_moved_last() {
        let orders: Vec<Vec<u64>> = as_moved(vec![1, 2, 3]).collect();
        assert_eq!(orders, [[1, 2, 3], [2, 3, 1], [3, 1, 2]]);
        assert_eq!(as_moved(vec![1, 2, 3, 4, 5, 6]).count(), 4);
        assert_eq!(as_moved(Vec::new()).collect::<Vec<_>>(), [Vec::<u64>::new()]);
    }

    #[test]
    fn of_segments_that_look_alike_the_one_beside_small_parameters_is_theirs() {
        let (mut held, base) = (Vec::new(), 1 << 30);
        let regions = [
            region(base, 30),
            region(base + 30 * MIB, 2),
            region(base + (1 << 28), 30),
            region(base + (1 << 28) + 30 * MIB, 2),
        ];
        let half = |row, address| Held { row, address, size_bytes: MIB / 2, block_bytes: MIB / 2 };
        blocks(&mut held, regions[0].address, &[30]);
        held.extend([half(1, regions[1].address), half(2, regions[1].address + MIB / 2)]);
        blocks(&mut held, regions[2].address, &[30]);
        held.push(half(4, regions[3].address + MIB / 2));
        let wanted: FxHashMap<u64, usize> = [(30 * MIB, 1), (MIB / 2, 1)].into_iter().collect();
        let found = found_of(&held, &regions, &wanted, &[], &[vec![30 * MIB, MIB / 2]], &FxHashMap::default());
        let addresses: Vec<u64> =
            held.iter().zip(found.is_parameter).filter(|row| row.1).map(|row| row.0.address).collect();
        assert_eq!(addresses, [regions[0].address, regions[1].address]);
    }

    #[test]
    fn nothing_is_asked_of_nothing() {
        assert!(found_of(&[], &[], &FxHashMap::default(), &[], &[], &FxHashMap::default()).is_parameter.is_empty());
        assert!(
            lie_as_when_made(
                &[],
                Ground { regions: &[], settings: &Settings::new(TorchVersion::v2(11)), left: &FxHashMap::default() }
            )
            .is_empty()
        );
    }
}
