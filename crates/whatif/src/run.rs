//! One run of a program: under other settings, with other limits, on another card.

use highwater_allocator::{
    AddressPolicy, Allocator, BlockId, Device, Failure, Observer, OutOfMemory, PoolFlags, Settings, Statistics,
    Undefined, VirtualDevice,
};
use highwater_snapshot::EntryId;

use crate::progress::LOOK_STEPS;
use crate::replay::{Layout, Program, Step};

/// What a program runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The settings, and with them the version.
    pub settings: Settings,
    /// What the allocator may hold, as `set_per_process_memory_fraction` limits it.
    pub limit_bytes: Option<u64>,
    /// The device's memory.
    pub total_bytes: u64,
    /// Of which PyTorch's allocator cannot have this much: the CUDA context, libraries, other processes.
    pub outside_bytes: u64,
    /// Where the driver puts segments.
    pub addresses: AddressPolicy,
    /// Which of the program's layouts it begins with, if it begins amid a run.
    pub layout: usize,
}

/// More memory than any device has: what a program needs beyond it has bounds only.
pub const AMPLE_BYTES: u64 = 1 << 41;

impl Machine {
    /// Whether what an allocator held before the recording could have been held here: if not, the program begins anew,
    /// with the blocks that it had then.
    fn has_room_for(&self, layout: &Layout) -> bool {
        let device = self.total_bytes.saturating_sub(self.outside_bytes);
        layout.reserved_bytes() <= self.limit_bytes.unwrap_or(u64::MAX).min(device)
    }

    /// A device without end.
    pub fn ample(settings: Settings) -> Self {
        let addresses = AddressPolicy::Driver;
        Self { settings, limit_bytes: None, total_bytes: AMPLE_BYTES, outside_bytes: 0, addresses, layout: 0 }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No request failed.
    Fits,
    /// A request failed.
    OutOfMemory {
        /// The first that did; `None` if it came before the recording.
        entry: Option<EntryId>,
        /// The allocator's state at that moment.
        failure: OutOfMemory,
    },
    /// PyTorch itself would have failed.
    Undefined {
        /// Where; `None` if it came before the recording.
        entry: Option<EntryId>,
        /// Why.
        reason: Undefined,
    },
}

impl Outcome {
    /// Whether no request failed.
    pub fn fits(&self) -> bool {
        *self == Self::Fits
    }
}

/// What a run led to.
#[derive(Clone, Debug)]
pub struct Run {
    /// How it ended. A request that failed in the recording too does not end the run: the program lived on.
    pub outcome: Outcome,
    /// The statistics at the end: of the program, or of the run.
    pub statistics: Statistics,
    /// The first request that failed in the recording and not here: what the program would have done then is not
    /// recorded.
    pub spared: Option<EntryId>,
    /// The message of the first failure, as PyTorch would have printed it.
    pub message: Option<String>,
}

impl Run {
    /// The largest amount held from the driver.
    pub fn peak_reserved_bytes(&self) -> u64 {
        self.statistics.reserved_bytes.all().peak
    }

    /// The peak of allocated bytes.
    pub fn peak_allocated_bytes(&self) -> u64 {
        self.statistics.allocated_bytes.all().peak
    }
}

/// Runs a program.
pub fn run(program: &Program, machine: &Machine) -> Run {
    Runner::new(program, machine).run()
}

/// Runs a program for as long as it holds no more from the driver than `most` says, which may change meanwhile; `None` if it
/// ever held more.
pub(super) fn run_within(program: &Program, machine: &Machine, most: impl Fn() -> u64) -> Option<Run> {
    let mut runner = Runner::new(program, machine);
    for step in runner.steps() {
        if runner.reserved_bytes() > most() {
            return None;
        }
        if runner.step(step).is_err() {
            break;
        }
    }
    let run = runner.finish();
    (run.peak_reserved_bytes() <= most()).then_some(run)
}

/// The program is over.
pub(super) struct Ended;

/// A program on its way.
pub(super) struct Runner<'a, O = ()> {
    program: &'a Program,
    /// What was there before the recording lies where it lay.
    begins_amid: bool,
    pub(super) allocator: Allocator<VirtualDevice, O>,
    pub(super) held: Vec<Option<BlockId>>,
    outcome: Outcome,
    spared: Option<EntryId>,
    message: Option<String>,
    /// How many steps it has taken.
    taken: usize,
}

impl<'a> Runner<'a> {
    pub(super) fn new(program: &'a Program, machine: &Machine) -> Self {
        Self::observed(program, machine, ())
    }
}

impl<'a, O: Observer> Runner<'a, O> {
    /// A program that somebody watches.
    pub(super) fn observed(program: &'a Program, machine: &Machine, observer: O) -> Self {
        let device = VirtualDevice::new(machine.total_bytes, machine.outside_bytes, machine.addresses.clone());
        let mut allocator = Allocator::new(device, machine.settings.clone(), observer);
        if machine.limit_bytes.is_some() {
            allocator.set_limit_bytes(machine.limit_bytes);
        }
        for pool in 1..=program.pools {
            // Fails for pools without uses only.
            let _ = allocator.create_pool(u64::from(pool), PoolFlags::default());
        }
        let mut held = vec![None; program.slots];
        let layout = program.layouts.get(machine.layout).filter(|layout| machine.has_room_for(layout));
        if let Some(layout) = layout {
            allocator.device_mut().claim(layout.reserved_bytes());
            for (segment, slots) in layout.segments.iter().zip(&layout.slots) {
                for (block, slot) in allocator.adopt_segment(segment).into_iter().zip(slots) {
                    if let Some(slot) = *slot {
                        held[slot as usize] = block;
                    }
                }
            }
        }
        let begins_amid = layout.is_some();
        Self { program, begins_amid, allocator, held, outcome: Outcome::Fits, spared: None, message: None, taken: 0 }
    }

