//! The whole: from the root value to a [`Snapshot`].

use super::keys;
use super::store::{Node, Run, Store};
use crate::entries::EntryTable;
use crate::error::ErrorKind;
use crate::limits::{MAX_DEVICES, MAX_EXTRAS, MAX_SETTINGS_BYTES, MAX_TEXT_BYTES};
use crate::pickle::value::{Kind, Value};
use crate::settings::{Setting, Settings};
use crate::snapshot::{HostMemory, Layout, Snapshot};
use crate::warnings::{NO_OFFSET, Place, Warnings};
use crate::{Annotation, EntryId, Segment};

/// What the keys of the root hold.
#[derive(Default)]
struct Parts {
    segments: Option<Value>,
    device_traces: Option<Value>,
    settings: Option<Value>,
    annotations: Option<Value>,
    host_segments: Option<Value>,
    host_traces: Option<Value>,
    extras: Vec<(String, String)>,
    last_key: Option<String>,
}

/// Rows of the store's trace entries that one trace is made of.
enum Rows {
    Run(Run),
    Scattered(Vec<u32>),
}

impl Rows {
    const NONE: Self = Self::Run(Run { start: 0, len: 0 });

    fn as_run(&self) -> Option<Run> {
        match self {
            Self::Run(run) => Some(*run),
            Self::Scattered(_) => None,
        }
    }
}

impl Store {
    /// Puts the snapshot together from what the root holds; with it the root's last key, where a cut file ends.
    ///
    /// # Errors
    /// [`ErrorKind::OtherData`] if the root is no snapshot.
    pub(crate) fn into_snapshot(mut self, root: Value) -> Result<(Snapshot, Option<String>), ErrorKind> {
        let (layout, parts) = match self.node_of(root) {
            Some(Node::Map(index)) => (Layout::Dict, self.parts(index as usize)?),
            // `torch.cuda.memory_snapshot()` of any version, `_snapshot()` up to torch 1.13.
            Some(Node::Segments(_) | Node::EmptyList) => {
                (Layout::SegmentList, Parts { segments: Some(root), ..Parts::default() })
            }
            other => return Err(ErrorKind::OtherData(Self::describe(root, other))),
        };
        let rows = self.segment_rows(parts.segments, "segments");
        self.warn_of_devices(&rows);
        if let Some((message, place, count)) = self.odd_sums.take() {
            self.warnings.add_times("odd-sums", message, place, count);
        }
        let segments = self.copy_segments(&rows);
        let rows = self.segment_rows(parts.host_segments, "host_segments");
        let host_segments = self.copy_segments(&rows);
        let annotations = self.take_annotations(parts.annotations);
        let settings = self.settings(parts.settings);
        let mut rows = self.trace_rows(parts.device_traces);
        let host_rows = parts.host_traces.map(|value| self.rows_of(value, "host_traces"));
        let has_host = parts.host_segments.is_some() || host_rows.is_some();
        rows.extend(host_rows);
        // The containers are no longer needed: their room is free for splitting the traces.
        self.nodes = Vec::new();
        let mut traces = self.split(&rows);
        let host_trace = if parts.host_traces.is_some() { traces.pop() } else { None };
        let host = has_host
            .then(|| HostMemory { segments: host_segments, trace: host_trace.unwrap_or_default() })
            .filter(|host| !host.segments.is_empty() || !host.trace.is_empty());
        let mut snapshot = Snapshot {
            layout,
            segments,
            blocks: self.blocks,
            traces,
            settings,
            annotations,
            host,
            extras: parts.extras,
            strings: self.strings,
            frames: self.frames,
            stacks: self.stacks,
            streams: self.streams.rows,
            pools: self.pools.rows,
            unknown_actions: self.unknown_actions,
            warnings: self.warnings,
            ..Snapshot::empty()
        };
        let devices = snapshot.all_devices().len();
        warn_of_devices(&mut snapshot.warnings, devices);
        Ok((snapshot, parts.last_key))
    }

