//! BERT and `RoBERTa` with the head for masked words.
//!
//! # Source
//! transformers 5.17, `models/bert/modeling_bert.py`, `models/roberta/modeling_roberta.py`.

use std::rc::Rc;

use super::builder::{Builder, Layered, Role};
use super::common::{activate, batch_and_tokens, head, token_ids};
use super::heads::{Cache, HeadDims, Plan, as_heads};
use super::{Call, Model, Outputs};
use crate::architecture::{Bert, Top};
use crate::dtype::DType;
use crate::ops::{EagerStyle, Linear, LossStyle, Norm, NormKind};
use crate::setup::Setup;
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

pub(crate) struct BertModel {
    config: Rc<Bert>,
    words: Tensor,
    positions: Tensor,
    types: Tensor,
    norm: Norm,
    layers: Vec<Rc<Layered<Layer>>>,
    transform: Option<Linear>,
    transform_norm: Option<Norm>,
    decoder: Option<Linear>,
}

struct Layer {
    config: Rc<Bert>,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    norm1: Norm,
    up: Linear,
    down: Linear,
    norm2: Norm,
}

impl BertModel {
    pub(crate) fn build(builder: &mut Builder<'_>, config: &Bert) -> BertModel {
        let config = Rc::new(config.clone());
        let (v, h, i) = (dim("V", config.vocab), dim("h", config.hidden), dim("i", config.intermediate));
        let words = builder.parameter("embedding", &[v, h]);
        let positions = builder.parameter("embedding", &[dim("n_pos", config.positions), h]);
        let types = builder.parameter("embedding", &[dim("types", config.token_types), h]);
        let norm = builder.norm("norm", NormKind::Layer, h, true);
        let layers = (0..config.layers)
            .map(|_| {
                builder.layer(|builder| Layer {
                    config: Rc::clone(&config),
                    query: builder.linear("attention", Role::QueryValue, h, h, true),
                    key: builder.linear("attention", Role::Attention, h, h, true),
                    value: builder.linear("attention", Role::QueryValue, h, h, true),
                    output: builder.linear("attention", Role::Attention, h, h, true),
                    norm1: builder.norm("norm", NormKind::Layer, h, true),
                    up: builder.linear("mlp", Role::Mlp, i, h, true),
                    down: builder.linear("mlp", Role::Mlp, h, i, true),
                    norm2: builder.norm("norm", NormKind::Layer, h, true),
                })
            })
            .collect();
        let of_tokens = matches!(config.top, Top::Labels { of_tokens: true, .. });
        let transform = (!of_tokens).then(|| builder.linear("head", Role::Head, h, h, true));
        let transform_norm = (config.top == Top::Words).then(|| builder.norm("norm", NormKind::Layer, h, true));
        let decoder = match config.top {
            Top::Nothing => None,
            Top::Labels { count, .. } => Some(builder.linear("head", Role::Head, dim("labels", count), h, true)),
            Top::Words => {
                let mut decoder = head(builder, config.tied.then_some(&words), v, h);
                decoder.bias = Some(builder.parameter("head", &[v]));
                if !config.tied {
                    // The head's own bias and the decoder's are tied as the weights are; here one of them is unused.
                    builder.parameter("head", &[v]);
                }
                Some(decoder)
            }
        };
        BertModel { config, words, positions, types, norm, layers, transform, transform_norm, decoder }
    }

    fn embeddings(&self, tape: &mut Tape, ids: &Tensor, batch: Dim, tokens: Dim) -> Tensor {
        let h = dim("h", self.config.hidden);
        tape.part("embedding");
        let shape = Shape::of(&[batch, tokens]);
        let of_positions = self.config.is_roberta.then(|| {
            // Positions are counted over what is no padding (`create_position_ids_from_input_ids`).
            let mask = tape.alloc("mask of padding", shape, DType::Byte);
            let counted = tape.alloc("positions", shape, DType::Int64);
            drop(mask);
            counted
        });
        let words = tape.embedding("word embeddings", ids, &self.words, h);
        let types = {
            // Expanded from a buffer; the look-up makes a dense copy for the moment.
            let gathered = tape.alloc("segments", Shape::of(&[tokens]), DType::Int64);
            let dense = tape.alloc("segments, one for each token", shape, DType::Int64);
            let types = tape.embedding("segment embeddings", &gathered.view(shape), &self.types, h);
            drop(dense);
            types
        };
        let both = tape.add("embeddings", &words, &types);
        let ids = match of_positions {
            Some(ids) => ids,
            None => Tensor { storage: None, ..ids.view(Shape::of(&[tokens])) },
        };
        let positions = tape.embedding("position embeddings", &ids, &self.positions, h);
        let sum = tape.add("embeddings", &both, &positions);
        drop(both);
        let normed = tape.norm(&sum, &self.norm);
        drop(sum);
        let output = tape.dropout("embedding", normed, self.config.dropouts.0);
        drop((words, types, positions));
        output
    }
}

