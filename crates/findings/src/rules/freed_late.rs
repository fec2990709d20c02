//! Memory that outlives its iteration until the next one has made the same again: for a while there are two of it.
//!
//! `output = model(batch)` in a loop: the old output is let go only once the new one is there, and with it whatever it keeps.

use highwater_analysis::callsite::Site;
use highwater_analysis::iteration::Iteration;
use highwater_analysis::lifetime::Lifetime;
use highwater_units::size;
use highwater_whatif::counterfactual::Change;
use rustc_hash::FxHashMap;

use super::{Evidence, Finding, Severity};

/// Iterations that must show it.
const MIN_ITERATIONS: usize = 2;

/// One finding for all such sites.
pub(super) fn freed_late(evidence: &Evidence<'_>) -> Option<Finding> {
    let iterations = &evidence.device.iterations.rows;
    let complete: Vec<&Iteration> = iterations.iter().filter(|iteration| iteration.is_complete).collect();
    if complete.len() <= MIN_ITERATIONS {
        return None;
    }
    let mut late: Vec<(Site, Late)> = late_lifetimes(evidence, &complete).into_iter().collect();
    late.retain(|(_, late)| late.iterations >= MIN_ITERATIONS);
    let changes: Vec<Change> = late.iter().flat_map(|(_, late)| late.changes.iter().cloned()).collect();
    let saving = evidence.worth(evidence.peak_with(&changes))?;
    let title = format!("{} of the peak still belongs to the previous iteration", size(saving));
    let detail = format!(
        "still alive while the next iteration allocates the same again: {}; if they were freed at the end of each \
         iteration, the peak would be {}",
        evidence.places(late.iter().map(|(site, late)| (*site, late.largest_bytes))),
        size(evidence.peak.bytes - saving)
    );
    let change = "`del` these results at the end of the loop body, or compute them inside a function";
    Some(Finding::new("freed-late", Severity::Warning, title, detail).saves(saving).change(change))
}

/// What is freed late at one site.
#[derive(Default)]
struct Late {
    /// Iterations that it happened in.
    iterations: usize,
    last_iteration: Option<usize>,
    /// The most of one iteration.
    largest_bytes: u64,
    bytes: u64,
    changes: Vec<Change>,
}

impl Late {
    fn add(&mut self, iteration: usize, bytes: u64, change: Change) {
        if self.last_iteration != Some(iteration) {
            self.last_iteration = Some(iteration);
            self.iterations += 1;
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.largest_bytes = self.largest_bytes.max(self.bytes);
        self.changes.push(change);
    }
}

/// Lifetimes that begin in one complete iteration and end in the next, after the same stack has allocated there again.
fn late_lifetimes(evidence: &Evidence<'_>, complete: &[&Iteration]) -> FxHashMap<Site, Late> {
    let iteration_of = |entry: usize| {
        let at = complete.partition_point(|iteration| iteration.entries.end <= entry);
        complete.get(at).filter(|iteration| iteration.entries.contains(&entry)).map(|_| at)
    };
    // The first allocation of each stack in each iteration.
    let mut first = FxHashMap::default();
    for (_, lifetime) in evidence.rows() {
        let Some(alloc) = lifetime.alloc() else { continue };
        if let Some(iteration) = iteration_of(alloc.index()) {
            first.entry((lifetime.stack, iteration)).or_insert(alloc.index());
        }
    }
    let mut sites: FxHashMap<Site, Late> = FxHashMap::default();
    for (_, lifetime) in evidence.rows() {
        let Some((iteration, freed)) = crosses(lifetime, &iteration_of) else { continue };
        let again = first.get(&(lifetime.stack, iteration + 1));
        // An iteration's first entries free what the one before no longer needs: that is not late.
        if again.is_none_or(|&again| again >= freed) || !lifetime.stack.is_recorded() {
            continue;
        }
        let bytes = evidence.bytes(lifetime);
        let change = Change::without(complete[iteration].entries.end..evidence.span(lifetime).end, bytes);
        sites.entry(evidence.site(lifetime)).or_default().add(iteration, bytes, change);
    }
    sites
}

/// The iteration in which a lifetime begins, if its owner frees it in the next one, and the entry of that.
fn crosses(lifetime: &Lifetime, iteration_of: &impl Fn(usize) -> Option<usize>) -> Option<(usize, usize)> {
    let alloc = lifetime.alloc()?.index();
    let freed = lifetime.free_requested().or(lifetime.free_completed())?.index();
    let (from, to) = (iteration_of(alloc)?, iteration_of(freed)?);
    (to == from + 1).then_some((from, freed))
}
