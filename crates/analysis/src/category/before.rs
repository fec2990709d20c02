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

use std::ops::Range;

use highwater_allocator::Settings;
use highwater_allocator::sizes::SMALL_MAX_BYTES;
use rustc_hash::{FxHashMap, FxHashSet};

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
        let in_doubt = answers.iter().filter(|answer| answer.margin < IN_DOUBT && !answer.segment.is_explained);
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
    let Ground { regions, settings } = ground;
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
        let fresh = without_gap(region, blocks, settings);
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

/// Which segments of a pool hold parameters: those of a labelling of all segments, by address, that has as many blocks of each size
/// as wanted and the least cost. Blocks that do not look like parameters cost, and so does every change between neighbours:
/// parameters lie in runs of segments.
///
/// How much a wanted block is worth is found by trial, for each size (subgradient steps on the Lagrangian of the counts); for given
/// worths the best labelling is found in one pass forth and one back (Viterbi).
struct Labelling<'a> {
    /// Those of usual sizes, by address: others lie in what is left between them, and say nothing of their neighbours.
    segments: Vec<&'a Segment>,
    /// For each segment, (number of a size, blocks of it) that may be parameters.
    sizes: Vec<Vec<(usize, usize)>>,
    /// What it costs to call a segment one of parameters; infinite if it cannot be.
    costs: Vec<f64>,
    /// By number of a size: bytes of a block, and how many are wanted and there.
    wanted: Vec<(f64, f64)>,
}

impl<'a> Labelling<'a> {
    /// `known` are the begins of segments of the other pool, with whether they are of parameters.
    fn new(
        held: &[Held],
        wanted: &FxHashMap<u64, usize>,
        of_pool: &[&'a Segment],
        known: &FxHashMap<u64, bool>,
    ) -> Self {
        let segments: Vec<&Segment> = of_pool.iter().copied().filter(|segment| segment.is_usual).collect();
        let mut ages: Vec<usize> = segments.iter().map(|segment| segment.age).collect();
        ages.sort_unstable();
        let mut numbers: FxHashMap<u64, usize> = FxHashMap::default();
        let mut there: Vec<(u64, usize)> = Vec::new();
        let sizes = segments.iter().map(|segment| {
            let mut own: Vec<(usize, usize)> = Vec::new();
            for at in segment.blocks.clone().take(segment.fresh) {
                let size = held[at].size_bytes;
                if wanted.contains_key(&size) {
                    let number = *numbers.entry(size).or_insert_with(|| {
                        there.push((size, 0));
                        there.len() - 1
                    });
                    there[number].1 += 1;
                    match own.iter_mut().find(|own| own.0 == number) {
                        Some(own) => own.1 += 1,
                        None => own.push((number, 1)),
                    }
                }
            }
            own.sort_unstable();
            own
        });
        let sizes: Vec<Vec<(usize, usize)>> = sizes.collect();
        let costs = segments.iter().map(|segment| {
            let beside = known.get(&segment.end_address).map_or(0.0, |&is_sure| if is_sure { -BESIDE } else { BESIDE });
            let older = ages.partition_point(|&age| age < segment.age);
            cost(segment) + beside + AGE * count(older) / count(segments.len())
        });
        let costs = costs.collect();
        let wanted = there.iter().map(|&(size, there)| (bytes(size), count(wanted[&size].min(there)))).collect();
        Self { segments, sizes, costs, wanted }
    }

    /// The segments, by address, each with whether it is of parameters, and its margin.
    fn answers(&self) -> Vec<Answer<'a>> {
        /// Steps of the search: more change nothing on recordings with hundreds of segments.
        const STEPS: u32 = 300;
        /// Segments beyond this are taken as they come.
        const MAX: usize = 20_000;
        if self.segments.len() > MAX {
            let taken = |&segment: &&'a Segment| Answer { segment, is_parameter: true, margin: f64::INFINITY };
            return self.segments.iter().map(taken).collect();
        }
        let mut worths = vec![0.0; self.wanted.len()];
        let mut best = (f64::INFINITY, vec![false; self.segments.len()], worths.clone());
        for step in 1..=STEPS {
            let labels = self.labels(&worths);
            let mut missing: Vec<f64> = self.wanted.iter().map(|wanted| wanted.1).collect();
            for (sizes, _) in self.sizes.iter().zip(&labels).filter(|(_, is_parameter)| **is_parameter) {
                for &(number, blocks) in sizes {
                    missing[number] -= count(blocks);
                }
            }
            let off = missing.iter().zip(&self.wanted).map(|(missing, wanted)| missing.abs() * wanted.0).sum::<f64>();
            if off < best.0 {
                best = (off, labels, worths.clone());
            }
            if off == 0.0 {
                break;
            }
            let length = 2.0 / f64::from(step).sqrt();
            for ((worth, missing), wanted) in worths.iter_mut().zip(&missing).zip(&self.wanted) {
                *worth += length * missing / wanted.1.max(1.0);
            }
        }
        let (_, labels, worths) = best;
        let margins = self.margins(&labels, &worths);
        let answers = self.segments.iter().zip(labels).zip(margins);
        answers.map(|((&segment, is_parameter), margin)| Answer { segment, is_parameter, margin }).collect()
    }

