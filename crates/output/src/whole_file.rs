//! Files that are there whole, or not at all: written beside their place, and moved there when they are done.
//!
//! So a full disk leaves the file that was there, and a program that is ended half way leaves nothing under the final name. On
//! Linux the file has no name while it is written, where the file system can do that: then it goes with the program,
//! however that ends. Elsewhere it is called `.NAME.XXXXXX.part`.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file that is being written.
#[derive(Debug)]
pub struct WholeFile {
    at: At,
    /// Where it shall be.
    target: PathBuf,
    force: bool,
}

/// Where a file is while it is written.
#[derive(Debug)]
enum At {
    /// In its place: a pipe, a terminal, a device.
    Target(File),
    /// Nowhere: it has no name yet.
    Unnamed(File),
    /// Beside its place.
    Beside(NamedTempFile),
}

impl WholeFile {
    /// A new file for `path`; a link is followed to its target. Anything but a regular file is written directly.
    ///
    /// # Errors
    /// If something is there already and `force` is not given, or nothing can be written there.
    pub fn create(path: &Path, force: bool) -> io::Result<Self> {
        if !force && fs::symlink_metadata(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let target = behind_links(path);
        let at = if is_written_in_place(path) { At::Target(File::create(path)?) } else { beside(&target)? };
        Ok(Self { at, target, force })
    }

    /// Puts the file in its place, with the owner and the permissions of the one that it replaces.
    ///
    /// # Errors
    /// If the disk cannot hold it, or something has come to be there and is not to be overwritten.
    pub fn finish(self) -> io::Result<()> {
        let Self { at, target, force } = self;
        match at {
            At::Target(_) => Ok(()),
            At::Unnamed(file) => {
                settle(&file, &target)?;
                if !force {
                    return unnamed::link(&file, &target);
                }
                // A link cannot take the place of another file, but can be moved there.
                let link =
                    builder(&prefix(&target)).make_in(directory_of(&target), |place| unnamed::link(&file, place))?;
                link.persist(&target).map(drop).map_err(|error| error.error)
            }
            At::Beside(file) => {
                settle(file.as_file(), &target)?;
                let moved = if force { file.persist(&target) } else { file.persist_noclobber(&target) };
                moved.map(drop).map_err(|error| error.error)
            }
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.at {
            At::Target(file) | At::Unnamed(file) => file.write(bytes),
            At::Beside(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.at {
            At::Target(file) | At::Unnamed(file) => file.flush(),
            At::Beside(file) => file.flush(),
        }
    }
}

/// Moves a file to a place where another may be, from another file system, too.
///
/// # Errors
/// If it cannot be read or written.
pub fn move_file(source: &Path, path: &Path) -> io::Result<()> {
    if !is_written_in_place(path) && fs::rename(source, behind_links(path)).is_ok() {
        return Ok(());
    }
    let mut copy = WholeFile::create(path, true)?;
    io::copy(&mut File::open(source)?, &mut copy)?;
    copy.finish()
}

/// Whether there is no file to keep whole: a pipe, a device, or one of this process's own descriptors.
fn is_written_in_place(path: &Path) -> bool {
    let is_special = fs::metadata(path).is_ok_and(|found| !found.is_file());
    is_special || ["/dev", "/proc"].iter().any(|place| path.starts_with(place))
}

/// The target of a path, even if it does not exist yet.
fn behind_links(path: &Path) -> PathBuf {
    /// As many as the kernel follows.
    const MAX_LINKS: usize = 40;
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = directory_of(&target).join(next),
            Err(_) => break,
        }
    }
    target
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn beside(target: &Path) -> io::Result<At> {
    match unnamed::create(directory_of(target)) {
        Some(file) => Ok(At::Unnamed(file)),
        None => match builder(&prefix(target)).tempfile_in(directory_of(target)) {
            // Where the directory takes no new file, what is there can still be written.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && target.is_file() => {
                File::create(target).map(At::Target)
            }
            made => made.map(At::Beside),
        },
    }
}

/// How the names of files beside a place begin: it may take 255 bytes with what comes after.
fn prefix(target: &Path) -> String {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    format!(".{}.", name.chars().take(50).collect::<String>())
}

/// What makes files beside a place, as `open` makes them: readable to whom the umask lets.
fn builder(prefix: &str) -> tempfile::Builder<'_, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(".part");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// Has the file on the disk, and gives it what the one at its place has.
fn settle(file: &File, target: &Path) -> io::Result<()> {
    if let Ok(old) = fs::metadata(target) {
        keep_owner(file, &old);
        file.set_permissions(old.permissions())?;
    }
    // Some file systems say only now that there is no room.
    file.sync_all()
}

#[cfg(unix)]
fn keep_owner(file: &File, old: &Metadata) {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    // Only the system's administrator may give files away: others' belong to who writes them.
    let _ = fchown(file, Some(old.uid()), Some(old.gid()));
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Metadata) {}

/// Files without a name.
#[cfg(target_os = "linux")]
mod unnamed {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd as _;
    use std::path::{Path, PathBuf};

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};

    /// One in the file system of a directory, if that can have any, and if it can be given a name later.
    pub(super) fn create(directory: &Path) -> Option<File> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = File::from(open(directory, flags, Mode::from_raw_mode(0o666)).ok()?);
        name_of(&file).exists().then_some(file)
    }

