//! Trained parameters of which no backward pass leaves a gradient: it is added to one that stays from step to step, zeroed in place,
//! or a hook steps the parameter and drops the gradient before the pass is over. So the optimizer's work tells of them: of each size
//! there are a parameter, its state, and in the first case its gradient.

use std::ops::RangeInclusive;

use rustc_hash::{FxHashMap, FxHashSet};

use super::before::{Held, Region};

/// What is known of a size before the recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Blocks that were there and stay.
    pub(super) blocks: usize,
    /// The most that the optimizer has made and freed in one step.
    pub(super) stepped: usize,
}

/// Trained parameters whose gradients no pass leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// How many there are of each size.
    pub(super) counts: FxHashMap<u64, usize>,
    /// Whether their gradients stay from step to step; else they are gone before a pass is over.
    pub(super) gradients_stay: bool,
    /// Blocks that the optimizer keeps for each, where that had to be found out.
    pub(super) states: Option<usize>,
}

impl Kept {
    /// By size, with the blocks that the optimizer keeps for each parameter.
    pub(super) fn new(seen: &FxHashMap<u64, Seen>, states: usize) -> Self {
        // Of both, what divides more bytes: a parameter and its state, or these and a gradient.
        let dividing = |each: usize| -> u64 {
            let whole = seen.iter().filter(|(_, seen)| seen.blocks.is_multiple_of(each));
            whole.map(|(&size, seen)| size.saturating_mul(seen.blocks as u64)).fold(0, u64::saturating_add)
        };
        let gradients_stay = dividing(states + 2) >= dividing(states + 1);
        let each = states + 1 + usize::from(gradients_stay);
        let counts = seen.iter().map(|(&size, seen)| (size, trained(*seen, each))).filter(|&(_, count)| count > 0);
        Self { counts: counts.collect(), gradients_stay, states: None }
    }

    /// By size, where the optimizer works without intermediates: of the numbers of blocks that it may keep for each parameter, the
    /// one with which nearly all blocks come out even.
    pub(super) fn by_name(blocks: &FxHashMap<u64, usize>, states: RangeInclusive<usize>) -> Self {
        /// Of the bytes.
        const MIN_PERCENT: u64 = 90;
        let sum = |of: &dyn Fn(usize) -> bool| {
            let bytes = blocks.iter().filter(|row| of(*row.1)).map(|(&size, &count)| size.saturating_mul(count as u64));
            bytes.fold(0, u64::saturating_add)
        };
        let even = |each: usize| sum(&|count| count.is_multiple_of(each));
        let each = states.map(|states| states + 2).max_by_key(|&each| even(each)).unwrap_or(2);
        if even(each) <= sum(&|_| true) / 100 * MIN_PERCENT {
            return Self::default();
        }
        let counts = blocks.iter().map(|(&size, &count)| (size, count / each)).filter(|row| row.1 > 0);
        Self { counts: counts.collect(), gradients_stay: true, states: Some(each - 2) }
    }

    /// By size, where nothing is known of the optimizer: a pass makes as many gradients as there are parameters, and adds them to those
    /// that stay. `None` unless nearly all blocks are a multiple of these, with at most so many blocks of state for each.
    pub(super) fn by_pass(
        blocks: &FxHashMap<u64, usize>,
        made: &FxHashMap<u64, usize>,
        most_states: usize,
    ) -> Option<Self> {
        /// Of the bytes.
        const MIN_PERCENT: u64 = 90;
        let made = |size: u64| made.get(&size).copied().unwrap_or(0);
        let sum = |of: &dyn Fn(u64, usize) -> bool| {
            let bytes =
                blocks.iter().filter(|row| of(*row.0, *row.1)).map(|(&size, &count)| size.saturating_mul(count as u64));
            bytes.fold(0, u64::saturating_add)
        };
        let even = |each: usize| sum(&|size, count| count == each * made(size));
        let each = (2..=most_states + 2).max_by_key(|&each| (even(each), std::cmp::Reverse(each)))?;
        let all = sum(&|_, _| true);
        if all == 0 || even(each) < all / 100 * MIN_PERCENT {
            return None;
        }
        let counts = blocks.iter().map(|(&size, &count)| (size, made(size).min(count / each))).filter(|row| row.1 > 0);
        Some(Self { counts: counts.collect(), gradients_stay: true, states: Some(each - 2) })
    }

