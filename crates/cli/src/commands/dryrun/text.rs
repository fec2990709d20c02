//! What a dry run found, for people: how it went, what could not be known, the report, and which cards it fits.

use std::io;
use std::path::Path;

use highwater_documents::dryrun::{AgainView, DryrunView};
use highwater_nullgpu::run::{Ending, Peaks, Process, Read};

use super::sandbox;
use crate::commands::explain;
use crate::commands::simulate::what_if_text;
use crate::printable::printable;
use crate::report::{self, Options};
use crate::style::Ink;
use crate::table::{Align, Table, broken, terminal_width};
use crate::units::{counted, size};

/// Prose is broken at this width where there is no terminal.
const WIDTH: usize = 100;
/// Rows of a table.
const ROWS: usize = 15;
/// What the C library says of a disk without room.
const DISK_FULL: &str = "No space left on device";
/// Reads and functions that are listed.
const LISTED: usize = 8;

/// Writes it; `name` is the recording's, and whether that is kept is for the last line.
pub(super) fn write(out: &mut impl Ink, view: &DryrunView<'_>, name: &str, is_kept: bool) -> io::Result<()> {
    let Some(main) = view.processes.first() else { return Ok(()) };
    paragraph(out, &headline(view, main))?;
    write_otherwise(out, view)?;
    write_cause(out, view, main)?;
    write_end(out, view, main)?;
    write_addresses(out, view)?;
    write_timing(out, view, main)?;
    write_few(out, view, main)?;
    write_ranks(out, view)?;
    write_kinds(out, view)?;
    write_caveats(out, view, main)?;
    if let Some(writes) = view.sandbox {
        writeln!(out)?;
        sandbox::write(out, writes)?;
    }
    writeln!(out)?;
    if let Some(explained) = view.explain {
        explain::text::write(out, explained, name)?;
        writeln!(out)?;
    }
    let options = Options {
        top: ROWS,
        capacity_bytes: Some(view.card.memory_bytes),
        width: terminal_width(),
        leads_on: view.explain.is_none(),
    };
    report::document(view.report, name, options).write_text(out, terminal_width())?;
    if let Some(simulated) = view.simulate {
        writeln!(out)?;
        what_if_text::write(out, simulated, name)?;
    }
    if is_kept {
        return Ok(());
    }
    writeln!(out, "\nNothing was kept: `-o FILE` keeps the recording, for `highwater view` and the rest.")
}

pub(super) fn paragraph(out: &mut impl Ink, text: &str) -> io::Result<()> {
    broken(text, terminal_width().unwrap_or(WIDTH)).iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn headline(view: &DryrunView<'_>, main: &Process) -> String {
    let cards = if view.devices == 1 { String::new() } else { format!("{} times ", view.devices) };
    let script = main.arguments.first().map_or("?", |path| path.as_str());
    let script = Path::new(script).file_name().map_or_else(|| script.into(), |name| name.to_string_lossy());
    format!(
        "{} on {cards}{} of {}, imitated: {}, {} in {:.1} s, with torch {} and {} of host memory",
        printable(&script),
        view.card.name,
        size(view.card.memory_bytes),
        match &view.cause {
            // The other ranks decide how the run went.
            Some(_) if matches!(main.how, Ending::Exit | Ending::Steps) => "failed",
            _ => ended(main.how),
        },
        counted(usize::try_from(main.steps).unwrap_or(usize::MAX), "optimizer step", "optimizer steps"),
        view.duration_secs,
        printable(&main.torch),
        size(main.host_peak_bytes),
    )
}

fn ended(how: Ending) -> &'static str {
    match how {
        Ending::Exit => "ran to its end",
        Ending::Steps => "ended after the requested steps",
        Ending::Oom => "ran out of memory",
        Ending::Error => "failed",
        Ending::Timeout => "took too long and was ended",
        Ending::Crash => "crashed",
        Ending::Interrupted => "was interrupted",
    }
}

/// Which assumption the run makes, after one without it failed.
fn write_otherwise(out: &mut impl Ink, view: &DryrunView<'_>) -> io::Result<()> {
    let Some(otherwise) = view.otherwise else { return Ok(()) };
    paragraph(
        out,
        &format!(
            "A first run failed with {}, after it had read values that only a GPU can compute. This one makes an assumption about them: \
             `--assume {}`.",
            printable(otherwise.error),
            printable(otherwise.assumed)
        ),
    )
}

