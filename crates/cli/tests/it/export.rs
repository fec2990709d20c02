//! `highwater export`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::run::{command, failure, json, memory_stats, recordings, run, run_with, stdout};

/// Recordings that began with the program, and the whole of whose history is there.
const COMPLETE: [&str; 5] = ["linear_forward", "multi_stream", "annotated", "fuzz_expandable", "oom_gpt2_8gib"];

/// The trace as JSON, from a snapshot on standard input.
fn trace_of(snapshot: Vec<u8>) -> Value {
    let run = run_with("trace - --format json", snapshot);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn pickle_and_json_read_as_the_original_does() {
    for recording in ["linear_forward", "multi_stream", "oom_gpt2_8gib"] {
        let original = json(&format!("trace {recording}.pickle.gz --format json"));
        for format in ["pickle", "json"] {
            let file = format!("{recording}.pickle.gz");
            let exported = command().args(["export", &file, "--to", format]).output().unwrap();
            assert!(exported.status.success());
            assert_eq!(trace_of(exported.stdout), original, "{recording} as {format}");
        }
    }
}

#[test]
fn csv_has_a_line_for_each_entry() {
    let csv = stdout("export oom_whole_gpu.pickle.gz --to csv --redact");
    assert_eq!(csv.lines().count(), 1 + 144);
    let lines: Vec<_> = csv.lines().filter(|line| !line.contains("alloc")).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    device,entry,action,address,size_bytes,stream,pool,time_us,device_free_bytes,user_metadata,compile_context,stack,category,category_rule
    0,142,oom,,7516192768,0,,1795222681366082,2454847488,,N/A,capture.py:307 _;capture.py:353 main;capture.py:377 <module>,,
    0,143,snapshot,0,147102629888,0,,1795222681366696,,,N/A,,,
    ");
}

#[test]
fn csv_says_what_each_block_is_for_as_live_does() {
    let csv = stdout("export oom_gpt2_8gib.pickle.gz --to csv");
    let last_three = |line: &str| -> Vec<String> {
        let mut cells: Vec<_> = line.rsplitn(3, ',').map(str::to_owned).collect();
        cells.reverse();
        cells
    };
    let rows: Vec<_> = csv.lines().skip(1).map(last_three).collect();
    let live = json("live oom_gpt2_8gib.pickle.gz --at peak --blocks --format json");
    let blocks = live["blocks"].as_array().unwrap();
    assert!(blocks.len() > 300, "{}", blocks.len());
    for block in blocks {
        let row = &rows[usize::try_from(block["alloc_entry"].as_u64().unwrap()).unwrap()];
        assert_eq!((&block["category"], &block["category_rule"]), (&row[1].clone().into(), &row[2].clone().into()));
    }
    // What is freed is what was allocated.
    let count = |action: &str, category: &str| {
        let is = |line: &&str| line.contains(&format!(",{action},")) && last_three(line)[1] == category;
        csv.lines().filter(is).count()
    };
    assert_eq!(count("alloc", "activation"), 73);
    assert_eq!(count("free_requested", "activation"), 73);
    assert_eq!(count("free_completed", "activation"), 73);
    assert_eq!(count("segment_alloc", ""), csv.lines().filter(|line| line.contains(",segment_alloc,")).count());
}

#[test]
fn csv_quotes_what_needs_it() {
    let csv = run_with("export - --to csv", AWKWARD);
    insta::assert_snapshot!(csv.stdout, @r#"
    device,entry,action,address,size_bytes,stream,pool,time_us,device_free_bytes,user_metadata,compile_context,stack,category,category_rule
    0,0,segment_alloc,4096,2097152,0,"1,0",,,,,,,
    0,1,alloc,4096,12,0,"1,0",,,"say ""a,b""\nthen \u{1b}[2J",,a;b.py:3 f\tg;main.py:1 <module>,unknown,none
    "#);
}

#[test]
fn csv_holds_no_formula() {
    for text in ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)"] {
        let snapshot = AWKWARD.replace(r#"say \"a,b\"\nthen \u001b[2J"#, text).replace("a;b.py", text);
        let csv = run_with("export - --to csv", snapshot).stdout;
        let row = csv.lines().nth(2).unwrap();
        assert_eq!(row.matches(&format!("\"'{text}")).count(), 2, "{row}");
        assert!(!row.contains(&format!(",{text}")) && !row.contains(&format!(",\"{text}")), "{row}");
    }
}

/// Text that a careless writer would break a line, a cell or a frame with.
const AWKWARD: &str = r#"{"segments": [{"device": 0, "address": 4096, "total_size": 2097152, "stream": 0,
    "segment_type": "small", "segment_pool_id": [1, 0], "blocks": [
        {"address": 4096, "size": 512, "requested_size": 12, "state": "active_allocated", "frames": []},
        {"address": 4608, "size": 2096640, "requested_size": 0, "state": "inactive", "frames": []}]}],
  "device_traces": [[
    {"action": "segment_alloc", "addr": 4096, "size": 2097152, "stream": 0, "pool_id": [1, 0], "frames": []},
    {"action": "alloc", "addr": 4096, "size": 12, "stream": 0, "pool_id": [1, 0], "user_metadata": "say \"a,b\"\nthen \u001b[2J",
     "frames": [{"filename": "a;b.py", "line": 3, "name": "f\tg"}, {"filename": "main.py", "line": 1, "name": "<module>"}]}
]]}"#;

