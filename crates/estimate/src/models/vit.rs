//! Vision transformers with a classifier.
//!
//! # Source
//! transformers 5.17, `models/vit/modeling_vit.py`.

use std::rc::Rc;

use super::builder::{Builder, Layered, Role};
use super::heads::Cache;
use super::vision::{LayerSizes, PreNormLayer, patches, pixels};
use super::{Call, Model, Outputs};
use crate::architecture::Vit;
use crate::ops::{Linear, LossStyle, Norm, NormKind};
use crate::setup::Setup;
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

pub(crate) struct VitModel {
    config: Rc<Vit>,
    class_token: Tensor,
    positions: Tensor,
    patch_weight: Tensor,
    patch_bias: Tensor,
    layers: Vec<Rc<Layered<PreNormLayer>>>,
    last_norm: Norm,
    classifier: Linear,
}

impl VitModel {
    pub(crate) fn build(builder: &mut Builder<'_>, config: &Vit) -> VitModel {
        let h = dim("h", config.hidden);
        let (c, [p, q]) = (dim("channels", config.channels), config.patch.map(|side| dim("patch", side)));
        let class_token = builder.parameter("embedding", &[h]);
        let positions = builder.parameter("embedding", &[dim("patches + 1", patches(config).saturating_add(1)), h]);
        let patch_weight = builder.parameter("embedding", &[h, c, p, q]);
        let patch_bias = builder.parameter("embedding", &[h]);
        let sizes = LayerSizes {
            hidden: config.hidden,
            heads: config.heads,
            intermediate: config.intermediate,
            activation: config.activation,
            dropouts: config.dropouts,
            qkv_bias: config.qkv_bias,
            is_causal: false,
        };
        let layers =
            (0..config.layers).map(|_| builder.layer(|builder| PreNormLayer::build(builder, &sizes))).collect();
        let last_norm = builder.norm("norm", NormKind::Layer, h, true);
        let classifier = builder.linear("head", Role::Head, dim("labels", config.labels), h, true);
        VitModel {
            config: Rc::new(config.clone()),
            class_token,
            positions,
            patch_weight,
            patch_bias,
            layers,
            last_norm,
            classifier,
        }
    }
}

impl Model for VitModel {
    fn inputs(&self, tape: &mut Tape, setup: &Setup) -> Vec<Tensor> {
        vec![pixels(tape, setup, &self.config)]
    }

    fn loss_style(&self) -> Option<LossStyle> {
        None
    }

    fn forward(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor], _call: &Call) -> Outputs {
        let config = &self.config;
        let h = dim("h", config.hidden);
        let batch: Dim = dim("B", setup.batch);
        tape.part("embedding");
        let count = patches(config);
        let patch_shape = Shape::of(&[batch, dim("patches", count), h]);
        let token_shape = Shape::of(&[batch, dim("S", count.saturating_add(1)), h]);
        let mut x = {
            let patches =
                tape.patches("patch embeddings", &inputs[0], &self.patch_weight, Some(&self.patch_bias), patch_shape);
            let class_token = tape.expand(&self.class_token, Shape::of(&[batch, h]));
            let joined = tape.cat("class token and patches", &[&class_token, &patches], token_shape);
            drop(patches);
            let sum = tape.add("embeddings", &joined, &self.positions);
            drop(joined);
            tape.dropout("embedding", sum, config.dropouts.0)
        };
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
        let normed = tape.norm(&x, &self.last_norm);
        drop(x);
        tape.part("head");
        let pooled = tape.slice(&normed, Shape::of(&[batch, h]));
        let logits = tape.linear("logits", &pooled, &self.classifier);
        drop((pooled, normed));
        Outputs { logits, loss: None, cache: Cache::default(), _others: Vec::new() }
    }
}
