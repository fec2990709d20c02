//! Running the program.

use std::path::PathBuf;

use highwater_testkit::testdata;
use serde_json::Value;

/// What a run left behind.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The folder of the recordings: where the program runs, so that no path of this machine is in its output.
pub(crate) fn recordings() -> PathBuf {
    testdata("recordings")
}

/// The program, ready to run among the recordings.
pub(crate) fn command() -> assert_cmd::Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("highwater");
    command.current_dir(recordings());
    // What the terminal of whoever runs the tests says of itself is not part of them.
    for variable in ["COLUMNS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command
}

/// Runs it with the words of `line` as arguments, and `input` at its standard input.
pub(crate) fn run_with(line: &str, input: impl Into<Vec<u8>>) -> Run {
    let output = command().args(line.split_whitespace()).write_stdin(input).output().unwrap();
    Run {
        code: output.status.code().expect("it exits by itself"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Runs it with the words of `line` as arguments.
pub(crate) fn run(line: &str) -> Run {
    run_with(line, "")
}

/// What a run that must succeed without a word on standard error writes.
pub(crate) fn stdout(line: &str) -> String {
    let Run { code, stdout, stderr } = run(line);
    assert_eq!((code, stderr.as_str()), (0, ""), "{line}");
    stdout
}

/// The JSON that a run writes, a document of highwater's checked against its schema.
pub(crate) fn json(line: &str) -> Value {
    let json: Value = serde_json::from_str(&stdout(line)).expect("JSON");
    // What `export` writes has the shape of others.
    if !line.starts_with("export ") {
        crate::formats::check(&json);
    }
    json
}

/// What a run that must fail says.
pub(crate) fn failure(line: &str) -> String {
    let Run { code, stdout, stderr } = run(line);
    assert_eq!((code, stdout.as_str()), (2, ""), "{line}");
    stderr
}

/// `torch.cuda.memory_stats()` as recorded beside a snapshot.
pub(crate) fn memory_stats(recording: &str, key: &str) -> u64 {
    let truth = highwater_testkit::json(&testdata(format!("recordings/{recording}.json")));
    truth["stats"][key].as_u64().unwrap()
}
