//! What was there before the pass that failed: what backward and the optimizer still have to make for it, and how many layers its sizes
//! tell.

use hashbrown::HashMap;
use highwater_analysis::category::Category;
use highwater_analysis::phase::Phase;
use highwater_snapshot::StackId;
use highwater_units::size;

use super::{Basis, Run, SLACK_PERCENT, WholeStep};

/// Sizes among the parameters that are looked at, those with most bytes: no layer has as many.
const MOST_SIZES: usize = 256;

/// How often what was made before a recording may hold each parameter: alone, with a momentum, with two moments, with gradients.
const COPIES: [u64; 4] = [1, 2, 3, 4];

impl Run<'_, '_> {
    /// What was live before an entry and is still there, by what it is for.
    pub(super) fn before(&self, entry: usize) -> Before {
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

    /// What the backward pass or the optimizer's step still has to make.
    pub(super) fn by_phase(&self) -> Option<WholeStep> {
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
                        " and no optimizer has run yet, so the upper bound assumes Adam's state"
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

/// What was there before a pass.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) all: u64,
    pub(super) parameters: u64,
    pub(super) gradients: u64,
    pub(super) state: u64,
    pub(super) others: u64,
    /// How often each size comes among parameters, in bytes as requested.
    pub(super) sizes: HashMap<u64, u64>,
    /// The same among all that was there.
    pub(super) all_sizes: HashMap<u64, u64>,
}

impl Before {
    /// What the optimizer's step has beside parameters, gradients and the state that is there, at most: its intermediates, and
    /// where no state is there yet, as after a first pass, the two moments of Adam.
    pub(super) fn of_optimizer(&self) -> u64 {
        self.parameters.saturating_mul(if self.state > 0 { 1 } else { 3 })
    }

    /// The fewest and the most layers, of which there are at least so many: the largest number that divides how often sizes
    /// come. Where optimizer state may be among the parameters, it is part of the counts.
    pub(super) fn layers(&self, at_least: usize, from_start: bool) -> Option<(usize, usize)> {
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
    pub(super) fn layers_of(&self, told: bool, least: u64, of_layers: u64) -> Option<(usize, usize)> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
