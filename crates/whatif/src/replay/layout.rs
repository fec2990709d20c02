//! What an allocator held before the first entry of a recording, and where.

use highwater_allocator::sizes::{MIN_BLOCK_BYTES, SMALL_MAX_BYTES};
use highwater_allocator::{AdoptedPiece, AdoptedSegment, AdoptedState, Settings};
use highwater_analysis::Reconstruction;
use highwater_analysis::initial::{ReservedRun, Source};
use highwater_analysis::lifetime::{Lifetime, number};
use highwater_snapshot::{PoolId, SegmentType, Snapshot, StreamId};

use super::tape::END_OF_ADDRESSES;

/// Segments as they were, and the slots of their blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The segments by address.
    pub segments: Vec<AdoptedSegment>,
    /// For each piece of each segment the slot whose block it is.
    pub slots: Vec<Vec<Option<u32>>>,
}

impl Layout {
    /// Bytes held from the driver.
    pub fn reserved_bytes(&self) -> u64 {
        let pieces = self.segments.iter().flat_map(|segment| &segment.pieces);
        pieces.filter(|piece| piece.state != AdoptedState::Unmapped).map(|piece| piece.size_bytes).sum()
    }
}

/// A block of a large segment may be larger than its request by so much, if its own size is not known.
const SLACK_BYTES: u64 = SMALL_MAX_BYTES;

/// How much of the room behind a block is taken to be its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extreme {
    /// As little as its request allows.
    Smallest,
    /// As much as the rules of splitting allow.
    Largest,
}

/// The layouts that are possible before the first entry: none if the recording begins with the program, one if the size
/// of every block is known, else the two extremes.
///
/// A block's size is known if it is still there at the dump. Of others the request is known, and that what lies up to
/// the next block in use is either its own or free.
pub(super) fn layouts(snapshot: &Snapshot, device: &Reconstruction<'_>, settings: &Settings) -> Vec<Layout> {
    if device.recorded.from_start || device.segments_before.is_empty() || !is_on_a_device(&device.segments_before) {
        return Vec::new();
    }
    let ranges = ranges(snapshot, device, settings);
    let build = |extreme| Builder { snapshot, device, settings, extreme }.layout(&ranges);
    let (smallest, largest) = (build(Extreme::Smallest), build(Extreme::Largest));
    if smallest == largest { vec![smallest] } else { vec![smallest, largest] }
}

/// Above every address, and every sum of bytes, of a device.
const BEYOND_DEVICES: u64 = 1 << 62;

/// Whether runs of memory lie where a device can have them: a file can say anything.
fn is_on_a_device(runs: &[ReservedRun]) -> bool {
    let end = |run: &ReservedRun| run.address.checked_add(run.bytes).filter(|&end| end < BEYOND_DEVICES);
    let total = runs.iter().try_fold(0, |total: u64, run| end(run).and_then(|_| total.checked_add(run.bytes)));
    total.is_some_and(|total| total < BEYOND_DEVICES)
}

/// A run of memory before the first entry.
struct Range {
    address: u64,
    bytes: u64,
    stream: StreamId,
    pool: u64,
    is_small: bool,
    is_expandable: bool,
}

/// The runs with what is known of each: what the dump says of those that are still there, and of others what the entry says
/// that releases them. Where a segment was released, its address says nothing: the next one there may be of another pool. But
/// an expandable segment keeps its addresses, so what is mapped again is of the same pool.
fn ranges(snapshot: &Snapshot, device: &Reconstruction<'_>, settings: &Settings) -> Vec<Range> {
    let mut expandable: Vec<_> = snapshot.segments_of(device.device).filter(|segment| segment.is_expandable).collect();
    expandable.sort_unstable_by_key(|segment| segment.address);
    let mapped_again = |run: &ReservedRun| {
        let index = expandable.partition_point(|segment| segment.address <= run.address).checked_sub(1)?;
        let segment = expandable[index];
        let is_released = run.source.is_expandable && run.source.segment_type == SegmentType::Unknown;
        (is_released && run.address < segment.end() && run.source.stream == segment.stream).then_some(segment)
    };
    let before = device.segments_before.iter().map(|run| {
        let source = mapped_again(run).map_or(run.source, Source::of_segment);
        let run = ReservedRun { source, ..*run };
        Range {
            address: run.address,
            bytes: run.bytes,
            stream: source.stream,
            pool: if source.pool == PoolId::MISSING { 0 } else { u64::from(source.pool.get()) },
            is_small: run.is_small(settings),
            is_expandable: source.is_expandable,
        }
    });
    let is_possible = |range: &Range| range.bytes > 0 && range.address.saturating_add(range.bytes) < END_OF_ADDRESSES;
    before.filter(is_possible).collect()
}

