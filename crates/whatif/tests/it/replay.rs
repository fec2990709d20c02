//! The allocator against real recordings: what it predicts is what the H200 did.

use std::path::{Path, PathBuf};

use highwater_allocator::{AddressPolicy, Memory, Settings, Statistics, TorchVersion};
use highwater_analysis::recorded_settings::recorded_settings;
use highwater_analysis::stats::stats;
use highwater_analysis::{Analysis, analyse};
use highwater_snapshot::{
    Action, Block, BlockState, Entry, EntryTable, PoolId, Segment, SegmentType, Snapshot, StackId, StreamId,
};
use highwater_testkit::{entry, open, recording, snapshots, testdata};
use highwater_whatif::replay::{Replay, Step, replay};
use highwater_whatif::{Confidence, Least, Study, alloc_retries};
use serde_json::Value;

const TORCH: TorchVersion = TorchVersion::v2(11);

/// The recordings, and those that were made to be replayed.
fn recordings() -> Vec<PathBuf> {
    ["recordings", "replays"].into_iter().flat_map(snapshots).collect()
}

fn json(path: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(path.to_string_lossy().replace(".pickle.gz", ".json")).ok()?;
    Some(serde_json::from_str(&text).expect("JSON"))
}

fn replayed(snapshot: &Snapshot, settings: &Settings) -> Replay {
    let analysis = analyse(snapshot);
    let [device] = &analysis.devices[..] else { panic!("one device") };
    replay(snapshot, device, settings)
}

#[test]
fn every_recording_replays_to_its_last_entry() {
    for path in recordings() {
        let snapshot = Snapshot::open(&path).expect("the recording reads");
        let replay = replayed(&snapshot, &recorded_settings(&snapshot, TORCH));
        assert_eq!(replay.fidelity.first_difference, None, "{}", path.display());
        assert_eq!(replay.fidelity.equal, replay.fidelity.entries, "{}", path.display());
        let kept = snapshot.traces.iter().flat_map(highwater_snapshot::EntryTable::actions);
        let expected = kept.filter(|&&action| action != Action::SNAPSHOT).count();
        assert_eq!(replay.fidelity.entries, expected as u64, "{}", path.display());
    }
}

#[test]
fn every_statistic_of_a_whole_recording_is_equal() {
    let mut compared = 0;
    for path in recordings() {
        let snapshot = Snapshot::open(&path).expect("the recording reads");
        let replay = replayed(&snapshot, &recorded_settings(&snapshot, TORCH));
        let (Some(truth), Some(statistics)) = (json(&path), replay.statistics) else { continue };
        compared += compare(&statistics, &truth["stats"], &path);
    }
    assert!(compared > 1500, "only {compared} numbers");
}

/// Every statistic of a run against what PyTorch said; how many there are.
fn compare(statistics: &Statistics, truth: &Value, path: &Path) -> usize {
    let number = |key: &str| truth[key].as_u64().unwrap_or_else(|| panic!("{}: {key}", path.display()));
    let mut compared = 0;
    for (name, metric) in statistics.metrics() {
        for (kind, stat) in
            [("all", metric.all()), ("small_pool", metric.small_pool()), ("large_pool", metric.large_pool())]
        {
            for (what, value) in
                [("current", stat.current), ("peak", stat.peak), ("allocated", stat.allocated), ("freed", stat.freed)]
            {
                let key = format!("{name}.{kind}.{what}");
                assert_eq!(value, number(&key), "{}: {key}", path.display());
                compared += 1;
            }
        }
    }
    assert_eq!(statistics.num_alloc_retries, number("num_alloc_retries"), "{}", path.display());
    assert_eq!(statistics.num_ooms, number("num_ooms"), "{}", path.display());
    compared
}

/// What a message says of the allocator: what it says of the card is another card's.
pub(crate) fn of_the_allocator(message: &str) -> String {
    let tried = message.split(". ").nth(1).expect("a message");
    let allowed = message.rfind(" GiB allowed").expect("a limit");
    format!("{tried}{}", &message[allowed - 5..])
}

fn varlen() -> Snapshot {
    open("replays/varlen_default")
}

fn study(snapshot: &Snapshot) -> Study {
    let analysis: Analysis<'_> = analyse(snapshot);
    Study::new(snapshot, &analysis.devices[0], TORCH)
}

