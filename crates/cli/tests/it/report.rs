//! `highwater report`, `live` and `stats`.

use std::io::Write as _;

use highwater_testkit::{gunzip, recording_path};

use crate::run::{failure, json, memory_stats, recordings, run, run_with, stdout};

#[test]
fn the_report_gives_the_answer_first() {
    let text = stdout("report oom_gpt2_8gib.pickle.gz");
    let mut lines = text.lines();
    insta::assert_snapshot!(lines.next().unwrap(), @"oom_gpt2_8gib.pickle.gz: 1,337 trace entries of 1 device, 147.40 KiB of pickle protocol 4, torch");
    insta::assert_snapshot!(lines.nth(1).unwrap(), @"");
    for section in [
        "Device 0\n",
        "Device 0: live at the peak, by call site: 7.86 GiB in 375 allocations\n",
        "Device 0: fragmentation\n",
        "Device 0: out of memory, 1 time\n",
        "Allocator settings\n",
    ] {
        assert!(text.contains(section), "{section}{text}");
    }
    assert!(text.contains("limit below 8.12 GiB"), "{text}");
    let ceiling = &json("report oom_gpt2_8gib.pickle.gz --format json")["devices"][0]["ceiling"];
    assert_eq!(ceiling["label"], "limit below 8.12 GiB");
    assert_eq!(ceiling["bytes"], 8_715_763_712_u64);
}

