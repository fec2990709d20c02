//! One device's memory as it comes and goes, written down as the entries of a trace.

use hashbrown::HashMap;

use crate::decode::store::next_row;
use crate::entries::{Action, Entry, EntryTable};
use crate::error::ErrorKind;
use crate::limits::MAX_SIZES_SUM_BYTES;
use crate::{PoolId, StackId, StreamId, StringId};

/// The entries so far, and what is allocated after them.
///
/// Whatever it is told, the entries fit together: see [`Profile`](super::Profile).
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) table: EntryTable,
    /// The bytes at each address. The hash is seeded: a file chooses its addresses.
    live: HashMap<u64, u64>,
    /// All sizes so far.
    sizes_sum_bytes: u64,
}

/// When something happened, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) time_us: i64,
    pub(super) stack: StackId,
    pub(super) category: StringId,
}

/// What a change did not fit to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// An address was allocated that was not freed.
    NotFreed,
    /// As many bytes were freed as were not allocated.
    OtherSize,
    /// What was freed had not been allocated: it was there before.
    FromBefore,
}

impl Ledger {
    /// Memory was allocated.
    pub(super) fn alloc(&mut self, address: u64, bytes: u64, at: Moment) -> Result<Option<Misfit>, ErrorKind> {
        self.live.try_reserve(1).map_err(|_| ErrorKind::OutOfMemory)?;
        let misfit = match self.live.insert(address, bytes) {
            Some(held) => {
                self.push_free(address, held, at)?;
                Some(Misfit::NotFreed)
            }
            None => None,
        };
        self.push(Action::ALLOC, address, bytes, at)?;
        Ok(misfit)
    }

    /// Memory was freed.
    pub(super) fn free(&mut self, address: u64, bytes: u64, at: Moment) -> Result<Option<Misfit>, ErrorKind> {
        let held = self.live.remove(&address);
        self.push_free(address, held.unwrap_or(bytes), at)?;
        Ok(match held {
            None => Some(Misfit::FromBefore),
            Some(held) if held != bytes => Some(Misfit::OtherSize),
            Some(_) => None,
        })
    }

    fn push_free(&mut self, address: u64, bytes: u64, at: Moment) -> Result<(), ErrorKind> {
        self.push(Action::FREE_REQUESTED, address, bytes, at)?;
        self.push(Action::FREE_COMPLETED, address, bytes, at)
    }

    fn push(&mut self, action: Action, address: u64, size_bytes: u64, at: Moment) -> Result<(), ErrorKind> {
        next_row(self.table.len(), "the number of trace entries")?;
        self.sizes_sum_bytes = self.sizes_sum_bytes.saturating_add(size_bytes);
        if self.sizes_sum_bytes > MAX_SIZES_SUM_BYTES {
            return Err(ErrorKind::Limit { what: "the sum of all sizes", limit: MAX_SIZES_SUM_BYTES });
        }
        self.table.try_push(Entry {
            action,
            address,
            size_bytes,
            stream: StreamId::DEFAULT,
            time_us: Some(at.time_us),
            stack: at.stack,
            pool: PoolId::MISSING,
            compile_context: StringId::MISSING,
            user_metadata: StringId::MISSING,
            category: at.category,
        })
    }
}
