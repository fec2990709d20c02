//! Whose memory it is: the library that called the driver.

use crate::event::{HOST, Kind};

/// What memory of the card is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The segments of PyTorch's caching allocator.
    Pytorch,
    /// Allocations of another library.
    Library,
    /// Code that a library had the driver load.
    Code,
    /// Code, and local memory of threads, that came with launches.
    Kernels,
    /// Executable graphs.
    Graphs,
    /// Streams.
    Streams,
    /// The context.
    Context,
    /// Managed memory, of which the driver does not say where it lies: not part of the sum.
    Managed,
    /// Pinned memory of the host: not part of the sum.
    Pinned,
    /// A change between two calls with no cause that was seen: not part of the sum.
    Unexplained,
}

impl Role {
    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pytorch => "pytorch",
            Self::Library => "library",
            Self::Code => "code",
            Self::Kernels => "kernels",
            Self::Graphs => "graphs",
            Self::Streams => "streams",
            Self::Context => "context",
            Self::Managed => "managed",
            Self::Pinned => "pinned",
            Self::Unexplained => "unexplained",
        }
    }

    /// Whether its bytes count towards what the process uses of the card.
    pub const fn counts(self) -> bool {
        !matches!(self, Self::Managed | Self::Pinned | Self::Unexplained)
    }
}

/// The owner of memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Its role.
    pub role: Role,
    /// The library, by the name that people know it by; empty where it has none.
    pub library: String,
}

impl Owner {
    /// The owner of what an event makes, called from a library with this path and name.
    pub(crate) fn of(kind: Kind, device: i32, path: Option<&str>, name: Option<String>) -> Self {
        let role = match kind {
            Kind::Context => Role::Context,
            Kind::Module => Role::Code,
            Kind::Launch => Role::Kernels,
            Kind::Stream => Role::Streams,
            Kind::Graph => Role::Graphs,
            Kind::Unexplained => Role::Unexplained,
            Kind::Host | Kind::Register => Role::Pinned,
            Kind::Managed => Role::Managed,
            _ if device == HOST => Role::Pinned,
            _ if path.is_some_and(is_pytorchs_allocator) => Role::Pytorch,
            _ => Role::Library,
        };
        let library = match role {
            Role::Library | Role::Code | Role::Managed | Role::Pinned => {
                name.unwrap_or_else(|| "unknown library".to_owned())
            }
            _ => String::new(),
        };
        Self { role, library }
    }

    /// What a table calls it.
    pub fn title(&self) -> String {
        match self.role {
            Role::Pytorch => "PyTorch's segments".to_owned(),
            Role::Library => self.library.clone(),
            Role::Code => format!("code of {}", self.library),
            Role::Kernels => "kernels and local memory".to_owned(),
            Role::Graphs => "CUDA graphs".to_owned(),
            Role::Streams => "streams".to_owned(),
            Role::Context => "CUDA context".to_owned(),
            Role::Managed => format!("managed memory of {}", self.library),
            Role::Pinned => format!("pinned host memory of {}", self.library),
            Role::Unexplained => "unexplained".to_owned(),
        }
    }
}

/// Libraries that record a call.
const RECORDERS: [&str; 3] = ["libcupti", "_highwater.", "libhighwater"];

/// Libraries between a program and the driver, beside these: the next one up the stack asked.
const BETWEEN: [&str; 8] =
    ["libcuda.so", "libcudart", "libnvidia-", "libc.so", "libgcc_s", "libpthread", "ld-linux", "libffi"];

/// Whether a library only passes calls on.
pub(crate) fn is_between(path: &str) -> bool {
    let file = file_name(path);
    is_recorders(path) || BETWEEN.iter().any(|prefix| file.starts_with(prefix))
}

/// Whether a library records calls: its frames are innermost.
pub(crate) fn is_recorders(path: &str) -> bool {
    let file = file_name(path);
    RECORDERS.iter().any(|prefix| file.starts_with(prefix))
}

/// Names of libraries by the beginnings of their files, the longer ones first.
const BY_FILE: [(&str, &str); 21] = [
    ("libcublas", "cuBLAS"),
    ("libcudnn", "cuDNN"),
    ("libcusolver", "cuSOLVER"),
    ("libcusparse", "cuSPARSE"),
    ("libcufft", "cuFFT"),
    ("libcurand", "cuRAND"),
    ("libnccl", "NCCL"),
    ("libnvshmem", "NVSHMEM"),
    ("libtriton", "Triton"),
    ("libnvinfer", "TensorRT"),
    ("librmm", "RMM"),
    (PYTORCHS_ALLOCATOR, "PyTorch"),
    ("libtorch", "PyTorch"),
    ("libc10", "PyTorch"),
    ("xla_cuda", "JAX"),
    ("libjax", "JAX"),
    ("libonnxruntime", "ONNX Runtime"),
    ("libtensorflow", "TensorFlow"),
    ("_pywrap_tensorflow", "TensorFlow"),
    ("libllama", "llama.cpp"),
    ("_ctypes", "ctypes"),
];

/// Names by a directory of the path.
const BY_DIRECTORY: [(&str, &str); 9] = [
    ("/jaxlib/", "JAX"),
    ("/jax_plugins/", "JAX"),
    ("/cupy", "CuPy"),
    ("/cupy_backends/", "CuPy"),
    ("/rmm/", "RMM"),
    ("/triton/", "Triton"),
    ("/vllm/", "vLLM"),
    ("/flashinfer/", "FlashInfer"),
    ("/cuda/bindings/", "CUDA Python"),
];

/// How the file of PyTorch's caching allocator begins.
pub const PYTORCHS_ALLOCATOR: &str = "libc10_cuda";

/// Whether a library is PyTorch's caching allocator.
pub fn is_pytorchs_allocator(path: &str) -> bool {
    file_name(path).starts_with(PYTORCHS_ALLOCATOR)
}

/// The name of the library in a file.
pub fn name(path: &str) -> String {
    known_name(path).unwrap_or_else(|| file_name(path)).to_owned()
}

/// The name of the library in a file, if it is one that is known to use GPUs.
pub fn known_name(path: &str) -> Option<&'static str> {
    let file = file_name(path);
    let by_file = BY_FILE.iter().find(|(prefix, _)| file.starts_with(prefix));
    let by_directory = || BY_DIRECTORY.iter().find(|(part, _)| path.contains(part));
    by_file.or_else(by_directory).map(|&(_, name)| name)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_have_the_names_that_people_know() {
        for (path, expected) in [
            ("/a/libcublasLt.so.13", "cuBLAS"),
            ("/a/libcudnn_engines_precompiled.so.9", "cuDNN"),
            ("/a/jax_plugins/xla_cuda13/xla_cuda_plugin.so", "JAX"),
            ("/a/cupy_backends/cuda/api/runtime.cpython-312-x86_64-linux-gnu.so", "CuPy"),
            ("/home/me/my_extension.so", "my_extension.so"),
        ] {
            assert_eq!(name(path), expected);
        }
        assert!(is_between("/usr/lib/libcuda.so.1") && !is_between("/a/libcublas.so.13"));
    }

    #[test]
    fn pytorch_is_its_allocator_and_nothing_else() {
        let of = |path| Owner::of(Kind::Device, 0, Some(path), None).role;
        assert_eq!([of("/t/libc10_cuda.so"), of("/t/libtorch_cuda.so")], [Role::Pytorch, Role::Library]);
        assert_eq!(Owner::of(Kind::Create, HOST, Some("/t/libnccl.so.2"), None).role, Role::Pinned);
    }
}
