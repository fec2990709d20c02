//! What the functions of the null GPU answer.
//!
//! The stubs that `highwater-nullgpu` writes have thousands of names and no idea. When they are loaded they hand themselves
//! to this library ([`highwater_nullgpu_register`]), and it puts its own functions behind the names it knows: memory is
//! books over made-up addresses, a launch is counted and does nothing, a question about the device is answered from the card's
//! published numbers. Every other name says success.
//!
//! Nothing here touches a GPU or a driver, and there is no code of NVIDIA's: names, numbers and the shapes of structures are
//! facts of their binary interface. `settings` says what the parent process can choose.
//!
//! More than 9,000 lines, because a dozen libraries of CUDA's have their answers here, and these share the books, the streams and the ranks
//! of one process.

#![expect(non_snake_case, reason = "the functions have the names that C programs call them by")]

mod alike;
mod answers;
mod books;
mod caller;
mod clock;
mod compilers;
mod copies;
#[expect(unsafe_code, reason = "signal handlers")]
mod crashes;
mod cudnn;
mod devices;
mod driver;
#[expect(unsafe_code, reason = "reads and writes through the pointers of C callers")]
mod ffi;
mod fourier;
mod handles;
mod hosts;
mod kernels;
mod launches;
#[expect(unsafe_code, reason = "found by its name, and hands out a text")]
mod ledger;
mod math;
mod meeting;
mod memory;
mod nccl;
mod nvml;
#[expect(unsafe_code, reason = "has itself called when the library is loaded, and asks the kernel for a signal")]
mod parent;
mod ranks;
mod reads;
mod reduce;
mod register;
mod settings;
mod sizes;
mod status;
mod streams;
mod virtual_memory;
mod watchdog;

pub use clock::{highwater_nullgpu_has_stepped, highwater_nullgpu_timing_decides};
pub use copies::{highwater_nullgpu_known, highwater_nullgpu_note};
pub use crashes::highwater_nullgpu_when_crashed;
pub use cudnn::highwater_nullgpu_convolutions_estimated;
pub use hosts::{highwater_nullgpu_host_calls, highwater_nullgpu_host_waits};
pub use ledger::{highwater_nullgpu_driver, highwater_nullgpu_read_python};
pub use ranks::{
    highwater_nullgpu_failure, highwater_nullgpu_here, highwater_nullgpu_is_rank, highwater_nullgpu_next_result,
    highwater_nullgpu_wait_at, highwater_nullgpu_wait_for_results, highwater_nullgpu_waited_for,
};
pub use reads::{highwater_nullgpu_answer_reads, highwater_nullgpu_unknown_reads};
pub use register::{Record, highwater_nullgpu_register, highwater_nullgpu_write_trace};
