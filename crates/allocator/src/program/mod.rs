//! Request programs: what a program asked of the allocator, as text; run, and written down as the real one would.
//!
//! The formats are those of the oracle, which runs PyTorch's own library: `docs/request-programs.md`.

mod csv;
mod parse;
mod rmm;
mod run;

pub use parse::{Program, ProgramError};
pub use rmm::{Oddity, RmmLog};
pub use run::{Event, FailedRequest, Options, Run, RunError, Summary, run, run_quietly, summarise};

use crate::private::PoolFlags;

/// How many streams the text of a program can name.
pub const MAX_STREAMS: u64 = 64;

/// One row of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Asks for a block. On out-of-memory the slot stays without one.
    Alloc {
        /// Dense number that stands for the program's id.
        slot: usize,
        /// Bytes.
        bytes: u64,
        /// The stream.
        stream: u64,
    },
    /// Frees a block; ignored if the slot has none.
    Free {
        /// The slot.
        slot: usize,
    },
    /// The block is also used on another stream.
    RecordStream {
        /// The slot.
        slot: usize,
        /// The other stream.
        stream: u64,
    },
    /// Whether polled events of a stream, or of all, are complete from here on.
    EventsReady {
        /// The stream; `None` is all.
        stream: Option<u64>,
        /// Complete or not.
        ready: bool,
    },
    /// Returns what is cached.
    EmptyCache {
        /// A private pool; 0 is all.
        pool: u64,
    },
    /// Creates a private pool.
    PoolCreate {
        /// Its id.
        pool: u64,
        /// How it differs from others.
        flags: PoolFlags,
    },
    /// Requests go to a private pool from here on.
    PoolBegin {
        /// Its id.
        pool: u64,
        /// Of this stream only.
        stream: Option<u64>,
    },
    /// Requests go there no longer.
    PoolEnd {
        /// Its id.
        pool: u64,
    },
    /// Drops one use of a pool.
    PoolRelease {
        /// Its id.
        pool: u64,
    },
    /// `set_per_process_memory_fraction`.
    MemoryFraction(f64),
    /// New settings.
    SetConfig(String),
    /// `reset_peak_memory_stats`.
    ResetPeak,
    /// Takes a snapshot: an event, and a block map.
    Snapshot,
}