    /// What a segment costs as none of parameters, and as one, where blocks of each size are worth so much.
    fn own(&self, at: usize, worths: &[f64]) -> [f64; 2] {
        let worth: f64 = self.sizes[at].iter().map(|&(number, blocks)| worths[number] * count(blocks)).sum();
        [0.0, self.costs[at] - worth]
    }

    /// What it costs if a segment is not as the one before it.
    fn change(&self, at: usize) -> f64 {
        let segment = self.segments[at];
        let before = at.checked_sub(1).map(|before| self.segments[before]);
        match before.map(|before| (before, segment.address.saturating_sub(before.end_address))) {
            Some((before, distance)) if distance <= APART && segment.is_filled_beside(before) => CHANGE_FILLED,
            Some((_, distance)) if distance <= APART => CHANGE,
            Some(_) => CHANGE_APART,
            None => 0.0,
        }
    }

    /// The least cost of all segments before each one if it is none of parameters, and if it is one; with the answer of the one before.
    fn least(&self, worths: &[f64]) -> Vec<[(f64, bool); 2]> {
        let mut least = Vec::with_capacity(self.segments.len());
        let mut to_here = [0.0, 0.0];
        for at in 0..self.segments.len() {
            let from = cheaper(to_here, self.change(at));
            let own = self.own(at, worths);
            to_here = [from[0].0 + own[0], from[1].0 + own[1]];
            least.push(from);
        }
        least
    }

    /// The labelling of least cost, where blocks of each size are worth so much.
    fn labels(&self, worths: &[f64]) -> Vec<bool> {
        let least = self.least(worths);
        let mut labels = vec![false; self.segments.len()];
        let Some(end) = least.last() else { return labels };
        let own = self.own(least.len() - 1, worths);
        let mut is_parameter = end[1].0 + own[1] < end[0].0 + own[0];
        for (label, from) in labels.iter_mut().zip(&least).rev() {
            *label = is_parameter;
            is_parameter = from[usize::from(is_parameter)].1;
        }
        labels
    }

