//! The order in which PyTorch visits private pools and streams: that of its hash tables.

/// Robin hood hashing is given up, and the table enlarged, at this distance from the home slot.
const MIN_DISTANCE: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Slot<T> {
    /// Slots from where its hash would have it.
    distance: usize,
    hash: u64,
    value: T,
}

/// Values in the iteration order of `ska::flat_hash_map`, by hashes that no two share.
///
/// Which pool is released first decides where later segments lie, so the table is rebuilt slot by slot: Fibonacci
/// hashing, robin hood insertion, a load of at most one half, backward shift on removal.
///
/// # Source
/// `spec/caching-allocator.md` section 10; PyTorch `c10/util/flat_hash_map.h`.
#[derive(Clone, Debug)]
pub(crate) struct HashOrder<T> {
    buckets: usize,
    count: usize,
    /// There are `max_distance` slots more than buckets.
    slots: Vec<Option<Slot<T>>>,
}

impl<T> Default for HashOrder<T> {
    fn default() -> Self {
        Self { buckets: 0, count: 0, slots: Vec::new() }
    }
}

impl<T: Copy> HashOrder<T> {
    /// The values in the order of the slots.
    pub(crate) fn values(&self) -> Vec<T> {
        self.slots.iter().flatten().map(|slot| slot.value).collect()
    }

    /// The first slot from `at` on that is taken, with its hash and value.
    pub(crate) fn taken_from(&self, at: usize) -> Option<(usize, u64, T)> {
        let mut slots = self.slots.iter().enumerate().skip(at);
        slots.find_map(|(at, slot)| slot.map(|slot| (at, slot.hash, slot.value)))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn contains(&self, hash: u64) -> bool {
        self.position(hash).is_some()
    }

    /// Looked for where it would be put: no slot between its home and its own is empty.
    fn position(&self, hash: u64) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let home = self.home(hash);
        let near = self.slots[home..].iter().take_while(|slot| slot.is_some()).take(self.max_distance());
        near.flatten().position(|slot| slot.hash == hash).map(|distance| home + distance)
    }

    pub(crate) fn insert(&mut self, hash: u64, value: T) {
        if self.contains(hash) {
            return;
        }
        if self.buckets == 0 {
            self.rehash(4);
        }
        let (mut at, mut distance) = (self.home(hash), 0);
        while self.slots[at].is_some_and(|other| other.distance >= distance) {
            (at, distance) = (at + 1, distance + 1);
        }
        if distance == self.max_distance() || 2 * (self.count + 1) > self.buckets {
            self.rehash(2 * self.buckets);
            return self.insert(hash, value);
        }
        let (first, mut carried) = (at, Slot { distance, hash, value });
        loop {
            match &mut self.slots[at] {
                empty @ None => {
                    *empty = Some(carried);
                    self.count += 1;
                    return;
                }
                Some(richer) if richer.distance < carried.distance => {
                    std::mem::swap(richer, &mut carried);
                    carried.distance += 1;
                }
                Some(_) => {
                    carried.distance += 1;
                    if carried.distance == self.max_distance() {
                        // The one without a place takes that of the new one, which begins anew.
                        self.slots[first] = Some(carried);
                        self.rehash(2 * self.buckets);
                        return self.insert(hash, value);
                    }
                }
            }
            at += 1;
        }
    }

    /// Takes a value out. Those behind it move up, so the next one may be in its slot.
    pub(crate) fn remove(&mut self, hash: u64) {
        let Some(mut at) = self.position(hash) else {
            return;
        };
        self.slots[at] = None;
        self.count -= 1;
        while let Some(&Some(next)) = self.slots.get(at + 1)
            && next.distance > 0
        {
            self.slots[at] = Some(Slot { distance: next.distance - 1, ..next });
            self.slots[at + 1] = None;
            at += 1;
        }
    }

