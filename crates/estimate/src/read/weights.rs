//! Headers of files of weights: exact counts and types, never the weights.
//!
//! # Source
//! The safetensors format (`huggingface/safetensors`, README); GGUF (`ggml-org/ggml`, `docs/gguf.md`), versions 2 and 3.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::description::Description;
use super::gguf_config::config_of;
use crate::architecture::{Architecture, Body, Evidence, Unknown};
use crate::dtype::DType;

/// The longest header that the safetensors library itself reads.
pub const SAFETENSORS_HEADER_LIMIT: u64 = 100_000_000;

/// As much of a GGUF file as is looked at: its metadata with the vocabulary fit.
pub const GGUF_HEADER_LIMIT: u64 = 64 << 20;

/// What is wrong with a file of weights.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// It ends before its header does.
    #[error("byte {at}: the file ends within its header, which should be {needed} bytes long")]
    CutShort {
        /// Where the file ends.
        at: u64,
        /// What is missing up to.
        needed: u64,
    },
    /// Its header says that it is longer than any header is.
    #[error("byte 0: the header claims to be {0} bytes long, which is too long")]
    TooLong(u64),
    /// Its header is no JSON object.
    #[error("byte 8: the header is not a JSON object: {0}")]
    NotJson(String),
    /// A tensor is described wrongly.
    #[error("tensor `{name}`: {what}")]
    BadTensor {
        /// The tensor.
        name: String,
        /// What is wrong.
        what: &'static str,
    },
    /// It is no GGUF file, or of a version that is not known.
    #[error("byte {at}: {what}")]
    NotGguf {
        /// Where.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// What a header says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Numbers in all tensors.
    pub parameters: u64,
    /// Numbers in the largest.
    pub largest: u64,
    /// The type of most of them, where it is one to compute in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<DType>,
    /// Bytes of all tensors, 0 where the type of one is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// Those of the language model's layers, layer by layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// No model has more layers.
const MOST_LAYERS: usize = 4096;

/// The layer of the language model that a tensor is of, by its name in safetensors or GGUF.
fn layer_of(name: &str) -> Option<usize> {
    let parts: Vec<&str> = name.split('.').collect();
    let is_tower = parts
        .iter()
        .any(|part| ["visual", "vision", "audio", "image", "v"].contains(part) || part.starts_with("vision_"));
    let pair = parts.windows(2).find(|pair| matches!(pair[0], "layers" | "blk" | "h") && !is_tower)?;
    pair[1].parse().ok().filter(|layer| *layer < MOST_LAYERS)
}

impl Counted {
    /// Both files together.
    #[must_use]
    pub fn with(&self, other: &Counted) -> Counted {
        let mut layers = self.layers.clone();
        layers.resize(layers.len().max(other.layers.len()), 0);
        for (own, more) in layers.iter_mut().zip(&other.layers) {
            *own = own.saturating_add(*more);
        }
        // A part without bytes leaves all without.
        let is_known = (self.bytes > 0 || self.parameters == 0) && (other.bytes > 0 || other.parameters == 0);
        Counted {
            bytes: if is_known { self.bytes.saturating_add(other.bytes) } else { 0 },
            layers,
            parameters: self.parameters.saturating_add(other.parameters),
            largest: self.largest.max(other.largest),
            dtype: self.dtype.or(other.dtype),
        }
    }

    /// Adds a tensor of so many numbers and bytes.
    fn add(&mut self, name: &str, numbers: u64, bytes: u64) {
        self.parameters = self.parameters.saturating_add(numbers);
        self.largest = self.largest.max(numbers);
        self.bytes = self.bytes.saturating_add(bytes);
        if let Some(layer) = layer_of(name) {
            if self.layers.len() <= layer {
                self.layers.resize(layer + 1, 0);
            }
            self.layers[layer] = self.layers[layer].saturating_add(bytes);
        }
    }

    /// A model of which only this is known.
    pub fn architecture(&self, name: &str) -> Architecture {
        Architecture {
            name: name.to_owned(),
            family: "unknown",
            evidence: Evidence::Unknown,
            body: Body::Unknown(Unknown {
                parameters: self.parameters,
                largest: self.largest,
                hidden: None,
                layers: None,
                vocab: None,
            }),
            towers: Vec::new(),
            max_positions: None,
            dtype: self.dtype,
            quantization: None,
            counted_parameters: Some(self.parameters),
            assumptions: vec!["there is no `config.json` beside the weights".to_owned()],
        }
    }
}

/// How long the header of a safetensors file is, by its first eight bytes.
///
/// # Errors
/// [`HeaderError::CutShort`] or [`HeaderError::TooLong`].
pub fn safetensors_header_length(first: &[u8], file_bytes: u64) -> Result<u64, HeaderError> {
    let Some(Ok(length)) = first.get(..8).map(<[u8; 8]>::try_from) else {
        return Err(HeaderError::CutShort { at: file_bytes, needed: 8 });
    };
    let length = u64::from_le_bytes(length);
    if length > SAFETENSORS_HEADER_LIMIT {
        return Err(HeaderError::TooLong(length));
    }
    if length.saturating_add(8) > file_bytes {
        return Err(HeaderError::CutShort { at: file_bytes, needed: length.saturating_add(8) });
    }
    Ok(length)
}

/// Counts what the header of a safetensors file lists.
///
/// # Errors
/// If it is no JSON, or a tensor has no shape.
pub fn safetensors_header(header: &[u8]) -> Result<Counted, HeaderError> {
    let tensors: Map<String, Value> =
        serde_json::from_slice(header).map_err(|error| HeaderError::NotJson(error.to_string()))?;
    let mut counted = Counted::default();
    let mut by_type: Vec<(DType, u64)> = Vec::new();
    let mut is_sized = true;
    for (name, tensor) in tensors.iter().filter(|(name, _)| *name != "__metadata__") {
        let bad = |what| HeaderError::BadTensor { name: name.chars().take(80).collect(), what };
        let shape = tensor.get("shape").and_then(Value::as_array).ok_or_else(|| bad("it has no `shape`"))?;
        let mut numbers = 1_u64;
        for size in shape {
            let size = size.as_u64().ok_or_else(|| bad("a size of its `shape` is not a whole number"))?;
            numbers =
                numbers.checked_mul(size).ok_or_else(|| bad("its `shape` has more numbers than fit in 64 bits"))?;
        }
        let offsets = tensor.get("data_offsets").and_then(Value::as_array);
        let offset = |at: usize| offsets.and_then(|pair| pair.get(at)?.as_u64());
        let bytes = offset(0).zip(offset(1)).and_then(|(start, end)| end.checked_sub(start));
        is_sized &= bytes.is_some();
        counted.add(name, numbers, bytes.unwrap_or(0));
        if let Some(dtype) = tensor.get("dtype").and_then(Value::as_str).and_then(DType::named) {
            match by_type.iter_mut().find(|(known, _)| *known == dtype) {
                Some((_, sum)) => *sum = sum.saturating_add(numbers),
                None => by_type.push((dtype, numbers)),
            }
        }
    }
    if !is_sized {
        (counted.bytes, counted.layers) = (0, Vec::new());
    }
    counted.dtype = by_type.into_iter().max_by_key(|(_, sum)| *sum).map(|(dtype, _)| dtype);
    Ok(counted)
}

/// The shards that an index names, without repetition.
///
/// # Errors
/// If it is no index.
pub fn safetensors_index(index: &[u8]) -> Result<Vec<String>, HeaderError> {
    let value: Value = serde_json::from_slice(index).map_err(|error| HeaderError::NotJson(error.to_string()))?;
    let map = value
        .get("weight_map")
        .and_then(Value::as_object)
        .ok_or_else(|| HeaderError::NotJson("there is no `weight_map`".to_owned()))?;
    let mut shards: Vec<String> = map.values().filter_map(Value::as_str).map(str::to_owned).collect();
    shards.sort();
    shards.dedup();
    Ok(shards)
}

/// Reads the header of a GGUF file: the dimensions of its architecture, and the count of its tensors.
///
/// # Errors
/// [`HeaderError`]: it is no GGUF file, or its header is cut short or hostile.
pub fn gguf_header(bytes: &[u8], file_bytes: u64) -> Result<Description, HeaderError> {
    let mut cursor = Cursor { bytes, at: 0, file_bytes };
    if cursor.take(4)? != b"GGUF" {
        return Err(HeaderError::NotGguf { at: 0, what: "expected `GGUF`" });
    }
    if !matches!(cursor.u32()?, 2 | 3) {
        return Err(HeaderError::NotGguf { at: 4, what: "expected version 2 or 3" });
    }
    let (tensors, entries) = (cursor.u64()?, cursor.u64()?);
    let mut metadata = Map::new();
    for _ in 0..entries {
        let key = cursor.text()?;
        let kind = cursor.u32()?;
        let value = cursor.value(kind, 0)?;
        metadata.insert(key, value);
    }
    let (mut counted, mut is_sized) = (Counted::default(), true);
    for _ in 0..tensors {
        let name = cursor.text()?;
        let rank = cursor.u32()?;
        if rank > 8 {
            return Err(HeaderError::NotGguf { at: cursor.at as u64, what: "a tensor has more than 8 sizes" });
        }
        let mut numbers = 1_u64;
        for _ in 0..rank {
            numbers = numbers.saturating_mul(cursor.u64()?);
        }
        let kind = cursor.u32()?;
        let _offset = cursor.u64()?;
        let bytes = GGUF_TYPES
            .iter()
            .find(|(known, ..)| *known == kind)
            .map(|(_, together, bytes)| numbers.div_ceil(*together).saturating_mul(*bytes));
        is_sized &= bytes.is_some();
        counted.add(&name, numbers, bytes.unwrap_or(0));
    }
    if !is_sized {
        (counted.bytes, counted.layers) = (0, Vec::new());
    }
    Ok(Description {
        config: Some(Value::Object(config_of(&metadata))),
        counted: Some(counted),
        is_gguf: true,
        name: None,
    })
}

/// The types of GGUF's tensors: their number, and how many numbers are together in how many bytes.
///
/// # Source
/// `ggml-org/ggml`, `include/ggml.h` (`ggml_type`) and the blocks of `src/ggml-common.h`; the same as `GGML_QUANT_SIZES` of the gguf
/// package but for 9, `Q8_1`, which files do not have. From 137 on those of the fork by ikawrakow, `ggml/src/ggml-common.h`, whose `_KS`
/// have 2 or 4 bytes more for each row, which are left out.
const GGUF_TYPES: &[(u32, u64, u64)] = &[
    (0, 1, 4),
    (1, 1, 2),
    (2, 32, 18),
    (3, 32, 20),
    (6, 32, 22),
    (7, 32, 24),
    (8, 32, 34),
    (9, 32, 36),
    (10, 256, 84),
    (11, 256, 110),
    (12, 256, 144),
    (13, 256, 176),
    (14, 256, 210),
    (15, 256, 292),
    (16, 256, 66),
    (17, 256, 74),
    (18, 256, 98),
    (19, 256, 50),
    (20, 32, 18),
    (21, 256, 110),
    (22, 256, 82),
    (23, 256, 136),
    (24, 1, 1),
    (25, 1, 2),
    (26, 1, 4),
    (27, 1, 8),
    (28, 1, 8),
    (29, 256, 56),
    (30, 1, 2),
    (34, 256, 54),
    (35, 256, 66),
    (39, 32, 17),
    (40, 64, 36),
    (41, 128, 18),
    (137, 256, 76),
    (138, 256, 110),
    (139, 256, 144),
    (140, 256, 176),
    (141, 256, 212),
    (144, 256, 136),
    (145, 256, 70),
    (152, 256, 168),
    (156, 256, 102),
];

/// Lists of numbers that are longer have none for each layer.
const LAYERS: u64 = 1024;

/// Where in the header the reader is.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    file_bytes: u64,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], HeaderError> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        match taken {
            Some(taken) => {
                self.at += count;
                Ok(taken)
            }
            None => Err(HeaderError::CutShort {
                at: self.file_bytes.min(self.bytes.len() as u64),
                needed: (self.at as u64).saturating_add(count as u64),
            }),
        }
    }

    fn u32(&mut self) -> Result<u32, HeaderError> {
        Ok(self.take(4)?.try_into().map(u32::from_le_bytes).unwrap_or_default())
    }

    fn u64(&mut self) -> Result<u64, HeaderError> {
        Ok(self.take(8)?.try_into().map(u64::from_le_bytes).unwrap_or_default())
    }

    fn text(&mut self) -> Result<String, HeaderError> {
        let length = self.u64()?;
        let length = usize::try_from(length).map_err(|_| HeaderError::TooLong(length))?;
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    /// A value; of lists only how long they are is kept, but for short ones of numbers.
    fn value(&mut self, kind: u32, depth: u32) -> Result<Value, HeaderError> {
        Ok(match kind {
            0 | 1 | 7 => json!(self.take(1)?[0]),
            2 | 3 => json!(self.take(2)?.try_into().map(u16::from_le_bytes).unwrap_or_default()),
            4 | 5 => json!(self.u32()?),
            6 => {
                self.take(4)?;
                Value::Null
            }
            8 => json!(self.text()?),
            9 if depth < 2 => {
                let (kind, count) = (self.u32()?, self.u64()?);
                if count > self.bytes.len() as u64 {
                    return Err(HeaderError::CutShort {
                        at: self.file_bytes.min(self.bytes.len() as u64),
                        needed: (self.at as u64).saturating_add(count),
                    });
                }
                // A list of numbers for each layer is kept, a vocabulary is not.
                let is_kept = count <= LAYERS && matches!(kind, 0..=5 | 10 | 11);
                let mut list = Vec::new();
                for _ in 0..count {
                    let value = self.value(kind, depth + 1)?;
                    if is_kept {
                        list.push(value);
                    }
                }
                if is_kept { Value::Array(list) } else { json!(count) }
            }
            10 | 11 => json!(self.u64()?),
            12 => {
                self.take(8)?;
                Value::Null
            }
            _ => return Err(HeaderError::NotGguf { at: self.at as u64, what: "a value has an unknown type" }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_length_is_named() {
        let first = (1_u64 << 60).to_le_bytes();
        assert_eq!(safetensors_header_length(&first, 100), Err(HeaderError::TooLong(1 << 60)));
        assert_eq!(
            safetensors_header_length(&50_u64.to_le_bytes(), 20),
            Err(HeaderError::CutShort { at: 20, needed: 58 })
        );
        assert_eq!(safetensors_header_length(b"GG", 2), Err(HeaderError::CutShort { at: 2, needed: 8 }));
    }

    #[test]
    fn tensors_are_counted_and_metadata_is_none() {
        let header = br#"{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[3,4],"data_offsets":[0,24]},"b":{"dtype":"F32","shape":[5]}}"#;
        let counted = safetensors_header(header).unwrap();
        assert_eq!(
            counted,
            Counted { parameters: 17, largest: 12, dtype: Some(DType::BFloat16), ..Counted::default() }
        );
        assert!(safetensors_header(br#"{"a":{"shape":[-1]}}"#).is_err());
        assert!(safetensors_header(br#"{"a":{"shape":[18446744073709551615,2]}}"#).is_err());
    }

    #[test]
    fn tensors_have_their_bytes_by_layer() {
        let header = br#"{"model.layers.1.mlp.w":{"dtype":"F8_E4M3","shape":[3,4],"data_offsets":[0,12]},
            "visual.layers.0.w":{"dtype":"BF16","shape":[2],"data_offsets":[12,16]},
            "lm_head.weight":{"dtype":"BF16","shape":[5],"data_offsets":[16,26]}}"#;
        let counted = safetensors_header(header).unwrap();
        assert_eq!((counted.bytes, counted.layers.as_slice()), (26, [0, 12].as_slice()));
        let both = counted.with(&counted);
        assert_eq!((both.bytes, both.layers.as_slice()), (52, [0, 24].as_slice()));
        // A layer beyond any model's takes no memory.
        let far = br#"{"model.layers.99999999999.w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}"#;
        assert_eq!(safetensors_header(far).unwrap().layers, [0_u64; 0]);
    }

    #[test]
    fn any_bytes_after_the_magic_are_refused_or_read() {
        for length in 0..64 {
            let mut bytes = b"GGUF\x03\0\0\0".to_vec();
            bytes.extend(std::iter::repeat_n(0xff, length));
            assert!(gguf_header(&bytes, bytes.len() as u64).is_err());
        }
        assert!(gguf_header(b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24).is_ok());
    }
}
