//! Real snapshots, against what `torch.cuda.memory_stats()` said at the dump.

use highwater_snapshot::{Action, EndTotals, Snapshot};
use highwater_testkit::{recording, recordings, warnings};

#[test]
fn totals_equal_memory_stats_to_the_byte() {
    let mut compared = 0;
    for path in recordings() {
        let truth = path.to_str().unwrap().replace(".pickle.gz", ".json");
        let Ok(text) = std::fs::read_to_string(&truth) else { continue };
        let truth: serde_json::Value = serde_json::from_str(&text).unwrap();
        let stat = |name: &str| truth["stats"][format!("{name}.all.current")].as_u64().unwrap();
        let expected = EndTotals {
            requested_bytes: stat("requested_bytes"),
            allocated_bytes: stat("allocated_bytes"),
            active_bytes: stat("active_bytes"),
            reserved_bytes: stat("reserved_bytes"),
            inactive_split_bytes: stat("inactive_split_bytes"),
        };
        let snapshot = Snapshot::open(&path).unwrap();
        let rank = truth["rank"].as_u64().unwrap_or(0);
        let device = u32::try_from(rank).unwrap();
        assert_eq!(snapshot.devices(), [device], "{}", path.display());
        assert_eq!(snapshot.end_totals(device), expected, "{}", path.display());
        compared += 1;
    }
    assert_eq!(compared, 18);
}

#[test]
fn segments_and_blocks_count_as_memory_stats_does() {
    for path in recordings() {
        let truth = path.to_str().unwrap().replace(".pickle.gz", ".json");
        let Ok(text) = std::fs::read_to_string(&truth) else { continue };
        let truth: serde_json::Value = serde_json::from_str(&text).unwrap();
        let stat = |name: &str| truth["stats"][format!("{name}.all.current")].as_u64().unwrap();
        let snapshot = Snapshot::open(&path).unwrap();
        let device = snapshot.devices()[0];
        let active = snapshot.device_blocks(device).filter(|(_, block)| block.state.is_active()).count();
        assert_eq!(active as u64, stat("active"), "{}", path.display());
        // memory_stats counts an expandable reservation once, the snapshot its mapped runs.
        if snapshot.segments.iter().all(|segment| !segment.is_expandable) {
            assert_eq!(snapshot.segments.len() as u64, stat("segment"), "{}", path.display());
        }
    }
}

#[test]
fn recordings_give_no_warning() {
    for path in recordings() {
        assert_eq!(warnings(&Snapshot::open(&path).unwrap()), "", "{}", path.display());
    }
}

#[test]
fn entries_are_as_many_as_were_recorded() {
    for path in recordings() {
        let truth = path.to_str().unwrap().replace(".pickle.gz", ".json");
        let Ok(text) = std::fs::read_to_string(&truth) else { continue };
        let truth: serde_json::Value = serde_json::from_str(&text).unwrap();
        let Some(events) = truth["events"].as_array() else { continue };
        // The count was taken with `_snapshot()`, which leaves an entry of its own, if the ring has room.
        let ring = truth["record"]["max_entries"].as_u64().unwrap();
        let expected: Vec<_> = events.iter().map(|count| (count.as_u64().unwrap() + 1).min(ring)).collect();
        let snapshot = Snapshot::open(&path).unwrap();
        let found: Vec<_> = snapshot.traces.iter().map(|trace| trace.len() as u64).collect();
        assert_eq!(found, expected, "{}", path.display());
    }
}

#[test]
fn the_snapshot_at_the_error_ends_with_the_error() {
    let snapshot = recording("oom_gpt2_8gib.at_oom");
    let trace = snapshot.trace(0).unwrap();
    let (last, free) = (trace.ids().next_back().unwrap(), &trace.device_free_bytes);
    assert_eq!(trace.actions().last(), Some(&Action::OOM));
    assert_eq!(trace.sizes_bytes().last(), Some(&(256 << 20)));
    assert_eq!(free.len(), 1);
    assert!(trace.device_free_bytes(last).unwrap() > 1 << 30);
}

#[test]
fn native_frames_stand_among_the_python_ones() {
    let snapshot = recording("gpt2_cpp_stacks");
    let is_in = |ending: &str| snapshot.frames.iter().any(|(_, f)| snapshot.text(f.filename).ends_with(ending));
    assert!(is_in(".py") && is_in(".cpp"), "files of Python and of C++");
}

#[test]
fn annotations_come_in_pairs() {
    let snapshot = recording("annotated");
    let starts = snapshot.annotations.iter().filter(|a| a.stage == highwater_snapshot::Stage::Start).count();
    assert!(starts > 0 && snapshot.annotations.len() == 2 * starts, "{starts} of {}", snapshot.annotations.len());
}
