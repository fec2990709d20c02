//! Headers of files of weights: exact counts and types, never the weights.
//!
//! # Source
//! The safetensors format (`huggingface/safetensors`, README); GGUF (`ggml-org/ggml`, `docs/gguf.md`), versions 2 and 3.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::description::Description;
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
}

impl Counted {
    /// Both files together.
    #[must_use]
    pub fn with(&self, other: &Counted) -> Counted {
        Counted {
            parameters: self.parameters.saturating_add(other.parameters),
            largest: self.largest.max(other.largest),
            dtype: self.dtype.or(other.dtype),
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
    for (name, tensor) in tensors.iter().filter(|(name, _)| *name != "__metadata__") {
        let bad = |what| HeaderError::BadTensor { name: name.chars().take(80).collect(), what };
        let shape = tensor.get("shape").and_then(Value::as_array).ok_or_else(|| bad("it has no `shape`"))?;
        let mut numbers = 1_u64;
        for size in shape {
            let size = size.as_u64().ok_or_else(|| bad("a size of its `shape` is not a whole number"))?;
            numbers =
                numbers.checked_mul(size).ok_or_else(|| bad("its `shape` has more numbers than fit in 64 bits"))?;
        }
        counted.parameters = counted.parameters.saturating_add(numbers);
        counted.largest = counted.largest.max(numbers);
        if let Some(dtype) = tensor.get("dtype").and_then(Value::as_str).and_then(DType::named) {
            match by_type.iter_mut().find(|(known, _)| *known == dtype) {
                Some((_, sum)) => *sum = sum.saturating_add(numbers),
                None => by_type.push((dtype, numbers)),
            }
        }
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
    let mut counted = Counted::default();
    for _ in 0..tensors {
        let _name = cursor.text()?;
        let rank = cursor.u32()?;
        if rank > 8 {
            return Err(HeaderError::NotGguf { at: cursor.at as u64, what: "a tensor has more than 8 sizes" });
        }
        let mut numbers = 1_u64;
        for _ in 0..rank {
            numbers = numbers.saturating_mul(cursor.u64()?);
        }
        let _kind = cursor.u32()?;
        let _offset = cursor.u64()?;
        counted.parameters = counted.parameters.saturating_add(numbers);
        counted.largest = counted.largest.max(numbers);
    }
    Ok(Description {
        config: Some(Value::Object(config_of(&metadata))),
        counted: Some(counted),
        is_gguf: true,
        name: None,
    })
}

/// The configuration that the metadata amount to.
fn config_of(metadata: &Map<String, Value>) -> Map<String, Value> {
    let kind = metadata.get("general.architecture").and_then(Value::as_str).unwrap_or("unknown");
    let number = |name: &str| metadata.get(&format!("{kind}.{name}")).and_then(Value::as_u64);
    let mut config = Map::new();
    config.insert("model_type".to_owned(), json!(kind));
    let names = [
        ("hidden_size", "embedding_length"),
        ("num_hidden_layers", "block_count"),
        ("intermediate_size", "feed_forward_length"),
        ("num_attention_heads", "attention.head_count"),
        ("num_key_value_heads", "attention.head_count_kv"),
        ("head_dim", "attention.key_length"),
        ("max_position_embeddings", "context_length"),
        ("vocab_size", "vocab_size"),
    ];
    for (field, key) in names {
        if let Some(value) = number(key) {
            config.insert(field.to_owned(), json!(value));
        }
    }
    if !config.contains_key("vocab_size")
        && let Some(count) = metadata.get("tokenizer.ggml.tokens").and_then(Value::as_u64)
    {
        config.insert("vocab_size".to_owned(), json!(count));
    }
    config
}

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

    /// A value; lists are stepped over, only how long they are is kept.
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
                for _ in 0..count {
                    self.value(kind, depth + 1)?;
                }
                json!(count)
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
        assert_eq!(counted, Counted { parameters: 17, largest: 12, dtype: Some(DType::BFloat16) });
        assert!(safetensors_header(br#"{"a":{"shape":[-1]}}"#).is_err());
        assert!(safetensors_header(br#"{"a":{"shape":[18446744073709551615,2]}}"#).is_err());
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
