//! What every block is for, against what it really was: at marks of real runs, the addresses of parameters, gradients,
//! optimizer state, inputs and tensors saved for backward.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use highwater_analysis::category::{Category, RULES, Rule};
use highwater_analysis::{DeviceAnalysis, analyse};
use highwater_snapshot::{
    Action, Block, BlockState, Entry, EntryId, Frame, PoolId, Segment, SegmentType, Snapshot, StackId, StreamId,
};
use highwater_testkit::{entry, json_gz, recording, repository, snapshots, testdata};

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
    let truth = json_gz(path);
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
    let folder = testdata("categories");
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

/// The rows of the table of rules, as in `docs/categories.md`.
fn rows() -> String {
    let row = |rule: &Rule| format!("| `{}` | `{}` | {} |\n", rule.name, rule.category.name(), rule.says);
    RULES.iter().map(row).collect()
}

#[test]
fn the_documentation_has_the_rules() {
    let text = std::fs::read_to_string(repository("docs/categories.md")).unwrap();
    assert!(text.contains(&rows()), "docs/categories.md should have these rows:\n{}", rows());
    let names: BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), RULES.len(), "no two rules have a name");
}

/// The rules that decide a block of a snapshot.
fn deciding(snapshot: &Snapshot) -> BTreeSet<&'static str> {
    let analysis = analyse(snapshot);
    let of = |device: &DeviceAnalysis<'_>| {
        (0..device.lifetimes.rows.len()).map(|row| device.decided(row).rule).collect::<BTreeSet<_>>()
    };
    analysis.devices.iter().flat_map(of).collect()
}

#[test]
fn every_rule_decides_something_real() {
    let mut undecided: BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
    for path in ["categories", "recordings", "wild", "oom"].into_iter().flat_map(snapshots) {
        for rule in deciding(&Snapshot::open(&path).unwrap()) {
            undecided.remove(rule);
        }
    }
    for snapshot in [token_by_token(), distributed(), no_history()] {
        for rule in deciding(&snapshot) {
            undecided.remove(rule);
        }
    }
    assert!(undecided.is_empty(), "nothing has a block for {undecided:?}");
}

const TORCH: &str = "/home/user/venv/lib/python3.12/site-packages/torch";

/// A stack of (function, file), innermost first.
fn stack(snapshot: &mut Snapshot, frames: &[(&str, &str)]) -> StackId {
    let frames: Vec<_> = frames
        .iter()
        .map(|&(name, file)| {
            let (name, filename) = (snapshot.strings.intern(name), snapshot.strings.intern(file));
            snapshot.frames.intern(Frame { name, filename, line: 1 })
        })
        .collect();
    snapshot.stacks.intern(&frames)
}

fn program(snapshot: &mut Snapshot) -> StackId {
    stack(snapshot, &[("generate", "train.py")])
}

fn module(snapshot: &mut Snapshot) -> StackId {
    let file = format!("{TORCH}/nn/modules/module.py");
    stack(snapshot, &[("forward", "net.py"), ("_call_impl", &file), ("generate", "train.py")])
}

fn alloc(snapshot: &mut Snapshot, address: u64, stack: StackId) {
    push(snapshot, Action::ALLOC, address, stack);
}

fn free(snapshot: &mut Snapshot, address: u64, stack: StackId) {
    push(snapshot, Action::FREE_REQUESTED, address, stack);
    push(snapshot, Action::FREE_COMPLETED, address, stack);
}

fn push(snapshot: &mut Snapshot, action: Action, address: u64, stack: StackId) {
    if snapshot.traces.is_empty() {
        snapshot.traces.push(highwater_snapshot::EntryTable::default());
    }
    snapshot.traces[0].push(Entry { stack, ..entry(action, address, 4096) });
}

/// A model is called for each token and keeps keys and values.
fn token_by_token() -> Snapshot {
    let mut made = Snapshot::empty();
    let (program, module) = (program(&mut made), module(&mut made));
    for token in 0..3 {
        alloc(&mut made, 0x10_0000 + token * 0x1000, module);
        for _ in 0..8 {
            alloc(&mut made, 0x20_0000, module);
            free(&mut made, 0x20_0000, module);
        }
        alloc(&mut made, 0x30_0000, program);
        free(&mut made, 0x30_0000, program);
    }
    made
}

/// What `DistributedDataParallel` makes beside gradients of their own.
fn distributed() -> Snapshot {
    let mut made = Snapshot::empty();
    let file = format!("{TORCH}/nn/parallel/distributed.py");
    let buckets = stack(&mut made, &[("_ddp_init_helper", &file), ("__init__", &file), ("main", "train.py")]);
    let module = module(&mut made);
    alloc(&mut made, 0x10_0000, buckets);
    alloc(&mut made, 0x20_0000, module);
    alloc(&mut made, 0x30_0000, StackId::EMPTY);
    free(&mut made, 0x20_0000, StackId::EMPTY);
    let program = program(&mut made);
    alloc(&mut made, 0x40_0000, program);
    made
}

