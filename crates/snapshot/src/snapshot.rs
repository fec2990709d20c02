//! The snapshot: all columns of one dump.

use std::fmt;

use crate::entries::EntryTable;
use crate::limits::MAX_DEVICES;
use crate::profiler::Profile;
use crate::settings::Settings;
use crate::stacks::{Frame, FrameTable, StackTable};
use crate::strings::StringTable;
use crate::warnings::{Place, Warnings};
use crate::{Annotation, Block, BlockState, PoolId, Segment, StackId, StreamId, StringId};
use highwater_problem::Problem;

/// One dump of `torch.cuda.memory`: the segments now, the traces that led there, the settings.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Which shape the file has.
    pub layout: Layout,
    /// Segments of all devices, in the order of the file: by device, then by address.
    pub segments: Vec<Segment>,
    /// The blocks of all segments, host memory's too; each segment knows its rows.
    pub blocks: Vec<Block>,
    /// One trace for each device index, oldest entry first; empty for devices that never allocated.
    pub traces: Vec<EntryTable>,
    /// The allocator's settings.
    pub settings: Settings,
    /// `external_annotations`, shared by all devices.
    pub annotations: Vec<Annotation>,
    /// Pinned host memory, where it was recorded (since torch 2.14).
    pub host: Option<HostMemory>,
    /// Keys of the root that the reader does not know, with their values as JSON text.
    pub extras: Vec<(String, String)>,
    /// Every distinct string.
    pub strings: StringTable,
    /// Every distinct frame.
    pub frames: FrameTable,
    /// Every distinct stack.
    pub stacks: StackTable,
    /// Raw stream handles; row 0 is the default stream.
    pub streams: Vec<u64>,
    /// Pool ids as PyTorch writes them; row 0 is `(0, 0)`, the default pool.
    pub pools: Vec<(u64, u64)>,
    /// Names of actions that the reader does not know.
    pub unknown_actions: Vec<StringId>,
    /// What was odd.
    pub warnings: Warnings,
    /// How it was encoded.
    pub encoding: Encoding,
    /// Bytes of pickle or JSON that were read, decompressed.
    pub bytes: u64,
    /// Where the input ended too early, if it did: then the traces lack their newest entries.
    pub cut: Option<Cut>,
    /// What it is, if it is no dump of the allocator but a profiler's file.
    pub profile: Option<Profile>,
}

/// Pinned host memory: `host_segments` and `host_traces`.
///
/// # Source
/// `spec/snapshot-format.md` section 10.
#[derive(Clone, Debug)]
pub struct HostMemory {
    /// One block each; rows of [`Snapshot::blocks`].
    pub segments: Vec<Segment>,
    /// One flat trace.
    pub trace: EntryTable,
}

/// The shape of the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A dict with `segments` and `device_traces` (since torch 2.0).
    Dict,
    /// A bare list of segments: `memory_snapshot()`, or torch 1.x.
    SegmentList,
}

/// How the input was encoded, under any compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Python's pickle, with the protocol it announces (0 also for 1, which announces none).
    Pickle {
        /// The protocol byte.
        protocol: u8,
    },
    /// JSON with the same keys.
    Json,
    /// A database of another program.
    Sqlite,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pickle { protocol } => write!(f, "pickle protocol {protocol}"),
            Self::Json => f.write_str("JSON"),
            Self::Sqlite => f.write_str("SQLite"),
        }
    }
}

/// An input that ended too early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The error that ended it.
    pub reason: String,
    /// Whether the list of segments had been read in full.
    pub segments_complete: bool,
    /// Whether all traces had been read in full.
    pub traces_complete: bool,
}

impl Snapshot {
    /// The key of the root under which our recorder writes its manifest.
    pub const MANIFEST: &str = "highwater";

    /// The key of the root under which `torch.profiler` writes the rank and the number of ranks.
    pub const DISTRIBUTED: &str = "distributedInfo";

    /// The key of the root under which our recorder writes what the driver did.
    pub const DRIVER: &str = "highwater_driver";

    /// Keys of [`extras`](Self::extras) that are no surprise.
    pub(crate) const EXPECTED_EXTRAS: [&str; 3] = [Self::MANIFEST, Self::DISTRIBUTED, Self::DRIVER];

    /// The text of a key of the root that the reader does not know.
    pub fn extra(&self, key: &str) -> Option<&str> {
        self.extras.iter().find(|(known, _)| known == key).map(|(_, text)| text.as_str())
    }

