//! The current figures of the GPUs' driver, and how a recorded process uses its memory.
//!
//! [`Sampler`] asks NVML, which is loaded at run time. Whatever it cannot tell is a value with a sentence: that there is no
//! driver at all is an [`Absence`], and what one GPU does not tell is a note in its [`GpuSample`]. A process that runs
//! highwater's Python recorder says how it uses its memory ([`recorder`]), and [`split`] adds that up to what the driver
//! says of it. [`log`] keeps samples in a file.
//!
//! Nothing here prints, and nothing keeps a clock of its own: who samples says when.
//!
//! # Example
//! ```
//! use highwater_monitor::{Detail, Sampler};
//!
//! match Sampler::open(None) {
//!     Ok(mut sampler) => println!("{} GPUs", sampler.sample(0, Detail::All)?.gpus.len()),
//!     Err(absence) => println!("{absence}"),
//! }
//! # Ok::<(), highwater_monitor::Absence>(())
//! ```

mod absence;
mod gpu;
mod loaded;
pub mod log;
pub mod processes;
pub mod recorder;
mod sample;
mod sampler;
mod shared;
pub mod split;
mod torch;
mod users;

pub use absence::Absence;
pub use sample::{
    Bar1, Driver, Ecc, GpuSample, Loaded, Memory, MigPart, Power, ProcessKind, ProcessSample, Sample, TorchDevice,
    TorchSplit, Utilization,
};
pub use sampler::{Detail, Sampler};
pub use torch::TorchWatch;
