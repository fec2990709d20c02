//! Functions that change, make or remove what a path means.

use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void};

use super::redirected;
use crate::abi;
use crate::real::Name;
use crate::redirect::Purpose::{self, Change, ChangeLink, Make, Remove, RemoveDirectory, Unlink};

const HERE: c_int = abi::AT_FDCWD;

/// What flags as those of `fchownat` mean.
pub(super) fn by_flags(flags: c_int) -> Purpose {
    if flags & abi::AT_SYMLINK_NOFOLLOW == 0 { Change } else { ChangeLink }
}

/// What flags as those of `unlinkat` mean.
pub(super) fn removal(flags: c_int) -> Purpose {
    if flags & abi::AT_REMOVEDIR == 0 { Unlink } else { RemoveDirectory }
}

redirected! {
    fn truncate([HERE] path, length: c_long) -> c_int = Change;
    fn truncate64([HERE] path, length: c_long) -> c_int = Change;
    fn chmod([HERE] path, mode: c_uint) -> c_int = Change;
    fn lchmod([HERE] path, mode: c_uint) -> c_int = ChangeLink;
    fn fchmodat(directory: c_int, [directory] path, mode: c_uint, flags: c_int) -> c_int = by_flags(flags);
    fn chown([HERE] path, owner: c_uint, group: c_uint) -> c_int = Change;
    fn lchown([HERE] path, owner: c_uint, group: c_uint) -> c_int = ChangeLink;
    fn fchownat(directory: c_int, [directory] path, owner: c_uint, group: c_uint, flags: c_int) -> c_int = by_flags(flags);
    fn utime([HERE] path, times: *const c_void) -> c_int = Change;
    fn utimes([HERE] path, times: *const c_void) -> c_int = Change;
    fn lutimes([HERE] path, times: *const c_void) -> c_int = ChangeLink;
    fn setxattr([HERE] path, name: Name, value: *const c_void, size: usize, flags: c_int) -> c_int = Change;
    fn lsetxattr([HERE] path, name: Name, value: *const c_void, size: usize, flags: c_int) -> c_int = ChangeLink;
    fn removexattr([HERE] path, name: Name) -> c_int = Change;
    fn lremovexattr([HERE] path, name: Name) -> c_int = ChangeLink;

    fn mkdir([HERE] path, mode: c_uint) -> c_int = Make;
    fn mkdirat(directory: c_int, [directory] path, mode: c_uint) -> c_int = Make;
    fn mkfifo([HERE] path, mode: c_uint) -> c_int = Make;
    fn mkfifoat(directory: c_int, [directory] path, mode: c_uint) -> c_int = Make;
    fn mknod([HERE] path, mode: c_uint, device: c_ulong) -> c_int = Make;
    fn mknodat(directory: c_int, [directory] path, mode: c_uint, device: c_ulong) -> c_int = Make;
    fn __xmknod(version: c_int, [HERE] path, mode: c_uint, device: *mut c_void) -> c_int = Make;
    fn __xmknodat(version: c_int, directory: c_int, [directory] path, mode: c_uint, device: *mut c_void) -> c_int = Make;

    fn unlink([HERE] path) -> c_int = Unlink;
    fn rmdir([HERE] path) -> c_int = RemoveDirectory;
    fn unlinkat(directory: c_int, [directory] path, flags: c_int) -> c_int
= removal(flags);
    fn remove([HERE] path) -> c_int = Remove;
}

/// Times of what a path means, or of what is open where there is no path.
#[unsafe(no_mangle)]
extern "C" fn utimensat(directory: c_int, path: Name, times: *const c_void, flags: c_int) -> c_int {
    if path.is_null() {
        return super::descriptors::futimens(directory, times);
    }
    super::taken(
        directory,
        path,
        by_flags(flags),
        |path| super::real!(utimensat: fn(c_int, Name, *const c_void, c_int) -> c_int; directory, path, times, flags),
    )
}

#[unsafe(no_mangle)]
extern "C" fn futimesat(directory: c_int, path: Name, times: *const c_void) -> c_int {
    if path.is_null() {
        return super::descriptors::futimes(directory, times);
    }
    super::taken(
        directory,
        path,
        Change,
        |path| super::real!(futimesat: fn(c_int, Name, *const c_void) -> c_int; directory, path, times),
    )
}
