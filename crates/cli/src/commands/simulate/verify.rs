//! `highwater simulate FILE --verify`: the recorded settings, replayed and compared entry by entry.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use highwater_allocator::TraceEntry;
use highwater_analysis::replay::{Choice, Difference, Fidelity, Replay, choose};
use highwater_analysis::torch_version::torch_version;
use highwater_analysis::view::answer::check_replayable;
use highwater_analysis::view::{self, WarningView};
use highwater_analysis::{Analysis, DeviceAnalysis, StackClasses, analyse_with};
use highwater_snapshot::{EntryId, Snapshot};
use serde::Serialize;

use super::{Args, FORMAT, VERSION};
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
    let document = Document::new(&analysis, &devices, &choice);
    match args.format {
        Format::Json => to_stdout(|out| write_json(out, &document))?,
        Format::Text => {
            text_to_stdout(|out| document.write_text(out))?;
            crate::warnings::print_all(&analysis).context("cannot write to standard error")?;
        }
    }
    let is_equal = document.fidelity.first_difference.is_none();
    Ok(if is_equal { ExitCode::SUCCESS } else { ExitCode::from(CHECK_FAILED) })
}

/// The whole answer: `highwater-simulate` with `fidelity`.
#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    torch: TorchView,
    /// Of all devices together.
    fidelity: FidelityView<'a>,
    devices: Vec<DeviceView<'a>>,
    warnings: Vec<WarningView>,
}

#[derive(Serialize)]
struct TorchView {
    /// Whose rules were replayed.
    version: String,
    /// `flag`, `file` or `replay`.
    chosen_by: &'static str,
    /// The versions that write such a file.
    keys: String,
}

#[derive(Serialize)]
struct DeviceView<'a> {
    device: u32,
    fidelity: FidelityView<'a>,
    /// The limit on reserved bytes that explains when the garbage collector ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    inferred_limit_bytes: Option<u64>,
}

#[derive(Clone, Serialize)]
struct FidelityView<'a> {
    entries: u64,
    equal: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_difference: Option<DifferenceView<'a>>,
}

#[derive(Clone, Serialize)]
struct DifferenceView<'a> {
    device: u32,
    entry: u32,
    /// Null where the recording ends.
    recorded: Option<EntryView<'a>>,
    /// Null where the replay could not go on.
    predicted: Option<EntryView<'a>>,
    note: &'a str,
}

/// What is compared of an entry.
#[derive(Clone, Serialize)]
struct EntryView<'a> {
    action: &'a str,
    /// Absent for an `oom`, which is about none.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<u64>,
    size_bytes: u64,
    stream: u64,
}

impl<'a> Document<'a> {
    fn new(analysis: &Analysis<'a>, devices: &[&DeviceAnalysis<'a>], choice: &'a Choice) -> Self {
        let snapshot = analysis.snapshot;
        let shown = devices.iter().zip(&choice.replays);
        let devices: Vec<_> = shown.map(|(device, replay)| DeviceView::new(snapshot, device, replay)).collect();
        let fidelity = FidelityView {
            entries: devices.iter().map(|device| device.fidelity.entries).sum(),
            equal: devices.iter().map(|device| device.fidelity.equal).sum(),
            first_difference: devices.iter().find_map(|device| device.fidelity.first_difference.clone()),
        };
        let torch = TorchView {
            version: choice.torch.to_string(),
            chosen_by: choice.by.name(),
            keys: torch_version(snapshot).to_string(),
        };
        let warnings = view::warnings(analysis);
        Self { format: FORMAT, version: VERSION, torch, fidelity, devices, warnings }
    }

    fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        if self.devices.is_empty() {
            writeln!(out, "the snapshot has no entries and no segments")?;
        }
        for device in &self.devices {
            device.write_text(out, &self.torch.version)?;
        }
        let TorchView { version, chosen_by, keys } = &self.torch;
        match *chosen_by {
            "replay" => writeln!(out, "The file's keys are those of torch {keys}; of these, {version} agrees most."),
            "file" if keys.contains(" to ") && self.fidelity.first_difference.is_some() => {
                writeln!(out, "The file's keys are those of torch {keys}, whose rules are the same.")
            }
            _ => Ok(()),
        }
    }
}

impl<'a> DeviceView<'a> {
    fn new(snapshot: &'a Snapshot, device: &DeviceAnalysis<'a>, replay: &'a Replay) -> Self {
        let Fidelity { entries, equal, ref first_difference } = replay.fidelity;
        // Of a device without entries there is nothing to differ from.
        let first_difference = first_difference.as_ref().filter(|_| entries > 0).map(|difference| {
            let Difference { entry, predicted, note } = difference;
            DifferenceView {
                device: device.device,
                entry: entry.get(),
                recorded: recorded(snapshot, device, *entry),
                predicted: predicted.as_ref().map(EntryView::predicted),
                note,
            }
        });
        Self {
            device: device.device,
            fidelity: FidelityView { entries, equal, first_difference },
            inferred_limit_bytes: replay.inferred_limit_bytes,
        }
    }

    fn write_text(&self, out: &mut impl Write, torch: &str) -> io::Result<()> {
        let FidelityView { entries, equal, first_difference } = &self.fidelity;
        let (device, counted) = (self.device, counted(*entries, "entry", "entries"));
        let Some(difference) = first_difference else {
            return match entries {
                0 => writeln!(out, "device {device}: there are no entries to compare"),
                1 => writeln!(out, "device {device}: the 1 entry is equal (torch {torch}'s rules)"),
                _ => writeln!(out, "device {device}: all {counted} equal (torch {torch}'s rules){}", self.limit()),
            };
        };
        writeln!(
            out,
            "device {device}: {} of {counted} equal (torch {torch}'s rules){}; the first that differs is entry {}",
            count(*equal),
            self.limit(),
            count(difference.entry)
        )?;
        difference.write_text(out)
    }

    /// The limit that was inferred, as an end of a sentence.
    fn limit(&self) -> String {
        let text = |bytes| format!(", with a limit of {}, inferred from when the garbage collector ran", size(bytes));
        self.inferred_limit_bytes.map(text).unwrap_or_default()
    }
}

impl DifferenceView<'_> {
    fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let mut table = Table::new([
            ("", Align::Left),
            ("action", Align::Left),
            ("address", Align::Left),
            ("bytes", Align::Right),
            ("stream", Align::Right),
        ])
        .indented(2);
        for (name, entry) in [("recorded", &self.recorded), ("predicted", &self.predicted)] {
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
        broken(self.note, width).iter().try_for_each(|line| writeln!(out, "  {line}"))
    }
}

impl EntryView<'_> {
    fn predicted(entry: &TraceEntry) -> Self {
        let TraceEntry { action, address, bytes, stream, .. } = *entry;
        let address = (action != highwater_allocator::Action::OutOfMemory).then_some(address);
        Self { action: action.name(), address, size_bytes: bytes, stream }
    }
}

fn recorded<'a>(snapshot: &'a Snapshot, device: &DeviceAnalysis<'_>, entry: EntryId) -> Option<EntryView<'a>> {
    let entry = (entry.index() < device.entries.len()).then(|| device.entries.get(entry))?;
    Some(EntryView {
        action: snapshot.action_name(entry.action),
        address: (entry.action != highwater_snapshot::Action::OOM).then_some(entry.address),
        size_bytes: entry.size_bytes,
        stream: snapshot.stream_handle(entry.stream),
    })
}
