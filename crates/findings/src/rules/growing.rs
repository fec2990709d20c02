//! Memory that each iteration leaves behind.

use std::cmp::Reverse;

use highwater_analysis::callsite::Site;
use highwater_analysis::growth::{Growth, is_kept_by_design};
use highwater_analysis::lifetime::Lifetime;
use highwater_analysis::place::place;
use highwater_snapshot::StackId;
use highwater_units::{counted, size};
use highwater_whatif::counterfactual::Change;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Evidence, Finding, Severity};

/// Most call sites that the finding names.
const NAMED: usize = 3;

/// One finding for all growing sites.
pub(super) fn growing(evidence: &Evidence<'_>) -> Option<Finding> {
    let growth = &evidence.device.growth;
    let Some(first) = growth.first() else { return graphs_at_dump(evidence) };
    let sum = growth.iter().map(Growth::bytes_per_iteration).fold(0, u64::saturating_add);
    // A loss is small, and the line to change all the same.
    let (losses, others): (Vec<&Growth>, Vec<&Growth>) = growth.iter().partition(|growth| growth.is_loss);
    let named: Vec<String> = others.iter().take(NAMED).chain(&losses).map(|growth| at(evidence, growth)).collect();
    let rest = others.len().saturating_sub(NAMED);
    let more =
        if rest == 0 { String::new() } else { format!("; and {}", counted(rest, "more call site", "more call sites")) };
    let title = if others.is_empty() {
        "the loss of every iteration is kept".to_owned()
    } else {
        format!("memory grows by {} per iteration", size(sum))
    };
    let detail =
        format!("not freed after {} of {} iterations: {}{more}", first.iterations, first.counted, named.join("; "));
    let change = if others.iter().chain(&losses).all(|growth| growth.is_of_backward) {
        "find the code that keeps these gradients, such as a hook (`register_full_backward_hook`, `register_hook`): store numbers \
         (`grad.norm().item()`) or copies on the host, and remove a hook when it is done"
    } else if losses.is_empty() {
        "free the tensors that these lines keep: store numbers (`.item()`) or copies on the host in a list of \
         results, and limit the size of a cache"
    } else {
        "store `loss.item()` where the loss is appended or summed: a stored loss tensor keeps its whole graph \
         alive; free the tensors that the other lines keep"
    };
    let finding = Finding::new("growth", Severity::Warning, title, detail).change(change);
    Some(match evidence.peak.bytes.saturating_sub(evidence.peak_with(&let_go(evidence))) {
        0 => finding,
        saving => finding.saves(saving),
    })
}

