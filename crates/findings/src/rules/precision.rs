//! How wide the numbers are, as far as sizes tell, and what 16 bits would save.

use highwater_analysis::category::Category;
use highwater_analysis::category::course::Pass;
use highwater_analysis::lifetime::Lifetime;
use highwater_snapshot::{EntryId, FrameId};
use highwater_units::size;
use highwater_whatif::counterfactual::Change;
use rustc_hash::FxHashSet;

use super::{Evidence, Finding, Severity};

/// What a program computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// Weights and activations in 16 bits.
    Half,
    /// Weights in 32 bits, activations partly in 16: autocast.
    Mixed,
    /// All in 32 bits or more.
    Full,
    /// Nothing tells.
    Unknown,
}

/// Blocks below this say nothing about casts of weights.
const SMALL_BYTES: u64 = 4 << 10;

/// A saving below this share of the peak is not worth a word, in percent.
const WORTH_PERCENT: u64 = 5;

/// Modules whose output autocast makes in 16 bits, by the innermost frame with a file: what they keep is half as large then.
///
/// # Source
/// PyTorch v2.11, `aten/src/ATen/autocast_mode.h`: what is cast to lower precision, and what follows the type of its input.
const HALVED: [&str; 6] = [
    "torch/nn/modules/linear.py",
    "torch/nn/modules/conv.py",
    "torch/nn/modules/activation.py",
    "torch/nn/modules/pooling.py",
    "torch/nn/modules/batchnorm.py",
    "pytorch_utils.py",
];

/// The same, by function of `torch/nn/functional.py` or of a library.
const HALVED_FUNCTIONS: [&str; 10] = [
    "linear",
    "relu",
    "gelu",
    "silu",
    "dropout",
    "batch_norm",
    "_max_pool2d",
    "scaled_dot_product_attention",
    "sdpa_attention_forward",
    "multi_head_attention_forward",
];

/// The rules of what the program makes itself.
const PROGRAM_RULES: [&str; 3] = ["saved-by-program", "program-scratch", "program-keeps"];

/// What autocast leaves in 32 bits, and casts for the layer behind it: a copy of half the size comes beside it.
const CAST_AFTER: [&str; 3] = ["layer_norm", "group_norm", "rms_norm"];

/// One finding for a training program in 32 bits.
pub(super) fn mixed_precision(evidence: &Evidence<'_>) -> Option<Finding> {
    if numbers(evidence) != Numbers::Full {
        return None;
    }
    let mut changes = Vec::new();
    for (_, lifetime) in evidence.of(Category::Activation) {
        changes.extend(of_activation(evidence, lifetime));
    }
    let weights = evidence.live(evidence.peak.entry?, Category::Parameter).map(|(_, l)| evidence.bytes(l));
    let weights = weights.fold(0, u64::saturating_add);
    let starts = evidence.device.iterations.rows.iter().map(|iteration| iteration.entries.start);
    let starts: Vec<usize> = starts.collect();
    let cast = |pass: &Pass| {
        let start = starts[..starts.partition_point(|&start| start <= pass.start as usize)].last().copied();
        Change::with(start.unwrap_or(0)..pass.end as usize, weights / 2)
    };
    changes.extend(evidence.passes().iter().map(cast));
    let saving = evidence.worth(evidence.peak_with(&changes))?;
    if saving < evidence.share_of_peak(WORTH_PERCENT) {
        return None;
    }
    let title = "the forward pass runs in 32 bits";
    let detail = format!(
        "its loss is float32, and nothing is cast to 16 bits; under autocast, the activations saved for the \
         backward pass take half the memory, plus {} for 16-bit copies of the weights",
        size(weights / 2)
    );
    Some(
        Finding::new("mixed-precision", Severity::Info, title, detail)
            .saves_about(saving)
            .change("put `with torch.autocast(\"cuda\", torch.bfloat16)` around the forward pass and the loss"),
    )
}

