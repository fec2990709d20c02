//! What findings claim, against what the change brought on an H200: `testdata/findings/README.md`.

use highwater_analysis::{Analysis, analyse};
use highwater_findings::{self, Finding, IDS};
use highwater_snapshot::Snapshot;
use highwater_testkit::{json, open, repository, testdata};
use highwater_units::size;

fn findings_of(analysis: &Analysis<'_>) -> Vec<Finding> {
    analysis.devices.iter().flat_map(|device| highwater_findings::findings(analysis, device)).collect()
}

/// What the change brought, in bytes of the allocated peak.
fn measured(name: &str) -> u64 {
    measured_of(name, "peak_allocated")
}

/// What the change brought, of one of the measurements. Recordings of one program in other styles have its name and the style.
fn measured_of(name: &str, what: &str) -> u64 {
    let json = json(&testdata("findings/measured.json"));
    let styles = ["_all", "_late"].into_iter().filter_map(|style| name.strip_suffix(style));
    let program = styles.chain([name]).find(|&program| json.get(program).is_some()).expect("it was measured");
    let of = |side: &str| json[program][side][what].as_u64().expect("a number");
    of("with").saturating_sub(of("without"))
}

/// A saving is within so many percent of what was measured.
#[track_caller]
fn assert_near(name: &str, saving: u64, percent: u64) {
    let measured = measured(name);
    let off = saving.abs_diff(measured);
    assert!(off <= measured / 100 * percent, "{name}: {saving} claimed, {measured} measured");
}

#[track_caller]
fn assert_found(name: &str, id: &str, percent: u64) {
    let snapshot = open(&format!("findings/{name}"));
    let found = findings_of(&analyse(&snapshot));
    let finding = found.iter().find(|finding| finding.id == id);
    let finding = finding.unwrap_or_else(|| panic!("{name}: no {id} in {found:#?}"));
    assert_near(name, finding.saving_bytes.expect("it claims a saving"), percent);
    assert!(finding.change.is_some(), "{name}: nothing to change");
}

#[test]
fn gradients_that_are_kept_cost_what_was_measured() {
    assert_found("zero_grad_gpt2", "gradients-kept", 1);
    assert_found("zero_grad_before_backward", "gradients-kept", 1);
    assert_found("lstm_zero", "gradients-kept", 1);
    // With `None`, some gradients are copied as they are kept: that is not in the recording.
    assert_found("zero_grad_begin_resnet", "gradients-kept", 5);
}

#[test]
fn what_the_optimizer_makes_costs_what_was_measured() {
    assert_found("foreach_adamw_gpt2", "optimizer-intermediates", 1);
    assert_found("foreach_sgd_clip", "optimizer-intermediates", 1);
    // Of an optimizer without a fused form, what one parameter needs is an estimate.
    assert_found("foreach_rmsprop_mlp", "optimizer-intermediates", 16);
    assert_found("nadam_loop", "optimizer-intermediates", 1);
}

#[test]
fn weights_that_are_there_twice_cost_what_was_measured() {
    assert_found("load_state_dict_on_gpu", "loading-copies", 1);
    assert_found("load_state_dict_kept", "weights-twice", 1);
}

#[test]
fn inputs_that_need_not_be_there_cost_what_was_measured() {
    assert_found("dataset_on_device", "data-on-device", 1);
    assert_found("dataset_loader", "data-on-device", 1);
    assert_found("prefetch_queue", "device-prefetch", 1);
}

#[test]
fn leaks_and_cycles_cost_what_was_measured() {
    assert_found("leak_total_loss", "growth", 1);
    assert_found("cycle_exception", "garbage-collector", 1);
    assert_found("cycle_in_loop", "garbage-collector", 6);
    // No collection was recorded, so these cycles are growth.
    assert_found("cycle_trainer", "growth", 2);
    assert_found("eval_late", "freed-late", 1);
}

#[test]
fn estimates_are_near_what_was_measured() {
    assert_found("checkpoint_gpt2", "checkpointing", 3);
    assert_found("checkpoint_sequential_mlp", "checkpointing", 5);
    assert_found("checkpoint_vit_own", "checkpointing", 12);
    assert_found("t5_checkpoint", "checkpointing", 8);
    assert_found("logits_llama_bf16", "logits-copies", 10);
    assert_found("logits_own_fp32", "logits-copies", 30);
    assert_found("autocast_resnet", "mixed-precision", 10);
}

#[test]
fn attention_in_full_costs_what_was_measured() {
    // With Python stacks alone, with operators' names, and begun amid the run.
    for name in ["attention_own", "attention_own_all", "attention_own_late"] {
        assert_found(name, "attention-matrices", 5);
    }
    assert_found("attention_functions", "attention-matrices", 2);
    assert_found("attention_functions_all", "attention-matrices", 5);
    assert_found("attention_weights", "attention-matrices", 5);
    assert_found("attention_weights_all", "attention-matrices", 5);
}

