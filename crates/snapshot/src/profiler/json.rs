//! JSON of unknown shape: single values, and nothing of the rest.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A single value; `Other` for what has parts, or says nothing.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    Other,
}

impl Scalar {
    /// A whole number, also one that was written as a float.
    pub(super) fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::Int(number) => Some(number),
            #[expect(clippy::cast_possible_truncation, reason = "whole, and within 2^62")]
            Self::Float(number) if number.fract() == 0.0 && number.abs() < 4e18 => Some(number as i64),
            _ => None,
        }
    }

    /// An address: one of 2^63 and more may be written as a negative number.
    pub(super) fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(number) => Some(number),
            _ => self.as_i64().map(i64::cast_unsigned),
        }
    }

    /// Microseconds, with a fraction or without, as nanoseconds.
    pub(super) fn as_ns(&self) -> Option<i64> {
        match *self {
            Self::Int(us) => us.checked_mul(1000),
            #[expect(clippy::cast_possible_truncation, reason = "within 2^63")]
            Self::Float(us) if us.abs() < 9e15 => Some((us * 1000.0).round() as i64),
            _ => None,
        }
    }
}

/// Reads any value as a [`Scalar`].
pub(super) struct AnyScalar;

impl<'de> DeserializeSeed<'de> for AnyScalar {
    type Value = Scalar;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyScalar {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Int(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
        Ok(i64::try_from(number).map_or(Scalar::Unsigned(number), Scalar::Int))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Float(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Scalar, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Scalar, A::Error> {
        while pairs.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

/// Which of some words a key is, without a copy of it.
pub(super) struct Word<'a>(pub(super) &'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Word<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Word<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|&word| word == text))
    }
}
