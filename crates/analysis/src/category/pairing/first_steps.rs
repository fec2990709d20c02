//! What a rehearsal of the first steps needs: the recorded requests, the optimizers' first steps, and the orders in which parameters
//! may have been allocated.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::orders::each_once;
use super::{Known, NUMBER, alloc};
use crate::category::ages::ages;
use crate::category::before::{Held, as_moved, by_age};
use crate::category::course::is_backward;
use crate::category::kept::Kept;
use crate::category::origin::Origin;
use crate::category::rehearsal::{Event, Order, Play, Rehearsed, Step, rehearse};

impl<T: Fn(usize) -> Origin> Known<'_, T> {
    /// What blocks from before the recording were allocated for, as far as a rehearsal tells: by index into `held`.
    ///
    /// `parameters` are how many parameters there are of each size, frozen ones among them, and `gradients` how many of these are
    /// trained.
    pub(super) fn rehearsed(
        &self,
        held: &[Held],
        parameters: &FxHashMap<u64, usize>,
        gradients: impl Fn(u64) -> usize,
        kept: &Kept,
        modules: &[Vec<u64>],
    ) -> Rehearsed {
        let mut there: FxHashMap<u64, usize> = FxHashMap::default();
        for block in held {
            *there.entry(block.size_bytes).or_default() += 1;
        }
        let states = parameters.iter().filter(|&(&size, _)| gradients(size) > 0).map(|(&size, &count)| {
            let others = there.get(&size).copied().unwrap_or(0).saturating_sub(count);
            let stays = usize::from(kept.gradients_stay && kept.count(size) > 0);
            (size, (others / gradients(size)).saturating_sub(stays))
        });
        let states: FxHashMap<u64, usize> = states.collect();
        if states.is_empty() {
            return Rehearsed::default();
        }
        let lead: Vec<u64> = by_age(held, &self.memory.regions, ages)
            .filter(|block| !states.contains_key(&block.size_bytes) && self.is_frozen_size(block.size_bytes))
            .map(|block| block.size_bytes)
            .collect();
        let orders = self.orders_of(parameters, modules, &lead);
        let mut rehearsed = Rehearsed::default();
        for begin in [0, self.course.steps.first().map_or(0, |step| step.end)] {
            let mut play = self.play(begin, kept, held, parameters);
            if play.events.is_empty() {
                continue;
            }
            play.states.clone_from(&states);
            let next = rehearse(&play, &orders, &self.memory.settings, &self.memory.regions, held);
            let is_last = !next.roles.is_empty() || self.course.steps.is_empty();
            rehearsed = Rehearsed { begun_percent: next.begun_percent.max(rehearsed.begun_percent), ..next };
            if is_last {
                break;
            }
        }
        rehearsed
    }

    /// Whether blocks of a size may be a frozen model's: no pass makes any.
    fn is_frozen_size(&self, size_bytes: u64) -> bool {
        !super::WORKSPACES.contains(&size_bytes)
            && self.of_size.get(&size_bytes).is_none_or(|of| !of.is_made_in_pass && of.states == 0 && of.stepped == 0)
    }

    /// The recorded requests from an entry to the end of the last of the optimizers' first steps.
    fn play(&self, begin: u32, kept: &Kept, held: &[Held], parameters: &FxHashMap<u64, usize>) -> Play {
        let steps = self.first_steps(begin, parameters);
        let passes = || self.course.passes.iter().filter(|pass| pass.start >= begin);
        let steps = if steps.is_empty() {
            let untold =
                passes().next().map(|pass| Step { start: pass.end, first_free: pass.end, parameters: Vec::new() });
            untold.into_iter().collect()
        } else {
            steps
        };
        let Some(end) = steps.iter().map(|step| step.start.max(step.first_free)).max() else { return Play::default() };
        let end = self.course.steps.iter().find(|step| step.contains(&end)).map_or(end, |step| step.end);
        let mut events: Vec<Event> = Vec::new();
        let first = self.lifetimes.before_recording;
        let mut scratch: FxHashMap<u64, Vec<(u32, usize)>> = FxHashMap::default();
        let pass = passes().next().copied();
        for (row, lifetime) in self.lifetimes.rows.iter().enumerate().skip(first) {
            let entry = alloc(lifetime);
            if entry < begin {
                continue;
            }
            if entry >= end {
                break;
            }
            let size_bytes = lifetime.requested_bytes;
            let event = Event { entry, row, size_bytes, stream: lifetime.stream.get().into(), is_free: false };
            events.push(event);
            let freed = lifetime.free_completed().or(lifetime.free_requested()).map(highwater_snapshot::EntryId::get);
            if let Some(freed) = freed.filter(|&freed| freed < end) {
                events.push(Event { entry: freed, is_free: true, ..event });
            }
            let is_in_pass = pass.is_some_and(|pass| pass.contains(entry));
            if kept.gradients_stay && kept.count(size_bytes) > 0 && is_in_pass && is_backward((self.told)(row)) {
                scratch.entry(size_bytes).or_default().push((freed.unwrap_or(end) - entry, row));
            }
        }
        events.extend(self.workspaces(begin, held));
        events.sort_by_key(|event| event.entry);
        // A gradient is added to the one that stays as soon as it is there.
        let mut gradients: FxHashSet<usize> = FxHashSet::default();
        for (size, mut rows) in scratch {
            rows.sort_unstable();
            gradients.extend(rows.into_iter().take(kept.count(size)).map(|row| row.1));
        }
        Play { events, steps, gradients, states: FxHashMap::default() }
    }

    /// The first matrix product of the program's thread, and of autograd's, allocates a workspace that stays.
    fn workspaces(&self, begin: u32, held: &[Held]) -> impl Iterator<Item = Event> {
        let workspaces = held.iter().filter(|block| super::WORKSPACES.contains(&block.size_bytes));
        let module = self.course.module_after(begin);
        let pass = self.course.passes.iter().find(|pass| pass.start >= begin).map(|pass| pass.start);
        let of = |(block, entry): (&Held, u32)| {
            let stream = self.lifetimes.rows[block.row].stream.get().into();
            Event { entry: entry + 1, row: block.row, size_bytes: block.size_bytes, stream, is_free: false }
        };
        workspaces.zip(module.into_iter().chain(pass)).map(of).collect::<Vec<_>>().into_iter()
    }

    /// The first step of each optimizer from an entry on, by the lines that make its intermediates. What clips gradients makes a number for each.
    fn first_steps(&self, begin: u32, parameters: &FxHashMap<u64, usize>) -> Vec<Step> {
        /// Steps among which each optimizer has one.
        const MOST: usize = 16;
        let later = self.course.steps.iter().filter(|step| step.start >= begin).nth(MOST);
        let end = later.map_or(self.course.entries, |step| step.start);
        let mut of_place: BTreeMap<highwater_snapshot::StackId, (u32, Vec<(u64, u32)>)> = BTreeMap::new();
        let mut first_free: FxHashMap<u32, u32> = FxHashMap::default();
        for (row, lifetime) in self.lifetimes.rows.iter().enumerate().skip(self.lifetimes.before_recording) {
            let entry = alloc(lifetime);
            if entry >= end {
                break;
            }
            if entry < begin || (self.told)(row) != Origin::Optimizer {
                continue;
            }
            let freed = self.course.freed(lifetime);
            let Some(step) = self.course.step_at(entry).filter(|step| freed < step.end) else { continue };
            let at = first_free.entry(step.start).or_insert(step.end);
            *at = freed.min(*at);
            let of = of_place.entry(self.stacks.place(lifetime.stack)).or_insert((step.start, Vec::new()));
            if of.0 == step.start {
                of.1.push((lifetime.requested_bytes, entry));
            }
        }
        let is_of_parameter =
            |size: u64| parameters.contains_key(&size) || size > NUMBER && self.gradients_made(size) > 0;
        let mut steps: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
        for (start, made) in of_place.into_values() {
            let sizes: Vec<u64> = made.iter().map(|row| row.0).collect();
            let once = each_once(sizes, |size| self.gradients_made(*size));
            // Of several blocks for each parameter, the first.
            let mut next = 0;
            let for_each = made.iter().filter(|row| {
                let is_next = once.get(next) == Some(&row.0);
                next += usize::from(is_next);
                is_next
            });
            let for_each: Vec<(u64, u32)> = for_each.copied().filter(|row| is_of_parameter(row.0)).collect();
            let of = steps.entry(start).or_default();
            if for_each.len() > of.len() {
                *of = for_each;
            }
        }
        let step = |(start, parameters)| Step {
            start,
            first_free: first_free.get(&start).copied().unwrap_or(start),
            parameters,
        };
        steps.into_iter().filter(|(_, parameters)| !parameters.is_empty()).map(step).collect()
    }

    fn gradients_made(&self, size_bytes: u64) -> usize {
        self.of_size.get(&size_bytes).map_or(0, |of| of.gradients.max(of.stepped))
    }

    /// Orders in which parameters may have been allocated: the optimizers' order and the reverse of the gradients' order; with several
    /// models, each order of these; with frozen parameters, these first or last.
    fn orders_of(&self, parameters: &FxHashMap<u64, usize>, modules: &[Vec<u64>], lead: &[u64]) -> Vec<Order> {
        /// Models whose orders are tried.
        const MOST_MODELS: usize = 3;
        const MOST_ORDERS: usize = 96;
        let reversed = self.orders.iter().map(|order| order.iter().rev().copied().collect::<Vec<u64>>());
        let of_gradients: Vec<Vec<u64>> =
            reversed.map(|order| order.into_iter().filter(|size| parameters.contains_key(size)).collect()).collect();
        // Each of several models, in the order in which they may have been made.
        let mut bases: Vec<Vec<&[u64]>> = Vec::new();
        for several in [modules, &of_gradients] {
            bases.extend(several.iter().map(|model| vec![model.as_slice()]));
            if (2..=MOST_MODELS).contains(&several.len()) {
                let of = |order: Vec<usize>| order.into_iter().map(|model| several[model].as_slice()).collect();
                bases.extend(permutations(several.len()).into_iter().map(of));
            }
        }
        let mut orders: Vec<Order> = Vec::new();
        for models in bases {
            let base = models.concat();
            let copies = Copies::new(&models, parameters);
            let mut add = |moved: Vec<u64>| {
                if orders.len() < MOST_ORDERS && orders.iter().all(|order| order.moved != moved) {
                    orders.push(Order { parameters: base.clone(), moved });
                }
            };
            if let Some(each) = &copies.behind_each {
                let each = attention_moved(each);
                add([lead, &each].concat());
                add([&each, lead].concat());
            }
            for moved in as_moved(base.clone()) {
                // A copy is made in the order of the parameters, or is moved like the model.
                for moved in [attention_moved(&moved), moved] {
                    for copied in [attention_moved(&copies.behind_all), copies.behind_all.clone()] {
                        let models: [&[u64]; 3] = [lead, &copied, &moved];
                        for order in [[2, 1, 0], [0, 2, 1], [0, 1, 2], [1, 2, 0]] {
                            add(order.map(|model| models[model]).concat());
                        }
                    }
                }
            }
        }
        orders
    }
}

