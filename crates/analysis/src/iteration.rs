//! Iterations: one pass of the training loop, or of whatever repeats.

use std::ops::Range;

use highwater_snapshot::{Action, EntryId, EntryTable, Snapshot, StackId};
use rustc_hash::FxHashSet;

use crate::phase::{self, PhaseRun, StackPhases};
use crate::repetition;
use crate::scope::Scope;
use crate::timeline::{Timeline, Total, Totals};

/// How iterations were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterationSource {
    /// By the marks that `highwater.step()` sets.
    Marks,
    /// By the optimizer steps that PyTorch annotates.
    OptimizerSteps,
    /// By what repeats in the trace.
    Repetition,
}

impl IterationSource {
    /// The words in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Marks => "highwater.step()",
            Self::OptimizerSteps => "optimizer steps",
            Self::Repetition => "repetition in the trace",
        }
    }
}

/// One iteration.
#[derive(Clone, Debug)]
pub struct Iteration {
    /// Its entries.
    pub entries: Range<usize>,
    /// Whether it was recorded from its begin to its end.
    pub is_complete: bool,
    /// The highest totals in it.
    pub peak: Totals,
    /// The entry of the highest bytes of the total that the report goes by.
    pub peak_entry: Option<EntryId>,
    /// The totals at its end.
    pub end: Totals,
    /// Its phases, in order.
    pub phases: Vec<PhaseRun>,
}

/// The iterations of one device, in order; the set-up before the first is none.
#[derive(Clone, Debug)]
pub struct Iterations {
    /// How they were found.
    pub source: IterationSource,
    /// Each one.
    pub rows: Vec<Iteration>,
}

impl Iterations {
    /// The iteration that an entry belongs to.
    pub fn containing(&self, entry: EntryId) -> Option<usize> {
        self.rows.iter().position(|iteration| iteration.entries.contains(&entry.index()))
    }
}

/// Finds the iterations.
pub(crate) fn iterations(
    snapshot: &Snapshot,
    entries: &EntryTable,
    timeline: &Timeline<'_>,
    scopes: &[Scope],
    stacks: &StackPhases,
    from_start: bool,
    by: Total,
) -> Iterations {
    let optimizer = OptimizerScopes::new(snapshot, scopes, entries);
    let marked = ending_at(&marks(snapshot, scopes), entries, from_start);
    let stepped = if marked.is_empty() { optimizer.iterations(entries, from_start) } else { Vec::new() };
    let (source, ranges) = if !marked.is_empty() {
        (IterationSource::Marks, marked)
    } else if !stepped.is_empty() {
        (IterationSource::OptimizerSteps, stepped)
    } else {
        let repeated = repetition::repetitions(snapshot, entries).into_iter().map(|range| (range, true)).collect();
        (IterationSource::Repetition, repeated)
    };
    let rows = ranges.into_iter().map(|(range, is_complete)| {
        let (peak, peak_entry) = timeline.peak_in(range.clone(), by);
        let last = range.end.saturating_sub(1).max(range.start);
        let end = if range.is_empty() { timeline.start() } else { timeline.after(EntryId::from_index(last)) };
        let own = optimizer.steps_in(&range);
        let phases = phase::phases(entries, stacks, &range, &own);
        Iteration { entries: range, is_complete, peak, peak_entry, end, phases }
    });
    Iterations { source, rows: rows.collect() }
}

/// The scopes that PyTorch's optimizers note by themselves.
///
/// # Source
/// PyTorch v2.11, `torch/optim/optimizer.py`: `Optimizer.step#NAME.step`, `Optimizer.zero_grad#NAME.zero_grad`.
struct OptimizerScopes<'a> {
    /// Outermost steps, in order.
    steps: Vec<&'a Scope>,
    /// The clearing of gradients, in order.
    clearings: Vec<&'a Scope>,
    /// Steps that make one iteration: more than one where several optimizers take turns.
    per_iteration: usize,
}

impl<'a> OptimizerScopes<'a> {
    fn new(snapshot: &Snapshot, scopes: &'a [Scope], entries: &EntryTable) -> Self {
        let is = |scope: &Scope, prefix: &str| snapshot.text(scope.name).starts_with(prefix);
        let mut steps: Vec<&Scope> = Vec::new();
        for scope in scopes.iter().filter(|scope| is(scope, "Optimizer.step#")) {
            // A step within a step is a wrapper's.
            if steps.last().is_none_or(|last| last.end_us.is_some_and(|end| scope.start_us >= end)) {
                steps.push(scope);
            }
        }
        let clearings = scopes.iter().filter(|scope| is(scope, "Optimizer.zero_grad#")).collect();
        let names: Vec<_> = steps.iter().map(|scope| scope.name).collect();
        let per_iteration = rhythm(&names).max(turns(&places(&steps, entries)));
        Self { steps, clearings, per_iteration }
    }

