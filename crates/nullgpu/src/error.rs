//! What can go wrong before a program runs over the null GPU.

use std::path::{Path, PathBuf};

use highwater_problem::Explained;

use crate::elf::{stub, wanted};

/// Where, and what.
#[derive(Debug, thiserror::Error)]
#[error("`{}`: {kind}", path.display())]
pub struct Error {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub kind: Kind,
}

impl Error {
    pub(crate) fn new(path: &Path, kind: Kind) -> Self {
        Error { path: path.to_owned(), kind }
    }
}

/// What can be wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Kind {
    /// No PyTorch is installed there.
    #[error("PyTorch is not installed there")]
    NoTorch,
    /// The interpreter cannot be started.
    #[error("cannot be started: {0}")]
    NotStarted(std::io::Error),
    /// What was started is no Python.
    #[error("does not answer like a Python interpreter: {said}")]
    NoPython {
        /// The last line of what it said.
        said: String,
    },
    /// A Python for another system.
    #[error("runs programs for {system}")]
    OtherSystem {
        /// Which, with its processor.
        system: String,
    },
    /// A Python that is too old.
    #[error("is Python {}.{}", version.0, version.1)]
    OldPython {
        /// Which.
        version: (u32, u32),
    },
    /// A PyTorch for processors only, or for other makers' cards.
    #[error("torch {version} is built without CUDA")]
    WithoutCuda {
        /// Which.
        version: String,
    },
    /// A shared object could not be read.
    #[error("cannot read it as a shared object: {0}")]
    Read(wanted::ReadError),
    /// No shared object wants anything of CUDA.
    #[error("no shared object in it needs a CUDA library")]
    NothingWanted,
    /// A stub could not be made.
    #[error("cannot make a stub: {0}")]
    Stub(stub::Error),
    /// Something could not be written.
    #[error("cannot write it: {0}")]
    Write(std::io::Error),
    /// There is no core library, or none for this system.
    #[error("the null GPU's library is missing")]
    NoCore,
    /// The loader's list of libraries cannot hold this path.
    #[error("a path with a space or a colon cannot be preloaded")]
    Unloadable,
}

impl Explained for Error {
    /// Its sentence has the kind.
    fn reason(&self) -> Option<String> {
        None
    }

    fn hint(&self) -> Option<String> {
        let hint = match self.kind {
            Kind::NoTorch => {
                "install PyTorch there, in a build for CUDA, which needs no GPU (`pip install torch`, on Linux on x86-64), or name \
                 the interpreter that has it with `--python`"
            }
            Kind::NotStarted(_) | Kind::NoPython { .. } => "give the interpreter that has PyTorch with `--python`",
            Kind::OtherSystem { .. } => {
                "a dry run needs PyTorch for CUDA, which exists for Linux on x86-64: use a container or a machine \
                 of that kind"
            }
            Kind::OldPython { .. } => "use Python 3.9 or newer",
            Kind::WithoutCuda { .. } => "install a CUDA build, which does not need a GPU: `pip install torch` on Linux",
            Kind::NoCore => "only builds of highwater for Linux on x86-64, with glibc, contain it",
            Kind::Unloadable => "set `TMPDIR` to a directory whose path has neither",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
