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

/// The phase that each stack of a snapshot belongs to.
///
/// - From the innermost frame outwards, the first of these decides: a frame of PyTorch's optimizers, or of its clipping
///   of gradients, is the optimizer; a module's call is forward. What an optimizer calls back (a closure) is no part of
///   it; the `step` of an optimizer that is not PyTorch's is.
/// - Else, or where that says forward: a stack that passes through autograd's engine, that has no Python frame, or whose
///   outermost Python frame is PyTorch's own, was made on a thread that PyTorch started. That is backward.
/// - So is a stack without native frames that begins within a function, where others begin with a module: PyTorch called a hook from a
///   thread of its own. Of a stack that is as deep as the deepest, the begin may be cut off.
/// - Any other stack is forward.
///
/// In a profiler's trace without Python functions, only what runs inside of autograd's engine is backward.
#[derive(Clone, Debug)]
pub struct StackPhases(Vec<Phase>);

impl StackPhases {
    /// The phases of a snapshot's stacks.
    pub fn new(snapshot: &Snapshot, sites: &Sites) -> Self {
        let roles: Vec<Role> = snapshot
            .frames
            .iter()
            .map(|(id, frame)| match Role::of(snapshot.text(frame.name), snapshot.text(frame.filename)) {
                Role::Other if sites.is_module_call(id) => Role::ModuleCall,
                role => role,
            })
            .collect();
        if sites.are_operators_only(snapshot) {
            let is_engine = |frame: &FrameId| roles[frame.index()] == Role::Engine;
            let phase =
                |frames: &[FrameId]| if frames.iter().any(is_engine) { Phase::Backward } else { Phase::Forward };
            return Self(snapshot.stacks.iter().map(|(_, frames)| phase(frames)).collect());
        }
        let called = CalledBack::new(snapshot, sites);
        let phase = |frames: &[FrameId]| match phase_of(frames, &roles, sites) {
            Phase::Forward if called.holds(frames, snapshot) => Phase::Backward,
            phase => phase,
        };
        Self(snapshot.stacks.iter().map(|(_, frames)| phase(frames)).collect())
    }

    /// The phase of a stack; `None` where none was recorded.
    pub fn get(&self, stack: StackId) -> Option<Phase> {
        if stack == StackId::MISSING { None } else { Some(self.0[stack.index()]) }
    }
}

/// What a frame says about the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// PyTorch's clipping of gradients.
    ClipsGradients,
    /// PyTorch's optimizers.
    Optimizer,
    /// A module's call.
    ModuleCall,
    /// Autograd's engine.
    Engine,
    /// A function named `step`, such as that of an optimizer which is not PyTorch's.
    Step,
    Other,
}

impl Role {
    fn of(name: &str, filename: &str) -> Self {
        let file = filename.replace('\\', "/");
        if file.contains("torch/nn/utils/clip_grad.py") {
            Self::ClipsGradients
        } else if file.contains("torch/optim/") && !file.contains("torch/optim/swa_utils.py") {
            Self::Optimizer
        } else if name == "_engine_run_backward" || name.contains("autograd::Engine::")
            // What the profiler calls a node of the graph that runs.
            || name.starts_with("autograd::engine::evaluate_function")
        {
            Self::Engine
        } else if name == "step" {
            Self::Step
        } else {
            Self::Other
        }
    }
}

/// Stacks that begin within a function, as those of a thread do that runs no Python but what it calls back.
struct CalledBack {
    /// Frames of the deepest stack.
    deepest: usize,
    /// Whether stacks tell: most begin with a module, and no frame is native.
    tell: bool,
}

impl CalledBack {
    fn new(snapshot: &Snapshot, sites: &Sites) -> Self {
        let is_native = snapshot.frames.iter().any(|(id, _)| !sites.owner(id).is_python());
        let with_frames = || snapshot.stacks.iter().map(|(_, frames)| frames).filter(|frames| !frames.is_empty());
        let begins = with_frames().filter(|frames| begins_with_module(frames, snapshot)).count();
        let deepest = with_frames().map(<[FrameId]>::len).max().unwrap_or(0);
        Self { deepest, tell: !is_native && begins * 2 > with_frames().count() }
    }

    fn holds(&self, frames: &[FrameId], snapshot: &Snapshot) -> bool {
        self.tell && !frames.is_empty() && frames.len() < self.deepest && !begins_with_module(frames, snapshot)
    }
}

