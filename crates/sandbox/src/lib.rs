//! Turns what a program writes into a directory of its own, and lets it read there what it wrote.
//!
//! `highwater dryrun --sandbox` has the loader put this library in front of the C library, in every process of a run. It has
//! the C library's functions that take paths, finds out what a path means here, and calls the real ones with that:
//!
//! - `walk` follows a path from link to link, as the kernel would, through a tree of directories in which links stand for
//!   what has not been changed; `kernel` knows the links in `/proc` that mean something else than they say;
//! - `farm` grows that tree: a directory gets there when something in it is about to change, with a link for each of its
//!   entries; a file is copied when it is about to be written;
//! - `redirect` says what a call with some purpose has to be given; `calls` has the functions.
//!
//! No function here allocates on its way to the real one, so that they work in a signal handler, in the child of a `vfork`
//! and while an allocator starts; and `errno` is touched only to say that a call failed. What does not go through the C
//! library goes by: programs that are linked statically, and those that call the kernel themselves. Where the kernel has Landlock,
//! `highwater` has it hold those back.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[expect(unsafe_code, reason = "declares functions of the C library")]
mod abi;
mod calls;
mod farm;
mod kernel;
mod lock;
mod path;
#[expect(unsafe_code, reason = "asks the loader for functions of the C library, and hands results to C callers")]
mod real;
mod redirect;
mod settings;
#[expect(unsafe_code, reason = "system calls")]
mod system;
mod walk;
