//! T5: an encoder and a decoder with learned biases of relative positions.
//!
//! # Source
//! transformers 5.17, `models/t5/modeling_t5.py`.

use std::rc::Rc;

use super::builder::{Builder, Layered, Role};
use super::common::{activate, batch_and_tokens, head};
use super::heads::{Cache, HeadDims, Plan, as_heads, extend_both};
use super::{Call, Model, Outputs, Past};
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
    layers: Vec<Rc<Layered<Layer>>>,
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
    /// Tokens that the cache has before this call.
    past_tokens: u64,
}

impl Run {
    /// The bias with the causal mask put into it, anew in every layer of the decoder; eager attention adds a mask instead.
    ///
    /// # Source
    /// transformers 5.17, `integrations/sdpa_attention.py`, `create_position_bias_mask`.
    fn with_causal_mask(&self, tape: &mut Tape, bias: Tensor) -> Tensor {
        if self.setup.attention == Attention::Eager || self.tokens.size <= 1 {
            return bias;
        }
        let square = Shape::of(&[self.tokens, self.tokens]);
        let mask = tape.alloc("causal mask, boolean", square, DType::Byte);
        tape.masked("position bias with the causal mask", &bias, &mask)
    }
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
        let normed = tape.norm(x, &weights.norm);
        tape.part("attention");
        let mut dims = HeadDims::new(config.heads, config.heads, config.head_dim);
        dims.kv_heads = dims.heads;
        let own_keys = dim("S", run.tokens.size.saturating_add(run.past_tokens));
        let keys = source.map_or(own_keys, |source| source.shape.at(1));
        let bias = if source.is_some() { run.cross_bias.clone() } else { Some(run.bias.clone()) };
        let bias = match bias {
            Some(bias) if run.is_decoder && source.is_none() => Some(run.with_causal_mask(tape, bias)),
            bias => bias,
        };
        // A bias that needs no gradient and lies row by row is a mask to the fused kernels; that of self-attention lies head by head.
        let is_learned = source.is_none() || bias.as_ref().is_some_and(|bias| tape.records(&[bias]));
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
        let is_cross = source.is_some();
        let source = source.unwrap_or(&normed);
        let mut heads = |name, x: &Tensor, layer, tokens, copies| {
            let projected = tape.linear(name, x, layer);
            as_heads(tape, &projected, shape(tokens), copies)
        };
        let q = heads("queries", &normed, &weights.query, run.tokens, copies);
        let new = if is_cross { keys } else { run.tokens };
        let (k, v) = match past.take() {
            Some(made) if is_cross => made,
            past => {
                let k = heads("keys", source, &weights.key, new, copies_kv);
                let v = heads("values", source, &weights.value, new, copies_kv);
                if run.use_cache { extend_both(tape, past, (k, v), shape(keys)) } else { (k, v) }
            }
        };
        if run.use_cache {
            let layers = if is_cross { &mut cache.of_encoder } else { &mut cache.layers };
            layers.push((k.detached(), v.detached()));
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

    /// In float16, values out of range are brought back.
    fn clamped(tape: &mut Tape, x: Tensor) -> Tensor {
        if x.dtype != DType::Float16 {
            return x;
        }
        let absolute = tape.alloc("absolute values", x.shape, x.dtype);
        let infinite = tape.alloc("infinite, boolean", x.shape, DType::Byte);
        drop(absolute);
        drop(infinite);
        tape.clamp("clamped residual", &x)
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
        let active = tape.to("mlp: input in the type of the weight", &active, self.down.weight.dtype);
        let down = tape.linear("mlp: down", &active, &self.down);
        drop(active);
        let dropped = tape.dropout("mlp", down, self.config.dropout);
        tape.add("residual", x, &dropped)
    }

    fn forward(&self, tape: &mut Tape, x: &Tensor, run: &Run, cache: &mut Cache, past: &mut (Past, Past)) -> Tensor {
        let attended = self.attend(tape, x, &self.own, None, run, cache, &mut past.0);
        let mut x = Self::clamped(tape, attended);
        if let (Some(cross), Some(encoded)) = (&self.cross, &run.encoded) {
            let attended = self.attend(tape, &x, cross, Some(encoded), run, cache, &mut past.1);
            x = Self::clamped(tape, attended);
        }
        let fed = self.feed(tape, &x);
        let output = Self::clamped(tape, fed);
        tape.module_output(&output);
        output
    }
}

impl Stack {
    fn build(builder: &mut Builder<'_>, config: &Rc<T5>, layers: u64, is_decoder: bool) -> Stack {
        let positions = builder.parameter("attention", &[dim("buckets", config.buckets), dim("nh", config.heads)]);
        let layers = (0..layers).map(|_| builder.layer(|builder| Layer::build(builder, config, is_decoder))).collect();
        let last_norm = builder.norm("norm", NormKind::RmsT5, dim("h", config.hidden), false);
        Stack { layers, positions, last_norm }
    }

