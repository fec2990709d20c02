//! The machine below PyTorch, as programs see it: the known GPUs, the limits of their multiprocessors, the memory that the driver
//! takes for itself and when, and the addresses of a program's allocations.
//!
//! Facts with their sources, and the rules that were read off real cards. The null GPU, the simulated allocator, estimates and
//! `highwater top` all take them from here. But for reading what somebody asks for (the feature `card-or-size`), this crate depends on
//! nothing: `crates/nullgpu/build.rs` compiles it with one call of the compiler. It knows no file, no GPU and nothing of PyTorch.

mod address_space;
#[cfg(feature = "card-or-size")]
mod card_or_size;
mod cards;
pub mod communicator;
pub mod context;
mod multiprocessor;
mod shared_pages;

pub use address_space::{DriverAddressSpace, GRANULARITY, RESERVATION_ALIGNMENT};
#[cfg(feature = "card-or-size")]
pub use card_or_size::{CardOrSize, NeitherCardNorSize};
pub use cards::{CARDS, Card};
pub use context::Context;
pub use multiprocessor::Multiprocessor;
pub use shared_pages::{Page, SharedPages};
