//! The first steps of the process, rehearsed.
//!
//! PyTorch's allocator is deterministic, and every iteration requests the same. So the blocks that were there before the recording
//! lie where a rehearsal puts them: an empty allocator gets the parameters in the order of the modules, then the recorded requests, and
//! in the first step of each optimizer its state. If the blocks of a segment end up where they lie at the dump, each has the category
//! for which the rehearsal allocated it.
//!
//! The driver's addresses decide between free blocks of one size, so the segments are those of the recording, the oldest first.

use std::cmp::Reverse;
use std::collections::VecDeque;

use highwater_allocator::sizes::SMALL_MAX_BYTES;
use highwater_allocator::{AddressPolicy, Allocator, BlockId, ScriptedRange, Settings, VirtualDevice};
use rustc_hash::{FxHashMap, FxHashSet};

use super::ages::{ages, ages_by_chunks};
use super::before::{Held, Region};

/// What a block was allocated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Role {
    Parameter,
    State,
    /// That stays from step to step.
    Gradient,
}

/// An entry of the recording that allocates or frees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) entry: u32,
    /// The lifetime's row.
    pub(super) row: usize,
    pub(super) size_bytes: u64,
    pub(super) stream: u64,
    pub(super) is_free: bool,
}

/// The first step of an optimizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) start: u32,
    /// Where it first frees something.
    pub(super) first_free: u32,
    /// Its parameters: their sizes, each with the entry of the first intermediate that is made for it. Empty where none shows.
    pub(super) parameters: Vec<(u64, u32)>,
}

/// When an optimizer makes its state in its first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// In its constructor, when the parameters are there.
    Before,
    /// At once.
    First,
    /// After the intermediates, as SGD makes its momentum.
    Last,
    /// With each parameter, before its intermediates.
    Each,
}

/// The recorded requests, and the additional ones of the first iteration.
#[derive(Clone, Debug, Default)]
pub(super) struct Play {
    /// In order.
    pub(super) events: Vec<Event>,
    /// In order.
    pub(super) steps: Vec<Step>,
    /// Rows that stay as gradients the first time.
    pub(super) gradients: FxHashSet<usize>,
    /// Blocks that an optimizer keeps for a parameter, by size; of every size of a parameter.
    pub(super) states: FxHashMap<u64, usize>,
}

/// An order in which parameters were allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// As the optimizer has them.
    pub(super) parameters: Vec<u64>,
    /// All that was allocated, frozen blocks too.
    pub(super) moved: Vec<u64>,
}

/// The blocks of one segment: its bytes, and the offset and bytes of each block.
type Lain = (u64, Vec<(u64, u64)>);

/// How much of the bytes of a pool has to lie as in the rehearsal.
const MIN_PERCENT: u64 = 70;

/// A rehearsal that explains less than the best by at most this share of a pool's bytes explains as well: where the two disagree about a
/// block, nothing is told.
const CLOSE_PERCENT: u64 = 12;

/// How much of the parameters' bytes has to lie one after the other, so that single segments tell.
const MIN_BEGUN_PERCENT: usize = 90;

/// Of the best rehearsal.
#[derive(Clone, Debug, Default)]
pub(super) struct Rehearsed {
    /// Bytes that lie so.
    pub(super) bytes: u64,
    /// How much of the parameters' bytes lies where an empty allocator puts them, one after the other.
    pub(super) begun_percent: usize,
    /// Of the blocks that do, by their index in `held`, which ascends by address.
    pub(super) roles: FxHashMap<usize, Role>,
    /// Where nearly all parameters lie one after the other: those with which segments begin, as many as there should be, by index.
    pub(super) begun: Vec<usize>,
}

