//! `highwater-diff-events`: whether two recordings are of a program that did the very same.

use highwater_findings::events::{Event, EventsDiff, StreamDiff};
use highwater_snapshot::Snapshot;
use serde::Serialize;

use crate::{Document, Format, Version};

/// Recordings compared entry by entry, each with the first.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventsDiffView {
    format: Format<Self>,
    version: Version<Self>,
    /// The names of the recordings.
    pub files: Vec<String>,
    /// A device of the first file beside one of another.
    pub comparisons: Vec<ComparisonView>,
}

impl Document for EventsDiffView {
    const FORMAT: &'static str = "highwater-diff-events";
    const VERSION: u32 = 1;
}

/// A device of the first file beside one of another.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparisonView {
    /// The other file.
    pub file: String,
    /// The device of the first file.
    pub device: u32,
    /// The device of the first file and that of the other.
    pub devices: [u32; 2],
    /// Everything that was recorded, except `snapshot` entries.
    pub events: StreamDiffView,
    /// The program's requests, without segments and their mapping.
    pub requests: StreamDiffView,
}

/// Two lists of events, compared by action, size and stream.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamDiffView {
    /// Whether both are the same to the last event.
    pub equal: bool,
    /// Whether both are the same up to the end of the shorter.
    pub continued: bool,
    /// Events of each file.
    pub counts: [usize; 2],
    /// Events that are skipped at the beginning of each, because the other was recorded later.
    pub skipped: [usize; 2],
    /// Events that are the same from there on.
    pub equal_count: usize,
    /// The first events that differ, of each file; null for a file that is at its end. Absent where none differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<[Option<EventView>; 2]>,
}

/// An event.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventView {
    /// Its index into the device's trace.
    pub entry: usize,
    /// PyTorch's word, such as `alloc`.
    pub action: String,
    /// Bytes of the block or segment.
    pub size_bytes: u64,
    /// The stream, numbered by first use.
    pub stream: usize,
}

impl EventsDiffView {
    /// The document of a file `name` beside others.
    pub fn new(name: &str, comparisons: Vec<ComparisonView>) -> Self {
        let mut files = vec![name.to_owned()];
        files.extend(comparisons.iter().map(|comparison| comparison.file.clone()));
        files.dedup();
        Self { format: Format::default(), version: Version::default(), files, comparisons }
    }
}

impl ComparisonView {
    /// The comparison of the first file's snapshot with that of `file`.
    pub fn new(file: String, devices: [u32; 2], snapshots: [&Snapshot; 2], diff: &EventsDiff) -> Self {
        Self {
            file,
            device: devices[0],
            devices,
            events: StreamDiffView::new(snapshots, &diff.events),
            requests: StreamDiffView::new(snapshots, &diff.requests),
        }
    }
}

impl StreamDiffView {
    fn new([first, second]: [&Snapshot; 2], diff: &StreamDiff) -> Self {
        Self {
            equal: diff.is_equal(),
            continued: diff.is_continued(),
            counts: diff.counts,
            skipped: diff.skipped,
            equal_count: diff.equal,
            first_difference: diff.first_difference.map(|[a, b]| [event(first, a), event(second, b)]),
        }
    }
}

fn event(snapshot: &Snapshot, event: Option<Event>) -> Option<EventView> {
    event.map(|event| EventView {
        entry: event.entry.index(),
        action: snapshot.action_name(event.action).to_owned(),
        size_bytes: event.size_bytes,
        stream: event.stream,
    })
}
