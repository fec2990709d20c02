//! cuBLAS, cuSPARSE and CUPTI, as far as they answer more than success.

use std::cell::Cell;

use crate::answers::answers;
use crate::clock;
use crate::ffi::{Fixed, Out};
use crate::launches;
use crate::settings;
use crate::status::{SUCCESS, Status};

/// cuBLAS counts its versions like CUDA, with more room: 13.0 is 130000.
fn cublas_version() -> i32 {
    settings::get().cuda * 10 + 2
}

thread_local! {
    /// The stream of the library's handle that this thread set last: programs do that before each call.
    static STREAM: Cell<u64> = const { Cell::new(0) };
}

/// A product of matrices of these sides begins, so many times.
fn product(sides: [i32; 3], count: i32, wide: bool) -> Status {
    let multiplications =
        sides.iter().chain([&count]).fold(1, |product: u64, &side| product.saturating_mul(side.unsigned_abs().into()));
    clock::product(STREAM.try_with(Cell::get).unwrap_or(0), multiplications, wide);
    launches::launch()
}

/// Whether a `cudaDataType_t` has 32 bits or more.
fn is_wide(kind: i32) -> bool {
    matches!(kind, 0 | 1 | 4 | 5)
}

answers! {
    fn cublasSetStream_v2(_handle: usize, stream: u64) -> Status {
        // A thread that is ending begins nothing more.
        let _ = STREAM.try_with(|own| own.set(stream));
        SUCCESS
    }

    fn cublasSgemm_v2(_handle: usize, _a: i32, _b: i32, rows: i32, columns: i32, depth: i32) -> Status {
        product([rows, columns, depth], 1, true)
    }

    fn cublasGemmEx(_handle: usize, _a: i32, _b: i32, rows: i32, columns: i32, depth: i32, _alpha: usize, _at: usize, kind: i32) -> Status {
        product([rows, columns, depth], 1, is_wide(kind))
    }

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
