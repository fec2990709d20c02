//! `highwater-dryrun`: the memory that a script would use on an imitated GPU.

use std::borrow::Cow;
use std::time::Duration;

use crate::{ExplainView, ReportView, SimulateView};
use highwater_nullgpu::alike::Kind;
use highwater_nullgpu::run::{Ending, Outcome, Peaks, Process};
use highwater_nullgpu::sandbox::Writes;
use highwater_whatif::Confidence;
use serde::Serialize;

use crate::{Document, Format, Version};

mod cause;

/// A dry run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DryrunView<'a> {
    format: Format<Self>,
    version: Version<Self>,
    /// The GPU that was imitated.
    pub card: CardView,
    /// The number of such GPUs.
    pub devices: u32,
    /// How the process ended that is explained.
    pub ended: Ending,
    /// The exception or signal that ended it; absent if none did. If another rank is the cause, its own comes first.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub error: Cow<'a, str>,
    /// Why a run of several ranks failed, if one of them or several are the cause; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<CauseView>,
    /// The steps of the optimizer that made the most.
    pub steps: u64,
    /// How long it ran.
    pub duration_secs: f64,
    /// PyTorch's own peaks, on the device with the highest reserved memory; null if the process used no device.
    pub peak: Option<PeakView>,
    /// Every process that used the GPU; the first is explained.
    pub processes: &'a [Process],
    /// The peaks with segments at other addresses; absent if they are the same wherever the driver puts segments, or
    /// cannot be known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<AddressesView>,
    /// Why this is not the first run: that one failed, and this one makes another assumption; absent if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<OtherwiseView<'a>>,
    /// The processes of a second run, in which streams finish as late as they can; absent if timing decides nothing,
    /// or was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<Vec<AgainView<'a>>>,
    /// The processes of a third run, in which streams finish at once until an optimizer has stepped, and then as late as they
    /// can: in the first step a real host is often slower than the GPU. Absent like `late`, and if no optimizer stepped twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_after_first_step: Option<Vec<AgainView<'a>>>,
    /// The processes of a run in which few elements of unknown masks are set, experts are chosen unevenly and scaled
    /// gradients always overflow; absent if the sizes of nothing were assumed, or if assumptions were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub few: Option<Vec<AgainView<'a>>>,
    /// The ranks of each kind, the kind of the lowest rank first; absent unless one of each kind was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<KindView<'a>>>,
    /// Functions of CUDA's libraries that query a size which is unknown here, and got none.
    pub guessed_sizes: &'a [String],
    /// Calls that returned success and did nothing else.
    pub unanswered: &'a [String],
    /// The files that the script wrote in its sandbox, now deleted; absent without a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<&'a Writes>,
    /// The document `highwater-report` of its recording.
    pub report: &'a ReportView<'a>,
    /// The document `highwater-simulate` of its recording; absent where nothing can be run again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulate: Option<&'a SimulateView<'a>>,
    /// The document `highwater-explain` of its recording; absent unless it ended by an out-of-memory error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<&'a ExplainView<'a>>,
}

impl Document for DryrunView<'_> {
    const FORMAT: &'static str = "highwater-dryrun";
    const VERSION: u32 = 1;
}

/// A card.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CardView {
    /// Its name on the command line.
    pub key: &'static str,
    /// The vendor's name for it.
    pub name: &'static str,
    /// Its memory, as imitated.
    pub memory_bytes: u64,
    /// Whether dry runs on this GPU were compared with the real one.
    pub proven: bool,
}

/// The ranks that made a run fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CauseView {
    /// Their numbers, ascending.
    pub ranks: Vec<u32>,
    /// The cause in words, without a full stop.
    pub text: String,
}

/// An assumption with which a script gets to its end that failed without it.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherwiseView<'a> {
    /// The exception that ended the first run.
    pub error: &'a str,
    /// The assumption, as `--assume` takes it.
    pub assumed: &'a str,
}

/// A process of a further run, which shows the other end of the peak.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgainView<'a> {
    /// Its number.
    pub pid: u32,
    /// Its number among several processes.
    pub rank: Option<u32>,
    /// How it ended.
    pub how: Ending,
    /// The exception or signal that ended it; absent if none did.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub error: &'a str,
    /// PyTorch's own peaks.
    pub devices: &'a [Peaks],
}

/// Ranks that are taken to be equal.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindView<'a> {
    /// Their numbers, ascending.
    pub ranks: &'a [u32],
    /// The one that ran; null if it did not run, or ended before it used the GPU.
    pub process: Option<AgainView<'a>>,
}

/// PyTorch's own peaks of a device.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeakView {
    /// CUDA ordinal.
    pub device: u32,
    /// Requested.
    pub requested_bytes: u64,
    /// In blocks that tensors own.
    pub allocated_bytes: u64,
    /// Allocated, or freed but still in use by another stream.
    pub active_bytes: u64,
    /// Held from the driver.
    pub reserved_bytes: u64,
}

