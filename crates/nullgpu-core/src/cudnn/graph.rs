//! cuDNN's backend interface, whose descriptors remember what is set on them. A search for engines finds those that the installed cuDNN
//! names ([`super::installed`]), else those that [`super::convolution`] and [`super::attention`] know of, and for any other graph one that
//! wants no scratch memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::installed::{self, Answer, Question};
use super::{attention, convolution};
use crate::answers::answers;
use crate::ffi::{In, Out};
use crate::launches;
use crate::status::{SUCCESS, Status};

/// Kinds of descriptors, `cudnnBackendDescriptorType_t`.
pub(super) mod kind {
    pub(crate) const ENGINE: i32 = 2;
    pub(crate) const ENGINE_CONFIG: i32 = 3;
    pub(crate) const HEURISTICS: i32 = 4;
    pub(crate) const OPERATION_GRAPH: i32 = 15;
}

/// Attributes, `cudnnBackendAttributeName_t`.
pub(super) mod attribute {
    pub(crate) const HEURISTIC_MODE: i32 = 200;
    pub(crate) const HEURISTIC_GRAPH: i32 = 201;
    pub(crate) const HEURISTIC_RESULTS: i32 = 202;
    pub(crate) const CONFIG_ENGINE: i32 = 300;
    pub(crate) const CONFIG_WORKSPACE_SIZE: i32 = 303;
    pub(crate) const PLAN_CONFIG: i32 = 401;
    pub(crate) const PLAN_WORKSPACE_SIZE: i32 = 402;
    pub(crate) const GRAPH_OPERATIONS: i32 = 801;
    pub(crate) const TENSOR_TYPE: i32 = 901;
    pub(crate) const TENSOR_DIMENSIONS: i32 = 902;
    pub(crate) const TENSOR_STRIDES: i32 = 903;
    pub(crate) const ENGINE_GRAPH: i32 = 1300;
    pub(crate) const ENGINE_NUMBER: i32 = 1301;
    pub(crate) const ENGINE_NUMERICAL_NOTES: i32 = 1303;
}

/// Kinds of values, `cudnnBackendAttributeType_t`.
const INT64: i32 = 3;
const DESCRIPTOR: i32 = 15;

/// Bytes of a value of a kind: handles, 64-bit numbers and pointers have 8, truth values and characters 1, fractions 16.
fn value_size(kind: i32) -> usize {
    match kind {
        0 | 3 | 5 | 6 | 15 => 8,
        2 | 24 => 1,
        26 => 16,
        _ => 4,
    }
}

/// One way to carry a graph out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Engine {
    pub(super) workspace_bytes: i64,
    /// What a program may forbid, a bit for each `cudnnBackendNumericalNote_t`.
    pub(super) notes: u32,
}

/// The note of an engine that rounds 32-bit numbers for the tensor cores.
pub(super) const TENSOR_CORES: u32 = 1;

/// `CUDNN_HEUR_MODE_INSTANT`: what PyTorch asks for first.
const INSTANT: i32 = 0;
/// `CUDNN_STATUS_NOT_SUPPORTED`
const NOT_SUPPORTED: Status = 3000;

struct Values {
    count: usize,
    bytes: Vec<u8>,
}

impl Values {
    /// 64-bit values, of which descriptors are some.
    fn words(&self) -> impl Iterator<Item = u64> {
        self.bytes.chunks_exact(8).take(self.count).map(|word| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            u64::from_ne_bytes(bytes)
        })
    }
}

#[derive(Default)]
struct Descriptor {
    kind: i32,
    attributes: BTreeMap<i32, Values>,
    /// Of a graph and a search, all that there are, best first; of an engine, its configuration and its plan, the one.
    engines: Vec<Engine>,
    /// Of a graph, what the installed cuDNN is asked about.
    graph: Option<installed::Graph>,
}

pub(super) struct Descriptors {
    next: u64,
    by_handle: BTreeMap<u64, Descriptor>,
}

static DESCRIPTORS: Mutex<Descriptors> = Mutex::new(Descriptors { next: 0x4000_0000, by_handle: BTreeMap::new() });

