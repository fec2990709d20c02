//! vLLM's profile run: the peak of a batch as large as the settings allow, above the weights.
//!
//! # Source
//! `vllm/v1/worker/gpu_model_runner.py`, `profile_run`: the encoder of images, then one forward pass, then the sampler;
//! the same in `vllm/v1/worker/gpu/model_runner.py` for the second runner.

use highwater_estimate::ServedVision;

use super::{Filled, Runner};
use crate::arithmetic::{product, share};
use crate::question::Question;
use crate::version::Version;

/// Until when the encoder of images gathers queries, keys and values from all ranks. 0.11 does, 0.24 does not.
const GATHERS_UNTIL: Version = Version::new(0, 12, 0);
/// V1 ran no sampler at first: until 0.7.2 it computed the logits of every token, then those of every sequence, and
/// since 0.8 it samples.
///
/// # Source
/// `profile_run` of 0.7.1, 0.7.3 and 0.8.0.
const LOGITS_OF_SEQUENCES_SINCE: Version = Version::new(0, 7, 3);
const SAMPLES_SINCE: Version = Version::new(0, 8, 0);
/// Bytes of the sampler for each sequence and entry of the vocabulary.
///
/// # Source
/// Fitted on five H100 rows of 0.11 and checked on fifteen rows of 0.6 to 0.11, which give 38.25 to 38.9. PyTorch's
/// sampler has logits in 16 and 32 bits, counts for penalties in 64 bits, sorted values and 64-bit indices, softmax and
/// sums alive together.
const SAMPLER: f64 = 38.4;
/// The same with `FlashInfer`'s sampler, or the Triton one: neither sorts.
///
/// # Source
/// H100 rows of 0.17 to 0.19 (llm-d-planner, accuracy report), without the hidden states: Llama 3.1 8B 14.9, Qwen3 14B
/// 14.9, Qwen2.5 7B 14.9, Gemma 2 14.6 to 14.9. A row of 0.11.2 on an L4 leaves room for 14 to 15.
const LIGHT_SAMPLER: f64 = 14.9;
/// Since when the light sampler is the default: 0.17.0 has `v1/sample/ops/topk_topp_triton.py`, 0.16.0 has not.
/// `FlashInfer`'s is the default since 0.21 (vllm-project/vllm#40376). Up to 0.11.0 it was, too, where `FlashInfer` was
/// installed: `pip` does not do that by itself (#26859), vLLM's container image does.
const LIGHT_SINCE: Version = Version::new(0, 17, 0);
const FLASHINFER_WHERE_INSTALLED_UNTIL: Version = Version::new(0, 11, 0);
/// The second runner samples in place, from the logits alone. Later the profile run samples a second time with every
/// parameter set: logits in the model's type, their copy in 32 bits, and probabilities in 32 bits.
///
/// # Source
/// `_dummy_sampler_run` of 0.28.0, 0.30.0 and 0.33.0. An H100 prints 1.44 GiB with graphs for Llama 3.1 8B.
const WARMS_UP_SINCE: Version = Version::new(0, 31, 0);

/// Since when the first start times kernels that it has fused, on numbers of its own: `benchmark_combo_kernel` of
/// `vllm/config/compilation.py` of 0.11.2; 0.11.0 does not.
const TIMES_KERNELS_SINCE: Version = Version::new(0, 11, 2);

/// Peak of a first start, 0 where nothing is timed: vLLM times the look-up of embeddings on a table as large as the
/// model's, and its result needs memory, too. In a model with an encoder of images, the look-up is not part of the
/// compiled code.
///
/// # Source
/// Logs of 0.22.0 and 0.26.0, Qwen2.5 7B with 2,048 tokens: 1.04 GiB, of which the table has 1.015.
fn of_first_start(question: &Question<'_>, filled: &Filled) -> u64 {
    let (model, settings) = (question.model, &question.settings);
    if model.has_encoder || settings.eager || question.release.version < TIMES_KERNELS_SINCE {
        return 0;
    }
    let entries = model.vocab.next_multiple_of(64) / settings.tp();
    let hidden_states = product([filled.batched, model.hidden, model.element_bytes]);
    product([entries, model.hidden, model.element_bytes]).saturating_add(product([2, hidden_states]))
}

/// The assumption behind the forecast of a later start, if the first start has a higher peak.
pub(super) fn assumed_of_first(question: &Question<'_>, filled: &Filled, peak: u64) -> Option<String> {
    let first = of_first_start(question, filled);
    (!question.settings.first_start && first > peak).then(|| {
        format!(
            "a cache of `torch.compile` from an earlier start; the first start peaks at {} instead (`--first-start`)",
            highwater_units::size(first)
        )
    })
}

