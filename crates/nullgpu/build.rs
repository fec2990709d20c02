//! Builds the libraries that are loaded into a program's processes, so that they travel inside this one: a dry run needs nothing
//! beside it, from `cargo install` and in a wheel alike.
//!
//! `crates/sandbox`, `crates/callers` and `crates/driver` depend on nothing, and `crates/nullgpu-core` on the last two only, so the
//! compiler does each with one call. `embedded` has a link to the source of each, so that a packaged crate has them inside.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let driver = compile("driver", "highwater_driver", "rlib", &[]);
    let callers = compile("callers", "highwater_callers", "rlib", &[]);
    let others = [("highwater_callers", &*callers), ("highwater_driver", &*driver)];
    compile("nullgpu-core", "highwater_nullgpu_core", "cdylib", &others);
    compile("sandbox", "highwater_sandbox", "cdylib", &[]);
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Compiles the crate of a directory in `embedded`, and says where the library is.
fn compile(directory: &str, name: &str, kind: &str, others: &[(&str, &Path)]) -> PathBuf {
    let source = Path::new(&variable("CARGO_MANIFEST_DIR")).join("embedded").join(directory);
    // Without links: a path in the library is then the same as where Cargo compiles it.
    let source = source.canonicalize().unwrap_or(source);
    println!("cargo::rerun-if-changed={}", source.display());
    let file = format!("lib{name}.{}", if kind == "cdylib" { "so" } else { kind });
    let library = PathBuf::from(variable("OUT_DIR")).join(&file);
    let target = ["OS", "ARCH", "ENV"].map(|part| variable(&format!("CARGO_CFG_TARGET_{part}")));
    if target != ["linux", "x86_64", "gnu"] {
        // There is no PyTorch for CUDA to stand below; the program says so when it is asked.
        std::fs::write(&library, []).expect("the build directory can be written");
        return library;
    }
    let mut compiler = Command::new(env::var_os("RUSTC").expect("Cargo names the compiler"));
    compiler.args(["--edition", "2024", "--crate-type", kind, "--crate-name", name]);
    compiler.args(["--target", &variable("TARGET"), "-Copt-level=2", "-Cpanic=abort", "--cap-lints=allow"]);
    // Of the flags that the program is built with, those that keep this machine's directories out of it. Others, such as a sanitizer's,
    // would make a library that no other program can load.
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    compiler.args(flags.split('\x1f').filter(|flag| flag.starts_with("--remap-path-prefix=")));
    if kind == "cdylib" {
        // The name by which the stubs ask for it.
        compiler.args(["-Cstrip=symbols", &format!("-Clink-arg=-Wl,-soname,{file}")]);
    }
    for (other, path) in others {
        compiler.arg("--extern").arg(format!("{other}={}", path.display()));
    }
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        compiler.arg("-C").arg([OsStr::new("linker="), &linker].into_iter().collect::<OsString>());
    }
    let status = compiler.arg("-o").arg(&library).arg(source.join("lib.rs")).status();
    assert!(status.is_ok_and(|status| status.success()), "crates/{directory} does not compile");
    library
}
