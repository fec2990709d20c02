//! The trace of one device: a table with a column per key.

use crate::error::ErrorKind;
use crate::room;
use crate::strings::StringTable;
use crate::{EntryId, PoolId, StackId, StreamId, StringId};

/// What happened in a trace entry.
///
/// The ten actions of PyTorch 2.15 are constants; an unknown one is kept as [`Action::unknown`], its name in
/// [`Snapshot::unknown_actions`](crate::Snapshot::unknown_actions).
///
/// # Source
/// `spec/snapshot-format.md` section 6.2; PyTorch v2.15, `torch/csrc/cuda/memory_snapshot.cpp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Action(u8);

impl Action {
    /// A block was handed out; `size_bytes` is what was asked for.
    pub const ALLOC: Self = Self(0);
    /// The owner freed its block, which stays active until other streams are done with it.
    pub const FREE_REQUESTED: Self = Self(1);
    /// The block returned to its pool.
    pub const FREE_COMPLETED: Self = Self(2);
    /// A segment came from the driver.
    pub const SEGMENT_ALLOC: Self = Self(3);
    /// A segment went back to the driver.
    pub const SEGMENT_FREE: Self = Self(4);
    /// Pages were mapped into an expandable segment.
    pub const SEGMENT_MAP: Self = Self(5);
    /// Pages of an expandable segment were unmapped.
    pub const SEGMENT_UNMAP: Self = Self(6);
    /// A snapshot was taken.
    pub const SNAPSHOT: Self = Self(7);
    /// The allocator gave up; `size_bytes` is the rounded request.
    pub const OOM: Self = Self(8);
    /// A text was put on a live allocation.
    pub const ANNOTATE: Self = Self(9);

    /// The names in the file, in the order of the constants.
    pub const NAMES: [&str; 10] = [
        "alloc",
        "free_requested",
        "free_completed",
        "segment_alloc",
        "segment_free",
        "segment_map",
        "segment_unmap",
        "snapshot",
        "oom",
        "annotate",
    ];

    /// The known action number `code`.
    pub(crate) const fn known(code: u8) -> Self {
        Self(code)
    }

    /// Unknown actions of a file that have a code: as many as are left beside the known ones.
    const UNKNOWN: usize = 256 - Self::NAMES.len();

    /// An action that is not known, by its name, which is added to the file's unknown ones if it is new.
    ///
    /// The last code stands for all names for which none is left.
    pub(crate) fn other(name: StringId, unknown: &mut Vec<StringId>, strings: &mut StringTable) -> Self {
        let row = unknown.iter().position(|&seen| seen == name).unwrap_or_else(|| {
            if unknown.len() < Self::UNKNOWN {
                let is_last = unknown.len() + 1 == Self::UNKNOWN;
                unknown.push(if is_last { strings.intern("other actions") } else { name });
            }
            unknown.len() - 1
        });
        Self(u8::try_from(Self::NAMES.len() + row).expect("at most 255"))
    }

    /// The action of this name, if it is known.
    pub fn from_name(name: &str) -> Option<Self> {
        let code = Self::NAMES.iter().position(|&known| known == name)?;
        u8::try_from(code).ok().map(Self)
    }

    /// The index into the file's unknown actions, if this is one.
    pub fn unknown(self) -> Option<usize> {
        usize::from(self.0).checked_sub(Self::NAMES.len())
    }

    /// Whether memory is handed out, reserved or mapped.
    pub(crate) const fn takes_memory(self) -> bool {
        matches!(self, Self::ALLOC | Self::SEGMENT_ALLOC | Self::SEGMENT_MAP)
    }

    /// The code, equal for equal actions: an index into [`Action::NAMES`] if known.
    pub const fn code(self) -> u8 {
        self.0
    }
}

/// A column that costs nothing while every row is equal.
#[derive(Clone, Debug)]
pub struct Column<T> {
    len: usize,
    first: Option<T>,
    rows: Vec<T>,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self { len: 0, first: None, rows: Vec::new() }
    }
}

impl<T: Copy + PartialEq> Column<T> {
    /// Adds a row.
    ///
    /// # Panics
    /// If there is no memory for it.
    #[inline]
    pub fn push(&mut self, value: T) {
        self.try_push(value).expect(NO_MEMORY);
    }

    /// Adds a row, if there is memory for it.
    #[inline]
    fn try_push(&mut self, value: T) -> Result<(), ErrorKind> {
        if !self.rows.is_empty() {
            room::push(&mut self.rows, value)?;
        } else if self.first != Some(value) {
            self.spread(value)?;
        }
        self.len += 1;
        Ok(())
    }

    /// The first row that differs: from here on every row is stored.
    #[cold]
    fn spread(&mut self, value: T) -> Result<(), ErrorKind> {
        match self.first {
            None => self.first = Some(value),
            Some(first) => {
                room::make(&mut self.rows, self.len + 1)?;
                self.rows.resize(self.len, first);
                self.rows.push(value);
            }
        }
        Ok(())
    }

