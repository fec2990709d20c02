//! Every failure that is known by its words, beside PyTorch's own message.
//!
//! # Source
//! vLLM and `SGLang`: the releases named in `engine/lines.rs`. The others: messages that users posted.

use super::{Row, row};

/// The rows. Of those with the same `id` the first that a text matches counts, so the one with more numbers stands first.
pub(crate) const FAILURES: &[Row] = &[
    // PyTorch, where a program passes on only the beginning.
    row("async-bare", "torch 1.13 or newer", "Allocation on device", "OutOfMemoryError: Allocation on device"),
    // vLLM.
    row("vllm-no-blocks", "vLLM", "No available memory for the cache", "No available memory for the cache blocks"),
    row(
        "vllm-kv-too-small",
        "vLLM 0.8 or newer",
        "KV cache is needed",
        "max seq len ({max_model_len:n}), ({needed:b} KV cache is needed, which is larger than the available KV cache memory \
         ({available:b}).{*}estimated maximum model length is {fits:n}",
    ),
    row(
        "vllm-kv-too-small",
        "vLLM 0.7 or newer",
        "To serve at least one",
        "max seq len ({max_model_len:n}), ({needed:b} KV cache is needed, which is larger than the available KV cache memory \
         ({available:b})",
    ),
    row(
        "vllm-kv-too-small",
        "vLLM 0.7",
        "To serve at least one",
        "max seq len ({max_model_len:n}), ({needed:b} KV cache is needed, which is larger than the available KV Cache memory \
         ({available:b})",
    ),
    row(
        "vllm-seq-len",
        "vLLM up to 0.10",
        "larger than the maximum number",
        "max seq len ({max_model_len:n}) is larger than the maximum number of tokens that can be stored in KV cache \
         ({tokens:n})",
    ),
    row(
        "vllm-free-memory",
        "vLLM 0.9 or newer",
        "less than desired GPU memory",
        "Free memory on device {*}({free:g}/{total:b}) on startup is less than desired GPU memory utilization \
         ({utilization:f}, {requested:b})",
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
    row("vllm-profiling", "vLLM", "Error in memory profiling", "Error in memory profiling. Initial"),
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
        "Executor creation failed due to insufficient GPU memory",
    ),
    row(
        "trtllm-request",
        "TensorRT",
        "Requested amount of GPU memory",
        "Requested amount of GPU memory ({raw:n} bytes) could not be allocated",
    ),
    row("trtllm-request", "TensorRT", "Cuda Runtime (out of memory)", "Cuda Runtime (out of memory)"),
    // llama.cpp and Ollama.
    row(
        "llama-buffer",
        "llama.cpp",
        "cudaMalloc failed: out of memory",
        "allocating {size:b} on device {device:n}: cudaMalloc failed: out of memory",
    ),
    row("llama-buffer", "llama.cpp", "cudaMalloc failed: out of memory", "cudaMalloc failed: out of memory"),
    row("llama-allocate", "llama.cpp", "failed to allocate", "failed to allocate {buffer:w} buffer of size {raw:n}"),
    row("llama-graph", "llama.cpp", "ggml_gallocr_reserve_n", "ggml_gallocr_reserve_n"),
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
    row(
        "llama-vulkan",
        "llama.cpp",
        "Device memory allocation of size",
        "Device memory allocation of size {raw:n} failed",
    ),
    row("llama-vulkan", "llama.cpp", "ErrorOutOfDeviceMemory", "ErrorOutOfDeviceMemory"),
    row(
        "ollama-system",
        "Ollama",
        "model requires more system memory",
        "model requires more system memory ({needed:b}) than is available ({available:b})",
    ),
    // CUDA's libraries, and those of ROCm.
    row("library-alloc", "cuBLAS", "CUBLAS_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED"),
    row(
        "library-handle",
        "cuBLAS",
        "CUBLAS_STATUS_NOT_INITIALIZED",
        "CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate",
    ),
    row("library-alloc", "cuDNN", "CUDNN_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"),
    row("library-alloc", "cuDNN 9", "DEVICE_ALLOCATION_FAILED", "DEVICE_ALLOCATION_FAILED"),
    row(
        "library-workspace",
        "cuDNN",
        "unable to find an engine",
        "unable to find an engine to execute this computation",
    ),
    row("library-workspace", "cuDNN", "Unable to find a valid cuDNN", "Unable to find a valid cuDNN algorithm"),
    row("library-alloc", "cuSOLVER", "CUSOLVER_STATUS_ALLOC_FAILED", "CUSOLVER_STATUS_ALLOC_FAILED"),
    row("library-alloc", "cuSPARSE", "CUSPARSE_STATUS_INSUFFICIENT", "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES"),
    row("library-alloc", "cuSPARSE", "CUSPARSE_STATUS_ALLOC_FAILED", "CUSPARSE_STATUS_ALLOC_FAILED"),
    row("library-alloc", "cuFFT", "CUFFT_ALLOC_FAILED", "CUFFT_ALLOC_FAILED"),
    row("library-alloc", "hipBLAS", "HIPBLAS_STATUS_ALLOC_FAILED", "HIPBLAS_STATUS_ALLOC_FAILED"),
    row("library-alloc", "rocBLAS", "rocblas_status_memory_error", "rocblas_status_memory_error"),
    row("library-alloc", "MIOpen", "miopenStatusAllocFailed", "miopenStatusAllocFailed"),
    // NCCL.
    row("nccl", "NCCL", "Failed to CUDA calloc", "Failed to CUDA calloc {raw:n} bytes"),
    row("nccl", "NCCL", "Failed to CUDA calloc", "Failed to CUDA calloc"),
    row("nccl", "NCCL", "Cuda failure", "Cuda failure 'out of memory'"),
    row("nccl", "NCCL 2.19 or newer", "Cuda failure", "Cuda failure 2 'out of memory'"),
    row("nccl", "NCCL", "Failed to cuMemCreate", "Failed to cuMemCreate"),
    row("shm-nccl", "NCCL", "shared memory segment", "Error while creating shared memory segment {*}nccl-"),
    // Other libraries on the GPU.
    row(
        "cupy",
        "CuPy",
        "Out of memory allocating",
        "Out of memory allocating {raw:n} bytes (allocated so far: {so_far_raw:n} bytes, limit set to: {limit_raw:n} bytes)",
    ),
    row(
        "cupy",
        "CuPy",
        "Out of memory allocating",
        "Out of memory allocating {raw:n} bytes (allocated so far: {so_far_raw:n} bytes",
    ),
    row("rmm", "RMM", "Maximum pool size exceeded", "Maximum pool size exceeded"),
    row("rmm", "RMM", "bad_alloc: out_of_memory", "std::bad_alloc: out_of_memory"),
    row(
        "xla",
        "JAX and TensorFlow (XLA)",
        "Out of memory while trying",
        "Out of memory while trying to allocate {raw:n} bytes",
    ),
    row(
        "xla",
        "JAX and TensorFlow (XLA)",
        "Out of memory while trying",
        "Out of memory while trying to allocate {size:b}",
    ),
    row("xla", "JAX", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED: Out of memory allocating {raw:n} bytes"),
    row("xla", "JAX", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED: Out of memory"),
    row("xla", "JAX", "Failed to allocate request", "Failed to allocate request for {size:b}"),
    row("xla", "JAX", "cuMemAllocAsync failed", "cuMemAllocAsync failed to allocate {raw:n} bytes"),
    row("tensorflow", "TensorFlow", "OOM when allocating tensor", "OOM when allocating tensor with shape"),
    row(
        "triton",
        "Triton",
        "out of resource: shared memory",
        "out of resource: shared memory, Required: {required:n}, Hardware limit: {limit:n}",
    ),
    row(
        "onnxruntime",
        "ONNX Runtime",
        "memory for requested buffer",
        "Failed to allocate memory for requested buffer of size {raw:n}",
    ),
    row("gaudi", "Gaudi", "Allocation failed for size", "Allocation failed for size::{raw:n}"),
    row(
        "dispatched",
        "transformers",
        "Some modules are dispatched on",
        "Some modules are dispatched on the CPU or the disk",
    ),
    row("runtime", "CUDA", "cudaErrorMemoryAllocation", "cudaErrorMemoryAllocation"),
    row("runtime", "CUDA", "CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_OUT_OF_MEMORY"),
    row("runtime", "HIP", "hipErrorOutOfMemory", "hipErrorOutOfMemory"),
    // The host.
    row(
        "worker-killed",
        "torch",
        "is killed by signal",
        "DataLoader worker (pid {pid:n}) is killed by signal: {signal:w}",
    ),
    row("worker-exited", "torch", "DataLoader worker (pid(s)", "DataLoader worker (pid(s) {pid:n}"),
    row("shm", "torch", "out of shared memory", "workers are out of shared memory"),
    row("shm", "torch", "unable to write to file", "unable to write to file </torch_"),
    row("shm", "torch", "unable to allocate shared memory", "unable to allocate shared memory(shm) for file"),
    row("shm", "torch", "from file </torch_", "unable to mmap {raw:n} bytes from file </torch_"),
    row("pinned", "torch", "Pin memory thread exited", "Pin memory thread exited unexpectedly"),
    row("pinned", "torch", "cudaHostAlloc", "cudaHostAlloc{*}out of memory"),
    row(
        "host-allocator",
        "torch",
        "DefaultCPUAllocator",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate {raw:n} bytes",
    ),
    row(
        "host-allocator",
        "torch",
        "DefaultCPUAllocator",
        "DefaultCPUAllocator: not enough memory: you tried to allocate {raw:n} bytes",
    ),
    row("host-allocator", "NumPy", "for an array with shape", "Unable to allocate {size:b} for an array with shape"),
    row(
        "oom-kill",
        "Linux",
        "Killed process",
        "Memory cgroup out of memory: Killed process {pid:n} ({name:w}) total-vm:{total_raw_kb:n}kB, anon-rss:{raw_kb:n}kB",
    ),
    row(
        "oom-kill",
        "Linux",
        "Killed process",
        "Out of memory: Killed process {pid:n} ({name:w}) total-vm:{total_raw_kb:n}kB, anon-rss:{raw_kb:n}kB",
    ),
    row("oom-kill", "Linux", "Killed process", "out of memory: Killed process {pid:n} ({name:w})"),
    row("oom-kill", "Linux", "Killed process", "Out of memory: Killed process {pid:n} ({name:w})"),
    row("oom-kill", "Linux", "oom-kill:constraint", "oom-kill:constraint={constraint:w}"),
    row("oom-kill", "Slurm", "oom", "oom_kill event"),
    row("oom-kill", "Slurm", "oom", "oom-kill event"),
    row("oom-kill", "Kubernetes", "OOMKilled", "OOMKilled"),
    row("oom-kill", "Ray", "killed due to memory pressure", "killed due to memory pressure"),
    row("oom-kill", "Ray", "running low on memory", "node running low on memory"),
    row("sigkill", "torchrun", "Signal 9 (SIGKILL)", "Signal 9 (SIGKILL) received by PID {pid:n}"),
    row("sigkill", "torchrun", "exitcode", "exitcode: -9"),
    row("sigkill", "accelerate", "Signals.SIGKILL", "died with <Signals.SIGKILL: 9>"),
    row("sigkill", "a container", "137", "exit code 137"),
    row("sigkill", "a container", "137", "exit code: 137"),
    row("sigkill", "a container", "137", "exited with code 137"),
    row("sigkill", "a container", "137", "returned non-zero exit status 137"),
    row("sigkill", "a container", "137", "exit status 137"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::find;
    use crate::message::Read;

    #[test]
    fn every_row_begins_with_words_that_stand_for_something() {
        for row in FAILURES {
            let words = row.pattern.split('{').next().unwrap_or_default();
            assert!(words.len() >= 8, "{}", row.pattern);
            let anchored = row.pattern.replace(' ', "").contains(&row.anchor.replace(' ', ""));
            let is_in_context = ["To serve at least one", "memory for requested buffer"];
            assert!(
                anchored || is_in_context.contains(&row.anchor) || row.anchor == "shared memory segment",
                "{}",
                row.anchor
            );
        }
    }

    #[test]
    fn a_posted_text_is_found() {
        let text =
            b"maxseqlen(34736),(24.0GiBKVcacheisneeded,whichislargerthantheavailableKVcachememory(3.18GiB).Basedonthe\
            availablememory,theestimatedmaximummodellengthis4592.";
        let found = FAILURES.iter().find(|row| matches!(find(row.pattern, text), Read::Found(..))).unwrap();
        assert_eq!(found.id, "vllm-kv-too-small");
    }
}
