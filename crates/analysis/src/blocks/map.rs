//! The memory of a device as the recording left it: which pieces there are, who lies beside whom, what is free.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use highwater_snapshot::{PoolId, StreamId};

/// The number of a piece in the map, until it is free and merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PieceId(u32);

impl PieceId {
    /// No piece: the end of a `cudaMalloc` segment, or not held.
    pub(super) const NONE: Self = Self(u32::MAX);

    fn index(self) -> usize {
        self.0 as usize
    }

    fn exists(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// Whether the pool of a piece cuts blocks to size (`MemPool(no_split=True)` does not).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Splitting {
    Always,
    Never,
    /// A pool of which nothing tells.
    Unknown,
}

/// What memory is, from where it was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) is_expandable: bool,
    /// Whether it is the small pool's.
    pub(super) is_small: bool,
    pub(super) splitting: Splitting,
    pub(super) stream: StreamId,
    pub(super) pool: PoolId,
}

impl Kind {
    /// Whether two touching runs of expandable memory are of one segment.
    pub(super) fn continues(&self, other: &Self) -> bool {
        let missing = self.pool == PoolId::MISSING || other.pool == PoolId::MISSING;
        self.is_small == other.is_small && self.stream == other.stream && (missing || self.pool == other.pool)
    }
}

/// What a piece is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Held,
    /// Held, and not in memory that is known: nothing is beside it.
    Stray,
    /// Where a run of an expandable segment begins or ends; no bytes.
    Edge,
    /// Not in use.
    Vacant,
}

/// A piece of memory: a block, free or not, or the edge of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) address: u64,
    pub(super) size: u64,
    prev: PieceId,
    next: PieceId,
    pub(super) kind: Kind,
    state: State,
    /// Its owner freed it, other streams still use it.
    pub(super) awaits_free: bool,
}

impl Piece {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }

    /// Whether it has a neighbour in its segment, as `inactive_split` asks of segments that are not expandable.
    pub(super) fn is_split(&self) -> bool {
        self.prev != PieceId::NONE || self.next != PieceId::NONE
    }
}

/// What the free of a block took in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Merged {
    /// Bytes of the free neighbours before and after, 0 where there was none.
    pub(super) neighbours: [u64; 2],
    /// The size of the free block that there is now; 0 if it has no neighbours.
    pub(super) split_bytes: u64,
}

/// A block whose end is not known, for the block after it is free: how many bytes of that may be its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) bytes: u64,
    /// The lifetime of the block.
    pub(super) row: u32,
    /// The user pool that the doubt is about; else [`PoolId::MISSING`].
    pub(super) pool: PoolId,
}

/// All memory of a device.
///
/// Free blocks are found by the address where they begin; blocks in use are known to who holds them. Neighbours are
/// linked. Hashes are seeded: a file chooses its addresses.
#[derive(Debug, Default)]
pub(super) struct Map {
    pieces: Vec<Piece>,
    vacant: Vec<PieceId>,
    free: HashMap<u64, PieceId>,
    /// Edges of expandable runs.
    starts: HashMap<u64, PieceId>,
    ends: HashMap<u64, PieceId>,
    /// Free blocks of expandable segments, for finding the one around an address; kept while pages may be unmapped.
    around: Option<BTreeMap<u64, PieceId>>,
    /// By the address of the free block whose first bytes are in doubt.
    doubts: BTreeMap<u64, Doubt>,
}

impl std::ops::Index<PieceId> for Map {
    type Output = Piece;

    #[inline]
    fn index(&self, id: PieceId) -> &Piece {
        &self.pieces[id.index()]
    }
}

impl Map {
    /// An empty map. Without `unmaps`, nothing of it will be unmapped.
    pub(super) fn new(unmaps: bool) -> Self {
        Self { around: unmaps.then(BTreeMap::new), ..Self::default() }
    }

    #[inline]
    fn at(&mut self, id: PieceId) -> &mut Piece {
        &mut self.pieces[id.index()]
    }

