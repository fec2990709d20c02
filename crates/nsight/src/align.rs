//! Two clocks of one run: PyTorch's and the profiler's.

use highwater_outside::{Kind, PYTORCHS_ALLOCATOR, Recording, Site};
use highwater_snapshot::{Action, Snapshot};
use rustc_hash::FxHashMap;

use crate::ADDRESS_BITS;

/// Sets a recording's clock to that of a snapshot, and says which of its allocations are PyTorch's segments.
///
/// A segment that both know has one address and size in both; an address may be given out again, so the first goes with the first. The
/// difference of the clocks is the median over all pairs, in nanoseconds. `None` if there is no pair.
pub(crate) fn align(recording: &mut Recording, snapshot: &Snapshot) -> Option<i64> {
    let mut segments: FxHashMap<(i32, u64, u64), Vec<Option<i64>>> = FxHashMap::default();
    for (device, trace) in (0..).zip(&snapshot.traces) {
        for id in trace.ids().filter(|id| trace.actions()[id.index()] == Action::SEGMENT_ALLOC) {
            let entry = trace.get(id);
            segments.entry((device, entry.address, entry.size_bytes)).or_default().push(trace.time_us(id));
        }
    }
    // Segments that live at the dump may be older than the trace.
    for segment in &snapshot.segments {
        segments.entry((segment.device, segment.address, segment.total_bytes)).or_insert_with(|| vec![None]);
    }
    let mut found: FxHashMap<(i32, u64, u64), usize> = FxHashMap::default();
    let mut pairs = Vec::new();
    let mut differences = Vec::new();
    for (row, event) in recording.events.iter().enumerate().filter(|(_, event)| event.kind == Kind::Device) {
        let key = (event.device, event.address & ((1 << ADDRESS_BITS) - 1), event.bytes.unsigned_abs());
        let Some(times) = segments.get(&key) else { continue };
        let nth = found.entry(key).or_insert(0);
        pairs.push(row);
        if let Some(Some(time_us)) = times.get(*nth) {
            differences.push(time_us.saturating_mul(1000).saturating_sub(event.time_ns.cast_signed()));
        }
        *nth += 1;
    }
    if pairs.is_empty() {
        return None;
    }
    differences.sort_unstable();
    let difference = differences.get(differences.len() / 2).copied().unwrap_or(0);
    for event in &mut recording.events {
        event.time_ns = event.time_ns.wrapping_add_signed(difference);
    }
    let about = &mut recording.about;
    let of_work = about.work.iter_mut().map(|work| &mut work.last_ns);
    let of_touches = about.touches.iter_mut().flat_map(|touch| [&mut touch.made_ns, &mut touch.last_ns]);
    for time_ns in of_work.chain(of_touches).chain([&mut about.started_ns, &mut about.ended_ns]) {
        *time_ns = time_ns.wrapping_add_signed(difference);
    }
    about.libraries.push(PYTORCHS_ALLOCATOR.to_owned());
    about.names.resize(about.libraries.len(), String::new());
    let library = u32::try_from(about.libraries.len() - 1).ok()?;
    about.stacks.push(vec![Site(library, String::new())]);
    let stack = u32::try_from(about.stacks.len() - 1).ok()?;
    for row in pairs {
        recording.events[row].stack = stack;
    }
    Some(difference)
}
