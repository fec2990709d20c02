//! What every block is for, against what it really was: at marks of real runs, the addresses of parameters, gradients,
//! optimizer state, inputs and tensors saved for backward.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use highwater_analysis::category::Category;
use highwater_analysis::{DeviceAnalysis, analyse};
use highwater_snapshot::{EntryId, Snapshot};

/// What blocks were at a moment.
struct Mark {
    label: String,
    time_us: i64,
    truth: BTreeMap<u64, Category>,
}

/// The lists of a mark, the ones that count more later: a parameter that is saved for backward is a parameter.
const LISTS: [(&str, Category); 5] = [
    ("saved", Category::Activation),
    ("input", Category::Input),
    ("optimizer_state", Category::OptimizerState),
    ("gradient", Category::Gradient),
    ("parameter", Category::Parameter),
];

fn marks(path: &Path) -> Vec<Mark> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let truth: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut lists: [BTreeSet<u64>; LISTS.len()] = Default::default();
    let mark = |mark: &serde_json::Value| {
        for (now, (list, _)) in lists.iter_mut().zip(LISTS) {
            follow(now, &mark[list]);
        }
        let truth = lists
            .iter()
            .zip(LISTS)
            .flat_map(|(now, (_, category))| now.iter().map(move |&address| (address, category)));
        Mark {
            label: mark["label"].as_str().unwrap().to_owned(),
            time_us: mark["time_us"].as_i64().unwrap(),
            truth: truth.collect(),
        }
    };
    truth["marks"].as_array().unwrap().iter().map(mark).collect()
}

/// Brings a list of addresses from a mark to the next: `[what is new, what is gone]`, absent where nothing changed.
fn follow(now: &mut BTreeSet<u64>, change: &serde_json::Value) {
    let addresses = |at: usize| {
        let list = change.get(at).and_then(serde_json::Value::as_array);
        list.into_iter().flatten().map(|address| address.as_u64().unwrap())
    };
    now.extend(addresses(0));
    for address in addresses(1) {
        now.remove(&address);
    }
}

/// The entry that a mark stands after.
fn moment(device: &DeviceAnalysis<'_>, time_us: i64) -> Option<EntryId> {
    device.entries.ids().take_while(|&id| device.entries.time_us(id).is_some_and(|time| time <= time_us)).last()
}