#[test]
fn a_small_report_reads_like_this() {
    insta::assert_snapshot!(stdout("report linear_forward.pickle.gz"), @r"
    linear_forward.pickle.gz: 26 trace entries of 1 device, 3.64 KiB of pickle protocol 4, torch 2.10 to
    2.11

    Device 0 peaked at 4.13 GiB allocated at entry 14 of 26, in the forward phase of iteration 1; its
    reserved memory peaked at 4.13 GiB. The largest part, 1.90 GiB (46 %), was allocated at
    capture.py:133 linear_forward.

    Findings
      - warning, device 0 [saves 1.12 GiB]: 1.12 GiB of the peak still belongs to the previous iteration
        Still alive while the next iteration allocates the same again: 954.00 MiB at capture.py:133
        linear_forward; 190.73 MiB at capture.py:132 linear_forward; if they were freed at the end of
        each iteration, the peak would be 3.01 GiB.
        → `del` these results at the end of the loop body, or compute them inside a function
        (freed-late: `highwater help freed-late`)
      - info, device 0 [saves about 1.40 GiB]: 1.86 GiB of the peak is weights
        45 % of the peak; stored in 8 bits they would take about 477.05 MiB.
        → load the weights in 8 or 4 bits (bitsandbytes, torchao, GPTQ, AWQ)
        (frozen-weights: `highwater help frozen-weights`)
      - info, device 0: at most 2.24 GiB of the peak scales with the batch; 1.90 GiB is fixed
        Parameters, their gradients, optimizer state and workspaces do not depend on the batch; inputs,
        activations and temporaries may grow with it.
        → a batch twice as large needs at most 2.24 GiB more; to fit a line, run `highwater diff` on
        recordings of two batch sizes
        (batch-size: `highwater help batch-size`)

    Device 0
      peak allocated         4.13 GiB  4,436,169,216 bytes, at entry 14, after 265.04 ms, in iteration 1, forward
      peak requested         4.13 GiB  4,434,803,008 bytes
      peak reserved          4.13 GiB  4,439,670,784 bytes
      allocated at the dump  3.01 GiB  3,235,827,712 bytes
      requested at the dump  3.01 GiB  3,234,803,008 bytes
      reserved at the dump   4.13 GiB  4,439,670,784 bytes

        4.13 GiB ┤                                       ···███▅▅▅▅▅▅·········███▅▅▅▅▅▅·········
                 │                                          █████████         █████████
                 │                  ···▂▂▂▂▂▂▃▃▃▃▃▃▃▃▃▆▆▆▆▆▆█████████▃▃▃▃▃▃▆▆▆█████████▃▃▃▃▃▃▃▃▃
                 │                     █████████████████████████████████████████████████████████
                 │                     █████████████████████████████████████████████████████████
        2.07 GiB ┤···▅▅▅▅▅▅▅▅▅▅▅▅███████████████████████████████████████████████████████████████
                 │   ███████████████████████████████████████████████████████████████████████████
                 │   ███████████████████████████████████████████████████████████████████████████
                 │   ███████████████████████████████████████████████████████████████████████████
                 │   ███████████████████████████████████████████████████████████████████████████
             0 B └──────────────────────────────────────────────────────────────────────────────
                                 |                    |     ▲              |
                  0                                                                     entry 25
                  █ allocated   · reserved   ▲ peak   | iteration

    Device 0: live at the peak, by category
       allocated  share  category
        1.86 GiB   45 %  parameter  ██████████▉
        1.86 GiB   45 %  temporary  ██████████▉
      381.47 MiB  9.0 %  input      ██▎
       33.00 MiB  0.8 %  workspace  ▎

    Device 0: live at the peak, by call site: 4.13 GiB in 8 allocations
       allocated  share  count  where
        1.90 GiB   46 %      4  capture.py:133 linear_forward
        1.86 GiB   45 %      2  capture.py:130 linear_forward
      381.47 MiB  9.0 %      2  capture.py:132 linear_forward

    Device 0: 3 iterations, by calls of the model
         entries  peak allocated  at its end  peak of each phase
      0     5–11        3.01 GiB    3.01 GiB  forward 3.01 GiB
      1    12–18        4.13 GiB    3.01 GiB  forward 4.13 GiB
      2    19–25        4.13 GiB    3.01 GiB  forward 4.13 GiB

    Device 0: fragmentation
         3.34 MiB  free at the peak: reserved and in no active block
         1.30 MiB  active beyond the requested bytes, at the peak
         1.12 GiB  free at the dump: reserved and in no active block (27 %)
         1.12 GiB  of these, in segments with nothing active: `empty_cache()` releases them
         2.07 MiB  of these, in segments partly in use, expandable ones not counted (`inactive_split`)
       954.00 MiB  the largest free block; 17 % of the free bytes lie outside it
      1000.69 KiB  active beyond the requested bytes, at the dump: the allocator's rounding

    Allocator settings
      all at their defaults
    ");
}

#[test]
fn the_json_keeps_its_contract() {
    let report = json("report qwen_train_b16.pickle.gz --format json --timings");
    assert_eq!((&report["format"], &report["version"]), (&"highwater-report".into(), &1.into()));
    assert!(report["timings"]["read_secs"].is_f64() && report["timings"]["analyse_secs"].is_f64());
    assert_eq!(report["torch"]["known"], false);
    let device = &report["devices"][0];
    for (path, key) in [
        ("/end/requested_bytes", "requested_bytes.all.current"),
        ("/end/allocated_bytes", "allocated_bytes.all.current"),
        ("/end/active_bytes", "active_bytes.all.current"),
        ("/end/reserved_bytes", "reserved_bytes.all.current"),
        ("/end/inactive_split_bytes", "inactive_split_bytes.all.current"),
        ("/peak/requested_bytes", "requested_bytes.all.peak"),
        ("/peak/allocated_bytes", "allocated_bytes.all.peak"),
        ("/peak/active_bytes", "active_bytes.all.peak"),
        ("/peak/reserved_bytes", "reserved_bytes.all.peak"),
    ] {
        assert_eq!(device.pointer(path).unwrap().as_u64(), Some(memory_stats("qwen_train_b16", key)), "{path}");
    }
    assert_eq!(device["block_sizes"], serde_json::json!({"known": "exact"}));
    assert!(device["peak"].get("allocated_bytes_at_most").is_none(), "an exact number needs no bounds");
    assert_eq!(device["peak"]["allocated_entry"], device["at_peak"]["entry"]);
    assert_eq!(device["recorded"]["from_start"], true);
    let at_peak = &device["at_peak"];
    assert_eq!(at_peak["by"], "allocated_bytes");
    assert_eq!(at_peak["allocated_bytes"], device["peak"]["allocated_bytes"]);
    assert!(at_peak["time_us"].is_i64() && at_peak["entry"].is_u64());
    let sites = at_peak["call_sites"].as_array().unwrap();
    let bytes: u64 = sites.iter().map(|site| site["bytes"].as_u64().unwrap()).sum();
    assert_eq!(Some(bytes), device["peak"]["allocated_bytes"].as_u64(), "the call sites add up to the peak");
    let categories = at_peak["categories"].as_object().unwrap();
    assert_eq!(categories.len(), 9);
    let told: u64 = categories.values().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert_eq!(told, bytes, "the categories add up to the peak");
    let unknown = categories["unknown"].as_u64().unwrap();
    assert!(unknown < bytes / 100, "{unknown} of {bytes} bytes are not told");
    let asked: u64 = sites.iter().map(|site| site["requested_bytes"].as_u64().unwrap()).sum();
    assert_eq!(Some(asked), at_peak["requested_bytes"].as_u64(), "nothing awaits its free here");
    let iterations = device["iterations"].as_array().unwrap();
    assert_eq!(iterations.len(), 3);
    let highest = iterations.iter().map(|iteration| iteration["peak_allocated_bytes"].as_u64()).max().unwrap();
    assert_eq!(highest, device["peak"]["allocated_bytes"].as_u64());
    assert!(iterations[2]["end_allocated_bytes"].is_u64());
    let phases: Vec<_> = iterations[2]["phases"].as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
    assert_eq!(phases, ["forward", "backward", "optimizer"]);
}

#[test]
fn every_form_of_a_file_gives_the_same_totals() {
    let folder = tempfile::tempdir().unwrap();
    let totals = |file: &str| {
        let report = json(&format!("report {file} --format json"));
        let device = &report["devices"][0];
        [device["end"].clone(), device["peak"].clone(), device["at_peak"]["call_sites"].clone()]
    };
    let want = totals("leak_grows.pickle.gz");
    for form in ["pickle", "json"] {
        let path = folder.path().join(format!("again.{form}"));
        let written = run(&format!("export leak_grows.pickle.gz --to {form} -o {}", path.display()));
        assert_eq!(written.code, 0, "{}", written.stderr);
        assert_eq!(totals(path.to_str().unwrap()), want, "{form}");
    }
}

#[test]
fn markdown_is_tables_and_redaction_strips_directories_everywhere() {
    let text = stdout("report leak_grows.pickle.gz --format markdown --redact");
    assert!(text.starts_with("### leak\\_grows.pickle.gz: "), "{text}");
    assert!(text.contains("| 96.06 MiB | 40 % | 12 | capture.py:256 \\_ |"), "{text}");
    assert!(text.contains("```text"), "{text}");
    for form in ["markdown", "json", "text"] {
        let open = stdout(&format!("report leak_grows.pickle.gz --format {form}"));
        let text = stdout(&format!("report leak_grows.pickle.gz --format {form} --redact"));
        assert!(!text.contains("/home/"), "{text}");
        // Whose code a frame is was seen before the directories went.
        assert_eq!(text.matches("capture.py").count(), open.matches("capture.py").count());
        assert_eq!(text.matches("adam.py").count(), open.matches("adam.py").count());
    }
}

/// A name in a snapshot is anybody's, and a report is pasted where Markdown is read.
#[test]
fn no_name_is_markup_in_markdown() {
    for (name, dead) in [
        ("`<img src=http://evil.example/p.png>", r"\`\<img `src=http://evil.example/p.png>`"),
        ("`![p](//evil.example)", "`` `![p](//evil.example) ``"),
        ("x` <script>alert(1)</script> `y", "x`  <script>alert(1)</script>  `y"),
        ("see https://evil.example @someone x#1", "see `https://evil.example` `@someone` `x#1`"),
        ("a|b ``` ~~~", r"a\|b \`\`\` \~\~\~"),
    ] {
        let frames = format!(
            r#"[{{"filename": "a.py", "line": 3, "name": {name:?}}}, {{"filename": "{name}.py", "line": 1, "name": "g"}}]"#
        );
        let snapshot = format!(
            r#"{{"segments": [], "device_traces": [[{{"action": "segment_alloc", "addr": 4096, "size": 2097152, "stream": 0, "frames": {frames}}},
            {{"action": "alloc", "addr": 4096, "size": 1024, "stream": 0, "frames": {frames}}},
            {{"action": "oom", "addr": 1, "size": 1048576, "stream": 0, "frames": {frames}}}]]}}"#
        );
        let run = run_with("report - --format markdown", snapshot);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let outside = run
            .stdout
            .split("```text")
            .flat_map(|part| part.split_once("\n```").map_or(part, |(_, after)| after).lines());
        let named: Vec<_> = outside.filter(|line| line.contains("a.py:3")).collect();
        assert!(!named.is_empty(), "{}", run.stdout);
        assert!(named.iter().all(|line| line.contains(dead)), "{name}: {named:#?}");
    }
}

