//! `ModernBERT` with the head for masked words.
//!
//! # Source
//! transformers 5.17, `models/modernbert/modeling_modernbert.py`.

use std::rc::Rc;

use super::builder::{Builder, Layered, Role};
use super::common::{batch_and_tokens, head, token_ids};
use super::heads::{Cache, HeadDims, Plan, Rotary, eager_mask, position_ids, rotary_tables, window_mask};
use super::{Call, Model, Outputs};
use crate::architecture::ModernBert;
use crate::dtype::DType;
use crate::ops::{EagerStyle, Linear, LossStyle, Mask, Norm, NormKind};
use crate::setup::Setup;
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

pub(crate) struct ModernBertModel {
    config: Rc<ModernBert>,
    words: Tensor,
    norm: Norm,
    layers: Vec<Rc<Layered<Layer>>>,
    last_norm: Norm,
    dense: Linear,
    dense_norm: Norm,
    decoder: Linear,
}

struct Layer {
    config: Rc<ModernBert>,
    is_global: bool,
    attention_norm: Option<Norm>,
    qkv: Linear,
    output: Linear,
    mlp_norm: Norm,
    up: Linear,
    down: Linear,
}

#[derive(Clone)]
struct Run {
    setup: Setup,
    batch: Dim,
    tokens: Dim,
    rotary: [Rotary; 2],
    mask: Option<Mask>,
    window_mask: Option<Mask>,
    _positions: Tensor,
}

impl Layer {
    fn forward(&self, tape: &mut Tape, x: &Tensor, run: &Run) -> Tensor {
        let normed = match &self.attention_norm {
            Some(norm) => tape.norm(x, norm),
            None => x.clone(),
        };
        tape.part("attention");
        let attended = self.attention(tape, &normed, run);
        drop(normed);
        let x = tape.add("residual", x, &attended);
        drop(attended);
        let normed = tape.norm(&x, &self.mlp_norm);
        tape.part("mlp");
        let both = tape.linear("mlp: input and gate", &normed, &self.up);
        let half = both.shape.with_last(dim("i", both.shape.last().size / 2));
        let mut parts = tape.split(&both, &[half, half]);
        drop(both);
        let (Some(gate), Some(input)) = (parts.pop(), parts.pop()) else { return x };
        let active = tape.activation_of_input("activation function", &input);
        let product = tape.mul("mlp: input by gate", &active, &gate);
        drop((active, input, gate));
        let down = tape.linear("mlp: down", &product, &self.down);
        drop((product, normed));
        tape.add("residual", &x, &down)
    }

    fn attention(&self, tape: &mut Tape, x: &Tensor, run: &Run) -> Tensor {
        let config = &self.config;
        let dims = HeadDims::new(config.heads, config.heads, config.hidden / config.heads.max(1));
        let plan = Plan {
            dims,
            batch: run.batch,
            queries: run.tokens,
            keys: run.tokens,
            mask: if self.is_global { run.mask.as_ref() } else { run.window_mask.as_ref().or(run.mask.as_ref()) },
            is_causal: false,
            dropout: 0.0,
            eager: EagerStyle { softmax_in_float32: true, scales: true, soft_cap: false },
            cached: false,
            is_packed: false,
            q_by_heads: false,
            attention: run.setup.attention,
        };
        let joined = tape.linear("query, key and value", x, &self.qkv);
        let shape = Shape::of(&[run.batch, run.tokens, dims.heads, dims.head_dim]);
        let mut parts = tape.split(&joined, &[shape; 3]);
        drop(joined);
        let (Some(v), Some(k), Some(q)) = (parts.pop(), parts.pop(), parts.pop()) else { return x.clone() };
        let rotary = &run.rotary[usize::from(!self.is_global)];
        let mut turn = |x: &Tensor| {
            let turned = tape.rotate(x, &rotary.cos, &rotary.sin);
            tape.to("rotary output, cast back", &turned, x.dtype)
        };
        let (q, k) = (turn(&q), turn(&k));
        let output = plan.run(tape, q, k, v);
        let output = output.view(Shape::of(&[run.batch, run.tokens, dim("h", config.hidden)]));
        tape.linear("attention: projection", &output, &self.output)
    }
}

