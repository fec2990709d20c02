//! Records a process's allocations from the CUDA driver, by CUPTI.
//!
//! It is loaded into the recorded process with the Python package's native half. CUPTI is NVIDIA's interface for profilers: it calls
//! `callback` before and after the calls of the driver that `calls` lists, on the thread that makes them, so the stack says who calls.
//! CUPTI itself is loaded at run time, from where PyTorch has it.
//!
//! # Design constraints
//!
//! - The program never waits long and never ends because of it: no panic, no lock held over a call into the loader or into Python.
//! - Memory is bounded: of calls beyond the capacity only the memory that they left live is kept (`book`).
//! - The sum of the card's memory is counted from the program's own calls. What a call does besides (code, streams, graphs) is the
//!   difference of the driver's free memory around it.

#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod live;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
pub use live::{is_on, mark, pause, recording, start, stop};

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
mod elsewhere;
#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
pub use elsewhere::{is_on, mark, pause, recording, start, stop};

use std::path::PathBuf;

/// Calls that are kept. An event takes 56 bytes in the process, the size of [`highwater_outside::Event`], and about 18 in the file.
pub const CAPACITY: usize = 2_000_000;

/// What a recording needs to know.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where CUPTI may be, beside where the loader looks.
    pub libraries: Vec<PathBuf>,
    /// How many calls are kept; 0 for [`CAPACITY`].
    pub capacity: usize,
    /// Memory in use on each device before this process has anything there.
    pub used_before: Vec<(i32, u64)>,
    /// Whether it is the interpreter's main thread that starts the recording.
    pub is_main_thread: bool,
    /// Whether the interpreter has a lock for all its threads; without one, Python stacks are not recorded.
    pub has_gil: bool,
}
