//! Each target over the inputs that are kept for it in `fuzz/corpus`.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use highwater_fuzz_targets::TARGETS;

/// A corpus larger than this is no longer small: see `fuzz/README.md`.
const LARGEST_BYTES: usize = 100_000;

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
        assert!(!inputs.is_empty(), "`{name}` has an input");
        let mut bytes_of_all = 0;
        for input in inputs {
            let bytes = fs::read(folder.join(&input)).unwrap();
            bytes_of_all += bytes.len();
            assert!(catch_unwind(|| target(&bytes)).is_ok(), "`{name}` fails for fuzz/corpus/{name}/{input}");
        }
        assert!(bytes_of_all < LARGEST_BYTES, "the corpus of `{name}` has {bytes_of_all} bytes");
    }
}

#[test]
fn every_target_has_a_binary_and_a_corpus_and_nothing_else_has() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&fuzz().join("fuzz_targets"), ".rs"), targets);
    assert_eq!(names(&fuzz().join("corpus"), ""), targets);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for name in targets {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "Cargo.toml names `{name}`");
    }
}
