//! The fewest blocks that pinned a request's memory, against trying every set of blocks.

use std::collections::BTreeSet;

use hashbrown::HashSet;
use highwater_whatif::pinning::{
    Block, BlockState, Failure, Headroom, Pinning, Request, Segment, Way, pinning, succeeds_without,
};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// A kind of part, and its length.
fn parts() -> impl Strategy<Value = Vec<(u8, u64)>> {
    prop::collection::vec((0..4_u8, 1..6_u64), 1..6)
}

/// A segment that comes and goes as a whole.
fn whole_segment() -> impl Strategy<Value = Segment> {
    (any::<bool>(), prop::bool::weighted(0.8), parts()).prop_map(|(is_usable, is_releasable, parts)| {
        let blocks = parts.into_iter().map(|(kind, bytes)| {
            let state = if kind < 2 { BlockState::Free } else { BlockState::Live(0) };
            Block { bytes, state }
        });
        Segment { is_usable, is_releasable, page_bytes: None, blocks: blocks.collect() }
    })
}

const PAGE: u64 = 4;

/// An expandable segment: mapped stretches of whole pages with blocks in them, and unmapped ones between.
fn expandable_segment() -> impl Strategy<Value = Segment> {
    let stretch = (any::<bool>(), 1..4_u64, parts());
    (any::<bool>(), prop::bool::weighted(0.8), prop::collection::vec(stretch, 1..4)).prop_map(
        |(is_usable, is_releasable, stretches)| {
            let mut blocks = Vec::new();
            for (is_mapped, pages, parts) in stretches {
                let mut rest = pages * PAGE;
                if !is_mapped {
                    blocks.push(Block { bytes: rest, state: BlockState::Unmapped });
                    continue;
                }
                for (kind, bytes) in parts {
                    let bytes = bytes.min(rest);
                    rest -= bytes;
                    let state = if kind < 2 { BlockState::Free } else { BlockState::Live(0) };
                    blocks.push(Block { bytes, state });
                }
                blocks.push(Block { bytes: rest, state: BlockState::Free });
            }
            Segment { is_usable, is_releasable, page_bytes: Some(PAGE), blocks }
        },
    )
}

fn failure(segment: impl Strategy<Value = Segment>, page_bytes: Option<u64>) -> impl Strategy<Value = Failure> {
    let headroom = (0..12_u64, prop::option::weighted(0.3, 0..12_u64));
    let segments = prop::collection::vec(segment, 0..4);
    (1..16_u64, 0..6_u64, headroom, segments).prop_map(move |(size, more, headroom, mut segments)| {
        let mut name = 0;
        for block in segments.iter_mut().flat_map(|segment| &mut segment.blocks) {
            if let BlockState::Live(live) = &mut block.state {
                *live = name;
                name += 1;
            }
        }
        Failure {
            request: Request { size_bytes: size, segment_bytes: size + more, page_bytes },
            headroom: Headroom { device_bytes: headroom.0, limit_bytes: headroom.1 },
            segments,
        }
    })
}

fn live_blocks(failure: &Failure) -> Vec<(u32, u64)> {
    let blocks = failure.segments.iter().flat_map(|segment| &segment.blocks);
    let live = blocks.filter_map(|block| match block.state {
        BlockState::Live(name) => Some((name, block.bytes)),
        BlockState::Free | BlockState::Unmapped => None,
    });
    live.filter(|&(_, bytes)| bytes > 0).collect()
}

/// The fewest blocks of a set that does, and of sets with equally many the fewest bytes: every set is tried.
fn smallest(failure: &Failure, does: impl Fn(&HashSet<u32>) -> bool) -> Option<(usize, u64)> {
    let live = live_blocks(failure);
    let sets = (0..1_u32 << live.len()).filter_map(|set| {
        let chosen = || live.iter().enumerate().filter(move |(bit, _)| set >> bit & 1 == 1).map(|(_, block)| block);
        let names: HashSet<u32> = chosen().map(|&(name, _)| name).collect();
        does(&names).then(|| (names.len(), chosen().map(|&(_, bytes)| bytes).sum()))
    });
    sets.min()
}

/// Whether a set does in one of the two ways: all its blocks lie where the request would go, or none does and there is
/// memory for a block where it made no room.
fn is_window_or_release(failure: &Failure, names: &HashSet<u32>) -> bool {
    let touched = touched(failure, names);
    let elsewhere = |index: usize| {
        let segment = &failure.segments[index];
        Segment { is_usable: segment.is_usable && !touched.contains(&index), ..segment.clone() }
    };
    let segments = (0..failure.segments.len()).map(elsewhere).collect();
    let is_release = succeeds_without(&Failure { segments, ..failure.clone() }, names);
    let is_window = || match touched.iter().collect::<Vec<_>>()[..] {
        [] => true,
        [&segment] => lies_in_one_place(&failure.segments[segment], failure.request.size_bytes, names),
        _ => false,
    };
    (is_release || is_window()) && succeeds_without(failure, names)
}

