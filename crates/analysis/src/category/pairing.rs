//! Pairs blocks by size: a gradient, and the optimizer's state for a parameter, have the parameter's size.

mod apart;
mod assigned;
mod behind;
mod caches;
mod constructed;
mod copies;
mod earlier;
mod fed;
mod first_steps;
mod graphs;
mod hooks;
mod left;
mod orders;
mod picked;
mod workspaces;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use highwater_allocator::Settings;
use highwater_snapshot::{Block, StackId};
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) use self::caches::MIN_BLOCKS as MIN_BLOCKS_OF_CACHE;
use self::fed::Fed;
use self::workspaces::{OF_AMD, OF_LAYERS_TOO, WORKSPACES};
use super::before::{Ground, Region};
use super::course::{Course, Pass};
use super::flat::{self, Standing};
use super::kept::{Joined, Kept, Seen};
use super::origin::{Origin, StackOrigins};
use super::unfinished::Unfinished;
use crate::lifetime::{Lifetime, Lifetimes};

/// Bytes of the widest number.
const NUMBER: u64 = 8;

/// Least size of a block whose size says something about it.
const LARGE: u64 = 1 << 20;

/// The same, for the blocks that a pass leaves behind.
const MIN_LEFT: u64 = 4096;

/// Large blocks that no gradient pairs with, from which on they are a frozen model. The smallest has several matrices in each layer,
/// while a batch of data that stays on the device is two or three tensors: inputs, labels and a mask.
const MIN_FROZEN: usize = 4;

/// Blocks that Adam keeps for a parameter.
const ADAM: usize = 2;

/// Blocks that an optimizer keeps for a parameter, at most.
const MAX_STATES: usize = 4;

/// Conclusions from sizes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairing {
    sizes: FxHashSet<u64>,
    /// Allocations of the forward pass that backward frees, in order: (entry, bytes).
    saved: Vec<(u32, u64)>,
    /// Rows that are a library's workspace.
    pub(crate) workspaces: FxHashSet<usize>,
    /// Rows that are parameters, though nothing shows how they were made.
    pub(crate) parameters: FxHashSet<usize>,
    /// Rows from before the recording that are optimizer state.
    pub(crate) states: FxHashSet<usize>,
    /// Rows among these that may as well be the other of the two.
    pub(crate) in_doubt: FxHashSet<usize>,
    /// Rows from before the recording that lie behind the layers of a model that is not trained, and are like none of their matrices.
    pub(crate) behind_layers: FxHashSet<usize>,
    /// Those among them that are one size, with one block or two for each layer: keys and values.
    pub(crate) pages: FxHashSet<usize>,
    /// Rows from before the recording that outlive a pass that leaves gradients of their size, and are freed later: they are not gradients.
    pub(crate) replaced: FxHashSet<usize>,
    /// State from before the recording of an optimizer that the program constructs anew.
    pub(crate) outdated: FxHashSet<usize>,
    /// Rows from before the recording that are gradients, zeroed in place from step to step.
    pub(crate) kept_gradients: FxHashSet<usize>,
    /// Rows of flat blocks: of the gradients of all parameters, and of what the optimizer keeps for all.
    pub(crate) flat_gradients: Option<usize>,
    pub(crate) flat_states: FxHashSet<usize>,
    /// Rows from before the recording that are a set of data.
    pub(crate) data: FxHashSet<usize>,
    /// Places at which the program makes blocks after several backward passes and never frees them: no momentum, which is made once.
    repeated: FxHashSet<StackId>,
    /// Rows of lines of which the program keeps what they make.
    pub(crate) keeping: FxHashSet<usize>,
    /// Rows that are gradients which the program converted for the optimizer.
    pub(crate) converted: FxHashSet<usize>,
    /// Rows that a constructor of the program's makes when the modules are built, and that no gradient pairs with.
    apart: FxHashSet<usize>,
    /// Rows that are a cache, though no layer makes them in its turn.
    pub(crate) caches: FxHashSet<usize>,
    /// Rows that an optimizer of the program's own constructs for the parameters.
    pub(crate) constructed_states: FxHashSet<usize>,
    /// Rows from before the recording that modules left in earlier iterations, as they do in later ones.
    pub(crate) left_before: FxHashSet<usize>,
    /// Without a backward pass: rows that the program makes before several calls of the model, each larger than the model.
    pub(crate) beside_model: FxHashSet<usize>,
    /// Without a backward pass, where memory ran out: rows that are a cache, for calls of the model before kept their like.
    pub(crate) kept_by_calls: FxHashSet<usize>,
    /// Without a backward pass: rows from before the recording that are freed where caches are.
    pub(crate) freed_like_caches: FxHashSet<usize>,
    /// Rows that are gradients which the program computed itself for the optimizer.
    pub(crate) assigned: FxHashSet<usize>,
    /// Rows of modules that grow from call to call: keys and values.
    pub(crate) growing: FxHashSet<usize>,
    /// Rows of modules that no backward pass frees, though a graph keeps them.
    pub(crate) graphs: FxHashSet<usize>,
    /// Input that the program passes to modules, and frees.
    fed: Fed,
    /// Without a backward pass: modules keep most of the blocks that they allocate.
    pub(crate) keeps_graph: bool,
    /// Without a backward pass: for each call of the model, the row that it allocated last and returns.
    pub(crate) returned: FxHashSet<usize>,
    /// Blocks of the optimizer's steps that ran out of memory.
    unfinished: Unfinished,
    /// Sizes of the blocks that backward passes leave behind. A sparse gradient's size is no parameter's.
    left_by_passes: FxHashSet<u64>,
    /// Sizes of the blocks that the optimizer makes and keeps.
    state_sizes: FxHashSet<u64>,
    /// The most bytes that outlive one backward pass.
    gradient_bytes: u64,
    /// The most bytes of buckets at once, counted as those that are never freed.
    bucket_bytes: u64,
}

