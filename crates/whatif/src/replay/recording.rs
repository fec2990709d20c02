//! A recording, replayed: what the program did becomes requests, what the allocator did is predicted and compared.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use highwater_allocator::sizes::MIN_BLOCK_BYTES;
use highwater_allocator::{Allocator, BlockId, Failure, PoolFlags, Settings, Statistics, TraceEntry};
use highwater_analysis::Reconstruction;
use highwater_analysis::lifetime::number;
use highwater_snapshot::{Action, EntryId, PoolId, Snapshot};

use super::layout::{Layout, layouts};
use super::pools::Pools;
use super::program::{Program, Step};
use super::tape::{Columns, Comparison, Cursor, Tape, is_compared};
use crate::progress::{LOOK_STEPS, Watch};

/// How a replay compares with its recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fidelity {
    /// Entries that were compared: all but `snapshot`, `annotate` and unknown ones.
    pub entries: u64,
    /// Of these, how many the allocator made just so, before the first that it did not.
    pub equal: u64,
    /// The first that it did not.
    pub first_difference: Option<Difference>,
}

impl Fidelity {
    /// Whether nothing differs.
    pub fn is_exact(&self) -> bool {
        self.first_difference.is_none()
    }
}

/// The point where a replay diverges from its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The recorded entry; the number of entries if the recording ends here.
    pub entry: EntryId,
    /// What the allocator did instead; `None` if it could not go on.
    pub predicted: Option<TraceEntry>,
    /// Why, as far as can be said.
    pub note: String,
}

/// A recording, replayed.
#[derive(Clone, Debug)]
pub struct Replay {
    /// What the program asked for.
    pub program: Program,
    /// How well the prediction held.
    pub fidelity: Fidelity,
    /// The statistics at the end, if the prediction held to the end.
    pub statistics: Option<Statistics>,
    /// The limit on reserved bytes that explains when the garbage collector ran, if one had to be found.
    pub inferred_limit_bytes: Option<u64>,
}

/// Replays a device's recording under these settings.
pub fn replay(snapshot: &Snapshot, device: &Reconstruction<'_>, settings: &Settings) -> Replay {
    watched_replay(snapshot, device, settings, &Watch::default())
}

/// The same; it holds less than the recording if the watch is stopped meanwhile.
pub(super) fn watched_replay(
    snapshot: &Snapshot,
    device: &Reconstruction<'_>,
    settings: &Settings,
    watch: &Watch,
) -> Replay {
    let plan = Plan::new(snapshot, device, settings, watch);
    let first = best_layout(&plan, settings, None);
    if settings.garbage_collection_threshold > 0.0 && !first.fidelity.is_exact() {
        return with_limit(&plan, settings, first);
    }
    first
}

/// A replay from each layout that is possible before the first entry; the one that holds longest.
fn best_layout(plan: &Plan<'_>, settings: &Settings, limit: Option<u64>) -> Replay {
    let mut best: Option<Replay> = None;
    for layout in 0..plan.layouts.len().max(1) {
        let replay = Replayer::new(plan, settings, limit).run(plan.layouts.get(layout));
        let is_better = best.as_ref().is_none_or(|best| replay.fidelity.equal > best.fidelity.equal);
        if is_better {
            best = Some(replay);
        }
    }
    best.expect("there is at least one replay")
}

/// The garbage collector runs by a limit that a snapshot does not record: finds one under which it ran as recorded.
///
/// The comparison parts where the collector ran too early (the limit is too low) or not when it should have (too
/// high), so a search by halves finds one if there is one.
fn with_limit(plan: &Plan<'_>, settings: &Settings, without: Replay) -> Replay {
    // No limit above this lets the collector run: the threshold is a part of it.
    const LOWEST_THRESHOLD: u64 = 100;
    let (mut low, mut high) = (0, LOWEST_THRESHOLD * plan.peak_reserved_bytes.max(1 << 30));
    let mut best = without;
    while high - low > 1 && !plan.watch.is_stopped() {
        let limit = low + (high - low) / 2;
        let mut replay = best_layout(plan, settings, Some(limit));
        replay.inferred_limit_bytes = Some(limit);
        let difference = replay.fidelity.first_difference.clone();
        if replay.fidelity.equal > best.fidelity.equal || difference.is_none() {
            best = replay;
        }
        match difference {
            None => break,
            Some(difference) => {
                let row = difference.entry.index();
                let released = plan.columns.actions.get(row).is_some_and(|&action| is_release(action));
                if released { high = limit } else { low = limit }
            }
        }
    }
    best
}

