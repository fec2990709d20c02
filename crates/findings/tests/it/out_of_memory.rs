//! What is said of a run that ran out of memory, wherever it did.

use std::path::PathBuf;

use highwater_analysis::analyse;
use highwater_findings::explain::{Asked, failures, why};
use highwater_findings::findings;
use highwater_snapshot::Snapshot;
use highwater_testkit::{snapshots, testdata};
use highwater_whatif::{Replayed, is_asynchronous};

/// Every recording in which a request failed.
fn recordings() -> Vec<PathBuf> {
    ["recordings", "oom", "oom/places"].into_iter().flat_map(snapshots).collect()
}

#[test]
fn the_report_and_explain_name_one_cause() {
    let mut seen = 0;
    for path in recordings() {
        let snapshot = Snapshot::open(&path).expect("a snapshot");
        let analysis = analyse(&snapshot);
        for device in analysis.devices.iter().filter(|device| !device.oom.is_empty()) {
            let replayed =
                (!is_asynchronous(analysis.snapshot)).then(|| Replayed::new(analysis.snapshot, device, None));
            let explained = failures(&analysis, device, replayed.as_ref(), Asked::default());
            let reported = why(&analysis, device, &device.oom[0]);
            let said = (&explained[0].diagnosis.cause, &explained[0].diagnosis.text);
            assert_eq!((&reported.diagnosis.cause, &reported.diagnosis.text), said, "{}", path.display());
            let verdict = explained[0].verdict.as_ref().map_or("", |verdict| &verdict.text);
            let is_impossible = verdict.starts_with("no allocator setting can fix this");
            assert!(!is_impossible || said.0.name() != "fragmentation", "{}: {verdict}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 23, "{seen} recordings ran out of memory");
}

#[test]
fn a_recording_that_ends_at_the_error_does_not_prove_that_anything_fits() {
    for path in snapshots("oom/places") {
        let snapshot = Snapshot::open(&path).expect("a snapshot");
        let analysis = analyse(&snapshot);
        let device = &analysis.devices[0];
        let replayed = Replayed::new(analysis.snapshot, device, None);
        let explained = failures(&analysis, device, Some(&replayed), Asked::default());
        let step = explained[0].steps.iter().find(|step| step.id == "settings");
        let Some(step) = step else { continue };
        assert!(!step.title.contains("fits"), "{}: {}", path.display(), step.title);
        let most = explained[0].whole_step.as_ref().and_then(|whole| whole.at_most_bytes);
        let is_known = most.is_some_and(|most| most <= device.timeline.reserved_peak().bytes);
        assert!(step.is_enough != Some(true) || is_known, "{}: {step:?}", path.display());
    }
}

#[test]
fn what_an_error_frees_is_no_garbage() {
    for path in snapshots("oom/places") {
        let snapshot = Snapshot::open(&path).expect("a snapshot");
        let analysis = analyse(&snapshot);
        let found = findings(&analysis, &analysis.devices[0]);
        assert!(!found.iter().any(|finding| finding.id == "garbage-collector"), "{}: {found:#?}", path.display());
        let is_of_step = path.display().to_string().contains("first_step");
        assert!(!is_of_step || !found.iter().any(|f| f.id == "optimizer-intermediates"), "{found:#?}");
    }
}

#[test]
fn a_dump_at_the_error_and_one_after_it_would_save_as_much_by_checkpointing() {
    let (mut at, mut after) = (Vec::new(), Vec::new());
    for path in snapshots("oom/places") {
        let snapshot = Snapshot::open(&path).expect("a snapshot");
        let analysis = analyse(&snapshot);
        let found = findings(&analysis, &analysis.devices[0]);
        let Some(finding) = found.iter().find(|finding| finding.id == "checkpointing") else { continue };
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let of = if name.contains(".at_oom.") { &mut at } else { &mut after };
        of.push((name.replace(".at_oom", ""), finding.saving_bytes, finding.title.clone(), finding.detail.clone()));
    }
    at.sort();
    after.sort();
    assert!(!at.is_empty());
    assert_eq!(at, after);
}

#[test]
fn a_dump_at_the_error_and_one_after_it_need_as_much() {
    let (mut at, mut after) = (Vec::new(), Vec::new());
    for path in snapshots("oom/places") {
        let snapshot = Snapshot::open(&path).expect("a snapshot");
        let analysis = analyse(&snapshot);
        let why = why(&analysis, &analysis.devices[0], &analysis.devices[0].oom[0]);
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let of = if name.contains(".at_oom.") { &mut at } else { &mut after };
        of.push((name.replace(".at_oom", ""), why.whole_step.expect("the first").at_least_bytes >> 20));
    }
    at.sort();
    after.sort();
    assert_eq!(at, after);
    assert!(testdata("oom/places").exists() && at.len() == 8);
}
