//! The outline of a recording: its outermost calls of modules, its backward passes and its optimizer steps, in order.
//!
//! What repeats inside one of these (layers, tokens of a fused loop, the parameters of a step) is no iteration, so iterations
//! are looked for among these parts alone.

use std::ops::Range;

use hashbrown::HashMap;
use highwater_snapshot::{Action, EntryTable, FrameId, Snapshot, StackId};
use highwater_units::{counted, size};
use rustc_hash::FxHashMap;

use crate::callsite::Sites;
use crate::category::course::is_backward;
use crate::category::origin::{Origin, StackOrigins};
use crate::folding::Owner;
use crate::lifetime::{Lifetimes, number};

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
    /// The [place](StackOrigins::place) of its first allocation.
    pub(crate) first: StackId,
    /// Who calls: a number for the frames around the call, the pass or the step; `None` if none are known.
    pub(crate) caller: Option<u32>,
    /// Of an optimizer's step, the innermost line outside of PyTorch that calls it.
    pub(crate) line: Option<FrameId>,
}

/// An outermost call of a module that was under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleCall {
    /// The entry of its first allocation.
    pub start: usize,
    /// The call of the same module before it, if no backward pass and no step came between: its first allocation to the entry
    /// after its last.
    pub previous: Option<Range<usize>>,
}

/// The parts of a device's trace, in order. Allocations that say nothing of what the program does (libraries' workspaces,
/// collectives' buffers, those without a stack) are in none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outline {
    pub(crate) parts: Vec<Part>,
    /// Where nothing is trained: by stack, its Python frames outside of any module, the outermost first.
    pub(crate) callers: Vec<Vec<FrameId>>,
}

impl Outline {
    /// Reads it off the stacks.
    pub(crate) fn new(snapshot: &Snapshot, entries: &EntryTable, sites: &Sites, origins: &StackOrigins) -> Self {
        let calls = Calls::new(snapshot, sites);
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
            outline.add((kind, row), origins.place(stack), calls.optimizer(stack), &mut begins);
        }
        outline.split_calls(entries, origins);
        if outline.parts.iter().all(|part| is_forward(part.kind)) {
            outline.callers = callers(snapshot, sites, origins);
        }
        outline
    }

    /// The outermost call of a module that was under way at an entry.
    pub(crate) fn call_at(&self, entry: usize, snapshot: &Snapshot) -> Option<ModuleCall> {
        let parts = &self.parts[..self.parts.partition_point(|part| part.entries.start <= entry)];
        let (last, earlier) = parts.split_last()?;
        if !matches!(last.kind, Kind::Call(_)) {
            return None;
        }
        let between = earlier.iter().rev().take_while(|part| is_forward(part.kind));
        let is_alike =
            |part: &&Part| matches!(part.kind, Kind::Call(_)) && begins_alike(snapshot, part.first, last.first);
        let previous = { between }.find(is_alike).map(|part| part.entries.clone());
        Some(ModuleCall { start: last.entries.start, previous })
    }

    fn add(
        &mut self,
        (kind, row): (Kind, usize),
        stack: StackId,
        (caller, line): (Option<u32>, Option<FrameId>),
        begins: &mut FxHashMap<u32, StackId>,
    ) {
        if let Some(last) = self.parts.last_mut().filter(|last| last.kind == kind) {
            last.entries.end = row + 1;
            last.caller = last.caller.or(caller);
            last.line = last.line.or(line);
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
        self.parts.push(Part { kind, entries: row..row + 1, first: stack, caller, line });
    }

    /// Takes calls apart that follow each other at once, from one place.
    ///
    /// A call begins with its first allocation's stack, and what its layers repeat comes more often. A stack that comes less
    /// often later on, such as that of the output, shows that the first is itself one of layers.
    fn split_calls(&mut self, entries: &EntryTable, origins: &StackOrigins) {
        let parts = std::mem::take(&mut self.parts);
        for part in parts {
            if !matches!(part.kind, Kind::Call(_)) {
                self.parts.push(part);
                continue;
            }
            let begins = begins_within(&part, entries, origins);
            let ends = begins.iter().skip(1).copied().chain([part.entries.end]);
            self.parts
                .extend(begins.iter().zip(ends).map(|(&start, end)| Part { entries: start..end, ..part.clone() }));
        }
    }

    /// What was recorded, if there are calls of modules and nothing is trained.
    pub(crate) fn seen(&self, lifetimes: &Lifetimes, entries: &EntryTable) -> Option<Seen> {
        /// Two of a kind are no layers.
        const MIN_LAYERS: usize = 3;
        /// What a layer allocates, at least.
        const MIN_STACKS: usize = 4;
        let calls: Vec<&Part> = self.of(|kind| matches!(kind, Kind::Call(_))).collect();
        let longest = calls.iter().max_by_key(|part| part.entries.len())?;
        let first = lifetimes.rows.partition_point(|l| l.alloc().is_none_or(|at| at.index() < longest.entries.start));
        let own =
            lifetimes.rows[first..].iter().take_while(|l| l.alloc().is_some_and(|at| at.index() < longest.entries.end));
        // By stack: how often it allocates, and the bytes of what stays past the call.
        let mut of_stack: FxHashMap<StackId, (usize, u64)> = FxHashMap::default();
        for lifetime in own {
            let sum = of_stack.entry(lifetime.stack).or_default();
            sum.0 += 1;
            if lifetime.free_requested().is_none_or(|freed| freed.index() >= longest.entries.end.min(entries.len())) {
                sum.1 = sum.1.saturating_add(lifetime.requested_bytes);
            }
        }
        // The number of layers is the one that most stacks share: what a layer does once.
        let mut votes: FxHashMap<usize, usize> = FxHashMap::default();
        for &(count, _) in of_stack.values().filter(|sum| sum.0 >= MIN_LAYERS) {
            *votes.entry(count).or_default() += 1;
        }
        let layers = votes
            .into_iter()
            .filter(|&(_, stacks)| stacks >= MIN_STACKS)
            .max_by_key(|&(count, stacks)| (stacks, count));
        // A pass that ran out of memory was in the middle of one.
        let next = self.parts.iter().find(|part| part.entries.start >= longest.entries.end);
        let until = next.map_or(entries.len(), |next| next.entries.start);
        let has_failed = entries.actions()[longest.entries.start..until].contains(&Action::OOM);
        let layers = layers.filter(|_| !has_failed).map(|(count, _)| {
            let bytes =
                of_stack.values().filter(|sum| sum.0 % count == 0).map(|sum| sum.1).fold(0, u64::saturating_add);
            Layers { count, kept_bytes: bytes / count as u64 }
        });
        Some(Seen { calls: calls.len(), layers })
    }

    /// Where a model is called right after a call that began alike, with nothing of the program in between.
    pub(crate) fn called_again<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = usize> + 'a {
        let is_call = |part: &Part| matches!(part.kind, Kind::Call(_));
        let pairs = self.parts.windows(2).filter(move |pair| is_call(&pair[0]) && is_call(&pair[1]));
        pairs.filter(|pair| begins_alike(snapshot, pair[0].first, pair[1].first)).map(|pair| pair[1].entries.start)
    }

    /// Whether autograd runs between two entries.
    pub(crate) fn has_backward(&self, start: usize, end: usize) -> bool {
        self.between(start, end).any(|part| part.kind == Kind::Backward)
    }

    /// Whether anything but autograd and the optimizer runs between two entries.
    pub(crate) fn has_forward(&self, start: usize, end: usize) -> bool {
        self.between(start, end).any(|part| !matches!(part.kind, Kind::Backward | Kind::Step))
    }

    fn between(&self, start: usize, end: usize) -> impl Iterator<Item = &Part> {
        let after = self.parts.partition_point(|part| part.entries.end <= start);
        self.parts[after..].iter().take_while(move |part| part.entries.start < end)
    }

    /// Parts of one kind.
    pub(crate) fn of(&self, holds: impl Fn(Kind) -> bool) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| holds(part.kind))
    }
}

