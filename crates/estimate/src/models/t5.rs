//! T5: an encoder and a decoder with learned biases of relative positions.
//!
//! # Source
//! transformers 5.17, `models/t5/modeling_t5.py`.

use std::rc::Rc;

use super::builder::{Builder, Role};
use super::gpt2::{activate, batch_and_tokens, head};
use super::heads::{Cache, HeadDims, Plan, as_heads, extend};
use super::{Call, Model, Outputs};
use crate::architecture::T5;
use crate::dtype::DType;
use crate::ops::{EagerStyle, Linear, LossStyle, Mask, Norm, NormKind};
use crate::setup::{Attention, Setup};
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

pub(crate) struct T5Model {
    config: Rc<T5>,
    tokens: Tensor,
    encoder: Stack,
    decoder: Stack,
    head: Linear,
}

struct Stack {
    layers: Vec<Rc<Layer>>,
    positions: Tensor,
    last_norm: Norm,
}

struct Layer {
    config: Rc<T5>,
    own: AttentionWeights,
    cross: Option<AttentionWeights>,
    norm: Norm,
    gate: Option<Linear>,
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

impl AttentionWeights {
    fn build(builder: &mut Builder<'_>, config: &T5) -> AttentionWeights {
        let h = dim("h", config.hidden);
        let q = dim("q", config.heads.saturating_mul(config.head_dim));
        AttentionWeights {
            query: builder.linear("attention", Role::QueryValue, q, h, false),
            key: builder.linear("attention", Role::Attention, q, h, false),
            value: builder.linear("attention", Role::QueryValue, q, h, false),
            output: builder.linear("attention", Role::Attention, h, q, false),
            norm: builder.norm("norm", NormKind::RmsT5, h, false),
        }
    }
}

/// What the layers of a stack share.
#[derive(Clone)]
struct Run {
    setup: Setup,
    batch: Dim,
    tokens: Dim,
    is_decoder: bool,
    use_cache: bool,
    mask: Option<Mask>,
    bias: Tensor,
    cross_bias: Option<Tensor>,
    /// What the encoder gave.
    encoded: Option<Tensor>,
}

impl Layer {
    fn build(builder: &mut Builder<'_>, config: &Rc<T5>, is_decoder: bool) -> Layer {
        let (h, i) = (dim("h", config.hidden), dim("i", config.intermediate));
        let own = AttentionWeights::build(builder, config);
        let cross = is_decoder.then(|| AttentionWeights::build(builder, config));
        let gate = config.gated.then(|| builder.linear("mlp", Role::Mlp, i, h, false));
        let up = builder.linear("mlp", Role::Mlp, i, h, false);
        let down = builder.linear("mlp", Role::Mlp, h, i, false);
        let norm = builder.norm("norm", NormKind::RmsT5, h, false);
        Layer { config: Rc::clone(config), own, cross, norm, gate, up, down }
    }