/// Blocks of one size.
#[derive(Clone, Debug, Default)]
struct OfSize {
    /// Made as modules were built, and there when backward first begins.
    built: usize,
    /// Most blocks at once that outlive the backward pass that allocated them.
    gradients: usize,
    /// First and last entry of each of these.
    spans: Vec<(u32, u32)>,
    /// Kept by the optimizer.
    states: usize,
    /// Most blocks that the optimizer allocated and freed within one step.
    stepped: usize,
    /// The same for the last step, and the entry that begins it.
    last_step: (u32, usize),
    /// Whether a backward pass allocates any.
    is_made_in_pass: bool,
}

impl OfSize {
    /// Whether it has the optimizer's state alone: libraries such as cuDNN keep a layer's weights in one block, and their gradients in
    /// another, while the optimizer has blocks for each; and some optimizers keep what they like.
    fn is_of_optimizer_alone(&self) -> bool {
        self.gradients == 0 && !self.is_made_in_pass && self.built == 0 && (self.states > 0 || self.stepped > 0)
    }

    /// Whether the optimizer works in blocks of this size, and backward makes and frees some, but leaves none.
    fn is_stepped_without_gradients(&self) -> bool {
        self.gradients == 0 && self.built == 0 && self.is_made_in_pass && self.stepped > 0
    }

    fn add_stepped(&mut self, step: u32) {
        if self.last_step.0 != step {
            self.last_step = (step, 0);
        }
        self.last_step.1 += 1;
        self.stepped = self.stepped.max(self.last_step.1);
    }
}

/// Input of the pairing.
struct Known<'a, T> {
    lifetimes: &'a Lifetimes,
    course: &'a Course,
    memory: &'a Memory<'a>,
    told: T,
    stacks: &'a StackOrigins,
    /// By size.
    of_size: FxHashMap<u64, OfSize>,
    /// The sizes of the blocks that outlive each backward pass, in order, for passes that differ.
    orders: Vec<Vec<u64>>,
    /// By place, the sizes of the blocks that the first step there makes and frees, in order: an optimizer goes through the parameters
    /// in the order of the modules.
    stepped: BTreeMap<StackId, (u32, Vec<u64>)>,
    /// The sizes of the blocks that modules and the program allocate and never free, each with the turn of the first and whether others have
    /// more.
    left: FxHashMap<u64, (u32, bool)>,
    /// The sizes of the blocks that the first whole backward pass allocates and frees, in order.
    scratch: Vec<u64>,
    /// Where the first backward pass begins; the end of the recording if there is none.
    first_pass: u32,
    is_bare: bool,
}