/// Which of several ranks made the run fail.
fn write_cause(out: &mut impl Ink, view: &DryrunView<'_>, main: &Process) -> io::Result<()> {
    let Some(cause) = &view.cause else { return Ok(()) };
    // What it died of is said below.
    if cause.ranks.iter().map(|&rank| Some(rank)).eq([main.rank]) && !main.error.is_empty() {
        return Ok(());
    }
    let mut text = printable(&cause.text).into_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    paragraph(out, &format!("{text}."))
}

/// What the script died of, where it is not told by itself.
fn write_end(out: &mut impl Ink, view: &DryrunView<'_>, main: &Process) -> io::Result<()> {
    if matches!(main.how, Ending::Error | Ending::Crash) && !main.error.is_empty() {
        // Of several ranks another one may be the cause, which has been named.
        let it =
            main.rank.filter(|_| view.cause.is_some()).map_or_else(|| "It".to_owned(), |rank| format!("Rank {rank}"));
        paragraph(out, &format!("{it} ended with {}. This is the recording so far.", printable(&main.error)))?;
    }
    if let Some(read) = &main.last_read {
        let line = read.place.split(' ').next().filter(|line| line.contains(':'));
        let value = match &read.assumed {
            Some(how) => format!("was assumed ({})", printable(how)),
            None => "was 0 here".to_owned(),
        };
        let remedy = match line {
            Some(line) => format!(
                "`--assume {}=VALUE` sets it (`true`, a number, or of a mask the share that is set), or compute it on the CPU, or try \
                 `--no-values`",
                printable(line)
            ),
            None => "compute it on the CPU, or try `--no-values`".to_owned(),
        };
        paragraph(
            out,
            &format!(
                "On a GPU this may not fail: the script reads values that only a GPU can compute. The last, read by `{}` at {}, {value}; \
                 {remedy}.",
                printable(&read.what),
                printable(&read.place),
            ),
        )?;
    }
    if main.error.contains(DISK_FULL) && view.sandbox.is_some() {
        let folder = std::env::temp_dir();
        paragraph(
            out,
            &format!(
                "The sandbox may be the cause: the script's writes go to a folder in `{}`; set `TMPDIR` to use \
                 another directory.",
                printable(&folder.to_string_lossy())
            ),
        )?;
    }
    if matches!(main.how, Ending::Timeout | Ending::Crash) && !main.stack.is_empty() {
        writeln!(out, "It was here:")?;
        main.stack.lines().try_for_each(|line| writeln!(out, "{}", printable(line)))?;
    }
    match &main.failed {
        Some(failed) if main.how != Ending::Oom => paragraph(
            out,
            &format!(
                "It ran out of memory on the way ({}), first for a request of {}, and continued.",
                counted(usize::try_from(failed.count).unwrap_or(usize::MAX), "time", "times"),
                size(failed.requested_bytes)
            ),
        ),
        _ => Ok(()),
    }
}

/// Where the peak depends on the addresses of segments.
fn write_addresses(out: &mut impl Ink, view: &DryrunView<'_>) -> io::Result<()> {
    let Some(addresses) = view.addresses else { return Ok(()) };
    let range = |(least, most): (u64, u64)| {
        if size(least) == size(most) { size(least) } else { format!("{} to {}", size(least), size(most)) }
    };
    let text = format!(
        "The peak depends on where the driver puts segments, which differs between GPUs and processes: it is {} allocated and {} reserved.",
        range(addresses.allocated_bytes),
        range(addresses.reserved_bytes)
    );
    paragraph(out, &text)
}