    /// The parts of a range that lie in a step, or in the clearing of gradients after the last of them, in order.
    fn steps_in(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let first = self.steps.partition_point(|scope| scope.end <= range.start);
        let steps = self.steps[first..].iter().take_while(|scope| scope.start < range.end);
        let mut parts: Vec<Range<usize>> =
            steps.map(|scope| scope.start.max(range.start)..scope.end.min(range.end)).collect();
        if let Some(last) = self.steps[..self.steps.partition_point(|scope| scope.end <= range.end)].last() {
            let after = self.clearings.partition_point(|scope| scope.start_us < last.start_us);
            let clearings = self.clearings[after..].iter().take_while(|scope| scope.start < range.end);
            parts.extend(clearings.map(|scope| scope.start.max(range.start)..scope.end.min(range.end)));
        }
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// Ranges of entries, and whether each is complete.
    fn iterations(&self, entries: &EntryTable, from_start: bool) -> Vec<(Range<usize>, bool)> {
        let ends: Vec<usize> = self
            .steps
            .chunks(self.per_iteration)
            .filter(|steps| steps.len() == self.per_iteration)
            .map(|steps| self.end_of(steps[steps.len() - 1], entries))
            .collect();
        ending_at(&ends, entries, from_start)
    }

    /// Where the iteration of a step ends: after the step, or after the clearing of gradients that follows it at once.
    fn end_of(&self, step: &Scope, entries: &EntryTable) -> usize {
        let after = step.end_us.unwrap_or(i64::MAX);
        let next = self.clearings.partition_point(|clearing| clearing.start_us < after);
        match self.clearings.get(next) {
            Some(clearing) => {
                let between = step.end.min(entries.len())..clearing.start.min(entries.len());
                let allocates = between.start < between.end && entries.actions()[between].contains(&Action::ALLOC);
                if allocates { step.end } else { clearing.end }
            }
            None => step.end,
        }
    }
}

/// What Python's `highwater.step()` calls its annotation.
const MARK: &str = "highwater.step";

/// The entries before which the program itself says that an iteration ends, ascending.
fn marks(snapshot: &Snapshot, scopes: &[Scope]) -> Vec<usize> {
    scopes.iter().filter(|scope| snapshot.text(scope.name) == MARK).map(|scope| scope.start).collect()
}

/// The iterations that end before these entries, which ascend, each with whether it is complete.
fn ending_at(ends: &[usize], entries: &EntryTable, from_start: bool) -> Vec<(Range<usize>, bool)> {
    let mut ranges: Vec<(Range<usize>, bool)> = Vec::new();
    let mut start = 0;
    for &end in ends.iter().filter(|&&end| end > 0) {
        ranges.push((start..end, true));
        start = end;
    }
    let Some(first) = ranges.first_mut() else { return ranges };
    // What is missing before a late or wrapped recording is missing of its first iteration.
    first.1 = from_start;
    if let Some((second, _)) = ranges.get(1).cloned()
        && let Some(begin) = first_like(entries, second, ranges[0].0.clone())
    {
        ranges[0].0.start = begin;
    }
    let tail = start..entries.len();
    let last = ranges[ranges.len() - 1].0.clone();
    let count = |range: Range<usize>| entries.actions()[range].iter().filter(|a| **a == Action::ALLOC).count();
    // What follows the last one is another iteration only if it gets somewhere.
    if first_like(entries, last.clone(), tail.clone()).is_some() && count(tail.clone()) * 4 >= count(last) {
        ranges.push((tail, false));
    }
    ranges
}

/// The stack of the first allocation that leads to each step after the first, which the set-up precedes.
fn places(steps: &[&Scope], entries: &EntryTable) -> Vec<StackId> {
    let first = |range: Range<usize>| {
        let row = range.clone().find(|&row| entries.actions()[row] == Action::ALLOC);
        row.map_or(StackId::MISSING, |row| entries.stacks()[row])
    };
    steps.windows(2).map(|pair| first(pair[0].end..pair[1].start.max(pair[0].end))).collect()
}

/// How many steps take turns, each with a place of its own: two optimizers of one class, by what runs before them.
fn turns(places: &[StackId]) -> usize {
    let period = rhythm(places);
    let turn = &places[..period.min(places.len())];
    let distinct: FxHashSet<_> = turn.iter().collect();
    if distinct.len() == period && !turn.contains(&StackId::MISSING) { period } else { 1 }
}

/// The shortest rhythm of the names, if they keep it throughout; else 1.
fn rhythm<T: PartialEq>(names: &[T]) -> usize {
    const MAX: usize = 8;
    (1..=MAX.min(names.len() / 2)).find(|&period| names.iter().zip(&names[period..]).all(|(a, b)| a == b)).unwrap_or(1)
}

/// The first entry of `range` that allocates where `model` allocates, too: so set-up is told from the first iteration,
/// and a further iteration from the clean-up after the last. `None` where no stacks were recorded.
fn first_like(entries: &EntryTable, model: Range<usize>, mut range: Range<usize>) -> Option<usize> {
    let stack_of = |row: usize| {
        let stack = entries.stacks()[row];
        (entries.actions()[row] == Action::ALLOC && stack.is_recorded()).then_some(stack)
    };
    let places: FxHashSet<_> = model.filter_map(stack_of).collect();
    range.find(|&row| stack_of(row).is_some_and(|stack| places.contains(&stack)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optimizers_that_take_turns_make_one_iteration() {
        assert_eq!(rhythm(&["a", "a", "a", "a"]), 1);
        assert_eq!(rhythm(&["g", "d", "g", "d", "g"]), 2);
        assert_eq!(rhythm(&["d", "d", "d", "g", "d", "d", "d", "g"]), 4);
        assert_eq!(rhythm(&["a"]), 1);
        assert_eq!(rhythm::<&str>(&[]), 1);
        assert_eq!(rhythm(&["a", "b", "c", "d"]), 1);
    }
}
