//! A section: numbers of one type, little-endian, or a JSON text.

use std::borrow::Cow;

/// The type of the numbers of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One byte.
    U8,
    /// Two bytes.
    U16,
    /// Four bytes.
    U32,
    /// Eight bytes, a double: whole numbers up to 2^53, and -1.
    F64,
    /// Text.
    Json,
}

impl Kind {
    /// Bytes of a number.
    pub const fn width(self) -> usize {
        match self {
            Self::U8 | Self::Json => 1,
            Self::U16 => 2,
            Self::U32 => 4,
            Self::F64 => 8,
        }
    }

    /// The narrowest type for numbers up to `largest`.
    const fn for_largest(largest: u64) -> Self {
        match largest {
            0..=0xff => Self::U8,
            0x100..=0xffff => Self::U16,
            0x1_0000..=0xffff_ffff => Self::U32,
            _ => Self::F64,
        }
    }
}

/// How the payload of a section says its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Little-endian.
    Raw,
    /// LEB128: 7 bits a byte, the low ones first.
    Varint,
    /// LEB128 of the zigzag'd difference to the row before; the first to 0.
    Delta,
    /// Of `end`: LEB128 of the difference to `start`.
    Length,
}

/// The description of a section in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SectionInfo {
    /// The type of its numbers.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// How many there are; absent of JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<usize>,
    /// How the payload says them.
    pub encoding: Encoding,
    /// The value of every row, if they are all equal; there is no payload then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constant: Option<f64>,
}

impl SectionInfo {
    /// Of a JSON text.
    pub const JSON: Self = Self { kind: Kind::Json, length: None, encoding: Encoding::Raw, constant: None };
}

/// A section of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// The type of the numbers.
    pub kind: Kind,
    /// Their number.
    pub length: usize,
    /// The value of all of them, if they are equal.
    pub constant: Option<f64>,
    /// The numbers, little-endian; empty if they are all the same.
    pub bytes: Vec<u8>,
}

impl Section {
    /// Whole numbers, in the narrowest type that holds them all.
    pub fn of(values: &[u64]) -> Self {
        Self::narrowed(values.len(), values.iter().copied())
    }

    /// As [`of`](Self::of).
    pub fn of_u32(values: &[u32]) -> Self {
        Self::narrowed(values.len(), values.iter().map(|&value| u64::from(value)))
    }

    /// As [`of`](Self::of), from an iterator that can be run twice.
    pub fn narrowed(length: usize, values: impl Iterator<Item = u64> + Clone) -> Self {
        let Some(first) = values.clone().next() else {
            return Self { kind: Kind::U8, length: 0, constant: None, bytes: Vec::new() };
        };
        let (mut largest, mut differs) = (0, 0);
        for value in values.clone() {
            largest = largest.max(value);
            differs |= value ^ first;
        }
        let kind = Kind::for_largest(largest);
        if differs == 0 {
            return Self { kind, length, constant: Some(double(first)), bytes: Vec::new() };
        }
        let mut bytes = Vec::with_capacity(length * kind.width());
        match kind {
            Kind::U8 => bytes.extend(values.map(|value| value.to_le_bytes()[0])),
            Kind::U16 => fill(&mut bytes, values, |value| [value.to_le_bytes()[0], value.to_le_bytes()[1]]),
            Kind::U32 => fill(&mut bytes, values, |value| {
                let [a, b, c, d, ..] = value.to_le_bytes();
                [a, b, c, d]
            }),
            Kind::F64 | Kind::Json => fill(&mut bytes, values, |value| double(value).to_le_bytes()),
        }
        Self { kind, length, constant: None, bytes }
    }

    /// Doubles, whatever they are.
    pub fn of_doubles(values: &[f64]) -> Self {
        let (kind, length) = (Kind::F64, values.len());
        if let Some(&first) = values.first()
            && values.iter().all(|value| value.to_bits() == first.to_bits())
        {
            return Self { kind, length, constant: Some(first), bytes: Vec::new() };
        }
        Self { kind, length, constant: None, bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect() }
    }

    /// The rows in the middle, at most so many.
    #[must_use]
    pub fn sample(&self, rows: usize) -> Self {
        if self.constant.is_some() || self.length <= rows {
            return self.clone();
        }
        let (width, from) = (self.kind.width(), (self.length - rows) / 2);
        let bytes = self.bytes[from * width..(from + rows) * width].to_vec();
        Self { kind: self.kind, length: rows, constant: None, bytes }
    }

    /// Its description in the manifest, as it is served.
    pub fn info(&self) -> SectionInfo {
        self.info_encoded(Encoding::Raw)
    }

