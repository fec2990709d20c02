//! What is fed in: all of it at once, too many batches ahead, in ever other sizes, or more than fits.

use highwater_analysis::callsite::Site;
use highwater_analysis::category::Category;
use highwater_analysis::lifetime::Lifetime;
use highwater_snapshot::StackId;
use highwater_units::{counted, percent_of, size};
use highwater_whatif::counterfactual::Change;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Evidence, Finding, LEAST_WORTH_BYTES, Severity};

/// Inputs below this share of the peak are not worth a word, in percent.
const WORTH_PERCENT: u64 = 5;

/// Batches ahead that hide the copy to the device: one in use, one that is copied.
const BATCHES_AHEAD: usize = 2;

/// Sizes that make a shape vary.
const MIN_SIZES: usize = 4;

/// All data is on the device, and each batch is made of it there.
pub(super) fn data_on_device(evidence: &Evidence<'_>) -> Option<Finding> {
    let iterations = &evidence.device.iterations.rows;
    let first = iterations.first()?.entries.start;
    let last = iterations.last()?.entries.start;
    let (mut kept, mut fed): (Vec<&Lifetime>, FxHashSet<usize>) = (Vec::new(), FxHashSet::default());
    for (row, input) in evidence.of(Category::Input) {
        let span = evidence.span(input);
        if span.start < first && span.end > last && evidence.device.decided(row).rule == "fed" {
            kept.push(input);
        } else {
            fed.insert(iterations.partition_point(|row| row.entries.start <= span.start));
        }
    }
    let bytes = kept.iter().map(|l| evidence.bytes(l)).fold(0, u64::saturating_add);
    // One batch that is used again and again is no data set: of a data set, batches are made.
    if bytes < evidence.share_of_peak(WORTH_PERCENT) || iterations.len() < 2 || fed.len() < iterations.len() / 4 * 3 {
        return None;
    }
    let saving = evidence.worth(evidence.peak_without(kept.iter().copied()))?;
    let title = format!("{} of data stays on the GPU throughout", size(bytes));
    let detail = format!(
        "{} of the peak; every iteration takes its batch from it: {}",
        percent_of(bytes, evidence.peak.bytes),
        evidence.places(kept.iter().map(|l| (evidence.site(l), evidence.bytes(l))))
    );
    Some(Finding::new("data-on-device", Severity::Warning, title, detail).saves_about(saving).change(
        "keep the data in pinned host memory (`DataLoader(…, pin_memory=True)`), and move one batch at a time \
         (`.to(device, non_blocking=True)`)",
    ))
}

/// More batches wait on the device than hide the copy.
pub(super) fn prefetch(evidence: &Evidence<'_>) -> Option<Finding> {
    let peak = evidence.peak.entry?;
    // A queue is filled at one line, from several.
    let mut by_site: FxHashMap<(Site, u64), Vec<&Lifetime>> = FxHashMap::default();
    for (_, input) in
        evidence.of(Category::Input).filter(|(_, input)| input.alloc().is_some() && input.stack.is_recorded())
    {
        by_site.entry((evidence.site(input), input.requested_bytes)).or_default().push(input);
    }
    let mut changes = Vec::new();
    let (mut most, mut sites) = (0, Vec::new());
    for queue in by_site.values() {
        let waiting = queue.iter().filter(|batch| batch.is_live_after(peak)).count();
        if waiting <= BATCHES_AHEAD || !is_queue(evidence, queue) || !outlasts_iterations(evidence, queue) {
            continue;
        }
        most = most.max(waiting);
        let at_peak = queue.iter().filter(|batch| batch.is_live_after(peak));
        sites.extend(at_peak.map(|batch| (evidence.site(batch), evidence.bytes(batch))));
        // Each batch comes only when the one before is done with.
        changes.extend(queue.windows(2).map(|pair| {
            let (before, batch) = (evidence.span(pair[0]), evidence.span(pair[1]));
            Change::without(batch.start..before.end.min(batch.end), evidence.bytes(pair[1]))
        }));
    }
    let saving = evidence.worth(evidence.peak_with(&changes))?;
    let title = format!("{} wait on the GPU at the peak", counted(most, "batch", "batches"));
    let detail = format!("a loader or queue prefetches to the GPU: {}", evidence.places(sites.into_iter()));
    Some(Finding::new("device-prefetch", Severity::Warning, title, detail).saves_about(saving).change(
        "prefetch on the host (`DataLoader(…, prefetch_factor=…, pin_memory=True)`), and only one batch on the GPU",
    ))
}

