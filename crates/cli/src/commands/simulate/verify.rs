//! `highwater simulate FILE --verify`: the recorded settings, replayed and compared entry by entry.

use std::process::ExitCode;

use anyhow::Context as _;
use highwater_analysis::{Reconstruction, StackClasses, analyse_with};
use highwater_documents::verify::{DeviceView, DifferenceView, EntryView, FidelityView, TorchView, VerifyView};
use highwater_documents::{self};
use highwater_findings::verdict::NOTHING_RECORDED;
use highwater_whatif::replay::{Choice, choose};
use highwater_whatif::{Watch, check_replayable};

use super::Args;

use crate::args::FormatToPaste;
use crate::commands::CHECK_FAILED;
use crate::document::{Document, Section};
use crate::output;
use crate::table::{Align, Table};
use crate::units::{count, counted, size};

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
    let recorded: Vec<&Reconstruction<'_>> = devices.iter().map(|device| &*device.reconstruction).collect();
    let choice = match args.torch {
        Some(torch) => Choice::asked(&snapshot, &recorded, torch),
        None => choose(&snapshot, &recorded, &Watch::default()),
    };
    let view = VerifyView::new(&analysis, &devices, &choice);
    output::print(args.format, &view, |_| document(&view))?;
    if args.format != FormatToPaste::Json {
        crate::warnings::print_all(&analysis).context("cannot write to standard error")?;
    }
    let is_equal = view.fidelity.first_difference.is_none();
    Ok(if is_equal { ExitCode::SUCCESS } else { ExitCode::from(CHECK_FAILED) })
}

fn document(view: &VerifyView<'_>) -> Document {
    let mut section = Section::without_heading();
    if view.devices.is_empty() {
        section.line(NOTHING_RECORDED);
    }
    for device in &view.devices {
        add_device(&mut section, device, &view.torch.version);
    }
    let TorchView { version, chosen_by, keys } = &view.torch;
    match *chosen_by {
        "replay" => {
            section.line(format!("The file's keys are those of torch {keys}; of these, {version} agrees best."));
        }
        "file" if keys.contains(" to ") && view.fidelity.first_difference.is_some() => {
            section.line(format!("The file's keys are those of torch {keys}, whose rules are the same."));
        }
        _ => {}
    }
    Document { sections: vec![section], ..Document::default() }
}

fn add_device(section: &mut Section, view: &DeviceView<'_>, torch: &str) {
    let FidelityView { entries, equal, first_difference } = &view.fidelity;
    let (device, counted) = (view.device, counted(*entries, "entry", "entries"));
    let Some(difference) = first_difference else {
        section.line(match entries {
            0 => format!("device {device}: there are no entries to compare"),
            1 => format!("device {device}: the 1 entry is equal (torch {torch}'s rules)"),
            _ => format!("device {device}: all {counted} equal (torch {torch}'s rules){}", limit(view)),
        });
        return;
    };
    section.line(format!(
        "device {device}: {} of {counted} equal (torch {torch}'s rules){}; the first that differs is entry {}",
        count(*equal),
        limit(view),
        count(difference.entry)
    ));
    add_difference(section, difference);
}

/// The limit that was inferred, as an end of a sentence.
fn limit(view: &DeviceView<'_>) -> String {
    let text = |bytes| format!(", with a limit of {}, inferred from when the garbage collector ran", size(bytes));
    view.inferred_limit_bytes.map(text).unwrap_or_default()
}

fn add_difference(section: &mut Section, view: &DifferenceView<'_>) {
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
                (*action).to_owned(),
                address.map(|address| format!("{address:#x}")).unwrap_or_default(),
                count(*size_bytes),
                stream.to_string(),
            ]);
        }
    }
    section.table(table);
    section.line(&*view.note);
}
