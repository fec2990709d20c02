//! Time on traces that are made to be expensive: it must rise with their length, not with its square.
//!
//! The bound is far above what a slow machine needs; each of these traces once took half a minute or more.

use std::time::Duration;

use highwater_analysis::stats::stats;
use highwater_analysis::{Analysis, analyse};
use highwater_snapshot::{
    Action, Annotation, Entry, Frame, FrameId, PoolId, Segment, SegmentType, Snapshot, StackId, Stage, StreamId,
    StringId,
};
use highwater_testkit::processor_time;
use highwater_whatif::Watch;
use highwater_whatif::replay::choose;

const MAX_TIME: Duration = Duration::from_secs(5);

const PAGE: u64 = 2 << 20;

/// A snapshot in the making, of device 0.
struct Builder(Snapshot);

impl Builder {
    fn new() -> Self {
        let mut snapshot = Snapshot::empty();
        snapshot.traces.push(highwater_snapshot::EntryTable::default());
        Self(snapshot)
    }

    fn frame(&mut self, name: &str, line: u64) -> FrameId {
        let frame =
            Frame { name: self.0.strings.intern(name), filename: self.0.strings.intern("/home/user/train.py"), line };
        self.0.frames.intern(frame)
    }

    /// Adds an entry; its time is its number.
    fn entry(&mut self, action: Action, address: u64, size_bytes: u64, stack: StackId) {
        let trace = &mut self.0.traces[0];
        let time_us = i64::try_from(trace.len()).ok();
        trace.push(Entry {
            action,
            address,
            size_bytes,
            stream: StreamId::DEFAULT,
            time_us,
            stack,
            pool: PoolId::MISSING,
            compile_context: StringId::MISSING,
            user_metadata: StringId::MISSING,
            category: StringId::MISSING,
        });
    }

    fn annotation(&mut self, stage: Stage, name: &str, time_us: i64) {
        let name = self.0.strings.intern(name);
        self.0.annotations.push(Annotation { stage, name, device: 0, time_us: Some(time_us) });
    }

