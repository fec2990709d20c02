//! What a model consists of, as far as memory goes: the numbers of its configuration, under one set of names.

use crate::chain::Chain;
use crate::hybrid::{Feed, Hybrid, Mixer};
use crate::network::{Network, Stage};
use crate::pipeline::Pipeline;
use crate::quantization::Quantization;
use crate::setup::{Mode, Quantisation, Setup};

/// A model.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    /// How it is called: `model_type`, or a name of the catalogue.
    pub name: String,
    /// Its family, by the name of the module of transformers.
    pub family: &'static str,
    /// How well estimates of this family were checked.
    pub evidence: Evidence,
    /// What it is made of.
    pub body: Body,
    /// Encoders of images beside a language model.
    pub towers: Vec<Stage>,
    /// The longest sequence that it is made for, if there is a limit.
    pub max_positions: Option<u64>,
    /// The type of its weights, where the model says so.
    pub dtype: Option<crate::DType>,
    /// How its weights are quantised, where its configuration says so.
    pub quantization: Option<Quantization>,
    /// Parameters as counted in the header of a file of weights.
    pub counted_parameters: Option<u64>,
    /// What was assumed where the model does not say.
    pub assumptions: Vec<String>,
}

/// What estimates of a family were compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// Runs on an H200, and runs of the real libraries over the null GPU.
    Measured,
    /// Runs of the real libraries over the null GPU.
    DryRun,
    /// The source only.
    Source,
    /// The shapes of the layers.
    Shapes,
    /// Nothing: the parameter count and a general rule.
    Unknown,
}

/// The kinds of models that are worked out operator by operator.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "an architecture is read once, and there are no lists of them")]
pub enum Body {
    /// Decoder-only, in the manner of Llama.
    Decoder(Decoder),
    /// GPT-2.
    Gpt2(Gpt2),
    /// BERT and `RoBERTa` with their masked-language head.
    Bert(Bert),
    /// `ModernBERT` with its masked-language head.
    ModernBert(ModernBert),
    /// A vision transformer with a classifier.
    Vit(Vit),
    /// CLIP: a text and a vision tower.
    Clip(Clip),
    /// T5.
    T5(T5),
    /// Whisper.
    Whisper(Whisper),
    /// Stages given by the list of their weights: encoders, diffusion transformers.
    Network(Network),
    /// Operators one by one: convolutional networks.
    Chain(Chain),
    /// Several models, one after the other.
    Pipeline(Pipeline),
    /// Known by its size only.
    Unknown(Unknown),
}

/// Activation functions, by how they are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// One kernel that keeps its input: `SiLU`, GELU (also its tanh form).
    Input,
    /// One kernel that keeps its output: `ReLU`, tanh.
    Output,
    /// `gelu_new`: the formula in Python, operator by operator.
    GeluNew,
    /// `quick_gelu`: `x * sigmoid(1.702 * x)`.
    QuickGelu,
}

/// A decoder-only model.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether a model has something")]
pub struct Decoder {
    /// Vocabulary.
    pub vocab: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Layers.
    pub layers: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Size of a head.
    pub head_dim: u64,
    /// Width of the MLP.
    pub intermediate: u64,
    /// Whether head and embedding share their weight.
    pub tied: bool,
    /// Norms.
    pub norm: DecoderNorm,
    /// Where they are.
    pub block: Block,
    /// Biases of query, key and value.
    pub qkv_bias: bool,
    /// Bias of the attention's output.
    pub output_bias: bool,
    /// Biases of the MLP.
    pub mlp_bias: bool,
    /// Bias of the head.
    pub head_bias: bool,
    /// What lies on the last layer.
    pub top: Top,
    /// Whether query, key and value are one product.
    pub qkv: Qkv,
    /// How the MLP is made.
    pub mlp: MlpKind,
    /// Its activation function.
    pub activation: Activation,
    /// Norms of query and key.
    pub qk_norm: QkNorm,
    /// How much of a head is rotated.
    pub rotary_dim: u64,
    /// Which layers look no further back than this.
    pub sliding_window: Option<u64>,
    /// For each layer whether it has the window; shorter lists repeat.
    pub sliding_layers: Vec<bool>,
    /// Whether scores of attention have a soft cap, which runs in Python.
    pub attention_cap: bool,
    /// Whether logits have one.
    pub logit_cap: bool,
    /// Whether embeddings are multiplied with a number.
    pub embedding_scale: bool,
    /// Whether queries and keys are rotated in float32 and cast back (`OLMo`).
    pub rotary_in_float32: bool,
    /// How many kinds of rotary tables there are (Gemma 3: two).
    pub rotary_tables: u64,
    /// Dropout of embeddings.
    pub embedding_dropout: f64,
    /// Dropout of what is added to the residual stream.
    pub residual_dropout: f64,
    /// Dropout of attention.
    pub attention_dropout: f64,
    /// Mixture of experts.
    pub experts: Option<Experts>,
    /// `DeepSeek`'s latent attention.
    pub latent: Option<Latent>,
    /// What its layers have beside attention and MLP.
    pub hybrid: Hybrid,
}

