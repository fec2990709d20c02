//! Iterations without annotations: what repeats in the trace.

use std::ops::Range;

use hashbrown::HashMap;
use highwater_snapshot::{Action, EntryTable, FrameId, Snapshot, StackId};

use crate::lifetime::number;

/// Fewer repetitions than this are no evidence.
const MIN_REPETITIONS: usize = 3;

/// How equal two neighbouring repetitions must be, of 1: the shared part of their allocations.
const MIN_LIKENESS: f64 = 0.8;

/// A likeness this close to the best counts as equal to it: then the shorter repetition is the iteration. A program
/// that logs every tenth step repeats its steps, not its logs.
const LIKENESS_TOLERANCE: f64 = 0.02;

/// Allocations that are looked at: enough for any loop, and a bound on time.
const MAX_ALLOCATIONS: usize = 4_000_000;

/// Candidates that are compared in full.
const MAX_CANDIDATES: usize = 24;

/// The ranges of entries that repeat, in order, if the trace has such a rhythm.
///
/// An allocation's token is its stack, or its size where no stacks were recorded. A token that comes once a repetition
/// marks where each begins; candidates are tokens that recur at even distances over most of the trace. The best is the
/// one whose repetitions are most alike.
pub(crate) fn repetitions(snapshot: &Snapshot, entries: &EntryTable) -> Vec<Range<usize>> {
    let allocations = allocations(entries);
    if allocations.len() < 2 * MIN_REPETITIONS {
        return Vec::new();
    }
    let mut positions: HashMap<u64, Vec<u32>> = HashMap::default();
    for (position, &(_, token)) in (0_u32..).zip(&allocations) {
        positions.entry(token).or_default().push(position);
    }
    let mut candidates: Vec<Candidate> =
        positions.into_values().filter_map(|at| Candidate::new(at, allocations.len())).collect();
    candidates.sort_by(|a, b| b.covered.cmp(&a.covered).then(a.at[0].cmp(&b.at[0])));
    let context = Context::new(snapshot, entries, &allocations);
    let candidates = of_each_period(candidates.into_iter().filter(|candidate| context.is_loop(candidate)));
    let judged: Vec<(f64, Candidate)> = candidates
        .into_iter()
        .map(|candidate| (candidate.likeness(&allocations), candidate))
        .filter(|(likeness, _)| *likeness >= MIN_LIKENESS)
        .collect();
    let best = judged.iter().map(|(likeness, _)| *likeness).fold(0.0, f64::max);
    let chosen = judged
        .into_iter()
        .filter(|(likeness, _)| best - likeness <= LIKENESS_TOLERANCE)
        .min_by_key(|(_, candidate)| candidate.period);
    chosen.map_or_else(Vec::new, |(_, candidate)| candidate.ranges(&allocations, entries.len()))
}

/// (entry, token) of each allocation.
fn allocations(entries: &EntryTable) -> Vec<(usize, u64)> {
    let has_stacks = entries.stacks().iter().any(|stack| stack.is_recorded() && *stack != StackId::EMPTY);
    let rows = entries.actions().iter().enumerate().filter(|(_, action)| **action == Action::ALLOC);
    rows.take(MAX_ALLOCATIONS)
        .map(|(row, _)| {
            let token = if has_stacks { u64::from(entries.stacks()[row].get()) } else { entries.sizes_bytes()[row] };
            (row, token)
        })
        .collect()
}

/// The first [`MAX_CANDIDATES`] of periods that differ: tokens of one loop recur at the same distance.
fn of_each_period(candidates: impl Iterator<Item = Candidate>) -> Vec<Candidate> {
    let mut chosen: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        if !chosen.iter().any(|earlier| earlier.period.abs_diff(candidate.period) * 20 <= earlier.period) {
            chosen.push(candidate);
        }
        if chosen.len() == MAX_CANDIDATES {
            break;
        }
    }
    chosen
}

/// The positions of one token among the allocations.
struct Candidate {
    at: Vec<u32>,
    /// The usual distance between two.
    period: usize,
    /// Allocations from the first to one period after the last.
    covered: usize,
}

impl Candidate {
    fn new(at: Vec<u32>, total: usize) -> Option<Self> {
        if at.len() < MIN_REPETITIONS {
            return None;
        }
        // The first repetition also warms up: workspaces, caches, state that is made once.
        let mut gaps: Vec<u32> = at[1..].windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_unstable();
        let period = gaps[gaps.len() / 2] as usize;
        let even = gaps.iter().filter(|&&gap| (gap as usize).abs_diff(period) * 4 <= period).count();
        let covered = (*at.last()? - at[0]) as usize + period;
        (even * 5 >= gaps.len() * 4 && covered * 2 >= total && period >= 2).then_some(Self { at, period, covered })
    }

