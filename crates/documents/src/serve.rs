//! `highwater-serve`: whether an engine can serve a model on a GPU.

use highwater_serve::Answer;
use serde::Serialize;

use crate::{Document, Format, Version};

/// A model that an engine serves on a GPU.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServeView {
    format: Format<Self>,
    version: Version<Self>,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
    /// Flags of a pasted command line that are not known to decide about memory.
    pub ignored_flags: Vec<String>,
    /// Each GPU of `--fit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<Vec<GpuView>>,
    /// The smallest GPUs that serve the requests of `--need`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub need: Option<NeedView>,
    /// A log beside the forecast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<ServeAgainstView>,
}

impl Document for ServeView {
    const FORMAT: &'static str = "highwater-serve";
    const VERSION: u32 = 1;
}

/// The model on a GPU.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpuView {
    /// The GPU: its name, or its memory.
    pub card: String,
    /// GPUs that are needed.
    pub cards: u64,
    /// Whether the engine starts.
    pub starts: bool,
    /// Bytes of the cache of the rank with the least; negative if the budget is exceeded.
    pub kv_cache_bytes: i64,
    /// Tokens of the cache, as this release prints them.
    pub tokens: u64,
    /// Requests of the longest length at once.
    pub concurrency: f64,
    /// The longest sequence that the cache holds.
    pub longest_context_tokens: u64,
}

/// The requests of `--need`, and the GPUs that serve them.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NeedView {
    /// Requests at once.
    pub requests: u64,
    /// Tokens of each.
    pub tokens: u64,
    /// The ways to serve them, smallest GPUs first: one way for each number of GPUs.
    pub ways: Vec<WayView>,
}

/// GPUs and flags that serve the requests.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WayView {
    /// The GPU.
    pub card: String,
    /// Their number.
    pub cards: u64,
    /// The flags.
    pub flags: Vec<String>,
    /// Requests of that length at once.
    pub concurrency: f64,
    /// All memory of these GPUs.
    pub memory_bytes: u64,
}

/// A log beside the forecast.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServeAgainstView {
    /// The name of the log.
    pub log: String,
    /// Each term that the log prints.
    pub terms: Vec<ServeTermView>,
    /// The term that differs most, or a note that the log does not print it.
    pub differs_most: Option<String>,
}

/// A term of both.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServeTermView {
    /// Its name.
    pub term: String,
    /// By the forecast.
    pub forecast: f64,
    /// By the log.
    pub printed: f64,
    /// Whether both are bytes; otherwise they are numbers.
    pub is_bytes: bool,
}

impl ServeView {
    /// The document of an answer.
    pub fn new(answer: Answer) -> Self {
        Self {
            format: Format::default(),
            version: Version::default(),
            answer,
            ignored_flags: Vec::new(),
            fit: None,
            need: None,
            against: None,
        }
    }
}

impl GpuView {
    /// The row of an answer.
    pub fn new(answer: &Answer) -> Self {
        Self {
            card: answer.card.clone(),
            cards: answer.cards,
            starts: answer.starts,
            kv_cache_bytes: answer.kv_cache_bytes,
            tokens: answer.tokens,
            concurrency: answer.concurrency,
            longest_context_tokens: answer.longest_context_tokens,
        }
    }
}
