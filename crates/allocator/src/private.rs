//! Private pools: of CUDA graphs and of `torch.cuda.MemPool`.

use crate::allocator::{Allocator, Request, Route};
use crate::block::BlockId;
use crate::device::Device;
use crate::failure::{Failure, Undefined};
use crate::pool::{BlockPool, PrivatePool};
use crate::sizes::SMALL_MAX_BYTES;
use crate::trace::Observer;

/// How a private pool differs from others.
///
/// # Source
/// `spec/caching-allocator.md` sections 14.3 and 14.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolFlags {
    /// Its cached blocks serve requests of the default pool before those fail.
    pub use_on_oom: bool,
    /// Its blocks are whole segments.
    pub no_split: bool,
}

impl<D: Device, O: Observer> Allocator<D, O> {
    /// Creates a pool, if there is none of this id, and counts as one use of it.
    ///
    /// # Errors
    /// [`Undefined::PoolWithoutUses`] if its last use has ended.
    pub fn create_pool(&mut self, id: u64, flags: PoolFlags) -> Result<(), Failure> {
        let row = self.use_pool(id)?;
        if flags.no_split {
            self.no_split.insert(id);
            let PrivatePool { small, large, .. } = self.private[row];
            self.pools[small].no_split = true;
            self.pools[large].no_split = true;
        }
        if flags.use_on_oom {
            self.on_oom.insert(id, id);
        }
        Ok(())
    }

    /// From here on requests of `stream`, or of any, go to a pool, which is created if there is none of this id.
    /// Counts as one use of it.
    ///
    /// # Errors
    /// [`Undefined::PoolWithoutUses`] if its last use has ended, [`Undefined::PoolOpenAlready`].
    pub fn begin_pool(&mut self, id: u64, stream: Option<u64>) -> Result<(), Failure> {
        if self.is_open(id) {
            return Self::undefined(Undefined::PoolOpenAlready);
        }
        self.use_pool(id)?;
        self.routes.push(Route { pool: id, stream });
        Ok(())
    }

    /// Ends what [`Allocator::begin_pool`] began; the pool lives on.
    ///
    /// # Errors
    /// [`Undefined::PoolNotOpen`].
    pub fn end_pool(&mut self, id: u64) -> Result<(), Failure> {
        if !self.is_open(id) {
            return Self::undefined(Undefined::PoolNotOpen);
        }
        self.routes.retain(|route| route.pool != id);
        Ok(())
    }

    fn is_open(&self, id: u64) -> bool {
        self.routes.iter().any(|route| route.pool == id)
    }

    /// Drops one use of a pool: at none left, its cached memory can be released.
    ///
    /// # Errors
    /// [`Undefined::NoSuchPool`], [`Undefined::PoolWithoutUses`].
    pub fn release_pool_use(&mut self, id: u64) -> Result<(), Failure> {
        let Some(&row) = self.private_rows.get(&id) else {
            return Self::undefined(Undefined::NoSuchPool);
        };
        let Some(uses) = self.private[row].uses.checked_sub(1) else {
            return Self::undefined(Undefined::PoolWithoutUses);
        };
        self.private[row].uses = uses;
        if uses == 0 {
            self.freeable.insert(id, id);
        }
        Ok(())
    }

    /// Returns the cached memory of one pool, if it has no uses.
    ///
    /// # Errors
    /// [`Undefined::EmptiedUnderOpenPool`] in torch up to 2.11.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 10.
    pub fn empty_cache_of(&mut self, id: u64) -> Result<(), Failure> {
        if !self.freeable.contains(id) {
            return Ok(());
        }
        if self.is_capture_running() {
            return Self::undefined(Undefined::EmptiedUnderOpenPool);
        }
        self.synchronize(self.private_rows.get(&id).copied());
        self.release_private(id)
    }

    /// Says whether a stream capture of a CUDA graph is running.
    pub fn set_capturing(&mut self, capturing: bool) {
        self.capturing = capturing;
    }

    /// Whether pending frees, retries and `empty_cache` have to wait.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 14.1.
    #[inline]
    pub(crate) fn is_capture_running(&self) -> bool {
        self.capturing || (self.rules.open_pool_is_capture && !self.routes.is_empty())
    }

