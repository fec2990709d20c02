//! Lifetimes: each use of an address, from its `alloc` to its `free_completed`.

use hashbrown::HashMap;
use highwater_snapshot::{
    Action, Block, BlockState, EntryId, EntryTable, Place, PoolId, Segment, StackId, StreamId, Warnings,
};

/// Stands for "not in the trace".
const NEVER: u32 = u32::MAX;

/// One use of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// First byte of the block.
    pub address: u64,
    /// Requested bytes.
    pub requested_bytes: u64,
    /// The stack of the allocation. Where the `alloc` was not recorded: that of the block at the dump, or that of the
    /// free.
    pub stack: StackId,
    /// The stream it belongs to.
    pub stream: StreamId,
    /// The pool, where the file says.
    pub pool: PoolId,
    alloc: u32,
    free_requested: u32,
    free_completed: u32,
    block: u32,
    /// Its owner freed it before the first entry.
    requested_before: bool,
}

impl Lifetime {
    /// The entry that allocated it; `None` if that came before the first recorded entry.
    pub fn alloc(&self) -> Option<EntryId> {
        (self.alloc != NEVER).then(|| EntryId::new(self.alloc))
    }

    /// The entry in which its owner freed it; `None` if it did not, or before the first entry.
    pub fn free_requested(&self) -> Option<EntryId> {
        (self.free_requested != NEVER).then(|| EntryId::new(self.free_requested))
    }

    /// The entry in which it returned to its pool; `None` if it is active at the dump.
    pub fn free_completed(&self) -> Option<EntryId> {
        (self.free_completed != NEVER).then(|| EntryId::new(self.free_completed))
    }

    /// The row of [`Snapshot::blocks`](highwater_snapshot::Snapshot::blocks) that it is at the dump: there its rounded
    /// size is known.
    pub fn block(&self) -> Option<usize> {
        (self.block != NEVER).then_some(self.block as usize)
    }

    /// Whether it is active after `entry`.
    #[inline]
    pub fn is_live_after(&self, entry: EntryId) -> bool {
        (self.alloc == NEVER || self.alloc <= entry.get()) && entry.get() < self.free_completed
    }

    /// Whether it is active before the first entry.
    pub fn is_live_at_start(&self) -> bool {
        self.alloc == NEVER
    }

    /// Whether before the first entry it was freed by its owner and not yet returned to its pool.
    pub fn awaits_free_at_start(&self) -> bool {
        self.alloc == NEVER && self.requested_before
    }

    /// Whether it is freed by its owner and not yet returned to its pool after `entry`, or before the first for `None`.
    pub fn awaits_free(&self, after: Option<EntryId>) -> bool {
        after.map_or_else(|| self.awaits_free_at_start(), |entry| self.awaits_free_after(entry))
    }

    /// Whether after `entry` it is freed by its owner and not yet returned to its pool.
    pub fn awaits_free_after(&self, entry: EntryId) -> bool {
        self.is_live_after(entry) && (self.requested_before || self.free_requested <= entry.get())
    }
}

/// The lifetimes of one device.
#[derive(Clone, Debug, Default)]
pub struct Lifetimes {
    /// First those that began before the recording, then one for each `alloc`, in order of entries.
    pub rows: Vec<Lifetime>,
    /// How many of the rows began before the recording.
    pub before_recording: usize,
    /// Entries that end a lifetime without being its `free_completed`, with the bytes that end there: where frees were
    /// not recorded (`skip_actions`).
    pub unrecorded_ends: Vec<(u32, u64)>,
    /// `alloc` and `free_completed` entries that are not what they seem and change no total.
    pub void_entries: Vec<u32>,
}

impl Lifetimes {
    /// Those that began before the first recorded entry.
    pub fn at_start(&self) -> &[Lifetime] {
        &self.rows[..self.before_recording]
    }

    /// Those that are active after `entry`, in order.
    pub fn live_after(&self, entry: EntryId) -> impl Iterator<Item = &Lifetime> {
        self.rows.iter().filter(move |lifetime| lifetime.is_live_after(entry))
    }
}

