//! Decoder layers beyond attention with an MLP: layers with a recurrent state, layers with a mixer or an MLP alone, and weights that only
//! one family has.

use crate::quantization::WeightKind;

/// Layers that differ in more than their window or experts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hybrid {
    /// The token mixer of each layer; empty: attention in all.
    pub mixers: Vec<Mixer>,
    /// The part behind the mixer in each layer; empty: an MLP, or experts where the model has them.
    pub feeds: Vec<Feed>,
    /// The layers with a recurrent state.
    pub state: Option<State>,
    /// Weights outside the usual parts.
    pub extras: Vec<Extra>,
    /// Heads of the layers without a window, where they differ from those of the others.
    pub global_heads: Option<GlobalHeads>,
    /// The number of layers at the end that use the keys and values of an earlier one.
    pub shared_kv_layers: u64,
    /// Width of the MLP in those layers, as a multiple of the usual.
    pub shared_kv_width: u64,
    /// Whether queries come with a gate for the output.
    pub query_gate: bool,
    /// Size of a value, 0 where it is a key's.
    pub value_dim: u64,
    /// Size of the indexer's key in each layer that has an indexer beside its heads; empty: in none.
    pub index_dims: Vec<u64>,
    /// Whether each head has a sink beside the tokens.
    pub sinks: bool,
    /// Whether the window is a chunk of the sequence.
    pub has_chunks: bool,
}

/// The token mixer of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mixer {
    /// Attention.
    Attention,
    /// A recurrent state.
    State,
    /// Attention and a recurrent state side by side, whose outputs are added.
    Both,
    /// None: the layer is an MLP alone.
    Nothing,
}

/// The part behind the mixer of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// A dense MLP.
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
    /// Width of the input of its output projection.
    pub inner: u64,
    /// The output projection.
    pub output: &'static str,
    /// Elements of the recurrent state of a sequence.
    pub recurrent: u64,
}

/// A weight that only one family has.
#[derive(Clone, Debug, PartialEq)]
pub struct Extra {
    /// The layer, or none for the model.
    pub layer: Option<u64>,
    /// Its name in the layer or model.
    pub name: &'static str,
    /// Its kind.
    pub kind: WeightKind,
    /// Its sizes.
    pub shape: Vec<u64>,
}

/// Heads of the layers without a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalHeads {
    /// Key and value heads.
    pub kv_heads: u64,
    /// Size of a head.
    pub head_dim: u64,
    /// Whether values are the keys.
    pub values_are_keys: bool,
}
