//! The entries without a lifetime, and the time of every entry.

use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::lifetime::number;
use highwater_snapshot::{Action, EntryId, Snapshot};

use super::lifetimes::stack_row;
use super::section::{Section, double};

/// The `alloc` of a row: the row that starts here.
const ALLOC: u8 = 1;
/// The `free_completed` of a row: the row that ends here.
const END: u8 = 1 << 1;
/// Another row, or one more, ends here too.
const FOREIGN_END: u8 = 1 << 2;
/// The `free_requested` of a row that awaits its free for longer.
const PENDING: u8 = 1 << 3;
/// The `free_requested` of the row that ends with the next entry.
const REQUEST: u8 = 1 << 4;

/// Every entry that cannot be told from the lifetimes, as the page looks it up there.
///
/// Those are the entries about segments, errors and texts, and of a file that contradicts itself those about blocks that
/// change nothing.
pub(super) fn others(snapshot: &Snapshot, device: &DeviceAnalysis<'_>) -> Vec<(&'static str, Section)> {
    let entries = device.entries;
    let told = told(device);
    let is_told = |row: usize| {
        let flags = told[row];
        let ends = flags & (END | FOREIGN_END);
        flags & ALLOC != 0
            || ends == END
            || ends == 0 && flags & PENDING != 0
            || ends == 0
                && flags & REQUEST != 0
                && told.get(row + 1).is_some_and(|next| next & (END | FOREIGN_END) == END)
    };
    let rows: Vec<u32> = (0..entries.len()).filter(|&row| !is_told(row)).map(number).collect();
    let column = |of: &dyn Fn(usize) -> u32| {
        let values: Vec<u32> = rows.iter().map(|&row| of(row as usize)).collect();
        Section::of_u32(&values)
    };
    let doubles = |of: &dyn Fn(usize) -> f64| {
        let values: Vec<f64> = rows.iter().map(|&row| of(row as usize)).collect();
        Section::of_doubles(&values)
    };
    let actions = entries.actions();
    vec![
        ("other_entry", Section::of_u32(&rows)),
        ("other_action", column(&|row| actions[row].code().into())),
        ("other_address", doubles(&|row| double(entries.addresses()[row]))),
        ("other_size", doubles(&|row| double(entries.sizes_bytes()[row]))),
        ("other_stack", column(&|row| stack_row(snapshot, entries.stacks()[row], false))),
        ("other_free", doubles(&|row| entries.device_free_bytes(EntryId::from_index(row)).map_or(-1.0, double))),
    ]
}

/// The lifetime of each entry.
fn told(device: &DeviceAnalysis<'_>) -> Vec<u8> {
    let entries = device.entries;
    let (actions, addresses) = (entries.actions(), entries.addresses());
    let mut told = vec![0_u8; entries.len()];
    let mut awaits_from_before = false;
    for lifetime in &device.lifetimes.rows {
        if let Some(entry) = lifetime.alloc() {
            told[entry.index()] |= ALLOC;
        }
        let end = lifetime.free_completed();
        if let Some(end) = end {
            let end = end.index();
            let is_own = actions[end] == Action::FREE_COMPLETED && addresses[end] == lifetime.address;
            told[end] |= if is_own && told[end] & END == 0 { END } else { FOREIGN_END };
        }
        if let Some(requested) = lifetime.free_requested() {
            let is_next = end.is_some_and(|end| end.index() == requested.index() + 1);
            let is_over = end.is_some_and(|end| end <= requested);
            if !is_over {
                told[requested.index()] |= if is_next { REQUEST } else { PENDING };
            }
        }
        awaits_from_before |= lifetime.awaits_free_at_start();
    }
    for &entry in &device.lifetimes.void_entries {
        told[entry as usize] |= FOREIGN_END;
    }
    // What was freed before the recording is told to await its free from entry 0 on.
    if awaits_from_before && let Some(first) = told.first_mut() {
        *first &= !(PENDING | REQUEST);
    }
    told
}

/// Microseconds of every entry since the first that has a time, never falling, and the first and the last time.
///
/// Times rise with few exceptions, which a running maximum irons out.
pub(super) fn times(device: &DeviceAnalysis<'_>) -> Option<(Section, [i64; 2])> {
    let (first, times) = times_of(device)?;
    let times: Vec<u64> = times.collect();
    let last = times.last().map_or(first, |&last| first.saturating_add_unsigned(last));
    Some((Section::of(&times), [first, last]))
}

/// The first time, and microseconds from it to every entry.
pub(super) fn times_of<'a>(device: &DeviceAnalysis<'a>) -> Option<(i64, impl Iterator<Item = u64> + use<'a>)> {
    let entries = device.entries;
    let first = entries.ids().find_map(|id| entries.time_us(id))?;
    let mut latest = first;
    let times = entries.ids().map(move |id| {
        latest = entries.time_us(id).map_or(latest, |time| time.max(latest));
        latest.abs_diff(first)
    });
    Some((first, times))
}