/// The last value of each counter of the process.
fn counters(trace: &Value, pid: u64) -> BTreeMap<String, u64> {
    let events = trace["traceEvents"].as_array().unwrap();
    let mut last = BTreeMap::new();
    let mut latest = 0;
    for event in events.iter().filter(|event| event["ph"] == "C" && event["pid"] == pid) {
        let ts = event["ts"].as_i64().unwrap();
        assert!(ts >= latest, "counters run forward in time");
        latest = ts;
        last.insert(event["name"].as_str().unwrap().to_owned(), event["args"]["bytes"].as_u64().unwrap());
    }
    last
}

#[test]
fn chrome_trace_counters_end_as_memory_stats_does() {
    for recording in COMPLETE.into_iter().chain(["gpt2_late_recording", "gpt2_truncated_history"]) {
        let trace = json(&format!("export {recording}.pickle.gz --to chrome-trace"));
        let last = counters(&trace, 0);
        for key in ["requested_bytes", "allocated_bytes", "reserved_bytes"] {
            assert_eq!(last[key], memory_stats(recording, &format!("{key}.all.current")), "{recording} {key}");
        }
    }
}

#[test]
fn chrome_trace_peaks_as_memory_stats_does() {
    for recording in COMPLETE {
        let trace = json(&format!("export {recording}.pickle.gz --to chrome-trace"));
        let events = trace["traceEvents"].as_array().unwrap();
        for key in ["requested_bytes", "allocated_bytes", "reserved_bytes"] {
            let values =
                events.iter().filter(|event| event["name"] == key).map(|event| event["args"]["bytes"].as_u64());
            let peak = memory_stats(recording, &format!("{key}.all.peak"));
            assert_eq!(values.max().unwrap(), Some(peak), "{recording} {key}");
        }
    }
}

