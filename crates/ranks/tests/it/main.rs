//! Ranks of real jobs, and of jobs with a planted cause.

use std::path::PathBuf;

use highwater_documents::manifest::ManifestDevice;
use highwater_documents::ranks::{RankView, RanksView};
use highwater_ranks::{Digest, Failure, Manifest, compare, digest};
use highwater_snapshot::Snapshot;
use highwater_testkit::{json_gz, testdata};
use serde_json::json;

/// The digest of `testdata/PATH.pickle.gz`, under another name.
fn read(path: &str, name: &str) -> Digest {
    let snapshot = Snapshot::open(testdata(format!("{path}.pickle.gz"))).expect("it is a snapshot");
    digest(name, &highwater_analysis::analyse(&snapshot))
}

fn compared(files: &[(&str, &str)]) -> RanksView {
    compare(files.iter().map(|(path, name)| read(path, name)).collect(), Vec::new())
}

fn outliers(view: &RanksView) -> Vec<Option<u32>> {
    view.ranks.iter().filter(|rank| rank.is_outlier).map(|rank| rank.rank).collect()
}

fn rank(view: &RanksView, number: u32) -> &RankView {
    view.ranks.iter().find(|rank| rank.rank == Some(number)).expect("it is there")
}

fn sharded() -> Vec<(&'static str, String)> {
    let usual = |rank: u32| ("ranks/fsdp2_qwen05b_rank0", format!("job/rank{rank}.pickle.gz"));
    vec![usual(0), usual(1), ("recordings/fsdp2_qwen05b_rank2", "job/rank2.pickle.gz".to_owned()), usual(3)]
}

#[test]
fn longer_sequences_are_told_with_their_lengths_and_lines() {
    let files = sharded();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, name)| (*path, name.as_str())).collect();
    let view = compared(&files);
    assert_eq!(outliers(&view), [Some(2)]);
    let because = &rank(&view, 2).because[0];
    assert_eq!(because.kind, "longer-sequences");
    assert!(because.sentence.contains("768 tokens against 512"), "{}", because.sentence);
    let explained = rank(&view, 2).peak_allocated_bytes - rank(&view, 0).peak_allocated_bytes;
    assert!(because.delta_bytes.unsigned_abs().abs_diff(explained) < explained / 10, "{because:?}");
    for site in because.call_sites.iter().filter(|site| site.place.contains("loss_utils.py")) {
        // Blocks are rounded to 2 MiB.
        assert!((site.bytes * 2).abs_diff(site.other_bytes * 3) < site.bytes / 50, "{site:?}");
    }
    assert!(because.call_sites.iter().any(|site| site.place.contains("modeling_qwen2.py:47")));
    assert_eq!(view.parallel, ["sharded"]);
    assert_eq!(view.groups.len(), 2);
    assert_eq!(view.groups[1].ranks, [0, 1, 3]);
}

#[test]
fn the_devices_of_one_process_are_compared_and_their_batches_told() {
    let view = compared(&[("ranks/two_gpus_start", "two_gpus.pickle.gz")]);
    assert_eq!(outliers(&view), [Some(1)]);
    let because = &rank(&view, 1).because[0];
    assert_eq!(because.kind, "larger-batch");
    assert!(because.sentence.contains("24 against 2"), "{}", because.sentence);
    assert!(view.imbalance.allocated.is_some_and(|ratio| ratio > 1.5));
}

#[test]
fn the_stages_of_a_pipeline_are_two_roles_and_no_outlier() {
    let view = compared(&[("ranks/pp_1f1b.rank0", "pp.rank0.pickle"), ("ranks/pp_1f1b.rank1", "pp.rank1.pickle")]);
    assert!(outliers(&view).is_empty());
    let roles: Vec<_> = view.ranks.iter().filter_map(|rank| rank.role.as_deref()).collect();
    assert_eq!(roles, ["pipeline stage 1 of 2", "pipeline stage 2 of 2"]);
    assert_eq!(view.parallel, ["pipeline"]);
}

#[test]
fn a_stage_is_told_by_its_optimizer_where_its_parameters_are_miscounted() {
    let of = |stage: u32, rank: u32| read(&format!("ranks/pp_1f1b.rank{stage}"), &format!("pp.rank{rank}.pickle"));
    let mut odd = of(0, 1);
    odd.devices[0].parameters.count += 3;
    let view = compare(vec![of(0, 0), odd, of(1, 2), of(1, 3)], Vec::new());
    let stages: Vec<_> = view.ranks.iter().filter_map(|rank| rank.role.as_deref()).collect();
    let [first, second] = ["pipeline stage 1 of 2", "pipeline stage 2 of 2"];
    assert_eq!(stages, [first, first, second, second]);
}

