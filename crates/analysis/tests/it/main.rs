//! What the crate says of real recordings, beside the truth.

mod categories;
mod out_of_memory;
