//! The table of `torch.cuda.memory_summary()`, from a file: what a snapshot can tell of it.

use highwater_snapshot::{Block, BlockState, Segment, SegmentType, Snapshot, Warnings};

use crate::blocks::{Knowledge, Observer, Recording, follow, followed_settings};
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
    /// `num_alloc_retries`: known where a replay is exact and leaves no doubt.
    pub num_alloc_retries: Option<u64>,
    /// Allocated memory.
    pub allocated_bytes: Metric,
    /// Active memory.
    pub active_bytes: Metric,
    /// Requested memory.
    pub requested_bytes: Metric,
    /// GPU reserved memory.
    pub reserved_bytes: Metric,
    /// Non-releasable memory.
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

/// The statistics of a device; `num_alloc_retries` is what a replay says of them, where one was made.
pub fn stats(snapshot: &Snapshot, device: &DeviceAnalysis<'_>, num_alloc_retries: Option<u64>) -> Stats {
    let mut stats = Stats { num_alloc_retries, ..Stats::default() };
    if device.profile.is_some() {
        let peak = device.timeline.allocated_peak().bytes;
        let current = Some(device.end.allocated_bytes);
        stats.allocated_bytes.all =
            Stat { current, peak: device.recorded.is_whole().then_some(peak), ..Stat::default() };
        return stats;
    }
    at_dump(snapshot, device.device, &mut stats);
    if device.recorded.is_whole() {
        let settings = followed_settings(snapshot);
        let mut history = History { max_split_bytes: settings.max_split_bytes, ..History::default() };
        let recording = Recording {
            snapshot,
            device: device.device,
            entries: device.entries,
            lifetimes: &device.lifetimes,
            segments_before: &device.segments_before,
            settings: &settings,
            leads_to_dump: true,
        };
        // What is odd was said when the device was analysed.
        let blocks = follow(&recording, &mut history, &mut Warnings::default());
        history.num_ooms = device.oom.len() as u64;
        history.fill(snapshot, blocks.knowledge() == Knowledge::Exact, &mut stats);
    }
    stats
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
    max_split_bytes: u64,
    allocated_bytes: RunningMetric,
    active_bytes: RunningMetric,
    requested_bytes: RunningMetric,
    reserved_bytes: RunningMetric,
    inactive_split_bytes: RunningMetric,
    allocation: RunningMetric,
    active: RunningMetric,
    segment: RunningMetric,
    inactive_split: RunningMetric,
    oversize_allocations: Running,
    oversize_segments: Running,
    num_ooms: u64,
}

impl Observer for History {
    fn handed_out(&mut self, small: bool, size: u64, requested: u64) {
        self.allocation.up(small, 1);
        self.allocated_bytes.up(small, size);
        self.active.up(small, 1);
        self.active_bytes.up(small, size);
        self.requested_bytes.up(small, requested);
        if size >= self.max_split_bytes {
            self.oversize_allocations.up(1);
        }
    }

    fn free_requested(&mut self, small: bool, size: u64) {
        self.allocation.down(small, 1);
        self.allocated_bytes.down(small, size);
        if size >= self.max_split_bytes {
            self.oversize_allocations.down(1);
        }
    }

    fn free_completed(&mut self, small: bool, size: u64, requested: u64) {
        self.active.down(small, 1);
        self.active_bytes.down(small, size);
        self.requested_bytes.down(small, requested);
    }

    fn reserved(&mut self, small: bool, bytes: u64, is_segment: bool) {
        self.reserved_bytes.up(small, bytes);
        if is_segment {
            self.segment.up(small, 1);
            if bytes >= self.max_split_bytes {
                self.oversize_segments.up(1);
            }
        }
    }

    fn released(&mut self, small: bool, bytes: u64, is_segment: bool) {
        self.reserved_bytes.down(small, bytes);
        if is_segment {
            self.segment.down(small, 1);
            if bytes >= self.max_split_bytes {
                self.oversize_segments.down(1);
            }
        }
    }

    fn splits(&mut self, small: bool, blocks: i64, bytes: i64) {
        for (metric, change) in [(&mut self.inactive_split, blocks), (&mut self.inactive_split_bytes, bytes)] {
            if change > 0 {
                metric.up(small, change.unsigned_abs());
            } else if change < 0 {
                metric.down(small, change.unsigned_abs());
            }
        }
    }
}

impl History {
    /// `sizes_are_exact`: those of blocks.
    fn fill(&self, snapshot: &Snapshot, sizes_are_exact: bool, stats: &mut Stats) {
        stats.num_ooms = Some(self.num_ooms);
        self.requested_bytes.fill(&mut stats.requested_bytes);
        self.reserved_bytes.fill(&mut stats.reserved_bytes);
        self.allocation.fill(&mut stats.allocation);
        self.active.fill(&mut stats.active);
        self.segment.fill(&mut stats.segment);
        if sizes_are_exact {
            self.allocated_bytes.fill(&mut stats.allocated_bytes);
            self.active_bytes.fill(&mut stats.active_bytes);
            self.inactive_split.fill(&mut stats.inactive_split);
            self.inactive_split_bytes.fill(&mut stats.inactive_split_bytes);
        }
        // A file without this setting does not say what is oversize.
        if snapshot.settings.get("max_split_size").is_some() {
            stats.oversize_segments.current = Some(self.oversize_segments.current);
            self.oversize_segments.fill(&mut stats.oversize_segments);
            if sizes_are_exact {
                stats.oversize_allocations.current = Some(self.oversize_allocations.current);
                self.oversize_allocations.fill(&mut stats.oversize_allocations);
            }
        }
    }
}
