//! Failures of engines that serve models.
//!
//! # Source
//! vLLM and `SGLang`: the releases named in `engine/lines.rs`; TGI 1.0 to 3.3; Ollama 0.1 to 0.32, with the llama.cpp in it; TensorRT-LLM,
//! `LMDeploy`, MLC, `ExLlama` and LM Studio: messages that users posted.

use super::{Row, row};

/// The rows.
pub(super) const ROWS: &[Row] = &[
    // vLLM.
    row(
        "vllm-no-blocks",
        "vLLM on the CPU, or with OpenVINO",
        "No available memory for the cache blocks. Try increasing `VLLM_{setting:w}`",
    ),
    row("vllm-no-blocks", "vLLM", "No available memory for the cache blocks"),
    row("vllm-no-blocks", "vLLM 0.8 or newer", "Available KV cache memory: -{deficit:b}"),
    row(
        "vllm-external-weights",
        "vLLM 0.33",
        "xternally held weights on device {*}({held:g}/{total:b}) exceed the desired GPU memory utilization ({utilization:f}, \
         {requested:b})",
    ),
    row("vllm-load", "vLLM up to 0.7", "while processing method load_model"),
    row("vllm-load", "vLLM 0.16 or newer", "Failed to load model - not enough GPU memory"),
    row("vllm-load", "vLLM 0.10 to 0.12 (TPU)", "the model is too large for the current device's HBM memory"),
    row("vllm-load", "vLLM 0.10 or newer", "may be caused by insufficient memory to allocate the weight"),
    row(
        "vllm-cpu-memory",
        "vLLM 0.24 or newer",
        "Available memory on node {node:n} ({free:g}/{total:b}) on startup is less than desired CPU memory utilization \
         ({utilization:f}, {requested:b})",
    ),
    row(
        "vllm-cpu-memory",
        "vLLM 0.24 or newer",
        "Available memory on node {node:n} ({free:g}/{total:b}) on kv cache allocation is less than requested memory for kv \
         ({requested:g}",
    ),
    row("vllm-swap", "vLLM 0.2 to 0.16", "Too large swap space."),
    row(
        "vllm-kv-too-small",
        "vLLM 0.8 or newer",
        "max seq len ({max_model_len:n}), ({needed:b} KV cache is needed, which is larger than the available KV cache memory ({available:b}).{*}estimated maximum model length is {fits:n}",
    ),
    row(
        "vllm-kv-too-small",
        "vLLM 0.7 or newer",
        "max seq len ({max_model_len:n}), ({needed:b} KV cache is needed, which is larger than the available KV cache memory ({available:b})",
    ),
    row(
        "vllm-kv-too-small",
        "vLLM 0.7",
        "max seq len ({max_model_len:n}), ({needed:b} KV cache is needed, which is larger than the available KV Cache memory ({available:b})",
    ),
    // As people copy it: without the parenthesis that is never closed.
    row(
        "vllm-kv-too-small",
        "vLLM 0.7 or newer",
        "max seq len ({max_model_len:n}), {needed:b} KV cache is needed, which is larger than the available KV cache memory ({available:b}).{*}stimated maximum model length is {fits:n}",
    ),
    row(
        "vllm-kv-too-small",
        "vLLM 0.7 or newer",
        "max seq len ({max_model_len:n}), {needed:b} KV cache is needed, which is larger than the available KV cache memory ({available:b})",
    ),
    row(
        "vllm-seq-len",
        "vLLM up to 0.10, on the CPU or with OpenVINO",
        "max seq len ({max_model_len:n}) is larger than the maximum number of tokens that can be stored in KV cache ({tokens:n}). Try \
         increasing `VLLM_{setting:w}`",
    ),
    row(
        "vllm-seq-len",
        "vLLM up to 0.10",
        "max seq len ({max_model_len:n}) is larger than the maximum number of tokens that can be stored in KV cache ({tokens:n})",
    ),
    row(
        "vllm-free-memory",
        "vLLM 0.9 or newer",
        "Free memory on device {*}({free:g}/{total:b}) on startup is less than desired GPU memory utilization ({utilization:f}, {requested:b})",
    ),
    row(
        "vllm-free-memory",
        "vLLM 0.33",
        "Free memory on device {*}({free:g}/{total:b}) on startup is less than the engine's budget after excluding external process's \
         weights ({utilization:f}, {requested:b})",
    ),
    row("vllm-pooler", "vLLM 0.9 or newer", "warming up pooler{*}with {requests:n} dummy requests"),
    row("vllm-sampler", "vLLM 0.8 or newer", "warming up sampler with {requests:n} dummy requests"),
    row("vllm-autofit", "vLLM 0.14 or newer", "Cannot auto-fit max_model_len: not enough GPU memory"),
    row(
        "vllm-profiling",
        "vLLM 0.9 or newer",
        "Error in memory profiling. Initial free memory {before:b}, current free memory {after:b}",
    ),
    row("vllm-profiling", "vLLM", "Error in memory profiling. Initial"),
    row("vllm-cumem", "vLLM 0.7 or newer", "CUDA Error: out of memory at {file:w}"),
    row("vllm-expandable", "vLLM 0.7 or newer", "xpandable segments are not compatible with memory pool"),
    // SGLang.
    row(
        "sglang-pool",
        "SGLang 0.5 or newer",
        "Not enough memory. Please try to increase --mem-fraction-static. Current value: {*}mem_fraction_static={fraction:f}",
    ),
    row("sglang-pool", "SGLang", "Not enough memory. Please try to increase --mem-fraction-static."),
    row("sglang-pool", "SGLang 0.3 or newer", "Memory pool size is too small"),
    row("sglang-pool", "SGLang 0.1", "Not enought memory. Please try to increase --mem-fraction-static."),
    row(
        "sglang-pool",
        "SGLang 0.5.20 or newer",
        "Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static={fraction:f}. Raise --mem-fraction-static above \
         {least:f}",
    ),
    row("sglang-pool", "SGLang 0.4 or newer", "is larger than the profiled value -{missing_tokens:n}"),
    row(
        "sglang-state",
        "SGLang 0.5.20 or newer",
        "leaves no room for the full KV pool within the available {available:b}",
    ),
    row("sglang-state", "SGLang 0.5.9 or newer", "state cache is too small to serve"),
    row("sglang-state", "SGLang 0.5.9 or newer", "Not enough GPU memory for hybrid (mamba"),
    row("sglang-state", "SGLang 0.5.20 or newer", "cannot fit ONE worst-case request"),
    row("sglang-state", "SGLang 0.5.9 or newer", "Not enough space for mamba "),
    row("sglang-state", "SGLang 0.5.23", "auxiliary-state cache is too small to serve any"),
    row("sglang-state", "SGLang 0.5.23", "leaves no allocatable page for sub-pool"),
    row(
        "sglang-host-cache",
        "SGLang 0.4.5 or newer",
        "Not enough host memory {*}Requesting {needed:t} but only have {free:t} free",
    ),
    row(
        "sglang-host-cache",
        "SGLang 0.4.5 or newer",
        "The host memory should be larger than the device memory with the current protocol",
    ),
    row("sglang-slots", "SGLang 0.4 or newer", "alloc_req_slots runs out of memory."),
    row(
        "sglang-slots",
        "SGLang 0.2 and 0.3",
        "Out of memory. Please set a smaller number for `--max-running-requests`",
    ),
    row("sglang-graphs", "SGLang", "Capture cuda graph failed: {*}out of memory"),
    row("sglang-graphs", "SGLang 0.5.20 or newer", "Capture CUDA graph failed: {*}out of memory"),
    row("sglang-graphs", "SGLang 0.5.23", "insufficient decode CUDA graph headroom"),
    row("sglang-prefill", "SGLang", "Prefill out of memory."),
    row("sglang-decode", "SGLang", "Decode out of memory."),
    row("sglang-decode", "SGLang 0.5.10 or newer", "DFLASH draft OOM when allocating"),
    row("sglang-decode", "SGLang 0.5 or newer", "Out of memory. Try to lower your batch size."),
    row("sglang-decode", "SGLang 0.5 or newer", "Out of memory even after retracting all other requests"),
    row(
        "sglang-unbalanced",
        "SGLang",
        "The memory capacity is unbalanced. Some GPUs may be occupied by other processes",
    ),
    row("vllm-blocks", "vLLM 0.8 or newer", "Cannot get {blocks:n} free blocks from the pool"),
    row("vllm-blocks", "vLLM 0.5 to 0.10", "NoFreeBlocksError"),
    row("vllm-blocks", "vLLM up to 0.5", "Out of memory! No free blocks are available"),
    // TGI and TensorRT-LLM.
    row("tgi-total", "TGI 0.9", "Not enough memory to handle {tokens:n} total tokens with {prefill:n} prefill tokens"),
    row("tgi-prefill", "TGI", "Not enough memory to handle {tokens:n} prefill tokens"),
    row(
        "trtllm-create",
        "TensorRT-LLM 0.17 or newer",
        "Executor creation failed due to insufficient GPU memory.{*}could not be created: KV cache{*}attempt (GiB): {kv_free:g}",
    ),
    row(
        "trtllm-create",
        "TensorRT-LLM 0.17 or newer",
        "Executor creation failed due to insufficient GPU memory.{*}could not be created: Model Total GPU memory (GiB): {model_total:g}{*}attempt (GiB): {model_free:g}",
    ),
    row("trtllm-create", "TensorRT-LLM 0.17 or newer", "Executor creation failed due to insufficient GPU memory"),
    row(
        "trtllm-create",
        "TensorRT-LLM 0.18 to 1.0",
        "Executor creation failed with an error which might indicate insufficient GPU memory",
    ),
    row("trtllm-cache", "TensorRT-LLM", "Can't allocate new blocks. No free blocks left"),
    row("trtllm-cache", "TensorRT-LLM", "No free block found. This shouldn't happen"),
    row("trtllm-cache", "TensorRT-LLM", "Impossible to fit in any sequence in kvCache"),
    row(
        "trtllm-cache",
        "TensorRT-LLM",
        "maxTokensInPagedKvCache ({tokens:n}) must be large enough to process at least 1 sequence",
    ),
    row("tgi-load", "TGI", "Error: ShardCannotStart"),
    row("tgi-total", "TGI 2.4 or newer", "Not enough memory to handle `max_total_tokens={tokens:n}`"),
    row("trtllm-request", "TensorRT-LLM", "CUDA runtime error in {*}out of memory"),
    // TensorRT itself.
    row("tensorrt", "TensorRT", "Requested amount of GPU memory ({raw:n} bytes) could not be allocated"),
    row("tensorrt", "TensorRT", "User allocator error allocating {raw:n}-byte buffer"),
    row("tensorrt", "TensorRT", "Cuda Runtime (out of memory)"),
    row("tensorrt", "TensorRT up to 7", "Allocator::allocate: 2 (out of memory)"),
    row("tensorrt", "TensorRT up to 7", "Cuda Error in allocate: 2 (out of memory)"),
    row("tensorrt", "TensorRT up to 8", "GPU memory allocation error during getBestTactic"),
    row("tensorrt", "TensorRT up to 7", "OutOfMemory Error in {*}nvinfer1"),
    row("tensorrt", "TensorRT", "Error Code 2: OutOfMemory"),
    row("tensorrt-node", "TensorRT", "ould not find any implementation for node"),
    row(
        "tensorrt-tactic",
        "TensorRT",
        "Tactic Device request: {size:b} Available: {free:b}. Device memory is insufficient to use tactic",
    ),
    row(
        "tensorrt-tactic",
        "TensorRT",
        "kipping tactic {tactic:n} due to insufficient memory on requested size of {raw:n} detected",
    ),
    // Engines with few words.
    row("lmdeploy", "LMDeploy (TurboMind)", "CUDA runtime error: out of memory"),
    row("lmdeploy", "LMDeploy (PyTorch)", "No enough gpu memory for runtime."),
    row("lmdeploy-cache", "LMDeploy (PyTorch)", "No enough gpu memory for kv cache"),
    row("lmdeploy-cache", "LMDeploy (PyTorch)", "No enough gpu memory for state cache"),
    row("lmdeploy-cache", "LMDeploy (PyTorch)", "No enough free memory blocks."),
    row("lmdeploy-cache", "LMDeploy (TurboMind)", "cache out of memory, no request can be admitted"),
    row(
        "mlc",
        "MLC",
        "Insufficient GPU memory error: The available single GPU memory is {free:b}, which is less than the sum of model weight size \
         ({weights:b}) and temporary buffer size ({buffers:b})",
    ),
    row("mlc", "MLC", "Insufficient GPU memory error"),
    row("mlc", "MLC", "Cannot estimate KV cache capacity."),
    row("exllama", "ExLlamaV3", "Insufficient VRAM in split for model and cache"),
    row("exllama", "ExLlamaV2", "Insufficient VRAM for model and cache"),
    row(
        "lmstudio",
        "LM Studio",
        "insufficient system resources. Under the current settings, this model requires approximately {needed:b} of memory",
    ),
    row("lmstudio", "LM Studio", "due to insufficient system resources"),
    row("lmstudio", "LM Studio", "Not enough resources to load the model with the current settings"),
    // llama.cpp and Ollama.
    row(
        "llama-host",
        "llama.cpp",
        "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size {raw:n}",
    ),
    row("llama-host", "llama.cpp", "ailed to allocate CPU{*}buffer of size {raw:n}"),
    row("llama-host", "llama.cpp", "unable to allocate CPU"),
    row("llama-fit", "llama.cpp 2026", "failed to fit params to free device memory"),
    row("llama-buffer", "llama.cpp", "allocating {size:b} on device {device:n}: cudaMalloc failed: out of memory"),
    row("llama-buffer", "llama.cpp", "cudaMalloc failed: out of memory"),
    row("llama-buffer", "llama.cpp", "hipMalloc failed: out of memory"),
    row("llama-buffer", "Ollama", "error loading model: unable to allocate backend buffer"),
    row("llama-allocate", "llama.cpp", "failed to allocate {buffer:w} buffer of size {raw:n}"),
    row("llama-graph", "llama.cpp", "ggml_gallocr_reserve_n"),
    row("llama-compute", "llama.cpp", "failed to allocate compute buffers").at("compute buffers"),
    row("llama-retry", "llama.cpp", "compute buffer allocation failed, retrying without pipeline parallelism"),
    row("llama-buffer", "llama.cpp and Ollama", "CUDA error: out of memory{*}ggml"),
    row("llama-buffer", "Ollama", "runner process has terminated: CUDA error: out of memory"),
    row("llama-buffer", "llama.cpp of 2023", "CUDA error 2 at {*}ggml-cuda.cu:{line:n}: out of memory")
        .at("ggml-cuda.cu:"),
    row("llama-kv", "llama.cpp", "failed to allocate buffer for kv cache").at("buffer for kv cache"),
    row("llama-compute", "llama.cpp", "failed to allocate compute pp buffers").at("compute pp buffers"),
    row("llama-vulkan-limit", "llama.cpp", "Requested buffer size exceeds device buffer size limit"),
    row("llama-vulkan-limit", "llama.cpp up to 2025", "Requested buffer size exceeds device memory allocation limit"),
    row("llama-vulkan", "llama.cpp", "Device memory allocation of size {raw:n} failed"),
    row("llama-vulkan", "llama.cpp", "ErrorOutOfDeviceMemory"),
    row("ollama-system", "Ollama", "model requires more system memory ({needed:b}) than is available ({available:b})"),
    row("llama-allocate", "llama.cpp", "failed to allocate buffer, size = {size:b}"),
    row("llama-allocate", "llama.cpp", "error loading model: unable to allocate"),
    row("llama-compute", "llama.cpp", "failed to allocate compute tg buffers"),
    row(
        "llama-compute",
        "llama.cpp (Metal)",
        "command buffer {number:n} failed with status 5 error: Insufficient Memory",
    ),
    row("llama-compute", "llama.cpp", "error (failed to allocate memory)"),
    row("llama-output", "llama.cpp", "failed to allocate output buffer of size {size:b}")
        .at("failed to allocate output buffer"),
    row("llama-kv", "llama.cpp", "failed to allocate buffer for rs cache"),
    row("llama-vulkan", "llama.cpp", "ggml_vulkan: Memory allocation of size {raw:n} failed"),
    row("llama-pinned", "llama.cpp (Vulkan)", "ggml_vulkan: Failed to allocate pinned memory"),
    row("llama-pinned", "llama.cpp (CUDA)", "failed to allocate {host:b} of pinned memory: out of memory")
        .at("of pinned memory: out of"),
    row("llama-pinned", "llama.cpp (HIP)", "failed to allocate {host:b} of pinned memory: hipErrorOutOfMemory")
        .at("of pinned memory: hip"),
    row("ollama-exited", "Ollama up to 0.1", "llama runner exited, you may not have enough available memory"),
    row("ollama-layout", "Ollama 0.11 or newer", "memory layout cannot be allocated with num_gpu = {layers:n}"),
    row("ollama-layout", "Ollama 0.11 or newer", "memory layout cannot be allocated"),
    row("ollama-layout", "Ollama", "unable to load full model on GPU"),
    row("ollama-layout", "Ollama 0.9 or newer", "insufficient memory - required allocations"),
];
