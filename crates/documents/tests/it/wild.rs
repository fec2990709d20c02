//! Recordings in the shape that people upload (begun late, begun twice, C++ stacks, model code of their own), against what
//! every block really was, and what is true of the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use highwater_analysis::category::{Category, Decided, FILE, METADATA};
use highwater_analysis::lifetime::Lifetime;
use highwater_analysis::phase::{Phase, StackPhases};
use highwater_analysis::{Analysis, DeviceAnalysis, analyse};
use highwater_snapshot::{Entry, EntryId, EntryTable, Snapshot, StackId, StackTable};
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

/// Recordings in which nothing tells what a part is for, and so nothing is said: whether blocks are the layers of a model that another
/// thread serves, or the state of an optimizer; which of two threads' optimizers has a parameter; whether blocks of a quarter of the
/// parameters' size are state in one byte or a copy of the weights; what the program's own optimizer keeps from its first half to its second;
/// whether blocks of several sizes behind all layers are pages of caches or another model's weights; whether one block that is larger
/// than the model is a cache or a data set; whether one in a segment of its own is data or a table that is frozen.
const IN_PART: [&str; 7] = [
    "twothreads_late",
    "twotrain_one",
    "lion8_one",
    "sam_start",
    "pages_block_start",
    "static_pair_one",
    "one_tensor_one",
];

