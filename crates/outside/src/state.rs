//! The live memory of a process after some of its calls.

use rustc_hash::FxHashMap;

use crate::event::{Event, HOST, Kind};
use crate::footprint::Footprint;

/// Live memory, by address.
#[derive(Clone, Debug, Default)]
pub struct State {
    footprints: FxHashMap<i32, Footprint>,
    /// Allocations that have a kind of free of their own, by that and by address.
    live: FxHashMap<(Space, u64), Live>,
    /// Where handles are mapped: which, and how many bytes.
    mapped: FxHashMap<u64, u64>,
    /// Sums of changes that were measured, by device, kind and owner.
    measured: FxHashMap<(i32, Kind, u32), Event>,
}

/// Addresses of different spaces may be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Space {
    /// `cuMemFree`.
    Device,
    /// Pinned memory.
    Host,
    /// Memory that was pinned later.
    Registered,
    /// Stream-ordered allocations, which lie in pools.
    Ordered,
    /// Pools.
    Pool,
    /// Handles of `cuMemCreate`.
    Handle,
    /// Arrays.
    Array,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    event: Event,
    owner: u32,
    /// Of a handle: references, and places where it is mapped.
    holds: u32,
}

/// Bytes that an owner has more, or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The device, or [`HOST`].
    pub device: i32,
    /// Whose they are.
    pub owner: u32,
    /// The bytes.
    pub bytes: i64,
    /// Whether they are managed memory, of which the driver does not say where it lies.
    pub is_managed: bool,
}

impl State {
    /// Follows one event of an owner, and says what it changed.
    pub fn apply(&mut self, event: &Event, owner: u32, mut changed: impl FnMut(Change)) {
        let mut change = |device, owner, bytes| changed(Change { device, owner, bytes, is_managed: false });
        match event.kind {
            Kind::Device => {
                // An address that is given out again was freed by a call that was not recorded.
                self.remove(Space::Device, event.address, &mut change);
                let footprint = self.footprints.entry(event.device).or_default();
                let taken = footprint.add(event.address, event.bytes.unsigned_abs(), owner);
                change(event.device, owner, signed(taken));
                self.add(Space::Device, event, owner);
            }
            Kind::Managed => {
                self.remove(Space::Device, event.address, &mut change);
                changed(Change { device: event.device, owner, bytes: event.bytes, is_managed: true });
                self.add(Space::Device, event, owner);
            }
            Kind::Free => {
                let is_managed = self
                    .live
                    .get(&(Space::Device, event.address))
                    .filter(|live| live.event.kind == Kind::Managed)
                    .map(|live| (live.owner, live.event.device, live.event.bytes));
                // Of the allocation's device, whichever is the current one now.
                if let Some((owner, device, bytes)) = is_managed {
                    self.live.remove(&(Space::Device, event.address));
                    changed(Change { device, owner, bytes: bytes.saturating_neg(), is_managed: true });
                } else if !self.remove(Space::Device, event.address, &mut change) {
                    // `cuMemFree` also takes what is stream-ordered.
                    self.live.remove(&(Space::Ordered, event.address));
                }
            }
            Kind::Host => self.take(Space::Host, event, HOST, owner, &mut change),
            Kind::Register => self.take(Space::Registered, event, HOST, owner, &mut change),
            Kind::Array => self.take(Space::Array, event, event.device, owner, &mut change),
            Kind::Create => self.take(Space::Handle, event, event.device, owner, &mut change),
            Kind::HostFree => drop(self.remove(Space::Host, event.address, &mut change)),
            Kind::Unregister => drop(self.remove(Space::Registered, event.address, &mut change)),
            Kind::ArrayDestroy => drop(self.remove(Space::Array, event.address, &mut change)),
            Kind::StreamOrdered => self.add(Space::Ordered, event, owner),
            Kind::StreamOrderedFree => {
                self.live.remove(&(Space::Ordered, event.address));
            }
            Kind::Pool => {
                let before = self.live.get(&(Space::Pool, event.address)).map(|live| (live.owner, live.event.bytes));
                let (owner, before) = before.unwrap_or((owner, 0));
                change(event.device, owner, event.bytes.saturating_sub(before));
                self.add(Space::Pool, event, owner);
            }
            Kind::PoolDestroy => drop(self.remove(Space::Pool, event.address, &mut change)),
            Kind::Retain => self.hold(event.address),
            Kind::Release => self.let_go(event.address, &mut change),
            Kind::Map => {
                if self.live.contains_key(&(Space::Handle, event.extra)) {
                    self.hold(event.extra);
                    // An address that is mapped again was unmapped by a call that was not recorded.
                    if let Some(before) = self.mapped.insert(event.address, event.extra) {
                        self.let_go(before, &mut change);
                    }
                }
            }
            Kind::Unmap => {
                // One call may unmap several mappings beside each other.
                let end = event.address.saturating_add(event.bytes.unsigned_abs());
                let mut at = event.address;
                while let Some(handle) = self.mapped.remove(&at) {
                    let bytes = self.live.get(&(Space::Handle, handle)).map_or(0, |live| live.event.bytes);
                    self.let_go(handle, &mut change);
                    at = at.saturating_add(bytes.unsigned_abs());
                    if bytes <= 0 || at >= end {
                        break;
                    }
                }
            }
            _ => {
                change(event.device, owner, event.bytes);
                let sum =
                    self.measured.entry((event.device, event.kind, owner)).or_insert(Event { bytes: 0, ..*event });
                sum.bytes = sum.bytes.saturating_add(event.bytes);
                sum.time_ns = event.time_ns;
            }
        }
    }