/// Dry runs of this program and of one that calls `F.scaled_dot_product_attention` instead peak at these bytes.
#[test]
fn attention_in_full_is_found_in_compiled_code() {
    let found = findings_of(&analyse(&open("wild/compiled_named_one")));
    let finding = found.iter().find(|finding| finding.id == "attention-matrices").expect("it is found");
    let (measured, saving) = (1_369_131_008 - 917_334_016_u64, finding.saving_bytes.expect("a saving"));
    assert!(saving.abs_diff(measured) <= measured / 5, "{saving} claimed, {measured} measured");
    assert!(finding.detail.contains("compiled_named.py:9 attention"), "{}", finding.detail);
}

#[test]
fn one_hot_rows_cost_what_was_measured() {
    for name in ["one_hot_loss", "one_hot_loss_all", "one_hot_loss_late"] {
        assert_found(name, "one-hot", 2);
    }
    // Without names, a cast of 64-bit numbers may be one of random integers.
    assert_found("one_hot_embedding_all", "one-hot", 2);
}

#[test]
fn copies_that_autocast_keeps_cost_what_was_measured() {
    for name in ["autocast_cache", "autocast_cache_all", "autocast_cache_late"] {
        assert_found(name, "autocast-cache", 2);
    }
}

#[test]
fn memory_that_is_free_on_another_stream_costs_what_was_measured() {
    let snapshot = open("findings/side_stream");
    let found = findings_of(&analyse(&snapshot));
    let finding = found.iter().find(|finding| finding.id == "idle-stream").expect("it is found");
    assert_eq!(finding.saving_bytes, Some(measured_of("side_stream", "peak_reserved")));
}

#[test]
fn a_large_tensor_in_parts_costs_what_was_measured() {
    assert_found("large_tensor", "large-tensor", 2);
    assert_found("large_tensor_all", "large-tensor", 2);
}

#[test]
fn an_uneven_device_costs_what_was_measured() {
    assert_found("two_devices", "imbalance", 15);
    assert_found("two_devices_late", "imbalance", 15);
    // One device of several that holds as much as the others.
    for name in ["findings/two_devices", "recordings/annotated"] {
        let snapshot = open(name);
        let analysis = analyse(&snapshot);
        let first = highwater_findings::findings(&analysis, &analysis.devices[0]);
        assert!(first.iter().all(|finding| finding.id != "imbalance"), "{name}: {first:#?}");
    }
}

#[test]
fn settings_save_in_a_recording_that_began_late_what_was_measured() {
    let measured = measured_of("lengths_late", "peak_reserved");
    for (name, estimated) in [("lengths_late", false), ("lengths_late_late", true)] {
        let snapshot = open(&format!("findings/{name}"));
        let found = findings_of(&analyse(&snapshot));
        let finding = found.iter().find(|finding| finding.id == "allocator-settings");
        let finding = finding.unwrap_or_else(|| panic!("{name}: {found:#?}"));
        let saving = finding.saving_bytes.expect("it claims a saving");
        // Of what came before, the worse is taken: no more is claimed than there is.
        let least = if estimated { measured / 100 * 95 } else { measured };
        assert!((least..=measured).contains(&saving), "{name}: {saving} claimed, {measured} measured");
        assert_eq!(finding.estimated, estimated, "{name}");
        assert_eq!(finding.detail.contains("before the recording"), estimated, "{name}: {}", finding.detail);
    }
}

#[test]
fn retries_are_counted_and_bound_what_there_was() {
    /// The limit that the recipe sets.
    const LIMIT_BYTES: u64 = 1000 << 20;
    let json = json(&testdata("findings/measured.json"));
    let retries = json["retries"]["with"]["num_alloc_retries"].as_u64().expect("a number");
    assert_eq!(retries, 2, "one of them before `retries_late` begins");
    for (name, title, less_than) in [
        ("retries", "2 requests succeeded only after the allocator had emptied its cache", 1006 << 20),
        ("retries_late", "one request succeeded only after the allocator had emptied its cache", 1036 << 20),
    ] {
        let snapshot = open(&format!("findings/{name}"));
        let analysis = analyse(&snapshot);
        let found = findings_of(&analysis);
        let finding = found.iter().find(|finding| finding.id == "allocation-retries");
        let finding = finding.unwrap_or_else(|| panic!("{name}: {found:#?}"));
        assert_eq!(finding.title, title, "{name}");
        let reserved = analysis.devices[0].timeline.reserved_peak().bytes;
        assert!((reserved..less_than).contains(&LIMIT_BYTES), "{name}");
        let bound = format!("at least {} here, and less than {},", size(reserved), size(less_than));
        assert!(finding.detail.contains(&bound), "{name}: {}", finding.detail);
    }
}

#[test]
fn what_is_free_at_the_dump_can_be_given_back() {
    let snapshot = open("findings/state_free");
    let found = findings_of(&analyse(&snapshot));
    let finding = found.iter().find(|finding| finding.id == "free-at-dump").expect("it is told");
    assert_eq!(finding.saving_bytes, Some(measured_of("state_free", "reserved")));
    assert!(!finding.estimated);
}