    /// `compute_bias`: a bucket for each pair of positions, and what was learned for it.
    fn bias(&self, tape: &mut Tape, config: &T5, tokens: Dim, keys: Dim) -> Tensor {
        let part = tape.part("position bias");
        let square = Shape::of(&[tokens, keys]);
        let relative = tape.alloc("relative positions", square, DType::Int64);
        let buckets = tape.alloc("buckets", square, DType::Int64);
        let small = tape.alloc("small positions", square, DType::Byte);
        let large = tape.alloc("buckets of large positions", square, DType::Int64);
        let chosen = tape.alloc("buckets", square, DType::Int64);
        drop((small, large, chosen, relative));
        let bias = tape.embedding("position bias", &buckets, &self.positions, dim("nh", config.heads));
        tape.part(part);
        bias.view(Shape::of(&[dim("nh", config.heads), tokens, keys]))
    }

    fn forward(
        &self,
        tape: &mut Tape,
        config: &Rc<T5>,
        x: Tensor,
        mut run: Run,
        cache: &mut Cache,
        call: Option<&Call>,
    ) -> Tensor {
        let mut x = tape.dropout("embedding", x, config.dropout);
        let keys = dim("S", run.tokens.size.saturating_add(run.past_tokens));
        run.bias = self.bias(tape, config, run.tokens, keys);
        if let Some(encoded) = run.encoded.as_ref().filter(|_| run.is_decoder) {
            let shape = Shape::of(&[dim("nh", config.heads), run.tokens, encoded.shape.at(1)]);
            let dtype = tape.autocast.unwrap_or(run.setup.dtype);
            run.cross_bias = Some(tape.alloc("position bias of cross attention", shape, dtype));
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let mut past =
                call.map_or((None, None), |call| (call.take_past(index), call.of_encoder.get(index).cloned()));
            x = tape.grouped(layer.group, &x, |tape, x| {
                if run.setup.checkpointing && tape.is_training() {
                    let (layer, run) = (Rc::clone(layer), run.clone());
                    let others: Vec<Tensor> =
                        [Some(run.bias.clone()), run.encoded.clone()].into_iter().flatten().collect();
                    let others: Vec<&Tensor> = others.iter().collect();
                    tape.checkpoint_with(x, &others, move |tape, x| {
                        layer.forward(tape, x, &run, &mut Cache::default(), &mut (None, None))
                    })
                } else {
                    layer.forward(tape, x, &run, cache, &mut past)
                }
            });
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

impl T5Model {
    fn run_encoder(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor]) -> Tensor {
        let (batch, tokens) = batch_and_tokens(inputs);
        tape.part("embedding");
        let embedded = tape.embedding("token embeddings", &inputs[0], &self.tokens, dim("h", self.config.hidden));
        let run = Run {
            setup: *setup,
            batch,
            tokens,
            is_decoder: false,
            use_cache: false,
            mask: None,
            bias: self.tokens.detached(),
            cross_bias: None,
            encoded: None,
            past_tokens: 0,
        };
        self.encoder.forward(tape, &self.config, embedded, run, &mut Cache::default(), None)
    }
}

impl Model for T5Model {
    fn encode(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor]) -> Option<Tensor> {
        Some(self.run_encoder(tape, setup, inputs))
    }

    fn inputs(&self, tape: &mut Tape, setup: &Setup) -> Vec<Tensor> {
        super::common::token_ids(tape, setup)
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
            past_tokens: call.past_tokens,
        };
        let encoded = match &call.encoded {
            Some(encoded) => encoded.clone(),
            None => self.run_encoder(tape, setup, inputs),
        };
        tape.part("embedding");
        let shifted = tape.alloc("decoder ids", inputs[0].shape, DType::Int64);
        let embedded = tape.embedding("token embeddings", &shifted, &self.tokens, h);
        let shared = run(true, Some(encoded.clone()));
        let decoded = self.decoder.forward(tape, config, embedded, shared, &mut cache, Some(call));
        tape.part("head");
        let scaled = if config.scales_output { tape.scale("scaled decoder output", &decoded) } else { decoded.clone() };
        let logits = tape.linear("logits", &scaled, &self.head);
        let loss = call.with_labels.then(|| tape.label_loss(LossStyle::Plain, &logits, batch));
        drop((decoded, scaled));
        Outputs { logits, loss, cache, _others: vec![encoded.detached()] }
    }
}
