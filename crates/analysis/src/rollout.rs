//! Programs that collect data with their model and then learn from it in several steps: an iteration is a rollout with its steps.
//!
//! A validation between steps looks alike. But what a rollout feeds to the model, call by call, is what the steps are fed, once or
//! several times over and in larger parts, so the bytes add up. A recurrent model is called as often, but its calls are a part of
//! what the step differentiates.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use highwater_snapshot::{Action, EntryTable};

use crate::outline::{Kind, Outline};

/// The steps of one rollout, as positions among the ends of all steps.
pub(crate) struct Rollouts {
    /// The last step of each rollout.
    pub(crate) last_steps: Vec<usize>,
    /// Steps of each.
    pub(crate) steps: usize,
    /// Bytes that the calls of each are fed, all together: of those that the steps learn from.
    pub(crate) collected_bytes: u64,
}

/// What is fed to the calls of a model between two steps.
struct Stretch {
    /// Before the step's own call: the bytes that a call is fed while the model collects, and how many are fed that much.
    collected: (u64, u64),
}

impl Stretch {
    fn new(calls: &[u64], learnt: u64) -> Self {
        let own = calls.iter().rposition(|&fed| fed == learnt);
        let own = own.or_else(|| (0..calls.len()).max_by_key(|&at| calls[at])).unwrap_or(0);
        // Several models may act in turns: what counts is what most bytes go to. Before the first call the program may make what it
        // collects in, too.
        let mut bytes: BTreeMap<u64, u64> = BTreeMap::new();
        for &fed in calls[..own].iter().filter(|&&fed| fed < learnt) {
            let of = bytes.entry(fed).or_default();
            *of = of.saturating_add(fed);
        }
        let usual = bytes.into_iter().max_by_key(|&(fed, bytes)| (bytes, fed)).map_or(0, |(fed, _)| fed);
        let collecting = calls[..own].iter().filter(|&&fed| usual > 0 && fed >= usual).count();
        Self { collected: (usual, collecting as u64) }
    }
}

impl Rollouts {
    /// Those of a recording with steps that end at these entries; `None` where the steps themselves are iterations.
    pub(crate) fn new(outline: &Outline, entries: &EntryTable, step_ends: &[usize]) -> Option<Self> {
        let calls = calls(outline, entries, step_ends);
        // A step feeds its parts to one model or several, the largest to the first. Of several sizes, such as that of a last part, the
        // usual one.
        let (learnt, _) = most_common(calls.iter().map(|calls| calls.iter().copied().max().unwrap_or(0)))?;
        let stretches: Vec<Stretch> = calls.iter().map(|calls| Stretch::new(calls, learnt)).collect();
        let starts: Vec<usize> = (0..stretches.len()).filter(|&at| stretches[at].collected.1 >= MIN_CALLS).collect();
        let (&first, &last) = (starts.first()?, starts.last()?);
        let steps = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(stretches.len() - first);
        let (bytes, calls) = most_common(starts.iter().map(|&at| stretches[at].collected))?.0;
        // What the last call is fed may not be learnt from: it is asked alone for the value of the state behind the last step.
        let is_whole = |&calls: &u64| {
            let collected = bytes.saturating_mul(calls);
            collected > 0 && learnt.saturating_mul(steps as u64).is_multiple_of(collected)
        };
        let learnt_from = [calls, calls - 1].into_iter().filter(|&calls| calls >= MIN_CALLS).find(is_whole);
        let collected_bytes = bytes.saturating_mul(learnt_from.unwrap_or(0));
        // The first may be fed what the program made before its loop, where others are fed what the call before gave.
        let is_alike =
            |&at: &usize| stretches[at].collected.0 == bytes && stretches[at].collected.1.abs_diff(calls) <= 1;
        let is_learnt = bytes < learnt && collected_bytes > 0 && starts.iter().all(is_alike);
        let is_even = starts.windows(2).all(|pair| pair[1] - pair[0] == steps) && stretches.len() - last <= steps;
        let stretch = first.checked_sub(1).map_or(0, |before| step_ends[before])..step_ends[first];
        if steps < 2 || first >= steps || !is_even || !is_learnt || is_differentiated(outline, entries, &stretch) {
            return None;
        }
        let before = starts.iter().filter_map(|start| start.checked_sub(1));
        let whole = (stretches.len() - last == steps).then_some(stretches.len() - 1);
        Some(Self { last_steps: before.chain(whole).collect(), steps, collected_bytes })
    }
}

/// A rollout calls its model at least so often.
const MIN_CALLS: u64 = 2;

/// By step, what is fed to each call of a model before it ends, after the step before.
fn calls(outline: &Outline, entries: &EntryTable, step_ends: &[usize]) -> Vec<Vec<u64>> {
    let mut stretches: Vec<Vec<u64>> = vec![Vec::new(); step_ends.len()];
    // The largest block that the program has made since the last call.
    let mut fed = 0;
    for part in &outline.parts {
        match part.kind {
            Kind::Program => {
                let rows = part.entries.clone().filter(|&row| entries.actions()[row] == Action::ALLOC);
                fed = rows.map(|row| entries.sizes_bytes()[row]).fold(fed, u64::max);
            }
            Kind::Call(_) => {
                let at = step_ends.partition_point(|&end| end <= part.entries.start);
                if let Some(stretch) = stretches.get_mut(at) {
                    stretch.push(std::mem::take(&mut fed));
                }
            }
            _ => {}
        }
    }
    stretches
}

/// Whether the first backward pass of a stretch of entries frees what the first call in it has made.
fn is_differentiated(outline: &Outline, entries: &EntryTable, stretch: &Range<usize>) -> bool {
    let within = || outline.parts.iter().filter(|part| stretch.contains(&part.entries.start));
    let call = within().find(|part| matches!(part.kind, Kind::Call(_)));
    let pass = within().find(|part| part.kind == Kind::Backward);
    let Some((call, pass)) = call.zip(pass).filter(|(call, pass)| call.entries.end <= pass.entries.start) else {
        return false;
    };
    let mut made: BTreeSet<u64> = BTreeSet::new();
    for row in call.entries.start..pass.entries.end {
        let address = entries.addresses()[row];
        match entries.actions()[row] {
            Action::ALLOC if row < call.entries.end => {
                made.insert(address);
            }
            Action::FREE_REQUESTED if made.remove(&address) && row >= pass.entries.start => return true,
            _ => {}
        }
    }
    false
}

/// The value that comes most often, and how often.
fn most_common<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<(T, u64)> {
    let mut counts: BTreeMap<T, u64> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts.into_iter().max_by_key(|&(value, count)| (count, value))
}
