//! What is kept of a recording while it runs.

use std::collections::VecDeque;

use highwater_callers::Addresses;
use highwater_driver::context::BARE_BYTES;
use highwater_outside::{
    Event, Format, HOST, Kind, NO_STACK, PythonStack, Recording, Site, State, is_pytorchs_allocator,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// The calls so far, and the state after them.
#[derive(Debug)]
pub(crate) struct Book {
    capacity: usize,
    kept: VecDeque<Event>,
    /// The memory that was live before the first call that is kept.
    before: State,
    /// The memory that is live now.
    now: State,
    meters: FxHashMap<i32, Meter>,
    stacks: FxHashMap<Addresses, u32>,
    /// Of each stack, whether it goes through PyTorch's allocator, whose history has the Python stack already.
    is_pytorchs: Vec<bool>,
    libraries: FxHashMap<String, u32>,
    pythons: FxHashMap<PythonStack, u32>,
    managed: usize,
    /// Functions that recorded calls have launched, by device: each needs its own local memory.
    launched: FxHashSet<(i32, u64)>,
    /// The last that was noted of each pool.
    pools: FxHashMap<u64, Event>,
    pub(crate) about: Format,
}

/// The memory of a device that is not free, and how much of it is explained.
#[derive(Debug, Default)]
struct Meter {
    /// Bytes that others use, where they are known.
    others: Option<u64>,
    /// Bytes of this process that are.
    explained: i64,
    is_begun: bool,
    /// Threads that loaded a module and have not looked since, and when: the launch that loaded it may still take memory.
    loading: Vec<(u32, u64)>,
    looked_ns: u64,
}

/// Nanoseconds after which a look at the free memory is due though nothing happened that asks for one.
const LOOK_NS: u64 = 20_000_000;
/// Nanoseconds within which a launch takes its memory after it loaded its module.
const LOADING_NS: u64 = 1_000_000_000;
/// Nanoseconds within which the driver reports a module after the launch that loads it took memory.
const REPORTED_NS: u64 = 100_000_000;

impl Book {
    pub(crate) fn new(capacity: usize, used_before: &[(i32, u64)]) -> Self {
        let meter = |&(device, others): &(i32, u64)| (device, Meter { others: Some(others), ..Meter::default() });
        Self {
            capacity,
            kept: VecDeque::new(),
            before: State::default(),
            now: State::default(),
            meters: used_before.iter().map(meter).collect(),
            stacks: FxHashMap::default(),
            is_pytorchs: Vec::new(),
            libraries: FxHashMap::default(),
            pythons: FxHashMap::default(),
            managed: 0,
            launched: FxHashSet::default(),
            pools: FxHashMap::default(),
            about: Format::default(),
        }
    }

    /// Notes a call.
    pub(crate) fn push(&mut self, event: Event) {
        self.about.seen += 1;
        if event.kind == Kind::PoolDestroy {
            self.pools.remove(&event.address);
        }
        let meters = &mut self.meters;
        let managed = &mut self.managed;
        self.now.apply(&event, 0, |change| {
            if change.is_managed {
                *managed = if change.bytes > 0 { *managed + 1 } else { managed.saturating_sub(1) };
            } else if change.device != HOST {
                let meter = meters.entry(change.device).or_default();
                meter.explained = meter.explained.saturating_add(change.bytes);
            }
        });
        self.kept.push_back(event);
        if self.kept.len() > self.capacity
            && let Some(oldest) = self.kept.pop_front()
        {
            self.before.apply(&oldest, 0, |_| ());
        }
    }

    /// Notes what a pool has, if that is new.
    pub(crate) fn pool(&mut self, event: Event) {
        let known = self.pools.insert(event.address, event);
        if known.is_none_or(|known| (known.bytes, known.extra) != (event.bytes, event.extra)) {
            self.push(event);
        }
    }

    /// The pools that allocations were made from.
    pub(crate) fn pools(&self) -> Vec<Event> {
        self.pools.values().copied().collect()
    }

    /// Whether the free memory is to be looked at before a call is noted.
    pub(crate) fn is_look_due(&self, device: i32, now_ns: u64, thread: u32) -> bool {
        self.meters.get(&device).is_none_or(|meter| {
            let is_old = now_ns.saturating_sub(meter.looked_ns) > LOOK_NS;
            !meter.is_begun || is_old || meter.loading.iter().any(|&(loading, _)| loading == thread)
        })
    }

    /// A thread loaded a module.
    pub(crate) fn module_loaded(&mut self, device: i32, now_ns: u64, thread: u32) {
        // Another thread may have looked while the launch was on its way: memory that it found then is the launch's.
        let since = if self.managed > 0 { u64::MAX } else { now_ns.saturating_sub(REPORTED_NS) };
        for event in self.kept.iter_mut().rev().take_while(|event| event.time_ns >= since) {
            if event.kind == Kind::Unexplained && event.device == device && event.thread != thread && event.bytes > 0 {
                event.kind = Kind::Launch;
            }
        }
        let loading = &mut self.meters.entry(device).or_default().loading;
        loading.retain(|&(loading, _)| loading != thread);
        loading.push((thread, now_ns));
    }

    /// The free memory of a device says nothing of this process.
    pub(crate) fn not_measured(&mut self, device: i32) {
        let devices = &mut self.about.not_measured;
        if !devices.contains(&device) {
            devices.push(device);
        }
    }

    /// Whether a function was launched on a device before.
    pub(crate) fn has_launched(&self, device: i32, function: u64) -> bool {
        self.launched.contains(&(device, function))
    }

    /// A function was launched on a device.
    pub(crate) fn launched(&mut self, device: i32, function: u64) {
        self.launched.insert((device, function));
    }

    /// Bytes that are not free and not explained, after a look.
    fn unexplained(&mut self, device: i32, used: u64, now_ns: u64) -> i64 {
        let meter = self.meters.entry(device).or_default();
        meter.looked_ns = now_ns;
        let used = i64::try_from(used).unwrap_or(i64::MAX);
        if !meter.is_begun && meter.others.is_none() {
            // The context has what contexts have; the rest is taken to be others'.
            let own = meter.explained.saturating_add(i64::try_from(BARE_BYTES).unwrap_or(i64::MAX));
            meter.others = Some(used.saturating_sub(own).max(0).cast_unsigned());
        }
        let others = i64::try_from(meter.others.unwrap_or(0)).unwrap_or(i64::MAX);
        used.saturating_sub(others).saturating_sub(meter.explained)
    }

    /// Notes what changed since the last look, between the calls that are recorded.
    pub(crate) fn look(&mut self, device: i32, used: u64, now_ns: u64, thread: u32) {
        let bytes = self.unexplained(device, used, now_ns);
        let has_managed = self.managed > 0;
        let meter = self.meters.entry(device).or_default();
        let kind = if !meter.is_begun {
            Kind::Context
        } else if !meter.loading.is_empty() && !has_managed {
            Kind::Launch
        } else {
            // Managed memory comes and goes as it is touched.
            Kind::Unexplained
        };
        meter.is_begun = true;
        // Another thread may still be in the launch that loaded its module. One that makes no call afterwards is not waited for.
        meter.loading.retain(|&(loading, since)| loading != thread && now_ns.saturating_sub(since) < LOADING_NS);
        if bytes != 0 {
            self.push(measured(kind, device, bytes, now_ns, thread));
        }
    }

    /// The change during a call, whose free memory was looked at before.
    pub(crate) fn change(&mut self, device: i32, used: u64, now_ns: u64, thread: u32) -> i64 {
        let bytes = self.unexplained(device, used, now_ns);
        let meter = self.meters.entry(device).or_default();
        meter.loading.retain(|&(loading, _)| loading != thread);
        if meter.is_begun { bytes } else { 0 }
    }

    /// The row of a stack that is known.
    pub(crate) fn stack(&self, addresses: &Addresses) -> Option<u32> {
        self.stacks.get(addresses).copied()
    }

    /// Adds a stack with its libraries and functions.
    pub(crate) fn add_stack(&mut self, addresses: Addresses, resolved: Vec<(String, String)>) -> u32 {
        if let Some(row) = self.stack(&addresses) {
            return row;
        }
        let row = u32::try_from(self.about.stacks.len()).unwrap_or(NO_STACK);
        self.is_pytorchs.push(resolved.iter().any(|(file, _)| is_pytorchs_allocator(file)));
        let sites = resolved.into_iter().map(|(file, function)| Site(self.library(file), function)).collect();
        self.about.stacks.push(sites);
        self.stacks.insert(addresses, row);
        row
    }

    fn library(&mut self, file: String) -> u32 {
        let Format { libraries, names, .. } = &mut self.about;
        *self.libraries.entry(file).or_insert_with_key(|file| {
            libraries.push(file.clone());
            names.push(highwater_outside::name(file));
            u32::try_from(libraries.len() - 1).unwrap_or(NO_STACK)
        })
    }

    /// Whether the Python stack of a stack's calls is wanted.
    pub(crate) fn wants_python(&self, stack: u32) -> bool {
        !self.is_pytorchs.get(stack as usize).copied().unwrap_or(false)
    }

    /// The row of a Python stack.
    pub(crate) fn add_python(&mut self, python: PythonStack) -> u32 {
        let rows = &mut self.about.python;
        *self.pythons.entry(python).or_insert_with_key(|python| {
            rows.push(python.clone());
            u32::try_from(rows.len() - 1).unwrap_or(NO_STACK)
        })
    }

    /// All that is kept.
    pub(crate) fn recording(&self, ended_ns: u64) -> Recording {
        let mut events = self.before.events();
        let told_again = events.len() as u64;
        events.extend(&self.kept);
        Recording { about: Format { told_again, ended_ns, ..self.about.clone() }, events }
    }
}

/// An event for a change that was measured.
pub(crate) fn measured(kind: Kind, device: i32, bytes: i64, time_ns: u64, thread: u32) -> Event {
    Event { kind, time_ns, device, thread, stack: NO_STACK, python: NO_STACK, address: 0, bytes, extra: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;

    fn device(at: u64, bytes: i64) -> Event {
        Event { kind: Kind::Device, address: at, bytes, ..measured(Kind::Device, 0, 0, at, 1) }
    }

    fn kinds(book: &Book) -> Vec<(Kind, i64)> {
        book.recording(0).events.iter().map(|event| (event.kind, event.bytes / MIB)).collect()
    }

    fn mib(bytes: u64) -> u64 {
        bytes << 20
    }

    #[test]
    fn the_context_is_what_others_do_not_use() {
        let mut book = Book::new(10, &[(0, mib(1000))]);
        book.look(0, mib(1530), 1, 1);
        book.push(device(1 << 40, 2 * MIB));
        book.module_loaded(0, 1, 1);
        book.look(0, mib(1624), 2, 1);
        book.look(0, mib(1620), 3, 1);
        let expected = [(Kind::Context, 530), (Kind::Device, 2), (Kind::Launch, 92), (Kind::Unexplained, -4)];
        assert_eq!(kinds(&book), expected);
    }

    #[test]
    fn a_launch_takes_memory_also_after_another_thread_looked() {
        let mut book = Book::new(10, &[(0, 0)]);
        book.look(0, mib(530), 1, 1);
        book.module_loaded(0, 1, 1);
        assert!(book.is_look_due(0, 2, 1) && !book.is_look_due(0, 2, 2), "by the thread that launches");
        book.look(0, mib(530), 2, 2);
        book.look(0, mib(622), 3, 1);
        book.look(0, mib(624), 4, 1);
        assert_eq!(kinds(&book)[1..], [(Kind::Launch, 92), (Kind::Unexplained, 2)]);
    }

    #[test]
    fn a_launch_takes_memory_also_before_its_module_is_reported() {
        let mut book = Book::new(10, &[(0, 0)]);
        book.look(0, mib(530), 1, 1);
        book.look(0, mib(1530), 2, 2);
        let launched = 2 + 2 * REPORTED_NS;
        book.look(0, mib(1622), launched, 2);
        book.module_loaded(0, launched + REPORTED_NS, 1);
        let expected = [(Kind::Context, 530), (Kind::Unexplained, 1000), (Kind::Launch, 92)];
        assert_eq!(kinds(&book), expected, "what was there long before is not the launch's");
    }

    #[test]
    fn a_thread_that_only_loads_a_module_is_not_waited_for() {
        let mut book = Book::new(10, &[(0, 0)]);
        book.look(0, mib(530), 1, 1);
        book.module_loaded(0, 1, 1);
        book.look(0, mib(622), 1 + LOADING_NS, 2);
        book.look(0, mib(1622), 2 + LOADING_NS, 2);
        assert_eq!(kinds(&book)[1..], [(Kind::Launch, 92), (Kind::Unexplained, 1000)], "another process came");
    }

    #[test]
    fn without_others_known_the_context_is_that_of_any_process() {
        let mut book = Book::new(10, &[]);
        book.look(0, mib(9000), 1, 1);
        book.push(device(1 << 40, 2 * MIB));
        book.look(0, mib(9002), 2, 1);
        assert_eq!(kinds(&book), [(Kind::Context, 527), (Kind::Device, 2)]);
    }

    #[test]
    fn calls_beyond_the_capacity_leave_their_memory() {
        let mut book = Book::new(4, &[(0, 0)]);
        book.push(device(1 << 40, 4 * MIB));
        for at in 0..1000 {
            book.push(device(2 << 40, 2 * MIB));
            book.push(Event { kind: Kind::Free, bytes: 0, ..device(2 << 40, at) });
        }
        let recording = book.recording(7);
        assert_eq!((recording.about.seen, recording.about.told_again, recording.events.len()), (2001, 1, 5));
        assert_eq!(recording.events[0].bytes, 4 * MIB, "the oldest call's memory is live");
    }

    #[test]
    fn managed_memory_explains_nothing() {
        let mut book = Book::new(10, &[(0, 0)]);
        book.look(0, mib(500), 1, 1);
        book.push(Event { kind: Kind::Managed, ..device(1 << 40, 64 * MIB) });
        book.module_loaded(0, 1, 1);
        book.look(0, mib(628), 2, 1);
        assert_eq!(kinds(&book)[2], (Kind::Unexplained, 128), "touched, or code: nobody can say");
    }
}
