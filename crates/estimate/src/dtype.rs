//! Types of numbers, by PyTorch's names.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The type of a tensor's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// `torch.float32`.
    Float32,
    /// `torch.bfloat16`.
    BFloat16,
    /// `torch.float16`.
    Float16,
    /// `torch.int64`: token ids and positions.
    Int64,
    /// `torch.bool` and `torch.uint8`: masks, quantised weights.
    Byte,
}

impl DType {
    /// Bytes of one number.
    pub const fn bytes(self) -> u64 {
        match self {
            DType::Float32 => 4,
            DType::BFloat16 | DType::Float16 => 2,
            DType::Int64 => 8,
            DType::Byte => 1,
        }
    }

    /// Whether it is one of the two 16-bit types.
    pub const fn is_half(self) -> bool {
        matches!(self, DType::BFloat16 | DType::Float16)
    }

    /// The type of a name; `torch.` before it and the usual short names are understood.
    pub fn named(name: &str) -> Option<DType> {
        match name.strip_prefix("torch.").unwrap_or(name).to_ascii_lowercase().as_str() {
            "float32" | "fp32" | "float" | "f32" => Some(DType::Float32),
            "bfloat16" | "bf16" => Some(DType::BFloat16),
            "float16" | "fp16" | "half" | "f16" => Some(DType::Float16),
            _ => None,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            DType::Float32 => "float32",
            DType::BFloat16 => "bfloat16",
            DType::Float16 => "float16",
            DType::Int64 => "int64",
            DType::Byte => "uint8",
        })
    }
}