    fn parts(&mut self, map: usize) -> Result<Parts, ErrorKind> {
        let mut parts = Parts::default();
        let mut others = Vec::new();
        let pairs = std::mem::take(&mut self.maps[map]);
        let last_key = pairs.last().and_then(|(key, _)| key.as_text());
        parts.last_key = last_key.map(|id| self.strings.get(id).to_owned());
        for (key, value) in pairs {
            match key.as_text() {
                // What the end of the file cut off.
                _ if value == Value::NONE => {}
                Some(keys::SEGMENTS) => parts.segments = Some(value),
                Some(keys::DEVICE_TRACES) => parts.device_traces = Some(value),
                Some(keys::ALLOCATOR_SETTINGS) => parts.settings = Some(value),
                Some(keys::EXTERNAL_ANNOTATIONS) => parts.annotations = Some(value),
                Some(keys::HOST_SEGMENTS) => parts.host_segments = Some(value),
                Some(keys::HOST_TRACES) => parts.host_traces = Some(value),
                _ => others.push((key, value)),
            }
        }
        // Other programs count their segments under the same name.
        let is_list = |value: Option<Value>| value.is_some_and(|value| value.as_node().is_some());
        let is_other = !others.is_empty() && !is_list(parts.segments) && !is_list(parts.device_traces);
        if is_other || (parts.segments.is_none() && parts.device_traces.is_none()) {
            let names: Vec<_> = others.iter().take(4).map(|&(key, _)| format!("`{}`", self.key_name(key))).collect();
            let with = if names.is_empty() { "no key".to_owned() } else { format!("the keys {}", names.join(", ")) };
            let has_one = parts.segments.is_some() || parts.device_traces.is_some();
            let form = if has_one { " as lists" } else { "" };
            return Err(ErrorKind::OtherData(format!(
                "a dict with {with} and neither `segments` nor `device_traces`{form}"
            )));
        }
        let mut room = usize::try_from(MAX_TEXT_BYTES).expect("some megabytes");
        for (key, value) in others {
            if key.as_text().is_none_or(|id| ![Snapshot::MANIFEST, Snapshot::DRIVER].contains(&self.strings.get(id))) {
                self.unknown_key("the snapshot", key, NO_OFFSET);
            }
            if parts.extras.len() < MAX_EXTRAS {
                let text = self.text_of(value, NO_OFFSET)?;
                let key = key.as_text().map_or("?", |id| self.strings.get(id));
                let text = self.strings.get(text);
                if let Some(left) = room.checked_sub(key.len() + text.len()) {
                    room = left;
                    parts.extras.push((key.to_owned(), text.to_owned()));
                }
            }
        }
        Ok(parts)
    }

    /// What a root is that is no snapshot.
    fn describe(root: Value, node: Option<Node>) -> String {
        let what = match (node, root.kind()) {
            (Some(Node::EmptyDict), _) => "an empty dict",
            (Some(Node::Entry(_) | Node::Entries(_)), _) => "trace entries alone, without the dict around them",
            (Some(Node::List(_)), _) => "a list of something else",
            (Some(Node::Pool(_)), _) => "a pair of numbers",
            (Some(_), _) => "a part of a snapshot",
            (None, Kind::Text(_)) => "a string",
            (None, Kind::Int(_) | Kind::Wide(_) | Kind::Float(_)) => "a number",
            (None, _) => "a single value",
        };
        format!("the file holds {what}, not a snapshot")
    }

    /// Names the segments that are on no device, which only pinned host memory may be.
    fn warn_of_devices(&mut self, rows: &[u32]) {
        for &row in rows {
            let device = self.segments[row as usize].device;
            if device >= 0 {
                continue;
            }
            let odd = self.odd_devices.binary_search_by_key(&row, |&(row, _)| row);
            let said = odd.map_or_else(
                |_| device.to_string(),
                |at| self.strings.get(self.odd_devices[at].1).chars().take(40).collect(),
            );
            let message =
                format!("a segment is on device `{said}`, expected a number from 0 to 2^31 - 1; it is left out");
            self.warnings.add("odd-device", message, Place::default());
        }
    }

    fn copy_segments(&self, rows: &[u32]) -> Vec<Segment> {
        rows.iter().map(|&row| self.segments[row as usize].clone()).collect()
    }

