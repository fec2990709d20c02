//! `highwater simulate`.

use std::fs::{read, read_to_string, write};
use std::path::Path;

use highwater_testkit::{gunzip, testdata};
use serde_json::Value;

use crate::run::{Run, command, failure, json, run, run_with, stdout};

const PROGRAM: &str = "op,id,bytes,stream,pool,value
alloc,1,3145728,0
alloc,2,700000,0
free,1
set_config,,,,,expandable_segments:True,max_split_size_mb:128
alloc,3,41943040,0
empty_cache
";

fn with_program(options: &str) -> Run {
    run_with(&format!("simulate --requests - {options}"), PROGRAM)
}

/// What a run that must fail on this program says.
fn refusal(options: &str, program: &str) -> String {
    let Run { code, stdout, stderr } = run_with(&format!("simulate --requests - {options}"), program);
    assert_eq!((code, stdout.as_str()), (2, ""), "{options}");
    stderr
}

#[test]
fn a_program_gives_the_events_that_pytorch_makes() {
    let Run { code, stdout, stderr } = with_program("--torch 2.11 --va first-fit --events - --stats -");
    assert_eq!((code, stderr.as_str()), (0, ""));
    let shown: Vec<_> = stdout.lines().take(12).collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    op,action,addr,bytes,stream,pool
    0,segment_alloc,0,20971520,0,0
    0,alloc,0,3145728,0,0
    1,segment_alloc,20971520,2097152,0,0
    1,alloc,20971520,700000,0,0
    2,free_requested,0,3145728,0,0
    2,free_completed,0,3145728,0,0
    4,segment_map,23068672,41943040,0,0
    4,alloc,23068672,41943040,0,0
    5,segment_free,0,20971520,0,0
    name,kind,current,peak,allocated,freed
    allocation,all,2,2,3,1
    ");
    assert!(stdout.ends_with("max_split_size,all,-1,,,\nerrors,all,0,,,\n"), "{stdout}");
}

