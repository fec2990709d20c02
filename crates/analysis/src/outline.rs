//! The outline of a recording: its outermost calls of modules, its backward passes and its optimizer steps, in order.
//!
//! What repeats inside one of these (layers, tokens of a fused loop, the parameters of a step) is no iteration, so iterations
//! are looked for among these parts alone.

use std::ops::Range;

use hashbrown::HashMap;
use highwater_snapshot::{Action, EntryTable, FrameId, Snapshot, StackId};
use rustc_hash::FxHashMap;

use crate::category::course::is_backward;
use crate::category::origin::{Origin, StackOrigins};
use crate::lifetime::number;

/// What a part of a recording does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Modules are built, loaded or moved.
    Build,
    /// One outermost call of a module, or of compiled code; calls from one place have one number.
    Call(u32),
    /// The program's own lines, outside of any module.
    Program,
    /// A backward pass.
    Backward,
    /// The optimizer.
    Step,
}

/// A run of allocations that do one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) kind: Kind,
    /// From its first allocation to the entry after its last.
    pub(crate) entries: Range<usize>,
    /// The stack of its first allocation.
    pub(crate) first: StackId,
    /// Who calls: a number for the frames around the call, the pass or the step; `None` if none are known.
    pub(crate) caller: Option<u32>,
}

/// The parts of a device's trace, in order. Allocations that say nothing of what the program does (libraries' workspaces,
/// collectives' buffers, those without a stack) are in none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outline {
    pub(crate) parts: Vec<Part>,
}

impl Outline {
    /// Reads it off the stacks.
    pub(crate) fn new(snapshot: &Snapshot, entries: &EntryTable, origins: &StackOrigins) -> Self {
        let calls = Calls::new(snapshot);
        let mut outline = Self::default();
        // By call: the stack that it begins with.
        let mut begins: FxHashMap<u32, StackId> = FxHashMap::default();
        for (row, _) in entries.actions().iter().enumerate().filter(|(_, action)| **action == Action::ALLOC) {
            let stack = entries.stacks()[row];
            let kind = match origins.get(stack) {
                Origin::Build => Kind::Build,
                Origin::Module | Origin::Compiled => match calls.module(stack) {
                    Some(call) => Kind::Call(call),
                    None => continue,
                },
                Origin::Program => Kind::Program,
                origin if is_backward(origin) => Kind::Backward,
                Origin::Optimizer => Kind::Step,
                _ => continue,
            };
            outline.add(kind, row, stack, calls.optimizer(stack), &mut begins);
        }
        outline.split_calls(entries);
        outline
    }

    fn add(&mut self, kind: Kind, row: usize, stack: StackId, caller: Option<u32>, begins: &mut FxHashMap<u32, StackId>) {
        if let Some(last) = self.parts.last_mut().filter(|last| last.kind == kind) {
            last.entries.end = row + 1;
            last.caller = last.caller.or(caller);
            return;
        }
        if let Kind::Call(call) = kind {
            let is_begin = *begins.entry(call).or_insert(stack) == stack;
            // Another thread's call, or a line outside, came between: the call goes on.
            let open = self.parts.iter_mut().rev().take(MAX_THREADS).take_while(|part| is_forward(part.kind));
            if !is_begin && let Some(part) = { open }.find(|part| part.kind == kind) {
                part.entries.end = row + 1;
                return;
            }
        }
        self.parts.push(Part { kind, entries: row..row + 1, first: stack, caller });
    }

    /// Takes calls apart that follow each other at once, from one place.
    ///
    /// A call begins with its first allocation's stack, and what its layers repeat comes more often. A stack that comes less
    /// often later on, such as that of the output, shows that the first is itself one of layers.
    fn split_calls(&mut self, entries: &EntryTable) {
        let parts = std::mem::take(&mut self.parts);
        for part in parts {
            if !matches!(part.kind, Kind::Call(_)) {
                self.parts.push(part);
                continue;
            }
            let begins = begins_within(&part, entries);
            let ends = begins.iter().skip(1).copied().chain([part.entries.end]);
            self.parts.extend(begins.iter().zip(ends).map(|(&start, end)| Part { entries: start..end, ..part.clone() }));
        }
    }

    /// Parts of one kind.
    pub(crate) fn of(&self, holds: impl Fn(Kind) -> bool) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| holds(part.kind))
    }
}

/// Parts that are looked back at for a call that another thread interrupted.
const MAX_THREADS: usize = 16;

fn is_forward(kind: Kind) -> bool {
    matches!(kind, Kind::Call(_) | Kind::Program | Kind::Build)
}

/// Where calls begin in a run of calls from one place.
fn begins_within(part: &Part, entries: &EntryTable) -> Vec<usize> {
    let rows = || part.entries.clone().filter(|&row| entries.actions()[row] == Action::ALLOC);
    let mut of_stack: FxHashMap<StackId, (usize, usize)> = FxHashMap::default();
    for row in rows() {
        let (count, last) = of_stack.entry(entries.stacks()[row]).or_default();
        *count += 1;
        *last = row;
    }
    let begins: Vec<usize> = rows().filter(|&row| entries.stacks()[row] == part.first).collect();
    let repeats = of_stack.values().any(|&(count, _)| count >= 2 * begins.len() && begins.len() > 1);
    let is_rarer_later =
        begins.get(1).is_some_and(|&second| of_stack.values().any(|&(count, last)| count < begins.len() && last > second));
    if repeats && !is_rarer_later { begins } else { vec![part.entries.start] }
}

/// By stack, numbers for who calls.
struct Calls {
    modules: Vec<Option<u32>>,
    optimizers: Vec<Option<u32>>,
}

impl Calls {
    fn new(snapshot: &Snapshot) -> Self {
        let is_call = |&frame: &FrameId| {
            let frame = snapshot.frames.get(frame);
            snapshot.text(frame.name) == "_call_impl" || snapshot.text(frame.filename).contains("torchinductor_")
        };
        let is_optimizer =
            |&frame: &FrameId| snapshot.text(snapshot.frames.get(frame).filename).replace('\\', "/").contains("torch/optim/");
        Self { modules: outside(snapshot, is_call, 0), optimizers: outside(snapshot, is_optimizer, 1) }
    }

    fn module(&self, stack: StackId) -> Option<u32> {
        self.modules.get(stack.index()).copied().flatten()
    }

    fn optimizer(&self, stack: StackId) -> Option<u32> {
        self.optimizers.get(stack.index()).copied().flatten()
    }
}

/// By stack, a number for its frames from the outermost that `holds` outwards, without the first `skip` of them; `None` if none
/// holds.
fn outside(snapshot: &Snapshot, holds: impl Fn(&FrameId) -> bool, skip: usize) -> Vec<Option<u32>> {
    let mut numbers: HashMap<&[FrameId], u32> = HashMap::default();
    let holding: Vec<bool> = snapshot.frames.iter().map(|(frame, _)| holds(&frame)).collect();
    let of = snapshot.stacks.iter().map(|(_, frames)| {
        let outermost = frames.iter().rposition(|frame| holding[frame.index()])?;
        let next = number(numbers.len());
        Some(*numbers.entry(&frames[(outermost + skip).min(frames.len())..]).or_insert(next))
    });
    of.collect()
}