/// A device's memory at the dump, and its optimizers.
#[derive(Clone, Debug)]
pub(crate) struct Memory<'a> {
    pub(crate) blocks: &'a [Block],
    /// By address.
    pub(crate) regions: Vec<Region>,
    /// Blocks that the optimizer keeps for a parameter.
    pub(crate) keeps: Keeps,
    /// The same of optimizers that get sparse gradients, least first: one of these numbers.
    pub(crate) sparse: Vec<usize>,
    /// Whether the optimizer makes its state when it is constructed: right behind the parameters, in their order.
    pub(crate) constructs_state: bool,
    /// Of the allocator.
    pub(crate) settings: Settings,
}

/// How many blocks optimizers keep for a parameter, as far as their names tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// One optimizer's number, which its settings decide between two.
    Told { least: usize, most: usize },
    /// There are several optimizers, each with parameters of its own.
    Several,
    /// The names decide nothing.
    Untold,
}

impl Keeps {
    /// One of Adam's family, whose default settings keep the least.
    fn of_adam(self) -> usize {
        match self {
            Self::Told { least, .. } => least,
            Self::Several | Self::Untold => ADAM,
        }
    }
}

impl<T> Known<'_, T> {
    fn ground(&self) -> Ground<'_> {
        Ground { regions: &self.memory.regions, settings: &self.memory.settings, left: &self.left }
    }

    /// Adds the blocks of a pass, unless an earlier pass allocated the same.
    fn add_order(&mut self, sizes: Vec<u64>) {
        /// Programs have few losses.
        const MAX: usize = 8;
        if !sizes.is_empty() && self.orders.len() < MAX && !self.orders.contains(&sizes) {
            self.orders.push(sizes);
        }
    }

    /// Whether large blocks that no gradient pairs with are those of layers: as many, or a multiple, of each of several sizes.
    fn layers_of(&self, there: &FxHashMap<u64, usize>, is_unpaired: impl Fn(u64) -> bool) -> bool {
        /// Least number of sizes, and of layers: fewer may be chance.
        const MIN: usize = 2;
        // A copy in full precision is twice as large.
        let is_copy = |size: u64| size.is_multiple_of(2) && there.contains_key(&(size / 2)) && !is_unpaired(size / 2);
        let counts = there.iter().filter(|&(&size, &count)| {
            size > LARGE && count >= MIN_FROZEN && is_unpaired(size) && !is_copy(size) && !self.is_left(size)
        });
        let (sizes, common) =
            counts.fold((0, 0), |(sizes, common), (_, &count)| (sizes + 1, gcd(count as u64, common)));
        sizes >= MIN && common >= MIN_FROZEN as u64
    }

    /// Whether forward passes leave blocks of a size behind for good: then they may have left the earlier ones, too. What one iteration of
    /// several leaves is freed by the next one, as a rule.
    fn is_left(&self, size_bytes: u64) -> bool {
        self.is_left_in_several(size_bytes) || (self.course.iterates_once() && self.left.contains_key(&size_bytes))
    }

    /// The same, if several iterations show it.
    fn is_left_in_several(&self, size_bytes: u64) -> bool {
        self.left.get(&size_bytes).is_some_and(|&(_, in_several)| in_several)
    }

    /// Trained parameters whose gradients no pass leaves, by how many blocks there are of each size; their gradients are in the
    /// order of the blocks that the first pass frees.
    fn kept(&mut self, there: &FxHashMap<u64, usize>) -> Kept {
        let seen = there.iter().filter_map(|(&size, &blocks)| {
            let of = self.of_size.get(&size).filter(|of| of.is_stepped_without_gradients())?;
            Some((size, Seen { blocks, stepped: of.stepped }))
        });
        let seen: FxHashMap<u64, Seen> = seen.collect();
        let mut kept = Kept::new(&seen, self.memory.keeps.of_adam());
        if seen.is_empty()
            && self.orders.iter().flatten().all(|&size| size < MIN_LEFT)
            && let Keeps::Told { least, most } = self.memory.keeps
        {
            let is_made_in_pass = |size: &u64| {
                self.of_size.get(size).is_some_and(|of| of.is_made_in_pass && of.gradients == 0 && of.built == 0)
            };
            let blocks = there.iter().filter(|(size, _)| is_made_in_pass(size));
            kept = Kept::by_name(&blocks.map(|(&size, &blocks)| (size, blocks)).collect(), least..=most);
        }
        let are_left = self.orders.iter().flatten().any(|&size| size >= MIN_LEFT);
        if self.memory.keeps == Keeps::Untold && !are_left && !self.course.steps_amid_pass() {
            let mut made: FxHashMap<u64, usize> = FxHashMap::default();
            for &size in &self.scratch {
                *made.entry(size).or_default() += 1;
            }
            let is_worked_on = |size: &u64| {
                made.contains_key(size) && self.of_size.get(size).is_none_or(|of| of.gradients == 0 && of.built == 0)
            };
            let blocks = there.iter().filter(|(size, _)| is_worked_on(size)).map(|(&size, &blocks)| (size, blocks));
            kept = Kept::by_pass(&blocks.collect(), &made, MAX_STATES).unwrap_or(kept);
        }
        if self.orders.iter().flatten().all(|&size| kept.count(size) == 0) {
            let mut order = std::mem::take(&mut self.scratch);
            order.retain(|&size| kept.count(size) > 0);
            self.add_order(order);
        }
        kept
    }

    /// Whether the stacks of most recorded allocations do not tell what they were made for.
    fn is_mostly_untold(&self) -> bool
    where
        T: Fn(usize) -> Origin,
    {
        let first = self.lifetimes.before_recording;
        let rows = first..self.lifetimes.rows.len();
        let untold = rows.clone().filter(|&row| (self.told)(row) == Origin::Untold).count();
        untold * 2 > rows.len()
    }

    /// Trained parameters whose gradients a pass leaves joined in blocks that are as large as no parameter.
    fn joined(&self, there: &FxHashMap<u64, usize>, gradient_bytes: u64) -> Joined {
        let Keeps::Told { least, most } = self.memory.keeps else { return Joined::default() };
        let is_gradient = |size: &u64| self.of_size.get(size).is_some_and(|of| of.gradients > 0 && *size >= MIN_LEFT);
        if there.keys().any(is_gradient) {
            return Joined::default();
        }
        let may_be = |size: u64| !WORKSPACES.contains(&size) && size > NUMBER && !self.is_left(size);
        let blocks = there.iter().map(|(&size, &count)| (size, count)).filter(|row| may_be(row.0));
        Joined::new(&blocks.collect(), gradient_bytes, least..=most)
    }

    /// Counts what was there before the recording and is freed as gradients are cleared: a recording may begin when the first of them are
    /// there.
    fn count_cleared(&mut self) {
        let mut cleared: FxHashMap<u64, usize> = FxHashMap::default();
        for lifetime in &self.lifetimes.rows[..self.lifetimes.before_recording] {
            if lifetime.block().is_none() && self.stacks.clears_gradients(lifetime.stack) {
                *cleared.entry(lifetime.requested_bytes).or_default() += 1;
            }
        }
        for (size, count) in cleared {
            let of = self.of_size.entry(size).or_default();
            of.gradients = of.gradients.max(count);
        }
    }

    /// The segment that begins with a block from before the recording, and is too small for another like it.
    fn own_segment(&self, lifetime: &Lifetime) -> Option<(u64, u64)> {
        let regions = &self.memory.regions;
        let at = regions.binary_search_by_key(&lifetime.address, |region| region.address).ok()?;
        let region = regions[at];
        let is_own = lifetime.alloc().is_none() && region.total_bytes / 2 < lifetime.requested_bytes;
        is_own.then(|| (region.address, region.address.saturating_add(region.total_bytes)))
    }

    /// Whether the program makes such a block right after a backward pass that left one of half the bytes, and an optimizer's step that
    /// follows before the model is called leaves it: a gradient in the precision of a copy of the weights.
    fn is_converted(&self, alloc: u32, freed: u32, size_bytes: u64) -> bool {
        let is_left = |size: u64| self.of_size.get(&size).is_some_and(|of| !of.spans.is_empty());
        let course = self.course;
        let is_double = size_bytes.is_multiple_of(2) && size_bytes / 2 >= MIN_LEFT && is_left(size_bytes / 2);
        if !is_double || !course.is_right_after_pass(alloc) {
            return false;
        }
        let next = course.steps.get(course.steps.partition_point(|step| step.start <= alloc));
        let is_made_in_pass = self.of_size.get(&size_bytes).is_some_and(|of| of.is_made_in_pass);
        next.is_some_and(|step| step.end <= freed && course.modules_between(alloc, step.start) == 0 && !is_made_in_pass)
    }

    /// Without stacks, building is not told from running.
    fn may_be_made_by_hand(&self, origin: Origin) -> bool {
        origin == Origin::Program || (self.is_bare && origin == Origin::Module)
    }

    /// Whether it stays for good, or at least to the end of the next pass: a trainer gives workspaces back when it is done.
    fn is_kept(&self, lifetime: &Lifetime, in_backward: bool) -> bool {
        let (alloc, freed, passes) = (alloc(lifetime), self.course.freed(lifetime), &self.course.passes);
        let after = passes.partition_point(|pass| pass.start <= alloc);
        let outlives_next = passes.get(after + usize::from(!in_backward)).is_some_and(|next| next.end <= freed);
        outlives_next || (freed == self.course.entries && passes.len() < 2)
    }
}

