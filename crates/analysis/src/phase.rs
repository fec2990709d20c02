//! Forward, backward, optimizer: what an allocation was made for, by its stack.

use std::ops::Range;

use highwater_snapshot::{Action, EntryTable, FrameId, Snapshot, StackId};

use crate::callsite::Sites;
use crate::folding::Owner;

/// What a training loop is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// The model and the loss run; for inference, everything.
    Forward,
    /// Autograd runs.
    Backward,
    /// The optimizer steps and clears gradients.
    Optimizer,
}

impl Phase {
    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
        }
    }
}

/// A run of entries in one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseRun {
    /// The phase.
    pub phase: Phase,
    /// Its entries.
    pub entries: Range<usize>,
}

/// The phase that each stack of a snapshot belongs to, where it tells.
///
/// - A frame of `torch/optim/` is the optimizer.
/// - A stack without Python frames, or whose outermost Python frame is PyTorch's own, was made on a thread that PyTorch
///   started: autograd's. So was one that passes through autograd's engine.
/// - Any other stack is forward.
#[derive(Clone, Debug)]
pub(crate) struct StackPhases(Vec<Option<Phase>>);

impl StackPhases {
    pub(crate) fn new(snapshot: &Snapshot, sites: &Sites) -> Self {
        Self(snapshot.stacks.iter().map(|(_, frames)| Some(phase_of(snapshot, sites, frames))).collect())
    }

    fn get(&self, stack: StackId) -> Option<Phase> {
        if stack == StackId::MISSING { None } else { self.0[stack.index()] }
    }
}

fn phase_of(snapshot: &Snapshot, sites: &Sites, frames: &[FrameId]) -> Phase {
    let has = |wanted: &dyn Fn(&str, &str) -> bool| {
        frames.iter().any(|&id| {
            let frame = snapshot.frames.get(id);
            wanted(snapshot.text(frame.name), snapshot.text(frame.filename))
        })
    };
    if has(&|_, file| file.contains("torch/optim/") || file.contains("torch\\optim\\")) {
        return Phase::Optimizer;
    }
    let outermost = frames.iter().rev().map(|&frame| sites.owner(frame)).find(|owner| owner.is_python());
    if matches!(outermost, None | Some(Owner::Torch)) {
        return Phase::Backward;
    }
    if has(&|name, _| name == "_engine_run_backward" || name.contains("autograd::Engine::")) {
        return Phase::Backward;
    }
    Phase::Forward
}

/// Shares of an iteration's allocations below which a run between two runs of one phase is noise.
const NOISE: usize = 100;

/// The phases of a range of entries, by its allocations; `optimizer` are the
/// ranges that annotations name as such, in order.
///
/// Allocations decide; the frees between belong to the run before them, and what stands before the first allocation to
/// the first run. Empty if no stack tells and no annotation does.
pub(crate) fn phases(
    entries: &EntryTable,
    stacks: &StackPhases,
    range: &Range<usize>,
    mut optimizer: &[Range<usize>],
) -> Vec<PhaseRun> {
    let mut runs: Vec<(PhaseRun, usize)> = Vec::new();
    let mut total = 0;
    for row in range.clone() {
        while optimizer.first().is_some_and(|scope| scope.end <= row) {
            optimizer = &optimizer[1..];
        }
        let annotated = optimizer.first().is_some_and(|scope| scope.contains(&row));
        let phase = if annotated {
            Some(Phase::Optimizer)
        } else if entries.actions()[row] == Action::ALLOC {
            stacks.get(entries.stacks()[row])
        } else {
            None
        };
        let Some(phase) = phase else { continue };
        total += 1;
        match runs.last_mut().filter(|(run, _)| run.phase == phase) {
            Some((_, count)) => *count += 1,
            None => runs.push((PhaseRun { phase, entries: row..row }, 1)),
        }
    }
    let mut runs = without_noise(runs, total);
    let ends: Vec<usize> = runs.iter().skip(1).map(|run| run.entries.start).chain([range.end]).collect();
    for (run, end) in runs.iter_mut().zip(ends) {
        run.entries.end = end;
    }
    if let Some(first) = runs.first_mut() {
        first.entries.start = range.start;
    }
    runs
}

/// Joins runs of one phase over a short run of another between them.
fn without_noise(runs: Vec<(PhaseRun, usize)>, total: usize) -> Vec<PhaseRun> {
    let mut joined: Vec<(PhaseRun, usize)> = Vec::new();
    for (run, count) in runs {
        if let [.., (before, before_count), (_, between)] = &mut joined[..]
            && before.phase == run.phase
            && *between * NOISE < total
        {
            *before_count += count + *between;
            joined.pop();
        } else {
            joined.push((run, count));
        }
    }
    joined.into_iter().map(|(run, _)| run).collect()
}