/// Norms of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecoderNorm {
    /// Llama's `RMSNorm`.
    Rms,
    /// Gemma's.
    RmsGemma,
    /// `OLMo` 2's: times the weight in float32, then cast back.
    RmsOlmo,
    /// `LayerNorm` with weight and bias.
    Layer,
    /// `LayerNorm` with a weight, without bias (Cohere).
    LayerNoBias,
    /// `LayerNorm` in float32 without weights (`OLMo`).
    LayerPlain,
}

/// How a block is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// A norm before attention, one before the MLP.
    Pre,
    /// Norms before and after each (Gemma 2 and 3).
    Sandwich,
    /// Norms after each (`OLMo` 2).
    Post,
    /// One norm, and behind it attention, a state or an MLP alone (Mamba, Nemotron-H).
    Single,
    /// Attention and MLP beside each other, one norm (Phi).
    ParallelOneNorm,
    /// Attention and MLP beside each other, a norm for each (GPT-NeoX).
    ParallelTwoNorms,
}

/// How query, key and value are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qkv {
    /// Three products.
    Separate,
    /// One, cut into three (Phi-3).
    Sliced,
    /// One, cut head by head (GPT-NeoX).
    ByHead,
}

/// How an MLP is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MlpKind {
    /// Gate, up and down.
    Gated,
    /// Gate and up in one product (Phi-3).
    GatedTogether,
    /// Two products.
    Plain,
}

/// Norms of query and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// None.
    None,
    /// Head by head (Qwen 3, Gemma 3).
    PerHead,
    /// Over the whole width (`OLMo` 2).
    Whole,
}

/// A mixture of experts in place of the MLP.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each says how a router differs")]
pub struct Experts {
    /// Their number.
    pub count: u64,
    /// How many a token goes to.
    pub per_token: u64,
    /// Width of one.
    pub intermediate: u64,
    /// Width of the expert that every token goes to, 0 for none.
    pub shared_intermediate: u64,
    /// Whether the experts have a gate beside the way up.
    pub gated: bool,
    /// Whether experts and router have biases (gpt-oss).
    pub biases: bool,
    /// Width of the inputs, where they are projected down before (Nemotron 3), 0 where they are not.
    pub latent: u64,
    /// Whether the shared expert has a gate (Qwen 2 `MoE`).
    pub shared_gate: bool,
    /// Whether weights of the chosen experts are made to add up to one.
    pub renormalised: bool,
    /// Whether the router is `DeepSeek`'s: sigmoid, groups, a correction bias.
    pub sigmoid_router: bool,
    /// Whether the router computes in float32, whatever the type of the weights (`DeepSeek`).
    pub router_in_float32: bool,
    /// Whether the experts stand in the layer, beside an MLP that is the shared one (Gemma 4).
    pub beside_mlp: bool,
    /// For each layer whether it has the mixture; shorter lists repeat.
    pub layers: Vec<bool>,
}

