//! `highwater diff --events`: whether two runs did the very same.

use std::io::{self, Write};

use highwater_answers::diff::chosen_devices;
use highwater_documents::diff_events::{ComparisonView, EventsDiffView, StreamDiffView};
use highwater_findings::events::compare;
use highwater_snapshot::Snapshot;

use super::Args;
use crate::args::FormatToPaste;
use crate::input;
use crate::output::{to_stdout, write_json};
use crate::units::{count, counted, size};

/// Compares every file with the first.
///
/// # Errors
/// If they have no device in common.
pub(super) fn run(args: &Args, snapshots: &[Snapshot]) -> anyhow::Result<()> {
    let first = &snapshots[0];
    let mut sides = Vec::new();
    for (i, (snapshot, file)) in snapshots.iter().zip(&args.files).enumerate().skip(1) {
        let file = input::short_name(file);
        let asked = match args.device.as_deref() {
            Some(devices) if devices.len() == snapshots.len() => Some(vec![devices[0], devices[i]]),
            asked => asked.map(<[u32]>::to_vec),
        };
        let names = [input::short_name(&args.files[0]), file.clone()];
        let matching = chosen_devices(asked.as_deref(), &[first.devices(), snapshot.devices()], &names)?;
        for devices in matching {
            let devices = [devices[0], devices[1]];
            let diff = compare([first, snapshot], devices);
            sides.push(ComparisonView::new(file.clone(), devices, [first, snapshot], &diff));
        }
    }
    let name = input::short_name(&args.files[0]);
    let view = EventsDiffView::new(&name, sides);
    to_stdout(|out| match args.format {
        FormatToPaste::Json => write_json(out, &view),
        FormatToPaste::Text | FormatToPaste::Markdown => {
            view.comparisons.iter().try_for_each(|comparison| write(out, &name, comparison))
        }
    })
}

fn write(out: &mut impl Write, name: &str, comparison: &ComparisonView) -> io::Result<()> {
    let ComparisonView { file, devices, events, requests, .. } = comparison;
    let files = [name, file.as_str()];
    let [own, other] = devices;
    let device = if own == other { format!("device {own}") } else { format!("devices {own} and {other}") };
    writeln!(out, "{name} and {file}, {device}: {}", verdict(events, files, "event", "events"))?;
    if events.equal {
        return Ok(());
    }
    write_difference(out, events, files)?;
    writeln!(out, "Without segments, the program's requests: {}", verdict(requests, files, "request", "requests"))?;
    if events.continued { Ok(()) } else { write_difference(out, requests, files) }
}

fn verdict(diff: &StreamDiffView, files: [&str; 2], one: &str, many: &str) -> String {
    let behind = match diff.skipped {
        [0, 0] => String::new(),
        [at, 0] => format!(", from number {} of {} on", count(at), files[0]),
        [_, at] => format!(", from number {} of {} on", count(at), files[1]),
    };
    if diff.first_difference.is_none() {
        return format!("all {} are the same{behind}", counted(diff.equal_count, one, many));
    }
    let rest = |side: usize| diff.counts[side] - diff.skipped[side] - diff.equal_count;
    match &diff.first_difference {
        Some([None, _]) => {
            format!(
                "{} are the same{behind}; {} continues for {} more",
                counted(diff.equal_count, one, many),
                files[1],
                count(rest(1))
            )
        }
        Some([_, None]) => {
            format!(
                "{} are the same{behind}; {} continues for {} more",
                counted(diff.equal_count, one, many),
                files[0],
                count(rest(0))
            )
        }
        _ => format!(
            "{} are the same{behind}, then they differ; there are {} and {}",
            counted(diff.equal_count, one, many),
            count(diff.counts[0]),
            count(diff.counts[1])
        ),
    }
}

fn write_difference(out: &mut impl Write, diff: &StreamDiffView, files: [&str; 2]) -> io::Result<()> {
    let Some([Some(first), Some(second)]) = &diff.first_difference else { return Ok(()) };
    for (event, file) in [first, second].into_iter().zip(files) {
        writeln!(
            out,
            "  {file}: entry {}, {} of {} on stream {}",
            count(event.entry),
            event.action,
            size(event.size_bytes),
            event.stream
        )?;
    }
    Ok(())
}
