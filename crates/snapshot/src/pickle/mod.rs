//! Pickle as data: a machine that runs the opcodes that build containers, and refuses those that run code.
//!
//! Design constraints:
//!
//! - No recursion, whatever the nesting; nothing is imported or called.
//! - One pass over a buffer that is refilled, so a file, a pipe and a decompressor are the same, and memory does not
//!   grow with the input but with what is kept of it.
//! - A declared length is never trusted: buffers grow as bytes arrive.

pub(crate) mod input;
pub(crate) mod machine;
pub(crate) mod memo;
pub(crate) mod opcode;
pub(crate) mod runs;
pub(crate) mod value;
