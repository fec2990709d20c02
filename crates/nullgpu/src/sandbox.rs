//! Keeps what a program writes in a directory of the run's own, and says afterwards what that was.
//!
//! The library of `highwater-sandbox`, loaded in front of the C library, does it; here is what it has to be told, and how what
//! it leaves is read: a tree of directories in which a link whose target begins with `/./` stands for what was not changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use serde::Serialize;

use crate::enforcement::Enforcement;
use crate::error::{Error, Kind};
use crate::libraries;
use crate::outside::{self, Outside};

/// Where the writes of a run go.
#[derive(Clone, Debug)]
pub struct Sandbox {
    library: PathBuf,
    /// The directory of the run.
    run: PathBuf,
    directory: PathBuf,
    begun: SystemTime,
}

/// Files that a program wrote, in total or below one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Written {
    /// Files that were created or changed.
    pub files: u64,
    /// Their bytes; a partly changed file counts as a whole.
    pub bytes: u64,
    /// Those of them that would have replaced or changed a file that was there.
    pub replaced: u64,
    /// Files and directories that would have been removed or renamed; a directory counts once.
    pub removed: u64,
}

/// The result of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Writes {
    /// All together.
    #[serde(flatten)]
    pub total: Written,
    /// By the directory that the program knows, in which the files are themselves; sorted by path.
    pub directories: BTreeMap<PathBuf, Written>,
    /// Changes in places where the program must not write, found by comparing them before and after.
    pub outside: Outside,
    /// The writes that the kernel refused.
    pub kernel: Enforcement,
}

impl Sandbox {
    /// Makes one in the directory of a run, which passes itself; the library lies in `libraries`.
    ///
    /// # Errors
    /// Something cannot be written, or a path has a space or a colon in it.
    pub fn new(run: &Path, libraries: &Path) -> Result<Self, Error> {
        let library = libraries::write_sandbox(libraries)?;
        // The library knows paths by the names that they have without links.
        let run = run.canonicalize().map_err(|error| Error::new(run, Kind::Write(error)))?;
        let directory = run.join("sandbox");
        let stage = directory.join("stage");
        fs::create_dir_all(&stage).map_err(|error| Error::new(&stage, Kind::Write(error)))?;
        check(&run)?;
        check(&library)?;
        Ok(Sandbox { library, run, directory, begun: SystemTime::now() })
    }

    /// What `LD_PRELOAD` is to hold, before what it holds already.
    pub(crate) fn preload(&self, others: Option<OsString>) -> OsString {
        let mut all = self.library.clone().into_os_string();
        if let Some(others) = others.filter(|others| !others.is_empty()) {
            all.push(":");
            all.push(others);
        }
        all
    }

