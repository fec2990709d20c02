//! `highwater-trace`: the entries as they were recorded.

use std::fmt;

use crate::WarningView;
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
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct EntryView<'a> {
    /// Its index into the device's trace.
    entry: u32,
    /// PyTorch's word, such as `alloc`.
    action: &'a str,
    /// Absent for an `oom`, which is about none.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<u64>,
    /// Bytes of the block or segment.
    size_bytes: u64,
    /// The stream's handle; 0 is the default stream.
    stream: u64,
    /// Microseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_us: Option<i64>,
    /// Of an `oom`: memory that the driver had free.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_free_bytes: Option<u64>,
    /// The pool's two numbers; `[0, 0]` is the default pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<(u64, u64)>,
    /// The text that the program attached.
    #[serde(skip_serializing_if = "str::is_empty")]
    user_metadata: &'a str,
    /// The compiled region that caused it.
    #[serde(skip_serializing_if = "is_outside_compiled_code")]
    compile_context: &'a str,
    /// The category that a profiler gave it.
    #[serde(skip_serializing_if = "str::is_empty")]
    category: &'a str,
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
        let Self(selected) = self;
        let snapshot = selected.snapshot;
        let entries = selected.matching().take(selected.limit).map(|(id, entry)| EntryView {
            entry: id.get(),
            action: snapshot.action_name(entry.action),
            address: (entry.action != Action::OOM).then_some(entry.address),
            size_bytes: entry.size_bytes,
            stream: snapshot.stream_handle(entry.stream),
            time_us: entry.time_us,
            device_free_bytes: selected.trace().and_then(|trace| trace.device_free_bytes(id)),
            pool: (entry.pool != PoolId::MISSING).then(|| snapshot.pool_id(entry.pool)),
            user_metadata: snapshot.text(entry.user_metadata),
            compile_context: snapshot.text(entry.compile_context),
            category: snapshot.text(entry.category),
            frames: StackFrames { snapshot, stack: entry.stack },
        });
        serializer.collect_seq(entries)
    }
}
