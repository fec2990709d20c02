//! Weights that are there twice: while they are loaded, or for good.

use highwater_analysis::lifetime::Lifetime;
use highwater_units::size;
use rustc_hash::FxHashMap;

use super::{Evidence, Finding, Severity};

/// A checkpoint accounts for a model if so much of it has blocks of the same sizes, in percent.
const ALIKE_PERCENT: u64 = 90;

/// The peak is before the first step, and of things that are gone by then.
pub(super) fn copies(evidence: &Evidence<'_>) -> Option<Finding> {
    let ready = evidence.device.categories.first_module()?;
    if evidence.peak.entry?.index() >= ready {
        return None;
    }
    let gone: Vec<&Lifetime> = evidence
        .rows()
        .map(|(_, lifetime)| lifetime)
        .filter(|lifetime| lifetime.alloc().is_some() && evidence.span(lifetime).end <= ready)
        .collect();
    let without = evidence.peak_without(gone.iter().copied());
    let saving = evidence.worth(without)?;
    let at_peak = gone.iter().filter(|l| evidence.peak.entry.is_some_and(|peak| l.is_live_after(peak)));
    let title = format!("{} of the peak comes from loading the model", size(saving));
    let detail = format!(
        "the peak comes before the model first runs, and includes memory that is freed by then: {}; without it, the \
         peak would be {}",
        evidence.places(at_peak.map(|lifetime| (evidence.site(lifetime), evidence.bytes(lifetime)))),
        size(without)
    );
    Some(Finding::new("loading-copies", Severity::Warning, title, detail).saves(saving).change(
        "load checkpoints to the host (`torch.load(…, map_location=\"cpu\")`), or create the model on the `meta` \
         device and assign the weights (`load_state_dict(…, assign=True)`), layer by layer if they are sharded",
    ))
}

/// A checkpoint on the device, and a model beside it that has the same.
pub(super) fn twice(evidence: &Evidence<'_>) -> Option<Finding> {
    let peak = evidence.peak.entry?;
    let built = evidence.device.live_rows(Some(peak)).filter(|&(row, _)| {
        let rule = evidence.device.decided(row).rule;
        rule == "built" || rule == "pairs-with-gradient"
    });
    let checkpoints = evidence.stacks_with(is_checkpoint);
    let (loaded, others): (Vec<&Lifetime>, Vec<&Lifetime>) =
        built.map(|(_, l)| l).partition(|l| checkpoints.has(l.stack));
    let mut unmatched: FxHashMap<u64, usize> = FxHashMap::default();
    for other in others {
        *unmatched.entry(other.requested_bytes).or_default() += 1;
    }
    let matched: Vec<&Lifetime> = loaded
        .iter()
        .copied()
        .filter(|lifetime| match unmatched.get_mut(&lifetime.requested_bytes) {
            Some(count @ 1..) => {
                *count -= 1;
                true
            }
            _ => false,
        })
        .collect();
    let sum = |lifetimes: &[&Lifetime]| lifetimes.iter().map(|l| evidence.bytes(l)).fold(0, u64::saturating_add);
    if sum(&matched) < sum(&loaded) / 100 * ALIKE_PERCENT {
        return None;
    }
    // What is dropped before the first step is another finding.
    let ready = evidence.device.categories.first_module();
    let kept = matched.iter().copied().filter(|l| ready.is_none_or(|ready| evidence.span(l).end > ready));
    let saving = evidence.worth(evidence.peak_without(kept))?;
    let title = format!("{} of the peak is a checkpoint that the model has already copied", size(saving));
    let detail = format!(
        "{} in blocks of the same sizes as the model's weights is still allocated: {}",
        size(sum(&matched)),
        evidence.places(matched.iter().map(|lifetime| (evidence.site(lifetime), evidence.bytes(lifetime))))
    );
    Some(Finding::new("weights-twice", Severity::Warning, title, detail).saves(saving).change(
        "`del` the checkpoint once the model has loaded it, or load it to the host (`torch.load(…, \
         map_location=\"cpu\")`)",
    ))
}

fn is_checkpoint(_: &str, file: &str) -> bool {
    file.ends_with("torch/serialization.py") || file.contains("safetensors/")
}
