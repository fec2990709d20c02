//! The peak without some memory, against sums over everything that lives.

use highwater_analysis::{DeviceAnalysis, analyse};
use highwater_snapshot::EntryId;
use highwater_testkit::recording;
use highwater_whatif::counterfactual::{Change, History};

/// The largest total after any entry, less what is gone then: entry by entry.
fn naive(device: &DeviceAnalysis<'_>, changes: &[Change]) -> u64 {
    let after = (0..device.entries.len()).map(|entry| {
        let total = device.by.of(&device.timeline.after(EntryId::from_index(entry)));
        let change: i64 = changes.iter().filter(|one| one.entries.contains(&entry)).map(|one| one.bytes).sum();
        total.checked_add_signed(change).expect("only what is there is taken away")
    });
    after.chain([device.by.of(&device.timeline.start())]).max().unwrap_or(0)
}

#[test]
fn the_peak_without_some_lifetimes_is_that_of_the_sums() {
    for name in ["oom_gpt2_8gib", "linear_forward", "multi_stream", "gpt2_late_recording", "cuda_graph_pools"] {
        let snapshot = recording(name);
        let analysis = analyse(&snapshot);
        for device in &analysis.devices {
            let history = History::new(device);
            for step in [1, 3, 17] {
                let mut changes: Vec<Change> = device
                    .lifetimes
                    .rows
                    .iter()
                    .step_by(step)
                    .filter_map(|lifetime| {
                        let start = lifetime.alloc()?.index();
                        // Of allocated bytes: until its owner lets go.
                        let freed = lifetime.free_requested().or(lifetime.free_completed());
                        let end = freed.map_or(device.entries.len(), EntryId::index);
                        let bytes = device.blocks().of(lifetime, &snapshot);
                        Some(Change::without(usize::midpoint(start, end)..end, bytes))
                    })
                    .collect();
                assert_eq!(history.peak_with(&changes), naive(device, &changes), "{name}, every {step}");
                changes.push(Change::with(step..device.entries.len() / step, 1 << 30));
                assert_eq!(history.peak_with(&changes), naive(device, &changes), "{name}, every {step}, and more");
            }
            assert_eq!(history.peak_with(&[]), device.peak().bytes, "{name}");
        }
    }
}

#[test]
fn an_output_that_lives_until_the_next_one_is_made_is_found() {
    let snapshot = recording("linear_forward");
    let analysis = analyse(&snapshot);
    let device = &analysis.devices[0];
    let findings = highwater_findings::findings(&analysis, device);
    let late = findings.iter().find(|finding| finding.id == "freed-late").expect("the program keeps its output");
    // 1,000,000,000 bytes of input, in a block of 954 MiB, and 200,000,000 of output of the iteration before are still there.
    assert_eq!(late.saving_bytes, Some((954 << 20) + 200_000_000));
}

#[test]
fn gradients_and_states_that_last_are_no_late_frees() {
    for name in ["oom_gpt2_8gib", "leak_grows", "gpt2_compiled", "annotated", "cuda_graph_pools"] {
        let snapshot = recording(name);
        let analysis = analyse(&snapshot);
        for device in &analysis.devices {
            let findings = highwater_findings::findings(&analysis, device);
            assert!(findings.iter().all(|finding| finding.id != "freed-late"), "{name}");
        }
    }
}
