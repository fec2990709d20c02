//! `highwater diff`.

use crate::run::{failure, json, memory_stats, stdout};

#[test]
fn two_dumps_of_one_process_are_compared_at_their_ends() {
    insta::assert_snapshot!(stdout("diff oom_gpt2_8gib.at_oom.pickle.gz oom_gpt2_8gib.pickle.gz --top 2"), @r"
    A  oom_gpt2_8gib.at_oom.pickle.gz
    B  oom_gpt2_8gib.pickle.gz

    Device 0, each at its dump: two dumps of one process, 746 entries apart
                             A          B              change
      peak requested  7.86 GiB   7.86 GiB                none
      peak allocated  7.86 GiB   7.86 GiB                none
      peak reserved   7.87 GiB   7.87 GiB                none
      allocated then  7.86 GiB  33.00 MiB  -7.83 GiB  -99.6 %
      reserved then   7.87 GiB   7.87 GiB                none

    By category
      category             A          B                 change
      parameter     1.32 GiB        0 B    -1.32 GiB  -100.0 %
      activation    6.31 GiB        0 B    -6.31 GiB  -100.0 %
      input       128.50 KiB      512 B            -128.00 KiB
      temporary   208.13 MiB        0 B  -208.13 MiB  -100.0 %
      workspace    33.00 MiB  33.00 MiB                   none

    By call site
         change         A          B   count  where
      -3.00 GiB  3.00 GiB        0 B  12 → 0  activations.py:66 forward, from capture.py:117 train
      -1.50 GiB  1.53 GiB  33.00 MiB   9 → 2  pytorch_utils.py:119 forward, from capture.py:117 train
      … and 21 more call sites; `--top 23` shows all
    ");
}

#[test]
fn two_programs_are_compared_at_their_peaks() {
    insta::assert_snapshot!(stdout("diff cuda_graph_pools.pickle.gz linear_forward.pickle.gz --top 2"), @r"
    A  cuda_graph_pools.pickle.gz
    B  linear_forward.pickle.gz

    Device 0, each at its peak
                                      A         B               change
      peak requested         438.13 MiB  4.13 GiB  +3.70 GiB  +865.3 %
      peak allocated         438.13 MiB  4.13 GiB  +3.70 GiB  +865.6 %
      peak reserved          476.00 MiB  4.13 GiB  +3.67 GiB  +789.5 %
      allocated at the dump  438.13 MiB  3.01 GiB  +2.59 GiB  +604.3 %

    By category
      category             A           B                  change
      parameter   128.06 MiB    1.86 GiB    +1.74 GiB  +1390.0 %
      gradient    128.06 MiB         0 B   -128.06 MiB  -100.0 %
      activation   41.00 MiB         0 B    -41.00 MiB  -100.0 %
      input         4.00 MiB  381.47 MiB  +377.47 MiB  +9434.4 %
      temporary    24.00 MiB    1.86 GiB    +1.84 GiB  +7850.0 %
      workspace    65.00 MiB   33.00 MiB     -32.00 MiB  -49.2 %
      unknown      48.00 MiB         0 B    -48.00 MiB  -100.0 %

    By call site
         change    A         B  count  where
      +1.90 GiB  0 B  1.90 GiB  0 → 4  capture.py:133 linear_forward
      +1.86 GiB  0 B  1.86 GiB  0 → 2  capture.py:130 linear_forward
      … and 7 more call sites; `--top 9` shows all
    ");
}

#[test]
fn a_recording_does_not_differ_from_itself() {
    let document = json("diff linear_forward.pickle.gz linear_forward.pickle.gz --format json");
    assert_eq!(document["settings"], serde_json::json!([]));
    let sites = document["devices"][0]["call_sites"].as_array().unwrap();
    assert!(!sites.is_empty());
    assert!(sites.iter().all(|site| site["change_bytes"] == 0 && site["bytes"][0] == site["bytes"][1]));
}

#[test]
fn the_sites_add_up_to_the_totals_of_each_file() {
    let document = json("diff cuda_graph_pools.pickle.gz linear_forward.pickle.gz leak_grows.pickle.gz --format json");
    let device = &document["devices"][0];
    for (i, side) in device["sides"].as_array().unwrap().iter().enumerate() {
        let sites = device["call_sites"].as_array().unwrap();
        let sum: u64 = sites.iter().map(|site| site["bytes"][i].as_u64().unwrap()).sum();
        assert_eq!(side["allocated_bytes"], sum, "file {i}");
    }
}

#[test]
fn the_categories_add_up_to_the_totals_of_each_file() {
    for at in ["peak", "end", "iteration:1"] {
        let line = format!("diff qwen_train_b2.pickle.gz qwen_train_b16.pickle.gz --at {at} --format json");
        let device = &json(&line)["devices"][0];
        let categories = device["categories"].as_array().unwrap();
        assert!(categories.len() > 4, "{at}: {categories:?}");
        for (i, side) in device["sides"].as_array().unwrap().iter().enumerate() {
            let sum: u64 = categories.iter().map(|category| category["bytes"][i].as_u64().unwrap()).sum();
            assert_eq!(side["allocated_bytes"], sum, "{at}, file {i}");
        }
        for category in categories {
            let bytes = |i: usize| category["bytes"][i].as_i64().unwrap();
            assert_eq!(category["change_bytes"], bytes(1) - bytes(0), "{at}: {category}");
        }
    }
}

#[test]
fn two_batch_sizes_make_a_line() {
    insta::assert_snapshot!(
        stdout("diff qwen_train_b2.pickle.gz qwen_train_b16.pickle.gz --top 2 --rows 2,16 --capacity 80GiB"),
        @r"
        A  qwen_train_b2.pickle.gz
        B  qwen_train_b16.pickle.gz

        Device 0, each at its peak
                                         A          B               change
          peak requested         28.82 GiB  43.79 GiB  +14.97 GiB  +51.9 %
          peak allocated         28.82 GiB  43.79 GiB  +14.98 GiB  +52.0 %
          peak reserved          31.13 GiB  50.08 GiB  +18.96 GiB  +60.9 %
          allocated at the dump  17.32 GiB  17.32 GiB            +7.53 MiB

        By category
          category                 A          B               change
          parameter         5.75 GiB   5.75 GiB                 none
          gradient          5.75 GiB      512 B  -5.75 GiB  -100.0 %
          optimizer state  11.50 GiB  11.51 GiB    +7.50 MiB  +0.1 %
          activation             0 B  23.26 GiB           +23.26 GiB
          input             4.50 KiB  32.50 KiB           +28.00 KiB
          temporary         5.75 GiB   3.21 GiB   -2.54 GiB  -44.2 %
          workspace        65.00 MiB  65.00 MiB                 none

        By call site
              change          A          B        count  where
          +11.48 GiB        0 B  11.48 GiB       0 → 84  modeling_qwen2.py:47 forward, from capture.py:144 _seed_qwen
           -5.74 GiB  17.25 GiB  11.51 GiB  1,014 → 676  capture.py:146 _seed_qwen
          … and 13 more call sites; `--top 15` shows all

        Peak by the batch
          batch         peak  recorded
          2 rows   28.82 GiB  A
          4 rows   28.82 GiB
          8 rows   31.01 GiB
          16 rows  43.79 GiB  B
          32 rows  69.37 GiB
          18.22 GiB fixed + 1.60 GiB per row, and at least 28.82 GiB for any batch.
          A line through two points, iteration 2 of each: a recording of a third batch would show whether it
          is really a line.
          At most 38 rows fit in 80.00 GiB; a GPU also needs memory for the allocator's overhead (up to
          6.29 GiB here) and the CUDA context.
        "
    );
}

#[test]
fn the_ratio_of_the_batches_is_told_by_the_inputs() {
    let line = "diff qwen_train_b2.pickle.gz qwen_train_b16.pickle.gz --format json";
    let batch = &json(line)["devices"][0]["batch"];
    assert_eq!((&batch["unit"], &batch["iteration"]), (&"first-batch".into(), &2.into()));
    assert_eq!((&batch["points"][0]["batch"], &batch["points"][1]["batch"]), (&1.0.into(), &8.0.into()));
    // At batch 2 the optimizer has the peak, at batch 16 the backward pass.
    assert_eq!(batch["points"][1]["peak_bytes"], memory_stats("qwen_train_b16", "allocated_bytes.all.peak"));
    assert_eq!(batch["points"][1]["fitted_bytes"], batch["points"][1]["peak_bytes"]);
    assert!(batch["fixed_bytes"].as_u64().unwrap() < batch["floor_bytes"].as_u64().unwrap());
    // The other way round the unit is the larger batch.
    let back = &json("diff qwen_train_b16.pickle.gz qwen_train_b2.pickle.gz --format json")["devices"][0]["batch"];
    assert_eq!(back["points"][1]["batch"], 0.125);
    let slopes = [batch, back].map(|batch| batch["bytes_per_unit"].as_f64().unwrap());
    assert!((slopes[1] / slopes[0] - 8.0).abs() < 1e-9, "{slopes:?}");
    let by_rows = &json(&format!("{line} --rows 2,16 --capacity 80GiB"))["devices"][0]["batch"];
    assert_eq!((&by_rows["unit"], &by_rows["capacity"]["largest_batch"]), (&"row".into(), &38.0.into()));
    let too_little = &json(&format!("{line} --capacity 16GiB"))["devices"][0]["batch"];
    let none: Option<f64> = None;
    assert_eq!(too_little["capacity"], serde_json::json!({"bytes": 16_u64 << 30, "largest_batch": none}));
}

#[test]
fn a_line_is_not_claimed_where_the_batches_are_not_clear() {
    let unclear = |line: &str| {
        let device = json(&format!("diff {line} --format json"))["devices"][0].clone();
        assert!(device["batch"].is_null(), "{line}");
        device["batch_unclear"].as_str().unwrap().to_owned()
    };
    insta::assert_snapshot!(
        [
            unclear("qwen_train_b2.pickle.gz qwen_train_b2.pickle.gz"),
            unclear("oom_gpt2_8gib.at_oom.pickle.gz oom_gpt2_8gib.pickle.gz"),
            unclear("cuda_graph_pools.pickle.gz qwen_train_b2.pickle.gz"),
            unclear("fuzz_expandable.pickle.gz fuzz_gc08split64.pickle.gz"),
        ]
        .join("\n"),
        @"
    the recordings have the same batch size
    the recordings are two dumps of one process
    the inputs and activations of the recordings do not differ by a clear ratio
    the inputs and activations of the recordings do not differ by a clear ratio
    "
    );
    let text = stdout("diff qwen_train_b2.pickle.gz qwen_train_b2.pickle.gz");
    assert!(!text.contains("Peak by the batch"), "{text}");
    let text = stdout("diff qwen_train_b2.pickle.gz qwen_train_b2.pickle.gz --capacity 24GiB");
    assert!(text.contains("Unknown: the recordings have the same batch size."), "{text}");
}

#[test]
fn rows_that_the_inputs_contradict_are_said() {
    let text = stdout("diff qwen_train_b2.pickle.gz qwen_train_b16.pickle.gz --rows 2,8");
    assert!(text.contains("B's batch is 8 times A's, which contradicts `--rows`"), "{text}");
    insta::assert_snapshot!(failure("diff qwen_train_b2.pickle.gz qwen_train_b16.pickle.gz --rows 2"), @"
    error: `--rows` has 1 number for 2 files
    hint: give the rows of each file's batch, in the order of the files: `--rows 8,16`
    ");
    assert!(failure("diff qwen_train_b2.pickle.gz qwen_train_b16.pickle.gz --rows 0,2").contains("--rows"));
}

#[test]
fn a_moment_or_a_file_that_is_not_there_is_said() {
    assert!(failure("diff linear_forward.pickle.gz nix.pickle").starts_with("error: `nix.pickle` cannot be read"));
    assert!(failure("diff linear_forward.pickle.gz linear_forward.pickle.gz --at noon").contains("`iteration:N`"));
    let said = failure("diff linear_forward.pickle.gz leak_grows.pickle.gz --at iteration:4");
    assert!(said.starts_with("error: `linear_forward.pickle.gz` has no iteration 4 on device 0"), "{said}");
    let said = failure("diff linear_forward.pickle.gz linear_forward.pickle.gz --device 7");
    assert!(said.contains("no device in common"), "{said}");
}

#[test]
fn three_batch_sizes_say_how_straight_the_line_is() {
    let files = [8, 32, 96].map(|rows| format!("../batches/resnet18_b{rows}.pickle.gz")).join(" ");
    let text = stdout(&format!("diff {files} --top 1"));
    let (_, batch) = text.split_once("\nPeak by the batch\n").unwrap();
    insta::assert_snapshot!(batch, @"
      batch           peak  recorded
      A's       367.94 MiB  A
      2 × A's   538.60 MiB
      4 × A's   879.92 MiB  B
      8 × A's     1.53 GiB
      12 × A's    2.19 GiB  C
      24 × A's    4.19 GiB
      197.28 MiB fixed + 170.66 MiB per batch of A.
      A line fitted to iteration 2 of each, with an error of at most 7.48 MiB there; it may not continue
      beyond them.
    ");
    let text = stdout(&format!("diff {files} --capacity 1MiB"));
    assert!(text.contains("No batch fits in 1.00 MiB: the peak is "), "{text}");
    let text = stdout(&format!("diff {files} --capacity 4GiB"));
    assert!(text.contains("At most 22.84 times A's batch fits in 4.00 GiB (`--rows` gives it in rows);"), "{text}");
}

#[test]
fn recordings_of_one_device_each_are_compared_whatever_its_number() {
    let text = stdout("diff fsdp2_qwen05b_rank2.pickle.gz annotated.pickle.gz --top 1");
    assert!(text.contains("Devices 2 and 0, each at its peak"), "{text}");
    let document = json("diff fsdp2_qwen05b_rank2.pickle.gz annotated.pickle.gz --format json");
    assert_eq!(document["devices"][0]["devices"], serde_json::json!([2, 0]));
    let named = json("diff fsdp2_qwen05b_rank2.pickle.gz annotated.pickle.gz --device 2,0 --format json");
    assert_eq!(named["devices"], document["devices"]);
    let events = stdout("diff fsdp2_qwen05b_rank2.pickle.gz annotated.pickle.gz --events");
    assert!(events.contains("devices 2 and 0"), "{events}");
    let refusal = failure("diff fsdp2_qwen05b_rank2.pickle.gz annotated.pickle.gz --device 0,1,2");
    assert!(refusal.contains("`--device` has 3 numbers for 2 files"), "{refusal}");
}
