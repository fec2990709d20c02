//! What the reference cycle detector asks for.

use highwater_cycles::Graph;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

/// A cycle: its nodes, the number and the size of its component, and whether it is known to be the smallest.
type CycleRow = (Vec<u32>, u32, u32, bool);

/// What keeps a node: the cycle's index, the path from it, and whether no other cycle leads there.
type KeptRow = Option<(usize, Vec<u32>, bool)>;

/// The objects of a list whose type is one of some, exactly. Runs none of their code.
///
/// Before each run of the collector it sees all that may be freed, so what few objects pass is one look into a small table.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "lists come from Python as owned ones")]
pub(crate) fn instances<'py>(objects: &Bound<'py, PyList>, types: Vec<Bound<'py, PyType>>) -> Vec<Bound<'py, PyAny>> {
    let kinds = Kinds::new(&types);
    objects.iter().filter(|object| kinds.has(object)).collect()
}

/// Some types, to look up those of many objects.
pub(crate) struct Kinds {
    /// Their addresses.
    wanted: Vec<usize>,
    may_be_wanted: [bool; 256],
}

impl Kinds {
    /// Exactly these types, without their subclasses.
    pub(crate) fn new(types: &[Bound<'_, PyType>]) -> Self {
        let wanted: Vec<_> = types.iter().map(|kind| kind.as_type_ptr().addr()).collect();
        let mut may_be_wanted = [false; 256];
        for kind in &wanted {
            may_be_wanted[slot(*kind)] = true;
        }
        Self { wanted, may_be_wanted }
    }

    /// Whether an object is of one of them.
    pub(crate) fn has(&self, object: &Bound<'_, PyAny>) -> bool {
        let kind = object.get_type_ptr().addr();
        self.may_be_wanted[slot(kind)] && self.wanted.contains(&kind)
    }
}

/// Where a type has its place in a table of 256: types lie some hundred bytes apart.
fn slot(address: usize) -> usize {
    ((address >> 4) ^ (address >> 12)) & 255
}

/// Which cycles keep the nodes that are `asked` for, where `sources[i]` refers to `targets[i]`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "lists come from Python as owned ones")]
pub(crate) fn keepers(
    py: Python<'_>,
    count: u32,
    sources: Vec<u32>,
    targets: Vec<u32>,
    asked: Vec<u32>,
) -> PyResult<(Vec<CycleRow>, Vec<KeptRow>)> {
    py.detach(|| {
        let graph = Graph::new(count, sources.into_iter().zip(targets))?;
        if let Some(node) = asked.iter().find(|&&node| node >= count) {
            return Err(highwater_cycles::NoSuchNode { node: *node, count });
        }
        Ok(highwater_cycles::keepers(&graph, &asked))
    })
    .map(|found| {
        let cycle =
            |cycle: highwater_cycles::Cycle| (cycle.nodes, cycle.component, cycle.component_size, cycle.is_smallest);
        let kept = |kept: highwater_cycles::Kept| (kept.cycle, kept.path, kept.is_only_cycle);
        let cycles = found.cycles.into_iter().map(cycle).collect();
        (cycles, found.kept.into_iter().map(|row| row.map(kept)).collect())
    })
    .map_err(|error| PyIndexError::new_err(error.to_string()))
}
