//! Memory outside PyTorch's segments, at moments that follow one another: the entries of PyTorch's own history.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::event::{Event, Kind};
use crate::owner::{Owner, Role};
use crate::state::State;
use crate::timeline::Timeline;

/// Memory of a device that the process has beside PyTorch's segments.
///
/// A moment lasts until the next one begins, and shows the instant at which most was in use beside PyTorch: no peak is lost. The first
/// one begins with the recording, the last one ends with it.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Number of moments.
    pub moments: usize,
    /// Whose, the highest first.
    pub owners: Vec<Owner>,
    /// Where the bytes of an owner change, in order of the moments.
    pub steps: Vec<Step>,
    /// Allocations with an address that at least one moment shows, in the order in which they were made.
    pub blocks: Vec<Block>,
}

/// The bytes of an owner from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The first moment with it.
    pub moment: usize,
    /// A row of the owners.
    pub owner: u32,
    /// Bytes of the card; none where more was released than was seen to be allocated.
    pub bytes: u64,
}

/// An allocation.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// The call that made it.
    pub event: Event,
    /// A row of the owners.
    pub owner: u32,
    /// Its first byte.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// The first moment that shows it.
    pub from: usize,
    /// One past the last.
    pub to: usize,
}

impl Timeline<'_> {
    /// The memory of a device beside PyTorch's, at moments that begin at these times, which never fall.
    pub fn beside(&self, device: i32, begins_ns: impl IntoIterator<Item = u64>) -> Beside {
        let mut begins = begins_ns.into_iter().peekable();
        let mut moments = usize::from(begins.next().is_some());
        if moments == 0 {
            return Beside::default();
        }
        let mut bands = Bands::new(self.owners());
        let mut blocks = Blocks::default();
        let mut state = State::default();
        let mut latest = 0;
        for (row, (event, owner)) in self.rows().enumerate() {
            // Threads note their events a little out of order.
            latest = event.time_ns.max(latest);
            let before = moments;
            while begins.next_if(|&begin| begin <= latest).is_some() {
                moments += 1;
            }
            if moments > before {
                bands.go_to(moments - 1);
            }
            state.apply(event, owner, |change| {
                if change.device == device && !change.is_managed {
                    bands.change(change.owner, change.bytes);
                }
            });
            bands.events = row + 1;
            bands.look(event.kind);
            let counts = event.device == device && self.owners()[owner as usize].role == Role::Library;
            blocks.follow(event, counts.then_some(owner), row);
        }
        bands.show();
        let last = moments - 1;
        moments += begins.count();
        if last + 1 < moments {
            bands.show_now(last + 1);
        }
        let Bands { steps, shown, highest, .. } = bands;
        let mut beside = Beside { moments, steps, blocks: blocks.finish(&shown, moments), owners: Vec::new() };
        beside.keep_owners(self.owners(), &highest);
        beside
    }
}

impl Beside {
    /// Leaves out the owners without anything, and puts the highest first.
    fn keep_owners(&mut self, owners: &[Owner], highest: &[u64]) {
        let mut order: Vec<usize> = (0..owners.len()).filter(|&owner| highest[owner] > 0).collect();
        order.sort_by(|&a, &b| (highest[b], &owners[a]).cmp(&(highest[a], &owners[b])));
        let mut rows = vec![None; owners.len()];
        for (row, &owner) in order.iter().enumerate() {
            rows[owner] = u32::try_from(row).ok();
            self.owners.push(owners[owner].clone());
        }
        self.steps.retain_mut(|step| rows[step.owner as usize].map(|row| step.owner = row).is_some());
        self.blocks.retain_mut(|block| rows[block.owner as usize].map(|row| block.owner = row).is_some());
    }

    /// Calls `each` with the moments from which on other sums of the owners hold, in order.
    pub fn sums(&self, mut each: impl FnMut(usize, &[u64])) {
        let mut sums = vec![0; self.owners.len()];
        for of_moment in self.by_moment() {
            take(&mut sums, of_moment);
            each(of_moment[0].moment, &sums);
        }
    }

    /// The sums of the owners in each of some stretches of moments, which follow one another: where most is in use.
    pub fn highest_in(&self, stretches: impl IntoIterator<Item = Range<usize>>) -> Vec<Vec<u64>> {
        let mut steps = self.by_moment().peekable();
        let mut sums = vec![0; self.owners.len()];
        let highest = stretches.into_iter().map(|stretch| {
            while let Some(of_moment) = steps.next_if(|steps| steps[0].moment <= stretch.start) {
                take(&mut sums, of_moment);
            }
            let mut highest = (total(&sums), sums.clone());
            while let Some(of_moment) = steps.next_if(|steps| steps[0].moment < stretch.end) {
                take(&mut sums, of_moment);
                if total(&sums) > highest.0 {
                    highest = (total(&sums), sums.clone());
                }
            }
            highest.1
        });
        highest.collect()
    }

