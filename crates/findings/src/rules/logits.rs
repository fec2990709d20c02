//! Copies of the logits: a loss over a large vocabulary makes several blocks as large as the logits themselves.

use std::ops::Range;

use highwater_analysis::category::Category;
use highwater_analysis::lifetime::Lifetime;
use highwater_snapshot::EntryId;
use highwater_units::{counted, size};
use highwater_whatif::counterfactual::Change;

use super::evidence::StackSet;
use super::{Evidence, Finding, Severity};

/// Functions that compute a loss from logits.
///
/// # Source
/// PyTorch v2.11, `torch/nn/functional.py`; transformers 5, `loss/loss_utils.py`.
const LOSSES: [&str; 4] = ["cross_entropy", "log_softmax", "nll_loss", "LMLoss"];

/// Logits below this share of the peak are not worth a word, in percent.
const WORTH_PERCENT: u64 = 2;

/// Parts that the loss would be computed in.
const CHUNKS: u64 = 8;

/// Shifted labels leave a row out: sizes this close are of the same logits.
const TOLERANCE: u64 = 16;

/// One finding for the loss of every iteration.
pub(super) fn copies(evidence: &Evidence<'_>) -> Option<Finding> {
    let peak = evidence.peak.entry?;
    let losses = evidence.stacks_with(|name, _| LOSSES.iter().any(|loss| name.contains(loss)));
    let mut at_peak: Vec<&Lifetime> = Vec::new();
    let mut changes: Vec<Change> = Vec::new();
    for iteration in &evidence.device.iterations.rows {
        let copies = copies_in(evidence, &losses, &iteration.entries);
        let part = |lifetime: &Lifetime| evidence.bytes(lifetime) / CHUNKS * (CHUNKS - 1);
        changes.extend(copies.iter().map(|copy| Change::without(evidence.span(copy), part(copy))));
        if iteration.entries.contains(&peak.index()) {
            at_peak.extend(copies.into_iter().filter(|copy| copy.is_live_after(peak)));
        }
    }
    let largest = at_peak.iter().map(|copy| copy.requested_bytes).max()?;
    if at_peak.len() < 2 || largest < evidence.share_of_peak(WORTH_PERCENT) {
        return None;
    }
    let saving = evidence.worth(evidence.peak_with(&changes))?;
    let sum = at_peak.iter().map(|copy| evidence.bytes(copy)).fold(0, u64::saturating_add);
    let title = format!("{} of the peak is logits, in {}", size(sum), counted(at_peak.len(), "copy", "copies"));
    let detail = format!(
        "the model's output, the loss's copies of it, and its gradient: {}; computed in {CHUNKS} parts, only one \
         part of each is alive at a time",
        evidence.places(at_peak.iter().map(|copy| (evidence.site(copy), evidence.bytes(copy))))
    );
    Some(Finding::new("logits-copies", Severity::Warning, title, detail).saves_about(saving).change(
        "compute the loss in parts from the hidden states, each under `torch.utils.checkpoint`, or use a loss that \
         is fused with the last layer (Liger, cut-cross-entropy)",
    ))
}

/// What an iteration makes of the logits' size, from the output of the model on.
fn copies_in<'a>(evidence: &Evidence<'a>, losses: &StackSet, entries: &Range<usize>) -> Vec<&'a Lifetime> {
    let rows = &evidence.device.lifetimes.rows;
    let alloc = |lifetime: &Lifetime| lifetime.alloc().map_or(0, EntryId::index);
    let from = rows.partition_point(|l| l.alloc().is_none() || alloc(l) < entries.start);
    let to = rows.partition_point(|l| l.alloc().is_none() || alloc(l) < entries.end);
    let fleeting = |row: usize| {
        matches!(evidence.device.decided(row).category, Category::Activation | Category::Temporary | Category::Unknown)
    };
    let by_loss = || (from..to).filter(|&row| fleeting(row) && losses.has(rows[row].stack));
    let Some(largest) = by_loss().map(|row| rows[row].requested_bytes).max() else { return Vec::new() };
    let is_alike = |row: &usize| {
        [largest / 2, largest, largest.saturating_mul(2)]
            .iter()
            .any(|&bytes| rows[*row].requested_bytes.abs_diff(bytes) <= bytes / TOLERANCE)
    };
    let Some(first) = by_loss().find(is_alike) else { return Vec::new() };
    // The model's output comes before what the loss makes of it.
    let output = (from..first).rev().filter(|&row| fleeting(row)).find(is_alike).unwrap_or(first);
    (output..to).filter(|&row| fleeting(row)).filter(is_alike).map(|row| &rows[row]).collect()
}