/// Finds a leak in a state without a history, by its counts. Where a graph is kept for each iteration, every line has as many live blocks
/// as there were iterations, or a multiple of that. A line in a layer also has a block for each layer, so a line outside of modules counts.
fn graphs_at_dump(evidence: &Evidence<'_>) -> Option<Finding> {
    /// Fewer blocks may belong to the last two iterations.
    const MIN_COUNT: usize = 3;
    /// Lines of modules that prove a graph; one is enough if it has this part of the live bytes.
    const MIN_PLACES: usize = 3;
    const LEAST_PART: u64 = 20;
    /// Bytes of a loss in the widest type.
    const NUMBER: u64 = 8;
    let device = evidence.device;
    if device.has_history() {
        return None;
    }
    let snapshot = evidence.analysis.snapshot;
    let sites = &evidence.analysis.sites;
    let is_in_module = |stack: StackId| snapshot.stacks.get(stack).iter().any(|&frame| sites.is_module_call(frame));
    let mut groups: FxHashMap<(StackId, u64), usize> = FxHashMap::default();
    let is_alive = |lifetime: &Lifetime| lifetime.block().is_some() && !snapshot.stacks.get(lifetime.stack).is_empty();
    for (row, lifetime) in evidence.rows().filter(|(_, lifetime)| is_alive(lifetime)) {
        if !is_kept_by_design(device.decided(row).category) {
            *groups.entry((lifetime.stack, lifetime.requested_bytes)).or_default() += 1;
        }
    }
    let mut sizes_of: FxHashMap<StackId, usize> = FxHashMap::default();
    for (stack, _) in groups.keys() {
        *sizes_of.entry(*stack).or_default() += 1;
    }
    let (inside, outside): (Vec<_>, Vec<_>) = groups.iter().partition(|((stack, _), _)| is_in_module(*stack));
    let mut counts_inside: Vec<usize> = inside.iter().map(|(_, count)| **count).collect();
    counts_inside.sort_unstable();
    counts_inside.dedup();
    // How many iterations a line outside shows: a number is made once in each, others share a divisor with those of modules.
    let kept = |size: u64, count: usize| match size {
        0..=NUMBER => count,
        _ => counts_inside.iter().map(|&inside| gcd(count, inside)).max().unwrap_or(0),
    };
    // Where a loss is made, nothing else is: a line that makes numbers among others works on parameters.
    let is_of_parameters = |(stack, size): (StackId, u64)| size <= NUMBER && sizes_of[&stack] > 1;
    let outside = outside.into_iter().filter(|(key, _)| !is_of_parameters(**key));
    let shown = outside.map(|(&key, &count)| (kept(key.1, count), Reverse(key), count));
    let (iterations, Reverse((stack, bytes)), count) = shown.filter(|shown| shown.0 >= MIN_COUNT).max()?;
    // A graph has what several lines of modules save for its backward pass, or much of one: outputs that a list collects are made at one
    // or two. Of a loss whose backward pass has run, hardly more than the number is left; but an index is as large as the widest.
    let saved = || inside.iter().filter(|(_, count)| **count % iterations == 0);
    let saved_bytes =
        saved().map(|((_, size), count)| size.saturating_mul(**count as u64)).fold(0, u64::saturating_add);
    if bytes >= NUMBER && saved().count() < MIN_PLACES && saved_bytes < evidence.peak.bytes / LEAST_PART {
        return None;
    }
    let held = groups.iter().filter(|(_, count)| **count % iterations == 0);
    let held = held.map(|(&(_, size), &count)| size.saturating_mul(count as u64)).fold(0, u64::saturating_add);
    let title = format!("the graphs of {iterations} iterations seem to be alive: {}", size(held));
    let detail = format!(
        "{count} blocks of {} that were all allocated at {} are alive at once, and the other lines have as many \
         blocks or a multiple",
        size(bytes),
        place(evidence.analysis, sites.site(stack))
    );
    let change = "store `loss.item()` where a loss is appended or summed, and `.detach()` other stored tensors: a \
                  stored tensor keeps its whole graph alive";
    Some(Finding::new("growth", Severity::Warning, title, detail).change(change))
}

pub(super) fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The blocks that growing sites leave behind for good, as if freed at the end of their iteration.
fn let_go(evidence: &Evidence<'_>) -> Vec<Change> {
    let growing: FxHashSet<Site> = evidence.device.growth.iter().map(|growth| growth.site).collect();
    let iterations = &evidence.device.iterations.rows;
    let last = iterations.iter().rfind(|iteration| iteration.is_complete).map_or(0, |last| last.entries.end);
    let changes = evidence.rows().filter_map(|(row, lifetime)| {
        let (alloc, end) = (lifetime.alloc()?.index(), evidence.span(lifetime).end);
        let own = iterations.get(iterations.partition_point(|iteration| iteration.entries.end <= alloc))?;
        // What the first iteration leaves by design is no leak.
        let category = evidence.device.decided(row).category;
        let stays = end > last && own.entries.contains(&alloc) && !is_kept_by_design(category);
        let is_left = stays && growing.contains(&evidence.site(lifetime));
        is_left.then(|| Change::without(own.entries.end..end, evidence.bytes(lifetime)))
    });
    changes.collect()
}

/// A call site, and the blocks that stay there.
fn at(evidence: &Evidence<'_>, growth: &Growth) -> String {
    let at = place(evidence.analysis, growth.site);
    let bytes = size(growth.bytes_per_iteration());
    if growth.is_loss {
        return format!("the loss itself, allocated at {at} and kept by a list that it is appended to, or by a sum");
    }
    format!("{bytes} per iteration in {} at {at}", counted(growth.count_per_iteration(), "allocation", "allocations"))
}
