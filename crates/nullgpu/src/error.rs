//! What can go wrong before a program runs over the null GPU.

use std::path::{Path, PathBuf};

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
    #[error("there is no torch in this directory")]
    NoTorch,
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
    #[error("no shared object in it wants anything of a CUDA library")]
    NothingWanted,
    /// A stub could not be made.
    #[error("cannot make a stub: {0}")]
    Stub(stub::Error),
    /// Something could not be written.
    #[error("cannot write it: {0}")]
    Write(std::io::Error),
    /// The core library is not where it should be.
    #[error("the null GPU's library is not there")]
    NoCore,
    /// The loader's list of libraries cannot hold this path.
    #[error("a path with a space or a colon cannot be preloaded")]
    Unloadable,
}

impl Kind {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Kind::NoTorch => Some("name an interpreter that has torch with `--python`"),
            Kind::WithoutCuda { .. } => {
                Some("install a build for CUDA, which needs no GPU to be installed: `pip install torch` on Linux")
            }
            Kind::NoCore => Some("build it with `cargo build -p highwater-nullgpu-core`, beside the program"),
            Kind::Unloadable => Some("use a directory whose path has neither"),
            _ => None,
        }
    }
}
