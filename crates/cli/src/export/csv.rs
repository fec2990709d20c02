//! The trace as CSV: one line for each entry, as RFC 4180 has it.
//!
//! Control characters are written as escapes, so that no row breaks over two lines. A cell without a value is empty.

use std::io::{self, Write};

use highwater_snapshot::{Action, EntryId, EntryTable, PoolId, Snapshot};

use crate::frames;
use crate::printable::printable;

const HEADER: &str = "device,entry,action,address,size_bytes,stream,pool,time_us,device_free_bytes,user_metadata,\
                      compile_context,stack";

/// Writes the entries of the devices, one after the other.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write(out: &mut impl Write, snapshot: &Snapshot, devices: &[u32]) -> io::Result<()> {
    writeln!(out, "{HEADER}")?;
    for &device in devices {
        if let Some(trace) = snapshot.trace(device) {
            trace.ids().try_for_each(|id| write_row(out, snapshot, device, trace, id))?;
        }
    }
    Ok(())
}

fn write_row(
    out: &mut impl Write,
    snapshot: &Snapshot,
    device: u32,
    trace: &EntryTable,
    id: EntryId,
) -> io::Result<()> {
    let entry = trace.get(id);
    write!(out, "{device},{},", id.get())?;
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
    let stack: Vec<_> = snapshot.stack(entry.stack).map(|frame| frames::full(snapshot, frame)).collect();
    write_text(out, &stack.join(";"))?;
    writeln!(out)
}

fn write_number(out: &mut impl Write, number: Option<impl std::fmt::Display>) -> io::Result<()> {
    number.map_or(Ok(()), |number| write!(out, "{number}"))
}

/// Writes a cell, in quotes where it needs them.
fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    let text = printable(text);
    if text.contains(['"', ',']) {
        write!(out, "\"{}\"", text.replace('"', "\"\""))
    } else {
        out.write_all(text.as_bytes())
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
