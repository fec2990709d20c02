//! PyTorch's CUDA caching allocator, rebuilt as a deterministic state machine.
//!
//! [`Allocator`] takes the decisions: rounding, pools, best fit, splitting, merging, expandable segments, private pools,
//! pending frees, the retries of a failed request. It asks a [`Device`] for memory and tells an [`Observer`] what
//! PyTorch would have traced. [`VirtualDevice`] is a device without a GPU, and [`program`] runs whole request programs.
//!
//! # Design constraints
//!
//! - Knows no files, no snapshots, no GPU.
//! - Equal to PyTorch's own library in every entry, block and statistic, for the versions of [`TorchVersion`]; the
//!   golden files of `testdata/allocator` prove it.
//! - Where PyTorch itself would break, it says so ([`Failure::Undefined`]) and stops.

mod addresses;
mod adopt;
mod allocator;
mod block;
mod block_map;
mod device;
mod expandable;
mod failure;
mod free;
mod hash_order;
mod memory;
pub mod message;
mod ordered;
mod pool;
mod private;
pub mod program;
mod release;
pub mod settings;
pub mod sizes;
mod stats;
#[cfg(test)]
mod tests;
mod trace;
mod version;
mod virtual_device;

pub use addresses::{AddressPolicy, ScriptedRange, UnknownPolicy};
pub use adopt::{AdoptedPiece, AdoptedSegment, AdoptedState};
pub use allocator::Allocator;
pub use block::BlockId;
pub use block_map::{BlockState, MappedBlock, MappedSegment, Region};
pub use device::Device;
pub use failure::{Failure, OutOfMemory, Undefined};
pub use memory::Memory;
pub use private::PoolFlags;
pub use settings::{ConfError, Settings};
pub use stats::{Metric, Stat, Statistics};
pub use trace::{Action, Observer, TraceEntry};
pub use version::{TorchVersion, UnknownVersion};
pub use virtual_device::VirtualDevice;