/// What a recording without iterations holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Outermost calls of modules.
    pub calls: usize,
    /// Layers of the call that keeps most, if it runs layers that are alike.
    pub layers: Option<Layers>,
}

/// Layers that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Their number.
    pub count: usize,
    /// Requested bytes of what each keeps past the call.
    pub kept_bytes: u64,
}

impl Seen {
    /// `one forward pass through 32 layers of 890.00 MiB each`.
    pub fn text(&self) -> String {
        let passes = counted(self.calls, "forward pass", "forward passes");
        let passes = if self.calls == 1 { "one forward pass".to_owned() } else { passes };
        match self.layers {
            Some(Layers { count, kept_bytes: 0 }) => format!("{passes} through {count} layers"),
            Some(Layers { count, kept_bytes }) => {
                format!("{passes} through {count} layers of {} each", size(kept_bytes))
            }
            None => passes,
        }
    }
}

/// Parts that are looked back at for a call that another thread interrupted.
const MAX_THREADS: usize = 16;

fn is_forward(kind: Kind) -> bool {
    matches!(kind, Kind::Call(_) | Kind::Program | Kind::Build)
}

/// Whether two calls begin in the same lines of a module, whoever calls it.
fn begins_alike(snapshot: &Snapshot, a: StackId, b: StackId) -> bool {
    /// The operator, the first layer's call and its `forward`, and the frames between them.
    const FRAMES: usize = 4;
    let inner = |stack: StackId| {
        let frames = snapshot.stacks.get(stack);
        &frames[..frames.len().min(FRAMES)]
    };
    inner(a) == inner(b)
}

