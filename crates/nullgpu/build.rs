//! Builds the library that answers for CUDA's, so that it travels inside the program: a dry run needs nothing beside it, from
//! `cargo install` and in a wheel alike.
//!
//! `crates/nullgpu-core` depends on nothing, so the compiler does it with one call.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let source = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../nullgpu-core/src");
    println!("cargo::rerun-if-changed={}", source.display());
    let library = PathBuf::from(variable("OUT_DIR")).join("libhighwater_nullgpu_core.so");
    if (variable("CARGO_CFG_TARGET_OS").as_str(), variable("CARGO_CFG_TARGET_ARCH").as_str()) != ("linux", "x86_64") {
        // There is no PyTorch for CUDA to stand below; the program says so when it is asked.
        std::fs::write(&library, []).expect("the build directory can be written");
        return;
    }
    let mut compiler = Command::new(env::var_os("RUSTC").expect("Cargo names the compiler"));
    compiler.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "highwater_nullgpu_core"]);
    compiler.args([
        "--target",
        &variable("TARGET"),
        "-Copt-level=2",
        "-Cpanic=abort",
        "-Cstrip=symbols",
        "--cap-lints=allow",
        // The name by which the stubs ask for it.
        "-Clink-arg=-Wl,-soname,libhighwater_nullgpu_core.so",
    ]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        compiler.arg("-Clinker").arg(linker);
    }
    let status = compiler.arg("-o").arg(&library).arg(source.join("lib.rs")).status();
    assert!(status.is_ok_and(|status| status.success()), "crates/nullgpu-core does not compile");
}
