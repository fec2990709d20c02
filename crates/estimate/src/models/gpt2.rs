//! GPT-2.
//!
//! # Source
//! transformers 5.17, `models/gpt2/modeling_gpt2.py`.

use std::rc::Rc;

use super::builder::{Builder, Layered, Role};
use super::common::{activate, batch_and_tokens, causal_outputs, head, token_ids};
use super::heads::{Cache, HeadDims, Plan, as_heads, eager_mask, extend, position_ids};
use super::{Call, Model, Outputs, Past};
use crate::architecture::Gpt2;
use crate::ops::{EagerStyle, Linear, LossStyle, Mask, Norm, NormKind};
use crate::setup::Setup;
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

pub(crate) struct Gpt2Model {
    config: Rc<Gpt2>,
    tokens: Tensor,
    positions: Tensor,
    layers: Vec<Rc<Layered<Layer>>>,
    last_norm: Norm,
    head: Linear,
}

struct Layer {
    config: Rc<Gpt2>,
    norm1: Norm,
    qkv: Linear,
    output: Linear,
    norm2: Norm,
    up: Linear,
    down: Linear,
}

impl Gpt2Model {
    pub(crate) fn build(builder: &mut Builder<'_>, config: &Gpt2) -> Gpt2Model {
        let config = Rc::new(config.clone());
        let (v, h, i) = (dim("V", config.vocab), dim("h", config.hidden), dim("i", config.intermediate));
        let tokens = builder.parameter("embedding", &[v, h]);
        let positions = builder.parameter("embedding", &[dim("n_pos", config.positions), h]);
        let layers = (0..config.layers)
            .map(|_| {
                builder.layer(|builder| Layer {
                    config: Rc::clone(&config),
                    norm1: builder.norm("norm", NormKind::Layer, h, true),
                    qkv: builder.conv1d("attention", Role::QueryValue, dim("3h", config.hidden.saturating_mul(3)), h),
                    output: builder.conv1d("attention", Role::Attention, h, h),
                    norm2: builder.norm("norm", NormKind::Layer, h, true),
                    up: builder.conv1d("mlp", Role::Mlp, i, h),
                    down: builder.conv1d("mlp", Role::Mlp, h, i),
                })
            })
            .collect();
        let last_norm = builder.norm("norm", NormKind::Layer, h, true);
        let head = head(builder, config.tied.then_some(&tokens), v, h);
        Gpt2Model { config, tokens, positions, layers, last_norm, head }
    }
}

impl Layer {
    fn forward(&self, tape: &mut Tape, x: &Tensor, run: &Run, cache: &mut Cache, past: &mut Past) -> Tensor {
        let normed = tape.norm(x, &self.norm1);
        tape.part("attention");
        let attended = self.attention(tape, &normed, run, cache, past);
        let x = tape.add("residual", &attended, x);
        drop(normed);
        let normed = tape.norm(&x, &self.norm2);
        tape.part("mlp");
        let up = tape.linear("mlp: up", &normed, &self.up);
        let active = activate(tape, self.config.activation, &up);
        drop(up);
        let down = tape.linear("mlp: down", &active, &self.down);
        drop(active);
        let fed = tape.dropout("mlp", down, self.config.dropouts.1);
        tape.module_output(&fed);
        let output = tape.add("residual", &x, &fed);
        drop(attended);
        tape.module_output(&output);
        output
    }