    fn attend(
        &self,
        tape: &mut Tape,
        x: &Tensor,
        weights: &AttentionWeights,
        source: Option<&Tensor>,
        run: &Run,
        cache: &mut Cache,
    ) -> Tensor {
        let config = &self.config;
        let normed = tape.norm(x, &weights.norm);
        tape.part("attention");
        let mut dims = HeadDims::new(config.heads, config.heads, config.head_dim);
        dims.kv_heads = dims.heads;
        let keys = source.map_or(run.tokens, |source| source.shape.at(1));
        let bias = if source.is_some() { run.cross_bias.clone() } else { Some(run.bias.clone()) };
        // A bias that needs no gradient is a mask to the fused kernels.
        let is_learned = bias.as_ref().is_some_and(|bias| tape.records(&[bias]));
        let as_mask = bias
            .clone()
            .filter(|_| !is_learned && run.setup.attention != Attention::Eager)
            .map(|tensor| Mask { tensor, batch: dim("1", 1) });
        let plan = Plan {
            dims,
            batch: run.batch,
            queries: run.tokens,
            keys,
            mask: if as_mask.is_some() { as_mask.as_ref() } else { run.mask.as_ref().filter(|_| source.is_none()) },
            is_causal: false,
            dropout: config.dropout,
            eager: EagerStyle { softmax_in_float32: false, scales: true, soft_cap: false },
            cached: run.use_cache,
            is_packed: false,
            q_by_heads: false,
            attention: run.setup.attention,
        };
        let copies = is_learned || plan.copies_q_grad(tape, x.dtype);
        let copies_kv = copies || plan.copies_kv_grad(tape, x.dtype);
        let shape = |tokens| Shape::of(&[run.batch, tokens, dims.heads, dims.head_dim]);
        let source = source.unwrap_or(&normed);
        let mut heads = |name, x: &Tensor, layer, tokens, copies| {
            let projected = tape.linear(name, x, layer);
            as_heads(tape, &projected, shape(tokens), copies)
        };
        let q = heads("queries", &normed, &weights.query, run.tokens, copies);
        let mut k = heads("keys", source, &weights.key, keys, copies_kv);
        let mut v = heads("values", source, &weights.value, keys, copies_kv);
        if run.use_cache {
            let cached = extend(tape, "keys in the cache", None, &k, shape(keys), k.dtype);
            let values = extend(tape, "values in the cache", None, &v, shape(keys), v.dtype);
            (k, v) = (cached, values);
            cache.layers.push((k.detached(), v.detached()));
        }
        let held = (q.detached(), k.detached(), v.detached());
        let output =
            plan.run_with_bias(tape, q, k, v, bias.filter(|_| is_learned || run.setup.attention == Attention::Eager));
        let output = output.view(Shape::of(&[run.batch, run.tokens, dims.query_width()]));
        let projected = tape.linear("attention: projection", &output, &weights.output);
        drop((output, held));
        let dropped = tape.dropout("attention", projected, config.dropout);
        tape.add("residual", x, &dropped)
    }

    fn feed(&self, tape: &mut Tape, x: &Tensor) -> Tensor {
        let normed = tape.norm(x, &self.norm);
        tape.part("mlp");
        let active = match &self.gate {
            None => {
                let up = tape.linear("mlp: up", &normed, &self.up);
                activate(tape, self.config.activation, &up)
            }
            Some(gate) => {
                let gated = tape.linear("mlp: gate", &normed, gate);
                let active = activate(tape, self.config.activation, &gated);
                drop(gated);
                let up = tape.linear("mlp: up", &normed, &self.up);
                tape.mul("mlp: gate by up", &active, &up)
            }
        };
        let active = tape.dropout("mlp", active, self.config.dropout);
        let down = tape.linear("mlp: down", &active, &self.down);
        drop(active);
        let dropped = tape.dropout("mlp", down, self.config.dropout);
        tape.add("residual", x, &dropped)
    }

    fn forward(&self, tape: &mut Tape, x: &Tensor, run: &Run, cache: &mut Cache) -> Tensor {
        let mut x = self.attend(tape, x, &self.own, None, run, cache);
        if let (Some(cross), Some(encoded)) = (&self.cross, &run.encoded) {
            x = self.attend(tape, &x, cross, Some(encoded), run, cache);
        }
        let output = self.feed(tape, &x);
        tape.module_output(&output);
        output
    }
}

impl Stack {
    fn build(builder: &mut Builder<'_>, config: &Rc<T5>, layers: u64, is_decoder: bool) -> Stack {
        let positions = builder.parameter("attention", &[dim("buckets", config.buckets), dim("nh", config.heads)]);
        let layers = (0..layers).map(|_| Rc::new(Layer::build(builder, config, is_decoder))).collect();
        let last_norm = builder.norm("norm", NormKind::RmsT5, dim("h", config.hidden), false);
        Stack { layers, positions, last_norm }
    }

    /// `compute_bias`: a bucket for each pair of positions, and what was learned for it.
    fn bias(&self, tape: &mut Tape, config: &T5, tokens: Dim) -> Tensor {
        let part = tape.part("position bias");
        let square = Shape::of(&[tokens, tokens]);
        let relative = tape.alloc("relative positions", square, DType::Int64);
        let buckets = tape.alloc("buckets", square, DType::Int64);
        let small = tape.alloc("small positions", square, DType::Byte);
        let large = tape.alloc("buckets of large positions", square, DType::Int64);
        let chosen = tape.alloc("buckets", square, DType::Int64);
        drop((small, large, chosen, relative));
        let bias = tape.embedding("position bias", &buckets, &self.positions, dim("nh", config.heads));
        tape.part(part);
        bias.view(Shape::of(&[dim("nh", config.heads), tokens, tokens]))
    }

