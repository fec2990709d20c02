//! Memory that only Python's garbage collector gives back: tensors in reference cycles.
//!
//! What reference counting frees goes one by one, where its last owner lets go; a list lets go of the newest first. The
//! collector frees what has piled up in one go, the oldest first, at whatever line it happens to run.
//!
//! What an error frees as it leaves the functions that were running is nobody's cycle: frees between an out-of-memory error and the
//! next allocation are no run of the collector.
//!
//! A program that moves modules to the host, or swaps what its parameters hold, also frees in order. So there has to be
//! evidence for the collector: what it frees was made in several calls, or by several lines, and nothing else takes the time
//! or stands on the stack that letting go one by one would.

use highwater_analysis::category::Category;
use highwater_analysis::lifetime::{Lifetime, number};
use highwater_analysis::place;
use highwater_snapshot::{Action, EntryId, FrameId, StackId};
use highwater_units::{counted, size};
use highwater_whatif::counterfactual::Change;
use rustc_hash::{FxHashMap, FxHashSet};

use super::evidence::StackSet;
use super::{Evidence, Finding, Severity};

/// Blocks of one stack that make a pile.
const MIN_PILE: usize = 3;

/// The collector frees a tensor in some microseconds. A copy to the host, which is waited for, takes longer.
const MOST_US: i64 = 1000;

/// Functions that let go of tensors themselves: parts of their names, and of their files.
///
/// # Source
/// PyTorch v2.11: `Module._apply` assigns `param.data`; `THPVariable_set_data`; stacks of recordings with C++ frames.
const LET_GO: [(&str, &str); 6] = [
    ("_apply", "torch/nn/modules/module.py"),
    ("zero_grad", "torch/"),
    ("THPVariable_set_data", ""),
    ("at::_ops::", ""),
    ("at::native::", ""),
    ("torch::autograd::generated::", ""),
];

/// One finding for all sites.
pub(super) fn garbage(evidence: &Evidence<'_>) -> Option<Finding> {
    let collections = Collections::of(evidence);
    let candidates = candidates(evidence, &collections);
    let mut by_stack: FxHashMap<StackId, Vec<&Lifetime>> = FxHashMap::default();
    for (row, lifetime) in evidence.rows().filter(|(_, l)| candidates.contains(&l.stack) && l.alloc().is_some()) {
        if may_be_garbage(evidence.device.decided(row).category) {
            by_stack.entry(lifetime.stack).or_default().push(lifetime);
        }
    }
    if by_stack.is_empty() {
        return None;
    }
    let among = Among::of(evidence, &collections, &by_stack);
    let mut piles: Vec<Pile<'_>> = by_stack
        .into_iter()
        .filter_map(|(stack, lifetimes)| Pile::of(evidence, stack, lifetimes, &collections, &among))
        .collect();
    piles.sort_unstable_by_key(|pile| pile.stack);
    let changes: Vec<Change> = piles.iter().flat_map(|pile| pile.without(evidence)).collect();
    let saving = evidence.worth(evidence.peak_with(&changes))?;
    let collected: usize = piles.iter().map(|pile| pile.collected).sum();
    let runs: FxHashSet<usize> = piles.iter().flat_map(|pile| pile.runs.iter().copied()).collect();
    let last = runs.iter().max().map(|&run| collections.stacks[run])?;
    let title = format!("{} of the peak was probably kept alive by reference cycles", size(saving));
    let largest = piles.iter().flat_map(|pile| pile.lifetimes.iter()).map(|l| (evidence.site(l), evidence.bytes(l)));
    let detail = format!(
        "{} accumulated and were freed together by {} (the last at {}), as happens with reference cycles: {}; if \
         each were freed when its line allocates the next, the peak would be {}",
        counted(collected, "block", "blocks"),
        counted(runs.len(), "run of the garbage collector", "runs of the garbage collector"),
        place::stack(evidence.analysis.snapshot, &evidence.analysis.sites, last),
        evidence.places(largest),
        size(evidence.peak.bytes - saving)
    );
    Some(Finding::new("garbage-collector", Severity::Warning, title, detail).saves(saving).change(
        "break the reference cycle that holds these tensors: an object that refers to itself, a closure or hook \
         that refers to its own object (use `weakref`), or an exception stored with its traceback",
    ))
}

/// Parameters go with their module, gradients and state with theirs: in one go as well.
fn may_be_garbage(category: Category) -> bool {
    !matches!(category, Category::Parameter | Category::Gradient | Category::OptimizerState | Category::Workspace)
}

