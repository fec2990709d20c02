//! The lines that engines print while they start, with the numbers in them.
//!
//! # Source
//! The releases' own sources: vLLM 0.2.7, 0.4.2, 0.4.3, 0.6.3, 0.7.3, 0.8.5, 0.9.2, 0.11.2, 0.15.1, 0.17.1, 0.21.0, 0.22.0, 0.27.1 and
//! 0.33.0; `SGLang` 0.1.16, 0.2.15, 0.3.6, 0.4.3, 0.4.6, 0.4.9, 0.5.3, 0.5.9, 0.5.12, 0.5.22 and 0.5.23. TGI, TensorRT-LLM, llama.cpp and Ollama: lines that users posted (`spec/serving.md`).

use crate::known::{Row, row};

/// Every line. The names of the holes are those that [`Printed`](super::Printed) knows.
pub(crate) const LINES: &[Row] = &[
    row("vllm", "vLLM up to 0.10", "LLM engine (v{version:w})"),
    row("vllm", "vLLM", "vLLM API server version {version:w}"),
    row("vllm", "vLLM up to 0.5", "Capturing the model for CUDA graphs. This may lead"),
    row("vllm", "vLLM 0.6 to 0.8", "Capturing cudagraphs for decoding. This may lead"),
    row("vllm", "vLLM up to 0.9", "Loading model weights took {weights:b}"),
    row("vllm", "vLLM 0.8 or newer", "Model loading took {weights:b}"),
    row(
        "vllm",
        "vLLM 0.6.5 to 0.10",
        "the current vLLM instance can use total_gpu_memory ({total:b}) x gpu_memory_utilization ({utilization:f}) = \
         {budget:b}",
    ),
    row(
        "vllm",
        "vLLM 0.6.5 to 0.10",
        "model weights take {weights:b}; non_torch_memory takes {non_torch:b}; PyTorch activation peak memory takes \
         {activation:b}; the rest of the memory reserved for KV Cache is {kv_cache:s}",
    ),
    row("vllm", "vLLM up to 0.10", "# GPU blocks: {blocks:n}"),
    row("vllm", "vLLM 0.7 to 0.10", "# cuda blocks: {blocks:n}"),
    row("vllm", "vLLM 0.7 to 0.10", "# rocm blocks: {blocks:n}"),
    row("vllm", "vLLM 0.6 or newer", "Maximum concurrency for {max_model_len:n} tokens per request: {concurrency:f}x"),
    row("vllm", "vLLM 0.9 or newer", "Available KV cache memory: {kv_cache:s}"),
    row(
        "vllm",
        "vLLM 0.11 or newer",
        "reserved {kv_setting:b} memory for KV Cache as specified by kv_cache_memory_bytes",
    ),
    row("vllm", "vLLM 0.8 or newer", "KV cache size: {tokens:n} tokens"),
    row("vllm", "vLLM 0.8 to 0.12", "Compiling a graph for dynamic shape takes {compiled:f} s"),
    row("vllm", "vLLM 0.13 or newer", "Compiling a graph for compile range {*} takes {compiled:f} s"),
    row("vllm", "vLLM 0.7 or newer", "Graph capturing finished in {*}took {graphs:b}"),
    row("vllm", "vLLM 0.21 or newer", "CUDA graph pool memory: {graphs:b} (actual), {graphs_estimate:b} (estimated)"),
    row(
        "vllm",
        "vLLM 0.11 or newer",
        "on startup. Desired GPU memory utilization is ({utilization:f}, {budget:b}). Actual usage is {weights:b} for \
         weight, {activation:b} for peak activation, {non_torch:b} for non-torch memory, and {graphs:b} for CUDAGraph memory",
    ),
    row(
        "vllm",
        "vLLM 0.26 or newer",
        "on startup. Desired GPU memory utilization is ({utilization:f}, {budget:b}). Actual usage is {consumed:b} for \
         consumed memory (weights + non-torch), {activation:b} for peak activation, and {graphs:b} for CUDAGraph memory",
    ),
    row("vllm", "vLLM 0.9 or newer", "Free memory on device {*}({free_before:g}/{total:b}) on startup. Desired"),
    row(
        "vllm",
        "vLLM 0.9 or newer",
        "torch peak memory increase: {activation:b}; non-torch forward increase memory: {non_torch:b}; weights memory: \
         {weights:b}",
    ),
    row(
        "vllm",
        "vLLM 0.7 or newer",
        "Sleep mode freed {sleep_freed:b} memory, {sleep_in_use:b} memory is still in use",
    ),
    row("sglang", "SGLang", "Load weight begin. avail mem={free_before:b}"),
    row("sglang", "SGLang", "Load weight end. {*}avail mem={free_after_weights:b}"),
    row("sglang", "SGLang 0.4.4 or newer", "Load weight end. {*}mem usage={weights:b}"),
    row("sglang", "SGLang 0.4.4 or newer", "is allocated. {*}#tokens: {tokens:n}"),
    row("sglang", "SGLang", "is allocated. {*}K size: {kv_part:b}, V size: {kv_part:b}"),
    row("sglang", "SGLang", "is allocated. {*}KV size: {kv_part:b}"),
    row("sglang", "SGLang", "Memory pool end. avail mem={free_after_pool:b}"),
    row("sglang", "SGLang", "max_total_num_tokens={tokens:n},"),
    row("sglang", "SGLang 0.4.4 or newer", "graph end. {*}mem usage={graphs:b}"),
    row("tgi", "TGI 2 or newer", "KV-cache blocks: {blocks:n}, size: {block_size:n}"),
    row("tgi", "TGI", "Setting max batch total tokens to {tokens:n}"),
    row(
        "tensorrt-llm",
        "TensorRT-LLM 0.8 or newer",
        "[MemUsageChange] Allocated {kv_part:b} for max tokens in paged KV cache ({tokens:n})",
    ),
    row("tensorrt-llm", "TensorRT-LLM", "Allocate {kv_raw:n} bytes for k/v cache").at("bytes for k/v cache"),
    row("tensorrt-llm", "TensorRT-LLM", "Using {tokens:n} total tokens in paged KV cache").at("total tokens in paged"),
    row("tensorrt-llm", "TensorRT-LLM", "Loaded engine size: {weights:b}"),
    row("tensorrt-llm", "TensorRT-LLM", "Engine building failed, please check the error log"),
    row("llama.cpp", "llama.cpp", "{<device}model buffer size = {weights_part:b}"),
    row("llama.cpp", "llama.cpp up to 2024", "{<device}buffer size = {weights_part:b}").at("llm_load_tensors:"),
    row("llama.cpp", "llama.cpp", "{<device}KV buffer size = {kv_part_of:b}"),
    row("llama.cpp", "llama.cpp", "{<device}compute buffer size = {compute_part:b}"),
    row("llama.cpp", "llama.cpp", "offloaded {layers_on_gpu:n}/{layers:n} layers to GPU"),
    row("llama.cpp", "llama.cpp", "llama_context: n_ctx = {max_model_len:n}").at("n_ctx "),
    row("llama.cpp", "llama.cpp up to 2024", "llama_new_context_with_model: n_ctx = {max_model_len:n}").at("n_ctx "),
    row("llama.cpp", "llama.cpp", "using device {*}) - {free_before:b} free"),
    row("llama.cpp", "llama.cpp (Metal)", "recommendedMaxWorkingSetSize = {budget:t}").at("recommendedMaxWorking"),
    row("llama.cpp", "llama.cpp", "pipeline parallelism enabled (n_copies={copies:n})"),
    row("ollama", "Ollama up to 0.11", "memory.required.full=\"{required:b}\""),
    row("ollama", "Ollama up to 0.11", "memory.required.partial=\"{partial:b}\""),
    row("ollama", "Ollama up to 0.11", "memory.available=\"[{free_before:b}"),
    row("ollama", "Ollama up to 0.11", "layers.model={layers:n} layers.offload={layers_on_gpu:n}"),
    row("ollama", "Ollama up to 0.11", "memory.required.kv=\"{kv_cache:b}\""),
    row("ollama", "Ollama 0.11 or newer", "msg=\"model weights\" device={device:w} size=\"{weights_part:b}\""),
    row("ollama", "Ollama 0.11 or newer", "msg=\"kv cache\" device={device:w} size=\"{kv_part_of:b}\""),
    row("ollama", "Ollama 0.11 or newer", "msg=\"compute graph\" device={device:w} size=\"{compute_part:b}\""),
];