/// Whether the blocks are all that is live in a place of `size` bytes that begins behind a live block, behind unmapped
/// memory, or at the segment's first byte.
fn lies_in_one_place(segment: &Segment, size: u64, names: &HashSet<u32>) -> bool {
    let (mut place, mut end) = (0, 0);
    let mut left = names.len();
    for block in segment.blocks.iter().filter(|block| block.bytes > 0) {
        let start = end;
        end += block.bytes;
        match block.state {
            BlockState::Live(name) if names.contains(&name) => {
                if start >= place + size {
                    return false;
                }
                left -= 1;
            }
            BlockState::Live(_) if (1..names.len()).contains(&left) => return false,
            BlockState::Live(_) if left > 0 => place = end,
            BlockState::Unmapped if left == names.len() && segment.is_usable => {
                // From here on, if that is enough; else from the start of the gap.
                let rest = Segment { blocks: rest_after(segment, end), ..segment.clone() };
                if lies_in_one_place(&rest, size, names) && first_fits(&rest, size, names) {
                    return true;
                }
            }
            _ => {}
        }
    }
    left == 0
}

/// The blocks beyond a position.
fn rest_after(segment: &Segment, position: u64) -> Vec<Block> {
    let mut end = 0;
    let mut rest = segment.blocks.clone();
    rest.retain(|block| {
        end += block.bytes;
        end > position
    });
    rest
}

/// Whether there is memory for `size` bytes at the segment's first byte.
fn first_fits(segment: &Segment, size: u64, names: &HashSet<u32>) -> bool {
    let is_free = |block: &&Block| match block.state {
        BlockState::Live(name) => names.contains(&name),
        BlockState::Free => true,
        BlockState::Unmapped => false,
    };
    segment.blocks.iter().take_while(is_free).map(|block| block.bytes).sum::<u64>() >= size
}

/// The segments that a set of blocks lies in.
fn touched(failure: &Failure, names: &HashSet<u32>) -> BTreeSet<usize> {
    let is_in = |block: &Block| matches!(block.state, BlockState::Live(name) if names.contains(&name));
    let segments = failure.segments.iter().enumerate();
    segments.filter(|(_, segment)| segment.blocks.iter().any(is_in)).map(|(index, _)| index).collect()
}

