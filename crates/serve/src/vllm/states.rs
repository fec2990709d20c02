//! Recurrent states beside attention: whether they are kept at the borders of blocks, for common prefixes, and in how many blocks.
//!
//! # Source
//! vLLM: `is_prefix_caching_supported` of `vllm/config/model.py`, `MambaSpec` of `vllm/v1/kv_cache_interface.py`, and the layers that set its
//! `num_prefill_checkpoint_blocks`: `mamba_mixer2.py` of 0.32.0, `gdn/qwen_gdn_linear_attn.py` of 0.33.0.

use highwater_estimate::LayerCache;

use crate::question::Question;
use crate::version::Version;

/// Since when models with attention beside states cache prefixes by default: 0.26.0; 0.25.1 does not.
const PREFIXES_SINCE: Version = Version::new(0, 26, 0);
/// Since when a long prompt leaves one more state on its way: Mamba 2.
const MAMBA_2_LEAVES_SINCE: Version = Version::new(0, 32, 0);
/// The same for gated delta layers, where `FlashInfer` computes them: on GPUs since the H100.
const GATED_DELTA_LEAVES_SINCE: Version = Version::new(0, 33, 0);
const MAMBA_2: &[&str] = &["mamba2", "nemotron_h", "granitemoehybrid", "falcon_h1"];
const GATED_DELTA: &[&str] = &["qwen3_next", "qwen3_5", "qwen3_5_moe"];

/// Whether states are kept at the borders of blocks.
pub(super) fn are_kept(question: &Question<'_>) -> bool {
    let attends =
        question.model.layers.iter().any(|cache| !matches!(cache, LayerCache::State { .. } | LayerCache::Nothing));
    question.settings.prefix_caching.unwrap_or(attends && question.release.version >= PREFIXES_SINCE)
}

/// Blocks that hold a request's state, without those of drafts.
pub(super) fn blocks(question: &Question<'_>) -> u64 {
    if !are_kept(question) {
        return 1;
    }
    let (family, version) = (question.model.family, question.release.version);
    let is_new_card = question.card().is_none_or(|card| card.compute_capability >= (9, 0));
    let leaves = MAMBA_2.contains(&family) && version >= MAMBA_2_LEAVES_SINCE
        || GATED_DELTA.contains(&family) && is_new_card && version >= GATED_DELTA_LEAVES_SINCE;
    2 + u64::from(leaves)
}
