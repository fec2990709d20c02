//! Weights in 16 bits that autocast keeps until its block ends, though nothing comes back to them.
//!
//! In training the graph keeps them anyway. Without a graph each is used once, unless a module is called again.

use highwater_analysis::lifetime::Lifetime;
use highwater_snapshot::EntryId;
use highwater_units::{counted, percent_of, size};
use highwater_whatif::counterfactual::Change;
use rustc_hash::FxHashSet;

use super::{Evidence, Finding, Severity};

/// Cached copies below which there is no cache to speak of.
const MIN_COPIES: usize = 4;

/// Python's end of a `with torch.autocast(…)`, which clears the cache.
///
/// # Source
/// PyTorch v2.11, `torch/amp/autocast_mode.py`: `__exit__` calls `torch.clear_autocast_cache()`.
fn ends_autocast(name: &str, file: &str) -> bool {
    name == "__exit__" && file.replace('\\', "/").ends_with("torch/amp/autocast_mode.py")
}

/// One finding for every block under autocast.
pub(super) fn cache(evidence: &Evidence<'_>) -> Option<Finding> {
    let peak = evidence.peak.entry?;
    let ends = evidence.stacks_with(ends_autocast);
    if ends.is_empty() {
        return None;
    }
    let stacks = evidence.device.entries.stacks();
    let is_cached = |lifetime: &Lifetime| {
        let freed = lifetime.free_requested().or(lifetime.free_completed());
        freed.is_some_and(|freed| ends.has(stacks[freed.index()]))
    };
    let cached: Vec<(usize, &Lifetime)> =
        evidence.rows().filter(|(_, lifetime)| lifetime.alloc().is_some() && is_cached(lifetime)).collect();
    let at_peak: Vec<&Lifetime> = cached.iter().map(|&(_, l)| l).filter(|l| l.is_live_after(peak)).collect();
    if at_peak.len() < MIN_COPIES {
        return None;
    }
    // An operator's copies are of use until it has made its result: the next block that is no copy.
    let is_copy: FxHashSet<usize> = cached.iter().map(|&(row, _)| row).collect();
    let mut result = None;
    let mut changes: Vec<Change> = Vec::with_capacity(cached.len());
    for (row, lifetime) in evidence.device.lifetimes.rows.iter().enumerate().rev() {
        if !is_copy.contains(&row) {
            result = lifetime.alloc().map(EntryId::index);
            continue;
        }
        let span = evidence.span(lifetime);
        let used = result.map_or(span.end, |result| result + 1).clamp(span.start, span.end);
        changes.push(Change::without(used..span.end, evidence.bytes(lifetime)));
    }
    let saving = evidence.worth(evidence.peak_with(&changes))?;
    let bytes = at_peak.iter().map(|copy| evidence.bytes(copy)).fold(0, u64::saturating_add);
    let title = format!("autocast caches {} of 16-bit weights at the peak", size(bytes));
    let detail = format!(
        "{}, {} of the peak, cast from 32-bit weights and cached until the autocast block ends: {}",
        counted(at_peak.len(), "copy", "copies"),
        percent_of(bytes, evidence.peak.bytes),
        evidence.places(at_peak.iter().map(|copy| (evidence.site(copy), evidence.bytes(copy))))
    );
    Some(Finding::new("autocast-cache", Severity::Warning, title, detail).saves_about(saving).change(
        "use `torch.autocast(…, cache_enabled=False)` for inference where each weight is used once, or convert the \
         weights to 16 bits (`model.to(torch.bfloat16)`), which needs no copies",
    ))
}
