//! What every block is for: parameter, gradient, optimizer state, activation, cache, input, temporary, workspace or unknown,
//! told from the recording alone.
//!
//! [`origin`] says where each allocation comes from, by its stack; the course of the recording says when modules ran,
//! autograd and the optimizer; and a table of [rules](RULES) decides by both, by when a block came and went, and by the sizes
//! that pair up. What the file itself says of a block wins.
//!
//! ```no_run
//! let snapshot = highwater_snapshot::Snapshot::open("run.pickle")?;
//! let analysis = highwater_analysis::analyse(&snapshot);
//! for device in &analysis.devices {
//!     for (row, lifetime) in device.live_rows(device.peak().entry) {
//!         let decided = device.decided(row);
//!         println!("0x{:x} {} ({})", lifetime.address, decided.category.name(), decided.rule);
//!     }
//! }
//! # Ok::<(), highwater_snapshot::Error>(())
//! ```

mod ages;
mod bare;
pub(crate) mod before;
mod case;
pub mod course;
mod flat;
mod kept;
mod orders;
pub mod origin;
mod pairing;
mod rehearsal;
mod rows;
mod rules;
mod runs;
mod unfinished;
mod young;

use highwater_allocator::TorchVersion;
use highwater_snapshot::{Action, EntryTable, Snapshot, StackId, StringId};
use rustc_hash::{FxHashMap, FxHashSet};

pub use rules::{RULES, Rule};

use crate::iteration::Iterations;
use crate::lifetime::{Lifetime, Lifetimes, number};
use crate::recorded_settings::recorded_settings;
use crate::scope::Scope;
use crate::torch_version::torch_version;
use before::Region;
pub use case::Case;
use course::{Course, Pass};
use origin::{Origin, StackOrigins};
use pairing::{Keeps, Memory, Pairing};

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Category {
    /// Weights and buffers of the model.
    Parameter,
    /// Their gradients.
    Gradient,
    /// State that the optimizer keeps.
    OptimizerState,
    /// Kept for the backward pass.
    Activation,
    /// Kept from one call of the model to the next: keys and values.
    Cache,
    /// Data that the program feeds in.
    Input,
    /// What lives for a moment: intermediates, and outputs that the program holds.
    Temporary,
    /// What libraries work in.
    Workspace,
    /// Unknown.
    Unknown,
}

impl Category {
    /// Every one, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Parameter,
        Self::Gradient,
        Self::OptimizerState,
        Self::Activation,
        Self::Cache,
        Self::Input,
        Self::Temporary,
        Self::Workspace,
        Self::Unknown,
    ];

    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameter => "parameter",
            Self::Gradient => "gradient",
            Self::OptimizerState => "optimizer_state",
            Self::Activation => "activation",
            Self::Cache => "cache",
            Self::Input => "input",
            Self::Temporary => "temporary",
            Self::Workspace => "workspace",
            Self::Unknown => "unknown",
        }
    }

    /// The category of a word, in any case; `autograd_detail` is the profiler's for the intermediates of backward.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "autograd_detail" => Some(Self::Temporary),
            _ => Self::ALL.into_iter().find(|category| category.name() == name),
        }
    }
}

/// A category, and the name of the rule that decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The category.
    pub category: Category,
    /// The rule: of [`RULES`], or one of [`FILE`], [`METADATA`], [`NONE`].
    pub rule: &'static str,
}

/// The file itself says so: a profiler's or a doctored one.
pub const FILE: &str = "file";
/// The program said so, by `user_metadata`.
pub const METADATA: &str = "user-metadata";
/// No rule holds.
pub const NONE: &str = "none";

/// The categories of a device's lifetimes.
#[derive(Clone, Debug, Default)]
pub struct Categories {
    /// For each lifetime: a row of [`RULES`], or past its end one of the others.
    rules: Vec<u8>,
    passes: Vec<Pass>,
    first_module: Option<u32>,
}

/// What a number among a device's rules stands for.
fn of_rule(rule: u8) -> Decided {
    let rule = usize::from(rule);
    match rule {
        UNTOLD => Decided { category: Category::Unknown, rule: NONE },
        _ if rule < UNTOLD => Decided { category: RULES[rule].category, rule: RULES[rule].name },
        _ if rule < BY_METADATA => Decided { category: Category::ALL[rule - BY_FILE], rule: FILE },
        _ => Decided { category: Category::ALL[rule - BY_METADATA], rule: METADATA },
    }
}

