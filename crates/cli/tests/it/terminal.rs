//! Colours and widths: whatever is drawn, numbers stay whole and files stay plain.

use std::collections::BTreeSet;

use unicode_width::UnicodeWidthStr as _;

use crate::run::{command, recordings};

/// What a command writes in lines of so many cells.
fn at_width(line: &str, width: usize) -> String {
    let output = command().args(line.split(' ')).env("COLUMNS", width.to_string()).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The names of all recordings.
fn all_recordings() -> Vec<String> {
    let names = std::fs::read_dir(recordings()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".pickle.gz")).collect();
    names.sort();
    names
}

/// The sizes and shares in a text, each with its unit: `1.50 GiB`, `33 %`.
fn amounts(text: &str) -> BTreeSet<String> {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "%"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ',');
    let inner = |word: &str| word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '%').to_owned();
    let pairs = words.windows(2).map(|pair| (inner(pair[0]), inner(pair[1])));
    let amounts =
        pairs.filter(|(number, unit)| !number.is_empty() && is_number(number) && UNITS.contains(&unit.as_str()));
    amounts.map(|(number, unit)| format!("{number} {unit}")).collect()
}

/// A command whose options and settings have words that are wider than a narrow line.
fn check_widths(line: &str) {
    let widest = at_width(line, 200);
    let wanted = amounts(&widest);
    assert!(!wanted.is_empty(), "{line}: {widest}");
    for width in [60, 80, 100, 120, 200] {
        let text = at_width(line, width);
        for written in text.lines() {
            // What is to be copied is never broken: a setting, a call. Nor is one word.
            let is_copied = written.trim_start().starts_with('→') || !written.trim().contains(' ');
            assert!(written.width() <= width || is_copied, "{line}, {width} cells: {written}\n\n{text}");
        }
        let shown = amounts(&text);
        let missing: Vec<_> = wanted.difference(&shown).collect();
        assert!(missing.is_empty(), "{line}, {width} cells lack {missing:?}:\n{text}");
    }
}

#[test]
fn reports_fit_every_width_with_every_number() {
    for file in all_recordings() {
        check_widths(&format!("report {file}"));
    }
}

#[test]
fn stats_and_checks_fit_every_width_with_every_number() {
    for file in all_recordings() {
        check_widths(&format!("stats {file}"));
        check_widths(&format!(
            "check {file} --max-peak-reserved 1GiB --max-growth-per-iteration 1MiB --max-fragmentation 1%"
        ));
    }
}

#[test]
fn explanations_fit_every_width_with_every_number() {
    for file in ["oom_gpt2_8gib", "oom_gpt2_8gib.at_oom", "oom_whole_gpu"] {
        check_widths(&format!("explain {file}.pickle.gz"));
    }
    check_widths("explain annotated.pickle.gz --capacity 2GiB");
}

#[test]
fn simulations_fit_every_width_with_every_number() {
    // The largest recordings take seconds for each of the widths.
    for file in ["annotated", "oom_gpt2_8gib", "linear_forward", "multi_stream", "fuzz_expandable", "leak_grows"] {
        check_widths(&format!("simulate {file}.pickle.gz"));
    }
}

#[test]
fn comparisons_and_estimates_fit_every_width_with_every_number() {
    check_widths("diff qwen_train_b2.pickle.gz qwen_train_b16.pickle.gz");
    check_widths("diff linear_forward.pickle.gz annotated.pickle.gz");
    check_widths("diff qwen_train_b2.pickle.gz qwen_train_b16.pickle.gz --capacity 80GiB");
    check_widths("estimate gpt2 --batch 8");
    check_widths("estimate llama3.1-8b --fit 24GiB --lora-rank 16");
    check_widths("estimate gpt2 --batch 8 --sweep batch=1..64 --method simple");
}

