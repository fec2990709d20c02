//! What was live at a failure, by what it is for, and what would make it less.

use highwater_analysis::category::Category;
use highwater_analysis::device::DeviceAnalysis;
use highwater_oom::{Situation, Step, missing};
use highwater_snapshot::{EntryId, Snapshot};
use highwater_units::{percent, size};

use crate::verdict::capitalised;

/// Parts smaller than this share of the total get no advice.
const WORTH_ADVICE: u64 = 10;

/// The name of memory that no rule matches.
const UNTOLD: &str = "no known category";

/// Bytes that were live, in the total that the report goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Live {
    /// By category, in the order of [`Category::ALL`].
    pub(super) categories: [u64; Category::ALL.len()],
    /// Of temporaries: the optimizer's within a step.
    optimizer_scratch_bytes: u64,
    /// What the program is for, as far as the recording tells.
    purpose: Purpose,
}

/// What a program is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Purpose {
    /// Gradients or optimizer state were made.
    Training,
    /// Layers ran, and kept nothing for a backward pass.
    Running,
    /// It failed before that was to be seen.
    #[default]
    Open,
}

impl Live {
    /// After an entry; before the first for `None`.
    pub(super) fn new(device: &DeviceAnalysis<'_>, after: Option<EntryId>, snapshot: &Snapshot) -> Self {
        let mut live = Self { categories: device.counted_by_category(after, snapshot), ..Self::default() };
        for (row, bytes) in device.counted_rows(after, snapshot) {
            if device.decided(row).rule == "optimizer-scratch" {
                live.optimizer_scratch_bytes = live.optimizer_scratch_bytes.saturating_add(bytes);
            }
        }
        live.purpose = if trains(device) {
            Purpose::Training
        } else if live.saved_bytes() == 0 {
            Purpose::Running
        } else {
            Purpose::Open
        };
        live
    }

    fn of(&self, category: Category) -> u64 {
        self.categories[category as usize]
    }

    /// Activations that a backward pass needs.
    fn saved_bytes(&self) -> u64 {
        self.of(Category::Activation)
    }

    fn total(&self) -> u64 {
        self.categories.iter().copied().fold(0, u64::saturating_add)
    }

    /// What to need less of: each part that counts, with its name and what makes it less, the largest first.
    fn parts(&self) -> Vec<(u64, &'static str, &'static str)> {
        let intermediates = self.of(Category::Temporary).saturating_sub(self.optimizer_scratch_bytes);
        let activations = match self.purpose {
            Purpose::Training => {
                "a smaller batch or shorter sequences, activation checkpointing, `torch.autocast` where they are float32"
            }
            Purpose::Running | Purpose::Open => {
                "a smaller batch or shorter sequences; for training, activation checkpointing; for inference, \
                 `torch.inference_mode()`, which saves no activations"
            }
        };
        let parameters = match self.purpose {
            Purpose::Training => "shard them (FSDP, ZeRO), or a smaller dtype",
            Purpose::Running => "a smaller dtype or quantised weights",
            Purpose::Open => "a smaller dtype; for inference, quantised weights",
        };
        let mut parts = vec![
            (self.saved_bytes(), "activations", activations),
            (self.of(Category::Cache), "a KV cache", "shorter contexts, fewer sequences at once, a quantised cache"),
            (
                self.of(Category::OptimizerState),
                "optimizer state",
                "a sharded or 8-bit optimizer, or one with less state",
            ),
            (self.of(Category::Gradient), "gradients", "shard them (FSDP, ZeRO), or train fewer parameters (LoRA)"),
            (self.of(Category::Parameter), "parameters", parameters),
            (
                self.optimizer_scratch_bytes,
                "the optimizer's intermediates",
                "`fused=True`, or `foreach=False`, which processes one parameter at a time",
            ),
            (
                intermediates,
                "intermediates",
                "a smaller batch or shorter sequences; compute large tensors, such as logits and their loss, in parts",
            ),
            (self.of(Category::Input), "inputs", "move only the next step's data to the GPU, not all of it"),
            (self.of(Category::Unknown), UNTOLD, "its call sites show where it was allocated"),
        ];
        let total = self.total();
        parts.retain(|&(bytes, ..)| bytes > 0 && bytes.saturating_mul(WORTH_ADVICE) >= total);
        parts.sort_by_key(|&(bytes, ..)| std::cmp::Reverse(bytes));
        parts
    }

