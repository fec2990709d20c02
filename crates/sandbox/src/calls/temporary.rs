//! Files and directories with names that nobody has: the C library makes them without asking its own `open`.

use std::ffi::{c_char, c_int};

use super::real;
use crate::abi;
use crate::path::Path;
use crate::real::Room;
use crate::redirect::{Purpose, redirect};
use crate::settings;
use crate::system::{self, Errno};

/// What is replaced by chance.
const HOLES: &[u8] = b"XXXXXX";
/// So many names are tried.
const TRIES: u32 = 1 << 10;

macro_rules! files {
    ($(fn $name:ident(template $(, $argument:ident: c_int)*) = ($suffix:expr, $flags:expr);)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(template: Room $(, $argument: c_int)*) -> c_int {
            if settings::get().is_none() {
                return real!($name: fn(Room $(, files!(@type $argument))*) -> c_int; template $(, $argument)*);
            }
            filled(template, $suffix, |path| file(path, $flags)).unwrap_or_else(Errno::fail)
        }
    )*};
    (@type $argument:ident) => { c_int };
}

files! {
    fn mkstemp(template) = (0, 0);
    fn mkstemp64(template) = (0, 0);
    fn mkostemp(template, flags: c_int) = (0, flags);
    fn mkostemp64(template, flags: c_int) = (0, flags);
    fn mkstemps(template, suffix: c_int) = (suffix, 0);
    fn mkstemps64(template, suffix: c_int) = (suffix, 0);
    fn mkostemps(template, suffix: c_int, flags: c_int) = (suffix, flags);
    fn mkostemps64(template, suffix: c_int, flags: c_int) = (suffix, flags);
}

#[unsafe(no_mangle)]
extern "C" fn mkdtemp(template: Room) -> *mut c_char {
    if settings::get().is_none() {
        return real!(mkdtemp: fn(Room) -> *mut c_char; template);
    }
    match filled(template, 0, directory) {
        Ok(()) => template.start(),
        Err(error) => error.fail(),
    }
}

fn file(path: &[u8], flags: c_int) -> Result<c_int, Errno> {
    let flags = flags & !abi::O_ACCMODE | abi::O_RDWR | abi::O_CREAT | abi::O_EXCL;
    let path = redirect(abi::AT_FDCWD, path, Purpose::Open(flags))?.map_or_else(|| Path::of(path), Ok)?;
    system::open_to_keep(&path, flags, 0o600)
}

fn directory(path: &[u8]) -> Result<(), Errno> {
    let path = redirect(abi::AT_FDCWD, path, Purpose::Make)?.map_or_else(|| Path::of(path), Ok)?;
    system::make_directory(&path, 0o700)
}

/// Fills the holes of a template until `make` finds nothing in its way.
fn filled<T>(template: Room, suffix: c_int, make: impl Fn(&[u8]) -> Result<T, Errno>) -> Result<T, Errno> {
    let given = Path::of(template.text())?;
    let end = usize::try_from(suffix).ok().and_then(|suffix| given.as_bytes().len().checked_sub(suffix));
    let end = end.filter(|&end| given.as_bytes()[..end].ends_with(HOLES)).ok_or(Errno::INVALID)?;
    let holes = end - HOLES.len();
    for _ in 0..TRIES {
        let mut path = Path::of(&given.as_bytes()[..holes])?;
        path.push(&letters()?)?;
        path.push(&given.as_bytes()[end..])?;
        match make(path.as_bytes()) {
            Err(Errno::EXISTS) => {}
            Ok(result) => {
                template.put(path.with_end());
                return Ok(result);
            }
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXISTS)
}

fn letters() -> Result<[u8; HOLES.len()], Errno> {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let mut chance = [0_u8; HOLES.len()];
    system::random(&mut chance)?;
    Ok(chance.map(|byte| LETTERS[usize::from(byte) % LETTERS.len()]))
}
