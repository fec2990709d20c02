//! What decoders of today have beside attention and MLP: layers with a recurrent state, layers of one kind only, and weights of
//! their own.

use crate::quantization::WeightKind;

/// Layers that differ from one another in more than a window or experts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hybrid {
    /// What mixes the tokens of each layer; empty: attention in all.
    pub mixers: Vec<Mixer>,
    /// What is behind it in each layer; empty: an MLP, or experts where the model has them.
    pub feeds: Vec<Feed>,
    /// The layers with a recurrent state.
    pub state: Option<State>,
    /// Weights that are no products of the usual parts.
    pub extras: Vec<Extra>,
    /// Heads of the layers that see everything, where they are others than those of a window.
    pub global_heads: Option<GlobalHeads>,
    /// So many of the last layers use keys and values of an earlier one.
    pub shared_kv_layers: u64,
    /// Width of the MLP in those layers, in multiples.
    pub shared_kv_width: u64,
    /// Whether queries come with a gate for the output.
    pub query_gate: bool,
    /// Whether each head has a sink beside the tokens.
    pub sinks: bool,
    /// Whether the window is a chunk of the sequence.
    pub has_chunks: bool,
}

/// What mixes the tokens of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mixer {
    /// Attention.
    Attention,
    /// A recurrent state.
    State,
    /// Nothing: the layer is its MLP alone.
    Nothing,
}

/// What is behind the mixer of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// An MLP of one piece.
    Dense,
    /// Experts.
    Experts,
    /// Nothing.
    Nothing,
}

/// A layer's recurrent state: Mamba 1 and 2, gated delta rule.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Its module in the layer.
    pub module: &'static str,
    /// Products of the hidden states, each with its width.
    pub inputs: Vec<(&'static str, u64)>,
    /// Whether they have biases.
    pub bias: bool,
    /// Channels of the convolution.
    pub channels: u64,
    /// Its length.
    pub kernel: u64,
    /// Whether it has a bias.
    pub conv_bias: bool,
    /// Weights of the recurrence, products of the inner width among them.
    pub weights: Vec<(&'static str, WeightKind, Vec<u64>)>,
    /// Width of what it gives to the output's product.
    pub inner: u64,
    /// The output's product.
    pub output: &'static str,
    /// Numbers of the recurrent state of a sequence.
    pub recurrent: u64,
}

/// A weight of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Extra {
    /// The layer, or none for the model.
    pub layer: Option<u64>,
    /// Its name in the layer or model.
    pub name: &'static str,
    /// What it is.
    pub kind: WeightKind,
    /// Its sizes.
    pub shape: Vec<u64>,
}

/// Heads of the layers that see everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalHeads {
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Size of a head.
    pub head_dim: u64,
    /// Whether values are the keys.
    pub values_are_keys: bool,
}
