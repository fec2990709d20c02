//! What `highwater diff` says, for a person.

use std::io::{self, Write};

use highwater_analysis::Analysis;
use highwater_analysis::category::Category;
use highwater_findings::diff::{DeviceDiff, Moment, SiteDiff};
use highwater_findings::view::SettingView;

use super::{Compared, Comparison, batch};
use crate::frames;
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

/// Writes the comparison, with `top` rows of each table.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(out: &mut impl Write, comparison: &Comparison<'_>, top: usize) -> io::Result<()> {
    for (i, file) in comparison.files.iter().enumerate() {
        writeln!(out, "{}  {file}", letter(i))?;
    }
    for Compared { at, diff, batch } in &comparison.devices {
        // A profile has one total, and no dump.
        let is_profile = comparison.analyses.iter().any(|analysis| analysis.snapshot.profile.is_some());
        writeln!(out, "\n{}, {}", named(&diff.devices), when(*at, diff, is_profile))?;
        totals_table(*at, diff, is_profile).write(out, terminal_width())?;
        write_categories(out, diff)?;
        sites_table(top, comparison.analyses, diff, out)?;
        batch::write(out, &comparison.asked, diff, batch)?;
    }
    if !comparison.settings.is_empty() {
        writeln!(out, "\nSettings that differ")?;
        for setting in &comparison.settings {
            let values: Vec<String> = setting.values.iter().map(|value| shown(*value)).collect();
            writeln!(out, "  {}: {}", printable(&setting.key), values.join(" → "))?;
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

fn when(at: Moment, diff: &DeviceDiff<'_>, is_profile: bool) -> String {
    let moment = match at {
        Moment::Peak => "each at its peak".to_owned(),
        Moment::End if is_profile => "each at its end".to_owned(),
        Moment::End => "each at its dump".to_owned(),
        Moment::Iteration(number) => format!("each at the peak of iteration {number}"),
    };
    match diff.later_by {
        Some(entries) => format!("{moment}: two dumps of one process, {} entries apart", count(entries)),
        None => moment,
    }
}

fn totals_table(at: Moment, diff: &DeviceDiff<'_>, is_profile: bool) -> Table {
    let mut table = Table::new([
        ("", Align::Left),
        ("A", Align::Right),
        (if diff.sides.len() == 2 { "B" } else { "last" }, Align::Right),
        ("change", Align::Right),
    ])
    .indented(2);
    let (first, last) = (&diff.sides[0], &diff.sides[diff.sides.len() - 1]);
    let mut row = |what: &str, a: u64, b: u64| table.row([what.to_owned(), size(a), size(b), change(a, b)]);
    if !is_profile {
        row("peak requested", first.peak.requested_bytes, last.peak.requested_bytes);
    }
    row("peak allocated", first.peak.allocated_bytes, last.peak.allocated_bytes);
    let knows_reserved = first.knows_reserved && last.knows_reserved;
    if knows_reserved {
        row("peak reserved", first.peak.reserved_bytes, last.peak.reserved_bytes);
    }
    if at != Moment::Peak {
        row("allocated then", first.totals.allocated_bytes, last.totals.allocated_bytes);
        if knows_reserved {
            row("reserved then", first.totals.reserved_bytes, last.totals.reserved_bytes);
        }
    }
    if at != Moment::End {
        let end = if is_profile { "allocated at the end" } else { "allocated at the dump" };
        row(end, first.end.allocated_bytes, last.end.allocated_bytes);
    }
    table
}

/// By what it is for; nothing where that is not told of any.
fn write_categories(out: &mut impl Write, diff: &DeviceDiff<'_>) -> io::Result<()> {
    if diff.categories.iter().all(|category| category.category == Category::Unknown) {
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
        table.row([category.category.name().replace('_', " "), size(a), size(b), change(a, b)]);
    }
    writeln!(out)?;
    table.write(out, terminal_width())
}

fn sites_table(top: usize, analyses: &[Analysis<'_>], diff: &DeviceDiff<'_>, out: &mut impl Write) -> io::Result<()> {
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
    for site in changed.iter().take(top) {
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
    if changed.len() > top {
        let rest = changed.len() - top;
        writeln!(out, "  … and {} call sites more; `--top {}` shows all", count(rest), changed.len())?;
    }
    Ok(())
}

fn place(analyses: &[Analysis<'_>], site: &SiteDiff<'_>) -> String {
    let (file, stack) = site.stack;
    frames::place(&analyses[file], site.there, stack)
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

fn shown(value: Option<&highwater_snapshot::Setting>) -> String {
    let json = value.map(|value| serde_json::to_string(&SettingView(value)).unwrap_or_default());
    json.map_or_else(|| "not recorded".to_owned(), |json| printable(&json).into_owned())
}