    /// For each segment, how much more it would cost if it changed places with one that has the same blocks and the other answer,
    /// both with whatever changes beside them; infinite where none has.
    fn margins(&self, labels: &[bool], worths: &[f64]) -> Vec<f64> {
        let mut behind = [0.0, 0.0];
        let mut behinds = vec![behind; self.segments.len()];
        for at in (0..self.segments.len()).rev() {
            behinds[at] = behind;
            let own = self.own(at, worths);
            behind = cheaper([behind[0] + own[0], behind[1] + own[1]], self.change(at)).map(|row| row.0);
        }
        let changed = self.least(worths).into_iter().zip(behinds).enumerate().map(|(at, (before, behind))| {
            let own = self.own(at, worths);
            (before[1].0 + own[1] + behind[1]) - (before[0].0 + own[0] + behind[0])
        });
        let changed: Vec<f64> = changed.map(f64::abs).collect();
        // By what a segment has: the least of those with either answer.
        let mut least: FxHashMap<&[(usize, usize)], [f64; 2]> = FxHashMap::default();
        for ((sizes, &label), &changed) in self.sizes.iter().zip(labels).zip(&changed) {
            let of = least.entry(sizes).or_insert([f64::INFINITY; 2]);
            of[usize::from(label)] = of[usize::from(label)].min(changed);
        }
        let others = self.sizes.iter().zip(labels).map(|(sizes, &label)| least[sizes.as_slice()][usize::from(!label)]);
        changed.iter().zip(others).map(|(changed, other)| changed + other).collect()
    }
}

/// The cheaper of staying and changing, for both answers of a segment, with the answer that it comes from.
fn cheaper(from: [f64; 2], change: f64) -> [(f64, bool); 2] {
    let other = if from[1] + change < from[0] { (from[1] + change, true) } else { (from[0], false) };
    let parameters = if from[1] <= from[0] + change { (from[1], true) } else { (from[0] + change, false) };
    [other, parameters]
}

/// What a labelling says of a segment.
#[derive(Clone, Copy, Debug)]
struct Answer<'a> {
    segment: &'a Segment,
    is_parameter: bool,
    /// How much more the labelling would cost with another answer.
    margin: f64,
}

/// Segments further apart than this are no neighbours.
const APART: u64 = 64 << 20;

/// The cost of a change between neighbours; of one beside a segment that was filled later; of one between segments far apart.
const CHANGE: f64 = 1.0;
const CHANGE_FILLED: f64 = 0.3;
const CHANGE_APART: f64 = 0.1;

/// What the youngest segment costs more than the oldest, for parameters are there first: half as much as a change between neighbours.
/// On recordings with truth, anything from a third of a change to a whole one decides alike.
const AGE: f64 = CHANGE / 2.0;

/// What a segment costs less if a small one follows it at once that is one of parameters for sure, and more if that cannot be one:
/// what lies together was made at one time.
const BESIDE: f64 = 0.7;

/// Where no order of the modules explains a segment, and another answer costs less more than this, the answer is in doubt: one
/// neighbour that was made at another time would turn it.
const IN_DOUBT: f64 = BESIDE;

/// What a segment costs that is one of parameters for sure.
const SURE: f64 = -4.0;

/// What a segment costs as one of parameters, by how well its blocks suit them.
fn cost(segment: &Segment) -> f64 {
    let blocks = segment.blocks.len();
    match segment {
        Segment { fresh: 0, .. } => f64::INFINITY,
        Segment { is_sure: true, .. } => SURE,
        Segment { in_runs: true, .. } => 2.5,
        Segment { exactly, .. } if *exactly == blocks => 0.0,
        Segment { nearly, .. } if *nearly == blocks => 0.2,
        Segment { exactly, nearly, .. } if *exactly > 0 || *nearly > 0 => 1.4,
        _ => 2.0,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a weight")]
fn count(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "a weight")]
fn bytes(bytes: u64) -> f64 {
    bytes as f64
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
            Ground { regions, settings: &Settings::new(TorchVersion::v2(11)) },
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
        assert_eq!(lie_as_when_made(&held, Ground { regions: &regions, settings: &usual }), [false; 3]);
        assert_eq!(lie_as_when_made(&held, Ground { regions: &regions, settings: &larger }), [true; 3]);
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
            lie_as_when_made(&[], Ground { regions: &[], settings: &Settings::new(TorchVersion::v2(11)) }).is_empty()
        );
    }
}
