//! A sample of all GPUs. `None` is an unknown value; [`GpuSample::notes`] give the reason.

use serde::{Deserialize, Serialize};

/// All GPUs at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Microseconds since the Unix epoch.
    pub time_us: u64,
    /// The driver.
    pub driver: Driver,
    /// The GPUs in the driver's order; the parts of one in MIG mode follow it.
    pub gpus: Vec<GpuSample>,
}

/// The driver's versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Driver {
    /// As `580.159.04`.
    pub version: Option<String>,
    /// The newest CUDA that it runs, as `13.0`.
    pub cuda: Option<String>,
}

/// A GPU, or a part of one in MIG mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpuSample {
    /// The driver's number, which `CUDA_VISIBLE_DEVICES` may make another in a program.
    pub index: u32,
    /// Its part of that GPU in MIG mode, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<MigPart>,
    /// Its product's name.
    pub name: String,
    /// As `GPU-…` or `MIG-…`.
    pub uuid: Option<String>,
    /// As `9.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    /// Its memory.
    pub memory: Option<Memory>,
    /// Whether that is the machine's, because the GPU has none of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shares_memory: bool,
    /// The window through which the processor sees that memory.
    pub bar1: Option<Bar1>,
    /// How busy it is.
    pub utilization: Option<Utilization>,
    /// Degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Power in use.
    pub power: Option<Power>,
    /// Errors of its memory.
    pub ecc: Option<Ecc>,
    /// The processes on it, the largest first.
    pub processes: Vec<ProcessSample>,
    /// Used bytes that belong to no listed process: those of other containers, or the driver's own.
    pub unseen_bytes: Option<u64>,
    /// Whether it has fallen off the bus, or needs a reset.
    #[serde(default)]
    pub is_lost: bool,
    /// Missing numbers with the reason, and notes on the others: a sentence each, without a full stop.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl GpuSample {
    /// How people call it: `0`, or `0.1` for a part.
    pub fn label(&self) -> String {
        match self.mig {
            Some(part) => format!("{}.{}", self.index, part.index),
            None => self.index.to_string(),
        }
    }
}

/// Which part of a GPU in MIG mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MigPart {
    /// Its number on that GPU.
    pub index: u32,
}

/// A GPU's memory in bytes: `total = used + free + reserved`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Memory {
    /// All of it.
    pub total_bytes: u64,
    /// In use by programs.
    pub used_bytes: u64,
    /// Not in use.
    pub free_bytes: u64,
    /// Kept by the driver and the firmware.
    pub reserved_bytes: u64,
}

/// The window on the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bar1 {
    /// All of it.
    pub total_bytes: u64,
    /// In use.
    pub used_bytes: u64,
}

/// The share of the driver's last sampling period in which something ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Utilization {
    /// A kernel ran.
    pub gpu_percent: u32,
    /// Memory was read or written.
    pub memory_percent: u32,
}

/// Power in milliwatts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Power {
    /// Power in use now, in milliwatts.
    pub draw_mw: u32,
    /// The power limit.
    pub limit_mw: Option<u32>,
}

/// Memory errors since the driver was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ecc {
    /// Whether error correction is on.
    pub is_enabled: bool,
    /// Corrected errors; `None` if they are not counted.
    pub corrected: Option<u64>,
    /// Uncorrected errors: a program may have computed with wrong values.
    pub uncorrected: Option<u64>,
}

/// A process on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessSample {
    /// Its number.
    pub pid: u32,
    /// The kind of its work there.
    pub kind: ProcessKind,
    /// Its memory on the GPU; `None` if the driver does not report it.
    #[serde(rename = "used_bytes")]
    pub bytes: Option<u64>,
    /// Its user.
    pub user: Option<String>,
    /// Its command line; `None` if it is not visible from here.
    pub command: Option<String>,
    /// How PyTorch uses that memory, if the process reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch: Option<TorchSplit>,
    /// Why there is no split, although the process has a socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch_note: Option<String>,
    /// Facts from the system, if the process itself does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<Loaded>,
}

/// Facts from the system about a process that does not report how it uses its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Loaded {
    /// Libraries that use GPUs among those that it has loaded.
    pub libraries: Vec<String>,
    /// The unknown part, and how to find it out.
    pub unknown: String,
}

/// The kind of work of a process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ProcessKind {
    /// CUDA.
    Compute,
    /// Drawing.
    Graphics,
    /// Both.
    Both,
}

impl ProcessKind {
    /// As `nvidia-smi` writes it.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Compute => "C",
            Self::Graphics => "G",
            Self::Both => "C+G",
        }
    }
}

/// A process's own figures for one of its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TorchDevice {
    /// The ordinal within the process.
    pub device: u32,
    /// The GPU's, as the driver writes it, with `GPU-` or `MIG-` in front.
    pub uuid: String,
    /// In allocated blocks.
    pub allocated_bytes: u64,
    /// Held from the driver.
    pub reserved_bytes: u64,
    /// The exact peak of allocated memory since the last request.
    pub peak_allocated_bytes: u64,
    /// The most that was held at once since it was last asked, exactly.
    pub peak_reserved_bytes: u64,
    /// The memory of the process outside PyTorch as soon as it had a context, if that was measured.
    pub context_bytes: Option<u64>,
    /// Whether it is one of several ranks: NCCL holds memory then, else not.
    pub is_distributed: bool,
    /// Failed requests, each followed by another try.
    pub alloc_retries: u64,
    /// Failed requests that became an error.
    pub ooms: u64,
}

/// The memory of a process as the driver reports it, split into five parts that add up to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TorchSplit {
    /// The ordinal within the process.
    pub device: u32,
    /// In allocated blocks.
    pub allocated_bytes: u64,
    /// Reserved, but not allocated.
    pub cached_bytes: u64,
    /// The CUDA context of each process.
    pub context_bytes: u64,
    /// Memory of libraries, and of kernels when they are first used.
    pub libraries_bytes: u64,
    /// None of these: another allocator in the process uses it.
    pub unexplained_bytes: u64,
    /// The peak of allocated memory since the last sample, from PyTorch's own statistics.
    pub peak_allocated_bytes: u64,
    /// The highest reserved bytes since the last sample.
    pub peak_reserved_bytes: u64,
    /// Libraries in the process that allocate memory outside PyTorch.
    pub libraries: Vec<String>,
    /// Notes on these numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
