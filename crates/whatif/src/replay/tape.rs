//! The recording as a driver: it answers as the driver did, and compares what the allocator writes down.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use highwater_allocator::{Action as Predicted, Device, Observer, TraceEntry};
use highwater_snapshot::{Action, EntryTable, StreamId};
use rustc_hash::FxHashMap;

/// Where the comparison stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Cursor {
    /// The next entry that has no counterpart yet.
    pub(super) next: usize,
    /// Completed frees behind `next` that have one: those of a batch complete in the order of a hash table.
    pub(super) ahead: BTreeSet<usize>,
    /// The first thing that the allocator did and the recording did not, with the entry recorded there.
    pub(super) unexpected: Option<(usize, TraceEntry)>,
    /// What happens came before the recording.
    pub(super) muted: bool,
}

/// The columns that are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns<'a> {
    pub(super) actions: &'a [Action],
    pub(super) addresses: &'a [u64],
    pub(super) sizes: &'a [u64],
    streams: &'a [StreamId],
    handles: &'a [u64],
}

impl<'a> Columns<'a> {
    pub(super) fn new(entries: &'a EntryTable, handles: &'a [u64]) -> Self {
        Self {
            actions: entries.actions(),
            addresses: entries.addresses(),
            sizes: entries.sizes_bytes(),
            streams: entries.streams(),
            handles,
        }
    }

    /// The first entry from `row` on that the allocator makes: not a `snapshot`, nor an action unknown to it.
    pub(super) fn significant(&self, mut row: usize) -> usize {
        while self.actions.get(row).is_some_and(|action| !is_compared(*action)) {
            row += 1;
        }
        row
    }

    pub(super) fn handle(&self, row: usize) -> u64 {
        self.handles[self.streams[row].index()]
    }

    fn equals(&self, row: usize, predicted: &TraceEntry) -> bool {
        self.actions.get(row).is_some_and(|&action| {
            action == recorded_action(predicted.action)
                && (action == Action::OOM || self.addresses[row] == predicted.address)
                && self.sizes[row] == predicted.bytes
                && self.handle(row) == predicted.stream
        })
    }
}

/// Whether an entry is one of the allocator's decisions or the program's requests.
pub(super) fn is_compared(action: Action) -> bool {
    !matches!(action, Action::SNAPSHOT | Action::ANNOTATE) && action.unknown().is_none()
}

fn recorded_action(predicted: Predicted) -> Action {
    match predicted {
        Predicted::Alloc => Action::ALLOC,
        Predicted::FreeRequested => Action::FREE_REQUESTED,
        Predicted::FreeCompleted => Action::FREE_COMPLETED,
        Predicted::SegmentAlloc => Action::SEGMENT_ALLOC,
        Predicted::SegmentFree => Action::SEGMENT_FREE,
        Predicted::SegmentMap => Action::SEGMENT_MAP,
        Predicted::SegmentUnmap => Action::SEGMENT_UNMAP,
        Predicted::Snapshot => Action::SNAPSHOT,
        Predicted::OutOfMemory => Action::OOM,
    }
}

/// Compares.
#[derive(Clone, Debug)]
pub(super) struct Comparison<'a> {
    columns: Columns<'a>,
    cursor: Rc<RefCell<Cursor>>,
    /// Made of the columns alone, so copies share it.
    batch: Rc<RefCell<Batch>>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(columns: Columns<'a>, cursor: Rc<RefCell<Cursor>>) -> Self {
        Self { columns, cursor, batch: Rc::default() }
    }

    /// The entry of the batch that goes on at the cursor which records this completed free, and has no counterpart yet.
    fn in_batch(&self, cursor: &Cursor, completed: &TraceEntry) -> Option<usize> {
        let mut batch = self.batch.borrow_mut();
        if !batch.rows.contains(&cursor.next) {
            *batch = Batch::new(&self.columns, cursor.next);
        }
        let rows = batch.by_address.get(&completed.address)?;
        let mut open = rows.iter().copied().filter(|row| *row >= cursor.next && !cursor.ahead.contains(row));
        open.find(|&row| self.columns.equals(row, completed))
    }
}

/// Frees that complete one after the other, in whatever order: by address, for they may be many.
#[derive(Debug, Default)]
struct Batch {
    rows: Range<usize>,
    by_address: FxHashMap<u64, Vec<usize>>,
}

impl Batch {
    fn new(columns: &Columns<'_>, from: usize) -> Self {
        let goes_on = |action: &Action| *action == Action::FREE_COMPLETED || !is_compared(*action);
        let rest = columns.actions.get(from..).unwrap_or_default();
        let rows = from..from + rest.iter().take_while(|action| goes_on(action)).count();
        let mut by_address: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
        for row in rows.clone() {
            by_address.entry(columns.addresses[row]).or_default().push(row);
        }
        Self { rows, by_address }
    }
}

impl Observer for Comparison<'_> {
    fn record(&mut self, entry: TraceEntry) {
        let cursor = &mut *self.cursor.borrow_mut();
        if cursor.muted || cursor.unexpected.is_some() {
            return;
        }
        let columns = &self.columns;
        if columns.equals(cursor.next, &entry) {
            cursor.next = columns.significant(cursor.next + 1);
            while cursor.ahead.remove(&cursor.next) {
                cursor.next = columns.significant(cursor.next + 1);
            }
            return;
        }
        if entry.action == Predicted::FreeCompleted
            && let Some(row) = self.in_batch(cursor, &entry)
        {
            cursor.ahead.insert(row);
            return;
        }
        cursor.unexpected = Some((cursor.next, entry));
    }
}

/// Answers as the recorded driver did.
#[derive(Clone, Debug)]
pub(super) struct Tape<'a> {
    pub(super) columns: Columns<'a>,
    pub(super) cursor: Rc<RefCell<Cursor>>,
    /// Streams of events that are not complete.
    pub(super) busy: BTreeSet<u64>,
    /// Addresses for reservations into which nothing was mapped.
    pub(super) spare: u64,
}

/// Larger than any device: the recording itself says when memory was short.
const TOTAL_BYTES: u64 = 1 << 41;

/// No driver hands out addresses from here on; a file that names one contradicts itself.
pub(super) const END_OF_ADDRESSES: u64 = 1 << 62;

impl Tape<'_> {
    /// The recorded address, if the recording goes on with this action.
    fn granted(&self, action: Action) -> Option<u64> {
        let next = self.cursor.borrow().next;
        let is_next = self.columns.actions.get(next) == Some(&action);
        is_next.then(|| self.columns.addresses[next]).filter(|&address| address < END_OF_ADDRESSES)
    }
}

impl Device for Tape<'_> {
    fn total_bytes(&self) -> u64 {
        TOTAL_BYTES
    }

    fn free_bytes(&self) -> u64 {
        0
    }

    fn malloc(&mut self, _: u64) -> Option<u64> {
        self.granted(Action::SEGMENT_ALLOC)
    }

    fn free(&mut self, _: u64, _: u64) {}

    fn reserve(&mut self, bytes: u64) -> Option<u64> {
        Some(self.granted(Action::SEGMENT_MAP).unwrap_or_else(|| {
            self.spare -= bytes;
            self.spare
        }))
    }

    fn release(&mut self, _: u64, _: u64) {}

    fn map(&mut self, _: u64, _: u64) -> bool {
        self.granted(Action::SEGMENT_MAP).is_some()
    }

    fn unmap(&mut self, _: u64, _: u64) {}

    fn is_done(&mut self, stream: u64) -> bool {
        !self.busy.contains(&stream)
    }
}
