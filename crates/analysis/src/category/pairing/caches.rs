//! Where no backward pass was recorded: which blocks are a cache, and whether a graph is kept.

use highwater_snapshot::StackId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Known, LARGE, MIN_LEFT, NUMBER, Pairing, WORKSPACES, alloc};
use crate::category::case::BEHIND_OUTPUT;
use crate::category::origin::Origin;
use crate::lifetime::Lifetime;

/// So many of one size from one place: keys and values of two layers.
pub(in crate::category) const MIN_BLOCKS: usize = 4;

/// If more of a model's blocks stay than this share, in percent, they are kept for a backward pass.
pub(super) const GRAPH_PERCENT: usize = 35;

/// Lines of modules that make what the program collects; a graph that is kept has more.
pub(super) const MOST_OUTPUTS: usize = 2;

impl<T> Known<'_, T> {
    /// Of blocks of one size from one place, those that are made together, before any of them is freed. Allocations between two calls of the
    /// model belong together, as do those for each layer. One tensor from each call is no cache.
    fn made_together(&self, rows: &[usize]) -> impl Iterator<Item = usize> {
        let alloc = |row: usize| alloc(&self.lifetimes.rows[row]);
        let is_together =
            move |&a: &usize, &b: &usize| self.course.modules_between(alloc(a), alloc(b)) <= BEHIND_OUTPUT;
        let are_there = move |rows: &&[usize]| {
            let freed = rows.iter().map(|&row| self.course.freed(&self.lifetimes.rows[row])).min();
            rows.len() >= MIN_BLOCKS && rows.last().map(|&row| alloc(row)) < freed
        };
        rows.chunk_by(is_together).filter(are_there).flatten().copied()
    }
}