    /// The value of row `row`.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn get(&self, row: usize) -> T {
        if self.rows.is_empty() {
            assert!(row < self.len, "row {row} of a column of {}", self.len);
            self.first.expect("a row was pushed")
        } else {
            self.rows[row]
        }
    }

    /// The value that every row has, if there is one.
    pub fn constant(&self) -> Option<T> {
        if self.rows.is_empty() { self.first } else { None }
    }

    fn split_off(&mut self, at: usize) -> Self {
        let tail = self.len - at;
        self.len = at;
        if self.rows.is_empty() {
            Self { len: tail, first: self.first, rows: Vec::new() }
        } else {
            let rows = self.rows.split_off(at);
            Self { len: tail, first: rows.first().copied(), rows }
        }
    }
}

/// Values that few rows have, as (row, value) in ascending order of row.
pub type Sparse<T> = Vec<(u32, T)>;

/// One trace entry, put together from the columns of [`EntryTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What happened.
    pub action: Action,
    /// The block or segment; 0 where the file has none (`oom`, `snapshot`).
    pub address: u64,
    /// Requested bytes for blocks, bytes of the segment for segments.
    pub size_bytes: u64,
    /// The stream that owns the memory.
    pub stream: StreamId,
    /// Microseconds since the Unix epoch, where recorded (since torch 2.2).
    pub time_us: Option<i64>,
    /// The stack that caused it.
    pub stack: StackId,
    /// The pool (since torch 2.12, else [`PoolId::MISSING`]).
    pub pool: PoolId,
    /// Text of the compiled region, `N/A` outside (since torch 2.7).
    pub compile_context: StringId,
    /// Text that the program set (since torch 2.10).
    pub user_metadata: StringId,
    /// Category, in files of the profiler and doctored ones.
    pub category: StringId,
}

/// The entries of one trace, oldest first, as columns of equal length.
///
/// About 33 bytes an entry, and 4 more for each of the four last columns whose rows differ.
#[derive(Clone, Debug, Default)]
pub struct EntryTable {
    action: Vec<Action>,
    address: Vec<u64>,
    size_bytes: Vec<u64>,
    stream: Vec<StreamId>,
    time_us: Vec<i64>,
    stack: Vec<StackId>,
    pool: Column<PoolId>,
    compile_context: Column<StringId>,
    user_metadata: Column<StringId>,
    category: Column<StringId>,
    /// Free bytes that the driver reported, of `oom` entries.
    pub device_free_bytes: Sparse<u64>,
    /// The forward stack of a backward operation, one frame a line of text (anomaly mode, since torch 2.11).
    pub forward_stack: Sparse<StackId>,
    /// Keys that the reader does not know, with their values as JSON text.
    pub extras: Sparse<(StringId, StringId)>,
}

/// Stands in the column for a time that was not recorded.
const NO_TIME: i64 = i64::MIN;

/// Why a table that is not read from a file ends the program.
const NO_MEMORY: &str = "there is memory for another row";

