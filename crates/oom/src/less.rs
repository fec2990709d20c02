//! The step that makes something smaller, by the work that the program was doing, and by how much.

use highwater_units::size;

use super::log::Purpose;
use super::situation::Situation;
use super::steps::Step;

/// The detail of a step that makes something smaller, for an error that names no sizes.
pub(super) const WITHOUT_NUMBERS: &str = "the error has no numbers, so it does not show by how much";

/// The step that reduces the need for memory, by the work that the program was doing.
pub(super) fn less(purpose: Option<Purpose>, is_training: Option<bool>, detail: String) -> Step {
    let step = |id, title: &str| Step::new(id, title, detail);
    match purpose {
        Some(Purpose::Load) => step(
            "less-weights",
            "load less of the model on this GPU: 16, 8 or 4 bits for each weight, a smaller model, or its parts on several GPUs or the CPU; \
             a smaller batch does not help while it loads",
        )
        .with("torch_dtype=torch.bfloat16, device_map=\"auto\", load_in_4bit (transformers); ZeRO-3 or FSDP, which give each rank a part (training)"),
        Some(Purpose::Optimize) => step(
            "smaller-optimizer",
            "reduce the optimizer's memory: its state in 8 bits, sharded or on the CPU, and no temporary copies of all parameters at once; \
             a smaller batch helps only as far as the peak depends on it",
        )
        .with("fused=True or foreach=False (torch.optim), optim=\"adamw_8bit\", ZeRO or FSDP"),
        Some(Purpose::Generate) => step(
            "shrink",
            "reduce the memory needed at once: fewer or shorter prompts and answers, smaller or fewer images, a quantised model or cache, \
             parts of the model on the CPU",
        ),
        Some(Purpose::Decode) => step(
            "tile-decode",
            "run the VAE in tiles or on fewer images at once, or fewer pixels and frames: between pixels and latents it needs the most here",
        )
        .with("pipe.vae.enable_tiling() (Diffusers), VAE Decode (Tiled) (ComfyUI)"),
        Some(Purpose::Evaluate) => step(
            "evaluate-in-parts",
            "evaluate without gradients, in smaller batches, and keep results as numbers or on the host",
        )
        .with("with torch.no_grad(): (own loops), per_device_eval_batch_size=1, eval_accumulation_steps=1, preprocess_logits_for_metrics, \
             predict_with_generate=True (transformers)"),
        Some(Purpose::Calibrate) => step(
            "fewer-samples",
            "calibrate with fewer or shorter samples, and keep the values between the layers on the CPU",
        )
        .with("max_calib_samples=64, max_calib_seq_len=512, n_parallel_calib_samples=1 (AutoAWQ), or the nsamples and seqlen of other libraries"),
        Some(Purpose::Grow) => step(
            "bound-growth",
            "add fewer elements while it trains: a higher threshold, an earlier end, or an upper bound on their number",
        ),
        Some(Purpose::Parts) => step(
            "less-weights",
            "load the largest part in 4 or 8 bits, move single layers to the GPU while they compute, or generate fewer pixels or frames: one part with \
             its activations fills the GPU",
        )
        .with("pipe.enable_sequential_cpu_offload() (slow); a transformer in NF4, FP8 or GGUF (Diffusers: quantization_config)"),
        Some(Purpose::Whole) => step(
            "move-parts",
            "remove the move of the whole pipeline to the GPU: the offload moves each part by itself when its turn comes",
        )
        .with("without pipe.to(\"cuda\"), before as after pipe.enable_model_cpu_offload(); where one part is still too large, \
             pipe.enable_sequential_cpu_offload()"),
        Some(Purpose::Predict) => step(
            "less-weights",
            "give each rank a part of the model, load it in 8 or 4 bits, or predict with an engine that serves it in parts; then predict \
             fewer samples at once: the batch of training plays no part",
        )
        .with("ZeRO-3 or device_map=\"auto\" for the prediction, too; load_in_4bit; per_device_eval_batch_size=1 (transformers)"),
        Some(Purpose::Data) => step(
            "offload",
            "keep the data in the host's memory, and copy the part that a step needs; or use smaller images",
        ),
        Some(Purpose::Collect) => step(
            "bound-growth",
            "keep the collected tensors in the host's memory without their graph, or bound their number: a list or tensor that grows with each call \
             fills the GPU whatever the batch",
        )
        .with("outputs.append(out.detach().cpu()); deque(maxlen=...)"),
        Some(Purpose::Gather) | None => step(
            "shrink",
            match is_training {
                Some(true) => {
                    "reduce the memory needed at once: a smaller batch or shorter sequences, activation checkpointing, \
                     bfloat16, a sharded or 8-bit optimizer"
                }
                Some(false) => {
                    "reduce the memory needed at once: a smaller batch, a smaller or shorter input, or parts of it one after another (tiles, \
                     windows, chunks), without gradients, in 16 bits"
                }
                None => {
                    "reduce the memory needed at once: a smaller batch, shorter sequences or smaller inputs; in training, also activation \
                     checkpointing, bfloat16, a sharded or 8-bit optimizer"
                }
            },
        ),
    }
}