#[test]
fn without_files_to_write_runs_are_compared() {
    let Run { code, stdout, stderr } = run(
        "simulate --requests ../allocator/programs/fuzz1.csv.gz --torch 2.11 --conf expandable_segments:True --conf \
         large_segment_size_mb:64 --capacity 1559MiB --capacity 64GiB",
    );
    assert_eq!((code, stderr.as_str()), (0, ""));
    insta::assert_snapshot!(stdout, @r"
    fuzz1.csv.gz: 5,001 rows, torch 2.11's rules, addresses driver

       capacity  outcome                     peak allocated  peak reserved  retries  settings
       1.52 GiB  out of memory at row 3,805        1.43 GiB       1.47 GiB        1  expandable_segments:True
      64.00 GiB  fits                              1.43 GiB       1.54 GiB        0  expandable_segments:True
       1.52 GiB  out of memory at row 3,794        1.36 GiB       1.51 GiB        5  large_segment_size_mb:64
      64.00 GiB  fits                              1.44 GiB       1.68 GiB        0  large_segment_size_mb:64
    ");
    let one = self::stdout("simulate --requests ../allocator/programs/fuzz1.csv.gz --torch 2.11 --capacity 1375MiB");
    insta::assert_snapshot!(one, @r"
    fuzz1.csv.gz: 5,001 rows, torch 2.11's rules, addresses driver

      capacity  outcome                     peak allocated  peak reserved  retries  settings
      1.34 GiB  out of memory at row 3,649        1.26 GiB       1.32 GiB       26  (PyTorch's default)
        over 5 orders of addresses: 1.32 GiB to 1.34 GiB reserved at the peak, 1.26 GiB (or up to 228.00 KiB less) allocated at the peak, 26 to 28 retries, 24 to 26 failures

    PyTorch would have said
      CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 1.34 GiB of which
      57.00 MiB is free. Of the allocated memory 1.21 GiB is allocated by PyTorch, and 79.21 MiB is
      reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting
      PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for
      Memory Management
      (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)
    ");
}

#[test]
fn the_summary_is_json_too() {
    let document = json(
        "simulate --requests ../allocator/programs/fuzz1.csv.gz --torch 2.11 --va first-fit --capacity 1375MiB --format json",
    );
    let mut run = document["runs"][0].clone();
    assert!(
        run["oom_message"].take().as_str().unwrap().starts_with("CUDA out of memory. Tried to allocate 64.00 MiB.")
    );
    insta::assert_snapshot!(run, @r#"{"capacity_bytes":1441792000,"conf":"","confidence":"exact","num_alloc_retries":26,"num_ooms":24,"oom_message":null,"oom_op":3649,"oom_requested_bytes":67108353,"outcome":"oom","peak_allocated_bytes":1352272896,"peak_reserved_bytes":1421869056}"#);
    assert_eq!((&document["format"], &document["version"]), (&"highwater-requests".into(), &1.into()));
    assert_eq!(document["torch"], serde_json::json!({"version": "2.11", "chosen_by": "flag"}));
    assert_eq!(document["program"], serde_json::json!({"kind": "requests", "rows": 5001}));
    assert_eq!(document["addresses"], "first-fit");
    assert_eq!(document["warnings"], serde_json::json!([]));
}

/// The cases of `testdata/allocator`, as PyTorch's own library ran them.
fn goldens() -> Vec<Value> {
    serde_json::from_slice(&gunzip(&testdata("allocator/index.json.gz"))).unwrap()
}

fn sha256(path: &Path) -> String {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(read(path).unwrap());
    digest.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// The allocator's own tests run every case; here it is the options and the files.
#[test]
fn the_files_are_those_of_the_oracle_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let cases = goldens();
    let cases: Vec<_> = cases.iter().step_by(13).collect();
    assert!(cases.len() > 15);
    for case in cases {
        let text = |key: &str| case[key].as_str().unwrap();
        let mut command = command();
        command.args([
            "simulate",
            "--force",
            "--requests",
            &format!("../allocator/programs/{}.csv.gz", text("program")),
        ]);
        command.args(["--torch", text("torch"), "--va", text("va"), "--conf", text("conf")]);
        command.args(["--capacity", &format!("{}MiB", case["capacity_mib"])]);
        for output in ["events", "blocks", "stats"] {
            command.arg(format!("--{output}")).arg(file(output));
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}: {}", text("case"), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout, b"", "{}", text("case"));
        for output in ["events", "blocks"] {
            assert_eq!(sha256(&file(output)), text(&format!("{output}_sha256")), "{}: {output}", text("case"));
        }
        assert_eq!(read_to_string(file("stats")).unwrap(), text("stats"), "{}", text("case"));
    }
}

#[test]
fn files_are_written_for_one_run_and_never_overwritten_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.csv");
    write(&path, "mine").unwrap();
    let options = format!("--events {}", path.display());
    let refused = refusal(&options, PROGRAM);
    assert!(refused.contains("already exists\nhint: overwrite it with `--force`"), "{refused}");
    assert_eq!(read(&path).unwrap(), b"mine");
    assert_eq!(with_program(&format!("{options} --force")).code, 0);
    assert!(read_to_string(&path).unwrap().starts_with("op,action,addr,bytes,stream,pool\n"));
    insta::assert_snapshot!(refusal("--blocks - --capacity 1GiB --capacity 2GiB", PROGRAM), @"
    error: `--blocks` writes one run, but there are 2
    hint: give one `--conf` and one `--capacity` at most
    ");
}

#[test]
fn scripted_addresses_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.csv");
    write(&path, "bytes,addr\n20971520,140000000000000\n2097152,139000000000000\n").unwrap();
    let events = with_program(&format!("--torch 2.11 --events - --va script:{}", path.display()));
    assert_eq!(events.stderr, "warning: a range was not in the script of addresses and got another address\n");
    let segments: Vec<_> = events.stdout.lines().filter(|line| line.contains("segment")).collect();
    insta::assert_snapshot!(segments.join("\n"), @"
    0,segment_alloc,140000000000000,20971520,0,0
    1,segment_alloc,139000000000000,2097152,0,0
    4,segment_map,17592186044416,41943040,0,0
    5,segment_free,140000000000000,20971520,0,0
    ");
    write(&path, "bytes,addr\n2097152,0x7f00\n").unwrap();
    let refused = refusal(&format!("--va script:{}", path.display()), PROGRAM);
    assert!(refused.contains("line 2: expected two numbers below 2^62"), "{refused}");
}

#[test]
fn bad_programs_settings_and_options_say_where_and_what_to_do() {
    insta::assert_snapshot!(refusal("", "op,id,bytes,stream,pool,value\nalloc,1,5\nmalloc,1"), @"
    error: standard input is not a request program
      caused by: line 3: unknown op `malloc`
    hint: a program has the columns `op,id,bytes,stream,pool,value`; RMM's log is read too
    ");
    insta::assert_snapshot!(refusal("", "id,bytes\n"), @"
    error: standard input is not a request program
      caused by: line 1: expected the header `op,id,bytes,stream,pool,value`
    hint: a program has the columns `op,id,bytes,stream,pool,value`; RMM's log is read too
    ");
    insta::assert_snapshot!(refusal("", "op,id,bytes,stream,pool,value\nset_config,,,,,max_split_size_mb:1\n"), @"
    error: torch 2.15 refuses the settings of row 0, standard input
      caused by: byte 18: `max_split_size_mb:1` is out of range: at least 20, the size of a large segment in MiB
    ");
    insta::assert_snapshot!(refusal("--torch 2.8", "op,id,bytes,stream,pool,value\npool_create,,,,1,no_split\n"), @"
    error: standard input: row 0: torch 2.8 has no `pool_create`
    hint: run it with `--torch 2.11` or newer
    ");
    let freed_pool =
        "op,id,bytes,stream,pool,value\npool_begin,,,,1\npool_end,,,,1\npool_release,,,,1\npool_release,,,,1\n";
    insta::assert_snapshot!(refusal("", freed_pool), @"
    error: standard input: row 3: PyTorch itself would fail here
      caused by: a private pool is used after its last use ended
    hint: PyTorch's further behaviour is undefined, so there is no result
    ");
    insta::assert_snapshot!(refusal("--capacity 1GiB --capacity 2GiB", freed_pool), @"
    error: standard input: row 3: PyTorch itself would fail here
      caused by: a private pool is used after its last use ended
    hint: this happens with PyTorch's default settings on 1.00 GiB
    ");
    insta::assert_snapshot!(refusal("--torch 2.11 --conf max_split_mb:128", PROGRAM), @"
    error: torch 2.11 refuses the settings `max_split_mb:128`
      caused by: byte 0: `max_split_mb` is not a setting of torch 2.11
    hint: write `KEY:VALUE,KEY:VALUE`
    ");
    insta::assert_snapshot!(refusal("--conf backend:cudaMallocAsync", PROGRAM), @"
    error: `backend:cudaMallocAsync` cannot be simulated
      caused by: the driver's own pools then serve the requests: they have no blocks, and their rules are unknown
    hint: leave the backend out, or write `backend:native`
    ");
    insta::assert_snapshot!(refusal("--capacity 9EiB", PROGRAM), @"
    error: invalid value '9EiB' for '--capacity <SIZE>': expected a size such as `16GiB`, `16GB`, `512M` or plain bytes

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refusal("--capacity 2000TiB", PROGRAM), @"error: `--capacity` is 1.95 PiB, expected at most 1.00 PiB");
    insta::assert_snapshot!(failure("simulate --requests nope.csv"), @"
    error: `nope.csv` cannot be read
      caused by: No such file or directory (os error 2)
    ");
    for (line, part) in [
        ("simulate", "<FILE>"),
        ("simulate linear_forward.pickle.gz --requests x.csv", "cannot be used with"),
        ("simulate linear_forward.pickle.gz --verify --conf x", "cannot be used with"),
        ("simulate linear_forward.pickle.gz --events x.csv", "cannot be used with"),
        ("simulate --requests x.csv --verify", "cannot be used with"),
        ("simulate --requests x.csv --va sideways", "`script:FILE`"),
        ("simulate --requests x.csv --torch 1.13", "`1.13` is not a version of torch from 2.1 to 2.15"),
    ] {
        let said = failure(line);
        assert!(said.contains(part), "{line}: {said}");
    }
}

#[test]
fn settings_without_effect_are_remarked_on() {
    let Run { code, stderr, .. } = with_program("--torch 2.11 --conf pinned_use_background_threads:True");
    assert_eq!((code, stderr.as_str()), (0, "warning: `pinned_use_background_threads` changes nothing here\n"));
}

#[test]
fn a_log_of_rmm_is_a_program() {
    let lines = (0..100).map(|i| (0x1000 + i * 256, 0x55_0000 + i * 16));
    let lines = lines.map(|(at, stream)| format!("7,10:00:00.000003,allocate,{at:#x},20000000,{stream:#x}\n"));
    let log = "Thread,Time,Action,Pointer,Size,Stream\n\
               7,10:00:00.000001,free,0x10,64,0x0\n\
               7,10:00:00.000002,allocate failure,(nil),34359738368,0x2\n"
        .to_owned()
        + &lines.collect::<String>()
        + "7,10:00:00.000004,free,0x1000,20000000,0x550000\n7,10:00";
    let Run { code, stdout, stderr } = run_with("simulate --requests - --torch 2.11", log.as_str());
    assert_eq!(code, 0);
    insta::assert_snapshot!(stderr, @"
    warning: a pointer is freed that no earlier line allocated; the free is ignored (line 2)
    warning: a line cannot be read; it is left out (line 105)
    ");
    insta::assert_snapshot!(stdout.lines().take(4).collect::<Vec<_>>().join("\n"), @r"
    standard input: 103 rows made from a log of RMM, torch 2.11's rules, addresses driver

       capacity  outcome                  peak allocated  peak reserved  retries  settings
      16.00 GiB  out of memory at line 3        1.95 GiB       1.95 GiB        1  (PyTorch's default)
    ");
    let events = run_with("simulate --requests - --torch 2.11 --va first-fit --events -", log.as_str()).stdout;
    assert_eq!(events.lines().last(), Some("102,free_completed,0,20000000,2,0"));
    let document = run_with("simulate --requests - --format json", log.as_str()).stdout;
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((&document["runs"][0]["oom_op"], &document["runs"][0]["oom_line"]), (&0.into(), &3.into()));
    assert_eq!(
        document["warnings"][0],
        serde_json::json!({
            "id": "unknown-free", "count": 1, "line": 2,
            "message": "a pointer is freed that no earlier line allocated; the free is ignored",
        })
    );
}

#[test]
fn recordings_replay_as_they_were_recorded() {
    assert_eq!(
        stdout("simulate fuzz_expandable.pickle.gz --verify"),
        "device 0: all 11,933 entries equal (torch 2.11's rules)\n"
    );
    assert_eq!(
        stdout("simulate fsdp2_qwen05b_rank2.pickle.gz --verify --device 2 --torch 2.10.1"),
        "device 2: all 38,948 entries equal (torch 2.10's rules)\n"
    );
    let document = json("simulate fuzz_gc08split64.pickle.gz --verify --format json");
    insta::assert_snapshot!(document, @r#"{"devices":[{"device":0,"fidelity":{"entries":11988,"equal":11988}}],"fidelity":{"entries":11988,"equal":11988},"format":"highwater-verify","torch":{"chosen_by":"file","keys":"2.10 to 2.11","version":"2.11"},"version":1,"warnings":[]}"#);
}

#[test]
fn a_difference_is_shown_and_fails_the_check() {
    let Run { code, stdout, stderr } = run("simulate fuzz_expandable.pickle.gz --verify --torch 2.12");
    assert_eq!((code, stderr.as_str()), (1, ""));
    insta::assert_snapshot!(stdout, @r"
    device 0: 1,768 of 11,933 entries equal (torch 2.12's rules); the first that differs is entry 1,768
                 action  address      bytes  stream
      recorded   alloc   0x3021c3400    512       0
      predicted  alloc   0x3021c5000    512       0
    the block has another address: another version's order of equal blocks, a private pool, or a setting
    that changed during the run
    ");
    // Its first entries are left out: what is freed at entry 0 was never allocated.
    let snapshot = r#"{"segments": [], "device_traces": [[
        {"action": "free_requested", "addr": 4096, "size": 512, "stream": 0},
        {"action": "oom", "addr": 0, "size": 1048576, "stream": 0, "device_free": 0}]]}"#;
    let gone = run_with("simulate - --verify --torch 2.11", snapshot);
    assert_eq!(gone.code, 1);
    insta::assert_snapshot!(gone.stdout, @r"
    device 0: 0 of 2 entries equal (torch 2.11's rules); the first that differs is entry 0
                action          address  bytes  stream
      recorded  free_requested  0x1000     512       0
    the recording begins after the program, and the allocator's state at that point is unknown
    ");
    let document = run_with("simulate - --verify --torch 2.11 --format json", snapshot);
    assert_eq!(document.code, 1);
    let document: Value = serde_json::from_str(&document.stdout).unwrap();
    insta::assert_snapshot!(document["fidelity"], @r#"{"entries":2,"equal":0,"first_difference":{"device":0,"entry":0,"note":"the recording begins after the program, and the allocator's state at that point is unknown","predicted":null,"recorded":{"action":"free_requested","address":4096,"size_bytes":512,"stream":0}}}"#);
}

#[test]
fn the_version_is_the_one_that_agrees_most_where_the_keys_leave_several() {
    let document = json("simulate ../layouts/torch_2_1.pickle --verify --format json");
    assert_eq!(document["torch"], serde_json::json!({"version": "2.1", "chosen_by": "file", "keys": "2.0 to 2.1"}));
    // Settings came with torch 2.3, and another one with 2.9. Torch 2.6 changed a rule that decides nothing here.
    let snapshot = stdout("export ../layouts/torch_2_2.pickle --to json");
    let settings = r#""allocator_settings":{"PYTORCH_CUDA_ALLOC_CONF":""}"#;
    let snapshot = snapshot.replace(r#""allocator_settings":{}"#, settings);
    let Run { code, stdout, stderr } = run_with("simulate - --verify --format json", snapshot);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["torch"], serde_json::json!({"version": "2.8", "chosen_by": "replay", "keys": "2.3 to 2.8"}));
}

#[test]
fn what_the_driver_allocated_cannot_be_replayed() {
    let snapshot = r#"{"segments": [], "device_traces": [], "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}}"#;
    let Run { code, stderr, .. } = run_with("simulate - --verify", snapshot);
    assert_eq!(code, 2);
    insta::assert_snapshot!(stderr, @"
    error: standard input was recorded with `backend:cudaMallocAsync`
      caused by: the driver's own pools served the requests: they have no blocks and no segments to predict
    hint: `highwater report` shows what was requested; record with `backend:native` to replay
    ");
    assert_eq!(stdout("simulate ../layouts/no_traces.pickle --verify"), "device 0: there are no entries to compare\n");
}
