//! The first commands of somebody who knows none: each leads somewhere.

use crate::run::{command, failure, recordings, run, run_with, stdout};

const ERROR: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB \
    of which 1.20 GiB is free. Process 1 has 77.90 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and \
    5.00 GiB is reserved by PyTorch but unallocated.";

#[test]
fn a_file_alone_is_a_report_and_a_log_is_explained() {
    assert_eq!(stdout("linear_forward.pickle.gz"), stdout("report linear_forward.pickle.gz"));
    assert_eq!(stdout("linear_forward.pickle.gz --top 2"), stdout("report linear_forward.pickle.gz --top 2"));
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("train.log");
    std::fs::write(&log, format!("epoch 1\n{ERROR}\n")).unwrap();
    let said = |words: &[&str]| {
        let output = command().args(words).arg(&log).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert_eq!(said(&[]), said(&["explain"]));
}

#[test]
fn an_error_is_explained_pasted_or_piped() {
    let explained = command().args(["explain", "--message", ERROR]).output().unwrap().stdout;
    assert_eq!(command().arg(ERROR).output().unwrap().stdout, explained);
    assert_eq!(command().args(ERROR.split(' ')).output().unwrap().stdout, explained);
    let piped = run_with("explain", ERROR);
    assert_eq!((piped.code, piped.stdout), (0, run_with("explain -", ERROR).stdout));
    assert!(run_with("explain", "").stderr.contains("standard input is empty"));
}

#[test]
fn without_words_there_is_help_that_leads_on() {
    let help = run("");
    assert_eq!(help.code, 2);
    assert_eq!(help.stderr, stdout("--help"));
    assert_eq!(stdout("help"), stdout("--help"));
    insta::assert_snapshot!(stdout("--help"));
}

#[test]
fn a_directory_two_files_and_a_script_are_told_which_command_takes_them() {
    for line in ["report ../recordings", "explain ../recordings"] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(failure(line), @r"
            error: `../recordings` is a directory
            hint: `highwater ranks ../recordings` compares the snapshots in it, `highwater view ../recordings` shows them; other commands take the files one by one
            ");
        }
    }
    let two = "qwen_train_b2.pickle.gz qwen_train_b16.pickle.gz";
    for line in [two.to_owned(), format!("report {two}"), format!("stats {two} --device 0")] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(failure(&line), @r"
            error: 2 files were given, but this command takes one
            hint: `highwater diff qwen_train_b2.pickle.gz qwen_train_b16.pickle.gz` shows what changed, `highwater view qwen_train_b2.pickle.gz qwen_train_b16.pickle.gz` shows them side by side
            ");
        }
    }
    let script = recordings().join("../recipes/allocator_goldens.py");
    for script in [script.as_path(), std::path::Path::new("not_here.py")] {
        let run = command().arg(script).output().unwrap();
        assert!(String::from_utf8_lossy(&run.stderr).contains("highwater run "), "{run:?}");
    }
}

