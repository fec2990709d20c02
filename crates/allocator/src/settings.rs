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

/// TEMP
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfError(String);

impl Settings {
    /// TEMP
    pub fn reservation_bytes(&self, total: u64) -> u64 {
        total + total / 8
    }
    /// TEMP
    pub fn parse(&mut self, conf: &str) -> Result<(), ConfError> {
        let rules = self.version.rules();
        let e = |_| ConfError("number".into());
        self.max_split_bytes = UNLIMITED;
        self.roundup_power2_divisions = [0; 16];
        self.garbage_collection_threshold = 0.0;
        let mut items = Vec::new();
        let mut depth = 0;
        let mut cur = String::new();
        for c in conf.chars() {
            match c {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            if c == ',' && depth == 0 {
                items.push(std::mem::take(&mut cur));
            } else {
                cur.push(c);
            }
        }
        if !cur.is_empty() {
            items.push(cur);
        }
        for i in &items {
            if let Some(v) = i.strip_prefix("large_segment_size_mb:") {
                if self.version < TorchVersion::v2(11) {
                    return Err(ConfError("no".into()));
                }
                self.large_segment_bytes = v.parse::<u64>().unwrap() * MIB;
            }
        }
        if !rules.parse_keeps_non_split_rounding {
            self.max_non_split_rounding_bytes = self.large_segment_bytes;
        }
        for i in &items {
            let (k, v) = i.split_once(':').unwrap();
            match k {
                "large_segment_size_mb" => {}
                "max_split_size_mb" => self.max_split_bytes = v.parse::<u64>().map_err(e)? * MIB,
                "max_non_split_rounding_mb" => self.max_non_split_rounding_bytes = v.parse::<u64>().map_err(e)? * MIB,
                "garbage_collection_threshold" => self.garbage_collection_threshold = v.parse().unwrap(),
                "expandable_segments" => self.expandable_segments = v == "True",
                "roundup_power2_divisions" => {
                    if let Some(l) = v.strip_prefix('[') {
                        let mut last = 0usize;
                        for (n, p) in l.trim_end_matches(']').split(',').enumerate() {
                            let (a, b) = p.split_once(':').unwrap();
                            let b: u64 = b.parse().unwrap();
                            if a == ">" {
                                let s = if rules.list_rest_overwrites_last { last } else { last + 1 };
                                for x in &mut self.roundup_power2_divisions[s..] {
                                    *x = b;
                                }
                                continue;
                            }
                            last = (a.parse::<u64>().unwrap().ilog2() as usize).min(15);
                            self.roundup_power2_divisions[last] = b;
                            if n == 0 {
                                for x in &mut self.roundup_power2_divisions[..last] {
                                    *x = b;
                                }
                            }
                        }
                    } else {
                        self.roundup_power2_divisions = [v.parse().map_err(e)?; 16];
                    }
                }
                _ => return Err(ConfError(k.into())),
            }
        }
        Ok(())
    }
}
