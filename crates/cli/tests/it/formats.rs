//! Documents against the schemas in `schemas/`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use highwater_analysis::analyse;
use highwater_documents::columns::{Options, columns};
use highwater_documents::dryrun::{CardView, DryrunView, OtherwiseView, Runs};
use highwater_documents::{ALL, ExplainView, report};
use highwater_nullgpu::alike::Kind;
use highwater_nullgpu::run::{FailedRank, Outcome, Unanswered};
use highwater_nullgpu::sandbox::Writes;
use highwater_testkit::{recording, testdata};
use jsonschema::Validator;
use serde_json::Value;

use crate::run::json;
#[cfg(target_os = "linux")]
use crate::top::{Machine, TWO};

/// Schemas that were read, by the name of the document: to compile one takes as long as to check a hundred documents.
static VALIDATORS: LazyLock<Mutex<HashMap<String, &'static Validator>>> = LazyLock::new(Mutex::default);

fn validator(format: &str) -> &'static Validator {
    let mut validators = VALIDATORS.lock().unwrap();
    validators.entry(format.to_owned()).or_insert_with(|| {
        let name = format.strip_prefix("highwater-").expect("a name of highwater's");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{name}.schema.json"));
        let text = std::fs::read_to_string(&path).expect("each document has a schema");
        let schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
        Box::leak(Box::new(jsonschema::validator_for(&schema).expect("it is a schema")))
    })
}

/// Panics where a document is not what its schema says.
pub(crate) fn check(document: &Value) {
    check_as(document["format"].as_str().expect("a document has a name"), document);
}

/// Panics where a document, or a line of a log, is not what the schema of `format` says.
fn check_as(format: &str, document: &Value) {
    let wrong: Vec<_> = validator(format)
        .iter_errors(document)
        .take(5)
        .map(|error| format!("{}: {error}", error.instance_path()).chars().take(300).collect::<String>())
        .collect();
    assert!(wrong.is_empty(), "{format}: {wrong:#?}");
}

/// Commands that answer with a document, without a GPU and without PyTorch.
const COMMANDS: &[&str] = &[
    "check linear_forward.pickle.gz --max-peak-reserved 1MiB --max-fragmentation 1%",
    "diff qwen_train_b2.pickle.gz qwen_train_b16.pickle.gz --rows 2,16 --capacity 80GiB",
    "diff linear_forward.pickle.gz annotated.pickle.gz --events",
    "estimate gpt2 --batch 4 --seq 512 --fit 24GiB --method simple --sweep batch=1..4",
    "estimate llama3.1-8b --serve vllm@0.11.0 --gpu h100 --need 32x8192 --fit h100,l4",
    "explain oom_gpt2_8gib.pickle.gz",
    "explain qwen_train_b2.pickle.gz --capacity 24GiB",
    "live linear_forward.pickle.gz",
    "ranks ../findings/two_devices.pickle.gz",
    "ranks ../batches/resnet18_b8.pickle.gz ../batches/resnet18_b32.pickle.gz",
    "report annotated.pickle.gz",
    "report cuda_graph_pools.pickle.gz",
    "report leak_grows.pickle.gz --timings",
    "report oom_gpt2_8gib.pickle.gz",
    "segments cuda_graph_pools.pickle.gz",
    "simulate linear_forward.pickle.gz",
    "simulate linear_forward.pickle.gz --conf expandable_segments:True --capacity 1GiB --card t4",
    "simulate linear_forward.pickle.gz --verify",
    "simulate --requests ../allocator/programs/fuzz1.csv.gz --torch 2.11 --capacity 1375MiB",
    "sql linear_forward.pickle.gz values(1,2.5,'a',null)",
    "stats linear_forward.pickle.gz",
    "trace annotated.pickle.gz",
    "trace oom_gpt2_8gib.pickle.gz --limit 100",
];

#[test]
fn every_document_is_what_its_schema_says() {
    let of_commands = COMMANDS.iter().map(|line| json_of_any_status(&format!("{line} --format json")));
    let mut documents: Vec<Value> = of_commands.chain([viewer(), totals(), manifest(), dryrun()]).collect();
    #[cfg(target_os = "linux")]
    documents.extend([top(), doctor(), log()]);
    let mut made: Vec<String> = Vec::new();
    for document in documents {
        check(&document);
        let format = document["format"].as_str().unwrap();
        let kind = ALL.iter().find(|kind| kind.format == format).expect("it is in the registry");
        assert_eq!(document["version"], kind.version, "{format}");
        made.push(format.to_owned());
    }
    if cfg!(target_os = "linux") {
        for kind in ALL {
            assert!(made.iter().any(|format| format == kind.format), "nothing in this test makes {}", kind.format);
        }
    }
}

/// The manifest of the columns that the viewer draws.
fn viewer() -> Value {
    let snapshot = recording("annotated");
    let columns = columns(&analyse(&snapshot), "annotated.pickle.gz", &Options::default());
    serde_json::to_value(&columns.manifest).unwrap()
}