/// The state at the dump, with the stacks of its blocks.
fn no_history() -> Snapshot {
    let mut made = Snapshot::empty();
    let module = module(&mut made);
    let block =
        |address, state, stack| Block { address, size_bytes: 1 << 20, requested_bytes: 1_000_000, state, stack };
    made.blocks.push(block(0x10_0000, BlockState::ActiveAllocated, module));
    made.blocks.push(block(0x20_0000, BlockState::Inactive, StackId::EMPTY));
    made.segments.push(Segment {
        device: 0,
        address: 0x10_0000,
        total_bytes: 2 << 20,
        stream: StreamId::DEFAULT,
        segment_type: SegmentType::Small,
        pool: PoolId::DEFAULT,
        is_expandable: false,
        stack: StackId::EMPTY,
        blocks: 0..2,
    });
    made
}

/// Blocks from before the recording, each in a segment of its own, and a pass that makes a gradient of 16 MiB.
fn trained(before_mib: &[u64]) -> Snapshot {
    let mut made = Snapshot::empty();
    let (module, program) = (module(&mut made), program(&mut made));
    let mut address = 1 << 40;
    for &mib in before_mib {
        segment_of_one_block(&mut made, address, mib << 20);
        address += 1 << 30;
    }
    alloc(&mut made, 0x20_0000, module);
    made.traces[0].push(Entry { stack: StackId::EMPTY, ..entry(Action::ALLOC, address, 16 << 20) });
    free(&mut made, 0x20_0000, StackId::EMPTY);
    alloc(&mut made, 0x40_0000, program);
    segment_of_one_block(&mut made, address, 16 << 20);
    made
}

fn segment_of_one_block(made: &mut Snapshot, address: u64, bytes: u64) {
    let (state, stack) = (BlockState::ActiveAllocated, StackId::EMPTY);
    let row = u32::try_from(made.blocks.len()).unwrap();
    made.blocks.push(Block { address, size_bytes: bytes, requested_bytes: bytes, state, stack });
    made.segments.push(Segment {
        device: 0,
        address,
        total_bytes: bytes,
        stream: StreamId::DEFAULT,
        segment_type: SegmentType::Large,
        pool: PoolId::DEFAULT,
        is_expandable: false,
        stack,
        blocks: row..row + 1,
    });
}

/// Large blocks that no gradient pairs with are a frozen model if there are several; a library's workspaces are not counted.
#[test]
fn blocks_of_a_workspaces_size_make_no_other_block_a_frozen_parameter() {
    let parameters = |before_mib: &[u64]| -> u64 {
        let snapshot = trained(before_mib);
        let analysis = analyse(&snapshot);
        let device = &analysis.devices[0];
        let rows = device.lifetimes.rows.iter().enumerate();
        let of = rows.filter(|&(row, _)| device.decided(row).category == Category::Parameter);
        of.map(|(_, lifetime)| lifetime.requested_bytes >> 20).sum()
    };
    assert_eq!(parameters(&[16]), 16);
    assert_eq!(parameters(&[12, 14, 18, 22, 16]), 82);
    assert_eq!(parameters(&[12, 32, 32, 32, 16]), 16);
}

/// Gradients, activations and inputs are right of a recording that begins late, and the sums of parameters and state.
#[test]
fn sums_are_right_of_a_recording_that_began_late() {
    let folder = testdata("categories");
    let found = confusions(&folder.join("bert_late.pickle.gz"), &folder.join("bert_late.truth.json.gz"));
    for (label, confusion) in &found {
        for wanted in [Category::Parameter, Category::OptimizerState, Category::Gradient, Category::Activation] {
            let sum = |is_it: &dyn Fn(Option<Category>, Category) -> bool| -> u64 {
                confusion.iter().filter(|((was, is, _), _)| is_it(*was, *is)).map(|(_, (bytes, _))| bytes).sum()
            };
            let (was, is) = (sum(&|was, _| was == Some(wanted)), sum(&|_, is| is == wanted));
            assert!(was.abs_diff(is) <= was / 100 + (1 << 20), "{label}: {was} bytes of {}, told {is}", wanted.name());
        }
    }
}

#[test]
fn at_every_peak_of_an_iteration_the_categories_add_up() {
    for name in ["gpt2_compiled", "gpt2_late_recording", "multi_stream"] {
        let snapshot = recording(name);
        let analysis = analyse(&snapshot);
        for device in &analysis.devices {
            let step = (device.entries.len() / 20).max(1);
            let moments: Vec<_> = device.entries.ids().step_by(step).collect();
            for (&moment, found) in moments.iter().zip(device.counted_by_category_at(&moments, &snapshot)) {
                assert_eq!(found, device.counted_by_category(Some(moment), &snapshot), "{name} at {moment:?}");
                assert_eq!(
                    found.iter().sum::<u64>(),
                    device.totals(Some(moment)).allocated_bytes,
                    "{name} at {moment:?}"
                );
            }
        }
    }
}