/// What the best rehearsal tells.
pub(super) fn rehearse(
    play: &Play,
    orders: &[Order],
    settings: &Settings,
    regions: &[Region],
    held: &[Held],
) -> Rehearsed {
    /// Orders that are rehearsed to their end.
    const MOST: usize = 4;
    /// Entries of all rehearsals.
    const MAX_EVENTS: usize = 400_000;
    let stage = Stage::new(settings, regions, held, |size| play.states.contains_key(&size));
    if stage.is_expandable || stage.bytes == [0, 0] {
        return Rehearsed::default();
    }
    let longest = orders.iter().map(|order| order.moved.len()).max().unwrap_or(0);
    let tried = MAX_EVENTS / longest.max(1);
    let mut ranked: Vec<(u64, &Order)> =
        orders.iter().take(tried).map(|order| (stage.begun(&order.moved).0, order)).collect();
    ranked.sort_by_key(|row| Reverse(row.0));
    let moments = [Moment::First, Moment::Last, Moment::Each, Moment::Before];
    let ranked_orders: Vec<&Order> = ranked.iter().take(MOST).map(|(_, order)| *order).collect();
    let mut left = MAX_EVENTS / play.events.len().max(1);
    let mut best: [(u64, FxHashMap<usize, Role>); 2] = Default::default();
    // By pool, the other rehearsals: the bytes that lie so, and their roles.
    let mut others: [Vec<(u64, FxHashMap<usize, Role>)>; 2] = Default::default();
    let is_like = |(pool, best): (usize, &(u64, _))| best.0 > stage.bytes[pool] / 100 * MIN_PERCENT;
    for number in 0..=stage.scripts.len() {
        // Where no order by age is like it, the contents may tell.
        let by_contents: Vec<Vec<ScriptedRange>> = match stage.scripts.get(number) {
            Some(_) => Vec::new(),
            None => ranked_orders.iter().filter_map(|order| stage.script_by_contents(&order.moved)).collect(),
        };
        let by_age = stage.scripts.get(number).map(|script| ranked_orders.iter().map(move |order| (*order, script)));
        let by_contents = ranked_orders.iter().copied().zip(&by_contents);
        let runs = by_age.into_iter().flatten().chain(by_contents);
        for ((order, script), moment) in runs.flat_map(|run| moments.map(|moment| (run, moment))) {
            if left == 0 {
                break;
            }
            left -= 1;
            let acted = stage.act(order, script, Some((play, moment)));
            for (is_large, best) in best.iter_mut().enumerate() {
                let mut found = stage.compare(&acted, is_large == 1);
                if found.0 > best.0 {
                    std::mem::swap(best, &mut found);
                }
                others[is_large].push(found);
            }
            if best[1].0 == stage.bytes[1] {
                break;
            }
        }
        if is_like((1, &best[1])) {
            break;
        }
    }
    for (pool, (bytes, roles)) in best.iter_mut().enumerate() {
        let close = bytes.saturating_sub(stage.bytes[pool] / 100 * CLOSE_PERCENT);
        for (_, other) in others[pool].iter().filter(|other| other.0 >= close && other.0 < *bytes) {
            roles.retain(|index, role| other.get(index).is_none_or(|other| other == role));
        }
    }
    let moved_bytes = |order: &Order| {
        let compared = order.moved.iter().filter(|size| stage.sizes.contains(size));
        compared.fold(0_u64, |sum, &size| sum.saturating_add(size))
    };
    let begun = ranked.first().and_then(|(begun, order)| begun.saturating_mul(100).checked_div(moved_bytes(order)));
    let begun_percent = begun.map_or(0, |percent| usize::try_from(percent).unwrap_or(usize::MAX));
    let begun = ranked.first().filter(|_| begun_percent >= MIN_BEGUN_PERCENT);
    let begun = begun.map_or_else(Vec::new, |(_, order)| stage.begun(&order.moved).1);
    let mut rehearsed = Rehearsed { begun_percent, begun, ..Rehearsed::default() };
    let found = [0, 1].map(|pool| is_like((pool, &best[pool])));
    for (_, (bytes, roles)) in found.into_iter().zip(best).filter(|row| row.0) {
        rehearsed.bytes = rehearsed.bytes.saturating_add(bytes);
        rehearsed.roles.extend(roles);
    }
    rehearsed
}

/// A block of a rehearsal.
#[derive(Clone, Copy, Debug)]
struct Acted {
    address: u64,
    size_bytes: u64,
    role: Role,
}

/// The recording's segments, and how blocks lie in them.
struct Stage<'a> {
    settings: &'a Settings,
    /// In the orders in which the driver may have given them.
    scripts: Vec<Vec<ScriptedRange>>,
    /// By address: of each segment its bytes.
    segments: Vec<(u64, u64)>,
    /// By layout, the indices of the blocks of each segment that has it.
    lain: FxHashMap<Lain, Vec<Vec<usize>>>,
    /// The layouts by the bytes of the segment and of its first block, each with how many have it.
    by_begin: FxHashMap<(u64, u64), Vec<(Lain, usize)>>,
    /// The sizes of the blocks that are compared: a frozen model's take their places, and no more.
    sizes: FxHashSet<u64>,
    /// Of the small pool, and of the large one.
    bytes: [u64; 2],
    is_expandable: bool,
    /// Of the blocks.
    addresses: Vec<u64>,
}