/// Latent attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latent {
    /// Rank of the queries, 0 where they are computed at once.
    pub q_rank: u64,
    /// Rank of keys and values.
    pub kv_rank: u64,
    /// Size of a head without rotation.
    pub nope_dim: u64,
    /// Size of the rotated part.
    pub rope_dim: u64,
    /// Size of a value head.
    pub value_dim: u64,
    /// Heads of the indexer of sparse attention, and the size of each: 0 without one.
    pub indexer: (u64, u64),
}

/// GPT-2.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpt2 {
    /// Vocabulary.
    pub vocab: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Layers.
    pub layers: u64,
    /// Heads.
    pub heads: u64,
    /// Width of the MLP.
    pub intermediate: u64,
    /// Positions of the table.
    pub positions: u64,
    /// Whether head and embedding share their weight.
    pub tied: bool,
    /// Activation function.
    pub activation: Activation,
    /// Dropout of embeddings, of the residual stream, of attention.
    pub dropouts: (f64, f64, f64),
}

/// BERT and `RoBERTa`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bert {
    /// Vocabulary.
    pub vocab: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Layers.
    pub layers: u64,
    /// Heads.
    pub heads: u64,
    /// Width of the MLP.
    pub intermediate: u64,
    /// Positions of the table.
    pub positions: u64,
    /// Kinds of segments.
    pub token_types: u64,
    /// Activation function.
    pub activation: Activation,
    /// Dropout of hidden states and of attention.
    pub dropouts: (f64, f64),
    /// Whether head and embedding share their weight.
    pub tied: bool,
    /// Whether it is `RoBERTa`.
    pub is_roberta: bool,
    /// What lies on the last layer.
    pub top: Top,
}

/// What lies on the last layer of a language model, as `architectures` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Top {
    /// A head for the words of the vocabulary.
    Words,
    /// A classifier with so many labels, of the sequence or of each token.
    Labels {
        /// The labels.
        count: u64,
        /// Whether each token has one.
        of_tokens: bool,
    },
    /// Nothing, as in models that embed texts.
    Nothing,
}

/// `ModernBERT`.
#[derive(Clone, Debug, PartialEq)]
pub struct ModernBert {
    /// Vocabulary.
    pub vocab: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Layers.
    pub layers: u64,
    /// Heads.
    pub heads: u64,
    /// Width of the gated MLP.
    pub intermediate: u64,
    /// Every how many layers one sees everything.
    pub global_every: u64,
    /// The window of the others.
    pub window: u64,
    /// Whether head and embedding share their weight.
    pub tied: bool,
    /// Which parts have biases.
    pub biases: ModernBertBiases,
}

/// Biases of `ModernBERT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether a part has biases")]
pub struct ModernBertBiases {
    /// Attention.
    pub attention: bool,
    /// The MLP.
    pub mlp: bool,
    /// Norms.
    pub norm: bool,
    /// The product before the decoder.
    pub head: bool,
    /// The decoder.
    pub decoder: bool,
}

/// A vision transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct Vit {
    /// Pixels of the sides: height, width.
    pub image: [u64; 2],
    /// Pixels of a patch's sides.
    pub patch: [u64; 2],
    /// Colours.
    pub channels: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Layers.
    pub layers: u64,
    /// Heads.
    pub heads: u64,
    /// Width of the MLP.
    pub intermediate: u64,
    /// Classes of the classifier.
    pub labels: u64,
    /// Activation function.
    pub activation: Activation,
    /// Whether query, key and value have biases.
    pub qkv_bias: bool,
    /// Dropout of hidden states and of attention.
    pub dropouts: (f64, f64),
}

/// CLIP.
#[derive(Clone, Debug, PartialEq)]
pub struct Clip {
    /// The vision tower; its labels are unused.
    pub vision: Vit,
    /// Vocabulary of the text tower.
    pub vocab: u64,
    /// Its hidden size.
    pub hidden: u64,
    /// Its layers.
    pub layers: u64,
    /// Its heads.
    pub heads: u64,
    /// The width of its MLP.
    pub intermediate: u64,
    /// Its positions.
    pub positions: u64,
    /// Its activation function.
    pub activation: Activation,
    /// Where both meet.
    pub projection: u64,
}

