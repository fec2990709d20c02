//! What `torch.profiler` writes, in every command.

use crate::run::{Run, failure, json, run, stdout};

const TRACE: &str = "../profiler/adam.trace.json.gz";
const EVENTS: &str = "../profiler/adam.timeline.raw.json.gz";
const TOTALS: &str = "../profiler/adam.timeline.json.gz";

#[test]
fn the_report_of_each_form() {
    for (name, file) in [("trace", TRACE), ("events", EVENTS), ("totals", TOTALS)] {
        insta::assert_snapshot!(name, stdout(&format!("report {file}")));
    }
    insta::assert_snapshot!("operators", stdout("report ../profiler/inference.trace.json.gz"));
    insta::assert_snapshot!("warm", stdout("report ../profiler/warm.timeline.raw.json.gz"));
}

#[test]
fn the_categories_add_up_and_nothing_is_found_that_a_timeline_cannot_tell() {
    for file in [EVENTS, TOTALS] {
        let report = json(&format!("report {file} --format json"));
        let device = &report["devices"][0];
        assert_eq!(device["peak"]["allocated_bytes"], device["at_peak"]["allocated_bytes"], "{file}");
        let categories = device["at_peak"]["categories"].as_object().unwrap();
        let sum: u64 = categories.values().map(|bytes| bytes.as_u64().unwrap()).sum();
        assert_eq!(device["peak"]["allocated_bytes"], sum, "{file}");
        assert_eq!(device["end"]["reserved_bytes"], 0, "{file}");
        assert_eq!(device["findings"], serde_json::json!([]), "{file}");
        assert_eq!(report["torch"]["known"], false);
    }
    assert_eq!(json(&format!("report {EVENTS} --format json"))["source"]["profile"], "memory_timeline_raw");
    assert_eq!(json(&format!("report {TOTALS} --format json"))["source"]["profile"], "memory_timeline");
}

#[test]
fn a_trace_says_nothing_of_the_allocator() {
    let report = json(&format!("report {TRACE} --format json"));
    assert_eq!(report["source"]["profile"], "chrome_trace");
    let ids: Vec<&str> = report["devices"][0]["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["id"].as_str().unwrap())
        .collect();
    for id in ["reserved-unused", "late-recording", "no-stacks", "allocator-settings", "empty-cache"] {
        assert!(!ids.contains(&id), "{ids:?}");
    }
}

#[test]
fn what_cannot_be_told_is_refused() {
    insta::assert_snapshot!(failure(&format!("simulate {TRACE}")), @"
    error: `../profiler/adam.trace.json.gz` is a Chrome trace of `torch.profiler`: there is nothing to replay
      caused by: it has neither the allocator's settings nor its segments, and the sizes of blocks instead of requests
    hint: record with `torch.cuda.memory._record_memory_history()` to simulate
    ");
    insta::assert_snapshot!(failure(&format!("simulate --verify {TOTALS}")), @"
    error: `../profiler/adam.timeline.json.gz` is a memory timeline of `torch.profiler`: there is nothing to replay
      caused by: it has neither the allocator's settings nor its segments, and the sizes of blocks instead of requests
    hint: record with `torch.cuda.memory._record_memory_history()` to simulate
    ");
    let Run { code, stdout, .. } = run(&format!("check {EVENTS} --max-peak-reserved 1GiB --max-peak-allocated 1MiB"));
    assert_eq!(code, 1, "{stdout}");
    assert!(stdout.contains("cannot be measured: a profiler's file does not record reserved memory"), "{stdout}");
    assert!(stdout.contains("1 passed, 1 failed"), "{stdout}");
    let Run { code, stdout, .. } = run(&format!("segments {TRACE}"));
    assert_eq!((code, stdout.as_str()), (0, "this is a Chrome trace of `torch.profiler`: it has no segments\n"));
}

#[test]
fn a_timeline_and_its_events_differ_in_nothing_that_both_know() {
    let Run { code, stdout, .. } = run(&format!("diff {TOTALS} {EVENTS}"));
    assert_eq!(code, 0);
    assert!(stdout.contains("no call site changed"), "{stdout}");
    assert!(!stdout.contains("reserved"), "{stdout}");
    assert!(stdout.contains("allocated at the end") && !stdout.contains("dump"), "{stdout}");
}

#[test]
fn a_profile_is_no_log() {
    for (file, form) in [(TRACE, "Chrome trace"), (EVENTS, "raw memory timeline"), (TOTALS, "memory timeline")] {
        let said = failure(&format!("explain {file}"));
        assert!(
            said.contains(&format!("is a {form} of `torch.profiler`: it does not show which request failed")),
            "{said}"
        );
        assert!(said.contains("hint: `highwater report "), "{said}");
    }
    let said = failure(&format!("explain {TRACE} --capacity 1GiB"));
    assert!(said.contains("sizes of blocks instead of requests"), "{said}");
}

#[test]
fn live_and_trace_show_what_is_there() {
    let Run { code, stdout, .. } = run(&format!("live {EVENTS} --format json"));
    assert_eq!(code, 0);
    let live: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let bytes: u64 = live["blocks"].as_array().unwrap().iter().map(|block| block["size_bytes"].as_u64().unwrap()).sum();
    let report = json(&format!("report {EVENTS} --format json"));
    assert_eq!(report["devices"][0]["peak"]["allocated_bytes"], bytes);
    let Run { code, stdout, .. } = run(&format!("trace {TRACE}"));
    assert_eq!(code, 0);
    assert!(stdout.contains("profiler_files.py:28 train"), "{stdout}");
}

#[test]
fn no_snapshot_is_made_of_what_has_no_segments() {
    for to in ["pickle", "json"] {
        let said = failure(&format!("export {TRACE} --to {to} -o unused.out"));
        assert!(said.contains("lack segments") && said.contains("--to csv"), "{said}");
    }
}