/// Bytes that a line with an engine's settings holds.
pub(crate) const SETTINGS: [&str; 19] = [
    "LLM engine (v",
    "default args",
    "server_args=",
    "args: Namespace",
    "vllm serve",
    "vllm.entrypoints",
    "gpu-memory-utilization",
    "gpu_memory_utilization=",
    "mem-fraction-static",
    "sglang.launch_server",
    "llama-server ",
    "llama-cli ",
    "vllm/vllm-openai",
    "lmsysorg/sglang",
    "text-generation-launcher ",
    "trtllm-serve ",
    "--max_batch_size",
    "cache_max_entry_count=",
    "cache-max-entry-count",
];

/// A setting of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Model,
    Dtype,
    Quantization,
    KvDtype,
    MaxModelLen,
    TensorParallel,
    PipelineParallel,
    MaxNumSeqs,
    MaxNumBatchedTokens,
    Utilization,
    MemFractionStatic,
    EnforceEager,
    MaxRunningRequests,
    ChunkedPrefillSize,
    KvCacheMemory,
    CacheMaxEntryCount,
    SleepMode,
}

/// The names of settings, with `_` for `-`. The earlier counts.
pub(crate) const NAMES: [(&str, Setting); 29] = [
    ("model_path", Setting::Model),
    ("model_tag", Setting::Model),
    ("model", Setting::Model),
    ("kv_cache_dtype", Setting::KvDtype),
    ("dtype", Setting::Dtype),
    ("quantization", Setting::Quantization),
    ("max_model_len", Setting::MaxModelLen),
    ("max_seq_len", Setting::MaxModelLen),
    ("context_length", Setting::MaxModelLen),
    ("session_len", Setting::MaxModelLen),
    ("tensor_parallel_size", Setting::TensorParallel),
    ("tp_size", Setting::TensorParallel),
    ("tp", Setting::TensorParallel),
    ("pipeline_parallel_size", Setting::PipelineParallel),
    ("pp_size", Setting::PipelineParallel),
    ("max_num_seqs", Setting::MaxNumSeqs),
    ("max_batch_size", Setting::MaxNumSeqs),
    ("max_num_batched_tokens", Setting::MaxNumBatchedTokens),
    ("gpu_memory_utilization", Setting::Utilization),
    ("mem_fraction_static", Setting::MemFractionStatic),
    ("enforce_eager", Setting::EnforceEager),
    ("disable_cuda_graph", Setting::EnforceEager),
    ("max_running_requests", Setting::MaxRunningRequests),
    ("chunked_prefill_size", Setting::ChunkedPrefillSize),
    ("kv_cache_memory_bytes", Setting::KvCacheMemory),
    ("kv_cache_memory", Setting::KvCacheMemory),
    ("cache_max_entry_count", Setting::CacheMaxEntryCount),
    ("enable_sleep_mode", Setting::SleepMode),
    ("enable_memory_saver", Setting::SleepMode),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_pattern_that_begins_with_words() {
        for row in LINES {
            let pattern = row.pattern.strip_prefix("{<device}").unwrap_or(row.pattern);
            assert!(!pattern.is_empty() && !pattern.starts_with('{'), "{}", row.pattern);
        }
    }
}
