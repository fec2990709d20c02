//! Recordings in the shape that people upload (begun late, begun twice, C++ stacks, model code of their own), against what
//! every block really was, and what is true of the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use highwater_analysis::category::Category;
use highwater_analysis::{Analysis, DeviceAnalysis, analyse};
use highwater_snapshot::{EntryId, Snapshot};
use highwater_testkit::{json_gz, testdata};

/// The lists of a mark, the ones that count more later: a parameter that is saved for backward is a parameter.
const LISTS: [(&str, Category); 6] = [
    ("saved", Category::Activation),
    ("input", Category::Input),
    ("cache", Category::Cache),
    ("optimizer_state", Category::OptimizerState),
    ("gradient", Category::Gradient),
    ("parameter", Category::Parameter),
];

struct Truth(serde_json::Value);

impl Truth {
    fn open(path: &Path) -> Self {
        Self(json_gz(path))
    }

    fn style(&self) -> &str {
        self.0["style"].as_str().unwrap()
    }

    fn fact(&self, name: &str) -> Option<bool> {
        self.0["facts"][name].as_bool()
    }

    fn marks(&self) -> Vec<(String, i64, BTreeMap<u64, Category>)> {
        let all = self.0["marks"].as_array().unwrap();
        let all = if self.style() == "state" { &all[all.len().saturating_sub(1)..] } else { &all[..] };
        all.iter()
            .map(|mark| {
                let truth = LISTS.iter().flat_map(|&(list, category)| {
                    let list = mark[list].as_array().map(Vec::as_slice).unwrap_or_default();
                    list.iter().map(move |pair| (pair[0].as_u64().unwrap(), category))
                });
                (mark["label"].as_str().unwrap().to_owned(), mark["time_us"].as_i64().unwrap(), truth.collect())
            })
            .collect()
    }
}

/// The recordings, each with its truth: those of `testdata/wild`, and with `HIGHWATER_TRUTH` those of another folder.
fn recordings() -> Vec<(String, PathBuf)> {
    let folder = std::env::var_os("HIGHWATER_TRUTH").map_or_else(|| testdata("wild"), PathBuf::from);
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .filter_map(|file| {
            file.unwrap().file_name().to_str().unwrap().strip_suffix(".truth.json.gz").map(str::to_owned)
        })
        .collect();
    names.sort();
    assert!(names.len() > 20, "{}", folder.display());
    names.into_iter().map(|name| (name.clone(), folder.join(name))).collect()
}

