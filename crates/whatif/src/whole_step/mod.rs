//! What the whole step would have needed, where memory ran out in the middle of one.
//!
//! A recording that ends at an error holds only a part of the step, so what it lacks at the error is not what the step lacks. The
//! rest is carried on from the best evidence that there is:
//!
//! - **An earlier step** of the recording. Its allocations are put beside those of the step that failed, by their stacks; what is
//!   left of it is played on, each size as much larger or smaller as its like was before.
//! - **What repeats in the pass**, where no earlier step was recorded: the layers. What one of them keeps is seen, and how many
//!   there are is how often sizes come among the parameters. Gradients and the optimizer's intermediates follow from the
//!   parameters' bytes.
//! - Else only what the request itself proves.

mod before;
mod earlier;
mod layers;

use std::ops::Range;

use hashbrown::HashMap;
use highwater_analysis::Analysis;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::iteration::IterationSource;
use highwater_analysis::lifetime::{Lifetime, number};
use highwater_analysis::oom::OutOfMemory;
use highwater_analysis::outline::ModuleCall;
use highwater_analysis::phase::{Phase, StackPhases};
use highwater_analysis::timeline::Total;
use highwater_snapshot::{FrameId, StackId};
use highwater_units::bounds;

/// Allocations before the failure that are looked at.
const MOST_ALLOCATIONS: usize = 400_000;

/// How many of an earlier step's allocations may have no like in this one before its next like is found.
const WINDOW: usize = 256;

/// Rounding of requests, and workspaces that come and go: of 100.
const SLACK_PERCENT: u64 = 2;

/// Python frames that tell a place: what is further out may be another call of the same step.
const FRAMES: usize = 8;

/// As many tell it where the program calls the step from elsewhere.
const NEAR_FRAMES: usize = 4;

/// On what the answer rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// An earlier step of the recording.
    EarlierStep,
    /// The layers of the pass.
    Layers,
    /// What the phase still has to make: gradients, or the optimizer's state.
    Phase,
    /// The request alone.
    Request,
}

impl Basis {
    /// The word of the JSON documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EarlierStep => "earlier-step",
            Self::Layers => "layers",
            Self::Phase => "phase",
            Self::Request => "request",
        }
    }
}

/// What a step needs that ran out of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeStep {
    /// At its peak it needs this much at least, in the total that the report goes by.
    pub at_least_bytes: u64,
    /// And this much at most, as far as the evidence goes; `None` where nothing tells.
    pub at_most_bytes: Option<u64>,
    /// On what it rests.
    pub basis: Basis,
    /// What was under way; `None` where no stack tells.
    pub phase: Option<Phase>,
    /// Layers that were done, where a layer failed.
    pub layers_done: Option<usize>,
    /// The fewest and the most layers that there may be.
    pub layers: Option<(usize, usize)>,
    /// What it rests on, as a sentence without its end.
    pub reason: String,
}

impl WholeStep {
    /// How much the step needs, to follow "the whole step needs".
    pub fn amount(&self) -> String {
        bounds(self.at_least_bytes, self.at_most_bytes)
    }

    /// The answer, as a sentence without its end.
    pub fn text(&self) -> String {
        format!("the whole step needs {} at its peak: {}", self.amount(), self.reason)
    }
}

/// What the step needs in which a request failed.
pub fn whole_step(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>, failure: &OutOfMemory) -> WholeStep {
    let run = Run::new(analysis, device, failure);
    let proven = run.live.saturating_add(failure.requested_bytes);
    let mut whole = run
        .by_earlier_step()
        .or_else(|| run.by_call_before())
        .or_else(|| run.by_layers())
        .or_else(|| run.by_phase())
        .unwrap_or_else(|| {
            let reason =
                "no earlier step was recorded, and no repetition shows how much of the program was still to come";
            run.answer(Basis::Request, proven, None, reason.to_owned())
        });
    whole.at_least_bytes = whole.at_least_bytes.max(proven);
    whole.at_most_bytes = whole.at_most_bytes.map(|most| most.max(whole.at_least_bytes));
    whole
}

/// An allocation before the failure.
#[derive(Clone, Copy, Debug)]
struct Made {
    row: usize,
    entry: usize,
    stack: StackId,
    place: Place,
    /// The same by fewer frames.
    near: Place,
}

/// Where an allocation was made: the same number for stacks whose innermost frames are the same; `None` without any.
type Place = Option<u32>;

/// The place of each stack.
struct Places {
    /// Python frames that tell it.
    frames: usize,
    numbers: HashMap<Vec<FrameId>, u32>,
    of_stack: HashMap<StackId, Place>,
}

impl Places {
    fn new(frames: usize) -> Self {
        Self { frames, numbers: HashMap::default(), of_stack: HashMap::default() }
    }

    fn of(&mut self, analysis: &Analysis<'_>, stack: StackId) -> Place {
        if !stack.is_recorded() || stack == StackId::EMPTY {
            return None;
        }
        if let Some(&place) = self.of_stack.get(&stack) {
            return place;
        }
        let frames = analysis.snapshot.stacks.get(stack);
        let python: Vec<FrameId> =
            frames.iter().copied().filter(|&frame| analysis.sites.owner(frame).is_python()).take(self.frames).collect();
        // On autograd's own threads there are only native frames: then all of them count.
        let frames = if python.is_empty() { frames.to_vec() } else { python };
        let next = number(self.numbers.len());
        let place = Some(*self.numbers.entry(frames).or_insert(next));
        self.of_stack.insert(stack, place);
        place
    }
}

