//! Descriptors of the interface before graphs: how a tensor, or the batch of a recurrent network, lies. They remember what is
//! set on them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::answers::answers;
use crate::ffi::{In, Out};
use crate::status::{SUCCESS, Status};

/// How a tensor lies.
#[derive(Clone, Default)]
pub(super) struct Tensor {
    /// `cudnnDataType_t`
    pub(super) kind: i32,
    pub(super) dimensions: Vec<i32>,
    pub(super) strides: Vec<i32>,
}

/// What a recurrent network is given.
#[derive(Clone, Copy, Default)]
pub(super) struct Sequences {
    /// Steps of all sequences together.
    pub(super) steps: usize,
    pub(super) width: usize,
    /// How many sequences there are.
    pub(super) batch: usize,
    /// Steps of the longest.
    pub(super) longest: usize,
    /// They lie one behind the other, without padding.
    pub(super) packed: bool,
}

/// `cudnnRNNDataLayout_t`
const PACKED: i32 = 1;

/// By the address of the descriptor.
static TENSORS: Mutex<BTreeMap<usize, Tensor>> = Mutex::new(BTreeMap::new());
static SEQUENCES: Mutex<BTreeMap<usize, Sequences>> = Mutex::new(BTreeMap::new());

fn lock<T>(map: &Mutex<T>) -> MutexGuard<'_, T> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was set on the descriptor of a tensor.
pub(super) fn tensor(descriptor: usize) -> Tensor {
    lock(&TENSORS).get(&descriptor).cloned().unwrap_or_default()
}

/// What was set on the descriptor of a recurrent network's data.
pub(super) fn sequences(descriptor: usize) -> Sequences {
    lock(&SEQUENCES).get(&descriptor).copied().unwrap_or_default()
}

pub(super) fn set_tensor(descriptor: usize, tensor: Tensor) {
    lock(&TENSORS).insert(descriptor, tensor);
}

/// Bytes of an element, by `cudnnDataType_t`.
pub(super) fn element_size(kind: i32) -> usize {
    match kind {
        1 | 12 => 8,
        2 | 9 => 2,
        3 | 7 | 8 | 11 | 13 | 14 => 1,
        _ => 4,
    }
}

/// More dimensions than cuDNN has.
const DIMENSIONS_MAX: usize = 16;

fn ints(values: In, count: usize) -> Vec<i32> {
    (0..count.min(DIMENSIONS_MAX)).filter_map(|index| values.read_at(index * 4)).collect()
}

answers! {
    fn cudnnSetTensorNdDescriptor(descriptor: usize, kind: i32, count: i32, dimensions: In, strides: In) -> Status {
        let count = usize::try_from(count).unwrap_or(0);
        set_tensor(descriptor, Tensor { kind, dimensions: ints(dimensions, count), strides: ints(strides, count) });
        SUCCESS
    }

    fn cudnnGetTensorNdDescriptor(
        descriptor: usize, wanted: i32, kind: Out<i32>, count: Out<i32>, dimensions: Out<i32>, strides: Out<i32>,
    ) -> Status {
        let tensor = tensor(descriptor);
        kind.put(tensor.kind);
        count.put(i32::try_from(tensor.dimensions.len()).unwrap_or(0));
        for index in 0..tensor.dimensions.len().min(usize::try_from(wanted).unwrap_or(0)) {
            dimensions.after(index).put(tensor.dimensions[index]);
            strides.after(index).put(tensor.strides.get(index).copied().unwrap_or(1));
        }
        SUCCESS
    }

    fn cudnnSetFilterNdDescriptor(descriptor: usize, kind: i32, _format: i32, count: i32, dimensions: In) -> Status {
        let dimensions = ints(dimensions, usize::try_from(count).unwrap_or(0));
        set_tensor(descriptor, Tensor { kind, dimensions, strides: Vec::new() });
        SUCCESS
    }

    fn cudnnGetFilterNdDescriptor(
        descriptor: usize, wanted: i32, kind: Out<i32>, format: Out<i32>, count: Out<i32>, dimensions: Out<i32>,
    ) -> Status {
        format.put(0);
        let tensor = tensor(descriptor);
        kind.put(tensor.kind);
        count.put(i32::try_from(tensor.dimensions.len()).unwrap_or(0));
        for (index, &size) in tensor.dimensions.iter().enumerate().take(usize::try_from(wanted).unwrap_or(0)) {
            dimensions.after(index).put(size);
        }
        SUCCESS
    }

    fn cudnnSetRNNDataDescriptor(
        descriptor: usize, _kind: i32, layout: i32, longest: i32, batch: i32, width: i32, lengths: In, _padding: usize,
    ) -> Status {
        let [batch, width, longest] = [batch, width, longest].map(|count| usize::try_from(count).unwrap_or(0));
        let steps = (0..batch).filter_map(|index| lengths.read_at::<i32>(index * 4));
        let steps = steps.map(|steps| usize::try_from(steps).unwrap_or(0)).sum();
        let packed = layout == PACKED;
        lock(&SEQUENCES).insert(descriptor, Sequences { steps, width, batch, longest, packed });
        SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::tests::{input, out};

    #[test]
    fn a_layout_is_read_back_as_far_as_there_is_room() {
        let (dimensions, strides) = ([2_i32, 3, 4], [12_i32, 4, 1]);
        assert_eq!(cudnnSetTensorNdDescriptor(0x10, 2, 3, input(&dimensions), input(&strides)), SUCCESS);
        let (mut kind, mut count, mut sizes, mut steps) = (9, 9, [7_i32; 3], [7_i32; 3]);
        let status = cudnnGetTensorNdDescriptor(
            0x10,
            2,
            out(&mut kind),
            out(&mut count),
            out(&mut sizes[0]),
            out(&mut steps[0]),
        );
        assert_eq!((status, kind, count, sizes, steps), (SUCCESS, 2, 3, [2, 3, 7], [12, 4, 7]));
    }

    #[test]
    fn the_steps_of_all_sequences_count() {
        let lengths = [5_i32, 3, 1];
        assert_eq!(cudnnSetRNNDataDescriptor(0x20, 0, 1, 5, 3, 64, input(&lengths), 0), SUCCESS);
        let Sequences { steps, width, batch, longest, packed } = sequences(0x20);
        assert_eq!((steps, width, batch, longest, packed), (9, 64, 3, 5, true));
    }
}
