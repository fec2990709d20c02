//! A snapshot with its analysis.

use std::path::PathBuf;

use highwater_analysis::{Analysis, analyse};
use highwater_answers::WhatIf;
use highwater_cli::texts;
use highwater_documents::columns::with_calls;
use highwater_documents::{FrameView, report};
use highwater_export::parquet::{self, Target};
use highwater_snapshot::{StackId, Unpacking};
use highwater_tables::{Recording, RunId};
use highwater_viewer::{PageOptions, ui_is_built, write_page};
use highwater_whatif::Watch;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use self_cell::self_cell;

use crate::error::Failure;
use crate::stream;
use crate::table::Table;
use crate::tables;

self_cell!(
    /// A snapshot, and what borrows it.
    struct Analysed {
        owner: highwater_snapshot::Snapshot,
        #[covariant]
        dependent: Analysis,
    }
);

/// A snapshot that was read and analysed.
#[pyclass(frozen, module = "highwater._highwater")]
pub(crate) struct Snapshot {
    analysed: Analysed,
}

impl Snapshot {
    fn new(read: Result<highwater_snapshot::Snapshot, highwater_snapshot::Error>, name: &str) -> Result<Self, Failure> {
        let snapshot = read.map_err(|error| Failure::unreadable(name, &error))?;
        Ok(Self { analysed: Analysed::new(snapshot, analyse) })
    }

    fn analysis(&self) -> &Analysis<'_> {
        self.analysed.borrow_dependent()
    }

    fn raw(&self) -> &highwater_snapshot::Snapshot {
        self.analysed.borrow_owner()
    }
}

/// How much a compressed input may become.
fn unpacking(allow_any_size: bool) -> Unpacking {
    if allow_any_size { Unpacking::Unbounded } else { Unpacking::Bounded }
}

#[pymethods]
impl Snapshot {
    /// Reads a file; messages call it `name`.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "Python's paths come as owned ones")]
    fn read_file(py: Python<'_>, path: PathBuf, name: &str, allow_any_size: bool) -> Result<Self, Failure> {
        if highwater_nsight::is_profile(&path) {
            let read = py.detach(|| highwater_nsight::read(&path))?;
            return py.detach(|| Self::new(Ok(read), name));
        }
        let read = |file| highwater_snapshot::Snapshot::read_with(file, unpacking(allow_any_size));
        py.detach(|| Self::new(highwater_snapshot::open_file(&path).and_then(read), name))
    }

    /// Reads bytes; messages call them `name`.
    #[staticmethod]
    fn read_bytes(py: Python<'_>, data: &[u8], name: &str, allow_any_size: bool) -> Result<Self, Failure> {
        let read = || highwater_snapshot::Snapshot::read_with(data, unpacking(allow_any_size));
        py.detach(|| Self::new(read(), name))
    }

    /// Reads an object with `read`, as long as it has no more than `limit` bytes, unpacked; messages call it `name`.
    #[staticmethod]
    fn read_stream(py: Python<'_>, file: Py<PyAny>, name: &str, allow_any_size: bool, limit: u64) -> PyResult<Self> {
        let read = py.detach(|| stream::read(file, unpacking(allow_any_size), limit))?;
        Ok(py.detach(|| Self::new(read, name))?)
    }

    /// Writes its tables into a folder; gives the bytes of the files.
    #[expect(clippy::too_many_arguments, reason = "a function of Python has a parameter for each keyword")]
    #[expect(clippy::needless_pass_by_value, reason = "Python's paths come as owned ones")]
    fn write_tables(
        &self,
        py: Python<'_>,
        out: PathBuf,
        file: String,
        run: String,
        rank: Option<u32>,
        part: usize,
        entries: bool,
        force: bool,
    ) -> PyResult<u64> {
        let id = RunId { file, run, rank };
        let target = Target { out: &out, part, force, with_entries: entries };
        Ok(py.detach(|| parquet::write(&Recording::new(&id, self.analysis()), &target))?)
    }

    /// What of it the comparison of ranks needs, as JSON.
    fn digest(&self, py: Python<'_>, file: &str) -> String {
        py.detach(|| highwater_answers::json(&highwater_ranks::digest(file, self.analysis())))
    }

    /// The devices with entries or segments.
    #[getter]
    fn devices(&self) -> Vec<u32> {
        self.analysis().devices.iter().map(|device| device.device).collect()
    }

    /// The document of `highwater report`.
    fn report_json(&self, py: Python<'_>) -> String {
        py.detach(|| highwater_answers::json(&report(self.analysis())))
    }

    /// What `highwater report` prints, in lines of at most `width` cells, if it is given.
    fn report_text(&self, py: Python<'_>, name: &str, width: Option<usize>) -> String {
        py.detach(|| texts::report_text(&report(self.analysis()), name, width))
    }

    /// What `highwater explain` prints.
    fn explain_text(&self, py: Python<'_>, message: Option<&str>, name: &str) -> Result<String, Failure> {
        py.detach(|| Ok(texts::explain_text(self.analysis(), message, name)?))
    }

