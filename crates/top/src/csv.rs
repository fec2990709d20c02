//! A look as CSV: a row for each process on each GPU, and one for a GPU without any.

use std::io::{self, Write};

use highwater_monitor::{GpuSample, ProcessSample, Sample};
use highwater_output::csv::{Piece, Row};

/// The columns.
const COLUMNS: &str = "time_us,gpu,uuid,name,total_bytes,used_bytes,free_bytes,reserved_bytes,gpu_percent,temperature_c,\
                       power_mw,pid,user,type,process_bytes,allocated_bytes,cached_bytes,context_bytes,libraries_bytes,\
                       unexplained_bytes,peak_allocated_bytes,command";

/// Writes the names of the columns.
///
/// # Errors
/// Those of `out`.
pub(super) fn write_header(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{COLUMNS}")
}

/// Writes a look.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(out: &mut impl Write, sample: &Sample) -> io::Result<()> {
    for gpu in &sample.gpus {
        // The text of a GPU is put into cells once for all its rows.
        let texts = [gpu.uuid.as_deref().unwrap_or_default(), &gpu.name].map(Piece::new);
        for process in &gpu.processes {
            write_row(out, sample.time_us, gpu, &texts, Some(process))?;
        }
        if gpu.processes.is_empty() {
            write_row(out, sample.time_us, gpu, &texts, None)?;
        }
    }
    Ok(())
}

fn write_row(
    out: &mut impl Write,
    time_us: u64,
    gpu: &GpuSample,
    texts: &[Piece; 2],
    process: Option<&ProcessSample>,
) -> io::Result<()> {
    let mut row = Row::new(out);
    row.number(Some(time_us))?;
    row.text(&gpu.label())?;
    texts.iter().try_for_each(|text| row.joined([text]))?;
    row.number(gpu.memory.map(|memory| memory.total_bytes))?;
    row.number(gpu.memory.map(|memory| memory.used_bytes))?;
    row.number(gpu.memory.map(|memory| memory.free_bytes))?;
    row.number(gpu.memory.map(|memory| memory.reserved_bytes))?;
    row.number(gpu.utilization.map(|now| now.gpu_percent))?;
    row.number(gpu.temperature_c)?;
    row.number(gpu.power.map(|now| now.draw_mw))?;
    let torch = process.and_then(|process| process.torch.as_ref());
    row.number(process.map(|process| process.pid))?;
    row.text(process.and_then(|process| process.user.as_deref()).unwrap_or_default())?;
    row.text(process.map_or("", |process| process.kind.letter()))?;
    row.number(process.and_then(|process| process.bytes))?;
    row.number(torch.map(|torch| torch.allocated_bytes))?;
    row.number(torch.map(|torch| torch.cached_bytes))?;
    row.number(torch.map(|torch| torch.context_bytes))?;
    row.number(torch.map(|torch| torch.libraries_bytes))?;
    row.number(torch.map(|torch| torch.unexplained_bytes))?;
    row.number(torch.map(|torch| torch.peak_allocated_bytes))?;
    row.text(process.and_then(|process| process.command.as_deref()).unwrap_or_default())?;
    row.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_as_many_cells_as_there_are_columns() {
        let process = ProcessSample {
            pid: 1,
            kind: highwater_monitor::ProcessKind::Compute,
            bytes: None,
            user: None,
            command: Some("=x \"a\", b\x1b]0;t\x07".into()),
            torch: None,
            torch_note: None,
            loaded: None,
        };
        let gpu = |processes| GpuSample { processes, ..GpuSample::default() };
        let mut out = Vec::new();
        write_header(&mut out).unwrap();
        write(&mut out, &Sample { gpus: vec![gpu(vec![]), gpu(vec![process])], ..Sample::default() }).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (rows, last) = text.trim_end().split_at(text.find("\"'").unwrap());
        assert_eq!(last, "\"'=x \"\"a\"\", b\\u{1b}]0;t\\u{7}\"");
        let counts: Vec<_> = rows.lines().map(|row| row.matches(',').count()).collect();
        assert_eq!(counts, [21, 21, 21]);
    }
}