#[test]
fn chrome_trace_names_devices_and_marks_oom_and_snapshots() {
    let text = stdout("export oom_whole_gpu.pickle.gz --to chrome-trace");
    let marks: Vec<_> = text.lines().filter(|line| !line.contains("\"ph\":\"C\"")).collect();
    insta::assert_snapshot!(marks.join("\n"), @r#"
        {"displayTimeUnit":"ms","traceEvents":[
        {"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"device 0"}},
        {"ph":"i","name":"oom","pid":0,"tid":0,"ts":8935,"s":"p","args":{"entry":142,"size_bytes":7516192768,"device_free_bytes":2454847488}},
        {"ph":"i","name":"snapshot","pid":0,"tid":0,"ts":9549,"s":"p","args":{"entry":143,"size_bytes":147102629888}}
        ]}
    "#);
    let trace = json("export ../layouts/several_devices.pickle --to chrome-trace");
    assert_eq!(counters(&trace, 2)["requested_bytes"], 20 << 20);
    assert_eq!(counters(&trace, 3)["reserved_bytes"], 2 << 20);
}

#[test]
fn chrome_trace_has_a_slice_for_each_annotation() {
    let trace = json("export annotated.pickle.gz --to chrome-trace");
    let events = trace["traceEvents"].as_array().unwrap();
    let slices: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(slices.len(), 11);
    assert_eq!(slices.iter().filter(|slice| slice["name"] == "## backward ##").count(), 2);
    assert!(slices.iter().all(|slice| slice["ts"].as_i64() >= Some(0) && slice["dur"].as_i64() >= Some(0)));
}

#[test]
fn chrome_trace_counts_entries_where_times_are_missing() {
    let run = run_with("export - --to chrome-trace", AWKWARD);
    let trace: Value = serde_json::from_str(&run.stdout).unwrap();
    let last = trace["traceEvents"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["ts"], 1);
}

#[test]
fn speedscope_weighs_the_peak() {
    for recording in COMPLETE {
        let file = json(&format!("export {recording}.pickle.gz --to speedscope"));
        let profile = &file["profiles"][0];
        let weights = profile["weights"].as_array().unwrap();
        let samples = profile["samples"].as_array().unwrap();
        let frames = file["shared"]["frames"].as_array().unwrap().len() as u64;
        assert_eq!(samples.len(), weights.len());
        assert!(samples.iter().flat_map(|sample| sample.as_array().unwrap()).all(|i| i.as_u64().unwrap() < frames));
        let sum: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
        assert_eq!(sum, memory_stats(recording, "requested_bytes.all.peak"), "{recording}");
        assert_eq!(profile["endValue"], sum);
        assert_eq!((&profile["type"], &profile["unit"]), (&Value::from("sampled"), &Value::from("bytes")));
    }
}

#[test]
fn speedscope_frames_are_outermost_first() {
    let file = json("export linear_forward.pickle.gz --to speedscope --redact");
    let frame = |index: &Value| file["shared"]["frames"][usize::try_from(index.as_u64().unwrap()).unwrap()].clone();
    let names: Vec<_> = file["profiles"][0]["samples"][0].as_array().unwrap().iter().map(frame).collect();
    assert_eq!(names[0], serde_json::json!({"name": "<module>", "file": "capture.py", "line": 377}));
    assert_eq!(names.last().unwrap(), &serde_json::json!({"name": "forward", "file": "linear.py", "line": 134}));
    assert_eq!(file["profiles"][0]["name"], "device 0: at the peak, after entry 14");
}

#[test]
fn folded_stacks_are_lines_of_frames_and_bytes() {
    insta::assert_snapshot!(stdout("export linear_forward.pickle.gz --to folded"), @r"
        capture.py:377 <module>;capture.py:353 main;capture.py:133 linear_forward;module.py:1779 _wrapped_call_impl;module.py:1790 _call_impl;linear.py:134 forward 2034603008
        capture.py:377 <module>;capture.py:353 main;capture.py:130 linear_forward;linear.py:109 __init__ 2000000000
        capture.py:377 <module>;capture.py:353 main;capture.py:132 linear_forward 400000000
        capture.py:377 <module>;capture.py:353 main;capture.py:130 linear_forward;linear.py:112 __init__ 200000
    ");
    insta::assert_snapshot!(stdout("export ../layouts/several_devices.pickle --to folded"), @r"
        device 0;train.py:30 <module>;train.py:12 step 3052
        device 2;(no stack recorded) 20971520
    ");
    let run = run_with("export - --to folded --at 1", AWKWARD);
    assert_eq!(run.stdout, "main.py:1 <module>;a,b.py:3 f\\tg 12\n");
}

#[test]
fn the_moment_can_be_chosen() {
    let sum = |at: &str| -> u64 {
        let folded = stdout(&format!("export linear_forward.pickle.gz --to folded --at {at}"));
        folded.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    assert_eq!(sum("peak"), memory_stats("linear_forward", "requested_bytes.all.peak"));
    assert_eq!(sum("end"), memory_stats("linear_forward", "requested_bytes.all.current"));
    assert_eq!(sum("1"), 2_000_000_000);
    insta::assert_snapshot!(failure("export linear_forward.pickle.gz --to folded --at 26"), @r"
        error: there is no entry 26
        hint: device 0 has entries 0 to 25
    ");
    insta::assert_snapshot!(failure("export linear_forward.pickle.gz --to csv --at 3"), @r"
        error: `--at` only goes with `--to speedscope` and `--to folded`
        hint: the other formats contain the whole trace
    ");
}

#[test]
fn a_whole_snapshot_cannot_be_cut_to_a_device() {
    insta::assert_snapshot!(failure("export linear_forward.pickle.gz --to pickle --device 0"), @r"
        error: `--device` does not go with `--to pickle`
        hint: it contains the whole snapshot
    ");
}

#[test]
fn a_file_is_overwritten_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let export = |force: &[&str]| {
        let output = assert_cmd::cargo::cargo_bin_cmd!("highwater")
            .current_dir(folder.path())
            .arg("export")
            .arg(recordings().join("linear_forward.pickle.gz"))
            .args(["--to", "folded", "-o", "peak.txt"])
            .args(force)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let path = folder.path().join("peak.txt");

    assert_eq!(export(&[]), (Some(0), "wrote peak.txt (463 B)\n".to_owned()));
    let written = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    let refused = "error: `peak.txt` already exists\nhint: overwrite it with `--force`\n";
    assert_eq!(export(&[]), (Some(2), refused.to_owned()));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    assert_eq!(export(&["--force"]).0, Some(0));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), written);
}

#[test]
fn every_recording_and_layout_can_be_exported() {
    for folder in ["../recordings", "../layouts"] {
        for entry in std::fs::read_dir(recordings().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            // The large ones take their time in a debug build.
            if !name.contains(".pickle") || name.starts_with("qwen") || name.starts_with("fsdp2") {
                continue;
            }
            for format in ["csv", "chrome-trace", "speedscope", "folded"] {
                assert_eq!(run(&format!("export {folder}/{name} --to {format}")).code, 0, "{name} as {format}");
            }
        }
    }
}