fn alloc(lifetime: &Lifetime) -> u32 {
    lifetime.alloc().map_or(0, highwater_snapshot::EntryId::get)
}

impl Pairing {
    pub(crate) fn new(
        lifetimes: &Lifetimes,
        course: &Course,
        memory: &Memory<'_>,
        (told, stacks): (impl Fn(usize) -> Origin, &StackOrigins),
        is_bare: bool,
    ) -> Self {
        let unfinished = Unfinished::new(lifetimes, course, &told, stacks);
        let mut pairing = Self { unfinished, ..Self::default() };
        let mut known = Known {
            lifetimes,
            course,
            memory,
            told,
            stacks,
            of_size: FxHashMap::default(),
            orders: Vec::new(),
            stepped: BTreeMap::new(),
            left: FxHashMap::default(),
            scratch: Vec::new(),
            first_pass: course.passes.first().map_or(course.entries, |pass| pass.start),
            is_bare,
        };
        pairing.find_kept_by_hooks(&known);
        pairing.find_parameters_made_by_hand(&mut known);
        pairing.find_copies_in_forward(&known);
        pairing.find_constructed_states(&known);
        pairing.find_apart(&known);
        pairing.find_keeping(&known);
        pairing.fed = Fed::new(lifetimes, course, &known.told, |size| {
            known.of_size.get(&size).is_some_and(|of| of.gradients > 0 || of.is_made_in_pass)
        });
        pairing.find_caches(&known);
        pairing.find_filled(&known);
        pairing.find_replaced(&known);
        // Cut stacks hide which blocks are trained, so nothing is said of those from before the recording.
        if !known.is_mostly_untold() {
            pairing.find_before(&mut known);
            pairing.find_flat(&known);
        }
        pairing.find_workspaces(&known);
        let is_left = |&(&size, of): &(&u64, &OfSize)| size >= MIN_LEFT && of.gradients > 0;
        pairing.left_by_passes.extend(known.of_size.iter().filter(is_left).map(|(&size, _)| size));
        pairing.state_sizes.extend(known.of_size.iter().filter(|(_, of)| of.states > 0).map(|(&size, _)| size));
        pairing.sizes.extend(known.of_size.iter().filter(|(_, of)| of.built > 0).map(|(&size, _)| size));
        pairing.sizes.extend(pairing.parameters.iter().map(|&row| lifetimes.rows[row].requested_bytes));
        pairing.find_assigned(&known);
        pairing.find_growing(&known);
        pairing.find_graphs(&known);
        pairing
    }

