//! What calls of the model before the recording have left behind, as calls in it do: graphs that the program keeps.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Known, MIN_LEFT, Pairing, alloc};
use crate::category::before::Held;
use crate::category::origin::Origin;

/// Sizes that show it: fewer may be chance.
const MIN_SIZES: usize = 3;

impl Pairing {
    /// Where modules leave blocks of several sizes in each iteration, and the same multiple of each was there before, those are of as many
    /// earlier iterations. Parameters and what pairs with them are none.
    pub(super) fn find_left_before<T: Fn(usize) -> Origin>(
        &mut self,
        known: &Known<'_, T>,
        held: &[Held],
        is_paired: impl Fn(u64) -> bool,
    ) {
        let course = known.course;
        // By size and turn, what modules leave, and what all lines do.
        let mut left: FxHashMap<(u64, u32), (usize, usize)> = FxHashMap::default();
        let first = known.lifetimes.before_recording;
        for (row, lifetime) in known.lifetimes.rows.iter().enumerate().skip(first) {
            let is_module = match (known.told)(row) {
                Origin::Module | Origin::Compiled => true,
                Origin::Program => false,
                _ => continue,
            };
            if lifetime.requested_bytes >= MIN_LEFT && course.freed(lifetime) == course.entries {
                let turn = course.turn_before(alloc(lifetime));
                let (of_modules, all) = left.entry((lifetime.requested_bytes, turn)).or_default();
                (*of_modules, *all) = (*of_modules + usize::from(is_module), *all + 1);
            }
        }
        left.retain(|_, (of_modules, _)| *of_modules > 0);
        let turns: FxHashSet<u32> = left.keys().map(|&(_, turn)| turn).collect();
        // Of an iteration that is cut short a part is missing. What the last one alone leaves is not left: the next one would free it.
        let mut each: FxHashMap<u64, (usize, usize)> = FxHashMap::default();
        for ((size, _), (_, count)) in left {
            let (most, in_turns) = each.entry(size).or_default();
            (*most, *in_turns) = (count.max(*most), *in_turns + 1);
        }
        each.retain(|&size, (_, in_turns)| !is_paired(size) && (*in_turns > 1 || turns.len() == 1));
        let each: FxHashMap<u64, usize> = each.into_iter().map(|(size, (most, _))| (size, most)).collect();
        let mut there: FxHashMap<u64, usize> = FxHashMap::default();
        for block in held.iter().filter(|block| each.contains_key(&block.size_bytes)) {
            *there.entry(block.size_bytes).or_default() += 1;
        }
        // How many iterations each size shows, with its bytes.
        let mut shown: FxHashMap<usize, (usize, u64)> = FxHashMap::default();
        let times =
            |size: u64| there.get(&size).filter(|&count| count % each[&size] == 0).map(|count| count / each[&size]);
        for &size in each.keys() {
            if let Some(times) = times(size) {
                let (sizes, bytes) = shown.entry(times).or_default();
                *sizes += 1;
                *bytes = bytes.saturating_add(size.saturating_mul(there[&size] as u64));
            }
        }
        let all = there.iter().map(|(size, &count)| size.saturating_mul(count as u64)).fold(0, u64::saturating_add);
        let most = shown.into_iter().max_by_key(|&(times, (_, bytes))| (bytes, times));
        let Some((common, _)) = most.filter(|&(_, (sizes, bytes))| sizes >= MIN_SIZES && bytes > all / 2) else {
            return;
        };
        let is_left = |block: &&Held| each.contains_key(&block.size_bytes) && times(block.size_bytes) == Some(common);
        self.left_before.extend(held.iter().filter(is_left).map(|block| block.row));
    }
}
