//! How little memory any allocator could have needed, knowing the future.
//!
//! Live bytes are the lower bound: at their peak, all of them must be somewhere. An allocator that never moves a block
//! may need more, for holes between live blocks. How much more it must need is dynamic storage allocation, which is
//! NP-hard; a placement that somebody found shows how much suffices. Where the two numbers meet, that is the answer.

mod moments;
mod neighbours;
mod occupancy;
mod order;
mod repair;
mod search;
mod sweep;

use highwater_analysis::lifetime::number;
use moments::Moments;

use crate::progress::Watch;

/// A block that must be somewhere in memory from one entry to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    /// The entry that allocates it.
    pub start: u32,
    /// The entry that frees it: its bytes are free for others from this entry on. `u32::MAX` if none does.
    pub end: u32,
    /// Bytes as rounded by the allocator.
    pub bytes: u64,
}

impl Interval {
    /// Whether it needs memory at all.
    fn is_something(self) -> bool {
        self.bytes > 0 && self.start < self.end
    }
}

/// How hard to look for a better placement: the result depends on this number, never on the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Effort {
    /// About how many times each block may be placed; with 0, blocks are placed once, in order of time.
    pub attempts: u32,
}

impl Effort {
    /// A second or so where no answer meets the bound, a few for a million blocks: the more there are, the fewer attempts.
    pub fn for_blocks(count: usize) -> Self {
        let attempts = 300_000 / count.max(1);
        Self { attempts: u32::try_from(attempts).unwrap_or(u32::MAX).clamp(2, 50) }
    }
}

/// A placement of blocks in one address space, and the bound it is measured by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The highest sum of live bytes: no allocator needs less.
    pub live_bytes: u64,
    /// The entry in which the sum is first that high; `None` if nothing is ever live.
    pub live_entry: Option<u32>,
    /// What the placement needs: one past its highest address.
    pub packed_bytes: u64,
    /// The address of each interval, in the order of the input. Of an interval without bytes or entries it is 0.
    pub addresses: Vec<u64>,
}

/// Places blocks whose whole lives are known, in as little memory as it can find.
///
/// The same input and effort give the same placement. `None` if the intervals have more than 2^62 bytes together, or
/// are 2^31 or more.
///
/// ```
/// use highwater_whatif::packing::{Effort, Interval, pack};
///
/// // Three blocks; the first is freed before the third is allocated.
/// let intervals = [
///     Interval { start: 0, end: 2, bytes: 1024 },
///     Interval { start: 1, end: u32::MAX, bytes: 512 },
///     Interval { start: 2, end: u32::MAX, bytes: 2048 },
/// ];
/// let packing = pack(&intervals, Effort::for_blocks(intervals.len())).unwrap();
/// assert_eq!(packing.live_bytes, 2560);
/// assert_eq!(packing.live_entry, Some(2));
/// // The second block is placed where it leaves no hole: above 2048, or at 0.
/// assert_eq!(packing.packed_bytes, packing.live_bytes);
/// ```
pub fn pack(intervals: &[Interval], effort: Effort) -> Option<Packing> {
    pack_watched(intervals, effort, &Watch::default())
}

/// The same; once the watch is stopped, what it has then, which may be no placement.
pub(crate) fn pack_watched(intervals: &[Interval], effort: Effort, watch: &Watch) -> Option<Packing> {
    let moments = Moments::new(intervals)?;
    let mut addresses = vec![0; intervals.len()];

    // What is live all the time can be at the bottom of any placement: nothing else ever has an address there.
    let last = number(moments.live.len());
    let always = moments.spans.partition_point(|span| span.from == 0 && span.to == last);
    let mut bottom = 0;
    for (span, &source) in moments.spans.iter().zip(&moments.sources).take(always) {
        addresses[source as usize] = bottom;
        bottom += span.bytes;
    }

    let (spans, sources) = (&moments.spans[always..], &moments.sources[always..]);
    let contention = &moments.contention()[always..];
    let looks = u64::from(effort.attempts).saturating_mul(spans.len() as u64).saturating_mul(search::LOOKS_A_BLOCK);
    let target = moments.peak_bytes - bottom;
    let placed = search::search(spans, contention, moments.live.len(), target, looks, watch);
    let mut packed_bytes = bottom;
    for ((span, &source), address) in spans.iter().zip(sources).zip(placed) {
        addresses[source as usize] = bottom + address;
        packed_bytes = packed_bytes.max(bottom + address + span.bytes);
    }
    Some(Packing { live_bytes: moments.peak_bytes, live_entry: moments.peak_entry, packed_bytes, addresses })
}