    pub(crate) fn is_left_by_passes(&self, size_bytes: u64) -> bool {
        self.left_by_passes.contains(&size_bytes)
    }

    /// Whether the optimizer's steps make blocks of a size that stay.
    pub(crate) fn is_state_size(&self, size_bytes: u64) -> bool {
        self.state_sizes.contains(&size_bytes)
    }

    pub(crate) fn is_parameter_size(&self, size_bytes: u64) -> bool {
        self.sizes.contains(&size_bytes)
    }

    /// Whether a block was to outlive the step of the optimizer that made it; `None` unless that step ran out of memory.
    pub(crate) fn outlives_step(&self, row: usize) -> Option<bool> {
        self.unfinished.is_state(row)
    }

    /// Allocations of the forward pass between two entries that backward frees.
    pub(crate) fn saved_between(&self, start: u32, end: u32) -> usize {
        self.saved_in(start, end).len()
    }

    /// The same, each with its bytes.
    pub(crate) fn saved_in(&self, start: u32, end: u32) -> &[(u32, u64)] {
        let first = self.saved.partition_point(|saved| saved.0 <= start);
        &self.saved[first..self.saved.partition_point(|saved| saved.0 < end).max(first)]
    }

    /// Whether a place goes through the parameters of a program without modules.
    pub(crate) fn sweeps(&self, stack: StackId) -> bool {
        self.fed.sweeps(stack)
    }