struct Builder<'a> {
    snapshot: &'a Snapshot,
    device: &'a Reconstruction<'a>,
    settings: &'a Settings,
    extreme: Extreme,
}

impl Builder<'_> {
    fn layout(&self, ranges: &[Range]) -> Layout {
        let mut rows: Vec<(u32, &Lifetime)> =
            self.device.lifetimes.at_start().iter().enumerate().map(|(slot, l)| (number(slot), l)).collect();
        rows.sort_by_key(|(_, lifetime)| lifetime.address);
        let mut layout = Layout::default();
        for range in ranges {
            let end = range.address.saturating_add(range.bytes);
            let from = rows.partition_point(|(_, lifetime)| lifetime.address < range.address);
            let to = rows.partition_point(|(_, lifetime)| lifetime.address < end);
            let (pieces, slots) = self.pieces(range, &rows[from..to]);
            self.add(&mut layout, range, pieces, slots);
        }
        for segment in &mut layout.segments {
            if segment.is_expandable {
                // The rest of the reservation: as much as any program fills.
                segment.pieces.push(AdoptedPiece { size_bytes: 1 << 41, state: AdoptedState::Unmapped });
            }
        }
        layout
    }

    /// Adds a run: as a segment of its own, or behind the one it shares a reservation with.
    fn add(&self, layout: &mut Layout, range: &Range, pieces: Vec<AdoptedPiece>, slots: Vec<Option<u32>>) {
        let stream = self.snapshot.stream_handle(range.stream);
        if range.is_expandable {
            let shared = layout.segments.iter().rposition(|other| {
                other.is_expandable
                    && (other.stream, other.pool, other.is_small) == (stream, range.pool, range.is_small)
            });
            if let Some(index) = shared {
                let segment = &mut layout.segments[index];
                let length: u64 = segment.pieces.iter().map(|piece| piece.size_bytes).sum();
                let hole = range.address.saturating_sub(segment.address.saturating_add(length));
                if hole > 0 {
                    segment.pieces.push(AdoptedPiece { size_bytes: hole, state: AdoptedState::Unmapped });
                    layout.slots[index].push(None);
                }
                segment.pieces.extend(pieces);
                layout.slots[index].extend(slots);
                return;
            }
        }
        layout.segments.push(AdoptedSegment {
            address: range.address,
            stream,
            pool: range.pool,
            is_small: range.is_small,
            is_expandable: range.is_expandable,
            pieces,
        });
        layout.slots.push(slots);
    }

    /// The blocks of a run, and what is free between them.
    fn pieces(&self, range: &Range, blocks: &[(u32, &Lifetime)]) -> (Vec<AdoptedPiece>, Vec<Option<u32>>) {
        let end = range.address.saturating_add(range.bytes);
        let mut tiles: Vec<(AdoptedPiece, Option<u32>)> = Vec::new();
        let free = |size_bytes| (AdoptedPiece { size_bytes, state: AdoptedState::Free }, None);
        let mut at = range.address;
        for (index, &(slot, lifetime)) in blocks.iter().enumerate() {
            let next = blocks.get(index + 1).map_or(end, |(_, next)| next.address.min(end));
            // Two blocks in one place: a file that contradicts itself. The first stays.
            let overlaps = lifetime.address < at || next <= lifetime.address;
            if overlaps {
                continue;
            }
            if lifetime.address > at {
                tiles.push(free(lifetime.address - at));
            }
            let size_bytes = self.size_of(range, lifetime, next - lifetime.address);
            let state = AdoptedState::Allocated { requested_bytes: lifetime.requested_bytes };
            tiles.push((AdoptedPiece { size_bytes, state }, Some(slot)));
            at = lifetime.address + size_bytes;
        }
        if end > at {
            tiles.push(free(end - at));
        }
        tiles.into_iter().unzip()
    }

    /// The size of a block that has so much room up to the next one.
    fn size_of(&self, range: &Range, lifetime: &Lifetime, room: u64) -> u64 {
        if let Some(row) = lifetime.block() {
            return self.snapshot.blocks[row].size_bytes.min(room);
        }
        let least = self.settings.round(lifetime.requested_bytes).min(room);
        let rest = room - least;
        if range.is_small || range.is_expandable {
            return least;
        }
        let is_slack = rest <= SLACK_BYTES || lifetime.requested_bytes >= self.settings.max_split_bytes;
        match self.extreme {
            // Too little to have been split off.
            _ if is_slack => room,
            Extreme::Smallest => least,
            Extreme::Largest => least + SLACK_BYTES - MIN_BLOCK_BYTES,
        }
    }
}