    pub(super) fn count(&self, size_bytes: u64) -> usize {
        self.counts.get(&size_bytes).copied().unwrap_or(0)
    }
}

/// Parameters in half precision beside a copy of them in full precision, with which the optimizer works: of these alone a pass or the
/// program leaves gradients, and those of the half-sized ones are zeroed in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Halved {
    /// How many of each size are in half precision, with as many gradients.
    counts: FxHashMap<u64, usize>,
    /// Blocks that the optimizer keeps for each copy.
    states: usize,
}

impl Halved {
    /// By the numbers of blocks of each size, and of gradients of the copies: with one of these numbers of states, the blocks of nearly
    /// all sizes are as many as copies, their state, and two for each copy of twice the size.
    pub(super) fn new(
        there: &FxHashMap<u64, usize>,
        gradients: impl Fn(u64) -> usize,
        states: RangeInclusive<usize>,
    ) -> Option<Self> {
        /// Of the bytes.
        const MIN_PERCENT: u64 = 95;
        /// Sizes that show it: fewer may be chance.
        const MIN_SIZES: usize = 4;
        let halves = |size: u64| gradients(size.saturating_mul(2));
        let of_model = || there.iter().filter(|&(&size, _)| gradients(size) > 0 || halves(size) > 0);
        let bytes = |of: &dyn Fn(u64, usize) -> bool| {
            let rows = of_model().filter(|&(&size, &count)| of(size, count));
            rows.map(|(&size, &count)| size.saturating_mul(count as u64)).fold(0, u64::saturating_add)
        };
        let counts: FxHashMap<u64, usize> =
            of_model().map(|(&size, _)| (size, halves(size))).filter(|row| row.1 > 0).collect();
        let states = states.into_iter().find(|states| {
            let fits = |size: u64, count: usize| count == gradients(size) * (states + 1) + halves(size) * 2;
            bytes(&fits) > bytes(&|_, _| true) / 100 * MIN_PERCENT
        })?;
        (counts.len() >= MIN_SIZES).then_some(Self { counts, states })
    }

    /// The gradients that are zeroed in place.
    pub(super) fn kept(&self) -> Kept {
        Kept { counts: self.counts.clone(), gradients_stay: true, states: Some(self.states) }
    }

    /// How many parameters of a size are in half precision.
    pub(super) fn count(&self, size_bytes: u64) -> usize {
        self.counts.get(&size_bytes).copied().unwrap_or(0)
    }
}

/// Parameters whose gradients a pass leaves joined in a few blocks, as replicas send them to the first device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Joined {
    counts: FxHashMap<u64, usize>,
    states: usize,
}

impl Joined {
    /// By the numbers of blocks of each size, none of a gradient: with one of these numbers of states for each parameter, the parameters
    /// have the bytes that a pass leaves.
    pub(super) fn new(there: &FxHashMap<u64, usize>, gradient_bytes: u64, states: RangeInclusive<usize>) -> Self {
        /// The bytes of buffers, of alignment, and of a layer that no loss reaches: one part of so many.
        const PART: u64 = 50;
        /// Sizes that show it: fewer may be chance.
        const MIN_SIZES: usize = 4;
        let trained = |states: usize| -> FxHashMap<u64, usize> {
            let counts = there.iter().map(|(&size, &count)| (size, count / (states + 1)));
            counts.filter(|row| row.1 > 0).collect()
        };
        let bytes = |counts: &FxHashMap<u64, usize>| {
            counts.iter().map(|(&size, &count)| size.saturating_mul(count as u64)).fold(0, u64::saturating_add)
        };
        let fits = |counts: &FxHashMap<u64, usize>| {
            counts.len() >= MIN_SIZES && bytes(counts).abs_diff(gradient_bytes) <= gradient_bytes / PART
        };
        let of = states.rev().map(|states| Self { counts: trained(states), states });
        of.into_iter().find(|joined| fits(&joined.counts)).unwrap_or_default()
    }

