//! Steps and notes that the log around a message of PyTorch adds to those of its numbers.

use highwater_units::size;

use crate::log::Found;
use crate::situation::Situation;
use crate::steps::Step;

/// A buffer for all parameters is more than this part of a GPU, or it does not matter.
const FLAT_PART: u64 = 8;
/// Printed amounts, and a few small tensors beside such buffers, are off by this part at most.
const FLAT_ERROR: u64 = 500;
/// Weights and averages in 16 and 32 bits are no more buffers of one size.
const MOST_BUFFERS: u64 = 8;

/// Adapters with more parameters hold whole layers.
const LARGE_ADAPTER: u64 = 100_000_000;

/// How many times a large request all tensors are, where that is a whole number: a program whose other tensors are small beside buffers
/// for all parameters.
pub(super) fn flat_buffers(situation: &Situation) -> Option<u64> {
    let (tried, allocated) = (situation.tried_bytes?, situation.allocated_bytes?);
    let is_large = situation.capacity_bytes.is_some_and(|capacity| tried > capacity / FLAT_PART);
    let times = allocated.saturating_add(tried / 2) / tried.max(1);
    let is_whole = allocated.abs_diff(times.saturating_mul(tried)) <= allocated / FLAT_ERROR;
    (is_large && (2..=MOST_BUFFERS).contains(&times) && is_whole && situation.engine.is_none()).then_some(times)
}

/// The state of training need not be whole on each GPU.
pub(super) fn shard() -> Step {
    Step::new(
        "shard-state",
        "give each rank a part of the gradients, the weights and the optimizer's state, or train fewer parameters",
        "a buffer for all parameters is as large with any batch",
    )
    .with("ZeRO-2 or ZeRO-3 (DeepSpeed), FSDP with FULL_SHARD, CPU offload of the optimizer, LoRA")
}

/// A checkpoint need not be gathered on the GPU.
pub(super) fn state_on_host() -> Step {
    Step::new(
        "offload-state",
        "gather the checkpoint in the host's memory, on one rank or in shards",
        "a state dict of full tensors needs memory beside the model, on each rank that builds it",
    )
    .with(
        "FullStateDictConfig(offload_to_cpu=True, rank0_only=True), StateDictOptions(full_state_dict=True, cpu_offload=True), or \
         torch.distributed.checkpoint",
    )
}

/// Attention whose scores are never whole.
pub(super) fn fused_attention(situation: &Situation) -> Step {
    let step = Step::new(
        "fused-attention",
        "use an attention kernel that never holds all scores, and check that this GPU, data type and mask allow it",
        "without one, PyTorch multiplies all queries by all keys: memory grows with the square of the tokens",
    );
    step.with(match situation.backend {
        Some("HIP") => {
            "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1, or flash-attn for ROCm; in ComfyUI --use-quad-cross-attention or \
             --use-split-cross-attention"
        }
        Some("NPU") => "torch_npu.npu_fusion_attention",
        Some("XPU" | "MPS") => "attention in slices, such as pipe.enable_attention_slicing()",
        _ => {
            "torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION) fails with the reason where it cannot; or xformers, flash-attn; \
             NVTE_DEBUG=1 NVTE_DEBUG_LEVEL=2 (Transformer Engine) logs why a kernel was not chosen"
        }
    })
}

/// What a notebook's process holds, it holds until its end.
pub(super) fn restart_kernel() -> Step {
    Step::new(
        "restart-kernel",
        "restart this notebook's kernel, and shut down those of other notebooks on the GPU",
        "each keeps its models and tensors, and after an error those of the failed cell, until it ends; a closed tab ends nothing",
    )
}

/// Where the numbers do not tell, the lines do: in a job, every rank's copy goes to one GPU.
pub(super) fn restored(situation: &Situation) -> String {
    let held = situation.held_bytes.or(situation.allocated_bytes);
    let held = held.map_or_else(String::new, |held| format!("; this process itself held {}", size(held)));
    format!(
        "the checkpoint goes back to the GPU that it was saved from, on which each process of the job that loads it puts its own copy{held}; a \
         request of {} was refused",
        situation.tried().unwrap_or_else(|| "an unknown amount".to_owned())
    )
}

/// A checkpoint remembers the GPU that it was saved from.
pub(super) fn restore_on_host() -> Step {
    Step::new(
        "map-location",
        "load the checkpoint to the host's memory, and move the model to the GPU that it is for",
        "the checkpoint's tensors are copies beside the model's own; `torch.load` without `map_location` puts each on the GPU that it was saved \
         from, whatever device the program uses",
    )
    .with("torch.load(path, map_location=\"cpu\"), load_file(path, device=\"cpu\")")
}

/// Where each batch is one sample already, a smaller one is no step.
pub(super) fn of_one_sample(steps: &mut [Step], found: &Found) {
    if found.dimensions.batches != [1] {
        return;
    }
    for step in steps.iter_mut().filter(|step| step.id == "shrink" && step.change.is_none()) {
        "reduce the memory needed at once: shorter sequences or smaller inputs, activation checkpointing, bfloat16, a sharded or 8-bit \
         optimizer; the batch is one sample already"
            .clone_into(&mut step.title);
    }
}

/// Adapters train a few per cent of the parameters; a larger part has whole layers in it, with gradients and optimizer state.
pub(super) fn many_trained(steps: &mut Vec<Step>, found: &Found) -> Option<String> {
    let (some, all) = found.surroundings.trained?;
    let is_large = some > all / 16 && some < all / 2 && some > LARGE_ADAPTER;
    is_large.then(|| {
        let detail = format!(
            "{some} of {all} parameters are trained: gradients and Adam's state take 10 to 14 bytes for each of them, about {}",
            size(some.saturating_mul(12))
        );
        let step = Step::new(
            "fewer-parameters",
            "train the adapters alone: leave embeddings, the output layer and vision or audio layers out",
            detail,
        );
        steps.insert(0, step.with("target_modules without embed_tokens and lm_head, modules_to_save=None, finetune_vision_layers=False"));
        format!(
            "{} of the parameters are trained, where adapters have about 1 %: whole layers are among them",
            highwater_units::percent(part(some, all))
        )
    })
}

/// Not all logits at once.
pub(super) fn in_chunks(tried_bytes: Option<u64>) -> Step {
    let step = Step::new(
        "chunk-logits",
        "compute the loss, the log-probabilities or the entropy in chunks of tokens, or with a fused kernel",
        "this line allocates a number for each token and vocabulary entry; in chunks, only one chunk exists at a \
         time",
    )
    .with("use_liger_kernel=True (transformers, TRL), loss_type=\"chunked_nll\" (TRL), entropy_from_logits_with_chunking=True (verl)");
    match tried_bytes {
        Some(tried) => step.brings(tried, None),
        None => step,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
fn part(some: u64, all: u64) -> f64 {
    some as f64 / all.max(1) as f64
}
