//! Activations that could be made again: a module that is called many times over, such as a transformer's block, need keep only
//! its input.

use std::cmp::Reverse;
use std::hash::Hash;

use highwater_analysis::category::Category;
use highwater_analysis::category::course::Pass;
use highwater_analysis::folding::Owner;
use highwater_analysis::lifetime::Lifetime;
use highwater_analysis::place;
use highwater_snapshot::{EntryId, Frame, FrameId, Snapshot, StackId};
use highwater_units::{percent_of, size};
use highwater_whatif::counterfactual::Change;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Evidence, Finding, Severity};

/// Activations below this share of the peak are not worth their recomputation, in percent.
const WORTH_PERCENT: u64 = 30;

/// Nor is a saving below this.
const WORTH_SAVING_PERCENT: u64 = 10;

/// Parts of a call's memory that do not decide how often it is made: one in so many.
const MINOR: u64 = 1000;

/// Calls that save as much but for this, in percent, save the same: what comes before the layers and behind them is little.
const ALIKE_PERCENT: u64 = 2;

/// Calls that are told.
const MOST_CALLS: usize = 3;

/// A call that brings less than such a part of what the best one does is not told.
const LESSER: u64 = 10;

/// One finding: the calls that bring most.
pub(super) fn checkpointing(evidence: &Evidence<'_>) -> Option<Finding> {
    let at = fullest(evidence)?;
    let saved: Vec<&Lifetime> = evidence.live(at, Category::Activation).map(|(_, lifetime)| lifetime).collect();
    let bytes = saved.iter().map(|l| evidence.bytes(l)).fold(0, u64::saturating_add);
    if bytes < evidence.share_of_peak(WORTH_PERCENT)
        || evidence.of(Category::Activation).any(|(row, _)| is_recomputed(evidence, row))
    {
        return None;
    }
    let is_whole = evidence.passes().iter().any(|pass| pass.start == at.get());
    let calls = best_calls(evidence, &saved, is_whole);
    let unwound = (!is_whole).then(|| failure_after(evidence, at)).flatten();
    let all: Vec<Change> = calls.iter().flat_map(|call| changes(evidence, call, unwound)).collect();
    let saving = evidence.worth(evidence.peak_with(&all))?;
    if saving < evidence.share_of_peak(WORTH_SAVING_PERCENT) {
        return None;
    }
    let snapshot = evidence.analysis.snapshot;
    let (times, kept) =
        calls.iter().fold((0_u64, 0_u64), |sum, call| (sum.0 + call.times, sum.1.saturating_add(call.bytes)));
    let begun = calls.iter().any(|call| call.begun_bytes.is_some());
    let and_begun = if begun { " and one that had only begun" } else { "" };
    let title = format!("{times} modules{and_begun} hold {} for the backward pass", size(kept));
    let places: Vec<String> = calls
        .iter()
        .map(|call| {
            let place = call.place(snapshot);
            let times = if calls.len() == 1 { String::new() } else { format!("{} of them ", call.times) };
            let begun = call.begun_bytes.map_or_else(String::new, |bytes| format!(", the one begun {}", size(bytes)));
            format!("{times}called at {place}, {} each{begun}", size(call.each_bytes))
        })
        .collect();
    let detail = format!(
        "{}; {} of the peak is activations; with checkpointing only each module's inputs are kept, and the rest is \
         recomputed in the backward pass",
        places.join("; "),
        percent_of(bytes, evidence.peak.bytes)
    );
    let all_in = |part: &str| {
        calls
            .iter()
            .all(|call| snapshot.text(snapshot.frames.get(call.frame).filename).replace('\\', "/").contains(part))
    };
    let own = if all_in("transformers/") {
        "`model.gradient_checkpointing_enable()`".to_owned()
    } else if all_in("torch/nn/modules/container.py") {
        "`torch.utils.checkpoint.checkpoint_sequential(modules, segments, x, use_reentrant=False)` instead of \
         calling the `nn.Sequential`"
            .to_owned()
    } else {
        let at = match calls.as_slice() {
            [call] => call.place(snapshot),
            _ => "each of these lines".to_owned(),
        };
        format!("`torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False)` at {at}")
    };
    let finding = Finding::new("checkpointing", Severity::Info, title, detail).saves_about(saving);
    Some(finding.change(format!("use {own} (costs about 33 % more compute)")))
}