fn is_release(action: Action) -> bool {
    matches!(action, Action::SEGMENT_FREE | Action::SEGMENT_UNMAP)
}

fn is_reservation(action: Action) -> bool {
    matches!(action, Action::SEGMENT_ALLOC | Action::SEGMENT_MAP)
}

/// A slot that no entry names.
const NO_SLOT: u32 = u32::MAX;

/// What is known of a recording before it is replayed.
struct Plan<'a> {
    columns: Columns<'a>,
    /// The slot whose block an `alloc`, `free_requested` or `free_completed` entry is about.
    slots: Vec<u32>,
    pools: Pools<'a>,
    /// How many private pools there are: they are numbered from 1.
    private_pools: u16,
    device: &'a Reconstruction<'a>,
    handles: &'a [u64],
    peak_reserved_bytes: u64,
    /// What may have been there before the first entry.
    layouts: Vec<Layout>,
    watch: &'a Watch,
}

impl<'a> Plan<'a> {
    fn new(snapshot: &'a Snapshot, device: &'a Reconstruction<'a>, settings: &Settings, watch: &'a Watch) -> Self {
        let columns = Columns::new(device.entries, &snapshot.streams);
        let mut slots = vec![NO_SLOT; columns.actions.len()];
        for (slot, lifetime) in device.lifetimes.rows.iter().enumerate() {
            let named = [lifetime.alloc(), lifetime.free_requested(), lifetime.free_completed()];
            for (entry, action) in
                named.into_iter().zip([Action::ALLOC, Action::FREE_REQUESTED, Action::FREE_COMPLETED])
            {
                if let Some(entry) = entry
                    && columns.actions[entry.index()] == action
                {
                    slots[entry.index()] = number(slot);
                }
            }
        }
        Self {
            columns,
            slots,
            pools: Pools::new(snapshot, device),
            private_pools: u16::try_from(snapshot.pools.len().saturating_sub(1)).unwrap_or(u16::MAX),
            device,
            handles: &snapshot.streams,
            peak_reserved_bytes: device.timeline.reserved_peak().bytes,
            layouts: layouts(snapshot, device, settings),
            watch,
        }
    }

    /// The entry after `row` that the allocator made.
    fn next(&self, row: usize) -> usize {
        self.columns.significant(row + 1)
    }

    /// The number of the pool that a request went to: 0 is the default one.
    fn pool(&self, row: usize) -> u16 {
        match self.pools.of(row, self.columns.addresses[row]) {
            PoolId::DEFAULT | PoolId::MISSING => 0,
            pool => u16::try_from(pool.get()).unwrap_or(0),
        }
    }

    /// Whether the free requested at `row` completes at once.
    fn completes_at_once(&self, row: usize) -> bool {
        let next = self.next(row);
        let Columns { actions, addresses, .. } = self.columns;
        actions.get(next) == Some(&Action::FREE_COMPLETED) && addresses[next] == addresses[row]
    }
}

/// What one request left in the recording: the entries up to its `alloc` or `oom`.
struct Group {
    /// Entries before the request's own.
    rows: Range<usize>,
    /// The `alloc` or `oom`; `None` if nothing was asked for.
    request: Option<usize>,
    /// Events of the frees that complete before the first segment is released or reserved.
    done_before: Vec<u16>,
    /// Events of those that complete after it.
    done_after: Vec<u16>,
    releases: bool,
    reserves: bool,
}

/// What may have led to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The request alone. Pending frees were done before it if they completed first.
    Request,
    /// The request alone, which waited for all pending frees.
    RequestThatWaited,
    /// `empty_cache()`, and then the request, if there is one.
    EmptyCache,
    /// Pending frees that were looked at without a request.
    Poll,
}

