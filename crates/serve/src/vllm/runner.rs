//! The part of vLLM that runs a model: each measures its memory in a way of its own.
//!
//! # Source
//! vLLM, `vllm/config/vllm.py`, `use_v2_model_runner`, of 0.22.1 to 0.33.0.

use crate::flags::Drafter;
use crate::question::Question;
use crate::version::Version;

/// What runs the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runner {
    /// The engine until 0.8.
    V0,
    /// V1: `vllm/v1/worker/gpu_model_runner.py`.
    V1,
    /// Its second model runner, `vllm/v1/worker/gpu/model_runner.py`, whose sampler works in place.
    V2,
}

/// What runs the question's model.
pub(super) fn of(question: &Question<'_>) -> Runner {
    let version = question.release.version;
    let is_v0 = question.release.is_v0.unwrap_or_else(|| {
        let is_old_card = question.card().is_some_and(|card| card.compute_capability < (8, 0));
        version < Version::new(0, 8, 0) || version < Version::new(0, 11, 0) && is_old_card
    });
    match () {
        () if is_v0 => Runner::V0,
        () if is_second(question) => Runner::V2,
        () => Runner::V1,
    }
}

/// Whether the second runner is the default for this model.
fn is_second(question: &Question<'_>) -> bool {
    let (model, version) = (question.model, question.release.version);
    let since = |minor| version >= Version::new(0, minor, 0);
    // A search in the prompt, which only the first runner has.
    let searches = question.settings.speculative.is_some() && question.settings.drafter == Drafter::Nothing;
    let is_hybrid = model.layers.iter().any(|cache| cache.has_state());
    let is_one_of = |families: &[&str]| families.contains(&model.family);
    match () {
        () if searches || !since(22) => false,
        () if !since(23) => is_one_of(&["qwen3"]) && model.quantisation.is_empty(),
        () if !since(24) => is_one_of(&["llama", "mistral", "qwen3"]),
        () if !since(25) => is_one_of(&["llama", "mistral", "qwen3", "deepseek_v2", "qwen2_moe", "granitemoe"]),
        () if !since(30) => {
            !is_hybrid && (model.experts == 0 || is_one_of(&["deepseek_v2", "qwen2_moe", "granitemoe"]))
        }
        () => true,
    }
}
