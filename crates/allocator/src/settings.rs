//! The allocator's settings, as `PYTORCH_CUDA_ALLOC_CONF` and `PYTORCH_ALLOC_CONF` give them.

mod error;
mod key;
mod number;
mod parse;

use std::fmt;

pub use error::{ConfError, ConfErrorKind, refused_key_hint};

use crate::sizes::LARGE_SEGMENT_BYTES;
use crate::version::TorchVersion;

/// A size without a limit: what PyTorch stores for `max_split_size_mb` when it is not set.
pub const UNLIMITED: u64 = u64::MAX;

/// The environment variable with the settings that every release reads.
pub const VARIABLE: &str = "PYTORCH_CUDA_ALLOC_CONF";
/// Its newer name, for all devices: not every release reads it ([`reads_new_variable`]).
pub const NEW_VARIABLE: &str = "PYTORCH_ALLOC_CONF";

/// Whether a release's CUDA allocator, by its major and minor version, reads [`NEW_VARIABLE`].
///
/// # Source
/// `c10/cuda/CUDAAllocatorConfig.h` and `libc10` of the wheels: 2.8.0 knows only [`VARIABLE`]. 2.9.1 calls that name deprecated, and
/// its CUDA allocator reads no other (pytorch#183387). From 2.10.0 on it reads [`VARIABLE`], and the new name where that is not set.
///
/// ```
/// use highwater_allocator::settings::reads_new_variable;
///
/// assert!(reads_new_variable((2, 10)) && !reads_new_variable((2, 9)));
/// ```
pub fn reads_new_variable(release: (u16, u16)) -> bool {
    release >= (2, 10)
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What the settings decide.
///
/// Settings that decide nothing about device memory are checked and then forgotten; [`remarks`](Self::remarks) names them.
///
/// # Examples
/// ```
/// use highwater_allocator::{Settings, TorchVersion};
///
/// let mut settings = Settings::new(TorchVersion::v2(11));
/// settings.parse("max_split_size_mb:128, expandable_segments:True")?;
/// assert_eq!(settings.max_split_bytes, 128 << 20);
///
/// // A second string starts from the defaults again, but for `expandable_segments` and others that stay.
/// settings.parse("roundup_power2_divisions:8")?;
/// assert_eq!(settings.max_split_bytes, highwater_allocator::settings::UNLIMITED);
/// assert!(settings.expandable_segments);
/// assert_eq!(settings.round(33_554_433), 37_748_736);
///
/// let error = settings.parse("max_split_size_mb:10").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "byte 18: `max_split_size_mb:10` is out of range: at least 20, the size of a large segment in MiB"
/// );
/// # Ok::<(), highwater_allocator::settings::ConfError>(())
/// ```
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
    /// `expandable_segments_reserve`, if given.
    pub expandable_segments_reserve: Option<Reserve>,
    /// `per_process_memory_fraction`, if given.
    pub per_process_memory_fraction: Option<f64>,
    /// `throw_on_cudamalloc_oom`.
    pub throw_on_cudamalloc_oom: bool,
    /// `backend`.
    pub backend: Backend,
    /// A string was parsed: what it said of the backend, or did not say, is final.
    pub(crate) backend_is_fixed: bool,
    pub(crate) remarks: Vec<Remark>,
}

/// Which allocator serves the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// PyTorch's own caching allocator.
    #[default]
    Native,
    /// The driver's stream-ordered pools, which have no blocks or segments.
    CudaMallocAsync,
}

/// How much address space an expandable segment reserves; always above 0 and finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reserve {
    /// As a fraction of the device's memory.
    Fraction(f64),
    /// In GiB.
    Gib(f64),
}

/// Something to tell about settings that are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remark {
    /// A setting that decides nothing about device memory, or nothing that is rebuilt here.
    NoEffect {
        /// Its key.
        key: &'static str,
    },
    /// A value of `expandable_segments_reserve` or `expandable_segments_reserve_by_class` that PyTorch warns of and ignores.
    ReserveIgnored {
        /// The value as written.
        value: String,
    },
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEffect { key } => write!(f, "`{key}` changes nothing here"),
            Self::ReserveIgnored { value } => {
                write!(
                    f,
                    "the reserve `{value}` is ignored, as PyTorch does: a fraction such as `0.5` or a size such as `40G`"
                )
            }
        }
    }
}

