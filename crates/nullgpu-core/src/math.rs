//! cuBLAS, cuSPARSE and CUPTI, as far as they answer more than success.

use crate::answers::answers;
use crate::ffi::{Fixed, Out};
use crate::settings;
use crate::status::{SUCCESS, Status};

/// cuBLAS counts its versions like CUDA, with more room: 13.0 is 130000.
fn cublas_version() -> i32 {
    settings::get().cuda * 10 + 2
}

answers! {
    fn cublasGetMathMode(_handle: usize, out: Out<i32>) -> Status {
        out.put(0);
        SUCCESS
    }

    fn cublasGetPointerMode_v2(_handle: usize, out: Out<i32>) -> Status {
        out.put(0);
        SUCCESS
    }

    fn cublasGetVersion_v2(_handle: usize, out: Out<i32>) -> Status {
        out.put(cublas_version());
        SUCCESS
    }

    fn cublasLtGetVersion() -> usize {
        usize::try_from(cublas_version()).unwrap_or(0)
    }

    /// One algorithm, which wants no workspace: a structure of 96 bytes, all of them 0.
    fn cublasLtMatmulAlgoGetHeuristic(
        _handle: usize, _operation: usize, _a: usize, _b: usize, _c: usize, _d: usize, _preference: usize,
        wanted: i32, results: Out<u8>, found: Out<i32>,
    ) -> Status {
        results.fill(0, 96 * usize::try_from(wanted).unwrap_or(0));
        found.put(wanted.min(1));
        SUCCESS
    }

    fn cusparseGetVersion(_handle: usize, out: Out<i32>) -> Status {
        out.put(12_600);
        SUCCESS
    }

    fn cusparseGetPointerMode(_handle: usize, out: Out<i32>) -> Status {
        out.put(0);
        SUCCESS
    }

    fn cuptiGetResultString(_status: Status, out: Out<Fixed>) -> Status {
        out.put(Fixed::new(c"CUPTI of the null GPU"));
        SUCCESS
    }

    fn cuptiGetVersion(out: Out<u32>) -> Status {
        out.put(26);
        SUCCESS
    }

    /// There are no records: the number that says that the last one was read.
    fn cuptiActivityGetNextRecord() -> Status {
        12
    }
}