    /// Takes all values out; the room stays, and with it the order of what comes.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(None);
        self.count = 0;
    }

    fn home(&self, hash: u64) -> usize {
        const FIBONACCI: u64 = 11_400_714_819_323_198_485;
        let slot = hash.wrapping_mul(FIBONACCI) >> (64 - self.buckets.ilog2());
        usize::try_from(slot).expect("fewer slots than addresses")
    }

    fn max_distance(&self) -> usize {
        MIN_DISTANCE.max(self.buckets.ilog2() as usize)
    }

    fn rehash(&mut self, buckets: usize) {
        let max_distance = MIN_DISTANCE.max(buckets.ilog2() as usize);
        let slots = std::mem::replace(&mut self.slots, vec![None; buckets + max_distance]);
        self.buckets = buckets;
        self.count = 0;
        for slot in slots.into_iter().flatten() {
            self.insert(slot.hash, slot.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_in_the_order_of_their_slots() {
        let mut order = HashOrder::default();
        for id in [1, 2, 3, 2] {
            order.insert(id, id);
        }
        assert_eq!(order.values(), [2, 1, 3]);
        assert_eq!(order.taken_from(0), Some((1, 2, 2)));
        order.remove(1);
        order.remove(7);
        assert_eq!(order.values(), [2, 3]);
        assert!(!order.is_empty());
        order.clear();
        assert!(order.is_empty());
        assert_eq!(order.taken_from(0), None);
    }

    /// The values in their order after each of 2000 steps, as one number: as PyTorch's own table gave them,
    /// `c10/util/flat_hash_map.h` of torch 2.15.
    fn digest(keys: u64, hash: impl Fn(u64) -> u64) -> u64 {
        let (mut order, mut state, mut digest) = (HashOrder::default(), keys, 0_u64);
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for step in 0..2000 {
            let key = draw(keys);
            if step == 1000 {
                order.clear();
            }
            if draw(3) < 2 {
                order.insert(hash(key), key);
            } else {
                order.remove(hash(key));
            }
            for value in order.values() {
                digest = digest.wrapping_mul(31).wrapping_add(value + 1);
            }
        }
        digest
    }

    #[test]
    fn pools_and_streams_come_in_the_order_of_pytorchs_table_after_every_step() {
        let hash = |key| if key % 2 == 0 { key } else { (1 << 56) | (key * 0x1000) };
        assert_eq!(digest(6, hash), 0xb221_ddaa_50a6_fb39);
        assert_eq!(digest(12, hash), 0x839c_4636_c6b4_4411);
        assert_eq!(digest(40, hash), 0xb0b8_8e2c_f78e_fca6);
        assert_eq!(digest(200, hash), 0xbff0_3c19_ca5f_d5c1);
    }

    #[test]
    fn a_table_grows_when_too_many_want_the_same_slot() {
        // The inverse of the multiplier: the key itself stands in the bits that say the slot.
        let hash = |key: u64| (key << 55).wrapping_mul(17_428_512_612_931_826_493);
        assert_eq!(digest(10, hash), 0x1cf3_80f0_e7b2_be21);
        assert_eq!(digest(24, hash), 0xc13d_a248_36f9_fa53);
    }

    #[test]
    fn what_was_put_in_is_found_until_it_is_taken_out() {
        let mut order = HashOrder::default();
        let hashes: Vec<u64> = (1..3000).map(|i| i * 0x1000 + i % 7).collect();
        for &hash in &hashes {
            assert!(!order.contains(hash));
            order.insert(hash, hash);
            assert!(order.contains(hash));
        }
        let (gone, kept): (Vec<u64>, Vec<u64>) = hashes.iter().partition(|&&hash| hash % 3 == 0);
        for &hash in &gone {
            order.remove(hash);
        }
        assert!(gone.iter().all(|&hash| !order.contains(hash)));
        assert!(kept.iter().all(|&hash| order.contains(hash)));
        assert_eq!(order.values().len(), kept.len());
    }
}
