//! Iterations: one pass of the training loop, or of whatever repeats.

mod calls;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use highwater_snapshot::{Action, EntryId, EntryTable, FrameId, Snapshot, StackId, StringId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::category::{Categories, Category};
use crate::lifetime::Lifetimes;
use crate::outline::{Kind, Outline, Part};
use crate::phase::{self, PhaseRun, StackPhases};
use crate::repetition;
use crate::rollout::Rollouts;
use crate::scope::Scope;
use crate::timeline::{Timeline, Total, Totals};

/// How iterations were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterationSource {
    /// By the marks that `highwater.step()` sets.
    Marks,
    /// By the optimizer steps that PyTorch annotates, or that stacks show.
    OptimizerSteps,
    /// By rollouts: the model collects what several steps of the optimizer learn from.
    Rollouts,
    /// By models that are built anew, each with an optimizer that takes several steps.
    Anew,
    /// By backward passes, where no optimizer of PyTorch's steps.
    BackwardPasses,
    /// By the calls of a model that is not trained.
    ModelCalls,
    /// By what repeats in the trace.
    Repetition,
}

impl IterationSource {
    /// The words in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Marks => "highwater.step()",
            Self::OptimizerSteps => "optimizer steps",
            Self::Rollouts => "rollouts",
            Self::Anew => "models built anew",
            Self::BackwardPasses => "backward passes",
            Self::ModelCalls => "calls of the model",
            Self::Repetition => "repetition in the trace",
        }
    }
}

/// What an iteration is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// A step of training, a batch of inference.
    #[default]
    Iteration,
    /// A token that is generated: the model keeps a cache from call to call.
    Token,
    /// A step of a sampler: the model's output becomes its next input.
    SamplingStep,
}

impl Unit {
    /// The word for one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Iteration => "iteration",
            Self::Token => "token",
            Self::SamplingStep => "sampling step",
        }
    }

    /// The word for several.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Iteration => "iterations",
            Self::Token => "tokens",
            Self::SamplingStep => "sampling steps",
        }
    }
}

/// One iteration.
#[derive(Clone, Debug)]
pub struct Iteration {
    /// Its entries.
    pub entries: Range<usize>,
    /// Whether it was recorded from beginning to end.
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

/// What the iterations of a program are that collects data with its model and then learns from it, or builds a model for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// Steps of the optimizer in each.
    pub steps: usize,
    /// Bytes that the calls of one are fed, all together; 0 where the model generates tokens or is built anew.
    pub collected_bytes: u64,
}

/// The iterations of one device, in order; the set-up before the first is none.
#[derive(Clone, Debug)]
pub struct Iterations {
    /// How they were found.
    pub source: IterationSource,
    /// What each is called.
    pub unit: Unit,
    /// What each collects before it learns, where the model does so.
    pub rollout: Option<Rollout>,
    /// Each one.
    pub rows: Vec<Iteration>,
}

impl Iterations {
    /// How they were found, in words; where an iteration has several steps of the optimizer, with their number.
    pub fn by(&self) -> Cow<'static, str> {
        match self.rollout {
            Some(Rollout { steps, .. }) => format!("{}, each with {steps} optimizer steps", self.source.name()).into(),
            None => self.source.name().into(),
        }
    }

    /// The iteration that an entry belongs to.
    pub fn containing(&self, entry: EntryId) -> Option<usize> {
        self.rows.iter().position(|iteration| iteration.entries.contains(&entry.index()))
    }
}

