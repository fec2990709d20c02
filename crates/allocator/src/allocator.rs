//! The allocator: a request comes in, a block goes out.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::block::{Block, BlockId, Blocks};
use crate::device::Device;
use crate::failure::{Failure, OutOfMemory, Undefined};
use crate::hash_order::HashOrder;
use crate::message;
use crate::ordered::{Key, Position};
use crate::pool::{BlockPool, DEFAULT_LARGE, DEFAULT_SMALL, PrivatePool, by_address};
use crate::settings::Settings;
use crate::sizes::{MIN_BLOCK_BYTES, SMALL_MAX_BYTES};
use crate::stats::Statistics;
use crate::trace::{Action, Observer, TraceEntry};
use crate::version::{Rules, Tie};

/// Requests from here on are refused at once.
const TOO_LARGE_BYTES: u64 = 1 << 60;

/// One run of addresses: a segment of `cudaMalloc`, or the reservation of an expandable one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// The unit of mapping; 0 for a segment that is not expandable.
    pub(crate) page: u64,
    /// Its age.
    pub(crate) counter: u32,
}

/// A request on its way through the allocator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Row of the pool.
    pub(crate) pool: usize,
    /// Row of the stream.
    pub(crate) stream: u32,
    /// Bytes as rounded.
    pub(crate) size: u64,
    pub(crate) expandable: bool,
}

/// PyTorch's caching allocator for one device.
///
/// Every decision is a function of the requests, the settings, the version and what the [`Device`] answers; nothing
/// depends on addresses of the host, on time or on threads.
///
/// ```
/// use highwater_allocator::{Allocator, AddressPolicy, Settings, TorchVersion, VirtualDevice};
///
/// let device = VirtualDevice::new(16 << 30, 0, AddressPolicy::FirstFit);
/// let mut allocator = Allocator::new(device, Settings::new(TorchVersion::NEWEST), ());
/// let block = allocator.malloc(1000, 0)?.expect("only requests of 0 bytes get no block");
/// assert_eq!(allocator.size_bytes(block), 1024);
/// assert_eq!(allocator.statistics().reserved_bytes.all().current, 2 << 20);
/// allocator.free(block);
/// # Ok::<(), highwater_allocator::Failure>(())
/// ```
///
/// # Source
/// `spec/caching-allocator.md`; PyTorch `c10/cuda/CUDACachingAllocator.cpp`, `DeviceCachingAllocator`.
#[derive(Clone, Debug)]
pub struct Allocator<D, O = ()> {
    pub(crate) device: D,
    pub(crate) observer: O,
    pub(crate) settings: Settings,
    pub(crate) rules: Rules,
    pub(crate) stats: Statistics,
    pub(crate) blocks: Blocks,
    pub(crate) segments: Vec<Segment>,
    pub(crate) vacant_segments: Vec<u32>,
    /// Halves of pools; the first two are the default pool's.
    pub(crate) pools: Vec<BlockPool>,
    pub(crate) streams: Streams,
    /// The limit of `set_per_process_memory_fraction`.
    pub(crate) limit_bytes: Option<u64>,
    /// Held from the driver.
    pub(crate) used_bytes: u64,
    /// Ages given out.
    pub(crate) last_counter: u32,
    /// `max_split_size` when the allocator was made: the statistic does not follow later settings.
    pub(crate) max_split_at_start: u64,
    /// Not PyTorch's rule: see [`Allocator::split_always`].
    pub(crate) splits_always: bool,
    // Pending frees (`free.rs`).
    /// Streams that blocks were used on, by block.
    pub(crate) uses: FxHashMap<BlockId, HashOrder<u32>>,
    /// Of these the ones of a capture, by block.
    pub(crate) captured_uses: FxHashMap<BlockId, Vec<u64>>,
    /// Recorded events by row of streams, the oldest first.
    pub(crate) events: Vec<VecDeque<BlockId>>,
    /// The rows with events, in the order in which PyTorch looks at them.
    pub(crate) waiting: HashOrder<u32>,
    /// Frees that wait until no capture is running.
    pub(crate) deferred: Vec<BlockId>,
    // Private pools (`private.rs`).
    pub(crate) private: Vec<PrivatePool>,
    /// Rows of the private pools that exist, by id.
    pub(crate) private_rows: FxHashMap<u64, usize>,
    /// Which requests go to which pool, the oldest first.
    pub(crate) routes: Vec<Route>,
    /// Pools that were made of this kind, those among them that are deleted.
    pub(crate) no_split: FxHashSet<u64>,
    pub(crate) freeable: HashOrder<u64>,
    pub(crate) on_oom: HashOrder<u64>,
    pub(crate) capturing: bool,
}

