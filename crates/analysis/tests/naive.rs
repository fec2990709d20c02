//! The fast answers against slow and simple ones, on random traces: whole, wrapped, and contradicting themselves.

use std::collections::BTreeMap;

use highwater_analysis::analyse;
use highwater_analysis::lifetime::Lifetime;
use highwater_snapshot::{
    Action, Block, BlockState, Entry, EntryId, EntryTable, PoolId, Segment, SegmentType, Snapshot, StackId, StreamId,
    StringId,
};
use proptest::prelude::*;

/// A program's request, with numbers that choose among what is there.
#[derive(Clone, Copy, Debug)]
enum Request {
    Reserve(u64),
    Release(usize),
    Alloc(usize, u64),
    Free(usize),
    Complete(usize),
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one = prop_oneof![
        2 => (1..8_u64).prop_map(Request::Reserve),
        1 => any::<usize>().prop_map(Request::Release),
        6 => (any::<usize>(), 1..600_u64).prop_map(|(slot, bytes)| Request::Alloc(slot, bytes)),
        4 => any::<usize>().prop_map(Request::Free),
        4 => any::<usize>().prop_map(Request::Complete),
    ];
    prop::collection::vec(one, 1..300)
}

/// Bytes of a slot: segments are cut into slots of one block each.
const SLOT: u64 = 1024;

/// The state of a simple allocator: what it reserved, and the block in each slot.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    /// Slots of each segment, by address.
    segments: BTreeMap<u64, u64>,
    /// (requested bytes, freed by its owner) of each block, by address.
    blocks: BTreeMap<u64, (u64, bool)>,
}

impl State {
    fn requested(&self) -> u64 {
        self.blocks.values().map(|&(bytes, _)| bytes).sum()
    }

    fn reserved(&self) -> u64 {
        self.segments.values().map(|slots| slots * SLOT).sum()
    }

    fn free_slots(&self) -> Vec<u64> {
        let slots = self.segments.iter().flat_map(|(&start, &count)| (0..count).map(move |i| start + i * SLOT));
        slots.filter(|slot| !self.blocks.contains_key(slot)).collect()
    }
}

/// A run of the simple allocator: every entry, and the state after it.
fn simulate(requests: &[Request]) -> (EntryTable, Vec<State>) {
    let mut entries = EntryTable::default();
    let mut state = State::default();
    let mut states = Vec::new();
    let mut next_address = SLOT;
    let pick = |choices: &[u64], with: usize| choices.get(with % choices.len().max(1)).copied();
    for &request in requests {
        let (action, address, bytes) = match request {
            Request::Reserve(slots) => {
                // Freed addresses come back now and then.
                let start = if slots % 3 == 0 && state.segments.is_empty() { SLOT } else { next_address };
                next_address = next_address.max(start + slots * SLOT);
                state.segments.insert(start, slots);
                (Action::SEGMENT_ALLOC, start, slots * SLOT)
            }
            Request::Release(with) => {
                let empty = |start: u64, slots: u64| state.blocks.range(start..start + slots * SLOT).next().is_none();
                let choices: Vec<_> =
                    state.segments.iter().filter(|&(&s, &n)| empty(s, n)).map(|(&start, _)| start).collect();
                let Some(start) = pick(&choices, with) else { continue };
                let slots = state.segments.remove(&start).unwrap();
                (Action::SEGMENT_FREE, start, slots * SLOT)
            }
            Request::Alloc(with, bytes) => {
                let Some(slot) = pick(&state.free_slots(), with) else { continue };
                state.blocks.insert(slot, (bytes, false));
                (Action::ALLOC, slot, bytes)
            }
            Request::Free(with) => {
                let choices: Vec<_> = state.blocks.iter().filter(|(_, b)| !b.1).map(|(&slot, _)| slot).collect();
                let Some(slot) = pick(&choices, with) else { continue };
                let block = state.blocks.get_mut(&slot).unwrap();
                block.1 = true;
                (Action::FREE_REQUESTED, slot, block.0)
            }
            Request::Complete(with) => {
                let choices: Vec<_> = state.blocks.iter().filter(|(_, b)| b.1).map(|(&slot, _)| slot).collect();
                let Some(slot) = pick(&choices, with) else { continue };
                let (bytes, _) = state.blocks.remove(&slot).unwrap();
                (Action::FREE_COMPLETED, slot, bytes)
            }
        };
        entries.push(entry(action, address, bytes));
        states.push(state.clone());
    }
    (entries, states)
}

fn entry(action: Action, address: u64, size_bytes: u64) -> Entry {
    Entry {
        action,
        address,
        size_bytes,
        stream: StreamId::DEFAULT,
        time_us: None,
        stack: StackId::MISSING,
        pool: PoolId::MISSING,
        compile_context: StringId::MISSING,
        user_metadata: StringId::MISSING,
        category: StringId::MISSING,
    }
}

