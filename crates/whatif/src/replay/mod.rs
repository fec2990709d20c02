//! From a recording to what the program asked of the allocator, and back again as proof.
//!
//! A trace mixes what the program did (`alloc`, `free_requested`, and when a pending free could complete) with what the
//! allocator decided (where a block lies, when a segment is reserved, mapped or released). [`Replay`] takes the former
//! as a [`Program`], lets the allocator of `highwater-allocator` decide the latter anew, and compares entry by entry.

mod layout;
mod pools;
mod program;
mod recording;
mod tape;
mod version;

pub use layout::Layout;
pub use program::{Program, Step};
pub use recording::{Difference, Fidelity, Replay, replay};
pub use version::{Choice, ChosenBy, choose};
