//! `num_alloc_retries`: how often the allocator returned its cache to the driver and tried again.
//!
//! No entry tells. An exact replay counts them, but memory that is released and then reserved for a request may as well
//! be `empty_cache()` and then the request: those two are told apart by their stacks.

use highwater_analysis::Reconstruction;
use highwater_analysis::recorded_settings::recorded_settings;
use highwater_analysis::torch_version::torch_version;
use highwater_snapshot::{Action, EntryTable, Snapshot};

use crate::replay::{Replay, Step, replay};

/// The number of retries of a whole recording, if it leaves no doubt.
pub fn alloc_retries(snapshot: &Snapshot, device: &Reconstruction<'_>) -> Option<u64> {
    if device.profile.is_some() || !device.recorded.is_whole() {
        return None;
    }
    let exact = |version| {
        let replay = replay(snapshot, device, &recorded_settings(snapshot, version));
        replay.fidelity.is_exact().then_some(replay)
    };
    let replay = torch_version(snapshot).rules().into_iter().find_map(exact)?;
    let retries = replay.statistics.as_ref()?.num_alloc_retries;
    is_certain(device.entries, &replay).then_some(retries)
}

/// Whether every request that the replay lets release memory did so: the release has the request's own stack.
fn is_certain(entries: &EntryTable, replay: &Replay) -> bool {
    let mut emptied = replay.program.steps.iter().filter_map(|step| match *step {
        Step::EmptyCache { entry } => Some(entry as usize),
        _ => None,
    });
    let mut next_emptied = emptied.next();
    let (actions, stacks) = (entries.actions(), entries.stacks());
    let mut released: Option<usize> = None;
    for (row, &action) in actions.iter().enumerate() {
        let is_emptied = next_emptied.is_some_and(|entry| entry <= row);
        match action {
            Action::SEGMENT_FREE | Action::SEGMENT_UNMAP if !is_emptied => {
                released.get_or_insert(row);
            }
            Action::ALLOC | Action::OOM | Action::FREE_REQUESTED => {
                if let Some(released) = released.take()
                    && !(stacks[row].is_recorded() && stacks[row] == stacks[released])
                {
                    return false;
                }
                while next_emptied.is_some_and(|entry| entry <= row) {
                    next_emptied = emptied.next();
                }
            }
            _ => {}
        }
    }
    true
}
