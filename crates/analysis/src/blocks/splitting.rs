//! Whether the allocator cuts a block to size: the settings say, and what the file shows of its pools.

use highwater_allocator::Settings;
use highwater_allocator::sizes::{MIN_BLOCK_BYTES, SMALL_MAX_BYTES};
use highwater_snapshot::{Action, Block, EntryTable, PoolId, Segment, Snapshot};
use rustc_hash::FxHashMap;

use super::map::{Piece, Splitting};

/// What becomes of a free block that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The request gets its rounded size, the rest stays free.
    ToSize,
    /// The request gets all of it.
    Whole,
    /// One or the other: expandable segments may have been on or off.
    Unknown,
    /// One or the other: nothing tells whether the pool cuts its blocks.
    UnknownPool,
}

/// The rules of a recording.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    pub(super) settings: &'a Settings,
    /// Expandable segments were on at times: a request may have been served by their rule from any segment.
    sometimes_expandable: bool,
    /// User pools that the dump tells of.
    pools: FxHashMap<PoolId, Splitting>,
    /// Entries that reserved a segment of a user pool, where entries do not name pools (before torch 2.12).
    reserved_by: FxHashMap<u32, PoolId>,
    is_user_pool: Vec<bool>,
}

impl<'a> Rules<'a> {
    pub(super) fn new(
        snapshot: &Snapshot,
        entries: &EntryTable,
        segments: &[&Segment],
        settings: &'a Settings,
    ) -> Self {
        let actions = entries.actions();
        let maps = |action: &Action| matches!(*action, Action::SEGMENT_MAP | Action::SEGMENT_UNMAP);
        let sometimes_expandable = actions.iter().any(maps)
            || segments.iter().any(|segment| segment.is_expandable)
            || (settings.expandable_segments && !actions.contains(&Action::SEGMENT_ALLOC));
        // PyTorch numbers pools that the program makes in the second place, those of graphs in the first.
        let is_user_pool: Vec<bool> = snapshot.pools.iter().map(|&(graph, user)| graph == 0 && user > 0).collect();
        let mut rules = Self {
            settings,
            sometimes_expandable,
            pools: FxHashMap::default(),
            reserved_by: FxHashMap::default(),
            is_user_pool,
        };
        if rules.is_user_pool.contains(&true) {
            rules.look_at_pools(snapshot, entries, segments);
        }
        rules
    }

    fn is_user_pool(&self, pool: PoolId) -> bool {
        pool != PoolId::MISSING && self.is_user_pool.get(pool.index()) == Some(&true)
    }

    fn look_at_pools(&mut self, snapshot: &Snapshot, entries: &EntryTable, segments: &[&Segment]) {
        let mut starts: FxHashMap<u64, PoolId> = FxHashMap::default();
        for segment in segments {
            if !self.is_user_pool(segment.pool) {
                continue;
            }
            starts.insert(segment.address, segment.pool);
            if let Some(seen) = self.seen_in(segment, snapshot.blocks_of(segment)) {
                self.pools.insert(segment.pool, seen);
            }
        }
        // The last reservation of an address is the one that is there at the dump.
        let mut last: FxHashMap<u64, u32> = FxHashMap::default();
        for (row, (&action, address)) in entries.actions().iter().zip(entries.addresses()).enumerate() {
            if matches!(action, Action::SEGMENT_ALLOC | Action::SEGMENT_MAP) && starts.contains_key(address) {
                last.insert(*address, crate::lifetime::number(row));
            }
        }
        self.reserved_by = last.into_iter().map(|(address, row)| (row, starts[&address])).collect();
    }

    /// What the blocks of a segment show of their pool.
    fn seen_in(&self, segment: &Segment, blocks: &[Block]) -> Option<Splitting> {
        let is_uncut = |block: &&Block| {
            let rounded = self.settings.round(block.requested_bytes);
            block.state.is_active() && self.cuts_by_size(segment.is_expandable, rounded, block.size_bytes)
        };
        if blocks.iter().any(|block| is_uncut(&block)) {
            Some(Splitting::Never)
        } else {
            (blocks.len() > 1 && !segment.is_expandable).then_some(Splitting::Always)
        }
    }

    /// The rule of sizes alone.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 7.
    fn cuts_by_size(&self, is_expandable: bool, rounded: u64, whole: u64) -> bool {
        let rest = whole.saturating_sub(rounded);
        if rounded <= SMALL_MAX_BYTES || is_expandable {
            rest >= MIN_BLOCK_BYTES
        } else {
            rounded < self.settings.max_split_bytes && rest > SMALL_MAX_BYTES
        }
    }

    /// Whether a free block is cut for a request of this rounded size.
    #[inline]
    pub(super) fn cut(&self, piece: &Piece, rounded: u64) -> Cut {
        let kind = piece.kind;
        let splitting = if kind.splitting == Splitting::Unknown { self.seen(kind.pool) } else { kind.splitting };
        if piece.size <= rounded || splitting == Splitting::Never {
            return Cut::Whole;
        }
        let cuts = self.cuts_by_size(kind.is_expandable, rounded, piece.size);
        if self.sometimes_expandable && !cuts && !kind.is_expandable && self.cuts_by_size(true, rounded, piece.size) {
            return Cut::Unknown;
        }
        match (cuts, splitting) {
            (true, Splitting::Unknown) => Cut::UnknownPool,
            (true, _) => Cut::ToSize,
            (false, _) => Cut::Whole,
        }
    }

    /// How much larger than its rounded size a block may be that was handed out before the recording.
    pub(super) fn slack(&self, is_expandable: bool, splitting: Splitting, rounded: u64) -> u64 {
        if splitting != Splitting::Always {
            u64::MAX
        } else if rounded <= SMALL_MAX_BYTES || is_expandable {
            0
        } else if rounded >= self.settings.max_split_bytes {
            self.settings.max_non_split_rounding_bytes
        } else {
            SMALL_MAX_BYTES
        }
    }

    /// The pool of the memory that an entry reserved: what the entry says, or else what the dump tells.
    pub(super) fn pool(&self, recorded: PoolId, row: u32) -> PoolId {
        if recorded != PoolId::MISSING {
            return recorded;
        }
        self.reserved_by.get(&row).copied().unwrap_or(recorded)
    }

    /// Whether a pool cuts its blocks.
    pub(super) fn splitting(&self, pool: PoolId) -> Splitting {
        if self.is_user_pool(pool) { self.seen(pool) } else { Splitting::Always }
    }

    /// What was seen of a user pool so far.
    pub(super) fn seen(&self, pool: PoolId) -> Splitting {
        self.pools.get(&pool).copied().unwrap_or(Splitting::Unknown)
    }

    /// A block of this pool was cut.
    pub(super) fn see_cut(&mut self, pool: PoolId) {
        self.pools.entry(pool).or_insert(Splitting::Always);
    }
}
