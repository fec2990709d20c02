//! Memory that each iteration leaves behind.

use rustc_hash::FxHashSet;

use super::{Evidence, Finding, Severity};
use crate::callsite::Site;
use crate::counterfactual::Change;
use crate::growth::{Growth, is_kept_by_design};
use crate::place::place;
use crate::units::{counted, size};

/// Sites that are named.
const NAMED: usize = 3;

/// One finding for all growing sites.
pub(super) fn growing(evidence: &Evidence<'_>) -> Option<Finding> {
    let growth = &evidence.device.growth;
    let first = growth.first()?;
    let sum = growth.iter().map(Growth::bytes_per_iteration).fold(0, u64::saturating_add);
    // A loss is small, and the line to change all the same.
    let (losses, others): (Vec<&Growth>, Vec<&Growth>) = growth.iter().partition(|growth| growth.is_loss);
    let named: Vec<String> = others.iter().take(NAMED).chain(&losses).map(|growth| at(evidence, growth)).collect();
    let rest = others.len().saturating_sub(NAMED);
    let more = if rest == 0 { String::new() } else { format!("; and {}", counted(rest, "more place", "more places")) };
    let title = format!("memory grows by {} an iteration", size(sum));
    let detail =
        format!("left behind in {} of {} iterations: {}{more}", first.iterations, first.counted, named.join("; "));
    let change = if losses.is_empty() {
        "let go of what these lines keep: a list of results needs numbers (`.item()`) or copies on the host, a cache a bound"
    } else {
        "keep `loss.item()` where the loss is appended or summed up, for a loss that is kept keeps its graph; let go of what \
         the other lines keep"
    };
    let finding = Finding::new("growth", Severity::Warning, title, detail).change(change);
    Some(match evidence.peak.bytes.saturating_sub(evidence.peak_with(&let_go(evidence))) {
        0 => finding,
        saving => finding.saves(saving),
    })
}

/// What the growing sites leave behind for good, gone at the end of each iteration.
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

/// A site, with what stays there.
fn at(evidence: &Evidence<'_>, growth: &Growth) -> String {
    let at = place(evidence.analysis, growth.site);
    let bytes = size(growth.bytes_per_iteration());
    if growth.is_loss {
        return format!("the loss itself, made at {at}, which something keeps: a list that it is appended to, a sum");
    }
    format!("{bytes} an iteration in {} at {at}", counted(growth.count_per_iteration(), "allocation", "allocations"))
}