struct Replayer<'a> {
    plan: &'a Plan<'a>,
    columns: Columns<'a>,
    cursor: Rc<RefCell<Cursor>>,
    /// `None` once it has parted from the recording.
    allocator: Option<Allocator<Tape<'a>, Comparison<'a>>>,
    held: Vec<Option<BlockId>>,
    /// The event that a slot's free waits for.
    events: rustc_hash::FxHashMap<u32, u16>,
    spare_events: Vec<u16>,
    program: Program,
    fidelity: Fidelity,
}

impl<'a> Replayer<'a> {
    fn new(plan: &'a Plan<'a>, settings: &Settings, limit: Option<u64>) -> Self {
        let columns = plan.columns;
        let cursor = Rc::new(RefCell::new(Cursor { next: columns.significant(0), ..Cursor::default() }));
        let tape =
            Tape { columns, cursor: Rc::clone(&cursor), busy: std::collections::BTreeSet::new(), spare: 1 << 62 };
        let comparison = Comparison::new(columns, Rc::clone(&cursor));
        let mut allocator = Allocator::new(tape, settings.clone(), comparison);
        // A limit or a full device shows in the recording itself: only the garbage collector needs to know one.
        allocator.set_limit_bytes(limit);
        let compared = columns.actions.iter().filter(|&&action| is_compared(action)).count();
        for pool in 1..=plan.private_pools {
            // Fails for pools without uses only.
            let _ = allocator.create_pool(u64::from(pool), PoolFlags::default());
        }
        Self {
            plan,
            columns,
            cursor,
            allocator: Some(allocator),
            held: vec![None; plan.device.lifetimes.rows.len()],
            events: rustc_hash::FxHashMap::default(),
            spare_events: (0..=u16::MAX).rev().collect(),
            program: Program {
                // No entry makes more than one, but for what was there before: so it never moves.
                steps: Vec::with_capacity(columns.actions.len() + 2 * plan.device.lifetimes.at_start().len()),
                slots: plan.device.lifetimes.rows.len(),
                streams: plan.handles.to_vec(),
                pools: plan.private_pools,
                before_recording: plan.device.lifetimes.at_start().len(),
                layouts: plan.layouts.clone(),
                watch: plan.watch.clone(),
            },
            fidelity: Fidelity { entries: compared as u64, equal: 0, first_difference: None },
        }
    }

    fn run(mut self, layout: Option<&Layout>) -> Replay {
        self.begin(layout);
        let mut row = self.columns.significant(0);
        let mut look = row;
        while row < self.columns.actions.len() {
            if row >= look {
                self.plan.watch.recorded(row);
                if self.plan.watch.is_stopped() {
                    break;
                }
                look = row + LOOK_STEPS;
            }
            row = if self.columns.actions[row] == Action::FREE_REQUESTED {
                self.free(row)
            } else {
                let group = self.group(row);
                let after = group.request.map_or(group.rows.end, |request| self.plan.next(request));
                self.replay_group(&group, after);
                after
            };
        }
        if self.fidelity.is_exact() {
            self.fidelity.equal = self.fidelity.entries;
        }
        let statistics = self.allocator.as_ref().map(|allocator| *allocator.statistics());
        Replay {
            program: self.program,
            fidelity: self.fidelity,
            statistics: statistics.filter(|_| self.plan.device.recorded.is_whole()),
            inferred_limit_bytes: None,
        }
    }

    /// What was there before the first entry.
    fn begin(&mut self, layout: Option<&Layout>) {
        let at_start = self.plan.device.lifetimes.at_start();
        for (slot, lifetime) in at_start.iter().enumerate() {
            let (slot, bytes, stream) = (number(slot), lifetime.requested_bytes, lifetime.stream.get());
            self.program.steps.push(Step::Alloc { slot, entry: u32::MAX, bytes, stream, pool: 0 });
        }
        match (layout, &mut self.allocator) {
            (Some(layout), Some(allocator)) => {
                for (segment, slots) in layout.segments.iter().zip(&layout.slots) {
                    for (block, slot) in allocator.adopt_segment(segment).into_iter().zip(slots) {
                        if let Some(slot) = *slot {
                            self.held[slot as usize] = block;
                        }
                    }
                }
            }
            _ if self.plan.device.recorded.from_start => {}
            _ => {
                let note = "the recording begins after the program, and the allocator's state at that point is \
                 unknown";
                self.part(self.columns.significant(0), None, note.to_owned());
            }
        }
        self.cursor.borrow_mut().muted = true;
        for (slot, lifetime) in at_start.iter().enumerate() {
            if lifetime.awaits_free_at_start() {
                self.free_slot(number(slot), true);
            }
        }
        self.cursor.borrow_mut().muted = false;
    }