    fn forward(&self, tape: &mut Tape, config: &Rc<T5>, x: Tensor, mut run: Run, cache: &mut Cache) -> Tensor {
        let mut x = tape.dropout("embedding", x, config.dropout);
        let mut bias = self.bias(tape, config, run.tokens);
        if run.is_decoder && run.setup.attention != Attention::Eager {
            // The causal mask is put into the bias (`create_position_bias_mask`).
            let part = tape.part("position bias");
            let ranges = tape.alloc("causal mask", Shape::of(&[run.tokens, run.tokens]), DType::Byte);
            let masked = tape.copy("position bias with the causal mask", &bias);
            drop(ranges);
            bias = masked;
            tape.part(part);
        }
        run.bias = bias;
        if let Some(encoded) = run.encoded.as_ref().filter(|_| run.is_decoder) {
            let shape = Shape::of(&[dim("nh", config.heads), run.tokens, encoded.shape.at(1)]);
            run.cross_bias = Some(tape.alloc("position bias of cross attention", shape, run.setup.dtype));
        }
        for layer in &self.layers {
            x = if run.setup.checkpointing && tape.is_training() {
                let (layer, run) = (Rc::clone(layer), run.clone());
                let others: Vec<Tensor> = [Some(run.bias.clone()), run.encoded.clone()].into_iter().flatten().collect();
                let others: Vec<&Tensor> = others.iter().collect();
                tape.checkpoint_with(&x, &others, move |tape, x| layer.forward(tape, x, &run, &mut Cache::default()))
            } else {
                layer.forward(tape, &x, &run, cache)
            };
        }
        let normed = tape.norm(&x, &self.last_norm);
        drop(x);
        tape.dropout("norm", normed, config.dropout)
    }
}

impl T5Model {
    pub(crate) fn build(builder: &mut Builder<'_>, config: &T5) -> T5Model {
        let config = Rc::new(config.clone());
        let (v, h) = (dim("V", config.vocab), dim("h", config.hidden));
        let tokens = builder.parameter("embedding", &[v, h]);
        let encoder = Stack::build(builder, &config, config.layers, false);
        let decoder = Stack::build(builder, &config, config.decoder_layers, true);
        let head = head(builder, config.tied.then_some(&tokens), v, h);
        T5Model { config, tokens, encoder, decoder, head }
    }
}

impl Model for T5Model {
    fn inputs(&self, tape: &mut Tape, setup: &Setup) -> Vec<Tensor> {
        super::gpt2::token_ids(tape, setup)
    }

    fn loss_style(&self) -> Option<LossStyle> {
        Some(LossStyle::Plain)
    }

    fn forward(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor], call: &Call) -> Outputs {
        let config = &self.config;
        let h = dim("h", config.hidden);
        let (batch, tokens) = batch_and_tokens(inputs);
        let mut cache = Cache::default();
        let use_cache = call.use_cache && !(setup.checkpointing && tape.is_training());
        let run = |is_decoder, encoded| Run {
            setup: *setup,
            batch,
            tokens,
            is_decoder,
            use_cache: use_cache && is_decoder,
            mask: None,
            bias: self.tokens.detached(),
            cross_bias: None,
            encoded,
        };
        tape.part("embedding");
        let embedded = tape.embedding("token embeddings", &inputs[0], &self.tokens, h);
        let shared = run(false, None);
        let encoded = self.encoder.forward(tape, config, embedded, shared, &mut cache);
        tape.part("embedding");
        let shifted = tape.alloc("decoder ids", inputs[0].shape, DType::Int64);
        let embedded = tape.embedding("token embeddings", &shifted, &self.tokens, h);
        let shared = run(true, Some(encoded.clone()));
        let decoded = self.decoder.forward(tape, config, embedded, shared, &mut cache);
        tape.part("head");
        let scaled = if config.scales_output { tape.scale("scaled decoder output", &decoded) } else { decoded.clone() };
        let logits = tape.linear("logits", &scaled, &self.head);
        drop((decoded, scaled));
        let loss = call.with_labels.then(|| tape.label_loss(LossStyle::Plain, &logits, batch));
        Outputs { logits, loss, cache, _others: vec![encoded.detached()] }
    }
}