/// Finds the iterations.
pub(crate) fn iterations(
    snapshot: &Snapshot,
    (entries, lifetimes): (&EntryTable, &Lifetimes),
    timeline: &Timeline<'_>,
    scopes: &[Scope],
    (outline, stacks): (&Outline, &StackPhases),
    from_start: bool,
    by: Total,
) -> Iterations {
    let optimizer = OptimizerScopes::new(snapshot, entries, scopes, outline);
    let (source, mut ranges, rollout) = found(snapshot, (entries, lifetimes), scopes, outline, &optimizer, from_start);
    // Of stacks without their outer frames, layers repeat like iterations.
    if source == IterationSource::Repetition && stacks.are_mostly_unknown() {
        ranges.clear();
    }
    let rows = ranges.into_iter().map(|(range, is_complete)| {
        let (peak, peak_entry) = timeline.peak_in(range.clone(), by);
        let last = range.end.saturating_sub(1).max(range.start);
        let end = if range.is_empty() { timeline.start() } else { timeline.after(EntryId::from_index(last)) };
        let own = optimizer.steps_in(&range);
        let phases = phase::phases(entries, stacks, &range, &own);
        Iteration { entries: range, is_complete, peak, peak_entry, end, phases }
    });
    Iterations { source, unit: Unit::default(), rollout, rows: rows.collect() }
}

/// What iterations are called, once it is known what blocks are for.
pub(crate) fn unit(iterations: &Iterations, outline: &Outline, lifetimes: &Lifetimes, categories: &Categories) -> Unit {
    /// Smaller blocks of equal size are chance.
    const LARGE: u64 = 4096;
    if iterations.source != IterationSource::ModelCalls || iterations.rows.is_empty() {
        return Unit::Iteration;
    }
    if categories.has(Category::Cache) {
        return Unit::Token;
    }
    let mut fed: FxHashSet<u64> = FxHashSet::default();
    let mut returned: FxHashMap<u64, usize> = FxHashMap::default();
    for (row, lifetime) in lifetimes.rows.iter().enumerate().filter(|(_, l)| l.requested_bytes >= LARGE) {
        let Some(alloc) = lifetime.alloc().map(EntryId::index) else { continue };
        if categories.get(row).category == Category::Input {
            fed.insert(lifetime.requested_bytes);
        }
        let at = outline.parts.partition_point(|part| part.entries.start <= alloc);
        let part = at.checked_sub(1).map(|at| &outline.parts[at]);
        let end = part.filter(|part| matches!(part.kind, Kind::Call(_))).map(|part| part.entries.end);
        if end.is_some_and(|end| lifetime.free_requested().is_none_or(|freed| freed.index() >= end)) {
            *returned.entry(lifetime.requested_bytes).or_default() += 1;
        }
    }
    let is_next_input =
        fed.iter().any(|size| returned.get(size).is_some_and(|&count| count * 2 >= iterations.rows.len()));
    if is_next_input { Unit::SamplingStep } else { Unit::Iteration }
}

/// Ranges of entries, and whether each is complete.
type Ranges = Vec<(Range<usize>, bool)>;

/// The ranges of the first source that has any. Where modules run or autograd does, a repetition in the trace is one of
/// layers or of parameters, and no iteration.
fn found(
    snapshot: &Snapshot,
    (entries, lifetimes): (&EntryTable, &Lifetimes),
    scopes: &[Scope],
    outline: &Outline,
    optimizer: &OptimizerScopes<'_>,
    from_start: bool,
) -> (IterationSource, Ranges, Option<Rollout>) {
    let marked = ending_at(&marks(snapshot, scopes), (entries, outline), from_start);
    if !marked.is_empty() {
        return (IterationSource::Marks, marked, None);
    }
    for ends in [optimizer.ends(entries, outline), step_ends(outline, entries)] {
        let collected = || {
            Rollouts::new(outline, (entries, lifetimes), &ends)
                .or_else(|| Rollouts::generating(outline, entries, &ends))
        };
        let anew = || Some((IterationSource::Anew, Rollouts::built_anew(outline, entries, &ends)?));
        let found = collected().map(|rollouts| (IterationSource::Rollouts, rollouts)).or_else(anew);
        if let Some((source, rollouts)) = found {
            let last_ends: Vec<usize> = rollouts.last_steps.iter().map(|&step| ends[step]).collect();
            let ranges = ending_at(&last_ends, (entries, outline), from_start);
            let rollout = Rollout { steps: rollouts.steps, collected_bytes: rollouts.collected_bytes };
            return (source, ranges, Some(rollout));
        }
        let stepped = ending_at(&ends, (entries, outline), from_start);
        if !stepped.is_empty() {
            return (IterationSource::OptimizerSteps, stepped, None);
        }
    }
    if outline.of(|kind| kind == Kind::Backward).next().is_some() {
        return (IterationSource::BackwardPasses, by_passes(outline, entries, from_start), None);
    }
    if outline.of(|kind| matches!(kind, Kind::Call(_))).next().is_some() {
        return (IterationSource::ModelCalls, calls::by_calls(outline, entries), None);
    }
    let repeated = repetition::repetitions(snapshot, entries).into_iter().map(|range| (range, true)).collect();
    (IterationSource::Repetition, repeated, None)
}

