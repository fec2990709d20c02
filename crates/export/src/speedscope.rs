//! The file format of <https://www.speedscope.app>: what is live at a moment, as a profile weighted by bytes.
//!
//! # Source
//! speedscope 1.22, `src/lib/file-format-spec.ts`.

use std::io::{self, Write};

use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_answers::moment::{Holding, Moment};
use highwater_output::sink;
use highwater_snapshot::Snapshot;
use serde::Serialize;

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    #[serde(rename = "activeProfileIndex")]
    active_profile: u32,
    shared: Shared<'a>,
    profiles: Vec<Profile>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
}

#[derive(Serialize)]
struct Profile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    #[serde(rename = "startValue")]
    start: u64,
    #[serde(rename = "endValue")]
    end: u64,
    /// Frames by their index in [`Shared`], outermost first.
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

/// Writes a profile for each device.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, analysis: &Analysis, devices: &[u32], moment: Moment) -> io::Result<()> {
    let mut frames = frames(analysis.snapshot);
    let profiles = devices
        .iter()
        .filter_map(|&device| analysis.device(device))
        .map(|device| profile(analysis, device, moment, &mut frames))
        .collect();
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: concat!("highwater ", env!("CARGO_PKG_VERSION")),
        active_profile: 0,
        shared: Shared { frames },
        profiles,
    };
    sink::write_json(out, &file)
}

/// Every frame of the snapshot, under its own index.
fn frames(snapshot: &Snapshot) -> Vec<Frame<'_>> {
    let frame = |frame: highwater_snapshot::Frame| Frame {
        name: snapshot.text(frame.name),
        file: Some(snapshot.text(frame.filename)).filter(|file| !matches!(*file, "" | "??")),
        line: Some(frame.line).filter(|line| !matches!(line, 0 | &u64::MAX)),
    };
    snapshot.frames.iter().map(|(_, row)| frame(row)).collect()
}

fn profile(analysis: &Analysis, device: &DeviceAnalysis, moment: Moment, frames: &mut Vec<Frame<'_>>) -> Profile {
    let holdings = moment.holdings(analysis, device);
    let mut sample = |holding: &Holding| {
        let stack = analysis.snapshot.stacks.get(holding.stack).iter().rev().map(|frame| frame.index());
        stack.chain(holding.label.map(|label| index_of(label, frames))).collect()
    };
    Profile {
        kind: "sampled",
        name: format!("device {}: {}", device.device, moment.describe(device)),
        unit: "bytes",
        start: 0,
        end: holdings.iter().fold(0, |sum, holding| sum.saturating_add(holding.bytes)),
        samples: holdings.iter().map(&mut sample).collect(),
        weights: holdings.iter().map(|holding| holding.bytes).collect(),
    }
}

/// The index of the frame that a label stands in for, added if it is new.
fn index_of(label: &'static str, frames: &mut Vec<Frame<'_>>) -> usize {
    // Labels come after the snapshot's frames and are few.
    frames.iter().rposition(|frame| frame.name == label && frame.file.is_none()).unwrap_or_else(|| {
        frames.push(Frame { name: label, file: None, line: None });
        frames.len() - 1
    })
}
