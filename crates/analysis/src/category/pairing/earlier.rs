//! What was there before the recording and stays: as many parameters of each size as pair up, the rest the optimizer's.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{ADAM, Keeps, Known, LARGE, MAX_STATES, MIN_FROZEN, OF_AMD, OF_LAYERS_TOO, OfSize, Pairing, WORKSPACES};
use crate::category::ages::{ages, ages_by_chunks, has_hole};
use crate::category::before::{self, Held, Region};
use crate::category::kept::{self, Halved};
use crate::category::origin::Origin;
use crate::category::rehearsal::{Rehearsed, Role};
use crate::category::rows;
use crate::category::runs::Longest;
use crate::lifetime::Lifetime;

/// A rehearsal that explains no more than this part of the blocks of parameters' sizes explains the small ones alone.
const LIKE_PART: u64 = 4;

/// Of the bytes of the last copy of the parameters, those that lie behind the others: buffers are moved and copied in another order.
const MIN_COPIED_PERCENT: usize = 60;

/// Sizes of which some layers are frozen: one may be chance.
const MIN_FROZEN_SIZES: usize = 2;

impl Pairing {
    /// What was there before the recording and stays: of each size as many parameters as [`before`] finds, the rest the
    /// optimizer's.
    pub(super) fn find_before<T: Fn(usize) -> Origin>(&mut self, known: &mut Known<'_, T>) {
        let is_held = |lifetime: &Lifetime| lifetime.free_requested().is_none() && !lifetime.awaits_free_at_start();
        let blocks = &known.memory.blocks;
        let stays = |&row: &usize| (known.told)(row) == Origin::Untold && is_held(&known.lifetimes.rows[row]);
        let mut held: Vec<Held> = (0..known.lifetimes.before_recording)
            .filter(stays)
            .map(|row| {
                let lifetime = &known.lifetimes.rows[row];
                let size_bytes = lifetime.requested_bytes;
                let block = lifetime.block().and_then(|block| blocks.get(block));
                let block_bytes = block.map_or(size_bytes, |block| block.size_bytes);
                Held { row, address: lifetime.address, size_bytes, block_bytes }
            })
            .collect();
        held.sort_unstable_by_key(|block| block.address);
        if known.course.passes.is_empty() {
            self.find_before_inference(known, held);
            return;
        }
        let mut there: FxHashMap<u64, usize> = FxHashMap::default();
        for block in &held {
            *there.entry(block.size_bytes).or_default() += 1;
        }
        let mut kept = known.kept(&there);
        let made = |size: u64| known.of_size.get(&size).map_or(0, |of| of.gradients);
        let tables = known.tables(&there, |size| {
            made(size) == 0 && kept.count(size) == 0 && !WORKSPACES.contains(&size) && !known.is_left(size)
        });
        let joined = known.joined(&there, self.gradient_bytes);
        let halved = match known.memory.keeps {
            Keeps::Told { least, most } => Halved::new(&there, made, least..=most),
            Keeps::Several | Keeps::Untold => None,
        };
        if let Some(halved) = &halved {
            kept = halved.kept();
        }
        let gradients = |size: u64| match &halved {
            Some(halved) => made(size) + halved.count(size),
            None => made(size).max(kept.count(size)).max(tables.count(size)).max(joined.count(size)),
        };
        // Sizes that the optimizer works in tell best, where it makes any.
        let is_stepped = |size: u64| known.of_size.get(&size).is_some_and(|of| of.stepped > 0);
        let mut telling = there.clone();
        telling.retain(|&size, _| made(size) > 0 && is_stepped(size));
        let is_workspace = |size: u64| WORKSPACES.contains(&size);
        // What the optimizer that is known does not work in is another's, which keeps as many blocks for each parameter.
        let of_another = |size: u64| {
            let blocks = there.get(&size).copied().unwrap_or(0);
            let is_another = !telling.is_empty() && made(size) > 0 && !is_stepped(size) && kept.count(size) == 0;
            let keeps = (blocks / made(size).max(1)).saturating_sub(1).min(MAX_STATES);
            (is_another && blocks.is_multiple_of(made(size))).then_some(keeps)
        };
        let by_count = states_by_count(if telling.is_empty() { &there } else { &telling }, made);
        let states = kept.states.or(joined.states()).unwrap_or_else(|| match known.memory.keeps {
            // A copy of the parameters counts like more state, so more state has to lie like it.
            Keeps::Told { least, most } if least >= ADAM && by_count > least => {
                let is_more =
                    |size: u64| made(size) > 0 && !is_workspace(size) && there[&size] > made(size) * (least + 1);
                Longest::new(&known.orders).usual(&held, is_more).unwrap_or(least).clamp(least, most)
            }
            Keeps::Told { least, most } => by_count.clamp(least, most),
            Keeps::Several | Keeps::Untold => by_count,
        });
        // Of a size with several parameters there is less state than the one optimizer that is known would keep, or a number that does
        // not divide by the parameters where there are several: others have a part of them, and their state lies in no order that is known.
        let is_shared = |size: u64, count: usize| {
            let made = made(size);
            made > 1
                && count > made
                && match known.memory.keeps {
                    Keeps::Told { least, .. } => count < made * (least + 1) && of_another(size).is_none(),
                    Keeps::Several => !count.is_multiple_of(made),
                    Keeps::Untold => false,
                }
        };
        // Blocks of a size that are no parameters: the optimizer's, and gradients that stay.
        let others = |size: u64, count: usize, states: usize| {
            if let Some(halved) = &halved {
                return states * made(size) + halved.count(size);
            }
            let gradients = gradients(size);
            if let Some(keeps) = of_another(size) {
                return keeps * gradients;
            }
            match count.checked_div(made(size)) {
                None if tables.count(size) > 0 => tables.states * gradients,
                Some(blocks) if known.memory.keeps == Keeps::Several && count == blocks * gradients => {
                    (blocks.saturating_sub(1)).min(MAX_STATES) * gradients
                }
                _ => (states + usize::from(kept.gradients_stay && kept.count(size) > 0)) * gradients,
            }
        };
        let is_told = matches!(known.memory.keeps, Keeps::Told { least, most } if least == most || least >= ADAM);
        let wanted = |states: usize| -> FxHashMap<u64, usize> {
            let trained = there.iter().filter(|&(&size, _)| gradients(size) > 0);
            let counts = trained.map(|(&size, &count)| {
                let others = others(size, count, states);
                // What a leak leaves is not one more parameter.
                let count = if known.is_left_in_several(size) { count.min(others + gradients(size)) } else { count };
                // As much state and nothing more: such parameters lie in a larger block, as cuDNN's do.
                let is_state_alone = is_told && others > 0 && count == others && of_another(size).is_none();
                let least = if is_state_alone { 0 } else { gradients(size) };
                // One more, of a size of workspaces, is one.
                let others = others + usize::from(is_workspace(size) && count == others + least + 1);
                (size, count.min(least.max(count.saturating_sub(others))))
            });
            counts.collect()
        };
        let modules = known.module_orders(&there);
        let rehearsed = |wanted: &FxHashMap<u64, usize>| known.rehearsed(&held, wanted, gradients, &kept, &modules);
        let (wanted, Rehearsed { roles, begun, .. }) = match known.memory.keeps {
            // What was converted on the device lies where the conversion left room, so age alone tells.
            _ if halved.is_some() => {
                let wanted = wanted(states);
                let roles = roles_by_age(&held, &known.memory.regions, &wanted, &kept.counts);
                (wanted, Rehearsed { roles, ..Rehearsed::default() })
            }
            // Of an optimizer that keeps some in any case, each block more is state by other settings, or a copy of the parameters: they
            // lie as one of the two.
            Keeps::Told { least, most } if least > 0 && least < most && by_count > least && kept.states.is_none() => {
                let all = most.min(by_count);
                let of = |states: usize| {
                    let wanted = wanted(states);
                    let rehearsed = rehearsed(&wanted);
                    (states, wanted, rehearsed)
                };
                let others = [least, all].into_iter().filter(|&other| other != states);
                let mut tried: Vec<_> = std::iter::once(states).chain(others).map(of).collect();
                let trained = held.iter().map(|block| block.size_bytes).filter(|&size| gradients(size) > 0);
                let trained_bytes = trained.fold(0, u64::saturating_add);
                let is_like = |rehearsed: &Rehearsed| rehearsed.bytes > trained_bytes / LIKE_PART;
                // Where no rehearsal is like it, or in small blocks alone: parameters that lie in order, and no copy of them behind, leave
                // state alone.
                let lie_so = |states: usize| {
                    let begun = tried.iter().find(|tried| tried.0 == states).map_or(0, |tried| tried.2.begun_percent);
                    are_copied(by_count + 1 - states, begun)
                };
                let is_state_alone = !tried.iter().any(|tried| is_like(&tried.2)) && lie_so(all) && !lie_so(least);
                let best = (1..tried.len()).fold(0, |best, next| {
                    let is_better =
                        if is_state_alone { tried[next].0 == all } else { tried[next].2.bytes > tried[best].2.bytes };
                    if is_better { next } else { best }
                });
                let (_, wanted, rehearsed) = tried.swap_remove(best);
                (wanted, rehearsed)
            }
            // A copy of the parameters lies as they do, one after the other, where state lies between what the first step leaves. If
            // all lies so, state was made as the optimizer was constructed.
            Keeps::Untold if states > 1 && kept.states.is_none() && joined.states().is_none() => {
                let of = |states: usize| {
                    let wanted = wanted(states);
                    let rehearsed = rehearsed(&wanted);
                    (wanted, rehearsed)
                };
                let fewer = (0..states).map(|fewer| (fewer, of(fewer)));
                match fewer
                    .into_iter()
                    .find(|(fewer, (_, rehearsed))| are_copied(states + 1 - fewer, rehearsed.begun_percent))
                {
                    Some((1.., of)) => of,
                    _ => of(states),
                }
            }
            _ => {
                let wanted = wanted(states);
                let rehearsed = rehearsed(&wanted);
                (wanted, rehearsed)
            }
        };
        let mut told = FxHashMap::default();
        if known.memory.constructs_state && has_hole(&known.memory.regions) {
            told = oldest(&held, &known.memory.regions, &wanted);
        }
        told.extend(begun.into_iter().map(|index| (index, true)));
        told.extend(roles.iter().map(|(&index, &role)| (index, role == Role::Parameter)));
        let found = before::parameters(&held, known.ground(), &wanted, &known.orders, &modules, &told);
        let fresh = before::lie_as_when_made(&held, known.ground());
        // A frozen model has many blocks, and a frozen layer lies among the others. A few large blocks apart may be data as well.
        let pairs_at = held
            .iter()
            .zip(&found.is_parameter)
            .filter(|(_, is_parameter)| **is_parameter)
            .map(|(block, _)| block.address);
        // What begins a segment comes before the parameters that follow it there.
        let begin = |address: u64| {
            let regions = &known.memory.regions;
            let after = regions.partition_point(|region| region.address <= address);
            after.checked_sub(1).map_or(address, |at| regions[at].address)
        };
        let among = pairs_at.clone().min().zip(pairs_at.max()).map(|(first, last)| begin(first)..=last);
        // Of some sizes there are more parameters than gradients, and of others as many: some layers of the model are frozen.
        let has_more = |&&size: &&u64| wanted.get(&size).is_some_and(|&count| count > gradients(size));
        let trained: Vec<u64> = there.keys().copied().filter(|&size| gradients(size) > 0).collect();
        let large: Vec<u64> = trained.iter().copied().filter(|&size| size > LARGE).collect();
        let has_frozen_layers = (MIN_FROZEN_SIZES..large.len()).contains(&large.iter().filter(has_more).count());
        let is_among = |block: &Held| {
            // A block of a segment of its own lies where the driver put it: data, or a table that is frozen, as other layers are.
            let settings = known.ground().settings;
            let fills_segment = settings.segment_bytes(block.block_bytes) < block.block_bytes.saturating_mul(2);
            let is_alone = fills_segment && !settings.expandable_segments;
            block.size_bytes <= LARGE
                || has_frozen_layers
                || (!is_alone && among.as_ref().is_none_or(|among| among.contains(&block.address)))
        };
        let is_of_optimizer = |size: u64| known.of_size.get(&size).is_some_and(OfSize::is_of_optimizer_alone);
        let shrunk = if matches!(known.memory.keeps, Keeps::Told { .. }) {
            FxHashSet::default()
        } else {
            shrunk(&there, gradients)
        };
        let is_unpaired = |size: u64| {
            // Of several blocks of cuBLASLt's size most are a frozen model's.
            let is_workspace = WORKSPACES.contains(&size) && (size != OF_LAYERS_TOO || there[&size] < 3);
            gradients(size) == 0 && !is_workspace && !is_of_optimizer(size) && !shrunk.contains(&size)
        };
        let layers = known.layers_of(&there, is_unpaired);
        // What a leak has left before the recording is there once for each earlier step.
        let is_leaked = |size: u64| known.is_left(size) && there[&size] > 1;
        // Where the program replaces as many blocks as there are gradients, those may be the parameters, and the few that stay state alone.
        let mut replaced: FxHashMap<u64, usize> = FxHashMap::default();
        for &row in &self.replaced {
            *replaced.entry(known.lifetimes.rows[row].requested_bytes).or_default() += 1;
        }
        let most_states = match known.memory.keeps {
            Keeps::Told { most, .. } => most,
            Keeps::Several | Keeps::Untold => 1,
        };
        let may_be_replaced = |size: u64| {
            let is_few = there[&size] <= gradients(size) * most_states;
            is_few && replaced.get(&size).is_some_and(|&count| count >= gradients(size))
        };
        let unpaired_blocks = || held.iter().filter(|b| is_unpaired(b.size_bytes) && !is_leaked(b.size_bytes));
        let unpaired_sizes: Vec<u64> = unpaired_blocks().map(|block| block.size_bytes).collect();
        let rows_of_data = rows::row_bytes(&unpaired_sizes, &trained).or_else(|| {
            let large: Vec<u64> = unpaired_sizes.iter().copied().filter(|&size| size > LARGE).collect();
            let made = if large.is_empty() { Vec::new() } else { known.made_again() };
            rows::rows_of_layers(&large, &trained, &made)
        });
        // A set may have a tensor as large as a workspace on another vendor's devices.
        let is_of_none = |size: u64| is_unpaired(size) || (gradients(size) == 0 && OF_AMD.contains(&size));
        let of_none = || held.iter().filter(|b| is_of_none(b.size_bytes) && !is_leaked(b.size_bytes));
        let picked = known.sets(of_none().map(|block| block.size_bytes));
        // Weaker evidence holds where it explains all that no gradient pairs with: of a frozen model something is as many times larger, too.
        let may_be = |size: u64| picked.sizes.contains(&size) || picked.perhaps.contains(&size);
        let are_explained = unpaired_blocks().all(|block| block.size_bytes <= LARGE || may_be(block.size_bytes));
        // A round number of rows is shared by tables, too, unless the program picks from the tensors or layers make as many rows.
        let (mut is_round, mut has_rows) = (false, FxHashSet::default());
        if let Some(rows) = rows_of_data {
            is_round = rows::is_round(rows) && !known.makes_rows(rows);
            has_rows.extend(unpaired_sizes.iter().copied().filter(|size| size.is_multiple_of(rows)));
        }
        let has_rows_alone = |size: u64| is_round && has_rows.contains(&size) && !may_be(size);
        let is_data = |size: u64| {
            let has_rows = has_rows.contains(&size) && !has_rows_alone(size);
            has_rows || picked.sizes.contains(&size) || (are_explained && picked.perhaps.contains(&size))
        };
        self.data.extend(of_none().filter(|block| is_data(block.size_bytes)).map(|block| block.row));
        // What no gradient pairs with is frozen or a buffer, if it was there as early as the others, or of layers.
        let may_be_frozen = |block: &Held, is_fresh: bool| {
            (is_fresh || (block.size_bytes > LARGE && layers && !known.is_left(block.size_bytes)))
                && is_unpaired(block.size_bytes)
        };
        let unpaired = held
            .iter()
            .zip(&fresh)
            .filter(|(block, is_fresh)| block.size_bytes > LARGE && may_be_frozen(block, **is_fresh));
        let is_frozen_model = unpaired.count() >= MIN_FROZEN;
        self.find_left_before(known, &held, |size| gradients(size) > 0 || is_of_optimizer(size));
        let answers = held.iter().enumerate().zip(found.is_parameter).zip(found.is_in_doubt).zip(fresh);
        for ((((index, block), is_parameter), is_in_doubt), is_fresh) in answers {
            // Of trained parameters alone, the gradients tell how many there are, and in which order.
            let has_more = wanted.get(&block.size_bytes).is_some_and(|&count| count > gradients(block.size_bytes));
            let is_shared = is_shared(block.size_bytes, there[&block.size_bytes]) && !told.contains_key(&index);
            if (is_in_doubt && has_more) || is_shared {
                self.in_doubt.insert(block.row);
            }
            if gradients(block.size_bytes) > 0 && may_be_replaced(block.size_bytes) {
                self.in_doubt.insert(block.row);
            }
            if has_rows_alone(block.size_bytes) || self.left_before.contains(&block.row) {
                continue;
            }
            if is_of_optimizer(block.size_bytes) {
                self.states.insert(block.row);
            } else if is_parameter || (may_be_frozen(block, is_fresh) && (is_frozen_model || is_among(block))) {
                self.parameters.insert(block.row);
            } else if gradients(block.size_bytes) > 0 {
                self.states.insert(block.row);
            }
        }
        if kept.gradients_stay {
            let mut counts = kept.counts;
            let of = |role: Role| roles.iter().filter(move |row| *row.1 == role).map(|row| held[*row.0]);
            let mut found: Vec<usize> = Vec::new();
            for block in of(Role::Gradient).filter(|block| self.states.contains(&block.row)) {
                if let Some(count) = counts.get_mut(&block.size_bytes).filter(|count| **count > 0) {
                    *count -= 1;
                    found.push(block.row);
                }
            }
            let told: FxHashSet<usize> = of(Role::State).map(|block| block.row).chain(found.iter().copied()).collect();
            held.retain(|block| {
                counts.contains_key(&block.size_bytes) && self.states.contains(&block.row) && !told.contains(&block.row)
            });
            let left = kept::gradients(&held, &known.memory.regions, counts);
            found.extend(left.into_iter().map(|index| held[index].row));
            for row in found {
                self.states.remove(&row);
                self.kept_gradients.insert(row);
            }
        }
    }

