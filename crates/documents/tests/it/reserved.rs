//! What a run of the recorded settings holds over time is what the recording says.

use std::sync::atomic::{AtomicUsize, Ordering};

use highwater_allocator::Memory;
use highwater_analysis::analyse;
use highwater_documents::answer::{Question, answer};
use highwater_snapshot::Snapshot;
use highwater_testkit::{recording, recordings};
use highwater_whatif::{Progress, Replayed, busiest};

/// Recordings in which a request failed, or memory ran short: with ample memory they go another way from there on.
const SHORT_OF_MEMORY: [&str; 3] = ["oom_gpt2_8gib", "oom_gpt2_8gib.at_oom", "oom_whole_gpu"];

#[test]
fn the_recorded_settings_hold_what_was_recorded_at_every_entry() {
    let mut compared = 0;
    for path in recordings() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".pickle.gz") else { continue };
        let snapshot = Snapshot::open(&path).expect("the recording reads");
        let analysis = analyse(&snapshot);
        let device = busiest(&analysis, None).expect("a device");
        let study = Replayed::new(&analysis, device, None).study;
        assert!(study.fidelity.is_exact(), "{name}");
        let reserved = study.reserved(&study.recorded, Memory::Ample, device.entries);
        assert!(reserved.entries.is_sorted() && reserved.entries[0] == 0, "{name}");
        let first = device
            .timeline
            .iter(0..device.entries.len())
            .find(|(entry, totals)| reserved.after(entry.get()) != totals.reserved_bytes);
        if SHORT_OF_MEMORY.contains(&name) {
            continue;
        }
        assert_eq!(
            first.map(|(entry, totals)| (entry.get(), totals.reserved_bytes, reserved.after(entry.get()))),
            None,
            "{name}"
        );
        compared += 1;
    }
    assert!(compared >= 12, "only {compared}");
}

#[test]
fn a_question_that_is_stopped_begins_no_further_run() {
    /// Stopped when it has been asked so often.
    struct After(AtomicUsize);
    impl Progress for After {
        fn is_stopped(&self) -> bool {
            self.0.fetch_sub(1, Ordering::Relaxed) == 0
        }
    }
    let snapshot = recording("linear_forward");
    let analysis = analyse(&snapshot);
    let device = busiest(&analysis, None).expect("a device");
    let replayed = Replayed::new(&analysis, device, None);
    let memories = (1..=8).map(|gib| (Memory::Limit(gib << 30), None)).collect();
    let question = Question { memories, ..Question::default() };
    assert_eq!(answer(&replayed, &analysis, device, &question, &()).runs.len(), 8);
    assert_eq!(answer(&replayed, &analysis, device, &question, &After(AtomicUsize::new(3))).runs.len(), 3);
    // The whole answer: after the run as recorded, no row of the table.
    let begun = answer(&replayed, &analysis, device, &Question::default(), &After(AtomicUsize::new(1)));
    assert_eq!((begun.runs.len(), begun.fit.len()), (1, 0));
}

#[test]
fn timelines_come_with_the_answer_if_asked_for() {
    let snapshot = recording("oom_gpt2_8gib");
    let analysis = analyse(&snapshot);
    let device = busiest(&analysis, None).expect("a device");
    let replayed = Replayed::new(&analysis, device, None);
    let question = Question { with_timelines: true, ..Question::default() };
    let view = answer(&replayed, &analysis, device, &question, &());
    assert!(view.timelines.len() > view.runs.len());
    for (run, timeline) in view.runs.iter().zip(view.timelines.iter()) {
        assert_eq!(run.conf, timeline.conf);
        assert!(timeline.entries.len() <= 4001);
        assert!(timeline.reserved_bytes.iter().all(|&bytes| bytes <= run.peak_reserved_bytes), "{}", run.conf);
        if let Some(failed) = run.oom_entry {
            assert!(timeline.entries.last().is_some_and(|&last| last <= failed));
        }
    }
    let plain = answer(&replayed, &analysis, device, &Question::default(), &());
    assert!(plain.timelines.is_empty());
}
