//! An NVML that tells what a script says, for tests: several GPUs, MIG, errors at every call, a GPU that falls off the bus.
//!
//! The library is loaded in the place of `libnvidia-ml.so.1`. The variable [`SCRIPT`] names its script, which is read
//! again at every call, so that a test can change the machine while it is watched. Calls are counted from the last change on. A
//! line each:
//!
//! ```text
//! driver 580.159.04                              CUDA is `cuda 13000`
//! gpu name=NVIDIA_H200 total=150754820096 …      the next GPU: see `script::Gpu` for the keys and what they are without
//! process gpu=0 pid=4711 bytes=1073741824 …      `kind=graphics`; without `bytes` the driver does not tell
//! mig gpu=0 total=… used=…                       a part of that GPU, which is in MIG mode then; `mig=0` puts processes there
//! error nvmlDeviceGetPowerUsage 3 …              that function answers with this status; `gpu=1` only for that one
//! fail-call 17 999                               the 17th call, whichever it is
//! lost 1 …                                       that GPU has fallen off the bus; `after=20` from the 20th call on
//! ```
//!
//! # Source
//! `nvml.h` of CUDA 13.0 for signatures, structures and statuses.

pub mod functions;
pub mod script;

mod state;

pub use functions::FUNCTIONS;

/// The variable that names the script.
pub const SCRIPT: &str = "HIGHWATER_FAKE_NVML";

/// What the file is called that Cargo makes of this crate.
pub const FILE: &str = "libhighwater_fake_nvml.so";