    /// Where no backward pass was recorded, what stays is parameters, but for what lies behind all layers. And if a forward pass keeps its
    /// graph, and of every large size there is a multiple of three, an optimizer such as Adam ran before, and two thirds are its state.
    fn find_before_inference<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>, mut held: Vec<Held>) {
        /// Threads and streams have a workspace each; more blocks of one size are weights.
        const MOST_WORKSPACES: usize = 8;
        /// Sizes that show it: fewer may be chance.
        const MIN_SIZES: usize = 3;
        /// The rest is what conversions leave.
        const FRESH_PERCENT: u64 = 95;
        let behind = known.behind_layers(&held, &self.returned);
        let mut counts: FxHashMap<u64, usize> = FxHashMap::default();
        for block in &held {
            *counts.entry(block.size_bytes).or_default() += 1;
        }
        let is_few = |size: u64| counts[&size] <= MOST_WORKSPACES && !behind.sizes.contains(&size);
        held.retain(|block| !(WORKSPACES.contains(&block.size_bytes) && is_few(block.size_bytes)));
        // Without a history, a cache tells that the model runs only if nothing has been made since it was loaded.
        if known.course.modules.is_empty() {
            let fresh =
                held.iter().zip(before::lie_as_when_made(&held, known.ground())).filter(|(_, is_fresh)| *is_fresh);
            let fresh: u64 = fresh.map(|(block, _)| block.size_bytes).fold(0, u64::saturating_add);
            let all: u64 = held.iter().map(|block| block.size_bytes).fold(0, u64::saturating_add);
            if self.caches.is_empty() || fresh < all / 100 * FRESH_PERCENT {
                return;
            }
        }
        let mut counts: FxHashMap<u64, usize> = FxHashMap::default();
        for block in held.iter().filter(|block| block.size_bytes > LARGE) {
            *counts.entry(block.size_bytes).or_default() += 1;
        }
        let has_states = self.keeps_graph && counts.len() >= MIN_SIZES && counts.values().all(|count| count % 3 == 0);
        if !has_states {
            for block in &held {
                let rows = match behind.sizes.contains(&block.size_bytes) {
                    false if behind.like_matrix.contains(&block.row) => &mut self.pages,
                    false => &mut self.parameters,
                    true if behind.are_pages => &mut self.pages,
                    true => &mut self.behind_layers,
                };
                rows.insert(block.row);
            }
            return;
        }
        for block in held.iter().filter(|block| block.size_bytes <= LARGE) {
            *counts.entry(block.size_bytes).or_default() += 1;
        }
        let wanted = counts.into_iter().map(|(size, count)| (size, count.div_ceil(3))).collect();
        let found = before::parameters(&held, known.ground(), &wanted, &[], &[], &FxHashMap::default());
        for (block, is_parameter) in held.iter().zip(found.is_parameter) {
            if is_parameter {
                self.parameters.insert(block.row)
            } else {
                self.states.insert(block.row)
            };
        }
    }
}

