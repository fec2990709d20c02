//! The answer first: one sentence, then the largest call site.

use highwater_analysis::Analysis;
use highwater_analysis::callsite::Site;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::place::place_in;
use highwater_outside::{Recording, Timeline};
use highwater_units::{count, counted, percent, size};

use crate::explain::why;

/// The answer where no device is in the snapshot.
pub const NOTHING_RECORDED: &str = "Nothing was recorded: the snapshot has neither segments nor trace entries.";

/// The answer for the [leading](Analysis::leading) device.
///
/// One sentence says it; what follows says what the recording may lack, what holds the most, and that there is more.
pub fn verdict(analysis: &Analysis<'_>) -> String {
    let Some(device) = analysis.leading() else {
        return analysis.driver.as_ref().and_then(cards).unwrap_or_else(|| NOTHING_RECORDED.to_owned());
    };
    let held_at = device.oom.first().map_or(device.peak().entry, |oom| Some(oom.entry));
    let held = largest_site(analysis, device, held_at);
    let others = match analysis.devices.len() - 1 {
        0 => String::new(),
        1 => " One more device is below.".to_owned(),
        n => format!(" {n} more devices are below."),
    };
    match device.oom.first() {
        Some(oom) => {
            let why = why(analysis, device, oom);
            let whole = why
                .whole_step
                .map_or_else(String::new, |whole| format!(" The whole step needs {} at its peak.", whole.amount()));
            format!("Out of memory on device {}: {}.{whole}{held}{others}", device.device, why.diagnosis.text)
        }
        None => format!("{}{held}{others}", peak(analysis, device)),
    }
}

/// The answer where only the driver was recorded: the highest use of a card, and the largest part of it.
fn cards(recording: &Recording) -> Option<String> {
    let timeline = Timeline::new(recording);
    let highest = timeline.devices().max_by_key(|&device| timeline.peak(device).bytes)?;
    card(&timeline, highest)
}

/// The same of a device.
fn card(timeline: &Timeline<'_>, device: i32) -> Option<String> {
    let peak = timeline.peak(device);
    let bytes = u64::try_from(peak.bytes).ok()?;
    let largest = peak.owners.first().filter(|total| total.owner.role.counts() && total.bytes > 0)?;
    let title = largest.owner.title();
    let part = size(largest.bytes.unsigned_abs());
    Some(format!(
        "Allocations from the driver peaked at {} on device {device}. Largest owner: {title}, {part}.",
        size(bytes)
    ))
}

/// The answer for a device in one line: what failed, how much was asked for and why it was not there, or how high it peaked.
pub fn headline(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>) -> String {
    let Some(oom) = device.oom.first() else { return peak(analysis, device) };
    let free = oom.device_free_bytes.map_or_else(String::new, |free| format!(" and {} free on the GPU", size(free)));
    let more = match device.oom.len() - 1 {
        0 => String::new(),
        more => format!(" ({} more)", counted(more, "failure", "failures")),
    };
    format!(
        "Out of memory on device {} at entry {}: {} requested with {} reserved{free}; {}{more}",
        device.device,
        count(oom.entry.get()),
        size(oom.segment_bytes),
        size(oom.totals.reserved_bytes),
        why(analysis, device, oom).diagnosis.cause.in_short()
    )
}

fn peak(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>) -> String {
    let peak = device.peak();
    // Only the driver knows of it.
    if device.lifetimes.rows.is_empty()
        && let (Some(recording), Ok(ordinal)) = (&analysis.driver, i32::try_from(device.device))
        && let Some(of_card) = card(&Timeline::new(recording), ordinal)
    {
        return of_card;
    }
    if !device.has_history() {
        return format!(
            "Device {} holds {} allocated and {} reserved at the dump; no history was recorded.",
            device.device,
            size(device.end.allocated_bytes),
            size(device.end.reserved_bytes)
        );
    }
    let when = match peak.entry {
        Some(entry) => format!(
            "at entry {} of {}{}",
            count(entry.get()),
            count(device.entries.len()),
            during(analysis, device, entry)
        ),
        None => "before the first recorded entry".to_owned(),
    };
    let unseen = device.recorded.unseen().map_or_else(String::new, |unseen| format!(" {}.", capitalised(unseen)));
    // Where the sizes of blocks have bounds, the least of them is true for sure.
    let bound = if peak.at_most_bytes > peak.bytes { "no less than " } else { "" };
    let reserved = match device.profile {
        Some(_) => String::new(),
        None => format!("; its reserved memory peaked at {}", size(device.timeline.reserved_peak().bytes)),
    };
    format!(
        "Device {} peaked at {bound}{} {} {when}{reserved}.{unseen}",
        device.device,
        size(peak.bytes),
        device.by.word(),
    )
}

/// `, in the backward phase of iteration 2`: what the program was doing at an entry, as far as known.
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

/// A fragment with the first letter of a sentence. A name with capitals of its own stays: `cuBLAS`, `vLLM`.
pub fn capitalised(fragment: &str) -> String {
    let is_name = fragment.split(' ').next().is_some_and(|word| word.chars().skip(1).any(char::is_uppercase));
    let mut chars = fragment.chars();
    match chars.next() {
        Some(first) if !is_name => format!("{}{}", first.to_uppercase(), chars.as_str()),
        _ => fragment.to_owned(),
    }
}

/// A sentence on the largest call site, if it is known.
fn largest_site(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    after: Option<highwater_snapshot::EntryId>,
) -> String {
    let sites = device.counted_by_site(after, analysis.snapshot, &analysis.sites);
    let all = sites.iter().map(|site| site.bytes).fold(0, u64::saturating_add);
    let Some(first) = sites.first().filter(|_| all > 0) else { return String::new() };
    let made = match first.site {
        Site::Frame(_) | Site::Native { .. } => {
            format!("at {}", place_in(analysis.snapshot, &analysis.sites, first.site, first.stack))
        }
        Site::NoPython => "by code without a Python frame, such as autograd's threads".to_owned(),
        Site::BeforeRecording if device.has_history() => "before the recording".to_owned(),
        Site::BeforeRecording | Site::NoStack => return String::new(),
    };
    #[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
    let share = first.bytes as f64 / all as f64;
    format!(" The largest part, {} ({}), was allocated {made}.", size(first.bytes), percent(share))
}
