//! Who calls: the native and the Python stack of the calling thread.
//!
//! It is loaded into the process that is recorded, with the driver's recorder (`highwater-cupti`) or with the null GPU.

use std::time::Duration;

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

/// How long calls may wait for their Python stacks. Where the GIL's holder waits for a lock of the calling thread, no wait is long
/// enough.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// One call's longest wait.
    pub of_a_call: Duration,
    /// All waits together, from the start.
    pub to_begin_with: Duration,
    /// What all waits may take beside that: one part in so many of the program's time.
    pub one_in: u32,
}

impl Patience {
    /// Of a program that is recorded: it must not become slower by more than a hundredth.
    pub const OF_A_RECORDING: Self =
        Self { of_a_call: Duration::from_millis(5), to_begin_with: Duration::from_millis(500), one_in: 100 };
    /// Of a dry run, whose time nobody measures: its lines are complete on a busy machine, too.
    pub const OF_A_DRY_RUN: Self =
        Self { of_a_call: Duration::from_millis(500), to_begin_with: Duration::from_secs(5), one_in: 4 };

    /// All waits together, in a program that has run for `time`.
    pub fn in_all(&self, time: Duration) -> Duration {
        self.to_begin_with + time / self.one_in
    }
}

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