    /// Whether such a place replaces blocks of this size.
    pub(crate) fn replaces(&self, stack: StackId, size_bytes: u64) -> bool {
        self.fed.replaces(stack, size_bytes)
    }

    /// Whether it is one of many like it that the program feeds and frees again.
    pub(crate) fn is_like_fed(&self, size_bytes: u64, stack: Option<StackId>) -> bool {
        self.fed.is_like(size_bytes, stack)
    }

    /// Whether a place makes inputs of the model elsewhere than right after a backward pass.
    pub(crate) fn feeds_at(&self, stack: StackId, size_bytes: u64) -> bool {
        self.fed.is_made_at(stack, size_bytes)
    }

    /// Whether a block may be computed from an input that the program holds.
    pub(crate) fn may_come_from_input(&self, alloc: u32, size_bytes: u64) -> bool {
        self.fed.may_be_source(alloc, size_bytes)
    }

    /// Whether the model's outputs have a size.
    pub(crate) fn is_output_size(&self, size_bytes: u64) -> bool {
        self.fed.is_output_size(size_bytes)
    }

    /// Whether gradients have no place but the buckets that they are sent from.
    pub(crate) fn buckets_are_gradients(&self) -> bool {
        self.gradient_bytes < self.bucket_bytes / 2
    }

