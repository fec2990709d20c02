//! Functions that open a file.
//!
//! Some have more arguments in C when a file is made. They are declared with these always: who leaves one out hands over
//! whatever its register holds, which the real function does not look at then.

use std::ffi::{c_int, c_uint, c_void};

use super::redirected;
use crate::abi;
use crate::real::Name;
use crate::redirect::Purpose::{self, Open};

const HERE: c_int = abi::AT_FDCWD;
/// The flags that `creat` stands for.
pub(super) const CREATE: c_int = abi::O_WRONLY | abi::O_CREAT | abi::O_TRUNC;

redirected! {
    fn open([HERE] path, flags: c_int, mode: c_uint) -> c_int = Open(flags);
    fn open64([HERE] path, flags: c_int, mode: c_uint) -> c_int = Open(flags);
    fn __open([HERE] path, flags: c_int, mode: c_uint) -> c_int = Open(flags);
    fn __open64([HERE] path, flags: c_int, mode: c_uint) -> c_int = Open(flags);
    fn __open_2([HERE] path, flags: c_int) -> c_int = Open(flags);
    fn __open64_2([HERE] path, flags: c_int) -> c_int = Open(flags);
    fn openat(directory: c_int, [directory] path, flags: c_int, mode: c_uint) -> c_int = Open(flags);
    fn openat64(directory: c_int, [directory] path, flags: c_int, mode: c_uint) -> c_int = Open(flags);
    fn __openat_2(directory: c_int, [directory] path, flags: c_int) -> c_int = Open(flags);
    fn __openat64_2(directory: c_int, [directory] path, flags: c_int) -> c_int = Open(flags);
    fn creat([HERE] path, mode: c_uint) -> c_int = Open(CREATE);
    fn creat64([HERE] path, mode: c_uint) -> c_int = Open(CREATE);
    fn fopen([HERE] path, mode: Name) -> *mut c_void = by_mode(mode);
    fn fopen64([HERE] path, mode: Name) -> *mut c_void = by_mode(mode);
    fn freopen([HERE] path, mode: Name, file: *mut c_void) -> *mut c_void = by_mode(mode);
    fn freopen64([HERE] path, mode: Name, file: *mut c_void) -> *mut c_void = by_mode(mode);
}

fn by_mode(mode: Name) -> Purpose {
    Open(flags_of(mode.bytes()))
}

/// The flags of `open` that a mode of `fopen` stands for, as far as they matter here.
fn flags_of(mode: &[u8]) -> c_int {
    // Behind a comma is a name of characters.
    let mode = mode.split(|&byte| byte == b',').next().unwrap_or_default();
    let both = mode.contains(&b'+');
    let exclusive = if mode.contains(&b'x') { abi::O_EXCL } else { 0 };
    let writes = if both { abi::O_RDWR } else { abi::O_WRONLY };
    match mode.first() {
        Some(b'w') => writes | abi::O_CREAT | abi::O_TRUNC | exclusive,
        Some(b'a') => writes | abi::O_CREAT | abi::O_APPEND | exclusive,
        Some(b'r') if both => abi::O_RDWR,
        _ => abi::O_RDONLY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_flags() {
        assert_eq!(flags_of(b"rb"), abi::O_RDONLY);
        assert_eq!(flags_of(b"r+b"), abi::O_RDWR);
        assert_eq!(flags_of(b"wbx"), CREATE | abi::O_EXCL);
        assert_eq!(flags_of(b"w"), CREATE);
        assert_eq!(flags_of(b"a+"), abi::O_RDWR | abi::O_CREAT | abi::O_APPEND);
        assert_eq!(flags_of(b"r,ccs=x+"), abi::O_RDONLY);
    }
}
