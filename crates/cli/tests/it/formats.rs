//! Documents against the schemas in `schemas/`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use highwater_documents::ALL;
use jsonschema::Validator;
use serde_json::Value;

use crate::run::json;

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
    let format = document["format"].as_str().expect("a document has a name");
    let wrong: Vec<_> = validator(format)
        .iter_errors(document)
        .take(5)
        .map(|error| format!("{}: {error}", error.instance_path()).chars().take(300).collect::<String>())
        .collect();
    assert!(wrong.is_empty(), "{format}: {wrong:#?}");
}

/// A command for every document that can be made without a GPU and without PyTorch.
const COMMANDS: [&str; 19] = [
    "check linear_forward.pickle.gz --max-peak-reserved 1MiB --max-fragmentation 1%",
    "diff qwen_train_b2.pickle.gz qwen_train_b16.pickle.gz --rows 2,16 --capacity 80GiB",
    "diff linear_forward.pickle.gz annotated.pickle.gz --events",
    "estimate gpt2 --batch 4 --seq 512 --fit 24GiB --method simple --sweep batch=1..4",
    "explain oom_gpt2_8gib.pickle.gz",
    "explain qwen_train_b2.pickle.gz --capacity 24GiB",
    "live linear_forward.pickle.gz",
    "report annotated.pickle.gz",
    "report cuda_graph_pools.pickle.gz",
    "report leak_grows.pickle.gz --timings",
    "report oom_gpt2_8gib.pickle.gz",
    "segments cuda_graph_pools.pickle.gz",
    "simulate linear_forward.pickle.gz",
    "simulate linear_forward.pickle.gz --conf expandable_segments:True --capacity 1GiB --card t4",
    "simulate linear_forward.pickle.gz --verify",
    "simulate --requests ../allocator/programs/fuzz1.csv.gz --torch 2.11 --capacity 1375MiB",
    "stats linear_forward.pickle.gz",
    "trace annotated.pickle.gz",
    "trace oom_gpt2_8gib.pickle.gz --limit 100",
];

/// Made where there is a GPU, by PyTorch, by the Python package, or by the viewer: their own tests check them, where there are some.
const MADE_ELSEWHERE: [&str; 6] =
    ["highwater-doctor", "highwater-dryrun", "highwater-log", "highwater-top", "highwater-totals", "highwater-view"];

#[test]
fn every_document_is_what_its_schema_says() {
    let mut made: Vec<String> = COMMANDS
        .iter()
        .map(|line| {
            let document = json_of_any_status(&format!("{line} --format json"));
            check(&document);
            let format = document["format"].as_str().unwrap().to_owned();
            let kind = ALL.iter().find(|kind| kind.format == format).expect("it is in the registry");
            assert_eq!(document["version"], kind.version, "{line}");
            format
        })
        .collect();
    made.extend(MADE_ELSEWHERE.map(str::to_owned));
    for kind in ALL {
        assert!(made.iter().any(|format| format == kind.format), "no command of this test makes {}", kind.format);
    }
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
