//! The text of one out-of-memory message, as numbers.

mod amount;
mod clause;
mod reader;

pub(crate) use amount::{Read, amount};
pub(super) use clause::ANCHOR;
pub use clause::Releases;
pub(crate) use reader::without_blanks;
pub(super) use reader::{Progress, Reader, broken_beginning};

use crate::log::LogReader;

/// What a message says; sizes are in bytes, as printed: value times unit, to the nearest byte.
///
/// A field is `None` where the text has no such amount.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Message {
    /// The process in the job, by what stands before the message.
    pub rank: Option<u32>,
    /// What it calls the kind of device: `CUDA`, `HIP`, `XPU`, `MPS`.
    pub backend: Option<&'static str>,
    /// The device's ordinal.
    pub device: Option<u32>,
    /// What the driver was asked for: a whole segment.
    pub tried_bytes: Option<u64>,
    /// The device's memory in all.
    pub capacity_bytes: Option<u64>,
    /// Free memory of the driver.
    pub free_bytes: Option<u64>,
    /// What this process has of the device, all in all.
    pub process_bytes: Option<u64>,
    /// It has a sentence on this process, whatever the amount.
    pub names_itself: bool,
    /// In blocks that the program holds; since 2.4 with free blocks of private pools.
    pub allocated_bytes: Option<u64>,
    /// In segments; up to 1.3 ("cached") only what is not allocated of them: see [`held_bytes`](Self::held_bytes).
    pub reserved_bytes: Option<u64>,
    /// In segments and not in blocks that the program holds.
    pub reserved_unallocated_bytes: Option<u64>,
    /// The memory limit of the process.
    pub limit_bytes: Option<u64>,
    /// In free blocks of private pools.
    pub private_bytes: Option<u64>,
    /// The expandable-segment reserve that is smaller than the request.
    pub reserve_bytes: Option<u64>,
    /// MPS: memory of the device that others hold.
    pub others_bytes: Option<u64>,
    /// Processes with memory on the device, as the message lists them.
    pub other_processes: Vec<Process>,
    /// The releases that write such a message.
    pub releases: Option<Releases>,
    /// Expandable segments are on: since 2.15 the message tells.
    pub has_expandable_segments: bool,
    /// `reserved_bytes` is what is cached, not all that is held.
    pub reserved_is_cached: bool,
    /// It prints an amount of 2^64 bytes or so: the driver did not tell (WSL, drivers without NVML).
    pub has_unavailable: bool,
    /// What kind of message it is.
    pub kind: Kind,
    /// The text ends before the message does.
    pub is_cut: bool,
}

/// The component that refused the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The driver or a limit, after all cached memory was released.
    #[default]
    Exhausted,
    /// `throw_on_cudamalloc_oom`, before anything was tried.
    Rejected,
    /// It was for 2^60 bytes or more.
    MoreThanOneExabyte,
    /// The driver, asked by something else than PyTorch's allocator: the message has no numbers.
    Driver,
    /// The allocator of a `MemPool`.
    CustomAllocator,
    /// The driver's own allocator, `backend:cudaMallocAsync`.
    Asynchronous,
}

/// Another process on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its memory on the device.
    pub bytes: u64,
}

impl Message {
    /// The first message in a text.
    ///
    /// ```
    /// use highwater_oom::Message;
    ///
    /// let text = "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity; \
    ///             6.64 GiB already allocated; 21.00 MiB free; 6.80 GiB reserved in total by PyTorch)";
    /// let message = Message::parse(text).unwrap();
    /// assert_eq!(message.tried_bytes, Some(20 << 20));
    /// assert_eq!(message.releases.unwrap().to_string(), "1.4 to 2.0");
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let mut log = LogReader::new();
        log.push(text.as_bytes());
        Some(log.finish().groups.into_iter().next()?.message)
    }

    /// All that PyTorch's allocator holds: reserved, allocated or not.
    pub fn held_bytes(&self) -> Option<u64> {
        let sum = |part: u64| self.allocated_bytes.unwrap_or(0).saturating_add(part);
        match (self.reserved_bytes, self.reserved_unallocated_bytes) {
            (Some(cached), _) if self.reserved_is_cached => Some(sum(cached)),
            (Some(reserved), _) => Some(reserved),
            (None, Some(unallocated)) => Some(sum(unallocated)),
            (None, None) => self.allocated_bytes,
        }
    }

    /// Held and not in blocks that the program holds; free blocks of private pools not counted since 2.4.
    pub fn unallocated_bytes(&self) -> Option<u64> {
        self.reserved_unallocated_bytes.or_else(|| match self.reserved_bytes {
            Some(cached) if self.reserved_is_cached => Some(cached),
            Some(reserved) => Some(reserved.saturating_sub(self.allocated_bytes?)),
            None => None,
        })
    }
}