    /// Frees a slot's block, at once or when an event is done.
    fn free_slot(&mut self, slot: u32, later: bool) {
        let event = if later { self.spare_events.pop() } else { None };
        self.program.steps.push(match event {
            Some(event) => {
                self.events.insert(slot, event);
                Step::FreeLater { slot, event }
            }
            None => Step::Free { slot },
        });
        if let (Some(allocator), Some(block)) = (&mut self.allocator, self.held[slot as usize].take()) {
            if let Some(event) = event {
                let stream = Program::event_stream(event);
                allocator.record_stream(block, stream);
                allocator.device_mut().busy.insert(stream);
            }
            allocator.free(block);
        }
    }

    /// A free, and its completion if that follows at once; the entry to go on with.
    fn free(&mut self, row: usize) -> usize {
        let slot = self.plan.slots[row];
        let at_once = self.plan.completes_at_once(row);
        let next = self.plan.next(row);
        let after = if at_once { self.plan.next(next) } else { next };
        if slot == NO_SLOT {
            let note = "an address is freed that was never allocated, or is already free";
            self.part(row, None, note.to_owned());
            return after;
        }
        self.free_slot(slot, !at_once);
        if self.allocator.is_some() {
            self.settle(after);
        }
        after
    }

    /// The entries that belong together from `row` on, which is neither a `free_requested` nor past the end.
    fn group(&mut self, row: usize) -> Group {
        let actions = self.columns.actions;
        let (mut end, mut releases, mut reserves) = (row, false, false);
        let (mut done_before, mut done_after) = (Vec::new(), Vec::new());
        let mut request = None;
        while let Some(&action) = actions.get(end) {
            match action {
                Action::ALLOC | Action::OOM => {
                    request = Some(end);
                    break;
                }
                Action::FREE_COMPLETED => {
                    if let Some(event) = self.events.remove(&self.plan.slots[end]) {
                        if releases || reserves { &mut done_after } else { &mut done_before }.push(event);
                    }
                }
                action if is_release(action) => releases = true,
                action if is_reservation(action) => reserves = true,
                _ => break,
            }
            end = self.plan.next(end);
        }
        Group { rows: row..end, request, done_before, done_after, releases, reserves }
    }

    /// Finds what led to a group, and takes its steps into the program.
    fn replay_group(&mut self, group: &Group, after: usize) {
        let causes = self.causes(group);
        let cause = if self.allocator.is_some() { self.try_causes(group, causes, after) } else { causes[0] };
        self.add_steps(group, cause);
        self.spare_events.extend(group.done_before.iter().chain(&group.done_after));
    }