/// T5.
#[derive(Clone, Debug, PartialEq)]
pub struct T5 {
    /// Vocabulary.
    pub vocab: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Size of a head.
    pub head_dim: u64,
    /// Heads.
    pub heads: u64,
    /// Width of the MLP.
    pub intermediate: u64,
    /// Layers of the encoder.
    pub layers: u64,
    /// Layers of the decoder.
    pub decoder_layers: u64,
    /// Buckets of relative positions.
    pub buckets: u64,
    /// Whether the MLP is gated (T5 1.1, Flan).
    pub gated: bool,
    /// Activation function.
    pub activation: Activation,
    /// Dropout.
    pub dropout: f64,
    /// Whether head and embedding share their weight.
    pub tied: bool,
    /// Whether the decoder's output is scaled before the head.
    pub scales_output: bool,
}

/// Whisper.
#[derive(Clone, Debug, PartialEq)]
pub struct Whisper {
    /// Vocabulary.
    pub vocab: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Layers of the encoder.
    pub layers: u64,
    /// Layers of the decoder.
    pub decoder_layers: u64,
    /// Heads of the encoder.
    pub heads: u64,
    /// Heads of the decoder.
    pub decoder_heads: u64,
    /// Width of the encoder's MLP.
    pub intermediate: u64,
    /// Width of the decoder's MLP.
    pub decoder_intermediate: u64,
    /// Whether head and embedding share their weight.
    pub tied: bool,
    /// Bands of the spectrum.
    pub mel_bins: u64,
    /// Positions of the encoder: half as many as there are frames.
    pub source_positions: u64,
    /// Positions of the decoder.
    pub target_positions: u64,
    /// Dropout of hidden states.
    pub dropout: f64,
    /// Dropout of attention.
    pub attention_dropout: f64,
}

/// A model of which only the size is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    /// Parameters.
    pub parameters: u64,
    /// The largest parameter.
    pub largest: u64,
    /// Hidden size, where it is known.
    pub hidden: Option<u64>,
    /// Layers, where they are known.
    pub layers: Option<u64>,
    /// Vocabulary, where it is known.
    pub vocab: Option<u64>,
}

impl Decoder {
    /// What mixes the tokens of a layer.
    pub(crate) fn mixer(&self, layer: u64) -> Mixer {
        at(&self.hybrid.mixers, layer).unwrap_or(Mixer::Attention)
    }

    /// What is behind it.
    pub(crate) fn feed(&self, layer: u64) -> Feed {
        at(&self.hybrid.feeds, layer).unwrap_or_else(|| {
            let has_experts = self.experts.as_ref().is_some_and(|experts| repeating(&experts.layers, layer));
            if has_experts { Feed::Experts } else { Feed::Dense }
        })
    }

    /// Whether a layer attends in a window.
    pub(crate) fn is_sliding(&self, layer: u64) -> bool {
        self.sliding_window.is_some() && repeating(&self.sliding_layers, layer)
    }

    /// Whether a layer uses keys and values of an earlier one.
    pub(crate) fn shares_kv(&self, layer: u64) -> bool {
        layer >= self.layers.saturating_sub(self.hybrid.shared_kv_layers)
    }

    /// Whether its layers are attention of heads and an MLP, as Llama's are, of products that tensor-parallel ranks can share as they lie.
    pub(crate) fn is_plain(&self) -> bool {
        self.qkv != Qkv::Sliced
            && self.mlp != MlpKind::GatedTogether
            && self.experts.is_none()
            && self.is_attention_alone()
    }

    /// Whether its layers are attention of heads and an MLP or experts: no latent attention, and no recurrent states.
    pub(crate) fn is_attention_alone(&self) -> bool {
        self.latent.is_none() && self.hybrid == Hybrid::default()
    }