/// When most activations are there: as the backward pass begins that the peak belongs to, or at a peak that none follows.
fn fullest(evidence: &Evidence<'_>) -> Option<EntryId> {
    let peak = evidence.peak.entry?;
    let passes = evidence.passes();
    let after = passes.partition_point(|pass| pass.end <= peak.get());
    match passes.get(after).or_else(|| passes.last()) {
        Some(pass) if pass.end > peak.get() || evidence.device.oom.is_empty() => Some(EntryId::new(pass.start)),
        _ => Some(peak),
    }
}

/// The request that failed after an entry: what is freed behind it was freed as the error unwound the program, not by a backward pass.
fn failure_after(evidence: &Evidence<'_>, at: EntryId) -> Option<usize> {
    evidence.device.oom.iter().map(|event| event.entry).find(|&entry| entry >= at).map(EntryId::index)
}

fn is_recomputed(evidence: &Evidence<'_>, row: usize) -> bool {
    evidence.device.decided(row).rule == "recomputed"
}

/// Where PyTorch calls a whole model for the program: replicas, shards, compiled code.
const WHOLE_MODEL: [&str; 3] = ["torch/nn/parallel/", "torch/distributed/", "torch/_dynamo/"];

/// A line that calls a module, in one place of the program.
struct Call {
    frame: FrameId,
    /// The line outside of PyTorch that leads to it, where PyTorch's own code calls.
    from: Option<FrameId>,
    /// How often, in a forward pass.
    times: u64,
    /// What all of them keep.
    bytes: u64,
    /// What each of them keeps.
    each_bytes: u64,
    /// What one more call kept, which was under way when the forward pass failed.
    begun_bytes: Option<u64>,
    /// The stacks below it.
    stacks: FxHashSet<StackId>,
}

/// The activations below one line that calls a module.
#[derive(Default)]
struct Below {
    frame: Option<FrameId>,
    /// The line outside of PyTorch that leads to it.
    from: Option<FrameId>,
    /// Frames around it.
    depth: usize,
    bytes: u64,
    by_stack: FxHashMap<StackId, (u64, u64)>,
}

/// The calls whose modules keep most beyond what one of them keeps, none within another.
fn best_calls(evidence: &Evidence<'_>, saved: &[&Lifetime], is_whole: bool) -> Vec<Call> {
    /// Part of all activations, one in so many.
    const MUCH: u64 = 100;
    let lines = CallLines::new(evidence);
    let mut bytes = 0_u64;
    let mut below: FxHashMap<u64, Below> = FxHashMap::default();
    let mut by_stack: FxHashMap<StackId, (u64, u64)> = FxHashMap::default();
    for lifetime in saved {
        let of_stack = by_stack.entry(lifetime.stack).or_default();
        of_stack.0 += 1;
        of_stack.1 = of_stack.1.saturating_add(evidence.bytes(lifetime));
        bytes = bytes.saturating_add(evidence.bytes(lifetime));
    }
    for (&stack, &(count, bytes)) in &by_stack {
        for CallLine { path, depth, frame, from } in lines.of(evidence, stack) {
            let below = below.entry(path).or_default();
            below.frame = Some(frame);
            below.from = from;
            below.depth = depth;
            below.bytes = below.bytes.saturating_add(bytes);
            below.by_stack.insert(stack, (count, bytes));
        }
    }
    let mut calls: Vec<(u64, Below, u64)> = below
        .into_values()
        .filter_map(|below| {
            let major: FxHashMap<StackId, u64> = below
                .by_stack
                .iter()
                .filter(|(_, (_, bytes))| *bytes >= below.bytes / MINOR)
                .map(|(&stack, &(count, _))| (stack, count))
                .collect();
            let counts: Vec<u64> = major.values().copied().collect();
            let most = if is_whole { counts.iter().copied().fold(0, gcd) } else { calls_so_far(&counts) };
            // Of lines that keep little the order is not asked.
            let is_much = most > 1 && below.bytes >= bytes / MUCH;
            let stacks = saved.iter().map(|lifetime| lifetime.stack).filter(|stack| major.contains_key(stack));
            let times = if is_much { most_in_turn(&stacks.collect::<Vec<_>>(), &major, most) } else { most };
            (times > 1).then(|| (below.bytes - below.bytes / times, below, times))
        })
        .collect();
    calls.sort_by_key(|(saving, below, _)| (Reverse(*saving), Reverse(below.depth), below.frame));
    let least = calls.first().map_or(0, |(saving, ..)| saving / LESSER);
    let mut taken: FxHashSet<StackId> = FxHashSet::default();
    let mut best = Vec::new();
    for (at, (saving, outer, _)) in calls.iter().enumerate().take_while(|(_, (saving, ..))| *saving >= least) {
        if best.len() == MOST_CALLS || outer.by_stack.keys().any(|stack| taken.contains(stack)) {
            continue;
        }
        // Of lines within each other that keep the same, the innermost: the one further out may call once what calls the layers.
        let inner = calls[at..]
            .iter()
            .take_while(|(kept, ..)| *kept >= saving - saving / 100 * ALIKE_PERCENT)
            .filter(|(_, below, _)| below.by_stack.keys().all(|stack| outer.by_stack.contains_key(stack)))
            .max_by_key(|(_, below, _)| below.depth);
        taken.extend(outer.by_stack.keys());
        best.extend(inner.and_then(|(_, below, times)| Call::of(below, *times, is_whole)));
    }
    best
}

