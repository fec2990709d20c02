//! The sizes of blocks: a trace records what was asked for, not what was handed out.
//!
//! The recording is followed, not predicted: its entries say where memory was reserved and which free block each request
//! took, so whatever led the allocator there (version, pools, limits, streams, garbage collection) needs no model. What is
//! left is local: a request gets its rounded size, or all of the free block it took, by one rule of sizes; a free block
//! is one with its free neighbours.

mod before;
mod follow;
mod map;
mod splitting;

use highwater_allocator::{Settings, TorchVersion};
use highwater_snapshot::{EntryId, EntryTable, Snapshot};

pub(crate) use follow::{Observer, Recording, follow};

use crate::lifetime::Lifetime;
use crate::recorded_settings::recorded_settings;
use highwater_units::{count, counted};

/// How far the sizes of blocks are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// To the byte.
    Exact,
    /// Some blocks lie between two sizes.
    Bounds,
    /// The recording does not fit together: the sizes are those of the rounding rule where nothing better is known.
    Estimate,
}

impl Knowledge {
    /// The word in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Bounds => "bounds",
            Self::Estimate => "estimate",
        }
    }
}

/// The size of every block of a recording.
///
/// Kept for each entry about a block: 8 bytes an entry.
///
/// # Examples
/// ```
/// use highwater_analysis::blocks::Knowledge;
/// use highwater_snapshot::Snapshot;
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/recordings/linear_forward.pickle.gz");
/// let snapshot = Snapshot::open(path)?;
/// let device = &highwater_analysis::analyse(&snapshot).devices[0];
/// assert_eq!(device.blocks().knowledge(), Knowledge::Exact);
///
/// // 200,000 bytes were asked for, in the small pool: the next multiple of 512 was handed out.
/// let bias = device.lifetimes.rows.iter().find(|lifetime| lifetime.requested_bytes == 200_000).expect("the bias");
/// assert_eq!(device.blocks().of(bias, &snapshot), 200_192);
/// # Ok::<(), highwater_snapshot::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BlockSizes {
    /// Of the block that an `alloc`, `free_requested` or `free_completed` entry is about; 0 for other entries, and for
    /// those that change nothing (a second free).
    by_entry: Vec<u64>,
    /// How much larger a block may be, by the entries about it, in ascending order.
    doubts: Vec<(u32, u64)>,
    /// Entries after which a block is no longer active though no `free_completed` says so, with its lifetime.
    pub(crate) unrecorded_ends: Vec<(u32, u32)>,
    /// `free_completed` entries of blocks whose `free_requested` was not recorded.
    pub(crate) unrequested: Vec<u32>,
    contradictions: u64,
    first_contradiction: Option<u32>,
}

impl BlockSizes {
    /// Those of a recording that gives the sizes of blocks, not of requests.
    pub(crate) fn as_recorded(entries: &EntryTable) -> Self {
        Self { by_entry: entries.sizes_bytes().to_vec(), ..Self::default() }
    }

    /// How far they are known.
    pub fn knowledge(&self) -> Knowledge {
        if self.contradictions > 0 {
            Knowledge::Estimate
        } else if self.doubts.is_empty() {
            Knowledge::Exact
        } else {
            Knowledge::Bounds
        }
    }

    /// Requests that the recording places where no free block begins, or that took more than it held, and blocks that are
    /// not so at the dump: settings that changed meanwhile, or entries that are missing.
    pub fn contradictions(&self) -> u64 {
        self.contradictions
    }

    /// The first entry that contradicts; `None` if only the dump does.
    pub fn first_contradiction(&self) -> Option<EntryId> {
        self.first_contradiction.map(EntryId::new)
    }

    /// Why they are not exact, as a fragment; `None` if they are.
    pub fn reason(&self) -> Option<String> {
        match self.knowledge() {
            Knowledge::Exact => None,
            Knowledge::Bounds => Some(
                "blocks from before the recording, or from an unknown pool, may be larger than their rounded \
                 requests"
                    .to_owned(),
            ),
            Knowledge::Estimate => {
                let times = counted(self.contradictions, "block is", "blocks are");
                let first = self
                    .first_contradiction
                    .map_or_else(String::new, |entry| format!(", first at entry {}", count(entry)));
                Some(format!("{times} not at the addresses that the last settings and the entries imply{first}"))
            }
        }
    }

    /// The bytes of a lifetime's block: the least, where two sizes are possible.
    pub fn of(&self, lifetime: &Lifetime, snapshot: &Snapshot) -> u64 {
        match (lifetime.block(), named_by(lifetime)) {
            (Some(row), _) => snapshot.blocks[row].size_bytes,
            (None, Some(entry)) => self.by_entry[entry.index()],
            (None, None) => 0,
        }
    }

    /// How many bytes more that block may have.
    pub fn doubt(&self, lifetime: &Lifetime) -> u64 {
        named_by(lifetime).map_or(0, |entry| self.doubt_at(entry.get()))
    }

    fn doubt_at(&self, entry: u32) -> u64 {
        let found = self.doubts.binary_search_by_key(&entry, |&(entry, _)| entry);
        found.map_or(0, |at| self.doubts[at].1)
    }

    /// One row for each entry.
    #[inline]
    pub(crate) fn by_entry(&self) -> &[u64] {
        &self.by_entry
    }

    /// How much larger the block of an entry may be, in ascending order of entries.
    pub(crate) fn doubts(&self) -> &[(u32, u64)] {
        &self.doubts
    }
}

/// The first entry that tells of a lifetime.
fn named_by(lifetime: &Lifetime) -> Option<EntryId> {
    lifetime.alloc().or(lifetime.free_requested()).or(lifetime.free_completed())
}

/// The settings by which a recording is followed: those recorded last, as the newest version reads them, which knows
/// every key. What versions read differently in a string, a file records as values.
pub fn followed_settings(snapshot: &Snapshot) -> Settings {
    recorded_settings(snapshot, TorchVersion::NEWEST)
}
