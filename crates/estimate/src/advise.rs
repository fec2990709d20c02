//! Changes that make a run fit on a GPU, and the well-known simple formula for comparison.

use serde::Serialize;

use crate::architecture::Architecture;
use crate::dtype::DType;
use crate::estimate::{Estimate, estimate, peak_requested_bytes};
use crate::setup::{Attention, Keep, Lora, LoraTargets, Mode, Optimizer, Quantisation, Setup, Sharding};

/// A change that was tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The change.
    pub change: String,
    /// Its cost in time, precision or dependencies.
    pub cost: &'static str,
    /// The memory of the run on the GPU after the change.
    pub total_bytes: u64,
    /// Whether that fits, at the upper end of its error band.
    pub fits: bool,
}

/// The changes that bring a run under a limit, the cheapest that fits first, then those that do not.
pub fn changes_to_fit(architecture: &Architecture, setup: &Setup, limit_bytes: u64) -> Vec<Change> {
    let mut changes = Vec::new();
    for (order, (change, cost, tried)) in candidates(setup).into_iter().enumerate() {
        let tried = estimate(architecture, &tried);
        let fits = tried.highest_total_bytes() <= limit_bytes;
        changes.push((order, Change { change, cost, total_bytes: tried.total_bytes, fits }));
    }
    if let Some(batch) =
        largest(architecture, setup, limit_bytes, setup.batch, |setup, batch| Setup { batch, ..*setup })
    {
        let tried = Setup { batch, ..*setup };
        let total_bytes = estimate(architecture, &tried).total_bytes;
        let change = format!("batch {batch} instead of {}, with gradient accumulation for the rest", setup.batch);
        changes.push((2, Change { change, cost: "needs more steps for the same data", total_bytes, fits: true }));
    }
    if let Some(seq) = largest(architecture, setup, limit_bytes, setup.seq, |setup, seq| Setup { seq, ..*setup }) {
        let tried = Setup { seq, ..*setup };
        let total_bytes = estimate(architecture, &tried).total_bytes;
        let change = format!("sequences of {seq} instead of {}", setup.seq);
        changes.push((4, Change { change, cost: "less context", total_bytes, fits: true }));
    }
    changes.sort_by_key(|(order, change)| (!change.fits, if change.fits { *order as u64 } else { change.total_bytes }));
    changes.into_iter().map(|(_, change)| change).collect()
}