/// The blocks of a device at the dump, as rows of the snapshot's block table.
pub(crate) struct FinalBlocks<'a> {
    pub(crate) segments: &'a [&'a Segment],
    pub(crate) blocks: &'a [Block],
}

/// Pairs each `alloc` with the entries that end it, and finds what was there before.
///
/// A free of an address that nothing allocated, and a block at the dump that nothing allocated, began before the first
/// entry: the same state that undoing all entries from the dump backwards gives.
///
/// `last` is the state at the dump; `None` if the trace does not lead there (the file was cut).
pub(crate) fn pair(
    entries: &EntryTable,
    last: Option<&FinalBlocks<'_>>,
    device: u32,
    warnings: &mut Warnings,
) -> Lifetimes {
    let mut pairing = Pairing::new(entries, device);
    for row in 0..pairing.actions.len() {
        match pairing.actions[row] {
            Action::ALLOC => pairing.alloc(row, warnings),
            Action::FREE_REQUESTED => pairing.free_requested(row, warnings),
            Action::FREE_COMPLETED => pairing.free_completed(row),
            _ => {}
        }
    }
    if let Some(last) = last {
        pairing.match_blocks(last, warnings);
    }
    pairing.finish()
}

struct Pairing<'a> {
    entries: &'a EntryTable,
    actions: &'a [Action],
    addresses: &'a [u64],
    sizes: &'a [u64],
    device: u32,
    /// Lifetimes that began in the trace.
    traced: Vec<Lifetime>,
    /// Lifetimes that began before it.
    before: Vec<Lifetime>,
    /// What is active, by address. The hash is seeded: a file chooses its addresses.
    open: HashMap<u64, Slot>,
    unrecorded_ends: Vec<(u32, u64)>,
    void_entries: Vec<u32>,
}

#[derive(Clone, Copy)]
enum Slot {
    Traced(u32),
    Before(u32),
}

impl<'a> Pairing<'a> {
    fn new(entries: &'a EntryTable, device: u32) -> Self {
        let actions = entries.actions();
        Self {
            entries,
            actions,
            addresses: entries.addresses(),
            sizes: entries.sizes_bytes(),
            device,
            traced: Vec::with_capacity(actions.iter().filter(|&&action| action == Action::ALLOC).count()),
            before: Vec::new(),
            open: HashMap::default(),
            unrecorded_ends: Vec::new(),
            void_entries: Vec::new(),
        }
    }

    fn lifetime(&mut self, slot: Slot) -> &mut Lifetime {
        match slot {
            Slot::Traced(row) => &mut self.traced[row as usize],
            Slot::Before(row) => &mut self.before[row as usize],
        }
    }

    /// A lifetime of which this entry is the first to tell.
    fn of_entry(&self, row: usize) -> Lifetime {
        Lifetime {
            address: self.addresses[row],
            requested_bytes: self.sizes[row],
            stack: self.entries.stacks()[row],
            stream: self.entries.streams()[row],
            pool: self.entries.pools().get(row),
            alloc: NEVER,
            free_requested: NEVER,
            free_completed: NEVER,
            block: NEVER,
            requested_before: false,
        }
    }

    fn alloc(&mut self, row: usize, warnings: &mut Warnings) {
        let id = number(row);
        let lifetime = Lifetime { alloc: id, ..self.of_entry(row) };
        let slot = Slot::Traced(number(self.traced.len()));
        self.traced.push(lifetime);
        if let Some(previous) = self.open.insert(lifetime.address, slot) {
            self.end_unrecorded(previous, id);
            warnings.add(
                "missing-free",
                "an address is allocated again, but no completed free of it was recorded (`skip_actions`?)",
                Place::entry(self.device, id),
            );
        }
    }

