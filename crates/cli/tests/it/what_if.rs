//! `highwater simulate FILE`, under other settings and with less memory.

use serde_json::Value;

use crate::run::{failure, json, stdout};

/// The answer as JSON.
fn simulated(options: &str) -> Value {
    json(&format!("simulate {options} --format json"))
}

fn bytes(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn runs_stand_in_the_order_of_settings_and_capacities() {
    let answer = simulated(
        "multi_stream.pickle.gz --conf expandable_segments:True --conf= --capacity 64MiB --capacity 1GiB --card t4",
    );
    let rows: Vec<String> = answer["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            format!(
                "{:24} {:11} {:4} {:9} {} {}",
                run["conf"].as_str().unwrap(),
                run["capacity_bytes"],
                run["outcome"].as_str().unwrap(),
                run["peak_reserved_bytes"],
                run["num_alloc_retries"],
                run["confidence"].as_str().unwrap()
            )
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @"
    expandable_segments:True 67108864 oom  48234496 1 exact
    expandable_segments:True 1073741824 fits 354418688 0 exact
    expandable_segments:True 14855637565 fits 354418688 0 exact
                             67108864 oom  48234496 1 exact
                             1073741824 fits 358612992 0 exact
                             14855637565 fits 358612992 0 exact
    ");
    assert_eq!(answer["runs"][0]["oom_entry"], 18);
    assert_eq!(answer["format"], "highwater-simulate");
    assert_eq!(answer["version"], 1);
    assert!(answer["fit"].as_array().unwrap().is_empty(), "memory was given, so none is looked for");
}

#[test]
fn a_recording_that_ends_at_an_error_is_not_said_to_fit_anything() {
    for file in ["oom_gpt2_8gib.pickle.gz", "../oom/places/first_step.at_oom.pickle.gz"] {
        let answer = simulated(file);
        assert_eq!(answer["ends_at_error"], true, "{file}");
        let table = answer["fit"].as_array().unwrap();
        assert!(!table.is_empty() && table.iter().all(|fit| fit["cards"].as_array().unwrap().is_empty()), "{file}");
        for options in ["", "--capacity 100GiB", "--card h200"] {
            let text = stdout(&format!("simulate {file} {options}"));
            let flowing = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(!text.contains("fits") && !text.contains("nothing fails"), "{text}");
            assert_eq!(options.is_empty(), flowing.contains("no capacity here is known to be enough"), "{text}");
            assert_eq!(!options.is_empty(), text.contains("gets past the error"), "{text}");
        }
    }
    let whole = simulated("linear_forward.pickle.gz");
    assert_eq!(whole["ends_at_error"], false);
    assert!(!whole["fit"][0]["cards"].as_array().unwrap().is_empty());
}

#[test]
fn the_reserved_peak_comes_before_the_smallest_capacity() {
    let text = stdout("simulate annotated.pickle.gz").split_whitespace().collect::<Vec<_>>().join(" ");
    let report = stdout("report annotated.pickle.gz").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report.contains("reserved peak is 2.47 GiB instead of 2.79 GiB"), "{report}");
    assert!(
        text.contains("`expandable_segments:True` reserves 2.47 GiB at its peak instead of 2.79 GiB; under a limit, "),
        "{text}"
    );
}

#[test]
fn the_fit_table_holds_what_it_says() {
    let answer = simulated("../replays/fuzz_default.pickle.gz --conf= --conf expandable_segments:True");
    let live = bytes(&answer["bound"]["live_bytes"]);
    for fit in answer["fit"].as_array().unwrap() {
        let (conf, least) = (fit["conf"].as_str().unwrap(), bytes(&fit["min_capacity_bytes"]));
        assert!(least >= live, "{fit}");
        let enough = simulated(&format!("../replays/fuzz_default.pickle.gz --conf={conf} --capacity {least}"));
        assert_eq!(enough["runs"][0]["outcome"], "fits", "{conf}");
        assert_eq!(enough["runs"][0]["num_alloc_retries"], fit["num_alloc_retries"]);
        let less =
            simulated(&format!("../replays/fuzz_default.pickle.gz --conf={conf} --capacity {}", least - (2 << 20)));
        assert_eq!(less["runs"][0]["outcome"], "oom", "{conf}");
    }
    let packed = bytes(&answer["bound"]["packed_bytes"]);
    assert!(packed >= live && (answer["bound"]["proven_optimal"] == (packed == live)));
}

