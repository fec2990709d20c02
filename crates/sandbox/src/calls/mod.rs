//! The functions that stand before those of the C library, under their names.
//!
//! Each finds out what its paths mean here and calls the real one. A function that takes one path and needs no more is a
//! line in `looking`, `changing` or `opening`.
#![expect(
    unsafe_code,
    reason = "exports functions under the C library's names, and calls the real ones by their addresses"
)]

mod changing;
mod descriptors;
mod listed;
mod listing;
mod loading;
mod looking;
mod naming;
mod numbered;
mod opening;
mod sockets;
mod starting;
mod temporary;
mod whereabouts;

use std::ffi::c_int;

use crate::real::{Failed, Name};
use crate::redirect::{Purpose, redirect};

/// Calls the C library's own function of a name; says `ENOSYS` if this C library has none.
macro_rules! real {
    ($name:ident: fn($($type:ty),* $(,)?) -> $ret:ty; $($argument:expr),* $(,)?) => {{
        static REAL: $crate::real::Real = $crate::real::Real::new($crate::calls::c_name(concat!(stringify!($name), "\0")));
        let address = REAL.address();
        if address.is_null() {
            $crate::system::Errno($crate::abi::ENOSYS).fail()
        } else {
            // SAFETY: the function of this name has this type, as the C library's headers say.
            let function = unsafe {
                std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($type),*) -> $ret>(address)
            };
            // SAFETY: the arguments are the caller's, but for paths, which end with a zero byte as theirs do.
            unsafe { function($($argument),*) }
        }
    }};
}
use real;

/// Functions that take one path, behind the directory it is relative to in `[…]`, and what they do with it behind `=`.
macro_rules! redirected {
    ($(fn $name:ident($($before:ident: $before_type:ty,)* [$directory:expr] path $(, $after:ident: $after_type:ty)*)
        -> $ret:ty = $purpose:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($before: $before_type,)* path: Name $(, $after: $after_type)*) -> $ret {
            $crate::calls::taken($directory, path, $purpose, |path| {
                $crate::calls::real!($name: fn($($before_type,)* Name $(, $after_type)*) -> $ret;
                    $($before,)* path $(, $after)*)
            })
        }
    )*};
}
use redirected;

/// Calls `then` with what it has to be given for a path.
fn taken<T: Failed>(directory: c_int, path: Name, purpose: Purpose, then: impl FnOnce(Name) -> T) -> T {
    match redirect(directory, path.bytes(), purpose) {
        Ok(other) => then(path.or(other.as_ref())),
        Err(error) => error.fail(),
    }
}

/// A name that ends with a zero byte, as the macros make it.
const fn c_name(name: &'static str) -> &'static std::ffi::CStr {
    match std::ffi::CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}
