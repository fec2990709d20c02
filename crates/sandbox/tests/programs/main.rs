//! Real programs with the library in front of the C library: they see what they write, and nothing outside changes.
//!
//! Those with a PyTorch need an interpreter that has one:
//! `HIGHWATER_TEST_TORCH=/path/to/python cargo test -p highwater-sandbox --test programs -- --ignored`

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod escapes;
mod files;
mod processes;
mod python;
mod torch;
mod world;
