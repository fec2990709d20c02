//! The listing for people: a line for each entry.

use std::fmt::Write as _;
use std::io::{self, Write};

use highwater_answers::frames;
use highwater_documents::trace::{EntryView, Selected};
use highwater_findings::verdict::NOTHING_RECORDED;
use highwater_snapshot::EntryTable;

use crate::printable::printable;
use crate::{table, units};

/// Writes the listings of the devices, one below the other.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(out: &mut impl Write, traces: &[Selected], stacks: bool) -> io::Result<()> {
    if traces.is_empty() {
        writeln!(out, "{NOTHING_RECORDED}")?;
    }
    for (i, selected) in traces.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        match selected.trace() {
            Some(trace) => write_device(out, selected, trace, stacks)?,
            None => writeln!(out, "device {}: no entries were recorded", selected.device)?,
        }
    }
    Ok(())
}

fn write_device(out: &mut impl Write, selected: &Selected, trace: &EntryTable, stacks: bool) -> io::Result<()> {
    let layout = Layout::new(selected, trace);
    writeln!(out, "device {}: {}", selected.device, units::counted(trace.len(), "entry", "entries"))?;
    let mut shown = 0;
    for entry in selected.shown() {
        if shown == 0 {
            layout.write_header(out)?;
        }
        layout.write_entry(out, &entry)?;
        if stacks {
            for frame in entry.frames() {
                writeln!(out, "{:>indent$}{}", "", frames::full_of(&frame), indent = layout.entry + 4)?;
            }
        }
        shown += 1;
    }
    match selected.matching().skip(shown).count() {
        0 if shown == 0 => writeln!(out, "no entry matches"),
        0 => Ok(()),
        more => writeln!(out, "… {}; `--top 0` shows all", units::counted(more, "more entry", "more entries")),
    }
}

/// As wide as `free_completed`.
const ACTION: usize = 14;
/// As wide as `0x7f8b40000000`.
const ADDRESS: usize = 14;
/// As wide as `1023.99 GiB`.
const SIZE: usize = 11;
/// Remarks with less room than this stand below their entry.
const MIN_REMARKS: usize = 48;
/// Blanks before what stands there.
const BELOW: usize = 4;

/// How wide the columns of one device's listing are, and where its time begins.
struct Layout {
    start_us: Option<i64>,
    entry: usize,
    seconds: usize,
    stream: usize,
    /// What is left for the remarks on a terminal.
    remarks: Option<usize>,
    /// Where there is next to nothing, the stream and the remarks stand below, in lines of so many cells.
    below: Option<usize>,
}

impl Layout {
    fn new(selected: &Selected<'_>, trace: &EntryTable) -> Self {
        let snapshot = selected.snapshot;
        let start_us = trace.ids().find_map(|id| trace.time_us(id));
        let end_us = trace.ids().rev().find_map(|id| trace.time_us(id));
        let span_us = end_us.unwrap_or(0).saturating_sub(start_us.unwrap_or(0));
        let widest_stream = snapshot.streams.iter().map(|stream| stream.to_string().len()).max().unwrap_or(0);
        let entry = trace.len().to_string().len().max("entry".len());
        let seconds = units::seconds(span_us).len().max("seconds".len());
        let stream = widest_stream.max("stream".len());
        let taken = entry + seconds + ACTION + ADDRESS + SIZE + stream + 6 * "  ".len();
        let width = table::terminal_width();
        let remarks = width.map(|width| width.saturating_sub(taken));
        let below = width.filter(|&width| width < taken + MIN_REMARKS).map(|width| width.saturating_sub(BELOW));
        Self { start_us, entry, seconds, stream, remarks, below }
    }

    fn write_header(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { entry, seconds, stream, .. } = *self;
        write!(
            out,
            "{:>entry$}  {:>seconds$}  {:<ACTION$}  {:<ADDRESS$}  {:>SIZE$}",
            "entry", "seconds", "action", "address", "size"
        )?;
        if self.below.is_some() { writeln!(out) } else { writeln!(out, "  {:>stream$}  where", "stream") }
    }

    fn write_entry(&self, out: &mut impl Write, entry: &EntryView<'_>) -> io::Result<()> {
        let time_us = entry.time_us.zip(self.start_us).map(|(time, start)| time.saturating_sub(start));
        let remarks = remarks(entry);
        write!(
            out,
            "{:>entry$}  {:>seconds$}  {:<ACTION$}  {:<ADDRESS$}  {:>SIZE$}",
            entry.entry,
            time_us.map_or_else(|| "-".to_owned(), units::seconds),
            printable(entry.action),
            entry
                .address
                .filter(|&address| address > 0)
                .map_or_else(|| "-".to_owned(), |address| format!("{address:#x}")),
            units::size(entry.size_bytes),
            entry = self.entry,
            seconds = self.seconds,
        )?;
        if let Some(width) = self.below {
            writeln!(out)?;
            let lines = table::broken(&format!("stream {}  {remarks}", entry.stream), width);
            return lines.iter().try_for_each(|line| writeln!(out, "{:BELOW$}{line}", ""));
        }
        let remarks = self.remarks.map_or_else(|| remarks.clone(), |width| table::shorten(&remarks, width));
        writeln!(out, "  {:>stream$}  {remarks}", entry.stream, stream = self.stream)
    }
}

/// The call site, and what only few entries have.
fn remarks(entry: &EntryView<'_>) -> String {
    let mut text = if entry.place.is_empty() { "-".to_owned() } else { printable(&entry.place).into_owned() };
    // Writing to a string does not fail.
    if let Some(free) = entry.device_free_bytes {
        let _ = write!(text, "  [{} free on the device]", units::size(free));
    }
    if let Some((by_graph, by_user)) = entry.pool.filter(|&pool| pool != (0, 0)) {
        let _ = write!(text, "  [pool {by_graph},{by_user}]");
    }
    if !entry.user_metadata.is_empty() {
        let _ = write!(text, "  # {}", printable(entry.user_metadata));
    }
    text
}