    #[inline]
    fn add(&mut self, address: u64, size: u64, kind: Kind, state: State) -> PieceId {
        let (prev, next) = (PieceId::NONE, PieceId::NONE);
        let piece = Piece { address, size, prev, next, kind, state, awaits_free: false };
        if let Some(id) = self.vacant.pop() {
            *self.at(id) = piece;
            return id;
        }
        self.pieces.push(piece);
        PieceId(crate::lifetime::number(self.pieces.len() - 1))
    }

    fn discard(&mut self, id: PieceId) {
        self.at(id).state = State::Vacant;
        self.vacant.push(id);
    }

    #[inline]
    fn link(&mut self, prev: PieceId, next: PieceId) {
        if let Some(prev) = prev.exists() {
            self.at(prev).next = next;
        }
        if let Some(next) = next.exists() {
            self.at(next).prev = prev;
        }
    }

    #[inline]
    fn insert_free(&mut self, id: PieceId) {
        let piece = self.at(id);
        piece.state = State::Free;
        piece.awaits_free = false;
        let Piece { address, kind, .. } = *piece;
        self.free.insert(address, id);
        if kind.is_expandable
            && let Some(around) = &mut self.around
        {
            around.insert(address, id);
        }
    }

    /// Forgets that a block is free.
    #[inline]
    fn remove_free(&mut self, id: PieceId) {
        let Piece { address, kind, .. } = self[id];
        self.free.remove(&address);
        if kind.is_expandable
            && let Some(around) = &mut self.around
        {
            around.remove(&address);
        }
    }

    /// Adds memory from the driver: free, and where it continues an expandable run one with that.
    pub(super) fn add_memory(&mut self, address: u64, bytes: u64, kind: Kind) {
        let bytes = address.saturating_add(bytes) - address;
        if bytes == 0 {
            return;
        }
        if kind.is_expandable {
            self.map(address, bytes, kind);
        } else {
            let id = self.add(address, bytes, kind, State::Free);
            self.insert_free(id);
        }
    }

    /// Takes a segment of `cudaMalloc` away; `None` if it is not one free block.
    pub(super) fn remove_segment(&mut self, address: u64, bytes: u64) -> Option<Piece> {
        let id = *self.free.get(&address)?;
        let piece = self[id];
        if piece.size != bytes || piece.is_split() || piece.kind.is_expandable {
            return None;
        }
        self.remove_free(id);
        self.discard(id);
        Some(piece)
    }

    /// Maps memory into an expandable segment.
    fn map(&mut self, address: u64, bytes: u64, kind: Kind) {
        let end = address + bytes;
        let id = self.add(address, bytes, kind, State::Held);
        match self.edge(&self.ends, address, &kind) {
            Some(edge) => {
                self.ends.remove(&address);
                let last = self[edge].prev;
                self.discard(edge);
                self.link(last, id);
            }
            None => {
                let edge = self.add(address, 0, kind, State::Edge);
                self.starts.insert(address, edge);
                self.link(edge, id);
            }
        }
        match self.edge(&self.starts, end, &kind) {
            Some(edge) => {
                self.starts.remove(&end);
                let first = self[edge].next;
                self.discard(edge);
                self.link(id, first);
            }
            None => {
                let edge = self.add(end, 0, kind, State::Edge);
                self.ends.insert(end, edge);
                self.link(id, edge);
            }
        }
        self.release(id);
    }

    /// The edge at an address that memory of this kind continues.
    fn edge(&self, edges: &HashMap<u64, PieceId>, address: u64, kind: &Kind) -> Option<PieceId> {
        edges.get(&address).copied().filter(|&edge| self[edge].kind.continues(kind))
    }

