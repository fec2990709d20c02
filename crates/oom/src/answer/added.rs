//! Steps and notes that the log around a message of PyTorch adds to those of its numbers.

use highwater_units::size;

use crate::diagnosis::{Cause, diagnosis};
use crate::log::{Found, Group};
use crate::situation::Situation;
use crate::steps::Step;

/// A buffer for all parameters is more than this part of a GPU, or it does not matter.
const FLAT_PART: u64 = 8;
/// Printed amounts, and a few small tensors beside such buffers, are off by this part at most.
const FLAT_ERROR: u64 = 500;
/// Weights and averages in 16 and 32 bits are no more buffers of one size.
const MOST_BUFFERS: u64 = 8;

/// What steps call a batch, as one of several things to make smaller.
const BATCHES: [&str; 2] = ["a smaller batch, ", "a smaller micro-batch, "];

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

/// What a shell sets that ends at once; adds the step that sets it for the program.
pub(super) fn lost_variable(steps: &mut Vec<Step>) -> String {
    let step = Step::new(
        "set-variable",
        "set environment variables in Python, before the first import of torch, and restart the kernel or the program for it",
        "a GPU that is chosen afterwards is not the one that is used",
    )
    .with("import os; os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"1\"; then import torch; or device=1 in the call");
    steps.insert(steps.len().min(1), step);
    "`!export` in a notebook, like os.system(\"export …\"), sets a variable of a shell that ends at once: the program does not see it, neither a \
     GPU chosen in that way nor a setting of the allocator"
        .to_owned()
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

/// An evaluation leaves segments of other sizes behind.
pub(super) fn release_after_evaluation(situation: &Situation) -> Step {
    let own = situation.named.map(|named| named.of("evaluate")).unwrap_or_default();
    let own = own.into_iter().find_map(|step| step.change).map_or_else(String::new, |change| format!("{change}; "));
    Step::new(
        "evaluate-in-parts",
        "evaluate in smaller batches, and empty PyTorch's cache after each evaluation",
        "the evaluation's sizes are not those of training: what it leaves in the cache fits no request of training",
    )
    .with(format!("{own}torch.cuda.empty_cache() in a callback after the evaluation (on_evaluate)"))
}

/// Where nothing tells which call failed.
pub(super) fn wait_for_launches() -> Step {
    Step::new(
        "find-call",
        "run once more with launches that wait, and read in the traceback which call fails: a context, pinned memory of the host, a kernel",
        "the driver's error may come later than the call that it is of, and a full host gives the same one",
    )
    .with("CUDA_LAUNCH_BLOCKING=1")
}

/// A request below the largest allocation that was refused as well, with the step for it.
pub(super) fn refused_below(limit: u64, steps: &mut Vec<Step>, found: &Found) -> Option<String> {
    let is_below = |group: &&Group| group.message.tried_bytes.is_some_and(|tried| tried < limit);
    let group = found.groups.iter().filter(is_below).max_by_key(|group| group.message.tried_bytes)?;
    let situation = Situation::of_group(group, found.surroundings);
    let capacity = situation.capacity_bytes.filter(|_| diagnosis(&situation).cause == Cause::Refused)?;
    steps.push(
        Step::new(
            "other-system",
            "run it outside a virtual machine (on Linux or Windows itself), or with a newer driver and more memory for WSL",
            "the GPU had room, so a smaller batch or another process is not the matter",
        )
        .with("wsl --update; memory=… in .wslconfig"),
    );
    Some(format!(
        "a request of {} is below that limit and was refused as well, while PyTorch held {} of {}: the driver, or WSL where it runs there, has \
         another limit in the way",
        situation.tried()?,
        size(situation.held_bytes.unwrap_or(0)),
        size(capacity)
    ))
}

/// What a bare error of CUDA is about while a part of the weights waits in the host's memory.
pub(super) const PINNED_PART: &str = "CUDA reported a lack of memory to something other than PyTorch's allocator while a part of the model \
    waited in the host's memory: most likely the host's memory could not be pinned for that part, for which CUDA has the same error; the GPU \
    may also have been full, and the line of the traceback may not be the call that failed";

/// Weights that wait on the host need not be pinned.
pub(super) fn without_pinned_memory() -> Step {
    Step::new(
        "less-pinned-memory",
        "run without pinned memory of the host, and use newer releases of the program and of the node that loads the model",
        "the program pins the part of the weights that waits there, which fails for mapped files and where the system limits such memory",
    )
    .with("python main.py --disable-pinned-memory")
}

/// Words of lines that exchange something between ranks, or wait for others.
const COLLECTIVE: [&str; 9] =
    ["callback", "checkpoint", "broadcast", "gather", "scatter", "barrier", "all_reduce", "distributed", "recv"];

/// Where a size that no device has may come from.
pub(super) fn find_wrong_size(steps: &mut Vec<Step>, group: &Group) {
    let frames = || [&group.asked.innermost, &group.asked.own].into_iter().flatten();
    let has = |words: &[&str]| {
        frames().any(|frame| {
            let names = [&frame.file, &frame.function, &frame.source].map(|name| name.to_ascii_lowercase());
            words.iter().any(|word| names.iter().any(|name| name.contains(word)))
        })
    };
    if has(&["_c."]) {
        let step = Step::new(
            "rebuild-extension",
            "rebuild the extension of the traceback's line with the CUDA toolkit that PyTorch was built with, for this GPU",
            "its kernels computed the size: built with another CUDA release or for another GPU they return anything; no setting of memory helps",
        );
        steps.insert(
            0,
            step.with("python -c \"import torch; print(torch.version.cuda)\"; nvcc --version; pip install --no-build-isolation --force-reinstall ."),
        );
    }
    if group.message.rank.is_some() {
        let step = Step::new(
            "match-collectives",
            "see whether all ranks call the same collectives in the same order: one with fewer batches, or one that failed or timed out before, \
             leaves the others out of step",
            "the size of an object that is sent between ranks is received first, and out of step it is anything",
        );
        let at = usize::from(!has(&COLLECTIVE)).min(steps.len());
        steps.insert(
            at,
            step.with("NCCL_DEBUG=INFO TORCH_DISTRIBUTED_DEBUG=DETAIL; drop_last=True, as many batches on each rank"),
        );
    }
}

/// Why attention to images needs so much.
pub(super) const PATCHES: &str = "the line is of a model's part for images: it attends between all patches of an image or video, and where its \
                                  scores are held whole they grow with the square of the patches, so that twice the side needs 16 times as much";

/// Fewer patches.
pub(super) fn fewer_pixels() -> Step {
    Step::new(
        "fewer-pixels",
        "use an attention that never holds all scores, or give the model fewer pixels of each image or frame, and fewer images",
        "a mask keeps PyTorch from its fused kernel; without one the scores of all patches are one tensor, whatever the batch",
    )
    .with(
        "attn_implementation=\"flash_attention_2\" (flash_attn: fa2 in LLaMA-Factory); max_pixels=1024*28*28 in the processor \
         (image_max_pixels in LLaMA-Factory), or smaller images",
    )
}

/// Where each batch is one sample already, a smaller one is no step.
pub(super) fn of_one_sample(steps: &mut [Step], found: &Found) {
    if found.dimensions.batches != [1] {
        return;
    }
    for step in steps.iter_mut().filter(|step| step.id == "shrink") {
        let Some(change) = &step.change else { continue };
        let is_batch = |part: &&str| part.contains("batch_size") && (part.ends_with(": 1") || part.ends_with("=1"));
        let rest: Vec<&str> = change.split(", ").filter(|part| !is_batch(part)).collect();
        if !rest.is_empty() && rest.len() < change.split(", ").count() {
            step.title = BATCHES.iter().fold(step.title.clone(), |title, words| title.replacen(words, "", 1));
            step.change = Some(rest.join(", "));
        }
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