#[test]
fn lists_logs_and_engines_fit_every_width_with_every_number() {
    for line in [
        "live oom_gpt2_8gib.pickle.gz --at oom",
        "trace oom_gpt2_8gib.pickle.gz --top 5",
        "segments fuzz_gc08split64.pickle.gz",
        "explain ../messages/box.log",
        "explain ../messages/a_hundred.log",
        "explain ../messages/hip.log",
        "explain ../messages/data_parallel.log",
        "explain ../messages/deepspeed_host.log",
        "estimate llama3.1-8b --serve vllm --gpu l40s",
        "estimate llama3.1-8b --serve vllm --gpu 4090",
        "estimate llama3.1-8b --gpu 4090",
        "estimate flux.1-schnell-pipeline --gpu a10g",
        "report ../whole_card/nccl.pickle.gz",
        "report ../whole_card/jax.pickle.gz",
        "report ../nsight/2025.sqlite",
        "report ../profiler/adam.trace.json.gz",
        "diff ../batches/resnet18_b8.pickle.gz ../batches/resnet18_b96.pickle.gz --rows 8,96",
    ] {
        check_widths(line);
    }
}

#[test]
fn colours_are_where_they_are_asked_for_and_nowhere_else() {
    let lines = [
        "report oom_gpt2_8gib.pickle.gz",
        "explain oom_gpt2_8gib.pickle.gz",
        "simulate linear_forward.pickle.gz",
        "diff linear_forward.pickle.gz annotated.pickle.gz",
        "check linear_forward.pickle.gz --max-peak-reserved 1GiB",
        "estimate gpt2",
        "live linear_forward.pickle.gz",
        "help growth",
    ];
    let written = |words: &[&str], variables: &[(&str, &str)]| {
        let output = command().args(words).envs(variables.iter().copied()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let plain = written(&words, &[]);
        assert!(!plain.contains('\u{1b}'), "{line}");
        let coloured = written(&[&words[..], &["--color", "always"]].concat(), &[("NO_COLOR", "1")]);
        assert!(coloured.contains("\u{1b}["), "{line}");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain, "{line}");
        assert_eq!(written(&words, &[("CLICOLOR_FORCE", "1")]), coloured, "{line}");
        assert_eq!(written(&[&["--color=never"], &words[..]].concat(), &[("CLICOLOR_FORCE", "1")]), plain, "{line}");
        for format in ["json", "markdown"] {
            let asked = [&words[..], &["--format", format, "--color", "always"]].concat();
            assert!(!written(&asked, &[]).contains('\u{1b}'), "{line} as {format}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.txt");
    let words = ["report", "linear_forward.pickle.gz", "--color", "always", "-o"];
    assert!(command().args(words).arg(&file).output().unwrap().status.success());
    assert!(!std::fs::read_to_string(file).unwrap().contains('\u{1b}'));
}

/// Environment variables, with their values.
type Variables<'a> = &'a [(&'a str, &'a str)];

/// The output of a command with these variables, on a terminal and into a pipe: standard output and error together.
fn on_terminal_and_piped(words: &[&str], variables: Variables<'_>) -> [String; 2] {
    const BOTH: &str = "import os, pty, subprocess, sys\n\
        run = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)\n\
        own, child = pty.openpty()\n\
        started = subprocess.Popen(sys.argv[1:], stdin=child, stdout=child, stderr=child)\n\
        os.close(child)\n\
        shown = b''\n\
        try:\n    while piece := os.read(own, 1 << 16): shown += piece\n\
        except OSError: pass\n\
        started.wait()\n\
        sys.stdout.buffer.write(shown + b'\\0' + run.stdout)\n";
    let mut python = assert_cmd::Command::new("python3");
    python.args(["-c", BOTH]).arg(assert_cmd::cargo::cargo_bin!("highwater")).args(words).current_dir(recordings());
    for variable in ["COLUMNS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "TERM"] {
        python.env_remove(variable);
    }
    let output = python.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (terminal, piped) =
        text.split_once('\0').unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    [terminal.to_owned(), piped.to_owned()]
}

/// <https://no-color.org/> and <https://bixense.com/clicolors/>: an answer, an error, and the parser's own texts.
#[test]
fn each_switch_of_colour_does_what_its_standard_says() {
    let commands: [&[&str]; 5] = [
        &["report", "linear_forward.pickle.gz"],
        // Refused by clap, which decides for itself.
        &["report", "--absent"],
        &["report", "absent.pickle"],
        &["--help"],
        // With warnings.
        &["report", "fuzz_default.pickle.gz"],
    ];
    let xterm = ("TERM", "xterm-256color");
    // The variables, and whether there are colours on a terminal and in a pipe.
    let cases: [(Variables<'_>, [bool; 2]); 14] = [
        (&[xterm], [true, false]),
        (&[], [false, false]),
        (&[("TERM", "dumb")], [false, false]),
        (&[xterm, ("NO_COLOR", "1")], [false, false]),
        (&[xterm, ("NO_COLOR", "0")], [false, false]),
        (&[xterm, ("NO_COLOR", "")], [true, false]),
        (&[xterm, ("CLICOLOR", "0")], [false, false]),
        (&[xterm, ("CLICOLOR", "1")], [true, false]),
        (&[xterm, ("CLICOLOR_FORCE", "1")], [true, true]),
        (&[xterm, ("CLICOLOR_FORCE", "0")], [true, false]),
        (&[xterm, ("CLICOLOR_FORCE", "")], [true, false]),
        (&[xterm, ("CLICOLOR_FORCE", "0"), ("CLICOLOR", "0")], [false, false]),
        (&[("TERM", "dumb"), ("CLICOLOR_FORCE", "0")], [false, false]),
        (&[xterm, ("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], [false, false]),
    ];
    let has_colours = |text: String| text.contains("\u{1b}[");
    for (number, words) in commands.into_iter().enumerate() {
        let few = [cases[0], cases[3], cases[8]];
        for &(variables, expected) in if number < 2 { &cases[..] } else { &few[..] } {
            assert_eq!(on_terminal_and_piped(words, variables).map(has_colours), expected, "{words:?} {variables:?}");
        }
        for variables in
            [&[xterm, ("NO_COLOR", "1")][..], &[("TERM", "dumb"), ("CLICOLOR_FORCE", "0"), ("CLICOLOR", "0")]]
        {
            for (choice, expected) in [("always", true), ("never", false)] {
                let words = [words, &["--color", choice]].concat();
                assert_eq!(on_terminal_and_piped(&words, variables).map(has_colours), [expected; 2], "{words:?}");
            }
        }
    }
}

#[test]
fn a_coloured_answer_looks_like_this() {
    let output = command().args(["explain", "oom_gpt2_8gib.pickle.gz", "--color", "always"]).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap().replace('\u{1b}', "ESC");
    insta::assert_snapshot!(shown.lines().take(32).collect::<Vec<_>>().join("\n"));
}

/// Names that bring escapes, with colours on.
#[test]
fn a_name_brings_no_escape_into_colours() {
    let frames = r#"[{"filename": "\u001b[31mx\u001b]0;owned\u0007.py", "line": 1, "name": "f\u009b31m\n"}]"#;
    let hostile = format!(
        r#"{{"segments": [{{"device": 0, "address": 4096, "total_size": 2097152, "stream": 0, "segment_type": "small", "blocks":
        [{{"address": 4096, "size": 512, "requested_size": 4, "state": "active_allocated", "frames": {frames}}}]}}],
        "device_traces": [[]]}}"#
    );
    let output = command().args(["report", "-", "--color", "always"]).write_stdin(hostile).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let plain = text.replace("\u{1b}[0m", "");
    for (at, _) in plain.match_indices('\u{1b}') {
        let code = plain[at + 1..].split('m').next().unwrap();
        assert!(["[1", "[2", "[31", "[32", "[33", "[36"].contains(&code) || code.starts_with("[38;5;"), "{code:?}");
    }
    assert!(text.contains(r"\u{1b}[31mx\u{1b}]0;owned\u{7}.py"), "{text}");
}
