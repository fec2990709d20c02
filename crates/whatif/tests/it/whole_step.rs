//! What a step needs that ran out of memory in the middle, against the same step without a limit.

use highwater_analysis::analyse;
use highwater_analysis::phase::Phase;
use highwater_testkit::{json, json_gz, open, testdata};
use highwater_whatif::whole_step::{Basis, WholeStep, whole_step};

/// The answer, and the peak of the whole step.
fn answer(name: &str) -> (WholeStep, u64) {
    let truth = json(&testdata("oom/truth.json"));
    let snapshot = open(&format!("oom/{name}"));
    let analysis = analyse(&snapshot);
    let [device] = &analysis.devices[..] else { panic!("{name}: one device") };
    let whole = whole_step(&analysis, device, device.oom.first().expect("a request failed"));
    (whole, truth[name].as_u64().expect("bytes"))
}

/// That the range holds the truth, and is no wider than a part of it.
fn check(name: &str, basis: Basis, phase: Phase, wide_percent: u64) -> WholeStep {
    let (whole, truth) = answer(name);
    assert_eq!((whole.basis, whole.phase), (basis, Some(phase)), "{name}: {whole:?}");
    let most = whole.at_most_bytes.expect("a bound");
    assert!((whole.at_least_bytes..=most).contains(&truth), "{name}: {truth} is not in {whole:?}");
    assert!(most - whole.at_least_bytes <= truth / 100 * wide_percent, "{name}: {truth} and {whole:?}");
    whole
}

#[test]
fn the_rest_of_a_step_is_that_of_an_earlier_one() {
    let whole = check("earlier_step", Basis::EarlierStep, Phase::Forward, 10);
    assert!(whole.reason.contains("of the allocations of an earlier step"), "{}", whole.reason);
}

#[test]
fn without_an_earlier_step_the_layers_are_carried_on() {
    let whole = check("layers", Basis::Layers, Phase::Forward, 50);
    assert_eq!(whole.layers, Some((8, 8)), "{whole:?}");
    assert!(whole.layers_done.is_some_and(|done| (1..8).contains(&done)), "{whole:?}");
}

#[test]
fn parameters_of_which_nothing_was_recorded_are_counted_with_their_copies() {
    let (whole, truth) = answer("late");
    assert_eq!((whole.basis, whole.phase), (Basis::Layers, Some(Phase::Forward)), "{whole:?}");
    let (fewest, most) = whole.layers.expect("layers");
    assert!(fewest <= 8 && most >= 8, "{whole:?}");
    let most = whole.at_most_bytes.expect("a bound");
    assert!((whole.at_least_bytes..=most).contains(&truth), "{truth} is not in {whole:?}");
}

#[test]
fn gradients_and_the_optimizers_state_are_still_to_come() {
    check("backward", Basis::Phase, Phase::Backward, 80);
    check("optimizer", Basis::Phase, Phase::Optimizer, 40);
}

#[test]
fn where_nothing_is_trained_no_gradients_are_counted() {
    for place in ["evaluation", "generation"] {
        for form in ["", ".at_oom"] {
            let snapshot = open(&format!("oom/places/{place}{form}"));
            let analysis = analyse(&snapshot);
            let device = &analysis.devices[0];
            let whole = whole_step(&analysis, device, &device.oom[0]);
            // Outputs are collected, or the cache grows: there is no telling how far.
            assert_eq!((whole.basis, whole.at_most_bytes), (Basis::EarlierStep, None), "{place}{form}: {whole:?}");
            assert!(whole.reason.contains("made without autograd"), "{place}{form}: {whole:?}");
        }
    }
}

/// At each place of a program's life, the peak of that place without a limit is within the range.
#[test]
fn wherever_memory_runs_out_the_range_holds_what_the_place_needs() {
    let places = [
        "loading",
        "first_forward",
        "later_forward",
        "backward",
        "first_step",
        "later_step",
        "evaluation",
        "generation",
    ];
    for place in places {
        for form in ["", ".at_oom"] {
            let truth = json_gz(&testdata(format!("oom/places/{place}.truth.json.gz")));
            let truth = truth["peak_without_limit"].as_u64().expect("bytes");
            let snapshot = open(&format!("oom/places/{place}{form}"));
            let analysis = analyse(&snapshot);
            let device = &analysis.devices[0];
            let whole = whole_step(&analysis, device, &device.oom[0]);
            let most = whole.at_most_bytes.unwrap_or(u64::MAX);
            assert!((whole.at_least_bytes..=most).contains(&truth), "{place}{form}: {truth} is not in {whole:?}");
        }
    }
}

/// The program calls the function that trains from two places: its steps are of one optimizer.
#[test]
fn a_step_that_is_called_from_elsewhere_has_earlier_ones() {
    for form in ["", ".at_oom"] {
        let snapshot = open(&format!("oom/places/later_step{form}"));
        let analysis = analyse(&snapshot);
        let device = &analysis.devices[0];
        assert_eq!(device.iterations.rows.len(), 3, "{form}: {:?}", device.iterations);
        assert_eq!(whole_step(&analysis, device, &device.oom[0]).basis, Basis::EarlierStep, "{form}");
    }
}
