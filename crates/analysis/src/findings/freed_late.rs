//! Memory that outlives its iteration until the next one has made the same again: for a while there are two of it.
//!
//! `output = model(batch)` in a loop: the old output is let go only once the new one is there, and with it whatever it keeps.

use highwater_snapshot::EntryId;
use rustc_hash::FxHashMap;

use super::{Finding, Severity, place};
use crate::Analysis;
use crate::callsite::Site;
use crate::counterfactual::{Without, peak_without};
use crate::device::DeviceAnalysis;
use crate::iteration::Iteration;
use crate::lifetime::Lifetime;
use crate::timeline::Total;
use crate::units::{counted, size};

/// Iterations that must show it.
const MIN_ITERATIONS: usize = 2;

/// A saving is worth a word from this share of the peak.
const WORTH_A_SHARE: u64 = 100;

/// One finding for all such sites.
pub(super) fn freed_late(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>) -> Option<Finding> {
    let complete: Vec<&Iteration> = device.iterations.rows.iter().filter(|iteration| iteration.is_complete).collect();
    if complete.len() <= MIN_ITERATIONS {
        return None;
    }
    let late = late_lifetimes(analysis, device, &complete);
    let mut sites: Vec<(Site, u64, Vec<Without>)> = late
        .into_iter()
        .filter(|(_, late)| late.iterations >= MIN_ITERATIONS)
        .map(|(site, late)| (site, late.largest_bytes, late.without))
        .collect();
    sites.sort_by_key(|&(site, bytes, _)| (std::cmp::Reverse(bytes), site));
    let without: Vec<Without> = sites.iter().flat_map(|(.., without)| without.iter().cloned()).collect();
    let peak = device.peak().bytes;
    let saving = peak.saturating_sub(peak_without(device, &without));
    if saving == 0 || saving < peak / WORTH_A_SHARE {
        return None;
    }
    let places: Vec<String> =
        sites.iter().take(3).map(|&(site, bytes, _)| format!("{} at {}", size(bytes), place(analysis, site))).collect();
    let rest = sites.len().saturating_sub(3);
    let more = if rest == 0 { String::new() } else { format!("; and {}", counted(rest, "more place", "more places")) };
    Some(Finding {
        id: "freed-late",
        severity: Severity::Warning,
        title: format!("{} of the peak is the iteration before, which was not let go yet", size(saving)),
        detail: format!(
            "still alive while the next iteration makes the same again: {}{more}; freed at the iteration's end, the peak would \
             be {}",
            places.join("; "),
            size(peak - saving)
        ),
        saving_bytes: Some(saving),
        change: Some("`del` these results at the end of the loop's body, or make them inside a function".to_owned()),
    })
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
    without: Vec<Without>,
}

impl Late {
    fn add(&mut self, iteration: usize, without: Without) {
        if self.last_iteration != Some(iteration) {
            self.last_iteration = Some(iteration);
            self.iterations += 1;
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(without.bytes);
        self.largest_bytes = self.largest_bytes.max(self.bytes);
        self.without.push(without);
    }
}

/// Lifetimes that begin in one complete iteration and end in the next, after the same stack has allocated there again.
fn late_lifetimes(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    complete: &[&Iteration],
) -> FxHashMap<Site, Late> {
    let iteration_of = |entry: usize| {
        let at = complete.partition_point(|iteration| iteration.entries.end <= entry);
        complete.get(at).filter(|iteration| iteration.entries.contains(&entry)).map(|_| at)
    };
    // The first allocation of each stack in each iteration.
    let mut first = FxHashMap::default();
    for lifetime in &device.lifetimes.rows {
        let Some(alloc) = lifetime.alloc() else { continue };
        if let Some(iteration) = iteration_of(alloc.index()) {
            first.entry((lifetime.stack, iteration)).or_insert(alloc.index());
        }
    }
    let mut sites: FxHashMap<Site, Late> = FxHashMap::default();
    for lifetime in &device.lifetimes.rows {
        let Some((iteration, freed)) = crosses(lifetime, &iteration_of) else { continue };
        let again = first.get(&(lifetime.stack, iteration + 1));
        // An iteration's first entries free what the one before no longer needs: that is not late.
        if again.is_none_or(|&again| again >= freed) || !lifetime.stack.is_recorded() {
            continue;
        }
        // Requested bytes count until the block is back in its pool, allocated bytes until its owner lets go.
        let (bytes, until) = match device.by {
            Total::Requested => (lifetime.requested_bytes, lifetime.free_completed().map_or(freed, EntryId::index)),
            _ => (device.blocks().of(lifetime, analysis.snapshot), freed),
        };
        let without = Without { entries: complete[iteration].entries.end..until, bytes };
        sites.entry(device.site(lifetime, &analysis.sites)).or_default().add(iteration, without);
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