#[test]
fn the_bars_add_up_to_the_peak() {
    for name in ["multi_stream", "cuda_graph_pools", "leak_grows"] {
        let answer = simulated(&format!("{name}.pickle.gz"));
        let bars: i64 = answer["waterfall"].as_array().unwrap().iter().map(|bar| bar["bytes"].as_i64().unwrap()).sum();
        assert_eq!(u64::try_from(bars), Ok(bytes(&answer["runs"][0]["peak_reserved_bytes"])), "{name}");
    }
}

#[test]
fn a_failure_that_no_setting_can_mend_is_called_so() {
    let answer = stdout("simulate oom_whole_gpu.pickle.gz");
    insta::assert_snapshot!(answer.lines().take(5).collect::<Vec<_>>().join("\n"), @r"
    oom_whole_gpu.pickle.gz, device 0: 72 requests; with the rules of torch 2.11 all 143 entries come
    out as recorded

    No allocator setting can fix this: at entry 142 the program needs 144.00 GiB at once, and there was
    139.29 GiB; the whole step needs at least 144.00 GiB at its peak.
    ");
    let answer = simulated("oom_whole_gpu.pickle.gz");
    assert_eq!(answer["verdict"]["kind"], "impossible");
    let failure = &answer["runs"][1]["oom"];
    assert_eq!(failure["pinning"]["count"], 1);
    let message = failure["message"].as_str().unwrap();
    assert!(
        message.starts_with("CUDA out of memory. Tried to allocate 7.00 GiB. GPU 0 has a total capacity"),
        "{message}"
    );
}

#[test]
fn a_request_that_failed_and_would_not_is_no_proof_of_what_follows() {
    let answer = simulated("oom_gpt2_8gib.pickle.gz --capacity 16GiB");
    let run = &answer["runs"][0];
    assert_eq!((&run["outcome"], &run["confidence"]), (&Value::from("fits"), &Value::from("premise-broken")));
    insta::assert_snapshot!(run["reason"].as_str().unwrap(), @"the request of entry 590 failed in the recording but succeeds here: the program's next steps were not recorded");
}

#[test]
fn a_late_recording_is_marked() {
    let answer = simulated("gpt2_late_recording.pickle.gz --capacity 64GiB");
    assert_eq!(answer["runs"][0]["confidence"], "premise-broken");
    assert_eq!(answer["fidelity"]["equal"], answer["fidelity"]["entries"]);
    assert!(
        answer["premise"]
            .as_str()
            .unwrap()
            .contains("recording started, or restarted, after the program had allocated")
    );
}

#[test]
fn a_card_is_found_by_whatever_people_call_it() {
    for (names, bytes) in [
        (&["a100", "a100-80", "A100-80GB", "NVIDIA_A100-SXM4-80GB"][..], 7914 * (1 << 30) / 100),
        (&["rtx4090", "4090", "RTX-4090"], 2364 * (1_u64 << 30) / 100),
        (&["h100", "H100-SXM"], 85_017_493_504),
    ] {
        for name in names {
            let answer = simulated(&format!("multi_stream.pickle.gz --card {name}"));
            assert_eq!(answer["runs"][0]["capacity_bytes"], bytes - (742 << 20), "{name}");
        }
    }
}

#[test]
fn bad_settings_and_cards_say_what_is_allowed() {
    insta::assert_snapshot!(failure("simulate multi_stream.pickle.gz --conf max_split_size_mb:3"), @"
    error: torch 2.11 refuses `--conf max_split_size_mb:3`
      caused by: byte 18: `max_split_size_mb:3` is out of range: at least 20, the size of a large segment in MiB
    ");
    insta::assert_snapshot!(failure("simulate multi_stream.pickle.gz --conf backend:cudaMallocAsync"), @"
    error: `backend:cudaMallocAsync` cannot be simulated: the driver manages its memory
    hint: a run without `--conf` shows the live memory, which is the least that it needs
    ");
    insta::assert_snapshot!(failure("simulate multi_stream.pickle.gz --card rtx9090"), @"
    error: `rtx9090` is neither a size nor a known GPU
    hint: give its memory, such as `24GiB`, or one of rtx4060, rtx3060, t4, rtx4080, v100, l4, a10g, a10, a30, rtx4090, rtx3090, rtx5090, a100-40, l40s, a6000, a100, h100, h100-nvl, rtxpro6000, gb10, h200, b200
    ");
}
