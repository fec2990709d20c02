//! `ARCHITECTURE.md` names every crate, draws arrows that exist, and stays short.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../../../ARCHITECTURE.md");

/// Words on the page, as `wc -w` counts them.
const WORDS_MAX: usize = 1500;

/// Lines of a crate that needs no reason for being as large.
const LINES_MAX: usize = 9000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The directories in `crates/`.
fn crates() -> BTreeSet<String> {
    let entries = fs::read_dir(root().join("crates")).unwrap().map(Result::unwrap);
    let crates = entries.filter(|entry| entry.path().join("Cargo.toml").exists());
    crates.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// The floor on which the page draws each crate, counted from the top.
fn floors() -> BTreeMap<&'static str, usize> {
    let drawing = PAGE.split("```floors\n").nth(1).and_then(|rest| rest.split("```").next()).expect("there are floors");
    let mut floors = BTreeMap::new();
    for (floor, line) in drawing.lines().enumerate() {
        for name in line.split('·').next().unwrap().split_whitespace() {
            assert_eq!(floors.insert(name, floor), None, "{name} stands on two floors");
        }
    }
    floors
}

/// The crates of this workspace that a crate uses outside its tests.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let targets = manifest.get("target").and_then(toml::Value::as_table).into_iter().flatten();
    let tables = targets.filter_map(|(_, target)| target.get("dependencies")).chain(manifest.get("dependencies"));
    let names = tables.flat_map(|table| table.as_table().unwrap().keys());
    let own = names.filter_map(|name| if name == "highwater" { Some("cli") } else { name.strip_prefix("highwater-") });
    own.map(str::to_owned).collect()
}

/// What stands between backquotes on the page.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Lines of the Rust files in a directory.
fn lines_in(directory: &Path) -> usize {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let lines = paths.map(|path| match path.extension() {
        _ if path.is_dir() => lines_in(&path),
        Some(extension) if extension == "rs" => fs::read_to_string(&path).unwrap().lines().count(),
        _ => 0,
    });
    lines.sum()
}

#[test]
fn a_large_crate_says_why() {
    for name in crates() {
        let source = root().join("crates").join(&name).join("src");
        let first = fs::read_to_string(source.join("lib.rs")).unwrap_or_default();
        let comment = first.lines().take_while(|line| line.starts_with("//!")).collect::<String>();
        let (lines, gives_reason) = (lines_in(&source), comment.contains("More than 9,000 lines, because"));
        assert_eq!(lines > LINES_MAX, gives_reason, "{name} has {lines} lines");
    }
}

#[test]
fn the_page_is_short() {
    let words = PAGE.split_whitespace().count();
    assert!(
        words <= WORDS_MAX,
        "ARCHITECTURE.md has {words} words; move what is about a file to the comment at its top"
    );
}

#[test]
fn the_page_has_an_entry_and_a_floor_for_every_crate() {
    let entries = PAGE.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("**:"));
    let entries: BTreeSet<String> = entries.map(|(name, _)| name.to_owned()).collect();
    let floors: BTreeSet<String> = floors().into_keys().map(str::to_owned).collect();
    assert_eq!(entries, crates(), "the entries of ARCHITECTURE.md, and the directories in crates/");
    assert_eq!(floors, crates(), "the floors of ARCHITECTURE.md, and the directories in crates/");
}

#[test]
fn every_crate_depends_on_lower_floors_only() {
    let floors = floors();
    for name in crates() {
        for other in dependencies(&name) {
            assert!(
                floors[&*name] < floors[&*other],
                "{name} depends on {other}, which ARCHITECTURE.md draws no lower"
            );
        }
    }
}

#[test]
fn what_the_page_names_is_there() {
    for path in quoted(PAGE).filter(|quoted| quoted.contains('/')) {
        assert!(root().join(path).exists(), "ARCHITECTURE.md names {path}");
    }
    // In a row of a table, what stands between backquotes without a `/` is in the files that the row names.
    for row in PAGE.lines().filter(|line| line.starts_with("| ")) {
        let (paths, names): (Vec<&str>, Vec<&str>) = quoted(row).partition(|quoted| quoted.contains('/'));
        let texts = paths.iter().filter_map(|path| fs::read_to_string(root().join(path)).ok());
        let text = texts.collect::<String>();
        for name in names.into_iter().filter(|_| !text.is_empty()) {
            assert!(text.contains(name), "ARCHITECTURE.md: {name} is not in {}", paths.join(", "));
        }
    }
}

#[test]
fn each_worked_example_has_its_chapter() {
    let guide = fs::read_to_string(root().join("docs/contributing.md")).unwrap();
    let chapters = guide.lines().filter_map(|line| line.strip_prefix("## "));
    let anchors: BTreeSet<String> = chapters.map(|chapter| chapter.to_lowercase().replace(' ', "-")).collect();
    let links = PAGE.match_indices("docs/contributing.md#").map(|(at, link)| &PAGE[at + link.len()..]);
    for anchor in links.filter_map(|rest| rest.split(')').next()) {
        assert!(anchors.contains(anchor), "docs/contributing.md has no chapter {anchor}");
    }
}