#[test]
fn runs_under_other_settings_and_limits_come_out_as_they_did() {
    let snapshot = varlen();
    let study = study(&snapshot);
    let rows = json(&testdata("replays/limits.pickle.gz")).expect("the truth");
    let rows = rows.as_array().expect("a list");
    assert_eq!(rows.len(), 15);
    for row in rows {
        let settings = study.settings(row["conf"].as_str().unwrap()).expect("settings");
        let memory = row["limit_gib"].as_u64().map_or(Memory::Ample, |gib| Memory::Limit(gib << 30));
        let run = study.run(&settings, memory, AddressPolicy::Driver);
        assert_eq!(run.outcome.fits(), row["fits"], "{row}");
        assert_eq!(run.peak_reserved_bytes(), row["peak_reserved"], "{row}");
        assert_eq!(run.peak_allocated_bytes(), row["peak_allocated"], "{row}");
        assert_eq!(run.statistics.num_alloc_retries, row["num_alloc_retries"], "{row}");
        if let (Some(message), Some(truth)) = (&run.message, row["oom_message"].as_str()) {
            assert_eq!(of_the_allocator(message), of_the_allocator(truth));
        }
    }
}

/// The program has no kernels, so that the driver's rule is all there is to know of addresses: directly below the last one, as
/// `AddressPolicy::Descending` has it, the peak under `roundup_power2_divisions:8` would be 11 % too high.
#[test]
fn a_program_without_kernels_comes_out_to_the_last_statistic_under_every_other_setting() {
    let recording = testdata("replays").join("fuzz_default.pickle.gz");
    let snapshot = Snapshot::open(&recording).expect("the recording reads");
    let study = study(&snapshot);
    let folders = ["recordings", "replays"].map(|folder| std::fs::read_dir(testdata(folder)).expect("a folder"));
    let files = folders.into_iter().flatten().map(|file| file.expect("readable").path());
    let is_truth = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("fuzz_") && name.ends_with(".json")
    };
    let truths: Vec<PathBuf> = files.filter(is_truth).collect();
    assert_eq!(truths.len(), 10);
    for path in truths {
        let truth: Value = serde_json::from_slice(&std::fs::read(&path).expect("readable")).expect("JSON");
        let settings = study.settings(truth["conf"].as_str().expect("settings")).expect("settings");
        let memory = truth["limit_gib"].as_u64().map_or(Memory::Ample, |gib| Memory::Limit(gib << 30));
        let run = study.run(&settings, memory, AddressPolicy::Driver);
        assert!(run.outcome.fits(), "{}", path.display());
        compare(&run.statistics, &truth["stats"], &path);
    }
}

#[test]
fn what_is_live_does_not_depend_on_settings() {
    let snapshot = varlen();
    let study = study(&snapshot);
    let live = |conf: &str| {
        let run = study.run(&study.settings(conf).expect("settings"), Memory::Ample, AddressPolicy::FirstFit);
        let requested = run.statistics.requested_bytes.all();
        (requested.current, requested.peak, requested.allocated, run.statistics.allocation.all())
    };
    let default = live("");
    assert_eq!(default.1, study.live.requested_bytes);
    for conf in ["expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:4"] {
        assert_eq!(live(conf), default, "{conf}");
    }
}

/// The entries of a small recording, each changed.
fn changed(change: impl Fn(&mut highwater_snapshot::Entry)) -> Snapshot {
    let mut snapshot = recording("multi_stream");
    for trace in &mut snapshot.traces {
        let mut copy = highwater_snapshot::EntryTable::default();
        for id in trace.ids() {
            let mut entry = trace.get(id);
            change(&mut entry);
            copy.push(entry);
        }
        copy.device_free_bytes.clone_from(&trace.device_free_bytes);
        *trace = copy;
    }
    snapshot
}

fn steps(snapshot: &Snapshot) -> (Vec<Step>, Option<u64>) {
    let replay = replayed(snapshot, &recorded_settings(snapshot, TORCH));
    assert!(replay.fidelity.is_exact(), "{:?}", replay.fidelity);
    let reserved = replay.statistics.map(|statistics| statistics.reserved_bytes.all().peak);
    (replay.program.steps, reserved)
}

#[test]
fn shifting_time_changes_nothing() {
    let shifted = changed(|entry| entry.time_us = entry.time_us.map(|time| time + 1_000_000));
    assert_eq!(steps(&shifted), steps(&changed(|_| {})));
}

