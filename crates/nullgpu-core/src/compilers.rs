//! NVRTC: programs are taken and come out empty.

use crate::answers::answers;
use crate::ffi::{Fixed, Out, Text};
use crate::settings;
use crate::status::{SUCCESS, Status};

/// The size of what is compiled: enough that nobody takes it for nothing.
const COMPILED_SIZE: usize = 16;

answers! {
    fn nvrtcVersion(major: Out<i32>, minor: Out<i32>) -> Status {
        let version = settings::get().cuda;
        major.put(version / 1000);
        minor.put(version % 1000 / 10);
        SUCCESS
    }

    fn nvrtcGetNumSupportedArchs(out: Out<i32>) -> Status {
        out.put(1);
        SUCCESS
    }

    fn nvrtcGetSupportedArchs(out: Out<i32>) -> Status {
        let card = &settings::get().card;
        out.put(card.major * 10 + card.minor);
        SUCCESS
    }

    fn nvrtcGetPTXSize(_program: usize, out: Out<usize>) -> Status {
        out.put(COMPILED_SIZE);
        SUCCESS
    }

    fn nvrtcGetPTX(_program: usize, out: Out<u8>) -> Status {
        out.fill(0, COMPILED_SIZE);
        SUCCESS
    }

    fn nvrtcGetCUBINSize(_program: usize, out: Out<usize>) -> Status {
        out.put(COMPILED_SIZE);
        SUCCESS
    }

    fn nvrtcGetCUBIN(_program: usize, out: Out<u8>) -> Status {
        out.fill(0, COMPILED_SIZE);
        SUCCESS
    }

    fn nvrtcGetProgramLogSize(_program: usize, out: Out<usize>) -> Status {
        out.put(1);
        SUCCESS
    }

    fn nvrtcGetProgramLog(_program: usize, out: Out<u8>) -> Status {
        out.put(0);
        SUCCESS
    }

    /// A kernel is called what it was called.
    fn nvrtcGetLoweredName(_program: usize, name: Text, out: Out<Text>) -> Status {
        out.put(name);
        SUCCESS
    }

    fn nvrtcGetErrorString(_status: Status) -> Fixed {
        Fixed::new(c"NVRTC of the null GPU")
    }
}
