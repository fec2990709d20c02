//! Grows the tree: a directory when something in it is about to change, a file when it is about to be written.
//!
//! Everything is prepared on the stage and put into its place by one renaming, so that who does not hold the lock sees the
//! tree before or after, and nothing between.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi;
use crate::lock::Lock;
use crate::path::{self, Path};
use crate::settings::Settings;
use crate::system::{self, Errno, File};
use crate::walk::{self, Place, UNLISTED};

/// Has the directory that the program sees as `shown` in the tree.
///
/// # Errors
/// It is not there, is no directory, or the sandbox cannot be written.
pub(crate) fn directory(settings: &Settings, shown: &[u8]) -> Result<Path, Errno> {
    // Most often it is there already; through a stand-in the kernel would find what is outside.
    let place = walk::walk(settings, shown, false)?;
    if place.exists && path::below(place.real.as_bytes(), settings.tree.as_bytes()).is_some() {
        let is_directory = system::is_directory(&system::metadata(&place.real)?);
        return if is_directory { Ok(place.real) } else { Err(Errno::NO_DIRECTORY) };
    }
    let _lock = Lock::take(settings)?;
    grow(settings, &Path::new(), &settings.tree)?;
    let mut parent = settings.tree.clone();
    let mut rest = shown;
    while let Some((name, behind)) = path::first_name(rest) {
        let here = Path::joined(parent.as_bytes(), name)?;
        match system::read_link(&here) {
            Ok(target) => grow(settings, &walk::original(&target).ok_or(Errno::NO_DIRECTORY)?, &here)?,
            Err(Errno::NOT_THERE) => {
                let directory = walk::unlisted(&parent).ok_or(Errno::NOT_THERE)?;
                grow(settings, &Path::joined(directory.as_bytes(), name)?, &here)?;
            }
            Err(Errno::INVALID) => {}
            Err(error) => return Err(error),
        }
        (parent, rest) = (here, behind);
    }
    Ok(parent)
}

/// Has a copy of a file in the tree, in the place of its stand-in; with its bytes, unless they are to go anyway.
///
/// # Errors
/// The file cannot be read, or the sandbox cannot be written.
pub(crate) fn file(settings: &Settings, place: &Place, with_content: bool) -> Result<Path, Errno> {
    let shown = place.shown.as_bytes();
    let name = &shown[path::parent(shown).len()..];
    let real = Path::joined(directory(settings, path::parent(shown))?.as_bytes(), &name[1..])?;
    let _lock = Lock::take(settings)?;
    match system::read_link(&real) {
        // Another thread was faster.
        Err(Errno::INVALID) => return Ok(real),
        Ok(_) | Err(Errno::NOT_THERE) => {}
        Err(error) => return Err(error),
    }
    let source = File::open(&place.real, abi::O_RDONLY, 0)?;
    let metadata = source.metadata()?;
    let stage = on_stage(settings)?;
    let copy = File::open(&stage, abi::O_WRONLY | abi::O_CREAT | abi::O_EXCL, 0o600)?;
    let done = copy.copy_from(&source, &metadata, with_content).and_then(|()| system::rename(&stage, &real, 0));
    if done.is_err() {
        let _ = system::remove(&stage);
    }
    done.map(|()| real)
}

/// Puts a directory of stand-ins for the entries of `original` at `place`, where a stand-in is or nothing.
fn grow(settings: &Settings, original: &Path, place: &Path) -> Result<(), Errno> {
    let there = system::read_link(place);
    if there.as_ref().err() == Some(&Errno::INVALID) {
        return Ok(());
    }
    let root = Path::of(b"/")?;
    let source = if original.as_bytes().is_empty() { &root } else { original };
    let metadata = system::metadata(source)?;
    if !system::is_directory(&metadata) {
        return Err(Errno::NO_DIRECTORY);
    }
    let stage = on_stage(settings)?;
    system::make_directory(&stage, 0o700)?;
    fill(original, source, &stage)?;
    // Whatever the original's owner may not do, the sandbox's must.
    system::change_mode(&stage, metadata.st_mode & 0o7777 | 0o700)?;
    if there.is_err() {
        return system::rename(&stage, place, 0);
    }
    match system::rename(&stage, place, abi::RENAME_EXCHANGE) {
        // What is on the stage now is the stand-in.
        Ok(()) => system::remove(&stage),
        Err(_) => {
            system::remove(place)?;
            system::rename(&stage, place, 0)
        }
    }
}

