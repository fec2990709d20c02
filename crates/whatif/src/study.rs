//! A recorded program, ready to be run under other circumstances.

use highwater_allocator::settings::Backend;
use highwater_allocator::{AddressPolicy, ConfError, Memory, Settings, TorchVersion};
use highwater_analysis::recorded_settings::recorded_settings;
use highwater_analysis::{Reconstruction, parallel};
use highwater_driver::Card;
use highwater_driver::context::TRAINING_BYTES;
use highwater_snapshot::Snapshot;
use highwater_units::count;

use super::live::{LiveBytes, intervals, live_bytes};
use super::packing::{Effort, Packing, pack_watched};
use super::run::{AMPLE_BYTES, Machine, Outcome, Run, run};
use crate::replay::{Fidelity, Program, Replay, replay};

/// The orders in which addresses may be handed out; the first is the driver's own, and gives the numbers that are shown. The
/// others are the range, for a recording does not tell when kernels were loaded and moved what came after them, nor which gaps the
/// process left among its own addresses for the driver to fill: these are others in each process.
pub const ADDRESS_ORDERS: [AddressPolicy; 4] =
    [AddressPolicy::Driver, AddressPolicy::Descending, AddressPolicy::FirstFit, AddressPolicy::Random(1)];

/// A device's program with what is needed to run it again.
#[derive(Clone, Debug)]
pub struct Study {
    /// CUDA ordinal.
    pub device: u32,
    /// What the program asked for.
    pub program: Program,
    /// The version whose rules apply.
    pub torch: TorchVersion,
    /// The settings of the recording.
    pub recorded: Settings,
    /// The string that gave them, as far as the file tells.
    pub recorded_conf: String,
    /// How well the rules explain the recording.
    pub fidelity: Fidelity,
    /// What every allocator needs.
    pub live: LiveBytes,
    /// Why the program may not be quite what ran; `None` if it is.
    pub premise: Option<String>,
}

/// How far a result can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// The program is what ran, and the result is the same wherever the driver puts segments.
    Exact,
    /// Where the driver puts segments changes the result.
    AddressSensitive,
    /// The program would not have run as it did, or the recording does not tell all of it.
    PremiseBroken,
}

impl Confidence {
    /// The word of the JSON document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::AddressSensitive => "address-sensitive",
            Self::PremiseBroken => "premise-broken",
        }
    }
}

/// A run, and what it would be with addresses in other orders.
#[derive(Clone, Debug)]
pub struct Case {
    /// The run whose numbers are shown.
    pub run: Run,
    /// The lowest and the highest peak of allocated memory over all orders.
    pub allocated_range: (u64, u64),
    /// The same of reserved memory.
    pub reserved_range: (u64, u64),
    /// How many of the orders fit, and how many there are.
    pub fitting_orders: (usize, usize),
    /// How far to trust it.
    pub confidence: Confidence,
    /// Why not further.
    pub reason: Option<String>,
}

impl Study {
    /// Takes the program out of a recording.
    pub fn new(snapshot: &Snapshot, device: &Reconstruction<'_>, torch: TorchVersion) -> Self {
        let recorded = recorded_settings(snapshot, torch);
        let replay = replay(snapshot, device, &recorded);
        Self::of_replay(snapshot, device, torch, recorded, replay)
    }

    /// The same, of a recording that is replayed already.
    pub fn of_replay(
        snapshot: &Snapshot,
        device: &Reconstruction<'_>,
        torch: TorchVersion,
        recorded: Settings,
        replay: Replay,
    ) -> Self {
        let premise = premise(device, &replay.fidelity);
        let live = live_bytes(&replay.program);
        let (program, fidelity) = (replay.program, replay.fidelity);
        let recorded_conf = snapshot.settings.conf().unwrap_or_default().to_owned();
        Self { device: device.device, program, torch, recorded, recorded_conf, fidelity, live, premise }
    }

    /// The settings that a string gives.
    ///
    /// # Errors
    /// What PyTorch would refuse.
    pub fn settings(&self, conf: &str) -> Result<Settings, ConfError> {
        let mut settings = Settings::new(self.torch);
        settings.parse(conf)?;
        Ok(settings)
    }

    /// The best placement found that knows the whole program in advance; `None` if it is too large to look for one.
    pub fn packing(&self) -> Option<Packing> {
        let intervals = intervals(&self.program);
        pack_watched(&intervals, Effort::for_blocks(intervals.len()), &self.program.watch)
    }

    /// One run.
    pub fn run(&self, settings: &Settings, memory: Memory, addresses: AddressPolicy) -> Run {
        run(&self.program, &machine(settings, memory, addresses))
    }

    /// One run that begins with nothing reserved: the blocks that were there before the recording are asked for anew.
    pub fn run_anew(&self, settings: &Settings, memory: Memory) -> Run {
        let layout = self.program.layouts.len();
        run(&self.program, &Machine { layout, ..machine(settings, memory, AddressPolicy::Driver) })
    }

