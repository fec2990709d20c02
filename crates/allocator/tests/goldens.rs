//! What PyTorch's own allocator did with the programs in `testdata/allocator`, case by case and to the byte.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use highwater_allocator::program::{self, Options, Program};
use highwater_testkit::{gunzip, testdata};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// How many failing cases are shown.
const SHOWN: usize = 5;

fn unzipped(name: &str) -> Vec<u8> {
    gunzip(&testdata(format!("allocator/{name}")))
}

/// One line of the index: a program, what it ran on, and what came out.
struct Case(Value);

impl Case {
    fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_else(|| panic!("{key} of {}", self.0["case"]))
    }

    fn number(&self, key: &str) -> u64 {
        self.0[key].as_u64().unwrap_or_else(|| panic!("{key} of {}", self.0["case"]))
    }

    /// What differs from PyTorch, a line each; empty if nothing does.
    fn differences(&self, program: &Program) -> String {
        let options = Options {
            torch: self.text("torch").parse().expect("a known version"),
            conf: self.text("conf").to_owned(),
            capacity_bytes: self.number("capacity_mib") << 20,
            outside_bytes: 0,
            addresses: self.text("va").parse().expect("a known policy"),
            stop_on_oom: false,
        };
        let run = match program::run(program, &options) {
            Ok(run) => run,
            Err(error) => return format!("  it does not run: {error}\n"),
        };
        let mut found = String::new();
        for (name, csv) in [("events", run.events_csv()), ("blocks", run.blocks_csv())] {
            let digest = Sha256::digest(csv.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            if digest != self.text(&format!("{name}_sha256")) {
                let (rows, expected) = (csv.lines().count() - 1, self.number(&format!("{name}_rows")));
                let _ = writeln!(found, "  other {name}: {rows} rows, PyTorch has {expected}");
            }
        }
        let unstable: Vec<_> = self.0["order_dependent_stats"].as_array().expect("a list").iter().collect();
        let (ours, expected) = (run.stats_csv(), self.text("stats"));
        let is_stable = |line: &str| !unstable.iter().any(|name| line.starts_with(name.as_str().expect("a name")));
        let differing = |(a, b): &(&str, &str)| a != b && is_stable(b);
        if let Some((ours, expected)) = ours.lines().zip(expected.lines()).find(differing) {
            let _ = writeln!(found, "  first other statistic: {ours}, PyTorch has {expected}");
        } else if ours.lines().count() != expected.lines().count() {
            let _ = writeln!(found, "  other statistics: {} lines", ours.lines().count());
        }
        found
    }
}

/// Runs every case of this version.
fn every_case_is_equal(torch: &str, expected_cases: usize) {
    let index: Vec<Value> = serde_json::from_slice(&unzipped("index.json.gz")).expect("the index is JSON");
    let cases: Vec<Case> = index.into_iter().filter(|case| case["torch"] == torch).map(Case).collect();
    assert_eq!(cases.len(), expected_cases, "cases of torch {torch} in the index");
    let mut programs = BTreeMap::new();
    let (mut failing, mut report) = (0, String::new());
    for case in &cases {
        let name = case.text("program");
        let program = programs.entry(name).or_insert_with(|| {
            Program::parse(&unzipped(&format!("programs/{name}.csv.gz")))
                .unwrap_or_else(|error| panic!("{name}: {error}"))
        });
        let differences = case.differences(program);
        if !differences.is_empty() {
            failing += 1;
            if failing <= SHOWN {
                let _ = write!(report, "{}:\n{differences}", case.text("case"));
            }
        }
    }
    assert_eq!(failing, 0, "of {} cases on torch {torch} these differ; the first are\n{report}", cases.len());
}

#[test]
fn every_case_of_torch_2_8_is_equal() {
    every_case_is_equal("2.8.0", 84);
}

#[test]
fn every_case_of_torch_2_11_is_equal() {
    every_case_is_equal("2.11.0", 95);
}

#[test]
fn every_case_of_torch_2_15_is_equal() {
    every_case_is_equal("2.15.0", 97);
}

#[test]
fn every_case_of_the_versions_between_is_equal() {
    for (torch, cases) in [("2.9.0", 17), ("2.10.0", 17), ("2.12.0", 21), ("2.13.0", 21), ("2.14.0", 21)] {
        every_case_is_equal(torch, cases);
    }
}
