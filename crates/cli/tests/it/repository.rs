//! What strangers find first: workflows, forms, the changelog, the examples for monitoring.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files in a directory.
fn files(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(directory)).unwrap().map(|entry| entry.unwrap().file_name());
    entries.map(|name| format!("{directory}/{}", name.into_string().unwrap())).collect()
}

#[test]
fn workflows_call_what_is_pinned_and_hold_no_secret() {
    let mut calls = 0;
    for path in [files(".github/workflows"), vec!["action.yml".to_owned()]].concat() {
        let text = text(&path);
        assert!(!text.contains("secrets."), "{path} uses a secret");
        assert!(
            path == "action.yml" || text.contains("\npermissions:\n  contents: read\n"),
            "{path} may do more than read"
        );
        for action in text.lines().filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix("uses: "))
        {
            let (pin, version) = action.split_once(" # ").unwrap_or_else(|| panic!("{path}: {action} has no version"));
            let commit = pin.split_once('@').map(|(_, commit)| commit).unwrap_or_default();
            let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_commit && version.starts_with('v'), "{path}: {action} is not pinned by a commit");
            calls += 1;
        }
        // What a pull request or an input says reaches a shell by the environment only.
        for line in text.lines().skip_while(|line| !line.contains("run: |")) {
            let is_shell = !line.contains(": ${{") && line.starts_with("          ");
            assert!(!is_shell || !line.contains("${{"), "{path}: `{}` puts an expression into a script", line.trim());
        }
    }
    assert!(calls >= 5, "{calls} actions are called");
}

#[test]
fn issues_ask_for_what_can_be_read_without_a_recording() {
    for path in files(".github/ISSUE_TEMPLATE").iter().filter(|path| !path.ends_with("config.yml")) {
        assert!(text(path).contains("highwater report --redact --format markdown"), "{path}");
    }
}

#[test]
fn the_changelog_has_this_version_and_known_kinds_of_change() {
    let (page, rules) = (text("CHANGELOG.md"), text("docs/compatibility.md"));
    let mut versions = page.lines().filter_map(|line| line.strip_prefix("## "));
    assert!(
        versions.any(|version| version.split(' ').next() == Some(env!("CARGO_PKG_VERSION"))),
        "this version is missing"
    );
    let kinds: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    for kind in kinds {
        assert!(rules.contains(&format!("**{kind}**")), "docs/compatibility.md does not explain {kind}");
    }
}

#[test]
fn the_front_pages_lead_to_their_homes() {
    assert!(text("CONTRIBUTING.md").contains("(docs/contributing.md)"));
    assert!(text("SECURITY.md").contains("(docs/security.md)"));
    for page in files("docs/integrations") {
        let name = page.rsplit('/').next().unwrap();
        assert!(name == "README.md" || text("docs/integrations/README.md").contains(&format!("({name})")), "{page}");
    }
}

/// Everything of the examples that Prometheus would be asked for is served by `highwater top`.
#[test]
fn the_dashboard_and_the_alerts_name_metrics_that_exist() {
    let source = text("crates/top/src/prometheus.rs");
    let mut named = BTreeSet::new();
    for path in ["examples/grafana/highwater.json", "examples/prometheus/highwater.rules.yml"] {
        let text = text(path);
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        named.extend(words.filter_map(|word| word.strip_prefix("highwater_")).map(str::to_owned));
    }
    assert!(named.len() >= 12, "{named:?}");
    for metric in named {
        assert!(source.contains(&format!("(\"{metric}\"")), "`top` does not serve highwater_{metric}");
    }
}

#[test]
fn the_demo_explains_its_recording_and_saves_it() {
    let explained = crate::run::stdout("explain oom_gpt2_8gib.pickle.gz");
    let demo = crate::run::stdout("demo");
    let body = explained.split_once('\n').unwrap().1;
    assert!(demo.contains(body), "{demo}");
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("oom.pickle.gz");
    let save = || crate::run::command().args(["demo", "-o"]).arg(&saved).output().unwrap();
    assert!(save().status.success());
    assert_eq!(fs::read(&saved).unwrap(), fs::read(crate::run::recordings().join("oom_gpt2_8gib.pickle.gz")).unwrap());
    assert_eq!(save().status.code(), Some(2), "a file that is there stays");
}