    /// The allocations of each repetition; the last is as long as the usual one.
    fn windows(&self, total: usize) -> Vec<Range<usize>> {
        let mut starts: Vec<usize> = self.at.iter().map(|&position| position as usize).collect();
        let last = *starts.last().expect("at least three");
        starts.push((last + self.period).min(total));
        starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    /// The mean likeness of neighbouring repetitions after the first: of 1, what their token counts share.
    #[expect(clippy::cast_precision_loss, reason = "a ratio of counts")]
    fn likeness(&self, allocations: &[(usize, u64)]) -> f64 {
        /// Pairs that are compared; later ones are like them or the mean does not matter.
        const MAX_PAIRS: usize = 64;
        let windows = &self.windows(allocations.len())[1..];
        let step = (windows.len() / MAX_PAIRS).max(1);
        let mut sum = 0.0;
        let mut pairs = 0;
        for pair in windows.windows(2).step_by(step) {
            let mut counts: HashMap<u64, i64> = HashMap::default();
            for &(_, token) in &allocations[pair[0].clone()] {
                *counts.entry(token).or_default() += 1;
            }
            let mut shared = 0_usize;
            for (_, token) in &allocations[pair[1].clone()] {
                if let Some(count) = counts.get_mut(token).filter(|count| **count > 0) {
                    *count -= 1;
                    shared += 1;
                }
            }
            sum += shared as f64 / pair[0].len().max(pair[1].len()).max(1) as f64;
            pairs += 1;
        }
        if pairs == 0 { 0.0 } else { sum / f64::from(pairs) }
    }

    /// The entries of each repetition: from its first allocation to the entry before the next one's.
    fn ranges(&self, allocations: &[(usize, u64)], entries: usize) -> Vec<Range<usize>> {
        let entry = |position: usize| allocations.get(position).map_or(entries, |&(row, _)| row);
        self.windows(allocations.len()).into_iter().map(|window| entry(window.start)..entry(window.end)).collect()
    }
}

/// What surrounds the allocations: there may be a candidate for every call site, and each asks about ranges as long as
/// a repetition, so a question must not cost as much as the range is long.
struct Context {
    /// By allocation: where the run of allocations within the same call ends; its own position if it is in none.
    same_call_until: Vec<u32>,
    /// By allocation, and for the end: how many before it have no stack.
    without_stack: Vec<u32>,
    /// By allocation, and for the end: how many completed frees come before it.
    freed: Vec<u32>,
}

impl Context {
    fn new(snapshot: &Snapshot, entries: &EntryTable, allocations: &[(usize, u64)]) -> Self {
        let stacks: Vec<StackId> = allocations.iter().map(|&(row, _)| entries.stacks()[row]).collect();
        Self {
            same_call_until: same_call_until(&stacks, &outermost_calls(snapshot)),
            without_stack: counts_before(stacks.iter().map(|stack| usize::from(!stack.is_recorded()))),
            freed: freed_before(entries, allocations),
        }
    }

    fn is_loop(&self, candidate: &Candidate) -> bool {
        let windows = candidate.windows(self.same_call_until.len());
        self.is_outer(&windows[windows.len() / 2]) || self.frees(windows[0].start..windows[windows.len() - 1].end)
    }

    /// Whether a repetition goes around modules, not inside them: the frames that all its stacks share, from the
    /// outside, are no module's call and no constructor. A model's layers repeat, too, when it is built and when it runs.
    fn is_outer(&self, repetition: &Range<usize>) -> bool {
        let has_stacks = self.without_stack[repetition.start] == self.without_stack[repetition.end];
        has_stacks && (self.same_call_until[repetition.start] as usize) < repetition.end
    }

    /// Whether a range gives back at least half of what it takes, by count: then it is a loop wherever it runs.
    fn frees(&self, range: Range<usize>) -> bool {
        (self.freed[range.end] - self.freed[range.start]) as usize * 2 >= range.len()
    }
}

/// By stack: the outermost call of a module or a constructor that it lies in, as a number for the frames from that one
/// outwards; `None` if it lies in none.
fn outermost_calls(snapshot: &Snapshot) -> Vec<Option<u32>> {
    let is_call = |&frame: &FrameId| {
        let name = snapshot.text(snapshot.frames.get(frame).name);
        matches!(name, "_call_impl" | "__init__" | "_apply")
    };
    let mut numbers: HashMap<&[FrameId], u32> = HashMap::default();
    let calls = snapshot.stacks.iter().map(|(_, frames)| {
        let outermost = frames.iter().rposition(is_call)?;
        let next = number(numbers.len());
        Some(*numbers.entry(&frames[outermost..]).or_insert(next))
    });
    calls.collect()
}

fn same_call_until(stacks: &[StackId], calls: &[Option<u32>]) -> Vec<u32> {
    let call = |position: usize| calls.get(stacks.get(position)?.index()).copied().flatten();
    let mut until = vec![0; stacks.len()];
    for position in (0..stacks.len()).rev() {
        let here = call(position);
        until[position] = match here {
            None => number(position),
            Some(_) if here == call(position + 1) => until[position + 1],
            Some(_) => number(position + 1),
        };
    }
    until
}

fn freed_before(entries: &EntryTable, allocations: &[(usize, u64)]) -> Vec<u32> {
    let rows = allocations.iter().map(|&(row, _)| row);
    let ranges = rows.clone().zip(rows.skip(1).chain([entries.len()]));
    counts_before(ranges.map(|(from, to)| {
        entries.actions()[from..to].iter().filter(|action| **action == Action::FREE_COMPLETED).count()
    }))
}

/// Running sums: before each item what the items before it add up to, and at the end the sum of all.
fn counts_before(counts: impl Iterator<Item = usize>) -> Vec<u32> {
    let mut sums = vec![0];
    let mut sum = 0;
    for count in counts {
        sum += count;
        sums.push(number(sum));
    }
    sums
}
