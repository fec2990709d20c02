//! What a larger batch needs, on recordings of one program at two batch sizes.

use highwater_analysis::{Analysis, analyse};
use highwater_findings::batch::{Covers, NoFit, Ratio, bound, fit, peak_with_batch};
use highwater_snapshot::Snapshot;
use highwater_testkit::{open, recording};

/// The resnet18 of so many rows, and the peak that `torch.cuda.memory_stats()` told.
fn resnet(rows: u64) -> (Snapshot, u64) {
    let peak = match rows {
        8 => 393_659_392,
        32 => 918_027_264,
        96 => 2_357_192_704,
        _ => panic!("{rows} rows were not recorded"),
    };
    (open(&format!("batches/resnet18_b{rows}")), peak)
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
        let snapshot = recording(name);
        let analysis = analyse(&snapshot);
        assert_eq!(peak_with_batch(&analysis.devices[0], &snapshot, 1), peak(&analysis), "{name}");
        if let Some(bound) = bound(&analysis.devices[0], &snapshot) {
            assert_eq!(bound.peak_bytes(), peak(&analysis), "{name}");
        }
    }
}

#[test]
fn a_bound_holds_for_the_larger_batch_that_was_run() {
    let (small, large) = (recording("qwen_train_b2"), recording("qwen_train_b16"));
    let (small, large) = (analyse(&small), analyse(&large));
    let foretold = peak_with_batch(&small.devices[0], small.snapshot, 8);
    let measured = peak(&large);
    assert!(foretold >= measured, "{foretold} {measured}");
    assert!(foretold < measured + measured / 4, "a bound that says something: {foretold} {measured}");
}

#[test]
fn a_peak_of_the_optimizer_does_not_grow_with_the_batch() {
    let snapshot = recording("qwen_train_b2");
    let analysis = analyse(&snapshot);
    let bound = bound(&analysis.devices[0], &snapshot).unwrap();
    assert!(bound.batch_bytes < bound.fixed_bytes / 100, "{bound:?}");
    assert!(bound.doubling_adds_bytes() < 1 << 30, "{bound:?}");
}

#[test]
fn a_peak_of_activations_grows_with_the_batch() {
    let snapshot = recording("qwen_train_b16");
    let analysis = analyse(&snapshot);
    let bound = bound(&analysis.devices[0], &snapshot).unwrap();
    assert!(bound.batch_bytes > bound.fixed_bytes / 10, "{bound:?}");
    assert_eq!(bound.doubling_adds_bytes(), bound.batch_bytes);
}

#[test]
fn without_stacks_there_is_no_bound() {
    // Random requests without stacks.
    let snapshot = recording("fuzz_expandable");
    let analysis = analyse(&snapshot);
    assert_eq!(bound(&analysis.devices[0], &snapshot), None);
}

#[test]
fn two_batches_foretell_a_third() {
    let (small, middle, large) = (resnet(8), resnet(32), resnet(96));
    let analyses = [analyse(&small.0), analyse(&large.0)];
    let line = fit(&analyses.each_ref(), &[0; 3][..analyses.len()], None).unwrap();
    assert_eq!(line.covers, Covers::Iteration(2));
    assert_eq!(line.points[1].batch, Ratio { times: 12, per: 1 }, "by the inputs");
    assert_eq!((line.peak_bytes(1.0), line.peak_bytes(12.0)), (small.1, large.1), "it goes through both peaks");
    let foretold = line.peak_bytes(4.0);
    assert!(foretold.abs_diff(middle.1) < middle.1 / 50, "{foretold} {}", middle.1);
    // A line may be off either way; the split of one recording is a bound.
    let most = peak_with_batch(&analyses[0].devices[0], &small.0, 12);
    assert!(most >= large.1, "{most} {}", large.1);
}

#[test]
fn three_batches_say_how_straight_the_line_is() {
    let sides = [8, 32, 96].map(resnet);
    let analyses = [&sides[0], &sides[1], &sides[2]].map(|side| analyse(&side.0));
    let line = fit(&analyses.each_ref(), &[0; 3][..analyses.len()], Some(&[8, 32, 96])).unwrap();
    assert!(line.is_by_rows && line.contradiction.is_none());
    let residuals: Vec<u64> =
        sides.iter().zip([8.0, 32.0, 96.0]).map(|(side, rows)| line.peak_bytes(rows).abs_diff(side.1)).collect();
    assert_eq!(Some(&line.largest_residual_bytes()), residuals.iter().max());
    assert!((1..16 << 20).contains(&line.largest_residual_bytes()), "{residuals:?}");
    let rows = line.largest_batch(4 << 30).unwrap();
    assert!(line.peak_bytes(rows) <= 4 << 30 && line.peak_bytes(rows + 1.0) > 4 << 30, "{rows}");
}

#[test]
fn the_line_does_not_go_through_a_peak_of_the_optimizer() {
    let (small, large) = (recording("qwen_train_b2"), recording("qwen_train_b16"));
    let analyses = [analyse(&small), analyse(&large)];
    let line = fit(&analyses.each_ref(), &[0; 3][..analyses.len()], Some(&[2, 16])).unwrap();
    // Measured elsewhere, of the same program: the optimizer's peak at 4 rows, the activations' at 8 and 32.
    for (rows, measured) in [(4.0, 30_944_288_256_u64), (8.0, 33_273_802_752), (32.0, 74_505_523_200)] {
        let foretold = line.peak_bytes(rows);
        assert!(foretold.abs_diff(measured) < 24 << 20, "{rows}: {foretold} {measured}");
    }
}

#[test]
fn programs_that_are_not_one_have_no_line() {
    let (resnet, qwen, linear) = (resnet(8).0, recording("qwen_train_b2"), recording("linear_forward"));
    assert_eq!(fit(&[&analyse(&resnet), &analyse(&qwen)], &[0, 0], None), Err(NoFit::Ratio));
    assert_eq!(fit(&[&analyse(&qwen), &analyse(&qwen)], &[0, 0], None), Err(NoFit::SameBatch));
    assert_eq!(fit(&[&analyse(&linear), &analyse(&linear)], &[0, 0], None), Err(NoFit::SameBatch));
    assert_eq!(fit(&[], &[], None), Err(NoFit::Categories));
    assert_eq!(fit(&[&analyse(&qwen), &analyse(&resnet)], &[7, 7], None), Err(NoFit::Categories), "no such device");
}