    /// Unmaps memory of an expandable segment; `None` if it is not part of one free block.
    pub(super) fn unmap(&mut self, address: u64, bytes: u64) -> Option<Piece> {
        let end = address.saturating_add(bytes);
        let (_, &id) = self.around.as_ref()?.range(..=address).next_back()?;
        let piece = self[id];
        if end <= address || piece.end() < end {
            return None;
        }
        if let Some(doubt) = self.doubts.remove(&piece.address)
            && piece.address < address
        {
            // What is unmapped was free.
            let bytes = doubt.bytes.min(address - piece.address);
            self.doubts.insert(piece.address, Doubt { bytes, ..doubt });
        }
        self.remove_free(id);
        self.discard(id);
        self.close(piece.prev, piece.address, address, &piece.kind);
        self.open(end, piece.end(), piece.next, &piece.kind);
        Some(piece)
    }

    /// Ends a run at `end`: after a free block from `start`, if there is anything left of one.
    fn close(&mut self, prev: PieceId, start: u64, end: u64, kind: &Kind) {
        let mut last = prev;
        if start < end {
            let rest = self.add(start, end - start, *kind, State::Free);
            self.insert_free(rest);
            self.link(prev, rest);
            last = rest;
        }
        match last.exists().filter(|&last| self[last].state == State::Edge) {
            Some(edge) => {
                self.forget_edge(edge, true);
            }
            None => {
                let edge = self.add(end, 0, *kind, State::Edge);
                self.ends.insert(end, edge);
                self.link(last, edge);
            }
        }
    }

    /// Begins a run at `start`: with a free block up to `end`, if there is anything left of one.
    fn open(&mut self, start: u64, end: u64, next: PieceId, kind: &Kind) {
        let mut first = next;
        if start < end {
            let rest = self.add(start, end - start, *kind, State::Free);
            self.insert_free(rest);
            self.link(rest, next);
            first = rest;
        }
        match first.exists().filter(|&first| self[first].state == State::Edge) {
            Some(edge) => {
                self.forget_edge(edge, false);
            }
            None => {
                let edge = self.add(start, 0, *kind, State::Edge);
                self.starts.insert(start, edge);
                self.link(edge, first);
            }
        }
    }

    fn forget_edge(&mut self, edge: PieceId, is_start: bool) {
        let address = self[edge].address;
        let edges = if is_start { &mut self.starts } else { &mut self.ends };
        if edges.get(&address) == Some(&edge) {
            edges.remove(&address);
        }
        self.discard(edge);
    }

    /// Takes the free block that begins at an address, and what was in doubt about where it begins.
    #[inline]
    pub(super) fn take(&mut self, address: u64) -> Option<(PieceId, Option<Doubt>)> {
        let Some(id) = self.free.remove(&address) else { return self.take_in_doubt(address) };
        if self[id].kind.is_expandable
            && let Some(around) = &mut self.around
        {
            around.remove(&address);
        }
        self.at(id).state = State::Held;
        let doubt = if self.doubts.is_empty() { None } else { self.doubts.remove(&address) };
        Some((id, doubt.map(|doubt| Doubt { bytes: 0, ..doubt })))
    }

    /// Takes the rest of a free block whose beginning is now known to be its neighbour's: as many bytes as the doubt says.
    fn take_in_doubt(&mut self, address: u64) -> Option<(PieceId, Option<Doubt>)> {
        let (&start, &doubt) = self.doubts.range(..=address).next_back()?;
        let id = *self.free.get(&start)?;
        let bytes = address - start;
        if bytes > doubt.bytes || bytes >= self[id].size {
            return None;
        }
        self.doubts.remove(&start);
        self.remove_free(id);
        let piece = self.at(id);
        piece.state = State::Held;
        piece.address += bytes;
        piece.size -= bytes;
        let owner = piece.prev;
        if let Some(owner) = owner.exists() {
            self.at(owner).size += bytes;
        }
        Some((id, Some(Doubt { bytes, ..doubt })))
    }