    /// A run under each order of addresses, from each layout that the recording may have begun with.
    pub fn case(&self, settings: &Settings, memory: Memory) -> Case {
        let layouts = 0..self.program.layouts.len().max(1);
        let variants: Vec<(usize, &AddressPolicy)> =
            layouts.flat_map(|layout| ADDRESS_ORDERS.iter().map(move |order| (layout, order))).collect();
        let runs = parallel::map(&variants, |&(layout, order)| {
            run(&self.program, &Machine { layout, ..machine(settings, memory, order.clone()) })
        });
        self.judge(settings, runs)
    }

    fn judge(&self, settings: &Settings, runs: Vec<Run>) -> Case {
        let range = |peak: fn(&Run) -> u64| {
            let peaks = || runs.iter().map(peak);
            (peaks().min().unwrap_or(0), peaks().max().unwrap_or(0))
        };
        let (allocated_range, reserved_range) = (range(Run::peak_allocated_bytes), range(Run::peak_reserved_bytes));
        let fitting_orders = (runs.iter().filter(|run| run.outcome.fits()).count(), runs.len());
        let first = &runs[0];
        let entry = |run: &Run| match run.outcome {
            Outcome::Fits => None,
            Outcome::OutOfMemory { entry, .. } | Outcome::Undefined { entry, .. } => Some(entry),
        };
        let same_end = runs.iter().all(|run| entry(run) == entry(first));
        let (confidence, reason) = if let Some(reason) = self.broken_premise(settings, first) {
            (Confidence::PremiseBroken, Some(reason))
        } else if !same_end {
            let reason = if fitting_orders.0 == 0 {
                "the failing request depends on the addresses of the driver's segments".to_owned()
            } else {
                format!(
                    "the result depends on the addresses of the driver's segments: {} of {} orders fit",
                    fitting_orders.0, fitting_orders.1
                )
            };
            (Confidence::AddressSensitive, Some(reason))
        } else if reserved_range.0 != reserved_range.1 {
            let reason = "the peak depends on the addresses of the driver's segments".to_owned();
            (Confidence::AddressSensitive, Some(reason))
        } else {
            (Confidence::Exact, None)
        };
        let run = runs.into_iter().next().expect("there are orders");
        Case { run, allocated_range, reserved_range, fitting_orders, confidence, reason }
    }

    /// Why a run does not tell what the program would have done.
    pub(super) fn broken_premise(&self, settings: &Settings, run: &Run) -> Option<String> {
        if settings.backend == Backend::CudaMallocAsync {
            return Some(
                "`backend:cudaMallocAsync` has no blocks or segments: the driver manages its memory".to_owned(),
            );
        }
        if let Outcome::Undefined { reason, .. } = run.outcome {
            return Some(format!("PyTorch itself would fail here: {reason}"));
        }
        if let Some(entry) = run.spared {
            let entry = count(entry.index());
            return Some(format!(
                "the request of entry {entry} failed in the recording but succeeds here: the program's next steps \
                 were not recorded"
            ));
        }
        self.premise.clone()
    }
}

/// The memory of the smallest card that is known on which a limit can be set so high: it decides
/// nothing that is said.
fn roomy_card(limit_bytes: u64) -> u64 {
    let needed = limit_bytes.saturating_add(TRAINING_BYTES);
    Card::smallest_of_each_size()
        .map(|card| card.memory_bytes)
        .find(|&total| total >= needed)
        .unwrap_or(AMPLE_BYTES.max(needed))
}

/// Where a program runs.
pub(super) fn machine(settings: &Settings, memory: Memory, addresses: AddressPolicy) -> Machine {
    let (limit_bytes, total_bytes, outside_bytes) = match memory {
        Memory::Ample => (None, AMPLE_BYTES, 0),
        Memory::Limit(bytes) => (Some(bytes), roomy_card(bytes), TRAINING_BYTES),
        Memory::Card { total_bytes, outside_bytes } => (None, total_bytes, outside_bytes),
    };
    Machine { settings: settings.clone(), limit_bytes, total_bytes, outside_bytes, addresses, layout: 0 }
}

/// Why a program may not be what ran.
fn premise(device: &Reconstruction<'_>, fidelity: &Fidelity) -> Option<String> {
    if let Some(difference) = &fidelity.first_difference {
        let (equal, entries) = (units_count(fidelity.equal), units_count(fidelity.entries));
        return Some(format!(
            "the rules explain {equal} of {entries} entries and then diverge from the recording: {}",
            difference.note
        ));
    }
    if device.recorded.is_whole() {
        return None;
    }
    let why = device.recorded.reason.as_deref().unwrap_or("the recording does not hold the whole run");
    Some(format!("{why}; the replay assumes that the settings changed with the first entry"))
}

fn units_count(number: u64) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX))
}
