//! Which keys there are.

use crate::version::TorchVersion;

/// A key of a settings string.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// The first release that has it.
    pub(super) since: TorchVersion,
    pub(super) meaning: Meaning,
}

/// What a key sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Backend,
    MaxSplit,
    MaxNonSplitRounding,
    LargeSegment,
    GarbageCollection,
    Divisions,
    Expandable,
    Reserve,
    ReserveByClass,
    Fraction,
    ThrowOnOom,
    /// A switch without influence on device memory.
    OtherSwitch,
    /// The number of threads that pin host memory.
    RegisterThreads,
    /// The size of a host segment.
    HostSegment,
    /// A limit of the host allocator.
    HostLimit,
}

impl Meaning {
    /// Since 2.10 settings are read twice: those of every accelerator first, then those of CUDA.
    pub(super) fn is_common(self, name: &str) -> bool {
        match self {
            Self::MaxSplit
            | Self::MaxNonSplitRounding
            | Self::LargeSegment
            | Self::GarbageCollection
            | Self::Divisions
            | Self::Expandable
            | Self::HostLimit => true,
            Self::OtherSwitch => name == "pinned_use_background_threads",
            _ => false,
        }
    }
}

const fn key(name: &'static str, since_minor: u16, meaning: Meaning) -> Key {
    Key { name, since: TorchVersion::v2(since_minor), meaning }
}

/// Every key, with the release that brought it.
///
/// # Source
/// `spec/caching-allocator.md` section 17.3; each release from 2.1 to 2.15 was asked.
pub(super) static KEYS: [Key; 22] = [
    key("backend", 1, Meaning::Backend),
    key("max_split_size_mb", 1, Meaning::MaxSplit),
    key("max_non_split_rounding_mb", 6, Meaning::MaxNonSplitRounding),
    key("large_segment_size_mb", 11, Meaning::LargeSegment),
    key("garbage_collection_threshold", 1, Meaning::GarbageCollection),
    key("roundup_power2_divisions", 1, Meaning::Divisions),
    key("expandable_segments", 1, Meaning::Expandable),
    key("expandable_segments_reserve", 15, Meaning::Reserve),
    key("expandable_segments_reserve_by_class", 15, Meaning::ReserveByClass),
    key("per_process_memory_fraction", 10, Meaning::Fraction),
    key("throw_on_cudamalloc_oom", 12, Meaning::ThrowOnOom),
    key("release_lock_on_cudamalloc", 2, Meaning::OtherSwitch),
    key("release_lock_on_hipmalloc", 2, Meaning::OtherSwitch),
    key("graph_capture_record_stream_reuse", 9, Meaning::OtherSwitch),
    key("pinned_use_cuda_host_register", 2, Meaning::OtherSwitch),
    key("pinned_use_hip_host_register", 2, Meaning::OtherSwitch),
    key("pinned_use_background_threads", 6, Meaning::OtherSwitch),
    key("pinned_free_catch_all", 12, Meaning::OtherSwitch),
    key("pinned_num_register_threads", 2, Meaning::RegisterThreads),
    key("pinned_reserve_segment_size_mb", 10, Meaning::HostSegment),
    key("pinned_max_round_threshold_mb", 13, Meaning::HostLimit),
    key("pinned_max_cached_size_mb", 13, Meaning::HostLimit),
];

/// The key of that name, of whichever version.
pub(super) fn named(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}