/// Beyond the rows of [`RULES`]: not told, then by the file, then by metadata, each in the order of [`Category::ALL`].
const UNTOLD: usize = RULES.len();
const BY_FILE: usize = UNTOLD + 1;
const BY_METADATA: usize = BY_FILE + Category::ALL.len();
const _: () = assert!(BY_METADATA + Category::ALL.len() <= 256);

impl Categories {
    /// What the lifetime of a row was decided to be.
    pub fn get(&self, row: usize) -> Decided {
        of_rule(self.rules[row])
    }

    /// Whether any lifetime was decided to be of a category.
    pub(crate) fn has(&self, category: Category) -> bool {
        self.rules.iter().any(|&rule| of_rule(rule).category == category)
    }

    /// The backward passes, in order.
    pub fn passes(&self) -> &[Pass] {
        &self.passes
    }

    /// The entry of the first allocation by a running module.
    pub fn first_module(&self) -> Option<usize> {
        self.first_module.map(|entry| entry as usize)
    }

    /// Decides every lifetime of a device.
    pub(crate) fn new(
        snapshot: &Snapshot,
        (device, entries): (u32, &EntryTable),
        lifetimes: &Lifetimes,
        (scopes, iterations, called_again): (&[Scope], &Iterations, Vec<u32>),
        stacks: &StackOrigins,
    ) -> Self {
        let words = Words::new(snapshot, entries);
        let frees_tell = frees_tell(entries, lifetimes);
        let bare = bare::origins(entries, lifetimes, iterations);
        let mut course = match &bare {
            Some(bare) => Course::new(entries, iterations.rows.len(), |row| bare.at(row), false),
            None => Course::new(entries, iterations.rows.len(), |row| stacks.get(entries.stacks()[row]), frees_tell),
        };
        course.called_again = called_again;
        if bare.is_none() && frees_tell {
            let frees = entries.actions().iter().zip(entries.stacks()).enumerate();
            let cleared = frees
                .filter(|(_, (action, stack))| **action == Action::FREE_REQUESTED && stacks.clears_gradients(**stack));
            course.cleared = cleared.map(|(row, _)| number(row)).collect();
        }
        course.collected_bytes = iterations.rollout.map(|rollout| rollout.collected_bytes).filter(|&bytes| bytes > 0);
        let shows = shows_engine(snapshot, lifetimes, stacks);
        let again = constructed_again(lifetimes, stacks, &course);
        let of_stack = |stack| match stacks.constructor(stack) {
            Some(constructor) if again.contains(&constructor) => Origin::Program,
            _ => stacks.get(stack),
        };
        let told = |row: usize| {
            let lifetime = &lifetimes.rows[row];
            match (&bare, lifetime.alloc()) {
                (Some(bare), Some(alloc)) => bare.at(alloc.index()),
                (None, Some(_)) => of_stack(lifetime.stack),
                // The stack of the block at the dump, if it has one; else that of its free, which is another matter.
                (_, None) if lifetime.block().is_some() && (shows || has_frames(lifetime.stack)) => {
                    of_stack(lifetime.stack)
                }
                (_, None) => Origin::Untold,
            }
        };
        let memory = Memory {
            blocks: &snapshot.blocks,
            regions: regions(snapshot, device),
            keeps: keeps(snapshot, scopes),
            sparse: sparse(snapshot, scopes),
            constructs_state: constructs_state(snapshot, scopes),
            settings: recorded_settings(
                snapshot,
                torch_version(snapshot).rules().first().copied().unwrap_or(TorchVersion::NEWEST),
            ),
        };
        let mut pairing = Pairing::new(lifetimes, &course, &memory, (told, stacks), bare.is_some());
        let decide = |row: usize, pairing: &Pairing| {
            let lifetime = &lifetimes.rows[row];
            let named = lifetime.alloc().and_then(|alloc| words.at(entries, alloc.index()));
            let rule = named.unwrap_or_else(|| {
                // A block from before that is gone at the dump has the stack of its free.
                let is_cleared = bare.is_none()
                    && lifetime.alloc().is_none()
                    && lifetime.block().is_none()
                    && stacks.get(lifetime.stack) == Origin::Optimizer;
                let case = Case::new(row, lifetime, (told(row), is_cleared), &course, pairing, bare.is_some());
                RULES.iter().position(|rule| rule.of.contains(case.origin) && (rule.holds)(&case)).unwrap_or(UNTOLD)
            });
            u8::try_from(rule).unwrap_or(u8::MAX)
        };
        let mut rules: Vec<u8> = (0..lifetimes.rows.len()).map(|row| decide(row, &pairing)).collect();
        if course.passes.is_empty() && bare.is_none() && frees_tell {
            let is_cache = |row: usize| of_rule(rules[row]).category == Category::Cache;
            pairing.freed_like_caches = freed_like_caches(entries, lifetimes, stacks, is_cache);
            for &row in &pairing.freed_like_caches {
                rules[row] = decide(row, &pairing);
            }
        }
        Self { rules, first_module: course.modules.first().copied(), passes: course.passes }
    }
}