impl EntryTable {
    /// Adds an entry.
    ///
    /// # Panics
    /// If there is no memory for it.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.try_push(entry).expect(NO_MEMORY);
    }

    /// Adds an entry, if there is memory for it; the columns are of no use after an error.
    #[inline]
    pub(crate) fn try_push(&mut self, entry: Entry) -> Result<(), ErrorKind> {
        room::push(&mut self.action, entry.action)?;
        room::push(&mut self.address, entry.address)?;
        room::push(&mut self.size_bytes, entry.size_bytes)?;
        room::push(&mut self.stream, entry.stream)?;
        room::push(&mut self.time_us, entry.time_us.unwrap_or(NO_TIME))?;
        room::push(&mut self.stack, entry.stack)?;
        self.pool.try_push(entry.pool)?;
        self.compile_context.try_push(entry.compile_context)?;
        self.user_metadata.try_push(entry.user_metadata)?;
        self.category.try_push(entry.category)
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.action.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.action.is_empty()
    }

    /// Every id, in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = EntryId> + DoubleEndedIterator + use<> {
        (0..self.len()).map(EntryId::from_index)
    }

    /// The whole entry.
    pub fn get(&self, id: EntryId) -> Entry {
        let row = id.index();
        Entry {
            action: self.action[row],
            address: self.address[row],
            size_bytes: self.size_bytes[row],
            stream: self.stream[row],
            time_us: self.time_us(id),
            stack: self.stack[row],
            pool: self.pool.get(row),
            compile_context: self.compile_context.get(row),
            user_metadata: self.user_metadata.get(row),
            category: self.category.get(row),
        }
    }

    /// The actions.
    pub fn actions(&self) -> &[Action] {
        &self.action
    }

    /// The addresses.
    pub fn addresses(&self) -> &[u64] {
        &self.address
    }

    /// The sizes in bytes.
    pub fn sizes_bytes(&self) -> &[u64] {
        &self.size_bytes
    }

    /// The stacks.
    pub fn stacks(&self) -> &[StackId] {
        &self.stack
    }

    /// The streams.
    pub fn streams(&self) -> &[StreamId] {
        &self.stream
    }

    /// When the entry was recorded, if the file says.
    pub fn time_us(&self, id: EntryId) -> Option<i64> {
        let time = self.time_us[id.index()];
        (time != NO_TIME).then_some(time)
    }

    /// Whether any entry has a time.
    pub fn has_times(&self) -> bool {
        self.time_us.iter().any(|&time| time != NO_TIME)
    }

    /// The category column.
    pub fn categories(&self) -> &Column<StringId> {
        &self.category
    }

    /// The pool column.
    pub fn pools(&self) -> &Column<PoolId> {
        &self.pool
    }

    /// The metadata column.
    pub fn user_metadata(&self) -> &Column<StringId> {
        &self.user_metadata
    }

    /// Free bytes that the driver reported at an `oom` entry.
    pub fn device_free_bytes(&self, id: EntryId) -> Option<u64> {
        sparse_get(&self.device_free_bytes, id.get())
    }

    /// The forward stack of a backward operation.
    pub fn forward_stack(&self, id: EntryId) -> Option<StackId> {
        sparse_get(&self.forward_stack, id.get())
    }

    /// The unknown keys of an entry, with their values as JSON text.
    pub fn extras(&self, id: EntryId) -> impl Iterator<Item = (StringId, StringId)> + '_ {
        sparse_rows(&self.extras, id.get())
    }

    /// Cuts the table in two; the entries from `at` on are returned.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        Self {
            action: self.action.split_off(at),
            address: self.address.split_off(at),
            size_bytes: self.size_bytes.split_off(at),
            stream: self.stream.split_off(at),
            time_us: self.time_us.split_off(at),
            stack: self.stack.split_off(at),
            pool: self.pool.split_off(at),
            compile_context: self.compile_context.split_off(at),
            user_metadata: self.user_metadata.split_off(at),
            category: self.category.split_off(at),
            device_free_bytes: sparse_split_off(&mut self.device_free_bytes, at),
            forward_stack: sparse_split_off(&mut self.forward_stack, at),
            extras: sparse_split_off(&mut self.extras, at),
        }
    }

    /// Adds row `row` of `from`, with all that belongs to it.
    pub(crate) fn push_copy(&mut self, from: &Self, id: EntryId) {
        let row = u32::try_from(self.len()).expect("tables stay below 2^32 rows");
        if let Some(free) = from.device_free_bytes(id) {
            self.device_free_bytes.push((row, free));
        }
        if let Some(stack) = from.forward_stack(id) {
            self.forward_stack.push((row, stack));
        }
        self.extras.extend(from.extras(id).map(|extra| (row, extra)));
        self.push(from.get(id));
    }
}

/// The values of a row that may have several.
pub(crate) fn sparse_rows<T: Copy>(column: &Sparse<T>, row: u32) -> impl Iterator<Item = T> + '_ {
    let start = column.partition_point(|&(r, _)| r < row);
    column[start..].iter().take_while(move |&&(r, _)| r == row).map(|&(_, value)| value)
}

fn sparse_get<T: Copy>(column: &Sparse<T>, row: u32) -> Option<T> {
    let at = column.binary_search_by_key(&row, |&(r, _)| r).ok()?;
    Some(column[at].1)
}

fn sparse_split_off<T>(column: &mut Sparse<T>, at: usize) -> Sparse<T> {
    let cut = column.partition_point(|&(row, _)| (row as usize) < at);
    let mut tail = column.split_off(cut);
    let shift = u32::try_from(at).expect("tables stay below 2^32 rows");
    for (row, _) in &mut tail {
        *row -= shift;
    }
    tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_equal_rows_stores_one() {
        let mut column = Column::default();
        for _ in 0..1000 {
            column.push(7);
        }
        assert_eq!(column.rows.capacity(), 0);
        column.push(8);
        assert_eq!((column.get(0), column.get(999), column.get(1000)), (7, 7, 8));
        assert_eq!(column.constant(), None);
    }

    #[test]
    fn splitting_a_column_keeps_every_row() {
        for values in [vec![1, 1, 1, 1], vec![1, 1, 2, 2], vec![3, 1, 1, 1]] {
            let mut head = Column::default();
            for value in values.clone() {
                head.push(value);
            }
            let tail = head.split_off(2);
            let rows: Vec<_> = (0..2).map(|r| head.get(r)).chain((0..2).map(|r| tail.get(r))).collect();
            assert_eq!(rows, values);
        }
    }
}