/// Asks a question of every recording, and says where the answer is wrong.
fn assert_everywhere(is_right: impl Fn(&Truth, &Analysis<'_>) -> Result<(), String>) {
    let wrong: Vec<String> = recordings()
        .into_iter()
        .filter_map(|(name, path)| {
            let truth = Truth::open(&path.with_file_name(format!("{name}.truth.json.gz")));
            let snapshot = Snapshot::open(path.with_file_name(format!("{name}.pickle.gz"))).unwrap();
            is_right(&truth, &analyse(&snapshot)).err().map(|wrong| format!("{name}: {wrong}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn moment(device: &DeviceAnalysis<'_>, time_us: i64) -> Option<EntryId> {
    device.entries.ids().take_while(|&id| device.entries.time_us(id).is_some_and(|time| time <= time_us)).last()
}

/// Bytes of what is in a list at a mark, those that are right and those that are unknown, by what is wrong.
#[derive(Default)]
struct Score {
    right: u64,
    unknown: u64,
    all: u64,
    wrong: BTreeMap<(&'static str, &'static str, &'static str), u64>,
}

fn score(snapshot: &Snapshot, device: &DeviceAnalysis<'_>, time_us: i64, truth: &BTreeMap<u64, Category>) -> Score {
    let mut score = Score::default();
    for (row, bytes) in device.counted_rows(moment(device, time_us), snapshot) {
        let Some(&was) = truth.get(&device.lifetimes.rows[row].address) else { continue };
        let decided = device.decided(row);
        score.all += bytes;
        if decided.category == was {
            score.right += bytes;
        } else {
            *score.wrong.entry((was.name(), decided.category.name(), decided.rule)).or_default() += bytes;
            score.unknown += if decided.category == Category::Unknown { bytes } else { 0 };
        }
    }
    score
}

/// Of a buffer that the program fills and reads, nothing tells what its blocks are for.
const NOT_TOLD: [&str; 2] = ["paged_kv", "replay"];

#[test]
fn categories_of_blocks_are_right() {
    assert_everywhere(|truth, analysis| {
        if NOT_TOLD.iter().any(|name| truth.0["name"].as_str().unwrap().contains(name)) {
            return Ok(());
        }
        let device = &analysis.devices[0];
        for (label, time_us, blocks) in truth.marks() {
            let score = score(analysis.snapshot, device, time_us, &blocks);
            let (least, right) = match truth.style() {
                "start" => (99, score.right),
                "state" => (80, score.right + score.unknown),
                _ => (95, score.right),
            };
            if right * 100 < score.all * least {
                let mut wrong: Vec<_> = score.wrong.into_iter().map(|(what, bytes)| (bytes, what)).collect();
                wrong.sort_unstable();
                wrong.reverse();
                wrong.truncate(3);
                return Err(format!(
                    "{label}: {right} of {} bytes, but (bytes, (was, taken for, by)) {wrong:?}",
                    score.all
                ));
            }
        }
        Ok(())
    });
}

#[test]
fn inference_has_neither_gradients_nor_optimizer_state() {
    assert_everywhere(|truth, analysis| {
        let trains = [Category::Gradient, Category::OptimizerState];
        let taken = |device: &DeviceAnalysis<'_>| {
            (0..device.lifetimes.rows.len()).find(|&row| trains.contains(&device.decided(row).category))
        };
        match analysis.devices.iter().find_map(taken) {
            Some(row) if truth.fact("inference") == Some(true) => Err(format!("row {row}")),
            _ => Ok(()),
        }
    });
}

#[test]
fn iterations_are_as_many_as_steps_were_run() {
    assert_everywhere(|truth, analysis| {
        let steps = truth.0["facts"]["recorded_steps"].as_u64().filter(|_| truth.style() != "state");
        let found = analysis.devices[0].iterations.rows.len() as u64;
        match steps {
            // One call of a model that is not trained is a pass, not a loop.
            Some(1) if truth.fact("inference") == Some(true) => Ok(()),
            Some(steps) if steps != found => Err(format!("{found} iterations, not {steps}")),
            None if truth.fact("loop") == Some(false) && found > 0 => Err(format!("{found} iterations of no loop")),
            _ => Ok(()),
        }
    });
}

#[test]
fn leaks_are_found_where_two_steps_show_them_and_nowhere_else() {
    assert_everywhere(|truth, analysis| {
        let report = highwater_documents::report(analysis);
        let has = |id| report.devices.iter().any(|device| device.findings.iter().any(|finding| finding.id == id));
        let found = has("growth");
        match (truth.fact("leak"), found) {
            // Of one line, a state only shows that its blocks are many.
            (Some(true), false) if truth.style() == "state" && has("collected-results") => Ok(()),
            (Some(true), false) if truth.style() != "one" => Err("no growth is found".to_owned()),
            (Some(false), true) => Err("growth is found".to_owned()),
            _ => Ok(()),
        }
    });
}

#[test]
fn nothing_is_called_wrapped_that_did_not_wrap() {
    assert_everywhere(|truth, analysis| match &analysis.devices[0].recorded {
        recorded if recorded.truncated == (truth.fact("wrapped") == Some(true)) => Ok(()),
        recorded => Err(format!("{recorded:?}")),
    });
}

#[test]
fn every_place_is_one_that_can_be_opened() {
    assert_everywhere(|_, analysis| {
        let report = serde_json::to_string(
            &highwater_documents::report(analysis).devices.iter().map(|device| &device.findings).collect::<Vec<_>>(),
        );
        let text = report.unwrap();
        let machinery = ["??", "PyEval", "CUDACachingAllocator"];
        machinery.iter().find(|word| text.contains(**word)).map_or(Ok(()), |word| Err(format!("`{word}` in {text}")))
    });
}
