//! Out-of-memory events of a trace: what was asked for, what was there.

use highwater_allocator::Settings;
use highwater_snapshot::{Action, EntryId, EntryTable, StackId};

use crate::timeline::{Timeline, Totals};

/// One `oom` entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The entry.
    pub entry: EntryId,
    /// The request, as rounded by the allocator.
    pub requested_bytes: u64,
    /// What the driver had to ask for: a whole segment.
    pub segment_bytes: u64,
    /// What the driver said was free on the device, if recorded.
    pub device_free_bytes: Option<u64>,
    /// The totals at that moment.
    pub totals: Totals,
    /// The stack of the request.
    pub stack: StackId,
    /// Why it failed, as far as these numbers tell.
    pub cause: Cause,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Larger than all that this process could have had.
    NeverFits,
    /// The driver had enough: a limit on the process stopped it (`set_per_process_memory_fraction`).
    Limit,
    /// As much was reserved and not in use, but in no piece that fits.
    Fragmentation,
    /// What is in use leaves no room.
    Full,
    /// The numbers do not tell.
    Unknown,
}

impl Cause {
    /// The word of the JSON documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NeverFits => "never-fits",
            Self::Limit => "limit",
            Self::Fragmentation => "fragmentation",
            Self::Full => "full",
            Self::Unknown => "unknown",
        }
    }
}

impl OutOfMemory {
    /// What this process could have had: reserved by PyTorch, and free on the device.
    pub fn available_bytes(&self) -> Option<u64> {
        self.device_free_bytes.map(|free| free.saturating_add(self.totals.reserved_bytes))
    }

    /// Bounds of the limit that refused it: the first was reserved at some time, the second is too much. A peak at or beyond the second
    /// says that the limit was another then, and nothing about this one.
    pub fn limit_bytes(&self, reserved_peak_bytes: u64) -> (u64, u64) {
        let reserved = self.totals.reserved_bytes;
        let refused = reserved.saturating_add(self.segment_bytes);
        let at_least = if reserved_peak_bytes < refused { reserved.max(reserved_peak_bytes) } else { reserved };
        (at_least, refused)
    }

    /// Reserved and in no active block: free in the cache. The most, where the sizes of blocks have bounds.
    pub fn unused_bytes(&self) -> u64 {
        self.totals.reserved_bytes.saturating_sub(self.totals.active_bytes)
    }
}

/// The events of a trace, in order.
pub(crate) fn events(entries: &EntryTable, timeline: &Timeline<'_>, settings: &Settings) -> Vec<OutOfMemory> {
    let rows = entries.actions().iter().enumerate().filter(|(_, action)| **action == Action::OOM);
    rows.map(|(row, _)| {
        let entry = EntryId::from_index(row);
        let requested_bytes = entries.sizes_bytes()[row];
        let mut event = OutOfMemory {
            entry,
            requested_bytes,
            segment_bytes: settings.segment_bytes(requested_bytes),
            device_free_bytes: entries.device_free_bytes(entry),
            totals: timeline.after(entry),
            stack: entries.stacks()[row],
            cause: Cause::Unknown,
        };
        event.cause = cause(&event);
        event
    })
    .collect()
}

fn cause(event: &OutOfMemory) -> Cause {
    let (Some(free), Some(available)) = (event.device_free_bytes, event.available_bytes()) else {
        return Cause::Unknown;
    };
    if event.segment_bytes <= free {
        Cause::Limit
    } else if event.segment_bytes > available {
        Cause::NeverFits
    } else if event.unused_bytes() >= event.requested_bytes {
        Cause::Fragmentation
    } else {
        Cause::Full
    }
}