impl<T: Fn(usize) -> Origin> Known<'_, T> {
    /// The sizes that modules make several times, those that are made most often first.
    fn made_again(&self) -> Vec<u64> {
        let mut made: FxHashMap<u64, usize> = FxHashMap::default();
        for (row, lifetime) in self.lifetimes.rows.iter().enumerate().skip(self.lifetimes.before_recording) {
            if lifetime.requested_bytes > 0 && (self.told)(row) == Origin::Module {
                *made.entry(lifetime.requested_bytes).or_default() += 1;
            }
        }
        let mut sizes: Vec<(usize, u64)> =
            made.into_iter().filter(|row| row.1 > 1).map(|(size, count)| (count, size)).collect();
        sizes.sort_unstable_by_key(|&row| std::cmp::Reverse(row));
        sizes.into_iter().map(|row| row.1).collect()
    }

    /// Whether modules make several blocks with so many rows: a whole set of data goes through them at once.
    fn makes_rows(&self, row_bytes: u64) -> bool {
        /// Fewer may be chance.
        const MIN: usize = 3;
        let rows = self.lifetimes.rows.iter().enumerate().skip(self.lifetimes.before_recording);
        let made = rows.filter(|&(row, lifetime)| {
            let size = lifetime.requested_bytes;
            size > 0 && size.is_multiple_of(row_bytes) && (self.told)(row) == Origin::Module
        });
        made.take(MIN).count() == MIN
    }
}

