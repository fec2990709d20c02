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

use hashbrown::HashMap;
use highwater_snapshot::{EntryId, FrameId, StackId};

use crate::Analysis;
use crate::category::Category;
use crate::device::DeviceAnalysis;
use crate::iteration::{Iteration, IterationSource};
use crate::lifetime::{Lifetime, number};
use crate::oom::OutOfMemory;
use crate::phase::{Phase, StackPhases};
use crate::timeline::Total;
use crate::units::{count, size};

/// Allocations before the failure that are looked at.
const MOST_ALLOCATIONS: usize = 400_000;

/// How many of an earlier step's allocations may have no like in this one before its next like is found.
const WINDOW: usize = 256;

/// Of the allocations of the step that failed, this part has to be in the earlier one, in percent.
const ALIKE_PERCENT: usize = 60;

/// Rounding of requests, and workspaces that come and go: of 100.
const SLACK_PERCENT: u64 = 2;

/// A repetition has so many allocations at least: fewer are an operator called twice.
const LEAST_PERIOD: usize = 4;

/// Ends of the pass that may be no part of the repetition: what comes after the layers.
const TAILS: [usize; 11] = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// Python frames that tell a place: what is further out may be another call of the same step.
const FRAMES: usize = 8;

/// Parts as large as a layer that may follow the layers, where nothing tells what does.
const LAYERS_AFTER: u64 = 2;

