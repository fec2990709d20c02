//! The allocator's settings, as `PYTORCH_CUDA_ALLOC_CONF` and `PYTORCH_ALLOC_CONF` give them.

use crate::version::TorchVersion;

/// A size without a limit: what PyTorch stores for `max_split_size_mb` when it is not set.
pub const UNLIMITED: u64 = u64::MAX;

const MIB: u64 = 1 << 20;

/// What the settings decide.
///
/// # Source
/// `spec/caching-allocator.md` section 17.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub(crate) version: TorchVersion,
    /// `max_split_size_mb`, in bytes: larger blocks are never split; [`UNLIMITED`] by default.
    pub max_split_bytes: u64,
    /// `large_segment_size_mb`, in bytes: the segment of a request between 1 and 10 MiB.
    pub large_segment_bytes: u64,
    /// `max_non_split_rounding_mb`, in bytes: how much larger than an oversize request the block for it may be.
    pub max_non_split_rounding_bytes: u64,
    /// `garbage_collection_threshold`; 0 is off.
    pub garbage_collection_threshold: f64,
    /// `roundup_power2_divisions`: entry k is for requests from 2^(20+k) bytes, 0 is off.
    pub roundup_power2_divisions: [u64; 16],
    /// `expandable_segments`.
    pub expandable_segments: bool,
    /// `per_process_memory_fraction`, if given.
    pub per_process_memory_fraction: Option<f64>,
    /// `throw_on_cudamalloc_oom`.
    pub throw_on_cudamalloc_oom: bool,
}

impl Settings {
    /// PyTorch's defaults.
    pub fn new(version: TorchVersion) -> Self {
        Self {
            version,
            max_split_bytes: UNLIMITED,
            large_segment_bytes: 20 * MIB,
            max_non_split_rounding_bytes: 20 * MIB,
            garbage_collection_threshold: 0.0,
            roundup_power2_divisions: [0; 16],
            expandable_segments: false,
            per_process_memory_fraction: None,
            throw_on_cudamalloc_oom: false,
        }
    }
}
