//! `highwater explain`: of messages, logs and snapshots.

use serde_json::Value;

use crate::run::{Run, command, failure, json, recordings, run_with, stdout};

/// What a run with a message as argument writes.
fn of_message(message: &str, more: &[&str]) -> Run {
    let output = command().arg("explain").args(more).args(["--message", message]).output().unwrap();
    Run {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The message that a recorded program died with.
fn recorded_message(recording: &str) -> String {
    let text = std::fs::read_to_string(recordings().join(format!("{recording}.json"))).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["oom_message"].as_str().unwrap().to_owned()
}

fn ids(document: &Value) -> Vec<&str> {
    document["steps"].as_array().unwrap().iter().map(|step| step["id"].as_str().unwrap()).collect()
}

#[test]
fn a_message_is_explained_and_added_up() {
    let run = of_message(&recorded_message("oom_gpt2_8gib"), &[]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(run.stdout);
}

#[test]
fn a_limit_is_a_limit_by_the_message_and_by_the_snapshot() {
    let message = recorded_message("oom_gpt2_8gib");
    let by_message: Value = serde_json::from_str(&of_message(&message, &["--format", "json"]).stdout).unwrap();
    let gib = 1_u64 << 30;
    assert_eq!(by_message["format"], "highwater-explain");
    assert_eq!(by_message["message"]["limit_bytes"], 8 * gib);
    assert_eq!(by_message["diagnosis"]["cause"], "limit");
    let by_snapshot = json("explain oom_gpt2_8gib.pickle.gz --format json");
    assert_eq!(by_snapshot["diagnosis"]["cause"], "limit");
    let limit = &by_snapshot["diagnosis"]["limit"];
    assert_eq!(limit["at_least_bytes"], 8_447_328_256_u64);
    assert_eq!(limit["at_most_bytes"], 8_447_328_256 + (256_u64 << 20));
    assert_eq!(by_snapshot["failures"][0]["free_bytes"], 138_430_382_080_u64);
    let together = of_message(&message, &["oom_gpt2_8gib.pickle.gz", "--format", "json"]);
    let together: Value = serde_json::from_str(&together.stdout).unwrap();
    assert_eq!(together["diagnosis"]["limit"]["at_least_bytes"], 8 * gib);
    assert!(together.get("disagreements").is_none(), "{}", together["disagreements"]);
    for document in [&by_message, &by_snapshot, &together] {
        let ids = ids(document);
        assert!(ids[0] == "raise-limit" && ids.contains(&"shrink"), "{ids:?}");
        assert!(!document.to_string().contains("expandable_segments"));
    }
}

#[test]
fn a_full_card_is_told_what_is_missing() {
    let by_message = of_message(&recorded_message("oom_whole_gpu"), &["--format", "json"]);
    let by_message: Value = serde_json::from_str(&by_message.stdout).unwrap();
    let by_snapshot = json("explain oom_whole_gpu.pickle.gz --format json");
    for document in [&by_message, &by_snapshot] {
        assert_eq!(document["diagnosis"]["cause"], "too-big");
        let text = document["diagnosis"]["text"].as_str().unwrap();
        assert!(text.contains("with 2.29 GiB left"), "{text}");
        assert!(!document.to_string().contains("expandable_segments"));
    }
    assert_eq!(by_snapshot["failures"][0]["simulation"]["kind"], "impossible");
    insta::assert_snapshot!(stdout("explain oom_whole_gpu.pickle.gz"));
}

#[test]
fn fragmentation_is_answered_with_a_setting_that_was_run() {
    let document = json("explain ../replays/varlen_default.pickle.gz --capacity 16GiB --format json");
    assert_eq!(document["diagnosis"]["cause"], "fragmentation");
    let step = &document["steps"][0];
    assert_eq!((&step["id"], &step["enough"]), (&Value::from("settings"), &Value::from(true)));
    assert_eq!(step["change"], "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
    // The margin is what `simulate` finds.
    let fit = json("simulate ../replays/varlen_default.pickle.gz --conf expandable_segments:True --format json");
    let enough = fit["fit"][0]["min_capacity_any_order_bytes"].as_u64().unwrap();
    let simulation = &document["failures"][0]["simulation"];
    assert_eq!(simulation["spare_bytes"].as_u64().unwrap(), (16 << 30) - enough);
    let run = json("simulate ../replays/varlen_default.pickle.gz --capacity 16GiB --format json");
    assert_eq!(document["failures"][0]["entry"], run["runs"][0]["oom_entry"]);
    assert_eq!(document["failures"][0]["pinning"], run["runs"][0]["oom"]["pinning"]);
    // A message tells the limit as well.
    let message = run["runs"][0]["oom"]["message"].as_str().unwrap();
    let told = of_message(message, &["../replays/varlen_default.pickle.gz", "--format", "json"]);
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(told["steps"][0], *step);
}

/// The last step's title and detail.
fn last_step(document: &Value) -> String {
    let step = document["steps"].as_array().unwrap().last().unwrap();
    assert_eq!(step["id"], "shrink");
    format!("{}\n{}", step["title"].as_str().unwrap(), step["detail"].as_str().unwrap())
}

#[test]
fn what_was_live_is_told_by_category() {
    for line in ["oom_gpt2_8gib.pickle.gz", "oom_whole_gpu.pickle.gz", "qwen_train_b2.pickle.gz --capacity 24GiB"] {
        let document = json(&format!("explain {line} --format json"));
        let failure = &document["failures"][0];
        let of_sites = failure["call_sites"].as_array().unwrap().iter().map(|site| site["bytes"].as_u64().unwrap());
        let categories = failure["categories"].as_object().unwrap();
        let sum: u64 = categories.values().map(|bytes| bytes.as_u64().unwrap()).sum();
        assert_eq!(sum, of_sites.sum::<u64>(), "{line}");
        assert_eq!(failure["allocated_bytes"], sum, "{line}");
    }
    insta::assert_snapshot!(stdout("explain oom_gpt2_8gib.pickle.gz"));
    let text = stdout("explain oom_whole_gpu.pickle.gz");
    assert!(!text.contains("by what it is for"), "nothing is told of what a plain loop makes: {text}");
}

#[test]
fn the_last_step_rests_on_what_was_live() {
    insta::assert_snapshot!(last_step(&json("explain oom_gpt2_8gib.pickle.gz --format json")), @"
    reduce the memory needed at once, activations first: 80 % of the live memory
    6.31 GiB of activations: a smaller batch or shorter sequences; for training, activation checkpointing; for inference, `torch.inference_mode()`, which saves no activations. 1.32 GiB of parameters: a smaller dtype; for inference, quantised weights. The whole step needs 46.39 GiB to 64.19 GiB at its peak, and 7.87 GiB was available: at least 38.53 GiB too little
    ");
    insta::assert_snapshot!(last_step(&json("explain oom_whole_gpu.pickle.gz --format json")), @"
    reduce the memory that the call sites above hold: 100 % of the live memory has no known category
    137.00 GiB of no known category: its call sites show where it was allocated. Freeing 4.71 GiB (3.4 %) would have been enough for this request; later ones may need more
    ");
    insta::assert_snapshot!(last_step(&json("explain qwen_train_b2.pickle.gz --capacity 24GiB --format json")), @"
    reduce the memory needed at once, optimizer state first: 50 % of the live memory
    11.50 GiB of optimizer state: a sharded or 8-bit optimizer, or one with less state. 5.75 GiB of parameters: shard them (FSDP, ZeRO), or a smaller dtype. 5.75 GiB of gradients: shard them (FSDP, ZeRO), or train fewer parameters (LoRA). The program needs 28.82 GiB at once, and 24.00 GiB is available: 4.82 GiB too little
    ");
    insta::assert_snapshot!(last_step(&json("explain qwen_train_b16.pickle.gz --capacity 32GiB --format json")), @"
    reduce the memory needed at once, activations first: 74 % of the live memory
    23.26 GiB of activations: a smaller batch or shorter sequences, activation checkpointing, `torch.autocast` where they are float32. 5.75 GiB of parameters: shard them (FSDP, ZeRO), or a smaller dtype. The program needs 43.79 GiB at once, and 32.00 GiB is available: 11.79 GiB too little
    ");
    insta::assert_snapshot!(last_step(&json("explain linear_forward.pickle.gz --capacity 3GiB --format json")), @"
    reduce the memory needed at once, parameters first: 63 % of the live memory
    1.86 GiB of parameters: a smaller dtype or quantised weights. 954.00 MiB of intermediates: a smaller batch or shorter sequences; compute large tensors, such as logits and their loss, in parts. The program needs 4.13 GiB at once, and 3.00 GiB is available: 1.13 GiB too little
    ");
    // A message does not tell what was live.
    let of_message = of_message(&recorded_message("oom_gpt2_8gib"), &["--format", "json"]).stdout;
    let document: Value = serde_json::from_str(&of_message).unwrap();
    let step = document["steps"].as_array().unwrap().iter().find(|step| step["id"] == "shrink").unwrap();
    assert!(step["title"].as_str().unwrap().ends_with("a sharded or 8-bit optimizer"), "{step}");
}

#[test]
fn a_program_that_fits_is_told_so() {
    let text = stdout("explain multi_stream.pickle.gz --capacity 1GiB");
    assert!(text.contains(": nothing fails: the program fits in 1.00 GiB, with its own settings."), "{text}");
}

#[test]
fn ranks_are_told_apart() {
    insta::assert_snapshot!(stdout("explain ../messages/torchrun_ranks.log"));
}

#[test]
fn a_hundred_messages_are_one_that_came_a_hundred_times() {
    let document = json("explain ../messages/a_hundred.log --format json");
    assert_eq!(document["messages"].as_array().unwrap().len(), 1);
    assert_eq!((&document["messages"][0]["count"], &document["message_count"]), (&Value::from(100), &Value::from(100)));
    let text = stdout("explain ../messages/a_hundred.log");
    assert!(text.contains("100 messages in all, all alike"), "{text}");
}

#[test]
fn memory_beyond_the_gpus_is_the_hosts() {
    let message = |held: &str| {
        format!(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 0 bytes is \
             free. Of the allocated memory {held} GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated."
        )
    };
    for (held, is_shared) in [("14.40", true), ("7.40", false)] {
        let run = of_message(&message(held), &[]);
        let text = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text.contains("system memory on Windows"), is_shared, "{text}");
    }
}

#[test]
fn half_a_message_is_explained_as_far_as_it_goes() {
    insta::assert_snapshot!(stdout("explain ../messages/half_first.log"));
}

#[test]
fn a_log_without_a_message_is_told_what_was_looked_for() {
    insta::assert_snapshot!(failure("explain ../messages/no_message.log"));
    insta::assert_snapshot!(failure("explain ../messages/only_a_mention.log"));
    insta::assert_snapshot!(failure("explain multi_stream.pickle.gz"));
    insta::assert_snapshot!(failure("explain ../messages/no_message.log --capacity 16GiB"));
    assert_eq!(of_message("it broke", &[]).code, 2);
    assert_eq!(run_with("explain -", "").code, 2);
    assert_eq!(run_with("explain", "").code, 2);
}

#[test]
fn memory_that_settles_and_a_good_start_are_told_as_such() {
    let epochs: Vec<String> =
        (0..8).map(|epoch| format!("epoch {epoch} gpu mem {}.10 GiB", 3 + epoch.min(3))).collect();
    let run = run_with("explain -", format!("Is this a leak?\n{}\n", epochs.join("\n")));
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("`gpu mem` rises from 3.10 GiB (line 2) to 6.10 GiB and stays there"),
        "{}",
        run.stderr
    );
    let start = "INFO 12-20 20:25:46 [gpu_worker.py:278] Available KV cache memory: 3.76 GiB\n\
                 INFO:     Application startup complete.\nnvidia-smi shows 15 of 16 GB in use, am I out of memory?\n";
    let run = run_with("explain -", start);
    assert!(run.stderr.contains("reserves its whole share of the GPU on purpose"), "{}", run.stderr);
    assert!(!run.stderr.contains("the text may be cut"), "{}", run.stderr);
}

#[test]
fn a_size_that_is_wrong_is_no_lack_of_memory() {
    let run = of_message("NPU out of memory. Tried to allocate more than 1EB memory.", &[]);
    assert!(run.stdout.contains("memory did not run out") && !run.stdout.contains("out of memory,"), "{}", run.stdout);
}

#[test]
fn tries_of_one_pool_are_no_further_errors() {
    let tries: String = [("2.00G", 2_147_483_648_u64), ("1.80G", 1_932_735_232), ("1.62G", 1_739_461_632)]
        .map(|(size, bytes)| {
            format!(
                "cuda_driver.cc:806] failed to allocate {size} ({bytes} bytes) from device: CUDA_ERROR_OUT_OF_MEMORY\n"
            )
        })
        .concat();
    let run = run_with("explain -", tries);
    assert!(!run.stdout.contains("Other errors"), "{}", run.stdout);
}

#[test]
fn logs_and_snapshots_come_from_standard_input_too() {
    let log = std::fs::read(recordings().join("../messages/json_lines.log")).unwrap();
    let run = run_with("explain - --format json", log);
    assert_eq!(serde_json::from_str::<Value>(&run.stdout).unwrap()["message"]["rank"], 2);
    let snapshot = std::fs::read(recordings().join("oom_whole_gpu.pickle.gz")).unwrap();
    let run = run_with("explain - --format json", snapshot);
    assert_eq!(serde_json::from_str::<Value>(&run.stdout).unwrap()["diagnosis"]["cause"], "too-big");
}

#[test]
fn a_message_of_another_failure_is_told_from_the_snapshots() {
    let run = of_message(&recorded_message("oom_whole_gpu"), &["oom_gpt2_8gib.pickle.gz", "--format", "json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    insta::assert_snapshot!(
        document["disagreements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| d.as_str().unwrap())
            .collect::<Vec<_>>()
            .join("\n")
    );
    let run = of_message(&recorded_message("oom_whole_gpu"), &["multi_stream.pickle.gz", "--format", "json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(document["diagnosis"]["cause"], "too-big");
    assert_eq!(document["disagreements"].as_array().unwrap().len(), 1);
}

#[test]
fn control_characters_of_a_log_do_not_reach_the_terminal() {
    let log =
        "\x1b]0;owned\x07[rank1]: RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB \u{202e}(GPU 0; \x1b[2J";
    let run = run_with("explain -", log);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stdout.contains(|c: char| c != '\n' && (c.is_control() || c == '\u{202e}')), "{:?}", run.stdout);
}

#[test]
fn a_limit_that_is_only_asked_about_was_not_set_by_anybody() {
    for asked in ["--capacity 24GiB", "--card 24GiB", "--card rtx4090"] {
        let document = json(&format!("explain qwen_train_b2.pickle.gz {asked} --format json"));
        let text = document.to_string();
        assert!(!text.contains("on purpose") && !ids(&document).contains(&"raise-limit"), "{asked}: {text}");
    }
    let limit = json("explain qwen_train_b2.pickle.gz --capacity 24GiB --format json");
    let card = json("explain qwen_train_b2.pickle.gz --card 24GiB --format json");
    let text = |document: &Value| document["diagnosis"]["text"].as_str().unwrap().to_owned();
    assert!(text(&limit).starts_with("with a limit of 24.00 GiB this program runs out of memory"), "{}", text(&limit));
    assert!(text(&card).starts_with("on a GPU with 24.00 GiB, of which 23.28 GiB is for PyTorch,"), "{}", text(&card));
    let failure = &card["failures"][0];
    let context = 742 << 20;
    assert_eq!(failure["simulated_card_bytes"], 24_u64 << 30);
    assert_eq!(failure["simulated_capacity_bytes"], (24_u64 << 30) - context);
    // As in `simulate`.
    let run = json("simulate qwen_train_b2.pickle.gz --card 24GiB --format json");
    assert_eq!(failure["entry"], run["runs"][0]["oom_entry"]);
    let refusal = crate::run::failure("explain qwen_train_b2.pickle.gz --card rtx1");
    assert!(refusal.contains("neither a size nor a known GPU"), "{refusal}");
}

#[test]
fn a_step_that_fails_in_the_middle_is_carried_on() {
    let document = json("explain ../oom/layers.pickle.gz --format json");
    let whole = &document["failures"][0]["whole_step"];
    assert_eq!((&whole["basis"], &whole["phase"]), (&Value::from("layers"), &Value::from("forward")));
    let text = stdout("explain ../oom/layers.pickle.gz").replace('\n', " ");
    assert!(text.contains("The whole step needs") && text.contains(" of 8, each of which keeps"), "{text}");
    assert!(!text.contains("less would have been enough"), "{text}");
    // What the recording holds fits in more; the program may not.
    let more = stdout("explain ../oom/layers.pickle.gz --capacity 16GiB").replace('\n', " ");
    assert!(!more.contains("the program fits") && more.contains("a request failed in the recording"), "{more}");
    for command in ["report", "simulate"] {
        let text = stdout(&format!("{command} ../oom/layers.pickle.gz")).replace('\n', " ");
        assert!(text.contains("whole step needs"), "{command}: {text}");
    }
}

/// The logs of `testdata/messages/answers`, by their paths.
fn answered_logs() -> Vec<std::path::PathBuf> {
    let folder = highwater_testkit::testdata("messages/answers");
    let mut logs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.sort();
    logs
}

#[test]
fn several_logs_are_explained_one_after_the_other() {
    let folder = highwater_testkit::testdata("messages");
    let of = |names: &[&str]| {
        let files = names.iter().map(|name| folder.join(format!("{name}.log")));
        command().arg("explain").args(files).output().unwrap()
    };
    let output = of(&["torch_2_9", "no_message", "answers/triton"]);
    let (text, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0));
    assert!(text.starts_with("torch_2_9.log") && text.contains("\ntriton.log, line 1: "), "{text}");
    assert!(errors.contains("no_message.log` contains no known out-of-memory error"), "{errors}");
    assert_eq!(of(&["no_message", "only_a_mention"]).status.code(), Some(2));
}

/// A comment on an issue has room for 40 lines.
#[test]
fn markdown_is_short_whatever_failed() {
    let output = command().args(["explain", "--format", "markdown"]).args(answered_logs()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut answers, mut lines) = (0, 0);
    for line in text.lines() {
        if line.starts_with("### ") {
            (answers, lines) = (answers + 1, 0);
        }
        lines += 1;
        assert!(lines <= 40, "{line}");
    }
    assert_eq!(answers, answered_logs().len());
}

/// A refusal of vLLM beside the forecast, where the log has the GPU's memory; where it has not, that is said.
#[test]
fn a_refusal_stands_beside_the_forecast() {
    let folder = tempfile::tempdir().unwrap();
    let explained = |memory: &str| -> Value {
        let log = folder.path().join("serve.log");
        let text = format!(
            "INFO [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='meta-llama/Llama-3.1-8B-Instruct', \
             dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=1, kv_cache_dtype=auto\n\
             INFO [gpu_model_runner.py:2653] Model loading took 14.9889 GiB and 6.2 seconds\n\
             INFO [gpu_worker.py:298] Available KV cache memory: 4.86 GiB\n{memory}\
             ERROR [core.py:708] ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is \
             needed, which is larger than the available KV cache memory (4.86 GiB). Based on the available memory, the estimated maximum \
             model length is 39808.\n"
        );
        std::fs::write(&log, text).unwrap();
        let output = command().args(["explain", "--format", "json"]).arg(&log).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let without = explained("");
    assert!(without["no_forecast"].as_str().unwrap().contains("does not name the GPU's memory"), "{without}");
    assert_eq!(without["forecast"], Value::Null);
    let with = explained(
        "INFO [gpu_worker.py:391] Free memory on device (23.30/23.52 GiB) on startup. Desired GPU memory utilization is (0.9, 21.17 GiB).\n",
    );
    let terms = with["forecast"]["terms"].as_array().unwrap();
    let cache = terms.iter().find(|term| term["term"] == "cache").unwrap();
    let number = |name: &str| cache[name].as_f64().unwrap();
    assert!((number("forecast") / number("printed") - 1.0).abs() < 0.02, "{cache}");
}
