//! Where the library lies that answers for the CUDA libraries: beside the program, or in the Python package.

use std::env;
use std::path::PathBuf;

use highwater_nullgpu::elf::stub::CORE_SONAME;

use crate::error::Problem;

/// Says where the library is, if it is not beside the program: the Python package does, whose program is Python.
const VARIABLE: &str = "HIGHWATER_NULLGPU_CORE";

/// The library.
///
/// # Errors
/// It is nowhere.
pub(super) fn find() -> Result<PathBuf, Problem> {
    let named = env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let program = env::current_exe().unwrap_or_default();
    // Links are followed, for a program is often linked to from a directory of programs.
    let program = program.canonicalize().unwrap_or(program);
    let directory = program.parent().map(PathBuf::from).unwrap_or_default();
    let beside = [directory.clone(), directory.join("deps"), directory.join("../lib")];
    let places = named.into_iter().chain(beside.iter().map(|place| place.join(CORE_SONAME)));
    places.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        Problem::new(format!("`{CORE_SONAME}` is not beside the program, in `{}`", directory.display())).hint(format!(
            "it comes with every release; in a clone `make build` makes it; `{VARIABLE}` names it where it lies elsewhere"
        ))
    })
}