#[test]
fn translating_addresses_changes_nothing() {
    const BY: u64 = 1 << 33;
    let mut moved = changed(|entry| entry.address += if entry.address > 0 { BY } else { 0 });
    for segment in &mut moved.segments {
        segment.address += BY;
    }
    for block in &mut moved.blocks {
        block.address += BY;
    }
    assert_eq!(steps(&moved), steps(&changed(|_| {})));
}

#[test]
fn renaming_streams_changes_nothing() {
    let mut renamed = changed(|_| {});
    // The order of handles decides ties in `empty_cache` only, so it is kept.
    for handle in &mut renamed.streams {
        *handle = if *handle == 0 { 0 } else { *handle + 0x1000 };
    }
    assert_eq!(steps(&renamed), steps(&changed(|_| {})));
}

#[test]
fn an_unused_option_changes_nothing() {
    let snapshot = varlen();
    let study = study(&snapshot);
    let peak = |conf: &str| {
        let run = study.run(&study.settings(conf).expect("settings"), Memory::Ample, AddressPolicy::Driver);
        (run.peak_reserved_bytes(), run.peak_allocated_bytes(), run.statistics.num_device_alloc)
    };
    let default = peak("");
    for conf in ["garbage_collection_threshold:0.5", "pinned_use_background_threads:True", "max_split_size_mb:200000"] {
        assert_eq!(peak(conf), default, "{conf}");
    }
}

/// A segment is released, and a larger one reserved for a request; with the stacks of the release and of the request.
fn released_and_reserved(stacks: [StackId; 2]) -> Snapshot {
    const MIB: u64 = 1 << 20;
    let [release, request] = stacks;
    let mut snapshot = Snapshot::empty();
    let mut trace = EntryTable::default();
    for (action, address, size_bytes, stack) in [
        (Action::SEGMENT_ALLOC, 1 << 40, 20 * MIB, request),
        (Action::ALLOC, 1 << 40, 20 * MIB, request),
        (Action::FREE_REQUESTED, 1 << 40, 20 * MIB, request),
        (Action::FREE_COMPLETED, 1 << 40, 20 * MIB, request),
        (Action::SEGMENT_FREE, 1 << 40, 20 * MIB, release),
        (Action::SEGMENT_ALLOC, 1 << 41, 40 * MIB, request),
        (Action::ALLOC, 1 << 41, 40 * MIB, request),
    ] {
        trace.push(Entry { stack, ..entry(action, address, size_bytes) });
    }
    snapshot.traces.push(trace);
    snapshot.blocks.push(Block {
        address: 1 << 41,
        size_bytes: 40 * MIB,
        requested_bytes: 40 * MIB,
        state: BlockState::ActiveAllocated,
        stack: request,
    });
    snapshot.segments.push(Segment {
        device: 0,
        address: 1 << 41,
        total_bytes: 40 * MIB,
        stream: StreamId::DEFAULT,
        segment_type: SegmentType::Large,
        pool: PoolId::DEFAULT,
        is_expandable: false,
        stack: request,
        blocks: 0..1,
    });
    snapshot
}

#[test]
fn stacks_tell_a_retry_from_an_emptied_cache() {
    let [one, other] = [1, 2].map(StackId::new);
    for (stacks, expected, known) in [
        ([one, one], 1, Some(1)),
        ([other, one], 0, Some(0)),
        // The allocator never held as much as both: the driver may have refused.
        ([StackId::MISSING; 2], 1, None),
    ] {
        let snapshot = released_and_reserved(stacks);
        let replay = replayed(&snapshot, &recorded_settings(&snapshot, TORCH));
        assert!(replay.fidelity.is_exact(), "{:?}", replay.fidelity);
        assert_eq!(replay.statistics.expect("whole").num_alloc_retries, expected, "{stacks:?}");
        let device = &analyse(&snapshot).devices[0];
        let stats = stats(&snapshot, device, alloc_retries(&snapshot, device));
        assert_eq!(stats.num_alloc_retries, known, "{stacks:?}");
    }
}

