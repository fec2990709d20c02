//! Kinds of programs, by names in their logs: whose settings help.

/// A kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A compiler.
    Compiler,
    /// Whisper in C++.
    Whisper,
    /// llama.cpp and programs that are built on it.
    Llama,
    /// MLX, on a Mac.
    Mlx,
    /// A page in a browser.
    Browser,
    /// Makes or enlarges images or videos.
    Images,
    /// Renders scenes.
    Renderer,
    /// Encodes or decodes video.
    Video,
    /// Predicts or simulates molecules.
    Molecules,
    /// `OpenVINO`, on Intel's GPUs.
    OpenVino,
    /// ONNX Runtime in any program.
    OnnxRuntime,
    /// `TensorRT`'s builder or runtime.
    TensorRt,
    /// Runs on a board whose GPU shares the host's memory.
    Jetson,
}

/// The names of each kind; the earlier row counts.
pub(crate) const PROGRAMS: [(Program, &[&str]); 13] = [
    (
        Program::Compiler,
        &["ptxas", "cc1plus", "nvcc", "ninja: ", "rustc", "collect2", "MAX_JOBS", "catastrophic error"],
    ),
    (Program::Whisper, &["whisper_model_load", "whisper_init", "whisper.cpp", "faster_whisper", "aster-Whisper"]),
    (
        Program::Llama,
        &[
            "ggml",
            "llama_model",
            "llama-server",
            "llama.cpp",
            "oboldCpp",
            "oboldcpp",
            "LM Studio",
            "error loading model",
            "ollama",
        ],
    ),
    (Program::Mlx, &["metal::malloc", "malloc_or_wait", "mlx_", "/mlx/"]),
    (
        Program::Browser,
        &["ort.webgpu", "ort-wasm", "onnxruntime-web", "transformers.js", "RangeError", "WebGPU", "create a session"],
    ),
    (
        Program::Images,
        &[
            "ComfyUI",
            "KSampler",
            "pscayl",
            "realesrgan",
            "waifu2x",
            "vkAllocateMemory",
            "InvokeAI",
            "stable-diffusion",
            "sd_hijack",
            "lower resolution",
            "sdnext",
            "diffusion.cpp",
            "Fooocus",
        ],
    ),
    (
        Program::Renderer,
        &[
            "Copying BVH",
            "blender",
            "Blender",
            "intern\\cycles",
            "intern/cycles",
            "LuxCore",
            "OptiX",
            "cycles",
            "ViewLayer",
            "rendering resource",
        ],
    ),
    (Program::Video, &["nvenc", "cuvid", "OpenEncodeSession", "NVDEC", "hwaccel"]),
    (
        Program::Molecules,
        &[
            "alphafold",
            "boltz",
            "skipping batch",
            "chai_lab",
            "GROMACS",
            "LAMMPS",
            "Kokkos_",
            "gpu_extra.h",
            "RELION",
            "cryosparc",
            "esmfold",
        ],
    ),
    (Program::OpenVino, &["openvino", "OpenVINO", "intel_gpu", "onednn_verbose", "CL_OUT_OF_RESOURCES"]),
    (Program::Jetson, &["NvMap", "nvgpu", "jetson", "Jetson", "tegra"]),
    (Program::OnnxRuntime, &["onnxruntime", "ONNXRuntime"]),
    (Program::TensorRt, &["[TRT]", "trtexec", "nvinfer1::"]),
];

/// All names.
pub(crate) fn words() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().flat_map(|(_, names)| names.iter().copied())
}
