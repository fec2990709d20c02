//! Two recordings entry by entry: whether one program did twice the very same, on two machines or on one that is imagined.
//!
//! It compares the actions of the program and the allocator, not their addresses: action, size, and stream, streams numbered by
//! first use, because addresses and handles are the driver's choice. `snapshot` entries are left out: they only show the time of
//! a dump.

use std::collections::HashMap;

use highwater_snapshot::{Action, EntryId, Snapshot};

/// A difference this early may be a recording that begins late: a place in the other is looked for.
const EARLY: usize = 64;
/// So many events have to be found again there.
const SAMPLE: usize = 256;
/// And so many places are looked at.
const PLACES: usize = 64;

/// How two recordings of a device compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsDiff {
    /// Everything that was recorded.
    pub events: StreamDiff,
    /// The program's requests, without the allocator's segments and their mapping.
    pub requests: StreamDiff,
}

/// How two lists of events compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDiff {
    /// How many there are in each.
    pub counts: [usize; 2],
    /// How many are skipped at the beginning of each, because the other was recorded later.
    pub skipped: [usize; 2],
    /// How many are the same from there on.
    pub equal: usize,
    /// The first entries that differ; nothing for a recording that is at its end.
    pub first_difference: Option<[Option<Event>; 2]>,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which entry of its recording.
    pub entry: EntryId,
    /// The action.
    pub action: Action,
    /// To how much.
    pub size_bytes: u64,
    /// On which stream, numbered by first use.
    pub stream: usize,
}

impl Event {
    fn is_like(&self, other: &Self) -> bool {
        (self.action, self.size_bytes, self.stream) == (other.action, other.size_bytes, other.stream)
    }

    fn is_request(&self) -> bool {
        [Action::ALLOC, Action::FREE_REQUESTED, Action::FREE_COMPLETED].contains(&self.action)
    }
}

impl StreamDiff {
    /// Whether both are the same to the last event.
    pub fn is_equal(&self) -> bool {
        self.first_difference.is_none() && self.skipped == [0, 0]
    }

    /// Whether one goes on where the other ends, and nothing else is different.
    pub fn is_continued(&self) -> bool {
        self.first_difference.is_some_and(|sides| sides.contains(&None))
    }
}

/// Compares a device in two recordings.
pub fn compare(snapshots: [&Snapshot; 2], devices: [u32; 2]) -> EventsDiff {
    let [first, second] = [0, 1].map(|side| events(snapshots[side], devices[side]));
    let requests = |events: &[Event]| events.iter().copied().filter(Event::is_request).collect::<Vec<_>>();
    EventsDiff {
        requests: StreamDiff::new(&renumbered(&requests(&first)), &renumbered(&requests(&second))),
        events: StreamDiff::new(&first, &second),
    }
}

fn events(snapshot: &Snapshot, device: u32) -> Vec<Event> {
    let Some(trace) = snapshot.trace(device) else { return Vec::new() };
    let mut streams = Streams(HashMap::new());
    let rows = trace.ids().zip(trace.actions()).zip(trace.sizes_bytes().iter().zip(trace.streams()));
    rows.filter(|((_, action), _)| **action != Action::SNAPSHOT)
        .map(|((entry, &action), (&size_bytes, &stream))| Event {
            entry,
            action,
            size_bytes,
            stream: streams.number(stream),
        })
        .collect()
}

/// Streams by first use.
struct Streams<T>(HashMap<T, usize>);

impl<T: std::hash::Hash + Eq> Streams<T> {
    fn number(&mut self, stream: T) -> usize {
        let next = self.0.len();
        *self.0.entry(stream).or_insert(next)
    }
}

/// The events with their streams numbered as if nothing had been before.
fn renumbered(events: &[Event]) -> Vec<Event> {
    let mut streams = Streams(HashMap::new());
    events.iter().map(|&event| Event { stream: streams.number(event.stream), ..event }).collect()
}

