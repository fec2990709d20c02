//! What a log says beside PyTorch's messages: failures by their words, and an engine's start-up.

use highwater_oom::{EngineLog, Event, Value};

/// A failure of an engine, a library or the host, by its words.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorView {
    /// A stable word for its meaning, such as `vllm-no-blocks`.
    pub id: &'static str,
    /// Who prints it, and in which releases.
    pub origin: &'static str,
    /// The number of equal ones.
    pub count: u64,
    /// The line of the first, from 1 on.
    pub line: u64,
    /// The process in the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Its numbers and names.
    pub values: Vec<ValueView>,
}

/// A number or a name of such a failure.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ValueView {
    /// Its name, such as `needed`.
    pub name: &'static str,
    /// An amount of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// Another number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// A name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl ErrorView {
    pub(crate) fn new(event: &Event) -> Self {
        let value = |(name, value): &(&'static str, Value)| {
            let mut view = ValueView { name, bytes: None, number: None, text: None };
            match value {
                Value::Bytes(bytes) => view.bytes = Some(*bytes),
                #[expect(clippy::cast_precision_loss, reason = "a count, for showing")]
                Value::Number(number) => view.number = Some(*number as f64),
                Value::Decimal(decimal) => view.number = Some(decimal.value()),
                Value::Text(text) => view.text = Some(text.clone()),
            }
            view
        };
        Self {
            id: event.id,
            origin: event.origin,
            count: event.count,
            line: event.line,
            rank: event.rank,
            values: event.values.iter().map(value).collect(),
        }
    }
}

/// The numbers that a serving engine printed while it started. Of several processes it has the first number of each
/// kind, and the smallest of the KV cache.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EngineView {
    /// `vllm`, `sglang`, `tgi`, `tensorrt-llm`, `llama.cpp`, `ollama` or `lmdeploy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<&'static str>,
    /// The release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The model, as given to the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of the longest request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u64>,
    /// The engine's share of the GPU: `gpu_memory_utilization`, `mem_fraction_static`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// All memory of the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// The memory that the engine may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// The weights as loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights_bytes: Option<u64>,
    /// The peak of activations in the profile run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_peak_bytes: Option<u64>,
    /// The memory outside PyTorch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub non_torch_bytes: Option<u64>,
    /// CUDA graphs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph_bytes: Option<u64>,
    /// Memory for the KV cache; below zero where there is a deficit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_bytes: Option<i64>,
    /// Tokens that the KV cache holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_tokens: Option<u64>,
    /// Blocks of the KV cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_blocks: Option<u64>,
}

impl EngineView {
    pub(crate) fn new(log: &EngineLog) -> Self {
        let printed = log.printed();
        Self {
            engine: log.engine,
            version: log.version.clone(),
            model: log.model.clone(),
            max_model_len: log.max_model_len,
            share: log.utilization.or(log.mem_fraction_static).map(highwater_oom::Decimal::value),
            total_bytes: printed.total_bytes,
            budget_bytes: printed.budget_bytes,
            weights_bytes: printed.weights_bytes,
            activation_peak_bytes: printed.activation_peak_bytes,
            non_torch_bytes: printed.non_torch_bytes,
            graph_bytes: printed.graph_bytes,
            kv_cache_bytes: printed.kv_cache_bytes,
            kv_tokens: printed.kv_tokens,
            gpu_blocks: printed.gpu_blocks,
        }
    }
}
