//! The sizes of blocks, against those of the allocator that handed them out.

use std::collections::BTreeMap;

use highwater_allocator::program::{self, Op, Options, Program, Run};
use highwater_allocator::{BlockState as State, Metric as Wanted, Settings, Stat as WantedStat};
use highwater_analysis::blocks::Knowledge;
use highwater_analysis::stats::{Metric, Stat, stats};
use highwater_analysis::timeline::Totals;
use highwater_analysis::{DeviceAnalysis, analyse};
use highwater_snapshot::{
    Action, Block, BlockState, Entry, EntryTable, PoolId, Segment, SegmentType, Setting, Snapshot, StackId, StreamId,
    StringId,
};
use highwater_testkit::{gunzip, recording, testdata};
use highwater_whatif::alloc_retries;
use serde_json::Value;

/// Pool `n` of a program as PyTorch numbers pools that a program makes, and as a row of the snapshot.
fn pool(id: u64, pools: &mut Vec<(u64, u64)>) -> PoolId {
    let id = (0, id);
    let row = pools.iter().position(|&pool| pool == id).unwrap_or_else(|| {
        pools.push(id);
        pools.len() - 1
    });
    if row == 0 { PoolId::DEFAULT } else { PoolId::new(row.try_into().unwrap()) }
}

fn stream(handle: u64, streams: &mut Vec<u64>) -> StreamId {
    let row = streams.iter().position(|&stream| stream == handle).unwrap_or_else(|| {
        streams.push(handle);
        streams.len() - 1
    });
    if row == 0 { StreamId::DEFAULT } else { StreamId::new(row.try_into().unwrap()) }
}

/// What a run would have dumped; entries name their pool, or as before torch 2.12 do not.
fn dump(run: &Run, settings: &Settings, conf: &str, names_pools: bool) -> Snapshot {
    let mut snapshot = Snapshot::empty();
    let mut trace = EntryTable::default();
    for event in &run.events {
        let Some(action) = event.action else { continue };
        let action = Action::from_name(action.name()).expect("a known action");
        let has_address = !matches!(action, Action::OOM | Action::SNAPSHOT);
        let own = pool(event.pool, &mut snapshot.pools);
        trace.push(Entry {
            action,
            address: if has_address { event.address } else { 0 },
            size_bytes: event.bytes,
            stream: stream(event.stream, &mut snapshot.streams),
            time_us: None,
            stack: StackId::MISSING,
            pool: if names_pools { own } else { PoolId::MISSING },
            compile_context: StringId::MISSING,
            user_metadata: StringId::MISSING,
            category: StringId::MISSING,
        });
    }
    snapshot.traces.push(trace);
    let (_, last) = run.block_maps.last().expect("the map at the end");
    for segment in last {
        let first = u32::try_from(snapshot.blocks.len()).unwrap();
        snapshot.blocks.extend(segment.blocks.iter().map(|block| Block {
            address: block.address,
            size_bytes: block.size_bytes,
            requested_bytes: block.requested_bytes,
            state: match block.state {
                State::Allocated => BlockState::ActiveAllocated,
                State::AwaitingFree => BlockState::ActiveAwaitingFree,
                State::Inactive => BlockState::Inactive,
            },
            stack: StackId::EMPTY,
        }));
        let row = Segment {
            device: 0,
            address: segment.address,
            total_bytes: segment.total_bytes,
            stream: stream(segment.stream, &mut snapshot.streams),
            segment_type: if segment.is_large { SegmentType::Large } else { SegmentType::Small },
            pool: pool(segment.pool, &mut snapshot.pools),
            is_expandable: segment.is_expandable,
            stack: StackId::EMPTY,
            blocks: first..u32::try_from(snapshot.blocks.len()).unwrap(),
        };
        snapshot.segments.push(row);
    }
    let max_split = run.max_split_size;
    let divisions = settings.roundup_power2_divisions.iter().enumerate();
    let divisions = divisions.map(|(k, &by)| ((1_u64 << k).to_string(), Setting::Int(by.try_into().unwrap())));
    snapshot.settings.entries = vec![
        ("PYTORCH_CUDA_ALLOC_CONF".to_owned(), Setting::Text(conf.to_owned())),
        ("max_split_size".to_owned(), Setting::Int(max_split)),
        ("expandable_segments".to_owned(), Setting::Bool(settings.expandable_segments)),
        ("roundup_power2_divisions".to_owned(), Setting::Table(divisions.collect())),
    ];
    snapshot
}

/// What of the statistics can be compared.
#[derive(Clone, Copy)]
struct Comparable {
    /// Nothing resets them on the way.
    peaks: bool,
    /// Free blocks come and go by the order in which pending frees complete, which the canonical trace does not keep.
    splits: bool,
}

