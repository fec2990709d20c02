//! Copies of parameters: those that the model itself makes in a forward pass, as a momentum encoder whose weights are replaced there, and
//! those that the program makes before its loop, as an average of the weights.

use rustc_hash::{FxHashMap, FxHashSet};

use highwater_snapshot::StackId;

use super::{Known, Pairing, alloc};
use crate::category::origin::Origin;

/// A place goes through parameters that makes so many blocks in a turn, in so many sizes, all of parameters.
const MIN_BLOCKS: usize = 8;
const MIN_SIZES: usize = 3;

/// What a place makes in one turn and keeps.
#[derive(Default)]
struct Turn {
    start: u32,
    rows: Vec<usize>,
    sizes: FxHashSet<u64>,
    makes_other: bool,
}

impl Pairing {
    /// What modules make at one place, block by block in the sizes of parameters, and keep beyond the backward pass.
    pub(super) fn find_copies_in_forward<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        let course = known.course;
        let mut turns: FxHashMap<StackId, Turn> = FxHashMap::default();
        for (row, lifetime) in known.lifetimes.rows.iter().enumerate() {
            let (alloc, freed, size) = (alloc(lifetime), course.freed(lifetime), lifetime.requested_bytes);
            let of = known.of_size.get(&size);
            // PyTorch's optimizer has state of its own for what the program copies.
            let is_copied = || {
                alloc < known.first_pass
                    && freed == course.entries
                    && of.is_some_and(|of| of.built > 0 && of.gradients > 0 && of.states > 0)
            };
            let may_be = match (known.told)(row) {
                Origin::Module => true,
                Origin::Program => is_copied(),
                _ => false,
            };
            if lifetime.alloc().is_none() || !may_be {
                continue;
            }
            // The program replaces a copy in a later forward pass; what backward frees was saved for it. What the last call makes has
            // no pass behind it that tells.
            let is_replaced = |end: u32| course.module_after(end).is_some_and(|module| module < freed);
            let is_kept = course.pass_after(alloc).is_none_or(|pass| is_replaced(pass.end));
            if freed < course.entries && !is_kept {
                continue;
            }
            let start = course.turn_before(alloc);
            let turn = turns.entry(known.stacks.place(lifetime.stack)).or_default();
            if turn.start != start {
                self.add_copies(std::mem::replace(turn, Turn { start, ..Turn::default() }));
            }
            turn.makes_other |= of.is_none_or(|of| of.built == 0 && of.gradients == 0);
            turn.rows.push(row);
            turn.sizes.insert(size);
        }
        for turn in turns.into_values() {
            self.add_copies(turn);
        }
    }

    fn add_copies(&mut self, turn: Turn) {
        if !turn.makes_other && turn.rows.len() >= MIN_BLOCKS && turn.sizes.len() >= MIN_SIZES {
            self.parameters.extend(turn.rows);
        }
    }
}
