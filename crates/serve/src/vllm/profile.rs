//! vLLM's profile run: the peak of a batch as large as the settings allow, above the weights.
//!
//! # Source
//! `vllm/v1/worker/gpu_model_runner.py`, `profile_run`: the encoder of images, then one forward pass, then the sampler.

use super::{Filled, is_v0};
use crate::arithmetic::{product, share};
use crate::question::Question;
use crate::version::Version;

/// Until when the encoder of images gathers queries, keys and values from all ranks. 0.11 does, 0.24 does not.
const GATHERS_UNTIL: Version = Version::new(0, 12, 0);
/// Bytes of the sampler for each sequence and entry of the vocabulary.
///
/// # Source
/// Fitted on five H100 rows of 0.11 and checked on fifteen rows of 0.6 to 0.11, which give 38.25 to 38.9. PyTorch's sampler has
/// logits in 16 and 32 bits, counts for penalties in 64 bits, sorted values and 64-bit indices, softmax and sums alive together.
const SAMPLER: f64 = 38.4;
/// The same with `FlashInfer`'s sampler, or the Triton one: neither sorts.
///
/// # Source
/// A row of 0.11.2 on an L4 leaves room for 14 to 15 B, one of 0.19 on an RTX 3090 for as much.
const LIGHT_SAMPLER: f64 = 15.0;
/// Since when the light sampler is the default: 0.17.0 has `v1/sample/ops/topk_topp_triton.py`, 0.16.0 has not. `FlashInfer`'s is the
/// default since 0.21 (vllm-project/vllm#40376). Up to 0.11.0 it was, too, where `FlashInfer` was installed, which `pip` does not do by
/// itself (#26859): two rows, of 0.11.0 and 0.11.2, have its peak, the others of that time have not.
const LIGHT_SINCE: Version = Version::new(0, 17, 0);

/// The peak of the profile run above the weights, and its cause.
pub(super) fn activation(question: &Question<'_>, filled: &Filled, is_last: bool) -> (u64, String) {
    let (model, settings) = (question.model, &question.settings);
    let (ranks, element) = (settings.tp(), model.element_bytes);
    let tokens = filled.batched;
    // Gate and up, their product, and three of the hidden size: input, residual, output; a copy more where ranks add up.
    let hidden = 3 + u64::from(ranks > 1);
    let hidden_states = product([tokens, model.hidden, element]);
    let mlp =
        product([tokens, 3, model.intermediate / ranks, element]).saturating_add(product([hidden, hidden_states]));
    let (chosen, width) = model.routed;
    let experts = product([tokens, chosen, (3 * width / ranks).saturating_add(model.hidden), element])
        .saturating_add(product([2, hidden_states]));
    let (forward, what) = if experts > mlp { (experts, "experts") } else { (mlp, "MLP") };
    let mut forward = (forward, format!("{what} of the profile batch: {tokens} tokens"));
    if model.quantisation.contains("bitsandbytes") {
        // Each product is dequantised as a whole, and its output is copied into place.
        let whole = product([model.intermediate, model.hidden, element]);
        forward.0 = forward.0.saturating_add(whole).saturating_add(hidden_states);
    }
    let rows = filled.sequences.min(tokens);
    let is_sampling = is_last && !filled.is_chunked_v0 && model.vocab > 0;
    let encoder = encoder(question, filled);
    // What the encoder makes of its images stays for the forward pass.
    let kept = model.vision.map_or(0, |vision| product([images(filled), vision.tokens, model.hidden, element]));
    forward.0 = forward.0.saturating_add(kept);
    if encoder > forward.0 {
        forward = (encoder, "encoder of images of the profile batch".to_owned());
    }
    if is_sampling {
        let bytes = if is_light(question) { LIGHT_SAMPLER } else { SAMPLER };
        let sampler = share(product([rows, model.vocab]), bytes).saturating_add(hidden_states).saturating_add(kept);
        if sampler > forward.0 {
            return (sampler, format!("sampler: {rows} sequences × {} entries of the vocabulary", model.vocab));
        }
    }
    forward
}

/// Images of the profile batch: V0 gives one to every sequence, V1 as many as its budget of tokens holds, which is one of the largest.
fn images(filled: &Filled) -> u64 {
    if filled.is_v0 { filled.sequences } else { 1 }
}

/// The peak of the encoder of images: a block's attention over all patches of the profile batch.
///
/// # Source
/// vLLM 0.8 to 0.11, `vllm/model_executor/models/qwen2_5_vl.py`, `Qwen2_5_VisionAttention` (with several ranks queries, keys and values
/// are gathered from all, and rotated in 32 bits), and 0.24, where they are not. An image of the largest size has 16,384 tokens there.
fn encoder(question: &Question<'_>, filled: &Filled) -> u64 {
    let (model, ranks) = (question.model, question.settings.tp());
    let Some(vision) = model.vision else { return 0 };
    let element = model.element_bytes;
    let is_gathered = question.release.version < GATHERS_UNTIL;
    let on_rank = vision.hidden / ranks;
    let residual = product([2, vision.hidden, element]);
    let of_patch = if is_gathered {
        let gathered = if ranks > 1 { product([6, vision.hidden, element]) } else { 0 };
        let rotated = product([2, on_rank, element + 8]);
        product([vision.patch, element + 4]) + residual + gathered + product([6, on_rank, element]) + rotated
    } else {
        product([vision.patch, element]) + residual + product([7, on_rank, element])
    };
    product([images(filled), vision.most_patches, of_patch])
}

pub(super) fn is_light(question: &Question<'_>) -> bool {
    let is_usual = question.release.version >= LIGHT_SINCE;
    (is_usual || question.settings.flashinfer_sampler == Some(true)) && !is_v0(question)
}