/// Which blocks are parameters, by index, where the optimizer has made its state right behind them: of each size the oldest, as the
/// addresses tell.
fn oldest(held: &[Held], regions: &[Region], wanted: &FxHashMap<u64, usize>) -> FxHashMap<usize, bool> {
    let mut left = wanted.clone();
    let of = before::by_age(held, regions, ages).filter_map(|block| {
        let count = left.get_mut(&block.size_bytes)?;
        let is_parameter = *count > 0;
        *count -= usize::from(is_parameter);
        let index = held.binary_search_by_key(&block.address, |block| block.address).ok()?;
        Some((index, is_parameter))
    });
    of.collect()
}

/// What blocks are that were made in turns, by index: of each size so many parameters, then so many gradients that stay, then state. Of two
/// orders of the segments the one counts in which they take turns less often.
fn roles_by_age(
    held: &[Held],
    regions: &[Region],
    parameters: &FxHashMap<u64, usize>,
    gradients: &FxHashMap<u64, usize>,
) -> FxHashMap<usize, Role> {
    let by_chunks = |regions: &[Region]| ages_by_chunks(regions).unwrap_or_else(|| ages(regions));
    let found = [false, true].map(|is_by_chunks| {
        let order = if is_by_chunks { by_chunks } else { ages };
        let (mut parameters, mut gradients) = (parameters.clone(), gradients.clone());
        let role = |block: &Held| {
            let of = parameters.get_mut(&block.size_bytes)?;
            let left = [(of, Role::Parameter), (gradients.entry(block.size_bytes).or_default(), Role::Gradient)];
            let next = left.into_iter().find(|(count, _)| **count > 0);
            let role = next.map_or(Role::State, |(count, role)| {
                *count -= 1;
                role
            });
            let index = held.binary_search_by_key(&block.address, |block| block.address).ok()?;
            Some((index, role))
        };
        let roles: Vec<(usize, Role)> = before::by_age(held, regions, order).filter_map(role).collect();
        let turns = roles.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
        (turns, roles)
    });
    let found = found.into_iter().min_by_key(|(turns, _)| *turns);
    found.map_or_else(FxHashMap::default, |(_, roles)| roles.into_iter().collect())
}