/// A stand-in in `stage` for each entry of `original`, which is opened as `source`.
fn fill(original: &Path, source: &Path, stage: &Path) -> Result<(), Errno> {
    let file = match File::open(source, abi::O_RDONLY | abi::O_DIRECTORY, 0) {
        Ok(file) => file,
        Err(Errno::DENIED) => {
            let link = Path::joined(stage.as_bytes(), UNLISTED)?;
            let mut target = Path::of(b"/.")?;
            target.push(original.as_bytes())?;
            return system::make_link(&target, &link);
        }
        Err(error) => return Err(error),
    };
    let mut room = [0_u8; 1 << 13];
    loop {
        let length = file.entries(&mut room)?;
        if length == 0 {
            return Ok(());
        }
        for name in Names(&room[..length]) {
            if name != b"." && name != b".." {
                let link = Path::joined(stage.as_bytes(), name)?;
                system::make_link(&walk::stand_in(original.as_bytes(), name)?, &link)?;
            }
        }
    }
}

/// The names in what `getdents64` gives: records of two numbers of eight bytes, their own length in two, a type in one, and a
/// name that ends with a zero byte.
struct Names<'a>(&'a [u8]);

impl<'a> Iterator for Names<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        const LENGTH_AT: usize = 16;
        const NAME_AT: usize = 19;
        let length = usize::from(u16::from_ne_bytes([*self.0.get(LENGTH_AT)?, *self.0.get(LENGTH_AT + 1)?]));
        let (record, rest) = self.0.split_at_checked(length.max(1))?;
        self.0 = rest;
        record.get(NAME_AT..)?.split(|&byte| byte == 0).next()
    }
}

/// A new path on the stage.
fn on_stage(settings: &Settings) -> Result<Path, Errno> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut path = Path::joined(settings.stage.as_bytes(), b"")?;
    path.push_number(system::thread())?;
    path.push(b".")?;
    // Threads' numbers are used again, after a program's end even with the same count.
    let mut chance = [0_u8; 8];
    system::random(&mut chance)?;
    path.push_number(u64::from_ne_bytes(chance) ^ COUNT.fetch_add(1, Ordering::Relaxed))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::walk::walk;

    #[test]
    fn a_directory_grows_with_all_above_it_and_a_file_is_copied() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("data/deep")).unwrap();
        fs::create_dir_all(root.join("box/stage")).unwrap();
        fs::write(root.join("data/file"), "text").unwrap();
        symlink("file", root.join("data/link")).unwrap();
        let bytes = |path: &str| root.join(path).as_os_str().as_encoded_bytes().to_vec();
        let settings = Settings::new(&bytes("box"), b"").unwrap();

        super::directory(&settings, &bytes("data")).unwrap();
        let deep = walk(&settings, &bytes("data/deep"), true).unwrap();
        assert_eq!(deep.real.as_bytes(), bytes("data/deep"), "nothing has changed there");
        let place = walk(&settings, &bytes("data/link"), true).unwrap();
        assert_eq!(place.real.as_bytes(), bytes("data/file"));
        file(&settings, &place, true).unwrap();
        let copied = walk(&settings, &bytes("data/link"), true).unwrap();
        let mut tree = settings.tree.as_bytes().to_vec();
        tree.extend(bytes("data/file"));
        assert_eq!(copied.real.as_bytes(), tree);
        let copied = std::str::from_utf8(copied.real.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(copied).unwrap(), "text");
        assert_eq!(fs::read_dir(root.join("box/stage")).unwrap().count(), 0, "the stage is empty again");
        assert_eq!(super::directory(&settings, &bytes("data/file")).err(), Some(Errno::NO_DIRECTORY));
        super::directory(&settings, &bytes("data/deep")).unwrap();
        assert!(
            fs::symlink_metadata(copied.replace("/file", "/deep")).unwrap().is_dir(),
            "no link, though what it led to is one"
        );
    }
}
