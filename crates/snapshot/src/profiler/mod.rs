//! What `torch.profiler` writes, as a snapshot: Chrome traces with `[memory]` events, and both forms of the memory timeline.
//!
//! None of them is a dump of the allocator: there are no segments, no settings and no requests, only memory that comes and
//! goes. So each change becomes an `alloc`, or a `free_requested` with its `free_completed`, and [`Profile`] says that
//! nothing else is known.
//!
//! # Source
//! PyTorch v2.11, `torch/profiler/_memory_profiler.py` and `torch/profiler/profiler.py`; the traces that v2.11 writes.

mod chrome;
mod json;
mod ledger;
mod ranges;
mod shelf;
mod timeline;

pub(crate) use chrome::Events;
pub(crate) use timeline::Item;

use crate::error::{Error, ErrorKind};
use crate::snapshot::{Cut, Encoding, Snapshot};
use crate::warnings::{Place, Warnings};

use chrome::Chrome;
use ledger::Ledger;
use timeline::Timeline;

/// Where a snapshot is from, if `torch.profiler` made it.
///
/// Its entries are all `alloc`, `free_requested` and `free_completed`; each `alloc` is of an address that nothing holds, and
/// each free has the size of what it frees. Sizes are those of blocks. Segments, settings and reserved bytes are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What was written.
    pub form: ProfileForm,
    /// Of each trace, how many of its first entries are no allocations of the profile, but stand for memory that was there
    /// before it.
    pub preexisting: Vec<u32>,
    /// Whether the file tells of all memory that the allocator had handed out before the profile.
    pub knows_start: bool,
}

/// Which of the profiler's files it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProfileForm {
    /// `export_chrome_trace`.
    ChromeTrace,
    /// `export_memory_timeline("….raw.json.gz")`: each event.
    Events,
    /// `export_memory_timeline("….json")`: the bytes of each category at each time.
    Totals,
    /// What Nsight Systems exports: the driver's allocations, and nothing of PyTorch's.
    Nsight,
}

impl ProfileForm {
    /// The word in JSON.
    pub const fn key(self) -> &'static str {
        match self {
            Self::ChromeTrace => "chrome_trace",
            Self::Events => "memory_timeline_raw",
            Self::Totals => "memory_timeline",
            Self::Nsight => "nsight_systems",
        }
    }

    /// What the file is, as a fragment.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChromeTrace => "a Chrome trace of `torch.profiler`",
            Self::Events => "a raw memory timeline of `torch.profiler`",
            Self::Totals => "a memory timeline of `torch.profiler`",
            Self::Nsight => "a profile of Nsight Systems",
        }
    }
}

/// What was found of a profiler's file while JSON is read.
#[derive(Default)]
pub(crate) enum Found {
    /// Nothing: it may be a snapshot.
    #[default]
    Nothing,
    Chrome(Box<Chrome>),
    Timeline(Box<Timeline>),
}

impl Found {
    /// Where events of a Chrome trace go.
    pub(crate) fn chrome(&mut self) -> &mut Chrome {
        if !matches!(self, Self::Chrome(_)) {
            *self = Self::Chrome(Box::default());
        }
        match self {
            Self::Chrome(chrome) => chrome,
            _ => unreachable!("just made"),
        }
    }

    /// Where the items of a memory timeline go.
    pub(crate) fn timeline(&mut self) -> &mut Timeline {
        if !matches!(self, Self::Timeline(_)) {
            *self = Self::Timeline(Box::default());
        }
        match self {
            Self::Timeline(timeline) => timeline,
            _ => unreachable!("just made"),
        }
    }

    /// The snapshot, if this was a profiler's file; `error` ended the reading.
    pub(crate) fn into_snapshot(
        self,
        base_time_ns: Option<i64>,
        error: Option<&Error>,
        bytes: u64,
    ) -> Option<Result<Snapshot, ErrorKind>> {
        let made = match self {
            Self::Nothing => return None,
            Self::Chrome(chrome) => chrome.into_snapshot(base_time_ns),
            Self::Timeline(timeline) => timeline.into_snapshot(),
        };
        Some(made.map(|mut snapshot| {
            if let Some(error) = error {
                let message = format!("the file is incomplete: {error}; what could be read is shown");
                snapshot.warnings.add("cut", message, Place::byte(bytes));
                snapshot.cut = Some(Cut { reason: error.to_string(), segments_complete: true, traces_complete: false });
            }
            snapshot.encoding = Encoding::Json;
            snapshot.bytes = bytes;
            snapshot
        }))
    }
}

/// Says of one device's file what it cannot tell.
fn warn_of_form(warnings: &mut Warnings, form: ProfileForm, more: &str) {
    let name = form.name();
    let message = format!(
        "this is {name}: it covers memory while the profile ran; it has no reserved memory and no segments{more}"
    );
    warnings.add("profiler", message, Place::default());
}
