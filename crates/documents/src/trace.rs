//! `highwater-trace`: the entries as they were recorded.

use std::fmt;

use crate::{FrameView, WarningView};
use highwater_analysis::callsite::Sites;
use highwater_analysis::place;
use highwater_snapshot::{Action, Entry, EntryId, EntryTable, PoolId, Snapshot, Warnings};
use serde::{Serialize, Serializer};

use crate::frames::StackFrames;
use crate::{Document, Format, Version};

/// The entries of each device.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceView<'a> {
    format: Format<Self>,
    version: Version<Self>,
    /// In the order of their numbers.
    devices: Vec<DeviceView<'a>>,
    /// Warnings about the file.
    warnings: Vec<WarningView>,
}

impl Document for TraceView<'_> {
    const FORMAT: &'static str = "highwater-trace";
    const VERSION: u32 = 1;
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct DeviceView<'a> {
    /// CUDA ordinal.
    device: u32,
    /// The requested entries, in their order.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<EntryView<'a>>"))]
    entries: Entries<'a>,
}

/// An entry; a name is absent where the file does not have it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EntryView<'a> {
    /// Its index into the device's trace.
    pub entry: u32,
    /// PyTorch's word, such as `alloc`.
    pub action: &'a str,
    /// Absent for an `oom`, which has no address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
    /// Bytes of the block or segment.
    pub size_bytes: u64,
    /// The stream's handle; 0 is the default stream.
    pub stream: u64,
    /// Microseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_us: Option<i64>,
    /// Of an `oom`: memory that the driver had free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_free_bytes: Option<u64>,
    /// The pool's two numbers; `[0, 0]` is the default pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<(u64, u64)>,
    /// The text that the program attached.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub user_metadata: &'a str,
    /// The compiled region that caused it.
    #[serde(skip_serializing_if = "is_outside_compiled_code")]
    compile_context: &'a str,
    /// The category that a profiler gave it.
    #[serde(skip_serializing_if = "str::is_empty")]
    category: &'a str,
    /// Its call site in words, or the reason why there is none; absent for a `snapshot`, which is no request.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub place: String,
    /// The stack, innermost frame first.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::FrameView<'a>>"))]
    frames: StackFrames<'a>,
}

/// PyTorch's value for an entry outside compiled regions.
fn is_outside_compiled_code(context: &str) -> bool {
    matches!(context, "" | "N/A")
}

/// The entries of one device that are wanted.
#[derive(Clone, Copy)]
pub struct Selected<'a> {
    /// Where they are from.
    pub snapshot: &'a Snapshot,
    /// Its call sites.
    pub sites: &'a Sites,
    /// CUDA ordinal.
    pub device: u32,
    /// Which of them.
    pub accepts: &'a dyn Fn(EntryId, &Entry) -> bool,
    /// How many at most.
    pub limit: usize,
}

impl fmt::Debug for Selected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selected").field("device", &self.device).field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<'a> EntryView<'a> {
    /// The stack, innermost frame first.
    pub fn frames(&self) -> impl Iterator<Item = FrameView<'a>> + use<'a> {
        self.frames.iter()
    }
}

impl<'a> Selected<'a> {
    /// The trace; none for a device that has segments only.
    pub fn trace(&self) -> Option<&'a EntryTable> {
        self.snapshot.trace(self.device).filter(|trace| !trace.is_empty())
    }

    /// Every entry that is accepted, whatever the limit.
    pub fn matching(&self) -> impl Iterator<Item = (EntryId, Entry)> + use<'a> {
        let accepts = self.accepts;
        self.trace()
            .into_iter()
            .flat_map(|trace| trace.ids().map(|id| (id, trace.get(id))))
            .filter(move |&(id, ref entry)| accepts(id, entry))
    }

    /// The entries that are shown: the accepted ones up to the limit. The text and the JSON are written from these,
    /// one at a time.
    pub fn shown(self) -> impl Iterator<Item = EntryView<'a>> + use<'a> {
        self.matching().take(self.limit).map(move |(id, entry)| self.view(id, &entry))
    }

    fn view(self, id: EntryId, entry: &Entry) -> EntryView<'a> {
        let Self { snapshot, sites, .. } = self;
        let is_snapshot = entry.action == Action::SNAPSHOT;
        EntryView {
            entry: id.get(),
            action: snapshot.action_name(entry.action),
            address: (entry.action != Action::OOM).then_some(entry.address),
            size_bytes: entry.size_bytes,
            stream: snapshot.stream_handle(entry.stream),
            time_us: entry.time_us,
            device_free_bytes: self.trace().and_then(|trace| trace.device_free_bytes(id)),
            pool: (entry.pool != PoolId::MISSING).then(|| snapshot.pool_id(entry.pool)),
            user_metadata: snapshot.text(entry.user_metadata),
            compile_context: snapshot.text(entry.compile_context),
            category: snapshot.text(entry.category),
            place: if is_snapshot { String::new() } else { place::stack(snapshot, sites, entry.stack) },
            frames: StackFrames { snapshot, stack: entry.stack },
        }
    }
}

impl<'a> TraceView<'a> {
    /// The entries that are selected.
    pub fn new(selected: &[Selected<'a>], warnings: &Warnings) -> Self {
        let devices = selected.iter().map(|&of| DeviceView { device: of.device, entries: Entries(of) }).collect();
        Self {
            format: Format::default(),
            version: Version::default(),
            devices,
            warnings: WarningView::all(warnings).collect(),
        }
    }
}

/// Serialized as it is read: millions of entries are never in memory as JSON.
#[derive(Debug)]
struct Entries<'a>(Selected<'a>);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.shown())
    }
}
