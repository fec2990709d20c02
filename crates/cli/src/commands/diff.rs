//! `highwater diff`: what changed from one recording to another.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use highwater_analysis::diff::{DeviceDiff, Moment, SettingDiff, SiteDiff, devices, settings};
use highwater_analysis::view::{FrameView, SettingView};
use highwater_analysis::{Analysis, analyse};
use highwater_snapshot::{EntryId, Snapshot};

use crate::args::Format;
use crate::error::Problem;
use crate::frames;
use crate::input;
use crate::output::{to_stdout, write_json};
use crate::printable::printable;
use crate::table::{Align, Table, terminal_width};
use crate::units::{count, size};

/// The options of `highwater diff`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  highwater diff before.pickle after.pickle
  highwater diff first.pickle second.pickle --at end     two dumps of one process: what grew between them
  highwater diff batch8.pickle batch16.pickle --at iteration:2")]
pub(crate) struct Args {
    /// The snapshots: each is compared with the first
    #[arg(num_args = 2.., required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// When to compare: `peak`, `end`, or `iteration:N` for the peak of one [default: end for two dumps of one process,
    /// else peak]
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    at: Option<Moment>,
    /// Only this device
    #[arg(long, value_name = "N")]
    device: Option<u32>,
    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Args {
    /// The names of the files, without their directories.
    fn short_names(&self) -> Vec<String> {
        self.files.iter().map(|file| input::short_name(file)).collect()
    }
}

/// When to compare, as it is said on the command line.
pub(crate) fn moment(text: &str) -> Result<Moment, &'static str> {
    match text {
        "peak" => Ok(Moment::Peak),
        "end" => Ok(Moment::End),
        _ => text
            .strip_prefix("iteration:")
            .and_then(|number| number.parse().ok())
            .map(Moment::Iteration)
            .ok_or("expected `peak`, `end` or `iteration:N`"),
    }
}

/// Reads all, compares, prints.
///
/// # Errors
/// If a snapshot cannot be read, or they have no device in common.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let snapshots = args.files.iter().map(|file| input::read_snapshot(file)).collect::<Result<Vec<Snapshot>, _>>()?;
    let analyses: Vec<Analysis<'_>> = snapshots.iter().map(analyse).collect();
    let names: Vec<String> = args.files.iter().map(|file| input::name(file)).collect();
    let diffs = compared(&names, &analyses, args.at, args.device)?;
    let settings = settings(&analyses);
    match args.format {
        Format::Json => to_stdout(|out| write_json(out, &view(args.short_names(), &analyses, &diffs, &settings)))?,
        Format::Text => to_stdout(|out| text(out, args, &analyses, &diffs, &settings))?,
    }
    analyses.iter().try_for_each(crate::warnings::print_all).context("cannot write to standard error")
}

/// Compares recordings, which messages call by `names`.
///
/// # Errors
/// If they have no such device in common, or one of them has no such iteration.
pub(crate) fn compared<'a>(
    names: &[String],
    analyses: &'a [Analysis<'a>],
    at: Option<Moment>,
    device: Option<u32>,
) -> Result<Vec<(Moment, DeviceDiff<'a>)>, Problem> {
    if let Some(Moment::Iteration(number)) = at {
        check_iteration(names, analyses, device, number)?;
    }
    let mut diffs = devices(analyses, at);
    diffs.retain(|(_, diff)| device.is_none_or(|wanted| diff.device == wanted));
    if diffs.is_empty() { Err(none_in_common(names, analyses)) } else { Ok(diffs) }
}

