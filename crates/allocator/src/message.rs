//! What PyTorch says when memory runs out.

use std::fmt;

use crate::version::TorchVersion;

/// What `allocate` says of requests from 2^60 bytes.
pub const MORE_THAN_1_EB: &str = "CUDA out of memory. Tried to allocate more than 1EB memory.";

/// The state that an out-of-memory message tells of; sizes are in bytes.
///
/// `Display` writes the message as PyTorch of `version` does, to the byte.
///
/// # Examples
/// ```
/// use highwater_allocator::TorchVersion;
/// use highwater_allocator::message::OutOfMemory;
///
/// let message = OutOfMemory { segment_bytes: 2 << 30, total_bytes: Some(80 << 30), ..OutOfMemory::new(TorchVersion::v2(11)) };
/// assert!(message.to_string().starts_with("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"));
/// ```
///
/// # Source
/// `spec/caching-allocator.md` section 16.3; `malloc` in `c10/cuda/CUDACachingAllocator.cpp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The release whose words are used.
    pub version: TorchVersion,
    /// The device's ordinal.
    pub device: u32,
    /// The size of the segment that could not be had: more than was asked for.
    pub segment_bytes: u64,
    /// The device's memory in all; where that is not known, the message says neither this nor what is free.
    pub total_bytes: Option<u64>,
    /// What the driver has left.
    pub free_bytes: u64,
    /// The limit that is set, if any.
    pub limit_bytes: Option<u64>,
    /// In blocks that the program holds.
    pub allocated_bytes: u64,
    /// In segments.
    pub reserved_bytes: u64,
    /// In free blocks of private pools. From 2.4 on the message counts them as allocated.
    pub private_free_bytes: u64,
    /// The processes on the device as NVML lists them; empty where NVML is missing.
    pub processes: Vec<Process>,
    /// `expandable_segments` is on.
    pub expandable_segments: bool,
    /// The reserve that is too small for the request: [`Settings::exceeded_reserve`](crate::Settings::exceeded_reserve).
    pub exceeded_reserve_bytes: Option<u64>,
}

/// A process that uses the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id; `None` is the process whose message this is.
    pub id: Option<u32>,
    /// Its device memory, in bytes.
    pub bytes: u64,
}

impl OutOfMemory {
    /// Device 0, with nothing in it.
    pub fn new(version: TorchVersion) -> Self {
        Self {
            version,
            device: 0,
            segment_bytes: 0,
            total_bytes: None,
            free_bytes: 0,
            limit_bytes: None,
            allocated_bytes: 0,
            reserved_bytes: 0,
            private_free_bytes: 0,
            processes: Vec::new(),
            expandable_segments: false,
            exceeded_reserve_bytes: None,
        }
    }

    fn advice(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.version >= TorchVersion::v2(15) {
            if let Some(reserve) = self.exceeded_reserve_bytes {
                return write!(
                    f,
                    " This allocation exceeds the expandable-segment reserve of {} for this stream, and a single allocation \
                     cannot span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve or \
                     expandable_segments_reserve_by_class (or unset it) so that a segment is at least {}.",
                    Size(reserve),
                    Size(self.segment_bytes)
                );
            }
            if self.expandable_segments {
                return f.write_str(
                    " expandable_segments is enabled. If instead the process is running out of virtual address space (VSZ), \
                     expandable segments may be over-reserving VA (each segment reserves ~9/8 of device memory, times the \
                     number of streams); reduce it via PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / \
                     expandable_segments_reserve_by_class.",
                );
            }
        }
        let (setting, documentation) = match self.version {
            v if v >= TorchVersion::v2(11) => (
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                " (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)",
            ),
            v if v >= TorchVersion::v2(10) => ("PYTORCH_ALLOC_CONF=expandable_segments:True", OLD_PAGE),
            v if v >= TorchVersion::v2(2) => ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", OLD_PAGE),
            _ => ("max_split_size_mb", "and PYTORCH_CUDA_ALLOC_CONF"),
        };
        write!(
            f,
            " If reserved but unallocated memory is large try setting {setting} to avoid fragmentation.  See documentation \
             for Memory Management {documentation}"
        )
    }
}

const OLD_PAGE: &str = " (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 2.1 says so.
        let capacity = if self.version >= TorchVersion::v2(2) { "capacity" } else { "capacty" };
        let private = if self.version >= TorchVersion::v2(4) { self.private_free_bytes } else { 0 };
        let allocated = self.allocated_bytes.saturating_add(private);
        write!(f, "CUDA out of memory. Tried to allocate {}. ", Size(self.segment_bytes))?;
        if let Some(total) = self.total_bytes {
            let (total, free) = (Size(total), Size(self.free_bytes));
            write!(f, "GPU {} has a total {capacity} of {total} of which {free} is free. ", self.device)?;
        }
        for Process { id, bytes } in &self.processes {
            match id {
                Some(id) => write!(f, "Process {id}")?,
                None => f.write_str("Including non-PyTorch memory, this process")?,
            }
            write!(f, " has {} memory in use. ", Size(*bytes))?;
        }
        if let Some(limit) = self.limit_bytes {
            write!(f, "{} allowed; ", Size(limit))?;
        }
        write!(f, "Of the allocated memory {} is allocated by PyTorch, ", Size(allocated))?;
        if private > 0 {
            write!(f, "with {} allocated in private pools (e.g., CUDA Graphs), ", Size(private))?;
        }
        let unallocated = self.reserved_bytes.saturating_sub(allocated);
        write!(f, "and {} is reserved by PyTorch but unallocated.", Size(unallocated))?;
        self.advice(f)
    }
}

