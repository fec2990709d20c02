//! The order in which segments were reserved, guessed from their addresses.
//!
//! The driver takes address space in chunks of 32 MiB, each below the one before, and fills a chunk upwards. What the context leaves
//! when it has loaded its libraries is one long hole, which is filled upwards as well: what lies above it or just below is older than
//! what fills it, and what lies far below is younger.
//!
//! # Source
//! `highwater_driver::DriverAddressSpace`, and 41 processes recorded from their start on an H100 or an H200: of two segments this order
//! has 83 % right, the order from the highest address down 64 %.

use std::ops::Range;

use super::before::Region;

/// What the driver takes at once.
const CHUNK: u64 = 32 << 20;

/// A hole with as much in it was there before.
const LONG: u64 = 96 << 20;

/// What lies further below the hole than this was reserved when it was full.
const BELOW: u64 = 384 << 20;

/// The place of each of the segments, which ascend by address, in the order of their age: the oldest has 0.
pub(super) fn ages(regions: &[Region]) -> Vec<usize> {
    let pieces = pieces(regions);
    let hole = hole(&pieces);
    let turn = |at: usize| match &hole {
        Some(hole) if hole.contains(&at) => (1, at),
        Some(hole)
            if at < hole.start && pieces[hole.start][0].address.saturating_sub(end(pieces[at].last())) >= BELOW =>
        {
            (2, pieces.len() - at)
        }
        _ => (0, pieces.len() - at),
    };
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&at| turn(at));
    let starts: Vec<usize> = pieces
        .iter()
        .scan(0, |next, piece| {
            let start = *next;
            *next += piece.len();
            Some(start)
        })
        .collect();
    let mut ages = vec![0; regions.len()];
    let oldest_first = order.into_iter().flat_map(|at| starts[at]..starts[at] + pieces[at].len());
    for (age, region) in oldest_first.enumerate() {
        ages[region] = age;
    }
    ages
}

/// The pieces of the highest long hole: several where segments in it were released.
fn hole(pieces: &[&[Region]]) -> Option<Range<usize>> {
    let mut next = 0;
    let runs = pieces.chunk_by(|a, b| crosses_chunks(a) && crosses_chunks(b)).map(|run| {
        next += run.len();
        next - run.len()..next
    });
    let bytes = |run: &Range<usize>| {
        let regions = pieces[run.clone()].iter().flat_map(|piece| piece.iter());
        regions.map(|region| region.total_bytes).fold(0, u64::saturating_add)
    };
    runs.filter(|run| crosses_chunks(pieces[run.start]) && bytes(run) >= LONG).last()
}

/// The segments that were filled upwards together: those of a chunk, or of several without a gap in which segments do not keep to
/// chunks.
fn pieces(regions: &[Region]) -> Vec<&[Region]> {
    let mut pieces: Vec<&[Region]> = Vec::new();
    let mut start = 0;
    let of_chunks = regions.chunk_by(|a, b| end(Some(a)) == b.address && !b.address.is_multiple_of(CHUNK));
    let mut at = 0;
    for chunk in of_chunks {
        let last = pieces.last().copied().unwrap_or_default();
        if end(last.last()) == chunk[0].address && crosses_chunks(last) && crosses_chunks(chunk) {
            pieces.pop();
        } else {
            start = at;
        }
        at += chunk.len();
        pieces.push(&regions[start..at]);
    }
    pieces
}

fn end(region: Option<&Region>) -> u64 {
    region.map_or(0, |region| region.address.saturating_add(region.total_bytes))
}

/// Whether a segment begins amid a chunk and ends in another.
fn crosses_chunks(piece: &[Region]) -> bool {
    piece.iter().any(|region| {
        let (first, last) = (region.address, end(Some(region)).saturating_sub(1));
        !first.is_multiple_of(CHUNK) && first / CHUNK != last / CHUNK
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places of segments of so many MiB at so many MiB, in the order of their age.
    fn by_age(segments: &[(u64, u64)]) -> Vec<u64> {
        let region =
            |&(at, mib): &(u64, u64)| Region { address: at << 20, total_bytes: mib << 20, is_expandable: false };
        let mut regions: Vec<Region> = segments.iter().map(region).collect();
        regions.sort_by_key(|region| region.address);
        let mut by_age: Vec<(usize, u64)> =
            ages(&regions).into_iter().zip(regions.iter().map(|region| region.address >> 20)).collect();
        by_age.sort_unstable();
        by_age.into_iter().map(|row| row.1).collect()
    }

    /// The trainer of a language model on an H100, in the order in which it reserved them.
    #[test]
    fn the_long_hole_is_filled_after_what_lies_above_it_and_before_what_lies_far_below() {
        let made = [
            (0xbebc8, 18),
            (0xbe9c0, 20),
            (0xbe9d4, 2),
            (0xbe9a0, 20),
            (0xbe8e0, 20),
            (0xbea40, 20),
            (0xbea54, 20),
            (0xbea68, 20),
            (0xbea7c, 20),
            (0xbea90, 20),
            (0xbe520, 72),
            (0xbe4c0, 72),
            (0xbe420, 142),
        ];
        assert_eq!(by_age(&made), made.map(|segment| segment.0));
    }

    /// A recurrent network's trainer on an H100: `optimizer.step()` filled the hole, and activations in it were released.
    #[test]
    fn a_hole_of_which_parts_were_released_is_one() {
        let made =
            [(0x408, 20), (0x1d0, 16), (0x1a0, 16), (0x220, 20), (0x234, 16), (0x244, 16), (0x2a4, 32), (0x2c4, 20)];
        assert_eq!(by_age(&made), made.map(|segment| segment.0));
    }

    #[test]
    fn full_chunks_that_touch_are_no_hole() {
        let made = [(0xe0, 32), (0xc0, 20), (0xd4, 12), (0xa0, 32), (0x80, 20), (0x94, 12)];
        assert_eq!(by_age(&made), made.map(|segment| segment.0));
        assert!(by_age(&[]).is_empty());
    }
}
