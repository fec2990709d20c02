//! `highwater sql`, and `highwater export --to parquet`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use highwater_testkit::{files, recordings, repository, testdata};
use serde_json::Value;

use crate::run::{command, failure, json, run, run_with, stdout};

/// The rows of an answer in JSON.
fn rows(paths: &[&Path], sql: &str) -> Vec<Value> {
    let output = command().arg("sql").args(paths).args([sql, "--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let view: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(view["format"], "highwater-sql");
    view["rows"].as_array().unwrap().clone()
}

/// Recordings of every kind: whole, late, out of memory, of several devices, without stacks, a profiler's.
fn kinds() -> Vec<PathBuf> {
    let others = ["layouts/several_devices.pickle", "layouts/torch_1_5.pickle", "findings/two_devices.pickle.gz"];
    let profiles = files(&testdata("profiler"), ".json.gz");
    recordings().into_iter().chain(others.map(testdata)).chain(profiles).collect()
}

#[test]
fn the_tables_have_the_totals_of_the_report() {
    for path in kinds() {
        let report = json(&format!("report {} --format json", path.display()));
        let devices = rows(
            &[&path],
            "select devices.device, peak_allocated_bytes, peak_reserved_bytes, end_requested_bytes, at_peak_by,
                    at_peak_requested_bytes, at_peak_allocated_bytes,
                    (select coalesce(sum(at_peak_bytes), 0) from lifetimes
                     where lifetimes.file = devices.file and lifetimes.device = devices.device),
                    (select coalesce(sum(at_peak_bytes), 0) from call_sites
                     where call_sites.file = devices.file and call_sites.device = devices.device),
                    (select count(*) from findings where findings.file = devices.file and findings.device = devices.device)
             from devices order by devices.device",
        );
        let of_report = report["devices"].as_array().unwrap();
        assert_eq!(devices.len(), of_report.len(), "{}", path.display());
        for (row, view) in devices.iter().zip(of_report) {
            let at_peak = &view["at_peak"];
            let sum = &at_peak[at_peak["by"].as_str().unwrap()];
            let expected = serde_json::json!([
                view["device"],
                view["peak"]["allocated_bytes"],
                view["peak"]["reserved_bytes"],
                view["end"]["requested_bytes"],
                at_peak["by"],
                at_peak["requested_bytes"],
                at_peak["allocated_bytes"],
                sum,
                sum,
                view["findings"].as_array().unwrap().len()
            ]);
            assert_eq!(*row, expected, "{}", path.display());
        }
    }
}

#[test]
fn every_query_of_the_documentation_is_answered() {
    let path = testdata("recordings/oom_gpt2_8gib.pickle.gz");
    let queries = files(&repository("docs/queries"), ".sql");
    assert_eq!(queries.len(), 12);
    let page = fs::read_to_string(repository("docs/queries/README.md")).unwrap();
    for query in queries {
        let output = command().arg("sql").arg(&path).arg("-").write_stdin(fs::read(&query).unwrap()).output().unwrap();
        assert!(output.status.success(), "{}: {}", query.display(), String::from_utf8_lossy(&output.stderr));
        let name = query.file_name().unwrap().to_str().unwrap();
        assert!(page.contains(&format!("[{name}]({name})")), "docs/queries/README.md lacks {name}");
    }
}

/// SQLite does not tell of the columns that these compare: they are read all the same.
#[test]
fn tables_are_joined_by_equal_names() {
    let path = testdata("findings/two_devices.pickle.gz");
    let count = |join: &str| rows(&[&path], &format!("select count(*) from devices {join}"))[0][0].clone();
    let all = count("join lifetimes on lifetimes.file = devices.file and lifetimes.device = devices.device");
    assert_ne!(all, 0);
    assert_eq!(count("join lifetimes using (file, device)"), all);
    assert_eq!(count("natural join lifetimes"), all);
}

#[test]
fn rows_are_printed_in_every_format() {
    let query = "select device, free_share, is_truncated, 'a|b' as text, null as absent from devices";
    let print = |format: &str| {
        let output = command().args(["sql", "linear_forward.pickle.gz", query, "--format", format]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    insta::assert_snapshot!(print("csv"), @r"
    device,free_share,is_truncated,text,absent
    0,0.2711559326287199,0,a|b,
    ");
    assert!(print("text").lines().next().unwrap().starts_with("device"));
    assert!(print("text").contains("0.2711559326287199"));
    assert!(print("markdown").contains(r"| 0 | 0.2711559326287199 | 0 | a\|b |"), "{}", print("markdown"));
    assert!(stdout("sql --tables").contains("at_peak_optimizer_state_bytes"));
}

#[test]
fn a_wrong_query_says_where_and_what_there_is() {
    let refused = |sql: &str| {
        let output = command().args(["sql", "linear_forward.pickle.gz", sql]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    insta::assert_snapshot!(refused("select requested_byte from lifetimes"), @r"
    error: line 1, column 8 of the query: no such column: requested_byte
    hint: did you mean `requested_bytes`?
    ");
    insta::assert_snapshot!(refused("select device,\ncategory\nfrom devices"), @r"
    error: line 2, column 1 of the query: no such column: category
    hint: `category` is a column of `lifetimes`
    ");
    let unknown = refused("select 1\nfrom lifetime");
    assert!(unknown.starts_with("error: line 2, column 6 of the query: no such table: lifetime\n"), "{unknown}");
    assert!(unknown.contains("hint: did you mean `lifetimes`? The tables are snapshots, devices,"), "{unknown}");
    insta::assert_snapshot!(refused("drop table devices"), @r"
    error: the query does more than read the tables
      caused by: not authorized
    hint: ask with `SELECT`: tables cannot be changed, and no file or extension can be loaded
    ");
    assert!(failure("sql linear_forward.pickle.gz").contains("a query needs a snapshot"));
    let files = failure("sql linear_forward.pickle.gz multi_stream.pickle.gz");
    assert!(files.contains("the last word, `multi_stream.pickle.gz`, is a file and not a query"));
}

#[test]
fn names_in_a_recording_stay_data() {
    const NAME: &str = "'; DROP TABLE lifetimes; --\\u001b[2J\\\"=1+1";
    let snapshot = format!(
        r#"{{"segments": [], "device_traces": [[{{"action": "alloc", "addr": 512, "size": 12, "stream": 0,
            "user_metadata": "{NAME}", "frames": [{{"filename": "{NAME}.py", "line": 1, "name": "{NAME}"}}]}}]]}}"#
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.json");
    fs::write(&path, snapshot).unwrap();
    let found = rows(&[&path], "select name, call_site from lifetimes where name like '%DROP TABLE%'");
    assert_eq!(found[0][0], "'; DROP TABLE lifetimes; --\u{1b}[2J\"=1+1");
    let shown = |format: &str| {
        let output =
            command().arg("sql").arg(&path).args(["select name from lifetimes", "--format", format]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for format in ["text", "csv", "markdown"] {
        assert!(!shown(format).contains('\u{1b}'), "{format}");
    }
}

#[test]
fn what_cannot_be_read_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let good = testdata("recordings/linear_forward.pickle.gz");
    fs::copy(&good, folder.path().join("rank0.pickle.gz")).unwrap();
    fs::write(folder.path().join("rank1.pickle"), "no pickle").unwrap();
    fs::write(folder.path().join("rank2.pickle"), "").unwrap();
    // A file that ends early is read as far as it goes.
    let whole = fs::read(&good).unwrap();
    fs::write(folder.path().join("rank3.pickle.gz"), &whole[..whole.len() * 9 / 10]).unwrap();
    let output = command().arg("sql").arg(folder.path()).arg("select rank from devices").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("rank1.pickle") && said.contains("rank2.pickle"), "{said}");
    assert!(said.contains("rank3.pickle.gz`: it is incomplete, and was read as far as possible"), "{said}");
    assert!(String::from_utf8(output.stdout).unwrap().contains('0'));

    let out = folder.path().join("tables");
    let export =
        || command().args(["export", "--to", "parquet"]).arg(folder.path()).arg("-o").arg(&out).output().unwrap();
    let output = export();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("rank1.pickle") && said.contains("wrote the tables of 2 recordings to"), "{said}");
    assert_eq!(export().status.code(), Some(2), "tables are not overwritten unasked");
}

/// The files below a folder, by their paths there.
fn tree(folder: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                paths.push(entry.strip_prefix(folder).unwrap().display().to_string());
            }
        }
    }
    paths.sort();
    paths
}

#[test]
fn tables_are_files_by_run_and_rank_and_are_replaced_by_force_alone() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(testdata("recordings/linear_forward.pickle.gz"), path).unwrap();
    };
    copy("job/rank0.pickle.gz");
    copy("job/rank0.pickle");
    copy("job/rank1.pickle.gz");
    let out = folder.path().join("out");
    let export = |more: &[&str]| {
        let mut export = command();
        export.args(["export", "--to", "parquet"]).arg(folder.path().join("job")).arg("-o").arg(&out).args(more);
        export.output().unwrap()
    };
    let first = export(&[]);
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let written = tree(&out);
    let of =
        |table: &str| written.iter().filter(|path| path.starts_with(&format!("{table}/"))).cloned().collect::<Vec<_>>();
    let parts = ["run=job/rank=0/part-0", "run=job/rank=0/part-1", "run=job/rank=1/part-0"];
    assert_eq!(of("devices"), parts.map(|part| format!("devices/{part}.parquet")));
    assert_eq!(of("entries"), [""; 0]);
    assert_eq!(export(&["--entries"]).status.code(), Some(2));
    fs::remove_file(folder.path().join("job/rank0.pickle")).unwrap();
    assert!(export(&["--force", "--entries"]).status.success());
    let again = tree(&out);
    assert!(again.contains(&"entries/run=job/rank=1/part-0.parquet".to_owned()));
    assert!(!again.iter().any(|path| path.contains("part-1")), "{again:?}");
    // Nothing but the tables and the recordings is anywhere.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_table_that_cannot_be_written_leaves_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    // Where the last table would be stands something else.
    let in_the_way = out.join("out_of_memory/run=linear_forward/rank=-1/part-0.parquet/x");
    fs::create_dir_all(&in_the_way).unwrap();
    let output = command()
        .args(["export", "linear_forward.pickle.gz", "--to", "parquet", "--force", "-o"])
        .arg(&out)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("part-0.parquet"));
    assert_eq!(tree(&out), [""; 0]);
}

