//! CLIP: two towers and the similarities of what they give.
//!
//! # Source
//! transformers 5.17, `models/clip/modeling_clip.py`.

use std::rc::Rc;

use super::builder::{Builder, Layered, Role};
use super::common::token_ids;
use super::heads::Cache;
use super::vision::{LayerSizes, PreNormLayer, patches, pixels};
use super::{Call, Model, Outputs};
use crate::architecture::Clip;
use crate::ops::{Linear, LossStyle, Norm, NormKind};
use crate::setup::Setup;
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

pub(crate) struct ClipModel {
    config: Clip,
    words: Tensor,
    positions: Tensor,
    text: Tower,
    class_token: Tensor,
    patch_weight: Tensor,
    patch_positions: Tensor,
    before: Norm,
    vision: Tower,
    text_projection: Linear,
    vision_projection: Linear,
    scale: Tensor,
}

struct Tower {
    layers: Vec<Rc<Layered<PreNormLayer>>>,
    last_norm: Norm,
}

impl Tower {
    fn build(builder: &mut Builder<'_>, sizes: &LayerSizes, layers: u64) -> Tower {
        let layers = (0..layers).map(|_| builder.layer(|builder| PreNormLayer::build(builder, sizes))).collect();
        Tower { layers, last_norm: builder.norm("norm", NormKind::Layer, dim("h", sizes.hidden), true) }
    }

    fn forward(&self, tape: &mut Tape, mut x: Tensor, setup: &Setup) -> Tensor {
        for layer in &self.layers {
            x = tape.grouped(layer.group, &x, |tape, x| {
                if setup.checkpointing && tape.is_training() {
                    let (layer, setup) = (Rc::clone(layer), *setup);
                    tape.checkpoint(x, move |tape, x| layer.forward(tape, x, &setup))
                } else {
                    layer.forward(tape, x, setup)
                }
            });
        }
        x
    }
}

impl ClipModel {
    pub(crate) fn build(builder: &mut Builder<'_>, config: &Clip) -> ClipModel {
        let (h, vh) = (dim("h", config.hidden), dim("h_v", config.vision.hidden));
        let (c, [p, q]) = (dim("channels", config.vision.channels), config.vision.patch.map(|side| dim("patch", side)));
        let projection = dim("proj", config.projection);
        let text = LayerSizes {
            hidden: config.hidden,
            heads: config.heads,
            intermediate: config.intermediate,
            activation: config.activation,
            dropouts: (0.0, 0.0),
            qkv_bias: true,
            is_causal: true,
        };
        let vision = LayerSizes {
            hidden: config.vision.hidden,
            heads: config.vision.heads,
            intermediate: config.vision.intermediate,
            activation: config.vision.activation,
            dropouts: config.vision.dropouts,
            qkv_bias: true,
            is_causal: false,
        };
        ClipModel {
            scale: builder.parameter("head", &[dim("1", 1)]),
            words: builder.parameter("embedding", &[dim("V", config.vocab), h]),
            positions: builder.parameter("embedding", &[dim("n_pos", config.positions), h]),
            text: Tower::build(builder, &text, config.layers),
            class_token: builder.parameter("embedding", &[vh]),
            patch_weight: builder.parameter("embedding", &[vh, c, p, q]),
            patch_positions: builder
                .parameter("embedding", &[dim("patches + 1", patches(&config.vision).saturating_add(1)), vh]),
            before: builder.norm("norm", NormKind::Layer, vh, true),
            vision: Tower::build(builder, &vision, config.vision.layers),
            vision_projection: builder.linear("head", Role::Head, projection, vh, false),
            text_projection: builder.linear("head", Role::Head, projection, h, false),
            config: config.clone(),
        }
    }

    fn see(&self, tape: &mut Tape, setup: &Setup, pixels: &Tensor) -> (Tensor, Tensor) {
        let config = &self.config.vision;
        let (batch, h) = (dim("B", setup.batch), dim("h_v", config.hidden));
        let count = patches(config);
        tape.part("embedding");
        let joined = {
            let patches = tape.patches(
                "patch embeddings",
                pixels,
                &self.patch_weight,
                None,
                Shape::of(&[batch, dim("patches", count), h]),
            );
            let class_token = tape.expand(&self.class_token, Shape::of(&[batch, h]));
            let shape = Shape::of(&[batch, dim("S_v", count.saturating_add(1)), h]);
            let joined = tape.cat("class token and patches", &[&class_token, &patches], shape);
            let ids = dim("patches + 1", count.saturating_add(1));
            let positions = Tensor { storage: None, ..pixels.view(Shape::of(&[ids])).detached() };
            let positions = tape.embedding("position embeddings", &positions, &self.patch_positions, h);
            tape.add("embeddings", &joined, &positions)
        };
        let normed = tape.norm(&joined, &self.before);
        drop(joined);
        let last = self.vision.forward(tape, normed, setup);
        let first = tape.slice(&last, Shape::of(&[batch, h]));
        (tape.norm(&first, &self.vision.last_norm), last)
    }

    fn read(&self, tape: &mut Tape, setup: &Setup, ids: &Tensor) -> (Tensor, Tensor) {
        let (batch, tokens, h): (Dim, Dim, Dim) = (ids.shape.at(0), ids.shape.at(1), dim("h", self.config.hidden));
        tape.part("embedding");
        let words = tape.embedding("word embeddings", ids, &self.words, h);
        let positions = Tensor { storage: None, ..ids.view(Shape::of(&[tokens])) };
        let positions = tape.embedding("position embeddings", &positions, &self.positions, h);
        let sum = tape.add("embeddings", &words, &positions);
        drop((words, positions));
        let last = self.text.forward(tape, sum, setup);
        let normed = tape.norm(&last, &self.text.last_norm);
        drop(last);
        (tape.slice(&normed, Shape::of(&[batch, h])), normed)
    }

    /// `x / x.norm(…)`.
    fn unit(tape: &mut Tape, x: &Tensor) -> Tensor {
        let norm = tape.alloc("norm of a row", x.shape.rows(), x.dtype);
        let unit = tape.scale("rows of norm one", x);
        drop(norm);
        unit
    }
}

impl Model for ClipModel {
    fn inputs(&self, tape: &mut Tape, setup: &Setup) -> Vec<Tensor> {
        let mut inputs = token_ids(tape, setup);
        inputs.push(pixels(tape, setup, &self.config.vision));
        inputs
    }

    fn loss_style(&self) -> Option<LossStyle> {
        None
    }

    fn buffer_bytes(&self) -> u64 {
        let vision = patches(&self.config.vision).saturating_add(1);
        self.config.positions.saturating_add(vision).saturating_mul(8)
    }

    fn forward(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor], _call: &Call) -> Outputs {
        let (image, seen) = self.see(tape, setup, &inputs[1]);
        let (text, read) = self.read(tape, setup, &inputs[0]);
        tape.part("head");
        let image = tape.linear("image embeddings", &image, &self.vision_projection);
        let text = tape.linear("text embeddings", &text, &self.text_projection);
        let (image, text) = (Self::unit(tape, &image), Self::unit(tape, &text));
        let batch = image.shape.at(0);
        let similarities = tape.bmm("similarities", &text, &image, Shape::of(&[batch, batch]));
        let logits = tape.mul("scaled similarities", &similarities, &self.scale);
        let others = [&image, &text, &seen, &read].map(Tensor::detached).to_vec();
        Outputs { logits, loss: None, cache: Cache::default(), _others: others }
    }
}