/// The same for a rank that loads a model: each rank of a job has a copy of its own.
pub(super) fn less_of_each_rank(detail: String) -> Step {
    Step::new(
        "less-weights",
        "give each rank a part of the weights instead of the whole model, or load it in 4 or 8 bits; a smaller batch does not help while it \
         loads",
        detail,
    )
    .with(
        "ZeRO-3 or FSDP, by the launcher's own configuration (accelerate launch --config_file), so that the model is sharded when it is made \
         (FSDP: auto_wrap_policy, cpu_ram_efficient_loading); load_in_4bit (QLoRA)",
    )
}

/// The same for the driver's own allocator: hardly any program but `ComfyUI` chooses it without being told to.
pub(super) fn less_of_asynchronous(detail: String) -> Step {
    Step::new(
        "shrink",
        "reduce the memory needed at once: a smaller batch, fewer pixels or shorter sequences, a VAE in tiles, a smaller model file",
        detail,
    )
    .with("in ComfyUI, which chooses this allocator by itself: python main.py --lowvram, VAE Decode (Tiled), models in fp8 or GGUF")
}

/// How much less memory would have been enough.
pub fn missing(situation: &Situation) -> String {
    if let (Some(whole), Some((least, _)), Some(available)) =
        (&situation.whole_step, situation.step_lacks_bytes(), situation.available_bytes())
    {
        let lacking = if least > 0 { format!(": at least {} too little", size(least)) } else { String::new() };
        return format!(
            "the whole step needs {} at its peak, and {} was available{lacking}",
            whole.amount(),
            size(available)
        );
    }
    let would = if situation.supposed.is_some() { "would be enough" } else { "would have been enough" };
    if let (true, Some(needed), Some(available)) =
        (situation.is_impossible(), situation.least_needed_bytes(), situation.available_bytes())
        && situation.supposed.is_some()
    {
        let lacking = size(needed.saturating_sub(available));
        return format!(
            "the program needs {} at once, and {} is available: {lacking} too little",
            size(needed),
            size(available)
        );
    }
    if let (true, Some(held), Some(capacity), None) =
        (situation.exceeds_capacity(), situation.held_bytes, situation.capacity_bytes, situation.engine)
    {
        let over = held.saturating_sub(capacity);
        return format!(
            "what PyTorch holds is {} more than the GPU has: so much less fits without the host's memory",
            size(over)
        );
    }
    if let (Some(Purpose::Load | Purpose::Parts | Purpose::Whole), Some(held), None) =
        (situation.purpose, situation.held_bytes, situation.supposed)
    {
        return format!(
            "{} was reserved when the GPU was full, and the rest of the weights would have followed",
            size(held)
        );
    }
    match (situation.least_shortage_bytes(), situation.held_bytes) {
        (Some(shortage), Some(held)) if shortage > 0 && held > 0 => format!(
            "freeing {} ({}) {would} for this request; later ones may need more",
            size(shortage),
            highwater_units::percent(ratio(shortage, held))
        ),
        (Some(shortage), None) if shortage > 0 => {
            format!("freeing {} {would} for this request; later ones may need more", size(shortage))
        }
        _ => "the numbers do not show how much less would be enough".to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