impl Settings {
    /// PyTorch's defaults.
    pub fn new(version: TorchVersion) -> Self {
        Self {
            version,
            max_split_bytes: UNLIMITED,
            large_segment_bytes: LARGE_SEGMENT_BYTES,
            max_non_split_rounding_bytes: LARGE_SEGMENT_BYTES,
            garbage_collection_threshold: 0.0,
            roundup_power2_divisions: [0; 16],
            expandable_segments: false,
            expandable_segments_reserve: None,
            per_process_memory_fraction: None,
            throw_on_cudamalloc_oom: false,
            backend: Backend::Native,
            backend_is_fixed: false,
            remarks: Vec::new(),
        }
    }

    /// Reads a settings string: the first one as the environment gives it, further ones as `setAllocatorSettings` does.
    ///
    /// Every string first resets `max_split_size_mb`, `roundup_power2_divisions`, `garbage_collection_threshold` and, since
    /// 2.11, `max_non_split_rounding_mb`; all others keep the value they had.
    ///
    /// What PyTorch of this version takes is taken, with two exceptions: hexadecimal fractions are refused, and so is the
    /// list without `]` that makes torch 2.1 to 2.6 read past the end. Since 2.10, PyTorch takes any of `,:[]` for any other
    /// between a key, its value and the next key.
    ///
    /// # Errors
    /// A string that PyTorch refuses. The settings are then as before, whereas PyTorch has reset them, and has changed
    /// those in front of the offending one.
    ///
    /// # Source
    /// `spec/caching-allocator.md` sections 17.2 to 17.4; `parseArgs` in `c10/cuda/CUDAAllocatorConfig.cpp` and, since 2.10,
    /// in `c10/core/AllocatorConfig.cpp`.
    pub fn parse(&mut self, conf: &str) -> Result<(), ConfError> {
        let mut next = self.clone();
        parse::read(&mut next, conf)?;
        next.backend_is_fixed = true;
        *self = next;
        Ok(())
    }

    /// Whether an allocator decides alike under both: the versions' rules are the same, and so is every value.
    pub fn decides_like(&self, other: &Self) -> bool {
        let alike = Self {
            version: other.version,
            backend_is_fixed: other.backend_is_fixed,
            remarks: other.remarks.clone(),
            ..self.clone()
        };
        self.version.has_rules_of(other.version) && alike == *other
    }

    /// What to tell about the string parsed last.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// How many bytes of address space one expandable segment reserves, on a device with `device_bytes` of memory in all;
    /// a multiple of `page_bytes`, at least one page.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 13.1.
    pub fn reservation_bytes(&self, device_bytes: u64, page_bytes: u64) -> u64 {
        let page_bytes = page_bytes.max(1);
        let full = full_reservation(device_bytes);
        let bytes = self.reserve_bytes(device_bytes).map_or(full, |reserve| reserve.min(full));
        bytes.max(1).div_ceil(page_bytes).saturating_mul(page_bytes)
    }

    /// The configured reserve, in bytes, if it is what stops a block of `rounded` bytes from having a segment of its own.
    ///
    /// # Source
    /// Torch 2.15, whose out-of-memory message then says so.
    pub fn exceeded_reserve(&self, rounded: u64, device_bytes: u64, page_bytes: u64) -> Option<u64> {
        let exceeds = rounded > self.reservation_bytes(device_bytes, page_bytes);
        self.reserve_bytes(device_bytes).filter(|&reserve| exceeds && reserve < full_reservation(device_bytes))
    }

    /// The configured reserve in bytes, not rounded to pages.
    #[expect(clippy::cast_precision_loss, reason = "PyTorch computes with doubles")]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "as PyTorch: truncated, at most the largest"
    )]
    fn reserve_bytes(&self, device_bytes: u64) -> Option<u64> {
        let bytes = match self.expandable_segments_reserve? {
            Reserve::Fraction(fraction) => fraction * device_bytes as f64,
            Reserve::Gib(gib) => gib * GIB as f64,
        };
        Some(bytes as u64)
    }
}

/// Nine eighths of the device's memory.
fn full_reservation(device_bytes: u64) -> u64 {
    device_bytes.saturating_add(device_bytes / 8)
}

#[cfg(test)]
mod tests;
