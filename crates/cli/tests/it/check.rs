//! `highwater check`.

use std::fs::write;

use crate::run::{Run, failure, json, memory_stats, run, run_with};

#[test]
fn each_rule_is_one_line_and_the_status_says_whether_all_hold() {
    let Run { code, stdout, stderr } =
        run("check oom_gpt2_8gib.pickle.gz --max-peak-reserved 8GiB --max-peak-allocated 6GiB \
         --max-fragmentation 10% --max-growth-per-iteration 1MiB");
    assert_eq!((code, stderr.as_str()), (1, ""));
    insta::assert_snapshot!(stdout, @r"
    2 passed, 2 failed

    FAIL  max-peak-allocated        7.86 GiB of 6.00 GiB, 1.86 GiB over the limit, after entry 589; most at activations.py:66 forward, from capture.py:117 train: 3.00 GiB
    ok    max-peak-reserved         7.87 GiB of 8.00 GiB, after entry 586; most at activations.py:66 forward, from capture.py:117 train: 3.00 GiB
    FAIL  max-growth-per-iteration  cannot be measured: fewer than 4 complete iterations were recorded (1.00 MiB allowed)
    ok    max-fragmentation         0.1 % of 10 %, after entry 589
    ");
}

#[test]
fn a_workflow_gets_an_error_for_each_rule_that_fails() {
    let Run { code, stdout, stderr } = run("check leak_grows.pickle.gz --max-growth-per-iteration 256KiB \
             --max-peak-reserved 1TiB --format github");
    assert_eq!((code, stderr.as_str()), (1, ""));
    insta::assert_snapshot!(stdout, @"
    ok  max-peak-reserved: leak_grows.pickle.gz, device 0: 250.00 MiB of 1.00 TiB, after entry 1,893; most at capture.py:256 _: 65.04 MiB
    ::error title=highwater max-growth-per-iteration::leak_grows.pickle.gz, device 0: 512.50 KiB of 256.00 KiB, 256.50 KiB over the limit; most at capture.py:257 _: 502.86 KiB
    ");
}

/// A line of a workflow's log that begins with `::error` is an error of the workflow, whoever wrote it.
#[test]
fn a_name_in_the_snapshot_begins_no_line() {
    let frames = r#"[{"name": "f\n::error::forged", "filename": "a\n::error::forged.py", "line": 1}]"#;
    let entry = |action: &str| {
        format!(r#"{{"action": "{action}", "addr": 2097152, "size": 2097152, "stream": 0, "frames": {frames}}}"#)
    };
    let snapshot = format!(
        r#"{{"segments": [{{"address": 2097152, "total_size": 2097152, "segment_type": "large", "stream": 0, "blocks": [
        {{"address": 2097152, "size": 2097152, "state": "active_allocated", "frames": {frames}}}]}}],
        "device_traces": [[{}, {}]]}}"#,
        entry("segment_alloc"),
        entry("alloc")
    );
    for format in ["github", "text"] {
        for limit in ["1TiB", "1B"] {
            let Run { stdout, .. } =
                run_with(&format!("check - --max-peak-allocated {limit} --format {format}"), snapshot.as_str());
            assert!(stdout.contains(r"\n::error::forged"), "{stdout}");
            assert!(!stdout.contains("\n::error::forged"), "{stdout}");
        }
    }
}

#[test]
fn a_peak_is_that_of_memory_stats_and_may_be_reached_but_not_passed() {
    let name = "linear_forward";
    for (flag, key) in [
        ("--max-peak-allocated", "allocated_bytes.all.peak"),
        ("--max-peak-reserved", "reserved_bytes.all.peak"),
        ("--max-peak-requested", "requested_bytes.all.peak"),
    ] {
        let peak = memory_stats(name, key);
        let check = |limit: u64| run(&format!("check {name}.pickle.gz {flag} {limit} --format json"));
        let kept = check(peak);
        assert_eq!(kept.code, 0, "{flag}");
        let document: serde_json::Value = serde_json::from_str(&kept.stdout).expect("JSON");
        assert_eq!(document["rules"][0]["measured_bytes"], peak, "{flag}");
        assert_eq!(check(peak - 1).code, 1, "{flag}");
    }
}

#[test]
fn a_baseline_limits_what_it_needed_itself() {
    let same = json("check linear_forward.pickle.gz --baseline linear_forward.pickle.gz --format json");
    assert_eq!(same["passed"], true);
    assert_eq!(same["rules"][0]["baseline"], true);
    let other = run("check linear_forward.pickle.gz --baseline cuda_graph_pools.pickle.gz --tolerance 2%");
    assert_eq!(other.code, 1, "{}", other.stdout);
    let ample = run("check linear_forward.pickle.gz --baseline cuda_graph_pools.pickle.gz --tolerance 100000%");
    assert_eq!(ample.code, 0, "{}", ample.stdout);
}

#[test]
fn budgets_can_be_written_down_and_flags_go_before_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("highwater.toml");
    let with = |text: &str, flags: &str| {
        write(&file, text).unwrap();
        run(&format!("check linear_forward.pickle.gz --config {} {flags}", file.display()))
    };
    assert_eq!(with("[budget]\nmax_peak_reserved = \"1TiB\"\nmax_fragmentation = \"99%\"\n", "").code, 0);
    assert_eq!(with("[budget]\nmax_peak_reserved = 1048576\n", "").code, 1);
    assert_eq!(with("[budget]\nmax_peak_reserved = 1048576\n", "--max-peak-reserved 1TiB").code, 0);
    for (text, why) in [
        ("[budget]\nmax_peak = 1\n", "`max_peak` is not a budget"),
        ("[budget]\nmax_peak_reserved = \"lots\"\n", "expected a"),
        ("[budget]\nmax_peak_reserved = 24\n", "did you mean `24GiB`?"),
        ("[budget]\nmax_fragmentation = 0.1\n", "neither a string nor a whole number"),
        ("budget = 3\n", "`budget` is not a table"),
        ("[budgets]\n", "does not have a `[budget]` table"),
        ("[budget\n", "caused by"),
    ] {
        let refused = with(text, "");
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{text}");
        assert!(refused.stderr.contains(why), "{text}: {}", refused.stderr);
    }
}

#[test]
fn without_a_budget_there_is_nothing_to_check() {
    let said = failure("check linear_forward.pickle.gz");
    assert!(said.starts_with("error: there is no budget to check\nhint: give one"), "{said}");
    assert!(failure("check linear_forward.pickle.gz --max-fragmentation 10").contains("such as `10%`"));
}