/// What autocast would change about a saved block.
fn of_activation(evidence: &Evidence<'_>, lifetime: &Lifetime) -> Option<Change> {
    let snapshot = evidence.analysis.snapshot;
    let is_python = |frame: &FrameId| evidence.analysis.sites.owner(*frame).is_python();
    let frames = if lifetime.stack.is_recorded() { snapshot.stacks.get(lifetime.stack) } else { &[] };
    let frame = snapshot.frames.get(frames.iter().copied().find(is_python)?);
    let (name, file) = (snapshot.text(frame.name), snapshot.text(frame.filename));
    let half = evidence.bytes(lifetime) / 2;
    let ends = |files: &[&str]| files.iter().any(|end| file.ends_with(end));
    if ends(&HALVED) || HALVED_FUNCTIONS.contains(&name) {
        Some(Change::without(evidence.span(lifetime), half))
    } else if CAST_AFTER.contains(&name) {
        Some(Change::with(evidence.span(lifetime), half))
    } else {
        None
    }
}

/// What a program computes in, by the size of its loss, and by blocks that are half as large as weights or twice as large
/// as logits.
pub(super) fn numbers(evidence: &Evidence<'_>) -> Numbers {
    let roots = evidence.stacks_with(|name, _| name == "_make_grads");
    let root = evidence.rows().find(|(_, l)| roots.has(l.stack));
    match root.map(|(_, root)| root.requested_bytes) {
        Some(2) => Numbers::Half,
        Some(8) => Numbers::Full,
        _ if casts_weights(evidence) => Numbers::Mixed,
        _ if casts_up(evidence) => Numbers::Half,
        Some(4) => Numbers::Full,
        _ => Numbers::Unknown,
    }
}

/// Whether modules make blocks half as large as most of the weights are.
fn casts_weights(evidence: &Evidence<'_>) -> bool {
    // Where no iteration was recorded, all that was.
    let entries = evidence.typical_iteration().unwrap_or(0..evidence.device.entries.len());
    let of_modules: FxHashSet<u64> = evidence
        .of(Category::Activation)
        .chain(evidence.of(Category::Temporary))
        .filter(|(_, l)| l.alloc().is_some_and(|alloc| entries.contains(&alloc.index())) && l.stack.is_recorded())
        .map(|(_, l)| l.requested_bytes)
        .collect();
    let weights = || {
        let parameters = evidence.live(EntryId::from_index(entries.start), Category::Parameter);
        parameters.map(|(_, l)| l.requested_bytes).filter(|&bytes| bytes >= SMALL_BYTES)
    };
    let sizes: FxHashSet<u64> = weights().collect();
    let is_cast = |bytes: &u64| of_modules.contains(&(bytes / 2)) && !sizes.contains(&(bytes / 2));
    let cast: FxHashSet<u64> = sizes.iter().copied().filter(is_cast).collect();
    !cast.is_empty() && cast.len() * 2 >= sizes.len()
}

/// Whether what a module made is made again outside of modules, twice as large, right before the backward pass.
fn casts_up(evidence: &Evidence<'_>) -> bool {
    /// Allocations before the backward pass that may be the loss's.
    const TAIL: usize = 12;
    let Some(pass) = evidence.passes().first() else { return false };
    let rows = &evidence.device.lifetimes.rows;
    let to = rows.partition_point(|l| l.alloc().is_none_or(|alloc| alloc.get() < pass.start));
    let by_program = |row: usize| PROGRAM_RULES.contains(&evidence.device.decided(row).rule);
    (to.saturating_sub(TAIL)..to.saturating_sub(1)).any(|row| {
        let (before, after) = (&rows[row], &rows[row + 1]);
        before.requested_bytes >= SMALL_BYTES
            && after.requested_bytes == before.requested_bytes.saturating_mul(2)
            && by_program(row + 1)
            && !by_program(row)
    })
}
