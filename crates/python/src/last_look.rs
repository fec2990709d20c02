//! The last look at the youngest objects before a run of Python's collector.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType, PyWeakrefReference};
use rustc_hash::FxHashSet;

use crate::cycles::Kinds;

/// Puts probes on tensors that other threads made while the collector's other callbacks ran.
///
/// These are Python code, within which threads take turns; this is called by the collector itself, and lets no thread in.
#[pyclass(module = "highwater._highwater")]
pub(crate) struct LastLook {
    died: Py<PyAny>,
    /// What is a tensor, and which are known, by `id`; nothing if there is nothing to look for.
    sought: Option<(Kinds, FxHashSet<usize>)>,
    probes: Vec<Py<PyWeakrefReference>>,
}

#[pymethods]
impl LastLook {
    /// `died` is called with the weak reference to a tensor that is not known, when that dies.
    #[new]
    fn new(died: Py<PyAny>) -> Self {
        Self { died, sought: None, probes: Vec::new() }
    }

    /// Has the next run looked at.
    #[expect(clippy::needless_pass_by_value, reason = "lists come from Python as owned ones")]
    fn expect(&mut self, types: Vec<Bound<'_, PyType>>, known: FxHashSet<usize>) {
        self.sought = Some((Kinds::new(&types), known));
    }

    /// Lets go of the probes.
    fn clear(&mut self) {
        self.sought = None;
        self.probes.clear();
    }

    /// A callback of `gc.callbacks`, behind the others.
    fn __call__(&mut self, py: Python<'_>, phase: &str, info: &Bound<'_, PyDict>) -> PyResult<()> {
        let _ = info;
        let Some((kinds, known)) = self.sought.as_ref().filter(|_| phase == "start") else { return Ok(()) };
        let youngest = PyDict::new(py);
        youngest.set_item("generation", 0)?;
        let objects = py.import("gc")?.getattr("get_objects")?.call((), Some(&youngest))?;
        for object in objects.try_iter()? {
            let object = object?;
            if kinds.has(&object) && !known.contains(&object.as_ptr().addr()) {
                self.probes.push(PyWeakrefReference::new_with(&object, self.died.bind(py))?.unbind());
            }
        }
        Ok(())
    }
}