/// Requests of a stream, or of any, go to a private pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) pool: u64,
    pub(crate) stream: Option<u64>,
}

/// Stream handles by row, rows by handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    handles: Vec<u64>,
    rows: FxHashMap<u64, u32>,
    last: u32,
}

impl Streams {
    #[inline]
    pub(crate) fn row(&mut self, handle: u64) -> u32 {
        if self.handles.get(self.last as usize) == Some(&handle) {
            return self.last;
        }
        self.last = self.look_up(handle);
        self.last
    }

    fn look_up(&mut self, handle: u64) -> u32 {
        let Self { handles, rows, .. } = self;
        *rows.entry(handle).or_insert_with(|| {
            let row = u32::try_from(handles.len()).expect("fewer than 2^32 streams");
            handles.push(handle);
            row
        })
    }

    #[inline]
    pub(crate) fn handle(&self, row: u32) -> u64 {
        self.handles[row as usize]
    }
}

/// Bytes without their fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a device's memory")]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}

impl<D: Device, O: Observer> Allocator<D, O> {
    /// An allocator that holds nothing.
    pub fn new(device: D, settings: Settings, observer: O) -> Self {
        let rules = settings.version.rules();
        let mut allocator = Self {
            device,
            observer,
            rules,
            stats: Statistics::default(),
            blocks: Blocks::default(),
            segments: Vec::new(),
            vacant_segments: Vec::new(),
            pools: vec![BlockPool::new(true, None), BlockPool::new(false, None)],
            streams: Streams::default(),
            limit_bytes: None,
            used_bytes: 0,
            last_counter: 0,
            max_split_at_start: settings.max_split_bytes,
            splits_always: false,
            uses: FxHashMap::default(),
            captured_uses: FxHashMap::default(),
            events: Vec::new(),
            waiting: HashOrder::default(),
            deferred: Vec::new(),
            private: Vec::new(),
            private_rows: FxHashMap::default(),
            routes: Vec::new(),
            no_split: FxHashSet::default(),
            freeable: HashOrder::default(),
            on_oom: HashOrder::default(),
            capturing: false,
            settings,
        };
        if let Some(fraction) = allocator.settings.per_process_memory_fraction {
            allocator.set_memory_fraction(fraction);
        }
        allocator
    }

    /// The statistics so far.
    pub fn statistics(&self) -> &Statistics {
        &self.stats
    }

    /// `max_split_size` of the statistics: as it was at the start, and signed as PyTorch has it, so -1 is unlimited.
    pub fn max_split_size_statistic(&self) -> i64 {
        self.max_split_at_start.cast_signed()
    }

