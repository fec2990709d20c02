//! What a recorded program would have been enough: one binary, so that there is one thing to link.

mod block_sizes;
mod fits;
mod outcomes;
mod packing;
mod pinning;
mod replay;
mod whole_step;