/// Whether a block from before the recording that has no frames was made by autograd's threads, which run no Python: where stacks
/// have native frames, or where recording began after the model was built, it was not recorded instead.
fn shows_engine(snapshot: &Snapshot, lifetimes: &Lifetimes, stacks: &StackOrigins) -> bool {
    let is_built = |lifetime: &Lifetime| lifetime.block().is_some() && stacks.get(lifetime.stack) == Origin::Build;
    !stacks.are_native() && !snapshot.stacks.is_empty() && lifetimes.at_start().iter().any(is_built)
}

/// Rows from before the recording that are freed where caches are: as many at a line as have to be of one size to be a cache.
fn freed_like_caches(
    entries: &EntryTable,
    lifetimes: &Lifetimes,
    stacks: &StackOrigins,
    is_cache: impl Fn(usize) -> bool,
) -> FxHashSet<usize> {
    let place = |lifetime: &Lifetime| {
        let freed = lifetime.free_requested()?;
        Some(stacks.place(entries.stacks()[freed.index()]))
    };
    let (before, recorded) = lifetimes.rows.split_at(lifetimes.before_recording);
    let recorded = recorded.iter().enumerate().filter(|(row, _)| is_cache(before.len() + row));
    let places: FxHashSet<StackId> = recorded.filter_map(|(_, lifetime)| place(lifetime)).collect();
    let is_like = |lifetime: &Lifetime| place(lifetime).is_some_and(|place| places.contains(&place));
    let mut of_size: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for (row, lifetime) in before.iter().enumerate().filter(|(_, lifetime)| is_like(lifetime)) {
        of_size.entry(lifetime.requested_bytes).or_default().push(row);
    }
    of_size.into_values().filter(|rows| rows.len() >= pairing::MIN_BLOCKS_OF_CACHE).flatten().collect()
}

/// Constructors of the program's that run at one line before and after modules run: of what each iteration fills, and of no model.
fn constructed_again(lifetimes: &Lifetimes, stacks: &StackOrigins, course: &Course) -> FxHashSet<StackId> {
    let mut first: FxHashMap<StackId, u32> = FxHashMap::default();
    let mut again: FxHashSet<StackId> = FxHashSet::default();
    for lifetime in &lifetimes.rows[lifetimes.before_recording..] {
        let (Some(alloc), Some(constructor)) = (lifetime.alloc(), stacks.constructor(lifetime.stack)) else { continue };
        let first = *first.entry(constructor).or_insert(alloc.get());
        if course.modules_between(first, alloc.get()) > 0 {
            again.insert(constructor);
        }
    }
    again
}

fn has_frames(stack: StackId) -> bool {
    stack.is_recorded() && stack != StackId::EMPTY
}

/// The segments at the dump, by address.
fn regions(snapshot: &Snapshot, device: u32) -> Vec<Region> {
    let mut regions: Vec<Region> = snapshot
        .segments_of(device)
        .map(|s| Region { address: s.address, total_bytes: s.total_bytes, is_expandable: s.is_expandable })
        .collect();
    regions.sort_unstable_by_key(|region| region.address);
    regions
}

/// Blocks that PyTorch's optimizers keep for each parameter, by their classes' names: at least and at most, as their settings decide.
///
/// # Source
/// PyTorch v2.11, `torch/optim`.
const OPTIMIZERS: [(&str, usize, usize); 13] = [
    ("Adam", 2, 3),
    ("AdamW", 2, 3),
    ("NAdam", 2, 2),
    ("RAdam", 2, 2),
    ("Adamax", 2, 2),
    ("Adadelta", 2, 2),
    ("Adagrad", 1, 1),
    // Rows and columns of matrices; of vectors, which are small, one as large.
    ("Adafactor", 0, 0),
    ("Rprop", 2, 2),
    ("RMSprop", 1, 3),
    ("Muon", 1, 1),
    ("SGD", 0, 1),
    ("SparseAdam", 2, 2),
];

/// The optimizer that makes its state when it is constructed, in the order of the parameters; the others do so in their first step.
///
/// # Source
/// PyTorch v2.11, `torch/optim/adagrad.py`, `__init__`.
const CONSTRUCTS_STATE: &str = "Adagrad";

