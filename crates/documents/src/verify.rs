//! `highwater-verify`: a recording, replayed under its own settings and compared entry by entry.

use crate::WarningView;
use highwater_allocator::TraceEntry;
use highwater_analysis::torch_version::torch_version;
use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_snapshot::{EntryId, Snapshot};
use highwater_whatif::replay::{Choice, Difference, Fidelity, Replay};
use serde::Serialize;

use crate::{Document, Format, Version};

/// How well our own allocator predicts the recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerifyView<'a> {
    format: Format<Self>,
    version: Version<Self>,
    /// The version whose rules apply.
    pub torch: TorchView,
    /// Of all devices together.
    pub fidelity: FidelityView<'a>,
    /// In the order of their numbers.
    pub devices: Vec<DeviceView<'a>>,
    /// Warnings.
    pub warnings: Vec<WarningView>,
}

impl Document for VerifyView<'_> {
    const FORMAT: &'static str = "highwater-verify";
    const VERSION: u32 = 1;
}

/// The version of PyTorch whose rules were replayed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TorchView {
    /// The version.
    pub version: String,
    /// How it was chosen: `flag`, `file` (by its keys) or `replay`.
    pub chosen_by: &'static str,
    /// The versions that write such a file.
    pub keys: String,
}

/// A device's replay.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceView<'a> {
    /// CUDA ordinal.
    pub device: u32,
    /// How well the rules explain it.
    pub fidelity: FidelityView<'a>,
    /// The limit on reserved bytes that explains when the garbage collector ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inferred_limit_bytes: Option<u64>,
}

/// How well the rules explain a recording.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FidelityView<'a> {
    /// Entries compared.
    pub entries: u64,
    /// The number of equal entries before the first difference.
    pub equal: u64,
    /// The first that did not; absent where all came out the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<DifferenceView<'a>>,
}

/// The point where a replay diverges from its recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DifferenceView<'a> {
    /// CUDA ordinal.
    pub device: u32,
    /// The entry.
    pub entry: u32,
    /// The recorded action; null where the recording ends.
    pub recorded: Option<EntryView<'a>>,
    /// The allocator's action there; null where the replay could not continue.
    pub predicted: Option<EntryView<'a>>,
    /// Why, as far as can be said.
    pub note: String,
}

/// The compared fields of an entry.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EntryView<'a> {
    /// PyTorch's word, such as `alloc`.
    pub action: &'a str,
    /// Absent for an `oom`, which has no address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
    /// Bytes of the block or segment.
    pub size_bytes: u64,
    /// The stream's handle; 0 is the default stream.
    pub stream: u64,
}

impl<'a> VerifyView<'a> {
    /// The document of replays, one for each of the devices.
    pub fn new(analysis: &Analysis<'a>, devices: &[&DeviceAnalysis<'a>], choice: &Choice) -> Self {
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
        let warnings = crate::warnings(analysis);
        Self { format: Format::default(), version: Version::default(), torch, fidelity, devices, warnings }
    }
}

impl<'a> DeviceView<'a> {
    fn new(snapshot: &'a Snapshot, device: &DeviceAnalysis<'a>, replay: &Replay) -> Self {
        Self {
            device: device.device,
            fidelity: FidelityView::new(snapshot, device, &replay.fidelity),
            inferred_limit_bytes: replay.inferred_limit_bytes,
        }
    }
}

impl<'a> FidelityView<'a> {
    /// How well the rules explain the recording of a device.
    pub fn new(snapshot: &'a Snapshot, device: &DeviceAnalysis<'a>, fidelity: &Fidelity) -> Self {
        let Fidelity { entries, equal, ref first_difference } = *fidelity;
        // Of a device without entries there is nothing to differ from.
        let first_difference = first_difference.as_ref().filter(|_| entries > 0).map(|difference| {
            let Difference { entry, predicted, note } = difference;
            DifferenceView {
                device: device.device,
                entry: entry.get(),
                recorded: recorded(snapshot, device, *entry),
                predicted: predicted.as_ref().map(EntryView::predicted),
                note: note.clone(),
            }
        });
        Self { entries, equal, first_difference }
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