    /// The rows of a list of segments, each once.
    fn segment_rows(&mut self, value: Option<Value>, key: &str) -> Vec<u32> {
        let node = value.and_then(|value| self.node_of(value));
        match node {
            Some(Node::Segments(run)) => run.rows().collect(),
            Some(Node::List(index)) => {
                let items: Vec<_> = std::mem::take(&mut self.lists[index as usize]);
                let mut seen = rustc_hash::FxHashSet::default();
                let mut rows = Vec::new();
                for item in items {
                    match self.node_of(item) {
                        Some(Node::Segment(row)) if seen.insert(row) => rows.push(row),
                        _ => self.skip_item(key),
                    }
                }
                rows
            }
            Some(Node::EmptyList) => Vec::new(),
            None if value.is_none() => Vec::new(),
            _ => {
                self.skip_item(key);
                Vec::new()
            }
        }
    }

    pub(super) fn skip_item(&mut self, key: &str) {
        let message = format!("`{key}` holds something that does not belong there; it is left out");
        self.warnings.add("bad-item", message, Place::default());
    }

    fn take_annotations(&mut self, value: Option<Value>) -> Vec<Annotation> {
        match value.and_then(|value| self.node_of(value)) {
            Some(Node::Annotations(run)) => {
                let rows = run.rows();
                self.annotations[rows.start as usize..rows.end as usize].to_vec()
            }
            Some(Node::List(index)) => {
                let items = std::mem::take(&mut self.lists[index as usize]);
                let mut seen = rustc_hash::FxHashSet::default();
                let mut annotations = Vec::new();
                for item in items {
                    match self.node_of(item) {
                        Some(Node::Annotation(row)) if seen.insert(row) => {
                            annotations.push(self.annotations[row as usize]);
                        }
                        _ => self.skip_item("external_annotations"),
                    }
                }
                annotations
            }
            _ => Vec::new(),
        }
    }

    fn settings(&self, value: Option<Value>) -> Settings {
        let mut room = MAX_SETTINGS_BYTES;
        match value.and_then(|value| self.node_of(value)) {
            Some(Node::Map(index)) => Settings { entries: self.setting_table(index as usize, 0, &mut room) },
            _ => Settings::default(),
        }
    }

    /// Tables nest two deep in real files; what lies deeper than four, or takes more than `room`, is left out.
    fn setting_table(&self, map: usize, depth: usize, room: &mut usize) -> Vec<(String, Setting)> {
        /// What a row takes beside its text.
        const ROW_BYTES: usize = 64;
        let mut table = Vec::new();
        for &(key, value) in &self.maps[map] {
            let name = key.as_text().map_or("", |id| self.strings.get(id));
            let text = value.as_text().map_or("", |id| self.strings.get(id));
            let Some(left) = room.checked_sub(ROW_BYTES + name.len() + text.len()) else { break };
            *room = left;
            if key.as_text().is_some()
                && let Some(setting) = self.setting(value, depth, room)
            {
                table.push((name.to_owned(), setting));
            }
        }
        table
    }

    fn setting(&self, value: Value, depth: usize, room: &mut usize) -> Option<Setting> {
        const MAX_DEPTH: usize = 4;
        Some(match value.kind() {
            Kind::Bool(flag) => Setting::Bool(flag),
            Kind::Float(_) => Setting::Float(self.float_of(value)?),
            Kind::Text(id) => Setting::Text(self.strings.get(id).to_owned()),
            Kind::Node(index) => match self.nodes[index] {
                Node::Map(inner) if depth < MAX_DEPTH => {
                    Setting::Table(self.setting_table(inner as usize, depth + 1, room))
                }
                Node::Map(_) | Node::EmptyDict => Setting::Table(Vec::new()),
                _ => return None,
            },
            _ => Setting::Int(i64::try_from(self.integer_of(value)?).ok()?),
        })
    }

