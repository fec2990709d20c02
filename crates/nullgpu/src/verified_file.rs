//! Files of which every byte is what it should be, and which another process sees whole or not at all.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use crate::error::{Error, Kind};

/// Has a file with these bytes at `path`: it is compared if it is there, and replaced if it is another. A program may have it loaded.
///
/// # Errors
/// It, or the directory around it, cannot be written.
pub(crate) fn keep(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let directory = path.parent().unwrap_or(path);
    fs::create_dir_all(directory).map_err(|error| Error::new(directory, Kind::Write(error)))?;
    let is_itself = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    if is_itself && fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    write(path, bytes).map_err(|error| Error::new(path, Kind::Write(error)))
}

/// Writes beside it, under a name that nobody can know, in a file that was not there.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(path))?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_is_followed_and_what_is_there_is_compared() {
        let directory = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (directory.path().join("sub/file"), directory.path().join("elsewhere"));
        keep(&path, b"right").unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        keep(&path, b"right").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before, "not written again");
        fs::write(&path, "wrong").unwrap();
        keep(&path, b"right").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"right");

        fs::remove_file(&path).unwrap();
        fs::write(&elsewhere, "right").unwrap();
        symlink(&elsewhere, &path).unwrap();
        keep(&path, b"right").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_file(), "a link to the same bytes may lead to others soon");
        assert_eq!(fs::read_dir(directory.path().join("sub")).unwrap().count(), 1, "nothing else is left");
    }
}
