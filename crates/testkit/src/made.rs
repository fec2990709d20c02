//! Snapshots of random programs on a simple allocator.

use std::collections::BTreeMap;

use highwater_snapshot::{
    Action, Block, BlockState, EntryTable, PoolId, Segment, SegmentType, Snapshot, StackId, StreamId,
};
use proptest::prelude::*;

use crate::entry;

/// A program's request, with numbers that choose among what is there.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    /// A segment of so many slots.
    Reserve(u64),
    /// One of the empty segments goes back.
    Release(usize),
    /// So many bytes in one of the free slots.
    Alloc(usize, u64),
    /// One of the blocks is freed by its owner.
    Free(usize),
    /// One of those becomes free for others.
    Complete(usize),
}

/// Random programs.
pub fn requests() -> impl Strategy<Value = Vec<Request>> {
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
pub const SLOT: u64 = 1024;

/// The state of a simple allocator: what it reserved, and the block in each slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Slots of each segment, by address.
    pub segments: BTreeMap<u64, u64>,
    /// (requested bytes, freed by its owner) of each block, by address.
    pub blocks: BTreeMap<u64, (u64, bool)>,
}

impl State {
    /// Requested bytes of all blocks.
    pub fn requested_bytes(&self) -> u64 {
        self.blocks.values().map(|&(bytes, _)| bytes).sum()
    }

    /// Bytes of all segments.
    pub fn reserved_bytes(&self) -> u64 {
        self.segments.values().map(|slots| slots * SLOT).sum()
    }

    fn free_slots(&self) -> Vec<u64> {
        let slots = self.segments.iter().flat_map(|(&start, &count)| (0..count).map(move |i| start + i * SLOT));
        slots.filter(|slot| !self.blocks.contains_key(slot)).collect()
    }
}

/// A run of the simple allocator: every entry, and the state after it.
pub fn simulate(requests: &[Request]) -> (EntryTable, Vec<State>) {
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

/// The snapshot of a state, with the entries from `skip` on.
pub fn snapshot(entries: &EntryTable, skip: usize, state: &State) -> Snapshot {
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