/// Bytes of blocks by what they were (`None`: in no list) and by what they were taken for, with the rule.
type Confusion = BTreeMap<(Option<Category>, Category, &'static str), (u64, String)>;

fn confusion(snapshot: &Snapshot, device: &DeviceAnalysis<'_>, mark: &Mark) -> Confusion {
    let after = moment(device, mark.time_us);
    let mut found = Confusion::new();
    for (row, bytes) in device.counted_rows(after, snapshot) {
        let lifetime = &device.lifetimes.rows[row];
        let decided = device.decided(row);
        let was = mark.truth.get(&lifetime.address).copied();
        let entry = found.entry((was, decided.category, decided.rule)).or_default();
        if bytes > 1 << 16 || entry.1.is_empty() {
            let frames: Vec<_> = snapshot
                .stack(lifetime.stack)
                .take(5)
                .map(|f| {
                    format!(
                        "{}:{}:{}",
                        snapshot.text(f.filename).rsplit('/').next().unwrap(),
                        f.line,
                        snapshot.text(f.name)
                    )
                })
                .collect();
            entry.1 = format!(
                "{} B at {:?} to {:?}, {}",
                lifetime.requested_bytes,
                lifetime.alloc().map(EntryId::get),
                lifetime.free_requested().map(EntryId::get),
                frames.join(" < ")
            );
        }
        entry.0 += bytes;
    }
    found
}

/// Whether a block that was `was` may be taken for `category`: what is in no list is a temporary, a workspace or an output.
fn is_right(was: Option<Category>, category: Category) -> bool {
    match was {
        Some(was) => was == category,
        None => matches!(category, Category::Temporary | Category::Workspace | Category::Unknown),
    }
}

/// The least share of bytes that is right of each class over all marks, with the mark.
fn shares(confusions: &[(String, Confusion)]) -> BTreeMap<Option<Category>, (f64, String)> {
    let mut least: BTreeMap<Option<Category>, (f64, String)> = BTreeMap::new();
    for (label, confusion) in confusions {
        let mut of: BTreeMap<Option<Category>, (u64, u64)> = BTreeMap::new();
        for (&(was, category, _), &(bytes, _)) in confusion {
            let entry = of.entry(was).or_default();
            entry.1 += bytes;
            entry.0 += if is_right(was, category) { bytes } else { 0 };
        }
        for (was, (right, all)) in of {
            #[expect(clippy::cast_precision_loss, reason = "a share")]
            let share = right as f64 / all as f64;
            let entry = least.entry(was).or_insert((1.0, label.clone()));
            if share < entry.0 {
                *entry = (share, label.clone());
            }
        }
    }
    least
}

fn confusions(recording: &Path, truth: &Path) -> Vec<(String, Confusion)> {
    let snapshot = Snapshot::open(recording).unwrap();
    let analysis = analyse(&snapshot);
    let device = &analysis.devices[0];
    marks(truth).iter().map(|mark| (mark.label.clone(), confusion(&snapshot, device, mark))).collect()
}

/// Whether at least 99 % of the bytes of every class are right at every mark of a recording.
fn assert_right(name: &str) {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/categories");
    let recording = folder.join(format!("{name}.pickle.gz"));
    let found = confusions(&recording, &folder.join(format!("{name}.truth.json.gz")));
    assert!(found.len() >= 9, "{name}: {} marks", found.len());
    for (was, (share, label)) in shares(&found) {
        let was = was.map_or("other", Category::name);
        assert!(share >= 0.99 || (was == "other" && share >= 0.97), "{name}, {label}: {share:.4} of {was}");
    }
}

#[test]
fn gpt2_with_adamw() {
    assert_right("gpt2_adamw");
}

#[test]
fn resnet50_with_momentum() {
    assert_right("resnet50_sgd");
}

#[test]
fn qwen_under_autocast() {
    assert_right("qwen_autocast");
}

#[test]
fn a_denoising_network_with_a_scaler() {
    assert_right("denoiser_fused_scaler");
}

#[test]
fn frees_that_do_not_tell_their_thread() {
    assert_right("vae_context_alloc_momentum");
}

#[test]
fn a_ring_that_has_wrapped() {
    assert_right("bert_ring_wrapped");
}

#[test]
fn a_program_without_modules() {
    assert_right("functional_mlp");
}

#[test]
fn checkpoints_that_run_the_engine_within_the_engine() {
    assert_right("mixtral_reentrant_checkpoint");
}

/// The accuracy on the recordings of a folder, as a table: `HIGHWATER_TRUTH=DIR[:DIR…] cargo test … -- --ignored table`,
/// with `HIGHWATER_VERBOSE=NAME` or `all` also what is wrong.
#[test]
#[ignore = "shows a table"]
#[expect(clippy::print_stdout, reason = "it is asked for")]
fn table() {
    let folders = std::env::var("HIGHWATER_TRUTH").unwrap();
    let verbose = std::env::var("HIGHWATER_VERBOSE").ok();
    for pair in folders.split(':') {
        let (snapshots, truths) = pair.split_once(',').unwrap_or((pair, pair));
        let mut names: Vec<String> = std::fs::read_dir(truths)
            .unwrap()
            .filter_map(|file| {
                file.unwrap().file_name().to_str().unwrap().strip_suffix(".truth.json.gz").map(str::to_owned)
            })
            .collect();
        names.sort();
        for name in names {
            let found = confusions(
                &Path::new(snapshots).join(format!("{name}.pickle.gz")),
                &Path::new(truths).join(format!("{name}.truth.json.gz")),
            );
            let row: Vec<_> = shares(&found)
                .iter()
                .map(|(was, (share, label))| {
                    format!("{} {:.2}% ({label})", was.map_or("other", Category::name), share * 100.0)
                })
                .collect();
            println!("{name}: {}", row.join("  "));
            if verbose.as_ref().is_some_and(|wanted| wanted == "all" || *wanted == name) {
                for (label, confusion) in &found {
                    let mut wrong: Vec<_> = confusion.iter().filter(|((was, is, _), _)| !is_right(*was, *is)).collect();
                    wrong.sort_by_key(|(_, (bytes, _))| std::cmp::Reverse(*bytes));
                    for ((was, is, rule), (bytes, example)) in wrong.iter().take(6).filter(|row| row.1.0 > 1 << 11) {
                        let was = was.map_or("other", Category::name);
                        println!("   {label}: {bytes} B of {was} taken for {} by {rule}: {example}", is.name());
                    }
                }
            }
        }
    }
}
