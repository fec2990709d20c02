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

/// What lies further below the hole than this was reserved when it was full, unless it lies there without a gap.
const BELOW: u64 = 384 << 20;

/// Where the context takes address space for its libraries, it leaves a gap as long as this. Pieces of a hole that are further apart
/// than [`BELOW`] belong to two.
const GAP: u64 = 64 << 20;

/// The place of each of the segments, which ascend by address, in the order of their age: the oldest has 0.
pub(super) fn ages(regions: &[Region]) -> Vec<usize> {
    ages_by_hole(regions, &[LONG])
}

/// The same, where a shorter hole counts if there is no long one: for callers with more evidence than age.
pub(super) fn ages_by_any_hole(regions: &[Region]) -> Vec<usize> {
    ages_by_hole(regions, &[LONG, 0])
}

/// Another order, if there is no long hole: what the context leaves may be taken in chunks like the rest, each below the one before. Of 17
/// processes without a long hole this order is nearer in 8 and further off in 6, so something else has to confirm it.
pub(super) fn ages_by_chunks(regions: &[Region]) -> Option<Vec<usize>> {
    /// Below the first chunk, the context's libraries take about as much.
    const OF_CONTEXT: u64 = 512 << 20;
    let pieces = pieces(regions);
    let first = pieces.last().filter(|_| hole(&pieces, LONG).is_none())?[0].address;
    let lowest = first.saturating_sub(OF_CONTEXT);
    let turn = |at: usize| {
        let is_far_below = lowest.saturating_sub(end(pieces[at].last())) >= BELOW;
        let is_left = at + 1 < pieces.len() && pieces[at][0].address >= lowest;
        (u8::from(is_left) + 2 * u8::from(is_far_below), pieces.len() - at)
    };
    Some(in_turn(regions, &pieces, turn))
}

/// The same, by the first of these sizes of which there is a hole.
fn ages_by_hole(regions: &[Region], least_bytes: &[u64]) -> Vec<usize> {
    let pieces = pieces(regions);
    let hole = least_bytes.iter().find_map(|&least| hole(&pieces, least));
    let distance = |below: &[Region], above: &[Region]| above[0].address.saturating_sub(end(below.last()));
    // What lies below the hole without a gap was there first: the last piece below a gap.
    let below_gap = hole.as_ref().map_or(0, |hole| {
        let pairs = pieces[..=hole.start].windows(2);
        pairs.rev().position(|pair| distance(pair[0], pair[1]) >= GAP).map_or(0, |from_hole| hole.start - from_hole)
    });
    let turn = |at: usize| match &hole {
        Some(hole) if hole.contains(&at) => (1, at),
        Some(hole) if at < below_gap && distance(pieces[at], pieces[hole.start]) >= BELOW => (2, pieces.len() - at),
        _ => (0, pieces.len() - at),
    };
    in_turn(regions, &pieces, turn)
}

