//! Looks whether anything has changed where a program in a sandbox is not to write.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

/// The result for the directories in which the program wrote or would have written, and for its working directory, each
/// with its own entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outside {
    /// Files and directories that were checked.
    pub looked_at: u64,
    /// Files whose content, mode, owner or times have changed since the run began, through any program. Sorted by
    /// path.
    pub changed: Vec<PathBuf>,
}

/// More files are not looked at.
const LOOKED_AT_MAX: u64 = 200_000;

/// Looks at directories and at what is in them, except for the directory of the run, and for the files that standard
/// output and standard error go to.
pub(crate) fn look(directories: &BTreeSet<PathBuf>, run: &Path, begun: SystemTime) -> Outside {
    let mut outside = Outside::default();
    let printed = printed();
    let mut look_at = |path: &Path| -> bool {
        let Ok(metadata) = fs::symlink_metadata(path) else { return false };
        if path == run || outside.looked_at >= LOOKED_AT_MAX || printed.contains(&identity(&metadata)) {
            return false;
        }
        outside.looked_at += 1;
        let is_changed = changed(&metadata).is_some_and(|changed| changed >= begun);
        if is_changed {
            outside.changed.push(path.to_owned());
        }
        is_changed
    };
    for directory in directories {
        // Of a directory that the program has made there is none outside.
        let Ok(entries) = fs::read_dir(directory) else { continue };
        let mut one_has = false;
        for entry in entries.flatten() {
            let path = entry.path();
            // A directory that is looked at by itself is not looked at as an entry, too.
            if !directories.contains(&path) {
                one_has |= look_at(&path);
            }
        }
        // It changes with its entries; alone where one was removed.
        if !one_has {
            look_at(directory);
        }
    }
    outside.changed.sort();
    outside
}

/// When content, mode, owner or times of a file last changed: nothing but the clock sets this.
#[cfg(unix)]
fn changed(metadata: &Metadata) -> Option<SystemTime> {
    use std::os::unix::fs::MetadataExt as _;
    use std::time::{Duration, UNIX_EPOCH};

    let (seconds, nanoseconds) = (u64::try_from(metadata.ctime()).ok()?, u32::try_from(metadata.ctime_nsec()).ok()?);
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
}

#[cfg(not(unix))]
fn changed(metadata: &Metadata) -> Option<SystemTime> {
    metadata.modified().ok()
}

/// Which file this is, in all the system.
#[cfg(unix)]
fn identity(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

/// Not known on other systems; there none is printed to.
#[cfg(not(unix))]
fn identity(_metadata: &Metadata) -> (u64, u64) {
    (0, 0)
}

/// The files that this program, and what it runs, print to.
fn printed() -> Vec<(u64, u64)> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        let (out, err) = (std::io::stdout(), std::io::stderr());
        let files = [out.as_fd().try_clone_to_owned(), err.as_fd().try_clone_to_owned()].into_iter().flatten();
        files.filter_map(|file| Some(identity(&fs::File::from(file).metadata().ok()?))).collect()
    }
    #[cfg(not(unix))]
    Vec::new()
}