    /// Those that the program made itself, as many as gradients or states ask for.
    fn find_parameters_made_by_hand<T: Fn(usize) -> Origin>(&mut self, known: &mut Known<'_, T>) {
        let course = known.course;
        let mut in_pass = (0, 0_u64);
        let mut order: (u32, Vec<u64>) = (0, Vec::new());
        let mut scratched: Option<u32> = None;
        let mut kept_after: FxHashMap<StackId, u32> = FxHashMap::default();
        let mut converted: (u32, Vec<u64>) = (0, Vec::new());
        for (row, lifetime) in known.lifetimes.rows.iter().enumerate() {
            let (alloc, freed, size) = (alloc(lifetime), course.freed(lifetime), lifetime.requested_bytes);
            match (known.told)(row) {
                Origin::Build if freed > known.first_pass.min(course.entries.saturating_sub(1)) => {
                    known.of_size.entry(size).or_default().built += 1;
                }
                Origin::Optimizer => {
                    let of = known.of_size.entry(size).or_default();
                    if self.outlives_step(row).unwrap_or_else(|| course.outlives_step(alloc, freed)) {
                        of.states += 1;
                    } else {
                        let step = course.step_at(alloc).map_or(0, |step| step.start);
                        of.add_stepped(step);
                        let (first, sizes) =
                            known.stepped.entry(known.stacks.place(lifetime.stack)).or_insert((step, Vec::new()));
                        if *first == step {
                            sizes.push(size);
                        }
                    }
                }
                Origin::Engine | Origin::Hook if self.keeping.contains(&row) => {}
                Origin::Engine | Origin::Hook => {
                    known.of_size.entry(size).or_default().is_made_in_pass = true;
                    let whole = course.pass_at(alloc).filter(|pass| !course.has_failed(pass));
                    if let Some(pass) = whole.filter(|pass| freed < pass.sure_end)
                        && *scratched.get_or_insert(pass.start) == pass.start
                    {
                        known.scratch.push(size);
                    }
                    let Some(pass) = whole.filter(|pass| freed >= pass.sure_end) else { continue };
                    // What a later pass frees are gradients of gradients.
                    let is_own = |last: &Pass| last.start == pass.start || freed >= last.sure_end;
                    if course.pass_at(freed).is_none_or(is_own) || course.clears(freed) {
                        known.of_size.entry(size).or_default().spans.push((alloc, freed));
                    }
                    if in_pass.0 != pass.start {
                        in_pass = (pass.start, 0);
                        let made = std::mem::replace(&mut order, (pass.start, Vec::new())).1;
                        known.add_order(made);
                    }
                    order.1.push(size);
                    let counted = if WORKSPACES.contains(&size) { 0 } else { size };
                    in_pass.1 = in_pass.1.saturating_add(counted);
                    self.gradient_bytes = self.gradient_bytes.max(in_pass.1);
                }
                Origin::Program if known.is_converted(alloc, freed, size) => {
                    self.converted.insert(row);
                    known.of_size.entry(size).or_default().spans.push((alloc, freed));
                    let turn = course.turn_before(alloc);
                    if converted.0 != turn {
                        let made = std::mem::replace(&mut converted, (turn, Vec::new())).1;
                        known.add_order(made.into_iter().rev().collect());
                    }
                    converted.1.push(size);
                }
                Origin::Module | Origin::Compiled | Origin::Program
                    if freed == course.entries && lifetime.alloc().is_some() =>
                {
                    let turn = course.turn_before(alloc);
                    let (first, in_several) = known.left.entry(size).or_insert((turn, false));
                    *in_several |= *first != turn;
                    if turn > 0 && *kept_after.entry(lifetime.stack).or_insert(turn) != turn {
                        self.repeated.insert(lifetime.stack);
                    }
                }
                Origin::Module | Origin::Compiled | Origin::Program if course.pass_at(freed).is_some() => {
                    self.saved.push((alloc, size));
                }
                Origin::Bucket if freed == course.entries => self.bucket_bytes = self.bucket_bytes.saturating_add(size),
                _ => {}
            }
        }
        known.add_order(order.1);
        known.add_order(converted.1.into_iter().rev().collect());
        for of in known.of_size.values_mut() {
            // What no step of the optimizer meets is of an inner step, such as the program takes by itself.
            let met: Vec<(u32, u32)> =
                of.spans.iter().copied().filter(|&(alloc, freed)| course.meets_step(alloc, freed)).collect();
            of.gradients = most_at_once(if met.is_empty() { &of.spans } else { &met });
        }
        known.count_cleared();
        // What was there before and stays comes first.
        let mut there: FxHashMap<u64, usize> = FxHashMap::default();
        for (row, lifetime) in known.lifetimes.rows[..known.lifetimes.before_recording].iter().enumerate() {
            if (known.told)(row) == Origin::Untold && course.freed(lifetime) == course.entries {
                *there.entry(lifetime.requested_bytes).or_default() += 1;
            }
        }
        let mut wanted: FxHashMap<u64, usize> = FxHashMap::default();
        for (&size, of) in &known.of_size {
            // A workspace or two outlive a pass, too.
            let is_short = of.gradients > of.built && !(WORKSPACES.contains(&size) && of.gradients == of.built + 1);
            if is_short || (of.built == 0 && of.states > 0) {
                // What an optimizer keeps tells how many there are only where no pass leaves a gradient: it may keep a history.
                let made = if of.gradients > 0 { of.gradients } else { of.states };
                let there = there.get(&size).copied().unwrap_or(0);
                wanted.insert(size, made.saturating_sub(of.built).saturating_sub(there));
            }
        }
        let first = known.lifetimes.before_recording;
        let end = first + known.lifetimes.rows[first..].partition_point(|lifetime| alloc(lifetime) < known.first_pass);
        let lasts = course.passes.last().map_or(course.entries, |pass| pass.end);
        // The last that are made are next to the loop that trains them: data comes before.
        for row in (first..end).rev() {
            let lifetime = &known.lifetimes.rows[row];
            // A parameter is there for as long as there is anything to learn, and it is no single number: that is a loss.
            if lifetime.requested_bytes > NUMBER
                && course.freed(lifetime) >= lasts
                && known.may_be_made_by_hand((known.told)(row))
                && let Some(count) = wanted.get_mut(&lifetime.requested_bytes)
                && *count > 0
            {
                *count -= 1;
                self.parameters.insert(row);
            }
        }
    }

