//! What `highwater diff` says, for a person.

use std::io;

use highwater_analysis::category::Category;
use highwater_answers::frames;
use highwater_documents::SettingView;
use highwater_documents::diff::{DeviceDiffView, DiffView, SideView, SiteDiffView};

use super::batch;
use crate::document::{Document, Section, Text};
use crate::report::category_style;
use crate::style::{BAD, GOOD, Ink, PLAIN, STRONG, Style};
use crate::table::{Align, Cell, Table, terminal_width};
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
pub(super) fn write(out: &mut impl Ink, view: &DiffView<'_>, options: Options) -> io::Result<()> {
    document(view, options).write_text(out, terminal_width())
}

/// The comparison.
pub(super) fn document(view: &DiffView<'_>, options: Options) -> Document {
    let files = || view.files.iter().enumerate();
    let mut document = Document::default();
    document.lead.extend(files().map(|(i, file)| Text::styled(letter(i), STRONG).and(format!("  {file}"), PLAIN)));
    for device in &view.devices {
        let mut section = Section::new(format!("{}, {}", named(&device.devices), when(device, view.is_profile)));
        section.table(totals_table(device, view.is_profile));
        document.sections.push(section);
        document.sections.extend(categories(device));
        document.sections.push(sites(options.top, device));
        document.sections.extend(batch::section(device, options.asks_for_batch));
    }
    if !view.settings.is_empty() {
        let mut section = Section::new("Settings that differ");
        for setting in &view.settings {
            let values: Vec<String> = setting.values.iter().map(|value| shown(value.as_ref())).collect();
            section.line(format!("{}: {}", setting.key, values.join(" → ")));
        }
        document.sections.push(section);
    }
    document
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
        table.row([what.into(), size(a).into(), size(b).into(), Cell::new(change(a, b), change_style(a, b))]);
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
fn categories(diff: &DeviceDiffView<'_>) -> Option<Section> {
    if diff.categories.iter().all(|category| category.name == Category::Unknown.name()) {
        return None;
    }
    let mut table = Table::new([
        ("category", Align::Left),
        ("A", Align::Right),
        (if diff.sides.len() == 2 { "B" } else { "last" }, Align::Right),
        ("change", Align::Right),
    ])
    .indented(2);
    for category in &diff.categories {
        let (a, b) = (category.bytes[0], category.bytes[category.bytes.len() - 1]);
        table.row([
            Cell::new(category.name.replace('_', " "), category_style(category.name)),
            size(a).into(),
            size(b).into(),
            Cell::new(change(a, b), change_style(a, b)),
        ]);
    }
    let mut section = Section::new("By category");
    section.table(table);
    Some(section)
}

fn sites(top: usize, diff: &DeviceDiffView<'_>) -> Section {
    let changed: Vec<&SiteDiffView<'_>> = diff.call_sites.iter().filter(|site| site.change_bytes != 0).collect();
    let mut section = Section::new("By call site");
    if changed.is_empty() {
        section.line("no call site changed");
        return section;
    }
    let mut table = Table::new([
        ("change", Align::Right),
        ("A", Align::Right),
        (if diff.sides.len() == 2 { "B" } else { "last" }, Align::Right),
        ("count", Align::Right),
        ("where", Align::Left),
    ])
    .indented(2)
    .wrapped();
    for site in changed.iter().take(top) {
        let last = site.bytes.len() - 1;
        table.row([
            Cell::new(signed(site.change_bytes), change_style(site.bytes[0], site.bytes[last])),
            size(site.bytes[0]).into(),
            size(site.bytes[last]).into(),
            format!("{} → {}", count(site.count[0]), count(site.count[last])).into(),
            frames::place_of(&site.at).into(),
        ]);
    }
    section.table(table);
    if changed.len() > top {
        let rest = changed.len() - top;
        section.line(format!("… and {} more call sites; `--top {}` shows all", count(rest), changed.len()));
    }
    section
}

/// More than before, or less.
fn change_style(a: u64, b: u64) -> Style {
    match b.cmp(&a) {
        std::cmp::Ordering::Greater => BAD,
        std::cmp::Ordering::Less => GOOD,
        std::cmp::Ordering::Equal => PLAIN,
    }
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
    json.unwrap_or_else(|| "not recorded".to_owned())
}
