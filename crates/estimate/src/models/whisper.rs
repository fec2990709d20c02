//! Whisper.
//!
//! # Source
//! transformers 5.17, `models/whisper/modeling_whisper.py`.

use std::rc::Rc;

use super::builder::{Builder, Layered, Role};
use super::common::{head, token_ids};
use super::heads::{Cache, HeadDims, Plan, as_heads, eager_mask, extend_both, position_ids};
use super::{Call, Model, Outputs, Past};
use crate::architecture::Whisper;
use crate::dtype::DType;
use crate::ops::{EagerStyle, Linear, LossStyle, Mask, Norm, NormKind};
use crate::setup::Setup;
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

pub(crate) struct WhisperModel {
    config: Rc<Whisper>,
    conv1: (Tensor, Tensor),
    conv2: (Tensor, Tensor),
    source_positions: Tensor,
    encoder: Vec<Rc<Layered<Layer>>>,
    encoder_norm: Norm,
    tokens: Tensor,
    target_positions: Tensor,
    decoder: Vec<Rc<Layered<Layer>>>,
    decoder_norm: Norm,
    head: Linear,
}

struct Layer {
    config: Rc<Whisper>,
    heads: u64,
    own: AttentionWeights,
    cross: Option<AttentionWeights>,
    norm: Norm,
    up: Linear,
    down: Linear,
}

struct AttentionWeights {
    norm: Norm,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
}

#[derive(Clone)]
struct Run {
    setup: Setup,
    batch: Dim,
    mask: Option<Mask>,
    use_cache: bool,
    is_decoder: bool,
    encoded: Option<Tensor>,
    /// Tokens that the cache has before this call.
    past_tokens: u64,
}

impl AttentionWeights {
    fn build(builder: &mut Builder<'_>, h: Dim) -> AttentionWeights {
        AttentionWeights {
            key: builder.linear("attention", Role::Attention, h, h, false),
            value: builder.linear("attention", Role::QueryValue, h, h, true),
            query: builder.linear("attention", Role::QueryValue, h, h, true),
            output: builder.linear("attention", Role::Attention, h, h, true),
            norm: builder.norm("norm", NormKind::Layer, h, true),
        }
    }
}

impl Layer {
    fn build(builder: &mut Builder<'_>, config: &Rc<Whisper>, is_decoder: bool) -> Layer {
        let width = if is_decoder { config.decoder_intermediate } else { config.intermediate };
        let (h, i) = (dim("h", config.hidden), dim("i", width));
        Layer {
            config: Rc::clone(config),
            heads: if is_decoder { config.decoder_heads } else { config.heads },
            own: AttentionWeights::build(builder, h),
            cross: is_decoder.then(|| AttentionWeights::build(builder, h)),
            up: builder.linear("mlp", Role::Mlp, i, h, true),
            down: builder.linear("mlp", Role::Mlp, h, i, true),
            norm: builder.norm("norm", NormKind::Layer, h, true),
        }
    }

    /// A norm. In the encoder hidden states lie channels first, as the convolution left them.
    fn normed(tape: &mut Tape, x: &Tensor, norm: &Norm, is_decoder: bool) -> Tensor {
        if is_decoder { tape.norm(x, norm) } else { tape.norm_of_strided(x, norm) }
    }

