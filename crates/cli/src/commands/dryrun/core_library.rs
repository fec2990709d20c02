//! Where the libraries lie that are loaded into the script's processes, the one that answers for the CUDA libraries and the one
//! that keeps its writes apart: beside the program, or in the Python package.

use std::env;
use std::path::PathBuf;

use highwater_nullgpu::elf::stub::CORE_SONAME;
use highwater_nullgpu::sandbox;

use crate::error::Problem;

/// The library that answers.
///
/// # Errors
/// It is nowhere.
pub(super) fn find() -> Result<PathBuf, Problem> {
    find_library(CORE_SONAME, "HIGHWATER_NULLGPU_CORE")
}

/// The library that keeps writes apart.
///
/// # Errors
/// It is nowhere.
pub(super) fn find_sandbox() -> Result<PathBuf, Problem> {
    find_library(sandbox::LIBRARY, "HIGHWATER_SANDBOX_LIBRARY")
}

/// `variable` says where it is, if it is not beside the program: the Python package does, whose program is Python.
fn find_library(name: &str, variable: &str) -> Result<PathBuf, Problem> {
    let named = env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let program = env::current_exe().unwrap_or_default();
    // Links are followed, for a program is often linked to from a directory of programs.
    let program = program.canonicalize().unwrap_or(program);
    let directory = program.parent().map(PathBuf::from).unwrap_or_default();
    let beside = [directory.clone(), directory.join("deps"), directory.join("../lib")];
    let places = named.into_iter().chain(beside.iter().map(|place| place.join(name)));
    places.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        Problem::new(format!("`{name}` is not beside the program, in `{}`", directory.display())).hint(format!(
            "it comes with every release; in a clone `make build` makes it; `{variable}` names it where it lies elsewhere"
        ))
    })
}