/// Where the steps of optimizers end that only their stacks tell, the last of each turn.
fn step_ends(outline: &Outline, entries: &EntryTable) -> Vec<usize> {
    // A step that the program interrupts is one step: only a pass or a call makes room for the next.
    let mut steps: Vec<Part> = Vec::new();
    let mut goes_on = false;
    for part in &outline.parts {
        match (part.kind, steps.last_mut()) {
            (Kind::Step, Some(last)) if goes_on => last.entries.end = part.entries.end,
            (Kind::Step, _) => {
                steps.push(part.clone());
                goes_on = true;
            }
            (Kind::Backward | Kind::Call(_), _) => goes_on = false,
            _ => {}
        }
    }
    // A fused step allocates its state at the first time and nothing later on: what is left of a later one, such as the clipping of
    // gradients, is called by the step that begins likewise.
    let mut known: FxHashMap<StackId, Option<u32>> = FxHashMap::default();
    for step in steps.iter().filter(|step| step.caller.is_some()) {
        let caller = known.entry(step.first).or_insert(step.caller);
        if *caller != step.caller {
            *caller = None;
        }
    }
    let caller_of = |step: &Part| step.caller.or_else(|| *known.get(&step.first)?);
    let callers: Vec<_> = steps.iter().map(caller_of).collect();
    let works: Vec<Work> = steps.iter().take(MAX_TURN).map(|step| Work::new(entries, std::iter::once(step))).collect();
    let turn = turn(&callers, |a, b| works[a].may_be_of_one(&works[b]));
    let mut ends: Vec<usize> = steps.chunks_exact(turn).map(|turn| turn[turn.len() - 1].entries.end).collect();
    ends.extend(unseen_step_ends(outline, entries, &ends));
    ends
}

/// Where the steps end that allocate nothing, behind those that do: after as many passes like those before as a step takes.
fn unseen_step_ends(outline: &Outline, entries: &EntryTable, seen: &[usize]) -> Vec<usize> {
    let Some(&last) = seen.last() else { return Vec::new() };
    let passes = passes(outline);
    let (before, behind) = passes.split_at(passes.partition_point(|pass| pass.start < last));
    let passes_until = |end: usize| passes.partition_point(|pass| pass.start < end);
    let counts = seen.iter().scan(0, |from, &end| {
        let until = passes_until(end);
        Some(until - std::mem::replace(from, until))
    });
    let per_step = counts.max().unwrap_or(0);
    let known: FxHashSet<StackId> = before.iter().map(|pass| pass.first).collect();
    let behind = &behind[..behind.iter().take_while(|pass| known.contains(&pass.first)).count()];
    // One step's passes behind the last step may be those of a step that the recording does not reach.
    if per_step == 0 || behind.len() <= per_step {
        return Vec::new();
    }
    let forward_starts = forward_starts(outline, &passes[0]);
    let end_of = |turn: &[OutlinedPass]| next(&forward_starts, turn[turn.len() - 1].end).unwrap_or(entries.len());
    let mut ends: Vec<usize> = behind.chunks_exact(per_step).map(end_of).collect();
    ends.dedup();
    ends
}