/// Whether the outermost frame is a module's, or Python's own of a thread that a program starts.
fn begins_with_module(frames: &[FrameId], snapshot: &Snapshot) -> bool {
    frames.last().is_some_and(|&frame| {
        matches!(snapshot.text(snapshot.frames.get(frame).name), "<module>" | "_bootstrap" | "_run_module_as_main")
    })
}

fn phase_of(frames: &[FrameId], roles: &[Role], sites: &Sites) -> Phase {
    if is_optimizer(frames, roles, sites) {
        return Phase::Optimizer;
    }
    let outermost = frames.iter().rev().map(|&frame| sites.owner(frame)).find(|owner| owner.is_python());
    let runs_engine = frames.iter().any(|frame| roles[frame.index()] == Role::Engine);
    if matches!(outermost, None | Some(Owner::Torch)) || runs_engine { Phase::Backward } else { Phase::Forward }
}

fn is_optimizer(frames: &[FrameId], roles: &[Role], sites: &Sites) -> bool {
    let mut called_by_optimizer: Option<FrameId> = None;
    for &frame in frames {
        match roles[frame.index()] {
            Role::ClipsGradients => return true,
            Role::Optimizer => {
                return called_by_optimizer
                    .is_none_or(|inner| sites.owner(inner) != Owner::User || roles[inner.index()] == Role::Step);
            }
            Role::ModuleCall => return false,
            Role::Engine | Role::Step | Role::Other => called_by_optimizer = Some(frame),
        }
    }
    false
}

/// Shares of an iteration's allocations below which a run between two runs of one phase is noise.
const NOISE: usize = 100;

/// The phases of a range of entries, by its allocations; `steps` are the optimizer's steps that annotations name, in
/// order.
///
/// Allocations decide; the frees between belong to the run before them, and what stands before the first allocation to
/// the first run. Empty if no stack tells and no annotation does.
pub(crate) fn phases(
    entries: &EntryTable,
    stacks: &StackPhases,
    range: &Range<usize>,
    steps: &[Range<usize>],
) -> Vec<PhaseRun> {
    // A step that is given a closure holds forward and backward, too: there the stacks decide.
    let is_backward = |row: usize| {
        entries.actions()[row] == Action::ALLOC && stacks.get(entries.stacks()[row]) == Some(Phase::Backward)
    };
    let without_closure: Vec<_> = steps.iter().filter(|scope| !(*scope).clone().any(is_backward)).cloned().collect();
    let mut optimizer = &without_closure[..];
    // Runs of what is not told are kept until the end, so that no other run reaches over them.
    let mut runs: Vec<Run> = Vec::new();
    let mut total = 0;
    for row in range.clone() {
        while optimizer.first().is_some_and(|scope| scope.end <= row) {
            optimizer = &optimizer[1..];
        }
        let phase = if optimizer.first().is_some_and(|scope| scope.contains(&row)) {
            Some(Phase::Optimizer)
        } else if entries.actions()[row] == Action::ALLOC {
            stacks.get(entries.stacks()[row])
        } else {
            continue;
        };
        total += 1;
        match runs.last_mut().filter(|run| run.phase == phase) {
            Some(run) => run.count += 1,
            None => runs.push(Run { phase, start: row, count: 1 }),
        }
    }
    let runs = without_noise(runs, total);
    let ends: Vec<usize> = runs.iter().skip(1).map(|run| run.start).chain([range.end]).collect();
    let mut told: Vec<PhaseRun> = Vec::new();
    for (i, (run, end)) in runs.into_iter().zip(ends).enumerate() {
        let start = if i == 0 { range.start } else { run.start };
        told.extend(run.phase.map(|phase| PhaseRun { phase, entries: start..end }));
    }
    told
}

/// Allocations in a row that are of one phase, or of none.
struct Run {
    phase: Option<Phase>,
    start: usize,
    count: usize,
}

/// Joins runs of one phase over a short run of another between them.
fn without_noise(runs: Vec<Run>, total: usize) -> Vec<Run> {
    let mut joined: Vec<Run> = Vec::new();
    for run in runs {
        if let [.., before, between] = &mut joined[..]
            && before.phase == run.phase
            && between.count * NOISE < total
        {
            before.count += run.count + between.count;
            joined.pop();
        } else {
            joined.push(run);
        }
    }
    joined
}
