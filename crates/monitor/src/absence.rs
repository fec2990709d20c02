//! Why no GPU can be read, in a sentence with a hint.

use highwater_problem::Explained;
use nvml_wrapper::error::NvmlError;

/// No GPU can be watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Absence {
    /// The driver's library is not there.
    #[error("no NVIDIA driver is installed here: `{library}` cannot be loaded")]
    NoLibrary {
        /// The library that was tried.
        library: String,
        /// The loader's message.
        cause: String,
    },
    /// The library is there, the driver does not answer.
    #[error("the NVIDIA driver does not answer: {cause}")]
    NoDriver {
        /// The library's message.
        cause: String,
    },
    /// The library is that of another driver than the one that is loaded.
    #[error("the NVIDIA driver was updated while it was loaded: its library and kernel module have different versions")]
    Mismatch,
    /// The driver may not be asked.
    #[error("this user may not query the NVIDIA driver")]
    NotPermitted,
    /// The driver answers, and has no GPU.
    #[error("the NVIDIA driver finds no GPU")]
    NoGpu,
}

impl Explained for Absence {
    fn reason(&self) -> Option<String> {
        match self {
            Self::NoLibrary { cause, .. } => Some(cause.clone()),
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoLibrary { .. } if cfg!(target_env = "musl") => {
                "this is the static build of highwater, which cannot load the driver's library: use the build for glibc"
            }
            Self::NoLibrary { .. } => {
                "on a machine with a GPU, install NVIDIA's driver; start a container with `--gpus all`; if the \
                 library is elsewhere, set `HIGHWATER_NVML` to its path"
            }
            Self::NoDriver { .. } => "is the kernel module loaded? run `modprobe nvidia`, then `nvidia-smi`",
            Self::Mismatch => "restart the machine, or unload and load the `nvidia` kernel modules",
            Self::NotPermitted => "the device files `/dev/nvidia*` must be readable and writable for this user",
            Self::NoGpu => {
                "is it passed to this container or virtual machine? `lspci | grep -i nvidia` shows the cards"
            }
        };
        Some(hint.to_owned())
    }
}

impl Absence {
    /// The meaning of NVML's error at the start.
    pub(crate) fn of(library: &str, error: &NvmlError) -> Self {
        match error {
            NvmlError::LibloadingError(cause) => {
                Self::NoLibrary { library: library.to_owned(), cause: cause.to_string() }
            }
            NvmlError::LibRmVersionMismatch => Self::Mismatch,
            NvmlError::NoPermission | NvmlError::OperatingSystem => Self::NotPermitted,
            other => Self::NoDriver { cause: other.to_string() },
        }
    }
}