/// The parameters that some models do not have: of copies, such as targets and averages, and of frozen layers.
struct Copies {
    /// Copies of whole models, in the order of these, then the others in the models' order.
    behind_all: Vec<u64>,
    /// The models, each with its copy behind it, if the copies are of whole models and there are several models.
    behind_each: Option<Vec<u64>>,
}

impl Copies {
    fn new(models: &[&[u64]], parameters: &FxHashMap<u64, usize>) -> Self {
        let mut counts = parameters.clone();
        for size in models.iter().copied().flatten() {
            take(&mut counts, *size);
        }
        let (mut copied, mut each): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
        for model in models {
            each.extend(*model);
            let mut without = counts.clone();
            if models.len() > 1 && model.iter().all(|&size| take(&mut without, size)) {
                counts = without;
                copied.extend(*model);
                each.extend(*model);
            }
        }
        let is_whole = !copied.is_empty() && counts.values().all(|&count| count == 0);
        copied.extend(left(&models.concat(), counts));
        Self { behind_all: copied, behind_each: is_whole.then_some(each) }
    }
}

/// Takes one of a size, if one is left.
fn take(counts: &mut FxHashMap<u64, usize>, size_bytes: u64) -> bool {
    counts.get_mut(&size_bytes).filter(|count| **count > 0).map(|count| *count -= 1).is_some()
}

