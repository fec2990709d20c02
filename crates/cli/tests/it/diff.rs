//! `highwater diff`.

use crate::run::{failure, json, stdout};

#[test]
fn two_dumps_of_one_process_are_compared_at_their_ends() {
    insta::assert_snapshot!(stdout("diff oom_gpt2_8gib.at_oom.pickle.gz oom_gpt2_8gib.pickle.gz --top 2"), @"
    A  oom_gpt2_8gib.at_oom.pickle.gz
    B  oom_gpt2_8gib.pickle.gz

    Device 0, each at its dump: two dumps of one process, 746 entries apart
                             A          B              change
      peak requested  7.86 GiB   7.86 GiB                none
      peak allocated  7.86 GiB   7.86 GiB                none
      peak reserved   7.87 GiB   7.87 GiB                none
      allocated then  7.86 GiB  33.00 MiB  -7.83 GiB  -99.6 %
      reserved then   7.87 GiB   7.87 GiB                none

         change         A          B   count  where
      -3.00 GiB  3.00 GiB        0 B  12 → 0  activations.py:66 forward ← modeling_gpt2.py:240 forward
      -1.50 GiB  1.53 GiB  33.00 MiB   9 → 2  pytorch_utils.py:119 forward ← modeling_gpt2.py:185 forward
      … and 21 call sites more; `--top 23` shows all
    ");
}

#[test]
fn two_programs_are_compared_at_their_peaks() {
    insta::assert_snapshot!(stdout("diff cuda_graph_pools.pickle.gz linear_forward.pickle.gz --top 2"), @"
    A  cuda_graph_pools.pickle.gz
    B  linear_forward.pickle.gz

    Device 0, each at its peak
                                      A         B               change
      peak requested         438.13 MiB  4.13 GiB  +3.70 GiB  +865.3 %
      peak allocated         438.13 MiB  4.13 GiB  +3.70 GiB  +865.6 %
      peak reserved          476.00 MiB  4.13 GiB  +3.67 GiB  +789.5 %
      allocated at the dump  438.13 MiB  3.01 GiB  +2.59 GiB  +604.3 %

         change    A         B  count  where
      +1.90 GiB  0 B  1.90 GiB  0 → 4  capture.py:133 linear_forward ← capture.py:353 main
      +1.86 GiB  0 B  1.86 GiB  0 → 2  capture.py:130 linear_forward ← capture.py:353 main
      … and 7 call sites more; `--top 9` shows all
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
fn a_moment_or_a_file_that_is_not_there_is_said() {
    assert!(failure("diff linear_forward.pickle.gz nix.pickle").starts_with("error: `nix.pickle` cannot be read"));
    assert!(failure("diff linear_forward.pickle.gz linear_forward.pickle.gz --at noon").contains("`iteration:N`"));
    let said = failure("diff linear_forward.pickle.gz leak_grows.pickle.gz --at iteration:4");
    assert!(said.starts_with("error: `linear_forward.pickle.gz` has no iteration 4 on device 0"), "{said}");
    let said = failure("diff linear_forward.pickle.gz linear_forward.pickle.gz --device 7");
    assert!(said.contains("no such device in common"), "{said}");
}
