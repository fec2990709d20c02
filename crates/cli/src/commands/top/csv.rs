//! A look as CSV: a row for each process on each GPU, and one for a GPU without any.

use std::io::{self, Write};

use highwater_monitor::{GpuSample, ProcessSample, Sample};

/// The columns.
const COLUMNS: &str = "time_us,gpu,uuid,name,total_bytes,used_bytes,free_bytes,reserved_bytes,gpu_percent,temperature_c,\
                       power_mw,pid,user,type,process_bytes,allocated_bytes,cached_bytes,context_bytes,libraries_bytes,\
                       unexplained_bytes,peak_allocated_bytes,command";

/// Columns of a process: `pid` and all that follow.
const OF_A_PROCESS: usize = 11;

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
        let of_gpu = gpu_cells(sample.time_us, gpu);
        for process in &gpu.processes {
            writeln!(out, "{},{}", of_gpu.join(","), process_cells(process).join(","))?;
        }
        if gpu.processes.is_empty() {
            writeln!(out, "{}{}", of_gpu.join(","), ",".repeat(OF_A_PROCESS))?;
        }
    }
    Ok(())
}

fn gpu_cells(time_us: u64, gpu: &GpuSample) -> Vec<String> {
    let memory = gpu.memory;
    vec![
        time_us.to_string(),
        gpu.label(),
        quoted(gpu.uuid.as_deref().unwrap_or_default()),
        quoted(&gpu.name),
        cell(memory.map(|memory| memory.total_bytes)),
        cell(memory.map(|memory| memory.used_bytes)),
        cell(memory.map(|memory| memory.free_bytes)),
        cell(memory.map(|memory| memory.reserved_bytes)),
        cell(gpu.utilization.map(|now| now.gpu_percent)),
        cell(gpu.temperature_c),
        cell(gpu.power.map(|now| now.draw_mw)),
    ]
}

fn process_cells(process: &ProcessSample) -> Vec<String> {
    let torch = process.torch.as_ref();
    vec![
        process.pid.to_string(),
        quoted(process.user.as_deref().unwrap_or_default()),
        process.kind.letter().to_owned(),
        cell(process.bytes),
        cell(torch.map(|torch| torch.allocated_bytes)),
        cell(torch.map(|torch| torch.cached_bytes)),
        cell(torch.map(|torch| torch.context_bytes)),
        cell(torch.map(|torch| torch.libraries_bytes)),
        cell(torch.map(|torch| torch.unexplained_bytes)),
        cell(torch.map(|torch| torch.peak_allocated_bytes)),
        quoted(process.command.as_deref().unwrap_or_default()),
    ]
}

/// A number, or nothing where it is not known.
fn cell(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A text, in quotes where it needs them. One that a spreadsheet would take for a formula begins with an apostrophe: command
/// lines are anybody's.
fn quoted(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if guard.is_empty() && !text.contains([',', '"', '\n', '\r']) {
        return text.to_owned();
    }
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
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
            command: Some("=x \"a\", b".into()),
            torch: None,
            torch_note: None,
        };
        let gpu = |processes| GpuSample { processes, ..GpuSample::default() };
        let mut out = Vec::new();
        write_header(&mut out).unwrap();
        write(&mut out, &Sample { gpus: vec![gpu(vec![]), gpu(vec![process])], ..Sample::default() }).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (rows, last) = text.trim_end().split_at(text.find("\"'").unwrap());
        assert_eq!(last, "\"'=x \"\"a\"\", b\"");
        let counts: Vec<_> = rows.lines().map(|row| row.matches(',').count()).collect();
        assert_eq!(counts, [21, 21, 21]);
    }
}
