//! What an engine that serves a language model prints while it starts: vLLM, `SGLang`, TGI, TensorRT-LLM, llama.cpp, Ollama.

mod lines;
mod settings;

pub(crate) use lines::{LINES, SETTINGS};
pub(crate) use settings::Names;

use crate::known::{Decimal, Value, Values};

/// Processes of an engine that are told apart.
const MAX_RANKS: usize = 1024;
/// Shares of the GPU that are kept.
const MAX_SHARES: usize = 16;
/// Nobody gives an engine less than this part of a GPU, in millionths.
const LEAST_SHARE: u64 = 300_000;
/// Sleeps whose rest is kept.
const MAX_SLEEPS: usize = 256;

/// The numbers that an engine printed; sizes are in bytes. A field is `None` where the log has no such line.
///
/// ```
/// use highwater_oom::EngineLog;
///
/// let log = EngineLog::read(b"INFO 05-01 [gpu_worker.py:278] Available KV cache memory: 40.61 GiB\n").unwrap();
/// assert_eq!((log.engine, log.printed().kv_cache_bytes), (Some("vllm"), Some(43_604_655_473)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineLog {
    /// `vllm`, `sglang`, `tgi`, `tensorrt-llm`, `llama.cpp`, `ollama` or `lmdeploy`.
    pub engine: Option<&'static str>,
    /// The release, as printed.
    pub version: Option<String>,
    /// The model, as given to the engine.
    pub model: Option<String>,
    /// The type of the weights and activations, such as `torch.bfloat16`.
    pub dtype: Option<String>,
    /// The quantisation of the weights.
    pub quantization: Option<String>,
    /// The type of the KV cache, such as `fp8`; `auto` is that of the model.
    pub kv_dtype: Option<String>,
    /// The longest request: `max_model_len`, `context_length`, `n_ctx`.
    pub max_model_len: Option<u64>,
    /// GPUs that share each layer.
    pub tensor_parallel: Option<u64>,
    /// Stages of layers.
    pub pipeline_parallel: Option<u64>,
    /// Most sequences in a batch: `max_num_seqs`, `max_running_requests`.
    pub max_num_seqs: Option<u64>,
    /// Most tokens in a batch: `max_num_batched_tokens`, `chunked_prefill_size`.
    pub max_num_batched_tokens: Option<u64>,
    /// `gpu_memory_utilization` of vLLM.
    pub utilization: Option<Decimal>,
    /// `mem_fraction_static` of `SGLang`.
    pub mem_fraction_static: Option<Decimal>,
    /// Each `mem_fraction_static` that the log names, in order.
    pub shares_tried: Vec<Decimal>,
    /// `cache_max_entry_count` of `LMDeploy`.
    pub cache_max_entry_count: Option<Decimal>,
    /// A KV cache of a given size, where one is set.
    pub kv_cache_setting_bytes: Option<u64>,
    /// CUDA graphs are off.
    pub is_eager: Option<bool>,
    /// It compiled the model, as at a first start: the cache of `torch.compile` was empty.
    pub compiles: bool,
    /// Sleep mode is on.
    pub has_sleep_mode: bool,
    /// The numbers of each process, by their first line.
    pub ranks: Vec<Printed>,
    /// Why it did not start, in its own words: the identifier of a known text, such as `vllm-no-blocks`.
    pub refusal: Option<&'static str>,
}

