//! What the timeline shows: totals, iterations, out-of-memory events, and the capacity where it is known.

use highwater_documents::DeviceView;

use super::chart::{self, Chart};
use super::sections::{Options, by};
use crate::units::size;

/// The timeline with its marks and legend, a line a row.
pub(super) fn picture(device: &DeviceView<'_>, is_profile: bool, options: Options) -> Vec<String> {
    let wanted = chart::columns(options.width);
    let envelope = &device.envelope;
    // A short trace is stretched: every entry gets the same number of columns.
    let widen = (wanted / envelope.bytes.len().max(1)).max(1);
    let totals = envelope.bytes.iter().copied().zip(envelope.reserved_bytes.iter().copied());
    let columns: Vec<_> = totals.flat_map(|totals| std::iter::repeat_n(totals, widen)).collect();
    // More marks than that are a line that tells nothing.
    let shows_iterations = !device.iterations.is_empty() && device.iterations.len() * 2 <= columns.len();
    let starts = device.iterations.iter().filter(|_| shows_iterations);
    let mut marks: Vec<(usize, char)> = starts.map(|iteration| (iteration.start_entry, '|')).collect();
    marks.extend(device.at_peak.entry.map(|entry| (entry as usize, '▲')));
    marks.extend(device.oom.iter().map(|oom| (oom.entry as usize, '✗')));
    let (capacity_bytes, capacity_label) = capacity(device, options);
    let chart = Chart { columns: &columns, capacity_bytes, entries: device.entries, marks };
    let mut legend = vec![format!("█ {}", by(device).word())];
    if !is_profile {
        legend.push("· reserved".to_owned());
    }
    legend.push("▲ peak".to_owned());
    if shows_iterations {
        legend.push("| iteration".to_owned());
    }
    if !device.oom.is_empty() {
        legend.push("✗ out of memory".to_owned());
    }
    if chart.shows_capacity() {
        legend.push(format!("─ {capacity_label}"));
    } else if capacity_bytes.is_some() {
        legend.push(format!("{capacity_label}, far above"));
    }
    let mut lines = chart.lines();
    lines.extend(chart::legend(&legend, options.width));
    lines
}

/// The highest that could have been reserved, where somebody said so or an out-of-memory event shows it.
fn capacity(device: &DeviceView<'_>, options: Options) -> (Option<u64>, String) {
    if let Some(bytes) = options.capacity_bytes {
        return (Some(bytes), format!("capacity {}", size(bytes)));
    }
    let Some(oom) = device.oom.first() else { return (None, String::new()) };
    if oom.cause == "limit" || oom.also.contains(&"limit") {
        let bytes = oom.reserved_bytes.saturating_add(oom.segment_bytes);
        (Some(bytes), format!("limit below {}", size(bytes)))
    } else {
        (oom.available_bytes, oom.available_bytes.map_or_else(String::new, |b| format!("available {}", size(b))))
    }
}
