//! A value on the machine's stack: one word.

use crate::StringId;

/// A handle of 64 bits: four of tag, sixty of payload.
///
/// Numbers that fit 60 bits are inline; wider ones, floats and everything with parts live in the
/// [`Store`](crate::decode::store::Store), and the payload is their index.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value(u64);

/// What a [`Value`] means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int(i64),
    /// Index into the wide numbers.
    Wide(usize),
    /// Index into the floats.
    Float(usize),
    Text(StringId),
    None,
    Bool(bool),
    /// Index into the nodes: containers and what became of them.
    Node(usize),
    /// Bytes and the like, which no snapshot has: the content is passed over.
    Opaque,
}

const INT: u64 = 0;
const WIDE: u64 = 1;
const FLOAT: u64 = 2;
const TEXT: u64 = 3;
const NONE: u64 = 4;
const BOOL: u64 = 5;
const NODE: u64 = 6;
const OPAQUE: u64 = 7;

const TAG_BITS: u32 = Value::TAG_BITS;
const TAG_MASK: u64 = Value::TAG_MASK as u64;

impl Value {
    pub(crate) const TAG_BITS: u32 = 4;
    pub(crate) const TAG_MASK: u32 = (1 << Self::TAG_BITS) - 1;
    /// A tag that no value has.
    pub(crate) const FREE_TAG: u32 = 15;

    /// The value in 32 bits, if its payload has at most 28: every string, every container, no large number.
    #[inline]
    pub(crate) const fn to_bits(self) -> Option<u32> {
        let bits = low_half(self.0);
        if Self::from_bits(bits).0 == self.0 { Some(bits) } else { None }
    }

    /// The value that [`to_bits`](Self::to_bits) gave.
    #[inline]
    pub(crate) const fn from_bits(bits: u32) -> Self {
        // Only numbers have a sign.
        if bits & Self::TAG_MASK == low_half(INT) {
            Self((bits.cast_signed() as i64).cast_unsigned())
        } else {
            Self(bits as u64)
        }
    }

    pub(crate) const NONE: Self = Self(NONE);
    pub(crate) const OPAQUE: Self = Self(OPAQUE);

    /// The number inline, if it fits.
    #[inline]
    pub(crate) const fn int(number: i64) -> Option<Self> {
        let word = number.cast_unsigned() << TAG_BITS;
        if word.cast_signed() >> TAG_BITS == number { Some(Self(word | INT)) } else { None }
    }

    /// A number of at most 32 bits, which always fits.
    #[inline]
    pub(crate) const fn small(number: i32) -> Self {
        Self((number as i64).cast_unsigned() << TAG_BITS | INT)
    }

    pub(crate) const fn wide(index: usize) -> Self {
        Self((index as u64) << TAG_BITS | WIDE)
    }

    pub(crate) const fn float(index: usize) -> Self {
        Self((index as u64) << TAG_BITS | FLOAT)
    }

    #[inline]
    pub(crate) const fn text(id: StringId) -> Self {
        Self((id.get() as u64) << TAG_BITS | TEXT)
    }

    pub(crate) const fn bool(value: bool) -> Self {
        Self((value as u64) << TAG_BITS | BOOL)
    }

    #[inline]
    pub(crate) const fn node(index: usize) -> Self {
        Self((index as u64) << TAG_BITS | NODE)
    }

    /// The string, if this is one.
    #[inline]
    pub(crate) const fn as_text(self) -> Option<StringId> {
        if self.0 & TAG_MASK == TEXT { Some(StringId::new(low_half(self.0 >> TAG_BITS))) } else { None }
    }

    /// The node's index, if this is one.
    #[inline]
    pub(crate) const fn as_node(self) -> Option<usize> {
        if self.0 & TAG_MASK == NODE { Some((self.0 >> TAG_BITS) as usize) } else { None }
    }

    /// The number, if it is inline.
    #[inline]
    pub(crate) const fn as_int(self) -> Option<i64> {
        if self.0 & TAG_MASK == INT { Some(self.0.cast_signed() >> TAG_BITS) } else { None }
    }

    pub(crate) const fn kind(self) -> Kind {
        let payload = self.0 >> TAG_BITS;
        match self.0 & TAG_MASK {
            INT => Kind::Int(self.0.cast_signed() >> TAG_BITS),
            WIDE => Kind::Wide(payload as usize),
            FLOAT => Kind::Float(payload as usize),
            TEXT => Kind::Text(StringId::new(low_half(payload))),
            BOOL => Kind::Bool(payload != 0),
            NODE => Kind::Node(payload as usize),
            OPAQUE => Kind::Opaque,
            _ => Kind::None,
        }
    }
}

/// The low 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
const fn low_half(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_or_are_refused() {
        for number in [0, 1, -1, 255, i64::from(i32::MIN), (1 << 59) - 1, -(1 << 59)] {
            assert_eq!(Value::int(number).unwrap().as_int(), Some(number));
            assert_eq!(Value::int(number).unwrap().kind(), Kind::Int(number));
        }
        for number in [1 << 59, i64::MAX, i64::MIN, -(1 << 59) - 1] {
            assert!(Value::int(number).is_none());
        }
        assert_eq!(Value::small(-7).as_int(), Some(-7));
    }

    #[test]
    fn kinds_come_back() {
        assert_eq!(Value::text(StringId::new(u32::MAX - 1)).kind(), Kind::Text(StringId::new(u32::MAX - 1)));
        assert_eq!(Value::node(1 << 28).kind(), Kind::Node(1 << 28));
        assert_eq!(Value::bool(true).kind(), Kind::Bool(true));
        assert_eq!(Value::NONE.kind(), Kind::None);
        assert_eq!(Value::OPAQUE.kind(), Kind::Opaque);
        assert_eq!(Value::node(3).as_text(), None);
    }
}