fn descriptors() -> MutexGuard<'static, Descriptors> {
    DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Descriptors {
    fn create(&mut self, kind: i32) -> u64 {
        let handle = self.next;
        self.next += 16;
        self.by_handle.insert(handle, Descriptor { kind, ..Descriptor::default() });
        handle
    }

    /// The 64-bit values of an attribute; none if it is not set.
    pub(super) fn words(&self, handle: u64, name: i32) -> impl Iterator<Item = u64> {
        let values = self.by_handle.get(&handle).and_then(|descriptor| descriptor.attributes.get(&name));
        values.into_iter().flat_map(Values::words)
    }

    /// The same as numbers that are not negative and not absurd.
    pub(super) fn numbers(&self, handle: u64, name: i32) -> Vec<u64> {
        self.words(handle, name).map(|word| if word > 1 << 48 { 0 } else { word }).collect()
    }

    /// A value of four bytes, as data types are.
    pub(super) fn code(&self, handle: u64, name: i32) -> Option<i32> {
        let bytes = &self.by_handle.get(&handle)?.attributes.get(&name)?.bytes;
        Some(i32::from_ne_bytes(*bytes.first_chunk()?))
    }

    pub(super) fn kind(&self, handle: u64) -> i32 {
        self.by_handle.get(&handle).map_or(-1, |descriptor| descriptor.kind)
    }

    fn set(&mut self, handle: u64, name: i32, value_kind: i32, count: usize, bytes: Vec<u8>) {
        let values = Values { count, bytes };
        // The engines go along from the graph to the search, and the one from its configuration to the plan.
        let carries =
            [attribute::HEURISTIC_GRAPH, attribute::CONFIG_ENGINE, attribute::PLAN_CONFIG, attribute::ENGINE_GRAPH];
        let source = values.words().next().filter(|_| value_kind == DESCRIPTOR && carries.contains(&name));
        let engines = source.and_then(|source| Some(self.by_handle.get(&source)?.engines.clone()));
        if let Some(descriptor) = self.by_handle.get_mut(&handle) {
            if let Some(engines) = engines {
                descriptor.engines = engines;
            }
            descriptor.attributes.insert(name, values);
        }
    }

    /// Fills in descriptors that the caller has made: the results of a search, or the engine of one. Gives how many were
    /// filled in, or, where none is wanted, how many there are.
    fn answer_descriptors(&mut self, engines: &[Engine], made: i32, wanted: usize, values: Out<u8>) -> usize {
        for (index, &engine) in engines.iter().enumerate().take(wanted) {
            let place = values.after(index * 8);
            let given = In::from(place).read_at::<u64>(0).filter(|&handle| handle != 0);
            let handle = given.unwrap_or_else(|| self.create(made));
            place.put_bytes(&handle.to_ne_bytes());
            if let Some(descriptor) = self.by_handle.get_mut(&handle) {
                descriptor.engines = vec![engine];
            }
        }
        if wanted == 0 { engines.len() } else { engines.len().min(wanted) }
    }

    /// The engines of a finished graph in another mode, if the installed cuDNN says them.
    fn engines_in_mode(&self, graph: u64, mode: i32) -> Option<Vec<Engine>> {
        match self.by_handle.get(&graph)?.graph.as_ref()?.ask(Question::Mode(mode))? {
            Answer::Engines(engines) => Some(engines),
            Answer::Refused => None,
        }
    }

    fn finish_graph(&mut self, graph: u64) {
        let operations: Vec<u64> = self.words(graph, attribute::GRAPH_OPERATIONS).collect();
        let asked = installed::Graph::read(self, &operations);
        if let Some(descriptor) = self.by_handle.get_mut(&graph) {
            descriptor.graph = asked;
        }
        let engines = self
            .engines_in_mode(graph, INSTANT)
            .or_else(|| convolution::engines(self, &operations))
            .or_else(|| attention::engines(self, &operations))
            .unwrap_or_else(|| vec![Engine::default()]);
        self.set_engines(graph, engines);
    }

    fn finish_heuristics(&mut self, heuristics: u64) {
        let mode = self.code(heuristics, attribute::HEURISTIC_MODE).filter(|&mode| mode != INSTANT);
        let graph = self.words(heuristics, attribute::HEURISTIC_GRAPH).next();
        let engines = mode.zip(graph).and_then(|(mode, graph)| self.engines_in_mode(graph, mode));
        if let Some(engines) = engines {
            self.set_engines(heuristics, engines);
        }
    }

    /// An engine that a program has chosen by its number.
    fn finish_engine(&mut self, engine: u64) -> Status {
        let number = self.words(engine, attribute::ENGINE_NUMBER).next().and_then(|number| i32::try_from(number).ok());
        let graph = self.words(engine, attribute::ENGINE_GRAPH).next().and_then(|graph| self.by_handle.get(&graph));
        let answer = number.zip(graph).and_then(|(number, graph)| graph.graph.as_ref()?.ask(Question::Engine(number)));
        match answer {
            Some(Answer::Refused) => return NOT_SUPPORTED,
            Some(Answer::Engines(engines)) => self.set_engines(engine, engines),
            None => {}
        }
        SUCCESS
    }

    fn set_engines(&mut self, handle: u64, engines: Vec<Engine>) {
        if let Some(descriptor) = self.by_handle.get_mut(&handle) {
            descriptor.engines = engines;
        }
    }
}

