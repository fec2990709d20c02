//! What a run of the recorded settings holds over time is what the recording says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use highwater_allocator::{Memory, Settings};
use highwater_analysis::analyse;
use highwater_documents::answer::{Question, answer};
use highwater_snapshot::Snapshot;
use highwater_testkit::{recording, recordings};
use highwater_whatif::{LOOK_STEPS, Progress, Replayed, Watch, busiest};

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
        let study = Replayed::new(analysis.snapshot, device, None).study;
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

/// Counts the steps that are run, and stops when there are so many.
#[derive(Default)]
struct Counted {
    most: usize,
    looks: AtomicUsize,
    runs: AtomicUsize,
}

impl Progress for Counted {
    fn is_stopped(&self) -> bool {
        self.looks.load(Ordering::Relaxed) >= self.most
    }

    fn ran(&self, _: &Settings, steps: usize, _: usize) {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.runs.fetch_add(usize::from(steps == 0), Ordering::Relaxed);
    }
}

#[test]
fn a_question_that_is_stopped_ends_its_runs_where_they_are() {
    let snapshot = recording("qwen_train_b16");
    let analysis = analyse(&snapshot);
    let device = busiest(&analysis, None).expect("a device");
    let mut replayed = Replayed::new(analysis.snapshot, device, None);
    let looks_a_run = replayed.study.program.steps.len().div_ceil(LOOK_STEPS);
    assert!(looks_a_run > 4, "the recording is too short for this");
    // Enough for it to run to its end.
    let memories = (64..72).map(|gib| (Memory::Limit(gib << 30), None)).collect();
    let limits = Question { memories, ..Question::default() };
    let mut answered = |question: &Question, most: usize| {
        let counted = Arc::new(Counted { most, ..Counted::default() });
        replayed.study.program.watch = Watch::shared(Arc::clone(&counted) as _);
        let view = answer(&replayed, &analysis, device, question);
        let looks = counted.looks.load(Ordering::Relaxed);
        // Beyond the last, each thread may have looked at the same time.
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        assert!(looks <= most.saturating_add(threads), "{looks} looks, not {most}");
        (view.runs.len(), view.fit.len(), counted.runs.load(Ordering::Relaxed))
    };
    assert_eq!(answered(&limits, usize::MAX).0, 8);
    // The whole answer needs hundreds of runs.
    let (_, _, all_runs) = answered(&Question::default(), usize::MAX);
    assert!(all_runs > 100, "{all_runs}");
    for question in [&limits, &Question::default()] {
        let (runs, fit, begun) = answered(question, 2 * looks_a_run);
        assert!((runs, fit) <= (1, 0), "{runs} runs and {fit} rows are given");
        assert!(begun < 12, "{begun} runs were begun");
    }
}

#[test]
fn a_recording_that_is_stopped_is_replayed_no_further() {
    struct AtOnce;
    impl Progress for AtOnce {
        fn is_stopped(&self) -> bool {
            true
        }
    }
    let snapshot = recording("linear_forward");
    let analysis = analyse(&snapshot);
    let device = busiest(&analysis, None).expect("a device");
    let replayed = Replayed::watched(analysis.snapshot, device, None, &Watch::new(AtOnce));
    assert!(replayed.study.program.steps.len() <= device.lifetimes.at_start().len());
}

#[test]
fn timelines_come_with_the_answer_if_asked_for() {
    let snapshot = recording("oom_gpt2_8gib");
    let analysis = analyse(&snapshot);
    let device = busiest(&analysis, None).expect("a device");
    let replayed = Replayed::new(analysis.snapshot, device, None);
    let question = Question { with_timelines: true, ..Question::default() };
    let view = answer(&replayed, &analysis, device, &question);
    assert!(view.timelines.len() > view.runs.len());
    for (run, timeline) in view.runs.iter().zip(view.timelines.iter()) {
        assert_eq!(run.conf, timeline.conf);
        assert!(timeline.entries.len() <= 4001);
        assert!(timeline.reserved_bytes.iter().all(|&bytes| bytes <= run.peak_reserved_bytes), "{}", run.conf);
        if let Some(failed) = run.oom_entry {
            assert!(timeline.entries.last().is_some_and(|&last| last <= failed));
        }
    }
    let plain = answer(&replayed, &analysis, device, &Question::default());
    assert!(plain.timelines.is_empty());
}
