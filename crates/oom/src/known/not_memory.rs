//! Failures that come with memory and are not a lack of it: settings that cannot be read, calls that the driver refuses as invalid, and
//! sizes that cannot be.
//!
//! # Source
//! `c10/cuda/CUDAAllocatorConfig.cpp` of torch 1.10 to 2.9, and `spec/caching-allocator.md` section 17.2 for newer ones; `envconfig/config.go`
//! of Ollama; `csrc/cumem_allocator.cpp` of vLLM 0.16 to 0.20 (vllm#35463); messages that users posted.

use super::{Row, row};

/// The rows.
pub(super) const ROWS: &[Row] = &[
    // Settings.
    row("setting", "torch up to 2.9", "Unrecognized CachingAllocator option: {key:w}"),
    row("setting", "torch 2.10 or newer", "Unrecognized key {key:q} in CUDA allocator config"),
    row("setting", "torch 2.10 or newer", "Unrecognized key {key:q} in Accelerator allocator config"),
    row("setting", "torch", "Error parsing CachingAllocator settings, expected"),
    row("setting", "torch", "Error, expecting max_split_size_mb value"),
    row("setting", "torch", "Error, expecting garbage_collection_threshold value"),
    row("setting", "torch", "Error, expecting roundup_power2_divisions value"),
    row("setting", "torch", "Error parsing backend value"),
    row("setting", "torch", "CachingAllocator option max_split_size_mb too small, must be"),
    row("setting", "torch", "CachingAllocator option max_non_split_rounding_mb too small, must be"),
    row("setting", "torch", "garbage_collect_threshold too small, set it 0.0~1.0"),
    row("setting", "torch", "garbage_collect_threshold too big, set it 0.0~1.0"),
    row("setting", "torch", "Expected a single True/False argument for {switch:w}"),
    row("setting", "torch", "For roundups, the divisions has to be power of 2"),
    row("setting", "torch", "Unknown allocator backend, options are native"),
    row("setting-late", "torch", "Allocator backend parsed at runtime != allocator backend parsed at load time"),
    row("setting-watermark", "torch on MPS", "invalid low watermark ratio {ratio:f}"),
    row("setting-watermark", "torch on MPS", "invalid high watermark ratio {ratio:f}"),
    row("setting-share", "vLLM", "PU memory utilization must be less than 1.0. Current value: {share:f}"),
    row("variable", "Ollama", "invalid environment variable, using default{*}key={setting:w}")
        .at("invalid environment vari"),
    // Calls with an invalid argument.
    row("vllm-cumem-invalid", "vLLM 0.7 or newer", "CUDA Error: invalid argument at {*}cumem_allocator"),
    row("vllm-cumem-invalid", "vLLM 0.7 or newer", "CUDA Error: operation not supported at {*}cumem_allocator"),
    row("mapping", "torch", "CUDA driver error: invalid argument"),
    row("mapping", "torch", "CUDA driver error: operation not supported"),
    row("mapping", "torch 2.1 or newer", "!handles_.at(i) INTERNAL ASSERT FAILED"),
    row("mapping-saver", "torch_memory_saver", "CUresult error result=1 file=").at("CUresult error"),
    row("mapping-saver", "torch_memory_saver", "CUresult error: 1 "),
    // Failures of the GPU, its driver and of numbers.
    row("assertion", "CUDA", "Assertion `{assertion:w}` failed{*}device-side assert triggered").at("Assertion `"),
    row("assertion", "CUDA", "device-side assert triggered{*}Assertion `{assertion:w}` failed"),
    row("assertion", "CUDA", "device-side assert triggered"),
    // The kernel's own line, where a program catches the error.
    row("assertion", "CUDA", "thread: [{*}] Assertion `{assertion:w}{*}` failed"),
    row("busy", "CUDA", "CUDA-capable devices are busy or unavailable"),
    row("busy", "CUDA", "CUDA-capable device(s) is/are busy or unavailable"),
    row("busy", "CUDA", "cudaErrorDevicesUnavailable"),
    row("busy", "CUDA", "cudaErrorDeviceUnavailable"),
    row("hardware", "CUDA", "uncorrectable ECC error encountered"),
    row("hardware", "CUDA", "cudaErrorECCUncorrectable"),
    row("hardware", "CUDA", "CUDA_ERROR_ECC_UNCORRECTABLE"),
    row("xid", "NVIDIA's kernel driver", "NVRM: Xid ({*}): {code:n},"),
    row("launch", "CUDA", "too many resources requested for launch"),
    row("launch", "CUDA", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    row("launch", "CUDA", "cudaErrorLaunchOutOfResources"),
    row("quota", "Hugging Face ZeroGPU", "ou have exceeded your GPU quota ({asked:n}s requested vs. {left:n}s left)"),
    row("quota", "Hugging Face ZeroGPU", "ou have exceeded your GPU quota"),
    row("quota", "Hugging Face ZeroGPU", "ou have exceeded your ZeroGPU quota"),
    row("illegal-access", "CUDA", "an illegal memory access was encountered"),
    row("illegal-access", "CUDA", "cudaErrorIllegalAddress"),
    row("illegal-access", "CUDA", "CUDA_ERROR_ILLEGAL_ADDRESS"),
    row("illegal-access", "ROCm", "Memory access fault by GPU node"),
    row("kernel-image", "CUDA", "no kernel image is available for execution on the device"),
    row("kernel-image", "HIP", "hipErrorNoBinaryForGpu"),
    row("old-driver", "torch", "The NVIDIA driver on your system is too old (found version {version:n})"),
    row("old-driver", "torch", "The NVIDIA driver on your system is too old"),
    row("old-driver", "CUDA", "CUDA error: CUDA driver version is insufficient for CUDA runtime version"),
    row("old-driver", "CUDA", "cudaErrorInsufficientDriver"),
    row("loss-nan", "a trainer", "loss: nan,"),
    row("loss-nan", "a trainer", "'loss': nan"),
    row("loss-nan", "a trainer", "loss=nan,"),
    row("cudnn-unsupported", "cuDNN", "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED"),
    // Sizes.
    row("bad-size", "torch", "Trying to create tensor with negative dimension -{dimension:n}"),
    row("bad-size", "torch", "Storage size calculation overflowed with sizes="),
    row("bad-size", "torch", "alloc_cpu() seems to have been called with negative number: {raw:n}"),
    row("bad-size", "torch", "numel: integer multiplication overflow"),
    row("bad-size", "NumPy", "negative dimensions are not allowed"),
    row("bad-size", "NumPy", "array is too big; {*}is larger than the maximum possible size"),
    row("bad-size", "NumPy", "Maximum allowed dimension exceeded"),
    row("bad-size", "C++", "instance of 'std::length_error'"),
    row("bad-size", "C++", "std::bad_array_new_length"),
];
