//! Forward, backward, optimizer: what an allocation was made for, by its stack.

use std::ops::Range;

use highwater_snapshot::{Action, EntryTable, FrameId, Snapshot, StackId};
use rustc_hash::FxHashSet;

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
/// - Where stacks were cut at a depth, their outer frames are missing: of those that reach it, only frames of an optimizer, of autograd's
///   engine or of a module's call tell. The same holds of a stack of C++ alone that does not begin where threads do.
///
/// In a profiler's trace without Python functions, only what runs inside of autograd's engine is backward.
#[derive(Clone, Debug)]
pub struct StackPhases(Vec<Option<Phase>>);

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
            return Self(snapshot.stacks.iter().map(|(_, frames)| Some(phase(frames))).collect());
        }
        let called = CalledBack::new(snapshot, sites);
        let cut = Cut::new(snapshot, sites);
        let has = |frames: &[FrameId], role: Role| frames.iter().any(|frame| roles[frame.index()] == role);
        let phase = |frames: &[FrameId]| match phase_of(frames, &roles, sites) {
            Phase::Optimizer => Some(Phase::Optimizer),
            _ if cut.holds(frames, snapshot, sites) => {
                let is_called = has(frames, Role::ModuleCall).then_some(Phase::Forward);
                if has(frames, Role::Engine) { Some(Phase::Backward) } else { is_called }
            }
            Phase::Forward if called.holds(frames, snapshot) => Some(Phase::Backward),
            phase => Some(phase),
        };
        Self(snapshot.stacks.iter().map(|(_, frames)| phase(frames)).collect())
    }

    /// Whether the frames of most stacks do not tell.
    pub(crate) fn are_mostly_unknown(&self) -> bool {
        self.0.iter().filter(|phase| phase.is_none()).count() * 2 > self.0.len()
    }

    /// The phase of a stack; `None` where none was recorded, or where its frames do not tell.
    pub fn get(&self, stack: StackId) -> Option<Phase> {
        if stack == StackId::MISSING { None } else { self.0[stack.index()] }
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

/// Stacks whose outer frames are missing.
struct Cut {
    /// The depth at which all were cut.
    depth: Option<usize>,
    /// Whether there are native frames.
    is_native: bool,
}

impl Cut {
    fn new(snapshot: &Snapshot, sites: &Sites) -> Self {
        /// Fewer stacks may be as deep as each other by chance.
        const MIN_STACKS: usize = 8;
        let stacks = || snapshot.stacks.iter().map(|(_, frames)| frames).filter(|frames| !frames.is_empty());
        let deepest = stacks().map(<[FrameId]>::len).max().unwrap_or(0);
        let of_depth = || stacks().filter(|frames| frames.len() == deepest);
        let (all, cut) = (stacks().count(), of_depth().count());
        // Few of a program's stacks are as deep as its deepest; some lines of a module may be as deep as the cut.
        let whole = of_depth().filter(|frames| begins_with_root(frames, snapshot)).count();
        // Where all begin in one place or two, that is where the program was entered.
        let begins: FxHashSet<FrameId> = of_depth().filter_map(|frames| frames.last().copied()).collect();
        let is_cut = all >= MIN_STACKS && cut * 3 >= all && whole * 4 <= cut && begins.len() > 2;
        let is_native = snapshot.frames.iter().any(|(id, _)| sites.owner(id) == Owner::Unwinding);
        Self { depth: is_cut.then_some(deepest), is_native }
    }

    /// Whether a stack's outer frames are missing.
    fn holds(&self, frames: &[FrameId], snapshot: &Snapshot, sites: &Sites) -> bool {
        if frames.is_empty() {
            return false;
        }
        // PyTorch's C++ sources lie in its directories, too.
        let is_python = |&frame: &FrameId| {
            sites.owner(frame).is_python() && !snapshot.text(snapshot.frames.get(frame).name).contains("::")
        };
        let is_native = || self.is_native && !frames.iter().any(is_python);
        (self.depth == Some(frames.len()) || is_native()) && !begins_with_root(frames, snapshot)
    }
}

/// Whether the outer frames of most stacks are missing.
pub fn are_stacks_cut(snapshot: &Snapshot, sites: &Sites) -> bool {
    let cut = Cut::new(snapshot, sites);
    let stacks = || snapshot.stacks.iter().map(|(_, frames)| frames).filter(|frames| !frames.is_empty());
    stacks().filter(|frames| cut.holds(frames, snapshot, sites)).count() * 2 > stacks().count()
}

/// Functions that threads and programs begin with, in C libraries. One of a stripped library has no name.
const ROOTS: [&str; 10] = [
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "__GI___clone",
    "__GI___clone3",
    "start_thread",
    "execute_native_thread_routine",
    "_start",
    "??",
];

/// Whether the outermost frame is one that a thread or a program begins with.
fn begins_with_root(frames: &[FrameId], snapshot: &Snapshot) -> bool {
    let is_root = |frame: &FrameId| {
        let name = snapshot.text(snapshot.frames.get(*frame).name);
        ROOTS.contains(&name)
    };
    begins_with_module(frames, snapshot) || frames.last().is_some_and(is_root)
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