/// What `python/tests/test_recording.py` holds the recorder to.
fn totals() -> Value {
    highwater_testkit::json(&testdata("recorder/run.totals.json"))
}

/// What `python/tests/test_job.py` holds the recorder to.
fn manifest() -> Value {
    highwater_testkit::json(&testdata("recorder/rank9.manifest.json"))
}

/// A dry run that ran out of memory in a sandbox, put together from a process's note and a recording: to make one takes PyTorch.
fn dryrun() -> Value {
    let peaks = serde_json::json!({
        "device": 0, "peak_requested_bytes": 1, "peak_allocated_bytes": 512, "peak_active_bytes": 512,
        "peak_reserved_bytes": 2 << 20, "num_alloc_retries": 1, "num_ooms": 1,
    });
    let read =
        serde_json::json!({"what": "aten::item", "place": "train.py:3 <module>", "count": 7, "may_matter": true});
    let note = serde_json::json!({
        "pid": 42, "arguments": ["train.py"], "rank": 0, "world_size": 2, "torch": "2.11.0", "how": "oom",
        "error": "OutOfMemoryError: CUDA out of memory.", "stack": "", "steps": 0, "snapshot": "/tmp/run.pickle",
        "devices": [peaks], "reads": [read], "assumed": [], "could_differ": false, "compiled": true, "benchmarked": true,
        "convolutions_estimated": true, "host_peak_bytes": 1 << 30,
        "failed": {"device": 0, "requested_bytes": 1 << 30, "count": 1, "snapshot": "/tmp/oom.pickle"},
    });
    let outcome = Outcome {
        processes: vec![serde_json::from_value(note).expect("a note as `highwater_dryrun/notes.py` writes it")],
        unanswered: Unanswered { guessed: vec!["cublasLtMatmul".to_owned()], unanswered: vec![] },
        status: std::process::ExitStatus::default(),
        failed_rank: Some(FailedRank { rank: 1, status: std::process::ExitStatus::default(), ended_before: vec![] }),
        timed_out: false,
        duration: std::time::Duration::from_secs(3),
        writes: Some(Writes::default()),
        asked_to_end: false,
        unwritten: None,
    };
    let snapshot = recording("oom_gpt2_8gib");
    let report = report(&analyse(&snapshot));
    let card = CardView { key: "h100", name: "NVIDIA H100", memory_bytes: 8 << 30, proven: true };
    let explained = ExplainView::default();
    let kinds = [Kind { ranks: vec![0, 1], ran: 0, found: Some(outcome.processes[0].clone()) }];
    let runs = Runs {
        first: &outcome,
        main: &outcome.processes[0],
        otherwise: Some(OtherwiseView { error: "NameError: name 'loss' is not defined", assumed: "fraction=0.001" }),
        late: Some(&outcome),
        late_after_first_step: Some(&outcome),
        few: Some(&outcome),
        kinds: Some(&kinds),
    };
    let view = DryrunView::new(card, 1, runs, &report, None, Some(&explained));
    serde_json::to_value(&view).unwrap()
}

#[cfg(target_os = "linux")]
fn top() -> Value {
    Machine::new(TWO).json(&["top", "--once", "--format", "json"])
}

#[cfg(target_os = "linux")]
fn doctor() -> Value {
    let run = Machine::new(TWO).run(&["doctor", "--format", "json"]);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

/// The first line of a log; the others are checked here.
#[cfg(target_os = "linux")]
fn log() -> Value {
    let machine = Machine::new(TWO);
    assert_eq!(machine.run(&["top", "--record", "a.hwlog", "--interval", "0.01", "--samples", "2"]).code, 0);
    let log = std::fs::read_to_string(machine.path("a.hwlog")).unwrap();
    let mut lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("each line is JSON"));
    let header = lines.next().expect("a log has a first line");
    let samples: Vec<_> = lines.collect();
    assert_eq!(samples.len(), 2);
    for sample in &samples {
        check_as("highwater-log", sample);
    }
    header
}

/// A check that fails is a document, too.
fn json_of_any_status(line: &str) -> Value {
    let run = crate::run::run(line);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{line}: {error}: {}", run.stderr))
}

#[test]
fn a_document_that_lacks_a_key_is_refused() {
    let mut document = json("stats linear_forward.pickle.gz --format json");
    assert!(validator("highwater-stats").is_valid(&document));
    document.as_object_mut().unwrap().remove("devices");
    assert!(!validator("highwater-stats").is_valid(&document));
}

#[test]
fn a_shape_has_one_name() {
    let simulated = |line: &str| json(&format!("simulate {line} --format json"))["format"].clone();
    assert_eq!(simulated("linear_forward.pickle.gz"), "highwater-simulate");
    assert_eq!(simulated("linear_forward.pickle.gz --verify"), "highwater-verify");
}