/// The call of a module before the one that failed.
struct CallBefore {
    entries: Range<usize>,
    /// The entry at which the one that failed begins.
    start: usize,
    /// What it has left behind.
    kept_bytes: u64,
}

/// The trace up to the failure.
struct Run<'b, 'a> {
    analysis: &'b Analysis<'a>,
    device: &'b DeviceAnalysis<'a>,
    failure: &'b OutOfMemory,
    /// Allocations before it, in order.
    made: Vec<Made>,
    /// Where the failed request was made.
    place: Place,
    near: Place,
    /// Live memory.
    live: u64,
    phases: StackPhases,
    /// The call of a module in which it failed.
    call: Option<&'b ModuleCall>,
}

impl<'b, 'a> Run<'b, 'a> {
    fn new(analysis: &'b Analysis<'a>, device: &'b DeviceAnalysis<'a>, failure: &'b OutOfMemory) -> Self {
        let rows = device.lifetimes.rows.iter().enumerate();
        let mut made: Vec<Made> = rows
            .filter_map(|(row, lifetime)| {
                let entry = lifetime.alloc().filter(|&entry| entry < failure.entry)?.index();
                Some(Made { row, entry, stack: device.entries.stacks()[entry], place: None, near: None })
            })
            .collect();
        made.sort_unstable_by_key(|made| made.entry);
        made.drain(..made.len().saturating_sub(MOST_ALLOCATIONS));
        let (mut places, mut near) = (Places::new(FRAMES), Places::new(NEAR_FRAMES));
        for made in &mut made {
            made.place = places.of(analysis, made.stack);
            made.near = near.of(analysis, made.stack);
        }
        let (place, near) = (places.of(analysis, failure.stack), near.of(analysis, failure.stack));
        let phases = StackPhases::new(analysis.snapshot, &analysis.sites);
        let is_first = device.oom.first().is_some_and(|first| first.entry == failure.entry);
        let call = device.failed_call.as_ref().filter(|_| is_first);
        Self { analysis, device, failure, made, place, near, live: device.by.of(&failure.totals), phases, call }
    }

    fn answer(&self, basis: Basis, least: u64, most: Option<u64>, reason: String) -> WholeStep {
        WholeStep {
            at_least_bytes: least,
            at_most_bytes: most,
            basis,
            phase: self.phase(),
            layers_done: None,
            layers: None,
            reason,
        }
    }

    /// What was under way; `None` where no stacks were recorded.
    fn phase(&self) -> Option<Phase> {
        let has_stacks = self.made.iter().any(|made| made.place.is_some());
        if has_stacks { self.phases.get(self.failure.stack) } else { None }
    }

    fn lifetime(&self, made: Made) -> &'b Lifetime {
        &self.device.lifetimes.rows[made.row]
    }

    /// What a lifetime counts for in the total that the report goes by.
    fn bytes(&self, lifetime: &Lifetime) -> u64 {
        match self.device.by {
            Total::Requested => lifetime.requested_bytes,
            _ => self.device.blocks().of(lifetime, self.analysis.snapshot),
        }
    }

    fn is_live_at_failure(&self, lifetime: &Lifetime) -> bool {
        lifetime.is_live_after(self.failure.entry)
    }

    /// Where the program was, to follow "it failed".
    fn words(&self) -> &'static str {
        match self.phase() {
            Some(Phase::Forward) => "in the forward pass",
            Some(Phase::Backward) => "in the backward pass",
            Some(Phase::Optimizer) => "in the optimizer's step",
            None => "in the middle",
        }
    }

    /// The step that failed begins here, and this is the earlier one to compare it with.
    fn earlier_step(&self) -> Option<(Range<usize>, usize)> {
        let iterations = &self.device.iterations;
        let at = self.failure.entry.index();
        let begin = iterations.rows.iter().find(|row| row.entries.contains(&at)).map(|row| row.entries.start);
        let mut before = iterations.rows.iter().filter(|row| row.entries.end <= begin.unwrap_or(at));
        let complete = before.clone().rfind(|row| row.is_complete);
        let earlier = complete.or_else(|| before.next_back())?;
        // What repeats without an annotation may be anything that repeats: a step has a backward pass.
        let is_step = iterations.source != IterationSource::Repetition
            || earlier.phases.iter().any(|run| run.phase == Phase::Backward);
        let begin = begin.or_else(|| iterations.rows.iter().map(|row| row.entries.end).filter(|&end| end <= at).max());
        is_step.then_some((earlier.entries.clone(), begin?))
    }

    /// Allocations between two entries.
    fn made_in(&self, entries: Range<usize>) -> &[Made] {
        let first = self.made.partition_point(|made| made.entry < entries.start);
        &self.made[first..self.made.partition_point(|made| made.entry < entries.end).max(first)]
    }

    /// The call before the one that failed, where it was made without autograd: it has kept little, and no backward pass followed.
    fn call_without_autograd(&self) -> Option<CallBefore> {
        /// With autograd about a half of what a pass makes is kept.
        const KEPT_PART: u64 = 4;
        let call = self.call?;
        let previous = call.previous.clone()?;
        let (mut all, mut kept) = (0_u64, 0_u64);
        for &made in self.made_in(previous.clone()) {
            let lifetime = self.lifetime(made);
            let bytes = self.bytes(lifetime);
            all = all.saturating_add(bytes);
            kept = kept.saturating_add(if self.is_live_at_failure(lifetime) { bytes } else { 0 });
        }
        let call = CallBefore { entries: previous, start: call.start, kept_bytes: kept };
        (all > 0 && kept < all / KEPT_PART).then_some(call)
    }
}
