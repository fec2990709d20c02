//! The recording of the driver: what `highwater.record(driver=True)` starts.

use std::path::PathBuf;

use highwater_cupti::Options;
use pyo3::prelude::*;

use crate::error::Failure;

/// Starts to record this process's driver. Raises if it cannot.
#[pyfunction]
pub(crate) fn driver_start(
    libraries: Vec<PathBuf>,
    capacity: usize,
    used_before: Vec<(i32, u64)>,
    is_main_thread: bool,
    has_gil: bool,
) -> Result<(), Failure> {
    Ok(highwater_cupti::start(&Options { libraries, capacity, used_before, is_main_thread, has_gil })?)
}

/// Notes a moment, and what NVML says the process uses of each device.
#[pyfunction]
pub(crate) fn driver_mark(py: Python<'_>, name: &str, nvml: Vec<(i32, u64)>) {
    py.detach(|| highwater_cupti::mark(name, nvml));
}

/// Lets go of CUPTI, for another profiler.
#[pyfunction]
pub(crate) fn driver_pause(py: Python<'_>, why: &str) {
    py.detach(|| highwater_cupti::pause(why));
}

/// The recording so far, as JSON.
#[pyfunction]
pub(crate) fn driver_json(py: Python<'_>) -> Option<String> {
    py.detach(|| highwater_cupti::recording().map(|recording| recording.to_json()))
}

/// Ends it.
#[pyfunction]
pub(crate) fn driver_stop(py: Python<'_>) {
    py.detach(highwater_cupti::stop);
}
