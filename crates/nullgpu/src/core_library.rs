//! The library that answers for CUDA's, which this program carries with it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::elf::stub::CORE_SONAME;
use crate::error::{Error, Kind};
use crate::prepare::write_whole;

/// Its bytes; none where no PyTorch for CUDA runs.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libhighwater_nullgpu_core.so"));

/// Writes the library into a directory, unless it is there, and gives its path.
///
/// # Errors
/// It cannot be written, or this program was built for a system that it is not made for.
pub fn write(directory: &Path) -> Result<PathBuf, Error> {
    let path = directory.join(CORE_SONAME);
    if LIBRARY.is_empty() {
        return Err(Error::new(&path, Kind::NoCore));
    }
    fs::create_dir_all(directory).map_err(|error| Error::new(directory, Kind::Write(error)))?;
    // A program may have it loaded: it is replaced as a whole, and only if it is another.
    if !fs::read(&path).is_ok_and(|there| there == LIBRARY) {
        write_whole(&path, LIBRARY)?;
    }
    Ok(path)
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::elf::{stub, wanted};

    #[test]
    fn what_is_written_is_the_library_that_stubs_look_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = write(directory.path()).unwrap();
        assert_eq!(write(directory.path()).unwrap(), path);
        let library = wanted::read_file(&path).unwrap();
        assert_eq!(library.soname.as_deref(), Some(CORE_SONAME));
        assert!(library.defined.iter().any(|name| name.contains(stub::REGISTER)), "{:?}", library.defined);
    }
}
