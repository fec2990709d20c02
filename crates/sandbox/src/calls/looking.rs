//! Functions that look at what a path means, and change nothing.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

use super::redirected;
use crate::abi;
use crate::real::Name;
use crate::redirect::Purpose::{self, Look, LookAtLink};

const HERE: c_int = abi::AT_FDCWD;

/// What flags as those of `fstatat` mean.
pub(super) fn by_flags(flags: c_int) -> Purpose {
    if flags & abi::AT_SYMLINK_NOFOLLOW == 0 { Look } else { LookAtLink }
}

redirected! {
    fn stat([HERE] path, out: *mut c_void) -> c_int = Look;
    fn stat64([HERE] path, out: *mut c_void) -> c_int = Look;
    fn lstat([HERE] path, out: *mut c_void) -> c_int = LookAtLink;
    fn lstat64([HERE] path, out: *mut c_void) -> c_int = LookAtLink;
    fn fstatat(directory: c_int, [directory] path, out: *mut c_void, flags: c_int) -> c_int = by_flags(flags);
    fn fstatat64(directory: c_int, [directory] path, out: *mut c_void, flags: c_int) -> c_int = by_flags(flags);
    fn statx(directory: c_int, [directory] path, flags: c_int, mask: c_uint, out: *mut c_void) -> c_int = by_flags(flags);
    fn __xstat(version: c_int, [HERE] path, out: *mut c_void) -> c_int = Look;
    fn __xstat64(version: c_int, [HERE] path, out: *mut c_void) -> c_int = Look;
    fn __lxstat(version: c_int, [HERE] path, out: *mut c_void) -> c_int = LookAtLink;
    fn __lxstat64(version: c_int, [HERE] path, out: *mut c_void) -> c_int = LookAtLink;
    fn __fxstatat(version: c_int, directory: c_int, [directory] path, out: *mut c_void, flags: c_int) -> c_int
        = by_flags(flags);
    fn __fxstatat64(version: c_int, directory: c_int, [directory] path, out: *mut c_void, flags: c_int) -> c_int
        = by_flags(flags);
    fn statfs([HERE] path, out: *mut c_void) -> c_int = Look;
    fn statfs64([HERE] path, out: *mut c_void) -> c_int = Look;
    fn statvfs([HERE] path, out: *mut c_void) -> c_int = Look;
    fn statvfs64([HERE] path, out: *mut c_void) -> c_int = Look;
    fn pathconf([HERE] path, name: c_int) -> isize = Look;
    fn access([HERE] path, mode: c_int) -> c_int = Look;
    fn eaccess([HERE] path, mode: c_int) -> c_int = Look;
    fn euidaccess([HERE] path, mode: c_int) -> c_int = Look;
    fn faccessat(directory: c_int, [directory] path, mode: c_int, flags: c_int) -> c_int = by_flags(flags);
    fn getxattr([HERE] path, name: Name, value: *mut c_void, size: usize) -> isize = Look;
    fn lgetxattr([HERE] path, name: Name, value: *mut c_void, size: usize) -> isize = LookAtLink;
    fn listxattr([HERE] path, list: *mut c_char, size: usize) -> isize = Look;
    fn llistxattr([HERE] path, list: *mut c_char, size: usize) -> isize = LookAtLink;
    fn inotify_add_watch(queue: c_int, [HERE] path, mask: c_uint) -> c_int = Look;
    fn name_to_handle_at(directory: c_int, [directory] path, handle: *mut c_void, mount: *mut c_int, flags: c_int) -> c_int
        = if flags & abi::AT_SYMLINK_FOLLOW == 0 { LookAtLink } else { Look };
    fn chdir([HERE] path) -> c_int = Look;
    fn opendir([HERE] path) -> *mut c_void = Look;
    fn scandir([HERE] path, list: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int = Look;
    fn scandir64([HERE] path, list: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int = Look;
}

const _: () = assert!(size_of::<c_long>() == size_of::<isize>(), "`pathconf` gives a long");