    /// Lines that make blocks of a size in several iterations, or without autograd between calls of the model, of which none is freed:
    /// the program's, and one or two of modules in a program that trains.
    fn find_keeping<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        /// Fewer may be what comes next.
        const MIN_KEPT: usize = 3;
        let course = known.course;
        let trains = !course.passes.is_empty();
        // The line and the size, and whether it is a module's.
        let of = |row: usize, lifetime: &Lifetime| {
            let is_module = match (known.told)(row) {
                Origin::Program => false,
                Origin::Module | Origin::Compiled if trains => true,
                _ => return None,
            };
            let is_large = lifetime.requested_bytes > NUMBER;
            is_large.then(|| ((known.stacks.place(lifetime.stack), lifetime.requested_bytes), is_module))
        };
        let rows = || known.lifetimes.rows.iter().enumerate().skip(known.lifetimes.before_recording);
        let is_freed = |lifetime: &Lifetime| course.freed(lifetime) < course.entries;
        let staying: Vec<_> = rows()
            .filter(|(_, lifetime)| !is_freed(lifetime))
            .filter_map(|(row, lifetime)| of(row, lifetime).map(|(line, is_module)| (row, line, is_module)))
            .collect();
        // How many, each in another iteration than the one before, and the entry of the last.
        let mut kept: FxHashMap<(StackId, u64), (usize, u32)> = FxHashMap::default();
        for &(row, line, _) in &staying {
            let alloc = alloc(&known.lifetimes.rows[row]);
            let (count, last) = kept.entry(line).or_insert((1, alloc));
            let is_next = if trains {
                course.turn_before(*last) != course.turn_before(alloc)
            } else {
                course.modules_between(*last, alloc) > 0
            };
            if is_next {
                (*count, *last) = (*count + 1, alloc);
            }
        }
        kept.retain(|_, (count, _)| *count >= MIN_KEPT);
        if kept.is_empty() {
            return;
        }
        for (row, lifetime) in rows().filter(|(_, lifetime)| is_freed(lifetime)) {
            if let Some((line, _)) = of(row, lifetime) {
                kept.remove(&line);
            }
        }
        let keeping = || staying.iter().filter(|(_, line, _)| kept.contains_key(line));
        let outputs: FxHashSet<(StackId, u64)> = keeping().filter(|row| row.2).map(|row| row.1).collect();
        let are_outputs = outputs.len() <= caches::MOST_OUTPUTS;
        self.keeping.extend(keeping().filter(|row| are_outputs || !row.2).map(|row| row.0));
    }

    /// Whether the program makes blocks at a place time and again, and never frees them.
    pub(crate) fn is_repeated(&self, stack: StackId) -> bool {
        self.repeated.contains(&stack)
    }

    /// Whether a large block was made by a constructor of the program's when the modules were built, and nothing pairs with it.
    pub(crate) fn is_apart(&self, row: usize, size_bytes: u64) -> bool {
        size_bytes > LARGE && self.apart.contains(&row)
    }

    /// Blocks for the gradients of all parameters at once, and for what the optimizer keeps for them.
    fn find_flat<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        let Some(last) = known.course.passes.last() else { return };
        let stands = |&(row, lifetime): &(usize, &Lifetime)| {
            let size = lifetime.requested_bytes;
            matches!((known.told)(row), Origin::Build | Origin::Program | Origin::Untold)
                && alloc(lifetime) < known.first_pass
                && known.course.freed(lifetime) >= last.end
                && !(lifetime.awaits_free_at_start() || WORKSPACES.contains(&size))
        };
        let standing = known.lifetimes.rows.iter().enumerate().filter(stands).map(|(row, lifetime)| Standing {
            row,
            size_bytes: lifetime.requested_bytes,
            segment: known.own_segment(lifetime),
            order: (alloc(lifetime), Reverse(lifetime.address)),
        });
        let is_dropped = |size: u64| known.of_size.get(&size).is_some_and(|of| of.gradients == 0 && of.is_made_in_pass);
        let mut found = flat::flat(&standing.collect::<Vec<_>>(), is_dropped).into_iter();
        self.flat_gradients = found.next();
        self.flat_states = found.collect();
        for row in self.flat_gradients.iter().chain(&self.flat_states) {
            self.parameters.remove(row);
            self.states.remove(row);
        }
    }
}

/// How many of some spans, in the order of their begins, there are at once at most.
fn most_at_once(spans: &[(u32, u32)]) -> usize {
    let mut ends: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
    let mut most = 0;
    for &(start, end) in spans {
        while ends.peek().is_some_and(|&Reverse(first)| first <= start) {
            ends.pop();
        }
        ends.push(Reverse(end));
        most = most.max(ends.len());
    }
    most
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
