//! `highwater-segments`: the map of the memory at the dump.

use crate::WarningView;
use highwater_snapshot::{Block, BlockState, Segment, Snapshot};
use serde::{Serialize, Serializer};

use crate::frames::StackFrames;
use crate::{Document, Format, Version};

/// The segments of each device, and the blocks in them.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SegmentsView<'a> {
    format: Format<Self>,
    version: Version<Self>,
    /// In the order of their numbers.
    devices: Vec<DeviceView<'a>>,
    /// Pinned host memory; absent where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    host_segments: Vec<SegmentView<'a>>,
    /// Warnings about the file.
    warnings: Vec<WarningView>,
}

impl Document for SegmentsView<'_> {
    const FORMAT: &'static str = "highwater-segments";
    const VERSION: u32 = 1;
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct DeviceView<'a> {
    /// CUDA ordinal.
    device: u32,
    /// Requested by the program, in active blocks.
    requested_bytes: u64,
    /// In blocks that tensors own.
    allocated_bytes: u64,
    /// Allocated, or freed but still in use by another stream.
    active_bytes: u64,
    /// Held from the driver.
    reserved_bytes: u64,
    /// Free, in segments that are partly in use.
    inactive_split_bytes: u64,
    /// By pool and stream, then in the requested order.
    segments: Vec<SegmentView<'a>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct SegmentView<'a> {
    /// Its first byte.
    address: u64,
    /// All of it.
    size_bytes: u64,
    /// Requested by the program, in its active blocks.
    requested_bytes: u64,
    /// In its blocks that tensors own.
    allocated_bytes: u64,
    /// Allocated, or freed but still in use by another stream.
    active_bytes: u64,
    /// In its free blocks.
    free_bytes: u64,
    /// The stream's handle; 0 is the default stream.
    stream: u64,
    /// The pool's two numbers; `[0, 0]` is the default pool.
    pool: (u64, u64),
    /// `large` or `small`.
    #[serde(rename = "type")]
    segment_type: &'static str,
    /// Whether it can grow.
    is_expandable: bool,
    /// The stack of the request that made it, innermost frame first.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::FrameView<'a>>"))]
    frames: StackFrames<'a>,
    /// By address.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<BlockView<'a>>"))]
    blocks: Blocks<'a>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct BlockView<'a> {
    /// Its first byte.
    address: u64,
    /// All of it.
    size_bytes: u64,
    /// Requested by the program. Absent for free blocks, where the file has the request of the last owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_bytes: Option<u64>,
    /// `active_allocated`, `active_awaiting_free` or `inactive`.
    state: &'static str,
    /// The stack of its request, innermost frame first.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::FrameView<'a>>"))]
    frames: StackFrames<'a>,
}

/// Bytes of a segment by the state of their blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// In blocks that tensors own.
    pub allocated_bytes: u64,
    /// Allocated, or freed but still in use by another stream.
    pub active_bytes: u64,
    /// Requested by the program, in active blocks.
    pub requested_bytes: u64,
    /// In free blocks.
    pub free_bytes: u64,
}

impl Usage {
    /// The sums over blocks.
    pub fn of(blocks: &[Block]) -> Self {
        let mut usage = Self::default();
        for block in blocks {
            let size = block.size_bytes;
            match block.state {
                BlockState::ActiveAllocated => usage.allocated_bytes = usage.allocated_bytes.saturating_add(size),
                BlockState::ActiveAwaitingFree => {}
                BlockState::Inactive => {
                    usage.free_bytes = usage.free_bytes.saturating_add(size);
                    continue;
                }
            }
            usage.active_bytes = usage.active_bytes.saturating_add(size);
            usage.requested_bytes = usage.requested_bytes.saturating_add(block.requested_bytes);
        }
        usage
    }
}

impl<'a> SegmentsView<'a> {
    /// The map of devices: each with its segments in the order in which they are to stand.
    pub fn new(
        snapshot: &'a Snapshot,
        devices: impl IntoIterator<Item = (u32, Vec<(&'a Segment, Usage)>)>,
    ) -> SegmentsView<'a> {
        let host_segments = snapshot.host.iter().flat_map(|host| &host.segments);
        Self {
            format: Format::default(),
            version: Version::default(),
            devices: devices
                .into_iter()
                .map(|(device, segments)| DeviceView::new(snapshot, device, &segments))
                .collect(),
            host_segments: host_segments
                .map(|segment| SegmentView::new(snapshot, segment, Usage::of(snapshot.blocks_of(segment))))
                .collect(),
            warnings: WarningView::all(&snapshot.warnings).collect(),
        }
    }
}

impl<'a> DeviceView<'a> {
    fn new(snapshot: &'a Snapshot, device: u32, segments: &[(&'a Segment, Usage)]) -> Self {
        let totals = snapshot.end_totals(device);
        Self {
            device,
            requested_bytes: totals.requested_bytes,
            allocated_bytes: totals.allocated_bytes,
            active_bytes: totals.active_bytes,
            reserved_bytes: totals.reserved_bytes,
            inactive_split_bytes: totals.inactive_split_bytes,
            segments: segments.iter().map(|&(segment, usage)| SegmentView::new(snapshot, segment, usage)).collect(),
        }
    }
}

impl<'a> SegmentView<'a> {
    fn new(snapshot: &'a Snapshot, segment: &'a Segment, usage: Usage) -> Self {
        Self {
            address: segment.address,
            size_bytes: segment.total_bytes,
            requested_bytes: usage.requested_bytes,
            allocated_bytes: usage.allocated_bytes,
            active_bytes: usage.active_bytes,
            free_bytes: usage.free_bytes,
            stream: snapshot.stream_handle(segment.stream),
            pool: snapshot.pool_id(segment.pool),
            segment_type: segment.segment_type.name(),
            is_expandable: segment.is_expandable,
            frames: StackFrames { snapshot, stack: segment.stack },
            blocks: Blocks { snapshot, segment },
        }
    }
}

/// The state under the name that all of highwater's JSON uses; some versions of PyTorch write `active_pending_free`.
fn state_name(state: BlockState) -> &'static str {
    match state {
        BlockState::ActiveAwaitingFree => "active_awaiting_free",
        other => other.name(),
    }
}

/// Serialized as it is read: stacks are long, and each block has one.
#[derive(Debug)]
struct Blocks<'a> {
    snapshot: &'a Snapshot,
    segment: &'a Segment,
}

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { snapshot, segment } = *self;
        serializer.collect_seq(snapshot.blocks_of(segment).iter().map(|block| BlockView {
            address: block.address,
            size_bytes: block.size_bytes,
            requested_bytes: block.state.is_active().then_some(block.requested_bytes),
            state: state_name(block.state),
            frames: StackFrames { snapshot, stack: block.stack },
        }))
    }
}
