//! Loading a library that was written: `dlopen`.
//!
//! The loader looks for libraries in places that depend on who calls, and it knows that by the address that the call returns
//! to. So this function does not call the real one: it jumps there, and is not to be seen.

use std::arch::naked_asm;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};

use crate::abi;
use crate::path::Path;
use crate::real::{Name, Real};
use crate::redirect::{Purpose, redirect};

static DLOPEN: Real = Real::new(c"dlopen");

/// As the C library has it, with the path changed on the way.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn dlopen(path: Name, flags: c_int) -> *mut c_void {
    // The flags are kept on the stack, which `call` wants at a multiple of 16.
    naked_asm!(
        "push rsi",
        "call {redirected}",
        "mov rsi, [rsp]",
        "mov [rsp], rax",
        "push rsi",
        "sub rsp, 8",
        "call {real}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        redirected = sym redirected,
        real = sym real,
    )
}

extern "C" fn real() -> *mut c_void {
    DLOPEN.address()
}

/// What to load in the place of `path`. It stays until this thread asks again.
extern "C" fn redirected(path: Name) -> Name {
    thread_local! {
        static ROOM: UnsafeCell<Path> = const { UnsafeCell::new(Path::new()) };
    }
    // A name without a slash is looked for where libraries are.
    if !path.bytes().contains(&b'/') {
        return path;
    }
    let Ok(Some(other)) = redirect(abi::AT_FDCWD, path.bytes(), Purpose::Look) else { return path };
    ROOM.try_with(|room| {
        // SAFETY: of this thread only, and what was there before has been used by the loader.
        unsafe { *room.get() = other };
        // SAFETY: as above.
        Name::of(unsafe { &*room.get() })
    })
    .unwrap_or(path)
}