/// Runs of frees with nothing between, each from one line.
struct Collections {
    /// The run that an entry is in or comes after; the first is 1.
    at: Vec<u32>,
    /// The stack that frees, of each run; none is before the first.
    stacks: Vec<StackId>,
    /// Runs that an error set off.
    of_errors: FxHashSet<usize>,
}

impl Collections {
    fn of(evidence: &Evidence<'_>) -> Self {
        let entries = evidence.device.entries;
        let mut at = Vec::with_capacity(entries.len());
        let mut of_runs = vec![StackId::MISSING];
        let mut of_errors = FxHashSet::default();
        let (mut is_open, mut is_error) = (false, false);
        for (row, &action) in entries.actions().iter().enumerate() {
            match action {
                Action::FREE_REQUESTED => {
                    let stack = entries.stacks()[row];
                    if !is_open || of_runs.last() != Some(&stack) {
                        of_runs.push(stack);
                        if is_error {
                            of_errors.insert(of_runs.len() - 1);
                        }
                    }
                    is_open = true;
                }
                Action::FREE_COMPLETED => {}
                Action::OOM => (is_open, is_error) = (false, true),
                Action::ALLOC => (is_open, is_error) = (false, false),
                _ => is_open = false,
            }
            at.push(number(of_runs.len() - 1));
        }
        Self { at, stacks: of_runs, of_errors }
    }

    /// The run that frees a lifetime.
    fn run_of(&self, lifetime: &Lifetime) -> Option<usize> {
        lifetime.free_requested().map(|freed| self.at[freed.index()] as usize)
    }
}

/// The stacks of which some that follow each other are freed in one run.
fn candidates(evidence: &Evidence<'_>, collections: &Collections) -> FxHashSet<StackId> {
    let mut in_a_row = vec![(0_u32, 0_usize); evidence.analysis.snapshot.stacks.len()];
    let mut candidates = FxHashSet::default();
    for (_, lifetime) in evidence.rows() {
        let (Some(run), Some(last)) = (collections.run_of(lifetime), in_a_row.get_mut(lifetime.stack.index())) else {
            continue;
        };
        *last = if last.0 == number(run) { (last.0, last.1 + 1) } else { (number(run), 1) };
        if last.1 == MIN_PILE {
            candidates.insert(lifetime.stack);
        }
    }
    candidates
}

/// What is known of the runs beside their blocks' order.
struct Among {
    /// The stacks that let go themselves.
    let_go: StackSet,
    /// Frees before each entry.
    frees: Vec<u32>,
    /// Of a run, one of the stacks whose blocks it frees, and whether there are more.
    of_runs: FxHashMap<usize, (StackId, bool)>,
}

impl Among {
    fn of(evidence: &Evidence<'_>, collections: &Collections, by_stack: &FxHashMap<StackId, Vec<&Lifetime>>) -> Self {
        let lets_go = |name: &str, file: &str| {
            LET_GO.iter().any(|(function, part)| name.contains(function) && file.replace('\\', "/").contains(part))
        };
        let mut frees = Vec::with_capacity(evidence.device.entries.len());
        let mut before = 0;
        for &action in evidence.device.entries.actions() {
            frees.push(before);
            before += u32::from(action == Action::FREE_REQUESTED);
        }
        let mut of_runs: FxHashMap<usize, (StackId, bool)> = FxHashMap::default();
        for (&stack, lifetimes) in by_stack {
            for run in lifetimes.iter().filter_map(|lifetime| collections.run_of(lifetime)) {
                of_runs.entry(run).and_modify(|of_run| of_run.1 |= of_run.0 != stack).or_insert((stack, false));
            }
        }
        Self { let_go: evidence.stacks_with(lets_go), frees, of_runs }
    }

    /// Whether the blocks of a stack that a run frees were made in several calls, or with blocks of other lines.
    fn has_gathered(&self, run: usize, lifetimes: &[(usize, &Lifetime)]) -> bool {
        let entry = |lifetime: &Lifetime| lifetime.alloc().map_or(0, EntryId::index);
        let apart = |pair: &&[(usize, &Lifetime)]| self.frees[entry(pair[0].1)] < self.frees[entry(pair[1].1)];
        let several = lifetimes.windows(2).filter(apart).count();
        several * 2 >= lifetimes.len() - 1 || self.of_runs.get(&run).is_some_and(|&(_, more)| more)
    }
}

/// Whether frees follow each other as fast as those of the collector; not told where there are no times.
fn are_quick(evidence: &Evidence<'_>, freed: &[(usize, &Lifetime)]) -> bool {
    let time = |at: usize| freed.get(at)?.1.free_requested().and_then(|entry| evidence.device.entries.time_us(entry));
    let between = i64::try_from(freed.len().saturating_sub(1)).unwrap_or(i64::MAX);
    match (time(0), time(freed.len().saturating_sub(1))) {
        (Some(first), Some(last)) => last.saturating_sub(first) <= MOST_US.saturating_mul(between),
        _ => true,
    }
}