    /// Cuts a block that is in use to `size` bytes; the rest is free.
    #[inline]
    pub(super) fn split(&mut self, id: PieceId, size: u64) -> PieceId {
        let Piece { address, size: whole, next, kind, .. } = self[id];
        let rest = self.add(address + size, whole - size, kind, State::Free);
        self.at(id).size = size;
        self.link(rest, next);
        self.link(id, rest);
        self.insert_free(rest);
        rest
    }

    /// Takes a block out of the middle of a free one that begins at `start`; `None` if it does not fit.
    pub(super) fn carve(&mut self, start: u64, address: u64, size: u64) -> Option<PieceId> {
        let mut id = *self.free.get(&start)?;
        let before = address.checked_sub(start)?;
        let needed = before.checked_add(size)?;
        if self[id].size < needed {
            return None;
        }
        self.remove_free(id);
        if before > 0 {
            let rest = self.split(id, before);
            self.insert_free(id);
            self.remove_free(rest);
            id = rest;
        }
        self.at(id).state = State::Held;
        if size < self[id].size {
            self.split(id, size);
        }
        Some(id)
    }

    /// Notes that the first bytes of the free block after a block in use may be that block's own.
    pub(super) fn doubt(&mut self, block: PieceId, doubt: Doubt) {
        if let Some(rest) = self[block].next.exists()
            && self[rest].state == State::Free
        {
            let Piece { address, size, .. } = self[rest];
            self.doubts.insert(address, Doubt { bytes: doubt.bytes.min(size), ..doubt });
        }
    }

    /// A block in use where no memory is known.
    pub(super) fn stray(&mut self, address: u64, size: u64, kind: Kind) -> PieceId {
        self.add(address, size, kind, State::Stray)
    }

    /// Notes that the owner of a block freed it.
    #[inline]
    pub(super) fn awaits_free(&mut self, id: PieceId) {
        self.at(id).awaits_free = true;
    }

    /// What is in doubt about the end of a block in use.
    pub(super) fn doubt_about(&self, id: PieceId) -> Option<Doubt> {
        let next = self[id].next.exists()?;
        if self.doubts.is_empty() || self[next].state != State::Free {
            return None;
        }
        self.doubts.get(&self[next].address).copied()
    }

    /// Every doubt that nothing settled.
    pub(super) fn doubts(&self) -> impl Iterator<Item = Doubt> + '_ {
        self.doubts.values().copied()
    }

    /// Frees a block: it becomes one with its free neighbours.
    #[inline]
    pub(super) fn release(&mut self, id: PieceId) -> Merged {
        let Piece { prev, next, state, .. } = self[id];
        if state == State::Stray {
            self.discard(id);
            return Merged::default();
        }
        let mut merged = Merged::default();
        if let Some(next) = next.exists()
            && self[next].state == State::Free
        {
            let Piece { address, size, next: beyond, .. } = self[next];
            if !self.doubts.is_empty() {
                self.doubts.remove(&address);
            }
            self.remove_free(next);
            self.discard(next);
            self.at(id).size += size;
            self.link(id, beyond);
            merged.neighbours[1] = size;
        }
        let mut left = id;
        if let Some(prev) = prev.exists()
            && self[prev].state == State::Free
        {
            // The block before keeps its address, where it is found.
            let Piece { size, next: beyond, .. } = self[id];
            merged.neighbours[0] = self[prev].size;
            self.at(prev).size += size;
            self.link(prev, beyond);
            self.discard(id);
            left = prev;
        } else {
            self.insert_free(id);
        }
        if self[left].is_split() {
            merged.split_bytes = self[left].size;
        }
        merged
    }

    /// The free block that begins at an address: its size.
    pub(super) fn free_at(&self, address: u64) -> Option<u64> {
        self.free.get(&address).map(|&id| self[id].size)
    }

    /// How many free blocks there are.
    pub(super) fn free_blocks(&self) -> usize {
        self.free.len()
    }
}

const _: () = assert!(size_of::<Piece>() == 40, "a piece is five words");