/// That the answer is one: its blocks are live, their bytes add up, and it does without them.
fn check(failure: &Failure, answer: &Pinning) {
    let live = live_blocks(failure);
    let names: HashSet<u32> = answer.blocks.iter().copied().collect();
    assert_eq!(names.len(), answer.blocks.len());
    let bytes: u64 = live.iter().filter(|(name, _)| names.contains(name)).map(|&(_, bytes)| bytes).sum();
    assert_eq!(answer.bytes, bytes);
    assert!(succeeds_without(failure, &names));
    assert!(answer.blocks.is_sorted(), "names ascend in these states");
    let touched = touched(failure, &names);
    match &answer.way {
        Way::Window { segment, offset_bytes } => {
            assert!(touched.iter().all(|touched| touched == segment));
            let length: u64 = failure.segments[*segment].blocks.iter().map(|block| block.bytes).sum();
            assert!(offset_bytes + failure.request.size_bytes <= length);
        }
        Way::Release { segments } => assert_eq!(&touched.into_iter().collect::<Vec<_>>(), segments),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_smaller_set_of_blocks_in_whole_segments_does(failure in failure(whole_segment(), None)) {
        prop_assume!(live_blocks(&failure).len() <= 12);
        let answer = pinning(&failure);
        let smallest = smallest(&failure, |names| succeeds_without(&failure, names));
        prop_assert_eq!(answer.as_ref().map(|answer| answer.blocks.len()), smallest.map(|(count, _)| count));
        if let (Some(answer), Some((_, bytes))) = (answer, smallest) {
            check(&failure, &answer);
            prop_assert!(answer.is_smallest);
            prop_assert!(answer.bytes >= bytes);
        }
    }

    #[test]
    fn no_smaller_window_or_release_of_expandable_segments_does(
        failure in failure(prop_oneof![expandable_segment(), whole_segment()], Some(PAGE)),
    ) {
        prop_assume!(live_blocks(&failure).len() <= 12);
        let answer = pinning(&failure);
        if let Some(answer) = &answer {
            check(&failure, answer);
        }
        if let Some((count, _)) = smallest(&failure, |names| is_window_or_release(&failure, names)) {
            let answer = answer.expect("there is a set");
            prop_assert!(answer.blocks.len() <= count, "{:?}, but {} do", answer, count);
        }
    }
}

fn segment(page_bytes: Option<u64>, blocks: &[(u64, BlockState)]) -> Segment {
    let blocks = blocks.iter().map(|&(mib, state)| Block { bytes: mib * MIB, state }).collect();
    Segment { is_usable: true, is_releasable: true, page_bytes, blocks }
}

/// The worked example of the unmapping rules: three blocks of 30 MiB in pages of 20 MiB, the second freed.
fn three_blocks(size_mib: u64, device_mib: u64) -> Failure {
    use BlockState::{Free, Live, Unmapped};
    let blocks = [(30, Live(1)), (30, Free), (30, Live(2)), (10, Free), (1000, Unmapped)];
    Failure {
        request: Request {
            size_bytes: size_mib * MIB,
            segment_bytes: (size_mib * MIB).next_multiple_of(2 * MIB),
            page_bytes: Some(20 * MIB),
        },
        headroom: Headroom { device_bytes: device_mib * MIB, limit_bytes: None },
        segments: vec![segment(Some(20 * MIB), &blocks)],
    }
}

#[test]
fn a_request_at_the_end_of_an_expandable_segment_maps_whole_pages() {
    let nobody = HashSet::new();
    // 41 MiB: the 10 MiB at the end, and two pages; one of them is what the second block leaves.
    assert!(succeeds_without(&three_blocks(41, 20), &nobody));
    assert!(!succeeds_without(&three_blocks(41, 19), &nobody));
    // 31 MiB takes two pages too, 30 MiB one: and so does the hole, without any.
    assert!(!succeeds_without(&three_blocks(31, 19), &nobody));
    assert!(succeeds_without(&three_blocks(30, 0), &nobody));
}

#[test]
fn a_page_that_two_blocks_share_comes_back_without_both() {
    use BlockState::Live;
    let failure = |size_mib| {
        let mut shared = segment(Some(20 * MIB), &[(10, Live(1)), (10, Live(2)), (20, Live(3))]);
        shared.is_usable = false;
        Failure {
            request: Request { size_bytes: size_mib * MIB, segment_bytes: size_mib * MIB, page_bytes: Some(20 * MIB) },
            headroom: Headroom::default(),
            segments: vec![shared],
        }
    };
    assert_eq!(pinning(&failure(20)).unwrap().blocks, [3]);
    assert_eq!(pinning(&failure(22)).unwrap().blocks, [1, 2, 3]);
}

#[test]
fn a_limit_counts_the_segment_whatever_is_mapped() {
    let mut failure = three_blocks(41, 1000);
    failure.headroom.limit_bytes = Some(21 * MIB);
    assert!(!succeeds_without(&failure, &HashSet::new()));
    failure.headroom.limit_bytes = Some(22 * MIB);
    assert!(succeeds_without(&failure, &HashSet::new()));
    assert_eq!(pinning(&failure).unwrap().blocks, [] as [u32; 0]);
}

#[test]
fn the_release_of_a_segment_with_few_blocks_beats_a_window_with_many() {
    use BlockState::{Free, Live};
    let small: Vec<_> = (0..20).map(|name| (1, Live(name))).collect();
    let mut other = segment(None, &[(4, Live(100)), (16, Free)]);
    other.is_usable = false;
    let failure = Failure {
        request: Request { size_bytes: 12 * MIB, segment_bytes: 12 * MIB, page_bytes: None },
        headroom: Headroom::default(),
        segments: vec![segment(None, &small), other],
    };
    let answer = pinning(&failure).unwrap();
    assert_eq!(answer.way, Way::Release { segments: vec![1] });
    assert_eq!((answer.blocks, answer.bytes), (vec![100], 4 * MIB));
}

#[test]
fn nothing_helps_a_request_larger_than_all() {
    let failure = Failure {
        request: Request { size_bytes: 100 * MIB, segment_bytes: 100 * MIB, page_bytes: None },
        headroom: Headroom { device_bytes: 10 * MIB, limit_bytes: None },
        segments: vec![segment(None, &[(20, BlockState::Live(1))])],
    };
    assert_eq!(pinning(&failure), None);
}

#[test]
fn absurd_numbers_do_not_overflow() {
    let states = [BlockState::Live(0), BlockState::Free, BlockState::Unmapped];
    for bytes in [0, 1, u64::MAX / 2, u64::MAX] {
        for page_bytes in [None, Some(0), Some(1), Some(u64::MAX)] {
            let blocks = states.iter().cycle().take(9).map(|&state| Block { bytes, state }).collect();
            let segment = Segment { is_usable: true, is_releasable: true, page_bytes, blocks };
            for size_bytes in [0, 1, u64::MAX] {
                let failure = Failure {
                    request: Request { size_bytes, segment_bytes: size_bytes, page_bytes },
                    headroom: Headroom { device_bytes: 0, limit_bytes: Some(u64::MAX) },
                    segments: vec![segment.clone(), segment.clone(), Segment::default()],
                };
                pinning(&failure);
            }
        }
    }
}