    /// The general step, made that of this failure; left as it is where nothing was live.
    pub(super) fn advise(&self, step: &mut Step, situation: &Situation) {
        let parts = self.parts();
        let Some(&(most, name, _)) = parts.first() else { return };
        let total = self.total();
        let share = percent(share(most, total));
        step.title = match name {
            UNTOLD => {
                format!("reduce the memory that the call sites above hold: {share} of the live memory has {UNTOLD}")
            }
            _ => format!("reduce the memory needed at once, {name} first: {share} of the live memory"),
        };
        let parts: Vec<String> =
            parts.iter().map(|(bytes, name, advice)| format!("{} of {name}: {advice}", size(*bytes))).collect();
        step.detail = format!("{}. {}", parts.join(". "), capitalised(&missing(situation)));
    }
}

/// Whether an optimizer ran, or autograd made gradients worth the name: what native threads keep for themselves looks like a
/// small one.
fn trains(device: &DeviceAnalysis<'_>) -> bool {
    let mut gradient_bytes = 0_u64;
    for (row, lifetime) in device.lifetimes.rows.iter().enumerate() {
        match device.decided(row).category {
            Category::OptimizerState => return true,
            Category::Gradient => gradient_bytes = gradient_bytes.saturating_add(lifetime.requested_bytes),
            _ => {}
        }
    }
    gradient_bytes > device.peak().bytes / 100
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn live(of: &[(Category, u64)]) -> Live {
        let mut live = Live::default();
        for &(category, gib) in of {
            live.categories[category as usize] = gib * GIB;
        }
        if live.of(Category::Gradient) + live.of(Category::OptimizerState) > 0 {
            live.purpose = Purpose::Training;
        }
        live
    }

    fn advised(live: &Live) -> String {
        let mut step = Step::new("shrink", "general", "general");
        live.advise(&mut step, &Situation::default());
        format!("{}\n{}", step.title, step.detail.replace(". ", ".\n"))
    }

    #[test]
    fn each_part_that_counts_has_its_own_advice() {
        let training = live(&[
            (Category::Parameter, 2),
            (Category::Gradient, 2),
            (Category::OptimizerState, 4),
            (Category::Activation, 8),
            (Category::Temporary, 1),
        ]);
        insta::assert_snapshot!(advised(&training), @"
        reduce the memory needed at once, activations first: 47 % of the live memory
        8.00 GiB of activations: a smaller batch or shorter sequences, activation checkpointing, `torch.autocast` where they are float32.
        4.00 GiB of optimizer state: a sharded or 8-bit optimizer, or one with less state.
        2.00 GiB of gradients: shard them (FSDP, ZeRO), or train fewer parameters (LoRA).
        2.00 GiB of parameters: shard them (FSDP, ZeRO), or a smaller dtype.
        The numbers do not show how much less would be enough
        ");
    }

    #[test]
    fn what_is_not_there_is_not_advised() {
        let forward = live(&[(Category::Parameter, 1), (Category::Activation, 9)]);
        let text = advised(&forward);
        assert!(!text.contains("optimizer") && !text.contains("shard"), "{text}");
        let few = live(&[(Category::Parameter, 30), (Category::OptimizerState, 60), (Category::Activation, 9)]);
        let text = advised(&few);
        assert!(!text.contains("checkpointing") && text.contains("8-bit optimizer"), "{text}");
    }

    #[test]
    fn without_training_weights_and_caches_are_what_to_shrink() {
        let mut generating = live(&[(Category::Parameter, 14), (Category::Cache, 6)]);
        generating.purpose = Purpose::Running;
        insta::assert_snapshot!(advised(&generating), @"
        reduce the memory needed at once, parameters first: 70 % of the live memory
        14.00 GiB of parameters: a smaller dtype or quantised weights.
        6.00 GiB of a KV cache: shorter contexts, fewer sequences at once, a quantised cache.
        The numbers do not show how much less would be enough
        ");
    }

    #[test]
    fn the_optimizers_intermediates_are_told_from_others() {
        let mut stepping = live(&[(Category::OptimizerState, 8), (Category::Temporary, 8)]);
        stepping.optimizer_scratch_bytes = 7 * GIB;
        let text = advised(&stepping);
        assert!(text.contains("7.00 GiB of the optimizer's intermediates: `fused=True`"), "{text}");
        assert!(!text.contains("1.00 GiB"), "{text}");
    }

    #[test]
    fn where_nothing_is_told_the_call_sites_are_named() {
        insta::assert_snapshot!(advised(&live(&[(Category::Unknown, 5)])), @"
        reduce the memory that the call sites above hold: 100 % of the live memory has no known category
        5.00 GiB of no known category: its call sites show where it was allocated.
        The numbers do not show how much less would be enough
        ");
        assert_eq!(advised(&Live::default()), "general\ngeneral", "nothing was live");
    }

    #[test]
    fn sums_beyond_all_bounds_do_not_panic() {
        let huge = Live { categories: [u64::MAX; Category::ALL.len()], ..Live::default() };
        assert!(advised(&huge).starts_with("reduce the memory needed at once"), "{}", advised(&huge));
    }
}