impl StreamDiff {
    fn new(first: &[Event], second: &[Event]) -> Self {
        let plain = Self::from(first, second, [0, 0]);
        if plain.equal >= EARLY || plain.first_difference.is_none() {
            return plain;
        }
        let later = places(second, first).map(|place| Self::from(first, second, [0, place]));
        let earlier = places(first, second).map(|place| Self::from(first, second, [place, 0]));
        let best = later.chain(earlier).max_by_key(|diff| diff.equal);
        best.filter(|best| best.equal > plain.equal).unwrap_or(plain)
    }

    fn from(first: &[Event], second: &[Event], skipped: [usize; 2]) -> Self {
        let counts = [first.len(), second.len()];
        let [first, second] = [(first, skipped[0]), (second, skipped[1])].map(|(events, at)| match at {
            0 => events.to_vec(),
            _ => renumbered(&events[at..]),
        });
        let equal = first.iter().zip(&second).take_while(|(a, b)| a.is_like(b)).count();
        let sides = [first.get(equal).copied(), second.get(equal).copied()];
        let first_difference = (sides != [None, None]).then_some(sides);
        Self { counts, skipped, equal, first_difference }
    }
}

/// Where in a list another may begin: the places at which its first events, streams apart, are found.
fn places<'a>(events: &'a [Event], wanted: &'a [Event]) -> impl Iterator<Item = usize> + 'a {
    let sample = &wanted[..wanted.len().min(SAMPLE)];
    let like = |a: &Event, b: &Event| (a.action, a.size_bytes) == (b.action, b.size_bytes);
    let found = move |window: &[Event]| window.iter().zip(sample).all(|(a, b)| like(a, b));
    let enough = sample.len() >= EARLY;
    let windows = events.windows(sample.len().max(1)).enumerate().skip(1);
    windows.filter(move |(_, window)| enough && found(window)).map(|(place, _)| place).take(PLACES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(sizes: impl IntoIterator<Item = u64>) -> Vec<Event> {
        let event = |(entry, size_bytes): (u32, u64)| Event {
            entry: EntryId::new(entry),
            action: Action::ALLOC,
            size_bytes,
            stream: usize::from(size_bytes % 7 == 0),
        };
        renumbered(&(0..).zip(sizes).map(event).collect::<Vec<_>>())
    }

    #[test]
    fn equal_lists_are_equal_and_one_that_goes_on_is_said() {
        let diff = StreamDiff::new(&list(0..100), &list(0..100));
        assert!(diff.is_equal() && diff.equal == 100);
        let diff = StreamDiff::new(&list(0..100), &list(0..120));
        assert!(!diff.is_equal() && diff.is_continued());
        assert_eq!(diff.first_difference.map(|sides| sides[1].map(|event| event.size_bytes)), Some(Some(100)));
    }

    #[test]
    fn the_first_difference_is_found() {
        let mut other: Vec<u64> = (0..100).collect();
        other[80] = 5;
        let diff = StreamDiff::new(&list(0..100), &list(other));
        assert_eq!((diff.equal, diff.skipped, diff.is_continued()), (80, [0, 0], false));
    }

    #[test]
    fn a_recording_that_begins_late_is_laid_beside_where_it_begins() {
        // The streams of the later one are numbered from there.
        let diff = StreamDiff::new(&list(500..1500), &list(0..1600));
        assert_eq!((diff.skipped, diff.equal), ([0, 500], 1000));
        assert!(!diff.is_equal() && diff.is_continued());
        let diff = StreamDiff::new(&list(0..1600), &list(500..1600));
        assert_eq!((diff.skipped, diff.equal, diff.first_difference), ([500, 0], 1100, None));
    }

    #[test]
    fn nothing_is_compared_with_nothing() {
        assert!(StreamDiff::new(&[], &[]).is_equal());
        assert_eq!(StreamDiff::new(&list(0..3), &[]).equal, 0);
    }
}