/// Where forward work starts: after a pass it opens the next iteration; anything else, such as an update, still belongs to this one.
fn forward_starts(outline: &Outline, first_pass: &OutlinedPass) -> Vec<usize> {
    let before = |part: &&Part| part.entries.start < first_pass.start;
    let is_forward = |part: &&Part| matches!(part.kind, Kind::Program | Kind::Call(_));
    let forward: FxHashSet<StackId> =
        outline.parts.iter().filter(is_forward).take_while(before).map(|part| part.first).collect();
    let starts = outline.parts.iter().filter(|part| forward.contains(&part.first));
    starts.map(|part| part.entries.start).collect()
}

/// The first of some entries, which ascend, from one on.
fn next(starts: &[usize], from: usize) -> Option<usize> {
    starts.get(starts.partition_point(|&start| start < from)).copied()
}

/// Iterations of a program that updates its parameters by hand: from one pass to the next, or to the last of those
/// that take turns.
fn by_passes(outline: &Outline, entries: &EntryTable, from_start: bool) -> Ranges {
    let passes = passes(outline);
    let Some(first) = passes.first() else { return Vec::new() };
    let forward_starts = forward_starts(outline, first);
    let of_program = outline.of(|kind| kind == Kind::Program).map(|part| part.entries.start);
    let update_starts: Vec<usize> = of_program.filter(|start| forward_starts.binary_search(start).is_err()).collect();
    let updates = |from: usize, to: usize| next(&update_starts, from).is_some_and(|start| start < to);
    // Passes without an update between them, but with one behind the last, are of one step.
    let is_one_step = passes.windows(2).all(|pair| !updates(pair[0].end, pair[1].start))
        && passes.last().is_some_and(|last| updates(last.end, entries.len()));
    // A program that ends frees its gradients, too: between passes alone does that show an update.
    let clearings = clearings(entries, &passes, &forward_starts);
    let updates = |from: usize, to: usize| updates(from, to) || next(&clearings, from).is_some_and(|start| start < to);
    let callers: Vec<_> = passes.windows(2).map(|pair| (pair[0].first, updates(pair[0].end, pair[1].start))).collect();
    // Where an update comes after some passes and not after others, gradients accumulate.
    let accumulates = callers.iter().any(|(_, updates)| *updates)
        && callers.iter().any(|(_, updates)| !updates)
        && callers.iter().all(|(first, _)| *first == callers[0].0);
    let turns: Vec<&[OutlinedPass]> = if is_one_step {
        vec![&passes]
    } else if accumulates {
        passes.chunk_by(|pass, next| !updates(pass.end, next.start)).collect()
    } else {
        passes.chunks(turn(&callers, |_, _| false)).collect()
    };
    let mut start = forward_starts.first().copied().unwrap_or(first.start);
    let mut ranges = Vec::new();
    for turn in turns {
        let end = next(&forward_starts, turn[turn.len() - 1].end).unwrap_or(entries.len()).max(start);
        ranges.push((start..end, !ranges.is_empty() || from_start));
        start = end;
    }
    ranges
}

/// Where passes end behind which gradients are cleared, if they are not behind all: before anything runs forward again, at least half of
/// the blocks that passes have left are freed.
fn clearings(entries: &EntryTable, passes: &[OutlinedPass], forward_starts: &[usize]) -> Vec<usize> {
    let mut left: FxHashSet<u64> = FxHashSet::default();
    let mut clearings = Vec::new();
    for (at, pass) in passes.iter().enumerate() {
        let next_pass = passes.get(at + 1).map_or(entries.len(), |next| next.start);
        let until = next(forward_starts, pass.end).map_or(next_pass, |start| start.min(next_pass));
        let mut left_by_pass = 0;
        for row in pass.start..until {
            if row == pass.end {
                left_by_pass = left.len();
            }
            let address = entries.addresses()[row];
            match entries.actions()[row] {
                Action::ALLOC if row < pass.end => _ = left.insert(address),
                Action::ALLOC | Action::FREE_REQUESTED => _ = left.remove(&address),
                _ => {}
            }
        }
        if left_by_pass > 0 && left.len() * 2 <= left_by_pass {
            clearings.push(pass.end);
        }
    }
    if clearings.len() == passes.len() { Vec::new() } else { clearings }
}