fn check_stat(name: &str, found: &Stat, wanted: WantedStat, sums: bool, peaks: bool) {
    assert_eq!(found.current, Some(wanted.current), "{name}: current");
    if !sums {
        return;
    }
    assert_eq!(found.allocated, Some(wanted.allocated), "{name}: allocated");
    assert_eq!(found.freed, Some(wanted.freed), "{name}: freed");
    if peaks {
        assert_eq!(found.peak, Some(wanted.peak), "{name}: peak");
    }
}

/// Every cell of the statistics is the allocator's own.
fn check_stats(name: &str, snapshot: &Snapshot, device: &DeviceAnalysis<'_>, run: &Run, comparable: Comparable) {
    let found = stats(snapshot, device, alloc_retries(snapshot, device));
    let wanted = run.statistics;
    let metrics: [(&str, &Metric, &Wanted); 9] = [
        ("allocated_bytes", &found.allocated_bytes, &wanted.allocated_bytes),
        ("active_bytes", &found.active_bytes, &wanted.active_bytes),
        ("requested_bytes", &found.requested_bytes, &wanted.requested_bytes),
        ("reserved_bytes", &found.reserved_bytes, &wanted.reserved_bytes),
        ("inactive_split_bytes", &found.inactive_split_bytes, &wanted.inactive_split_bytes),
        ("allocation", &found.allocation, &wanted.allocation),
        ("active", &found.active, &wanted.active),
        ("segment", &found.segment, &wanted.segment),
        ("inactive_split", &found.inactive_split, &wanted.inactive_split),
    ];
    for (key, found, wanted) in metrics {
        let sums = comparable.splits || !key.starts_with("inactive_split");
        for (pool, found, wanted) in [
            ("all", &found.all, wanted.all()),
            ("small_pool", &found.small, wanted.small_pool()),
            ("large_pool", &found.large, wanted.large_pool()),
        ] {
            check_stat(&format!("{name}: {key}.{pool}"), found, wanted, sums, comparable.peaks);
        }
    }
    for (key, found, wanted) in [
        ("oversize_allocations", &found.oversize_allocations, wanted.oversize_allocations()),
        ("oversize_segments", &found.oversize_segments, wanted.oversize_segments()),
    ] {
        assert_eq!(found.allocated, Some(wanted.allocated), "{name}: {key}");
        assert_eq!(found.freed, Some(wanted.freed), "{name}: {key}");
    }
}

/// How many cases are known how far.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    exact: usize,
    bounds: usize,
    estimate: usize,
}

/// Follows what PyTorch did with every stored program. Not exact are those that turn `expandable_segments` on and off,
/// pools that may not cut blocks and are gone, and settings of sizes that change on the way.
fn follow(torch: &str) -> Seen {
    let index: Vec<Value> =
        serde_json::from_slice(&gunzip(&testdata("allocator/index.json.gz"))).expect("the index is JSON");
    let mut programs: BTreeMap<String, Program> = BTreeMap::new();
    let mut seen = Seen::default();
    for case in index.iter().filter(|case| case["torch"] == torch) {
        let [name, program, conf] = ["case", "program", "conf"].map(|key| case[key].as_str().expect("text").to_owned());
        let program = programs.entry(program.clone()).or_insert_with(|| {
            Program::parse(&gunzip(&testdata(format!("allocator/programs/{program}.csv.gz")))).expect("it parses")
        });
        let options = Options {
            torch: torch.parse().expect("a known version"),
            conf: conf.clone(),
            capacity_bytes: case["capacity_mib"].as_u64().expect("a number") << 20,
            outside_bytes: 0,
            addresses: case["va"].as_str().expect("text").parse().expect("a known policy"),
            stop_on_oom: false,
        };
        let run = program::run(program, &options).expect("it runs");
        let mut settings = Settings::new(options.torch);
        let changed = program.ops.iter().filter_map(|op| match op {
            Op::SetConfig(conf) => Some(conf.as_str()),
            _ => None,
        });
        let confs: Vec<&str> = std::iter::once(conf.as_str()).chain(changed).collect();
        let read = confs.iter().filter(|conf| settings.parse(conf).is_ok()).count();
        assert_eq!(read, confs.len(), "{name}: settings that PyTorch takes");
        let snapshot = dump(&run, &settings, confs[confs.len() - 1], torch == "2.15.0");
        let analysis = analyse(&snapshot);
        let [device] = &analysis.devices[..] else {
            assert_eq!(
                run.statistics.allocation.all().allocated,
                0,
                "{name}: one device, unless nothing was allocated"
            );
            continue;
        };
        let peaks = !program.ops.contains(&Op::ResetPeak);
        let splits = !program.ops.iter().any(|op| matches!(op, Op::RecordStream { .. }));
        let (allocated, active) = (device.timeline.allocated_peak(), device.timeline.active_peak());
        let wanted = [&run.statistics.allocated_bytes, &run.statistics.active_bytes].map(|metric| metric.all().peak);
        match device.blocks().knowledge() {
            Knowledge::Exact => {
                seen.exact += 1;
                if peaks {
                    assert_eq!([allocated.bytes, active.bytes], wanted, "{name}");
                }
                check_stats(&name, &snapshot, device, &run, Comparable { peaks, splits });
                if confs.len() == 1 {
                    without_the_first(&name, &snapshot, device, device.entries.len() / 2);
                }
            }
            Knowledge::Bounds => {
                seen.bounds += 1;
                for (peak, wanted) in [allocated, active].iter().zip(wanted).filter(|_| peaks) {
                    assert!((peak.bytes..=peak.at_most_bytes).contains(&wanted), "{name}: {peak:?}, not {wanted}");
                }
            }
            Knowledge::Estimate => {
                assert!(confs.len() > 1, "{name}: {:?}", device.blocks().reason());
                seen.estimate += 1;
            }
        }
    }
    seen
}

