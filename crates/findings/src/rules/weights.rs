//! Weights that nothing trains: they need no more precision than the forward pass does.

use highwater_analysis::category::Category;
use highwater_units::{percent_of, size};

use super::precision::{Numbers, numbers};
use super::{Evidence, Finding, Severity};

/// Weights below this share of the peak are not worth a word, in percent.
const WORTH_PERCENT: u64 = 40;

/// Parameters below this are left as they are: norms, biases.
const SMALL_BYTES: u64 = 64 << 10;

/// One finding for all frozen weights.
pub(super) fn frozen(evidence: &Evidence<'_>) -> Option<Finding> {
    let peak = evidence.peak.entry?;
    let sum = |lifetimes: &mut dyn Iterator<Item = u64>| lifetimes.fold(0, u64::saturating_add);
    let mut parameters = evidence.live(peak, Category::Parameter).map(|(_, l)| evidence.bytes(l));
    let parameters = sum(&mut parameters.by_ref().filter(|&bytes| bytes >= SMALL_BYTES));
    let frozen = parameters.saturating_sub(most_gradients(evidence));
    if frozen < evidence.share_of_peak(WORTH_PERCENT) {
        return None;
    }
    let trains = !evidence.passes().is_empty();
    let (what, change) = if trains {
        ("weights that have no gradient", "load the frozen weights in 4 or 8 bits (QLoRA with bitsandbytes, torchao)")
    } else {
        ("weights", "load the weights in 8 or 4 bits (bitsandbytes, torchao, GPTQ, AWQ)")
    };
    let in_8_bits = |width: u64| format!("stored in 8 bits they would take about {}", size(frozen / width));
    let (saving, smaller) = match numbers(evidence) {
        Numbers::Full | Numbers::Mixed => (frozen / 4 * 3, in_8_bits(4)),
        Numbers::Half => (frozen / 2, in_8_bits(2)),
        Numbers::Unknown => {
            (frozen / 2, format!("{} if they are now 16-bit, {} if they are 32-bit", in_8_bits(2), size(frozen / 4)))
        }
    };
    let title = format!("{} of the peak is {what}", size(frozen));
    let detail = format!("{} of the peak; {smaller}", percent_of(frozen, evidence.peak.bytes));
    Some(Finding::new("frozen-weights", Severity::Info, title, detail).saves_about(saving).change(change))
}

/// The most gradients at the end of a backward pass: what is trained.
fn most_gradients(evidence: &Evidence<'_>) -> u64 {
    let ends: Vec<usize> = evidence.passes().iter().map(|pass| pass.sure_end as usize).collect();
    let mut changes = vec![0_u64; ends.len() + 1];
    for (_, gradient) in evidence.of(Category::Gradient) {
        let (span, bytes) = (evidence.span(gradient), evidence.bytes(gradient));
        let (from, to) = (ends.partition_point(|&e| e <= span.start), ends.partition_point(|&e| e <= span.end));
        changes[from] = changes[from].wrapping_add(bytes);
        changes[to] = changes[to].wrapping_sub(bytes);
    }
    let at_end = changes.iter().scan(0_u64, |sum, change| {
        *sum = sum.wrapping_add(*change);
        Some(*sum)
    });
    at_end.max().unwrap_or(0)
}
