//! What a function has to be given for a path, by what it is about to do.

use std::ffi::c_int;

use crate::abi;
use crate::farm;
use crate::path::{self, Path};
use crate::settings::{self, Settings};
use crate::system::{self, Errno};
use crate::walk::{self, Place, walk};

/// What a call is about to do with what a path means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Look at it; at what a link leads to.
    Look,
    /// Look at it; at a link itself.
    LookAtLink,
    /// Change it, or what a link leads to.
    Change,
    /// Change it; a link itself.
    ChangeLink,
    /// Make something where nothing is.
    Make,
    /// Remove what is no directory.
    Unlink,
    /// Remove a directory.
    RemoveDirectory,
    /// Remove whatever it is.
    Remove,
    /// Open it, with the flags of `open`.
    Open(c_int),
}

/// What the real function is to be given; nothing if that is what it was given.
///
/// # Errors
/// The call fails, as it would without a sandbox, or because the sandbox cannot be written.
pub(crate) fn redirect(directory: c_int, path: &[u8], purpose: Purpose) -> Result<Option<Path>, Errno> {
    let Some(settings) = settings::get() else { return Ok(None) };
    if path.is_empty() {
        // A function that takes no path for what is open already, or one that fails.
        let changes = matches!(purpose, Purpose::Change | Purpose::ChangeLink) && directory != abi::AT_FDCWD;
        return if changes { open_one(settings, directory) } else { Ok(None) };
    }
    if looks_only(purpose) && !settings.begun() {
        return Ok(None);
    }
    redirect_in(settings, &absolute(settings, directory, path)?, purpose).map(Some)
}

/// Where the copy is of what is open outside of the tree, even if only to be read; nothing if it may be changed where it is.
fn open_one(settings: &Settings, descriptor: c_int) -> Result<Option<Path>, Errno> {
    let Ok(path) = system::path_of(descriptor) else { return Ok(None) };
    // Pipes and sockets have names without a slash; what was removed has no path any more.
    if !path.as_bytes().starts_with(b"/") || path.as_bytes().ends_with(b" (deleted)") {
        return Ok(None);
    }
    // Of what is open the kernel tells a path without links.
    let other = redirect_in(settings, &path, Purpose::ChangeLink)?;
    Ok(Some(other).filter(|other| other.as_bytes() != path.as_bytes()))
}

fn looks_only(purpose: Purpose) -> bool {
    match purpose {
        Purpose::Look | Purpose::LookAtLink => true,
        Purpose::Open(flags) => !writes(flags) && flags & abi::O_CREAT == 0 && !is_temporary(flags),
        _ => false,
    }
}

/// An absolute path, of which nothing is known but that it means the same.
///
/// # Errors
/// What it is relative to is not there, or no directory.
pub(crate) fn absolute(settings: &Settings, directory: c_int, path: &[u8]) -> Result<Path, Errno> {
    if path.starts_with(b"/") {
        return Path::of(path);
    }
    let base = if directory == abi::AT_FDCWD { system::current_directory()? } else { system::path_of(directory)? };
    if !base.as_bytes().starts_with(b"/") {
        return Err(Errno::NO_DIRECTORY);
    }
    Path::joined(walk::inside(settings, base.as_bytes()), path)
}

fn redirect_in(settings: &Settings, path: &Path, purpose: Purpose) -> Result<Path, Errno> {
    let path = path.as_bytes();
    let wants_directory = path.ends_with(b"/");
    let with_slash = |mut real: Path| {
        if wants_directory && real.as_bytes() != b"/" {
            real.push(b"/")?;
        }
        Ok(real)
    };
    match purpose {
        Purpose::Look => with_slash(look(settings, walk(settings, path, true)?)?),
        Purpose::LookAtLink => with_slash(look(settings, walk(settings, path, wants_directory)?)?),
        Purpose::Change => change(settings, walk(settings, path, true)?),
        Purpose::ChangeLink => change(settings, walk(settings, path, wants_directory)?),
        Purpose::Make => make(settings, &walk(settings, path, false)?),
        Purpose::Unlink | Purpose::RemoveDirectory | Purpose::Remove => {
            remove(settings, &walk(settings, path, false)?, purpose)
        }
        Purpose::Open(flags) => with_slash(open(settings, path, flags)?),
    }
}

/// Whether something is in the tree, or never will be.
fn is_settled(settings: &Settings, place: &Place) -> bool {
    place.passes || path::below(place.real.as_bytes(), settings.tree.as_bytes()).is_some()
}

fn look(settings: &Settings, place: Place) -> Result<Path, Errno> {
    // Of a directory that was moved as a whole, the kernel would tell the old name.
    let moved = place.exists && !is_settled(settings, &place) && place.real.as_bytes() != place.shown.as_bytes();
    if moved && system::metadata(&place.real).is_ok_and(|metadata| system::is_directory(&metadata)) {
        return farm::directory(settings, place.shown.as_bytes())
            .or_else(|error| if place.shown.as_bytes().is_empty() { Ok(place.real) } else { Err(error) });
    }
    Ok(place.real)
}