/// Where the peak depends on when streams finish.
fn write_timing(out: &mut impl Ink, view: &DryrunView<'_>, main: &Process) -> io::Result<()> {
    let Some(late) = &view.late else { return Ok(()) };
    if let Some(failed) = late.iter().find(|process| !matches!(process.how, Ending::Exit | Ending::Steps)) {
        let error = if failed.error.is_empty() { String::new() } else { format!(" ({})", printable(failed.error)) };
        let text = format!(
            "The peak depends on when streams finish their work. Here they finish at once. A second run, in which they finish as late as \
             possible, {}{error}: `--timing late` shows it.",
            ended(failed.how),
        );
        return paragraph(out, &text);
    }
    let Some((_, late)) = other_end(main, late).filter(|_| timing_changes_peaks(view)) else { return Ok(()) };
    let of = |peaks: &Peaks| {
        format!("{} allocated and {} reserved", size(peaks.peak_allocated_bytes), size(peaks.peak_reserved_bytes))
    };
    let after_first_step = view.late_after_first_step.as_ref().and_then(|again| other_end(main, again));
    let third = after_first_step.filter(|(here, there)| ![bytes(here), bytes(late)].contains(&bytes(there)));
    let text = format!(
        "The peak depends on when streams finish their work: here they finish at once; if they finish as late as possible, the peak is \
         {}{}.",
        of(late),
        third
            .map_or_else(String::new, |(_, there)| format!("; if they do so only after the first step, {}", of(there)))
    );
    paragraph(out, &text)
}

/// Where the peak depends on how much of masks is set, and on how evenly experts are chosen.
fn write_few(out: &mut impl Ink, view: &DryrunView<'_>, main: &Process) -> io::Result<()> {
    let Some(few) = &view.few else { return Ok(()) };
    let overflows = main.assumed.iter().any(|read| read.what == "unscale");
    let scaled = if overflows { ", and gradients that overflow in each step," } else { "" };
    let why = format!(
        "Sizes depend on values that only a GPU can compute (\"Assumed\", below). With a hundredth of each mask and an uneven choice of \
         experts{scaled}"
    );
    if let Some(failed) = few.iter().find(|process| !matches!(process.how, Ending::Exit | Ending::Steps)) {
        let error = if failed.error.is_empty() { String::new() } else { format!(" ({})", printable(failed.error)) };
        return paragraph(
            out,
            &format!("{why} the script {}{error}: the other end of the peak is unknown.", ended(failed.how)),
        );
    }
    let Some((here, there)) = other_end(main, few) else { return Ok(()) };
    let same = bytes(here) == bytes(there);
    let text = if same {
        format!("{why} the peak is the same.")
    } else {
        format!(
            "{why} the peak is {} allocated and {} reserved.",
            size(there.peak_allocated_bytes),
            size(there.peak_reserved_bytes)
        )
    };
    paragraph(out, &text)
}

/// The peaks of the device that reserved most, here and in a further run.
fn other_end<'a>(main: &'a Process, again: &[AgainView<'a>]) -> Option<(&'a Peaks, &'a Peaks)> {
    let most = main.devices.iter().max_by_key(|peaks| peaks.peak_reserved_bytes)?;
    let other = again.first().filter(|other| other.rank == main.rank)?.peaks(most.device)?;
    Some((most, other))
}

fn bytes(peaks: &Peaks) -> [u64; 4] {
    [peaks.peak_requested_bytes, peaks.peak_allocated_bytes, peaks.peak_active_bytes, peaks.peak_reserved_bytes]
}

/// Whether any process has other peaks if streams finish late.
fn timing_changes_peaks(view: &DryrunView<'_>) -> bool {
    [&view.late, &view.late_after_first_step].into_iter().flatten().any(|again| changes_peaks(view, again))
}

fn changes_peaks(view: &DryrunView<'_>, again: &[AgainView<'_>]) -> bool {
    // Both runs list ranks in order, and other processes by their reserved memory.
    let mut pairs = view.processes.iter().zip(again).filter(|(process, again)| process.rank == again.rank);
    pairs.any(|(process, again)| {
        let changes = |peaks: &Peaks| again.peaks(peaks.device).is_some_and(|again| bytes(peaks) != bytes(again));
        process.devices.iter().any(changes)
    })
}

