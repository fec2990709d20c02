//! Each target over the inputs that are kept for it in `fuzz/corpus`.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use highwater_fuzz_targets::TARGETS;

/// The most bytes and inputs of one corpus, which `fuzz/keep.py` keeps to as well: `make test` replays them all.
const MOST_BYTES: usize = 40_000;
const MOST_INPUTS: usize = 60;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names(folder: &Path, ending: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| name.strip_suffix(ending).unwrap_or(&name).to_owned()).collect()
}

#[test]
fn every_target_holds_for_its_corpus() {
    for (name, target) in TARGETS {
        let folder = fuzz().join("corpus").join(name);
        let inputs = names(&folder, "");
        assert!((1..=MOST_INPUTS).contains(&inputs.len()), "`{name}` has {} inputs", inputs.len());
        let mut bytes_of_all = 0;
        for input in inputs {
            let bytes = fs::read(folder.join(&input)).unwrap();
            bytes_of_all += bytes.len();
            assert!(catch_unwind(|| target(&bytes)).is_ok(), "`{name}` fails for fuzz/corpus/{name}/{input}");
        }
        assert!(bytes_of_all <= MOST_BYTES, "the corpus of `{name}` has {bytes_of_all} bytes");
    }
}

#[test]
fn every_target_has_a_binary_seeds_and_a_corpus_and_nothing_else_has() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&fuzz().join("fuzz_targets"), ".rs"), targets);
    assert_eq!(names(&fuzz().join("corpus"), ""), targets);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let seeds = fs::read_to_string(fuzz().join("seeds.py")).unwrap();
    for name in targets {
        assert!(seeds.contains(&format!("\"{name}\": ")), "`TARGETS` of seeds.py names `{name}`");
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "Cargo.toml names `{name}`");
    }
}