    /// The events that lead to this state from nothing, oldest first: what is kept of calls that are not.
    pub fn events(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self.live.values().map(|live| live.event).collect();
        let mapped = self.mapped.iter().filter_map(|(&address, handle)| {
            let of = self.live.get(&(Space::Handle, *handle))?.event;
            Some(Event { kind: Kind::Map, address, extra: *handle, ..of })
        });
        events.extend(mapped);
        for live in self.live.values().filter(|live| live.event.kind == Kind::Create) {
            // A handle that only its mappings hold was released.
            let mappings = self.mapped.values().filter(|&&handle| handle == live.event.address).count();
            if usize::try_from(live.holds).is_ok_and(|holds| holds == mappings) {
                events.push(Event { kind: Kind::Release, ..live.event });
            }
        }
        events.extend(self.measured.values().copied());
        // An allocation before what refers to it.
        events.sort_by_key(|event| (event.time_ns, event.kind == Kind::Release, event.kind == Kind::Map));
        events
    }

    /// The live allocations: each event that made one, and its owner.
    pub fn live(&self) -> impl Iterator<Item = (&Event, u32)> {
        self.live.values().map(|live| (&live.event, live.owner))
    }

    fn add(&mut self, space: Space, event: &Event, owner: u32) {
        self.live.insert((space, event.address), Live { event: *event, owner, holds: 1 });
    }

    /// An allocation that takes just what it says.
    fn take(&mut self, space: Space, event: &Event, device: i32, owner: u32, change: &mut impl FnMut(i32, u32, i64)) {
        self.remove(space, event.address, change);
        change(device, owner, event.bytes);
        self.live.insert((space, event.address), Live { event: Event { device, ..*event }, owner, holds: 1 });
    }

    fn remove(&mut self, space: Space, address: u64, change: &mut impl FnMut(i32, u32, i64)) -> bool {
        let Some(live) = self.live.remove(&(space, address)) else { return false };
        let Live { event, owner, .. } = live;
        if event.kind == Kind::Device {
            if let Some(footprint) = self.footprints.get_mut(&event.device) {
                let gone = |owner, bytes| change(event.device, owner, signed(bytes).saturating_neg());
                footprint.remove(event.address, event.bytes.unsigned_abs(), owner, gone);
            }
        } else if event.kind != Kind::Managed {
            change(event.device, owner, event.bytes.saturating_neg());
        }
        true
    }

    fn hold(&mut self, handle: u64) {
        if let Some(live) = self.live.get_mut(&(Space::Handle, handle)) {
            live.holds = live.holds.saturating_add(1);
        }
    }

