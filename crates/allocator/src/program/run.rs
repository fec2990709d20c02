//! Running a request program.

use thiserror::Error;

use super::{MAX_STREAMS, Op, Program};
use crate::addresses::AddressPolicy;
use crate::allocator::Allocator;
use crate::block::BlockId;
use crate::block_map::MappedSegment;
use crate::failure::{Failure, Undefined};
use crate::message;
use crate::settings::{ConfError, Settings};
use crate::stats::Statistics;
use crate::trace::{Action, Observer, TraceEntry};
use crate::version::TorchVersion;
use crate::virtual_device::VirtualDevice;

/// Handles of a program's streams are multiples of this.
const HANDLE_STEP: u64 = 0x1000;

/// What a program runs on.
#[derive(Clone, Debug)]
pub struct Options {
    /// The version whose rules apply.
    pub torch: TorchVersion,
    /// Settings at the start.
    pub conf: String,
    /// The device's memory.
    pub capacity_bytes: u64,
    /// Of which others hold this much.
    pub outside_bytes: u64,
    /// Where the driver puts segments.
    pub addresses: AddressPolicy,
    /// Whether to stop at the first request that fails.
    pub stop_on_oom: bool,
}

/// One entry of the trace, or a refusal that left none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The row that caused it, from 0.
    pub op: usize,
    /// What happened; `None` is a refusal.
    pub action: Option<Action>,
    /// As in [`TraceEntry::address`].
    pub address: u64,
    /// As in [`TraceEntry::bytes`].
    pub bytes: u64,
    /// The stream.
    pub stream: u64,
    /// The private pool; 0 is the default one.
    pub pool: u64,
}

/// What a program led to.
#[derive(Clone, Debug)]
pub struct Run {
    /// The trace, in canonical order: frees that complete in the same row stand by address.
    pub events: Vec<Event>,
    /// The block map at each snapshot, with its row, and at the end.
    pub block_maps: Vec<(usize, Vec<MappedSegment>)>,
    /// The statistics at the end.
    pub statistics: Statistics,
    /// `max_split_size` of the statistics; -1 is unlimited.
    pub max_split_size: i64,
    /// The first request that failed.
    pub first_failure: Option<FailedRequest>,
    /// Ranges that an [`AddressPolicy::Script`] did not have.
    pub unscripted_ranges: u64,
}

/// What a program led to, without its trace.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The statistics at the end.
    pub statistics: Statistics,
    /// The first request that failed.
    pub first_failure: Option<FailedRequest>,
    /// Ranges that an [`AddressPolicy::Script`] did not have.
    pub unscripted_ranges: u64,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRequest {
    /// The row, from 0.
    pub op: usize,
    /// Bytes as asked for.
    pub requested_bytes: u64,
    /// What PyTorch would have printed.
    pub message: String,
}

/// A program that cannot be run to its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The settings at the start.
    #[error("settings: {0}")]
    Settings(ConfError),
    /// The settings of a row.
    #[error("row {op}: settings: {error}")]
    SettingsOfRow {
        /// The row, from 0.
        op: usize,
        /// What is wrong.
        error: ConfError,
    },
    /// `pool_create` in a version that lacks it.
    #[error("row {op}: `pool_create` needs torch 2.11 or newer")]
    PoolCreate {
        /// The row, from 0.
        op: usize,
    },
    /// PyTorch itself would break.
    #[error("row {op}: PyTorch itself would fail here: {reason}")]
    Undefined {
        /// The row, from 0.
        op: usize,
        /// Why.
        reason: Undefined,
    },
}

/// Runs a program.
///
/// # Errors
/// Settings that PyTorch would refuse; a row at which PyTorch itself would break.
pub fn run(program: &Program, options: &Options) -> Result<Run, RunError> {
    let mut runner = Runner::new(program.slots, options, Recorder::default())?;
    for (op, row) in program.ops.iter().enumerate() {
        runner.allocator.observer_mut().op = op;
        let outcome = runner.step(op, row)?;
        if let Outcome::Refused { bytes, stream } = outcome {
            let refused = Event { op, action: None, address: 0, bytes, stream, pool: 0 };
            runner.allocator.observer_mut().events.push(refused);
        }
        if outcome != Outcome::Done && options.stop_on_oom {
            break;
        }
    }
    runner.take_block_map(program.ops.len());
    let Runner { mut allocator, block_maps, first_failure, .. } = runner;
    let statistics = *allocator.statistics();
    let max_split_size = allocator.max_split_size_statistic();
    let unscripted_ranges = allocator.device().unscripted_ranges();
    let mut events = std::mem::take(&mut allocator.observer_mut().events);
    sort_batches(&mut events);
    Ok(Run { events, block_maps, statistics, max_split_size, first_failure, unscripted_ranges })
}

/// Runs a program without writing down its trace and its block maps.
///
/// # Errors
/// As [`run`].
pub fn summarise(program: &Program, options: &Options) -> Result<Summary, RunError> {
    let mut runner = Runner::new(program.slots, options, ())?;
    runner.takes_block_maps = false;
    for (op, row) in program.ops.iter().enumerate() {
        if runner.step(op, row)? != Outcome::Done && options.stop_on_oom {
            break;
        }
    }
    let Runner { allocator, first_failure, .. } = runner;
    let unscripted_ranges = allocator.device().unscripted_ranges();
    Ok(Summary { statistics: *allocator.statistics(), first_failure, unscripted_ranges })
}

/// Runs a program for its statistics alone.
///
/// # Errors
/// As [`run`].
pub fn run_quietly(program: &Program, options: &Options) -> Result<Statistics, RunError> {
    summarise(program, options).map(|summary| summary.statistics)
}