impl<'a> Stage<'a> {
    fn new(settings: &'a Settings, regions: &[Region], held: &[Held], is_of: impl Fn(u64) -> bool) -> Self {
        let script = |ages: Vec<usize>| {
            let mut by_age: Vec<(usize, &Region)> = ages.into_iter().zip(regions).collect();
            by_age.sort_unstable_by_key(|row| row.0);
            let range =
                |(_, region): (usize, &Region)| ScriptedRange { bytes: region.total_bytes, address: region.address };
            by_age.into_iter().map(range).collect::<Vec<_>>()
        };
        let mut scripts = vec![script(ages(regions))];
        scripts.extend(ages_by_chunks(regions).map(script).filter(|other| *other != scripts[0]));
        let segments: Vec<(u64, u64)> = regions.iter().map(|region| (region.address, region.total_bytes)).collect();
        let mut bytes = [0_u64; 2];
        let mut of_segment: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
        let sizes: FxHashSet<u64> = held.iter().map(|block| block.size_bytes).filter(|&size| is_of(size)).collect();
        for (index, block) in held.iter().enumerate().filter(|(_, block)| sizes.contains(&block.size_bytes)) {
            let Some((start, _)) = segment_of(&segments, block.address) else { continue };
            of_segment.entry(start).or_default().push(index);
            let of_pool = &mut bytes[usize::from(block.size_bytes > SMALL_MAX_BYTES)];
            *of_pool = of_pool.saturating_add(block.size_bytes);
        }
        let mut lain: FxHashMap<Lain, Vec<Vec<usize>>> = FxHashMap::default();
        for blocks in of_segment.into_values() {
            let of = |&index: &usize| (held[index].address, held[index].size_bytes);
            lain.entry(layout(&segments, blocks.iter().map(of))).or_default().push(blocks);
        }
        let mut by_begin: FxHashMap<(u64, u64), Vec<(Lain, usize)>> = FxHashMap::default();
        for (lain, alike) in &lain {
            by_begin.entry((lain.0, lain.1[0].1)).or_default().push((lain.clone(), alike.len()));
        }
        Self {
            by_begin,
            settings,
            scripts,
            segments,
            lain,
            sizes,
            bytes,
            addresses: held.iter().map(|block| block.address).collect(),
            is_expandable: settings.expandable_segments || regions.iter().any(|region| region.is_expandable),
        }
    }

    /// What is there when the parameters have been allocated and, with a play, when it is over.
    fn act(&self, order: &Order, script: &[ScriptedRange], play: Option<(&Play, Moment)>) -> Vec<Acted> {
        let policy = AddressPolicy::Script(script.to_vec());
        let mut allocator = Allocator::new(VirtualDevice::new(1 << 60, 0, policy), self.settings.clone(), ());
        let mut made: Vec<(BlockId, u64, Role)> = Vec::new();
        let main = play.and_then(|(play, _)| play.events.first()).map_or(0, |event| event.stream);
        let mut allocate = |size| Some((allocator.malloc(size, main).ok()??, size, Role::Parameter));
        made.extend(order.moved.iter().filter_map(|&size| allocate(size)));
        if let Some((play, moment)) = play {
            let mut states = play.made(order, moment).into_iter().peekable();
            let mut there: FxHashMap<usize, BlockId> = FxHashMap::default();
            for event in &play.events {
                while let Some((_, size)) = states.next_if(|&(entry, _)| entry <= event.entry) {
                    made.extend(allocator.malloc(size, main).ok().flatten().map(|block| (block, size, Role::State)));
                }
                if !event.is_free {
                    let Ok(Some(block)) = allocator.malloc(event.size_bytes, event.stream) else { continue };
                    if play.gradients.contains(&event.row) {
                        made.push((block, event.size_bytes, Role::Gradient));
                    } else {
                        there.insert(event.row, block);
                    }
                } else if let Some(block) = there.remove(&event.row) {
                    allocator.free(block);
                }
            }
            for (_, size) in states {
                made.extend(allocator.malloc(size, main).ok().flatten().map(|block| (block, size, Role::State)));
            }
        }
        let acted = made.into_iter().map(|(block, size_bytes, role)| Acted {
            address: allocator.address(block),
            size_bytes,
            role,
        });
        acted.collect()
    }