impl Pairing {
    /// Where no backward pass was recorded: what modules keep, and what the program makes for them to fill.
    pub(super) fn find_caches<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        /// Places that keep something for each layer, of a cache: keys, values, and what quantises them. A graph has more.
        const MAX_PLACES: usize = 8;
        let course = known.course;
        if !course.passes.is_empty() || known.is_bare {
            return;
        }
        let mut trains = false;
        let (mut made, mut kept) = (0, 0);
        let mut kept_at: FxHashMap<StackId, usize> = FxHashMap::default();
        let (mut outlived, mut kept_rows) = (FxHashMap::<StackId, usize>::default(), Vec::new());
        let mut by_place: FxHashMap<(StackId, u64), Vec<usize>> = FxHashMap::default();
        let mut at_dump: FxHashMap<StackId, Vec<usize>> = FxHashMap::default();
        // What the program makes between two calls in place of what modules have kept: a cache that is reordered.
        let mut turns: FxHashMap<(StackId, Option<u32>), Vec<usize>> = FxHashMap::default();
        let mut kept_sizes: FxHashSet<u64> = FxHashSet::default();
        let end_of = |row: usize| course.returned(alloc(&known.lifetimes.rows[row]));
        for (row, lifetime) in known.lifetimes.rows.iter().enumerate() {
            let (alloc, freed) = (alloc(lifetime), course.freed(lifetime));
            let place = (lifetime.stack, lifetime.requested_bytes);
            match (known.told)(row) {
                Origin::Module | Origin::Compiled if lifetime.alloc().is_none() => {
                    at_dump.entry(known.stacks.place(lifetime.stack)).or_default().push(row);
                }
                Origin::Module | Origin::Compiled => {
                    made += 1;
                    let failure = course.failure_after(alloc);
                    let end = course.returned(alloc);
                    if failure.map_or(end, |failure| failure.min(end)) <= freed && lifetime.requested_bytes > NUMBER {
                        kept += 1;
                        if course.modules_between(alloc, end) > BEHIND_OUTPUT {
                            kept_sizes.insert(lifetime.requested_bytes);
                        }
                        let place = known.stacks.place(lifetime.stack);
                        *kept_at.entry(place).or_insert(0_usize) += 1;
                        if failure.is_some_and(|failure| end < failure)
                            && course.modules_between(alloc, end) > BEHIND_OUTPUT
                        {
                            *outlived.entry(place).or_default() += 1;
                        }
                        kept_rows.push((row, place));
                    }
                }
                Origin::Program if course.meets_calls(alloc, freed) => by_place.entry(place).or_default().push(row),
                Origin::Program => {
                    let turn = (known.stacks.place(lifetime.stack), course.module_after(alloc));
                    turns.entry(turn).or_default().push(row);
                }
                Origin::Engine | Origin::Hook | Origin::Recompute | Origin::Optimizer => trains = true,
                _ => {}
            }
        }
        // What is kept once may be an output.
        kept_at.retain(|_, count| *count > 1);
        // A model keeps its cache at one set of lines for a prompt and at another for a token. A graph belongs to one call.
        let mut places_of_call: FxHashMap<u32, FxHashSet<StackId>> = FxHashMap::default();
        for &(row, place) in kept_rows.iter().filter(|(_, place)| kept_at.contains_key(place)) {
            places_of_call.entry(end_of(row)).or_default().insert(place);
        }
        let has_many_places = places_of_call.values().any(|places| places.len() > MAX_PLACES);
        self.keeps_graph = kept * 100 > made * GRAPH_PERCENT || has_many_places;
        let is_workspace = |row: &usize| {
            let lifetime = &known.lifetimes.rows[*row];
            WORKSPACES.contains(&lifetime.requested_bytes) && known.is_kept(lifetime, false)
        };
        let results: Vec<usize> = kept_rows.iter().map(|row| row.0).filter(|row| !is_workspace(row)).collect();
        let last = results.chunk_by(|&a, &b| end_of(a) == end_of(b)).filter_map(|call| call.last());
        self.returned.extend(last);
        if !self.keeps_graph && !trains {
            let is_cache = |place: &StackId| outlived.get(place).is_some_and(|&count| count > 1);
            self.kept_by_calls.extend(kept_rows.iter().filter(|(_, place)| is_cache(place)).map(|&(row, _)| row));
        }
        for rows in by_place.values() {
            self.caches.extend(known.made_together(rows));
        }
        if !trains {
            self.find_beside_model(known, by_place.values().flatten().copied());
        }
        if !self.keeps_graph && !trains {
            let is_kept = |row: &usize| kept_sizes.contains(&known.lifetimes.rows[*row].requested_bytes);
            let is_reordered = |rows: &Vec<usize>| rows.len() >= MIN_BLOCKS && rows.iter().all(is_kept);
            self.caches.extend(turns.into_values().filter(is_reordered).flatten());
            self.find_constructed_caches(known);
        }
        if course.modules.is_empty() {
            // One line that makes many blocks of a size in modules of PyTorch alone makes outputs, which the program collects.
            let are_outputs = |(stack, rows): &(&StackId, &Vec<usize>)| {
                let size = |row: usize| known.lifetimes.rows[row].requested_bytes;
                rows.len() >= MIN_BLOCKS
                    && known.stacks.is_in_own_modules(**stack)
                    && rows.iter().all(|&row| size(row) == size(rows[0]))
            };
            let outputs: Vec<StackId> = at_dump.iter().filter(are_outputs).map(|(&stack, _)| stack).collect();
            if outputs.len() <= MOST_OUTPUTS {
                for stack in outputs {
                    self.keeping.extend(at_dump.remove(&stack).into_iter().flatten());
                }
            }
        }
        if course.modules.is_empty() && !trains {
            let bytes = |rows: &Vec<usize>| {
                rows.iter().map(|&row| known.lifetimes.rows[row].requested_bytes).fold(0, u64::saturating_add)
            };
            let all: u64 = at_dump.values().map(bytes).fold(0, u64::saturating_add);
            let layers: Vec<&Vec<usize>> = at_dump.values().filter(|rows| rows.len() >= MIN_BLOCKS / 2).collect();
            let of_layers = layers.iter().map(|rows| bytes(rows)).fold(0, u64::saturating_add);
            // A graph has more places, unless none can be kept.
            let is_few = layers.len() <= MAX_PLACES || at_dump.keys().all(|&stack| known.stacks.is_without_grad(stack));
            // For each layer there are two, keys and values.
            let count: usize = layers.iter().map(|rows| rows.len()).sum();
            if count >= MIN_BLOCKS && count.is_multiple_of(2) && is_few && of_layers >= all / 4 * 3 {
                self.caches.extend(layers.into_iter().flatten());
            }
        }
    }

    /// Of what the program makes before several calls of the model and never frees, what is larger than the whole model: a cache of all
    /// layers in one block, or a set of data.
    fn find_beside_model<T: Fn(usize) -> Origin>(
        &mut self,
        known: &Known<'_, T>,
        met_by_calls: impl Iterator<Item = usize>,
    ) {
        let rows = known.lifetimes.rows.iter().enumerate();
        let stays = |lifetime: &Lifetime| known.course.freed(lifetime) == known.course.entries;
        let model = rows
            .filter(|&(row, lifetime)| matches!((known.told)(row), Origin::Build | Origin::Untold) && stays(lifetime));
        let model = model.map(|(_, lifetime)| lifetime.requested_bytes).fold(0, u64::saturating_add);
        let is_beside = |&row: &usize| {
            let lifetime = &known.lifetimes.rows[row];
            stays(lifetime) && lifetime.requested_bytes > model.max(LARGE) && !self.caches.contains(&row)
        };
        let beside: Vec<usize> = met_by_calls.filter(is_beside).collect();
        self.beside_model.extend(beside);
    }

    /// Where backward passes were recorded, too: what modules make at one place in calls that save nothing, of one size in each, larger
    /// from call to call, and freed only when the next call has made its own. Beside it, what they make once for all of these calls: keys
    /// and values of the encoder's output.
    pub(super) fn find_growing<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        /// Calls in a row.
        const MIN_CALLS: usize = 3;
        /// Layers: an output is one block.
        const MIN_LAYERS: usize = 2;
        let course = known.course;
        if course.passes.is_empty() || known.is_bare {
            return;
        }
        let mut by_place: FxHashMap<StackId, Vec<(u32, usize)>> = FxHashMap::default();
        let rows = known.lifetimes.rows.iter().enumerate().skip(known.lifetimes.before_recording);
        for (row, lifetime) in rows {
            if matches!((known.told)(row), Origin::Module | Origin::Compiled) {
                let (end, freed) = (course.returned(alloc(lifetime)), course.freed(lifetime));
                let is_evaluated = self.saved_between(course.program_before(alloc(lifetime)), end) == 0;
                if freed > end && course.pass_at(freed).is_none() && is_evaluated {
                    by_place.entry(known.stacks.place(lifetime.stack)).or_default().push((end, row));
                }
            }
        }
        let size = |row: &(u32, usize)| known.lifetimes.rows[row.1].requested_bytes;
        let grows = |a: &&[(u32, usize)], b: &&[(u32, usize)]| {
            a.len() == b.len()
                && size(&a[0]) < size(&b[0])
                && course.turn_before(a[0].0) == course.turn_before(b[0].0)
                && a.iter().zip(*b).all(|(a, b)| {
                    let [a, b] = [a, b].map(|row| &known.lifetimes.rows[row.1]);
                    course.freed(a) > alloc(b)
                })
        };
        let by_place: Vec<Vec<&[(u32, usize)]>> = by_place
            .values()
            .map(|rows| {
                let calls = rows.chunk_by(|a, b| a.0 == b.0);
                calls
                    .filter(|call| call.len() >= MIN_LAYERS && call.iter().all(|row| size(row) == size(&call[0])))
                    .collect()
            })
            .collect();
        // By turn, of each series of calls the end of its first, and where its last block is made.
        let mut series_of_turn: FxHashMap<u32, Vec<(u32, u32)>> = FxHashMap::default();
        for calls in &by_place {
            for series in calls.chunk_by(grows).filter(|series| series.len() >= MIN_CALLS) {
                self.growing.extend(series.iter().copied().flatten().map(|row| row.1));
                let newest = series.iter().copied().flatten().map(|row| alloc(&known.lifetimes.rows[row.1])).max();
                let first = series[0][0].0;
                series_of_turn.entry(course.turn_before(first)).or_default().push((first, newest.unwrap_or(0)));
            }
        }
        let outlives = |call: &&&[(u32, usize)]| {
            let freed = call.iter().map(|row| course.freed(&known.lifetimes.rows[row.1])).min();
            let mut series = series_of_turn.get(&course.turn_before(call[0].0)).into_iter().flatten();
            series.any(|&(first, newest)| call[0].0 <= first && freed > Some(newest))
        };
        for call in by_place.iter().flatten().filter(outlives) {
            self.growing.extend(call.iter().map(|row| row.1));
        }
    }

    /// Where backward passes were recorded, too: blocks of one size that the program makes at one line for several calls of the model, which
    /// save nothing, and frees before the next pass: keys and values of text that a program generates and then learns from.
    pub(super) fn find_filled<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        let course = known.course;
        if course.passes.is_empty() || known.is_bare {
            return;
        }
        let mut by_line: FxHashMap<(StackId, u64), Vec<usize>> = FxHashMap::default();
        let rows = known.lifetimes.rows.iter().enumerate().skip(known.lifetimes.before_recording);
        for (row, lifetime) in rows.filter(|(_, lifetime)| lifetime.requested_bytes >= MIN_LEFT) {
            let (alloc, freed) = (alloc(lifetime), course.freed(lifetime));
            let precedes_pass = course.pass_after(alloc).is_some_and(|pass| freed <= pass.start);
            if (known.told)(row) == Origin::Program
                && precedes_pass
                && course.meets_calls(alloc, freed)
                && self.saved_between(alloc, freed) == 0
            {
                let line = (known.stacks.place(lifetime.stack), lifetime.requested_bytes);
                by_line.entry(line).or_default().push(row);
            }
        }
        for rows in by_line.values() {
            self.caches.extend(known.made_together(rows));
        }
    }

    /// Blocks of one size that a constructor of the program's makes at one line, when the model is there: one for each layer.
    fn find_constructed_caches<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        let mut by_line: FxHashMap<(StackId, u64), Vec<usize>> = FxHashMap::default();
        for &row in &self.apart {
            let lifetime = &known.lifetimes.rows[row];
            by_line.entry((known.stacks.place(lifetime.stack), lifetime.requested_bytes)).or_default().push(row);
        }
        self.caches.extend(by_line.into_values().filter(|rows| rows.len() >= MIN_BLOCKS).flatten());
    }
}