    /// Blocks that the optimizer keeps for each; `None` if there are none such.
    pub(super) fn states(&self) -> Option<usize> {
        (!self.counts.is_empty()).then_some(self.states)
    }

    pub(super) fn count(&self, size_bytes: u64) -> usize {
        self.counts.get(&size_bytes).copied().unwrap_or(0)
    }
}

/// How many parameters of a size are trained, if each has so many blocks, itself among them. Frozen ones may be among the blocks;
/// then what the optimizer makes in a step tells, which is one block or a few for each.
fn trained(seen: Seen, each: usize) -> usize {
    /// Intermediates that an optimizer makes for a parameter, at most.
    const MOST: usize = 4;
    if seen.blocks.is_multiple_of(each) {
        return seen.blocks / each;
    }
    let of = (1..=MOST).filter(|&of| seen.stepped.is_multiple_of(of)).map(|of| seen.stepped / of);
    of.filter(|count| count * each <= seen.blocks).max().unwrap_or(0)
}

/// Which of the blocks are gradients, so many of each size, where the rest is state: by index into `held`, which ascends by address.
///
/// State is made for one parameter after the other, so two equal blocks are neighbours; gradients are made among what backward
/// frees, and have gaps between them. So what has no equal neighbour is a gradient first, then what is left of an odd number of equal
/// neighbours, each in the segments with the fewest pairs first: what lies in one segment was made at one time.
pub(super) fn gradients(held: &[Held], regions: &[Region], mut wanted: FxHashMap<u64, usize>) -> FxHashSet<usize> {
    // (how little it looks like a gradient, pairs in its segment, index).
    let mut candidates: Vec<(u8, usize, usize)> = Vec::new();
    let mut at = 0;
    for region in regions {
        at += held[at..].partition_point(|block| block.address < region.address);
        let end =
            at + held[at..].partition_point(|block| block.address < region.address.saturating_add(region.total_bytes));
        let percent = percent_in_pairs(&held[at..end]);
        for run in held[at..end].chunk_by(is_pair) {
            candidates.extend((at..at + run.len()).map(|index| (2, percent, index)));
            if run.len() % 2 == 1 {
                candidates.push((u8::from(run.len() > 1), percent, at + run.len() - 1));
            }
            at += run.len();
        }
    }
    candidates.sort_by_key(|&(rank, percent, _)| (rank, percent));
    let mut found = FxHashSet::default();
    for (_, _, index) in candidates {
        if let Some(count) = wanted.get_mut(&held[index].size_bytes).filter(|count| **count > 0)
            && found.insert(index)
        {
            *count -= 1;
        }
    }
    found
}

fn is_pair(block: &Held, next: &Held) -> bool {
    block.size_bytes == next.size_bytes && block.address + block.block_bytes == next.address
}

