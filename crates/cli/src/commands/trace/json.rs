//! The entries as JSON: `highwater-trace`, version 1.

use highwater_findings::view::WarningView;
use highwater_snapshot::{Action, PoolId, Warnings};
use serde::{Serialize, Serializer};

use super::Selected;
use crate::frames::Frames;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    format: &'static str,
    version: u32,
    devices: &'a [Selected<'a>],
    warnings: Vec<WarningView>,
}

/// The whole document.
pub(super) fn document<'a>(traces: &'a [Selected<'a>], warnings: &'a Warnings) -> Document<'a> {
    Document { format: "highwater-trace", version: 1, devices: traces, warnings: WarningView::all(warnings).collect() }
}

#[derive(Serialize)]
struct DeviceJson<'a> {
    device: u32,
    entries: EntriesJson<'a>,
}

/// Serialized as it is read: millions of entries are never in memory as JSON.
struct EntriesJson<'a>(&'a Selected<'a>);

#[derive(Serialize)]
struct EntryJson<'a> {
    entry: u32,
    action: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<u64>,
    size_bytes: u64,
    stream: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_us: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_free_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<(u64, u64)>,
    #[serde(skip_serializing_if = "str::is_empty")]
    user_metadata: &'a str,
    #[serde(skip_serializing_if = "is_outside_compiled_code")]
    compile_context: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    category: &'a str,
    frames: Frames<'a>,
}

/// What PyTorch writes for an entry that no compiled region caused.
fn is_outside_compiled_code(context: &str) -> bool {
    matches!(context, "" | "N/A")
}

impl Serialize for Selected<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        DeviceJson { device: self.device, entries: EntriesJson(self) }.serialize(serializer)
    }
}

impl Serialize for EntriesJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(selected) = *self;
        let snapshot = selected.snapshot;
        let entries = selected.matching().take(selected.limit).map(|(id, entry)| EntryJson {
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
            frames: Frames { snapshot, stack: entry.stack },
        });
        serializer.collect_seq(entries)
    }
}
