//! What a question about serving is answered with.

use serde::Serialize;

use crate::version::Engine;

/// The memory of a model that an engine serves, in bytes and tokens.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// The engine.
    pub engine: Engine,
    /// Its release.
    pub engine_version: String,
    /// The model.
    pub model: String,
    /// The GPU: its name, or its memory.
    pub card: String,
    /// GPUs of one replica: tensor-parallel ranks times pipeline stages.
    pub cards: u64,
    /// Whether the engine starts.
    pub starts: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The cache of the rank with the least; negative if the budget is exceeded.
    pub kv_cache_bytes: i64,
    /// Tokens of a block of the cache; null where the cache has no blocks.
    pub block_tokens: Option<u64>,
    /// Blocks.
    pub blocks: Option<u64>,
    /// Tokens of the cache, as this release prints them.
    pub tokens: u64,
    /// The longest sequence.
    pub max_model_len: u64,
    /// Requests of that length at once.
    pub concurrency: f64,
    /// Requests of other lengths at once.
    pub concurrency_at: Vec<ConcurrencyAt>,
    /// The longest sequence that the cache holds.
    pub longest_context_tokens: u64,
    /// Bytes of the cache that one more token of a single sequence takes on a rank.
    pub token_bytes: u64,
    /// Each rank's budget.
    pub ranks: Vec<Rank>,
    /// Changes that free memory, the largest first.
    pub changes: Vec<Change>,
    /// Taken where the question does not say.
    pub assumed: Vec<String>,
    /// The confidence in this result.
    pub confidence: Confidence,
}

/// Why an engine does not start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refusal {
    /// Its kind.
    pub kind: RefusalKind,
    /// The engine's statement, in our words.
    pub sentence: String,
}

/// The kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RefusalKind {
    /// The weights are more than the GPU has.
    WeightsDoNotFit,
    /// The profile run does not fit beside the weights.
    ProfileDoesNotFit,
    /// Nothing is left for the cache.
    NoCache,
    /// The cache does not hold one sequence of the longest length.
    ContextTooLong,
    /// The ranks do not divide the heads.
    HeadsDoNotDivide,
    /// The context is longer than the model's.
    ContextBeyondModel,
    /// There are no experts to divide.
    NoExperts,
    /// Batches are smaller than the engine takes.
    BatchTooSmall,
}

/// Requests of a length at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConcurrencyAt {
    /// Tokens of a request.
    pub tokens: u64,
    /// Requests.
    pub requests: f64,
}

/// A rank's budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rank {
    /// The rank.
    pub rank: u64,
    /// Its pipeline stage.
    pub stage: u64,
    /// The GPU's memory.
    pub total_bytes: u64,
    /// Memory that the engine may use.
    pub budget_bytes: u64,
    /// Weights as loaded.
    pub weights_bytes: u64,
    /// The peak of the profile run above the weights, or the memory that the engine leaves for it.
    pub activation_peak_bytes: u64,
    /// The cause of that peak.
    pub activation_by: String,
    /// Memory that is not PyTorch's and counts against the budget.
    pub non_torch_bytes: u64,
    /// CUDA graphs that count against the budget.
    pub graph_bytes: u64,
    /// The cache; negative where the budget is exceeded.
    pub kv_cache_bytes: i64,
}

/// A change that frees memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The flag.
    pub flag: String,
    /// Its value.
    pub value: String,
    /// Bytes that it frees on a rank, or that the cache shrinks by at the same tokens.
    pub frees_bytes: u64,
    /// Tokens of the cache with it.
    pub tokens: u64,
    /// Whether the engine starts with it.
    pub starts: bool,
    /// Its price.
    pub costs: String,
}

/// The confidence in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Confidence {
    /// The level.
    pub level: Level,
    /// Why.
    pub reason: String,
}

/// Levels of confidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Level {
    /// The rules were compared with logs of this release.
    Checked,
    /// Some term has no rule that was compared with logs.
    Approximate,
    /// The release, or the model's kind, was not checked.
    Unchecked,
}