#[test]
fn a_wrong_file_and_a_misspelt_command_are_told_apart() {
    insta::assert_snapshot!(failure("run.pickle"), @r"
    error: `run.pickle` cannot be read
      caused by: No such file or directory (os error 2)
    hint: check the path; `_dump_snapshot` writes to the program's working directory
    ");
    let misspelt = failure("reprot linear_forward.pickle.gz");
    assert!(misspelt.contains("unrecognized subcommand 'reprot'") && misspelt.contains("'report'"), "{misspelt}");
    // What another program wrote beside the recording has a number of `segments`.
    insta::assert_snapshot!(failure("annotated.json"), @r#"
    error: `annotated.json` is not a memory snapshot
      caused by: a dict with the keys `name`, `torch`, `gpu`, `conf` and neither `segments` nor `device_traces` as lists
    hint: write a snapshot with `torch.cuda.memory._record_memory_history()` at the start and `torch.cuda.memory._dump_snapshot("run.pickle")` at the end
    "#);
}

#[test]
fn a_gpu_is_known_by_the_name_on_its_box() {
    let said = |words: &[&str], name: &str| {
        let output = command().args(words).arg(name).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let keyed = said(&["estimate", "gpt2", "--gpu"], "rtx4090");
    assert!(keyed.contains("RTX 4090"), "{keyed}");
    for name in ["4090", "RTX 4090", "NVIDIA GeForce RTX 4090", "rtx 4090 24GB"] {
        assert_eq!(said(&["estimate", "gpt2", "--gpu"], name), keyed, "{name}");
        let replayed = said(&["simulate", "linear_forward.pickle.gz", "--card"], name);
        assert!(replayed.contains("(22.92 GiB)  fits"), "{name}: {replayed}");
        let both = format!("{name}: 23.64 GiB in all, 742.00 MiB of it for the CUDA context");
        assert!(replayed.contains(&both), "{replayed}");
    }
    let unknown = command().args(["simulate", "linear_forward.pickle.gz", "--card", "RTX 9090"]).output().unwrap();
    let unknown = String::from_utf8(unknown.stderr).unwrap();
    assert!(
        unknown.contains("`RTX 9090` is neither a size nor a known GPU") && unknown.contains("rtx4090"),
        "{unknown}"
    );
}

#[test]
fn help_has_a_page_for_every_finding() {
    let page = stdout("help growth");
    assert!(page.starts_with("Memory grows from iteration to iteration (`growth`)\n\n"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    assert!(stdout("help findings").contains("growth"));
    assert!(stdout("help simulate").contains("--conf"));
    insta::assert_snapshot!(failure("help leak-growth"), @r"
    error: there is no help on `leak-growth`
    hint: did you mean `growth`, `library-growth`? `highwater help findings` lists the findings, `highwater help` the commands
    ");
}

#[test]
fn old_names_of_options_still_work() {
    let file = "linear_forward.pickle.gz";
    for (old, new) in [
        (format!("trace {file} --limit 3"), format!("trace {file} --top 3")),
        (format!("segments {file} --limit 1"), format!("segments {file} --top 1")),
        ("estimate gpt2 --terms 2".to_owned(), "estimate gpt2 --top 2".to_owned()),
    ] {
        assert_eq!(stdout(&old), stdout(&new), "{old}");
    }
    for command in ["trace", "segments", "estimate", "run", "top", "man"] {
        let help = stdout(&format!("{command} --help"));
        let options: Vec<&str> = help.lines().map(str::trim_start).filter(|line| line.starts_with('-')).collect();
        let words: Vec<&str> = options.iter().flat_map(|option| option.split([' ', ',', '='])).collect();
        for old in ["--limit", "--terms", "--record", "--out"] {
            assert!(!words.contains(&old), "{command}: {old}");
        }
    }
}

#[test]
fn what_one_would_paste_is_there_as_markdown() {
    for (line, heading) in [
        ("explain oom_gpt2_8gib.pickle.gz", "### oom"),
        ("simulate linear_forward.pickle.gz", "### linear"),
        ("diff linear_forward.pickle.gz linear_forward.pickle.gz", "**A"),
        ("check linear_forward.pickle.gz --max-peak-reserved 8GiB", "### 1 passed"),
        ("estimate gpt2", "### gpt2 needs"),
        ("report linear_forward.pickle.gz", "### linear"),
    ] {
        let text = stdout(&format!("{line} --format markdown"));
        assert!(text.trim_start().starts_with(heading), "{line}: {text}");
        assert!(text.contains("| ---"), "{line}: {text}");
    }
}

#[test]
fn unbounded_growth_comes_before_findings_about_the_peak() {
    let text = stdout("report leak_grows.pickle.gz");
    let ids: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix('(')?.split_once(": `highwater help"))
        .map(|(id, _)| id)
        .collect();
    assert_eq!(ids.first(), Some(&"growth"), "{ids:?}");
    assert!(ids.len() > 1, "{ids:?}");
    assert!(ids.iter().all(|id| highwater_findings::IDS.contains(id)), "{ids:?}");
}

#[test]
fn a_report_of_a_failure_leads_to_its_explanation() {
    let text = stdout("report oom_gpt2_8gib.pickle.gz");
    assert!(text.contains("\n→ `highwater explain oom_gpt2_8gib.pickle.gz` shows why, and how to fix it\n"), "{text}");
    assert!(text.contains("Allocator settings\n  all at their defaults\n"), "{text}");
    assert!(!stdout("report linear_forward.pickle.gz").contains("highwater explain"));
}

#[test]
fn the_state_at_an_error_says_what_the_report_says() {
    let live = stdout("live oom_gpt2_8gib.pickle.gz --at oom");
    assert!(
        live.starts_with("Device 0, after entry 590: 7.86 GiB allocated, 7.86 GiB requested in 375 blocks\n"),
        "{live}"
    );
}

#[test]
fn a_script_that_is_missing_is_said_before_an_interpreter_that_lacks_something() {
    for command in ["run", "dryrun"] {
        let said = failure(&format!("{command} --python /nonexistent/python missing.py"));
        let expected = format!("options of `highwater {command}` come before the script, the script's own after it");
        assert!(said.starts_with("error: there is no script `missing.py`\n") && said.contains(&expected), "{said}");
    }
}
