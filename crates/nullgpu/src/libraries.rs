//! The libraries that are loaded into a program's processes, which this program carries with it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::elf::stub::CORE_SONAME;
use crate::error::{Error, Kind};
use crate::verified_file;

/// The library that answers for CUDA's (`crates/nullgpu-core`); empty where no PyTorch for CUDA runs.
const CORE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libhighwater_nullgpu_core.so"));
/// The library that keeps a program's writes apart (`crates/sandbox`); empty where the other is.
const SANDBOX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libhighwater_sandbox.so"));

/// Whether this program was built for a system on which it can make dry runs.
pub fn are_built_in() -> bool {
    [CORE, SANDBOX].iter().all(|library| !library.is_empty())
}

/// Writes the library that answers for CUDA's into a directory, unless it is there, and gives its path.
///
/// # Errors
/// It cannot be written, or this program was built for a system that it is not made for.
pub(crate) fn write_core(directory: &Path) -> Result<PathBuf, Error> {
    write(&directory.join(CORE_SONAME), CORE)
}

/// The same with the library of the sandbox.
///
/// # Errors
/// As of [`write_core`].
pub(crate) fn write_sandbox(directory: &Path) -> Result<PathBuf, Error> {
    write(&directory.join("libhighwater_sandbox.so"), SANDBOX)
}

fn write(path: &Path, library: &[u8]) -> Result<PathBuf, Error> {
    if library.is_empty() {
        return Err(Error::new(path, Kind::NoCore));
    }
    verified_file::keep(path, library)?;
    // The loader, and the sandbox, know a path without links.
    fs::canonicalize(path).map_err(|error| Error::new(path, Kind::Write(error)))
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod tests {
    use super::*;
    use crate::elf::{stub, wanted};

    #[test]
    fn the_core_is_the_library_that_stubs_look_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = write_core(directory.path()).unwrap();
        assert_eq!(write_core(directory.path()).unwrap(), path);
        let library = wanted::read_file(&path).unwrap();
        assert_eq!(library.soname.as_deref(), Some(CORE_SONAME));
        assert!(library.defined.iter().any(|name| name.contains(stub::REGISTER)), "{:?}", library.defined);
    }

    #[test]
    fn the_sandbox_stands_in_front_of_the_c_library() {
        let directory = tempfile::tempdir().unwrap();
        let library = wanted::read_file(&write_sandbox(directory.path()).unwrap()).unwrap();
        for name in ["open64", "execl", "system", "syscall"] {
            assert!(library.defined.contains(name), "{name}");
        }
    }
}
