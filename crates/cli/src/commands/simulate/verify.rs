//! `highwater simulate FILE --verify`: the recorded settings, replayed and compared entry by entry.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use highwater_analysis::{StackClasses, analyse_with};
use highwater_documents::verify::{DeviceView, DifferenceView, EntryView, FidelityView, TorchView, VerifyView};
use highwater_documents::{self};
use highwater_findings::verdict::NOTHING_RECORDED;
use highwater_whatif::check_replayable;
use highwater_whatif::replay::{Choice, choose};

use super::Args;

use crate::args::Format;
use crate::commands::CHECK_FAILED;
use crate::output::{text_to_stdout, to_stdout, write_json};
use crate::printable::printable;
use crate::table::{Align, Table, broken, terminal_width};
use crate::units::{count, counted, size};

/// Columns of text where the output is no terminal.
const TEXT_WIDTH: usize = 100;

/// Replays every device and says whether each entry is predicted as it was recorded; the status is 1 if one is not.
///
/// # Errors
/// If the snapshot cannot be read, or its allocator is not PyTorch's own.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let input = args.input().context("`--verify` needs a snapshot")?;
    let (snapshot, classes) = input.read_with(StackClasses::new)?;
    check_replayable(&snapshot, &input.name())?;
    let analysis = analyse_with(&snapshot, classes);
    let wanted = input.devices(&snapshot);
    let devices: Vec<_> = analysis.devices.iter().filter(|device| wanted.contains(&device.device)).collect();
    let choice = match args.torch {
        Some(torch) => Choice::asked(&snapshot, &devices, torch),
        None => choose(&snapshot, &devices),
    };
    let view = VerifyView::new(&analysis, &devices, &choice);
    match args.format {
        Format::Json => to_stdout(|out| write_json(out, &view))?,
        Format::Text => {
            text_to_stdout(|out| write(out, &view))?;
            crate::warnings::print_all(&analysis).context("cannot write to standard error")?;
        }
    }
    let is_equal = view.fidelity.first_difference.is_none();
    Ok(if is_equal { ExitCode::SUCCESS } else { ExitCode::from(CHECK_FAILED) })
}

fn write(out: &mut impl Write, view: &VerifyView<'_>) -> io::Result<()> {
    if view.devices.is_empty() {
        writeln!(out, "{NOTHING_RECORDED}")?;
    }
    for device in &view.devices {
        write_device(out, device, &view.torch.version)?;
    }
    let TorchView { version, chosen_by, keys } = &view.torch;
    match *chosen_by {
        "replay" => writeln!(out, "The file's keys are those of torch {keys}; of these, {version} agrees most."),
        "file" if keys.contains(" to ") && view.fidelity.first_difference.is_some() => {
            writeln!(out, "The file's keys are those of torch {keys}, whose rules are the same.")
        }
        _ => Ok(()),
    }
}

fn write_device(out: &mut impl Write, view: &DeviceView<'_>, torch: &str) -> io::Result<()> {
    let FidelityView { entries, equal, first_difference } = &view.fidelity;
    let (device, counted) = (view.device, counted(*entries, "entry", "entries"));
    let Some(difference) = first_difference else {
        return match entries {
            0 => writeln!(out, "device {device}: there are no entries to compare"),
            1 => writeln!(out, "device {device}: the 1 entry is equal (torch {torch}'s rules)"),
            _ => writeln!(out, "device {device}: all {counted} equal (torch {torch}'s rules){}", limit(view)),
        };
    };
    writeln!(
        out,
        "device {device}: {} of {counted} equal (torch {torch}'s rules){}; the first that differs is entry {}",
        count(*equal),
        limit(view),
        count(difference.entry)
    )?;
    write_difference(out, difference)
}

/// The limit that was inferred, as an end of a sentence.
fn limit(view: &DeviceView<'_>) -> String {
    let text = |bytes| format!(", with a limit of {}, inferred from when the garbage collector ran", size(bytes));
    view.inferred_limit_bytes.map(text).unwrap_or_default()
}

fn write_difference(out: &mut impl Write, view: &DifferenceView<'_>) -> io::Result<()> {
    let mut table = Table::new([
        ("", Align::Left),
        ("action", Align::Left),
        ("address", Align::Left),
        ("bytes", Align::Right),
        ("stream", Align::Right),
    ])
    .indented(2);
    for (name, entry) in [("recorded", &view.recorded), ("predicted", &view.predicted)] {
        if let Some(EntryView { action, address, size_bytes, stream }) = entry {
            table.row([
                name.to_owned(),
                printable(action).into_owned(),
                address.map(|address| format!("{address:#x}")).unwrap_or_default(),
                count(*size_bytes),
                stream.to_string(),
            ]);
        }
    }
    table.write(out, terminal_width())?;
    let width = terminal_width().unwrap_or(TEXT_WIDTH).saturating_sub(2);
    broken(&view.note, width).iter().try_for_each(|line| writeln!(out, "  {line}"))
}
