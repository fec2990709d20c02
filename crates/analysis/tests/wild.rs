//! Recordings in the shape that people upload (begun late, begun twice, C++ stacks, model code of their own), against what
//! every block really was, and what is true of the run.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use highwater_analysis::category::Category;
use highwater_analysis::{DeviceAnalysis, analyse};
use highwater_snapshot::{EntryId, Snapshot};

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
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        Self(serde_json::from_str(&text).unwrap())
    }

    fn style(&self) -> &str {
        self.0["style"].as_str().unwrap()
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

fn moment(device: &DeviceAnalysis<'_>, time_us: i64) -> Option<EntryId> {
    device.entries.ids().take_while(|&id| device.entries.time_us(id).is_some_and(|time| time <= time_us)).last()
}

fn is_right(was: Option<Category>, category: Category) -> bool {
    match was {
        Some(was) => was == category,
        None => matches!(category, Category::Temporary | Category::Workspace | Category::Unknown),
    }
}

#[test]
#[ignore = "shows a table"]
#[expect(clippy::print_stdout, reason = "it is asked for")]
fn table() {
    let folder = PathBuf::from(std::env::var("HIGHWATER_TRUTH").unwrap());
    let verbose = std::env::var("HIGHWATER_VERBOSE").unwrap_or_default();
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .filter_map(|f| f.unwrap().file_name().to_str().unwrap().strip_suffix(".truth.json.gz").map(str::to_owned))
        .collect();
    names.sort();
    for name in names {
        if !verbose.is_empty() && !name.contains(&verbose) {
            continue;
        }
        let truth = Truth::open(&folder.join(format!("{name}.truth.json.gz")));
        let snapshot = Snapshot::open(folder.join(format!("{name}.pickle.gz"))).unwrap();
        let analysis = analyse(&snapshot);
        let facts = &truth.0["facts"];
        let device = &analysis.devices[0];
        let complete = device.iterations.rows.iter().filter(|i| i.is_complete).count();
        println!(
            "{name}: iterations {} ({complete} complete, {}), facts {}; growth {}; recorded {:?} {:?}",
            device.iterations.rows.len(),
            device.iterations.source.name(),
            facts,
            device.growth.len(),
            device.recorded.truncated,
            device.recorded.reason,
        );
        for (label, time, truth) in truth.marks() {
            let after = moment(device, time);
            let mut right = 0_u64;
            let mut told = 0_u64;
            let mut unknown = 0_u64;
            let mut other = (0_u64, 0_u64);
            let mut wrong: BTreeMap<(&str, &str, &str), (u64, u64, String)> = BTreeMap::new();
            for (row, bytes) in device.counted_rows(after, &snapshot) {
                let lifetime = &device.lifetimes.rows[row];
                let decided = device.decided(row);
                let was = truth.get(&lifetime.address).copied();
                let ok = is_right(was, decided.category);
                if was.is_some() {
                    told += bytes;
                    right += if ok { bytes } else { 0 };
                    unknown += if decided.category == Category::Unknown { bytes } else { 0 };
                } else {
                    other.1 += bytes;
                    other.0 += if ok { bytes } else { 0 };
                }
                if !ok {
                    let e = wrong
                        .entry((was.map_or("other", Category::name), decided.category.name(), decided.rule))
                        .or_default();
                    e.0 += bytes;
                    e.1 += 1;
                    if e.2.is_empty() {
                        let frames: Vec<_> = snapshot
                            .stack(lifetime.stack)
                            .filter(|f| snapshot.text(f.filename).ends_with(".py"))
                            .take(4)
                            .map(|f| format!("{}:{}", snapshot.text(f.filename).rsplit('/').next().unwrap(), f.line))
                            .collect();
                        e.2 = format!("{} B at {:?} to {:?} {}", lifetime.requested_bytes, lifetime.alloc().map(EntryId::get), lifetime.free_requested().map(EntryId::get), frames.join(" < "));
                    }
                }
            }
            #[expect(clippy::cast_precision_loss, reason = "a share")]
            let p = |a: u64, b: u64| if b == 0 { 100.0 } else { a as f64 / b as f64 * 100.0 };
            let all = p(right + other.0, told + other.1);
            println!(
                "   {label}: {:.1}% of told, {:.1}% unknown, other {:.1}% of {:.1} MiB; all {all:.1}%{}",
                p(right, told),
                p(unknown, told),
                p(other.0, other.1),
                p(other.1, 100 << 20),
                if all < 95.0 { "  <<<" } else { "" }
            );
            if !verbose.is_empty() {
                let mut wrong: Vec<_> = wrong.into_iter().collect();
                wrong.sort_by_key(|w| std::cmp::Reverse(w.1.0));
                for ((was, is, rule), (bytes, count, example)) in wrong.into_iter().take(8) {
                    println!("        {:.1} MiB ({count}) of {was} taken for {is} by {rule}: {example}", p(bytes, 100 << 20));
                }
            }
        }
    }
}