/// Whether batches go in the order they came, one for one.
fn is_queue(evidence: &Evidence<'_>, batches: &[&Lifetime]) -> bool {
    let end = evidence.device.entries.len();
    let spans: Vec<_> = batches.iter().map(|batch| evidence.span(batch)).collect();
    let in_order = spans.windows(2).all(|pair| pair[0].end <= pair[1].end || pair[1].end == end);
    // Between two that go, another comes.
    let freed: Vec<usize> = spans.iter().map(|span| span.end).filter(|&freed| freed < end).collect();
    let come_before = |entry: usize| spans.partition_point(|span| span.start < entry);
    let steady = freed.windows(2).filter(|pair| come_before(pair[0]) < come_before(pair[1])).count();
    in_order && freed.len() >= 2 && steady * 2 >= freed.len() - 1
}

/// Whether most batches are there through more iterations than those ahead that are of use.
fn outlasts_iterations(evidence: &Evidence<'_>, batches: &[&Lifetime]) -> bool {
    let iterations = &evidence.device.iterations.rows;
    let iteration_of = |entry: usize| iterations.partition_point(|iteration| iteration.entries.end <= entry);
    let lasting = batches.iter().map(|batch| evidence.span(batch));
    let lasting = lasting.filter(|span| iteration_of(span.end) - iteration_of(span.start) >= BATCHES_AHEAD).count();
    lasting * 2 > batches.len()
}

/// Batches vary in size, and free blocks of one size do not serve another.
pub(super) fn varying_shapes(evidence: &Evidence<'_>) -> Option<Finding> {
    let device = evidence.device;
    let reserved = device.timeline.reserved_peak().bytes;
    let unused = reserved.saturating_sub(device.timeline.active_peak().bytes);
    // What lay free before the recording began was left by batches that it does not show.
    let unused = unused.min(reserved.saturating_sub(device.timeline.start().reserved_bytes));
    if device.recorded.is_cut || unused < reserved / 10 || unused < LEAST_WORTH_BYTES {
        return None;
    }
    let mut by_stack: FxHashMap<StackId, Vec<u64>> = FxHashMap::default();
    for (_, input) in
        evidence.of(Category::Input).filter(|(_, input)| input.alloc().is_some() && input.stack.is_recorded())
    {
        by_stack.entry(input.stack).or_default().push(input.requested_bytes);
    }
    let varying = by_stack.into_iter().filter_map(|(stack, mut sizes)| {
        let batches = sizes.len();
        sizes.sort_unstable();
        sizes.dedup();
        // As many batches as sizes: a site that makes parts of one batch has the same sizes each time.
        (sizes.len() >= MIN_SIZES && sizes.len() * 2 > batches).then_some((stack, sizes))
    });
    let (_, sizes) = varying.max_by_key(|(stack, sizes)| (sizes.last().copied(), std::cmp::Reverse(*stack)))?;
    let (least, most) = (*sizes.first()?, *sizes.last()?);
    if most / 4 < least / 3 {
        return None;
    }
    let title = format!("batches come in {} sizes, and {} more is reserved than used", sizes.len(), size(unused));
    let detail = format!(
        "inputs take from {} to {}; blocks that fitted one batch do not fit the next, so the reserved peak is {} \
         where at most {} is active",
        size(least),
        size(most),
        size(reserved),
        size(device.timeline.active_peak().bytes)
    );
    Some(Finding::new("varying-shapes", Severity::Warning, title, detail).change(
        "run the longest batch first, so that the others reuse its memory; pad to a few lengths; or set \
         `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`",
    ))
}

/// What grows with the batch: from one recording no more than a bound.
pub(super) fn batch_size(evidence: &Evidence<'_>) -> Option<Finding> {
    evidence.device.iterations.rows.first()?;
    let bound = crate::batch::bound(evidence.device, evidence.analysis.snapshot)?;
    if bound.batch_bytes < evidence.share_of_peak(WORTH_PERCENT) {
        return None;
    }
    let title = format!(
        "at most {} of the peak scales with the batch; {} is fixed",
        size(bound.batch_bytes),
        size(bound.fixed_bytes)
    );
    let detail = "parameters, their gradients, optimizer state and workspaces do not depend on the batch; inputs, \
                  activations and temporaries may grow with it"
        .to_owned();
    let change = format!(
        "a batch twice as large needs at most {} more; to fit a line, run `highwater diff` on recordings of two \
         batch sizes",
        size(bound.doubling_adds_bytes())
    );
    Some(Finding::new("batch-size", Severity::Info, title, detail).change(change))
}
