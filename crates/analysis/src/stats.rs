//! The table of `torch.cuda.memory_summary()`, from a file: what a snapshot can tell of it.

use std::collections::BTreeSet;

use highwater_snapshot::{Action, Block, BlockState, EntryTable, Segment, SegmentType, Snapshot};

use crate::device::DeviceAnalysis;

/// One metric of one pool: `None` where the snapshot cannot tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// At the dump.
    pub current: Option<u64>,
    /// The maximum.
    pub peak: Option<u64>,
    /// Sum of all increases.
    pub allocated: Option<u64>,
    /// Sum of all decreases.
    pub freed: Option<u64>,
}

/// A metric, by pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metric {
    /// Both.
    pub all: Stat,
    /// Blocks above 1 MiB.
    pub large: Stat,
    /// Blocks of up to 1 MiB.
    pub small: Stat,
}

/// The rows of `memory_summary()`, under the names of `memory_stats()`.
///
/// # Source
/// `spec/snapshot-format.md` section 17, `spec/caching-allocator.md` section 18.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// `num_ooms`.
    pub num_ooms: Option<u64>,
    /// `num_alloc_retries`: a snapshot does not tell.
    pub num_alloc_retries: Option<u64>,
    /// Allocated memory. Its history needs the blocks' sizes, which a trace does not record.
    pub allocated_bytes: Metric,
    /// Active memory, likewise.
    pub active_bytes: Metric,
    /// Requested memory.
    pub requested_bytes: Metric,
    /// GPU reserved memory.
    pub reserved_bytes: Metric,
    /// Non-releasable memory. Its history needs the allocator's decisions.
    pub inactive_split_bytes: Metric,
    /// Allocations.
    pub allocation: Metric,
    /// Active allocs.
    pub active: Metric,
    /// GPU reserved segments; expandable ones do not count.
    pub segment: Metric,
    /// Non-releasable allocs.
    pub inactive_split: Metric,
    /// Oversize allocations: blocks of `max_split_size` or more.
    pub oversize_allocations: Stat,
    /// Oversize GPU segments.
    pub oversize_segments: Stat,
}

/// The statistics of a device.
pub fn stats(snapshot: &Snapshot, device: &DeviceAnalysis<'_>) -> Stats {
    let mut stats = Stats::default();
    at_dump(snapshot, device.device, &mut stats);
    if device.recorded.is_whole() {
        let mut history = History::default();
        history.run(device.entries, snapshot.settings.max_split_bytes());
        history.fill(snapshot, &mut stats);
    }
    stats
}

/// Whether a request goes to the small pool: rounding keeps sizes on their side of this border, whatever the settings.
fn is_small(requested_bytes: u64) -> bool {
    const SMALL_MAX: u64 = 1 << 20;
    requested_bytes <= SMALL_MAX
}

/// Whether memory from the driver is the small pool's: it takes 2 MiB at a time, the large pool more than 10.
fn is_small_segment(bytes: u64) -> bool {
    const SMALL_SEGMENT: u64 = 2 << 20;
    bytes == SMALL_SEGMENT
}

/// The column of current values, from the segments.
fn at_dump(snapshot: &Snapshot, device: u32, stats: &mut Stats) {
    let mut add = |metric: fn(&mut Stats) -> &mut Metric, segment: &Segment, amount: u64| {
        let metric = metric(stats);
        let pool = match segment.segment_type {
            SegmentType::Small => Some(&mut metric.small),
            SegmentType::Large => Some(&mut metric.large),
            SegmentType::Unknown => None,
        };
        for stat in [Some(&mut metric.all), pool].into_iter().flatten() {
            stat.current = Some(stat.current.unwrap_or(0).saturating_add(amount));
        }
    };
    let metrics: [fn(&mut Stats) -> &mut Metric; 9] = [
        |s| &mut s.allocated_bytes,
        |s| &mut s.active_bytes,
        |s| &mut s.requested_bytes,
        |s| &mut s.reserved_bytes,
        |s| &mut s.inactive_split_bytes,
        |s| &mut s.allocation,
        |s| &mut s.active,
        |s| &mut s.segment,
        |s| &mut s.inactive_split,
    ];
    let [
        allocated_bytes,
        active_bytes,
        requested_bytes,
        reserved_bytes,
        split_bytes,
        allocation,
        active,
        segments,
        split,
    ] = metrics;
    for segment in snapshot.segments_of(device) {
        add(reserved_bytes, segment, segment.total_bytes);
        add(segments, segment, u64::from(!segment.is_expandable));
        let blocks = snapshot.blocks_of(segment);
        for block in blocks {
            let Block { size_bytes, state, .. } = *block;
            if state == BlockState::ActiveAllocated {
                add(allocated_bytes, segment, size_bytes);
                add(allocation, segment, 1);
            }
            if state.is_active() {
                add(active_bytes, segment, size_bytes);
                add(requested_bytes, segment, block.requested_bytes);
                add(active, segment, 1);
            } else if blocks.len() > 1 && !segment.is_expandable {
                add(split_bytes, segment, size_bytes);
                add(split, segment, 1);
            }
        }
    }
    for metric in metrics {
        let metric = metric(stats);
        for stat in [&mut metric.all, &mut metric.small, &mut metric.large] {
            stat.current = stat.current.or(Some(0));
        }
    }
}

