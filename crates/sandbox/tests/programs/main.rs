//! Real programs with the library in front of the C library: they see what they write, and nothing outside changes.
//! Checkpoints of PyTorch are tried by `torch_checkpoints_stay_in_the_sandbox` of the command line: its wheel for CUDA needs the null GPU.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod escapes;
mod files;
mod processes;
mod python;
mod world;