    fn use_pool(&mut self, id: u64) -> Result<usize, Failure> {
        if let Some(&row) = self.private_rows.get(&id) {
            if self.private[row].uses == 0 {
                return Self::undefined(Undefined::PoolWithoutUses);
            }
            self.private[row].uses += 1;
            return Ok(row);
        }
        let row = self.private.len();
        let small = self.pools.len();
        for is_small in [true, false] {
            let mut half = BlockPool::new(is_small, Some(row));
            half.no_split = self.rules.no_split_outlives_pool && self.no_split.contains(&id);
            self.pools.push(half);
        }
        let pool = PrivatePool { id, uses: 1, driver_allocations: 0, small, large: small + 1 };
        self.private.push(pool);
        self.private_rows.insert(id, row);
        Ok(row)
    }

    /// The row of the pool for a request.
    #[inline]
    pub(crate) fn route(&self, stream: u64, size: u64) -> Result<usize, Failure> {
        if self.routes.is_empty() {
            return Ok(Self::default_pool(size));
        }
        let matches = |route: &&Route| route.stream.is_none_or(|only| only == stream);
        let route = if self.rules.first_route_wins {
            self.routes.iter().find(matches)
        } else {
            self.routes.iter().rev().find(matches)
        };
        let Some(route) = route else {
            return Ok(Self::default_pool(size));
        };
        match self.private_rows.get(&route.pool) {
            Some(&row) if size <= SMALL_MAX_BYTES => Ok(self.private[row].small),
            Some(&row) => Ok(self.private[row].large),
            // Released and deleted while open.
            None => Self::undefined(Undefined::NoSuchPool),
        }
    }

    /// The id of the pool of a row; 0 is the default one.
    #[inline]
    pub(crate) fn pool_id(&self, pool: usize) -> u64 {
        self.pools[pool].owner.map_or(0, |row| self.private[row].id)
    }

    /// A cached block of a pool that opted in, for a request that would otherwise fail.
    pub(crate) fn take_from_opted_in(&mut self, request: &mut Request) -> Result<Option<BlockId>, Failure> {
        for id in self.on_oom.values() {
            // PyTorch enters the pool and leaves it again.
            if self.is_open(id) {
                return Self::undefined(Undefined::PoolOpenAlready);
            }
            let row = self.use_pool(id)?;
            let private = &self.private[row];
            let pool = if self.pools[request.pool].small { private.small } else { private.large };
            let found = self.find_free(&Request { pool, expandable: false, ..*request });
            self.release_pool_use(id)?;
            if let Some((block, at)) = found {
                self.pools[pool].free(request.stream).remove_at(at);
                request.expandable = false;
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// Releases what a pool without uses has cached, and the pool with its last segment.
    pub(crate) fn release_private(&mut self, id: u64) -> Result<(), Failure> {
        let Some(&row) = self.private_rows.get(&id) else {
            return Ok(());
        };
        let PrivatePool { small, large, .. } = self.private[row];
        self.release_pool(small)?;
        self.release_pool(large)?;
        if self.private[row].driver_allocations == 0 {
            // With expandable segments that can be while blocks are in use: those stay, and so do the pool's rows.
            self.freeable.remove(id);
            self.private_rows.remove(&id);
        }
        Ok(())
    }

    /// Counts what goes back to the driver from a private pool.
    pub(crate) fn count_return(&mut self, owner: Option<usize>) -> Result<(), Failure> {
        let Some(owner) = owner else {
            return Ok(());
        };
        let Some(left) = self.private[owner].driver_allocations.checked_sub(1) else {
            return Self::undefined(Undefined::PoolCountBelowZero);
        };
        self.private[owner].driver_allocations = left;
        Ok(())
    }

    /// Free blocks of all private pools: an amount of the out-of-memory message.
    pub(crate) fn private_free_bytes(&mut self) -> u64 {
        let Self { private_rows, private, pools, streams, blocks, .. } = self;
        let halves = private_rows.values().flat_map(|&row| [private[row].small, private[row].large]);
        let free = halves.flat_map(|pool| pools[pool].all_free(streams));
        free.map(|id| blocks[id].size).sum()
    }
}
