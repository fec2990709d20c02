//! Where the library lies that keeps a script's writes apart: beside the program.

use std::env;
use std::path::PathBuf;

use highwater_nullgpu::sandbox;

use crate::error::Problem;

/// Says where it is, if it is not beside the program.
const VARIABLE: &str = "HIGHWATER_SANDBOX_LIBRARY";

/// The library that keeps writes apart.
///
/// # Errors
/// It is nowhere.
pub(super) fn find() -> Result<PathBuf, Problem> {
    let (name, variable) = (sandbox::LIBRARY, VARIABLE);
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
