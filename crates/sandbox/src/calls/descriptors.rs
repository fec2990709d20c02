//! Functions that change what is open, even if it was opened to be read: mode, owner, times.

use std::ffi::{c_int, c_uint, c_void};

use super::real;
use crate::abi;
use crate::path::Path;
use crate::real::Name;
use crate::redirect::{Purpose, redirect};
use crate::system::Errno;

/// Where the copy is of what is open outside of the tree; nothing if it may be changed where it is.
fn copied(descriptor: c_int) -> Result<Option<Path>, Errno> {
    redirect(descriptor, b"", Purpose::Change)
}

macro_rules! of_open {
    ($(fn $name:ident(descriptor $(, $argument:ident: $type:ty)*) = $by_path:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub(super) extern "C" fn $name(descriptor: c_int $(, $argument: $type)*) -> c_int {
            match copied(descriptor) {
                Ok(None) => real!($name: fn(c_int $(, $type)*) -> c_int; descriptor $(, $argument)*),
                Ok(Some(path)) => real!($by_path: fn(Name $(, $type)*) -> c_int; Name::of(&path) $(, $argument)*),
                Err(error) => error.fail(),
            }
        }
    )*};
}

of_open! {
    fn fchmod(descriptor, mode: c_uint) = chmod;
    fn fchown(descriptor, owner: c_uint, group: c_uint) = chown;
    fn futimes(descriptor, times: *const c_void) = utimes;
    fn fsetxattr(descriptor, name: Name, value: *const c_void, size: usize, flags: c_int) = setxattr;
    fn fremovexattr(descriptor, name: Name) = removexattr;
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn futimens(descriptor: c_int, times: *const c_void) -> c_int {
    match copied(descriptor) {
        Ok(None) => real!(futimens: fn(c_int, *const c_void) -> c_int; descriptor, times),
        Ok(Some(path)) => real!(utimensat: fn(c_int, Name, *const c_void, c_int) -> c_int;
            abi::AT_FDCWD, Name::of(&path), times, 0),
        Err(error) => error.fail(),
    }
}
