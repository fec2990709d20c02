//! Which library calls. Two allocators of PyTorch ask whether events are done, and only one of them has the GPU's memory: that of
//! `libc10_cuda.so`. The other, in `libtorch_cuda.so`, has pinned memory of the host.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null;

/// `Dl_info`
#[repr(C)]
struct Library {
    file: *const c_char,
    base: *const c_void,
    symbol: *const c_char,
    address: *const c_void,
}

/// `_URC_NO_REASON` and `_URC_END_OF_STACK`
const GO_ON: c_int = 0;
const STOP: c_int = 5;

unsafe extern "C" {
    fn _Unwind_Backtrace(frame: extern "C" fn(*mut c_void, *mut c_void) -> c_int, search: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
    fn dladdr(address: *const c_void, library: *mut Library) -> c_int;
}

struct Search {
    /// Where this library begins.
    own: *const c_void,
    /// The file of the first other one.
    caller: Option<String>,
}

fn library(address: usize) -> Option<Library> {
    let mut found = Library { file: null(), base: null(), symbol: null(), address: null() };
    // SAFETY: the loader looks for an address of any value, and fills the structure.
    let is_found = unsafe { dladdr(address as *const c_void, &raw mut found) } != 0;
    is_found.then_some(found)
}

extern "C" fn look(frame: *mut c_void, search: *mut c_void) -> c_int {
    // SAFETY: the unwinder hands over a frame of its own, and the search of `is_allocator`, which waits for it.
    let (search, address) = unsafe { (&mut *search.cast::<Search>(), _Unwind_GetIP(frame)) };
    match library(address) {
        Some(found) if found.base == search.own => GO_ON,
        Some(found) if !found.file.is_null() => {
            // SAFETY: the loader's name of a library that is loaded.
            search.caller = Some(unsafe { CStr::from_ptr(found.file) }.to_string_lossy().into_owned());
            STOP
        }
        _ => STOP,
    }
}

/// Whether the function of CUDA's that is being answered was called by the allocator of the GPU's memory.
pub(crate) fn is_allocator() -> bool {
    let Some(own) = library(is_allocator as *const () as usize) else { return false };
    let mut search = Search { own: own.base, caller: None };
    // SAFETY: `look` has the type that the unwinder calls, and does not keep the search.
    unsafe { _Unwind_Backtrace(look, (&raw mut search).cast()) };
    search.caller.is_some_and(|file| file.ends_with("/libc10_cuda.so"))
}
