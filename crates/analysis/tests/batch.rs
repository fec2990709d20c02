//! What a larger batch needs, on recordings of one program at two batch sizes.

use std::path::Path;

use highwater_analysis::batch::{bound, peak_with_batch};
use highwater_analysis::{Analysis, analyse};
use highwater_snapshot::Snapshot;

fn open(name: &str) -> Snapshot {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings");
    Snapshot::open(folder.join(format!("{name}.pickle.gz"))).unwrap()
}

/// The peak of the total that the report goes by.
fn peak(analysis: &Analysis<'_>) -> u64 {
    analysis.devices[0].peak().bytes
}

#[test]
fn the_same_batch_has_the_peak_that_was_recorded() {
    for name in
        ["qwen_train_b2", "resnet50_expandable", "gpt2_late_recording", "multi_stream", "fuzz_expandable", "annotated"]
    {
        let snapshot = open(name);
        let analysis = analyse(&snapshot);
        assert_eq!(peak_with_batch(&analysis.devices[0], &snapshot, 1), peak(&analysis), "{name}");
        if let Some(bound) = bound(&analysis.devices[0], &snapshot) {
            assert_eq!(bound.peak_bytes(), peak(&analysis), "{name}");
        }
    }
}

#[test]
fn a_bound_holds_for_the_larger_batch_that_was_run() {
    let (small, large) = (open("qwen_train_b2"), open("qwen_train_b16"));
    let (small, large) = (analyse(&small), analyse(&large));
    let foretold = peak_with_batch(&small.devices[0], small.snapshot, 8);
    let measured = peak(&large);
    assert!(foretold >= measured, "{foretold} {measured}");
    assert!(foretold < measured + measured / 4, "a bound that says something: {foretold} {measured}");
}

#[test]
fn a_peak_of_the_optimizer_does_not_grow_with_the_batch() {
    let snapshot = open("qwen_train_b2");
    let analysis = analyse(&snapshot);
    let bound = bound(&analysis.devices[0], &snapshot).unwrap();
    assert!(bound.batch_bytes < bound.fixed_bytes / 100, "{bound:?}");
    assert!(bound.doubling_adds_bytes() < 1 << 30, "{bound:?}");
}

#[test]
fn a_peak_of_activations_does() {
    let snapshot = open("qwen_train_b16");
    let analysis = analyse(&snapshot);
    let bound = bound(&analysis.devices[0], &snapshot).unwrap();
    assert!(bound.batch_bytes > bound.fixed_bytes / 10, "{bound:?}");
    assert_eq!(bound.doubling_adds_bytes(), bound.batch_bytes);
}

#[test]
fn nothing_is_claimed_of_what_is_not_told() {
    // Random requests without stacks.
    let snapshot = open("fuzz_expandable");
    let analysis = analyse(&snapshot);
    assert_eq!(bound(&analysis.devices[0], &snapshot), None);
}
