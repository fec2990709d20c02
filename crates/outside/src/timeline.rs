//! Sums by owner over time.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::event::{Event, HOST, Kind};
use crate::owner::{Owner, Role};
use crate::recording::Recording;
use crate::state::State;

/// A recording with its owners, and the highest use of each device.
#[derive(Clone, Debug)]
pub struct Timeline<'r> {
    recording: &'r Recording,
    owners: Vec<Owner>,
    /// The owner of each event's memory.
    by_event: Vec<u32>,
    devices: BTreeMap<i32, Peak>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    bytes: i64,
    /// Events until then.
    events: usize,
    /// Whether nothing was released since.
    is_held: bool,
}

/// The memory of a device at a moment.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Events until then.
    pub events: usize,
    /// When the last of them was, in nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// What the process uses of the card, by all owners that count.
    pub bytes: i64,
    /// Owners, the largest first; those that do not count come last.
    pub owners: Vec<OwnerTotal>,
}

/// The memory of one owner.
#[derive(Clone, Debug)]
pub struct OwnerTotal {
    /// Whose.
    pub owner: Owner,
    /// Bytes of the card.
    pub bytes: i64,
    /// Its live allocations; of measured changes, one for each.
    pub live: Vec<Event>,
}

impl<'r> Timeline<'r> {
    /// Follows a recording.
    pub fn new(recording: &'r Recording) -> Self {
        let mut rows: FxHashMap<Owner, u32> = FxHashMap::default();
        let mut owners = Vec::new();
        let mut known: FxHashMap<(Kind, bool, Option<u32>), u32> = FxHashMap::default();
        let by_event = recording.events.iter().map(|event| {
            *known.entry((event.kind, event.device == HOST, recording.native_row(event))).or_insert_with(|| {
                let owner =
                    Owner::of(event.kind, event.device, recording.library(event), recording.library_name(event));
                *rows.entry(owner).or_insert_with_key(|owner| {
                    owners.push(owner.clone());
                    u32::try_from(owners.len() - 1).expect("fewer owners than stacks")
                })
            })
        });
        let by_event: Vec<u32> = by_event.collect();
        let mut timeline = Self { recording, owners, by_event, devices: BTreeMap::new() };
        timeline.find_peaks();
        timeline
    }

    fn find_peaks(&mut self) {
        let mut now: BTreeMap<i32, i64> = BTreeMap::new();
        let mut state = State::default();
        let mut devices: BTreeMap<i32, Peak> = BTreeMap::new();
        for (at, (event, &owner)) in self.recording.events.iter().zip(&self.by_event).enumerate() {
            if event.device != HOST {
                devices.entry(event.device).or_default();
            }
            state.apply(event, owner, |change| {
                if change.device == HOST || change.is_managed || !self.owners[change.owner as usize].role.counts() {
                    return;
                }
                let now = now.entry(change.device).or_default();
                *now = now.saturating_add(change.bytes);
                let peak = devices.entry(change.device).or_default();
                if *now > peak.bytes {
                    *peak = Peak { bytes: *now, events: at + 1, is_held: true };
                } else if *now < peak.bytes {
                    peak.is_held = false;
                } else if peak.is_held {
                    // Small allocations in pages that are there already are part of it.
                    peak.events = at + 1;
                }
            });
        }
        self.devices = devices;
    }

    /// The devices on which the process had anything.
    pub fn devices(&self) -> impl Iterator<Item = i32> {
        self.devices.keys().copied()
    }