#[test]
fn nothing_but_attention_is_taken_for_it() {
    let (mut files, mut named) = (0, Vec::new());
    for folder in ["findings", "recordings", "replays", "categories", "batches"] {
        let Ok(folder) = std::fs::read_dir(testdata(folder)) else { continue };
        for file in folder.flatten().map(|file| file.path()) {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            if !name.ends_with(".pickle.gz") {
                continue;
            }
            let snapshot = Snapshot::open(&file).expect("the recording reads");
            files += 1;
            for finding in findings_of(&analyse(&snapshot)) {
                let is_new = ["attention-matrices", "one-hot", "autocast-cache", "imbalance"];
                let is_paired = is_new.iter().zip(["attention", "one_hot", "autocast_cache", "two_devices"]);
                if is_paired.into_iter().any(|(&id, program)| finding.id == id && !name.starts_with(program)) {
                    named.push(format!("{name}: {}", finding.id));
                }
            }
        }
    }
    // `nn.MultiheadAttention` makes them, for weights that nobody asks for.
    assert_eq!(named, ["checkpoint_vit_own.pickle.gz: attention-matrices"]);
    assert!(files > 60, "{files} recordings were looked at");
}

#[test]
fn habits_that_cost_nothing_are_not_accused() {
    for (name, not) in [
        ("accumulate", "gradients-kept"),
        ("cleared_lists", "garbage-collector"),
        ("prefetch_queue", "growth"),
        ("prefetch_one", "device-prefetch"),
        ("prefetch_one", "growth"),
        ("inference_bf16", "mixed-precision"),
        ("adam_moments", "mixed-precision"),
        ("foreach_sgd_clip", "gradients-kept"),
    ] {
        let snapshot = open(&format!("findings/{name}"));
        let found = findings_of(&analyse(&snapshot));
        assert!(found.iter().all(|finding| finding.id != not), "{name}: {found:#?}");
    }
}

#[test]
fn a_cache_that_is_emptied_in_the_loop_is_found() {
    let snapshot = open("findings/empty_cache_each");
    let found = findings_of(&analyse(&snapshot));
    assert!(found.iter().any(|finding| finding.id == "empty-cache"), "{found:#?}");
}

#[test]
fn settings_are_advised_instead_of_telling_of_reserved_memory_that_is_unused() {
    let snapshot = open("findings/varlen_random");
    let found = findings_of(&analyse(&snapshot));
    let of = |id| found.iter().find(|finding| finding.id == id);
    assert!(of("allocator-settings").unwrap().change.as_ref().unwrap().contains("expandable_segments:True"));
    assert!(of("varying-shapes").unwrap().title.contains("24 sizes"));
    assert!(of("reserved-unused").is_none(), "the settings say it");
}

#[test]
fn the_garbage_collector_is_recognised_in_reference_cycles() {
    let snapshot = open("recordings/reference_cycles");
    let found = findings_of(&analyse(&snapshot));
    let garbage = found.iter().find(|finding| finding.id == "garbage-collector").expect("it is recognised");
    // Twenty-three tensors, of which one would be there at a time: the last is as large as the others' successor.
    assert_eq!(garbage.saving_bytes, Some(78 << 20));
}

#[test]
fn the_loss_that_is_kept_is_named() {
    let snapshot = open("recordings/leak_grows");
    let found = findings_of(&analyse(&snapshot));
    let growth = found.iter().find(|finding| finding.id == "growth").expect("it grows");
    assert!(growth.detail.contains("the loss itself, allocated at capture.py:252 step"), "{}", growth.detail);
    assert!(growth.change.as_ref().unwrap().contains("loss.item()"));
}

#[test]
fn gradients_that_hooks_keep_grow() {
    for style in ["start", "late"] {
        let found = findings_of(&analyse(&open(&format!("wild/leak_backhook_{style}"))));
        let growth = found.iter().find(|finding| finding.id == "growth").expect("it grows");
        assert!(growth.change.as_ref().unwrap().contains("register_full_backward_hook"), "{style}");
    }
}

#[test]
fn a_loss_that_is_kept_is_named_though_it_is_small() {
    let snapshot = open("findings/leak_dict");
    let found = findings_of(&analyse(&snapshot));
    let growth = found.iter().find(|finding| finding.id == "growth").expect("it grows");
    assert!(growth.detail.contains("the loss itself"), "{}", growth.detail);
    // Fourteen losses, a block of 512 bytes each; the last is there in any case.
    assert_eq!(growth.saving_bytes, Some(13 * 512));
}

#[test]
fn every_finding_has_its_page() {
    let pages = repository("docs/findings");
    let list = std::fs::read_to_string(pages.join("README.md")).expect("there is a list");
    for id in IDS {
        let page = std::fs::read_to_string(pages.join(format!("{id}.md"))).unwrap_or_default();
        assert!(page.starts_with("# ") && page.lines().next().unwrap().ends_with(&format!("(`{id}`)")), "{id}");
        assert!(list.contains(&format!("({id}.md)")), "{id} is not in the list");
    }
}