    /// A snapshot with nothing in it.
    pub fn empty() -> Self {
        Self {
            layout: Layout::Dict,
            segments: Vec::new(),
            blocks: Vec::new(),
            traces: Vec::new(),
            settings: Settings::default(),
            annotations: Vec::new(),
            host: None,
            extras: Vec::new(),
            strings: StringTable::new(),
            frames: FrameTable::default(),
            stacks: StackTable::default(),
            streams: vec![0],
            pools: vec![(0, 0)],
            unknown_actions: Vec::new(),
            warnings: Warnings::default(),
            encoding: Encoding::Pickle { protocol: 4 },
            bytes: 0,
            cut: None,
            profile: None,
        }
    }

    /// Device indexes that have entries or segments, ascending; the lowest 128 where a file names more than PyTorch can
    /// tell apart.
    pub fn devices(&self) -> Vec<u32> {
        let mut devices = self.all_devices();
        devices.truncate(MAX_DEVICES);
        devices
    }

    /// Says if there is nothing of the device that is asked for. `name` is how the message calls the snapshot.
    ///
    /// # Errors
    /// If so.
    pub fn check_device(&self, name: &str, device: Option<u32>) -> Result<(), Problem> {
        let devices = self.devices();
        match device {
            Some(device) if !devices.contains(&device) => {
                let listed: Vec<_> = devices.iter().map(ToString::to_string).collect();
                Err(Problem::new(format!("{name} has no data for device {device}")).hint(match &listed[..] {
                    [] => "it has neither entries nor segments".to_owned(),
                    [one] => format!("it has device {one}"),
                    _ => format!("it has devices {}", listed.join(", ")),
                }))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn all_devices(&self) -> Vec<u32> {
        let with_trace = (0u32..).zip(&self.traces).filter(|(_, trace)| !trace.is_empty()).map(|(device, _)| device);
        let with_segments = self.segments.iter().filter_map(|segment| u32::try_from(segment.device).ok());
        let mut devices: Vec<u32> = with_trace.chain(with_segments).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// The trace of a device, if the file has one.
    pub fn trace(&self, device: u32) -> Option<&EntryTable> {
        self.traces.get(device as usize)
    }

    /// The segments of a device, in the order of the file.
    pub fn segments_of(&self, device: u32) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(move |segment| u32::try_from(segment.device) == Ok(device))
    }

    /// The blocks of a segment, by address.
    pub fn blocks_of(&self, segment: &Segment) -> &[Block] {
        &self.blocks[segment.block_rows()]
    }

    /// The blocks of a device, with their segments.
    pub fn device_blocks(&self, device: u32) -> impl Iterator<Item = (&Segment, &Block)> {
        self.segments_of(device).flat_map(|segment| self.blocks_of(segment).iter().map(move |block| (segment, block)))
    }

    /// The frames of a stack, innermost first.
    pub fn stack(&self, id: StackId) -> impl DoubleEndedIterator<Item = Frame> + '_ {
        self.stacks.get(id).iter().map(|&frame| self.frames.get(frame))
    }

    /// A string.
    pub fn text(&self, id: StringId) -> &str {
        self.strings.get(id)
    }

    /// The raw handle of a stream.
    pub fn stream_handle(&self, id: StreamId) -> u64 {
        self.streams[id.index()]
    }

    /// The pool's id as PyTorch writes it; `(0, 0)` where none is named.
    pub fn pool_id(&self, id: PoolId) -> (u64, u64) {
        if id == PoolId::MISSING { (0, 0) } else { self.pools[id.index()] }
    }

    /// The action of this name, which is added to the unknown ones if it is new.
    pub fn action_named(&mut self, name: &str) -> crate::Action {
        if let Some(known) = crate::Action::from_name(name) {
            return known;
        }
        let name = self.strings.intern(name);
        crate::Action::other(name, &mut self.unknown_actions, &mut self.strings)
    }

    /// The name of an action.
    pub fn action_name(&self, action: crate::Action) -> &str {
        match action.unknown() {
            None => crate::Action::NAMES[usize::from(action.code())],
            Some(index) => self.unknown_actions.get(index).map_or("", |&id| self.text(id)),
        }
    }

    /// Notes segments that overlap: the reader keeps both, their sum counts that memory twice.
    pub(crate) fn check_overlaps(&mut self) {
        let on_devices = self.segments.iter().filter(|segment| segment.device >= 0);
        let mut spans: Vec<(i32, u64, u64)> =
            on_devices.map(|segment| (segment.device, segment.address, segment.end())).collect();
        spans.sort_unstable();
        for pair in spans.windows(2) {
            if pair[0].0 == pair[1].0 && pair[1].1 < pair[0].2 {
                let message = format!("segments overlap at 0x{:x}; that memory is counted twice", pair[1].1);
                let place = u32::try_from(pair[0].0).map_or_else(|_| Place::default(), Place::device);
                self.warnings.add("overlapping-segments", message, place);
            }
        }
    }

    /// Strips directories from every file name, so that the snapshot can be shown to others.
    ///
    /// Concerns the frames, and the text that may quote a traceback or a path: forward frames, annotations, metadata,
    /// compile contexts and values that the reader does not know. Every id stays valid, so what was analysed before
    /// (whether a frame is PyTorch's can be seen from its directory) can be shown after.
    pub fn redact(&mut self) {
        let mut is_filename = vec![false; self.strings.len()];
        for (_, frame) in self.frames.iter() {
            is_filename[frame.filename.index()] = true;
        }
        self.strings.rewrite(|id, text| {
            if is_filename[id.index()] { base_name(text).to_owned() } else { without_directories(text) }
        });
        for (_, value) in &mut self.extras {
            *value = without_directories(value);
        }
    }

    /// Bytes of active blocks and of all blocks, as `memory_stats()` counts them at the dump.
    pub fn end_totals(&self, device: u32) -> EndTotals {
        let mut totals = EndTotals::default();
        for segment in self.segments_of(device) {
            totals.reserved_bytes = totals.reserved_bytes.saturating_add(segment.total_bytes);
            let blocks = self.blocks_of(segment);
            let split = blocks.len() > 1 && !segment.is_expandable;
            for block in blocks {
                match block.state {
                    BlockState::ActiveAllocated => {
                        totals.allocated_bytes = totals.allocated_bytes.saturating_add(block.size_bytes);
                    }
                    BlockState::ActiveAwaitingFree => {}
                    BlockState::Inactive => {
                        if split {
                            totals.inactive_split_bytes = totals.inactive_split_bytes.saturating_add(block.size_bytes);
                        }
                        continue;
                    }
                }
                totals.active_bytes = totals.active_bytes.saturating_add(block.size_bytes);
                totals.requested_bytes = totals.requested_bytes.saturating_add(block.requested_bytes);
            }
        }
        totals
    }
}

/// The totals of a device at the dump, as in `torch.cuda.memory_stats()`: `*_bytes.all.current`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndTotals {
    /// Requested, of active blocks.
    pub requested_bytes: u64,
    /// In blocks that a tensor owns.
    pub allocated_bytes: u64,
    /// Allocated, or awaiting free.
    pub active_bytes: u64,
    /// Held from the driver.
    pub reserved_bytes: u64,
    /// Free, in segments that are partly in use; expandable segments do not count.
    pub inactive_split_bytes: u64,
}

/// The last part of a path, directories with spaces in their names included.
fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// The text with every path in it cut to its last part.
///
/// A path is a run of characters that may stand in one, with a `/` or `\` in it that begins a directory: after the
/// start, a quote, a space or a bracket.
fn without_directories(text: &str) -> String {
    if !text.contains(['/', '\\']) {
        return text.to_owned();
    }
    let ends_path = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '"' | '\'' | '`' | '(' | ')' | '[' | ']' | '{' | '}' | ',' | ';' | '=' | '<' | '>' | '|' | '&'
            )
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(ends_path).unwrap_or(rest.len());
        let word = &rest[..end];
        // A root stands at the start, or behind a label, a scheme or a drive: `out:/home/me`, `file:///home/me`, `C:\Users\me`.
        let root = word.find(['/', '\\']);
        let is_host = |at: usize| word[at..].starts_with("//") && !word[at..].starts_with("///");
        let is_root = |at: usize| at == 0 || word[..at].ends_with([':', '@']) && !is_host(at);
        let absolute = word.starts_with(['~', '.']) || root.is_some_and(is_root);
        let last = word.rfind(['/', '\\']).map_or(0, |slash| slash + 1);
        let looks_like_file = word[last..].contains('.') || absolute;
        out.push_str(if last > 0 && looks_like_file { &word[last..] } else { word });
        let separator = rest[end..].chars().next().map_or(0, char::len_utf8);
        out.push_str(&rest[end..end + separator]);
        rest = &rest[end + separator..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_stripped_and_other_text_stays() {
        for (text, want) in [
            ("/home/me/project/train.py", "train.py"),
            ("train.py", "train.py"),
            (r"C:\Users\me\train.py", "train.py"),
            ("  File \"/home/me/a.py\", line 3, in f\n", "  File \"a.py\", line 3, in f\n"),
            ("ckpt:/home/me/secret/run1", "run1"),
            ("see file:///home/me/model;/home/me/other", "see model;other"),
            ("{/home/me/a|b/c}", "{a|b/c}"),
            ("https://pytorch.org/docs", "https://pytorch.org/docs"),
            ("N/A", "N/A"),
            ("1/0", "1/0"),
            ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
            ("relative/dir/model.py", "model.py"),
            ("Optimizer.step#AdamW.step", "Optimizer.step#AdamW.step"),
            ("{\"path\":\"/secret/x\"}", "{\"path\":\"x\"}"),
        ] {
            assert_eq!(without_directories(text), want, "{text}");
        }
    }
}
