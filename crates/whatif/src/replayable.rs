//! Which recordings can be run again, and which device of one.

use highwater_allocator::TorchVersion;
use highwater_allocator::settings::Backend;
use highwater_analysis::recorded_settings::recorded_settings;
use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_snapshot::Snapshot;

/// The device that is asked for, or else one that ran out of memory, or else the one with the most entries; `None` if it
/// has no history, and no error either.
pub fn busiest<'a, 'b>(analysis: &'b Analysis<'a>, wanted: Option<u32>) -> Option<&'b DeviceAnalysis<'a>> {
    let devices = analysis.devices.iter().filter(|device| wanted.is_none_or(|wanted| device.device == wanted));
    let busiest =
        devices.max_by_key(|device| (!device.oom.is_empty(), device.entries.len(), std::cmp::Reverse(device.device)));
    busiest.filter(|device| device.has_history() || !device.oom.is_empty())
}

/// Why a recording cannot be run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswerable {
    /// What it is, to follow its name.
    pub what: String,
    /// Why that matters.
    pub because: &'static str,
    /// What to do.
    pub hint: &'static str,
}

/// Why a recording cannot be run again, if that is so: the driver's own allocator served it, or a profiler wrote it.
pub fn unanswerable(snapshot: &Snapshot) -> Option<Unanswerable> {
    if let Some(profile) = &snapshot.profile {
        return Some(Unanswerable {
            what: format!("is {}", profile.form.name()),
            because: "it holds neither the allocator's settings nor its segments, and sizes of blocks instead of requests",
            hint: "record with `torch.cuda.memory._record_memory_history()` to simulate",
        });
    }
    by_driver(snapshot).then(|| Unanswerable {
        what: "was recorded with `backend:cudaMallocAsync`".to_owned(),
        because: "the driver's own pools served the requests: they have no blocks and no segments to predict",
        hint: "record with `backend:native` to replay",
    })
}

/// Whether the driver's own allocator served a recording: then there is nothing to run again.
pub fn is_asynchronous(analysis: &Analysis<'_>) -> bool {
    by_driver(analysis.snapshot)
}

fn by_driver(snapshot: &Snapshot) -> bool {
    recorded_settings(snapshot, TorchVersion::NEWEST).backend == Backend::CudaMallocAsync
}