    /// What may have led to a group, the likeliest first.
    fn causes(&self, group: &Group) -> &'static [Cause] {
        use Cause::{EmptyCache, Poll, Request, RequestThatWaited};
        let fails = group.request.is_some_and(|request| self.columns.actions[request] == Action::OOM);
        let may_have_waited = !group.done_before.is_empty();
        match (group.request, group.releases) {
            (None, false) => &[Poll, EmptyCache],
            (None, true) => &[EmptyCache],
            (Some(_), false) if !may_have_waited || !(fails || group.reserves) => &[Request],
            (Some(_), false) => &[Request, RequestThatWaited],
            (Some(request), true) => match (self.released_for(group, request, fails), may_have_waited) {
                (true, true) => &[Request, RequestThatWaited, EmptyCache],
                (true, false) => &[Request, EmptyCache],
                (false, true) => &[EmptyCache, Request, RequestThatWaited],
                (false, false) => &[EmptyCache, Request],
            },
        }
    }

    /// Whether it was likely the request that released memory, and not `empty_cache()` before it.
    fn released_for(&self, group: &Group, request: usize, fails: bool) -> bool {
        let entries = self.plan.device.entries;
        let released = group.rows.clone().find(|&row| is_release(self.columns.actions[row]));
        match released.map(|row| (entries.stacks()[row], entries.stacks()[request])) {
            Some((released, requested)) if released.is_recorded() && requested.is_recorded() => released == requested,
            // If nothing was reserved after the release, it made no room; or there was room without it.
            _ => fails || (group.reserves && !self.had_room(group)),
        }
    }

    /// Whether the allocator held more at another time than it held before this group and reserved in it: then the
    /// driver would not have refused, and nothing had to be released. The garbage collector releases all the same.
    fn had_room(&self, group: &Group) -> bool {
        let Some(allocator) = &self.allocator else {
            return false;
        };
        let rows = group.rows.clone().filter(|&row| is_reservation(self.columns.actions[row]));
        let reserved: u64 = rows.map(|row| self.columns.sizes[row]).sum();
        let held = allocator.statistics().reserved_bytes.all().current;
        allocator.settings().garbage_collection_threshold == 0.0
            && held.saturating_add(reserved) <= self.plan.peak_reserved_bytes
    }

    /// Tries the causes in turn; the first that explains the group, or the first of all.
    fn try_causes(&mut self, group: &Group, causes: &[Cause], after: usize) -> Cause {
        if let [cause] = causes {
            self.apply(group, *cause);
            self.settle(after);
            return *cause;
        }
        let (allocator, cursor, held) = (self.allocator.clone(), self.cursor.borrow().clone(), self.held_by(group));
        let mut furthest = (0, causes[0]);
        for &cause in causes {
            self.apply(group, cause);
            let reached = self.cursor.borrow().next;
            if self.explains(after) {
                self.settle(after);
                return cause;
            }
            if reached > furthest.0 {
                furthest = (reached, cause);
            }
            self.allocator.clone_from(&allocator);
            self.cursor.replace(cursor.clone());
            self.hold(group, held);
        }
        self.apply(group, furthest.1);
        self.settle(after);
        causes[0]
    }

    fn held_by(&self, group: &Group) -> Option<BlockId> {
        let slot = group.request.map(|request| self.plan.slots[request]).filter(|&slot| slot != NO_SLOT)?;
        self.held[slot as usize]
    }

    fn hold(&mut self, group: &Group, block: Option<BlockId>) {
        if let Some(slot) = group.request.map(|request| self.plan.slots[request]).filter(|&slot| slot != NO_SLOT) {
            self.held[slot as usize] = block;
        }
    }

    /// Lets the allocator do what a cause would have it do.
    fn apply(&mut self, group: &Group, cause: Cause) {
        let Some(allocator) = &mut self.allocator else {
            return;
        };
        let done = match cause {
            Cause::RequestThatWaited => &[][..],
            _ => &group.done_before,
        };
        for &event in done {
            allocator.device_mut().busy.remove(&Program::event_stream(event));
        }
        let failed = match cause {
            Cause::EmptyCache => allocator.empty_cache().err(),
            Cause::Poll => {
                allocator.poll_events();
                None
            }
            Cause::Request | Cause::RequestThatWaited => None,
        };
        let failed = failed.or_else(|| group.request.and_then(|request| self.request(request)));
        if let Some(allocator) = &mut self.allocator {
            for &event in group.done_before.iter().chain(&group.done_after) {
                allocator.device_mut().busy.remove(&Program::event_stream(event));
            }
        }
        if let Some(Failure::Undefined(reason)) = failed {
            let next = self.cursor.borrow().next;
            self.part(next, None, format!("PyTorch itself would fail here: {reason}"));
        }
    }

    /// Asks for what the entry asked for; the failure that is not a recorded one.
    fn request(&mut self, row: usize) -> Option<Failure> {
        let allocator = self.allocator.as_mut()?;
        let Columns { actions, sizes, .. } = self.columns;
        let pool = u64::from(self.plan.pool(row));
        let stream = self.columns.handle(row);
        if pool > 0 {
            let _ = allocator.begin_pool(pool, None);
        }
        let block = allocator.malloc(sizes[row], stream);
        if pool > 0 {
            let _ = allocator.end_pool(pool);
            let _ = allocator.release_pool_use(pool);
        }
        match block {
            Ok(block) if actions[row] == Action::ALLOC => {
                self.held[self.plan.slots[row] as usize] = block;
                None
            }
            Ok(_) => None,
            Err(failure) => Some(failure),
        }
    }

    /// Whether everything up to `after` has its counterpart, and nothing else happened.
    fn explains(&self, after: usize) -> bool {
        let cursor = self.cursor.borrow();
        cursor.unexpected.is_none() && cursor.next == after
    }

    /// Counts what is equal up to `after`, or parts from the recording.
    fn settle(&mut self, after: usize) {
        let (next, unexpected) = {
            let cursor = self.cursor.borrow();
            (cursor.next, cursor.unexpected)
        };
        if let Some((row, predicted)) = unexpected {
            let note = self.explanation(row, Some(&predicted));
            self.part(row, Some(predicted), note);
        } else if next < after {
            let note = self.explanation(next, None);
            self.part(next, None, note);
        }
    }

    /// Why a recording may differ from its replay, by what differs.
    fn explanation(&self, row: usize, predicted: Option<&TraceEntry>) -> String {
        let recorded = self.columns.actions.get(row).copied();
        let address = self.columns.addresses.get(row).copied().unwrap_or(0);
        if recorded.is_some_and(|action| action != Action::OOM) && !address.is_multiple_of(MIN_BLOCK_BYTES) {
            return format!(
                "every block of PyTorch's allocator lies at a multiple of {MIN_BLOCK_BYTES} bytes, and this address \
                 does not: the allocator did not write this entry"
            );
        }
        if !self.plan.device.lifetimes.unrecorded_ends.is_empty() {
            return "entries are missing from the recording (`skip_actions`?)".to_owned();
        }
        let note = match (recorded, predicted.map(|entry| entry.action)) {
            (Some(Action::SEGMENT_ALLOC | Action::SEGMENT_MAP), _) => {
                "the recorded allocator did not find a block that the replay finds: a private pool or a setting \
                 that was not recorded"
            }
            (Some(Action::SEGMENT_FREE | Action::SEGMENT_UNMAP), _) => {
                "memory was released that the recorded settings do not release here: a private pool, a limit or a \
                 setting that was not recorded"
            }
            (Some(Action::ALLOC), Some(highwater_allocator::Action::Alloc)) => {
                "the block has another address: another version's order of equal blocks, a private pool, or a \
                 setting that changed during the run"
            }
            _ => "a private pool, a limit or a setting that was not recorded",
        };
        note.to_owned()
    }

    /// From here on nothing is predicted.
    fn part(&mut self, row: usize, predicted: Option<TraceEntry>, note: String) {
        self.allocator = None;
        if self.fidelity.first_difference.is_none() {
            let equal = self.columns.actions[..row.min(self.columns.actions.len())].iter();
            self.fidelity.equal = equal.filter(|&&action| is_compared(action)).count() as u64;
            self.fidelity.first_difference = Some(Difference { entry: EntryId::from_index(row), predicted, note });
        }
    }

    fn add_steps(&mut self, group: &Group, cause: Cause) {
        let done = |&event: &u16| Step::Done { event };
        let steps = &mut self.program.steps;
        if cause != Cause::RequestThatWaited {
            steps.extend(group.done_before.iter().map(done));
        }
        if cause == Cause::EmptyCache {
            steps.push(Step::EmptyCache { entry: number(group.rows.start) });
        }
        if let Some(row) = group.request {
            let (entry, bytes) = (number(row), self.columns.sizes[row]);
            let stream = self.plan.device.entries.streams()[row].get();
            let pool = self.plan.pool(row);
            steps.push(if self.columns.actions[row] == Action::OOM {
                Step::Attempt { entry, bytes, stream, pool }
            } else {
                Step::Alloc { slot: self.plan.slots[row], entry, bytes, stream, pool }
            });
        }
        if cause == Cause::RequestThatWaited {
            steps.extend(group.done_before.iter().map(done));
        }
        steps.extend(group.done_after.iter().map(done));
    }
}
