//! Free memory that belongs to another stream than the one that asks.

use highwater_analysis::initial::Source;
use highwater_analysis::lifetime::Lifetime;
use highwater_snapshot::{Action, EntryId, StreamId};
use highwater_units::{count, percent_of, size};
use rustc_hash::FxHashMap;

use super::{Evidence, Finding, Severity};

/// Less is not worth a word.
const WORTH_BYTES: u64 = 256 << 20;

/// Nor is less than this share of what is reserved, in percent.
const WORTH_PERCENT: u64 = 10;

/// What a stream has, in bytes.
#[derive(Clone, Copy, Default)]
struct Held {
    reserved: u64,
    active: u64,
}

impl Held {
    fn free(self) -> u64 {
        self.reserved.saturating_sub(self.active)
    }
}

/// One finding, where reserved memory peaks: a stream had more memory reserved while others had enough of it free.
pub(super) fn free_on_another(evidence: &Evidence<'_>) -> Option<Finding> {
    let device = evidence.device;
    let peak = device.timeline.reserved_peak();
    let entry = peak.entry?;
    let entries = device.entries;
    if !matches!(entries.actions()[entry.index()], Action::SEGMENT_ALLOC | Action::SEGMENT_MAP) {
        return None;
    }
    let asking = Source::of_entry(entries, entry.index());
    let held = held_at(evidence, entry);
    let (&stream, idle) = held
        .iter()
        .filter(|(stream, _)| **stream != asking.stream)
        .max_by_key(|(stream, held)| (held.free(), std::cmp::Reverse(**stream)))?;
    let free = idle.free();
    if free < WORTH_BYTES || free < peak.bytes / 100 * WORTH_PERCENT {
        return None;
    }
    let (idle_name, asking_name) = (name(evidence, stream), name(evidence, asking.stream));
    let title = format!("{} is free on {idle_name} while {asking_name} reserves more", size(free));
    let detail = format!(
        "at entry {}, where {} is reserved, {idle_name} has {} of it and uses {}: no other stream can use {} of the \
         reserved memory; allocated on it in all: {}",
        count(entry.index()),
        size(peak.bytes),
        size(idle.reserved),
        size(idle.active),
        percent_of(free, peak.bytes),
        evidence.places(made_on(evidence, stream).map(|lifetime| (evidence.site(lifetime), evidence.bytes(lifetime))))
    );
    Some(Finding::new("idle-stream", Severity::Warning, title, detail).saves_about(free).change(
        "allocate on one stream and only copy on the other: create the tensors outside `with torch.cuda.stream(…)`, \
         copy into them inside it, and call `tensor.record_stream(…)`",
    ))
}

/// What every stream has after an entry.
fn held_at(evidence: &Evidence<'_>, entry: EntryId) -> FxHashMap<StreamId, Held> {
    let device = evidence.device;
    let mut held: FxHashMap<StreamId, Held> = FxHashMap::default();
    for run in &device.segments_before {
        let of = held.entry(run.source.stream).or_default();
        of.reserved = of.reserved.saturating_add(run.bytes);
    }
    let entries = device.entries;
    for row in 0..=entry.index() {
        let of = held.entry(entries.streams()[row]).or_default();
        let bytes = entries.sizes_bytes()[row];
        match entries.actions()[row] {
            Action::SEGMENT_ALLOC | Action::SEGMENT_MAP => of.reserved = of.reserved.saturating_add(bytes),
            Action::SEGMENT_FREE | Action::SEGMENT_UNMAP => of.reserved = of.reserved.saturating_sub(bytes),
            _ => {}
        }
    }
    for lifetime in device.live(Some(entry)) {
        let of = held.entry(lifetime.stream).or_default();
        of.active = of.active.saturating_add(evidence.bytes(lifetime));
    }
    held
}

/// The blocks of a stream that were allocated in the recording.
fn made_on<'a>(evidence: &Evidence<'a>, stream: StreamId) -> impl Iterator<Item = &'a Lifetime> {
    let of_stream = move |lifetime: &&Lifetime| lifetime.stream == stream && lifetime.alloc().is_some();
    evidence.rows().map(|(_, lifetime)| lifetime).filter(of_stream)
}

/// A stream in words: the default one by name, others by their handle.
fn name(evidence: &Evidence<'_>, stream: StreamId) -> String {
    if stream == StreamId::DEFAULT {
        return "the default stream".to_owned();
    }
    format!("stream {:#x}", evidence.analysis.snapshot.stream_handle(stream))
}
