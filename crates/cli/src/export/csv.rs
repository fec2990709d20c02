//! The trace as CSV: one line for each entry, as RFC 4180 has it.
//!
//! An entry that allocates or frees is about one lifetime, and says what that was for.
//!
//! Control characters are written as escapes, so that no row breaks over two lines. A cell without a value is empty.

use std::io::{self, Write};

use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_snapshot::{Action, Entry, EntryId, PoolId, Snapshot, StackId};

use crate::frames;
use crate::printable::printable;

const HEADER: &str = "device,entry,action,address,size_bytes,stream,pool,time_us,device_free_bytes,user_metadata,\
                      compile_context,stack,category,category_rule";

/// Writes the entries of the devices, one after the other.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write(out: &mut impl Write, analysis: &Analysis<'_>, devices: &[u32]) -> io::Result<()> {
    let stacks = Stacks::new(analysis.snapshot);
    writeln!(out, "{HEADER}")?;
    for device in devices.iter().filter_map(|&device| analysis.device(device)) {
        let lifetimes = lifetimes(device);
        device.entries.ids().try_for_each(|id| {
            let row = lifetimes.get(id.index()).copied().filter(|&row| row != NONE);
            write_row(out, analysis.snapshot, &stacks, device, id, row)
        })?;
    }
    Ok(())
}

/// Stands for an entry that is about no lifetime.
const NONE: u32 = u32::MAX;

/// The lifetime that each entry is about.
fn lifetimes(device: &DeviceAnalysis<'_>) -> Vec<u32> {
    let mut rows = vec![NONE; device.entries.len()];
    for (number, lifetime) in (0..NONE).zip(&device.lifetimes.rows) {
        for entry in [lifetime.alloc(), lifetime.free_requested(), lifetime.free_completed()].into_iter().flatten() {
            let Entry { action, address, .. } = device.entries.get(entry);
            let is_of_block = matches!(action, Action::ALLOC | Action::FREE_REQUESTED | Action::FREE_COMPLETED);
            // An end that was not recorded stands at an entry about something else.
            if is_of_block && address == lifetime.address {
                rows[entry.index()] = number;
            }
        }
    }
    rows
}

fn write_row(
    out: &mut impl Write,
    snapshot: &Snapshot,
    stacks: &Stacks,
    device: &DeviceAnalysis<'_>,
    id: EntryId,
    lifetime: Option<u32>,
) -> io::Result<()> {
    let trace = device.entries;
    let entry = trace.get(id);
    write!(out, "{},{},", device.device, id.get())?;
    write_text(out, snapshot.action_name(entry.action))?;
    out.write_all(b",")?;
    write_number(out, (entry.action != Action::OOM).then_some(entry.address))?;
    write!(out, ",{},{},", entry.size_bytes, snapshot.stream_handle(entry.stream))?;
    if entry.pool != PoolId::MISSING {
        let (by_graph, by_user) = snapshot.pool_id(entry.pool);
        write!(out, "\"{by_graph},{by_user}\"")?;
    }
    out.write_all(b",")?;
    write_number(out, entry.time_us)?;
    out.write_all(b",")?;
    write_number(out, trace.device_free_bytes(id))?;
    out.write_all(b",")?;
    write_text(out, snapshot.text(entry.user_metadata))?;
    out.write_all(b",")?;
    write_text(out, snapshot.text(entry.compile_context))?;
    out.write_all(b",")?;
    stacks.write(out, entry.stack)?;
    match lifetime {
        Some(row) => {
            let decided = device.decided(row as usize);
            writeln!(out, ",{},{}", decided.category.name(), decided.rule)
        }
        None => writeln!(out, ",,"),
    }
}

fn write_number(out: &mut impl Write, number: Option<impl std::fmt::Display>) -> io::Result<()> {
    number.map_or(Ok(()), |number| write!(out, "{number}"))
}

/// Writes a cell, in quotes where it needs them.
fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    let text = printable(text);
    if needs_quotes(&text) { write!(out, "\"{}\"", doubled(&text)) } else { out.write_all(text.as_bytes()) }
}

fn needs_quotes(text: &str) -> bool {
    text.contains(['"', ','])
}

/// The text as it stands between quotes.
fn doubled(text: &str) -> String {
    text.replace('"', "\"\"")
}

/// The cells of stacks: millions of entries share few frames, so that each frame is put into words once.
struct Stacks<'a> {
    snapshot: &'a Snapshot,
    /// By frame: the text as it stands between quotes, and whether the cell needs them.
    frames: Vec<(String, bool)>,
}

impl<'a> Stacks<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let texts = snapshot.frames.iter().map(|(_, frame)| frames::full(snapshot, frame));
        Self { snapshot, frames: texts.map(|text| (doubled(&text), needs_quotes(&text))).collect() }
    }

    /// Writes the cell: `file:line name` of each frame, innermost first, with `;` between.
    fn write(&self, out: &mut impl Write, stack: StackId) -> io::Result<()> {
        let frames = self.snapshot.stacks.get(stack).iter().map(|frame| &self.frames[frame.index()]);
        let quote: &[u8] = if frames.clone().any(|(_, needs_quotes)| *needs_quotes) { b"\"" } else { b"" };
        out.write_all(quote)?;
        for (i, (text, _)) in frames.enumerate() {
            out.write_all(if i == 0 { b"" } else { b";" })?;
            out.write_all(text.as_bytes())?;
        }
        out.write_all(quote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_needed() {
        for (text, want) in [
            ("plain text; with this", "plain text; with this"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", r"two\nlines"),
            ("", ""),
        ] {
            let mut cell = Vec::new();
            write_text(&mut cell, text).unwrap();
            assert_eq!(String::from_utf8(cell).unwrap(), want);
        }
    }
}