/// What is left of some sizes, in the order of a model, over and over.
fn left(order: &[u64], mut counts: FxHashMap<u64, usize>) -> Vec<u64> {
    let mut left: Vec<u64> = Vec::new();
    loop {
        let before = left.len();
        left.extend(order.iter().copied().filter(|&size| take(&mut counts, size)));
        if left.len() == before {
            return left;
        }
    }
}

/// As `nn.MultiheadAttention` is moved: it has two parameters beside a module, which is moved first.
///
/// # Source
/// PyTorch v2.11, `torch/nn/modules/activation.py` and `module.py`, `_apply`.
fn attention_moved(order: &[u64]) -> Vec<u64> {
    let mut moved = order.to_vec();
    let mut at = 0;
    while let Some(window) = moved.get_mut(at..at + 4) {
        let is_attention = window[0] == window[2].saturating_mul(3) && window[1] == window[3].saturating_mul(3);
        if is_attention {
            window.rotate_left(2);
        }
        at += if is_attention { 4 } else { 1 };
    }
    moved
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(count - 1);
    let with = |shorter: &Vec<usize>, at: usize| {
        let mut order = shorter.clone();
        order.insert(at, count - 1);
        order
    };
    shorter.iter().flat_map(|order| (0..count).map(|at| with(order, at)).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_is_moved_behind_its_own_module() {
        assert_eq!(attention_moved(&[8, 27, 9, 9, 3, 5]), [8, 9, 3, 27, 9, 5]);
        assert_eq!(attention_moved(&[27, 3, 9]), [27, 3, 9]);
    }

    #[test]
    fn copies_and_frozen_layers_follow_in_the_order_of_the_trained_ones() {
        let counts: FxHashMap<u64, usize> = [(5, 3), (7, 2), (9, 1)].into_iter().collect();
        let behind_all = |model: &[u64]| Copies::new(&[model], &counts).behind_all;
        assert_eq!(behind_all(&[9, 5, 7]), [5, 7, 5]);
        assert_eq!(behind_all(&[9, 5, 7, 5, 5, 7]), [0; 0]);
    }

    #[test]
    fn of_several_models_some_are_copied_as_a_whole() {
        let (actor, critic): (&[u64], &[u64]) = (&[5, 7], &[9, 7]);
        let counts: FxHashMap<u64, usize> = [(5, 1), (7, 3), (9, 2)].into_iter().collect();
        let copies = Copies::new(&[actor, critic], &counts);
        assert_eq!(copies.behind_all, [9, 7], "and not 7, 9");
        assert_eq!(copies.behind_each, Some(vec![5, 7, 9, 7, 9, 7]));
        let counts: FxHashMap<u64, usize> = [(5, 2), (7, 4), (9, 2)].into_iter().collect();
        assert_eq!(Copies::new(&[actor, critic], &counts).behind_each, Some(vec![5, 7, 5, 7, 9, 7, 9, 7]));
        let counts: FxHashMap<u64, usize> = [(5, 1), (7, 3), (9, 1)].into_iter().collect();
        assert_eq!(Copies::new(&[actor, critic], &counts).behind_each, None, "a frozen layer");
    }

    #[test]
    fn models_may_be_moved_in_any_order() {
        let mut orders = permutations(3);
        orders.sort();
        assert_eq!(orders, [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]);
    }
}