/// What one process of an engine printed; sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// The process in the job, where its lines name it.
    pub rank: Option<u32>,
    /// All memory of the GPU.
    pub total_bytes: Option<u64>,
    /// Free memory before the weights.
    pub free_before_bytes: Option<u64>,
    /// Free memory after the weights.
    pub free_after_weights_bytes: Option<u64>,
    /// Free memory after the KV cache.
    pub free_after_pool_bytes: Option<u64>,
    /// What the engine may use: total times utilisation.
    pub budget_bytes: Option<u64>,
    /// The weights as loaded.
    pub weights_bytes: Option<u64>,
    /// The peak of activations in the profile run.
    pub activation_peak_bytes: Option<u64>,
    /// What is outside PyTorch: context, NCCL.
    pub non_torch_bytes: Option<u64>,
    /// Weights and what is outside PyTorch in one number, where the release prints only that.
    pub consumed_bytes: Option<u64>,
    /// CUDA graphs as captured.
    pub graph_bytes: Option<u64>,
    /// CUDA graphs as estimated before.
    pub graph_estimate_bytes: Option<u64>,
    /// Memory for the KV cache; below zero where there is a deficit.
    pub kv_cache_bytes: Option<i64>,
    /// Tokens that the KV cache holds.
    pub kv_tokens: Option<u64>,
    /// Blocks of the KV cache.
    pub gpu_blocks: Option<u64>,
    /// Tokens in a block.
    pub block_size: Option<u64>,
    /// Requests of the longest length that fit at once.
    pub max_concurrency: Option<Decimal>,
    /// Buffers of the graph, of llama.cpp and Ollama.
    pub compute_bytes: Option<u64>,
    /// Layers on the GPU.
    pub layers_on_gpu: Option<u64>,
    /// Layers of the model.
    pub layers: Option<u64>,
    /// All that the model needs, as Ollama estimates it.
    pub required_bytes: Option<u64>,
    /// What it estimates for the layers that it puts on the GPU.
    pub partial_bytes: Option<u64>,
    /// Copies of a graph's buffers that llama.cpp keeps for pipeline parallelism.
    pub graph_copies: Option<u64>,
    /// Memory still in use after each sleep, in order.
    pub sleep_in_use_bytes: Vec<u64>,
}

impl EngineLog {
    /// Reads a whole log; `None` if no engine wrote a line of it that is known.
    pub fn read(log: &[u8]) -> Option<Self> {
        let mut reader = crate::LogReader::new();
        reader.push(log);
        reader.finish().engine
    }

    /// The numbers of all processes as one: the first that was printed of each, and of the KV cache the smallest, since that decides.
    pub fn printed(&self) -> Printed {
        let mut all = Printed::default();
        for rank in &self.ranks {
            all.fill(rank);
        }
        all.rank = None;
        all.kv_cache_bytes = self.ranks.iter().filter_map(|rank| rank.kv_cache_bytes).min();
        all
    }

    /// Takes the values of a line of a table.
    pub(crate) fn take(&mut self, engine: &'static str, values: Values, rank: Option<u32>) {
        self.engine.get_or_insert(engine);
        let mut is_on_gpu = true;
        for (name, value) in values {
            match (name, value) {
                ("version", Value::Text(version)) => drop(self.version.get_or_insert(version)),
                ("device", Value::Text(device)) => is_on_gpu = is_gpu(&device),
                ("max_model_len", Value::Number(tokens)) => {
                    self.max_model_len.get_or_insert(tokens);
                }
                ("utilization", Value::Decimal(share)) => {
                    self.utilization.get_or_insert(share);
                }
                ("compiled", _) => self.compiles = true,
                ("kv_setting", Value::Bytes(bytes)) => {
                    self.kv_cache_setting_bytes = self.kv_cache_setting_bytes.or(u64::try_from(bytes).ok());
                }
                (name, value) if is_on_gpu => {
                    if let Some(printed) = self.rank(rank) {
                        printed.take(name, &value);
                    }
                }
                _ => {}
            }
        }
    }

    fn rank(&mut self, rank: Option<u32>) -> Option<&mut Printed> {
        let at = self.ranks.iter().position(|printed| printed.rank == rank);
        if at.is_none() && self.ranks.len() < MAX_RANKS {
            self.ranks.push(Printed { rank, ..Printed::default() });
        }
        let at = at.unwrap_or(self.ranks.len() - 1);
        self.ranks.get_mut(at).filter(|printed| printed.rank == rank)
    }
}

/// Whether a buffer of llama.cpp or Ollama is in a GPU's memory.
fn is_gpu(device: &str) -> bool {
    !(device.is_empty() || device.contains("CPU") || device.contains("Host") || device.contains("host"))
}

