//! What the allocator writes down: PyTorch's own trace.

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A block was handed out.
    Alloc,
    /// The owner freed its block.
    FreeRequested,
    /// The block returned to its pool.
    FreeCompleted,
    /// A segment came from the driver.
    SegmentAlloc,
    /// A segment went back to the driver.
    SegmentFree,
    /// Pages were mapped into an expandable segment.
    SegmentMap,
    /// Pages of an expandable segment were unmapped.
    SegmentUnmap,
    /// A snapshot was taken.
    Snapshot,
    /// A request failed.
    OutOfMemory,
}

impl Action {
    /// The name in a snapshot.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Snapshot => "snapshot",
            Self::OutOfMemory => "oom",
        }
    }
}

/// One entry of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// What happened.
    pub action: Action,
    /// First byte of the block, the segment or the pages; the device's free bytes for [`Action::OutOfMemory`].
    pub address: u64,
    /// Requested bytes of a block, bytes of a segment or of pages, the rounded request of an
    /// [`Action::OutOfMemory`], the active bytes at an [`Action::Snapshot`].
    pub bytes: u64,
    /// The stream that owns the memory.
    pub stream: u64,
    /// The private pool; 0 is the default one.
    pub pool: u64,
}

/// Sees each entry as it is made.
pub trait Observer {
    /// Whether it looks at them; where it does not, they are not made.
    const LOOKS: bool = true;

    /// Called once for each entry, in order.
    fn record(&mut self, entry: TraceEntry);
}

/// Nobody looks.
impl Observer for () {
    const LOOKS: bool = false;

    #[inline]
    fn record(&mut self, _: TraceEntry) {}
}

impl Observer for Vec<TraceEntry> {
    fn record(&mut self, entry: TraceEntry) {
        self.push(entry);
    }
}
