//! From values to columns.
//!
//! A pickle and a JSON text drive the same [`store::Store`]: as soon as a dict has its keys, it is known what it is (a
//! trace entry, a frame, a block, …), and it is drained into a row of that table; its handle then means "row k". What
//! it was made of is forgotten, so memory grows by what is kept, not by what passes.

pub(crate) mod entry;
pub(crate) mod json;
pub(crate) mod keys;
pub(crate) mod render;
pub(crate) mod root;
pub(crate) mod state;
pub(crate) mod store;