/// The lowest and the highest peak, the run's own among them, where the driver puts segments in several orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AddressesView {
    /// In blocks that tensors own.
    pub allocated_bytes: (u64, u64),
    /// Held from the driver.
    pub reserved_bytes: (u64, u64),
}

impl AddressesView {
    /// What a simulation of the recording adds to the peaks that the run had.
    fn new(peaks: &Peaks, simulate: &SimulateView<'_>) -> Option<Self> {
        let run = simulate.runs.first()?;
        let is_the_same = simulate.device == peaks.device && !simulate.ends_at_error && run.capacity_bytes.is_none();
        if !is_the_same || run.confidence == Confidence::PremiseBroken.name() {
            return None;
        }
        let with = |(least, most): (u64, u64), own: u64| (least.min(own), most.max(own));
        let allocated_bytes = with(run.peak_allocated_range_bytes, peaks.peak_allocated_bytes);
        let reserved_bytes = with(run.peak_reserved_range_bytes, peaks.peak_reserved_bytes);
        let depends = [allocated_bytes, reserved_bytes].iter().any(|(least, most)| least < most);
        depends.then_some(Self { allocated_bytes, reserved_bytes })
    }
}

/// The runs of one script that a document tells of.
#[derive(Clone, Copy, Debug)]
pub struct Runs<'a> {
    /// The first run.
    pub first: &'a Outcome,
    /// The process of it that is explained.
    pub main: &'a Process,
    /// What was assumed where the run before `first` had failed.
    pub otherwise: Option<OtherwiseView<'a>>,
    /// A second run, in which streams finish late.
    pub late: Option<&'a Outcome>,
    /// A third one, in which they finish late after the first step of an optimizer.
    pub late_after_first_step: Option<&'a Outcome>,
    /// Another one, in which few elements of masks are set.
    pub few: Option<&'a Outcome>,
    /// The kinds of imagined ranks, with the process of one of each.
    pub kinds: Option<&'a [Kind<Option<Process>>]>,
}

impl<'a> DryrunView<'a> {
    /// The document of runs on `devices` GPUs, with those of the recording of the process that is explained.
    pub fn new(
        card: CardView,
        devices: u32,
        runs: Runs<'a>,
        report: &'a ReportView<'a>,
        simulate: Option<&'a SimulateView<'a>>,
        explain: Option<&'a ExplainView<'a>>,
    ) -> Self {
        let Runs { first: outcome, main, otherwise, late, late_after_first_step, few, kinds } = runs;
        let most = main.devices.iter().max_by_key(|peaks| peaks.peak_reserved_bytes);
        let cause = cause::of(outcome);
        Self {
            format: Format::default(),
            version: Version::default(),
            card,
            devices,
            ended: main.how,
            error: cause::error(main, &outcome.processes, cause.as_ref()),
            cause,
            steps: main.steps,
            duration_secs: Duration::as_secs_f64(&outcome.duration),
            peak: most.map(|peaks| PeakView {
                device: peaks.device,
                requested_bytes: peaks.peak_requested_bytes,
                allocated_bytes: peaks.peak_allocated_bytes,
                active_bytes: peaks.peak_active_bytes,
                reserved_bytes: peaks.peak_reserved_bytes,
            }),
            processes: &outcome.processes,
            addresses: most.zip(simulate).and_then(|(peaks, simulate)| AddressesView::new(peaks, simulate)),
            otherwise,
            late: late.map(again),
            late_after_first_step: late_after_first_step.map(again),
            few: few.map(again),
            kinds: kinds.map(|kinds| kinds.iter().map(KindView::new).collect()),
            guessed_sizes: &outcome.unanswered.guessed,
            unanswered: &outcome.unanswered.unanswered,
            sandbox: outcome.writes.as_ref(),
            report,
            simulate,
            explain,
        }
    }
}

fn again(outcome: &Outcome) -> Vec<AgainView<'_>> {
    outcome.processes.iter().map(AgainView::new).collect()
}

impl<'a> KindView<'a> {
    fn new(kind: &'a Kind<Option<Process>>) -> Self {
        Self { ranks: &kind.ranks, process: kind.found.as_ref().map(AgainView::new) }
    }
}

impl<'a> AgainView<'a> {
    fn new(process: &'a Process) -> Self {
        Self {
            pid: process.pid,
            rank: process.rank,
            how: process.how,
            error: &process.error,
            devices: &process.devices,
        }
    }

    /// Its peaks of a device, if it lived to have them.
    pub fn peaks(&self, device: u32) -> Option<&'a Peaks> {
        let ended_well = matches!(self.how, Ending::Exit | Ending::Steps);
        self.devices.iter().find(|peaks| ended_well && peaks.device == device)
    }
}