    fn by_moment(&self) -> impl Iterator<Item = &[Step]> {
        self.steps.chunk_by(|a, b| a.moment == b.moment)
    }
}

fn take(sums: &mut [u64], steps: &[Step]) {
    for step in steps {
        sums[step.owner as usize] = step.bytes;
    }
}

/// The sum over all owners.
fn total(sums: &[u64]) -> u64 {
    sums.iter().fold(0, |total, &bytes| total.saturating_add(bytes))
}

/// Follows sums by owner, and chooses the instant that each moment shows.
struct Bands<'o> {
    owners: &'o [Owner],
    /// Calls so far.
    events: usize,
    now: Vec<i64>,
    sum: i64,
    moment: usize,
    /// Of the moment, the instant with the highest sum so far.
    best: Instant,
    /// Whether nothing was released since.
    is_held: bool,
    /// What was shown last.
    last: Vec<u64>,
    highest: Vec<u64>,
    steps: Vec<Step>,
    /// The calls until the instants that moments show; a moment that is absent shows that of the one before.
    shown: Vec<(usize, usize)>,
}

#[derive(Clone, Debug)]
struct Instant {
    events: usize,
    sum: i64,
    of: Vec<i64>,
}

impl<'o> Bands<'o> {
    fn new(owners: &'o [Owner]) -> Self {
        let none = vec![0; owners.len()];
        Self {
            owners,
            events: 0,
            now: none.clone(),
            sum: 0,
            moment: 0,
            best: Instant { events: 0, sum: 0, of: none },
            is_held: true,
            last: vec![0; owners.len()],
            highest: vec![0; owners.len()],
            steps: Vec::new(),
            shown: Vec::new(),
        }
    }

    fn change(&mut self, owner: u32, bytes: i64) {
        let role = self.owners[owner as usize].role;
        if role.counts() && role != Role::Pytorch {
            let of = &mut self.now[owner as usize];
            *of = of.saturating_add(bytes);
            self.sum = self.sum.saturating_add(bytes);
        }
    }

    /// Compares the present instant, after an event, with the best one.
    fn look(&mut self, event: Kind) {
        let releases = matches!(
            event,
            Kind::Free | Kind::StreamOrderedFree | Kind::Unmap | Kind::Release | Kind::ArrayDestroy | Kind::PoolDestroy
        );
        self.is_held &= !releases && self.sum >= self.best.sum;
        // Small allocations in pages that are there already, and mappings, are part of the best one until something is released.
        if self.sum > self.best.sum || self.is_held {
            self.take();
        }
    }

    fn take(&mut self) {
        self.is_held = true;
        self.best.events = self.events;
        self.best.sum = self.sum;
        self.best.of.copy_from_slice(&self.now);
    }

    fn go_to(&mut self, moment: usize) {
        self.show();
        if moment > self.moment + 1 {
            self.show_now(self.moment + 1);
        }
        self.moment = moment;
        self.take();
    }

    /// Shows the present instant from a moment on.
    fn show_now(&mut self, moment: usize) {
        self.moment = moment;
        self.take();
        self.show();
    }

    fn show(&mut self) {
        self.shown.push((self.moment, self.best.events));
        for (owner, &bytes) in self.best.of.iter().enumerate() {
            let bytes = u64::try_from(bytes).unwrap_or(0);
            if bytes != self.last[owner] {
                self.last[owner] = bytes;
                self.highest[owner] = self.highest[owner].max(bytes);
                let owner = u32::try_from(owner).expect("fewer owners than stacks");
                self.steps.push(Step { moment: self.moment, owner, bytes });
            }
        }
    }
}

/// Spaces of addresses: the same number may stand in two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Space {
    /// `cuMemAlloc`, and what is stream-ordered: `cuMemFree` takes both.
    Memory,
    /// Where handles are mapped.
    Mapping,
}

/// Follows allocations that have an address.
#[derive(Clone, Debug, Default)]
struct Blocks {
    /// With the calls after which it is there, and after which it is gone.
    all: Vec<(Block, usize, usize)>,
    open: FxHashMap<(Space, u64), usize>,
    /// Handles of `cuMemCreate`: which call made them, and for whom.
    handles: FxHashMap<u64, (Event, u32)>,
}

