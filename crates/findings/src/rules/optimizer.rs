//! What the optimizer makes for a moment: its `foreach` form has one for every parameter at once, its fused form none.

use highwater_analysis::category::Category;
use highwater_analysis::lifetime::Lifetime;
use highwater_units::size;

use super::{Evidence, Finding, Severity};

/// The optimizers with a fused form, by file.
///
/// # Source
/// PyTorch v2.11, `torch/optim/{adam,adamw,sgd,adagrad}.py`.
const FUSED: [&str; 4] = ["adam", "adamw", "sgd", "adagrad"];

/// One finding for all intermediates of the `foreach` form.
pub(super) fn intermediates(evidence: &Evidence<'_>) -> Option<Finding> {
    let foreach = evidence.stacks_with(is_foreach);
    let scratch: Vec<&Lifetime> = evidence
        .of(Category::Temporary)
        .filter(|&(row, _)| evidence.device.decided(row).rule == "optimizer-scratch")
        .filter(|(_, lifetime)| foreach.has(lifetime.stack))
        .map(|(_, lifetime)| lifetime)
        .collect();
    let without = evidence.peak_without(scratch.iter().copied());
    let saving = evidence.worth(without)?;
    let first = scratch.first()?;
    let has_fused = evidence
        .stacks_with(|name, file| {
            is_foreach(name, file) && FUSED.iter().any(|optimizer| file.ends_with(&format!("/{optimizer}.py")))
        })
        .has(first.stack);
    let at_once = scratch.iter().filter(|l| evidence.peak.entry.is_some_and(|peak| l.is_live_after(peak)));
    let at_once = at_once.map(|lifetime| evidence.bytes(lifetime)).fold(0, u64::saturating_add);
    let detail = format!(
        "the `foreach` implementation allocates them for all parameters at once: {} at the peak; without them, the \
         peak would be {}",
        size(at_once),
        size(without)
    );
    let title = |saving| format!("{} of the peak is the optimizer's intermediates", size(saving));
    if has_fused {
        let finding = Finding::new("optimizer-intermediates", Severity::Warning, title(saving), detail);
        return Some(finding.saves(saving).change("give the optimizer `fused=True`: it allocates none, and is faster"));
    }
    // One parameter after the other: what the largest one needs, with the result of a step beside its operand.
    let largest = scratch.iter().map(|lifetime| evidence.bytes(lifetime)).max()?.saturating_mul(2);
    let saving = evidence.worth(without.saturating_add(largest))?;
    let finding = Finding::new("optimizer-intermediates", Severity::Warning, title(saving), detail);
    let change = "give the optimizer `foreach=False`: it processes one parameter at a time, which is slower";
    Some(finding.saves_about(saving).change(change))
}

fn is_foreach(name: &str, file: &str) -> bool {
    name.starts_with("_multi_tensor_") && file.contains("optim")
}