/// The peak of the profile run above the weights, and its cause.
pub(super) fn activation(question: &Question<'_>, filled: &Filled, is_first: bool, is_last: bool) -> (u64, String) {
    let (model, settings) = (question.model, &question.settings);
    let (ranks, element) = (settings.tp(), model.element_bytes);
    let tokens = filled.batched;
    // Gate and up, their product, and three of the hidden size: input, residual, output; a copy more where ranks add up, and
    // where xFormers attends.
    let is_old_card = question.card().is_some_and(|card| card.compute_capability < (8, 0));
    let hidden = 3 + u64::from(ranks > 1) + u64::from(is_old_card);
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
    let vision = model.vision.filter(|_| !settings.text_only && !settings.skips_images);
    let images = vision.map(|vision| Images::of(question, filled, &vision)).unwrap_or_default();
    // What the encoder makes of its images stays for the forward pass.
    let outputs = vision.map_or(1, |vision| vision.outputs);
    let kept = product([images.tokens, outputs, model.hidden, element]);
    forward.0 = forward.0.saturating_add(kept);
    let encoder = vision.map_or(0, |vision| product([images.patches, of_patch(question, &vision)]));
    let encoder = encoder.saturating_add(product([images.made, outputs, model.hidden, element]));
    if encoder > forward.0 {
        forward = (encoder, "image encoder of the profile batch".to_owned());
    }
    let timed = if is_first && settings.first_start { of_first_start(question, filled) } else { 0 };
    if timed > forward.0 {
        forward = (timed, "embedding table that the first start times".to_owned());
    }
    let is_sampling = is_last && !filled.is_chunked_v0 && model.vocab > 0;
    if is_sampling {
        let (rows, bytes, what) = sampled(question, filled);
        let sampler = share(product([rows, model.vocab]), bytes).saturating_add(hidden_states).saturating_add(kept);
        if sampler > forward.0 {
            return (sampler, format!("{what} × {} entries of the vocabulary", model.vocab));
        }
    }
    forward
}

/// Rows that the profile run computes logits of, bytes of each and entry of the vocabulary, and their name.
#[expect(clippy::cast_precision_loss, reason = "2 or 4")]
fn sampled(question: &Question<'_>, filled: &Filled) -> (u64, f64, String) {
    let version = question.release.version;
    let sequences = filled.sequences.min(filled.batched);
    let of_logits = question.model.element_bytes as f64;
    match filled.runner {
        Runner::V1 if version < LOGITS_OF_SEQUENCES_SINCE => {
            (filled.batched, of_logits, format!("logits: {} tokens", filled.batched))
        }
        Runner::V1 if version < SAMPLES_SINCE => (sequences, of_logits, format!("logits: {sequences} sequences")),
        Runner::V2 => {
            let processed = if version >= WARMS_UP_SINCE { 8.0 } else { 0.0 };
            (sequences, of_logits + processed, format!("sampler: {sequences} sequences"))
        }
        _ => {
            let bytes = if is_light(question, filled) { LIGHT_SAMPLER } else { SAMPLER };
            (sequences, bytes, format!("sampler: {sequences} sequences"))
        }
    }
}

/// Images of the profile batch, all together.
#[derive(Clone, Copy, Debug, Default)]
struct Images {
    /// Tokens that the encoder makes of them.
    made: u64,
    /// Tokens that wait for the language model: with copies.
    tokens: u64,
    /// Patches that the encoder has of them.
    patches: u64,
}

impl Images {
    /// V0 gives one image to every sequence. V1 takes as many of the largest as its budget of tokens holds, and one at
    /// least.
    ///
    /// # Source
    /// `vllm/multimodal/encoder_budget.py` of 0.24. A video of Qwen 2 and 2.5 VL has up to 14 frames of the largest
    /// size, two of which become the tokens of one image: `get_num_frames_with_most_features` of
    /// `vllm/model_executor/models/qwen2_vl.py`; 0.23 prints a budget of 114,688 tokens for Qwen2.5-VL.
    fn of(question: &Question<'_>, filled: &Filled, vision: &ServedVision) -> Images {
        const PAIRS_OF_FRAMES: u64 = 7;
        let of_image = vision.tokens.max(1);
        let count = match filled.runner {
            Runner::V0 => filled.sequences,
            _ if matches!(question.model.kind.as_str(), "qwen2_vl" | "qwen2_5_vl") => {
                (question.max_len() / of_image).clamp(1, PAIRS_OF_FRAMES)
            }
            _ if question.model.kind == "gemma4" => return Images::of_gemma(question, filled),
            _ if is_expanded(question) => {
                let patches = product([VIDEO_TOKENS, vision.most_patches / of_image]);
                return Images { made: VIDEO_TOKENS, tokens: VIDEO_TOKENS + EXPANDED_TOKENS, patches };
            }
            _ => items(question, filled, of_image),
        };
        let made = product([count, vision.tokens]);
        Images { made, tokens: made, patches: product([count, vision.most_patches]) }
    }
}

/// Items of so many tokens in the profile batch: as many as its budget holds, and no more than fit all sequences; one
/// at least.
///
/// # Source
/// `get_mm_max_toks_per_item` and `max_items_per_batch` of `vllm/multimodal/encoder_budget.py` of 0.24.
fn items(question: &Question<'_>, filled: &Filled, tokens: u64) -> u64 {
    let of_sequence = (question.max_len() / tokens.max(1)).max(1);
    (filled.batched / tokens.max(1)).clamp(1, filled.sequences.max(1).saturating_mul(of_sequence))
}

