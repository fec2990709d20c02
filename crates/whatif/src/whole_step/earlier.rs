//! What is left of an earlier step, played on in the sizes of the one that failed.

use std::fmt::Write as _;
use std::ops::Range;

use hashbrown::HashMap;
use highwater_analysis::category::Category;
use highwater_analysis::lifetime::Lifetime;
use highwater_snapshot::EntryId;
use highwater_units::size;

use super::{Basis, Made, Place, Run, SLACK_PERCENT, WINDOW, WholeStep};

/// Of the allocations of the step that failed, this part has to be in the earlier one, in percent.
const ALIKE_PERCENT: usize = 60;

impl Run<'_, '_> {
    /// Plays on what is left of an earlier step.
    pub(super) fn by_earlier_step(&self) -> Option<WholeStep> {
        self.carried_on(self.earlier_step()?, "an earlier step in this recording", "that step")
    }

    /// Plays on what is left of the call before, where nothing is trained.
    pub(super) fn by_call_before(&self) -> Option<WholeStep> {
        let call = self.call_without_autograd()?;
        let mut whole =
            self.carried_on((call.entries, call.start), "the previous call, made without autograd", "that call")?;
        if call.kept_bytes > 0 {
            // How many calls are to come nothing tells.
            whole.at_most_bytes = None;
            let kept = size(call.kept_bytes);
            let _ =
                write!(whole.reason, "; each call keeps some memory, the previous one {kept}, so later ones need more");
        }
        Some(whole)
    }

    fn carried_on(&self, (earlier, begin): (Range<usize>, usize), name: &str, it: &str) -> Option<WholeStep> {
        let (model, own) = (self.made_in(earlier.clone()), self.made_in(begin..self.failure.entry.index()));
        let mut aligned = Aligned::new(model, own, self.place, |made| made.place);
        if !aligned.is_at_failure {
            let near = Aligned::new(model, own, self.near, |made| made.near);
            if near.is_at_failure && near.pairs.len() >= aligned.pairs.len() {
                aligned = near;
            }
        }
        if own.is_empty() || aligned.pairs.len() * 100 < own.len() * ALIKE_PERCENT {
            return None;
        }
        let scale = Scale::new(self, &aligned, model, begin);
        // Changes of the total, by the entry of the earlier step: the least and the most.
        let mut changes: Vec<(usize, i128, i128)> = Vec::new();
        let end = earlier.end;
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
            Some(factor) => format!(", scaled by {factor:.3} to its sizes"),
            None => String::new(),
        };
        let reason = format!(
            "it failed {}, after {done} % of the allocations of {name}{scaled}; the rest is extrapolated from {it}",
            self.words()
        );
        Some(self.answer(Basis::EarlierStep, least, Some(most), reason))
    }
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
    fn new(model: &[Made], own: &[Made], failed: Place, place_of: impl Fn(&Made) -> Place) -> Self {
        let mut pairs = Vec::with_capacity(own.len());
        let mut reached = 0;
        let like = |from: usize, place: Place| {
            let ahead = model.get(from..)?;
            ahead.iter().take(WINDOW).position(|made| place_of(made) == place).map(|ahead| from + ahead)
        };
        for &made in own {
            if let Some(at) = like(reached, place_of(&made)) {
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
