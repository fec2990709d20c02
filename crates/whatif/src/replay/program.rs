//! What the program asked for, without what the allocator made of it.

use super::layout::Layout;
use crate::progress::Watch;

/// One request, or a fact about the program that the allocator is given.
///
/// Slots stand for blocks: rows of the device's [`Lifetimes`](highwater_analysis::lifetime::Lifetimes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A block is asked for.
    Alloc {
        /// Where it is kept.
        slot: u32,
        /// The entry; `u32::MAX` if that came before the first one.
        entry: u32,
        /// Requested bytes.
        bytes: u64,
        /// Row of [`Program::streams`].
        stream: u32,
        /// The private pool; 0 is the default one.
        pool: u16,
    },
    /// A request that failed in the recording, as rounded there.
    Attempt {
        /// The entry.
        entry: u32,
        /// Bytes.
        bytes: u64,
        /// Row of [`Program::streams`].
        stream: u32,
        /// The private pool; 0 is the default one.
        pool: u16,
    },
    /// A block is freed.
    Free {
        /// Where it was kept.
        slot: u32,
    },
    /// A block is freed while another stream still uses it.
    FreeLater {
        /// Where it was kept.
        slot: u32,
        /// Stands for the other stream's work: the number of an event.
        event: u16,
    },
    /// The work that a free waits for is done.
    Done {
        /// The number of the event.
        event: u16,
    },
    /// `torch.cuda.empty_cache()`.
    EmptyCache {
        /// The first entry that it caused.
        entry: u32,
    },
}

/// The requests of one device, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// What happens.
    pub steps: Vec<Step>,
    /// How many slots the steps name.
    pub slots: usize,
    /// Handles of the streams.
    pub streams: Vec<u64>,
    /// How many private pools the steps name: they are 1 to this number.
    pub pools: u16,
    /// How many of the first steps stand for what was there before the recording.
    pub before_recording: usize,
    /// Where that lay: none if there was nothing, two if the sizes of its blocks are not known for sure.
    pub layouts: Vec<Layout>,
    /// Who waits for its runs.
    pub watch: Watch,
}

impl Program {
    /// Blocks asked for.
    pub fn requests(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Alloc { .. } | Step::Attempt { .. })).count()
    }

    /// The handle that stands for the stream of an event: none that a driver gives, for those are addresses.
    pub(crate) fn event_stream(event: u16) -> u64 {
        1 << 47 | u64::from(event)
    }
}

const _: () = assert!(size_of::<Step>() == 24, "a step is three words");