    /// Times the analysis, and what `look` makes of it.
    fn is_quick<T>(&self, look: impl FnOnce(&Analysis<'_>) -> T) -> T {
        let begun = processor_time();
        let analysis = analyse(&self.0);
        let seen = look(&analysis);
        let _ = highwater_documents::report(&analysis);
        let taken = processor_time().saturating_sub(begun);
        assert!(taken < MAX_TIME, "{taken:?}");
        seen
    }
}

/// A loop that allocates once at each of many call sites, all of them inside a module, four times over.
fn many_call_sites(frees: bool) -> Builder {
    const SITES: u64 = 20_000;
    let mut built = Builder::new();
    let outer: Vec<FrameId> = (0..30).map(|line| built.frame("_call_impl", line)).collect();
    let stacks: Vec<StackId> = (0..SITES)
        .map(|line| {
            let inner = built.frame("forward", line);
            built.0.stacks.intern(&[&[inner], &outer[..]].concat())
        })
        .collect();
    for pass in 0..4 {
        for (&stack, i) in stacks.iter().zip(0..) {
            let address = if frees { i } else { pass * SITES + i } * 512;
            built.entry(Action::ALLOC, address, 512, stack);
            if frees {
                built.entry(Action::FREE_REQUESTED, address, 512, stack);
                built.entry(Action::FREE_COMPLETED, address, 512, stack);
            }
        }
    }
    built
}

#[test]
fn many_call_sites_are_searched_for_repetition_quickly() {
    assert_eq!(many_call_sites(true).is_quick(|analysis| analysis.devices[0].iterations.rows.len()), 4);
    // Inside modules, and keeping everything: layers as they are built, no iterations.
    assert_eq!(many_call_sites(false).is_quick(|analysis| analysis.devices[0].iterations.rows.len()), 0);
}

#[test]
fn annotations_that_never_end_are_passed_over_quickly() {
    const NAMES: i64 = 100_000;
    let mut built = Builder::new();
    for address in 0..10 {
        built.entry(Action::ALLOC, address, 1, StackId::MISSING);
    }
    for time_us in 0..NAMES {
        built.annotation(Stage::Start, "never ends", time_us);
    }
    for time_us in NAMES..2 * NAMES {
        built.annotation(Stage::End, "never began", time_us);
    }
    let ended = built.is_quick(|analysis| analysis.devices[0].scopes.iter().filter(|s| s.end_us.is_some()).count());
    assert_eq!(ended, 0);
}

#[test]
fn pages_are_unmapped_quickly() {
    const PAGES: u64 = 200_000;
    let mut built = Builder::new();
    for page in 0..PAGES {
        built.entry(Action::SEGMENT_MAP, page * PAGE, PAGE, StackId::EMPTY);
    }
    for page in 0..PAGES {
        built.entry(Action::SEGMENT_UNMAP, page * PAGE, PAGE, StackId::EMPTY);
    }
    let reserved = built.is_quick(|analysis| stats(&built.0, &analysis.devices[0], None).reserved_bytes);
    assert_eq!(reserved.small.freed, Some(PAGES * PAGE));
}

#[test]
fn frees_that_complete_in_another_order_are_replayed_quickly() {
    const BLOCKS: u64 = 60_000;
    let mut built = Builder::new();
    for address in (0..BLOCKS).map(|block| block * 512) {
        if address % PAGE == 0 {
            built.entry(Action::SEGMENT_ALLOC, address, PAGE, StackId::EMPTY);
        }
        built.entry(Action::ALLOC, address, 512, StackId::EMPTY);
    }
    for block in 0..BLOCKS {
        built.entry(Action::FREE_REQUESTED, block * 512, 512, StackId::EMPTY);
    }
    for block in (0..BLOCKS).rev() {
        built.entry(Action::FREE_COMPLETED, block * 512, 512, StackId::EMPTY);
    }
    let choice = built.is_quick(|analysis| choose(&built.0, &[&analysis.devices[0]], &Watch::default()));
    assert!(choice.replays[0].fidelity.is_exact(), "{:?}", choice.replays[0].fidelity);
}

#[test]
fn blocks_that_no_memory_holds_are_followed_quickly() {
    const BLOCKS: u64 = 200_000;
    let mut built = Builder::new();
    // Memory with a hole before each block, which is in use where the recording does not say: none can be placed.
    for block in 0..BLOCKS {
        built.entry(Action::SEGMENT_MAP, 3 * block * PAGE, PAGE, StackId::EMPTY);
        built.entry(Action::ALLOC, 3 * block * PAGE + 512, 512, StackId::EMPTY);
    }
    for block in (0..BLOCKS).rev() {
        built.entry(Action::FREE_COMPLETED, 3 * block * PAGE + 512, 512, StackId::EMPTY);
        built.entry(Action::SEGMENT_UNMAP, 3 * block * PAGE + 4096, PAGE - 4096, StackId::EMPTY);
    }
    let odd = built.is_quick(|analysis| analysis.devices[0].blocks().contradictions());
    assert!(odd >= BLOCKS, "{odd}");
}

#[test]
fn many_devices_are_told_apart_quickly() {
    const DEVICES: u32 = 100_000;
    // As many as PyTorch can tell apart.
    const SHOWN: usize = 128;
    let mut built = Builder::new();
    for device in 0..DEVICES {
        built.0.segments.push(Segment {
            device: device.try_into().unwrap(),
            address: u64::from(device) * PAGE,
            total_bytes: PAGE,
            stream: StreamId::DEFAULT,
            segment_type: SegmentType::Small,
            pool: PoolId::DEFAULT,
            is_expandable: false,
            stack: StackId::EMPTY,
            blocks: 0..0,
        });
    }
    assert_eq!(built.is_quick(|analysis| analysis.devices.len()), SHOWN);
}
