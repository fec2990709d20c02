//! How the program behaves: errors, exit codes, streams, untrusted text.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use crate::run::{command, failure, json, recordings, run, run_with, stdout};

#[test]
fn what_is_no_snapshot_is_refused_with_a_reason_and_a_hint() {
    insta::assert_snapshot!(failure("trace nope.pickle"), @r"
        error: `nope.pickle` cannot be read
          caused by: No such file or directory (os error 2)
        hint: check the path; `_dump_snapshot` writes to the program's working directory
    ");
    insta::assert_snapshot!(failure("segments ../layouts"), @r"
    error: `../layouts` is a directory
    hint: `highwater ranks ../layouts` compares the snapshots in it, `highwater view ../layouts` shows them; other commands take the files one by one
    ");
    let zip = run_with("trace -", b"PK\x03\x04rest".as_slice());
    assert_eq!((zip.code, zip.stdout.as_str()), (2, ""));
    insta::assert_snapshot!(zip.stderr, @r#"
        error: standard input is not a memory snapshot
          caused by: byte 0: expected a pickle header (0x80), found 0x50 0x4b (a zip archive)
        hint: this looks like a `torch.save` file; write a snapshot with `torch.cuda.memory._dump_snapshot("run.pickle")`
    "#);
    insta::assert_snapshot!(run_with("trace -", "").stderr, @r#"
        error: standard input is not a memory snapshot
          caused by: the input is empty
        hint: the dump did not finish, or the disk was full: write it again with `torch.cuda.memory._dump_snapshot("run.pickle")`
    "#);
}

#[test]
fn a_pickle_that_would_run_code_is_refused() {
    let run = run_with("trace -", b"\x80\x04cos\nsystem\n(S'true'\ntR.".as_slice());
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.starts_with("error: standard input is not safe to load\n  caused by: byte 2: `GLOBAL`"),
        "{}",
        run.stderr
    );
}

#[test]
fn bad_usage_is_told_by_the_exit_status() {
    for line in [
        "",
        "nonsense",
        "trace",
        "trace a.pickle --min-size 5x",
        "export linear_forward.pickle.gz",
        "trace x --covering",
    ] {
        assert_eq!(run(line).code, 2, "{line}");
    }
    let sizes = failure("trace a.pickle --min-size 16Gi");
    assert!(sizes.contains("expected a size such as `16GiB`, `16GB`, `512M` or plain bytes"), "{sizes}");
    for line in ["--help", "--version", "trace --help"] {
        assert_eq!(run(line).code, 0, "{line}");
    }
}

#[test]
fn a_size_is_the_same_in_every_spelling() {
    let file = "multi_stream.pickle.gz";
    let simulated = |option: &str| stdout(&format!("simulate {file} {option} --format json"));
    assert_eq!(simulated("--capacity 16G"), simulated("--capacity 16GiB"));
    assert_eq!(simulated("--capacity 17179869184"), simulated("--capacity 16gib"));
    // A block may be of so few bytes, what a program may take is not.
    assert_eq!(stdout(&format!("trace {file} --min-size 512")), stdout(&format!("trace {file} --min-size 512B")));
    for line in [
        format!("simulate {file} --capacity 24"),
        format!("simulate {file} --card 24"),
        format!("check {file} --max-peak-reserved 24"),
        "estimate gpt2 --fit 24".to_owned(),
    ] {
        let refused = failure(&line);
        assert!(refused.contains("did you mean `24GiB`? 24 bytes are written `24B`"), "{line}: {refused}");
    }
}

#[test]
fn a_device_that_is_not_there_is_told() {
    insta::assert_snapshot!(failure("trace ../layouts/several_devices.pickle --device 1"), @r"
        error: `../layouts/several_devices.pickle` has no data for device 1
        hint: it has devices 0, 2, 3
    ");
}

#[test]
fn a_dash_reads_standard_input() {
    let bytes = std::fs::read(recordings().join("linear_forward.pickle.gz")).unwrap();
    for command in ["trace", "segments"] {
        let run = run_with(&format!("{command} -"), bytes.clone());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        assert_eq!(run.stdout, stdout(&format!("{command} linear_forward.pickle.gz")));
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("highwater"))
        .args(["trace", "gpt2_compiled.pickle.gz", "--limit", "0", "--stacks"])
        .current_dir(recordings())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "device 0: 11,875 entries\n");
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn warnings_follow_the_text_and_are_in_the_json() {
    let run = run("trace ../layouts/unknown_words.pickle --limit 1");
    assert_eq!(run.code, 0);
    assert!(run.stderr.lines().all(|line| line.starts_with("warning: ")), "{}", run.stderr);
    assert!(run.stderr.contains("warning: entries have the unknown action `segment_remap`"), "{}", run.stderr);
    for command in ["trace", "segments"] {
        let document = json(&format!("{command} ../layouts/unknown_words.pickle --format json"));
        let warnings = document["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), run.stderr.lines().count());
        assert!(warnings.iter().any(|warning| warning["id"] == "unknown-action"));
    }
}

/// A file whose every text tries to steer the terminal.
const HOSTILE: &str = r#"{"segments": [{"device": 0, "address": 4096, "total_size": 512, "stream": 0,
    "segment_type": "small", "blocks": [{"address": 4096, "size": 512, "requested_size": 4, "state": "active_allocated",
        "frames": [{"filename": "\u001b]0;owned\u0007.py", "line": 1, "name": "f\u009b31m\n"}]}]}],
  "device_traces": [[{"action": "al\u001b[2Jloc", "addr": 4096, "size": 4, "stream": 0, "user_metadata": "a\rb\u202e",
        "frames": [{"filename": "\u001b]0;owned\u0007.py", "line": 1, "name": "f\u009b31m\n"}]}]],
  "\u001b[31mkey": 1}"#;

#[test]
fn control_characters_never_reach_the_terminal() {
    let lines = ["trace -", "trace - --stacks", "segments - --blocks", "export - --to csv", "export - --to folded"];
    for line in lines {
        let run = run_with(line, HOSTILE);
        assert_eq!(run.code, 0, "{line}: {}", run.stderr);
        for text in [&run.stdout, &run.stderr] {
            let steers = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!text.contains(steers), "{line}: {text:?}");
        }
    }
    let run = run_with("trace - --device 7\u{1b}[2J", HOSTILE);
    assert_eq!(run.code, 2);
}

#[test]
fn redaction_leaves_no_directory_in_any_output() {
    for line in [
        "trace linear_forward.pickle.gz --stacks",
        "trace linear_forward.pickle.gz --format json",
        "segments linear_forward.pickle.gz --format json",
        "export linear_forward.pickle.gz --to json",
        "export linear_forward.pickle.gz --to csv",
        "export linear_forward.pickle.gz --to speedscope",
    ] {
        assert!(stdout(line).contains("/home/user/"), "{line}");
        assert!(!stdout(&format!("{line} --redact")).contains("/home"), "{line}");
    }
    // Whose code a frame is was seen before the directories went.
    let line = "trace linear_forward.pickle.gz";
    assert_eq!(stdout(&format!("{line} --redact")), stdout(line));
}

#[test]
fn completions_and_manual_pages_are_printed() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(stdout(&format!("completions {shell}")).contains("highwater"), "{shell}");
    }
    assert!(stdout("man").contains(".TH highwater 1"));
    let folder = tempfile::tempdir().unwrap();
    let output = command().args(["man", "--out"]).arg(folder.path()).output().unwrap();
    assert!(output.status.success());
    assert!(folder.path().join("highwater-trace.1").exists());
}
