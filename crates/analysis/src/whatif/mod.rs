//! What if: answers about memory that was not handed out the way it was.

pub mod packing;
pub mod pinning;