/// How many of the blocks, of 100, have an equal neighbour without a gap.
fn percent_in_pairs(blocks: &[Held]) -> usize {
    let (mut at, mut pairs) = (0, 0);
    while at + 1 < blocks.len() {
        let is_pair = is_pair(&blocks[at], &blocks[at + 1]);
        pairs += usize::from(is_pair);
        at += 1 + usize::from(is_pair);
    }
    200 * pairs / blocks.len().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_in_full_precision_have_the_gradients_and_the_state() {
        // Two copies of 8 bytes with two states each, which four of 4 bytes belong to; of 4 bytes there is one copy, of 2 bytes none.
        let there: FxHashMap<u64, usize> = [(16, 3), (8, 8), (4, 7), (2, 2)].into_iter().collect();
        let gradients = |size: u64| match size {
            16 | 4 => 1,
            8 => 2,
            _ => 0,
        };
        assert_eq!(Halved::new(&there, gradients, 2..=3), None, "few sizes");
        let there: FxHashMap<u64, usize> = there.into_iter().chain([(1000, 3), (500, 2)]).collect();
        let gradients = |size: u64| if size == 1000 { 1 } else { gradients(size) };
        let halved = Halved::new(&there, gradients, 2..=3).unwrap();
        assert_eq!([16, 8, 4, 2, 500].map(|size| halved.count(size)), [0, 1, 2, 1, 1]);
        assert_eq!(halved.states, 2);
        let twice = |(size, count): (u64, usize)| (size, count * 2);
        assert_eq!(Halved::new(&there.into_iter().map(twice).collect(), gradients, 2..=3), None);
    }

    fn seen(rows: &[(u64, usize, usize)]) -> FxHashMap<u64, Seen> {
        rows.iter().map(|&(size, blocks, stepped)| (size, Seen { blocks, stepped })).collect()
    }

    #[test]
    fn a_parameter_has_its_gradient_and_its_state_or_its_state_alone() {
        let kept = Kept::new(&seen(&[(64, 40, 10), (32, 12, 3), (16, 20, 10)]), 2);
        assert!(kept.gradients_stay);
        assert_eq!([64, 32, 16, 8].map(|size| kept.count(size)), [10, 3, 5, 0]);
        let dropped = Kept::new(&seen(&[(64, 30, 20), (32, 9, 6)]), 2);
        assert!(!dropped.gradients_stay);
        assert_eq!([64, 32].map(|size| dropped.count(size)), [10, 3]);
    }

    #[test]
    fn an_optimizer_without_intermediates_is_told_by_blocks_that_come_out_even() {
        let kept = Kept::by_name(&[(64, 30), (32, 3), (16, 6)].into_iter().collect(), 0..=1);
        assert_eq!((kept.states, kept.gradients_stay), (Some(1), true));
        assert_eq!([64, 32, 16].map(|size| kept.count(size)), [10, 1, 2]);
        assert_eq!(Kept::by_name(&[(64, 1), (32, 5)].into_iter().collect(), 2..=3), Kept::default());
    }

    #[test]
    fn a_pass_tells_how_many_parameters_an_unknown_optimizer_has() {
        let made = [(64, 10), (32, 3)].into_iter().collect();
        let kept = |blocks: &[(u64, usize)]| Kept::by_pass(&blocks.iter().copied().collect(), &made, 4);
        let without_state = kept(&[(64, 20), (32, 6)]).unwrap();
        assert_eq!((without_state.states, without_state.gradients_stay), (Some(0), true));
        assert_eq!([64, 32].map(|size| without_state.count(size)), [10, 3]);
        assert_eq!(kept(&[(64, 30), (32, 9)]).unwrap().states, Some(1));
        assert_eq!(kept(&[(64, 25), (32, 9)]), None, "most bytes come out even with no number");
        assert_eq!(kept(&[]), None);
    }

    #[test]
    fn joined_gradients_have_the_bytes_of_the_parameters() {
        let there: FxHashMap<u64, usize> = [(6400, 20), (3200, 2), (64, 60), (128, 2)].into_iter().collect();
        let joined = Joined::new(&there, 6400 * 10 + 3200 + 128 + 64 * 20, 0..=1);
        assert_eq!(joined.states(), Some(1));
        assert_eq!([6400, 3200, 128, 12].map(|size| joined.count(size)), [10, 1, 1, 0]);
        assert_eq!(Joined::new(&there, 6400 * 15, 0..=1).states(), None);
        assert_eq!(Joined::new(&there, 0, 0..=1).states(), None);
    }

    #[test]
    fn frozen_parameters_of_the_same_size_are_told_by_what_a_step_makes() {
        let kept = Kept::new(&seen(&[(64, 40, 10), (32, 15, 3)]), 2);
        assert_eq!(kept.count(32), 3);
    }

    #[test]
    fn state_lies_in_pairs_and_gradients_have_gaps() {
        let block = |address| Held { row: 0, address, size_bytes: 64, block_bytes: 64 };
        let held: Vec<Held> = [0, 64, 1024, 1152, 1280].map(block).to_vec();
        let region = |address| Region { address, total_bytes: 1024, is_expandable: false };
        let found = gradients(&held, &[region(0), region(1024)], [(64, 2)].into_iter().collect());
        assert_eq!(found, [2, 3].into_iter().collect());
        let held: Vec<Held> = [0, 64, 128, 192, 256, 1024, 1088].map(block).to_vec();
        let found = gradients(&held, &[region(0), region(1024)], [(64, 1)].into_iter().collect());
        assert_eq!(found, [4].into_iter().collect(), "of five neighbours, one has no pair");
    }
}