/// Changes in the order of their other costs.
fn candidates(setup: &Setup) -> Vec<(String, &'static str, Setup)> {
    let mut all: Vec<(String, &'static str, Setup)> = Vec::new();
    let mut add = |change: &str, cost, tried: Setup| all.push((change.to_owned(), cost, tried));
    let is_training = setup.mode == Mode::Train;
    if is_training && setup.keep == Keep::Outputs {
        add("keep only the loss: `loss = model(**x).loss`", "nothing", Setup { keep: Keep::Loss, ..*setup });
    }
    if setup.attention == Attention::Eager {
        add("`attn_implementation=\"sdpa\"`", "nothing", Setup { attention: Attention::Sdpa, ..*setup });
    }
    if is_training && setup.optimizer == Optimizer::AdamW {
        add("`AdamW(fused=True)`", "nothing", Setup { optimizer: Optimizer::AdamWFused, ..*setup });
    }
    let checkpointed = Setup { checkpointing: true, ..*setup };
    if is_training && !setup.checkpointing {
        add("gradient checkpointing", "takes about 33 % more time", checkpointed);
    }
    if is_training && setup.autocast.is_none() && setup.dtype == DType::Float32 {
        add("bf16 autocast", "slightly lower precision", Setup { autocast: Some(DType::BFloat16), ..*setup });
    }
    if setup.dtype == DType::Float32 {
        add("bf16 weights", "less precise training", Setup { dtype: DType::BFloat16, autocast: None, ..*setup });
    }
    if is_training {
        let eight = Setup { optimizer: Optimizer::AdamW8bit, ..*setup };
        add("8-bit AdamW", "needs bitsandbytes", eight);
        add(
            "gradient checkpointing and 8-bit AdamW",
            "takes about 33 % more time",
            Setup { checkpointing: true, ..eight },
        );
        let lora = Lora { rank: 16, dropout: 0.0, targets: LoraTargets::AllLinear, dtype: DType::Float32 };
        let bf16 = Setup { dtype: DType::BFloat16, autocast: None, lora: Some(lora), checkpointing: true, ..*setup };
        add("LoRA of rank 16 over bf16 weights, with gradient checkpointing", "trains adapters only", bf16);
        let four = Setup { quantisation: Quantisation::Nf4Double, ..bf16 };
        add("QLoRA of rank 16, with gradient checkpointing", "trains adapters only, and slower", four);
        for ranks in [2, 4, 8] {
            let mut tried = checkpointed;
            tried.parallel.world_size = setup.parallel.world_size.max(1) * ranks;
            tried.parallel.sharding = Sharding::Fsdp;
            add(
                &format!("FSDP over {} GPUs, with gradient checkpointing", tried.parallel.world_size),
                "needs more GPUs",
                tried,
            );
        }
    }
    all
}

/// The largest value up to `most` with which a run fits.
fn largest(
    architecture: &Architecture,
    setup: &Setup,
    limit_bytes: u64,
    most: u64,
    with: impl Fn(&Setup, u64) -> Setup,
) -> Option<u64> {
    let fits = |value| estimate(architecture, &with(setup, value)).highest_total_bytes() <= limit_bytes;
    if most < 2 || fits(most) || !fits(1) {
        return None;
    }
    let (mut low, mut high) = (1, most);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

/// The largest batch that fits, if any does; at most 65,536.
pub fn largest_batch(architecture: &Architecture, setup: &Setup, limit_bytes: u64) -> Option<u64> {
    let fits = |batch| estimate(architecture, &Setup { batch, ..*setup }).highest_total_bytes() <= limit_bytes;
    if !fits(1) {
        return None;
    }
    let mut high = 2;
    while high < 1 << 16 && fits(high) {
        high *= 2;
    }
    largest(architecture, setup, limit_bytes, high, |setup, batch| Setup { batch, ..*setup })
        .or(Some(high.min(1 << 16)))
}

/// The formula of the blog post "Visualize and understand GPU memory in PyTorch", in its two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Simple {
    /// `model + optimizer state + max(gradients + optimizer intermediates, activations)`, as the post derives it.
    pub derived_bytes: u64,
    /// `model + optimizer state + max(gradients, optimizer intermediates, activations)`, as it sums up and its calculator computes.
    pub summary_bytes: u64,
    /// Its activations for a token: `4.6894e-4·N + 1.8494e6`.
    pub activations_per_token: u64,
}

/// The well-known simple formula; it knows `AdamW` only.
///
/// # Source
/// huggingface/blog, `train_memory.md` (December 2024).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a heuristic in floating point"
)]
pub fn simple(parameters: u64, setup: &Setup) -> Simple {
    let width = setup.dtype.bytes();
    let model = parameters.saturating_mul(width);
    let per_token = (4.6894e-4 * parameters as f64 + 1.8494e6) as u64;
    let activations = per_token.saturating_mul(setup.batch).saturating_mul(setup.seq).saturating_mul(width);
    let fixed = model.saturating_mul(3);
    Simple {
        derived_bytes: fixed.saturating_add(model.saturating_mul(2).max(activations)),
        summary_bytes: fixed.saturating_add(model.max(activations)),
        activations_per_token: per_token,
    }
}

/// The saving of keeping only the loss; 0 if none.
pub fn saved_by_holding_the_loss_only(architecture: &Architecture, setup: &Setup, own: &Estimate) -> u64 {
    if setup.mode != Mode::Train || setup.keep == Keep::Loss {
        return 0;
    }
    own.peak_requested_bytes.saturating_sub(peak_requested_bytes(architecture, &Setup { keep: Keep::Loss, ..*setup }))
}
