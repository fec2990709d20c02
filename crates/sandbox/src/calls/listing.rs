//! Listing a directory: a stand-in is said to be what it stands for.

use std::ffi::{CStr, c_int, c_void};

use super::real;
use crate::abi::{self, Dirent64};
use crate::settings;
use crate::system;
use crate::walk::{UNLISTED, original};

#[unsafe(no_mangle)]
extern "C" fn readdir(directory: *mut c_void) -> *mut Dirent64 {
    next(directory, || real!(readdir: fn(*mut c_void) -> *mut Dirent64; directory))
}

#[unsafe(no_mangle)]
extern "C" fn readdir64(directory: *mut c_void) -> *mut Dirent64 {
    next(directory, || real!(readdir64: fn(*mut c_void) -> *mut Dirent64; directory))
}

fn next(directory: *mut c_void, read: impl Fn() -> *mut Dirent64) -> *mut Dirent64 {
    loop {
        let entry = Entry(read());
        if !entry.is_link() || settings::get().is_none() {
            return entry.0;
        }
        if entry.name().strip_suffix(b"\0") != Some(UNLISTED) {
            if let Some(kind) = type_behind(directory, entry.name()) {
                entry.set_type(kind);
            }
            return entry.0;
        }
    }
}

/// Null, or the entry that the C library has just written, which is the caller's until it asks for the next. It is as long
/// as its name needs: no reference may be made to the whole structure.
struct Entry(*mut Dirent64);

impl Entry {
    fn is_link(&self) -> bool {
        // SAFETY: not null, hence an entry.
        !self.0.is_null() && unsafe { (*self.0).d_type } == abi::DT_LNK
    }

    /// With the zero byte behind it.
    fn name(&self) -> &[u8] {
        // SAFETY: asked of entries only; a name ends with a zero byte.
        unsafe { CStr::from_ptr((&raw const (*self.0).d_name).cast()) }.to_bytes_with_nul()
    }

    fn set_type(&self, kind: u8) {
        // SAFETY: asked of entries only; no reference to it is there.
        unsafe { (*self.0).d_type = kind };
    }
}

/// The type of what a stand-in stands for.
fn type_behind(directory: *mut c_void, name: &[u8]) -> Option<u8> {
    let descriptor: c_int = real!(dirfd: fn(*mut c_void) -> c_int; directory);
    let stands_for = original(&system::read_link_of(descriptor, name).ok()?)?;
    let metadata = system::metadata(&stands_for).ok()?;
    // `DT_DIR` and the others are these bits.
    u8::try_from((metadata.st_mode & abi::S_IFMT) >> 12).ok()
}