    /// Its description in the manifest in another encoding.
    pub fn info_encoded(&self, encoding: Encoding) -> SectionInfo {
        SectionInfo { kind: self.kind, length: Some(self.length), encoding, constant: self.constant }
    }

    /// Whole numbers, one a row; of doubles their whole part, negative ones as 0.
    pub fn numbers(&self) -> Vec<u64> {
        if let Some(constant) = self.constant {
            return vec![whole(constant); self.length];
        }
        match self.kind {
            Kind::U8 | Kind::Json => self.bytes.iter().map(|&byte| u64::from(byte)).collect(),
            Kind::U16 => self.words(|word| u64::from(u16::from_le_bytes(word))),
            Kind::U32 => self.words(|word| u64::from(u32::from_le_bytes(word))),
            Kind::F64 => self.words(|word| whole(f64::from_le_bytes(word))),
        }
    }

    fn words<const N: usize>(&self, value: impl Fn([u8; N]) -> u64) -> Vec<u64> {
        let (words, _) = self.bytes.as_chunks();
        words.iter().map(|&word| value(word)).collect()
    }

    /// The payload in an encoding; of doubles always the raw one.
    ///
    /// [`Encoding::Length`] counts from `start`.
    pub fn encoded(&self, encoding: Encoding, start: Option<&Self>) -> Cow<'_, [u8]> {
        if self.constant.is_some() {
            return Cow::Borrowed(&[]);
        }
        let mut out = Vec::with_capacity(self.bytes.len());
        match (encoding, start) {
            (Encoding::Varint, _) => self.numbers().into_iter().for_each(|value| leb128(&mut out, value)),
            (Encoding::Delta, _) => {
                let mut before = 0_u64;
                for value in self.numbers() {
                    leb128(&mut out, zigzag(value.wrapping_sub(before).cast_signed()));
                    before = value;
                }
            }
            (Encoding::Length, Some(start)) => {
                for (value, start) in self.numbers().into_iter().zip(start.numbers()) {
                    leb128(&mut out, value.saturating_sub(start));
                }
            }
            _ => return Cow::Borrowed(&self.bytes),
        }
        Cow::Owned(out)
    }
}

fn fill<const N: usize>(bytes: &mut Vec<u8>, values: impl Iterator<Item = u64>, pack: impl Fn(u64) -> [u8; N]) {
    for value in values {
        bytes.extend_from_slice(&pack(value));
    }
}

/// As the page has it: exact up to 2^53, so for every address of 48 bits.
#[expect(clippy::cast_precision_loss, reason = "addresses of real devices have 48 bits")]
pub(super) fn double(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(value: f64) -> u64 {
    value as u64
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

fn leb128(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_takes_the_narrowest_type() {
        for (values, kind, bytes) in [
            (vec![0, 255], Kind::U8, vec![0, 255]),
            (vec![1, 256], Kind::U16, vec![1, 0, 0, 1]),
            (vec![1, 0x1_0000], Kind::U32, vec![1, 0, 0, 0, 0, 0, 1, 0]),
            (vec![0, 1 << 32], Kind::F64, [0.0_f64.to_le_bytes(), 4_294_967_296.0_f64.to_le_bytes()].concat()),
            (vec![], Kind::U8, vec![]),
        ] {
            let section = Section::of(&values);
            assert_eq!((section.kind, section.length), (kind, values.len()));
            assert_eq!(section.bytes, bytes);
            assert_eq!(section.constant, None);
            assert_eq!(section.numbers(), values);
        }
    }

    #[test]
    fn equal_rows_have_no_payload() {
        let section = Section::of_u32(&[70_000; 5]);
        assert_eq!((section.kind, section.length, section.constant), (Kind::U32, 5, Some(70_000.0)));
        assert!(section.bytes.is_empty());
        assert_eq!(section.numbers(), [70_000; 5]);
        assert_eq!(Section::of_doubles(&[-1.0; 3]).constant, Some(-1.0));
    }

    #[test]
    fn encodings_say_small_numbers_shortly() {
        let start = Section::of(&[0, 3, 300]);
        let end = Section::of(&[2, 303, 301]);
        assert_eq!(start.encoded(Encoding::Varint, None), [0, 3, 0xac, 2].as_slice());
        assert_eq!(start.encoded(Encoding::Delta, None), [0, 6, 0xd2, 4].as_slice());
        assert_eq!(end.encoded(Encoding::Delta, None), [4, 0xda, 4, 3].as_slice());
        assert_eq!(end.encoded(Encoding::Length, Some(&start)), [2, 0xac, 2, 1].as_slice());
        assert_eq!(start.encoded(Encoding::Raw, None), [0, 0, 3, 0, 44, 1].as_slice());
    }
}