impl Blocks {
    /// Follows an event; `owner` if it makes memory of another library on the device.
    fn follow(&mut self, event: &Event, owner: Option<u32>, row: usize) {
        match (event.kind, owner) {
            (Kind::Device | Kind::StreamOrdered, Some(owner)) => {
                self.close(Space::Memory, event.address, row);
                self.begin(Space::Memory, event, event, owner, row);
            }
            (Kind::Free | Kind::StreamOrderedFree, _) => self.close(Space::Memory, event.address, row),
            (Kind::Create, Some(owner)) => drop(self.handles.insert(event.address, (*event, owner))),
            (Kind::Create, None) => drop(self.handles.remove(&event.address)),
            (Kind::Map, _) => {
                if let Some((made, owner)) = self.handles.get(&event.extra).copied() {
                    self.begin(Space::Mapping, event, &made, owner, row);
                }
            }
            (Kind::Unmap, _) => {
                // One call may unmap several mappings beside each other.
                let end = event.address.saturating_add(event.bytes.unsigned_abs());
                let mut at = event.address;
                while let Some(&open) = self.open.get(&(Space::Mapping, at)) {
                    let bytes = self.all[open].0.bytes;
                    self.close(Space::Mapping, at, row);
                    at = at.saturating_add(bytes);
                    if bytes == 0 || at >= end {
                        break;
                    }
                }
            }
            _ => {}
        }
    }

    /// Begins a block at the address of `at`, with the size and the caller of `made`.
    fn begin(&mut self, space: Space, at: &Event, made: &Event, owner: u32, row: usize) {
        let bytes = made.bytes.unsigned_abs();
        let block = Block { event: *made, owner, address: at.address, bytes, from: 0, to: 0 };
        self.open.insert((space, at.address), self.all.len());
        self.all.push((block, row + 1, usize::MAX));
    }

    fn close(&mut self, space: Space, address: u64, row: usize) {
        if let Some(open) = self.open.remove(&(space, address)) {
            self.all[open].2 = row + 1;
        }
    }

    /// The blocks that a moment shows; `shown` says after how many calls the instants are that moments show.
    fn finish(self, shown: &[(usize, usize)], moments: usize) -> Vec<Block> {
        let first_after =
            |events: usize| shown.get(shown.partition_point(|&(_, until)| until < events)).map_or(moments, |of| of.0);
        let blocks = self.all.into_iter().map(|(block, from, to)| Block {
            from: first_after(from),
            to: first_after(to),
            ..block
        });
        blocks.filter(|block| block.from < block.to && block.bytes > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::NO_STACK;
    use crate::recording::Recording;

    fn event(kind: Kind, time_ns: u64, address: u64, bytes: i64) -> Event {
        Event { kind, time_ns, device: 0, thread: 1, stack: NO_STACK, python: NO_STACK, address, bytes, extra: 0 }
    }

    const MIB: i64 = 1 << 20;
    const AT: u64 = 1 << 30;

    fn beside(events: Vec<Event>, begins: &[u64]) -> Beside {
        let recording = Recording { events, ..Recording::default() };
        Timeline::new(&recording).beside(0, begins.iter().copied())
    }

    fn shown(beside: &Beside) -> Vec<(usize, u64)> {
        let mut all = Vec::new();
        beside.sums(|moment, sums| all.push((moment, sums.iter().sum::<u64>() >> 20)));
        all
    }

    #[test]
    fn a_moment_shows_its_highest_instant_and_what_came_before_the_first() {
        let made = beside(
            vec![
                event(Kind::Context, 1, 0, 500 * MIB),
                event(Kind::Device, 12, AT, 4 * MIB),
                event(Kind::Free, 13, AT, 0),
                event(Kind::Device, 31, 2 * AT, 6 * MIB),
            ],
            &[10, 20, 30, 40, 50],
        );
        assert_eq!(made.moments, 5);
        assert_eq!(shown(&made), [(0, 504), (1, 500), (2, 506)]);
        assert_eq!(made.owners[0].role, Role::Context, "the highest first");
        let highest: Vec<_> = made.highest_in([0..2, 2..2, 2..5]).iter().map(|sums| total(sums) >> 20).collect();
        assert_eq!(highest, [504, 506, 506]);
        let blocks: Vec<_> = made.blocks.iter().map(|block| (block.address, block.from, block.to)).collect();
        assert_eq!(blocks, [(AT, 0, 1), (2 * AT, 2, 5)]);
    }

    #[test]
    fn memory_that_is_mapped_lies_where_it_is_mapped() {
        let handle = 77;
        let map = Event { extra: handle, ..event(Kind::Map, 3, AT, 2 * MIB) };
        let made = beside(
            vec![
                event(Kind::Create, 2, handle, 2 * MIB),
                map,
                Event { extra: handle, ..event(Kind::Map, 4, AT + (2 << 20), 2 * MIB) },
                event(Kind::Unmap, 11, AT, 4 * MIB),
            ],
            &[0, 10, 20],
        );
        let blocks: Vec<_> = made.blocks.iter().map(|block| (block.address, block.from, block.to)).collect();
        assert_eq!(blocks, [(AT, 0, 2), (AT + (2 << 20), 0, 2)], "moment 1 shows the instant before the call");
        assert_eq!(shown(&made), [(0, 2)], "the handle keeps its memory");
    }

    #[test]
    fn without_moments_there_is_nothing() {
        let made = beside(vec![event(Kind::Context, 1, 0, MIB)], &[]);
        assert!(made.steps.is_empty() && made.blocks.is_empty());
    }
}