    /// The oldest first, but for those whose contents tell better: the driver also gives addresses that the host has left in the meantime, such
    /// as those of parameters that were moved to the device. The n-th segment of its bytes that the parameters fill is the oldest that
    /// begins with these blocks.
    /// `None` where segments are too many to compare.
    fn script_by_contents(&self, moved: &[u64]) -> Option<Vec<ScriptedRange>> {
        const MOST: usize = 4096;
        if self.segments.len() > MOST {
            return None;
        }
        let acted = self.act(&Order { parameters: Vec::new(), moved: moved.to_vec() }, &self.scripts[0], None);
        let mut filled: FxHashMap<u64, Vec<(u64, u64)>> = FxHashMap::default();
        for block in acted.iter().filter(|block| self.sizes.contains(&block.size_bytes)) {
            if let Some((start, _)) = segment_of(&self.segments, block.address) {
                filled.entry(start).or_default().push((block.address - start, block.size_bytes));
            }
        }
        let mut recorded: FxHashMap<u64, &Lain> = FxHashMap::default();
        for (lain, alike) in &self.lain {
            let starts = alike.iter().filter_map(|blocks| segment_of(&self.segments, self.addresses[blocks[0]]));
            recorded.extend(starts.map(|(start, _)| (start, lain)));
        }
        // By bytes, those that are left, the oldest first.
        let mut left: FxHashMap<u64, VecDeque<u64>> = FxHashMap::default();
        for range in &self.scripts[0] {
            left.entry(range.bytes).or_default().push_back(range.address);
        }
        let mut script = Vec::with_capacity(self.scripts[0].len());
        for range in &self.scripts[0] {
            let Some(left) = left.get_mut(&range.bytes) else { continue };
            let blocks = filled.get_mut(&range.address).map(|blocks| {
                blocks.sort_unstable();
                blocks.as_slice()
            });
            let is_like = |address: &u64| {
                let blocks = blocks.unwrap_or_default();
                blocks.is_empty() || recorded.get(address).is_some_and(|lain| lain.1.starts_with(blocks))
            };
            let address = left.remove(left.iter().position(is_like).unwrap_or(0));
            script.extend(address.map(|address| ScriptedRange { bytes: range.bytes, address }));
        }
        Some(script)
    }

    /// Of the segments that begin with the blocks that they have when the parameters have been allocated: the bytes of these blocks, and
    /// their indices where no more segments begin so.
    fn begun(&self, moved: &[u64]) -> (u64, Vec<usize>) {
        let acted = self.act(&Order { parameters: Vec::new(), moved: moved.to_vec() }, &self.scripts[0], None);
        let (mut begun, mut sure) = (0_u64, Vec::new());
        for ((segment_bytes, blocks), alike) in self.layouts(&acted) {
            let there = self.by_begin.get(&(segment_bytes, blocks[0].1)).map_or(&[][..], Vec::as_slice);
            let there: Vec<&(Lain, usize)> = there.iter().filter(|(lain, _)| lain.1.starts_with(&blocks)).collect();
            let count: usize = there.iter().map(|(_, count)| count).sum();
            let of_one = blocks.iter().map(|block| block.1).fold(0, u64::saturating_add);
            begun = begun.saturating_add(of_one.saturating_mul(count.min(alike.len()) as u64));
            if count <= alike.len() {
                let segments = there.iter().flat_map(|(lain, _)| &self.lain[lain]);
                sure.extend(segments.flat_map(|indices| &indices[..blocks.len()]));
            }
        }
        (begun, sure)
    }

    /// Roles by layout.
    fn layouts(&self, acted: &[Acted]) -> FxHashMap<Lain, Vec<Vec<Role>>> {
        let mut of_segment: FxHashMap<u64, Vec<&Acted>> = FxHashMap::default();
        for block in acted.iter().filter(|block| self.sizes.contains(&block.size_bytes)) {
            if let Some((start, _)) = segment_of(&self.segments, block.address) {
                of_segment.entry(start).or_default().push(block);
            }
        }
        let mut layouts: FxHashMap<Lain, Vec<Vec<Role>>> = FxHashMap::default();
        for mut blocks in of_segment.into_values() {
            blocks.sort_unstable_by_key(|block| block.address);
            let lain = layout(&self.segments, blocks.iter().map(|block| (block.address, block.size_bytes)));
            layouts.entry(lain).or_default().push(blocks.iter().map(|block| block.role).collect());
        }
        layouts
    }

