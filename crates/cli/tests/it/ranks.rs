//! `highwater ranks`.

use std::fs;

use highwater_testkit::testdata;
use serde_json::Value;

use crate::run::{command, failure, run, stdout};

#[test]
fn the_answer_comes_first_then_a_line_for_each_group() {
    let text =
        stdout("ranks ../ranks/leak.rank0.pickle.gz ../ranks/leak.rank1.pickle.gz ../ranks/leak.rank2.pickle.gz");
    assert!(text.starts_with("Rank 1 peaks at 500.20 MiB, like the median rank: it leaks: the loss is kept"), "{text}");
    assert!(text.contains("ranks 0, 2"), "{text}");
}

#[test]
fn lines_are_as_wide_as_the_terminal() {
    for width in [60, 80, 120, 200] {
        let output = command()
            .args(["ranks", "../recordings/fsdp2_qwen05b_rank2.pickle.gz", "../ranks/fsdp2_qwen05b_rank0.pickle.gz"])
            .env("COLUMNS", width.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn a_directory_leads_here_and_what_does_not_fit_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    for rank in [0, 1, 2] {
        let name = format!("leak.rank{rank}.pickle.gz");
        fs::copy(testdata(format!("ranks/{name}")), folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("leak.rank3.pickle"), "").unwrap();
    fs::write(folder.path().join("leak.rank4.pickle"), b"PK\x03\x04 no snapshot").unwrap();
    fs::write(folder.path().join("train.log"), "step 1").unwrap();
    let done = run(&folder.path().display().to_string());
    assert_eq!((done.code, done.stderr.as_str()), (1, ""));
    assert!(done.stdout.contains("leak.rank3.pickle: "), "{}", done.stdout);
    assert!(done.stdout.contains("leak.rank4.pickle: "), "{}", done.stdout);
    assert!(!done.stdout.contains("train.log"));
    let json = run(&format!("ranks {} --format json", folder.path().display()));
    let view: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((view["format"].as_str(), view["version"].as_u64()), (Some("highwater-ranks"), Some(1)));
    assert_eq!(view["unread"].as_array().map(Vec::len), Some(2), "{}", view["unread"]);
    assert_eq!(view["ranks"].as_array().map(Vec::len), Some(3));
}

#[test]
fn files_of_several_jobs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for job in ["ddp", "pp"] {
        for rank in [0, 1] {
            fs::copy(testdata("ranks/leak.rank0.pickle.gz"), folder.path().join(format!("{job}.rank{rank}.pickle.gz")))
                .unwrap();
        }
    }
    let said = failure(&format!("ranks {}", folder.path().display()));
    assert!(said.contains("these 4 files are of 2 jobs"), "{said}");
}

#[test]
fn nothing_to_read_is_an_error() {
    assert!(failure("ranks s3://bucket/job/").contains("highwater.ranks("));
    assert!(failure("ranks no/such.pickle").contains("there is no such file"));
}
