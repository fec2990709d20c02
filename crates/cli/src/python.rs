//! Which Python is meant where none is named, and whether there is a script for it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::Problem;

/// The interpreter of the active environment, else `python3`.
pub(crate) fn interpreter() -> PathBuf {
    let place = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
    let environment = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().find_map(env::var_os);
    let own = environment.map(|root| PathBuf::from(root).join(place)).filter(|python| python.is_file());
    own.unwrap_or_else(|| if cfg!(windows) { "python" } else { "python3" }.into())
}

/// Says early what Python would say late.
///
/// # Errors
/// If there is no such script, or the module has no name.
pub(crate) fn check_script(script: &[OsString], command: &str) -> Result<(), Problem> {
    match script {
        [option] if option == "-m" => Err(Problem::new("`-m` needs the name of a module")),
        [option, ..] if option == "-m" || option == "-c" => Ok(()),
        [path, ..] if !Path::new(path).exists() => {
            Err(Problem::new(format!("there is no script `{}`", Path::new(path).display()))
                .hint(format!("options of `highwater {command}` come before the script, the script's own after it")))
        }
        _ => Ok(()),
    }
}