    /// All owners.
    pub fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// The events, each with a row of the owners.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'r Event, u32)> {
        self.recording.events.iter().zip(self.by_event.iter().copied())
    }

    /// The events, each with the owner of the memory that it makes.
    pub fn events(&self) -> impl Iterator<Item = (&'r Event, &Owner)> {
        self.rows().map(|(event, owner)| (event, &self.owners[owner as usize]))
    }

    /// The recording.
    pub fn recording(&self) -> &'r Recording {
        self.recording
    }

    /// The moment of the highest use of a device.
    pub fn peak(&self, device: i32) -> Moment {
        self.after(device, self.devices.get(&device).map_or(0, |peak| peak.events))
    }

    /// The moment at the end.
    pub fn end(&self, device: i32) -> Moment {
        self.after(device, self.recording.events.len())
    }

    /// The number of events until a time.
    pub fn events_until(&self, time_ns: u64) -> usize {
        // Threads note their events a little out of order.
        self.recording.events.partition_point(|event| event.time_ns <= time_ns)
    }

    /// The moment after some events; host memory counts to every device.
    pub fn after(&self, device: i32, events: usize) -> Moment {
        let events = events.min(self.recording.events.len());
        let mut state = State::default();
        let mut sums = vec![0_i64; self.owners.len()];
        let mut live: Vec<Vec<Event>> = vec![Vec::new(); self.owners.len()];
        for (event, &owner) in self.recording.events[..events].iter().zip(&self.by_event) {
            if event.kind.is_measured() && event.device == device && event.bytes != 0 {
                live[owner as usize].push(*event);
            }
            state.apply(event, owner, |change| {
                if change.device == device || change.device == HOST {
                    let sum = &mut sums[change.owner as usize];
                    *sum = sum.saturating_add(change.bytes);
                }
            });
        }
        for (event, owner) in state.live().filter(|(event, _)| event.kind != Kind::StreamOrdered) {
            if event.device == device || event.device == HOST {
                live[owner as usize].push(*event);
            }
        }
        let totals =
            self.owners.iter().zip(sums).zip(live).filter(|((_, bytes), live)| *bytes != 0 || !live.is_empty());
        let mut owners: Vec<OwnerTotal> =
            totals.map(|((owner, bytes), live)| OwnerTotal { owner: owner.clone(), bytes, live }).collect();
        owners.sort_by(|a, b| {
            (!a.owner.role.counts(), -a.bytes.saturating_abs(), &a.owner).cmp(&(
                !b.owner.role.counts(),
                -b.bytes.saturating_abs(),
                &b.owner,
            ))
        });
        let counted = owners.iter().filter(|total| total.owner.role.counts());
        Moment {
            events,
            time_ns: self.recording.events[..events].last().map_or(0, |event| event.time_ns),
            bytes: counted.fold(0_i64, |sum, total| sum.saturating_add(total.bytes)),
            owners,
        }
    }

    /// The sums of a device after as many events as each of some numbers says; they ascend.
    pub fn sums(&self, device: i32, after: &[usize]) -> Vec<i64> {
        let mut state = State::default();
        let (mut sum, mut at) = (0_i64, 0);
        let mut sums = Vec::with_capacity(after.len());
        for &events in after {
            for (event, &owner) in self.recording.events.iter().zip(&self.by_event).take(events).skip(at) {
                state.apply(event, owner, |change| {
                    let counts = !change.is_managed && self.owners[change.owner as usize].role.counts();
                    if change.device == device && counts {
                        sum = sum.saturating_add(change.bytes);
                    }
                });
            }
            at = at.max(events);
            sums.push(sum);
        }
        sums
    }

    /// Sums of a device over time by owner, a row of the owners, without those that do not count: after each event that changed one.
    pub fn over_time(&self, device: i32, mut each: impl FnMut(u64, usize, i64)) {
        let mut state = State::default();
        let mut sums = vec![0_i64; self.owners.len()];
        for (event, &owner) in self.recording.events.iter().zip(&self.by_event) {
            state.apply(event, owner, |change| {
                let owner = change.owner as usize;
                let role = self.owners[owner].role;
                if change.device == device && role != Role::Managed && role != Role::Unexplained {
                    let sum = &mut sums[owner];
                    *sum = sum.saturating_add(change.bytes);
                    each(event.time_ns, owner, *sum);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::NO_STACK;

    fn event(kind: Kind, address: u64, bytes: i64) -> Event {
        let time_ns = address;
        Event { kind, time_ns, device: 0, thread: 1, stack: NO_STACK, python: NO_STACK, address, bytes, extra: 0 }
    }

    #[test]
    fn the_peak_lasts_until_something_is_released() {
        let events = vec![
            event(Kind::Device, 0, 1000),
            event(Kind::Device, 1000, 1000),
            event(Kind::Free, 0, 0),
            event(Kind::Free, 1000, 0),
            event(Kind::Device, 2000, 1000),
        ];
        let recording = Recording { events, ..Recording::default() };
        let timeline = Timeline::new(&recording);
        let peak = timeline.peak(0);
        assert_eq!((peak.events, peak.bytes), (2, 2 << 20), "one page for both");
        assert_eq!(timeline.sums(0, &[1, 4, 5]), [2 << 20, 0, 2 << 20]);
        assert_eq!(timeline.end(0).bytes, 2 << 20);
    }
}
