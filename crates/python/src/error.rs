//! Errors as Python's exceptions.

use highwater_problem::Problem;
use highwater_snapshot::ErrorKind;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What an exception carries.
#[derive(Debug)]
pub(crate) struct Failure {
    problem: Problem,
    offset: Option<u64>,
    entry: Option<u32>,
    /// The system's number of what it refused.
    system: Option<i32>,
}

impl Failure {
    /// A failure with what to do about it.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Problem::new(message).hint(hint).into()
    }

    /// That something cannot be read; `name` is how a message calls it.
    pub(crate) fn unreadable(name: &str, error: &highwater_snapshot::Error) -> Self {
        let system = match error.kind() {
            ErrorKind::Io(io) => io.raw_os_error(),
            _ => None,
        };
        Self { offset: error.byte(), system, ..error.problem(name).into() }
    }

    /// Adds the entry that it is about.
    pub(crate) fn at_entry(self, entry: Option<u32>) -> Self {
        Self { entry, ..self }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self { problem, offset: None, entry: None, system: None }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| exception(py, &failure).unwrap_or_else(|error| error))
    }
}

/// `highwater.SnapshotError`, which is defined in Python: the stable interface cannot inherit from exceptions.
fn exception(py: Python<'_>, failure: &Failure) -> PyResult<PyErr> {
    let details = PyDict::new(py);
    details.set_item("hint", failure.problem.what_to_do())?;
    details.set_item("offset", failure.offset)?;
    details.set_item("entry", failure.entry)?;
    let class = py.import("highwater._errors")?.getattr("SnapshotError")?;
    let parts: Vec<&str> =
        std::iter::once(failure.problem.what()).chain(failure.problem.causes().iter().map(String::as_str)).collect();
    let error = PyErr::from_value(class.call((parts.join(": "),), Some(&details))?);
    if let Some(number) = failure.system {
        // Python makes `FileNotFoundError` and its like of the number.
        let text: String = py.import("os")?.call_method1("strerror", (number,))?.extract()?;
        error.set_cause(py, Some(PyOSError::new_err((number, text))));
    }
    Ok(error)
}
