//! Bytes of recordings and layouts, and a text form in which two snapshots can be compared.

use std::collections::HashMap;
use std::fmt::Write as _;

use highwater_snapshot::{
    Block, EntryId, EntryTable, FrameId, Layout, PoolId, Segment, Setting, Snapshot, StackId, Stage, StringId,
};
use highwater_testkit::{gunzip, recording_path, testdata};

/// The pickle of a recording, decompressed.
pub(crate) fn recording_bytes(name: &str) -> Vec<u8> {
    gunzip(&recording_path(name))
}

pub(crate) fn layout_bytes(name: &str) -> Vec<u8> {
    std::fs::read(testdata(format!("layouts/{name}"))).unwrap_or_else(|e| panic!("{name}: {e}"))
}

pub(crate) fn layout(name: &str) -> Snapshot {
    Snapshot::read(layout_bytes(name).as_slice()).unwrap()
}

pub(crate) fn pickled(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Vec::new();
    snapshot.write_pickle(&mut out).unwrap();
    out
}

pub(crate) fn as_json(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Vec::new();
    snapshot.write_json(&mut out).unwrap();
    out
}

/// Fails with the first line that differs, rather than with two long texts.
#[track_caller]
pub(crate) fn assert_same(found: &str, expected: &str, what: &str) {
    if found == expected {
        return;
    }
    for (number, (f, e)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(f, e, "{what}: line {}", number + 1);
    }
    panic!("{what}: {} lines, expected {}", found.lines().count(), expected.lines().count());
}

/// Everything that a snapshot says, one thing a line, without the numbers of rows: those depend on the order of
/// reading. `normal_form.py` makes the same text of what CPython reads.
pub(crate) fn normal_form(snapshot: &Snapshot) -> String {
    let mut form = Form { snapshot, out: String::new(), stacks: HashMap::new() };
    form.line(format_args!("layout {}", if snapshot.layout == Layout::Dict { "dict" } else { "list" }));
    form.segments("segment", &snapshot.segments);
    for (device, trace) in snapshot.traces.iter().enumerate() {
        form.trace(&format!("trace {device}"), trace);
    }
    form.settings("", &snapshot.settings.entries);
    for annotation in &snapshot.annotations {
        let stage = match annotation.stage {
            Stage::Start => "START",
            Stage::End => "END",
            Stage::Other(other) => snapshot.text(other),
        };
        let (stage, name) = (quoted(stage), form.text(annotation.name));
        let time = or_dash(annotation.time_us);
        form.line(format_args!("annotation stage={stage} name={name} device={} time={time}", annotation.device));
    }
    if let Some(host) = &snapshot.host {
        form.segments("host-segment", &host.segments);
        form.trace("host-trace", &host.trace);
    }
    for (key, value) in &snapshot.extras {
        form.line(format_args!("extra {}={}", quoted(key), quoted(value)));
    }
    form.out
}

struct Form<'a> {
    snapshot: &'a Snapshot,
    out: String,
    /// Stacks are numbered as they come, and spelled out the first time.
    stacks: HashMap<StackId, usize>,
}

impl Form<'_> {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.out, "{line}").unwrap();
    }

    fn text(&self, id: StringId) -> String {
        if id == StringId::MISSING { "-".to_owned() } else { quoted(self.snapshot.text(id)) }
    }

    fn pool(&self, id: PoolId) -> String {
        let (a, b) = self.snapshot.pool_id(id);
        if id == PoolId::MISSING { "-".to_owned() } else { format!("{a},{b}") }
    }

    fn frame(&self, id: FrameId) -> String {
        let frame = self.snapshot.frames.get(id);
        let mut text = format!("{}@{}:{}", self.text(frame.name), self.text(frame.filename), frame.line);
        for (key, value) in self.snapshot.frames.extras(id) {
            let _ = write!(text, ",{}={}", self.snapshot.text(key), self.text(value));
        }
        text
    }

    fn stack(&mut self, id: StackId) -> String {
        if !id.is_recorded() {
            return "-".to_owned();
        }
        let next = self.stacks.len();
        let number = *self.stacks.entry(id).or_insert(next);
        if number == next {
            let frames: Vec<String> = self.snapshot.stacks.get(id).iter().map(|&frame| self.frame(frame)).collect();
            self.line(format_args!("stack {number} {}", frames.join(" ")));
        }
        number.to_string()
    }

    fn segments(&mut self, word: &str, segments: &[Segment]) {
        let snapshot = self.snapshot;
        for segment in segments {
            let (stack, pool) = (self.stack(segment.stack), self.pool(segment.pool));
            let (stream, name) = (snapshot.stream_handle(segment.stream), segment.segment_type.name());
            let Segment { device, address, total_bytes, is_expandable, .. } = segment;
            self.line(format_args!(
                "{word} device={device} address={address:#x} total={total_bytes} stream={stream} type={name} pool={pool} \
                 expandable={is_expandable} stack={stack}"
            ));
            for block in snapshot.blocks_of(segment) {
                let stack = self.stack(block.stack);
                let Block { address, size_bytes, requested_bytes, state, .. } = block;
                let state = state.name();
                self.line(format_args!(
                    "  block address={address:#x} size={size_bytes} requested={requested_bytes} state={state} stack={stack}"
                ));
            }
        }
    }

    fn trace(&mut self, word: &str, trace: &EntryTable) {
        self.line(format_args!("{word} entries={}", trace.len()));
        for id in trace.ids() {
            let line = self.entry(trace, id);
            self.line(format_args!("{line}"));
        }
    }

    fn entry(&mut self, trace: &EntryTable, id: EntryId) -> String {
        let snapshot = self.snapshot;
        let entry = trace.get(id);
        let stack = self.stack(entry.stack);
        let mut line = format!(
            "  entry {} address={:#x} size={} stream={} time={} pool={} context={} metadata={} category={} stack={stack}",
            quoted(snapshot.action_name(entry.action)),
            entry.address,
            entry.size_bytes,
            snapshot.stream_handle(entry.stream),
            or_dash(entry.time_us),
            self.pool(entry.pool),
            self.text(entry.compile_context),
            self.text(entry.user_metadata),
            self.text(entry.category),
        );
        if let Some(free) = trace.device_free_bytes(id) {
            write!(line, " free={free}").unwrap();
        }
        if let Some(forward) = trace.forward_stack(id) {
            write!(line, " forward={}", self.stack(forward)).unwrap();
        }
        for (key, value) in trace.extras(id) {
            write!(line, " {}={}", self.text(key), self.text(value)).unwrap();
        }
        line
    }

    fn settings(&mut self, prefix: &str, table: &[(String, Setting)]) {
        for (key, value) in table {
            let key = format!("{prefix}{key}");
            match value {
                Setting::Bool(flag) => self.line(format_args!("setting {key} bool {flag}")),
                Setting::Int(number) => self.line(format_args!("setting {key} int {number}")),
                Setting::Float(number) => self.line(format_args!("setting {key} float {:016x}", number.to_bits())),
                Setting::Text(text) => self.line(format_args!("setting {key} text {}", quoted(text))),
                Setting::Table(inner) => {
                    self.line(format_args!("setting {key} table {}", inner.len()));
                    self.settings(&format!("{key}."), inner);
                }
            }
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn or_dash(number: Option<i64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}