#[test]
fn devices_are_shown_each_for_itself() {
    let report = json("report ../layouts/several_devices.pickle --format json");
    let devices: Vec<_> = report["devices"].as_array().unwrap().iter().map(|d| d["device"].clone()).collect();
    assert_eq!(devices, [0, 2, 3], "device 1 never allocated");
    let one = json("report ../layouts/several_devices.pickle --format json --device 2");
    assert_eq!(one["devices"].as_array().unwrap().len(), 1);
    assert_eq!(one["devices"][0], report["devices"][1]);
    insta::assert_snapshot!(failure("report linear_forward.pickle.gz --device 3"), @"
    error: `linear_forward.pickle.gz` has no data for device 3
    hint: it has device 0
    ");
}

#[test]
fn the_verdict_is_on_the_devices_that_are_shown() {
    let verdict = |line: &str| json(line)["verdict"].as_str().unwrap().to_owned();
    let all = verdict("report ../layouts/several_devices.pickle --format json");
    assert!(all.starts_with("Device 2 ") && all.ends_with("2 more devices are below."), "{all}");
    let one = verdict("report ../layouts/several_devices.pickle --format json --device 0");
    assert!(one.starts_with("Device 0 ") && !one.contains("below"), "{one}");
}

#[test]
fn a_state_without_history_is_no_peak() {
    let text = stdout("report ../layouts/state_only.pickle");
    assert!(text.contains("at the dump; no history was recorded.") && !text.contains("peak requested"), "{text}");
    assert!(text.contains("Device 0: live at the dump, by call site"), "{text}");
    assert!(stdout("live ../layouts/no_traces.pickle").contains(" allocated, 1004 B requested, "));
}

#[test]
fn the_state_at_the_error_is_a_moment() {
    let at_error = stdout("live oom_gpt2_8gib.pickle.gz --at oom");
    assert!(at_error.starts_with("Device 0, after entry 590: "), "{at_error}");
    assert_eq!(at_error, stdout("live oom_gpt2_8gib.pickle.gz --at 590"));
    let none = failure("live linear_forward.pickle.gz --at oom");
    assert!(none.contains("no request failed in the recording") && none.contains("`peak` and `end`"), "{none}");
}

#[test]
fn what_was_there_before_the_recording_is_said_in_words() {
    let text = stdout("report ../layouts/missing_keys.pickle").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("The largest part, 1.50 KiB (75 %), was allocated before the recording."), "{text}");
    assert!(
        text.contains(
            "; 1 allocation (1.50 KiB requested) already existed at the first entry, with 3.00 KiB reserved."
        )
    );
}