    #[expect(clippy::too_many_arguments, reason = "what attention has at hand")]
    fn attend(
        &self,
        tape: &mut Tape,
        x: &Tensor,
        weights: &AttentionWeights,
        source: Option<&Tensor>,
        run: &Run,
        cache: &mut Cache,
        past: &mut Past,
    ) -> Tensor {
        let config = &self.config;
        let normed = Self::normed(tape, x, &weights.norm, run.is_decoder);
        tape.part("attention");
        let dims = HeadDims::new(self.heads, self.heads, config.hidden / self.heads.max(1));
        let queries = x.shape.at(1);
        let is_cross = source.is_some();
        let own_keys = dim("S", queries.size.saturating_add(if run.is_decoder { run.past_tokens } else { 0 }));
        let keys = source.map_or(own_keys, |source| source.shape.at(1));
        let plan = Plan {
            dims,
            batch: run.batch,
            queries,
            keys,
            mask: run.mask.as_ref().filter(|_| source.is_none()),
            is_causal: run.is_decoder && source.is_none(),
            dropout: config.attention_dropout,
            eager: EagerStyle { softmax_in_float32: false, scales: true, soft_cap: false },
            cached: true,
            is_packed: false,
            q_by_heads: true,
            attention: run.setup.attention,
        };
        let shape = |tokens| Shape::of(&[run.batch, tokens, dims.heads, dims.head_dim]);
        let source = source.unwrap_or(&normed);
        let new = if is_cross { keys } else { queries };
        let copies = plan.copies_kv_grad(tape, x.dtype);
        let flat = tape.linear("queries", &normed, &weights.query);
        let scaled = tape.scale("scaled queries", &flat);
        drop(flat);
        let q = as_heads(tape, &scaled, shape(queries), copies);
        drop(scaled);
        let q = tape.copy("queries, head by head", &q);
        let mut heads = |name, copy_name, layer| {
            let projected = tape.linear(name, source, layer);
            let heads = as_heads(tape, &projected, shape(new), copies);
            drop(projected);
            tape.copy(copy_name, &heads)
        };
        let (k, v) = match past.take() {
            Some(made) if is_cross => made,
            past => {
                let k = heads("keys", "keys, head by head", &weights.key);
                let v = heads("values", "values, head by head", &weights.value);
                if run.use_cache { extend_both(tape, past, (k, v), shape(keys)) } else { (k, v) }
            }
        };
        if run.use_cache {
            let layers = if is_cross { &mut cache.of_encoder } else { &mut cache.layers };
            layers.push((k.detached(), v.detached()));
        }
        let output = plan.run(tape, q, k, v);
        let output = output.view(Shape::of(&[run.batch, queries, dim("h", config.hidden)]));
        let projected = tape.linear("attention: projection", &output, &weights.output);
        drop(output);
        let dropped = tape.dropout("attention", projected, config.dropout);
        tape.add("residual", x, &dropped)
    }

    fn forward(&self, tape: &mut Tape, x: &Tensor, run: &Run, cache: &mut Cache, past: &mut (Past, Past)) -> Tensor {
        let mut x = self.attend(tape, x, &self.own, None, run, cache, &mut past.0);
        if let (Some(cross), Some(encoded)) = (&self.cross, &run.encoded) {
            x = self.attend(tape, &x, cross, Some(encoded), run, cache, &mut past.1);
        }
        let normed = Self::normed(tape, &x, &self.norm, run.is_decoder);
        tape.part("mlp");
        let up = tape.linear("mlp: up", &normed, &self.up);
        drop(normed);
        let active = tape.activation_of_input("activation function", &up);
        drop(up);
        let down = tape.linear("mlp: down", &active, &self.down);
        drop(active);
        let dropped = tape.dropout("mlp", down, self.config.dropout);
        let mut output = tape.add("residual", &x, &dropped);
        if output.dtype == DType::Float16 && !run.is_decoder {
            output = tape.clamp("clamped residual", &output);
        }
        tape.module_output(&output);
        output
    }
}

fn run_layers(
    tape: &mut Tape,
    layers: &[Rc<Layered<Layer>>],
    mut x: Tensor,
    run: &Run,
    cache: &mut Cache,
    call: Option<&Call>,
) -> Tensor {
    for (index, layer) in layers.iter().enumerate() {
        let mut past = call.map_or((None, None), |call| (call.take_past(index), call.of_encoder.get(index).cloned()));
        x = tape.grouped(layer.group, &x, |tape, x| {
            if run.setup.checkpointing && tape.is_training() {
                let (layer, run) = (Rc::clone(layer), run.clone());
                let others: Vec<Tensor> = run.encoded.clone().into_iter().collect();
                let others: Vec<&Tensor> = others.iter().collect();
                tape.checkpoint_with(x, &others, move |tape, x| {
                    layer.forward(tape, x, &run, &mut Cache::default(), &mut (None, None))
                })
            } else {
                layer.forward(tape, x, run, cache, &mut past)
            }
        });
    }
    x
}

impl WhisperModel {
    pub(crate) fn build(builder: &mut Builder<'_>, config: &Whisper) -> WhisperModel {
        let config = Rc::new(config.clone());
        let (v, h) = (dim("V", config.vocab), dim("h", config.hidden));
        let three = dim("3", 3);
        let conv1 = (
            builder.parameter("embedding", &[h, dim("mel", config.mel_bins), three]),
            builder.parameter("embedding", &[h]),
        );
        let conv2 = (builder.parameter("embedding", &[h, h, three]), builder.parameter("embedding", &[h]));
        let positions = Shape::of(&[dim("S_e", config.source_positions), h]);
        // Sinusoids, which are not trained.
        let dtype = builder.setup.dtype;
        let source_positions = builder.frozen("embedding", positions, dtype);
        let encoder =
            (0..config.layers).map(|_| builder.layer(|builder| Layer::build(builder, &config, false))).collect();
        let encoder_norm = builder.norm("norm", NormKind::Layer, h, true);
        let tokens = builder.parameter("embedding", &[v, h]);
        let target_positions = builder.parameter("embedding", &[dim("n_pos", config.target_positions), h]);
        let decoder =
            (0..config.decoder_layers).map(|_| builder.layer(|builder| Layer::build(builder, &config, true))).collect();
        let decoder_norm = builder.norm("norm", NormKind::Layer, h, true);
        let head = head(builder, config.tied.then_some(&tokens), v, h);
        WhisperModel {
            config,
            conv1,
            conv2,
            source_positions,
            encoder,
            encoder_norm,
            tokens,
            target_positions,
            decoder,
            decoder_norm,
            head,
        }
    }

