//! A GPU that only keeps books.
//!
//! An unmodified PyTorch for CUDA runs on a machine without GPU or driver when something stands where the CUDA libraries
//! would be. This crate finds out what an installed PyTorch wants of them ([`elf::wanted`]), writes shared objects that have
//! just that ([`elf::stub`]), and says how a process must be started so that the loader takes them ([`prepare()`]). What the
//! functions answer is another library, loaded with them: `highwater-nullgpu-core`. An installed cuDNN is loaded too, though not by the
//! program: a process of its own answers for it (`cudnn`).
//!
//! Constraints: nothing of NVIDIA's or of PyTorch's is in here but names and numbers of their binary interface; nothing
//! outside the child process changes; no compiler is needed.

pub mod alike;
mod card;
mod cudnn;
pub mod elf;
pub mod enforcement;
mod error;
mod failed;
mod injected;
pub mod install;
pub mod interpreter;
mod libraries;
pub mod looked_up;
pub mod outside;
pub mod own_directory;
mod prepare;
mod processes;
pub mod run;
pub mod sandbox;
mod verified_file;

pub use error::{Error, Kind};
pub use libraries::are_built_in;
pub use prepare::{Machine, Prepared, prepare};