impl Printed {
    fn take(&mut self, name: &str, value: &Value) {
        let (bytes, number) = match *value {
            Value::Bytes(bytes) => (u64::try_from(bytes).unwrap_or(0), 0),
            Value::Number(number) => (0, number),
            Value::Decimal(_) | Value::Text(_) => (0, 0),
        };
        let set = |field: &mut Option<u64>, value: u64| *field = Some(value);
        let add = |field: &mut Option<u64>| *field = Some(field.unwrap_or(0).saturating_add(bytes));
        match name {
            "total" => set(&mut self.total_bytes, bytes),
            "free_before" => drop(self.free_before_bytes.get_or_insert(bytes)),
            "free_after_weights" => set(&mut self.free_after_weights_bytes, bytes),
            "free_after_pool" => set(&mut self.free_after_pool_bytes, bytes),
            "budget" => set(&mut self.budget_bytes, bytes),
            "weights" => drop(self.weights_bytes.get_or_insert(bytes)),
            "weights_part" => add(&mut self.weights_bytes),
            "activation" => set(&mut self.activation_peak_bytes, bytes),
            "non_torch" => set(&mut self.non_torch_bytes, bytes),
            "consumed" => set(&mut self.consumed_bytes, bytes),
            "graphs" => set(&mut self.graph_bytes, bytes),
            "graphs_estimate" => set(&mut self.graph_estimate_bytes, bytes),
            "kv_cache" => {
                if let Value::Bytes(bytes) = *value {
                    self.kv_cache_bytes = Some(bytes);
                }
            }
            "kv_part" | "kv_part_of" => {
                let more = i64::try_from(bytes).unwrap_or(i64::MAX);
                self.kv_cache_bytes = Some(self.kv_cache_bytes.unwrap_or(0).saturating_add(more));
            }
            "kv_raw" => self.kv_cache_bytes = i64::try_from(number).ok(),
            "tokens" => set(&mut self.kv_tokens, number),
            "blocks" => set(&mut self.gpu_blocks, number),
            "block_size" => set(&mut self.block_size, number),
            "concurrency" => {
                if let Value::Decimal(decimal) = *value {
                    self.max_concurrency = Some(decimal);
                }
            }
            "compute_part" => add(&mut self.compute_bytes),
            "layers_on_gpu" => set(&mut self.layers_on_gpu, number),
            "layers" => set(&mut self.layers, number),
            "required" => set(&mut self.required_bytes, bytes),
            "partial" => set(&mut self.partial_bytes, bytes),
            "copies" => set(&mut self.graph_copies, number),
            "sleep_in_use" if self.sleep_in_use_bytes.len() < MAX_SLEEPS => self.sleep_in_use_bytes.push(bytes),
            _ => {}
        }
    }

    /// Takes what is not known yet from another process.
    fn fill(&mut self, other: &Self) {
        let fields = [
            (&mut self.total_bytes, other.total_bytes),
            (&mut self.free_before_bytes, other.free_before_bytes),
            (&mut self.free_after_weights_bytes, other.free_after_weights_bytes),
            (&mut self.free_after_pool_bytes, other.free_after_pool_bytes),
            (&mut self.budget_bytes, other.budget_bytes),
            (&mut self.weights_bytes, other.weights_bytes),
            (&mut self.activation_peak_bytes, other.activation_peak_bytes),
            (&mut self.non_torch_bytes, other.non_torch_bytes),
            (&mut self.consumed_bytes, other.consumed_bytes),
            (&mut self.graph_bytes, other.graph_bytes),
            (&mut self.graph_estimate_bytes, other.graph_estimate_bytes),
            (&mut self.kv_tokens, other.kv_tokens),
            (&mut self.gpu_blocks, other.gpu_blocks),
            (&mut self.block_size, other.block_size),
            (&mut self.compute_bytes, other.compute_bytes),
            (&mut self.layers_on_gpu, other.layers_on_gpu),
            (&mut self.layers, other.layers),
            (&mut self.required_bytes, other.required_bytes),
            (&mut self.partial_bytes, other.partial_bytes),
            (&mut self.graph_copies, other.graph_copies),
        ];
        for (field, value) in fields {
            *field = field.or(value);
        }
        self.max_concurrency = self.max_concurrency.or(other.max_concurrency);
        if self.sleep_in_use_bytes.is_empty() {
            self.sleep_in_use_bytes.clone_from(&other.sleep_in_use_bytes);
        }
    }
}
