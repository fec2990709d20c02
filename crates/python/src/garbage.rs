//! What a run of Python's collector is about to free, told before it runs from the numbers of references.
//!
//! The collector looks at young objects only, most of the time. What they alone refer to goes with them, however old it is, and the
//! collector never sees it: it goes when its last reference does. None of these functions runs code of the objects, nor lets another
//! thread run.

use highwater_cycles::Graph;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cycles::Kinds;

/// So many objects are followed before it counts as possible that there is a tensor behind them.
const FOLLOWED: usize = 1_000;

/// The objects of a list that nothing outside of it leads to: what a collection of exactly these objects finds unreachable.
///
/// Nothing but the list may hold them on behalf of the caller.
#[pyfunction]
pub(crate) fn unreachable<'py>(objects: &Bound<'py, PyList>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let numbers: FxHashMap<usize, u32> = objects.iter().map(|object| address(&object)).zip(0..).collect();
    // One reference is the list's, one the iterator's.
    let mut outside: Vec<_> = objects.iter().map(|object| references(&object) - 2).collect();
    let referents = Referents::new(objects.py())?;
    let mut edges = Vec::new();
    for (object, number) in objects.iter().zip(0..) {
        for referent in referents.of(&object)?.iter() {
            if let Some(&to) = numbers.get(&address(&referent)) {
                outside[to as usize] -= 1;
                edges.push((number, to));
            }
        }
    }
    let count = u32::try_from(objects.len()).expect("objects are counted in 32 bits");
    let graph = Graph::new(count, edges).expect("all nodes are in the list");
    let outside: Vec<bool> = outside.into_iter().map(|references| references > 0).collect();
    highwater_cycles::unreachable(&graph, &outside).into_iter().map(|node| objects.get_item(node as usize)).collect()
}

/// The objects elsewhere that go when all objects of a list go, for nothing else refers to them.
///
/// Nothing may hold them on behalf of the caller.
#[pyfunction]
pub(crate) fn held_by<'py>(objects: &Bound<'py, PyList>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut fall = Fall::new(objects)?;
    fall.follow(usize::MAX)?;
    Ok(fall.fallen)
}

/// Whether tensors elsewhere may go when all objects of a list go: not, if it says no.
///
/// It is asked before each young collection, and says no as a rule.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "lists come from Python as owned ones")]
pub(crate) fn may_hold(objects: &Bound<'_, PyList>, types: Vec<Bound<'_, PyType>>) -> PyResult<bool> {
    let kinds = Kinds::new(&types);
    let mut fall = Fall::new(objects)?;
    let is_followed = fall.follow(FOLLOWED)?;
    Ok(!is_followed || fall.fallen.iter().any(|object| kinds.has(object)))
}

/// What falls when the references of some objects go.
struct Fall<'py> {
    referents: Referents<'py>,
    /// What goes: the objects themselves, and those that have fallen, by address.
    gone: FxHashSet<usize>,
    /// How many references have gone, by the address of whom they were to.
    lost: FxHashMap<usize, isize>,
    fallen: Vec<Bound<'py, PyAny>>,
}

impl<'py> Fall<'py> {
    /// Takes the references of `objects`.
    fn new(objects: &Bound<'py, PyList>) -> PyResult<Self> {
        let referents = Referents::new(objects.py())?;
        let gone = objects.iter().map(|object| address(&object)).collect();
        let mut fall = Self { referents, gone, lost: FxHashMap::default(), fallen: Vec::new() };
        let all = fall.referents.of_all(&objects.to_tuple())?;
        fall.take(&all);
        Ok(fall)
    }

    /// Takes the references of what has fallen, and so on; false if that is more than `limit` objects.
    fn follow(&mut self, limit: usize) -> PyResult<bool> {
        let mut at = 0;
        while at < self.fallen.len() {
            if at == limit {
                return Ok(false);
            }
            let all = self.referents.of(&self.fallen[at])?;
            self.take(&all);
            at += 1;
        }
        Ok(true)
    }

    /// Takes a reference from each object in `all`, as often as it is there. Who had it has none left is fallen.
    fn take(&mut self, all: &Bound<'py, PyList>) {
        let mut here: FxHashMap<usize, isize> = FxHashMap::default();
        let mut open = Vec::new();
        for referent in all.iter().filter(is_followed) {
            let address = address(&referent);
            if !self.gone.contains(&address) {
                *self.lost.entry(address).or_default() += 1;
                let times = here.entry(address).or_default();
                *times += 1;
                if *times == 1 {
                    open.push(referent);
                }
            }
        }
        for referent in open {
            let address = address(&referent);
            // One reference is that of `open`, the others are the list's.
            if references(&referent) - 1 - here[&address] == self.lost[&address] {
                self.gone.insert(address);
                self.fallen.push(referent);
            }
        }
    }
}

/// `gc.get_referents`: what the collector, too, takes for the references of an object.
struct Referents<'py>(Bound<'py, PyAny>);

impl<'py> Referents<'py> {
    fn new(py: Python<'py>) -> PyResult<Self> {
        py.import("gc")?.getattr("get_referents").map(Self)
    }

    fn of(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        Ok(self.0.call1((object,))?.cast_into()?)
    }

    fn of_all(&self, objects: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyList>> {
        Ok(self.0.call1(objects)?.cast_into()?)
    }
}

/// Whether an object may refer to a tensor; a type, that refers to itself, never falls.
fn is_followed(object: &Bound<'_, PyAny>) -> bool {
    !(object.is_none()
        || object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyType>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyBytes>())
}

/// How many references an object has.
#[expect(deprecated, reason = "what is to replace it is unsafe")]
fn references(object: &Bound<'_, PyAny>) -> isize {
    // From Python 3.14 on the upper half of the word has other things.
    object.get_refcnt() & 0xffff_ffff
}

/// What tells objects apart that are alive.
fn address(object: &Bound<'_, PyAny>) -> usize {
    object.as_ptr().addr()
}
