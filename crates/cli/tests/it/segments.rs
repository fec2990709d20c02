//! `highwater segments`.

use serde_json::Value;

use crate::run::{json, memory_stats, stdout};

#[test]
fn the_map_begins_with_totals_and_ends_with_the_legend() {
    insta::assert_snapshot!(stdout("segments linear_forward.pickle.gz"), @r"
        device 0: 7 segments, 4.13 GiB reserved
          allocated      3.01 GiB
          awaiting free       0 B
          free           1.12 GiB  2.07 MiB of it inactive split: in segments that are in use

        default pool, stream 0
          address         type         size      active        free  blocks  map
          0x7f8b7e000000  large  954.00 MiB         0 B  954.00 MiB       1  ················································
          0x7f8bba000000  large  192.00 MiB         0 B  192.00 MiB       1  ················································
          0x7f8bca000000  large   32.00 MiB   32.00 MiB         0 B       1  ████████████████████████████████████████████████
          0x7f8bd0000000  large  954.00 MiB  954.00 MiB         0 B       1  ████████████████████████████████████████████████
          0x7f8c0c000000  large  192.00 MiB  190.73 MiB    1.27 MiB       2  ███████████████████████████████████████████████▄
          0x7f8c18000000  large    1.86 GiB    1.86 GiB         0 B       1  ████████████████████████████████████████████████
          0x7f8c8f400000  small    2.00 MiB    1.19 MiB  828.50 KiB       3  ████████████████████████████▄···················

        █ allocated  ▄ partly allocated  ~ awaiting free  · free
    ");
}

#[test]
fn blocks_are_listed_with_their_owners() {
    insta::assert_snapshot!(stdout("segments linear_forward.pickle.gz --blocks --sort free --limit 1"), @r"
    device 0: 7 segments, 4.13 GiB reserved
      allocated      3.01 GiB
      awaiting free       0 B
      free           1.12 GiB  2.07 MiB of it inactive split: in segments that are in use

    default pool, stream 0
      address         type         size  active        free  blocks  map
      0x7f8b7e000000  large  954.00 MiB     0 B  954.00 MiB       1  ················································
        0x7f8b7e000000   954.00 MiB  free
      … 6 more segments; `--top 0` shows all

    █ allocated  ▄ partly allocated  ~ awaiting free  · free
    ");
    let blocks = stdout("segments ../layouts/several_devices.pickle --device 0 --blocks");
    assert!(
        blocks.contains("0x7f4000000400        512 B  awaiting free          4 B requested  train.py:12 step"),
        "{blocks}"
    );
}

#[test]
fn private_pools_expandable_segments_and_host_memory_are_marked() {
    insta::assert_snapshot!(stdout("segments ../layouts/torch_2_14.pickle"), @r"
        device 0: 3 segments, 26.00 MiB reserved
          allocated      20.00 MiB
          awaiting free      512 B
          free            6.00 MiB  2.00 MiB of it inactive split: in segments that are in use

        default pool, stream 0
          address         type             size     active      free  blocks  map
          0x7f4000000000  small        2.00 MiB   1.50 KiB  2.00 MiB       3  ▄···············································
          0x7f4040000000  expandable  22.00 MiB  20.00 MiB  2.00 MiB       2  ███████████████████████████████████████████▄····

        private pool (1, 0), stream 21968
          address         type       size  active      free  blocks  map
          0x7f4080000000  small  2.00 MiB     0 B  2.00 MiB       1  ················································

        █ allocated  ▄ partly allocated  ~ awaiting free  · free
        pinned host memory: 1 segment, 4.00 KiB
    ");
}

#[test]
fn totals_are_those_of_memory_stats() {
    for recording in ["linear_forward", "fuzz_expandable", "cuda_graph_pools", "multi_stream", "qwen_train_b16"] {
        let document = json(&format!("segments {recording}.pickle.gz --format json"));
        let device = &document["devices"][0];
        for key in ["requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes", "inactive_split_bytes"] {
            let truth = memory_stats(recording, &format!("{key}.all.current"));
            assert_eq!(device[key].as_u64(), Some(truth), "{recording} {key}");
        }
    }
}

#[test]
fn json_holds_every_segment_and_block() {
    let document = json("segments linear_forward.pickle.gz --format json");
    assert_eq!((&document["format"], &document["version"]), (&Value::from("highwater-segments"), &Value::from(1)));
    let segments = document["devices"][0]["segments"].as_array().unwrap();
    assert_eq!(segments.len(), 7);
    let mut last = segments[6].clone();
    let frames = last["blocks"][0]["frames"].take();
    assert_eq!(frames.as_array().unwrap().len(), 4);
    last["blocks"].as_array_mut().unwrap().truncate(1);
    insta::assert_snapshot!(format!("{last:#}"), @r#"
        {
          "active_bytes": 1248768,
          "address": 140241675485184,
          "allocated_bytes": 1248768,
          "blocks": [
            {
              "address": 140241675485184,
              "frames": null,
              "requested_bytes": 200000,
              "size_bytes": 200192,
              "state": "active_allocated"
            }
          ],
          "frames": [],
          "free_bytes": 848384,
          "is_expandable": false,
          "pool": [
            0,
            0
          ],
          "requested_bytes": 1248576,
          "size_bytes": 2097152,
          "stream": 0,
          "type": "small"
        }
    "#);
}

#[test]
fn states_have_the_names_of_the_other_commands() {
    let document = json("segments ../layouts/several_devices.pickle --device 0 --format json");
    let blocks = document["devices"][0]["segments"][0]["blocks"].as_array().unwrap();
    let states: Vec<_> = blocks.iter().map(|block| block["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["active_allocated", "active_awaiting_free", "inactive"]);
}

#[test]
fn segments_are_sorted_as_asked() {
    let column = |sort: &str, key: &str| -> Vec<u64> {
        let document = json(&format!("segments linear_forward.pickle.gz --sort {sort} --format json"));
        let segments = document["devices"][0]["segments"].as_array().unwrap();
        segments.iter().map(|segment| segment[key].as_u64().unwrap()).collect()
    };
    assert!(column("address", "address").is_sorted());
    assert!(column("size", "size_bytes").is_sorted_by(|a, b| a >= b));
    assert!(column("free", "free_bytes").is_sorted_by(|a, b| a >= b));
}
