//! Programs that collect data with their model and then learn from it in several steps: an iteration is a rollout with its steps.
//!
//! A validation between steps looks alike. But what a rollout feeds to the model, call by call, is what the steps are fed, once or
//! several times over and in larger parts, so the bytes add up. A recurrent model is called as often, but its calls are a part of
//! what the step differentiates.
//!
//! Two more outer loops show: a model generates what several steps are fed, and a model is built anew for each task.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use highwater_snapshot::{Action, EntryId, EntryTable};

use crate::lifetime::Lifetimes;
use crate::outline::{Kind, Outline, Part};

/// The steps of one rollout, as positions among the ends of all steps.
pub(crate) struct Rollouts {
    /// The last step of each rollout.
    pub(crate) last_steps: Vec<usize>,
    /// Steps of each.
    pub(crate) steps: usize,
    /// Bytes that the calls of each are fed, all together: of those that the steps learn from. 0 where the loop is another.
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
    pub(crate) fn new(
        outline: &Outline,
        (entries, lifetimes): (&EntryTable, &Lifetimes),
        step_ends: &[usize],
    ) -> Option<Self> {
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
        let begin = |at: usize| at.checked_sub(1).map_or(0, |before| step_ends[before]);
        let is_kept = |&start: &usize| {
            let first = begin(start)..step_ends[start];
            is_kept(outline, lifetimes, &first, step_ends[start + steps - 1], collected_bytes)
        };
        let mut whole = starts.iter().filter(|&start| start + steps <= stretches.len());
        if ![whole.next(), whole.next_back()].into_iter().flatten().all(is_kept) {
            return None;
        }
        let before = starts.iter().filter_map(|start| start.checked_sub(1));
        let whole = (stretches.len() - last == steps).then_some(stretches.len() - 1);
        Some(Self { last_steps: before.chain(whole).collect(), steps, collected_bytes })
    }
}

/// Whether what a rollout collects is there until its last step: blocks that the program makes while it collects, or a buffer from before. Samples
/// that a training draws now and then are not.
fn is_kept(outline: &Outline, lifetimes: &Lifetimes, first: &Range<usize>, end: usize, collected_bytes: u64) -> bool {
    /// What is fed in 32 or 64 bits may be kept in bytes.
    const WIDTHS: [u64; 4] = [1, 2, 4, 8];
    let kind = |alloc: usize| {
        let at = outline.parts.partition_point(|part| part.entries.end <= alloc);
        outline.parts.get(at).filter(|part| part.entries.start <= alloc).map(|part| part.kind)
    };
    let (mut made, mut buffers) = (0_u64, BTreeSet::new());
    let mut gradients: BTreeSet<u64> = BTreeSet::new();
    for lifetime in &lifetimes.rows {
        let bytes = lifetime.requested_bytes;
        let stays = lifetime.free_requested().is_none_or(|id| id.index() >= end);
        match lifetime.alloc().map(EntryId::index).filter(|&alloc| alloc >= first.start) {
            Some(alloc) if alloc < first.end && stays && kind(alloc) == Some(Kind::Program) => {
                made = made.saturating_add(bytes);
            }
            Some(alloc) if alloc < end && kind(alloc) == Some(Kind::Backward) => _ = gradients.insert(bytes),
            None if stays && WIDTHS.iter().any(|width| bytes.saturating_mul(*width) == collected_bytes) => {
                buffers.insert(bytes);
            }
            _ => {}
        }
    }
    // A weight of that size is no buffer.
    made >= collected_bytes / WIDTHS[3] || !buffers.is_subset(&gradients)
}

/// A rollout calls its model at least so often.
const MIN_CALLS: u64 = 2;