    /// The bytes of one pool that lie as acted, and of these the roles. Of layouts that several roles have, the addresses decide if
    /// those of the others that could lie elsewhere are a third of the bytes, and most lie at theirs.
    fn compare(&self, acted: &[Acted], is_large: bool) -> (u64, FxHashMap<usize, Role>) {
        let at: FxHashMap<u64, (u64, Role)> =
            acted.iter().map(|block| (block.address, (block.size_bytes, block.role))).collect();
        let told = |blocks: &[usize], lain: &Lain| -> Option<Vec<Role>> {
            let of = |(&index, block): (&usize, &(u64, u64))| {
                at.get(&self.addresses[index]).filter(|at| at.0 == block.1).map(|at| at.1)
            };
            blocks.iter().zip(&lain.1).map(of).collect()
        };
        let mut in_doubt: Vec<(usize, Role)> = Vec::new();
        // Of what is not in doubt, the bytes, and those that lie at their address.
        let (mut sure, mut at_address) = (0_u64, 0_u64);
        let (mut bytes, mut roles) = (0_u64, FxHashMap::default());
        for (lain, acted) in self.layouts(acted) {
            if (lain.1[0].1 > SMALL_MAX_BYTES) != is_large {
                continue;
            }
            let Some(recorded) = self.lain.get(&lain) else { continue };
            let of_one: u64 = lain.1.iter().map(|block| block.1).fold(0, u64::saturating_add);
            bytes = bytes.saturating_add(of_one.saturating_mul(recorded.len().min(acted.len()) as u64));
            if recorded.len() <= acted.len() && acted.iter().all(|roles| *roles == acted[0]) {
                // Where all segments of these bytes are alike, the bytes lead there, whatever the order.
                let tells = self.segments.iter().filter(|segment| segment.1 == lain.0).count() > recorded.len();
                for blocks in recorded {
                    sure = sure.saturating_add(if tells { of_one } else { 0 });
                    if tells && told(blocks, &lain).as_ref() == Some(&acted[0]) {
                        at_address = at_address.saturating_add(of_one);
                    }
                    roles.extend(blocks.iter().copied().zip(acted[0].iter().copied()));
                }
            } else {
                for blocks in recorded {
                    if let Some(told) = told(blocks, &lain).filter(|told| acted.contains(told)) {
                        in_doubt.extend(blocks.iter().copied().zip(told));
                    }
                }
            }
        }
        if sure > bytes / 3 && at_address > sure / 100 * MIN_PERCENT {
            roles.extend(in_doubt);
        }
        (bytes, roles)
    }
}

impl Play {
    /// What optimizers make in their first steps, each with the entry before which they do.
    fn made(&self, order: &Order, moment: Moment) -> Vec<(u32, u64)> {
        let mut made: Vec<(u32, u64)> = Vec::new();
        for step in &self.steps {
            let untold: Vec<(u64, u32)>;
            let parameters = if step.parameters.is_empty() {
                untold = order.parameters.iter().map(|&size| (size, step.start)).collect();
                &untold
            } else {
                &step.parameters
            };
            for &(size, entry) in parameters {
                let entry = match moment {
                    Moment::Before => 0,
                    Moment::First => step.start,
                    Moment::Last => step.first_free,
                    Moment::Each => entry,
                };
                let states = self.states.get(&size).copied().unwrap_or(0);
                made.extend(std::iter::repeat_n((entry, size), states));
            }
        }
        made.sort_by_key(|row| row.0);
        made
    }
}

/// The segment that an address lies in: its begin and its bytes.
fn segment_of(segments: &[(u64, u64)], address: u64) -> Option<(u64, u64)> {
    let after = segments.partition_point(|segment| segment.0 <= address);
    segments[..after].last().copied().filter(|&(start, bytes)| address - start < bytes)
}

/// How blocks of one segment lie, which ascend by address.
fn layout(segments: &[(u64, u64)], blocks: impl Iterator<Item = (u64, u64)>) -> Lain {
    let mut total = 0;
    let blocks = blocks.filter_map(|(address, size)| {
        let (start, bytes) = segment_of(segments, address)?;
        total = bytes;
        Some((address - start, size))
    });
    let blocks = blocks.collect();
    (total, blocks)
}

#[cfg(test)]
mod tests {
    use highwater_allocator::TorchVersion;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn region(at: u64, mib: u64) -> Region {
        Region { address: at * MIB, total_bytes: mib * MIB, is_expandable: false }
    }

    fn held(blocks: &[(u64, u64)]) -> Vec<Held> {
        let of =
            |&(at, mib): &(u64, u64)| Held { row: 0, address: at * MIB, size_bytes: mib * MIB, block_bytes: mib * MIB };
        blocks.iter().map(of).collect()
    }