/// The other ranks and processes beside the one that is explained.
fn write_ranks(out: &mut impl Ink, view: &DryrunView<'_>) -> io::Result<()> {
    if view.processes.len() < 2 {
        return Ok(());
    }
    writeln!(out, "\nEvery process; the first is explained below")?;
    write_peaks(
        out,
        view.processes.iter().map(|process| (super::name_of(process), process.devices.as_slice(), process.how)),
    )?;
    write_ends(out, view)?;
    let runs = [
        ("If streams finish as late as possible", &view.late),
        (
            "If streams finish at once in the first step, and as late as possible in the others",
            &view.late_after_first_step,
        ),
    ];
    for (when, again) in runs {
        let Some(again) = again.as_ref().filter(|again| changes_peaks(view, again)) else { continue };
        writeln!(out, "\n{when}")?;
        write_peaks(
            out,
            again.iter().map(|process| (super::rank_name(process.rank, process.pid), process.devices, process.how)),
        )?;
    }
    Ok(())
}

/// The kinds of ranks, with the peaks of the one that ran.
fn write_kinds(out: &mut impl Ink, view: &DryrunView<'_>) -> io::Result<()> {
    let Some(kinds) = &view.kinds else { return Ok(()) };
    let ranks: usize = kinds.iter().map(|kind| kind.ranks.len()).sum();
    writeln!(out)?;
    paragraph(
        out,
        &format!(
            "{} of {}; where the first and the last rank of a row have the same peaks, the ranks between them are assumed to have the same",
            counted(ranks, "rank", "ranks"),
            counted(kinds.len(), "kind", "kinds"),
        ),
    )?;
    let mut table = Table::new([
        ("ranks", Align::Left),
        ("", Align::Right),
        ("ran", Align::Right),
        ("allocated", Align::Right),
        ("reserved", Align::Right),
        ("", Align::Left),
    ])
    .indented(2);
    for kind in kinds {
        let process = kind.process.as_ref();
        let most = process.and_then(|process| process.devices.iter().max_by_key(|peaks| peaks.peak_reserved_bytes));
        let of = |bytes: fn(&Peaks) -> u64| most.map_or_else(|| "?".to_owned(), |peaks| size(bytes(peaks)));
        table.row([
            ranges(kind.ranks),
            kind.ranks.len().to_string(),
            process.and_then(|process| process.rank).map_or_else(|| "none".to_owned(), |rank| rank.to_string()),
            of(|peaks| peaks.peak_allocated_bytes),
            of(|peaks| peaks.peak_reserved_bytes),
            process.map_or("did not run, or did not use the GPU", |process| ended(process.how)).to_owned(),
        ]);
    }
    table.write(out, terminal_width())?;
    for process in kinds.iter().filter_map(|kind| kind.process.as_ref()).filter(|process| !process.error.is_empty()) {
        item(out, &format!("{} ended by {}", super::rank_name(process.rank, process.pid), printable(process.error)))?;
    }
    Ok(())
}

/// `0–3, 8, 12–15` for ranks in ascending order; only the first ranges where there are many.
fn ranges(ranks: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let more = if ranges.len() > LISTED { ", …" } else { "" };
    let shown = ranges
        .iter()
        .take(LISTED)
        .map(|&(first, last)| if first == last { first.to_string() } else { format!("{first}–{last}") });
    shown.collect::<Vec<_>>().join(", ") + more
}

/// The errors of the other processes, and the line at which each was that took too long: one of them is the cause.
fn write_ends(out: &mut impl Ink, view: &DryrunView<'_>) -> io::Result<()> {
    for process in view.processes.iter().skip(1) {
        let end = match process.how {
            Ending::Error | Ending::Crash if !process.error.is_empty() => {
                format!("ended by {}", printable(&process.error))
            }
            Ending::Timeout | Ending::Interrupted if !process.place.is_empty() => {
                format!("was at {}", printable(&process.place))
            }
            _ => continue,
        };
        item(out, &format!("{} {end}", super::name_of(process)))?;
    }
    Ok(())
}

fn write_peaks<'a>(
    out: &mut impl Ink,
    processes: impl Iterator<Item = (String, &'a [Peaks], Ending)>,
) -> io::Result<()> {
    let mut table = Table::new([
        ("process", Align::Left),
        ("device", Align::Right),
        ("allocated", Align::Right),
        ("reserved", Align::Right),
        ("retries", Align::Right),
        ("", Align::Left),
    ])
    .indented(2);
    for (name, devices, how) in processes {
        for peaks in devices {
            table.row([
                name.clone(),
                peaks.device.to_string(),
                size(peaks.peak_allocated_bytes),
                size(peaks.peak_reserved_bytes),
                peaks.num_alloc_retries.to_string(),
                ended(how).to_owned(),
            ]);
        }
    }
    table.write(out, terminal_width())
}