#[test]
fn every_command_warns_of_what_does_not_fit_together() {
    for line in ["live", "stats"].map(|command| format!("{command} ../layouts/one_event.pickle")) {
        assert!(run(&line).stderr.contains("allocations are gone at the dump"), "{line}");
        assert_eq!(json(&format!("{line} --format json"))["warnings"][0]["id"], "missing-free");
    }
}

#[test]
fn a_moment_that_only_some_devices_have_is_the_end_of_the_others() {
    let run = run("live ../layouts/several_devices.pickle --at 4");
    assert!(run.stdout.contains("Device 0, after entry 4") && run.stdout.contains("Device 2, after entry 1"));
    assert!(failure("live ../layouts/several_devices.pickle --at 99").contains("there is no entry 99"));
}

#[test]
fn a_cut_file_is_reported_as_far_as_it_goes() {
    let mut whole = gunzip(&recording_path("leak_grows"));
    whole.truncate(whole.len() / 2);
    let cut = run_with("report - --format json", whole.clone());
    assert_eq!(cut.code, 0, "{}", cut.stderr);
    let report: serde_json::Value = serde_json::from_str(&cut.stdout).unwrap();
    let device = &report["devices"][0];
    assert_eq!(device["recorded"]["truncated"], true);
    assert_eq!(
        device["end"]["reserved_bytes"].as_u64(),
        Some(memory_stats("leak_grows", "reserved_bytes.all.current"))
    );
    assert!(device["entries"].as_u64().unwrap() > 100);
    assert_eq!(report["warnings"][0]["id"], "cut");
    let verdict = report["verdict"].as_str().unwrap();
    assert!(verdict.contains("The file is incomplete: a later peak would not be seen."), "{verdict}");
    // Nothing that the rest of the trace might have changed is told.
    let stats = run_with("stats - --format json", whole.clone());
    let stats: serde_json::Value = serde_json::from_str(&stats.stdout).unwrap();
    let stats = &stats["devices"][0]["stats"];
    assert!(stats["num_ooms"].is_null() && stats["oversize_segments.peak"].is_null(), "{stats}");
    assert!(stats["reserved_bytes.all.current"].is_u64(), "{stats}");
    whole.truncate(20);
    assert_eq!(run_with("report -", whole).code, 2);
}

