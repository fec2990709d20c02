//! A module asks for no other that its own feature leaves out. In the workspace all features are united, so only a package that is built alone
//! would notice: `make verified-packages` builds each, and takes minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use highwater_testkit::{files, repository};

/// The features that each feature brings, itself among them.
fn brought(manifest: &toml::Table) -> BTreeMap<String, BTreeSet<String>> {
    let features = manifest["features"].as_table().unwrap();
    let of = |name: &str| {
        let mut found = BTreeSet::from([name.to_owned()]);
        let mut rest = vec![name.to_owned()];
        while let Some(feature) = rest.pop() {
            let names = features[&feature].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            rest.extend(
                names
                    .filter(|name| features.contains_key(*name) && found.insert((*name).to_owned()))
                    .map(str::to_owned),
            );
        }
        found
    };
    features.keys().map(|name| (name.clone(), of(name))).collect()
}

/// The words of a text that can be names.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).filter(|word| !word.is_empty())
}

/// What stands after each `crate::`: a name, or all names in its braces.
fn asked_of_crate(source: &str) -> BTreeSet<&str> {
    let after = source.split("crate::").skip(1);
    let asked = after.flat_map(|rest| match rest.strip_prefix('{') {
        Some(list) => names(list.split(';').next().unwrap()).collect(),
        None => names(rest).take(1).collect::<Vec<_>>(),
    });
    asked.collect()
}

fn sources_of(root: &Path, module: &str) -> Vec<String> {
    let file = root.join(format!("{module}.rs"));
    let folder = root.join(module);
    let mut paths = if folder.is_dir() { files(&folder, ".rs") } else { Vec::new() };
    paths.extend(file.exists().then_some(file));
    assert!(!paths.is_empty(), "no source of {module}");
    paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn a_module_asks_for_what_its_feature_brings() {
    let package = repository("crates/documents");
    let manifest = std::fs::read_to_string(package.join("Cargo.toml")).unwrap().parse().unwrap();
    let brought = brought(&manifest);
    let root = std::fs::read_to_string(package.join("src/lib.rs")).unwrap();

    // The feature of each module, and of each name that is exported from one.
    let mut feature_of = BTreeMap::new();
    let mut modules = Vec::new();
    for item in root.split("#[cfg(feature = \"").skip(1) {
        let (feature, item) = item.split_once("\")]\n").unwrap();
        let item = item.split(';').next().unwrap();
        feature_of.extend(names(item).filter(|name| !["pub", "mod", "use"].contains(name)).map(|name| (name, feature)));
        modules.extend(item.trim_start_matches("pub ").strip_prefix("mod ").map(|module| (module, feature)));
    }
    assert!(modules.len() > 20, "the features of modules are read: {modules:?}");

    for (module, feature) in modules {
        for source in sources_of(&package.join("src"), module) {
            let code = source.split("#[cfg(test)]").next().unwrap();
            for asked in asked_of_crate(code) {
                let needed = feature_of.get(asked);
                assert!(
                    needed.is_none_or(|needed| brought[feature].contains(*needed)),
                    "`{module}` is part of `{feature}`, and asks for `{asked}` of `{}`",
                    needed.unwrap()
                );
            }
        }
    }
}
