//! Who calls: the native and the Python stack of the calling thread.
//!
//! It is loaded into the process that is recorded, with the driver's recorder (`highwater-cupti`) or with the null GPU.

#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
#[expect(unsafe_code, reason = "walks the stack, and asks the loader whose it is")]
mod native;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
#[expect(unsafe_code, reason = "calls the interpreter that the process has")]
mod python;

#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
pub use native::{Addresses, file_of, first_beyond, here};
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
pub use python::Reader;

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
mod elsewhere;
#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
pub use elsewhere::{Addresses, Reader, file_of, first_beyond, here};

/// A frame of Python code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The file.
    pub file: String,
    /// Its line; 0 where it is unknown.
    pub line: u32,
    /// The function.
    pub function: String,
}

/// A Python stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stack {
    /// Whether it is the main thread's at that time, because the calling thread runs no Python.
    pub of_main: bool,
    /// Its frames, innermost first.
    pub frames: Vec<Frame>,
}