impl Images {
    /// Gemma 4 is profiled with videos: 32 frames of 70 tokens, each of three by three patches, with eight tokens
    /// between them.
    ///
    /// # Source
    /// vLLM 0.23, `vllm/model_executor/models/gemma4_mm.py`, `_VIDEO_MAX_FRAMES` and `get_mm_max_tokens_per_item`. 0.19
    /// prints 6 videos for 16,384 tokens, 0.23 3 for 8,192.
    fn of_gemma(question: &Question<'_>, filled: &Filled) -> Images {
        const FRAMES: u64 = 32;
        const TOKENS: u64 = 70;
        const OF_VIDEO: u64 = FRAMES * (TOKENS + 8);
        let tokens = product([items(question, filled, OF_VIDEO), FRAMES, TOKENS]);
        Images { made: tokens, tokens, patches: product([tokens, 9]) }
    }
}

/// Tokens of the largest video of Qwen 3 VL, and of a sequence that has it, with a time for every two frames: 12.5 for
/// each of its tokens.
///
/// # Source
/// vLLM 0.11, `get_max_video_tokens` of `vllm/model_executor/models/qwen3_vl.py`: 25,165,824 pixels, of which 32 × 32
/// of two frames become a token. 0.11.0 prints a budget of 153,600 tokens for one video.
const VIDEO_TOKENS: u64 = 12_288;
const EXPANDED_TOKENS: u64 = VIDEO_TOKENS * 25 / 2;

/// Whether the profile run copies what the encoder makes into a tensor of the whole budget: `profile_run` of 0.11;
/// 0.16 does not.
fn is_expanded(question: &Question<'_>) -> bool {
    let releases = Version::new(0, 11, 0)..GATHERS_UNTIL;
    releases.contains(&question.release.version) && question.model.kind.starts_with("qwen3_vl")
}

/// Bytes of the encoder of images for each patch of the profile batch: a block's attention.
///
/// # Source
/// vLLM 0.8 to 0.11, `vllm/model_executor/models/qwen2_5_vl.py`, `Qwen2_5_VisionAttention` (with several ranks queries,
/// keys and values are gathered from all, and rotated in 32 bits), and 0.24, where they are not. Peaks of 0.23 on an
/// RTX 4090 with one rank and of 0.28 on RTX 5090 with two are those of Qwen 3.5's encoder.
fn of_patch(question: &Question<'_>, vision: &ServedVision) -> u64 {
    let (element, ranks) = (question.model.element_bytes, question.settings.tp());
    let on_rank = vision.hidden / ranks;
    if question.model.kind == "gemma4" {
        // The encoder is transformers' own: activation function, up-projection and their product are there at once.
        return product([vision.patch, element])
            .saturating_add(product([2, vision.hidden, element]))
            .saturating_add(product([3, vision.intermediate, element]));
    }
    let residual = product([2, vision.hidden, element]);
    if question.release.version < GATHERS_UNTIL {
        let gathered = if ranks > 1 { product([6, vision.hidden, element]) } else { 0 };
        let rotated = product([2, on_rank, element + 8]);
        return product([vision.patch, element + 4]) + residual + gathered + product([6, on_rank, element]) + rotated;
    }
    let attention = product([5, vision.hidden, element]).saturating_add(product([2, on_rank, element]));
    let mlp = product([2, vision.hidden, element]).saturating_add(product([3, vision.intermediate / ranks, element]));
    let block = if vision.is_gated { attention.max(mlp) } else { attention };
    product([vision.patch, element]).saturating_add(residual).saturating_add(block)
}

fn is_light(question: &Question<'_>, filled: &Filled) -> bool {
    let is_usual = question.release.version >= LIGHT_SINCE;
    (is_usual || question.settings.flashinfer_sampler == Some(true)) && filled.runner != Runner::V0
}

/// What the peak takes for granted.
pub(super) fn assumed(question: &Question<'_>, filled: &Filled) -> Option<&'static str> {
    let version = question.release.version;
    let depends = filled.runner == Runner::V1 && (SAMPLES_SINCE..=FLASHINFER_WHERE_INSTALLED_UNTIL).contains(&version);
    (depends && question.settings.flashinfer_sampler.is_none()).then_some(
        "PyTorch's sampler; where FlashInfer is installed, as in vLLM's container image, this release samples with it: put \
         `VLLM_USE_FLASHINFER_SAMPLER=1` before the command",
    )
}

/// A peak that few logs were compared with.
pub(super) fn unchecked(question: &Question<'_>, filled: &Filled) -> Option<&'static str> {
    let version = question.release.version;
    match filled.runner {
        Runner::V1 if version < SAMPLES_SINCE => Some("the profile run of this release was compared with one log only"),
        Runner::V2 => Some("the sampler of the second model runner was compared with two logs only"),
        _ => None,
    }
    .filter(|_| question.model.vocab > 0)
}