/// A metric as it runs through the trace.
#[derive(Clone, Copy, Default)]
struct Running {
    current: u64,
    peak: u64,
    allocated: u64,
    freed: u64,
}

impl Running {
    fn up(&mut self, amount: u64) {
        self.current = self.current.saturating_add(amount);
        self.allocated = self.allocated.saturating_add(amount);
        self.peak = self.peak.max(self.current);
    }

    fn down(&mut self, amount: u64) {
        self.current = self.current.saturating_sub(amount);
        self.freed = self.freed.saturating_add(amount);
    }

    fn fill(&self, stat: &mut Stat) {
        stat.peak = Some(self.peak);
        stat.allocated = Some(self.allocated);
        stat.freed = Some(self.freed);
    }
}

/// A running metric, by pool.
#[derive(Clone, Copy, Default)]
struct RunningMetric {
    all: Running,
    large: Running,
    small: Running,
}

impl RunningMetric {
    fn pool(&mut self, small: bool) -> &mut Running {
        if small { &mut self.small } else { &mut self.large }
    }

    fn up(&mut self, small: bool, amount: u64) {
        self.all.up(amount);
        self.pool(small).up(amount);
    }

    fn down(&mut self, small: bool, amount: u64) {
        self.all.down(amount);
        self.pool(small).down(amount);
    }

    /// Fills the columns, if the trace leads to what is there at the dump: else it lacks actions, and tells nothing.
    fn fill(&self, metric: &mut Metric) {
        let rows = [(&self.all, &mut metric.all), (&self.large, &mut metric.large), (&self.small, &mut metric.small)];
        if rows.iter().all(|(running, stat)| stat.current == Some(running.current)) {
            for (running, stat) in rows {
                running.fill(stat);
            }
        }
    }
}

/// The columns peak, allocated and freed, from a trace that was recorded from the start.
#[derive(Default)]
struct History {
    requested_bytes: RunningMetric,
    reserved_bytes: RunningMetric,
    allocation: RunningMetric,
    active: RunningMetric,
    segment: RunningMetric,
    oversize_segments: Running,
    num_ooms: u64,
    /// Where small pages are mapped, by address: an unmapping of many pages does not tell whose they are.
    small_pages: BTreeSet<u64>,
}

impl History {
    fn run(&mut self, entries: &EntryTable, max_split_bytes: Option<u64>) {
        let is_oversize = |bytes: u64| max_split_bytes.is_some_and(|max| bytes >= max);
        let columns = entries.actions().iter().zip(entries.addresses()).zip(entries.sizes_bytes());
        for ((&action, &address), &size) in columns {
            let small = is_small(size);
            match action {
                Action::ALLOC => {
                    self.requested_bytes.up(small, size);
                    self.allocation.up(small, 1);
                    self.active.up(small, 1);
                }
                Action::FREE_REQUESTED => self.allocation.down(small, 1),
                Action::FREE_COMPLETED => {
                    self.requested_bytes.down(small, size);
                    self.active.down(small, 1);
                }
                Action::SEGMENT_ALLOC => {
                    self.reserved_bytes.up(is_small_segment(size), size);
                    self.segment.up(is_small_segment(size), 1);
                    if is_oversize(size) {
                        self.oversize_segments.up(1);
                    }
                }
                Action::SEGMENT_FREE => {
                    self.reserved_bytes.down(is_small_segment(size), size);
                    self.segment.down(is_small_segment(size), 1);
                    if is_oversize(size) {
                        self.oversize_segments.down(1);
                    }
                }
                Action::SEGMENT_MAP => {
                    if is_small_segment(size) {
                        self.small_pages.insert(address);
                    }
                    self.reserved_bytes.up(is_small_segment(size), size);
                }
                Action::SEGMENT_UNMAP => {
                    let small = self.small_pages.remove(&address);
                    for page in self.small_pages_in(address, size) {
                        self.small_pages.remove(&page);
                    }
                    self.reserved_bytes.down(small, size);
                }
                Action::OOM => self.num_ooms += 1,
                _ => {}
            }
        }
    }

    fn small_pages_in(&self, address: u64, size: u64) -> Vec<u64> {
        self.small_pages.range(address..address.saturating_add(size)).copied().collect()
    }

    fn fill(&self, snapshot: &Snapshot, stats: &mut Stats) {
        stats.num_ooms = Some(self.num_ooms);
        self.requested_bytes.fill(&mut stats.requested_bytes);
        self.reserved_bytes.fill(&mut stats.reserved_bytes);
        self.allocation.fill(&mut stats.allocation);
        self.active.fill(&mut stats.active);
        self.segment.fill(&mut stats.segment);
        let never = Stat { current: Some(0), peak: Some(0), allocated: Some(0), freed: Some(0) };
        match snapshot.settings.get("max_split_size") {
            // Whether a block is oversize needs its rounded size.
            Some(_) if snapshot.settings.max_split_bytes().is_some() => {
                self.oversize_segments.fill(&mut stats.oversize_segments);
                stats.oversize_segments.current = Some(self.oversize_segments.current);
            }
            Some(_) => (stats.oversize_allocations, stats.oversize_segments) = (never, never),
            None => {}
        }
    }
}
