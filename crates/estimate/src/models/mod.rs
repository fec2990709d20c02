//! The families, each as the forward pass of its module in transformers 5.17, line by line.

mod bert;
mod builder;
mod chain;
mod clip;
mod common;
mod decoder;
mod experts;
mod gpt2;
mod heads;
mod latent;
mod modernbert;
mod network;
mod state;
mod t5;
mod vision;
mod vit;
mod whisper;

pub(crate) use builder::Builder;
pub(crate) use heads::Cache;

use std::cell::RefCell;

use crate::architecture::{Architecture, Body};
use crate::dtype::DType;
use crate::ops::LossStyle;
use crate::quantization::Weight;
use crate::setup::{Mode, Setup};
use crate::tape::{Tape, Tensor};

pub(crate) use vision::patches as patches_of;

/// What a forward pass gives, and the program may hold.
pub(crate) struct Outputs {
    /// Logits, or what stands for them.
    pub(crate) logits: Tensor,
    /// The loss, if there were labels.
    pub(crate) loss: Option<Tensor>,
    /// The KV cache.
    pub(crate) cache: Cache,
    /// Whatever else is in the output.
    pub(crate) _others: Vec<Tensor>,
}

/// A model whose parameters are on the tape.
pub(crate) trait Model {
    /// The batch that the program makes.
    fn inputs(&self, tape: &mut Tape, setup: &Setup) -> Vec<Tensor>;

    /// A forward pass over the batch.
    fn forward(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor], call: &Call) -> Outputs;

    /// What the encoder gives, for models that have one and decode after it.
    fn encode(&self, _tape: &mut Tape, _setup: &Setup, _inputs: &[Tensor]) -> Option<Tensor> {
        None
    }

    /// How many tokens of so many a layer's cache keeps.
    fn cached_tokens(&self, _layer: usize, tokens: u64) -> u64 {
        tokens
    }

    /// How the loss of labels is computed; `None` where the head knows none.
    fn loss_style(&self) -> Option<LossStyle>;

    /// Sizes of the hidden states' last dimension and of the logits, for stages of a pipeline.
    fn widths(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Bytes of buffers: rotary frequencies and the like.
    fn buffer_bytes(&self) -> u64 {
        0
    }
}

/// Keys and values of a layer from the calls before; whoever joins new ones to them takes them.
pub(crate) type Past = Option<(Tensor, Tensor)>;

/// The arguments that a forward pass gets.
pub(crate) struct Call {
    /// Whether labels are given.
    pub(crate) with_labels: bool,
    /// Whether a cache is kept.
    pub(crate) use_cache: bool,
    /// What is cached already; the batch then is one token a sequence.
    pub(crate) past: RefCell<Vec<Past>>,
    /// Tokens in the cache.
    pub(crate) past_tokens: u64,
    /// Whether it is `generate` that calls: positions and a mask are given for each sequence, and logits are those of
    /// the last position.
    pub(crate) by_generate: bool,
    /// What the encoder gave, where it has run before.
    pub(crate) encoded: Option<Tensor>,
    /// Keys and values that were made of it, layer by layer, where they are there already.
    pub(crate) of_encoder: Vec<(Tensor, Tensor)>,
    /// How many tokens a cache has place for from the start; `None` where it grows.
    pub(crate) capacity: Option<u64>,
}

impl Call {
    /// A call in a training loop, or of the model by itself.
    pub(crate) fn plain(with_labels: bool) -> Call {
        Call {
            with_labels,
            use_cache: true,
            past: RefCell::default(),
            past_tokens: 0,
            by_generate: false,
            encoded: None,
            of_encoder: Vec::new(),
            capacity: None,
        }
    }

    /// What is cached for a layer.
    fn take_past(&self, layer: usize) -> Past {
        self.past.borrow_mut().get_mut(layer).and_then(Option::take)
    }
}

/// Puts the parameters of a model on the tape, and tells of each what it is.
pub(crate) fn build(
    architecture: &Architecture,
    setup: &Setup,
    tape: &mut Tape,
) -> Option<(Box<dyn Model>, Vec<Weight>)> {
    let mut builder = Builder::new(tape, setup, architecture.quantization_in(setup));
    let model: Box<dyn Model> = match &architecture.body {
        Body::Decoder(decoder) => Box::new(decoder::DecoderModel::build(&mut builder, decoder)),
        Body::Gpt2(gpt2) => Box::new(gpt2::Gpt2Model::build(&mut builder, gpt2)),
        Body::Bert(bert) => Box::new(bert::BertModel::build(&mut builder, bert)),
        Body::Vit(vit) => Box::new(vit::VitModel::build(&mut builder, vit)),
        Body::ModernBert(bert) => Box::new(modernbert::ModernBertModel::build(&mut builder, bert)),
        Body::Clip(clip) => Box::new(clip::ClipModel::build(&mut builder, clip)),
        Body::T5(t5) => Box::new(t5::T5Model::build(&mut builder, t5)),
        Body::Whisper(whisper) => Box::new(whisper::WhisperModel::build(&mut builder, whisper)),
        Body::Chain(chain) => Box::new(chain::ChainModel::build(&mut builder, chain)),
        Body::Network(network) => Box::new(network::NetworkModel::build(&mut builder, network)),
        Body::Pipeline(_) | Body::Unknown(_) => return None,
    };
    let model: Box<dyn Model> = if architecture.towers.is_empty() {
        model
    } else {
        Box::new(network::WithTowers::build(&mut builder, &architecture.towers, model))
    };
    Some((model, builder.finish()))
}

/// The weights of a model as its checkpoint has them, each by its name in transformers, with numbers that are not
/// quantised in this type. `None` for a model of which only the size is known.
pub fn weights(architecture: &Architecture, dtype: DType) -> Option<Vec<Weight>> {
    let setup = Setup { mode: Mode::Forward, dtype, ..Setup::training(1, 1) };
    let mut tape = Tape::new(setup.platform);
    build(architecture, &setup, &mut tape).map(|(_, weights)| weights)
}
