//! What the machine below PyTorch is, as far as programs see it: the cards that have a name, what a multiprocessor of theirs has,
//! what the driver takes of a card for itself and when, and where it puts what a program asks for.
//!
//! Facts with their sources, and the rules that were read off real cards. The null GPU, the simulated allocator, estimates and
//! `highwater top` all take them from here. This crate depends on nothing, not even on another crate of this workspace:
//! `crates/nullgpu/build.rs` compiles it with one call of the compiler. It knows no file, no GPU and nothing of PyTorch.

mod address_space;
mod cards;
pub mod context;
mod multiprocessor;

pub use address_space::{DriverAddressSpace, GRANULARITY, RESERVATION_ALIGNMENT};
pub use cards::{CARDS, Card};
pub use context::Context;
pub use multiprocessor::Multiprocessor;