#[test]
fn a_rank_that_keeps_its_losses_leaks_alone() {
    let names: Vec<(String, String)> =
        (0..3).map(|rank| (format!("ranks/leak.rank{rank}"), format!("leak.rank{rank}.pickle.gz"))).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|(path, name)| (path.as_str(), name.as_str())).collect();
    let view = compared(&files);
    assert_eq!(outliers(&view), [Some(1)]);
    let because = &rank(&view, 1).because[0];
    assert_eq!(because.kind, "leak");
    assert!(because.sentence.contains("the loss is kept"), "{}", because.sentence);
}

#[test]
fn one_planted_rank_of_many_is_found_whatever_the_order() {
    let (usual, odd) = (read("ranks/fsdp2_qwen05b_rank0", ""), read("recordings/fsdp2_qwen05b_rank2", ""));
    let named = |rank: u32| {
        let of = if rank == 41 { &odd } else { &usual };
        Digest { file: format!("job/rank{rank}.pickle.gz"), ..of.clone() }
    };
    let view = compare((0..64).map(named).collect(), Vec::new());
    assert_eq!(outliers(&view), [Some(41)]);
    assert_eq!(rank(&view, 41).because[0].kind, "longer-sequences");
    let reversed = compare((0..64).rev().map(named).collect(), Vec::new());
    assert_eq!(serde_json::to_string(&view).unwrap(), serde_json::to_string(&reversed).unwrap());
}

#[test]
fn ranks_that_are_odd_in_the_same_way_are_one_group_and_are_told_once() {
    let (usual, odd) = (read("ranks/fsdp2_qwen05b_rank0", ""), read("recordings/fsdp2_qwen05b_rank2", ""));
    let named = |rank: u32| {
        let of = if matches!(rank, 4 | 6 | 7) { &odd } else { &usual };
        Digest { file: format!("job/rank{rank}.pickle.gz"), ..of.clone() }
    };
    let view = compare((0..12).map(named).collect(), Vec::new());
    assert_eq!(
        view.groups.iter().map(|group| &*group.ranks).collect::<Vec<_>>(),
        [&[4, 6, 7][..], &[0, 1, 2, 3, 5, 8, 9, 10, 11]]
    );
    assert!(view.verdict.starts_with("Rank 4 peaks at"), "{}", view.verdict);
    assert!(view.verdict.ends_with("Ranks 6, 7 differ in the same way."), "{}", view.verdict);
}

#[test]
fn digests_cross_as_text_and_are_small() {
    let made = read("ranks/fsdp2_qwen05b_rank0", "rank0.pickle");
    let text = serde_json::to_string(&made).unwrap();
    assert!(text.len() < 256 << 10, "{} bytes", text.len());
    assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), made);
}

#[test]
fn what_does_not_fit_is_listed_and_the_rest_is_compared() {
    let usual = read("ranks/fsdp2_qwen05b_rank0", "");
    let named = |name: &str| Digest { file: name.to_owned(), ..usual.clone() };
    let mut other_run = named("job/rank3.pickle");
    for device in &mut other_run.devices {
        device.time_us = device.time_us.map(|[from, to]| [from - 86_400_000_000, to - 86_400_000_000]);
    }
    let mut shorter = named("job/old/rank1.pickle");
    shorter.devices[0].entries /= 2;
    shorter.devices[0].time_us = shorter.devices[0].time_us.map(|[from, to]| [from, to - 1]);
    let cut = Digest { cut: Some("byte 12: unexpected end".to_owned()), ..named("job/rank4.pickle") };
    let empty = Digest { devices: Vec::new(), ..named("job/rank5.pickle") };
    let digests = vec![named("job/rank0.pickle"), named("job/rank1.pickle"), shorter, other_run, cut, empty];
    let view = compare(digests, Vec::new());
    let unread: Vec<(&str, &str)> =
        view.unread.iter().map(|unread| (unread.file.as_str(), unread.reason.split(':').next().unwrap())).collect();
    assert_eq!(
        unread,
        [
            ("job/old/rank1.pickle", "it is another file of rank 1"),
            ("job/rank3.pickle", "it belongs to another run"),
            ("job/rank4.pickle", "it is incomplete, and compared as far as it goes"),
            ("job/rank5.pickle", "it has no entries and no segments"),
            ("rank 2", "it has no file"),
        ]
    );
    assert_eq!(view.ranks.iter().filter_map(|rank| rank.rank).collect::<Vec<_>>(), [0, 1, 4]);
}

