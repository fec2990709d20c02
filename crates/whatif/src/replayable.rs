//! Which recordings can be run again, and which device of one.

use highwater_allocator::TorchVersion;
use highwater_allocator::settings::Backend;
use highwater_analysis::recorded_settings::recorded_settings;
use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_problem::Problem;
use highwater_snapshot::Snapshot;

/// The device that is asked for, or else one that ran out of memory, or else the one with the most entries; `None` if it
/// has no history, and no error either.
pub fn busiest<'a, 'b>(analysis: &'b Analysis<'a>, wanted: Option<u32>) -> Option<&'b DeviceAnalysis<'a>> {
    let devices = analysis.devices.iter().filter(|device| wanted.is_none_or(|wanted| device.device == wanted));
    let busiest =
        devices.max_by_key(|device| (!device.oom.is_empty(), device.entries.len(), std::cmp::Reverse(device.device)));
    busiest.filter(|device| device.has_history() || !device.oom.is_empty())
}

/// The device of which a recording is run again: the one that [`busiest`] chooses. `name` is how messages call the snapshot.
///
/// # Errors
/// If there is nothing to run again.
pub fn replayable<'a, 'b>(
    analysis: &'b Analysis<'a>,
    name: &str,
    wanted: Option<u32>,
) -> Result<&'b DeviceAnalysis<'a>, Problem> {
    let device = busiest(analysis, wanted).ok_or_else(|| without_trace(name, "there is nothing to replay"))?;
    check_replayable(analysis.snapshot, name)?;
    Ok(device)
}

/// That a snapshot has no trace, and what follows from it.
pub fn without_trace(name: &str, consequence: &str) -> Problem {
    Problem::new(format!("{name} has no trace, so {consequence}"))
        .hint("record with `torch.cuda.memory._record_memory_history()` before the program allocates")
}

/// Refuses a recording that the driver's own allocator served, or a profiler wrote.
///
/// # Errors
/// Says what can be known of it.
pub fn check_replayable(snapshot: &Snapshot, name: &str) -> Result<(), Problem> {
    if let Some(profile) = &snapshot.profile {
        return Err(Problem::new(format!("{name} is {}: there is nothing to replay", profile.form.name()))
            .because(
                "it has neither the allocator's settings nor its segments, and the sizes of blocks instead of \
                 requests",
            )
            .hint("record with `torch.cuda.memory._record_memory_history()` to simulate"));
    }
    if is_asynchronous(snapshot) {
        return Err(Problem::new(format!("{name} was recorded with `backend:cudaMallocAsync`"))
            .because("the driver's own pools served the requests: they have no blocks and no segments to predict")
            .hint("`highwater report` shows what was requested; record with `backend:native` to replay"));
    }
    Ok(())
}

/// Whether the driver's own allocator served a recording: then there is nothing to run again.
pub fn is_asynchronous(snapshot: &Snapshot) -> bool {
    recorded_settings(snapshot, TorchVersion::NEWEST).backend == Backend::CudaMallocAsync
}