/// Frees that complete together do so in the hash order of streams, which means nothing: they are put by address.
fn sort_batches(events: &mut [Event]) {
    let completed = Some(Action::FreeCompleted);
    for batch in events.chunk_by_mut(|a, b| a.op == b.op && a.action == completed && b.action == completed) {
        batch.sort_by_key(|event| event.address);
    }
}

/// Keeps the trace, with the row that caused each entry.
#[derive(Default)]
struct Recorder {
    op: usize,
    events: Vec<Event>,
}

impl Observer for Recorder {
    fn record(&mut self, entry: TraceEntry) {
        let TraceEntry { action, address, bytes, stream, pool } = entry;
        let stream = number(stream);
        self.events.push(Event { op: self.op, action: Some(action), address, bytes, stream, pool });
    }
}

/// The handle that the oracle gives a stream: the order in which pending frees complete follows from it.
fn handle(stream: u64) -> u64 {
    stream * HANDLE_STEP
}

fn number(handle: u64) -> u64 {
    handle / HANDLE_STEP
}

/// How a row ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    OutOfMemory,
    /// Without an entry in the trace.
    Refused {
        bytes: u64,
        stream: u64,
    },
}

struct Runner<O> {
    allocator: Allocator<VirtualDevice, O>,
    torch: TorchVersion,
    held: Vec<Option<BlockId>>,
    takes_block_maps: bool,
    block_maps: Vec<(usize, Vec<MappedSegment>)>,
    first_failure: Option<FailedRequest>,
}

impl<O: Observer> Runner<O> {
    fn new(slots: usize, options: &Options, observer: O) -> Result<Self, RunError> {
        let mut settings = Settings::new(options.torch);
        settings.parse(&options.conf).map_err(RunError::Settings)?;
        let device = VirtualDevice::new(options.capacity_bytes, options.outside_bytes, options.addresses.clone());
        Ok(Self {
            allocator: Allocator::new(device, settings, observer),
            torch: options.torch,
            held: vec![None; slots],
            takes_block_maps: true,
            block_maps: Vec::new(),
            first_failure: None,
        })
    }

    #[inline]
    fn step(&mut self, op: usize, row: &Op) -> Result<Outcome, RunError> {
        let allocator = &mut self.allocator;
        let done = match *row {
            Op::Alloc { slot, bytes, stream } => {
                self.held[slot] = None;
                match allocator.malloc(bytes, handle(stream)) {
                    Ok(block) => self.held[slot] = block,
                    Err(Failure::Undefined(reason)) => return Err(RunError::Undefined { op, reason }),
                    Err(failure) => {
                        self.keep_first(op, bytes, &failure);
                        return Ok(match failure {
                            Failure::OutOfMemory(_) => Outcome::OutOfMemory,
                            _ => Outcome::Refused { bytes, stream },
                        });
                    }
                }
                Ok(())
            }
            Op::Free { slot } => {
                if let Some(block) = self.held[slot].take() {
                    allocator.free(block);
                }
                Ok(())
            }
            Op::RecordStream { slot, stream } => {
                if let Some(block) = self.held[slot] {
                    allocator.record_stream(block, handle(stream));
                }
                Ok(())
            }
            Op::EventsReady { stream, ready } => {
                for stream in stream.map_or(0..MAX_STREAMS, |stream| stream..stream + 1) {
                    allocator.device_mut().set_done(handle(stream), ready);
                }
                Ok(())
            }
            Op::EmptyCache { pool: 0 } => allocator.empty_cache(),
            Op::EmptyCache { pool } => allocator.empty_cache_of(pool),
            Op::PoolCreate { .. } if self.torch < TorchVersion::v2(11) => return Err(RunError::PoolCreate { op }),
            Op::PoolCreate { pool, flags } => allocator.create_pool(pool, flags),
            Op::PoolBegin { pool, stream } => allocator.begin_pool(pool, stream.map(handle)),
            Op::PoolEnd { pool } => allocator.end_pool(pool),
            Op::PoolRelease { pool } => allocator.release_pool_use(pool),
            Op::MemoryFraction(fraction) => {
                allocator.set_memory_fraction(fraction);
                Ok(())
            }
            Op::SetConfig(ref conf) => {
                let parsed = allocator.settings_mut().parse(conf);
                return parsed.map(|()| Outcome::Done).map_err(|error| RunError::SettingsOfRow { op, error });
            }
            Op::ResetPeak => {
                allocator.reset_peak();
                Ok(())
            }
            Op::Snapshot => {
                allocator.mark_snapshot();
                if self.takes_block_maps {
                    self.take_block_map(op);
                }
                Ok(())
            }
        };
        match done {
            Ok(()) => Ok(Outcome::Done),
            Err(Failure::Undefined(reason)) => Err(RunError::Undefined { op, reason }),
            Err(_) => unreachable!("only requests can fail for lack of memory"),
        }
    }

    #[cold]
    fn keep_first(&mut self, op: usize, requested_bytes: u64, failure: &Failure) {
        let allocator = &self.allocator;
        self.first_failure.get_or_insert_with(|| {
            let message = match failure {
                Failure::OutOfMemory(failure) => allocator.message(failure).to_string(),
                Failure::TooLarge { .. } => message::MORE_THAN_1_EB.to_owned(),
                _ => message::rejected(requested_bytes),
            };
            FailedRequest { op, requested_bytes, message }
        });
    }

    fn take_block_map(&mut self, op: usize) {
        let mut segments = self.allocator.block_map();
        for segment in &mut segments {
            segment.stream = number(segment.stream);
        }
        self.block_maps.push((op, segments));
    }
}
