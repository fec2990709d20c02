//! Who calls: the stack of this thread, and the libraries it goes through.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null;

/// Frames of a stack at most.
const MAX_FRAMES: usize = 96;

/// `Dl_info`
#[repr(C)]
struct Found {
    file: *const c_char,
    base: *const c_void,
    symbol: *const c_char,
    address: *const c_void,
}

/// `Elf64_Sym`
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// `RTLD_DL_SYMENT`
const WITH_SYMBOL: c_int = 1;
/// `_URC_NO_REASON` and `_URC_END_OF_STACK`
const GO_ON: c_int = 0;
const STOP: c_int = 5;

unsafe extern "C" {
    fn _Unwind_Backtrace(frame: extern "C" fn(*mut c_void, *mut c_void) -> c_int, stack: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
    fn dladdr(address: *const c_void, found: *mut Found) -> c_int;
    fn dladdr1(address: *const c_void, found: *mut Found, extra: *mut *const c_void, flags: c_int) -> c_int;
}

/// The addresses of a stack, innermost first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Addresses(Vec<usize>);

extern "C" fn push(frame: *mut c_void, stack: *mut c_void) -> c_int {
    // SAFETY: the unwinder hands over a frame of its own, and the stack of `here`, which waits for it.
    let (stack, address) = unsafe { (&mut *stack.cast::<Vec<usize>>(), _Unwind_GetIP(frame)) };
    if stack.len() == MAX_FRAMES {
        return STOP;
    }
    stack.push(address);
    GO_ON
}

/// The stack of this thread.
pub fn here() -> Addresses {
    let mut stack = Vec::with_capacity(MAX_FRAMES);
    // SAFETY: `push` has the type that the unwinder calls, and does not keep the stack.
    unsafe { _Unwind_Backtrace(push, (&raw mut stack).cast()) };
    Addresses(stack)
}

impl Addresses {
    /// The library and the function of each frame, where the loader knows them.
    pub fn resolve(&self) -> Vec<(String, String)> {
        // The address is where a call returns to, so the call lies before it.
        self.0.iter().map(|&address| resolve(address.wrapping_sub(1))).collect()
    }
}

fn resolve(address: usize) -> (String, String) {
    let mut found = Found { file: null(), base: null(), symbol: null(), address: null() };
    let mut symbol: *const c_void = null();
    // SAFETY: the loader looks for an address of any value, and fills both.
    let is_found = unsafe { dladdr1(address as *const c_void, &raw mut found, &raw mut symbol, WITH_SYMBOL) } != 0;
    if !is_found || found.file.is_null() {
        return Default::default();
    }
    // SAFETY: the loader's name of a library that is loaded.
    let file = unsafe { CStr::from_ptr(found.file) }.to_string_lossy().into_owned();
    if found.symbol.is_null() || symbol.is_null() {
        return (file, String::new());
    }
    // SAFETY: the loader filled it with a symbol of that library.
    let size = unsafe { (*symbol.cast::<Symbol>()).size };
    // The nearest exported symbol before the address may be another function's.
    if address.wrapping_sub(found.address as usize) as u64 >= size {
        return (file, String::new());
    }
    // SAFETY: the name of that symbol.
    (file, unsafe { CStr::from_ptr(found.symbol) }.to_string_lossy().into_owned())
}

struct Search {
    /// Where the library of the caller of [`first_beyond`] begins.
    own: *const c_void,
    /// The file of the first other one.
    found: Option<String>,
}

fn library(address: usize) -> Option<Found> {
    let mut found = Found { file: null(), base: null(), symbol: null(), address: null() };
    // SAFETY: the loader looks for an address of any value, and fills the structure.
    let is_found = unsafe { dladdr(address as *const c_void, &raw mut found) } != 0;
    is_found.then_some(found)
}

extern "C" fn look(frame: *mut c_void, search: *mut c_void) -> c_int {
    // SAFETY: the unwinder hands over a frame of its own, and the search of `first_beyond`, which waits for it.
    let (search, address) = unsafe { (&mut *search.cast::<Search>(), _Unwind_GetIP(frame)) };
    match library(address) {
        Some(found) if found.base == search.own => GO_ON,
        Some(found) if !found.file.is_null() => {
            // SAFETY: the loader's name of a library that is loaded.
            search.found = Some(unsafe { CStr::from_ptr(found.file) }.to_string_lossy().into_owned());
            STOP
        }
        _ => STOP,
    }
}

/// The file of the first library up the stack that is not the one which an address is in. The stack is walked no further.
pub fn first_beyond(own: usize) -> Option<String> {
    let mut search = Search { own: library(own)?.base, found: None };
    // SAFETY: `look` has the type that the unwinder calls, and does not keep the search.
    unsafe { _Unwind_Backtrace(look, (&raw mut search).cast()) };
    search.found
}

/// The file that an address is loaded from.
pub fn file_of(address: usize) -> Option<String> {
    Some(resolve(address).0).filter(|file| !file.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_goes_through_this_program() {
        let frames = here().resolve();
        assert!(frames.len() > 3, "{frames:?}");
        let program = std::env::current_exe().unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        assert!(frames[0].0.ends_with(name), "{frames:?}");
        assert!(
            frames.iter().any(|(file, _)| file.contains("libc.so")),
            "a thread begins in the C library: {frames:?}"
        );
    }
}