    #[expect(clippy::many_single_char_names, reason = "the symbols of the formulas")]
    fn attention(&self, tape: &mut Tape, x: &Tensor, run: &Run, cache: &mut Cache, past: &mut Past) -> Tensor {
        let config = &self.config;
        let dims = HeadDims::new(config.heads, config.heads, config.hidden / config.heads.max(1));
        let h = dim("h", config.hidden);
        let plan = Plan {
            dims,
            batch: run.batch,
            queries: run.tokens,
            keys: run.keys,
            mask: run.mask.as_ref(),
            is_causal: true,
            dropout: config.dropouts.2,
            eager: EagerStyle { softmax_in_float32: false, scales: true, soft_cap: false },
            cached: run.use_cache,
            is_packed: !run.use_cache,
            q_by_heads: false,
            attention: run.setup.attention,
        };
        let joined = tape.linear("query, key and value", x, &self.qkv);
        let third = Shape::of(&[run.batch, run.tokens, h]);
        let mut parts = tape.split(&joined, &[third; 3]);
        drop(joined);
        let dtype = x.dtype;
        let (copies_q, copies_kv) = (plan.copies_q_grad(tape, dtype), plan.copies_kv_grad(tape, dtype));
        let shape = Shape::of(&[run.batch, run.tokens, dims.heads, dims.head_dim]);
        let (Some(v), Some(k), Some(q)) = (parts.pop(), parts.pop(), parts.pop()) else { return x.clone() };
        let mut k = as_heads(tape, &k, shape, copies_kv);
        let mut v = as_heads(tape, &v, shape, copies_kv);
        let q = as_heads(tape, &q, shape, copies_q);
        if run.use_cache {
            let (past_keys, past_values) = past.take().unzip();
            let place = run.capacity.map_or(run.keys, |capacity| dim("S_max", capacity));
            let shape = Shape::of(&[run.batch, place, dims.heads, dims.head_dim]);
            let keys = extend(tape, "keys in the cache", past_keys.as_ref(), &k, shape, k.dtype);
            drop(past_keys);
            let values = extend(tape, "values in the cache", past_values.as_ref(), &v, shape, k.dtype);
            drop(past_values);
            (k, v) = (keys, values);
            cache.layers.push((k.detached(), v.detached()));
        }
        let output = plan.run(tape, q, k, v);
        let output = output.view(Shape::of(&[run.batch, run.tokens, h]));
        let projected = tape.linear("attention: projection", &output, &self.output);
        drop(output);
        let dropped = tape.dropout("attention", projected, config.dropouts.1);
        tape.module_output(&dropped);
        dropped
    }
}

/// What the layers of a forward pass share.
#[derive(Clone)]
struct Run {
    setup: Setup,
    batch: Dim,
    tokens: Dim,
    keys: Dim,
    mask: Option<Mask>,
    use_cache: bool,
    capacity: Option<u64>,
}

impl Model for Gpt2Model {
    fn inputs(&self, tape: &mut Tape, setup: &Setup) -> Vec<Tensor> {
        token_ids(tape, setup)
    }

    fn loss_style(&self) -> Option<LossStyle> {
        Some(LossStyle::Causal)
    }

    fn forward(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor], call: &Call) -> Outputs {
        let config = &self.config;
        let h = dim("h", config.hidden);
        let (batch, tokens) = batch_and_tokens(inputs);
        let keys = dim("S", tokens.size.saturating_add(call.past_tokens));
        tape.part("embedding");
        let embedded = tape.embedding("token embeddings", &inputs[0], &self.tokens, h);
        let ids = if call.by_generate { inputs[0].detached() } else { position_ids(tape, tokens) };
        let positions = tape.embedding("position embeddings", &ids, &self.positions, h);
        let sum = tape.add("embeddings", &embedded, &positions);
        let use_cache = call.use_cache && !(setup.checkpointing && tape.is_training());
        let mask = eager_mask(tape, setup, batch, tokens, keys);
        let mut x = tape.dropout("embedding", sum, config.dropouts.0);
        let run = Run { setup: *setup, batch, tokens, keys, mask, use_cache, capacity: call.capacity };
        let mut cache = Cache::default();
        for (index, layer) in self.layers.iter().enumerate() {
            let mut past = call.take_past(index);
            x = tape.grouped(layer.group, &x, |tape, x| {
                if setup.checkpointing && tape.is_training() {
                    let (layer, run) = (Rc::clone(layer), run.clone());
                    tape.checkpoint(x, move |tape, x| layer.forward(tape, x, &run, &mut Cache::default(), &mut None))
                } else {
                    layer.forward(tape, x, &run, &mut cache, &mut past)
                }
            });
        }
        let last = tape.norm(&x, &self.last_norm);
        drop((x, embedded, positions, ids, run));
        tape.module_output(&last);
        causal_outputs(tape, last, Some(&self.head), false, call, cache)
    }
}
