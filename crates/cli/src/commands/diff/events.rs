//! `highwater diff --events`: whether two runs did the very same.

use std::io::{self, Write};

use highwater_findings::events::{Event, EventsDiff, StreamDiff, compare};
use highwater_snapshot::{Action, Snapshot};
use serde::Serialize;

use super::{Args, chosen_devices};
use crate::args::Format;
use crate::input;
use crate::output::{to_stdout, write_json};
use crate::units::{count, counted, size};

/// A file beside the first, on a device of each.
struct Side<'a> {
    devices: [u32; 2],
    file: String,
    snapshot: &'a Snapshot,
    diff: EventsDiff,
}

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
            sides.push(Side { devices, file: file.clone(), snapshot, diff: compare([first, snapshot], devices) });
        }
    }
    let name = input::short_name(&args.files[0]);
    to_stdout(|out| match args.format {
        Format::Json => write_json(out, &view(&name, first, &sides)),
        Format::Text => sides.iter().try_for_each(|side| write(out, &name, first, side)),
    })
}

fn write(out: &mut impl Write, name: &str, first: &Snapshot, side: &Side<'_>) -> io::Result<()> {
    let file = &side.file;
    let files = [name, file.as_str()];
    let [own, other] = side.devices;
    let device = if own == other { format!("device {own}") } else { format!("devices {own} and {other}") };
    writeln!(out, "{name} and {file}, {device}: {}", verdict(&side.diff.events, files, "event", "events"))?;
    if side.diff.events.is_equal() {
        return Ok(());
    }
    write_difference(out, &side.diff.events, files, [first, side.snapshot])?;
    let requests = &side.diff.requests;
    writeln!(out, "Without segments, what the program asked for: {}", verdict(requests, files, "request", "requests"))?;
    if side.diff.events.is_continued() {
        Ok(())
    } else {
        write_difference(out, requests, files, [first, side.snapshot])
    }
}

fn verdict(diff: &StreamDiff, files: [&str; 2], one: &str, many: &str) -> String {
    let behind = match diff.skipped {
        [0, 0] => String::new(),
        [at, 0] => format!(", from number {} of {} on", count(at), files[0]),
        [_, at] => format!(", from number {} of {} on", count(at), files[1]),
    };
    if diff.first_difference.is_none() {
        return format!("all {} are the same{behind}", counted(diff.equal, one, many));
    }
    let rest = |side: usize| diff.counts[side] - diff.skipped[side] - diff.equal;
    match diff.first_difference {
        Some([None, _]) => {
            format!(
                "{} are the same{behind}; {} goes on for {} more",
                counted(diff.equal, one, many),
                files[1],
                count(rest(1))
            )
        }
        Some([_, None]) => {
            format!(
                "{} are the same{behind}; {} goes on for {} more",
                counted(diff.equal, one, many),
                files[0],
                count(rest(0))
            )
        }
        _ => format!(
            "{} are the same{behind}, then they differ; there are {} and {}",
            counted(diff.equal, one, many),
            count(diff.counts[0]),
            count(diff.counts[1])
        ),
    }
}

fn write_difference(
    out: &mut impl Write,
    diff: &StreamDiff,
    files: [&str; 2],
    snapshots: [&Snapshot; 2],
) -> io::Result<()> {
    let Some([Some(first), Some(second)]) = diff.first_difference else { return Ok(()) };
    for ((event, file), snapshot) in [first, second].into_iter().zip(files).zip(snapshots) {
        writeln!(
            out,
            "  {file}: entry {}, {} of {} on stream {}",
            count(event.entry.index()),
            name_of(snapshot, event.action),
            size(event.size_bytes),
            event.stream
        )?;
    }
    Ok(())
}

fn name_of(snapshot: &Snapshot, action: Action) -> String {
    snapshot.action_name(action).to_owned()
}

#[derive(Serialize)]
struct EventsDiffView {
    format: &'static str,
    version: u32,
    files: Vec<String>,
    comparisons: Vec<ComparisonView>,
}

#[derive(Serialize)]
struct ComparisonView {
    file: String,
    /// Of the first file.
    device: u32,
    /// Of the first file and of this one.
    devices: [u32; 2],
    events: StreamDiffView,
    requests: StreamDiffView,
}

#[derive(Serialize)]
struct StreamDiffView {
    equal: bool,
    /// Both are the same as far as the shorter goes.
    continued: bool,
    counts: [usize; 2],
    skipped: [usize; 2],
    equal_count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_difference: Option<[Option<EventView>; 2]>,
}

#[derive(Serialize)]
struct EventView {
    entry: usize,
    action: String,
    size_bytes: u64,
    stream: usize,
}

fn view(name: &str, first: &Snapshot, sides: &[Side<'_>]) -> EventsDiffView {
    let stream = |diff: &StreamDiff, second: &Snapshot| StreamDiffView {
        equal: diff.is_equal(),
        continued: diff.is_continued(),
        counts: diff.counts,
        skipped: diff.skipped,
        equal_count: diff.equal,
        first_difference: diff.first_difference.map(|[a, b]| [event(first, a), event(second, b)]),
    };
    let mut files = vec![name.to_owned()];
    files.extend(sides.iter().map(|side| side.file.clone()));
    files.dedup();
    EventsDiffView {
        format: "highwater-diff-events",
        version: 1,
        files,
        comparisons: sides
            .iter()
            .map(|side| ComparisonView {
                file: side.file.clone(),
                device: side.devices[0],
                devices: side.devices,
                events: stream(&side.diff.events, side.snapshot),
                requests: stream(&side.diff.requests, side.snapshot),
            })
            .collect(),
    }
}

fn event(snapshot: &Snapshot, event: Option<Event>) -> Option<EventView> {
    event.map(|event| EventView {
        entry: event.entry.index(),
        action: name_of(snapshot, event.action),
        size_bytes: event.size_bytes,
        stream: event.stream,
    })
}