/// Sizes of a half or a quarter of those of nearly all trained parameters, of each as many blocks or a multiple: an optimizer that is not
/// PyTorch's may keep its state in fewer bits, and a copy of the weights would look alike.
fn shrunk(there: &FxHashMap<u64, usize>, gradients: impl Fn(u64) -> usize) -> FxHashSet<u64> {
    /// State in fewer bits is kept in groups of numbers, of which the last is not full.
    const GROUP_BYTES: u64 = 4096;
    /// Of the bytes of trained parameters.
    const MIN_PERCENT: u64 = 90;
    let trained = there.keys().map(|&size| (size, gradients(size)));
    let large: Vec<(u64, usize)> = trained.filter(|row| row.0 > LARGE && row.1 > 0).collect();
    let sum = |rows: &[(u64, usize)]| {
        rows.iter().map(|&(size, count)| size.saturating_mul(count as u64)).fold(0, u64::saturating_add)
    };
    let untrained: BTreeMap<u64, usize> =
        there.iter().filter(|row| gradients(*row.0) == 0).map(|(&size, &count)| (size, count)).collect();
    let of = [2, 4].map(|part| {
        let partner = |&(size, count): &(u64, usize)| {
            let mut alike = untrained.range(size / part..size / part + GROUP_BYTES);
            alike.find(|(_, blocks)| blocks.is_multiple_of(count)).map(|row| *row.0)
        };
        let paired: Vec<(u64, usize)> = large.iter().copied().filter(|row| partner(row).is_some()).collect();
        let blocks: usize = paired.iter().map(|row| row.1).sum();
        let is_whole = blocks >= MIN_FROZEN && sum(&paired) >= sum(&large) / 100 * MIN_PERCENT;
        if is_whole { large.iter().filter_map(partner).collect() } else { FxHashSet::default() }
    });
    of.into_iter().flatten().collect()
}