    /// The steps to take: what was there before the recording is there already, if it is known where.
    pub(super) fn steps(&self) -> &'a [Step] {
        let from = if self.begins_amid { self.program.before_recording } else { 0 };
        &self.program.steps[from..]
    }

    /// What is held from the driver now.
    pub(super) fn reserved_bytes(&self) -> u64 {
        self.allocator.statistics().reserved_bytes.all().current
    }

    /// How it goes so far.
    pub(super) fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Runs the whole program.
    pub(super) fn run(mut self) -> Run {
        for step in self.steps() {
            if self.step(step).is_err() {
                break;
            }
        }
        self.finish()
    }

    /// Whether somebody still waits, who is told how far it is.
    #[cold]
    fn look(&self) -> Result<(), Ended> {
        let watch = &self.program.watch;
        if watch.is_stopped() {
            return Err(Ended);
        }
        watch.ran(self.allocator.settings(), self.taken, self.program.steps.len());
        Ok(())
    }

    /// Takes one step; an error ends the run. A run that is stopped counts as one that fits: its answer is for nobody.
    #[inline]
    pub(super) fn step(&mut self, step: &Step) -> Result<(), Ended> {
        if self.taken.is_multiple_of(LOOK_STEPS) {
            self.look()?;
        }
        self.taken += 1;
        match *step {
            Step::Alloc { slot, entry, bytes, stream, pool } => match self.request(bytes, stream, pool) {
                Ok(block) => self.held[slot as usize] = block,
                Err(failure) => {
                    self.fail(entry, failure);
                    return Err(Ended);
                }
            },
            Step::Attempt { entry, bytes, stream, pool } => match self.request(bytes, stream, pool) {
                Ok(block) => {
                    self.spared.get_or_insert(EntryId::new(entry));
                    // It is not known for how long the program would have kept it.
                    if let Some(block) = block {
                        self.allocator.free(block);
                    }
                }
                Err(failure) => self.fail(entry, failure),
            },
            Step::Free { slot } => {
                if let Some(block) = self.held[slot as usize].take() {
                    self.allocator.free(block);
                }
            }
            Step::FreeLater { slot, event } => {
                if let Some(block) = self.held[slot as usize].take() {
                    let stream = Program::event_stream(event);
                    self.allocator.record_stream(block, stream);
                    self.allocator.device_mut().set_done(stream, false);
                    self.allocator.free(block);
                }
            }
            Step::Done { event } => self.allocator.device_mut().set_done(Program::event_stream(event), true),
            Step::EmptyCache { entry } => {
                if let Err(failure) = self.allocator.empty_cache() {
                    self.fail(entry, failure);
                    return Err(Ended);
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn request(&mut self, bytes: u64, stream: u32, pool: u16) -> Result<Option<BlockId>, Failure> {
        let stream = self.program.streams[stream as usize];
        if pool == 0 {
            return self.allocator.malloc(bytes, stream);
        }
        let pool = u64::from(pool);
        self.allocator.begin_pool(pool, None)?;
        let block = self.allocator.malloc(bytes, stream);
        self.allocator.end_pool(pool)?;
        self.allocator.release_pool_use(pool)?;
        block
    }

    #[cold]
    fn fail(&mut self, entry: u32, failure: Failure) {
        if !self.outcome.fits() {
            return;
        }
        let entry = (entry != u32::MAX).then(|| EntryId::new(entry));
        self.outcome = match failure {
            Failure::OutOfMemory(failure) => {
                let mut message = self.allocator.message(&failure);
                if failure.limit_bytes.is_some() {
                    // On which card the limit was set is not known.
                    message.total_bytes = None;
                }
                self.message = Some(message.to_string());
                Outcome::OutOfMemory { entry, failure }
            }
            Failure::Undefined(reason) => Outcome::Undefined { entry, reason },
            // Refused before anything was tried: by `throw_on_cudamalloc_oom`, or as larger than all memory.
            refused => {
                self.message = Some(refused.to_string());
                Outcome::OutOfMemory { entry, failure: self.refusal(refused) }
            }
        };
    }

    fn refusal(&self, failure: Failure) -> OutOfMemory {
        let (requested_bytes, segment_bytes) = match failure {
            Failure::TooLarge { requested_bytes } => (requested_bytes, requested_bytes),
            Failure::Rejected { segment_bytes } => (0, segment_bytes),
            _ => (0, 0),
        };
        let stats = self.allocator.statistics();
        OutOfMemory {
            requested_bytes,
            rounded_bytes: requested_bytes,
            segment_bytes,
            device_free_bytes: self.allocator.device().free_bytes(),
            device_total_bytes: self.allocator.device().total_bytes(),
            limit_bytes: None,
            allocated_bytes: stats.allocated_bytes.all().current,
            reserved_bytes: stats.reserved_bytes.all().current,
            private_free_bytes: 0,
        }
    }

    pub(super) fn finish(self) -> Run {
        let statistics = *self.allocator.statistics();
        Run { outcome: self.outcome, statistics, spared: self.spared, message: self.message }
    }
}