    /// Gives it a name that nothing has.
    pub(super) fn link(file: &File, path: &Path) -> io::Result<()> {
        Ok(linkat(CWD, name_of(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
    }

    fn name_of(file: &File) -> PathBuf {
        format!("/proc/self/fd/{}", file.as_raw_fd()).into()
    }
}

/// Files without a name, which only Linux can name later.
#[cfg(not(target_os = "linux"))]
mod unnamed {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(super) fn create(_: &Path) -> Option<File> {
        None
    }

    pub(super) fn link(_: &File, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A file that is written as where no file can be without a name.
    fn create_named(path: &Path, force: bool) -> WholeFile {
        let target = path.to_owned();
        WholeFile {
            at: At::Beside(builder(&prefix(&target)).tempfile_in(directory_of(&target)).unwrap()),
            target,
            force,
        }
    }

    #[test]
    fn nothing_is_there_until_it_is_finished_and_the_old_file_stays_until_then() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.json");
        for create in [|path: &Path, force| WholeFile::create(path, force).unwrap(), create_named] {
            let mut file = create(&path, false);
            file.write_all(b"half").unwrap();
            assert!(!path.exists());
            drop(file);
            assert_eq!(names_in(directory.path()), [""; 0]);

            let mut file = create(&path, false);
            file.write_all(b"old").unwrap();
            file.finish().unwrap();
            assert_eq!(WholeFile::create(&path, false).err().unwrap().kind(), io::ErrorKind::AlreadyExists);

            let mut file = create(&path, true);
            file.write_all(b"new").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"old");
            file.finish().unwrap();
            assert_eq!((fs::read(&path).unwrap().as_slice(), names_in(directory.path()).len()), (&b"new"[..], 1));
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn what_another_program_puts_there_meanwhile_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.json");
        for create in [|path: &Path, force| WholeFile::create(path, force).unwrap(), create_named] {
            let file = create(&path, false);
            fs::write(&path, "another's").unwrap();
            assert_eq!(file.finish().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&path).unwrap(), b"another's");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    #[cfg(unix)]
    fn links_are_written_through_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let directory = tempfile::tempdir().unwrap();
        let [link, target] = ["link", "target"].map(|name| directory.path().join(name));
        symlink("target", &link).unwrap();
        for (text, mode) in [("first", 0o640), ("second", 0o604)] {
            let mut file = WholeFile::create(&link, true).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.finish().unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(fs::read_to_string(&target).unwrap(), text);
            if text == "second" {
                assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
            }
            fs::set_permissions(&target, fs::Permissions::from_mode(mode)).unwrap();
        }
        let source = directory.path().join("source");
        fs::write(&source, "third").unwrap();
        move_file(&source, &link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink() && !source.exists());
        assert_eq!(fs::read_to_string(&target).unwrap(), "third");
    }

    #[test]
    #[cfg(unix)]
    fn devices_are_written_where_they_are() {
        let mut file = WholeFile::create(Path::new("/dev/null"), true).unwrap();
        file.write_all(b"gone").unwrap();
        file.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
