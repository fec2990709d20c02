//! Errors as Python's exceptions.

use highwater_cli::Problem;
use highwater_snapshot::ErrorKind;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What an exception carries.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    offset: Option<u64>,
    entry: Option<u32>,
    /// The system's number of what it refused.
    system: Option<i32>,
}

impl Failure {
    /// A failure with what to do about it.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: Some(hint.into()), ..Self::default() }
    }

    /// That something cannot be read; `name` is how a message calls it.
    pub(crate) fn unreadable(name: &str, error: &highwater_snapshot::Error) -> Self {
        let system = match error.kind() {
            ErrorKind::Io(io) => io.raw_os_error(),
            _ => None,
        };
        Self {
            message: format!("{name} {}: {error}", error.headline()),
            hint: error.hint().map(str::to_owned),
            offset: error.byte(),
            entry: None,
            system,
        }
    }

    /// Adds the entry that it is about.
    pub(crate) fn at_entry(self, entry: Option<u32>) -> Self {
        Self { entry, ..self }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let message = match problem.cause() {
            Some(cause) => format!("{}: {cause}", problem.what()),
            None => problem.what().to_owned(),
        };
        Self { message, hint: problem.what_to_do().map(str::to_owned), ..Self::default() }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| exception(py, failure).unwrap_or_else(|error| error))
    }
}

/// `highwater.SnapshotError`, which is defined in Python: the stable interface cannot inherit from exceptions.
fn exception(py: Python<'_>, failure: Failure) -> PyResult<PyErr> {
    let details = PyDict::new(py);
    details.set_item("hint", failure.hint)?;
    details.set_item("offset", failure.offset)?;
    details.set_item("entry", failure.entry)?;
    let class = py.import("highwater._errors")?.getattr("SnapshotError")?;
    let error = PyErr::from_value(class.call((failure.message,), Some(&details))?);
    if let Some(number) = failure.system {
        // Python makes `FileNotFoundError` and its like of the number.
        let text: String = py.import("os")?.call_method1("strerror", (number,))?.extract()?;
        error.set_cause(py, Some(PyOSError::new_err((number, text))));
    }
    Ok(error)
}
