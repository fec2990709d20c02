//! `--once`: the GPUs, their processes, and how PyTorch uses their memory, as tables.

use std::io;

use highwater_monitor::{GpuSample, Memory, ProcessSample, Sample, TorchSplit};
use highwater_output::printable::Printable;
use highwater_output::style::{BAD, DIM, Ink, PLAIN, STRONG, Style, of_fullness};
use highwater_output::table::{Align, Cell, Table};
use highwater_units::size;

/// Where something is not known.
pub(super) const UNKNOWN: &str = "-";

/// Writes a look; lines are at most `width` cells long where that is given.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(out: &mut impl Ink, sample: &Sample, width: Option<usize>) -> io::Result<()> {
    out.ink(DIM, &driver(sample))?;
    writeln!(out, "\n")?;
    gpus(sample).write(out, width)?;
    if sample.gpus.iter().any(|gpu| !gpu.processes.is_empty()) {
        writeln!(out)?;
        processes(sample).write(out, width)
    } else {
        writeln!(out, "\nno process uses a GPU")
    }
}

/// The driver in a line.
pub(super) fn driver(sample: &Sample) -> Printable {
    let version = |version: &'_ Option<String>| version.clone().unwrap_or_else(|| "?".to_owned());
    format!("driver {}, CUDA up to {}", version(&sample.driver.version), version(&sample.driver.cuda)).into()
}

fn gpus(sample: &Sample) -> Table {
    let mut table = Table::new([
        ("GPU", Align::Right),
        ("used", Align::Right),
        ("free", Align::Right),
        ("driver's", Align::Right),
        ("total", Align::Right),
        ("BAR1", Align::Right),
        ("busy", Align::Right),
        ("temp", Align::Right),
        ("power", Align::Right),
        ("ECC", Align::Right),
        ("name", Align::Left),
    ]);
    for gpu in &sample.gpus {
        let memory = |pick: fn(&Memory) -> u64| known(gpu.memory.as_ref().map(pick), size);
        table.row([
            Cell::new(gpu.label(), STRONG),
            Cell::new(memory(|memory| memory.used_bytes), fullness(gpu)),
            memory(|memory| memory.free_bytes).into(),
            memory(|memory| memory.reserved_bytes).into(),
            memory(|memory| memory.total_bytes).into(),
            known(gpu.bar1, |bar1| size(bar1.used_bytes)).into(),
            busy(gpu).into(),
            temperature(gpu).into(),
            power(gpu).into(),
            ecc(gpu).into(),
            if gpu.is_lost { Cell::new(format!("{} (lost)", gpu.name), BAD) } else { gpu.name.clone().into() },
        ]);
        for note in notes(gpu) {
            table.below(format!("     {note}"));
        }
    }
    table
}

/// The colour of the memory in use.
fn fullness(gpu: &GpuSample) -> Style {
    gpu.memory.as_ref().map_or(PLAIN, |memory| of_fullness(percent_used(memory)))
}

/// Used memory, the driver's own included, of the whole.
pub(super) fn percent_used(memory: &Memory) -> u64 {
    let used = memory.used_bytes.saturating_add(memory.reserved_bytes);
    used.saturating_mul(100).checked_div(memory.total_bytes).unwrap_or(0)
}

/// What to know of a GPU, a line each.
pub(super) fn notes(gpu: &GpuSample) -> Vec<Printable> {
    let unseen = gpu.unseen_bytes.filter(|&bytes| bytes >= 64 << 20);
    gpu.notes
        .iter()
        .map(|note| match unseen {
            Some(bytes) if note.starts_with("some of the used memory") => format!("{}: {note}", size(bytes)).into(),
            _ => note.as_str().into(),
        })
        .collect()
}

fn known<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), text)
}

/// How busy a GPU is.
pub(super) fn busy(gpu: &GpuSample) -> String {
    known(gpu.utilization, |now| format!("{}%", now.gpu_percent))
}

/// How hot it is.
pub(super) fn temperature(gpu: &GpuSample) -> String {
    known(gpu.temperature_c, |degrees| format!("{degrees}°C"))
}

/// What it draws, and may.
pub(super) fn power(gpu: &GpuSample) -> String {
    known(gpu.power, |power| match power.limit_mw {
        Some(limit_mw) => format!("{}/{} W", watts(power.draw_mw), watts(limit_mw)),
        None => format!("{} W", watts(power.draw_mw)),
    })
}

fn watts(milliwatts: u32) -> u32 {
    milliwatts.saturating_add(500) / 1000
}

/// Errors that were not mended, or that none are looked for.
pub(super) fn ecc(gpu: &GpuSample) -> String {
    known(gpu.ecc, |ecc| match (ecc.is_enabled, ecc.uncorrected) {
        (false, _) => "off".to_owned(),
        (true, Some(errors)) => errors.to_string(),
        (true, None) => "on".to_owned(),
    })
}

fn processes(sample: &Sample) -> Table {
    let mut table = Table::new([
        ("GPU", Align::Right),
        ("pid", Align::Right),
        ("user", Align::Left),
        ("type", Align::Left),
        ("memory", Align::Right),
        ("command", Align::Left),
    ]);
    for (gpu, process) in sample.gpus.iter().flat_map(|gpu| gpu.processes.iter().map(move |process| (gpu, process))) {
        table.row([
            gpu.label(),
            process.pid.to_string(),
            known(process.user.clone(), |user| user),
            process.kind.letter().to_owned(),
            known(process.bytes, size),
            command(process).to_string(),
        ]);
        for line in torch_lines(process) {
            table.below(format!("     {line}"));
        }
    }
    table
}

/// A process's command line, or that it is not to be seen.
pub(super) fn command(process: &ProcessSample) -> Printable {
    process.command.as_deref().unwrap_or("(not visible from here)").into()
}

/// How PyTorch uses a process's memory, in two lines or three; or why that is not known.
pub(super) fn torch_lines(process: &ProcessSample) -> Vec<Printable> {
    let mut lines = Vec::new();
    if let Some(torch) = &process.torch {
        lines.push(split(torch).into());
        let (allocated, reserved) = (size(torch.peak_allocated_bytes), size(torch.peak_reserved_bytes));
        lines.push(format!("peak since the last sample: allocated {allocated}, reserved {reserved}").into());
        lines.extend(torch.note.as_deref().map(Printable::from));
    }
    lines.extend(process.torch_note.as_deref().map(Printable::from));
    lines
}

/// Facts from the system about a process that does not answer itself.
pub(super) fn loaded_lines(process: &ProcessSample) -> Vec<Printable> {
    let Some(loaded) = &process.loaded else { return Vec::new() };
    let mut lines = Vec::new();
    if !loaded.libraries.is_empty() {
        lines.push(format!("it has loaded {}", loaded.libraries.join(", ")).into());
    }
    lines.push(loaded.unknown.as_str().into());
    lines
}

/// The five parts in a line.
fn split(torch: &TorchSplit) -> String {
    let names = if torch.libraries.is_empty() { String::new() } else { format!(" ({})", torch.libraries.join(", ")) };
    format!(
        "allocated {} + cached {} + context {} + libraries {}{} + unexplained {}",
        size(torch.allocated_bytes),
        size(torch.cached_bytes),
        size(torch.context_bytes),
        size(torch.libraries_bytes),
        names,
        size(torch.unexplained_bytes)
    )
}
