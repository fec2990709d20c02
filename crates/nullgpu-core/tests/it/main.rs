//! The core as programs have it, behind the stubs that are written for them: one binary, so that there is one thing to link.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod stub;
mod torch;

use std::path::PathBuf;

use highwater_nullgpu::elf::stub::CORE_SONAME;

/// The core, which Cargo puts beside this test's program or one directory above.
fn core_library() -> PathBuf {
    let program = std::env::current_exe().expect("a test is a program");
    let candidates: Vec<_> = program.ancestors().skip(1).take(2).map(|place| place.join(CORE_SONAME)).collect();
    candidates.iter().find(|path| path.is_file()).unwrap_or_else(|| panic!("none of {candidates:?} is there")).clone()
}
