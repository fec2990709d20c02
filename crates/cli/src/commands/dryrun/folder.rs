//! The temporary folder of a dry run: this user's own, gone when the run is, and swept up by a later run if it could not go.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;

const PREFIX: &str = "highwater-dryrun-";
/// Locked for as long as the run lasts. The system unlocks it, however the program ends.
const LOCK: &str = "lock";

/// A folder, removed when this is dropped.
pub(super) struct Folder {
    directory: TempDir,
    _lock: File,
}

impl Folder {
    /// Makes one where temporary files belong, after having removed those of runs that were killed.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn new() -> anyhow::Result<Self> {
        // The processes of a run may go elsewhere.
        let root = std::path::absolute(std::env::temp_dir()).unwrap_or_else(|_| std::env::temp_dir());
        sweep(&root);
        let because =
            || format!("cannot make a temporary folder in `{}`: set `TMPDIR` to another directory", root.display());
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let directory = builder.tempdir_in(&root).with_context(because)?;
        let lock = locked(directory.path()).with_context(because)?;
        Ok(Folder { directory, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Gets its name when it is locked: without one, a folder is not swept up.
fn locked(directory: &Path) -> io::Result<File> {
    let unnamed = directory.join("unlocked");
    let file = File::create_new(&unnamed)?;
    // A file system without locks has none to sweep up either.
    let _ = file.try_lock();
    fs::rename(unnamed, directory.join(LOCK))?;
    Ok(file)
}

/// Removes the folders of runs that have ended without.
fn sweep(root: &Path) {
    for directory in fs::read_dir(root).into_iter().flatten().flatten() {
        let is_one = directory.file_name().to_string_lossy().starts_with(PREFIX);
        if is_one && is_abandoned(&directory.path()) {
            // What cannot be removed now can be next time.
            let _ = remove(&directory.path());
        }
    }
}

/// Whether a folder is this user's own, and nobody is at work in it.
fn is_abandoned(directory: &Path) -> bool {
    fs::symlink_metadata(directory).is_ok_and(|metadata| metadata.is_dir() && is_own(&metadata))
        && File::open(directory.join(LOCK)).is_ok_and(|file| match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
        })
}

#[cfg(unix)]
fn is_own(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(metadata) == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_own(_metadata: &fs::Metadata) -> bool {
    true
}

/// Removes a folder, and in it directories that a program has forbidden to itself.
fn remove(directory: &Path) -> io::Result<()> {
    if fs::remove_dir_all(directory).is_ok() {
        return Ok(());
    }
    let mut pending: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(place) = pending.pop() {
        #[cfg(unix)]
        fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        let directories =
            fs::read_dir(&place)?.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        pending.extend(directories.map(|entry| entry.path()));
    }
    fs::remove_dir_all(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_left_behind_is_swept_up() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let directory = root.path().join(name);
            fs::create_dir_all(directory.join("sub")).unwrap();
            directory
        };
        let (at_work, left, new, other) =
            (make("highwater-dryrun-a"), make("highwater-dryrun-b"), make("highwater-dryrun-c"), make("other"));
        let lock = locked(&at_work).unwrap();
        drop(locked(&left).unwrap());
        drop(locked(&other).unwrap());
        #[cfg(unix)]
        fs::set_permissions(left.join("sub"), std::os::unix::fs::PermissionsExt::from_mode(0o0)).unwrap();
        sweep(root.path());
        assert!(at_work.exists() && new.exists() && other.exists() && !left.exists());
        drop(lock);
        sweep(root.path());
        assert!(!at_work.exists());
    }
}
