//! A process's memory as the CUDA driver gives it out: PyTorch's segments, and all that is outside them.
//!
//! A recording is a list of the process's calls of the driver ([`Event`]). [`State`] follows them: which memory is live, and how much of
//! the card it takes. [`Timeline`] sums it up by owner over time. Events are recorded by `highwater-cupti`, which keeps the same
//! [`State`] for calls that it no longer has.
//!
//! # Design constraints
//!
//! - What the card gives is counted from addresses and sizes of the process's own calls. NVML's figure for the process is compared with
//!   the sum, and no part of the sum is computed from it.
//! - A recording is untrusted: its columns may have any length and any numbers.

mod beside;
mod event;
mod footprint;
mod owner;
mod recording;
mod state;
mod timeline;

pub use beside::{Beside, Block, Step};
pub use event::{Event, HOST, Kind, NO_STACK};
pub use footprint::Footprint;
pub use owner::{Owner, PYTORCHS_ALLOCATOR, Role, is_pytorchs_allocator, known_name, name};
pub use recording::{Format, Gap, Line, Mark, NvmlSample, PythonStack, Recording, SCOPED, Scoped, Site, Touch, Work};
pub use state::{Change, State};
pub use timeline::{Moment, OwnerTotal, Timeline};
