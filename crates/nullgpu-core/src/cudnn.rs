//! cuDNN: sizes of states, and the backend interface, whose descriptors remember what is set on them. A search for engines
//! finds one; what scratch memory it wants is known for attention and taken as none for the rest.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::answers::answers;
use crate::ffi::{Fixed, In, Out};
use crate::launches;
use crate::settings;
use crate::status::{SUCCESS, Status};

/// Kinds of descriptors, `cudnnBackendDescriptorType_t`.
mod kind {
    pub(super) const ENGINE: i32 = 2;
    pub(super) const ENGINE_CONFIG: i32 = 3;
    pub(super) const OPERATION_GRAPH: i32 = 15;
    pub(super) const MATMUL: i32 = 19;
    pub(super) const ATTENTION_FORWARD: i32 = 41;
    pub(super) const ATTENTION_BACKWARD: i32 = 43;
}

/// Attributes, `cudnnBackendAttributeName_t`.
mod attribute {
    pub(super) const HEURISTIC_GRAPH: i32 = 201;
    pub(super) const HEURISTIC_RESULTS: i32 = 202;
    pub(super) const CONFIG_ENGINE: i32 = 300;
    pub(super) const PLAN_CONFIG: i32 = 401;
    pub(super) const PLAN_WORKSPACE_SIZE: i32 = 402;
    pub(super) const GRAPH_OPERATIONS: i32 = 801;
    pub(super) const TENSOR_DIMENSIONS: i32 = 902;
    pub(super) const ENGINE_GRAPH: i32 = 1300;
    pub(super) const MATMUL_A: i32 = 1520;
    pub(super) const ATTENTION_BACKWARD_QUERY: i32 = 2851;
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

/// What an attention wants besides what PyTorch asks for itself.
///
/// # Source
/// Recordings made on an H200 with cuDNN 9.19: the forward pass 256 bytes, the backward pass a float for each element of
/// the query and 256 bytes.
const ATTENTION_BYTES: i64 = 256;

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
    workspace_bytes: i64,
}

struct Descriptors {
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

    fn values(&self, handle: u64, name: i32) -> impl Iterator<Item = u64> {
        let values = self.by_handle.get(&handle).and_then(|descriptor| descriptor.attributes.get(&name));
        values.into_iter().flat_map(Values::words)
    }

    fn kind(&self, handle: u64) -> i32 {
        self.by_handle.get(&handle).map_or(-1, |descriptor| descriptor.kind)
    }

    fn workspace_bytes(&self, handle: u64) -> i64 {
        self.by_handle.get(&handle).map_or(0, |descriptor| descriptor.workspace_bytes)
    }

    fn set(&mut self, handle: u64, name: i32, value_kind: i32, count: usize, bytes: Vec<u8>) {
        let values = Values { count, bytes };
        // What a graph wants goes along from the graph to the engine, its configuration and the plan.
        let carries =
            [attribute::HEURISTIC_GRAPH, attribute::CONFIG_ENGINE, attribute::PLAN_CONFIG, attribute::ENGINE_GRAPH];
        let source = values.words().next().filter(|_| value_kind == DESCRIPTOR && carries.contains(&name));
        let workspace_bytes = source.map(|source| self.workspace_bytes(source));
        if let Some(descriptor) = self.by_handle.get_mut(&handle) {
            descriptor.workspace_bytes = workspace_bytes.unwrap_or(descriptor.workspace_bytes);
            descriptor.attributes.insert(name, values);
        }
    }

    /// The scratch memory of a graph, if it is one of attention: as one operation, or of two or five products.
    fn graph_workspace(&self, graph: u64) -> Option<i64> {
        let mut products = 0;
        let mut query = None;
        for operation in self.values(graph, attribute::GRAPH_OPERATIONS) {
            match self.kind(operation) {
                kind::MATMUL => {
                    if products == 0 {
                        query = self.values(operation, attribute::MATMUL_A).next();
                    }
                    products += 1;
                }
                kind::ATTENTION_FORWARD => products = 2,
                kind::ATTENTION_BACKWARD => {
                    products = 5;
                    query = self.values(operation, attribute::ATTENTION_BACKWARD_QUERY).next();
                }
                _ => {}
            }
        }
        match products {
            2 => Some(ATTENTION_BYTES),
            5 => {
                let dimensions = self.values(query?, attribute::TENSOR_DIMENSIONS);
                let elements =
                    dimensions.fold(1_i64, |product, size| product.saturating_mul(size.try_into().unwrap_or(i64::MAX)));
                Some(elements.saturating_mul(4).saturating_add(ATTENTION_BYTES))
            }
            _ => None,
        }
    }
}

