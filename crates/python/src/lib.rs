//! The native half of the Python package `highwater`: what its typed half, `python/highwater/`, is made on.
//!
//! # Design constraints
//!
//! - No logic and no numbers of its own: what is asked goes to the analysis and to the command line's library.
//! - One exact type for each argument; what is lenient is so in Python.
//! - Documents cross as JSON text, columns as Arrow arrays whose memory both sides share.
//! - Whatever takes long lets other Python threads run.
//! - An error is `highwater.SnapshotError`, with its hint.

mod column;
mod cycles;
mod database;
mod driver;
mod error;
mod garbage;
mod last_look;
mod ranks;
mod snapshot;
mod stream;
mod table;
mod tables;

use std::ffi::OsString;
use std::process::ExitCode;

use pyo3::prelude::*;

/// The native half of `highwater`.
#[pymodule]
mod _highwater {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::column::Column;
    #[pymodule_export]
    use crate::cycles::{instances, keepers};
    #[pymodule_export]
    use crate::database::{run_of_path, table_paths, tables_json};
    #[pymodule_export]
    use crate::driver::{driver_json, driver_mark, driver_pause, driver_start, driver_stop};
    #[pymodule_export]
    use crate::garbage::{held_by, may_hold, unreachable};
    #[pymodule_export]
    use crate::last_look::LastLook;
    #[pymodule_export]
    use crate::ranks::{compare_digests, digests_of_paths, is_recording_name};
    #[pymodule_export]
    use crate::snapshot::Snapshot;
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::{estimate_json, estimate_options, main, parse_bytes, serve_json, size, ui_is_built};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Runs the command line, the program's name being its first word, and gives its exit status.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let code = py.detach(|| highwater_cli::run(arguments));
    // An `ExitCode` does not say its number, but it can be compared.
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(u8::MAX)
}

/// The bytes of a size such as `16GiB`, of which a few are as usual as many.
#[pyfunction]
fn parse_bytes(text: &str) -> PyResult<u64> {
    highwater_units::parse_bytes(text).map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))
}

/// Bytes in binary units.
#[pyfunction]
fn size(bytes: u64) -> String {
    highwater_units::size(bytes)
}

/// The document of an estimate, as JSON, and its text; the options are JSON, too.
#[pyfunction]
fn estimate_json(py: Python<'_>, model: &str, options: &str) -> Result<(String, String), error::Failure> {
    py.detach(|| {
        let view = highwater_answers::estimate_view(model, options)?;
        Ok((highwater_answers::json(&view), highwater_cli::texts::estimate_text(&view)))
    })
}

/// The document of an engine that serves, as JSON, and its text; the options are JSON, too.
#[pyfunction]
fn serve_json(py: Python<'_>, model: &str, options: &str) -> Result<(String, String), error::Failure> {
    py.detach(|| {
        let view = highwater_answers::serve::answer_json(model, options)?;
        Ok((highwater_answers::json(&view), highwater_cli::texts::serve_text(&view)))
    })
}

/// The table of an estimate's options, as JSON.
#[pyfunction]
fn estimate_options() -> String {
    highwater_answers::json(&highwater_estimate::options_view())
}

/// Whether the viewer's page is in this build.
#[pyfunction]
fn ui_is_built() -> bool {
    highwater_viewer::ui_is_built()
}