    fn free_requested(&mut self, row: usize, warnings: &mut Warnings) {
        let id = number(row);
        match self.open.get(&self.addresses[row]) {
            Some(&slot) => {
                let lifetime = self.lifetime(slot);
                if lifetime.free_requested == NEVER {
                    lifetime.free_requested = id;
                } else {
                    warnings.add(
                        "freed-twice",
                        "an address is freed twice with no allocation between; the first free counts",
                        Place::entry(self.device, id),
                    );
                }
            }
            None => {
                let lifetime = Lifetime { free_requested: id, ..self.of_entry(row) };
                let slot = Slot::Before(number(self.before.len()));
                self.before.push(lifetime);
                self.open.insert(lifetime.address, slot);
            }
        }
    }

    fn free_completed(&mut self, row: usize) {
        let id = number(row);
        match self.open.remove(&self.addresses[row]) {
            Some(slot) => {
                let recorded = self.sizes[row];
                let lifetime = self.lifetime(slot);
                lifetime.free_completed = id;
                if lifetime.requested_bytes != recorded {
                    // The lifetime's own size is what the totals gained, so it is what they lose.
                    let bytes = lifetime.requested_bytes;
                    self.void_entries.push(id);
                    self.unrecorded_ends.push((id, bytes));
                }
            }
            None => {
                let lifetime = self.of_entry(row);
                self.before.push(Lifetime { free_completed: id, requested_before: true, ..lifetime });
            }
        }
    }

    /// Finds the lifetime of each active block at the dump, and ends those that have none there.
    fn match_blocks(&mut self, last: &FinalBlocks<'_>, warnings: &mut Warnings) {
        for segment in last.segments {
            for row in segment.block_rows() {
                let block = &last.blocks[row];
                if block.state.is_active() {
                    self.match_block(segment, block, number(row));
                }
            }
        }
        let mut ended: Vec<Slot> = std::mem::take(&mut self.open).into_values().collect();
        ended.sort_unstable_by_key(|slot| match *slot {
            Slot::Before(row) => (0, row),
            Slot::Traced(row) => (1, row),
        });
        let end = number(self.actions.len().saturating_sub(1));
        for slot in ended {
            self.end_unrecorded(slot, end);
            warnings.add(
                "missing-free",
                "allocations are gone at the dump, but no completed free of them was recorded (`skip_actions`?)",
                Place::entry(self.device, end),
            );
        }
    }

    fn match_block(&mut self, segment: &Segment, block: &Block, row: u32) {
        match self.open.remove(&block.address) {
            Some(slot) => {
                let lifetime = self.lifetime(slot);
                lifetime.block = row;
                lifetime.pool = segment.pool;
                if lifetime.alloc == NEVER {
                    lifetime.stack = block.stack;
                }
            }
            None => self.before.push(Lifetime {
                address: block.address,
                requested_bytes: block.requested_bytes,
                stack: block.stack,
                stream: segment.stream,
                pool: segment.pool,
                alloc: NEVER,
                free_requested: NEVER,
                free_completed: NEVER,
                block: row,
                requested_before: block.state == BlockState::ActiveAwaitingFree,
            }),
        }
    }

    /// Ends a lifetime whose `free_completed` is missing: where its free was requested, else at `latest`.
    fn end_unrecorded(&mut self, slot: Slot, latest: u32) {
        let lifetime = self.lifetime(slot);
        let end = lifetime.free_requested.min(latest);
        lifetime.free_completed = end;
        let bytes = lifetime.requested_bytes;
        self.unrecorded_ends.push((end, bytes));
    }

    fn finish(mut self) -> Lifetimes {
        let before_recording = self.before.len();
        let mut rows = self.before;
        if rows.is_empty() {
            rows = self.traced;
        } else {
            rows.append(&mut self.traced);
        }
        self.unrecorded_ends.sort_unstable();
        Lifetimes { rows, before_recording, unrecorded_ends: self.unrecorded_ends, void_entries: self.void_entries }
    }
}

/// A row or a count of rows: tables stay below 2^28 rows, the reader's limit.
pub fn number(row: usize) -> u32 {
    u32::try_from(row).expect("tables stay below 2^32 rows")
}
