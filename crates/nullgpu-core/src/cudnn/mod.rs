//! cuDNN: graphs of operations and the scratch memory that they want, recurrent networks, batch normalisation, and what it
//! says of itself.

mod attention;
mod convolution;
mod graph;
mod installed;
mod layouts;
mod normalization;
mod recurrent;
mod stream_k;

pub use convolution::highwater_nullgpu_convolutions_estimated;

use crate::answers::{Answer, answers};
use crate::ffi::{Fixed, Out};
use crate::settings;
use crate::status::{SUCCESS, Status};

/// The answers of the modules below.
pub(crate) static TABLES: [&[Answer]; 5] =
    [ANSWERS, graph::ANSWERS, layouts::ANSWERS, normalization::ANSWERS, recurrent::ANSWERS];

/// What a generator of random numbers keeps for each thread that the card can run at once.
///
/// # Source
/// 6,488,064 bytes on an H200, which runs 132 times 2048.
const RANDOM_STATE_BYTES: usize = 24;

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

    fn cudnnDropoutGetStatesSize(_handle: usize, out: Out<usize>) -> Status {
        let card = &settings::get().card;
        let threads = card.multiprocessors * card.limits().threads;
        out.put(usize::try_from(threads).unwrap_or(0) * RANDOM_STATE_BYTES);
        SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::tests::out;

    #[test]
    fn the_state_of_a_dropout_is_as_large_as_on_an_h200() {
        let mut size = 0;
        assert_eq!(cudnnDropoutGetStatesSize(0, out(&mut size)), SUCCESS);
        assert_eq!(size, 6_488_064);
    }
}
