//! The C library behind this one: its real functions, its environment, its `errno`; and what C callers hand over.
//!
//! The functions of this crate are called as those of the C library are: a path is null or ends with a zero byte. That is the
//! premise of every `SAFETY` below.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::abi;
use crate::path::Path;
use crate::settings;
use crate::system::Errno;

/// A text of the caller's.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Name(*const c_char);

impl Name {
    /// The bytes; none for null.
    pub(crate) fn bytes<'a>(self) -> &'a [u8] {
        if self.0.is_null() {
            return b"";
        }
        // SAFETY: it ends with a zero byte, by the premise of this module, and stays while the call lasts, as `'a` does.
        unsafe { CStr::from_ptr(self.0) }.to_bytes()
    }

    /// The path, for as long as it is there.
    pub(crate) fn of(path: &Path) -> Name {
        Name(path.with_end().as_ptr().cast())
    }

    /// What a register holds.
    pub(crate) fn at(address: usize) -> Name {
        Name(address as *const c_char)
    }

    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The path if there is one, else this.
    pub(crate) fn or(self, path: Option<&Path>) -> Name {
        path.map_or(self, Name::of)
    }
}

/// A place for a text, with as much room as another argument says or the text that is there needs.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Room(*mut c_char);

impl Room {
    pub(crate) fn none() -> Self {
        Room(null_mut())
    }

    pub(crate) fn at(start: *mut c_char) -> Self {
        Room(start)
    }

    pub(crate) fn of(room: &mut [u8]) -> Self {
        Room(room.as_mut_ptr().cast())
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn start(self) -> *mut c_char {
        self.0
    }

    /// The text that is there.
    pub(crate) fn text<'a>(self) -> &'a [u8] {
        Name(self.0).bytes()
    }

    /// Writes bytes at the start, for which there has to be room.
    pub(crate) fn put(self, bytes: &[u8]) -> *mut c_char {
        if !self.0.is_null() {
            // SAFETY: there is room for them, as the caller has found; no Rust value lies there.
            unsafe { self.0.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) }
        }
        self.0
    }
}

/// The next function of a name: that of the C library, or of another library that stands before it.
pub(crate) struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Real { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Null if there is none.
    pub(crate) fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name ends with a zero byte.
        let found = unsafe { abi::dlsym(abi::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// What a function gives that has failed.
pub(crate) trait Failed {
    const FAILED: Self;
}

impl Failed for c_int {
    const FAILED: Self = -1;
}

impl Failed for c_long {
    const FAILED: Self = -1;
}

impl Failed for isize {
    const FAILED: Self = -1;
}

impl<T> Failed for *mut T {
    const FAILED: Self = null_mut();
}

impl Errno {
    /// Why the last function of the C library failed.
    pub(crate) fn last() -> Errno {
        // SAFETY: the place is this thread's own, and always there.
        Errno(unsafe { *abi::__errno_location() })
    }

    /// Says why to the caller.
    pub(crate) fn fail<T: Failed>(self) -> T {
        // SAFETY: the place is this thread's own, and always there.
        unsafe { *abi::__errno_location() = self.0 };
        T::FAILED
    }
}

/// Reads the settings as soon as the library is loaded. A program may clear its environment before it does anything else, as
/// `env -i` does.
// SAFETY: the loader calls what stands in this section, with arguments that a function of C may leave alone; the C library, on which
// this one depends, is ready by then.
#[used]
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = {
    extern "C" fn read_settings() {
        let _ = settings::get();
    }
    read_settings
};

/// Sets a variable of the environment to the text that is at `value`, if there is memory for it.
///
/// # Safety
/// `value` ends with a zero byte.
pub(crate) unsafe fn set_environment(name: &CStr, value: *const c_char) {
    // SAFETY: both end with a zero byte; the C library copies them.
    let _ = unsafe { abi::setenv(name.as_ptr(), value, 1) };
}

/// A variable of the environment.
pub(crate) fn environment(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the name ends with a zero byte; what is found is read before the program can change it, by `settings` once.
    let value = unsafe { abi::getenv(name.as_ptr()) };
    // SAFETY: not null, hence a text.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_bytes())
}

/// The path of this library, as the loader was given it.
pub(crate) fn library() -> &'static [u8] {
    // SAFETY: a structure of pointers that may be null.
    let mut found: abi::DlInfo = unsafe { std::mem::zeroed() };
    // SAFETY: the address is that of a function here, and the structure is there to be written.
    let known = unsafe { abi::dladdr((library as *const ()).cast(), &raw mut found) } != 0;
    if !known || found.dli_fname.is_null() {
        return b"";
    }
    // SAFETY: not null, hence a text, which stays while the library does.
    unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes()
}
