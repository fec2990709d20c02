//! Failures of engines that serve models.
//!
//! # Source
//! vLLM and `SGLang`: the releases named in `engine/lines.rs`; TGI 1.0 to 3.3; Ollama 0.1 to 0.32, with the llama.cpp in it; TensorRT-LLM:
//! messages that users posted.

use super::{Row, row, words};

/// The rows.
pub(super) const ROWS: &[Row] = &[
    // vLLM.
    row("vllm-no-blocks", "vLLM", "No available memory for the cache", "No available memory for the cache blocks"),
    row(
        "vllm-kv-too-small",
        "vLLM 0.8 or newer",
        "To serve at least one",
        "max seq len ({max_model_len:n}), ({needed:b} KV cache is needed, which is larger than the available KV cache memory ({available:b}).{*}estimated maximum model length is {fits:n}",
    ),
    row(
        "vllm-kv-too-small",
        "vLLM 0.7 or newer",
        "To serve at least one",
        "max seq len ({max_model_len:n}), ({needed:b} KV cache is needed, which is larger than the available KV cache memory ({available:b})",
    ),
    row(
        "vllm-kv-too-small",
        "vLLM 0.7",
        "To serve at least one",
        "max seq len ({max_model_len:n}), ({needed:b} KV cache is needed, which is larger than the available KV Cache memory ({available:b})",
    ),
    row(
        "vllm-seq-len",
        "vLLM up to 0.10",
        "larger than the maximum number",
        "max seq len ({max_model_len:n}) is larger than the maximum number of tokens that can be stored in KV cache ({tokens:n})",
    ),
    row(
        "vllm-free-memory",
        "vLLM 0.9 or newer",
        "less than desired GPU memory",
        "Free memory on device {*}({free:g}/{total:b}) on startup is less than desired GPU memory utilization ({utilization:f}, {requested:b})",
    ),
    row(
        "vllm-sampler",
        "vLLM 0.8 or newer",
        "warming up sampler",
        "warming up sampler with {requests:n} dummy requests",
    ),
    row(
        "vllm-autofit",
        "vLLM 0.14 or newer",
        "Cannot auto-fit max_model_len",
        "Cannot auto-fit max_model_len: not enough GPU memory",
    ),
    row(
        "vllm-profiling",
        "vLLM 0.9 or newer",
        "Error in memory profiling",
        "Error in memory profiling. Initial free memory {before:b}, current free memory {after:b}",
    ),
    words("vllm-profiling", "vLLM", "Error in memory profiling. Initial"),
    row("vllm-cumem", "vLLM 0.7 or newer", "CUDA Error: out of memory", "CUDA Error: out of memory at {file:w}"),
    row(
        "vllm-expandable",
        "vLLM 0.7 or newer",
        "xpandable segments are not compatible",
        "xpandable segments are not compatible with memory pool",
    ),
    // SGLang.
    row(
        "sglang-pool",
        "SGLang 0.5 or newer",
        "--mem-fraction-static",
        "Not enough memory. Please try to increase --mem-fraction-static. Current value: {*}mem_fraction_static={fraction:f}",
    ),
    row(
        "sglang-pool",
        "SGLang",
        "--mem-fraction-static",
        "Not enough memory. Please try to increase --mem-fraction-static.",
    ),
    row("sglang-graphs", "SGLang", "graph failed", "Capture cuda graph failed: {*}out of memory"),
    row("sglang-graphs", "SGLang 0.5.20 or newer", "graph failed", "Capture CUDA graph failed: {*}out of memory"),
    row("sglang-prefill", "SGLang", "Prefill out of memory", "Prefill out of memory. Try to lower your batch size"),
    row("sglang-decode", "SGLang", "Decode out of memory", "Decode out of memory. Try to lower your batch size"),
    row(
        "sglang-unbalanced",
        "SGLang",
        "memory capacity is unbalanced",
        "The memory capacity is unbalanced. Some GPUs may be occupied by other processes",
    ),
    // TGI and TensorRT-LLM.
    row("tgi-prefill", "TGI", "Not enough memory to handle", "Not enough memory to handle {tokens:n} prefill tokens"),
    row(
        "trtllm-create",
        "TensorRT-LLM 0.17 or newer",
        "insufficient GPU memory",
        "Executor creation failed due to insufficient GPU memory.{*}could not be created: KV cache{*}attempt (GiB): {kv_free:g}",
    ),
    row(
        "trtllm-create",
        "TensorRT-LLM 0.17 or newer",
        "insufficient GPU memory",
        "Executor creation failed due to insufficient GPU memory",
    ),
    row(
        "trtllm-request",
        "TensorRT",
        "Requested amount of GPU memory",
        "Requested amount of GPU memory ({raw:n} bytes) could not be allocated",
    ),
    words("trtllm-request", "TensorRT", "Cuda Runtime (out of memory)"),
    row(
        "tgi-total",
        "TGI 2.4 or newer",
        "Not enough memory to handle",
        "Not enough memory to handle `max_total_tokens={tokens:n}`",
    ),
    row("trtllm-request", "TensorRT-LLM", "CUDA runtime error in", "CUDA runtime error in {*}out of memory"),
    // llama.cpp and Ollama.
    row(
        "llama-buffer",
        "llama.cpp",
        "cudaMalloc failed: out of memory",
        "allocating {size:b} on device {device:n}: cudaMalloc failed: out of memory",
    ),
    words("llama-buffer", "llama.cpp", "cudaMalloc failed: out of memory"),
    row("llama-allocate", "llama.cpp", "failed to allocate", "failed to allocate {buffer:w} buffer of size {raw:n}"),
    words("llama-graph", "llama.cpp", "ggml_gallocr_reserve_n"),
    row("llama-compute", "llama.cpp", "compute buffers", "failed to allocate compute buffers"),
    row("llama-buffer", "llama.cpp and Ollama", "CUDA error: out of memory", "CUDA error: out of memory{*}ggml"),
    row(
        "llama-buffer",
        "Ollama",
        "runner process has terminated",
        "runner process has terminated: CUDA error: out of memory",
    ),
    row(
        "llama-buffer",
        "llama.cpp of 2023",
        "ggml-cuda.cu:",
        "CUDA error 2 at {*}ggml-cuda.cu:{line:n}: out of memory",
    ),
    row("llama-kv", "llama.cpp", "buffer for kv cache", "failed to allocate buffer for kv cache"),
    row("llama-compute", "llama.cpp", "compute pp buffers", "failed to allocate compute pp buffers"),
    words("llama-vulkan-limit", "llama.cpp", "Requested buffer size exceeds device buffer size limit"),
    row(
        "llama-vulkan",
        "llama.cpp",
        "Device memory allocation of size",
        "Device memory allocation of size {raw:n} failed",
    ),
    words("llama-vulkan", "llama.cpp", "ErrorOutOfDeviceMemory"),
    row(
        "ollama-system",
        "Ollama",
        "model requires more system memory",
        "model requires more system memory ({needed:b}) than is available ({available:b})",
    ),
    row("llama-allocate", "llama.cpp", "failed to allocate", "failed to allocate buffer, size = {size:b}"),
    row("llama-allocate", "llama.cpp", "unable to allocate", "unable to allocate {buffer:w} buffer"),
    words("llama-compute", "llama.cpp", "failed to allocate compute tg buffers"),
    words("llama-compute", "llama.cpp", "error (failed to allocate memory)"),
    row(
        "llama-output",
        "llama.cpp",
        "failed to allocate output buffer",
        "failed to allocate output buffer of size {size:b}",
    ),
    words("llama-kv", "llama.cpp", "failed to allocate buffer for rs cache"),
    row(
        "llama-vulkan",
        "llama.cpp",
        "Memory allocation of size",
        "ggml_vulkan: Memory allocation of size {raw:n} failed",
    ),
    words("llama-pinned", "llama.cpp", "ggml_vulkan: Failed to allocate pinned memory"),
    row(
        "ollama-layout",
        "Ollama 0.11 or newer",
        "memory layout cannot be allocated",
        "memory layout cannot be allocated with num_gpu = {layers:n}",
    ),
    words("ollama-layout", "Ollama 0.11 or newer", "memory layout cannot be allocated"),
    words("ollama-layout", "Ollama", "unable to load full model on GPU"),
    words("ollama-layout", "Ollama 0.9 or newer", "insufficient memory - required allocations"),
];