    /// The document of `highwater simulate`, and its text.
    #[expect(clippy::too_many_arguments, reason = "a function of Python has a parameter for each keyword")]
    fn simulate_json(
        &self,
        py: Python<'_>,
        name: &str,
        confs: Vec<String>,
        capacities: Vec<String>,
        cards: Vec<String>,
        torch: Option<String>,
        device: Option<u32>,
    ) -> Result<(String, String), Failure> {
        let asked = WhatIf { confs, capacities, cards, torch, device };
        py.detach(|| {
            let view = highwater_answers::simulate_view(self.analysis(), "the snapshot", &asked)?;
            Ok((highwater_answers::json(&view), texts::simulate_text(&view, name)))
        })
    }

    /// The document of `highwater diff`, and its text.
    #[expect(clippy::needless_pass_by_value, reason = "lists come from Python as owned ones")]
    fn diff_json(
        &self,
        py: Python<'_>,
        others: Vec<Py<Self>>,
        names: Vec<String>,
        at: Option<&str>,
        device: Option<u32>,
    ) -> Result<(String, String), Failure> {
        let others: Vec<&Self> = others.iter().map(Py::get).collect();
        py.detach(|| {
            let analyses: Vec<&Analysis<'_>> = std::iter::once(self).chain(others).map(Self::analysis).collect();
            let comparison = highwater_answers::comparison(names, &analyses, at, device)?;
            let view = comparison.view();
            Ok((highwater_answers::json(&view), texts::diff_text(&view)))
        })
    }

    /// The document of `highwater check`, and its text.
    #[expect(clippy::needless_pass_by_value, reason = "lists come from Python as owned ones")]
    fn check_json(
        &self,
        py: Python<'_>,
        budgets: Vec<(String, String)>,
        device: Option<u32>,
    ) -> Result<(String, String), Failure> {
        py.detach(|| {
            let view = highwater_answers::check_view(self.analysis(), &budgets, device)?;
            Ok((highwater_answers::json(&view), texts::check_text(&view)))
        })
    }

    /// What is active at a moment: after an entry, at the `peak`, at the first request that failed (`oom`), or at the `end`.
    fn live(&self, py: Python<'_>, at: &str, device: Option<u32>) -> Result<Table, Failure> {
        py.detach(|| {
            let moments = highwater_answers::moments(self.analysis(), at, device)
                .map_err(|problem| Failure::from(problem).at_entry(at.parse().ok()))?;
            tables::live(self.analysis(), &moments)
        })
    }

    /// Every use of an address.
    fn lifetimes(&self, py: Python<'_>, device: Option<u32>) -> Result<Table, Failure> {
        py.detach(|| tables::lifetimes(self.analysis(), &highwater_answers::chosen(self.analysis(), device)?))
    }

    /// Every entry, with the totals after it.
    fn timeline(&self, py: Python<'_>, device: Option<u32>) -> Result<Table, Failure> {
        py.detach(|| tables::timeline(self.analysis(), &highwater_answers::chosen(self.analysis(), device)?))
    }

    /// The highest totals in each of so many parts of a device's trace.
    fn envelope(&self, py: Python<'_>, device: u32, columns: usize) -> Result<Table, Failure> {
        py.detach(|| {
            highwater_answers::chosen(self.analysis(), Some(device))?;
            let shown = self.analysis().device(device);
            shown.map_or_else(|| Table::new(Vec::new()), |device| tables::envelope(device, columns))
        })
    }

    /// Function, file and line of each frame of a stack, innermost first.
    fn stack(&self, stack: usize) -> PyResult<Vec<(&str, &str, u64)>> {
        let snapshot = self.raw();
        if stack >= snapshot.stacks.len() {
            let there = snapshot.stacks.len();
            return Err(PyIndexError::new_err(format!("there is no stack {stack}; there are {there}")));
        }
        let frames = snapshot.stacks.get(StackId::from_index(stack)).iter();
        let frame = |id| {
            let FrameView { name, filename, line } = FrameView::new(snapshot, id);
            (name, filename, line)
        };
        Ok(frames.map(|&id| frame(id)).collect())
    }

    /// The page that `highwater export --to html` writes.
    fn html<'py>(&self, py: Python<'py>, name: &str, what_if: Option<bool>) -> Result<Bound<'py, PyBytes>, Failure> {
        if !ui_is_built() {
            return Err(Failure::new(
                "this build of highwater has no viewer: it was built before the page in `ui/`",
                "build the page with `make ui`, then install again with `pip install .`",
            ));
        }
        let page = py.detach(|| {
            let mut page = Vec::new();
            let options = PageOptions { what_if, ..PageOptions::default() };
            let drawn = with_calls(self.analysis().snapshot);
            let analysed = drawn.as_ref().map(analyse);
            let analysis = analysed.as_ref().unwrap_or_else(|| self.analysis());
            write_page(&mut page, analysis, name, &options, &Watch::default()).map(|()| page)
        });
        let page =
            page.map_err(|error| Failure::new(format!("the page cannot be made: {error}"), "please report it"))?;
        Ok(PyBytes::new(py, &page))
    }

    /// The snapshot as PyTorch writes it.
    fn pickle<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>, Failure> {
        let bytes = py.detach(|| {
            let mut bytes = Vec::new();
            self.raw().write_pickle(&mut bytes).map(|()| bytes)
        });
        let bytes = bytes
            .map_err(|error| Failure::new(format!("the snapshot cannot be written: {error}"), "please report it"))?;
        Ok(PyBytes::new(py, &bytes))
    }
}