fn length(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}

fn counted(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(0)
}

answers! {
    fn cudnnBackendCreateDescriptor(kind: i32, out: Out<u64>) -> Status {
        out.put(descriptors().create(kind));
        SUCCESS
    }

    fn cudnnBackendInitialize(_descriptor: u64) -> Status {
        SUCCESS
    }

    fn cudnnBackendDestroyDescriptor(descriptor: u64) -> Status {
        descriptors().by_handle.remove(&descriptor);
        SUCCESS
    }

    fn cudnnBackendSetAttribute(descriptor: u64, name: i32, value_kind: i32, count: i64, values: In) -> Status {
        let count = length(count);
        let bytes = values.read_bytes(count.saturating_mul(value_size(value_kind)));
        descriptors().set(descriptor, name, value_kind, count, bytes);
        SUCCESS
    }

    fn cudnnBackendGetAttribute(descriptor: u64, name: i32, value_kind: i32, wanted: i64, count: Out<i64>, values: Out<u8>) -> Status {
        let mut descriptors = descriptors();
        let wanted = if values.address() == 0 { 0 } else { length(wanted) };
        let size = value_size(value_kind);
        let Some(asked) = descriptors.by_handle.get(&descriptor) else {
            count.put(0);
            return SUCCESS;
        };
        if let Some(set) = asked.attributes.get(&name) {
            count.put(counted(set.count));
            let length = (wanted.min(set.count) * size).min(set.bytes.len());
            values.put_bytes(&set.bytes[..length]);
            return SUCCESS;
        }
        let engines = asked.engines.clone();
        let first = engines.first().copied().unwrap_or_default();
        match (value_kind, name) {
            (DESCRIPTOR, attribute::HEURISTIC_RESULTS) => {
                count.put(counted(descriptors.answer_descriptors(&engines, kind::ENGINE_CONFIG, wanted, values)));
            }
            (DESCRIPTOR, attribute::CONFIG_ENGINE) => {
                count.put(counted(descriptors.answer_descriptors(&[first], kind::ENGINE, wanted, values)));
            }
            (DESCRIPTOR, _) => count.put(0),
            (_, attribute::ENGINE_NUMERICAL_NOTES) => {
                let notes = (0..32).filter(|note| first.notes >> note & 1 == 1);
                count.put(counted(notes.clone().count()));
                let notes: Vec<u8> = notes.take(wanted).flat_map(i32::to_ne_bytes).collect();
                values.put_bytes(&notes);
            }
            (INT64, _) => {
                count.put(1);
                if wanted > 0 {
                    let is_size = [attribute::CONFIG_WORKSPACE_SIZE, attribute::PLAN_WORKSPACE_SIZE].contains(&name);
                    values.put_bytes(&(if is_size { first.workspace_bytes } else { 0 }).to_ne_bytes());
                }
            }
            _ => {
                count.put(0);
                if wanted > 0 {
                    values.fill(0, size);
                }
            }
        }
        SUCCESS
    }

    fn cudnnBackendFinalize(descriptor: u64) -> Status {
        let mut descriptors = descriptors();
        match descriptors.kind(descriptor) {
            kind::OPERATION_GRAPH => descriptors.finish_graph(descriptor),
            kind::HEURISTICS => descriptors.finish_heuristics(descriptor),
            kind::ENGINE => return descriptors.finish_engine(descriptor),
            _ => {}
        }
        SUCCESS
    }

    fn cudnnBackendExecute(_handle: usize, _plan: usize, _variant: usize) -> Status {
        launches::launch()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ffi::tests::{input, out};

    pub(crate) fn create(kind: i32) -> u64 {
        let mut handle = 0;
        assert_eq!(cudnnBackendCreateDescriptor(kind, out(&mut handle)), SUCCESS);
        handle
    }

    pub(crate) fn set(descriptor: u64, name: i32, values: &[u64]) {
        assert_eq!(cudnnBackendSetAttribute(descriptor, name, INT64, counted(values.len()), input(values)), SUCCESS);
    }

    pub(crate) fn refer(descriptor: u64, name: i32, others: &[u64]) {
        let count = counted(others.len());
        assert_eq!(cudnnBackendSetAttribute(descriptor, name, DESCRIPTOR, count, input(others)), SUCCESS);
    }

    pub(crate) fn set_code(descriptor: u64, name: i32, code: i32) {
        assert_eq!(cudnnBackendSetAttribute(descriptor, name, 1, 1, input(&code)), SUCCESS);
    }

    pub(crate) fn tensor(kind: i32, dimensions: &[u64], strides: &[u64]) -> u64 {
        let tensor = create(26);
        set_code(tensor, attribute::TENSOR_TYPE, kind);
        set(tensor, attribute::TENSOR_DIMENSIONS, dimensions);
        set(tensor, attribute::TENSOR_STRIDES, strides);
        tensor
    }

    /// The scratch memory of each engine that a search finds for an operation, as a program asks for it, and whether
    /// the engine has the note.
    pub(crate) fn search(operations: &[u64]) -> Vec<(i64, bool)> {
        let graph = create(kind::OPERATION_GRAPH);
        refer(graph, attribute::GRAPH_OPERATIONS, operations);
        assert_eq!(cudnnBackendFinalize(graph), SUCCESS);
        let search = create(4);
        refer(search, attribute::HEURISTIC_GRAPH, &[graph]);
        let (mut count, mut unused) = (0_i64, [0_u64; 1]);
        let results = attribute::HEURISTIC_RESULTS;
        let nowhere = out(&mut unused).bytes();
        assert_eq!(cudnnBackendGetAttribute(search, results, DESCRIPTOR, 0, out(&mut count), nowhere), SUCCESS);
        let mut configs: Vec<u64> = (0..count).map(|_| create(kind::ENGINE_CONFIG)).collect();
        let place = out(&mut configs[0]).bytes();
        assert_eq!(cudnnBackendGetAttribute(search, results, DESCRIPTOR, count, out(&mut count), place), SUCCESS);
        let workspace = |config: &u64| {
            let plan = create(1);
            refer(plan, attribute::PLAN_CONFIG, &[*config]);
            let (mut count, mut bytes, mut engine, mut notes) = (0_i64, 0_i64, create(kind::ENGINE), [9_i32; 8]);
            let place = out(&mut bytes).bytes();
            let size = attribute::PLAN_WORKSPACE_SIZE;
            assert_eq!(cudnnBackendGetAttribute(plan, size, INT64, 1, out(&mut count), place), SUCCESS);
            let place = out(&mut engine).bytes();
            let name = attribute::CONFIG_ENGINE;
            assert_eq!(cudnnBackendGetAttribute(*config, name, DESCRIPTOR, 1, out(&mut count), place), SUCCESS);
            let place = out(&mut notes).bytes();
            let name = attribute::ENGINE_NUMERICAL_NOTES;
            assert_eq!(cudnnBackendGetAttribute(engine, name, 17, 8, out(&mut count), place), SUCCESS);
            (bytes, count == 1 && notes[0] == 0)
        };
        configs.iter().map(workspace).collect()
    }

    #[test]
    fn what_is_set_is_read_back() {
        let tensor = create(26);
        set(tensor, attribute::TENSOR_DIMENSIONS, &[3, 5, 7]);
        let (mut count, mut values) = (0, [0_u64; 2]);
        let place = out(&mut values).bytes();
        let name = attribute::TENSOR_DIMENSIONS;
        assert_eq!(cudnnBackendGetAttribute(tensor, name, INT64, 2, out(&mut count), place), SUCCESS);
        assert_eq!((count, values), (3, [3, 5]), "no more than there is room for, and how many there are");
        cudnnBackendDestroyDescriptor(tensor);
    }

    #[test]
    fn a_graph_of_which_nothing_is_known_has_one_engine_that_wants_nothing() {
        assert_eq!(search(&[create(99)]), [(0, false)]);
    }
}