    fn event(entry: u32, row: usize, mib: u64, is_free: bool) -> Event {
        Event { entry, row, size_bytes: mib * MIB, stream: 0, is_free }
    }

    /// Parameters of 3 and 4 MiB in a segment; a gradient of each that stays, among what the pass frees; and two blocks of state for
    /// each.
    fn play() -> Play {
        Play {
            events: vec![
                event(0, 0, 9, false),
                event(1, 1, 4, false),
                event(2, 2, 5, false),
                event(3, 3, 3, false),
                event(4, 1, 4, true),
                event(5, 3, 3, true),
                event(6, 0, 9, true),
                event(7, 2, 5, true),
                event(8, 4, 3, false),
                event(9, 4, 3, true),
            ],
            steps: vec![Step { start: 8, first_free: 9, parameters: vec![(3 * MIB, 8), (4 * MIB, 8)] }],
            gradients: [1, 3].into_iter().collect(),
            states: [(3 * MIB, 2), (4 * MIB, 2)].into_iter().collect(),
        }
    }

    fn rehearsed(held: &[Held], moved: &[u64]) -> Vec<Option<Role>> {
        let sizes: Vec<u64> = moved.iter().map(|mib| mib * MIB).collect();
        let orders = [Order { parameters: sizes.clone(), moved: sizes }];
        let settings = Settings::new(TorchVersion::v2(11));
        let found = rehearse(&play(), &orders, &settings, &[region(0, 20), region(64, 20)], held);
        (0..held.len()).map(|index| found.roles.get(&index).copied()).collect()
    }

    #[test]
    fn blocks_that_lie_as_rehearsed_are_what_they_were_allocated_for() {
        use Role::{Gradient, Parameter, State};
        // The older segment lies higher: parameters, then the hole of an activation with state in it, then a gradient.
        let blocks = [(0, 3), (5, 3), (8, 4), (64, 3), (67, 4), (71, 3), (74, 4), (80, 4)];
        let roles = [State, Gradient, State, Parameter, Parameter, State, State, Gradient];
        let found = rehearsed(&held(&blocks), &[3, 4]);
        let expected = roles.map(Some);
        assert_eq!(found, expected);
    }

    /// Three segments, of which the first and the second have a parameter or state of the same size, by their age alone.
    #[test]
    fn addresses_decide_only_where_others_could_lie_elsewhere() {
        let play = Play {
            events: vec![event(0, 0, 12, false), event(1, 0, 12, true)],
            steps: vec![Step { start: 0, first_free: 1, parameters: vec![(18 * MIB, 0), (30 * MIB, 0)] }],
            states: [(18 * MIB, 1), (30 * MIB, 0)].into_iter().collect(),
            ..Play::default()
        };
        let orders = [Order { parameters: vec![18 * MIB, 30 * MIB], moved: vec![18 * MIB, 30 * MIB] }];
        let settings = Settings::new(TorchVersion::v2(11));
        let regions = [region(0, 18), region(32, 30), region(64, 18)];
        let found = rehearse(&play, &orders, &settings, &regions, &held(&[(0, 18), (32, 30), (64, 18)]));
        assert_eq!(found.roles, [(1, Role::Parameter)].into_iter().collect());
    }

    /// The second segment of the parameters lies where the host has left room meanwhile, above the first.
    #[test]
    fn contents_tell_segments_that_lie_above_older_ones() {
        let regions = [region(0, 20), region(32, 20), region(64, 20)];
        let held = held(&[(32, 9), (41, 8), (64, 7), (71, 6)]);
        let settings = Settings::new(TorchVersion::v2(11));
        let stage = Stage::new(&settings, &regions, &held, |_| true);
        let addresses = |script: &[ScriptedRange]| script.iter().map(|range| range.address / MIB).collect::<Vec<u64>>();
        assert_eq!(addresses(&stage.scripts[0]), [64, 32, 0]);
        let moved = [9, 8, 7, 6].map(|mib| mib * MIB);
        assert_eq!(addresses(&stage.script_by_contents(&moved).unwrap()), [32, 64, 0]);
    }

    #[test]
    fn what_lies_otherwise_is_left_to_other_rules() {
        let blocks = [(0, 3), (3, 4), (8, 4), (12, 3), (64, 3), (67, 3), (71, 4), (75, 4)];
        assert!(rehearsed(&held(&blocks), &[4, 3]).iter().all(Option::is_none));
        assert!(rehearsed(&[], &[3, 4]).is_empty());
    }
}
