//! `docs/environment.md` is the table of environment variables: it has those of the sources, and no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PREFIX: &str = concat!("HIGHWATER", "_");

/// The variables that a text names. A name that ends with `_` is the beginning of several, which are elsewhere.
fn variables(text: &str) -> BTreeSet<String> {
    let names = text.match_indices(PREFIX).map(|(at, _)| {
        let name = &text[at..];
        &name[..name.find(|letter: char| !(letter.is_ascii_uppercase() || letter == '_')).unwrap_or(name.len())]
    });
    names.filter(|name| !name.ends_with('_')).map(str::to_owned).collect()
}

/// The variables that the files of a directory name. Links are not followed.
fn variables_below(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let (kind, path) = (entry.file_type().unwrap(), entry.path());
        if kind.is_dir() {
            let is_made = ["target", "__pycache__", "node_modules", "corpus"].iter().any(|made| path.ends_with(made));
            if !is_made {
                variables_below(&path, found);
            }
        } else if kind.is_file()
            && path.extension().is_some_and(|extension| SOURCES.iter().any(|one| extension == *one))
        {
            found.extend(variables(&String::from_utf8_lossy(&fs::read(&path).unwrap())));
        }
    }
}

/// What files of programs are called.
const SOURCES: [&str; 5] = ["rs", "py", "pyi", "pth", "toml"];

#[test]
fn the_page_of_environment_variables_has_those_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut used = BTreeSet::new();
    for directory in ["crates", "python", "fuzz"] {
        variables_below(&root.join(directory), &mut used);
    }
    let page = variables(&fs::read_to_string(root.join("docs/environment.md")).unwrap());
    let missing: Vec<_> = used.difference(&page).collect();
    let gone: Vec<_> = page.difference(&used).collect();
    assert!(used.len() > 20, "{used:?}");
    assert!(missing.is_empty() && gone.is_empty(), "not in docs/environment.md: {missing:?}; only there: {gone:?}");
}