#[test]
fn block_sizes_of_torch_2_8_are_equal_or_within_bounds() {
    assert_eq!(follow("2.8.0"), Seen { exact: 78, bounds: 4, estimate: 2 });
}

#[test]
fn block_sizes_of_torch_2_11_are_equal_or_within_bounds() {
    assert_eq!(follow("2.11.0"), Seen { exact: 87, bounds: 6, estimate: 2 });
}

#[test]
fn block_sizes_of_torch_2_15_are_equal_or_within_bounds() {
    assert_eq!(follow("2.15.0"), Seen { exact: 88, bounds: 6, estimate: 2 });
}

/// The snapshot as its ring buffer would have left it with room for fewer entries.
fn wrapped(whole: &Snapshot, lost: usize) -> Snapshot {
    let mut wrapped = whole.clone();
    for trace in &mut wrapped.traces {
        let mut kept = EntryTable::default();
        trace.ids().skip(lost).for_each(|id| kept.push(trace.get(id)));
        *trace = kept;
    }
    wrapped
}

/// Takes the first entries from a recording: what is said of the others holds what was known of them, at every entry.
///
/// How many totals are not known to the byte.
fn without_the_first(name: &str, whole: &Snapshot, truth: &DeviceAnalysis<'_>, lost: usize) -> usize {
    let entries = truth.entries.len();
    let cut = wrapped(whole, lost);
    let analysis = analyse(&cut);
    let device = &analysis.devices[0];
    assert_ne!(
        device.blocks().knowledge(),
        Knowledge::Estimate,
        "{name} without {lost}: {:?}",
        device.blocks().reason()
    );
    let within = |found: &Totals, wanted: &Totals| {
        (found.allocated_bytes..=found.allocated_at_most_bytes()).contains(&wanted.allocated_bytes)
            && (found.active_bytes..=found.active_at_most_bytes()).contains(&wanted.active_bytes)
    };
    let mut doubted = 0;
    for ((entry, wanted), (_, found)) in truth.timeline.iter(lost..entries).zip(device.timeline.iter(0..entries)) {
        assert!(within(&found, &wanted), "{name} without {lost}, {entry:?}: {found:?}, not {wanted:?}");
        doubted += usize::from(found.active_doubt_bytes > 0);
    }
    let end = device.timeline.end();
    assert_eq!((end.allocated_doubt_bytes, end.active_doubt_bytes), (0, 0), "{name} without {lost}: the dump tells");
    doubted
}

#[test]
fn a_wrapped_ring_gives_bounds_that_hold_the_truth_at_every_entry() {
    let mut doubted = 0;
    for name in
        ["fuzz_expandable", "fuzz_gc08split64", "gpt2_compiled", "multi_stream", "oom_gpt2_8gib", "qwen_train_b16"]
    {
        let whole = recording(name);
        let analysis = analyse(&whole);
        let truth = &analysis.devices[0];
        assert_eq!(truth.blocks().knowledge(), Knowledge::Exact, "{name}");
        let parts = (1..8).map(|part| truth.entries.len() * part / 8);
        doubted += parts.map(|lost| without_the_first(name, &whole, truth, lost)).sum::<usize>();
    }
    assert!(doubted > 1000, "{doubted}: these recordings leave something open");
}
