//! Functions that give a file another name, or one more.

use std::ffi::{c_int, c_uint};

use super::real;
use crate::abi;
use crate::real::Name;
use crate::redirect::{self, Purpose, redirect};
use crate::system::{self, Errno};

const HERE: c_int = abi::AT_FDCWD;

#[unsafe(no_mangle)]
extern "C" fn rename(from: Name, to: Name) -> c_int {
    renameat2(HERE, from, HERE, to, 0)
}

#[unsafe(no_mangle)]
extern "C" fn renameat(from_directory: c_int, from: Name, to_directory: c_int, to: Name) -> c_int {
    renameat2(from_directory, from, to_directory, to, 0)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn renameat2(
    from_directory: c_int,
    from: Name,
    to_directory: c_int,
    to: Name,
    flags: c_uint,
) -> c_int {
    match redirect::rename((from_directory, from.bytes()), (to_directory, to.bytes()), flags) {
        Ok(Some((from, to))) => said(system::rename(&from, &to, flags)),
        Ok(None) if flags == 0 => real!(renameat: fn(c_int, Name, c_int, Name) -> c_int;
            from_directory, from, to_directory, to),
        Ok(None) => real!(renameat2: fn(c_int, Name, c_int, Name, c_uint) -> c_int;
            from_directory, from, to_directory, to, flags),
        Err(error) => error.fail(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn link(from: Name, to: Name) -> c_int {
    linkat(HERE, from, HERE, to, 0)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn linkat(
    from_directory: c_int,
    from: Name,
    to_directory: c_int,
    to: Name,
    flags: c_int,
) -> c_int {
    let follow = flags & abi::AT_SYMLINK_FOLLOW != 0;
    let purpose = if follow { Purpose::Change } else { Purpose::ChangeLink };
    let paths = redirect(from_directory, from.bytes(), purpose)
        .and_then(|first| Ok((first, redirect(to_directory, to.bytes(), Purpose::Make)?)));
    match paths {
        Ok((first, second)) => real!(linkat: fn(c_int, Name, c_int, Name, c_int) -> c_int;
            from_directory, from.or(first.as_ref()), to_directory, to.or(second.as_ref()), flags),
        Err(error) => error.fail(),
    }
}

/// Where a link leads stays as it is said: `walk` follows it.
#[unsafe(no_mangle)]
extern "C" fn symlink(target: Name, path: Name) -> c_int {
    symlinkat(target, HERE, path)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn symlinkat(target: Name, directory: c_int, path: Name) -> c_int {
    super::taken(
        directory,
        path,
        Purpose::Make,
        |path| real!(symlinkat: fn(Name, c_int, Name) -> c_int; target, directory, path),
    )
}

fn said(result: Result<(), Errno>) -> c_int {
    result.map_or_else(Errno::fail, |()| 0)
}