/// The snapshot of a state, with the entries from `skip` on.
fn snapshot(entries: &EntryTable, skip: usize, state: &State) -> Snapshot {
    let mut snapshot = Snapshot::empty();
    let mut kept = EntryTable::default();
    entries.ids().skip(skip).for_each(|id| kept.push(entries.get(id)));
    snapshot.traces.push(kept);
    for (&address, &slots) in &state.segments {
        let first = snapshot.blocks.len();
        for i in 0..slots {
            let address = address + i * SLOT;
            let (requested_bytes, block_state) = match state.blocks.get(&address) {
                Some(&(bytes, false)) => (bytes, BlockState::ActiveAllocated),
                Some(&(bytes, true)) => (bytes, BlockState::ActiveAwaitingFree),
                None => (0, BlockState::Inactive),
            };
            snapshot.blocks.push(Block {
                address,
                size_bytes: SLOT,
                requested_bytes,
                state: block_state,
                stack: StackId::EMPTY,
            });
        }
        snapshot.segments.push(Segment {
            device: 0,
            address,
            total_bytes: slots * SLOT,
            stream: StreamId::DEFAULT,
            segment_type: SegmentType::Small,
            pool: PoolId::DEFAULT,
            is_expandable: false,
            stack: StackId::EMPTY,
            blocks: u32::try_from(first).unwrap()..u32::try_from(snapshot.blocks.len()).unwrap(),
        });
    }
    snapshot
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn totals_lifetimes_and_the_state_before_equal_a_replay(requests in requests(), share in 0.0..1.0_f64) {
        let (entries, states) = simulate(&requests);
        prop_assume!(!entries.is_empty());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "small")]
        let skip = (share * entries.len() as f64) as usize;
        let before = if skip == 0 { State::default() } else { states[skip - 1].clone() };
        let kept = &states[skip..];
        let snapshot = snapshot(&entries, skip, states.last().unwrap());
        let analysis = analyse(&snapshot);
        let Some(device) = analysis.devices.first() else {
            prop_assert!(kept.is_empty() && before.segments.is_empty());
            return Ok(());
        };
        // The simple allocator cuts memory into slots, PyTorch's to size.
        prop_assert!(analysis.warnings.iter().all(|warning| warning.id == "block-sizes"), "{:?}", analysis.warnings);

        // Before the first entry.
        prop_assert_eq!(device.timeline.start().requested_bytes, before.requested());
        prop_assert_eq!(device.timeline.start().reserved_bytes, before.reserved());
        let runs: BTreeMap<u64, u64> = device.segments_before.iter().map(|run| (run.address, run.bytes / SLOT)).collect();
        prop_assert_eq!(&runs, &before.segments);
        let live: BTreeMap<u64, (u64, bool)> = device
            .live(None)
            .map(|l| (l.address, (l.requested_bytes, l.awaits_free_at_start())))
            .collect();
        prop_assert_eq!(&live, &before.blocks);
        prop_assert_eq!(device.recorded.from_start, before == State::default());

        // After each entry.
        for (row, state) in kept.iter().enumerate() {
            let id = EntryId::from_index(row);
            let totals = device.timeline.after(id);
            prop_assert_eq!(totals.requested_bytes, state.requested());
            prop_assert_eq!(totals.reserved_bytes, state.reserved());
            let live: BTreeMap<u64, (u64, bool)> =
                device.live(Some(id)).map(|l| (l.address, (l.requested_bytes, l.awaits_free_after(id)))).collect();
            prop_assert_eq!(&live, &state.blocks);
        }
        let walked: Vec<_> = device.timeline.iter(0..kept.len()).map(|(_, totals)| totals.requested_bytes).collect();
        let want: Vec<_> = kept.iter().map(State::requested).collect();
        prop_assert_eq!(&walked, &want);

        // The peaks.
        let highest = want.iter().copied().chain([before.requested()]).max().unwrap();
        prop_assert_eq!(device.timeline.requested_peak().bytes, highest);
        let reserved = kept.iter().map(State::reserved).chain([before.reserved()]).max().unwrap();
        prop_assert_eq!(device.timeline.reserved_peak().bytes, reserved);
        if let Some(entry) = device.timeline.requested_peak().entry {
            prop_assert_eq!(want.iter().position(|&bytes| bytes == highest), Some(entry.index()));
        }
        let envelope = device.timeline.envelope(7);
        prop_assert_eq!(envelope.iter().map(|t| t.requested_bytes).max(), want.iter().copied().max());
    }

    /// Any entries over any segments: the totals are those of the lifetimes, and nothing panics.
    #[test]
    fn contradictions_are_warnings(rows in prop::collection::vec((0..9_u8, 0..6_u64, 0..3_u64), 0..200)) {
        let names = Action::NAMES;
        let mut entries = EntryTable::default();
        for &(action, address, size) in &rows {
            let action = Action::from_name(names[usize::from(action)]).unwrap();
            entries.push(entry(action, address * SLOT, size * 512));
        }
        let state = State {
            segments: BTreeMap::from([(0, 3)]),
            blocks: BTreeMap::from([(0, (700, false)), (SLOT, (512, true))]),
        };
        let snapshot = snapshot(&entries, 0, &state);
        let analysis = analyse(&snapshot);
        let device = &analysis.devices[0];
        for id in entries.ids() {
            let (after, size) = (Some(id), |l: &Lifetime| device.blocks().of(l, &snapshot));
            let totals = device.timeline.after(id);
            prop_assert_eq!(totals.requested_bytes, device.live(after).map(|l| l.requested_bytes).sum::<u64>());
            prop_assert_eq!(totals.active_bytes, device.live(after).map(size).sum::<u64>());
            let owned = device.live(after).filter(|l| !l.awaits_free(after));
            prop_assert_eq!(totals.allocated_bytes, owned.map(size).sum::<u64>());
        }
        let report = highwater_analysis::view::report(&analysis);
        prop_assert!(serde_json::to_string(&report).is_ok());
    }
}