/// Otherwise the entries of the old recording would be joined with the lifetimes of the new one.
#[test]
fn an_export_over_another_one_leaves_no_table_of_that() {
    let folder = tempfile::tempdir().unwrap();
    let export = |more: &[&str]| {
        let mut command = command();
        command.args(["export", "linear_forward.pickle.gz", "--to", "parquet", "-o"]).arg(folder.path()).args(more);
        assert_eq!(command.output().unwrap().status.code(), Some(0));
        tree(folder.path())
    };
    let with_entries = export(&["--entries"]);
    let without = export(&["--force"]);
    let is_entries = |file: &&String| file.contains("entries");
    assert_eq!(with_entries.iter().filter(is_entries).count(), 1);
    assert!(!without.iter().any(|file| is_entries(&file)), "{without:?}");
}

/// A file that a killed export leaves equals that of a whole export, to the byte; and a recording that is listed in `snapshots` has all
/// of its tables.
#[test]
fn an_export_that_is_killed_leaves_whole_tables_only() {
    const RANKS: usize = 12;
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job");
    fs::create_dir(&job).unwrap();
    for (rank, recording) in recordings().iter().cycle().take(RANKS).enumerate() {
        fs::copy(recording, job.join(format!("rank{rank}.pickle.gz"))).unwrap();
    }
    let export = |out: &Path, more: &[&str]| {
        let mut export = Command::new(command().get_program());
        export.args(["export", "--to", "parquet", "--entries"]).arg(&job).arg("-o").arg(out).args(more);
        export.stderr(Stdio::null()).spawn().unwrap()
    };
    let whole = folder.path().join("whole");
    assert!(export(&whole, &[]).wait().unwrap().success());
    let tables = fs::read_dir(&whole).unwrap().count();
    let all = tree(&whole).len();
    assert_eq!(all, tables * RANKS);
    let out = folder.path().join("out");
    // Into an empty folder, then over the files of the export before.
    for (files, more) in [(1, &[][..]), (all / 2, &["--force"]), (all - 1, &["--force"]), (1, &["--force"])] {
        let mut child = export(&out, more);
        while !out.is_dir() || tree(&out).len() < files {
            if child.try_wait().unwrap().is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Where files without a name cannot be made, a hidden file was being written.
        let left: Vec<_> = tree(&out).into_iter().filter(|path| path.ends_with(".parquet")).collect();
        for path in &left {
            assert_eq!(fs::read(out.join(path)).unwrap(), fs::read(whole.join(path)).unwrap(), "{path}");
        }
        for listed in left.iter().filter_map(|path| path.strip_prefix("snapshots/")) {
            let of_it = left.iter().filter(|path| path.ends_with(listed)).count();
            assert_eq!(of_it, tables, "{listed}");
        }
    }
}

#[test]
fn options_of_tables_go_with_tables() {
    let refused = |line: &str, why: &str| {
        let said = failure(line);
        assert!(said.contains(why), "{said}");
    };
    refused("export linear_forward.pickle.gz --to parquet", "tables are a folder of files");
    refused("export linear_forward.pickle.gz --to csv --entries", "`--entries` only goes with `--to parquet`");
    refused("export linear_forward.pickle.gz multi_stream.pickle.gz --to csv", "`--to csv` takes one snapshot");
    assert_eq!(run("export s3://bucket/run --to parquet -o out").code, 2);
    assert_eq!(run_with("sql - -", "select 1").code, 2);
}
