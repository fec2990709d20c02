//! `highwater-manifest`: a rank of a job, written by the recorder of the Python package beside the rank's snapshot, and in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Document, Format, Version};

/// A rank of a job.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ManifestView {
    format: Format<Self>,
    version: Version<Self>,
    /// The rank.
    #[serde(flatten)]
    pub manifest: Manifest,
}

impl Document for ManifestView {
    const FORMAT: &'static str = "highwater-manifest";
    const VERSION: u32 = 1;
}

impl From<Manifest> for ManifestView {
    fn from(manifest: Manifest) -> Self {
        Self { format: Format::default(), version: Version::default(), manifest }
    }
}

/// What a process knows of its place in a job. Everything is optional: launchers differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Manifest {
    /// The file that the recording is, or will be, written to, without directories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// The rank in the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Ranks of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub world_size: Option<u32>,
    /// The rank among those of its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_rank: Option<u32>,
    /// The host's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The part in the job that the program or the launcher names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The launcher's name for the run: files of two runs differ in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The program that started the process: `torchrun`, `slurm`, `kubernetes`, `mpi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launcher: Option<String>,
    /// When the recording began, in microseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_us: Option<i64>,
    /// The process's number on its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// PyTorch's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torch: Option<String>,
    /// Highwater's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highwater: Option<String>,
    /// Python's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// Settings of the allocator and of NCCL from the environment, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// The devices that the process uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<ManifestDevice>,
}

/// A device of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ManifestDevice {
    /// CUDA ordinal.
    pub device: u32,
    /// The name of the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Memory in use on it, at the dump, that PyTorch in this process has not reserved: CUDA contexts, libraries, other processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside_bytes: Option<u64>,
}
