//! Encoders and transformers that are given by the list of their weights: stages of equal layers over positions of one width.

use crate::quantization::WeightKind;

/// Stages, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The stages.
    pub stages: Vec<Stage>,
}

/// Layers over positions of one width.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Its module.
    pub prefix: &'static str,
    /// The module of its layers.
    pub layers_prefix: &'static str,
    /// Numbers of a sample's input, 0 where it takes tokens or what the stage before gives.
    pub input: u64,
    /// Positions of a sample; those of `--seq` where there is none, and 0 for an encoder whose input no sample has.
    pub positions: Option<u64>,
    /// Width of a position.
    pub width: u64,
    /// Heads of attention.
    pub heads: u64,
    /// Width of the MLP.
    pub intermediate: u64,
    /// Weights before the layers.
    pub before: Vec<Piece>,
    /// The weights of the layers, each kind so many times.
    pub layers: Vec<(u64, Vec<Piece>)>,
    /// Weights behind them.
    pub after: Vec<Piece>,
    /// Numbers of its buffers, which are of the weights' type.
    pub buffer: u64,
    /// Positions of a sample that the next stage gets.
    pub output_positions: Option<u64>,
}

/// A weight, with its bias.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Its name in the stage or layer.
    pub name: &'static str,
    /// What it is.
    pub kind: WeightKind,
    /// Its sizes, outputs first.
    pub shape: Vec<u64>,
    /// The size of its bias, 0 without one.
    pub bias: u64,
}

impl Network {
    /// Bytes of its buffers.
    pub(crate) fn buffer_bytes(&self, dtype: crate::dtype::DType) -> u64 {
        let numbers = self.stages.iter().fold(0_u64, |sum, stage| sum.saturating_add(stage.buffer));
        numbers.saturating_mul(dtype.bytes())
    }
}

impl Stage {
    /// Layers of all kinds.
    pub fn depth(&self) -> u64 {
        self.layers.iter().fold(0, |sum, (count, _)| sum.saturating_add(*count))
    }
}

/// The matrix of a product.
pub(crate) fn linear(name: &'static str, output: u64, input: u64, bias: bool) -> Piece {
    Piece { name, kind: WeightKind::Linear, shape: vec![output, input], bias: if bias { output } else { 0 } }
}

/// A norm's weight.
pub(crate) fn norm(name: &'static str, size: u64, bias: bool) -> Piece {
    Piece { name, kind: WeightKind::Norm, shape: vec![size], bias: if bias { size } else { 0 } }
}

/// A table.
pub(crate) fn table(name: &'static str, shape: &[u64]) -> Piece {
    Piece { name, kind: WeightKind::Embedding, shape: shape.to_vec(), bias: 0 }
}

/// A convolution's kernel.
pub(crate) fn convolution(name: &'static str, shape: &[u64], bias: bool) -> Piece {
    let own = if bias { shape.first().copied().unwrap_or(0) } else { 0 };
    Piece { name, kind: WeightKind::Convolution, shape: shape.to_vec(), bias: own }
}

/// Anything else.
pub(crate) fn other(name: &'static str, shape: &[u64]) -> Piece {
    Piece { name, kind: WeightKind::Other, shape: shape.to_vec(), bias: 0 }
}
