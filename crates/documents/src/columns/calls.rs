//! Devices of which only the driver's recording knows: its calls become their entries, for a page needs an axis.

use std::collections::HashMap;

use highwater_outside::{Event, Kind, Line, Recording, Role, Timeline};
use highwater_snapshot::{Action, Entry, EntryTable, Frame, PoolId, Snapshot, StackId, StreamId, StringId};

/// Devices that PyTorch can tell apart.
const MAX_DEVICES: i32 = 128;

/// The snapshot with the driver's calls as entries of the devices that PyTorch's history does not have; `None` if there is none.
///
/// What the driver gave PyTorch's allocator is a segment, as it is in a history of PyTorch's; every other call has a name of its own and
/// changes nothing that PyTorch counts.
pub fn with_calls(snapshot: &Snapshot) -> Option<Snapshot> {
    let recording = Recording::from_json(snapshot.extra(Snapshot::DRIVER)?).ok()?;
    let timeline = Timeline::new(&recording);
    let known = snapshot.devices();
    let ordinal = |device: i32| u32::try_from(device).ok().filter(|_| device < MAX_DEVICES);
    let lacking: Vec<u32> = timeline.devices().filter_map(ordinal).filter(|device| !known.contains(device)).collect();
    if lacking.is_empty() {
        return None;
    }
    let mut placing = Placing { snapshot: snapshot.clone(), recording: &recording, stacks: HashMap::new() };
    for device in lacking {
        let table = placing.table(device, &timeline);
        let traces = &mut placing.snapshot.traces;
        let row = device as usize;
        traces.resize_with(traces.len().max(row + 1), EntryTable::default);
        traces[row] = table;
    }
    Some(placing.snapshot)
}

struct Placing<'r> {
    snapshot: Snapshot,
    recording: &'r Recording,
    /// Rows in the snapshot of the recording's native and Python stacks.
    stacks: HashMap<(u32, u32), StackId>,
}

impl Placing<'_> {
    fn table(&mut self, device: u32, timeline: &Timeline<'_>) -> EntryTable {
        let mut table = EntryTable::default();
        let mut segments: HashMap<u64, u64> = HashMap::new();
        let nothing = self.snapshot.strings.intern("");
        for (event, owner) in timeline.events().filter(|(event, _)| u32::try_from(event.device) == Ok(device)) {
            let is_segment = owner.role == Role::Pytorch && event.kind == Kind::Device;
            let (action, size_bytes) = if is_segment {
                let bytes = event.bytes.unsigned_abs();
                segments.insert(event.address, bytes);
                (Action::SEGMENT_ALLOC, bytes)
            } else if event.kind == Kind::Free
                && let Some(bytes) = segments.remove(&event.address)
            {
                (Action::SEGMENT_FREE, bytes)
            } else {
                (self.snapshot.action_named(&format!("driver: {}", event.kind.name())), event.bytes.unsigned_abs())
            };
            table.push(Entry {
                action,
                address: event.address,
                size_bytes,
                stream: StreamId::from_index(0),
                time_us: i64::try_from(event.time_ns / 1000).ok(),
                stack: self.stack(event),
                pool: PoolId::MISSING,
                compile_context: nothing,
                user_metadata: nothing,
                category: nothing,
            });
        }
        table
    }

    /// The native frames, and then those of Python, innermost first.
    fn stack(&mut self, event: &Event) -> StackId {
        let key = (event.stack, event.python);
        if let Some(&known) = self.stacks.get(&key) {
            return known;
        }
        let native = self.recording.native(event).map(|(library, function)| (library, 0, function));
        let python = self.recording.python(event).map_or(&[][..], |stack| &stack.frames);
        let python = python.iter().map(|Line(file, line, name)| (file.as_str(), u64::from(*line), name.as_str()));
        let frames: Vec<(&str, u64, &str)> = native.chain(python).collect();
        let Snapshot { strings, frames: table, stacks, .. } = &mut self.snapshot;
        let mut text = |text: &str| -> StringId { strings.intern(text) };
        let frames: Vec<_> = frames
            .into_iter()
            .map(|(file, line, name)| table.intern(Frame { name: text(name), filename: text(file), line }))
            .collect();
        let stack = if frames.is_empty() { StackId::MISSING } else { stacks.intern(&frames) };
        self.stacks.insert(key, stack);
        stack
    }
}