fn change(settings: &Settings, place: Place) -> Result<Path, Errno> {
    // The kernel says what is wrong with it.
    if !place.exists || is_settled(settings, &place) {
        return Ok(place.real);
    }
    let metadata = system::metadata(&place.real)?;
    if system::is_directory(&metadata) {
        farm::directory(settings, place.shown.as_bytes())
    } else if system::is_regular(&metadata) {
        farm::file(settings, &place, true)
    } else if metadata.st_mode & abi::S_IFMT == abi::S_IFLNK {
        link(settings, &place)
    } else {
        // A pipe or a device that lies among files is left alone, but for being written to.
        Err(Errno(abi::EPERM))
    }
}

/// Has a copy of a link in the tree.
fn link(settings: &Settings, place: &Place) -> Result<Path, Errno> {
    let target = system::read_link(&place.real)?;
    let real = in_parent(settings, place)?;
    system::remove(&real)?;
    system::make_link(&target, &real)?;
    Ok(real)
}

/// Where something is to be in the tree; the directory around it is there then.
fn in_parent(settings: &Settings, place: &Place) -> Result<Path, Errno> {
    let shown = place.shown.as_bytes();
    let parent = path::parent(shown);
    let directory = farm::directory(settings, parent)?;
    Path::joined(directory.as_bytes(), shown.get(parent.len() + 1..).unwrap_or_default())
}

/// Fails where the directory around it, outside, could not be written to.
fn check_parent(settings: &Settings, place: &Place) -> Result<(), Errno> {
    let parent = path::parent(place.shown.as_bytes());
    let parent = if parent.is_empty() { b"/" } else { parent };
    debug_assert!(!settings.passes(place.shown.as_bytes()), "who passes is not asked");
    match system::may(&Path::of(parent)?, abi::W_OK) {
        // It is new.
        Err(Errno::NOT_THERE | Errno::NO_DIRECTORY) => Ok(()),
        result => result,
    }
}

fn make(settings: &Settings, place: &Place) -> Result<Path, Errno> {
    if place.passes {
        return Ok(place.real.clone());
    }
    if place.exists {
        return Err(Errno::EXISTS);
    }
    check_parent(settings, place)?;
    in_parent(settings, place)
}

fn remove(settings: &Settings, place: &Place, purpose: Purpose) -> Result<Path, Errno> {
    if place.passes || !place.exists {
        return Ok(place.real.clone());
    }
    let is_directory = system::is_directory(&system::metadata(&place.real)?);
    match (purpose, is_directory) {
        (Purpose::Unlink, true) => return Err(Errno::IS_DIRECTORY),
        (Purpose::RemoveDirectory, false) => return Err(Errno::NO_DIRECTORY),
        _ => {}
    }
    check_parent(settings, place)?;
    if is_directory {
        // Whether it is empty, only a directory of the tree can tell.
        return farm::directory(settings, place.shown.as_bytes());
    }
    in_parent(settings, place)
}

/// What `rename` is to be given: both are in the tree then, or where they always were.
///
/// # Errors
/// As of [`redirect`].
pub(crate) fn rename(from: (c_int, &[u8]), to: (c_int, &[u8]), flags: u32) -> Result<Option<(Path, Path)>, Errno> {
    let Some(settings) = settings::get() else { return Ok(None) };
    let from = walk(settings, absolute(settings, from.0, from.1)?.as_bytes(), false)?;
    let to = walk(settings, absolute(settings, to.0, to.1)?.as_bytes(), false)?;
    if !from.exists {
        return Err(Errno::NOT_THERE);
    }
    if to.exists && flags & abi::RENAME_NOREPLACE != 0 {
        return Err(Errno::EXISTS);
    }
    Ok(Some((movable(settings, &from)?, movable(settings, &to)?)))
}

fn movable(settings: &Settings, place: &Place) -> Result<Path, Errno> {
    if place.passes {
        return Ok(place.real.clone());
    }
    check_parent(settings, place)?;
    // Directories in person, so that the kernel sees what may take whose place.
    if place.exists && system::is_directory(&system::metadata(&place.real)?) {
        return farm::directory(settings, place.shown.as_bytes());
    }
    in_parent(settings, place)
}

fn writes(flags: c_int) -> bool {
    flags & abi::O_PATH == 0 && (flags & abi::O_ACCMODE != abi::O_RDONLY || flags & abi::O_TRUNC != 0)
}

fn is_temporary(flags: c_int) -> bool {
    flags & abi::O_TMPFILE == abi::O_TMPFILE
}

fn open(settings: &Settings, path: &[u8], flags: c_int) -> Result<Path, Errno> {
    let creates = flags & abi::O_CREAT != 0 && flags & abi::O_PATH == 0;
    let exclusive = creates && flags & abi::O_EXCL != 0;
    let follow = flags & abi::O_NOFOLLOW == 0 && !exclusive;
    let place = walk(settings, path, follow)?;
    if place.passes {
        return Ok(place.real);
    }
    if is_temporary(flags) {
        return change(settings, place);
    }
    if !place.exists {
        return if creates { make(settings, &place) } else { Ok(place.real) };
    }
    if exclusive {
        return Err(Errno::EXISTS);
    }
    if !writes(flags) {
        return look(settings, place);
    }
    // Only of what has bytes there can be a copy; into a pipe or a device the bytes go, as those to the network do.
    if is_settled(settings, &place) || !system::is_regular(&system::metadata(&place.real)?) {
        return Ok(place.real);
    }
    system::may(&place.real, abi::W_OK)?;
    farm::file(settings, &place, flags & abi::O_TRUNC == 0)
}