#[test]
fn categories_of_blocks_are_right() {
    assert_everywhere(|truth, analysis| {
        if NOT_TOLD.iter().chain(&IN_PART).any(|name| truth.0["name"].as_str().unwrap().contains(name)) {
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
fn what_nothing_tells_is_unknown_and_no_guess() {
    for name in IN_PART {
        let path = testdata("wild").join(name);
        let truth = Truth::open(&path.with_extension("truth.json.gz"));
        let snapshot = Snapshot::open(path.with_extension("pickle.gz")).unwrap();
        let analysis = analyse(&snapshot);
        for (label, time_us, blocks) in truth.marks() {
            let score = score(&snapshot, &analysis.devices[0], time_us, &blocks);
            let wrong = score.all - score.right - score.unknown;
            assert!(wrong * 20 <= score.all, "{name}, {label}: {wrong} of {} bytes, {:?}", score.all, score.wrong);
        }
    }
}

/// Six pages of a cache, and the weights of a model of six layers: the pages lie behind the weights, or also in memory that their conversion
/// has left.
#[test]
fn pages_from_before_the_recording_are_no_parameters_and_the_weights_still_are() {
    for name in ["pages_late", "pages_converted_late"] {
        assert_pages_are_a_cache(name);
    }
}

fn assert_pages_are_a_cache(name: &str) {
    let path = testdata("wild").join(name);
    let snapshot = Snapshot::open(path.with_extension("pickle.gz")).unwrap();
    let truth = Truth::open(&path.with_extension("truth.json.gz"));
    let analysis = analyse(&snapshot);
    let device = &analysis.devices[0];
    let (_, time_us, blocks) = truth.marks().remove(0);
    let of = |category: Category| {
        let rows = device.counted_rows(moment(device, time_us), &snapshot);
        let rows = rows.filter(|(row, _)| blocks.get(&device.lifetimes.rows[*row].address) == Some(&category));
        rows.map(|(row, _)| device.decided(row)).collect::<Vec<Decided>>()
    };
    let pages = of(Category::Cache);
    assert_eq!(pages.len(), 6);
    assert!(
        pages.iter().all(|page| *page == Decided { category: Category::Cache, rule: "pages-of-layers" }),
        "{name}: {pages:?}"
    );
    assert!(of(Category::Parameter).iter().all(|weight| weight.category == Category::Parameter));
}

/// The bytes of blocks of one category that were there before the recording and stay.
fn standing_bytes(name: &str, category: Category) -> u64 {
    let snapshot = Snapshot::open(testdata("wild").join(format!("{name}.pickle.gz"))).unwrap();
    let analysis = analyse(&snapshot);
    let device = &analysis.devices[0];
    let rows = device.lifetimes.rows.iter().enumerate().filter(|(row, lifetime)| {
        lifetime.is_live_at_start() && lifetime.block().is_some() && device.decided(*row).category == category
    });
    rows.map(|(_, lifetime)| lifetime.requested_bytes).sum()
}

/// Both have four blocks of each size: a parameter, two of Adam's and, in one, Adam's third (`amsgrad`), in the other an average of the
/// weights.
#[test]
fn a_fourth_block_of_each_size_is_adam_s_where_it_lies_like_its_others() {
    let bytes = |name| [Category::Parameter, Category::OptimizerState].map(|category| standing_bytes(name, category));
    let [parameters, state] = bytes("siamese_one");
    assert!(state.abs_diff(3 * parameters) * 20 < state, "{state} bytes of state for {parameters}");
    let [parameters, state] = bytes("unet_ema_one");
    assert!(
        state.abs_diff(parameters) * 20 < state,
        "{state} bytes of state for {parameters}, a half of them averages"
    );
}

/// A part of a batch that is made right after the backward pass of the part before.
#[test]
fn the_next_part_of_an_accumulated_batch_is_input_and_no_update() {
    let snapshot = Snapshot::open(testdata("wild").join("grad_accum_one.pickle.gz")).unwrap();
    let analysis = analyse(&snapshot);
    let device = &analysis.devices[0];
    let passes = device.categories.passes();
    let (first, last) = (passes.first().unwrap(), passes.last().unwrap());
    let behind = |lifetime: &Lifetime| lifetime.alloc().is_some_and(|id| (first.end..last.start).contains(&id.get()));
    let rows = device.lifetimes.rows.iter().enumerate().filter(|(_, lifetime)| behind(lifetime));
    let decided: Vec<Decided> = rows.map(|(row, _)| device.decided(row)).collect();
    let inputs = decided.iter().filter(|decided| decided.category == Category::Input).count();
    assert!(inputs >= passes.len() - 1, "{inputs} inputs between {} passes", passes.len());
    let updates = ["kept-by-update", "kept-for-pass"];
    assert!(!decided.iter().any(|decided| updates.contains(&decided.rule)));
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

/// Every recording with truth, and with `HIGHWATER_FILES` the snapshots of another folder.
fn all_snapshots() -> Vec<PathBuf> {
    let more = std::env::var_os("HIGHWATER_FILES").map(PathBuf::from);
    let more = more.into_iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    let with_truth = recordings().into_iter().map(|(name, path)| path.with_file_name(format!("{name}.pickle.gz")));
    with_truth.chain(more.filter(|path| path.to_string_lossy().contains(".pickle"))).collect()
}

/// A lifetime, its decided category, and the phase of its own stack.
type Row<'a> = (&'a Lifetime, Decided, Option<Phase>);

/// The first invariant of categories that an answer breaks. They hold for every recording, and use the phases of the stacks alone.
fn broken_invariant(analysis: &Analysis<'_>) -> Option<String> {
    let phases = StackPhases::new(analysis.snapshot, &analysis.sites);
    analysis.devices.iter().find_map(|device| {
        let rows = device.lifetimes.rows.iter().enumerate();
        // A block from before the recording that is gone at the dump has the stack of its free.
        let is_own = |lifetime: &Lifetime| lifetime.alloc().is_some() || lifetime.block().is_some();
        let phase = |lifetime: &Lifetime| phases.get(lifetime.stack).filter(|_| is_own(lifetime));
        let rows = rows.map(|(row, lifetime)| (lifetime, device.decided(row), phase(lifetime)));
        let rows: Vec<Row<'_>> =
            rows.filter(|(_, decided, _)| decided.rule != FILE && decided.rule != METADATA).collect();
        let wrong = |what: &str, of: &dyn Fn(&Row<'_>) -> bool| {
            let found = rows.iter().find(|row| of(row));
            found.map(|(lifetime, decided, _)| format!("{what}: {decided:?} 0x{:x}", lifetime.address))
        };
        // A module's call reads what it was built with. What is unknown may be that.
        let has_parameters = |entry: usize| {
            let entry = device.entries.ids().nth(entry);
            device
                .live_rows(entry)
                .any(|(row, _)| matches!(device.decided(row).category, Category::Parameter | Category::Unknown))
        };
        let first = device.categories.first_module();
        if first.is_some_and(|entry| !has_parameters(entry)) {
            return Some(format!("a forward pass without parameters, entry {first:?}"));
        }
        let is_trained = !device.categories.passes().is_empty();
        let is_made = |phase: &Option<Phase>| matches!(phase, Some(Phase::Backward | Phase::Optimizer));
        let shows_training = rows.iter().any(|(_, _, phase)| is_made(phase));
        wrong("a gradient from the optimizer's step", &|(_, decided, phase)| {
            decided.category == Category::Gradient && *phase == Some(Phase::Optimizer)
        })
        .or_else(|| {
            wrong("a gradient without a backward pass", &|(_, decided, phase)| {
                decided.category == Category::Gradient && !is_trained && *phase != Some(Phase::Backward)
            })
        })
        .or_else(|| {
            let keeps_graph = rows.iter().any(|(_, decided, _)| decided.category == Category::Activation);
            wrong("state of no optimizer", &|(_, decided, _)| {
                let trains = [Category::Gradient, Category::OptimizerState].contains(&decided.category);
                trains && !is_trained && !shows_training && !keeps_graph
            })
        })
    })
}

#[test]
fn no_answer_breaks_an_invariant() {
    let wrong: Vec<String> = all_snapshots()
        .into_iter()
        .filter_map(|path| {
            let snapshot = Snapshot::open(&path).unwrap();
            broken_invariant(&analyse(&snapshot)).map(|wrong| format!("{}: {wrong}", path.display()))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The same recording, each stack cut to its innermost frames.
fn cut_to(snapshot: &Snapshot, depth: usize) -> Snapshot {
    let mut cut = snapshot.clone();
    cut.stacks = StackTable::default();
    let ids: Vec<StackId> =
        snapshot.stacks.iter().map(|(_, frames)| cut.stacks.intern(&frames[..frames.len().min(depth)])).collect();
    let cut_id = |id: StackId| ids.get(id.index()).copied().unwrap_or(id);
    for block in &mut cut.blocks {
        block.stack = cut_id(block.stack);
    }
    for segment in &mut cut.segments {
        segment.stack = cut_id(segment.stack);
    }
    for trace in &mut cut.traces {
        let mut entries = EntryTable::default();
        for id in trace.ids() {
            let entry = trace.get(id);
            entries.push(Entry { stack: cut_id(entry.stack), ..entry });
        }
        *trace = entries;
    }
    cut
}

#[test]
fn stacks_that_are_cut_break_no_invariant_and_show_no_leak_that_is_none() {
    for name in ["lm_late", "gan_twice", "checkpointing_one", "beam_start", "infer_loop_late", "own_sgd_start"] {
        let snapshot = Snapshot::open(testdata("wild").join(format!("{name}.pickle.gz"))).unwrap();
        for depth in [0, 1, 4, 16, 40] {
            let snapshot = cut_to(&snapshot, depth);
            let analysis = analyse(&snapshot);
            assert_eq!(broken_invariant(&analysis), None, "{name} cut to {depth}");
            let report = highwater_documents::report(&analysis);
            let grows = report.devices.iter().any(|device| device.findings.iter().any(|f| f.id == "growth"));
            assert!(!grows, "{name} cut to {depth}");
        }
    }
}

/// Without their outer frames, stacks of C++ show neither autograd nor modules.
#[test]
fn what_stacks_that_are_cut_do_not_show_is_unknown() {
    for name in ["listed_pass_late", "stops_mid_late", "conv_late", "lm_late", "half_back_one", "generate_state"] {
        let path = testdata("wild").join(name);
        let truth = Truth::open(&path.with_extension("truth.json.gz"));
        let snapshot = Snapshot::open(path.with_extension("pickle.gz")).unwrap();
        for depth in [4, 16] {
            let snapshot = cut_to(&snapshot, depth);
            let analysis = analyse(&snapshot);
            for (label, time_us, blocks) in truth.marks() {
                let score = score(&snapshot, &analysis.devices[0], time_us, &blocks);
                let wrong = score.all - score.right - score.unknown;
                assert!(
                    wrong * 20 <= score.all,
                    "{name} cut to {depth}, {label}: {wrong} of {}, {:?}",
                    score.all,
                    score.wrong
                );
            }
            let iterations = &analysis.devices[0].iterations.rows;
            let steps = truth.0["facts"]["recorded_steps"].as_u64().unwrap_or(0);
            assert!(iterations.len() as u64 <= steps, "{name} cut to {depth}: {} iterations", iterations.len());
        }
    }
}

#[test]
fn a_device_without_a_trace_is_told_by_its_blocks_alone() {
    let path = testdata("wild").join("two_gpus_late.pickle.gz");
    let whole = Snapshot::open(&path).unwrap();
    let traced = whole.traces.iter().position(|trace| !trace.is_empty()).unwrap();
    let mut snapshot = whole.clone();
    snapshot.traces[traced] = EntryTable::default();
    let (before, after) = (analyse(&whole), analyse(&snapshot));
    assert_eq!(broken_invariant(&after), None);
    let end = |analysis: &Analysis<'_>, device: u32| {
        let device = analysis.device(device).unwrap();
        device.totals(device.entries.ids().last()).requested_bytes
    };
    for device in before.devices.iter().map(|device| device.device) {
        assert_eq!(end(&after, device), end(&before, device), "device {device}");
    }
    let untraced = u32::try_from(traced).unwrap();
    assert!(after.device(untraced).unwrap().iterations.rows.is_empty(), "no iterations without entries");
}
