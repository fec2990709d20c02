//! The numbers by which the runtime and the driver say how a call went.

/// How a call went; libraries have numbers of their own, of which 0 is success everywhere.
pub(crate) type Status = i32;

pub(crate) const SUCCESS: Status = 0;
/// `cudaErrorInvalidValue`, `CUDA_ERROR_INVALID_VALUE`
pub(crate) const INVALID_VALUE: Status = 1;
/// `cudaErrorMemoryAllocation`, `CUDA_ERROR_OUT_OF_MEMORY`
pub(crate) const OUT_OF_MEMORY: Status = 2;
/// `CUDA_ERROR_NOT_INITIALIZED`
pub(crate) const NOT_INITIALIZED: Status = 3;
/// `cudaErrorInvalidDevice`
pub(crate) const INVALID_DEVICE: Status = 101;
/// `cudaErrorInvalidResourceHandle`
pub(crate) const INVALID_HANDLE: Status = 400;
/// `CUDA_ERROR_NOT_FOUND`
pub(crate) const NOT_FOUND: Status = 500;
/// `cudaErrorNotReady`
pub(crate) const NOT_READY: Status = 600;