impl Call {
    /// The line in words; one of PyTorch's own with the line that leads to it.
    fn place(&self, snapshot: &Snapshot) -> String {
        let at = place::frame(snapshot, self.frame);
        match self.from.filter(|&from| from != self.frame) {
            Some(from) => format!("{at}, from {}", place::frame(snapshot, from)),
            None => at,
        }
    }

    fn of(below: &Below, times: u64, is_whole: bool) -> Option<Self> {
        let each = |&(count, bytes): &(u64, u64)| bytes / count.max(1);
        let sum = |parts: &mut dyn Iterator<Item = u64>| parts.fold(0, u64::saturating_add);
        let of_stack = || below.by_stack.values();
        let each_bytes = sum(&mut of_stack().map(|of| each(of).saturating_mul(of.0 / times)));
        // By count: blocks of one line that are rounded differently leave a few bytes, which are no call.
        let begun = sum(&mut of_stack().map(|of| each(of).saturating_mul(of.0 % times)));
        Some(Self {
            frame: below.frame?,
            from: below.from,
            times,
            bytes: below.bytes,
            each_bytes,
            begun_bytes: (!is_whole && begun > 0).then_some(begun),
            stacks: below.by_stack.keys().copied().collect(),
        })
    }
}

/// A line that calls a module.
struct CallLine {
    /// Tells the way to it.
    path: u64,
    /// Frames around it.
    depth: usize,
    frame: FrameId,
    /// The innermost line outside of PyTorch on the way.
    from: Option<FrameId>,
}

/// Which frames call modules.
struct CallLines {
    /// PyTorch's own way from a call to `forward`.
    calls: Vec<bool>,
    /// A module that calls itself, for something beside.
    wraps: Vec<bool>,
    /// Of PyTorch itself.
    of_torch: Vec<bool>,
    /// Of what wraps a whole model, and calls it once in a forward pass.
    of_whole_model: Vec<bool>,
}

impl CallLines {
    fn new(evidence: &Evidence<'_>) -> Self {
        let (snapshot, sites) = (evidence.analysis.snapshot, &evidence.analysis.sites);
        let calls = |(id, frame): (FrameId, Frame)| {
            sites.is_module_call(id) || snapshot.text(frame.name) == "_wrapped_call_impl"
        };
        let wraps = |(_, frame): (FrameId, Frame)| snapshot.text(frame.name) == "__call__";
        let of_torch = |(id, _): (FrameId, Frame)| sites.owner(id) == Owner::Torch;
        let of_whole_model = |(_, frame): (FrameId, Frame)| {
            let file = snapshot.text(frame.filename).replace('\\', "/");
            WHOLE_MODEL.iter().any(|part| file.contains(part))
        };
        Self {
            calls: snapshot.frames.iter().map(calls).collect(),
            wraps: snapshot.frames.iter().map(wraps).collect(),
            of_torch: snapshot.frames.iter().map(of_torch).collect(),
            of_whole_model: snapshot.frames.iter().map(of_whole_model).collect(),
        }
    }

