//! Functions that tell paths: those of the tree are told as the program knows them.

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

use super::real;
use crate::abi;
use crate::path::{self, Path};
use crate::real::{Name, Room};
use crate::redirect::{self, Purpose, redirect};
use crate::settings;
use crate::system::{self, Errno};
use crate::walk::{self, walk};

const HERE: c_int = abi::AT_FDCWD;

#[unsafe(no_mangle)]
extern "C" fn getcwd(room: Room, size: usize) -> *mut c_char {
    let Some(settings) = settings::get() else {
        return real!(getcwd: fn(Room, usize) -> *mut c_char; room, size);
    };
    let told = system::current_directory().and_then(|directory| shown(settings, &directory));
    match told {
        Ok(path) if room.is_null() => allocated(&path, size.max(path.with_end().len())),
        Ok(_) if size == 0 => Errno::INVALID.fail(),
        Ok(path) if path.with_end().len() > size => Errno::TOO_SMALL.fail(),
        Ok(path) => room.put(path.with_end()),
        Err(error) => error.fail(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn __getcwd_chk(room: Room, size: usize, _known: usize) -> *mut c_char {
    getcwd(room, size)
}

#[unsafe(no_mangle)]
extern "C" fn get_current_dir_name() -> *mut c_char {
    getcwd(Room::none(), 0)
}

#[unsafe(no_mangle)]
extern "C" fn readlink(path: Name, room: Room, size: usize) -> isize {
    readlinkat(HERE, path, room, size)
}

#[unsafe(no_mangle)]
extern "C" fn __readlink_chk(path: Name, room: Room, size: usize, _known: usize) -> isize {
    readlinkat(HERE, path, room, size)
}

#[unsafe(no_mangle)]
extern "C" fn __readlinkat_chk(directory: c_int, path: Name, room: Room, size: usize, _known: usize) -> isize {
    readlinkat(directory, path, room, size)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn readlinkat(directory: c_int, path: Name, room: Room, size: usize) -> isize {
    let ask = |path| real!(readlinkat: fn(c_int, Name, Room, usize) -> isize; directory, path, room, size);
    let target = match redirect(directory, path.bytes(), Purpose::LookAtLink) {
        Ok(None) => return ask(path),
        Ok(Some(real)) => match system::read_link(&real) {
            Ok(target) => target,
            Err(error) => return error.fail(),
        },
        Err(error) => return error.fail(),
    };
    // The kernel's own links tell where things really are: of this process's directory, or of what it has open.
    let target = settings::get().map_or(Ok(target.clone()), |settings| shown(settings, &target));
    match target {
        Ok(target) => {
            let told = &target.as_bytes()[..target.as_bytes().len().min(size)];
            room.put(told);
            told.len().cast_signed()
        }
        Err(error) => error.fail(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn realpath(path: Name, room: Room) -> *mut c_char {
    let Some(settings) = settings::get().filter(|settings| settings.begun() && !path.bytes().is_empty()) else {
        return real!(realpath: fn(Name, Room) -> *mut c_char; path, room);
    };
    match resolved(settings, path.bytes()) {
        Ok(path) if room.is_null() => allocated(&path, path.with_end().len()),
        Ok(path) => room.put(path.with_end()),
        Err(error) => error.fail(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn __realpath_chk(path: Name, room: Room, _known: usize) -> *mut c_char {
    realpath(path, room)
}

#[unsafe(no_mangle)]
extern "C" fn canonicalize_file_name(path: Name) -> *mut c_char {
    realpath(path, Room::none())
}

fn resolved(settings: &settings::Settings, path: &[u8]) -> Result<Path, Errno> {
    let place = walk(settings, redirect::absolute(settings, HERE, path)?.as_bytes(), true)?;
    if place.passes {
        let mut room = [0_u8; path::CAPACITY];
        let found: *mut c_char =
            real!(realpath: fn(Name, Room) -> *mut c_char; Name::of(&place.real), Room::of(&mut room));
        if found.is_null() {
            return Err(Errno::last());
        }
        let length = room.iter().position(|&byte| byte == 0).unwrap_or(0);
        return shown(settings, &Path::of(&room[..length])?);
    }
    if !place.exists {
        return Err(Errno::NOT_THERE);
    }
    if place.shown.as_bytes().is_empty() { Path::of(b"/") } else { Ok(place.shown) }
}

fn shown(settings: &settings::Settings, path: &Path) -> Result<Path, Errno> {
    match walk::inside(settings, path.as_bytes()) {
        b"" => Path::of(b"/"),
        inside => Path::of(inside),
    }
}

/// A text for the caller to free; null if there is no memory.
fn allocated(path: &Path, size: usize) -> *mut c_char {
    // SAFETY: any size may be asked for.
    let room = unsafe { abi::malloc(size) };
    if room.is_null() { null_mut() } else { Room::at(room.cast()).put(path.with_end()) }
}