/// What a run without a GPU cannot know, as far as this one came upon it.
fn write_caveats(out: &mut impl Ink, view: &DryrunView<'_>, main: &Process) -> io::Result<()> {
    let mut caveats = Vec::new();
    if !view.card.proven {
        caveats.push(format!(
            "Dry runs were only compared with a real H100 and H200: the kernels for a {} may use other scratch memory",
            view.card.name
        ));
    }
    if main.compiled {
        caveats.push(
            "`torch.compile` chooses among kernels by timing them, which is meaningless here: operands are padded \
             where an H200 found that faster, and otherwise the first kernel is chosen; values are not followed in \
             compiled code"
                .to_owned(),
        );
    }
    if main.benchmarked {
        caveats.push(
            "`torch.backends.cudnn.benchmark` is on: PyTorch tries each of cuDNN's engines and requests the largest \
             workspace. The GPU counts as large enough for all of them, and cuDNN's first engine as the fastest"
                .to_owned(),
        );
    }
    if main.convolutions_estimated {
        caveats.push(
            "The workspaces of convolutions are estimates, learned from an H200. If cuDNN 9.8 or newer is installed beside \
             this PyTorch (`pip install nvidia-cudnn-cu13`, or `-cu12`), a dry run asks it for them, without a GPU"
                .to_owned(),
        );
    }
    if !main.without_gpu.is_empty() {
        caveats.push(format!(
            "These ran on the processor, and their memory on the GPU is not counted: {}",
            main.without_gpu.join(", ")
        ));
    }
    if !view.guessed_sizes.is_empty() {
        caveats.push(format!(
            "The scratch memory of these calls is unknown and counts as 0: {}",
            listed(view.guessed_sizes)
        ));
    }
    let (mattering, harmless): (Vec<&Read>, Vec<&Read>) = main.reads.iter().partition(|read| read.may_matter);
    if !harmless.is_empty() {
        let count: u64 = harmless.iter().map(|read| read.count).sum();
        caveats.push(format!(
            "The script read {} that only a GPU could compute, such as losses; they got small numbers, or 0",
            counted(usize::try_from(count).unwrap_or(usize::MAX), "value", "values")
        ));
    }
    if caveats.is_empty() && mattering.is_empty() && main.assumed.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nUnknown without a GPU")?;
    for caveat in &caveats {
        item(out, caveat)?;
    }
    write_reads(out, "Reads that may decide the size of allocations; they got 0 or nothing", &mattering)?;
    let title = "Assumed; `--assume FILE:LINE=VALUE` sets another value at a line";
    write_reads(out, title, &main.assumed.iter().collect::<Vec<_>>())
}

pub(super) fn item(out: &mut impl Ink, text: &str) -> io::Result<()> {
    let width = terminal_width().unwrap_or(WIDTH).saturating_sub(4);
    for (index, line) in broken(text, width).iter().enumerate() {
        writeln!(out, "  {} {line}", if index == 0 { "-" } else { " " })?;
    }
    Ok(())
}

fn write_reads(out: &mut impl Ink, title: &str, reads: &[&Read]) -> io::Result<()> {
    if reads.is_empty() {
        return Ok(());
    }
    item(out, &format!("{title}:"))?;
    for read in reads.iter().take(LISTED) {
        let how = read.assumed.as_ref().map_or_else(String::new, |how| format!(": {}", printable(how)));
        writeln!(out, "      {:>6} × {} at {}{how}", read.count, printable(&read.what), printable(&read.place))?;
    }
    if reads.len() > LISTED {
        writeln!(out, "      and at {} more", counted(reads.len() - LISTED, "place", "places"))?;
    }
    Ok(())
}

fn listed(names: &[String]) -> String {
    let shown = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > LISTED { format!("{shown} and {} more", names.len() - LISTED) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_in_a_row_are_a_range() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0–2, 5, 7–8");
        let many: Vec<u32> = (0..40).step_by(2).collect();
        assert_eq!(ranges(&many), "0, 2, 4, 6, 8, 10, 12, 14, …");
    }
}