fn length(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}

fn no_bytes(out: Out<usize>) -> Status {
    out.put(0);
    SUCCESS
}

answers! {
    fn cudnnGetVersion() -> u64 {
        settings::get().cudnn
    }

    fn cudnnGetCudartVersion() -> u64 {
        u64::try_from(settings::get().cuda).unwrap_or(0)
    }

    /// Major, minor and patch.
    fn cudnnGetProperty(which: i32, out: Out<i32>) -> Status {
        let version = i32::try_from(settings::get().cudnn).unwrap_or(0);
        out.put(match which {
            0 => version / 10_000,
            1 => version / 100 % 100,
            _ => version % 100,
        });
        SUCCESS
    }

    fn cudnnGetErrorString(status: Status) -> Fixed {
        Fixed::new(if status == SUCCESS { c"CUDNN_STATUS_SUCCESS" } else { c"CUDNN_STATUS_INTERNAL_ERROR" })
    }

    fn cudnnGetLastErrorString(out: Out<u8>, capacity: usize) {
        out.put_text("", capacity);
    }

    fn cudnnGetStream(_handle: usize, out: Out<usize>) -> Status {
        out.put(0);
        SUCCESS
    }

    /// As large as on an H200: a state for each thread that it can run.
    fn cudnnDropoutGetStatesSize(_handle: usize, out: Out<usize>) -> Status {
        out.put(2_359_296);
        SUCCESS
    }

    fn cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
        _handle: usize, _mode: i32, _ops: i32, _x: usize, _z: usize, _y: usize, _scale: usize, _activation: usize,
        out: Out<usize>,
    ) -> Status {
        no_bytes(out)
    }

    fn cudnnGetBatchNormalizationBackwardExWorkspaceSize(
        _handle: usize, _mode: i32, _ops: i32, _x: usize, _y: usize, _dy: usize, _dz: usize, _dx: usize, _scale: usize,
        _activation: usize, out: Out<usize>,
    ) -> Status {
        no_bytes(out)
    }

    fn cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
        _handle: usize, _mode: i32, _ops: i32, _activation: usize, _x: usize, out: Out<usize>,
    ) -> Status {
        no_bytes(out)
    }

    fn cudnnGetRNNTempSpaceSizes(_handle: usize, _network: usize, _mode: i32, _x: usize, work: Out<usize>, reserve: Out<usize>) -> Status {
        no_bytes(work);
        no_bytes(reserve)
    }

    fn cudnnGetRNNWeightSpaceSize(_handle: usize, _network: usize, out: Out<usize>) -> Status {
        no_bytes(out)
    }

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
        let wanted = length(wanted);
        let size = value_size(value_kind);
        let Some(asked) = descriptors.by_handle.get(&descriptor) else {
            count.put(0);
            return SUCCESS;
        };
        let workspace_bytes = asked.workspace_bytes;
        if let Some(set) = asked.attributes.get(&name) {
            count.put(i64::try_from(set.count).unwrap_or(0));
            let length = (wanted.min(set.count) * size).min(set.bytes.len());
            values.put_bytes(&set.bytes[..length]);
            return SUCCESS;
        }
        match value_kind {
            // The caller has made the descriptors that are to be filled in: one result of a search, or its engine.
            DESCRIPTOR => {
                let made = match name {
                    attribute::HEURISTIC_RESULTS => Some(kind::ENGINE_CONFIG),
                    attribute::CONFIG_ENGINE => Some(kind::ENGINE),
                    _ => None,
                };
                count.put(i64::from(made.is_some()));
                if let Some(kind) = made.filter(|_| wanted > 0 && values.address() != 0) {
                    let given = In::from(values).read_at::<u64>(0).filter(|&handle| handle != 0);
                    let handle = given.unwrap_or_else(|| descriptors.create(kind));
                    values.put_bytes(&handle.to_ne_bytes());
                    if let Some(descriptor) = descriptors.by_handle.get_mut(&handle) {
                        descriptor.workspace_bytes = workspace_bytes;
                    }
                }
            }
            INT64 => {
                count.put(1);
                if wanted > 0 {
                    let value = if name == attribute::PLAN_WORKSPACE_SIZE { workspace_bytes } else { 0 };
                    values.put_bytes(&value.to_ne_bytes());
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
        if descriptors.kind(descriptor) == kind::OPERATION_GRAPH
            && let Some(bytes) = descriptors.graph_workspace(descriptor)
            && let Some(graph) = descriptors.by_handle.get_mut(&descriptor)
        {
            graph.workspace_bytes = bytes;
        }
        SUCCESS
    }

    fn cudnnBackendExecute(_handle: usize, _plan: usize, _variant: usize) -> Status {
        launches::launch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::tests::{input, out};

    fn create(kind: i32) -> u64 {
        let mut handle = 0;
        assert_eq!(cudnnBackendCreateDescriptor(kind, out(&mut handle)), SUCCESS);
        handle
    }

    fn set(descriptor: u64, name: i32, kind: i32, values: &[u64]) {
        let count = i64::try_from(values.len()).unwrap();
        assert_eq!(cudnnBackendSetAttribute(descriptor, name, kind, count, input(values)), SUCCESS);
    }

    #[test]
    fn the_plan_of_a_backward_attention_wants_a_float_for_each_element_of_the_query() {
        let query = create(26);
        set(query, attribute::TENSOR_DIMENSIONS, INT64, &[2, 12, 256, 64]);
        let operation = create(kind::ATTENTION_BACKWARD);
        set(operation, attribute::ATTENTION_BACKWARD_QUERY, DESCRIPTOR, &[query]);
        let graph = create(kind::OPERATION_GRAPH);
        set(graph, attribute::GRAPH_OPERATIONS, DESCRIPTOR, &[operation]);
        assert_eq!(cudnnBackendFinalize(graph), SUCCESS);

        let search = create(4);
        set(search, attribute::HEURISTIC_GRAPH, DESCRIPTOR, &[graph]);
        let (mut count, mut config) = (0, create(kind::ENGINE_CONFIG));
        let results = (attribute::HEURISTIC_RESULTS, DESCRIPTOR);
        let place = out(&mut config).bytes();
        assert_eq!(cudnnBackendGetAttribute(search, results.0, results.1, 1, out(&mut count), place), SUCCESS);
        assert_eq!(count, 1, "one engine");
        let plan = create(1);
        set(plan, attribute::PLAN_CONFIG, DESCRIPTOR, &[config]);
        let mut bytes = 0_i64;
        let place = out(&mut bytes).bytes();
        let size = attribute::PLAN_WORKSPACE_SIZE;
        assert_eq!(cudnnBackendGetAttribute(plan, size, INT64, 1, out(&mut count), place), SUCCESS);
        assert_eq!(bytes, 2 * 12 * 256 * 64 * 4 + 256);
    }

    #[test]
    fn what_is_set_is_read_back() {
        let tensor = create(26);
        set(tensor, attribute::TENSOR_DIMENSIONS, INT64, &[3, 5, 7]);
        let (mut count, mut values) = (0, [0_u64; 2]);
        let place = out(&mut values).bytes();
        let name = attribute::TENSOR_DIMENSIONS;
        assert_eq!(cudnnBackendGetAttribute(tensor, name, INT64, 2, out(&mut count), place), SUCCESS);
        assert_eq!((count, values), (3, [3, 5]), "no more than there is room for, and how many there are");
        cudnnBackendDestroyDescriptor(tensor);
        assert_eq!(cudnnBackendGetAttribute(tensor, name, INT64, 2, out(&mut count), place), SUCCESS);
        assert_eq!(count, 0);
    }
}
