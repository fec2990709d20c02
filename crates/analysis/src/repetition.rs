//! Iterations without annotations: what repeats in the trace.

use std::ops::Range;

use hashbrown::HashMap;
use highwater_snapshot::{Action, EntryTable, FrameId, Snapshot, StackId};

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
    candidates.retain(|candidate| {
        candidate.is_outer(snapshot, entries, &allocations) || candidate.frees(&allocations, entries)
    });
    candidates.sort_by(|a, b| b.covered.cmp(&a.covered).then(a.at[0].cmp(&b.at[0])));
    // Tokens of one loop recur at the same distance: of each distance the earliest is enough.
    let mut periods = Vec::new();
    candidates.retain(|candidate| {
        let is_new = !periods.iter().any(|&p: &usize| p.abs_diff(candidate.period) * 20 <= p);
        if is_new {
            periods.push(candidate.period);
        }
        is_new
    });
    candidates.truncate(MAX_CANDIDATES);
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

    /// Whether it is a loop around modules, not one inside them: the frames that all its stacks share, from the outside,
    /// are no module's call and no constructor. A model's layers repeat, too, when it is built and when it runs.
    fn is_outer(&self, snapshot: &Snapshot, entries: &EntryTable, allocations: &[(usize, u64)]) -> bool {
        let windows = self.windows(allocations.len());
        let mut shared: Option<Vec<FrameId>> = None;
        for &(row, _) in &allocations[windows[windows.len() / 2].clone()] {
            let stack = entries.stacks()[row];
            if !stack.is_recorded() {
                return false;
            }
            let frames = snapshot.stacks.get(stack).iter().rev();
            match &mut shared {
                None => shared = Some(frames.copied().collect()),
                Some(shared) => {
                    let same = shared.iter().zip(frames).take_while(|(a, b)| a == b).count();
                    shared.truncate(same);
                }
            }
        }
        let inside = |&frame: &FrameId| {
            let name = snapshot.text(snapshot.frames.get(frame).name);
            matches!(name, "_call_impl" | "__init__" | "_apply")
        };
        !shared.unwrap_or_default().iter().any(inside)
    }

    /// Whether it gives back at least half of what it takes, by count: then it is a loop wherever it runs.
    fn frees(&self, allocations: &[(usize, u64)], entries: &EntryTable) -> bool {
        let windows = self.windows(allocations.len());
        let (first, last) = (windows[0].start, windows[windows.len() - 1].end);
        let until = allocations.get(last).map_or(entries.len(), |&(row, _)| row);
        let actions = &entries.actions()[allocations[first].0..until];
        let freed = actions.iter().filter(|action| **action == Action::FREE_COMPLETED).count();
        freed * 2 >= last - first
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