    /// Memory that was created stays until its handle is released and it is mapped nowhere.
    fn let_go(&mut self, handle: u64, change: &mut impl FnMut(i32, u32, i64)) {
        let Some(live) = self.live.get_mut(&(Space::Handle, handle)) else { return };
        live.holds = live.holds.saturating_sub(1);
        if live.holds == 0 {
            self.remove(Space::Handle, handle, change);
        }
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::NO_STACK;

    const MIB: i64 = 1 << 20;

    fn event(kind: Kind, address: u64, bytes: i64, extra: u64) -> Event {
        Event { kind, time_ns: 0, device: 0, thread: 1, stack: NO_STACK, python: NO_STACK, address, bytes, extra }
    }

    /// The bytes on the card, and on the host, after events.
    fn follow(state: &mut State, events: &[Event]) -> [i64; 2] {
        let mut sums = [0, 0];
        for event in events {
            state.apply(event, 0, |change| sums[usize::from(change.device == HOST)] += change.bytes);
        }
        sums
    }

    #[test]
    fn created_memory_stays_until_it_is_released_and_unmapped() {
        let mut state = State::default();
        let created =
            [event(Kind::Create, 7, 4 * MIB, 0), event(Kind::Map, 1 << 40, 4 * MIB, 7), event(Kind::Release, 7, 0, 0)];
        assert_eq!(follow(&mut state, &created), [4 * MIB, 0]);
        let again = follow(&mut State::default(), &state.events());
        assert_eq!(again, [4 * MIB, 0], "the state can be told again");
        assert_eq!(follow(&mut state, &[event(Kind::Unmap, 1 << 40, 4 * MIB, 0)]), [-4 * MIB, 0]);
    }

    #[test]
    fn a_state_told_again_ends_where_it_did() {
        let mut state = State::default();
        let events = [
            event(Kind::Create, 7, 4 * MIB, 0),
            event(Kind::Map, 1 << 40, 4 * MIB, 7),
            event(Kind::Release, 7, 0, 0),
            event(Kind::Host, 99, 5, 0),
            event(Kind::Launch, 0, 92 * MIB, 0),
            event(Kind::Launch, 0, 2 * MIB, 0),
        ];
        follow(&mut state, &events);
        let mut again = State::default();
        assert_eq!(follow(&mut again, &state.events()), [98 * MIB, 5]);
        let freed = follow(&mut again, &[event(Kind::Unmap, 1 << 40, 4 * MIB, 0), event(Kind::HostFree, 99, 0, 0)]);
        assert_eq!(freed, [-4 * MIB, -5], "released before, so the last mapping was all that held it");
    }

    #[test]
    fn one_call_unmaps_neighbours() {
        let mut state = State::default();
        let mut events = Vec::new();
        for (handle, at) in [(1, 1_u64 << 40), (2, (1 << 40) + (2 << 20))] {
            events.push(event(Kind::Create, handle, 2 * MIB, 0));
            events.push(event(Kind::Map, at, 2 * MIB, handle));
            events.push(event(Kind::Release, handle, 0, 0));
        }
        assert_eq!(follow(&mut state, &events), [4 * MIB, 0]);
        assert_eq!(follow(&mut state, &[event(Kind::Unmap, 1 << 40, 4 * MIB, 0)]), [-4 * MIB, 0]);
    }

    #[test]
    fn a_pool_is_what_it_has_reserved() {
        let mut state = State::default();
        let grown = [
            event(Kind::Pool, 5, 64 * MIB, 10),
            event(Kind::StreamOrdered, 1 << 30, 10, 0),
            event(Kind::Pool, 5, 32 * MIB, 0),
        ];
        assert_eq!(follow(&mut state, &grown), [32 * MIB, 0]);
        assert_eq!(follow(&mut state, &[event(Kind::PoolDestroy, 5, 0, 0)]), [-32 * MIB, 0]);
    }

    #[test]
    fn frees_of_unknown_memory_change_nothing() {
        let mut state = State::default();
        for kind in Kind::ALL.iter().filter(|kind| kind.name().contains("free") || **kind == Kind::Unmap) {
            assert_eq!(follow(&mut state, &[event(*kind, 1, i64::MIN, 3)]), [0, 0], "{kind:?}");
        }
        assert_eq!(follow(&mut state, &[event(Kind::Device, 1 << 40, 100, 0)]), [2 * MIB, 0]);
        assert_eq!(
            follow(&mut state, &[event(Kind::Device, 1 << 40, 100, 0)]),
            [0, 0],
            "freed by a call that was not seen"
        );
    }
}
