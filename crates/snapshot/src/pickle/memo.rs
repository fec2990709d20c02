//! The memo: what a pickle may refer to again.

use hashbrown::HashMap;

use super::value::Value;
use crate::error::ErrorKind;
use crate::limits::MAX_ROWS;
use crate::room;

/// Slots by index, four bytes each: strings and containers as they are, anything else by a detour.
///
/// Every writer counts its slots up from 0 (CPython, PyTorch's C++ pickler); a slot out of that order goes to a map, so
/// that a declared index never decides how much memory is taken.
#[derive(Default)]
pub(crate) struct Memo {
    slots: Vec<u32>,
    sparse: HashMap<u32, u32>,
    others: Vec<Value>,
    overwrites: u64,
}

/// The low bits of a slot that holds an index into `others`: no value of 32 bits has this tag.
const OTHER: u32 = Value::FREE_TAG;

impl Memo {
    /// `MEMOIZE`: the next slot.
    #[inline]
    pub(crate) fn push(&mut self, value: Value) -> Result<(), ErrorKind> {
        let slot = self.slot(value)?;
        if self.slots.len() >= 4 * MAX_ROWS {
            return Err(ErrorKind::Limit { what: "the number of memo slots", limit: MAX_ROWS as u64 * 4 });
        }
        room::push(&mut self.slots, slot)
    }

    /// `BINPUT` and its like: a slot by index.
    #[inline]
    pub(crate) fn put(&mut self, index: u32, value: Value) -> Result<(), ErrorKind> {
        let at = index as usize;
        if at == self.slots.len() {
            return self.push(value);
        }
        let slot = self.slot(value)?;
        if at < self.slots.len() {
            self.slots[at] = slot;
            self.overwrites += 1;
        } else {
            self.sparse.try_reserve(1).map_err(|_| ErrorKind::OutOfMemory)?;
            self.overwrites += u64::from(self.sparse.insert(index, slot).is_some());
        }
        Ok(())
    }

    /// `BINGET` and its like.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<Value> {
        let slot = match self.slots.get(index as usize) {
            Some(&slot) => slot,
            None => *self.sparse.get(&index)?,
        };
        if slot & Value::TAG_MASK == OTHER {
            Some(self.others[(slot >> Value::TAG_BITS) as usize])
        } else {
            Some(Value::from_bits(slot))
        }
    }

    /// How often a slot was given another value: what was known of slots before may no longer hold.
    pub(crate) fn overwrites(&self) -> u64 {
        self.overwrites
    }

    #[inline]
    fn slot(&mut self, value: Value) -> Result<u32, ErrorKind> {
        match value.to_bits() {
            Some(bits) => Ok(bits),
            None => self.other(value),
        }
    }

    /// Wide numbers, which no writer puts into the memo.
    #[cold]
    fn other(&mut self, value: Value) -> Result<u32, ErrorKind> {
        let index = self.others.len();
        if index >= MAX_ROWS {
            return Err(ErrorKind::Limit { what: "the number of memo slots", limit: MAX_ROWS as u64 });
        }
        room::push(&mut self.others, value)?;
        Ok(u32::try_from(index).expect("below the limit") << Value::TAG_BITS | OTHER)
    }
}

const _: () = assert!(MAX_ROWS <= 1 << (32 - Value::TAG_BITS));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StringId;

    #[test]
    fn slots_in_any_order_come_back() {
        let mut memo = Memo::default();
        let wide = Value::int(1 << 50).unwrap();
        memo.push(Value::text(StringId::new(3))).unwrap();
        memo.put(1, Value::node(9)).unwrap();
        memo.put(4_000_000_000, wide).unwrap();
        memo.put(0, Value::small(-6)).unwrap();
        assert!(memo.get(0) == Some(Value::small(-6)));
        assert!(memo.get(1) == Some(Value::node(9)));
        assert!(memo.get(2).is_none());
        assert!(memo.get(4_000_000_000) == Some(wide));
        assert!(memo.slots.capacity() < 100, "a declared index takes no memory");
        assert_eq!(memo.overwrites(), 1);
    }
}
