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

/// Since when windows keep the tokens of every batch that is under way: `max_in_flight_tokens` of `vllm/config/vllm.py` of 0.26.0, which
/// 0.25.1 does not have.
const BATCHES_COUNT_SINCE: Version = Version::new(0, 26, 0);

/// Batches under way at once, as far as the cache keeps their tokens: the next one is scheduled while one runs, unless a search in the prompt
/// drafts, or the first runner has several stages.
///
/// # Source
/// `max_concurrent_batches` of `vllm/config/vllm.py` of 0.26.0 to 0.33.0, and the default of `async_scheduling` there.
pub(super) fn batches(question: &Question<'_>, runner: Runner) -> u64 {
    let stages = question.settings.pp();
    match runner {
        _ if question.release.version < BATCHES_COUNT_SINCE => 1,
        _ if searches(question) => stages,
        Runner::V2 => stages + 1,
        _ if stages == 1 => 2,
        _ => stages,
    }
}

/// Whether a search in the prompt drafts.
fn searches(question: &Question<'_>) -> bool {
    question.settings.speculative.is_some() && question.settings.drafter == Drafter::Nothing
}

/// Whether the second runner is the default for this model.
fn is_second(question: &Question<'_>) -> bool {
    let (model, version) = (question.model, question.release.version);
    let since = |minor| version >= Version::new(0, minor, 0);
    let is_hybrid = model.layers.iter().any(|cache| cache.has_state());
    let is_one_of = |families: &[&str]| families.contains(&model.family);
    match () {
        // Only the first runner searches in the prompt.
        () if searches(question) || !since(22) => false,
        () if !since(23) => is_one_of(&["qwen3"]) && model.quantisation.is_empty(),
        () if !since(24) => is_one_of(&["llama", "mistral", "qwen3"]),
        () if !since(25) => is_one_of(&["llama", "mistral", "qwen3", "deepseek_v2", "qwen2_moe", "granitemoe"]),
        () if !since(30) => {
            !is_hybrid && (model.experts == 0 || is_one_of(&["deepseek_v2", "qwen2_moe", "granitemoe"]))
        }
        () => true,
    }
}