/// Copies of the logits that a loss and its backward pass hold at once, at most: the logits, their logarithms, the gradients
/// of both, and what casts or views copy.
const COPIES_OF_LOGITS: u64 = 5;

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
        match self.at_most_bytes {
            Some(most) if size(most) != size(self.at_least_bytes) => {
                format!("{} to {}", size(self.at_least_bytes), size(most))
            }
            Some(most) => format!("about {}", size(most)),
            None => format!("at least {}", size(self.at_least_bytes)),
        }
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
    let mut whole = run.by_earlier_step().or_else(|| run.by_layers()).or_else(|| run.by_phase()).unwrap_or_else(|| {
        let reason =
            "no earlier step was recorded, and nothing that repeats tells how much of the program was still to come";
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
}

/// Where an allocation was made: the same number for stacks whose innermost frames are the same; `None` without any.
type Place = Option<u32>;

/// The place of each stack.
struct Places {
    numbers: HashMap<Vec<FrameId>, u32>,
    of_stack: HashMap<StackId, Place>,
}

impl Places {
    fn of(&mut self, analysis: &Analysis<'_>, stack: StackId) -> Place {
        if !stack.is_recorded() || stack == StackId::EMPTY {
            return None;
        }
        if let Some(&place) = self.of_stack.get(&stack) {
            return place;
        }
        let frames = analysis.snapshot.stacks.get(stack);
        let python: Vec<FrameId> =
            frames.iter().copied().filter(|&frame| analysis.sites.owner(frame).is_python()).take(FRAMES).collect();
        // On autograd's own threads there are only native frames: then all of them count.
        let frames = if python.is_empty() { frames.to_vec() } else { python };
        let next = number(self.numbers.len());
        let place = Some(*self.numbers.entry(frames).or_insert(next));
        self.of_stack.insert(stack, place);
        place
    }
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
    /// What was live.
    live: u64,
    phases: StackPhases,
}

impl<'b, 'a> Run<'b, 'a> {
    fn new(analysis: &'b Analysis<'a>, device: &'b DeviceAnalysis<'a>, failure: &'b OutOfMemory) -> Self {
        let rows = device.lifetimes.rows.iter().enumerate();
        let mut made: Vec<Made> = rows
            .filter_map(|(row, lifetime)| {
                let entry = lifetime.alloc().filter(|&entry| entry < failure.entry)?.index();
                Some(Made { row, entry, stack: device.entries.stacks()[entry], place: None })
            })
            .collect();
        made.sort_unstable_by_key(|made| made.entry);
        made.drain(..made.len().saturating_sub(MOST_ALLOCATIONS));
        let mut places = Places { numbers: HashMap::default(), of_stack: HashMap::default() };
        for made in &mut made {
            made.place = places.of(analysis, made.stack);
        }
        let place = places.of(analysis, failure.stack);
        let phases = StackPhases::new(analysis.snapshot, &analysis.sites);
        Self { analysis, device, failure, made, place, live: device.by.of(&failure.totals), phases }
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
    fn earlier_step(&self) -> Option<(&'b Iteration, usize)> {
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
        is_step.then_some((earlier, begin?))
    }

    /// Plays on what is left of an earlier step.
    fn by_earlier_step(&self) -> Option<WholeStep> {
        let (earlier, begin) = self.earlier_step()?;
        let range = |from: usize, to: usize| {
            let first = self.made.partition_point(|made| made.entry < from);
            &self.made[first..self.made.partition_point(|made| made.entry < to)]
        };
        let (model, own) =
            (range(earlier.entries.start, earlier.entries.end), range(begin, self.failure.entry.index()));
        let aligned = Aligned::new(model, own, self.place);
        if own.is_empty() || aligned.pairs.len() * 100 < own.len() * ALIKE_PERCENT {
            return None;
        }
        let scale = Scale::new(self, &aligned, model, begin);
        // Changes of the total, by the entry of the earlier step: the least and the most.
        let mut changes: Vec<(usize, i128, i128)> = Vec::new();
        let end = earlier.entries.end;
        let freed = |lifetime: &Lifetime| lifetime.free_requested().or(lifetime.free_completed()).map(EntryId::index);
        let from = model.get(aligned.reached).map_or(end, |made| made.entry);
        for &(of_model, of_own) in &aligned.pairs {
            let lifetime = self.lifetime(of_own);
            if let Some(free) = freed(self.lifetime(of_model)).filter(|&free| free >= from && free < end)
                && self.is_live_at_failure(lifetime)
            {
                let bytes = i128::from(self.bytes(lifetime));
                changes.push((free, -bytes, -bytes));
            }
        }
        for (position, &made) in model.iter().enumerate().skip(aligned.reached) {
            let lifetime = self.lifetime(made);
            let category = self.device.decided(made.row).category;
            // What was made once and is still there is not made again.
            let is_there = self.is_live_at_failure(lifetime)
                && matches!(category, Category::OptimizerState | Category::Workspace | Category::Parameter);
            if is_there {
                continue;
            }
            let (least, most) = if position == aligned.reached && aligned.is_at_failure {
                (self.failure.requested_bytes, self.failure.requested_bytes)
            } else {
                scale.of(lifetime, made.place, category)
            };
            let (least, most) = (i128::from(least), i128::from(most));
            changes.push((made.entry, least, most));
            if let Some(free) = freed(lifetime).filter(|&free| free < end) {
                changes.push((free, -least, -most));
            }
        }
        changes.sort_by_key(|&(entry, ..)| entry);
        let mut totals = (i128::from(self.live), i128::from(self.live));
        let mut peaks = totals;
        for (_, least, most) in changes {
            totals = (totals.0 + least, totals.1 + most);
            peaks = (peaks.0.max(totals.0), peaks.1.max(totals.1));
        }
        let bytes = |bytes: i128| u64::try_from(bytes.max(0)).unwrap_or(u64::MAX);
        let (least, most) = (bytes(peaks.0), bytes(peaks.1));
        let before = self.device.by.of(&self.device.timeline.peak_in(0..self.failure.entry.index(), self.device.by).0);
        let least = least.max(before.min(self.live)) / 100 * (100 - SLACK_PERCENT);
        let most = most.saturating_add(most / 100 * SLACK_PERCENT);
        let done = aligned.reached * 100 / model.len().max(1);
        let scaled = match scale.factor() {
            Some(factor) => format!(", whose sizes are {factor:.3} times its own"),
            None => String::new(),
        };
        let reason = format!(
            "it failed {}, after {done} % of the allocations of an earlier step in this recording{scaled}; the rest of that \
             step was carried on",
            self.words()
        );
        Some(self.answer(Basis::EarlierStep, least, Some(most), reason))
    }

    /// What was live before an entry and is still there, by what it is for.
    fn before(&self, entry: usize) -> Before {
        let mut before = Before::default();
        for (row, lifetime) in self.device.lifetimes.rows.iter().enumerate() {
            if lifetime.alloc().is_some_and(|alloc| alloc.index() >= entry) || !self.is_live_at_failure(lifetime) {
                continue;
            }
            let bytes = self.bytes(lifetime);
            before.all = before.all.saturating_add(bytes);
            let category = self.device.decided(row).category;
            let sum = match category {
                Category::OptimizerState => &mut before.state,
                Category::Gradient => &mut before.gradients,
                Category::Parameter => &mut before.parameters,
                _ => &mut before.others,
            };
            *sum = sum.saturating_add(bytes);
            *before.all_sizes.entry(lifetime.requested_bytes).or_default() += 1;
            if category == Category::Parameter {
                *before.sizes.entry(lifetime.requested_bytes).or_default() += 1;
            }
        }
        before
    }

    /// Carries on the layers.
    fn by_layers(&self) -> Option<WholeStep> {
        if !matches!(self.phase(), Some(Phase::Forward)) {
            return None;
        }
        let layers = Layers::find(self)?;
        let before = self.before(layers.begin_entry(self));
        let is_after = layers.tail > 0;
        let done = layers.done();
        let each = layers.kept_bytes;
        let (fewest, most) = match before.layers(done + usize::from(!is_after), self.device.recorded.from_start) {
            _ if is_after => (done, done),
            Some(counts) => counts,
            None => {
                let reason = format!(
                    "it failed in the forward pass, in repetition {} of a part that keeps {} each time; how many there are is \
                     not told, so this is what is sure",
                    count(done + 1),
                    size(each)
                );
                let least = self.live.saturating_add(self.failure.requested_bytes);
                let mut whole = self.answer(Basis::Layers, least, None, reason);
                whole.layers_done = Some(done);
                return Some(whole);
            }
        };
        let rest = |number: usize| {
            let missing = u64::try_from(number.saturating_sub(done)).unwrap_or(u64::MAX);
            self.live.saturating_sub(layers.partial_bytes).saturating_add(each.saturating_mul(missing))
        };
        let logits = self.logits(&layers, &before).unwrap_or(0);
        let (of_layers, at_once) = (rest(fewest), rest(most));
        let own = layers.transient_bytes.max(self.failure.requested_bytes);
        // Where nothing tells what follows the layers, it is taken to be no more than some of them.
        let head = match logits {
            0 if layers.keeps_activations && !is_after => each.saturating_mul(LAYERS_AFTER),
            _ => logits.saturating_mul(COPIES_OF_LOGITS).saturating_sub(layers.after_bytes),
        };
        // What is kept makes way for gradients from the last layer on.
        let gradients = before.parameters.saturating_sub(before.gradients);
        let trains = layers.keeps_activations || before.state > 0;
        let step = if trains { before.all.saturating_add(gradients) } else { 0 };
        let least = of_layers.max(step);
        let with_optimizer = if trains { step.saturating_add(before.of_optimizer()) } else { 0 };
        let most_bytes = at_once.saturating_add(own).saturating_add(head).max(with_optimizer);
        let most_bytes = most_bytes.saturating_add(most_bytes / 100 * SLACK_PERCENT);
        let many = if fewest == most { count(most) } else { format!("{} to {}", count(fewest), count(most)) };
        let place =
            if is_after { "after the layers".to_owned() } else { format!("in layer {} of {many}", count(done + 1)) };
        let to_come = match (trains, before.state > 0, is_after) {
            (false, ..) => String::new(),
            (true, true, _) => "; gradients and the optimizer's intermediates are counted".to_owned(),
            (true, false, _) => "; no optimizer was seen yet, so the most is with the state of Adam".to_owned(),
        };
        let head = if logits > 0 { format!(", then logits of {}", size(logits)) } else { String::new() };
        let reason = format!(
            "it failed in the forward pass, {place}, each of which keeps {}{head}; no earlier step was recorded{to_come}",
            size(each)
        );
        let mut whole = self.answer(Basis::Layers, least / 100 * (100 - SLACK_PERCENT), Some(most_bytes), reason);
        if !is_after {
            whole.layers_done = Some(done);
            whole.layers = Some((fewest, most));
        }
        Some(whole)
    }

    /// The logits of a model that begins with an embedding: as many numbers a token as the embedding has rows.
    fn logits(&self, layers: &Layers, before: &Before) -> Option<u64> {
        let snapshot = self.analysis.snapshot;
        let is_embedding = |stack: StackId| {
            stack.is_recorded()
                && snapshot.stacks.get(stack).iter().any(|&frame| {
                    let frame = snapshot.frames.get(frame);
                    snapshot.text(frame.name) == "embedding" && snapshot.text(frame.filename).contains("torch")
                })
        };
        let first = layers.begin.saturating_sub(WINDOW);
        self.made[first..layers.begin].iter().find(|made| is_embedding(made.stack))?;
        let least = u64::try_from(layers.done() + 1).ok()?;
        let repeated = before.sizes.iter().filter(|&(&bytes, &times)| times >= least && bytes >= 256);
        // The smallest is a bias or the weights of a norm: a number for each feature.
        let width = *repeated.map(|(bytes, _)| bytes).min()?;
        let table = *before.sizes.iter().filter(|&(_, &times)| times < least).map(|(bytes, _)| bytes).max()?;
        let (rows, tokens) = (table / width, layers.stream_bytes / width);
        (table % width == 0 && layers.stream_bytes.is_multiple_of(width) && rows > 1)
            .then(|| rows.saturating_mul(tokens).saturating_mul(4))
    }

    /// What the backward pass or the optimizer's step still has to make.
    fn by_phase(&self) -> Option<WholeStep> {
        let at = self.before(self.failure.entry.index());
        let needed = self.live.saturating_add(self.failure.requested_bytes);
        let (least, most, reason) = match self.phase()? {
            Phase::Backward if at.parameters > 0 => {
                let to_come = at.parameters.saturating_sub(at.gradients);
                let activations = self.device.counted_by_category(Some(self.failure.entry), self.analysis.snapshot)
                    [Category::Activation as usize];
                let least = self.live.saturating_sub(activations).saturating_add(to_come);
                let after = least.saturating_add(at.of_optimizer());
                let reason = format!(
                    "it failed in the backward pass, with gradients of up to {} still to come; no earlier step was recorded{}",
                    size(to_come),
                    if at.state > 0 {
                        ""
                    } else {
                        " and no optimizer was seen yet, so the most is with the state of Adam"
                    }
                );
                (least, needed.saturating_add(to_come).max(after), reason)
            }
            Phase::Optimizer => {
                let kinds = self.kinds_of_state();
                let all = at.gradients.max(at.parameters.min(at.gradients.saturating_mul(2))).saturating_mul(kinds);
                let to_come = all.saturating_sub(at.state);
                let reason = format!(
                    "it failed in the optimizer's step, with {} of its state still to come; no earlier step was recorded",
                    size(to_come)
                );
                let least = self.live.saturating_add(to_come);
                (least, least.max(needed).saturating_add(at.gradients), reason)
            }
            _ => return None,
        };
        let most = most.saturating_add(most / 100 * SLACK_PERCENT);
        Some(self.answer(Basis::Phase, least / 100 * (100 - SLACK_PERCENT), Some(most), reason))
    }

    /// How many numbers the optimizer keeps for each parameter: as many as lines make its state.
    fn kinds_of_state(&self) -> u64 {
        let mut by_stack: HashMap<StackId, u64> = HashMap::default();
        for &made in &self.made {
            let lifetime = self.lifetime(made);
            if self.device.decided(made.row).category == Category::OptimizerState && self.is_live_at_failure(lifetime) {
                let sum = by_stack.entry(made.stack).or_default();
                *sum = sum.saturating_add(self.bytes(lifetime));
            }
        }
        // Counters of steps are of no size.
        let most = by_stack.values().copied().max().unwrap_or(0);
        let kinds = by_stack.values().filter(|&&bytes| bytes >= most / 4).count();
        u64::try_from(kinds).unwrap_or(u64::MAX)
    }
}

/// Sizes among the parameters that are looked at, those with most bytes: no layer has as many.
const MOST_SIZES: usize = 256;

/// How often what was made before a recording may hold each parameter: alone, with a momentum, with two moments, with gradients.
const COPIES: [u64; 4] = [1, 2, 3, 4];

/// What was there before a pass.
#[derive(Debug, Default)]
struct Before {
    all: u64,
    parameters: u64,
    gradients: u64,
    state: u64,
    others: u64,
    /// How often each size comes among parameters, in bytes as requested.
    sizes: HashMap<u64, u64>,
    /// The same among all that was there.
    all_sizes: HashMap<u64, u64>,
}

impl Before {
    /// What the optimizer's step has beside parameters, gradients and the state that is there, at most: its intermediates, and
    /// where no state is there yet, as after a first pass, the two moments of Adam.
    fn of_optimizer(&self) -> u64 {
        self.parameters.saturating_mul(if self.state > 0 { 1 } else { 3 })
    }

    /// The fewest and the most layers, of which there are at least so many: the largest number that divides how often sizes
    /// come. Where optimizer state may be among the parameters, it is part of the counts.
    fn layers(&self, at_least: usize, from_start: bool) -> Option<(usize, usize)> {
        let least = u64::try_from(at_least.max(2)).ok()?;
        // Of a momentum or two moments there is as much as of parameters, or twice that.
        let told = from_start || (self.state > 0 && self.state >= self.parameters / 10 * 9);
        if told {
            return self.layers_of(true, least, least);
        }
        // Of tables there are copies as well, so that they may come as often as a few layers would.
        let both = [self.layers_of(false, least, least), self.layers_of(false, least, 2 * least)];
        let of_any = || both.iter().flatten();
        Some((of_any().map(|range| range.0).min()?, of_any().map(|range| range.1).max()?))
    }

    /// As [`layers`](Self::layers), where sizes that come less often than this are of no layer.
    fn layers_of(&self, told: bool, least: u64, of_layers: u64) -> Option<(usize, usize)> {
        let sizes = if told { &self.sizes } else { &self.all_sizes };
        let is_of_layers = |times: u64| times >= of_layers;
        let mut repeated: Vec<(u128, u64)> = sizes
            .iter()
            .filter(|&(_, &times)| is_of_layers(times))
            .map(|(&bytes, &times)| (u128::from(bytes) * u128::from(times), times))
            .collect();
        repeated.sort_unstable_by_key(|&of| std::cmp::Reverse(of));
        repeated.truncate(MOST_SIZES);
        let all: u128 = repeated.iter().map(|&(bytes, _)| bytes).sum();
        // A size may come once or twice more, each time with its copies: another table or buffer that is as large.
        let more = if told { 2 } else { 2 * COPIES[COPIES.len() - 1] };
        let covered = |number: u64| -> u128 {
            let fits = repeated.iter().filter(|&&(_, times)| times >= number && times % number <= more.min(number / 4));
            fits.map(|&(bytes, times)| bytes / u128::from(times) * u128::from(times - times % number)).sum()
        };
        let most = repeated.iter().map(|&(_, times)| times).max()?.min(4096);
        let number = (least..=most).rev().find(|&number| covered(number) * 100 >= all * 95)?;
        // A momentum, or two moments, or gradients as well: each as often as its parameter.
        let copies = if told { &COPIES[..1] } else { &COPIES };
        // Then each size comes in so many copies, those that come once among the parameters as well.
        let largest = sizes.keys().copied().max().unwrap_or(0);
        // What there is one of may be a workspace.
        let once =
            || sizes.iter().filter(|&(&bytes, &times)| times > 1 && !is_of_layers(times) && bytes >= largest / 16);
        let fits = |&&copies: &&u64| number % copies == 0 && once().all(|(_, times)| times % copies == 0);
        let numbers = || copies.iter().filter(fits).map(|copies| number / copies).filter(|&number| number >= least);
        Some((usize::try_from(numbers().min()?).ok()?, usize::try_from(numbers().max()?).ok()?))
    }
}

/// The layers of a forward pass.
struct Layers {
    /// The first allocation of the first, among those of the run.
    begin: usize,
    /// Allocations of one.
    period: usize,
    /// Allocations of all, the one that failed included if it is in a layer.
    length: usize,
    /// Allocations after them.
    tail: usize,
    /// What one keeps, in the total that the report goes by.
    kept_bytes: u64,
    /// What one has beside that for a moment.
    transient_bytes: u64,
    /// What the layer that failed holds.
    partial_bytes: u64,
    /// What was made after them and is still there.
    after_bytes: u64,
    /// What goes from layer to layer: the size that is kept most often, as requested.
    stream_bytes: u64,
    /// What is kept is for a backward pass.
    keeps_activations: bool,
}

impl Layers {
    /// Those that end at the failure or shortly before it.
    fn find(run: &Run<'_, '_>) -> Option<Self> {
        let mut places: Vec<Place> = run.made.iter().map(|made| made.place).collect();
        places.push(run.place);
        places.reverse();
        for tail in TAILS {
            let seen = places.get(tail..)?;
            let common = common_with_start(seen);
            let spans = (LEAST_PERIOD..seen.len()).filter(|&shift| common[shift] >= shift);
            let best = spans.map(|shift| (shift + common[shift], std::cmp::Reverse(shift))).max();
            let Some((length, std::cmp::Reverse(period))) = best else { continue };
            if length >= 2 * period && (tail == 0 || length >= 3 * period) {
                let layers = Self::measured(run, period, length, tail);
                return layers.is_of_this_pass(run).then_some(layers);
            }
        }
        None
    }

    /// Whether it is a part of the forward pass that failed: neither the making of the model nor an earlier step, of which
    /// nothing would be left.
    fn is_of_this_pass(&self, run: &Run<'_, '_>) -> bool {
        let made = &run.made[self.begin..];
        let is_forward = made.iter().all(|made| run.phases.get(made.stack) == Some(Phase::Forward));
        let makes_model = made.iter().any(|made| run.device.decided(made.row).category == Category::Parameter);
        is_forward && !makes_model && (self.tail == 0 || self.kept_bytes > 0) && self.is_notable(run)
    }

    /// Whether the layers account for a part of the activations that is worth carrying on: else what repeats is a detail, such as
    /// the batches of a list, and the step is large for something else.
    fn is_notable(&self, run: &Run<'_, '_>) -> bool {
        /// The first layers of a decoder hold little beside a whole encoder.
        const LEAST_PART: u64 = 20;
        let activations = run.device.live_rows(Some(run.failure.entry)).filter(|&(row, lifetime)| {
            lifetime.alloc().is_some() && run.device.decided(row).category == Category::Activation
        });
        let activations = activations.map(|(_, lifetime)| run.bytes(lifetime)).fold(0, u64::saturating_add);
        let done = u64::try_from(self.done()).unwrap_or(u64::MAX);
        let of_layers = self.kept_bytes.saturating_mul(done).saturating_add(self.partial_bytes);
        of_layers >= activations / LEAST_PART
    }

    fn measured(run: &Run<'_, '_>, period: usize, length: usize, tail: usize) -> Self {
        let end = run.made.len() + 1 - tail;
        let begin = end - length;
        let mut layers = Self {
            begin,
            period,
            length,
            tail,
            kept_bytes: 0,
            transient_bytes: 0,
            partial_bytes: 0,
            after_bytes: 0,
            stream_bytes: 0,
            keeps_activations: false,
        };
        let made = &run.made[begin..end.min(run.made.len())];
        let done = layers.done();
        let live = |made: &&Made| run.is_live_at_failure(run.lifetime(**made));
        let kept = |window: &[Made]| {
            let bytes = window.iter().filter(live).map(|made| run.bytes(run.lifetime(*made)));
            bytes.fold(0, u64::saturating_add)
        };
        let windows = || made.chunks(period).take(done);
        let mut each: Vec<u64> = windows().map(kept).collect();
        each.sort_unstable();
        layers.kept_bytes = each.get(each.len() / 2).copied().unwrap_or(0);
        layers.after_bytes = run.made.get(end..).map_or(0, kept);
        layers.partial_bytes = made.get(done * period..).map_or(0, kept);
        let mut sizes: HashMap<u64, u64> = HashMap::default();
        for made in windows().flatten().filter(live) {
            *sizes.entry(run.lifetime(*made).requested_bytes).or_default() += 1;
            let decided = run.device.decided(made.row);
            layers.keeps_activations |= decided.category == Category::Activation && decided.rule != "cache";
        }
        layers.stream_bytes =
            sizes.into_iter().max_by_key(|&(bytes, times)| (times, bytes)).map_or(0, |(bytes, _)| bytes);
        if let Some(window) = windows().next_back().filter(|window| !window.is_empty()) {
            let (first, last) = (window[0].entry, window[window.len() - 1].entry);
            let by = run.device.by;
            let peak = by.of(&run.device.timeline.peak_in(first..last + 1, by).0);
            layers.transient_bytes = peak.saturating_sub(by.of(&run.device.timeline.after(EntryId::from_index(last))));
            layers.transient_bytes = layers.transient_bytes.max(layers.partial_bytes.saturating_sub(layers.kept_bytes));
        }
        layers
    }

    /// How many were done.
    fn done(&self) -> usize {
        if self.tail > 0 { self.length / self.period } else { (self.length - 1) / self.period }
    }

    fn begin_entry(&self, run: &Run<'_, '_>) -> usize {
        run.made.get(self.begin).map_or(0, |made| made.entry)
    }
}

/// For each position how many items from there on are those from the start on (the Z-function), in linear time.
fn common_with_start<T: PartialEq>(items: &[T]) -> Vec<usize> {
    let mut common = vec![0; items.len()];
    let (mut left, mut right) = (0, 0);
    for at in 1..items.len() {
        let mut length = if at < right { common[at - left].min(right - at) } else { 0 };
        while at + length < items.len() && items[length] == items[at + length] {
            length += 1;
        }
        if at + length > right {
            (left, right) = (at, at + length);
        }
        common[at] = length;
    }
    common
}

/// A step's allocations beside those of an earlier one.
struct Aligned {
    /// Of the earlier step and of this one.
    pairs: Vec<(Made, Made)>,
    /// The first allocation of the earlier step that has not happened in this one.
    reached: usize,
    /// That one is like the request that failed.
    is_at_failure: bool,
}

impl Aligned {
    fn new(model: &[Made], own: &[Made], failed: Place) -> Self {
        let mut pairs = Vec::with_capacity(own.len());
        let mut reached = 0;
        let like = |from: usize, place: Place| {
            let ahead = model.get(from..)?;
            ahead.iter().take(WINDOW).position(|made| made.place == place).map(|ahead| from + ahead)
        };
        for &made in own {
            if let Some(at) = like(reached, made.place) {
                pairs.push((model[at], made));
                reached = at + 1;
            }
        }
        let at_failure = like(reached, failed);
        Self { pairs, reached: at_failure.unwrap_or(reached), is_at_failure: at_failure.is_some() }
    }
}

/// How sizes of an earlier step become those of this one.
struct Scale {
    /// Least and most, by place and size.
    by_place: HashMap<(u32, u64), (u64, u64)>,
    /// By size alone.
    by_size: HashMap<u64, (u64, u64)>,
    /// Sizes of what was there before this step, and is still: they stay what they are.
    lasting: HashMap<u64, ()>,
    /// The least and the largest factor of sizes that count.
    factors: (f64, f64),
}

impl Scale {
    fn new(run: &Run<'_, '_>, aligned: &Aligned, model: &[Made], begin: usize) -> Self {
        let mut scale = Self {
            by_place: HashMap::default(),
            by_size: HashMap::default(),
            lasting: HashMap::default(),
            factors: (1.0, 1.0),
        };
        let mut bytes_by_factor: Vec<(f64, u64)> = Vec::new();
        let mut note = |place: Place, from: u64, to: u64| {
            let wider = |range: &mut (u64, u64)| *range = (range.0.min(to), range.1.max(to));
            if let Some(place) = place {
                wider(scale.by_place.entry((place, from)).or_insert((to, to)));
            }
            wider(scale.by_size.entry(from).or_insert((to, to)));
            bytes_by_factor.push((ratio(to, from), to));
        };
        for &(of_model, of_own) in &aligned.pairs {
            note(of_model.place, run.lifetime(of_model).requested_bytes, run.lifetime(of_own).requested_bytes);
        }
        if let Some(&made) = model.get(aligned.reached).filter(|_| aligned.is_at_failure) {
            note(made.place, run.lifetime(made).requested_bytes, run.failure.requested_bytes);
        }
        let all: u64 = bytes_by_factor.iter().map(|&(_, bytes)| bytes).fold(0, u64::saturating_add);
        bytes_by_factor.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Of what changes: a twentieth of the bytes at either end may be anything.
        let at = |part: u64| {
            let mut sum = 0_u64;
            bytes_by_factor.iter().find(|&&(_, bytes)| {
                sum = sum.saturating_add(bytes);
                sum > all / 100 * part
            })
        };
        if let (Some(&(least, _)), Some(&(most, _))) = (at(5), at(95)) {
            scale.factors = (least, most);
        }
        for lifetime in &run.device.lifetimes.rows {
            if lifetime.alloc().is_none_or(|alloc| alloc.index() < begin) && run.is_live_at_failure(lifetime) {
                scale.lasting.insert(lifetime.requested_bytes, ());
            }
        }
        scale
    }

    /// The size that an allocation of the earlier step has in this one: the least and the most.
    fn of(&self, lifetime: &Lifetime, place: Place, category: Category) -> (u64, u64) {
        let bytes = lifetime.requested_bytes;
        if matches!(category, Category::Gradient | Category::OptimizerState | Category::Parameter | Category::Workspace)
        {
            return (bytes, bytes);
        }
        let seen = place.and_then(|place| self.by_place.get(&(place, bytes)));
        if let Some(&range) = seen {
            return range;
        }
        let is_lasting = self.lasting.contains_key(&bytes);
        match self.by_size.get(&bytes) {
            Some(&(least, most)) if is_lasting && place.is_none() => (least.min(bytes), most.max(bytes)),
            Some(&range) => range,
            None if is_lasting => (bytes, bytes),
            None => (times(bytes, self.factors.0), times(bytes, self.factors.1)),
        }
    }

    /// By how much sizes differ, where they do.
    fn factor(&self) -> Option<f64> {
        let (least, most) = self.factors;
        let is_one = (most - 1.0).abs() < 0.005;
        (!is_one && (most - least).abs() <= most / 50.0).then_some(most)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of sizes")]
fn ratio(to: u64, from: u64) -> f64 {
    to as f64 / from.max(1) as f64
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate of bytes, never below 0; it clips"
)]
fn times(bytes: u64, factor: f64) -> u64 {
    (bytes as f64 * factor).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_compared_with_the_start() {
        assert_eq!(common_with_start(b"abcabcabx"), [0, 0, 0, 5, 0, 0, 2, 0, 0]);
        assert_eq!(common_with_start(b"aaaa"), [0, 3, 2, 1]);
        assert!(common_with_start::<u8>(&[]).is_empty());
    }

    fn layers(sizes: &[(u64, u64)], state: u64, at_least: usize, from_start: bool) -> Option<(usize, usize)> {
        let sizes: HashMap<u64, u64> = sizes.iter().copied().collect();
        Before { parameters: 1, state, all_sizes: sizes.clone(), sizes, ..Before::default() }
            .layers(at_least, from_start)
    }

    #[test]
    fn layers_are_counted_by_the_sizes_of_parameters() {
        // Query, key and value in one, a projection, two of the feed-forward network, norms and biases; two embeddings.
        // A table of positions has the size of the latter.
        let model = [(3 << 20, 16), (1 << 20, 16), (4 << 20, 33), (4096, 97), (62 << 20, 2)];
        assert_eq!(layers(&model, 0, 9, true), Some((16, 16)));
        assert_eq!(layers(&model, 1, 9, false), Some((16, 16)), "optimizer state is told apart");
        assert_eq!(
            layers(&model, 0, 3, false),
            Some((8, 16)),
            "a momentum may be among them, for both tables of 62 MiB"
        );
        assert_eq!(layers(&[(1 << 20, 24), (2 << 20, 48)], 0, 3, true), Some((24, 24)));
        assert_eq!(layers(&model, 0, 9, false), Some((16, 33)), "where moments may be among them it is a range");
        assert_eq!(layers(&[(1 << 20, 1), (2 << 20, 1)], 0, 2, true), None, "no size comes twice");
        assert_eq!(layers(&[], 0, 2, true), None);
    }
}