    /// What one of so many tensor-parallel ranks has of each layer: some heads, and a part of the MLP's width. Latent attention is
    /// whole on every rank.
    ///
    /// # Source
    /// transformers 5.17, `base_model_tp_plan` of `models/*/configuration_*.py`.
    pub(crate) fn of_tensor_rank(&self, ranks: u64) -> Decoder {
        let mut own = self.clone();
        if ranks > 1 {
            let cut = |size: &mut u64| *size = size.div_ceil(ranks);
            if own.latent.is_none() {
                cut(&mut own.heads);
                cut(&mut own.kv_heads);
                if let Some(global) = &mut own.hybrid.global_heads {
                    cut(&mut global.kv_heads);
                }
            }
            cut(&mut own.intermediate);
            if let Some(experts) = &mut own.experts {
                cut(&mut experts.intermediate);
                cut(&mut experts.shared_intermediate);
            }
        }
        own
    }

    /// Heads of keys and values of a layer, and the size of a head.
    pub(crate) fn kv_of(&self, layer: u64) -> (u64, u64) {
        match self.hybrid.global_heads.filter(|_| !self.is_sliding(layer)) {
            Some(global) => (global.kv_heads, global.head_dim),
            None => (self.kv_heads, self.head_dim),
        }
    }
}

impl Decoder {
    /// Size of a value, where a key has this one.
    pub(crate) fn value_dim(&self, key_dim: u64) -> u64 {
        if self.hybrid.value_dim > 0 { self.hybrid.value_dim } else { key_dim }
    }

    /// Latent attention of a layer, which may be without an indexer.
    pub(crate) fn latent_of(&self, layer: u64, latent: Latent) -> Latent {
        let has_indexer = self.hybrid.index_dims.is_empty() || self.index_dim(layer) > 0;
        if has_indexer { latent } else { Latent { indexer: (0, 0), ..latent } }
    }

    /// Size of the indexer's key of a layer, 0 without one.
    pub(crate) fn index_dim(&self, layer: u64) -> u64 {
        at(&self.hybrid.index_dims, layer).unwrap_or(0)
    }
}

fn at<T: Copy>(list: &[T], index: u64) -> Option<T> {
    usize::try_from(index).ok().and_then(|index| list.get(index)).copied()
}

impl Architecture {
    /// The quantisation of the weights in a set-up. Training without adapters needs them whole; `--quantise` brings its own.
    pub(crate) fn quantization_in(&self, setup: &Setup) -> Option<&Quantization> {
        let is_whole = setup.mode == Mode::Train && setup.lora.is_none();
        self.quantization.as_ref().filter(|_| !is_whole && setup.quantisation == Quantisation::None)
    }

    /// Vocabulary and hidden size, where head and embedding share a weight.
    pub(crate) fn tied_head(&self) -> Option<(u64, u64)> {
        match &self.body {
            Body::Decoder(body) if body.tied => Some((body.vocab, body.hidden)),
            Body::Gpt2(body) if body.tied => Some((body.vocab, body.hidden)),
            Body::Bert(body) if body.tied => Some((body.vocab, body.hidden)),
            Body::ModernBert(body) if body.tied => Some((body.vocab, body.hidden)),
            Body::T5(body) if body.tied => Some((body.vocab, body.hidden)),
            Body::Whisper(body) if body.tied => Some((body.vocab, body.hidden)),
            _ => None,
        }
    }

    /// Layers, of all stacks together.
    pub fn layers(&self) -> u64 {
        match &self.body {
            Body::Decoder(body) => body.layers,
            Body::Gpt2(body) => body.layers,
            Body::Bert(body) => body.layers,
            Body::ModernBert(body) => body.layers,
            Body::Vit(body) => body.layers,
            Body::Clip(body) => body.layers + body.vision.layers,
            Body::T5(body) => body.layers + body.decoder_layers,
            Body::Whisper(body) => body.layers + body.decoder_layers,
            Body::Network(body) => body.stages.iter().fold(0, |sum, stage| sum.saturating_add(stage.depth())),
            Body::Chain(_) | Body::Pipeline(_) => 1,
            Body::Unknown(body) => body.layers.unwrap_or(1),
        }
    }
}

/// The entry of a list that repeats.
pub(crate) fn repeating(list: &[bool], index: u64) -> bool {
    usize::try_from(index).ok().and_then(|index| list.get(index % list.len().max(1))).copied().unwrap_or(false)
}