impl ModernBertModel {
    pub(crate) fn build(builder: &mut Builder<'_>, config: &ModernBert) -> ModernBertModel {
        let config = Rc::new(config.clone());
        let (v, h, i) = (dim("V", config.vocab), dim("h", config.hidden), dim("i", config.intermediate));
        let words = builder.parameter("embedding", &[v, h]);
        let biases = config.biases;
        let norm = builder.norm("norm", NormKind::Layer, h, biases.norm);
        let layers = (0..config.layers)
            .map(|index| {
                builder.layer(|builder| Layer {
                    config: Rc::clone(&config),
                    is_global: index % config.global_every == 0,
                    attention_norm: (index > 0).then(|| builder.norm("norm", NormKind::Layer, h, biases.norm)),
                    qkv: builder.linear(
                        "attention",
                        Role::QueryValue,
                        dim("3h", config.hidden.saturating_mul(3)),
                        h,
                        biases.attention,
                    ),
                    output: builder.linear("attention", Role::Attention, h, h, biases.attention),
                    mlp_norm: builder.norm("norm", NormKind::Layer, h, biases.norm),
                    up: builder.linear(
                        "mlp",
                        Role::Mlp,
                        dim("2i", config.intermediate.saturating_mul(2)),
                        h,
                        biases.mlp,
                    ),
                    down: builder.linear("mlp", Role::Mlp, h, i, biases.mlp),
                })
            })
            .collect();
        let last_norm = builder.norm("norm", NormKind::Layer, h, biases.norm);
        let dense = builder.linear("head", Role::Head, h, h, biases.head);
        let dense_norm = builder.norm("norm", NormKind::Layer, h, biases.norm);
        let mut decoder = head(builder, config.tied.then_some(&words), v, h);
        decoder.bias = biases.decoder.then(|| builder.parameter("head", &[v]));
        ModernBertModel { config, words, norm, layers, last_norm, dense, dense_norm, decoder }
    }
}

impl Model for ModernBertModel {
    fn inputs(&self, tape: &mut Tape, setup: &Setup) -> Vec<Tensor> {
        token_ids(tape, setup)
    }

    fn loss_style(&self) -> Option<LossStyle> {
        Some(LossStyle::Upcast)
    }

    fn buffer_bytes(&self) -> u64 {
        (self.config.hidden / self.config.heads.max(1)).saturating_mul(8)
    }

    fn forward(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor], call: &Call) -> Outputs {
        let config = &self.config;
        let h = dim("h", config.hidden);
        let (batch, tokens) = batch_and_tokens(inputs);
        let positions = position_ids(tape, tokens);
        tape.part("embedding");
        let words = tape.embedding("word embeddings", &inputs[0], &self.words, h);
        let mut x = tape.norm(&words, &self.norm);
        drop(words);
        let mask = eager_mask(tape, setup, batch, tokens, tokens);
        let window_mask = match &mask {
            Some(_) => eager_mask(tape, setup, batch, tokens, tokens),
            None => window_mask(tape, batch, tokens, tokens, Some(config.window / 2 + 1), false),
        };
        let size = dim("d", config.hidden / config.heads.max(1));
        let dtype = if setup.autocast.is_some() { DType::Float32 } else { x.dtype };
        let rotary = [
            rotary_tables(tape, Shape::of(&[tokens]), size, dtype),
            rotary_tables(tape, Shape::of(&[tokens]), size, dtype),
        ];
        let run = Run { setup: *setup, batch, tokens, rotary, mask, window_mask, _positions: positions };
        for layer in &self.layers {
            x = tape.grouped(layer.group, &x, |tape, x| {
                if setup.checkpointing && tape.is_training() {
                    let (layer, run) = (Rc::clone(layer), run.clone());
                    tape.checkpoint(x, move |tape, x| layer.forward(tape, x, &run))
                } else {
                    layer.forward(tape, x, &run)
                }
            });
        }
        drop(run);
        let last = tape.norm(&x, &self.last_norm);
        drop(x);
        tape.part("head");
        let dense = tape.linear("head: dense", &last, &self.dense);
        let active = tape.activation_of_input("activation function", &dense);
        drop(dense);
        let normed = tape.norm(&active, &self.dense_norm);
        drop(active);
        tape.part("head");
        let logits = tape.linear("logits", &normed, &self.decoder);
        drop((normed, last));
        let loss = call.with_labels.then(|| tape.label_loss(LossStyle::Upcast, &logits, batch));
        Outputs { logits, loss, cache: Cache::default(), _others: Vec::new() }
    }
}
