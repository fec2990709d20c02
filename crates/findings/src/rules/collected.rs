//! Equal blocks of one line that are alive at a dump without a history: results that something collects.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use highwater_analysis::callsite::Site;
use highwater_analysis::category::Category;
use highwater_analysis::growth::is_kept_by_design;
use highwater_analysis::place::place;
use highwater_snapshot::StackId;
use highwater_units::size;
use rustc_hash::FxHashMap;

use super::growing::gcd;
use super::{Evidence, Finding, Severity};

/// Fewer may be what one call has made.
const MIN_COUNT: usize = 5;
/// So many copies of weights are more than a model, its average and a teacher.
const MIN_COPIES: usize = 3;
/// Of so many sizes: fewer may be chance.
const MIN_SIZES: usize = 3;
/// Smaller gradients have sizes that others have by chance.
const MIN_GRADIENT: u64 = 4096;
/// Fewer gradients of a size may be those of layers at the ends.
const MIN_LAYERS: usize = 3;
/// Less, in parts of what is alive, is a detail.
const LEAST_PART: u64 = 20;

/// Nothing tells when the blocks were made. But where little else that a pass makes is alive, as many equal blocks of one line are the
/// results of as many calls; unless there are as many layers, or a constructor made them.
pub(super) fn collected_results(evidence: &Evidence<'_>) -> Option<Finding> {
    let device = evidence.device;
    if device.has_history() {
        return None;
    }
    let snapshot = evidence.analysis.snapshot;
    let (mut made, mut kept) = (FxHashMap::<Site, Made>::default(), FxHashMap::<u64, usize>::default());
    let mut gradients: FxHashMap<u64, usize> = FxHashMap::default();
    // What an entry of the state has freed has the stack of its free.
    for (row, lifetime) in evidence.rows().filter(|(_, lifetime)| lifetime.block().is_some()) {
        let bytes = lifetime.requested_bytes;
        let category = device.decided(row).category;
        if category == Category::Gradient && bytes >= MIN_GRADIENT {
            *gradients.entry(bytes).or_default() += 1;
        }
        if is_kept_by_design(category) || snapshot.stacks.get(lifetime.stack).is_empty() {
            *kept.entry(bytes).or_default() += 1;
        } else {
            let of = made.entry(evidence.analysis.sites.site(lifetime.stack)).or_default();
            of.stack = Some(lifetime.stack);
            *of.counts.entry(bytes).or_default() += 1;
        }
    }
    let (&site, most) = made.iter().max_by_key(|(site, made)| (made.bytes(), Reverse(**site)))?;
    // The graph of one pass has several blocks of a size at the lines of its layers; a batch and a loss are one each.
    let of_layers = made.values().filter(|made| made.counts.values().any(|&count| count > 1));
    let all = of_layers.map(Made::bytes).fold(0, u64::saturating_add);
    let in_all = most.bytes();
    // One result of each call, or several of one size each.
    let times = most.counts.values().fold(0, |times, &count| gcd(count, times));
    let is_even = most.counts.values().all(|&count| count == times);
    // Copies of a model: every size is one of its weights, and not all of those come as often.
    let are_weights = most.counts.len() >= MIN_SIZES && most.counts.keys().all(|bytes| kept.contains_key(bytes));
    // What a module makes in its forward pass is no copy, whatever its size.
    let is_made_by_module = || {
        let frames = most.stack.into_iter().flat_map(|stack| snapshot.stacks.get(stack));
        frames.into_iter().any(|&frame| evidence.analysis.sites.is_module_call(frame))
    };
    let are_copies = are_weights
        && times >= MIN_COPIES
        && !is_made_by_module()
        && most.counts.keys().any(|bytes| kept[bytes] % times != 0);
    // The weights of a layer come once for each, so most of a model of so many layers come as often, or a multiple.
    let several = || kept.values().filter(|&&count| count > 1);
    let as_often: usize = several().filter(|&count| count % times == 0).sum();
    let is_of_layers = as_often > 0 && as_often * 2 >= several().sum();
    // A line that a layer calls makes no more than one block for each layer in a call, and gradients are as many as the layers or a multiple.
    let layers = gradients.values().filter(|&&count| count > 1).fold(0, |layers, &count| gcd(count, layers));
    let are_of_calls = layers >= MIN_LAYERS && most.counts.values().any(|&count| count >= MIN_COUNT && count > layers);
    let are_results = times >= MIN_COUNT && is_even && !is_of_layers || are_of_calls;
    let is_constructed = || {
        let frames = most.stack.into_iter().flat_map(|stack| snapshot.stacks.get(stack));
        frames.map(|&frame| snapshot.text(snapshot.frames.get(frame).name)).any(|name| name.ends_with("__init__"))
    };
    let is_detail = in_all < evidence.peak.bytes / LEAST_PART || all.saturating_sub(in_all) > in_all / 2;
    if !(are_copies || are_results) || is_detail || is_constructed() {
        return None;
    }
    if are_copies {
        return Some(copies(evidence, site, (times, most.counts.len(), in_all)));
    }
    let count = if is_even { times } else { most.counts.values().sum() };
    let title = match most.counts.len() {
        sizes if !is_even => {
            format!("{count} blocks of {sizes} sizes from one line are alive at once: {}", size(in_all))
        }
        1 => format!("{count} blocks of equal size from one line are alive at once: {}", size(in_all)),
        sizes => format!("{count} blocks of each of {sizes} sizes from one line are alive at once: {}", size(in_all)),
    };
    let each = size(most.counts.keys().fold(0, |sum, &bytes| sum.saturating_add(bytes)));
    let place = place(evidence.analysis, site);
    let detail = match most.counts.len() {
        _ if !is_even => {
            format!(
                "allocated at {place}: results of several calls that the program collects, or buffers that it allocates on purpose"
            )
        }
        1 => format!(
            "each has {each} and was allocated at {place}: {count} results that the program collects, or buffers that it allocates \
             on purpose"
        ),
        sizes => format!(
            "{each} in {sizes} blocks, allocated {count} times at {place}: results that the program collects, or buffers that it \
             allocates on purpose"
        ),
    };
    let change = "collect numbers (`.item()`) or copies on the host (`.cpu()`), and limit how many tensors stay on \
     the GPU";
    Some(Finding::new("collected-results", Severity::Info, title, detail).change(change))
}

/// So many copies of weights, of so many sizes, of so many bytes.
fn copies(evidence: &Evidence<'_>, site: Site, (times, sizes, bytes): (usize, usize, u64)) -> Finding {
    let title = format!("{times} copies of the weights from one line are alive at once: {}", size(bytes));
    let detail = format!(
        "allocated at {}: blocks of {sizes} sizes, each a size of the model's weights, and of each {times} blocks or a multiple",
        place(evidence.analysis, site)
    );
    let change =
        "keep copies of the weights on the host (`v.detach().cpu()`) or in a file, or free the earlier copy first";
    Finding::new("collected-results", Severity::Info, title, detail).change(change)
}

/// What one line has made that is alive.
#[derive(Default)]
struct Made {
    /// That of one of the blocks.
    stack: Option<StackId>,
    /// Blocks by their size.
    counts: BTreeMap<u64, usize>,
}

impl Made {
    fn bytes(&self) -> u64 {
        self.counts.iter().map(|(&bytes, &count)| bytes.saturating_mul(count as u64)).fold(0, u64::saturating_add)
    }
}