    /// What the library reads, and what keeps Python from leaving files that nobody asked for.
    pub(crate) fn variables(&self) -> [(&'static str, &OsStr); 3] {
        [
            ("HIGHWATER_SANDBOX", self.directory.as_os_str()),
            ("HIGHWATER_SANDBOX_PASS", self.run.as_os_str()),
            ("PYTHONDONTWRITEBYTECODE", OsStr::new("1")),
        ]
    }

    /// What was written up to now, while the kernel held this.
    pub fn writes(&self, kernel: Enforcement) -> Writes {
        let mut writes = Writes { kernel, ..Writes::default() };
        let tree = self.directory.join("tree");
        let mut places = BTreeSet::from_iter(std::env::current_dir());
        // Without a tree nothing was.
        let _ = self.count(&tree, Path::new("/"), &mut writes, &mut places);
        writes.outside = outside::look(&places, &self.run, self.begun);
        for written in writes.directories.values() {
            writes.total.files += written.files;
            writes.total.bytes += written.bytes;
            writes.total.replaced += written.replaced;
            writes.total.removed += written.removed;
        }
        writes
    }

    fn count(
        &self,
        inside: &Path,
        outside: &Path,
        writes: &mut Writes,
        places: &mut BTreeSet<PathBuf>,
    ) -> io::Result<()> {
        open_up(inside);
        let mut written = Written::default();
        let mut unlisted = false;
        for entry in fs::read_dir(inside)? {
            let entry = entry?;
            let (path, outside) = (entry.path(), outside.join(entry.file_name()));
            let metadata = fs::symlink_metadata(&path)?;
            if metadata.is_dir() {
                // One that cannot be read is one less to be told of.
                let _ = self.count(&path, &outside, writes, places);
            } else if !metadata.is_symlink() || !stands_in(&path) {
                written.files += 1;
                written.bytes += if metadata.is_file() { metadata.len() } else { 0 };
                written.replaced += u64::from(fs::symlink_metadata(&outside).is_ok());
            } else {
                unlisted |= entry.file_name() == ".highwater-unlisted";
            }
        }
        if !unlisted {
            written.removed = self.removed(inside, outside);
        }
        if written != Written::default() {
            places.insert(outside.to_owned());
            writes.directories.insert(outside.to_owned(), written);
        }
        Ok(())
    }

    /// Entries of a directory that its copy has not; those that came since are none of the program's.
    fn removed(&self, inside: &Path, outside: &Path) -> u64 {
        let Ok(entries) = fs::read_dir(outside) else { return 0 };
        let gone = entries.filter_map(Result::ok).filter(|entry| {
            let inside = inside.join(entry.file_name());
            fs::symlink_metadata(inside).is_err() && entry.metadata().is_ok_and(|metadata| self.is_older(&metadata))
        });
        gone.count() as u64
    }

    fn is_older(&self, metadata: &fs::Metadata) -> bool {
        metadata.modified().is_ok_and(|modified| modified < self.begun)
    }
}

/// The program may have forbidden a directory to itself, which would be in the way of clearing up, too.
fn open_up(directory: &Path) {
    #[cfg(unix)]
    let _ = fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o700));
    #[cfg(not(unix))]
    let _ = directory;
}

fn check(path: &Path) -> Result<(), Error> {
    if path.to_string_lossy().contains([' ', ':']) {
        return Err(Error::new(path, Kind::Unloadable));
    }
    Ok(())
}

fn stands_in(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| target.as_os_str().as_encoded_bytes().starts_with(b"/./"))
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_written_is_counted_by_directory() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (home, run) = (root.join("home"), root.join("run"));
        for path in [&home, &run] {
            fs::create_dir(path).unwrap();
        }
        for name in ["kept", "changed", "removed"] {
            fs::write(home.join(name), "text").unwrap();
        }
        let mut sandbox = Sandbox::new(&run, &run).unwrap();
        assert_eq!(sandbox.writes(Enforcement::default()).total, Written::default());
        sandbox.begun += Duration::from_secs(2);

        let tree = run.join("sandbox/tree");
        let inside = tree.join(home.strip_prefix("/").unwrap());
        fs::create_dir_all(&inside).unwrap();
        symlink(format!("/.{}/kept", home.display()), inside.join("kept")).unwrap();
        fs::write(inside.join("changed"), "longer text").unwrap();
        fs::write(inside.join("new"), "new").unwrap();
        let writes = sandbox.writes(Enforcement::default());
        let expected = Written { files: 2, bytes: 14, replaced: 1, removed: 1 };
        assert_eq!(writes.directories[&home], expected);
        assert_eq!((writes.total.files, writes.total.bytes), (2, 14));
        assert_eq!(sandbox.variables()[1].1, run.as_os_str());
        assert!(!writes.outside.changed.iter().any(|path| path.starts_with(&home)), "{:?}", writes.outside);
        sandbox.begun -= Duration::from_secs(60);
        let writes = sandbox.writes(Enforcement::default());
        let changed: Vec<_> = writes.outside.changed.iter().filter(|path| path.starts_with(&home)).collect();
        assert_eq!(changed, [&home.join("changed"), &home.join("kept"), &home.join("removed")]);
    }
}