impl Layer {
    fn forward(&self, tape: &mut Tape, x: &Tensor, run: &Run) -> Tensor {
        let config = &self.config;
        let h = dim("h", config.hidden);
        tape.part("attention");
        let attended = self.attention(tape, x, run);
        let attended = attended.view(Shape::of(&[run.batch, run.tokens, h]));
        let projected = tape.linear("attention: projection", &attended, &self.output);
        drop(attended);
        let dropped = tape.dropout("attention", projected, config.dropouts.0);
        let sum = tape.add("residual", &dropped, x);
        drop(dropped);
        let x = tape.norm(&sum, &self.norm1);
        drop(sum);
        tape.part("mlp");
        let up = tape.linear("mlp: up", &x, &self.up);
        let active = activate(tape, config.activation, &up);
        drop(up);
        let down = tape.linear("mlp: down", &active, &self.down);
        let dropped = tape.dropout("mlp", down, config.dropouts.0);
        let sum = tape.add("residual", &dropped, &x);
        drop(dropped);
        let output = tape.norm(&sum, &self.norm2);
        drop((sum, active));
        output
    }

    fn attention(&self, tape: &mut Tape, x: &Tensor, run: &Run) -> Tensor {
        let config = &self.config;
        let dims = HeadDims::new(config.heads, config.heads, config.hidden / config.heads.max(1));
        let plan = Plan {
            dims,
            batch: run.batch,
            queries: run.tokens,
            keys: run.tokens,
            mask: None,
            is_causal: false,
            dropout: config.dropouts.1,
            eager: EagerStyle { softmax_in_float32: false, scales: true, soft_cap: false },
            cached: false,
            is_packed: false,
            q_by_heads: false,
            attention: run.setup.attention,
        };
        let copies = plan.copies_q_grad(tape, x.dtype);
        let shape = Shape::of(&[run.batch, run.tokens, dims.heads, dims.head_dim]);
        let mut heads = |name, layer| {
            let projected = tape.linear(name, x, layer);
            as_heads(tape, &projected, shape, copies)
        };
        let (q, k, v) = (heads("queries", &self.query), heads("keys", &self.key), heads("values", &self.value));
        plan.run(tape, q, k, v)
    }
}

#[derive(Clone, Copy)]
struct Run {
    setup: Setup,
    batch: Dim,
    tokens: Dim,
}

impl Model for BertModel {
    fn inputs(&self, tape: &mut Tape, setup: &Setup) -> Vec<Tensor> {
        token_ids(tape, setup)
    }

    fn loss_style(&self) -> Option<LossStyle> {
        (self.config.top != Top::Nothing).then_some(LossStyle::Plain)
    }

    /// Positions and segments, as 64-bit numbers.
    fn buffer_bytes(&self) -> u64 {
        self.config.positions.saturating_mul(16)
    }

    fn forward(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor], call: &Call) -> Outputs {
        let (batch, tokens) = batch_and_tokens(inputs);
        let run = Run { setup: *setup, batch, tokens };
        let mut x = self.embeddings(tape, &inputs[0], batch, tokens);
        for layer in &self.layers {
            x = tape.grouped(layer.group, &x, |tape, x| {
                if setup.checkpointing && tape.is_training() {
                    let layer = Rc::clone(layer);
                    tape.checkpoint(x, move |tape, x| layer.forward(tape, x, &run))
                } else {
                    layer.forward(tape, x, &run)
                }
            });
        }
        tape.part("head");
        // The first token stands for the sequence; for words every token goes through the transform.
        let mut taken = match self.config.top {
            Top::Words | Top::Labels { of_tokens: true, .. } => x.clone(),
            _ => x.view(Shape::of(&[batch, dim("1", 1), x.shape.last()])),
        };
        if let Some(transform) = &self.transform {
            taken = tape.linear("head: transform", &taken, transform);
            taken = match self.config.top {
                Top::Words => activate(tape, self.config.activation, &taken),
                _ => tape.activation_of_output("tanh", &taken),
            };
        }
        if let Some(norm) = &self.transform_norm {
            taken = tape.norm(&taken, norm);
        }
        tape.part("head");
        let Some(decoder) = &self.decoder else {
            return Outputs { logits: x, loss: None, cache: Cache::default(), _others: vec![taken] };
        };
        let logits = tape.linear("logits", &taken, decoder);
        drop(taken);
        let loss = call.with_labels.then(|| tape.label_loss(LossStyle::Plain, &logits, batch));
        drop(x);
        Outputs { logits, loss, cache: Cache::default(), _others: Vec::new() }
    }
}