    /// The lines of a stack that call modules, outermost first.
    fn of(&self, evidence: &Evidence<'_>, stack: StackId) -> Vec<CallLine> {
        let frames = if stack.is_recorded() { evidence.analysis.snapshot.stacks.get(stack) } else { &[] };
        // Between two lines of Python may stand the C++ that led from one to the other.
        let is_python = |frame: &FrameId| evidence.analysis.sites.owner(*frame).is_python();
        let frames: Vec<FrameId> = frames.iter().copied().filter(is_python).collect();
        let mut lines = Vec::new();
        let Some(&(mut called_at)) = frames.last() else { return lines };
        let mut path = 0_u64;
        let mut from = None;
        for (depth, pair) in frames.windows(2).rev().enumerate() {
            let (inner, outer) = (pair[0], pair[1]);
            path = (path ^ outer.index() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            if !self.calls[outer.index()] && !self.wraps[outer.index()] {
                called_at = outer;
            }
            if !self.of_torch[outer.index()] && !self.wraps[outer.index()] {
                from = Some(outer);
            }
            if self.calls[inner.index()] && !self.calls[outer.index()] && !self.of_whole_model[called_at.index()] {
                lines.push(CallLine { path, depth, frame: called_at, from });
            }
        }
        lines
    }
}

/// The most calls, a divisor of `most`, of which one after the other makes its blocks, by the stacks of these in order. An encoder of four layers
/// and a decoder of four have as many blocks of each stack as four models would, but in another order.
fn most_in_turn<K: Copy + Eq + Hash>(stacks: &[K], counts: &FxHashMap<K, u64>, most: u64) -> u64 {
    /// Blocks out of turn, one in so many, such as a line has that makes more in some calls than in others.
    const OUT_OF_TURN: usize = 8;
    /// More calls are not looked for: a model has fewer layers.
    const MOST: u64 = 4096;
    let is_in_turn = |times: u64| {
        let mut seen: FxHashMap<K, u64> = FxHashMap::default();
        let mut last = 0;
        let late = stacks.iter().filter(|&&stack| {
            let seen = seen.entry(stack).or_default();
            let call = *seen / (counts[&stack] / times).max(1);
            *seen += 1;
            last = last.max(call);
            call < last
        });
        late.count() * OUT_OF_TURN <= stacks.len()
    };
    let mut divisors = (2..=most.min(MOST)).rev().filter(|times| most.is_multiple_of(*times));
    divisors.find(|&times| is_in_turn(times)).unwrap_or(most.min(1))
}

/// How many calls are over in a forward pass that failed: of the one under way, some blocks are there.
fn calls_so_far(counts: &[u64]) -> u64 {
    let times = counts.iter().copied().min().unwrap_or(0);
    let fits = |&count: &u64| count % times <= count / times;
    if times > 0 && counts.iter().all(fits) { times } else { 0 }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What would not be there: of each call all but its input, until the backward pass comes to it; it never does after the entry `unwound`.
fn changes(evidence: &Evidence<'_>, call: &Call, unwound: Option<usize>) -> Vec<Change> {
    let end = |l: &Lifetime| match evidence.span(l).end {
        end if unwound.is_some_and(|entry| end > entry) => evidence.device.entries.len(),
        end => end,
    };
    let own: Vec<&Lifetime> = evidence
        .of(Category::Activation)
        .filter(|(_, lifetime)| call.stacks.contains(&lifetime.stack))
        .map(|(_, lifetime)| lifetime)
        .collect();
    let passes = evidence.passes();
    let pass_of = |lifetime: &Lifetime| {
        let alloc = lifetime.alloc().map_or(0, EntryId::get);
        passes.partition_point(|pass: &Pass| pass.start <= alloc)
    };
    let mut changes = Vec::new();
    for of_pass in own.chunk_by(|a, b| pass_of(a) == pass_of(b)) {
        let calls = by_call(of_pass, call.times);
        let mut behind: Option<&[&Lifetime]> = None;
        for kept in calls.iter().rev().filter(|kept| !kept.is_empty()) {
            let from = backward_begins(end, kept, behind);
            // What backward is done with before it comes to this call is its output: the input of the call behind.
            let is_output = |lifetime: &&&Lifetime| end(lifetime) < from;
            let without = kept.iter().filter(|l| !is_output(l)).map(|l| {
                let span = evidence.span(l);
                Change::without(span.start..from.min(span.end), evidence.bytes(l))
            });
            changes.extend(without);
            if behind.is_some() && !kept.iter().any(|l| is_output(&l)) {
                changes.push(Change::with(evidence.span(kept[0]).start..from, input_bytes(evidence, kept)));
            }
            behind = Some(kept);
        }
    }
    changes
}

/// The entry from which on a call's own activations are freed: when the call behind it is done with.
fn backward_begins(end: impl Fn(&Lifetime) -> usize, kept: &[&Lifetime], behind: Option<&[&Lifetime]>) -> usize {
    let ends = |lifetimes: &[&Lifetime]| {
        let mut ends: Vec<usize> = lifetimes.iter().map(|l| end(l)).collect();
        ends.sort_unstable();
        ends
    };
    let own = ends(kept);
    let Some(behind) = behind.map(ends) else { return own[0] };
    let done = behind[behind.len() - 1];
    // What is shared by all calls goes last.
    if done <= own[own.len() / 2] { done } else { behind[behind.len() * 9 / 10].min(own[own.len() / 2]) }
}

/// A call's input, where it is not among what the call before keeps: as large as the least of what it keeps itself, biases and
/// statistics not counted.
fn input_bytes(evidence: &Evidence<'_>, kept: &[&Lifetime]) -> u64 {
    let bytes = || kept.iter().map(|l| evidence.bytes(l));
    let sum = bytes().fold(0, u64::saturating_add);
    bytes().filter(|&bytes| bytes >= sum / 64).min().unwrap_or(0)
}

/// The activations of one pass, by which of the calls made them.
fn by_call<'a>(lifetimes: &[&'a Lifetime], times: u64) -> Vec<Vec<&'a Lifetime>> {
    let mut counts: FxHashMap<StackId, (u64, u64)> = FxHashMap::default();
    for lifetime in lifetimes {
        counts.entry(lifetime.stack).or_default().0 += 1;
    }
    // What a forward pass that failed has of one more call comes last.
    let mut calls: Vec<Vec<&Lifetime>> = vec![Vec::new(); usize::try_from(times).unwrap_or(0) + 1];
    let last = calls.len() - 1;
    for lifetime in lifetimes {
        let Some((count, seen)) = counts.get_mut(&lifetime.stack) else { continue };
        let call = *seen / (*count / times).max(1);
        *seen += 1;
        calls[usize::try_from(call).unwrap_or(last).min(last)].push(lifetime);
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of blocks by the letters of their stacks, in order.
    fn calls(stacks: &str) -> u64 {
        let stacks: Vec<char> = stacks.chars().collect();
        let mut counts: FxHashMap<char, u64> = FxHashMap::default();
        for &stack in &stacks {
            *counts.entry(stack).or_default() += 1;
        }
        let most = counts.values().copied().fold(0, gcd);
        most_in_turn(&stacks, &counts, most)
    }

    #[test]
    fn calls_come_one_after_the_other() {
        assert_eq!(calls("abcabcabcabc"), 4);
        assert_eq!(calls("aabaabaab"), 3, "a stack of two blocks a call");
        assert_eq!(calls("abababcdcdcd"), 1, "an encoder and a decoder of one call");
        assert_eq!(calls("ababcdcdababcdcd"), 2, "the same, called twice");
        assert_eq!(calls("abcabcabcabcabcabcacbabc"), 8, "two blocks that change places");
        assert_eq!(calls(""), 0);
    }
}