/// What PyTorch says of a request that `throw_on_cudamalloc_oom` refuses; `request_bytes` as asked for, not rounded.
///
/// # Source
/// `spec/caching-allocator.md` section 15.2; torch 2.12 and 2.15.
pub fn rejected(request_bytes: u64) -> String {
    format!(
        "CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction limit. \
         Requested size: {}",
        Size(request_bytes)
    )
}

/// A size as PyTorch's messages write it: exactly 1 GiB is `1024.00 MiB`.
///
/// # Source
/// `spec/caching-allocator.md` section 16.2; `format_size` in `c10/cuda/CUDACachingAllocator.cpp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(
    /// In bytes.
    pub u64,
);

impl fmt::Display for Size {
    #[expect(clippy::cast_precision_loss, reason = "PyTorch divides doubles")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shift, unit) = match self.0 {
            0..=0x400 => return write!(f, "{} bytes", self.0),
            0x401..=0x10_0000 => (10, "KiB"),
            0x10_0001..=0x4000_0000 => (20, "MiB"),
            _ => (30, "GiB"),
        };
        write!(f, "{:.2} {unit}", self.0 as f64 / f64::from(1 << shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    /// A size that prints as so many hundredths of a GiB.
    fn gib(hundredths: u64) -> u64 {
        hundredths * GIB / 100
    }

    /// Recorded on an H200 with torch 2.11.0.
    #[test]
    fn it_is_the_message_of_a_real_run() {
        let process = |id, bytes| Process { id, bytes };
        let message = OutOfMemory {
            segment_bytes: GIB + 2 * MIB,
            total_bytes: Some(gib(13_980)),
            free_bytes: gib(6_248),
            limit_bytes: Some(10 * GIB),
            allocated_bytes: gib(813),
            reserved_bytes: gib(813 + 103),
            processes: vec![
                process(None, gib(988)),
                process(Some(412), gib(1190)),
                process(Some(406), gib(888)),
                process(Some(411), gib(1190)),
                process(Some(410), gib(1190)),
                process(Some(408), gib(1090)),
                process(Some(409), gib(1190)),
            ],
            ..OutOfMemory::new(TorchVersion::v2(11))
        };
        assert_eq!(
            message.to_string(),
            "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 62.48 GiB is \
             free. Including non-PyTorch memory, this process has 9.88 GiB memory in use. Process 412 has 11.90 GiB memory \
             in use. Process 406 has 8.88 GiB memory in use. Process 411 has 11.90 GiB memory in use. Process 410 has 11.90 \
             GiB memory in use. Process 408 has 10.90 GiB memory in use. Process 409 has 11.90 GiB memory in use. 10.00 GiB \
             allowed; Of the allocated memory 8.13 GiB is allocated by PyTorch, and 1.03 GiB is reserved by PyTorch but \
             unallocated. If reserved but unallocated memory is large try setting \
             PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory \
             Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
        );
    }

    /// Of torch 2.8.0 and 2.11 to 2.15.0 on a fake device of 1 GiB, a private pool open.
    fn with_private_pool(minor: u16) -> OutOfMemory {
        OutOfMemory {
            segment_bytes: 288 * MIB,
            total_bytes: Some(GIB),
            free_bytes: 684 * MIB,
            limit_bytes: Some(512 * MIB),
            allocated_bytes: 303_001_600,
            reserved_bytes: 340 * MIB,
            private_free_bytes: 49_428_480,
            ..OutOfMemory::new(TorchVersion::v2(minor))
        }
    }

    #[test]
    fn free_memory_of_private_pools_counts_as_allocated_since_2_4() {
        let words = "CUDA out of memory. Tried to allocate 288.00 MiB. GPU 0 has a total capacity of 1024.00 MiB of which \
                     684.00 MiB is free. 512.00 MiB allowed; Of the allocated memory 336.10 MiB is allocated by PyTorch, with \
                     47.14 MiB allocated in private pools (e.g., CUDA Graphs), and 3.90 MiB is reserved by PyTorch but \
                     unallocated. If reserved but unallocated memory is large ";
        for minor in 4..=15 {
            let message = with_private_pool(minor).to_string();
            assert!(message.starts_with(words), "2.{minor}: {message}");
        }
        for minor in 1..=3 {
            let message = with_private_pool(minor).to_string();
            assert!(
                message.contains("memory 288.96 MiB is allocated by PyTorch, and 51.04 MiB is reserved"),
                "{message}"
            );
        }
    }

    #[test]
    fn the_advice_is_that_of_the_release() {
        let advice = |minor| {
            let message = OutOfMemory::new(TorchVersion::v2(minor)).to_string();
            message.split_once("unallocated.").unwrap().1.to_owned()
        };
        let setting = " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True \
                       to avoid fragmentation.  See documentation for Memory Management  \
                       (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";
        assert_eq!(
            advice(1),
            " If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.  See \
             documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
        );
        for minor in 2..=9 {
            assert_eq!(advice(minor), setting);
        }
        assert_eq!(advice(10), setting.replace("CUDA_ALLOC", "ALLOC"));
        let page = "docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf";
        for minor in 11..=15 {
            assert_eq!(
                advice(minor),
                setting.replace("pytorch.org/docs/stable/notes/cuda.html#environment-variables", page)
            );
        }
    }

    #[test]
    fn capacity_is_misspelt_in_2_1_only() {
        let of = |minor| OutOfMemory { total_bytes: Some(1 << 30), ..OutOfMemory::new(TorchVersion::v2(minor)) };
        let says = |minor, word| of(minor).to_string().contains(word);
        assert!(says(1, " capacty of ") && says(2, " capacity of "));
    }

    /// Of torch 2.15.0 on a fake device of 1 GiB with `expandable_segments_reserve:0.25`.
    #[test]
    fn since_2_15_the_advice_fits_the_settings() {
        let message = OutOfMemory {
            segment_bytes: 288 * MIB,
            total_bytes: Some(GIB),
            free_bytes: GIB,
            expandable_segments: true,
            exceeded_reserve_bytes: Some(256 * MIB),
            ..OutOfMemory::new(TorchVersion::v2(15))
        };
        assert_eq!(
            message.to_string(),
            "CUDA out of memory. Tried to allocate 288.00 MiB. GPU 0 has a total capacity of 1024.00 MiB of which 1024.00 MiB \
             is free. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but \
             unallocated. This allocation exceeds the expandable-segment reserve of 256.00 MiB for this stream, and a single \
             allocation cannot span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve or \
             expandable_segments_reserve_by_class (or unset it) so that a segment is at least 288.00 MiB."
        );
        let expandable = OutOfMemory { exceeded_reserve_bytes: None, ..message.clone() }.to_string();
        assert_eq!(
            expandable.split_once("unallocated.").unwrap().1,
            " expandable_segments is enabled. If instead the process is running out of virtual address space (VSZ), \
             expandable segments may be over-reserving VA (each segment reserves ~9/8 of device memory, times the number of \
             streams); reduce it via PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / \
             expandable_segments_reserve_by_class."
        );
        let older = OutOfMemory { version: TorchVersion::v2(14), ..message };
        assert!(older.to_string().contains(" try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "));
    }

    /// The example of the specification, section 16.3, made by torch 2.15.0.
    #[test]
    fn processes_come_before_the_limit() {
        let message = OutOfMemory {
            segment_bytes: 400 * MIB,
            total_bytes: Some(GIB),
            free_bytes: 722 * MIB,
            limit_bytes: Some(512 * MIB),
            allocated_bytes: 300 * MIB,
            reserved_bytes: 302 * MIB,
            processes: vec![
                Process { id: Some(4242), bytes: 11_774 * MIB / 100 },
                Process { id: None, bytes: gib(218) },
            ],
            ..OutOfMemory::new(TorchVersion::v2(15))
        };
        let words = "CUDA out of memory. Tried to allocate 400.00 MiB. GPU 0 has a total capacity of 1024.00 MiB of which 722.00 \
                     MiB is free. Process 4242 has 117.74 MiB memory in use. Including non-PyTorch memory, this process has 2.18 \
                     GiB memory in use. 512.00 MiB allowed; Of the allocated memory 300.00 MiB is allocated by PyTorch, and 2.00 \
                     MiB is reserved by PyTorch but unallocated. If reserved but ";
        assert!(message.to_string().starts_with(words), "{message}");
    }

    #[test]
    fn a_unit_ends_at_1024_of_it() {
        let text = |bytes| Size(bytes).to_string();
        assert_eq!(text(1024), "1024 bytes");
        assert_eq!(text(1025), "1.00 KiB");
        assert_eq!(text(MIB), "1024.00 KiB");
        assert_eq!(text(GIB), "1024.00 MiB");
        assert_eq!(text(GIB + 1), "1.00 GiB");
        assert_eq!(text(1 << 60), "1073741824.00 GiB");
        assert_eq!(rejected(1_250_000_000).rsplit(": ").next(), Some("1.16 GiB"));
    }
}
