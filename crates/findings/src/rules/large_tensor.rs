//! One tensor that is a large part of all.

use highwater_analysis::category::Category;
use highwater_units::{percent_of, size};
use highwater_whatif::counterfactual::Change;

use super::{Evidence, Finding, Severity, place};

/// From this share of the peak on, in percent.
const WORTH_PERCENT: u64 = 25;

/// And from this size on.
const WORTH_BYTES: u64 = 256 << 20;

/// Parts that a temporary would be computed in.
const PARTS: u64 = 8;

/// One finding: the largest block at the peak.
pub(super) fn large_tensor(evidence: &Evidence<'_>) -> Option<Finding> {
    let device = evidence.device;
    let at_peak = device.counted_rows(evidence.peak.entry, evidence.analysis.snapshot);
    let (row, bytes) = at_peak.max_by_key(|&(row, bytes)| (bytes, std::cmp::Reverse(row)))?;
    if bytes < WORTH_BYTES || bytes < evidence.share_of_peak(WORTH_PERCENT) {
        return None;
    }
    let lifetime = &device.lifetimes.rows[row];
    let category = device.decided(row).category;
    // Of weights that nothing trains, another finding says more.
    if category == Category::Parameter && super::weights::frozen(evidence).is_some() {
        return None;
    }
    let title = format!("one tensor of {} is {} of the peak", size(bytes), percent_of(bytes, evidence.peak.bytes));
    let kind = match category {
        Category::Parameter => "a weight or buffer, ",
        Category::Gradient => "a gradient, ",
        Category::OptimizerState => "optimizer state, ",
        Category::Activation => "saved for the backward pass, ",
        Category::Input => "an input, ",
        Category::Temporary => "an intermediate result, ",
        Category::Workspace => "a workspace, ",
        Category::Cache => "of a cache, ",
        Category::Unknown => "",
    };
    let detail = format!(
        "{kind}allocated at {}; it needs that much contiguous free memory",
        place(evidence.analysis, evidence.site(lifetime))
    );
    let finding = Finding::new("large-tensor", Severity::Info, title, detail);
    let change = match category {
        Category::Parameter | Category::Gradient | Category::OptimizerState => {
            "shard it over GPUs, or store it in fewer bits"
        }
        Category::Input => "feed it in parts, and keep the rest in pinned host memory",
        _ => "compute it in parts, over the batch or the positions, or in 16 bits",
    };
    if category != Category::Temporary {
        return Some(finding.change(change));
    }
    // The same line makes it anew in each iteration.
    let alike = evidence
        .of(category)
        .filter(|(_, other)| other.stack == lifetime.stack && other.requested_bytes >= lifetime.requested_bytes / 2);
    let part = |bytes: u64| bytes / PARTS * (PARTS - 1);
    let changes: Vec<Change> =
        alike.map(|(_, other)| Change::without(evidence.span(other), part(evidence.bytes(other)))).collect();
    let finding = match evidence.worth(evidence.peak_with(&changes)) {
        Some(saving) => finding.saves_about(saving),
        None => finding,
    };
    Some(finding.change(format!("{change}; the saving is for {PARTS} parts, one at a time")))
}
