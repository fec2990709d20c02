//! The layers of the pass that failed, carried on.

use hashbrown::HashMap;
use highwater_analysis::category::Category;
use highwater_analysis::phase::Phase;
use highwater_snapshot::{EntryId, StackId};
use highwater_units::{count, size};

use super::before::Before;
use super::{Basis, Made, Place, Run, SLACK_PERCENT, WINDOW, WholeStep};

/// A repetition has so many allocations at least: fewer are an operator called twice.
const LEAST_PERIOD: usize = 4;

/// Ends of the pass that may be no part of the repetition: what comes after the layers.
const TAILS: [usize; 11] = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// Parts as large as a layer that may follow the layers, where nothing tells what does.
const LAYERS_AFTER: u64 = 2;

/// Copies of the logits that a loss and its backward pass hold at once, at most: the logits, their logarithms, the gradients
/// of both, and what casts or views copy.
const COPIES_OF_LOGITS: u64 = 5;

impl Run<'_, '_> {
    /// Carries on the layers.
    pub(super) fn by_layers(&self) -> Option<WholeStep> {
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
                    "it failed in the forward pass, in repetition {} of a part that keeps {} each time; the number \
                     of repetitions is unknown, so this is a lower bound",
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
        let trains =
            self.call_without_autograd().is_none() && (layers.keeps_activations || before.state > 0 && each > 0);
        // Where nothing tells what follows the layers, it is taken to be no more than some of them.
        let head = match logits {
            0 if trains && !is_after => each.saturating_mul(LAYERS_AFTER),
            _ if !trains => logits.saturating_mul(2).saturating_sub(layers.after_bytes),
            _ => logits.saturating_mul(COPIES_OF_LOGITS).saturating_sub(layers.after_bytes),
        };
        // What is kept makes way for gradients from the last layer on.
        let gradients = before.parameters.saturating_sub(before.gradients);
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
            (true, true, _) => "; gradients and the optimizer's intermediates are included".to_owned(),
            (true, false, _) => "; no optimizer has run yet, so the upper bound assumes Adam's state".to_owned(),
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
        // Layers are of one call: what repeats over several is a loop.
        let from = run.call.map_or(0, |call| run.made.partition_point(|made| made.entry < call.start));
        let mut places: Vec<Place> = run.made[from..].iter().map(|made| made.place).collect();
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
        /// One part in so many: less is a detail. So low because the first layers of a decoder hold little beside a whole encoder.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_compared_with_the_start() {
        assert_eq!(common_with_start(b"abcabcabx"), [0, 0, 0, 5, 0, 0, 2, 0, 0]);
        assert_eq!(common_with_start(b"aaaa"), [0, 3, 2, 1]);
        assert!(common_with_start::<u8>(&[]).is_empty());
    }
}