#[test]
fn a_file_of_another_program_is_listed_and_the_rest_is_compared() {
    let named = |path: &str, rank: u32| read(path, &format!("rank{rank}.pickle.gz"));
    let usual: Vec<Digest> = (0..3).map(|rank| named("ranks/fsdp2_qwen05b_rank0", rank)).collect();
    let with = |mut other: Digest| {
        // At the same time: else that would tell.
        for device in &mut other.devices {
            device.time_us = usual[0].devices[0].time_us;
        }
        compare(usual.iter().cloned().chain([other]).collect(), Vec::new())
    };
    for path in ["recordings/oom_gpt2_8gib", "recordings/annotated", "recordings/linear_forward"] {
        let view = with(named(path, 3));
        let unread: Vec<(&str, &str)> =
            view.unread.iter().map(|unread| (&*unread.file, unread.reason.split(':').next().unwrap())).collect();
        assert_eq!(unread, [("rank3.pickle.gz", "it belongs to another run")], "{path}");
        assert!(outliers(&view).is_empty(), "{path}");
    }
    // The same program with longer sequences is of this run.
    let longer = with(named("recordings/fsdp2_qwen05b_rank2", 3));
    assert_eq!((longer.unread.len(), outliers(&longer)), (0, vec![Some(3)]));
    // Of two programs that share nothing, neither is the other's.
    let two = compare(vec![usual[0].clone(), named("recordings/oom_gpt2_8gib", 1)], Vec::new());
    assert_eq!((two.ranks.len(), two.unread.len()), (2, 0));
}

#[test]
fn what_a_file_that_ends_early_lacks_is_no_difference() {
    let usual = read("ranks/fsdp2_qwen05b_rank0", "");
    let of = |rank: u32| Digest { file: format!("job/rank{rank}.pickle"), ..usual.clone() };
    let reason = || Some("byte 12: unexpected end".to_owned());
    let mut early = Digest { cut: reason(), ..of(2) };
    early.devices[0].peak_bytes /= 8;
    early.devices[0].parameters.count = 0;
    // And what it has more than the others is one.
    let long = read("recordings/fsdp2_qwen05b_rank2", "job/rank3.pickle");
    let long = Digest { cut: reason(), ..long };
    let view = compare(vec![of(0), of(1), early, long], Vec::new());
    assert_eq!(outliers(&view), [Some(3)]);
    assert!(rank(&view, 2).because.is_empty());
    assert_eq!(view.unread.len(), 2);
}

#[test]
fn another_context_on_a_card_is_told_by_what_the_recorder_measured() {
    let usual = read("ranks/fsdp2_qwen05b_rank0", "");
    let measured = |rank: u32| {
        let device = ManifestDevice {
            device: usual.devices[0].device,
            outside_bytes: Some(if rank == 0 { 3 << 30 } else { 1 << 30 }),
            ..ManifestDevice::default()
        };
        let manifest = Manifest { rank: Some(rank), devices: vec![device], ..Manifest::default() };
        Digest { file: format!("job/rank{rank}.pickle"), manifest: Some(manifest), ..usual.clone() }
    };
    let view = compare((0..4).map(measured).collect(), Vec::new());
    assert_eq!(outliers(&view), [Some(0)]);
    let because = &rank(&view, 0).because[0];
    assert_eq!((because.kind, because.delta_bytes), ("other-context", 2 << 30), "{because:?}");
}

#[test]
fn another_context_on_a_card_is_told_by_what_a_failure_could_not_have() {
    let usual = read("ranks/fsdp2_qwen05b_rank0", "");
    let of = |rank: u32| Digest { file: format!("job/rank{rank}.pickle"), ..usual.clone() };
    let mut failed = of(0);
    let device = &mut failed.devices[0];
    let held = device.peak_reserved_bytes / 2;
    device.failures = vec![Failure {
        entry: 10,
        time_us: None,
        iteration: None,
        requested_bytes: 1 << 30,
        free_bytes: Some(1 << 20),
        reserved_bytes: held,
        place: "train.py:1 step".to_owned(),
    }];
    device.failed = 1;
    let view = compare(vec![failed, of(1), of(2), of(3)], Vec::new());
    assert!(
        rank(&view, 0).because.iter().any(|because| because.kind == "other-context"),
        "{:?}",
        rank(&view, 0).because
    );
}

#[test]
fn traces_of_the_profiler_tell_their_rank() {
    let mut trace = json_gz(&testdata("profiler/adam.trace.json.gz"));
    let mut of = |rank: u32| {
        trace["distributedInfo"] =
            json!({"backend": "nccl", "rank": rank, "world_size": 3, "pg_config": [{"ranks": [0, 1]}]});
        let snapshot = Snapshot::read(serde_json::to_vec(&trace).unwrap().as_slice()).unwrap();
        digest(&format!("traces/host{rank}.json"), &highwater_analysis::analyse(&snapshot))
    };
    let view = compare(vec![of(2), of(0)], Vec::new());
    assert_eq!(view.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [Some(0), Some(2)]);
    assert_eq!((view.world_size, view.unread[0].file.as_str()), (Some(3), "rank 1"));
}

#[test]
fn an_address_of_a_store_is_for_python() {
    let problem = highwater_ranks::expand(&[PathBuf::from("s3://bucket/job/")]).unwrap_err();
    assert!(problem.what_to_do().is_some_and(|hint| hint.contains("highwater.ranks(\"s3://bucket/job/\")")));
}