    /// As `torch.cuda.reset_peak_memory_stats()`.
    pub fn reset_peak(&mut self) {
        self.stats.reset_peak();
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings, to change during a run.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device, to change what it answers.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Who sees the trace.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// `set_per_process_memory_fraction`: limits what may be held to a part of the device's memory.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 15.1.
    pub fn set_memory_fraction(&mut self, fraction: f64) {
        let is_limit = fraction < 1.0 || self.rules.full_fraction_limits;
        let bytes = self.part_of_device(fraction);
        self.limit_bytes = is_limit.then_some(whole(if self.rules.limit_is_rounded { bytes.round() } else { bytes }));
    }

    #[expect(clippy::cast_precision_loss, reason = "as PyTorch computes it")]
    fn part_of_device(&self, fraction: f64) -> f64 {
        fraction * self.device.total_bytes() as f64
    }

    /// What `throw_on_cudamalloc_oom` compares with: the fraction of the settings, whatever was set since.
    fn configured_limit_bytes(&self) -> u64 {
        whole(self.part_of_device(self.settings.per_process_memory_fraction.unwrap_or(1.0)))
    }

    /// Limits what may be held to this many bytes, as [`Allocator::set_memory_fraction`] would.
    pub fn set_limit_bytes(&mut self, limit_bytes: Option<u64>) {
        self.limit_bytes = limit_bytes;
    }

    /// From here on every block is as small as its request allows: not what PyTorch does, but what its thrift with
    /// splits costs can be told by it.
    pub fn split_always(&mut self) {
        self.splits_always = true;
    }

    /// The largest free block of the default large pool, on any stream.
    pub fn largest_free_bytes(&self) -> u64 {
        let largest = self.pools[DEFAULT_LARGE].largest_free();
        largest.map(|block| self.blocks[block].size).max().unwrap_or(0)
    }

    /// First byte of a block.
    pub fn address(&self, block: BlockId) -> u64 {
        self.blocks[block].address
    }

    /// Bytes of a block, as rounded and handed out.
    pub fn size_bytes(&self, block: BlockId) -> u64 {
        self.blocks[block].size
    }

    /// Hands out a block; `None` for a request of 0 bytes.
    ///
    /// # Errors
    /// [`Failure::OutOfMemory`], [`Failure::Rejected`] and [`Failure::TooLarge`] as PyTorch raises them; the allocator
    /// stays usable. [`Failure::Undefined`] where PyTorch itself would break.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 5.
    pub fn malloc(&mut self, requested: u64, stream: u64) -> Result<Option<BlockId>, Failure> {
        if requested == 0 {
            return Ok(None);
        }
        if requested >= TOO_LARGE_BYTES {
            return Err(Failure::TooLarge { requested_bytes: requested });
        }
        let has_pending = !self.waiting.is_empty() || !self.deferred.is_empty();
        if has_pending && !self.is_capture_running() {
            self.process_events();
        }
        let size = self.settings.round(requested);
        let mut request = Request {
            pool: self.route(stream, size)?,
            stream: self.streams.row(stream),
            size,
            expandable: self.settings.expandable_segments,
        };
        let (block, at) = match self.find_free(&request) {
            Some((block, at)) => (block, Some(at)),
            None => (self.obtain(&mut request, requested)?, None),
        };
        Ok(Some(self.hand_out(block, at, &request, requested)))
    }

    /// The first free block that fits, still in its pool; one candidate only.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 6.
    #[inline]
    pub(crate) fn find_free(&mut self, request: &Request) -> Option<(BlockId, Position)> {
        let collects = self.is_collecting();
        let pool = &mut self.pools[request.pool];
        if collects {
            pool.searches += 1;
        }
        let free = pool.free(request.stream);
        let mut at = free.at_least(request.size);
        let mut block = free.get(at)?;
        if self.is_expandable(block) {
            at = if request.expandable { self.prefer_hole(request, at) } else { self.skip_expandable(request, at)? };
            block = self.pools[request.pool].free(request.stream).get(at)?;
        }
        let (size, max_split) = (self.blocks[block].size, self.settings.max_split_bytes);
        if request.size < max_split && size >= max_split {
            return None;
        }
        if request.size >= max_split && size >= request.size.saturating_add(self.non_split_rounding_bytes()) {
            return None;
        }
        Some((block, at))
    }

    fn non_split_rounding_bytes(&self) -> u64 {
        const FIXED: u64 = 20 << 20;
        if self.rules.fixed_non_split_rounding { FIXED } else { self.settings.max_non_split_rounding_bytes }
    }

    /// Prefers a larger hole between blocks to the tail that can grow.
    fn prefer_hole(&mut self, request: &Request, mut at: Position) -> Position {
        loop {
            let free = self.pools[request.pool].free(request.stream);
            let next = free.next(at);
            let (Some(current), Some(following)) = (free.get(at), free.get(next)) else {
                return at;
            };
            if !self.is_expandable(current) || self.reach(following) >= self.reach(current) {
                return at;
            }
            at = next;
        }
    }

    /// What a free block could grow to.
    fn reach(&self, block: BlockId) -> u64 {
        let Block { size, next, .. } = self.blocks[block];
        let unmapped = next.exists().map(|next| &self.blocks[next]).filter(|next| !next.mapped);
        size + unmapped.map_or(0, |next| next.size)
    }

    /// The first block from `at` that is not expandable, where expandable segments are off.
    fn skip_expandable(&mut self, request: &Request, mut at: Position) -> Option<Position> {
        loop {
            let free = self.pools[request.pool].free(request.stream);
            let block = free.get(at)?;
            let next = free.next(at);
            if !self.is_expandable(block) {
                return Some(at);
            }
            at = next;
        }
    }

    /// Memory for a request that no free block serves: each way in turn, until one does.
    fn obtain(&mut self, request: &mut Request, requested: u64) -> Result<BlockId, Failure> {
        if self.is_collecting() {
            self.collect_garbage()?;
        }
        if let Some(block) = self.reserve(request)? {
            return Ok(block);
        }
        if self.pools[request.pool].owner.is_none()
            && let Some(block) = self.take_from_opted_in(request)?
        {
            return Ok(block);
        }
        if self.release_available(request)?
            && let Some(block) = self.reserve(request)?
        {
            return Ok(block);
        }
        if !self.is_capture_running() {
            self.release_cached()?;
            self.stats.num_alloc_retries += 1;
            // PyTorch does not search the pool again, though frees that were pending may have made room.
            if let Some(block) = self.reserve(request)? {
                return Ok(block);
            }
        }
        Err(Failure::OutOfMemory(self.out_of_memory(request, requested)))
    }

    /// The message that PyTorch prints for a failed request, as where NVML is missing: without other processes.
    pub fn message(&self, failure: &OutOfMemory) -> message::OutOfMemory {
        let page = self.page_bytes(failure.rounded_bytes <= SMALL_MAX_BYTES);
        message::OutOfMemory {
            segment_bytes: failure.segment_bytes,
            total_bytes: Some(failure.device_total_bytes),
            free_bytes: failure.device_free_bytes,
            limit_bytes: failure.limit_bytes,
            allocated_bytes: failure.allocated_bytes,
            reserved_bytes: failure.reserved_bytes,
            private_free_bytes: failure.private_free_bytes,
            expandable_segments: self.settings.expandable_segments,
            exceeded_reserve_bytes: self.settings.exceeded_reserve(
                failure.rounded_bytes,
                failure.device_total_bytes,
                page,
            ),
            ..message::OutOfMemory::new(self.settings.version)
        }
    }

    fn out_of_memory(&mut self, request: &Request, requested: u64) -> OutOfMemory {
        self.stats.num_ooms += 1;
        let device_free_bytes = self.device.free_bytes();
        self.observer.record(TraceEntry {
            action: Action::OutOfMemory,
            address: device_free_bytes,
            bytes: request.size,
            stream: self.streams.handle(request.stream),
            pool: self.pool_id(request.pool),
        });
        OutOfMemory {
            requested_bytes: requested,
            rounded_bytes: request.size,
            segment_bytes: self.settings.segment_bytes(request.size),
            device_free_bytes,
            device_total_bytes: self.device.total_bytes(),
            limit_bytes: self.limit_bytes,
            allocated_bytes: self.stats.allocated_bytes.all().current,
            reserved_bytes: self.stats.reserved_bytes.all().current,
            private_free_bytes: self.private_free_bytes(),
        }
    }

    /// A new segment, or more of an expandable one; `None` if the driver or the limit refuses.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 8.
    fn reserve(&mut self, request: &Request) -> Result<Option<BlockId>, Failure> {
        let segment_bytes = self.settings.segment_bytes(request.size);
        let after = self.used_bytes.saturating_add(segment_bytes);
        if self.limit_bytes.is_some_and(|limit| after > limit) {
            return Ok(None);
        }
        if self.settings.throw_on_cudamalloc_oom && after > self.configured_limit_bytes() {
            self.stats.num_oom_rejections += 1;
            return Err(Failure::Rejected { segment_bytes });
        }
        let block = if request.expandable { self.grow(request) } else { self.new_segment(request, segment_bytes) };
        if block.is_some()
            && let Some(owner) = self.pools[request.pool].owner
        {
            self.private[owner].driver_allocations += 1;
        }
        Ok(block)
    }

    fn new_segment(&mut self, request: &Request, bytes: u64) -> Option<BlockId> {
        let address = self.device.malloc(bytes)?;
        self.used_bytes += bytes;
        let small = self.pools[request.pool].small;
        self.stats.segment_allocated(small, bytes, bytes >= self.settings.max_split_bytes);
        let block = self.add_segment(request, address, bytes, 0);
        self.record(Action::SegmentAlloc, block, bytes);
        Some(block)
    }

    /// A segment of one block, which is in no set yet.
    pub(crate) fn add_segment(&mut self, request: &Request, address: u64, bytes: u64, page: u64) -> BlockId {
        let counter = self.next_counter();
        let segment = Segment { address, bytes, page, counter };
        let row = match self.vacant_segments.pop() {
            Some(row) => {
                self.segments[row as usize] = segment;
                row
            }
            None => {
                self.segments.push(segment);
                u32::try_from(self.segments.len() - 1).expect("fewer than 2^32 segments")
            }
        };
        self.blocks.add(Block {
            address,
            size: bytes,
            requested: 0,
            searches_before: 0,
            prev: BlockId::NONE,
            next: BlockId::NONE,
            segment: row,
            pool: u32::try_from(request.pool).expect("fewer than 2^32 pools"),
            stream: request.stream,
            counter,
            pending_events: 0,
            allocated: false,
            mapped: page == 0,
            has_uses: false,
            expandable: page > 0,
        })
    }

    pub(crate) fn next_counter(&mut self) -> u32 {
        self.last_counter = self.last_counter.wrapping_add(1);
        self.last_counter
    }

    /// The age of a block made from a part of `of`: a new one where ages decide.
    #[inline]
    fn piece_counter(&mut self, of: BlockId) -> u32 {
        if self.rules.tie == Tie::Block { self.next_counter() } else { self.blocks[of].counter }
    }

    /// A block made from a part of `of`, which is still to be linked.
    pub(crate) fn piece_of(&mut self, of: BlockId, address: u64, size: u64) -> BlockId {
        let counter = self.piece_counter(of);
        let piece = Block { address, size, counter, ..self.blocks[of] };
        self.blocks.add(piece)
    }

    /// Splits a block, which is at a position in its pool or in none, if it is worth it, and hands out its low part.
    ///
    /// # Source
    /// `spec/caching-allocator.md` sections 5.9, 5.10 and 7.
    #[inline]
    fn hand_out(&mut self, found: BlockId, at: Option<Position>, request: &Request, requested: u64) -> BlockId {
        let was_split = self.blocks[found].is_split();
        let counts_splits = !self.is_expandable(found);
        let small = self.pools[self.blocks[found].pool as usize].small;
        let block = if self.should_split(found, request) {
            let counter = self.piece_counter(found);
            let low = self.blocks.cut_front(found, request.size, counter);
            let rest_size = self.blocks[found].size;
            self.put_free(found, at);
            if counts_splits && was_split {
                self.stats.inactive_split_bytes.decrease(small, request.size);
            } else if counts_splits {
                self.stats.inactive_split.increase(small, 1);
                self.stats.inactive_split_bytes.increase(small, rest_size);
            }
            low
        } else {
            if counts_splits && was_split {
                self.stats.inactive_split.decrease(small, 1);
                self.stats.inactive_split_bytes.decrease(small, self.blocks[found].size);
            }
            if let Some(at) = at {
                self.pools[self.blocks[found].pool as usize].free(request.stream).remove_at(at);
            }
            found
        };
        let handed_out = &mut self.blocks[block];
        handed_out.allocated = true;
        handed_out.requested = requested;
        let size = handed_out.size;
        self.stats.handed_out(small, size, requested, size >= self.settings.max_split_bytes);
        self.record(Action::Alloc, block, requested);
        block
    }

    #[inline]
    fn should_split(&self, block: BlockId, request: &Request) -> bool {
        let block = &self.blocks[block];
        let pool = &self.pools[block.pool as usize];
        if pool.no_split {
            return false;
        }
        let rest = block.size - request.size;
        if pool.small || request.expandable || self.splits_always {
            rest >= MIN_BLOCK_BYTES
        } else {
            request.size < self.settings.max_split_bytes && rest > SMALL_MAX_BYTES
        }
    }

    #[inline]
    pub(crate) fn is_expandable(&self, block: BlockId) -> bool {
        self.blocks[block].expandable
    }

    /// Where a free block stands among those of its stream.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 2.1.
    #[inline]
    pub(crate) fn key(&self, block: &Block) -> Key {
        let tie = match self.rules.tie {
            Tie::Address => block.address,
            Tie::Block => u64::from(block.counter),
            Tie::Segment => {
                let segment = &self.segments[block.segment as usize];
                let place = u32::try_from((block.address - segment.address) / MIN_BLOCK_BYTES).unwrap_or(u32::MAX);
                u64::from(segment.counter) << 32 | u64::from(place)
            }
        };
        Key(block.size, tie)
    }

    /// Puts a free block into its pool, in place of the entry at a position if one is given.
    #[inline]
    pub(crate) fn put_free(&mut self, id: BlockId, at: Option<Position>) {
        let key = self.key(&self.blocks[id]);
        let block = &mut self.blocks[id];
        let pool = &mut self.pools[block.pool as usize];
        block.searches_before = pool.searches;
        let free = pool.free(block.stream);
        match at {
            Some(at) => free.replace(at, key, id),
            None => free.insert(key, id),
        }
    }

    /// Puts a block, free or without memory, among those of its pool.
    pub(crate) fn insert(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        if block.mapped {
            self.put_free(id, None);
        } else {
            self.pools[block.pool as usize].unmapped(block.stream).insert(by_address(block.address), id);
        }
    }

    /// Takes a block, free or without memory, from those of its pool.
    #[inline]
    pub(crate) fn remove(&mut self, id: BlockId) {
        let block = self.blocks[id];
        let key = self.key(&block);
        let pool = &mut self.pools[block.pool as usize];
        if block.mapped {
            pool.free(block.stream).remove(key, id);
        } else {
            pool.unmapped(block.stream).remove(by_address(block.address), id);
        }
    }

    /// Writes down what happened to a block.
    #[inline]
    pub(crate) fn record(&mut self, action: Action, block: BlockId, bytes: u64) {
        // Spares 23 instructions an op.
        if !O::LOOKS {
            return;
        }
        let Block { address, stream, pool, .. } = self.blocks[block];
        self.record_range(action, address, bytes, stream, pool);
    }

    #[inline]
    pub(crate) fn record_range(&mut self, action: Action, address: u64, bytes: u64, stream: u32, pool: u32) {
        let (stream, pool) = (self.streams.handle(stream), self.pool_id(pool as usize));
        self.observer.record(TraceEntry { action, address, bytes, stream, pool });
    }

    /// Writes a `snapshot` entry, as taking one does.
    pub fn mark_snapshot(&mut self) {
        let bytes = self.stats.active_bytes.all().current;
        self.observer.record(TraceEntry { action: Action::Snapshot, address: 0, bytes, stream: 0, pool: 0 });
    }

    #[inline]
    pub(crate) fn is_collecting(&self) -> bool {
        self.limit_bytes.is_some() && self.settings.garbage_collection_threshold > 0.0
    }

    /// The row of the default pool for a rounded size.
    #[inline]
    pub(crate) fn default_pool(size: u64) -> usize {
        if size <= SMALL_MAX_BYTES { DEFAULT_SMALL } else { DEFAULT_LARGE }
    }

    pub(crate) fn undefined<T>(reason: Undefined) -> Result<T, Failure> {
        Err(Failure::Undefined(reason))
    }
}
