//! The schemas and the page of formats are those of the structures.

use std::path::Path;
use std::{fs, iter};

use highwater_documents::{ALL, CHANGES};

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn schemas_and_page_in_the_repository_are_current() {
    for (path, text) in highwater_schemas::files() {
        let there = fs::read_to_string(root().join(&path)).unwrap_or_default();
        assert!(there == text, "{path} is not what the structures say: run `make schemas`");
    }
}

#[test]
fn there_is_no_schema_of_a_document_that_is_gone() {
    let known: Vec<String> = ALL.iter().map(|kind| highwater_schemas::file_name(kind.format)).collect();
    for entry in fs::read_dir(root().join("schemas")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name), "schemas/{name} is of no document: remove it");
    }
}

#[test]
fn every_version_of_every_format_is_in_the_list_of_changes() {
    for kind in ALL {
        let versions: Vec<u32> =
            CHANGES.iter().filter(|change| change.format == kind.format).map(|change| change.version).collect();
        for version in 1..=kind.version {
            assert!(versions.contains(&version), "{} {version} has no entry in CHANGES", kind.format);
        }
        assert!(versions.iter().all(|version| *version <= kind.version), "{}", kind.format);
    }
}

#[test]
fn every_name_is_of_one_shape() {
    let names: Vec<_> = ALL.iter().map(|kind| kind.format).collect();
    for (name, next) in iter::zip(&names, &names[1..]) {
        assert!(name < next, "`{name}` and `{next}`: names are in order, and each is there once");
    }
}

/// What has no comment has no meaning that anybody could know.
#[test]
fn every_key_says_what_it_means() {
    let page = highwater_schemas::page();
    let silent: Vec<_> = page.lines().filter(|line| line.starts_with("| `") && line.ends_with("|  |")).collect();
    assert!(silent.is_empty(), "{silent:#?}");
}