/// A backward pass as the outline has it.
struct OutlinedPass {
    start: usize,
    end: usize,
    first: StackId,
}

/// Backward passes: runs of autograd's allocations, with what recomputes or hooks in between.
fn passes(outline: &Outline) -> Vec<OutlinedPass> {
    let of = outline.of(|kind| kind == Kind::Backward);
    of.map(|part| OutlinedPass { start: part.entries.start, end: part.entries.end, first: part.first }).collect()
}

/// How many take turns: the rhythm that they keep, or all of them where each comes once. There `is_same` says of two in different
/// places whether they are one all the same.
fn turn<T: PartialEq>(callers: &[T], is_same: impl Fn(usize, usize) -> bool) -> usize {
    let rhythm = rhythm(callers);
    if rhythm > 1 || !(2..=MAX_TURN).contains(&callers.len()) {
        return rhythm;
    }
    let first_like = |at: usize| (0..at).find(|&before| callers[before] == callers[at] || is_same(before, at));
    let firsts: Vec<Option<usize>> = (0..callers.len()).map(first_like).collect();
    // Each comes once, or one of them several times before or after the others: a turn ends with the last of them all. Where several come
    // again, one training follows another.
    let last = firsts.iter().rposition(Option::is_none).unwrap_or(0);
    let again: BTreeSet<usize> = firsts.iter().copied().flatten().collect();
    if last == 0 || again.len() > 1 {
        1
    } else {
        last + 1 + firsts[last + 1..].iter().take_while(|first| **first == Some(last)).count()
    }
}

/// What a step of an optimizer does, and the line that calls it.
#[derive(Default)]
struct Work {
    line: Option<FrameId>,
    /// The sizes of its blocks.
    sizes: BTreeSet<u64>,
}

impl Work {
    fn new<'a>(entries: &EntryTable, parts: impl Iterator<Item = &'a Part>) -> Self {
        let mut work = Self::default();
        for part in parts {
            work.line = work.line.or(part.line);
            let made = part.entries.clone().filter(|&row| entries.actions()[row] == Action::ALLOC);
            work.sizes.extend(made.map(|row| entries.sizes_bytes()[row]));
        }
        work
    }

    /// Whether one optimizer may do both: one line calls it, for a function that the program calls in several places, and works in the
    /// same sizes. The first step has its state besides, and of one that fails the rest is missing.
    fn may_be_of_one(&self, other: &Self) -> bool {
        let is_part = self.sizes.is_subset(&other.sizes) || other.sizes.is_subset(&self.sizes);
        self.line.is_some() && self.line == other.line && is_part
    }
}

/// Optimizers that take turns, at most.
const MAX_TURN: usize = 8;

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
    /// A `GradScaler` runs: where gradients overflow, it skips the step.
    may_skip: bool,
}

