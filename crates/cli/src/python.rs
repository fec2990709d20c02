//! Which Python is meant where none is named.

use std::env;
use std::path::PathBuf;

/// The interpreter of the active environment, else `python3`.
pub(crate) fn interpreter() -> PathBuf {
    let place = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
    let environment = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().find_map(env::var_os);
    let own = environment.map(|root| PathBuf::from(root).join(place)).filter(|python| python.is_file());
    own.unwrap_or_else(|| if cfg!(windows) { "python" } else { "python3" }.into())
}
