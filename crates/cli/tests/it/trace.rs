//! `highwater trace`.

use crate::run::{failure, json, run_with, stdout};

/// The entry numbers that a filter leaves.
fn entries(line: &str) -> Vec<u64> {
    let document = json(&format!("trace {line} --format json"));
    let devices = document["devices"].as_array().unwrap().iter();
    devices.flat_map(|device| device["entries"].as_array().unwrap()).map(|e| e["entry"].as_u64().unwrap()).collect()
}

#[test]
fn every_entry_is_a_line() {
    insta::assert_snapshot!(stdout("trace linear_forward.pickle.gz"), @r"
        device 0: 26 entries
        entry   seconds  action          address                size  stream  where
            0  0.000000  segment_alloc   0x7f8c18000000     1.86 GiB       0  capture.py:130 linear_forward
            1  0.000003  alloc           0x7f8c18000000     1.86 GiB       0  capture.py:130 linear_forward
            2  0.000367  segment_alloc   0x7f8c8f400000     2.00 MiB       0  capture.py:130 linear_forward
            3  0.000372  alloc           0x7f8c8f400000   195.31 KiB       0  capture.py:130 linear_forward
            4  0.024843  segment_alloc   0x7f8c0c000000   192.00 MiB       0  capture.py:132 linear_forward
            5  0.024846  alloc           0x7f8c0c000000   190.73 MiB       0  capture.py:132 linear_forward
            6  0.030258  segment_alloc   0x7f8bd0000000   954.00 MiB       0  capture.py:133 linear_forward
            7  0.030259  alloc           0x7f8bd0000000   953.67 MiB       0  capture.py:133 linear_forward
            8  0.048914  segment_alloc   0x7f8bca000000    32.00 MiB       0  capture.py:133 linear_forward
            9  0.048919  alloc           0x7f8bca000000    32.00 MiB       0  capture.py:133 linear_forward
           10  0.048932  alloc           0x7f8c8f430e00     1.00 MiB       0  capture.py:133 linear_forward
           11  0.264605  segment_alloc   0x7f8bba000000   192.00 MiB       0  capture.py:132 linear_forward
           12  0.264609  alloc           0x7f8bba000000   190.73 MiB       0  capture.py:132 linear_forward
           13  0.265042  segment_alloc   0x7f8b7e000000   954.00 MiB       0  capture.py:133 linear_forward
           14  0.265042  alloc           0x7f8b7e000000   953.67 MiB       0  capture.py:133 linear_forward
           15  0.265228  free_requested  0x7f8c0c000000   190.73 MiB       0  capture.py:133 linear_forward
           16  0.265229  free_completed  0x7f8c0c000000   190.73 MiB       0  capture.py:133 linear_forward
           17  0.265256  free_requested  0x7f8bd0000000   953.67 MiB       0  capture.py:133 linear_forward
           18  0.265256  free_completed  0x7f8bd0000000   953.67 MiB       0  capture.py:133 linear_forward
           19  0.360336  alloc           0x7f8c0c000000   190.73 MiB       0  capture.py:132 linear_forward
           20  0.360577  alloc           0x7f8bd0000000   953.67 MiB       0  capture.py:133 linear_forward
           21  0.360741  free_requested  0x7f8bba000000   190.73 MiB       0  capture.py:133 linear_forward
           22  0.360741  free_completed  0x7f8bba000000   190.73 MiB       0  capture.py:133 linear_forward
           23  0.360750  free_requested  0x7f8b7e000000   953.67 MiB       0  capture.py:133 linear_forward
           24  0.360750  free_completed  0x7f8b7e000000   953.67 MiB       0  capture.py:133 linear_forward
           25  0.456061  snapshot        -                  3.01 GiB       0  -
    ");
}

#[test]
fn the_document_has_the_words_of_the_lines() {
    let document = json("trace linear_forward.pickle.gz --format json");
    let entries = document["devices"][0]["entries"].as_array().unwrap();
    let places: Vec<_> = entries.iter().map(|entry| entry["place"].as_str().unwrap_or("-")).collect();
    let text = stdout("trace linear_forward.pickle.gz");
    assert_eq!(text.lines().skip(2).count(), places.len());
    assert!(text.lines().skip(2).zip(&places).all(|(line, place)| line.ends_with(place)), "{places:?}");
}

#[test]
fn stacks_stand_below_their_entries() {
    insta::assert_snapshot!(stdout("trace linear_forward.pickle.gz --stacks --from 9 --to 10"), @r"
        device 0: 26 entries
        entry   seconds  action          address                size  stream  where
            9  0.048919  alloc           0x7f8bca000000    32.00 MiB       0  capture.py:133 linear_forward
                 /home/user/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py:134 forward
                 /home/user/venv/lib/python3.12/site-packages/torch/nn/modules/module.py:1790 _call_impl
                 /home/user/venv/lib/python3.12/site-packages/torch/nn/modules/module.py:1779 _wrapped_call_impl
                 /home/user/project/capture.py:133 linear_forward
                 /home/user/project/capture.py:353 main
                 /home/user/project/capture.py:377 <module>
           10  0.048932  alloc           0x7f8c8f430e00     1.00 MiB       0  capture.py:133 linear_forward
                 /home/user/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py:134 forward
                 /home/user/venv/lib/python3.12/site-packages/torch/nn/modules/module.py:1790 _call_impl
                 /home/user/venv/lib/python3.12/site-packages/torch/nn/modules/module.py:1779 _wrapped_call_impl
                 /home/user/project/capture.py:133 linear_forward
                 /home/user/project/capture.py:353 main
                 /home/user/project/capture.py:377 <module>
    ");
}

#[test]
fn an_oom_shows_what_the_device_had_left() {
    insta::assert_snapshot!(stdout("trace oom_whole_gpu.pickle.gz --action oom"), @r"
        device 0: 144 entries
        entry   seconds  action          address                size  stream  where
          142  0.008935  oom             -                  7.00 GiB       0  capture.py:307 _  [2.29 GiB free on the device]
    ");
    let entry = &json("trace oom_whole_gpu.pickle.gz --action oom --format json")["devices"][0]["entries"][0];
    assert_eq!(entry["device_free_bytes"], 2_454_847_488_u64);
    assert_eq!(entry.get("address"), None);
}

#[test]
fn what_is_left_out_is_said() {
    insta::assert_snapshot!(stdout("trace linear_forward.pickle.gz --limit 2"), @r"
    device 0: 26 entries
    entry   seconds  action          address                size  stream  where
        0  0.000000  segment_alloc   0x7f8c18000000     1.86 GiB       0  capture.py:130 linear_forward
        1  0.000003  alloc           0x7f8c18000000     1.86 GiB       0  capture.py:130 linear_forward
    … 24 more entries; `--top 0` shows all
    ");
    let listing = stdout("trace gpt2_compiled.pickle.gz");
    assert_eq!(listing.lines().count(), 1003);
    assert_eq!(listing.lines().last(), Some("… 10,875 more entries; `--top 0` shows all"));
    assert_eq!(stdout("trace gpt2_compiled.pickle.gz --limit 0").lines().count(), 2 + 11_875);
    assert_eq!(entries("gpt2_compiled.pickle.gz").len(), 11_875);
    assert_eq!(stdout("trace linear_forward.pickle.gz --min-size 1TiB"), "device 0: 26 entries\nno entry matches\n");
}

#[test]
fn devices_are_listed_apart() {
    insta::assert_snapshot!(stdout("trace ../layouts/several_devices.pickle"), @r"
        device 0: 7 entries
        entry   seconds  action          address                size  stream  where
            0  0.000000  segment_alloc   0x7f4000000000     2.00 MiB       0  train.py:12 step
            1  0.000001  alloc           0x7f4000000000       1000 B       0  train.py:12 step
            2  0.000002  alloc           0x7f4000000400          4 B       0  train.py:12 step
            3  0.000003  alloc           0x7f4000000600     2.00 KiB       0  train.py:12 step
            4  0.000004  free_requested  0x7f4000000600     2.00 KiB       0  train.py:14 backward
            5  0.000005  free_completed  0x7f4000000600     2.00 KiB       0  train.py:14 backward
            6  0.000006  free_requested  0x7f4000000400          4 B       0  train.py:14 backward

        device 2: 2 entries
        entry   seconds  action          address                size  stream  where
            0  0.000000  segment_alloc   0x7f4100000000    20.00 MiB       0  (no stack recorded)
            1  0.000001  alloc           0x7f4100000000    20.00 MiB       0  (no stack recorded)

        device 3: no entries were recorded
    ");
    assert_eq!(entries("../layouts/several_devices.pickle --device 2"), [0, 1]);
}

#[test]
fn filters_combine() {
    let file = "linear_forward.pickle.gz";
    assert_eq!(entries(&format!("{file} --action alloc --min-size 1GB")), [1, 7, 14, 20]);
    assert_eq!(entries(&format!("{file} --action alloc --min-size 1GB --max-size 1000000000")), [7, 14, 20]);
    assert_eq!(entries(&format!("{file} --action alloc,oom --stack linear.py:109")), [1]);
    assert_eq!(entries(&format!("{file} --stack __init__ --from 1 --to 2")), [1, 2]);
    assert_eq!(entries(&format!("{file} --address 0x7f8c0c000000 --action free_completed")), [16]);
    assert_eq!(entries(&format!("{file} --address 140239473475584 --to 6")), [4, 5]);
    assert_eq!(entries(&format!("{file} --stream 7")), [0u64; 0]);
}

#[test]
fn covering_finds_the_memory_around_an_address() {
    let file = "linear_forward.pickle.gz";
    assert_eq!(entries(&format!("{file} --address 0x7f8c8f430e10")), [0u64; 0]);
    assert_eq!(entries(&format!("{file} --address 0x7f8c8f430e10 --covering")), [2, 10]);
    // One past the end of the block is not in it.
    assert_eq!(entries(&format!("{file} --address 0x7f8c8f530e00 --covering")), [2]);
    assert_eq!(entries(&format!("{file} --address 0 --covering")), [0u64; 0]);
}

#[test]
fn streams_are_named_by_their_handle() {
    let document = json("trace multi_stream.pickle.gz --stream 998887440 --format json");
    let entries = document["devices"][0]["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 580);
    assert!(entries.iter().all(|entry| entry["stream"] == 998_887_440));
}

#[test]
fn json_has_a_format_a_version_and_all_of_an_entry() {
    let line = "trace linear_forward.pickle.gz --action alloc --stack linear.py:112 --redact --format json";
    insta::assert_snapshot!(format!("{:#}", json(line)), @r#"
        {
          "devices": [
            {
              "device": 0,
              "entries": [
                {
                  "action": "alloc",
                  "address": 140241675485184,
                  "entry": 3,
                  "frames": [
                    {
                      "filename": "linear.py",
                      "line": 112,
                      "name": "__init__"
                    },
                    {
                      "filename": "capture.py",
                      "line": 130,
                      "name": "linear_forward"
                    },
                    {
                      "filename": "capture.py",
                      "line": 353,
                      "name": "main"
                    },
                    {
                      "filename": "capture.py",
                      "line": 377,
                      "name": "<module>"
                    }
                  ],
                  "place": "capture.py:130 linear_forward",
                  "size_bytes": 200000,
                  "stream": 0,
                  "time_us": 1795222544148624
                }
              ]
            }
          ],
          "format": "highwater-trace",
          "version": 1,
          "warnings": []
        }
    "#);
}

#[test]
fn pools_metadata_and_unknown_actions_are_shown() {
    let listing = stdout("trace ../layouts/torch_2_12.pickle --from 9 --to 9");
    assert!(listing.contains("[pool 1,0]"), "{listing}");
    let listing = stdout("trace ../layouts/metadata_dict.pickle --from 1 --to 1");
    assert!(listing.contains(r#"# {"layer":3,"name":"attn \"q\""}"#), "{listing}");
    let unknown = run_with("trace ../layouts/unknown_words.pickle --action segment_remap", "");
    assert!(unknown.stdout.contains("    2  0.000002  segment_remap   0x7f4000000400"), "{}", unknown.stdout);
}

#[test]
fn an_unknown_action_is_refused_with_the_known_ones() {
    insta::assert_snapshot!(failure("trace linear_forward.pickle.gz --action aloc"), @r"
        error: `--action aloc` is not an action
        hint: the actions are alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap, snapshot, oom, annotate
    ");
}

#[test]
fn a_snapshot_without_a_trace_says_so() {
    insta::assert_snapshot!(stdout("trace ../layouts/segment_list.pickle"), @"device 0: no entries were recorded");
    assert_eq!(
        run_with("trace -", r#"{"segments": [], "device_traces": []}"#).stdout,
        "Nothing was recorded: the snapshot has neither segments nor trace entries.\n"
    );
}