/// The places of the segments, if their pieces were filled in these turns.
fn in_turn<K: Ord>(regions: &[Region], pieces: &[&[Region]], turn: impl Fn(usize) -> K) -> Vec<usize> {
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

/// Whether a long hole shows: without one, the order of the segments is a weak guess.
pub(super) fn has_hole(regions: &[Region]) -> bool {
    hole(&pieces(regions), LONG).is_some()
}

/// The segments of each chunk, which was filled upwards: by index, of regions that ascend by address.
pub(super) fn chunks(regions: &[Region]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut next = 0;
    regions.chunk_by(|a, b| a.address / CHUNK == b.address / CHUNK).map(move |chunk| {
        next += chunk.len();
        next - chunk.len()..next
    })
}

/// The pieces of the highest hole that holds at least so many bytes: several where segments in it were released.
fn hole(pieces: &[&[Region]], least_bytes: u64) -> Option<Range<usize>> {
    let mut next = 0;
    let is_one = |a: &&[Region], b: &&[Region]| {
        crosses_chunks(a) && crosses_chunks(b) && b[0].address.saturating_sub(end(a.last())) < BELOW
    };
    let runs = pieces.chunk_by(is_one).map(|run| {
        next += run.len();
        next - run.len()..next
    });
    let bytes = |run: &Range<usize>| {
        let regions = pieces[run.clone()].iter().flat_map(|piece| piece.iter());
        regions.map(|region| region.total_bytes).fold(0, u64::saturating_add)
    };
    runs.filter(|run| crosses_chunks(pieces[run.start]) && bytes(run) >= least_bytes).last()
}

/// The segments that were filled upwards together: those of a chunk, or of several without a gap in which segments do not keep to
/// chunks. In a hole, some chunks come out even by chance.
fn pieces(regions: &[Region]) -> Vec<&[Region]> {
    let of_chunks = regions.chunk_by(|a, b| end(Some(a)) == b.address && !b.address.is_multiple_of(CHUNK));
    let mut starts: Vec<usize> = Vec::new();
    // Chunks since the last that crosses, with which they are one piece if another that crosses follows without a gap.
    let (mut crossing, mut at) = (None, 0);
    for chunk in of_chunks {
        let touches = at > 0 && end(regions.get(at - 1)) == chunk[0].address;
        if !touches {
            crossing = None;
        }
        starts.push(at);
        if crosses_chunks(chunk) {
            let first = *crossing.get_or_insert(starts.len() - 1);
            starts.truncate(first + 1);
        }
        at += chunk.len();
    }
    let ends = starts.iter().skip(1).copied().chain([regions.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &regions[start..end]).collect()
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

    /// A segment of so many MiB at so many MiB.
    fn region(&(at, mib): &(u64, u64)) -> Region {
        Region { address: at << 20, total_bytes: mib << 20, is_expandable: false }
    }

    /// Places of segments of so many MiB at so many MiB, in the order of their age.
    fn by_age(segments: &[(u64, u64)]) -> Vec<u64> {
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

    /// A trainer whose optimizer allocates its state in its constructor: distance alone does not separate a model of this size from it.
    #[test]
    fn what_lies_below_the_hole_without_a_gap_is_older_than_it() {
        let made = [
            (0x1dc0, 64),
            (0x1d80, 64),
            (0x1d40, 64),
            (0x1d00, 64),
            (0x1cc0, 64),
            (0x1c80, 64),
            (0x1c40, 64),
            (0x1c00, 64),
            (0x1bc0, 64),
            (0x1e00, 20),
            (0x1e14, 20),
            (0x1e28, 64),
            (0x1b20, 64),
        ];
        assert_eq!(by_age(&made), made.map(|segment| segment.0));
    }

    /// Two holes, each long enough.
    #[test]
    fn pieces_that_lie_far_apart_are_two_holes() {
        let made = [(0x3010, 20), (0x3024, 110), (0x2fe0, 32), (0x2010, 30), (0x202e, 90)];
        assert_eq!(by_age(&made)[0], 0x2fe0);
        assert_eq!(by_age(&made)[1..3], [0x3010, 0x3024]);
    }

    /// A trainer whose optimizer allocates its state in its constructor, on an H100 that is not there.
    #[test]
    fn a_chunk_that_comes_out_even_does_not_end_the_hole() {
        let made =
            [(0x408, 20), (0x3c0, 64), (0x3a0, 16), (0x3b0, 16), (0x100, 20), (0x114, 16), (0x124, 28), (0x140, 16)];
        let more = [(0x150, 16), (0x160, 20), (0x174, 16), (0x184, 20)];
        let all: Vec<(u64, u64)> = made.into_iter().chain(more).collect();
        let order: Vec<u64> = all.iter().map(|segment| segment.0).collect();
        assert_eq!(by_age(&all), order);
    }

    /// A dry run of an inference server on an H100: its first kernel left a hole, which four of its six pages filled.
    #[test]
    fn a_short_hole_is_told_from_chunks_where_it_is_asked_for() {
        let segments = [(0x2c8, 20), (0x1e0, 20), (0x1c0, 20), (0x1b0, 14), (0x1a0, 14)];
        let in_hole = [(0x200, 14), (0x20e, 14), (0x21c, 14), (0x22a, 14)];
        let mut regions: Vec<Region> = segments.iter().chain(&in_hole).map(region).collect();
        regions.sort_by_key(|region| region.address);
        let is_of_hole = |region: &Region| in_hole.iter().any(|row| row.0 == region.address >> 20);
        let places =
            regions.iter().zip(ages_by_any_hole(&regions)).filter(|(region, _)| is_of_hole(region)).map(|row| row.1);
        assert_eq!(places.collect::<Vec<_>>(), [5, 6, 7, 8]);
    }

    #[test]
    fn full_chunks_that_touch_are_no_hole() {
        let made = [(0xe0, 32), (0xc0, 20), (0xd4, 12), (0xa0, 32), (0x80, 20), (0x94, 12)];
        assert_eq!(by_age(&made), made.map(|segment| segment.0));
        assert!(by_age(&[]).is_empty());
    }
}