impl Rollouts {
    /// Rollouts of a model that generates text, token by token, from which several steps learn. A training that samples from its model now and
    /// then looks alike, but its steps get other data: here each gets parts of blocks that live from the generation to the last step.
    pub(crate) fn generating(outline: &Outline, entries: &EntryTable, step_ends: &[usize]) -> Option<Self> {
        /// Tokens that are generated, at least.
        const MIN_TOKENS: usize = 8;
        /// Most blocks of a token's call are at most one part of so many of those of a call that is learnt from; a cache that grows is larger.
        const PART: u64 = 4;
        let stretch = |at: usize| at.checked_sub(1).map_or(0, |before| step_ends[before])..step_ends[at];
        let calls_in = |at: usize| {
            let range = stretch(at);
            let is_call = move |part: &&Part| matches!(part.kind, Kind::Call(_)) && range.contains(&part.entries.start);
            outline.parts.iter().filter(is_call)
        };
        let mut called = vec![0; step_ends.len()];
        for part in outline.of(|kind| matches!(kind, Kind::Call(_))) {
            let at = step_ends.partition_point(|&end| end <= part.entries.start);
            called.get_mut(at).into_iter().for_each(|calls| *calls += 1);
        }
        let fewest = called.iter().copied().min()?;
        let starts: Vec<usize> = (0..called.len()).filter(|&at| called[at] >= fewest + MIN_TOKENS).collect();
        let (&first, &last) = (starts.first()?, starts.last()?);
        let steps = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(called.len() - first);
        let is_even = starts.windows(2).all(|pair| pair[1] - pair[0] == steps) && called.len() - last <= steps;
        if steps < 2 || first >= steps || !is_even {
            return None;
        }
        let usual = |part: &Part| usual_bytes(entries, part.entries.clone());
        let learnt = (first + 1..called.len().min(first + steps)).flat_map(calls_in).map(usual).max()?;
        let is_token = |part: &&Part| usual(part).saturating_mul(PART) <= learnt;
        let generates = |&at: &usize| calls_in(at).filter(is_token).take(MIN_TOKENS).count() == MIN_TOKENS;
        let whole = starts.iter().copied().filter(|start| start + steps <= called.len());
        let mut whole = whole.map(|start| (start..start + steps).map(stretch).collect::<Vec<_>>()).peekable();
        if !starts.iter().all(generates) || whole.peek().is_none() || !whole.all(|own| is_fed(outline, entries, &own)) {
            return None;
        }
        let before = starts.iter().filter_map(|start| start.checked_sub(1));
        let end = (called.len() - last == steps).then_some(called.len() - 1);
        Some(Self { last_steps: before.chain(end).collect(), steps, collected_bytes: 0 })
    }
}

impl Rollouts {
    /// Those of a program that builds or copies a model for each task, and trains it by an optimizer of its own in several steps. A copy of the
    /// weights that is made now and then, such as the best so far, brings no optimizer with it.
    pub(crate) fn built_anew(outline: &Outline, entries: &EntryTable, step_ends: &[usize]) -> Option<Self> {
        /// What later steps keep is at most one part of so many of the state that the first makes.
        const PART: u64 = 8;
        let mut built = vec![0_u64; step_ends.len()];
        let mut begins: Vec<Option<usize>> = vec![None; step_ends.len()];
        let mut learns = vec![false; step_ends.len()];
        for part in &outline.parts {
            let at = step_ends.partition_point(|&end| end <= part.entries.start);
            if at == step_ends.len() {
                break;
            }
            match part.kind {
                Kind::Backward => learns[at] = true,
                Kind::Build if !learns[at] => {
                    built[at] = built[at].saturating_add(made_bytes(entries, part.entries.clone()));
                }
                Kind::Step => _ = begins[at].get_or_insert(part.entries.start),
                _ => {}
            }
        }
        // Before the first, other models may be built.
        let (usual, times) = most_common(built.iter().copied().filter(|&bytes| bytes > 0))?;
        let starts: Vec<usize> = (0..built.len()).filter(|&at| built[at] >= usual).collect();
        let (&first, &last) = (starts.first()?, starts.last()?);
        let steps = starts.windows(2).map(|pair| pair[1] - pair[0]).max()?;
        let is_even = starts.windows(2).all(|pair| pair[1] - pair[0] == steps) && built.len() - last <= steps;
        let is_later = |at: &usize| starts.binary_search(at).is_err();
        // One that is not over may be an optimizer's step that fails: what it has made is not freed.
        let are_several = starts.iter().filter(|&&start| start + steps <= built.len()).count() > 1;
        if times < 2
            || !are_several
            || steps < 2
            || first >= steps
            || !is_even
            || (0..built.len()).any(|at| is_later(&at) && built[at] > 0)
        {
            return None;
        }
        let kept = |at: usize| begins[at].map_or(0, |start| kept_bytes(entries, start..step_ends[at]));
        let smallest = starts.iter().map(|&at| kept(at)).min()?;
        if smallest == 0 || (0..built.len()).filter(is_later).any(|at| kept(at).saturating_mul(PART) > smallest) {
            return None;
        }
        let before = starts.iter().filter_map(|start| start.checked_sub(1));
        let end = (built.len() - last == steps).then_some(built.len() - 1);
        Some(Self { last_steps: before.chain(end).collect(), steps, collected_bytes: 0 })
    }
}