#[test]
fn live_blocks_are_those_of_the_moment() {
    insta::assert_snapshot!(stdout("live linear_forward.pickle.gz --at peak"), @r"
    Device 0, after entry 14: 4.13 GiB allocated, 4.13 GiB requested in 8 blocks
       requested  share  count  where
        1.89 GiB   46 %      4  capture.py:133 linear_forward
        1.86 GiB   45 %      2  capture.py:130 linear_forward
      381.47 MiB  9.0 %      2  capture.py:132 linear_forward
    ");
    let live = json("live linear_forward.pickle.gz --at 7 --format json");
    assert_eq!((&live["format"], &live["version"]), (&"highwater-live".into(), &1.into()));
    let sizes = |live: &serde_json::Value| -> Vec<u64> {
        live["blocks"].as_array().unwrap().iter().map(|b| b["requested_bytes"].as_u64().unwrap()).collect()
    };
    assert_eq!(sizes(&live), [1_000_000_000, 200_000_000, 2_000_000_000, 200_000]);
    // Entry 7 has this time, entry 8 a later one.
    let by_time = json("live linear_forward.pickle.gz --at-time 1795222544178511 --format json");
    assert_eq!(by_time, live);
    let before = json("live linear_forward.pickle.gz --at-time 0 --format json");
    assert!(sizes(&before).is_empty());
    let end = json("live linear_forward.pickle.gz --at end --format json");
    let known: u64 = end["blocks"].as_array().unwrap().iter().map(|b| b["size_bytes"].as_u64().unwrap()).sum();
    assert_eq!(known, memory_stats("linear_forward", "active_bytes.all.current"));
    insta::assert_snapshot!(failure("live linear_forward.pickle.gz --at 99"), @"
    error: there is no entry 99
    hint: device 0 has entries 0 to 25
    ");
    assert!(
        failure("live linear_forward.pickle.gz --at soon")
            .contains("expected the number of an entry, `peak`, `oom` or `end`")
    );
}

#[test]
fn blocks_that_await_their_free_are_live() {
    let live = json("live ../layouts/torch_2_12.pickle --at end --format json");
    let states: Vec<_> = live["blocks"].as_array().unwrap().iter().map(|b| b["state"].clone()).collect();
    assert!(states.contains(&"active_awaiting_free".into()), "{states:?}");
}

/// Recordings that began late, or whose ring wrapped.
const PARTIAL: [&str; 2] = ["gpt2_late_recording", "gpt2_truncated_history"];

#[test]
fn bounds_are_said_to_be_bounds() {
    let report = json("report gpt2_truncated_history.pickle.gz --format json");
    let device = &report["devices"][0];
    let [least, most] = ["allocated_bytes", "allocated_bytes_at_most"].map(|key| device["peak"][key].as_u64().unwrap());
    assert!(least < most, "{least} to {most}");
    assert_eq!(device["block_sizes"]["known"], "bounds");
    let text = stdout("report gpt2_truncated_history.pickle.gz");
    for said in ["Device 0 peaked at no less than ", " bytes, at most ", "Allocated and active bytes are not exact: "] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let live = json("live gpt2_truncated_history.pickle.gz --at 0 --format json");
    let doubtful = |block: &&serde_json::Value| block.get("size_bytes_at_most").is_some();
    assert!(live["blocks"].as_array().unwrap().iter().filter(doubtful).count() > 0);
}

#[test]
fn stats_are_the_cells_of_memory_summary_or_a_dash() {
    let mut cells = 0;
    for file in std::fs::read_dir(recordings()).unwrap() {
        let path = file.unwrap().path();
        let Some(name) = path.file_name().unwrap().to_str().unwrap().strip_suffix(".summary.txt") else { continue };
        let want = std::fs::read_to_string(&path).unwrap();
        let got = stdout(&format!("stats {name}.pickle.gz"));
        assert_eq!(got.lines().count(), want.lines().count(), "{name}");
        for (got, want) in got.lines().zip(want.lines()) {
            assert_eq!(got.len(), want.len(), "{name}: {got}");
            for (got, want) in got.split('|').zip(want.split('|')) {
                let (got, want) = (got.trim(), want.trim());
                // Where what a replay shows has two readings, or the recording is not whole.
                let unknown = got.ends_with(": -") || (got == "-" && PARTIAL.contains(&name));
                assert!(unknown || got == want, "{name}: `{got}`, PyTorch says `{want}`");
                cells += usize::from(!unknown);
            }
        }
    }
    assert!(cells > 3000, "{cells}");
}

#[test]
fn the_report_goes_to_a_file_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.txt");
    std::fs::File::create(&path).unwrap().write_all(b"mine").unwrap();
    let line = format!("report linear_forward.pickle.gz -o {}", path.display());
    assert!(failure(&line).contains("overwrite it with `--force`"));
    assert_eq!(run(&format!("{line} --force")).code, 0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), stdout("report linear_forward.pickle.gz"));
}

#[test]
fn the_lines_of_call_sites_can_be_chosen() {
    let row = |sites: &str| {
        let text = stdout(&format!("live oom_gpt2_8gib.pickle.gz --top 1 {sites}"));
        text.lines().find(|line| line.contains(".py:")).expect("a row").trim().to_owned()
    };
    assert!(row("").ends_with("activations.py:66 forward, from capture.py:117 train"), "{}", row(""));
    assert!(row("--sites library").ends_with("activations.py:66 forward"), "{}", row("--sites library"));
    // All that the model's own line holds is one row.
    assert!(row("--sites own").ends_with("  capture.py:117 train"), "{}", row("--sites own"));
    let site = &json("report oom_gpt2_8gib.pickle.gz --format json")["devices"][0]["at_peak"]["call_sites"][0];
    assert_eq!(site["frames"][0]["line"], 66);
    assert_eq!(site["own_frame"]["line"], 117);
    assert_eq!(site["place"], "activations.py:66 forward, from capture.py:117 train");
}
