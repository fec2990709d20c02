//! What `ViT` and CLIP have alike: images in patches, and layers that norm first.
//!
//! # Source
//! transformers 5.17, `models/vit/modeling_vit.py` and `models/clip/modeling_clip.py`.

use super::builder::{Builder, Role};
use super::common::activate;
use super::heads::{HeadDims, Plan, as_heads};
use crate::architecture::{Activation, Vit};
use crate::ops::{EagerStyle, Linear, Norm, NormKind};
use crate::setup::Setup;
use crate::shape::{Shape, dim};
use crate::tape::{Tape, Tensor};

/// A layer of an encoder that norms first: `ViT`'s and CLIP's.
pub(crate) struct PreNormLayer {
    pub(crate) heads: u64,
    pub(crate) hidden: u64,
    pub(crate) activation: Activation,
    pub(crate) dropouts: (f64, f64),
    pub(crate) is_causal: bool,
    norm1: Norm,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    norm2: Norm,
    up: Linear,
    down: Linear,
}

/// The numbers of such a layer.
#[derive(Clone, Copy)]
pub(crate) struct LayerSizes {
    pub(crate) hidden: u64,
    pub(crate) heads: u64,
    pub(crate) intermediate: u64,
    pub(crate) activation: Activation,
    pub(crate) dropouts: (f64, f64),
    pub(crate) qkv_bias: bool,
    pub(crate) is_causal: bool,
}

impl PreNormLayer {
    pub(crate) fn build(builder: &mut Builder<'_>, sizes: &LayerSizes) -> PreNormLayer {
        let (h, i) = (dim("h", sizes.hidden), dim("i", sizes.intermediate));
        PreNormLayer {
            heads: sizes.heads,
            hidden: sizes.hidden,
            activation: sizes.activation,
            dropouts: sizes.dropouts,
            is_causal: sizes.is_causal,
            query: builder.linear("attention", Role::QueryValue, h, h, sizes.qkv_bias),
            key: builder.linear("attention", Role::Attention, h, h, sizes.qkv_bias),
            value: builder.linear("attention", Role::QueryValue, h, h, sizes.qkv_bias),
            output: builder.linear("attention", Role::Attention, h, h, true),
            up: builder.linear("mlp", Role::Mlp, i, h, true),
            down: builder.linear("mlp", Role::Mlp, h, i, true),
            norm1: builder.norm("norm", NormKind::Layer, h, true),
            norm2: builder.norm("norm", NormKind::Layer, h, true),
        }
    }

    pub(crate) fn forward(&self, tape: &mut Tape, x: &Tensor, setup: &Setup) -> Tensor {
        let normed = tape.norm(x, &self.norm1);
        tape.part("attention");
        let attended = self.attention(tape, &normed, setup);
        let projected = tape.linear("attention: projection", &attended, &self.output);
        drop(attended);
        let dropped = tape.dropout("attention", projected, self.dropouts.0);
        let x = tape.add("residual", &dropped, x);
        drop((dropped, normed));
        let normed = tape.norm(&x, &self.norm2);
        tape.part("mlp");
        let up = tape.linear("mlp: up", &normed, &self.up);
        let active = activate(tape, self.activation, &up);
        drop(up);
        let down = tape.linear("mlp: down", &active, &self.down);
        drop(active);
        let dropped = tape.dropout("mlp", down, self.dropouts.0);
        let output = tape.add("residual", &dropped, &x);
        tape.module_output(&output);
        output
    }

    fn attention(&self, tape: &mut Tape, x: &Tensor, setup: &Setup) -> Tensor {
        let dims = HeadDims::new(self.heads, self.heads, self.hidden / self.heads.max(1));
        let (batch, tokens) = (x.shape.at(0), x.shape.at(1));
        let plan = Plan {
            dims,
            batch,
            queries: tokens,
            keys: tokens,
            mask: None,
            is_causal: self.is_causal,
            dropout: self.dropouts.1,
            eager: EagerStyle { softmax_in_float32: false, scales: true, soft_cap: false },
            cached: false,
            is_packed: false,
            q_by_heads: false,
            attention: setup.attention,
        };
        let copies = plan.copies_q_grad(tape, x.dtype);
        let shape = Shape::of(&[batch, tokens, dims.heads, dims.head_dim]);
        let mut heads = |name, layer| {
            let projected = tape.linear(name, x, layer);
            as_heads(tape, &projected, shape, copies)
        };
        let (q, k, v) = (heads("queries", &self.query), heads("keys", &self.key), heads("values", &self.value));
        let output = plan.run(tape, q, k, v);
        output.view(Shape::of(&[batch, tokens, dim("h", self.hidden)]))
    }
}

/// Patches of an image.
pub(crate) fn patches(config: &Vit) -> u64 {
    let [rows, columns] = [0, 1].map(|side| config.image[side] / config.patch[side].max(1));
    rows.saturating_mul(columns)
}

/// The pixels of a batch of images.
pub(crate) fn pixels(tape: &mut Tape, setup: &Setup, config: &Vit) -> Tensor {
    let [height, width] = config.image.map(|side| dim("side", side));
    let shape = Shape::of(&[dim("B", setup.batch), dim("channels", config.channels), height, width]);
    tape.input("pixels", shape, setup.dtype)
}