/// Where calls begin in a run of calls from one place.
fn begins_within(part: &Part, entries: &EntryTable, origins: &StackOrigins) -> Vec<usize> {
    let place = |row: usize| origins.place(entries.stacks()[row]);
    let rows = || part.entries.clone().filter(|&row| entries.actions()[row] == Action::ALLOC);
    let mut of_stack: FxHashMap<StackId, (usize, usize)> = FxHashMap::default();
    for row in rows() {
        let (count, last) = of_stack.entry(place(row)).or_default();
        *count += 1;
        *last = row;
    }
    let begins: Vec<usize> = rows().filter(|&row| place(row) == part.first).collect();
    let repeats = of_stack.values().any(|&(count, _)| count >= 2 * begins.len() && begins.len() > 1);
    let is_rarer_later = begins
        .get(1)
        .is_some_and(|&second| of_stack.values().any(|&(count, last)| count < begins.len() && last > second));
    if repeats && !is_rarer_later && are_alike(&begins, part, entries) { begins } else { vec![part.entries.start] }
}

/// Whether calls that begin so are of one length, about: where only the first and the last layer have a stack, what is between them is
/// no call.
fn are_alike(begins: &[usize], part: &Part, entries: &EntryTable) -> bool {
    /// Batches differ in their size, and so do calls in what they allocate; the layers between two with a stack are far more.
    const MOST_TIMES: usize = 4;
    let ends = begins.iter().skip(1).copied().chain([part.entries.end]);
    let mut lengths: Vec<usize> = begins.iter().zip(ends).map(|(&start, end)| end - start).collect();
    // The last call may have been going on when the recording ended.
    if part.entries.end == entries.len() {
        lengths.pop();
    }
    let (least, most) = (lengths.iter().min(), lengths.iter().max());
    least.zip(most).is_none_or(|(least, most)| least.saturating_mul(MOST_TIMES) >= *most)
}

/// By stack, numbers for who calls.
struct Calls {
    modules: Vec<Option<u32>>,
    optimizers: Vec<Option<u32>>,
    /// Of those that optimizers make, the innermost line outside of PyTorch that calls the step.
    lines: Vec<Option<FrameId>>,
}

impl Calls {
    fn new(snapshot: &Snapshot, sites: &Sites) -> Self {
        let is_python: Vec<bool> = snapshot.frames.iter().map(|(frame, _)| sites.owner(frame).is_python()).collect();
        let python = |frames: &[FrameId]| -> Vec<FrameId> {
            frames.iter().copied().filter(|frame| is_python[frame.index()]).collect()
        };
        let is_call = |&frame: &FrameId| sites.is_module_call(frame) || sites.owner(frame) == Owner::Generated;
        let is_optimizer = |&frame: &FrameId| {
            snapshot.text(snapshot.frames.get(frame).filename).replace('\\', "/").contains("torch/optim/")
        };
        // A `forward` that the program calls itself is at another line with each allocation.
        let modules = outside(snapshot, is_call, python);
        let is_torch = |frame: FrameId| sites.owner(frame) == Owner::Torch;
        let line = |frames: &[FrameId]| {
            let outermost = frames.iter().rposition(is_optimizer)?;
            frames[outermost + 1..].iter().copied().find(|&frame| is_python[frame.index()] && !is_torch(frame))
        };
        let lines = snapshot.stacks.iter().map(|(_, frames)| line(frames)).collect();
        Self { modules, optimizers: outside(snapshot, is_optimizer, python), lines }
    }

    fn module(&self, stack: StackId) -> Option<u32> {
        self.modules.get(stack.index()).copied().flatten()
    }

    fn optimizer(&self, stack: StackId) -> (Option<u32>, Option<FrameId>) {
        let line = self.lines.get(stack.index()).copied().flatten();
        (self.optimizers.get(stack.index()).copied().flatten(), line)
    }
}

/// By stack of the program or of a module, its Python frames outside of any module, the outermost first.
fn callers(snapshot: &Snapshot, sites: &Sites, origins: &StackOrigins) -> Vec<Vec<FrameId>> {
    let runs = |stack| matches!(origins.get(stack), Origin::Module | Origin::Compiled | Origin::Program);
    let of = |(stack, frames): (StackId, &[FrameId])| {
        let python = frames.iter().rev().copied().filter(|&frame| sites.owner(frame).is_python());
        let outside = python.take_while(|&frame| !sites.is_module_call(frame));
        if runs(stack) { outside.collect() } else { Vec::new() }
    };
    snapshot.stacks.iter().map(of).collect()
}

/// By stack, a number for its Python frames outside of the outermost that `holds`; `None` if none holds.
fn outside(
    snapshot: &Snapshot,
    holds: impl Fn(&FrameId) -> bool,
    python: impl Fn(&[FrameId]) -> Vec<FrameId>,
) -> Vec<Option<u32>> {
    let mut numbers: HashMap<Vec<FrameId>, u32> = HashMap::default();
    let holding: Vec<bool> = snapshot.frames.iter().map(|(frame, _)| holds(&frame)).collect();
    let of = snapshot.stacks.iter().map(|(_, frames)| {
        let outermost = frames.iter().rposition(|frame| holding[frame.index()])?;
        let next = number(numbers.len());
        Some(*numbers.entry(python(&frames[outermost + 1..])).or_insert(next))
    });
    of.collect()
}