/// Whether the last of so many models, the parameters and their copies, lies behind the others, by how much of all their bytes does.
fn are_copied(models: usize, begun_percent: usize) -> bool {
    begun_percent * models >= 100 * (models - 1) + MIN_COPIED_PERCENT
}

/// Blocks that the optimizer keeps for a parameter, by how many blocks there are of the sizes of gradients: of most bytes.
fn states_by_count(there: &FxHashMap<u64, usize>, gradients: impl Fn(u64) -> usize) -> usize {
    let mut bytes = [0_u64; MAX_STATES + 1];
    for (&size, &count) in there {
        if let Some(blocks) = count.checked_div(gradients(size)) {
            let states = blocks.saturating_sub(1).min(MAX_STATES);
            bytes[states] = bytes[states].saturating_add(size.saturating_mul(count as u64));
        }
    }
    (0..=MAX_STATES).max_by_key(|&states| (bytes[states], std::cmp::Reverse(states))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn state_in_one_byte_is_a_quarter_of_each_parameter() {
        let there: FxHashMap<u64, usize> =
            [(8 * MIB, 12), (2 * MIB + 256, 6), (4 * MIB, 4), (MIB, 2), (3 * MIB, 5)].into_iter().collect();
        let gradients = |size: u64| match size / MIB {
            8 => 6,
            4 => 2,
            _ => 0,
        };
        assert_eq!(shrunk(&there, gradients), [2 * MIB + 256, MIB].into_iter().collect());
        let mut fewer = there.clone();
        fewer.remove(&(2 * MIB + 256));
        assert!(shrunk(&fewer, gradients).is_empty(), "of most parameters there is none");
    }
}
