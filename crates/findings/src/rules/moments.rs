//! Optimizer state that could be kept in fewer bits.

use highwater_analysis::category::Category;
use highwater_units::{percent_of, size};

use super::precision::{Numbers, numbers};
use super::{Evidence, Finding, Severity};

/// State below this share of the peak is not worth a word, in percent.
const WORTH_PERCENT: u64 = 20;

/// Tensors below this stay as they are in 8-bit optimizers: 4,096 numbers.
const SMALL_BYTES: u64 = 16 << 10;

/// One finding for all moments.
pub(super) fn full_precision(evidence: &Evidence<'_>) -> Option<Finding> {
    let moments = evidence.live(evidence.peak.entry?, Category::OptimizerState);
    let bytes =
        moments.map(|(_, l)| evidence.bytes(l)).filter(|&bytes| bytes >= SMALL_BYTES).fold(0, u64::saturating_add);
    if bytes < evidence.share_of_peak(WORTH_PERCENT) {
        return None;
    }
    let numbers = numbers(evidence);
    // A byte for a number, and a scale for each block of them.
    let saving = if numbers == Numbers::Half { bytes / 2 } else { bytes / 4 * 3 };
    let assumed = match numbers {
        Numbers::Half => "given that the weights are in 16 bits",
        Numbers::Unknown => "if it is float32",
        Numbers::Mixed | Numbers::Full => "given that the weights are float32",
    };
    let title = format!("{} of the peak is optimizer state", size(bytes));
    let detail = format!(
        "{} of the peak; stored in 8 bits it would take about {}, {assumed}",
        percent_of(bytes, evidence.peak.bytes),
        size(bytes - saving)
    );
    Some(Finding::new("full-precision-moments", Severity::Info, title, detail).saves_about(saving).change(
        "use an 8-bit optimizer (bitsandbytes, torchao), one with less state (Adafactor, Lion), or shard the state \
         over ranks (FSDP, ZeRO)",
    ))
}