impl<'a> OptimizerScopes<'a> {
    fn new(snapshot: &Snapshot, entries: &EntryTable, scopes: &'a [Scope], outline: &Outline) -> Self {
        let is = |scope: &Scope, prefix: &str| snapshot.text(scope.name).starts_with(prefix);
        let mut steps: Vec<&Scope> = Vec::new();
        for scope in scopes.iter().filter(|scope| is(scope, "Optimizer.step#")) {
            // A step within a step is a wrapper's.
            if steps.last().is_none_or(|last| last.end_us.is_some_and(|end| scope.start_us >= end)) {
                steps.push(scope);
            }
        }
        let clearings = scopes.iter().filter(|scope| is(scope, "Optimizer.zero_grad#")).collect();
        // A step that allocates nothing is called from where another of its name is.
        let mut callers: FxHashMap<StringId, Option<u32>> = FxHashMap::default();
        let mut names: Vec<_> = steps.iter().map(|scope| (scope.name, caller_in(outline, scope))).collect();
        for &(name, caller) in names.iter().filter(|(_, caller)| caller.is_some()) {
            callers.entry(name).or_insert(caller);
        }
        for (name, caller) in &mut names {
            *caller = caller.or_else(|| *callers.get(name)?);
        }
        let works: Vec<Work> =
            steps.iter().take(MAX_TURN).map(|scope| Work::new(entries, parts_in(outline, scope))).collect();
        let is_one = |a: usize, b: usize| names[a].0 == names[b].0 && works[a].may_be_of_one(&works[b]);
        let per_iteration = turn(&names, is_one);
        let may_skip = snapshot
            .frames
            .iter()
            .any(|(_, frame)| snapshot.text(frame.filename).replace('\\', "/").contains("torch/amp/grad_scaler.py"));
        Self { steps, clearings, per_iteration, may_skip }
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

    /// Where iterations end, by their last step.
    fn ends(&self, entries: &EntryTable, outline: &Outline) -> Vec<usize> {
        let turns = self.steps.chunks_exact(self.per_iteration).map(|turn| turn[turn.len() - 1]);
        let last: Vec<&Scope> = turns.collect();
        // Steps of one backward pass are one: each of a parameter by a hook, where autograd runs between some and nothing forward, or
        // those of several optimizers in a row.
        let is_one = |steps: &[&Scope]| {
            let autograd_runs = |pair: &[&Scope]| outline.has_backward(pair[0].end, pair[1].start);
            steps.windows(2).any(autograd_runs) || outline.has_backward(0, steps[0].start)
        };
        let in_backward = last.chunk_by(|step, next| !outline.has_forward(step.end, next.start));
        let ends = in_backward.flat_map(|steps| if is_one(steps) { &steps[steps.len() - 1..] } else { steps });
        let mut ends: Vec<usize> = ends.map(|step| self.end_of(step, entries)).collect();
        if self.may_skip && self.per_iteration == 1 && !ends.is_empty() {
            ends.extend(self.skipped(outline));
            ends.sort_unstable();
        }
        ends
    }

    /// Where passes end whose gradients are cleared before any step, of the kind that a step follows elsewhere: not those that compute the
    /// gradients of the input alone.
    fn skipped(&self, outline: &Outline) -> Vec<usize> {
        let passes = passes(outline);
        let lies_between = |scopes: &[&Scope], start: usize, end: usize| {
            let after = scopes.partition_point(|scope| scope.start < start);
            scopes.get(after).is_some_and(|scope| scope.start < end)
        };
        let is_in_step = |pass: &OutlinedPass| {
            let before = self.steps.partition_point(|step| step.start <= pass.start);
            self.steps[..before].last().is_some_and(|step| pass.start < step.end)
        };
        let next_start = |at: usize| passes.get(at + 1).map_or(usize::MAX, |next| next.start);
        let is_stepped = |at: &usize| lies_between(&self.steps, passes[*at].end, next_start(*at));
        let stepped: FxHashSet<StackId> = (0..passes.len()).filter(is_stepped).map(|at| passes[at].first).collect();
        let skipped = passes.windows(2).filter(|pair| {
            let (end, next) = (pair[0].end, pair[1].start);
            (stepped.is_empty() || stepped.contains(&pair[0].first))
                && !is_in_step(&pair[0])
                && lies_between(&self.clearings, end, next)
                && !lies_between(&self.steps, end, next)
        });
        skipped.map(|pair| pair[0].end).collect()
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
fn ending_at(ends: &[usize], (entries, outline): (&EntryTable, &Outline), from_start: bool) -> Ranges {
    let mut ranges = Ranges::new();
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
    let fails = entries.actions()[tail.clone()].contains(&Action::OOM);
    // What the first does not have belongs to the end of each: an evaluation after the step, a copy of the weights.
    let first = ranges[0].0.clone();
    let ends_each = ranges.len() > 1
        && outline.has_forward(first.start, first.end)
        && first_like(entries, first, tail.clone()).is_none();
    // An evaluation may run the lines of training. It has no backward pass, and keeps nothing for one.
    let evaluates = || {
        !outline.has_backward(tail.start, tail.end)
            && most_kept(entries, tail.clone()) * 2 < most_kept(entries, before_backward(outline, last.clone()))
    };
    // What follows the last one is another iteration only if it gets somewhere, or runs out of memory.
    let gets_somewhere = !ends_each && count(tail.clone()) * 4 >= count(last.clone()) && !evaluates();
    if first_like(entries, last, tail.clone()).is_some() && (fails || gets_somewhere) {
        ranges.push((tail, false));
    }
    ranges
}

/// The part of a range before its first backward pass.
fn before_backward(outline: &Outline, range: Range<usize>) -> Range<usize> {
    let mut passes = outline.of(|kind| kind == Kind::Backward).map(|part| part.entries.start);
    let end = passes.find(|start| range.contains(start)).unwrap_or(range.end);
    range.start..end
}

/// How many blocks that a range allocates are there at once, at most.
fn most_kept(entries: &EntryTable, range: Range<usize>) -> usize {
    let mut live: FxHashSet<u64> = FxHashSet::default();
    let mut most = 0;
    for row in range {
        match entries.actions()[row] {
            Action::ALLOC => _ = live.insert(entries.addresses()[row]),
            Action::FREE_REQUESTED => _ = live.remove(&entries.addresses()[row]),
            _ => {}
        }
        most = most.max(live.len());
    }
    most
}

/// Who calls the step of a scope, as far as an allocation in it tells.
fn caller_in(outline: &Outline, scope: &Scope) -> Option<u32> {
    parts_in(outline, scope).find_map(|part| part.caller)
}

/// The parts of a step within its scope.
fn parts_in<'a>(outline: &'a Outline, scope: &Scope) -> impl Iterator<Item = &'a Part> {
    let after = outline.parts.partition_point(|part| part.entries.end <= scope.start);
    let end = scope.end;
    let within = outline.parts[after..].iter().take_while(move |part| part.entries.start < end);
    within.filter(|part| part.kind == Kind::Step)
}

/// The shortest rhythm of the names, if they keep it throughout; else 1.
fn rhythm<T: PartialEq>(names: &[T]) -> usize {
    (1..=MAX_TURN.min(names.len() / 2))
        .find(|&period| names.iter().zip(&names[period..]).all(|(a, b)| a == b))
        .unwrap_or(1)
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
    fn one_turn_is_told_by_its_last_caller() {
        let turn = |callers: &[&str]| turn(callers, |_, _| false);
        assert_eq!(turn(&["d", "d", "d", "g"]), 4);
        assert_eq!(turn(&["g", "d", "d"]), 3);
        assert_eq!(turn(&["d", "d", "g", "d"]), 3);
        assert_eq!(turn(&["a", "b", "c"]), 3);
        assert_eq!(turn(&["a", "a", "a"]), 1);
        assert_eq!(turn(&["a", "b", "a", "b"]), 2);
        assert_eq!(turn(&["a", "a", "b", "b", "b"]), 1, "one training after another");
        assert_eq!(turn(&[]), 1);
    }

    #[test]
    fn one_optimizer_in_several_places_takes_no_turns() {
        assert_eq!(turn(&["warm-up", "warm-up", "loop"], |_, _| true), 1);
        assert_eq!(turn(&["first", "later", "later"], |a, b| a + b > 2), 3, "the first is another one's");
    }

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
