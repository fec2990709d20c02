//! The answer in one sentence.

use crate::Analysis;
use crate::device::DeviceAnalysis;
use crate::findings::{explain, place};
use crate::units::{count, percent, size};

/// One sentence on the device that matters most: one that ran out of memory, else the one with the highest peak.
pub fn verdict(analysis: &Analysis<'_>) -> String {
    let worst = analysis.devices.iter().max_by_key(|device| {
        (!device.oom.is_empty(), device.timeline.requested_peak().bytes, std::cmp::Reverse(device.device))
    });
    let Some(device) = worst else {
        return "Nothing was recorded: the snapshot has neither segments nor trace entries.".to_owned();
    };
    let others = match analysis.devices.len() - 1 {
        0 => String::new(),
        1 => " One more device is below.".to_owned(),
        n => format!(" {n} more devices are below."),
    };
    match device.oom.first() {
        Some(oom) => {
            let held = largest_site(analysis, device, Some(oom.entry));
            format!("Out of memory on device {}: {}.{held}{others}", device.device, explain(oom))
        }
        None => format!("{}{others}", peak(analysis, device)),
    }
}

fn peak(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>) -> String {
    let requested = device.timeline.requested_peak();
    let held = largest_site(analysis, device, requested.entry);
    if device.entries.len() <= 1 {
        return format!(
            "Device {} holds {} requested and {} reserved at the dump; no history was recorded.{held}",
            device.device,
            size(device.end.requested_bytes),
            size(device.end.reserved_bytes)
        );
    }
    let when = match requested.entry {
        Some(entry) => format!(
            "at entry {} of {}{}",
            count(entry.get()),
            count(device.entries.len()),
            during(analysis, device, entry)
        ),
        None => "before the first recorded entry".to_owned(),
    };
    let lower = if device.recorded.from_start { "" } else { " (at least: the recording does not hold the whole run)" };
    format!(
        "Device {} peaked at {} requested {when}, with {} reserved at most{lower}.{held}",
        device.device,
        size(requested.bytes),
        size(device.timeline.reserved_peak().bytes),
    )
}

/// ` during the backward pass of iteration 2`: what the program was doing at an entry, as far as known.
pub fn during(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>, entry: highwater_snapshot::EntryId) -> String {
    let scope = device.scopes_at(entry).last().map(|scope| analysis.snapshot.text(scope.name));
    let Some(index) = device.iterations.containing(entry) else {
        return scope.map_or_else(String::new, |name| format!(", in `{name}`"));
    };
    let phases = &device.iterations.rows[index].phases;
    match phases.iter().find(|run| run.entries.contains(&entry.index())) {
        Some(run) => format!(", in the {} phase of iteration {index}", run.phase.name()),
        None => format!(", in iteration {index}"),
    }
}

/// What holds the most, if one place stands out.
fn largest_site(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    after: Option<highwater_snapshot::EntryId>,
) -> String {
    let sites = device.live_by_site(after, &analysis.sites);
    let all = sites.iter().map(|site| site.bytes).fold(0, u64::saturating_add);
    let Some(first) = sites.first().filter(|_| all > 0) else { return String::new() };
    #[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
    let share = first.bytes as f64 / all as f64;
    format!(
        " The largest part, {} ({}), was allocated at {}.",
        size(first.bytes),
        percent(share),
        place(analysis, first.site)
    )
}