/// Says if a recording ends before the iteration that is asked for.
fn check_iteration(
    names: &[String],
    analyses: &[Analysis<'_>],
    wanted: Option<u32>,
    number: usize,
) -> Result<(), Problem> {
    for (name, analysis) in names.iter().zip(analyses) {
        let asked = analysis.devices.iter().filter(|device| wanted.is_none_or(|wanted| device.device == wanted));
        for device in asked {
            let there = device.iterations.rows.len();
            if number >= there {
                let what = format!("{name} has no iteration {number} on device {}", device.device);
                return Err(Problem::new(what).hint(match there {
                    0 => "no iterations were found in it; compare at `peak` or `end`".to_owned(),
                    _ => format!("it has iterations 0 to {}", there - 1),
                }));
            }
        }
    }
    Ok(())
}

fn none_in_common(names: &[String], analyses: &[Analysis<'_>]) -> Problem {
    let has: Vec<String> = names
        .iter()
        .zip(analyses)
        .map(|(name, analysis)| {
            let devices: Vec<String> = analysis.snapshot.devices().iter().map(ToString::to_string).collect();
            format!("{name} has {}", if devices.is_empty() { "none".to_owned() } else { devices.join(", ") })
        })
        .collect();
    Problem::new("the snapshots have no such device in common").because(has.join("; "))
}

/// How a file is called in the tables: A, B, C, …
fn letter(i: usize) -> String {
    match u8::try_from(i) {
        Ok(i) if i < 26 => char::from(b'A' + i).to_string(),
        _ => format!("#{}", i + 1),
    }
}

fn text(
    out: &mut impl Write,
    args: &Args,
    analyses: &[Analysis<'_>],
    diffs: &[(Moment, DeviceDiff<'_>)],
    settings: &[SettingDiff<'_>],
) -> io::Result<()> {
    for (i, file) in args.files.iter().enumerate() {
        writeln!(out, "{}  {}", letter(i), input::short_name(file))?;
    }
    for (at, diff) in diffs {
        writeln!(out, "\nDevice {}, {}", diff.device, when(*at, diff))?;
        totals_table(*at, diff).write(out, terminal_width())?;
        sites_table(args, analyses, diff, out)?;
    }
    if !settings.is_empty() {
        writeln!(out, "\nSettings that differ")?;
        for setting in settings {
            let values: Vec<String> = setting.values.iter().map(|value| shown(*value)).collect();
            writeln!(out, "  {}: {}", printable(&setting.key), values.join(" → "))?;
        }
    }
    Ok(())
}

fn when(at: Moment, diff: &DeviceDiff<'_>) -> String {
    let moment = match at {
        Moment::Peak => "each at its peak".to_owned(),
        Moment::End => "each at its dump".to_owned(),
        Moment::Iteration(number) => format!("each at the peak of iteration {number}"),
    };
    match diff.later_by {
        Some(entries) => format!("{moment}: two dumps of one process, {} entries apart", count(entries)),
        None => moment,
    }
}

fn totals_table(at: Moment, diff: &DeviceDiff<'_>) -> Table {
    let mut table = Table::new([
        ("", Align::Left),
        ("A", Align::Right),
        (if diff.sides.len() == 2 { "B" } else { "last" }, Align::Right),
        ("change", Align::Right),
    ])
    .indented(2);
    let (first, last) = (&diff.sides[0], &diff.sides[diff.sides.len() - 1]);
    let mut row = |what: &str, a: u64, b: u64| table.row([what.to_owned(), size(a), size(b), change(a, b)]);
    row("peak requested", first.peak.requested_bytes, last.peak.requested_bytes);
    row("peak allocated", first.peak.allocated_bytes, last.peak.allocated_bytes);
    row("peak reserved", first.peak.reserved_bytes, last.peak.reserved_bytes);
    if at != Moment::Peak {
        row("allocated then", first.totals.allocated_bytes, last.totals.allocated_bytes);
        row("reserved then", first.totals.reserved_bytes, last.totals.reserved_bytes);
    }
    if at != Moment::End {
        row("allocated at the dump", first.end.allocated_bytes, last.end.allocated_bytes);
    }
    table
}

fn sites_table(args: &Args, analyses: &[Analysis<'_>], diff: &DeviceDiff<'_>, out: &mut impl Write) -> io::Result<()> {
    let changed: Vec<&SiteDiff<'_>> = diff.sites.iter().filter(|site| site.change_bytes() != 0).collect();
    if changed.is_empty() {
        return writeln!(out, "  no call site changed");
    }
    let mut table = Table::new([
        ("change", Align::Right),
        ("A", Align::Right),
        (if diff.sides.len() == 2 { "B" } else { "last" }, Align::Right),
        ("count", Align::Right),
        ("where", Align::Left),
    ])
    .indented(2);
    for site in changed.iter().take(args.top) {
        let last = site.bytes.len() - 1;
        table.row([
            signed(site.change_bytes()),
            size(site.bytes[0]),
            size(site.bytes[last]),
            format!("{} → {}", count(site.count[0]), count(site.count[last])),
            place(analyses, site),
        ]);
    }
    writeln!(out)?;
    table.write(out, terminal_width())?;
    if changed.len() > args.top {
        let rest = changed.len() - args.top;
        writeln!(out, "  … and {} call sites more; `--top {}` shows all", count(rest), changed.len())?;
    }
    Ok(())
}

fn place(analyses: &[Analysis<'_>], site: &SiteDiff<'_>) -> String {
    if let Some(label) = site.site.label {
        return label.to_owned();
    }
    let own = frames::short_of(site.site.file, site.site.name, site.site.line);
    let callers = shown_frames(analyses, site);
    match callers.get(1) {
        Some(caller) => format!("{own} ← {}", frames::short_of(caller.filename, caller.name, caller.line)),
        None => own,
    }
}

fn shown_frames<'a>(analyses: &'a [Analysis<'_>], site: &SiteDiff<'_>) -> Vec<FrameView<'a>> {
    let (file, stack) = site.stack;
    let holder = &analyses[file];
    let shown = holder.sites.shown_frames(holder.snapshot, stack);
    shown.into_iter().map(|frame| FrameView::new(holder.snapshot, frame)).collect()
}

/// `+14.90 GiB  +52 %`.
fn change(a: u64, b: u64) -> String {
    let by = i128::from(b) - i128::from(a);
    if by == 0 {
        return "none".to_owned();
    }
    if a == 0 {
        return signed(by);
    }
    #[expect(clippy::cast_precision_loss, reason = "a ratio of bytes, for showing")]
    let percent = by as f64 / a as f64 * 100.0;
    format!("{}  {percent:+.1} %", signed(by))
}

fn signed(bytes: i128) -> String {
    let size = size(u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX));
    if bytes < 0 { format!("-{size}") } else { format!("+{size}") }
}

fn shown(value: Option<&highwater_snapshot::Setting>) -> String {
    let json = value.map(|value| serde_json::to_string(&SettingView(value)).unwrap_or_default());
    json.map_or_else(|| "not recorded".to_owned(), |json| printable(&json).into_owned())
}

/// `highwater-diff`.
#[derive(serde::Serialize)]
pub(crate) struct DiffView<'a> {
    format: &'static str,
    version: u32,
    files: Vec<String>,
    devices: Vec<DeviceDiffView<'a>>,
    settings: Vec<SettingDiffView<'a>>,
}

#[derive(serde::Serialize)]
struct DeviceDiffView<'a> {
    device: u32,
    /// `peak`, `end` or `iteration`.
    at: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    iteration: Option<usize>,
    /// Two dumps of one process: the last goes on for so many entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    later_by_entries: Option<usize>,
    /// One for each file.
    sides: Vec<SideView>,
    call_sites: Vec<SiteDiffView<'a>>,
}

#[derive(serde::Serialize)]
struct SideView {
    entry: Option<u32>,
    requested_bytes: u64,
    allocated_bytes: u64,
    reserved_bytes: u64,
    peak_requested_bytes: u64,
    peak_allocated_bytes: u64,
    peak_reserved_bytes: u64,
    end_allocated_bytes: u64,
    iterations: usize,
}

#[derive(serde::Serialize)]
struct SiteDiffView<'a> {
    /// From the first file to the last.
    change_bytes: i128,
    /// One for each file, as are the counts.
    bytes: Vec<u64>,
    count: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'static str>,
    frames: Vec<FrameView<'a>>,
}

#[derive(serde::Serialize)]
struct SettingDiffView<'a> {
    key: &'a str,
    values: Vec<Option<SettingView<'a>>>,
}

/// The document for programs; `files` are the names of the recordings.
pub(crate) fn view<'a>(
    files: Vec<String>,
    analyses: &'a [Analysis<'_>],
    diffs: &'a [(Moment, DeviceDiff<'_>)],
    settings: &'a [SettingDiff<'_>],
) -> DiffView<'a> {
    let devices = diffs.iter().map(|(at, diff)| DeviceDiffView {
        device: diff.device,
        at: match at {
            Moment::Peak => "peak",
            Moment::End => "end",
            Moment::Iteration(_) => "iteration",
        },
        iteration: if let Moment::Iteration(number) = at { Some(*number) } else { None },
        later_by_entries: diff.later_by,
        sides: diff
            .sides
            .iter()
            .map(|side| SideView {
                entry: side.entry.map(EntryId::get),
                requested_bytes: side.totals.requested_bytes,
                allocated_bytes: side.totals.allocated_bytes,
                reserved_bytes: side.totals.reserved_bytes,
                peak_requested_bytes: side.peak.requested_bytes,
                peak_allocated_bytes: side.peak.allocated_bytes,
                peak_reserved_bytes: side.peak.reserved_bytes,
                end_allocated_bytes: side.end.allocated_bytes,
                iterations: side.iterations,
            })
            .collect(),
        call_sites: diff
            .sites
            .iter()
            .map(|site| SiteDiffView {
                change_bytes: site.change_bytes(),
                bytes: site.bytes.clone(),
                count: site.count.clone(),
                label: site.site.label,
                frames: shown_frames(analyses, site),
            })
            .collect(),
    });
    DiffView {
        format: "highwater-diff",
        version: 1,
        files,
        devices: devices.collect(),
        settings: settings
            .iter()
            .map(|setting| SettingDiffView {
                key: &setting.key,
                values: setting.values.iter().map(|value| value.map(SettingView)).collect(),
            })
            .collect(),
    }
}