/// Bytes that are allocated in a range of entries, and not freed there.
fn kept_bytes(entries: &EntryTable, range: Range<usize>) -> u64 {
    let mut there: BTreeMap<u64, u64> = BTreeMap::new();
    for row in range {
        match entries.actions()[row] {
            Action::ALLOC => _ = there.insert(entries.addresses()[row], entries.sizes_bytes()[row]),
            Action::FREE_REQUESTED => _ = there.remove(&entries.addresses()[row]),
            _ => {}
        }
    }
    there.into_values().fold(0, u64::saturating_add)
}

/// The median of the sizes that are allocated in a range of entries; 0 if there are none.
fn usual_bytes(entries: &EntryTable, range: Range<usize>) -> u64 {
    let rows = range.filter(|&row| entries.actions()[row] == Action::ALLOC);
    let mut sizes: Vec<u64> = rows.map(|row| entries.sizes_bytes()[row]).collect();
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied().unwrap_or(0)
}

/// Bytes that are allocated in a range of entries.
fn made_bytes(entries: &EntryTable, range: Range<usize>) -> u64 {
    let rows = range.filter(|&row| entries.actions()[row] == Action::ALLOC);
    rows.map(|row| entries.sizes_bytes()[row]).fold(0, u64::saturating_add)
}

/// Whether blocks that the program makes in the first of several steps, and that still live after the last, are fed to the steps in equal
/// parts, once or several times over.
fn is_fed(outline: &Outline, entries: &EntryTable, stretches: &[Range<usize>]) -> bool {
    /// Smaller blocks are numbers.
    const MIN_PART: u64 = 64;
    let made = |range: &Range<usize>| {
        let first = outline.parts.partition_point(|part| part.entries.end <= range.start);
        let parts = outline.parts[first..].iter().take_while(|part| part.entries.start < range.end);
        let rows = parts.filter(|part| part.kind == Kind::Program).flat_map(|part| part.entries.clone());
        rows.filter(|&row| entries.actions()[row] == Action::ALLOC).collect::<Vec<usize>>()
    };
    let Some((begin, later)) = stretches.split_first() else { return false };
    let Some(end) = later.last().map(|last| last.end) else { return false };
    let mut there: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
    let rows = made(begin).into_iter().map(|row| (entries.addresses()[row], (row, entries.sizes_bytes()[row])));
    there.extend(rows);
    for row in begin.start..end {
        let address = entries.addresses()[row];
        let is_freed = entries.actions()[row] == Action::FREE_REQUESTED;
        if is_freed && there.get(&address).is_some_and(|&(made, _)| made < row) {
            there.remove(&address);
        }
    }
    // Sizes of which each later step makes as many.
    let counts = later.iter().map(|range| {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for row in made(range) {
            *counts.entry(entries.sizes_bytes()[row]).or_default() += 1;
        }
        counts
    });
    let parts = counts.reduce(|mut common, counts| {
        common.retain(|size, count| counts.get(size) == Some(count));
        common
    });
    let parts = parts.unwrap_or_default();
    there.values().any(|&(_, whole)| {
        let mut parts = parts.range(MIN_PART..).take_while(|&(&part, _)| part <= whole / 2);
        parts.any(|(&part, &count)| {
            let all = (count * stretches.len()) as u64;
            whole.is_multiple_of(part) && all.is_multiple_of(whole / part)
        })
    })
}

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
