//! The scratch memory of batch normalisation. Only the layout with channels last has some: PyTorch takes its own kernels or
//! wants none for the other.

use super::layouts::{Tensor, element_size, tensor};
use crate::answers::answers;
use crate::ffi::Out;
use crate::status::{SUCCESS, Status};

/// What is left of the layout's question: how many channels, and how many values each has.
struct Shape {
    channels: usize,
    rows: usize,
    element_size: usize,
}

/// Channels are worked on by so many.
const CHANNELS: usize = 64;

/// The shape of a tensor with its channels last; nothing for another.
fn shape(tensor: &Tensor) -> Option<Shape> {
    let (&channels, &stride) = (tensor.dimensions.get(1)?, tensor.strides.get(1)?);
    if stride != 1 {
        return None;
    }
    let elements: usize = tensor.dimensions.iter().map(|&size| usize::try_from(size).unwrap_or(0)).product();
    let channels = usize::try_from(channels).ok().filter(|&channels| channels > 0)?;
    Some(Shape { channels, rows: elements / channels, element_size: element_size(tensor.kind) })
}

/// Partial sums of each group of channels and each tile of rows, their flags, and counters.
///
/// # Source
/// Measured on an H200 with cuDNN 9.19 and torch 2.11 for 80 shapes of 8 to 1024 channels; with fewer channels, less than
/// this by some kilobytes.
fn forward_bytes(shape: &Shape) -> usize {
    let tile = if shape.element_size == 4 { 64 } else { 160 };
    let groups = shape.channels.div_ceil(CHANNELS);
    groups * (shape.rows.div_ceil(tile) * (8 * CHANNELS + 4) + 4) + 1072
}

fn backward_bytes(shape: &Shape) -> usize {
    let groups = shape.channels.div_ceil(CHANNELS);
    groups * (shape.rows.div_ceil(96) * 8 * CHANNELS + 4) + 1056
}

fn answer(out: Out<usize>, x: usize, bytes: fn(&Shape) -> usize) -> Status {
    out.put(shape(&tensor(x)).as_ref().map_or(0, bytes));
    SUCCESS
}

answers! {
    fn cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
        _handle: usize, _mode: i32, _ops: i32, x: usize, _z: usize, _y: usize, _scale: usize, _activation: usize,
        out: Out<usize>,
    ) -> Status {
        answer(out, x, forward_bytes)
    }

    fn cudnnGetBatchNormalizationBackwardExWorkspaceSize(
        _handle: usize, _mode: i32, _ops: i32, x: usize, _y: usize, _dy: usize, _dz: usize, _dx: usize, _scale: usize,
        _activation: usize, out: Out<usize>,
    ) -> Status {
        answer(out, x, backward_bytes)
    }

    fn cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
        _handle: usize, _mode: i32, _ops: i32, _activation: usize, _x: usize, out: Out<usize>,
    ) -> Status {
        out.put(0);
        SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(kind: i32, [batch, channels, size]: [i32; 3]) -> Option<Shape> {
        let dimensions = vec![batch, channels, size, size];
        shape(&Tensor { kind, dimensions, strides: vec![size * size * channels, 1, size * channels, channels] })
    }

    #[test]
    fn sizes_are_as_measured() {
        for (kind, sizes, forward, backward) in [
            (0, [32, 64, 28], 203_348, 135_204),
            (0, [32, 256, 28], 810_176, 537_648),
            (2, [32, 96, 28], 163_104, 269_352),
            (2, [8, 64, 7], 2_624, 3_620),
        ] {
            let shape = shape_of(kind, sizes).unwrap();
            assert_eq!((forward_bytes(&shape), backward_bytes(&shape)), (forward, backward), "{sizes:?}");
        }
    }

    #[test]
    fn channels_that_are_not_last_want_nothing() {
        let tensor = Tensor { kind: 0, dimensions: vec![2, 3, 4, 4], strides: vec![48, 16, 4, 1] };
        assert!(shape(&tensor).is_none());
    }
}