/// What one line makes and only the collector frees.
struct Pile<'a> {
    stack: StackId,
    /// In order.
    lifetimes: Vec<&'a Lifetime>,
    /// How many were freed.
    collected: usize,
    /// The runs that freed some.
    runs: Vec<usize>,
}

impl<'a> Pile<'a> {
    fn of(
        evidence: &Evidence<'a>,
        stack: StackId,
        lifetimes: Vec<&'a Lifetime>,
        collections: &Collections,
        among: &Among,
    ) -> Option<Self> {
        let mut freed: Vec<(usize, &Lifetime)> = Vec::new();
        for &lifetime in &lifetimes {
            match collections.run_of(lifetime) {
                Some(run) => freed.push((run, lifetime)),
                None if lifetime.free_completed().is_some() => return None,
                None => {}
            }
        }
        freed.sort_by_key(|&(run, _)| run);
        let of_runs = || freed.chunk_by(|a, b| a.0 == b.0);
        let is_pile = |of_run: &[(usize, &Lifetime)]| {
            let oldest_first = of_run.windows(2).all(|pair| pair[0].1.free_requested() < pair[1].1.free_requested());
            let run = of_run[0].0;
            of_run.len() >= MIN_PILE
                && !collections.of_errors.contains(&run)
                && oldest_first
                && !among.let_go.has(collections.stacks[run])
                && are_quick(evidence, of_run)
                && among.has_gathered(run, of_run)
        };
        let piled: usize = of_runs().filter(|of_run| is_pile(of_run)).map(<[_]>::len).sum();
        let runs: Vec<usize> = of_runs().map(|of_run| of_run[0].0).collect();
        let by_python = runs.iter().all(|&run| is_of_python(evidence, collections.stacks[run]));
        let anywhere = runs.iter().any(|&run| collections.stacks[run] != collections.stacks[runs[0]]);
        if piled == 0
            || piled * 5 < freed.len() * 4
            || !by_python
            || !(anywhere || has_returned(evidence, &lifetimes, collections.stacks[runs[0]]))
        {
            return None;
        }
        Some(Self { stack, collected: freed.len(), lifetimes, runs })
    }

    /// Each gone when the next one is made.
    fn without(&self, evidence: &Evidence<'_>) -> Vec<Change> {
        let pairs = self.lifetimes.windows(2).map(|pair| {
            let (own, next) = (evidence.span(pair[0]), evidence.span(pair[1]));
            Change::without(next.start.min(own.end)..own.end, evidence.bytes(pair[0]))
        });
        pairs.collect()
    }
}

/// Whether Python frees: autograd's own frees are no collection. Not told where frees have no stacks.
fn is_of_python(evidence: &Evidence<'_>, stack: StackId) -> bool {
    !stack.is_recorded()
        || evidence.analysis.snapshot.stacks.get(stack).iter().any(|&f| evidence.analysis.sites.owner(f).is_python())
}

/// Whether the function that allocates has returned before its blocks are freed: what a function gathers, it clears itself.
///
/// Either it is not running as they are freed, or the program was elsewhere between two calls of it.
fn has_returned(evidence: &Evidence<'_>, lifetimes: &[&Lifetime], freed: StackId) -> bool {
    /// Entries that are looked at between two calls.
    const BETWEEN: usize = 10_000;
    let (snapshot, entries) = (evidence.analysis.snapshot, evidence.device.entries);
    let [first, second, ..] = lifetimes else { return false };
    let frames = snapshot.stacks.get(first.stack);
    let own = evidence.analysis.sites.shown_frames(snapshot, first.stack);
    let (Some(&function), Some(&outermost)) = (own.first(), frames.last()) else { return false };
    let function = snapshot.frames.get(function);
    let is_elsewhere = |stack: StackId| {
        stack.is_recorded() && {
            let frames = snapshot.stacks.get(stack);
            let runs = |&frame: &FrameId| {
                let frame = snapshot.frames.get(frame);
                frame.name == function.name && frame.filename == function.filename
            };
            // Of the same thread.
            frames.last() == Some(&outermost) && !frames.iter().any(runs)
        }
    };
    let index = |lifetime: &Lifetime| lifetime.alloc().map_or(0, EntryId::index);
    let between = index(first)..index(second).min(index(first).saturating_add(BETWEEN));
    is_elsewhere(freed)
        || entries.stacks().iter().skip(between.start).take(between.len()).any(|&stack| is_elsewhere(stack))
}