/// `empty_cache()` releases two segments from before the recording, 20 MiB and then 2 MiB, and where the second lay there is
/// another segment at the dump.
fn released_before(small_stream: u32, later: &Segment) -> Snapshot {
    const MIB: u64 = 1 << 20;
    const LARGE: u64 = 1 << 41;
    let mut snapshot = Snapshot::empty();
    snapshot.streams.push(0x1000);
    snapshot.pools.push((1, 0));
    let mut trace = EntryTable::default();
    for (action, address, size_bytes, stream) in [
        (Action::SEGMENT_FREE, LARGE, 20 * MIB, 0),
        (Action::SEGMENT_FREE, later.address, 2 * MIB, small_stream),
        (Action::SEGMENT_ALLOC, later.address, later.total_bytes, later.stream.get()),
        (Action::ALLOC, later.address, later.total_bytes, later.stream.get()),
    ] {
        let stream = StreamId::new(stream);
        trace.push(Entry { stream, ..entry(action, address, size_bytes) });
    }
    snapshot.traces.push(trace);
    let block = |address, size_bytes, state| Block {
        address,
        size_bytes,
        requested_bytes: size_bytes,
        state,
        stack: StackId::EMPTY,
    };
    snapshot.blocks.push(block(later.address, later.total_bytes, BlockState::ActiveAllocated));
    snapshot.segments.push(later.clone());
    snapshot
}

#[test]
fn memory_before_the_recording_is_not_of_the_pool_that_has_its_address_later() {
    let later = Segment {
        device: 0,
        address: 1 << 40,
        total_bytes: 40 << 20,
        stream: StreamId::DEFAULT,
        segment_type: SegmentType::Large,
        pool: PoolId::DEFAULT,
        is_expandable: false,
        stack: StackId::EMPTY,
        blocks: 0..1,
    };
    let streams = [StreamId::DEFAULT, StreamId::new(1)];
    for (small_stream, stream, pool) in
        [(0, streams[0], PoolId::DEFAULT), (1, streams[0], PoolId::DEFAULT), (0, streams[1], PoolId::new(1))]
    {
        let snapshot = released_before(small_stream, &Segment { stream, pool, ..later.clone() });
        let replay = replayed(&snapshot, &recorded_settings(&snapshot, TORCH));
        assert_eq!(replay.fidelity.first_difference, None, "{small_stream}, {stream:?}, {pool:?}");
        let [layout] = &replay.program.layouts[..] else { panic!("the sizes of all blocks are known") };
        let small = layout.segments.iter().find(|segment| segment.address == later.address).expect("it was there");
        let handle = snapshot.streams[StreamId::new(small_stream).index()];
        assert_eq!((small.is_small, small.pool, small.stream), (true, 0, handle));
    }
}

#[test]
fn an_address_where_no_block_can_lie_is_said() {
    let mut snapshot = Snapshot::empty();
    let mut trace = EntryTable::default();
    trace.push(entry(Action::ALLOC, (1 << 40) + 8, 4096));
    snapshot.traces.push(trace);
    let difference = replayed(&snapshot, &recorded_settings(&snapshot, TORCH)).fidelity.first_difference;
    let note = difference.expect("it reserves nothing").note;
    assert!(note.contains("a multiple of 512 bytes"), "{note}");
}

#[test]
fn the_settings_that_reserve_least_are_those_of_runs_to_the_end() {
    let mut found = 0;
    for path in recordings() {
        let snapshot = Snapshot::open(&path).expect("the recording reads");
        let analysis = analyse(&snapshot);
        let study = Study::new(&snapshot, &analysis.devices[0], TORCH);
        let recorded = analysis.devices[0].timeline.reserved_peak().bytes;
        let peak = |settings: &Settings| {
            let case = study.case(settings, Memory::Ample);
            (case.confidence != Confidence::PremiseBroken).then(|| case.run.peak_reserved_bytes())
        };
        let candidates = study.candidates();
        let own = study.case(&candidates[0].1, Memory::Ample).run.peak_reserved_bytes().min(recorded);
        let peaks = candidates[1..].iter().filter_map(|(conf, settings)| Some((peak(settings)?, conf, settings)));
        let best = peaks.min_by_key(|&(bytes, ..)| bytes);
        for percent in [70, 90, 100] {
            let most = |own: u64| own / 100 * percent;
            let expected = best.and_then(|(bytes, conf, settings)| {
                let own_bytes = if settings.expandable_segments { recorded } else { own };
                (bytes <= most(own_bytes)).then(|| Least { conf: conf.clone(), bytes, own_bytes })
            });
            found += usize::from(expected.is_some());
            assert_eq!(study.least_reserved(recorded, most), expected, "{}", path.display());
        }
    }
    assert!(found > 10, "only {found} of all can be better");
}