    fn run_encoder(&self, tape: &mut Tape, setup: &Setup, features: &Tensor) -> Tensor {
        let config = &self.config;
        let (batch, h, s) = (dim("B", setup.batch), dim("h", config.hidden), dim("S_e", config.source_positions));
        tape.part("embedding");
        let frames = Shape::of(&[batch, dim("2S_e", config.source_positions.saturating_mul(2)), h]);
        let first = tape.patches("convolution", features, &self.conv1.0, Some(&self.conv1.1), frames);
        let first = tape.activation_of_input("activation function", &first);
        let second = tape.patches("convolution", &first, &self.conv2.0, Some(&self.conv2.1), Shape::of(&[batch, s, h]));
        drop(first);
        let embedded = tape.activation_of_input("activation function", &second);
        drop(second);
        let ids = tape.alloc("positions", Shape::of(&[s]), DType::Int64);
        let sum = {
            let positions = tape.embedding("position embeddings", &ids, &self.source_positions, h);
            tape.add("embeddings", &embedded, &positions)
        };
        let x = tape.dropout("embedding", sum, config.dropout);
        let run = Run {
            setup: *setup,
            batch,
            mask: None,
            use_cache: false,
            is_decoder: false,
            encoded: None,
            past_tokens: 0,
        };
        let x = run_layers(tape, &self.encoder, x, &run, &mut Cache::default(), None);
        drop((ids, embedded));
        Layer::normed(tape, &x, &self.encoder_norm, false)
    }
}

impl Model for WhisperModel {
    fn encode(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor]) -> Option<Tensor> {
        Some(self.run_encoder(tape, setup, &inputs[0]))
    }

    fn inputs(&self, tape: &mut Tape, setup: &Setup) -> Vec<Tensor> {
        let config = &self.config;
        let frames = dim("2S_e", config.source_positions.saturating_mul(2));
        let shape = Shape::of(&[dim("B", setup.batch), dim("mel", config.mel_bins), frames]);
        let features = tape.input("spectrogram", shape, setup.dtype);
        let mut inputs = vec![features];
        inputs.extend(token_ids(tape, setup));
        inputs
    }

    fn loss_style(&self) -> Option<LossStyle> {
        Some(LossStyle::Plain)
    }

    fn forward(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor], call: &Call) -> Outputs {
        let config = &self.config;
        let (batch, h) = (dim("B", setup.batch), dim("h", config.hidden));
        let mut cache = Cache::default();
        let encoded = match &call.encoded {
            Some(encoded) => encoded.clone(),
            None => self.run_encoder(tape, setup, &inputs[0]),
        };
        let tokens = inputs[1].shape.at(1);
        tape.part("embedding");
        let embedded = tape.embedding("token embeddings", &inputs[1], &self.tokens, h);
        let ids = position_ids(tape, tokens);
        let positions = tape.embedding("position embeddings", &ids, &self.target_positions, h);
        let sum = tape.add("embeddings", &embedded, &positions);
        let x = tape.dropout("embedding", sum, config.dropout);
        let mask = eager_mask(tape, setup, batch, tokens, tokens);
        let use_cache = call.use_cache && !(setup.checkpointing && tape.is_training());
        let run = Run {
            setup: *setup,
            batch,
            mask,
            use_cache,
            is_decoder: true,
            encoded: Some(encoded.clone()),
            past_tokens: call.past_tokens,
        };
        let x = run_layers(tape, &self.decoder, x, &run, &mut cache, Some(call));
        let last = tape.norm(&x, &self.decoder_norm);
        drop((x, embedded, positions, ids, run));
        tape.part("head");
        let logits = tape.linear("logits", &last, &self.head);
        let loss = call.with_labels.then(|| tape.label_loss(LossStyle::Plain, &logits, batch));
        Outputs { logits, loss, cache, _others: vec![encoded.detached()] }
    }
}
