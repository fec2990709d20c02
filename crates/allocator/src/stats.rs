//! The numbers of `torch.cuda.memory_stats()`.

/// One metric of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat<Level = u64> {
    /// Now.
    pub current: Level,
    /// The largest since the last [`Statistics::reset_peak`].
    pub peak: Level,
    /// The sum of all increases, as far as 64 bits count.
    pub allocated: u64,
    /// The sum of all decreases.
    pub freed: u64,
}

/// A metric as it changes: `freed` follows from the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Running {
    current: u64,
    peak: u64,
    allocated: u64,
}

impl Running {
    #[inline]
    fn increase(&mut self, amount: u64) {
        self.current += amount;
        // A program that asks for a pebibyte again and again gets further than 64 bits count.
        self.allocated = self.allocated.saturating_add(amount);
        self.peak = self.peak.max(self.current);
    }

    #[inline]
    fn decrease(&mut self, amount: u64) {
        self.current -= amount;
    }

    fn stat(self) -> Stat {
        let Self { current, peak, allocated } = self;
        Stat { current, peak, allocated, freed: allocated.saturating_sub(current) }
    }
}

/// What is counted by the `max_split_size` of the moment: where that changes during a run, less can come than goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Oversize(Stat<i64>);

impl Oversize {
    fn increase(&mut self) {
        self.0.current += 1;
        self.0.allocated += 1;
        self.0.peak = self.0.peak.max(self.0.current);
    }

    fn decrease(&mut self) {
        self.0.current -= 1;
        self.0.freed += 1;
    }
}

/// A metric of both pools and of each: the default pools, with the private pools of the same kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metric {
    all: Running,
    small: Running,
    large: Running,
}

impl Metric {
    /// Small and large together.
    pub fn all(&self) -> Stat {
        self.all.stat()
    }

    /// Blocks of up to 1 MiB.
    pub fn small_pool(&self) -> Stat {
        self.small.stat()
    }

    /// Blocks above 1 MiB.
    pub fn large_pool(&self) -> Stat {
        self.large.stat()
    }

    #[inline]
    pub(crate) fn increase(&mut self, small: bool, amount: u64) {
        self.all.increase(amount);
        self.pool(small).increase(amount);
    }

    #[inline]
    pub(crate) fn decrease(&mut self, small: bool, amount: u64) {
        self.all.decrease(amount);
        self.pool(small).decrease(amount);
    }

    #[inline]
    fn pool(&mut self, small: bool) -> &mut Running {
        if small { &mut self.small } else { &mut self.large }
    }

    fn reset_peak(&mut self) {
        for running in [&mut self.all, &mut self.small, &mut self.large] {
            running.peak = running.current;
        }
    }
}

/// Every statistic of a device.
///
/// # Source
/// `spec/caching-allocator.md` section 18.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Blocks handed out and not freed by their owners.
    pub allocation: Metric,
    /// Segments of `cudaMalloc`; expandable ones are not counted.
    pub segment: Metric,
    /// Blocks handed out and not back in their pool.
    pub active: Metric,
    /// Free blocks that are stuck in a segment which is in use; expandable ones are not counted.
    pub inactive_split: Metric,
    /// Bytes of `allocation`.
    pub allocated_bytes: Metric,
    /// Bytes held from the driver.
    pub reserved_bytes: Metric,
    /// Bytes of `active`.
    pub active_bytes: Metric,
    /// Bytes of `inactive_split`.
    pub inactive_split_bytes: Metric,
    /// Bytes of `active`, as asked for.
    pub requested_bytes: Metric,
    oversize_allocations: Oversize,
    oversize_segments: Oversize,
    /// Second attempts after everything cached was returned to the driver.
    pub num_alloc_retries: u64,
    /// Requests that failed.
    pub num_ooms: u64,
    /// Waits for all streams.
    pub num_sync_all_streams: u64,
    /// Calls that took memory from the driver.
    pub num_device_alloc: u64,
    /// Calls that returned memory to the driver.
    pub num_device_free: u64,
    /// Requests that `throw_on_cudamalloc_oom` refused.
    pub num_oom_rejections: u64,
}

impl Statistics {
    /// Blocks of `max_split_size` or more handed out and not freed.
    pub fn oversize_allocations(&self) -> Stat<i64> {
        self.oversize_allocations.0
    }

    /// Segments of `max_split_size` or more.
    pub fn oversize_segments(&self) -> Stat<i64> {
        self.oversize_segments.0
    }

    /// The metrics by pool, under PyTorch's names, in the order of its statistics.
    pub fn metrics(&self) -> [(&'static str, &Metric); 9] {
        [
            ("allocation", &self.allocation),
            ("segment", &self.segment),
            ("active", &self.active),
            ("inactive_split", &self.inactive_split),
            ("allocated_bytes", &self.allocated_bytes),
            ("reserved_bytes", &self.reserved_bytes),
            ("active_bytes", &self.active_bytes),
            ("inactive_split_bytes", &self.inactive_split_bytes),
            ("requested_bytes", &self.requested_bytes),
        ]
    }

    /// As `torch.cuda.reset_peak_memory_stats()`.
    pub fn reset_peak(&mut self) {
        for metric in [
            &mut self.allocation,
            &mut self.segment,
            &mut self.active,
            &mut self.inactive_split,
            &mut self.allocated_bytes,
            &mut self.reserved_bytes,
            &mut self.active_bytes,
            &mut self.inactive_split_bytes,
            &mut self.requested_bytes,
        ] {
            metric.reset_peak();
        }
        for Oversize(stat) in [&mut self.oversize_allocations, &mut self.oversize_segments] {
            stat.peak = stat.current;
        }
    }

    #[inline]
    pub(crate) fn handed_out(&mut self, small: bool, size: u64, requested: u64, oversize: bool) {
        self.allocation.increase(small, 1);
        self.allocated_bytes.increase(small, size);
        self.active.increase(small, 1);
        self.active_bytes.increase(small, size);
        self.requested_bytes.increase(small, requested);
        if oversize {
            self.oversize_allocations.increase();
        }
    }

    #[inline]
    pub(crate) fn free_requested(&mut self, small: bool, size: u64, oversize: bool) {
        self.allocation.decrease(small, 1);
        self.allocated_bytes.decrease(small, size);
        if oversize {
            self.oversize_allocations.decrease();
        }
    }

    #[inline]
    pub(crate) fn free_completed(&mut self, small: bool, size: u64, requested: u64) {
        self.active.decrease(small, 1);
        self.active_bytes.decrease(small, size);
        self.requested_bytes.decrease(small, requested);
    }

    pub(crate) fn segment_allocated(&mut self, small: bool, bytes: u64, oversize: bool) {
        self.segment.increase(small, 1);
        self.reserved_bytes.increase(small, bytes);
        self.num_device_alloc += 1;
        if oversize {
            self.oversize_segments.increase();
        }
    }

    pub(crate) fn segment_freed(&mut self, small: bool, bytes: u64, oversize: bool) {
        self.segment.decrease(small, 1);
        self.reserved_bytes.decrease(small, bytes);
        self.num_device_free += 1;
        if oversize {
            self.oversize_segments.decrease();
        }
    }

    pub(crate) fn mapped(&mut self, small: bool, bytes: u64) {
        self.reserved_bytes.increase(small, bytes);
        self.num_device_alloc += 1;
    }

    pub(crate) fn unmapped(&mut self, small: bool, bytes: u64) {
        self.reserved_bytes.decrease(small, bytes);
        self.num_device_free += 1;
    }
}