    /// One set of rows for each device.
    fn trace_rows(&mut self, value: Option<Value>) -> Vec<Rows> {
        match value.and_then(|value| self.node_of(value)) {
            Some(Node::List(index)) => {
                let lists = std::mem::take(&mut self.lists[index as usize]);
                warn_of_devices(&mut self.warnings, lists.len());
                lists.into_iter().take(MAX_DEVICES).map(|list| self.rows_of(list, "device_traces")).collect()
            }
            // Entries without a list for each device around them: those of one device.
            Some(Node::Entries(run)) => vec![Rows::Run(run)],
            Some(Node::EmptyList) => Vec::new(),
            None if value.is_none() => Vec::new(),
            _ => {
                self.skip_item("device_traces");
                Vec::new()
            }
        }
    }

    fn rows_of(&mut self, value: Value, key: &str) -> Rows {
        let node = self.node_of(value);
        if let Some(index) = value.as_node()
            && !matches!(node, Some(Node::EmptyList))
        {
            self.nodes[index] = Node::Taken;
        }
        match node {
            Some(Node::Entries(run)) => Rows::Run(run),
            Some(Node::List(index)) => {
                let mut rows = Vec::new();
                for item in std::mem::take(&mut self.lists[index as usize]) {
                    match self.node_of(item) {
                        Some(Node::Entry(row)) => rows.push(row),
                        _ => self.skip_item(key),
                    }
                }
                Rows::Scattered(rows)
            }
            Some(Node::EmptyList) => Rows::NONE,
            _ => {
                self.skip_item(key);
                Rows::NONE
            }
        }
    }

    /// Cuts the one table of all entries into one for each set of rows.
    fn split(&mut self, sets: &[Rows]) -> Vec<EntryTable> {
        let runs: Option<Vec<Run>> = sets.iter().map(Rows::as_run).collect();
        match runs {
            Some(runs) => self.split_runs(&runs),
            None => self.copy_rows(sets),
        }
    }

    /// The unusual case: some rows are not where the list that holds them says, so each is copied to its place, once.
    fn copy_rows(&mut self, sets: &[Rows]) -> Vec<EntryTable> {
        let whole = std::mem::take(&mut self.entries);
        let mut copied = vec![false; whole.len()];
        let mut copy = |row: u32, table: &mut EntryTable| {
            if std::mem::replace(&mut copied[row as usize], true) {
                let message = "an entry is listed more than once; only the first counts";
                self.warnings.add("repeated-rows", message, Place::default());
            } else {
                table.push_copy(&whole, EntryId::new(row));
            }
        };
        let mut tables = Vec::new();
        for set in sets {
            let mut table = EntryTable::default();
            match set {
                Rows::Run(run) => run.rows().for_each(|row| copy(row, &mut table)),
                Rows::Scattered(rows) => rows.iter().for_each(|&row| copy(row, &mut table)),
            }
            tables.push(table);
        }
        tables
    }

    /// The usual case: the table is cut where one run ends and the next begins.
    fn split_runs(&mut self, sets: &[Run]) -> Vec<EntryTable> {
        let mut whole = std::mem::take(&mut self.entries);
        let mut tables: Vec<EntryTable> = Vec::new();
        tables.resize_with(sets.len(), EntryTable::default);
        let mut runs: Vec<(usize, Run)> = sets.iter().copied().enumerate().filter(|(_, run)| run.len > 0).collect();
        runs.sort_by_key(|&(_, run)| run.start);
        for &(i, run) in runs.iter().rev() {
            let start = run.start as usize;
            if whole.len() < start + run.len as usize {
                // Overlaps the run after it: two lists name the same entries.
                if start < whole.len() {
                    tables[i] = whole.split_off(start);
                }
                let message = "two devices list the same entries; the second keeps those that are its own";
                self.warnings.add("shared-entries", message, Place::default());
                continue;
            }
            if start == 0 && run.len as usize == whole.len() {
                tables[i] = std::mem::take(&mut whole);
            } else {
                let mut table = whole.split_off(start);
                drop(table.split_off(run.len as usize));
                tables[i] = table;
            }
        }
        tables
    }
}

fn warn_of_devices(warnings: &mut Warnings, named: usize) {
    if named > MAX_DEVICES {
        let message = format!("more devices than PyTorch can tell apart: the first {MAX_DEVICES} are shown");
        warnings.add("many-devices", message, Place::default());
    }
}
