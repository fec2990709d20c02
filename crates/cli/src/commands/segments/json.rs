//! The map as JSON: `highwater-segments`, version 1.

use highwater_findings::view::WarningView;
use highwater_snapshot::{BlockState, Segment, Snapshot};
use serde::{Serialize, Serializer};

use super::{DeviceMap, Usage};
use crate::frames::Frames;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    format: &'static str,
    version: u32,
    devices: Vec<DeviceJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    host_segments: Vec<SegmentJson<'a>>,
    warnings: Vec<WarningView>,
}

#[derive(Serialize)]
struct DeviceJson<'a> {
    device: u32,
    requested_bytes: u64,
    allocated_bytes: u64,
    active_bytes: u64,
    reserved_bytes: u64,
    inactive_split_bytes: u64,
    segments: Vec<SegmentJson<'a>>,
}

#[derive(Serialize)]
struct SegmentJson<'a> {
    address: u64,
    size_bytes: u64,
    requested_bytes: u64,
    allocated_bytes: u64,
    active_bytes: u64,
    free_bytes: u64,
    stream: u64,
    pool: (u64, u64),
    #[serde(rename = "type")]
    segment_type: &'static str,
    is_expandable: bool,
    frames: Frames<'a>,
    blocks: BlocksJson<'a>,
}

#[derive(Serialize)]
struct BlockJson<'a> {
    address: u64,
    size_bytes: u64,
    /// Absent for free blocks, where the file holds what the last owner asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_bytes: Option<u64>,
    state: &'static str,
    frames: Frames<'a>,
}

/// The whole document; the segments of a device are in the order of its map.
pub(super) fn document<'a>(snapshot: &'a Snapshot, maps: &[DeviceMap<'a>]) -> Document<'a> {
    let host_segments = snapshot.host.iter().flat_map(|host| &host.segments);
    Document {
        format: "highwater-segments",
        version: 1,
        devices: maps.iter().map(|map| device(snapshot, map)).collect(),
        host_segments: host_segments
            .map(|segment| segment_json(snapshot, segment, Usage::of(snapshot.blocks_of(segment))))
            .collect(),
        warnings: WarningView::all(&snapshot.warnings).collect(),
    }
}

fn device<'a>(snapshot: &'a Snapshot, map: &DeviceMap<'a>) -> DeviceJson<'a> {
    let totals = snapshot.end_totals(map.device);
    let segments = map.groups.iter().flat_map(|group| &group.segments);
    DeviceJson {
        device: map.device,
        requested_bytes: totals.requested_bytes,
        allocated_bytes: totals.allocated_bytes,
        active_bytes: totals.active_bytes,
        reserved_bytes: totals.reserved_bytes,
        inactive_split_bytes: totals.inactive_split_bytes,
        segments: segments.map(|&(segment, usage)| segment_json(snapshot, segment, usage)).collect(),
    }
}

fn segment_json<'a>(snapshot: &'a Snapshot, segment: &'a Segment, usage: Usage) -> SegmentJson<'a> {
    SegmentJson {
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
        frames: Frames { snapshot, stack: segment.stack },
        blocks: BlocksJson { snapshot, segment },
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
struct BlocksJson<'a> {
    snapshot: &'a Snapshot,
    segment: &'a Segment,
}

impl Serialize for BlocksJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { snapshot, segment } = *self;
        serializer.collect_seq(snapshot.blocks_of(segment).iter().map(|block| BlockJson {
            address: block.address,
            size_bytes: block.size_bytes,
            requested_bytes: block.state.is_active().then_some(block.requested_bytes),
            state: state_name(block.state),
            frames: Frames { snapshot, stack: block.stack },
        }))
    }
}
