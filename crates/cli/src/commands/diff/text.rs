//! What `highwater diff` says, for a person.

use std::io::{self, Write};

use highwater_analysis::category::Category;
use highwater_answers::frames;
use highwater_documents::SettingView;
use highwater_documents::diff::{DeviceDiffView, DiffView, SideView, SiteDiffView};

use super::batch;
use crate::printable::printable;
use crate::table::{Align, Table, terminal_width};
use crate::units::{count, size};

/// How a file is called in the tables: A, B, C, …
pub(super) fn letter(i: usize) -> String {
    match u8::try_from(i) {
        Ok(i) if i < 26 => char::from(b'A' + i).to_string(),
        _ => format!("#{}", i + 1),
    }
}

/// What the caller chooses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Rows of each table.
    pub(super) top: usize,
    /// Whether to say why nothing tells the peak by the batch.
    pub(super) asks_for_batch: bool,
}

/// Writes the comparison.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(out: &mut impl Write, view: &DiffView<'_>, options: Options) -> io::Result<()> {
    for (i, file) in view.files.iter().enumerate() {
        writeln!(out, "{}  {file}", letter(i))?;
    }
    for device in &view.devices {
        writeln!(out, "\n{}, {}", named(&device.devices), when(device, view.is_profile))?;
        totals_table(device, view.is_profile).write(out, terminal_width())?;
        write_categories(out, device)?;
        sites_table(options.top, device, out)?;
        batch::write(out, device, options.asks_for_batch)?;
    }
    if !view.settings.is_empty() {
        writeln!(out, "\nSettings that differ")?;
        for setting in &view.settings {
            let values: Vec<String> = setting.values.iter().map(|value| shown(value.as_ref())).collect();
            writeln!(out, "  {}: {}", printable(setting.key), values.join(" → "))?;
        }
    }
    Ok(())
}

/// `Device 0`, or where they differ `Devices 0 and 1`.
fn named(devices: &[u32]) -> String {
    let numbers: Vec<String> = devices.iter().map(ToString::to_string).collect();
    match &numbers[..] {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => format!("Device {first}"),
        [first @ .., last] => format!("Devices {} and {last}", first.join(", ")),
        [] => "No device".to_owned(),
    }
}

fn when(device: &DeviceDiffView<'_>, is_profile: bool) -> String {
    let moment = match (device.at, device.iteration) {
        (_, Some(number)) => format!("each at the peak of iteration {number}"),
        ("end", None) if is_profile => "each at its end".to_owned(),
        ("end", None) => "each at its dump".to_owned(),
        _ => "each at its peak".to_owned(),
    };
    match device.later_by_entries {
        Some(entries) => format!("{moment}: two dumps of one process, {} entries apart", count(entries)),
        None => moment,
    }
}

fn totals_table(device: &DeviceDiffView<'_>, is_profile: bool) -> Table {
    let mut table = Table::new([
        ("", Align::Left),
        ("A", Align::Right),
        (if device.sides.len() == 2 { "B" } else { "last" }, Align::Right),
        ("change", Align::Right),
    ])
    .indented(2);
    let (first, last) = (&device.sides[0], &device.sides[device.sides.len() - 1]);
    let mut row = |what: &str, of: fn(&SideView) -> u64| {
        let (a, b) = (of(first), of(last));
        table.row([what.to_owned(), size(a), size(b), change(a, b)]);
    };
    if !is_profile {
        row("peak requested", |side| side.peak_requested_bytes);
    }
    row("peak allocated", |side| side.peak_allocated_bytes);
    let knows_reserved = !first.reserved_is_unknown && !last.reserved_is_unknown;
    if knows_reserved {
        row("peak reserved", |side| side.peak_reserved_bytes);
    }
    if device.at != "peak" {
        row("allocated then", |side| side.allocated_bytes);
        if knows_reserved {
            row("reserved then", |side| side.reserved_bytes);
        }
    }
    if device.at != "end" {
        let end = if is_profile { "allocated at the end" } else { "allocated at the dump" };
        row(end, |side| side.end_allocated_bytes);
    }
    table
}

/// By what it is for; nothing where that is not told of any.
fn write_categories(out: &mut impl Write, diff: &DeviceDiffView<'_>) -> io::Result<()> {
    if diff.categories.iter().all(|category| category.name == Category::Unknown.name()) {
        return Ok(());
    }
    let mut table = Table::new([
        ("what", Align::Left),
        ("A", Align::Right),
        (if diff.sides.len() == 2 { "B" } else { "last" }, Align::Right),
        ("change", Align::Right),
    ])
    .indented(2);
    for category in &diff.categories {
        let (a, b) = (category.bytes[0], category.bytes[category.bytes.len() - 1]);
        table.row([category.name.replace('_', " "), size(a), size(b), change(a, b)]);
    }
    writeln!(out)?;
    table.write(out, terminal_width())
}

fn sites_table(top: usize, diff: &DeviceDiffView<'_>, out: &mut impl Write) -> io::Result<()> {
    let changed: Vec<&SiteDiffView<'_>> = diff.call_sites.iter().filter(|site| site.change_bytes != 0).collect();
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
    for site in changed.iter().take(top) {
        let last = site.bytes.len() - 1;
        table.row([
            signed(site.change_bytes),
            size(site.bytes[0]),
            size(site.bytes[last]),
            format!("{} → {}", count(site.count[0]), count(site.count[last])),
            frames::place_of(&site.at),
        ]);
    }
    writeln!(out)?;
    table.write(out, terminal_width())?;
    if changed.len() > top {
        let rest = changed.len() - top;
        writeln!(out, "  … and {} call sites more; `--top {}` shows all", count(rest), changed.len())?;
    }
    Ok(())
}

/// What is less than this is nothing on a device; percentages of it say nothing.
const NEXT_TO_NOTHING: u64 = 1 << 20;

/// `+14.90 GiB  +52 %`; without the percentage where there is next to nothing that it would be of.
fn change(a: u64, b: u64) -> String {
    let by = i128::from(b) - i128::from(a);
    if by == 0 {
        return "none".to_owned();
    }
    if a < NEXT_TO_NOTHING || a < b / 100 {
        return signed(by);
    }
    #[expect(clippy::cast_precision_loss, reason = "a ratio of bytes, for showing")]
    let percent = by as f64 / a as f64 * 100.0;
    // Rounded to `-0.0 %` it says nothing.
    if percent.abs() < 0.05 { signed(by) } else { format!("{}  {percent:+.1} %", signed(by)) }
}

fn signed(bytes: i128) -> String {
    let size = size(u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX));
    if bytes < 0 { format!("-{size}") } else { format!("+{size}") }
}

fn shown(value: Option<&SettingView<'_>>) -> String {
    let json = value.map(|value| serde_json::to_string(value).unwrap_or_default());
    json.map_or_else(|| "not recorded".to_owned(), |json| printable(&json).into_owned())
}