/// The names of the optimizers whose steps are annotated.
fn optimizers<'a>(snapshot: &'a Snapshot, scopes: &'a [Scope]) -> impl Iterator<Item = &'a str> {
    let name = |scope: &Scope| snapshot.text(scope.name).strip_prefix("Optimizer.step#")?.strip_suffix(".step");
    scopes.iter().filter_map(name)
}

fn constructs_state(snapshot: &Snapshot, scopes: &[Scope]) -> bool {
    let mut names = optimizers(snapshot, scopes).peekable();
    names.peek().is_some() && names.all(|name| name == CONSTRUCTS_STATE)
}

/// What the annotations of steps tell of the blocks that are kept for each parameter.
fn keeps(snapshot: &Snapshot, scopes: &[Scope]) -> Keeps {
    let mut names = optimizers(snapshot, scopes);
    let Some(first) = names.next() else { return Keeps::Untold };
    if names.any(|other| other != first) {
        return Keeps::Several;
    }
    let known = OPTIMIZERS.iter().find(|row| row.0 == first);
    known.map_or(Keeps::Untold, |&(_, least, most)| Keeps::Told { least, most })
}

/// Parts of the names of functions that work on sparse gradients: of the optimizer for them, and of every other that takes them.
///
/// # Source
/// PyTorch v2.11, `torch/optim/_functional.py`; `aten/src/ATen/native/sparse/cuda/SparseCUDATensor.cu`.
const SPARSE: [&str; 2] = ["sparse_adam", "coalesce_sparse_cuda"];

/// Blocks that an optimizer may keep for each parameter with sparse gradients, by its name; none without such gradients.
fn sparse(snapshot: &Snapshot, scopes: &[Scope]) -> Vec<usize> {
    let is_sparse = |name: StringId| SPARSE.iter().any(|part| snapshot.text(name).contains(part));
    if !snapshot.frames.iter().any(|(_, frame)| is_sparse(frame.name)) {
        return Vec::new();
    }
    let kept = |row: &&(&str, usize, usize)| {
        let annotation = format!("Optimizer.step#{}.step", row.0);
        scopes.iter().any(|scope| snapshot.text(scope.name) == annotation)
    };
    let mut kept: Vec<usize> = OPTIMIZERS.iter().filter(kept).map(|row| row.1).filter(|&least| least > 0).collect();
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// Whether frees carry the stack of who frees, not of who allocated (`context="alloc"`).
fn frees_tell(entries: &EntryTable, lifetimes: &Lifetimes) -> bool {
    let differs = |lifetime: &&crate::lifetime::Lifetime| {
        lifetime.alloc().zip(lifetime.free_requested()).is_some_and(|(_, freed)| {
            let stack = entries.stacks()[freed.index()];
            stack.is_recorded() && stack != lifetime.stack && lifetime.stack != StackId::MISSING
        })
    };
    lifetimes.rows.iter().filter(differs).take(2).count() > 1
}

/// What the file's own words mean: its categories, and the program's metadata.
struct Words {
    categories: Vec<(StringId, usize)>,
    metadata: Vec<(StringId, usize)>,
}

impl Words {
    fn new(snapshot: &Snapshot, entries: &EntryTable) -> Self {
        let is_told = |constant: Option<StringId>| !entries.is_empty() && constant != Some(StringId::MISSING);
        let named = |is_told: bool, first: usize| -> Vec<(StringId, usize)> {
            let names = Category::ALL.iter().map(|category| category.name()).chain(["autograd_detail"]);
            let spelled = names.flat_map(|name| [name.to_owned(), name.to_ascii_uppercase()]);
            let found = spelled
                .filter_map(|name| Some((snapshot.strings.find(&name)?, first + Category::from_name(&name)? as usize)));
            if is_told { found.collect() } else { Vec::new() }
        };
        Self {
            categories: named(is_told(entries.categories().constant()), BY_FILE),
            metadata: named(is_told(entries.user_metadata().constant()), BY_METADATA),
        }
    }

    fn at(&self, entries: &EntryTable, row: usize) -> Option<usize> {
        let of = |words: &[(StringId, usize)], id: StringId| words.iter().find(|word| word.0 == id).map(|word| word.1);
        let by_file =
            if self.categories.is_empty() { None } else { of(&self.categories, entries.categories().get(row)) };
        by_file.or_else(|| {
            if self.metadata.is_empty() { None } else { of(&self.metadata, entries.user_metadata().get(row)) }
        })
    }
}
