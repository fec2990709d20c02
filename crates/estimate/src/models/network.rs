//! Encoders and transformers by the list of their weights, and language models with such encoders before them.
//!
//! Each weight is a kernel that keeps its input, attention is attention over its positions, and what an activation function and a
//! residual make is there: the peak follows from shapes, not from the order of the module's operators.

use std::rc::Rc;

use super::builder::{Builder, Layered};
use super::heads::{Cache, HeadDims, Plan};
use super::{Call, Model, Outputs};
use crate::network::{Network, Piece, Stage};
use crate::ops::LossStyle;
use crate::quantization::WeightKind;
use crate::setup::Setup;
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

struct BuiltPiece {
    kind: WeightKind,
    shape: Vec<u64>,
    weights: Vec<Tensor>,
}

pub(crate) struct StageModel {
    stage: Rc<Stage>,
    before: Vec<BuiltPiece>,
    layers: Vec<Rc<Layered<Vec<BuiltPiece>>>>,
    after: Vec<BuiltPiece>,
}

fn pieces(builder: &mut Builder<'_>, part: &'static str, list: &[Piece]) -> Vec<BuiltPiece> {
    list.iter()
        .map(|piece| {
            let part = if piece.kind == WeightKind::Norm { "norm" } else { part };
            let mut weights = vec![builder.weight(part, piece.name, piece.kind, &piece.shape)];
            if piece.bias > 0 {
                let outer = builder.enter(piece.name);
                weights.push(builder.weight(part, "bias", WeightKind::Other, &[piece.bias]));
                builder.at(outer);
            }
            BuiltPiece { kind: piece.kind, shape: piece.shape.clone(), weights }
        })
        .collect()
}

impl StageModel {
    pub(crate) fn build(builder: &mut Builder<'_>, stage: &Stage) -> StageModel {
        builder.at(stage.prefix);
        let before = pieces(builder, "embedding", &stage.before);
        let mut layers = Vec::new();
        for (count, list) in &stage.layers {
            for _ in 0..*count {
                builder.at(format!("{}.{}", stage.layers_prefix, layers.len()));
                layers.push(builder.layer(|builder| pieces(builder, "attention", list)));
            }
        }
        builder.at(stage.prefix);
        let after = pieces(builder, "head", &stage.after);
        builder.at("");
        StageModel { stage: Rc::new(stage.clone()), before, layers, after }
    }

    fn forward(&self, tape: &mut Tape, setup: &Setup, input: &Tensor) -> Tensor {
        let stage = &self.stage;
        let batch = dim("B", setup.batch);
        let positions = dim("P", stage.positions.unwrap_or(setup.seq));
        let shape = Shape::of(&[batch, positions, dim("w", stage.width)]);
        tape.part("embedding");
        let weights: Vec<Tensor> = self.before.iter().flat_map(|piece| piece.weights.iter().cloned()).collect();
        let mut x = tape.kernel("embeddings of positions", &[input], &weights, shape);
        x.dtype = setup.dtype;
        for layer in &self.layers {
            let (layer, setup, stage) = (Rc::clone(layer), *setup, Rc::clone(stage));
            x = tape.grouped(layer.group, &x, |tape, x| {
                if setup.checkpointing && tape.is_training() {
                    tape.checkpoint(x, move |tape, x| run_layer(tape, x, &layer, &stage, &setup))
                } else {
                    run_layer(tape, x, &layer, &stage, &setup)
                }
            });
        }
        tape.part("head");
        let merged = stage.output_positions.map_or(positions, |count| dim("P'", count));
        let mut current = x;
        for piece in &self.after {
            let width = match (piece.kind, piece.shape.as_slice()) {
                (WeightKind::Linear | WeightKind::Head, [output, _]) => dim("out", *output),
                _ => current.shape.last(),
            };
            let rows = if piece.kind == WeightKind::Linear { merged } else { current.shape.at(1) };
            let shape = Shape::of(&[batch, rows, width]);
            current = tape.kernel("behind the layers", &[&current], &piece.weights, shape);
            tape.module_output(&current);
        }
        current
    }
}

fn run_layer(tape: &mut Tape, x: &Tensor, layer: &[BuiltPiece], stage: &Stage, setup: &Setup) -> Tensor {
    let head_dim = stage.width / stage.heads.max(1);
    let dims = HeadDims::new(stage.heads, stage.heads, head_dim);
    let mut residual = x.clone();
    let mut current = x.clone();
    // What is projected of queries, keys and values, until all three are there.
    let mut heads: Vec<Tensor> = Vec::new();
    let mut projected = 0;
    let mut base = x.clone();
    for piece in layer {
        let (WeightKind::Linear, [output, input]) = (piece.kind, piece.shape.as_slice()) else {
            tape.part(if piece.kind == WeightKind::Norm { "norm" } else { "attention" });
            current = tape.kernel("norm output", &[&current], &piece.weights, current.shape);
            if current.shape.last().size == stage.width {
                base = current.clone();
            }
            continue;
        };
        let is_wide = current.shape.last().size != stage.width;
        tape.part(if is_wide || *output > stage.width.saturating_mul(3) { "mlp" } else { "attention" });
        let source = if current.shape.last().size == *input {
            current.clone()
        } else {
            base.view(base.shape.with_last(dim("in", *input)))
        };
        let source = if is_wide && current.shape.last().size == *input {
            tape.activation_of_input("activation function", &source)
        } else {
            source
        };
        let result = tape.kernel("product", &[&source], &piece.weights, x.shape.with_last(dim("out", *output)));
        tape.module_output(&result);
        if projected < stage.width.saturating_mul(3) && *input == stage.width && output.is_multiple_of(stage.width) {
            projected = projected.saturating_add(*output);
            heads.push(result);
            if projected >= stage.width.saturating_mul(3) {
                current = attend(tape, &mut heads, dims, x, setup);
            }
            continue;
        }
        let other = current;
        current = result;
        if is_wide && *input == stage.width {
            current = tape.mul("mlp: gate by up", &other, &current);
        } else if current.shape.last().size == stage.width {
            residual = tape.add("residual", &residual, &current);
            current = residual.clone();
            base = residual.clone();
        }
    }
    tape.module_output(&residual);
    residual
}

fn attend(tape: &mut Tape, heads: &mut Vec<Tensor>, dims: HeadDims, x: &Tensor, setup: &Setup) -> Tensor {
    let (batch, positions) = (x.shape.at(0), x.shape.at(1));
    let shape = Shape::of(&[batch, positions, dims.heads, dims.head_dim]);
    let (q, k, v) = match heads.as_slice() {
        [q, k, v] => (q.view(shape), k.view(shape), v.view(shape)),
        [all, ..] => {
            let mut parts = tape.split(all, &[shape; 3]);
            match (parts.pop(), parts.pop(), parts.pop()) {
                (Some(v), Some(k), Some(q)) => (q, k, v),
                _ => return x.clone(),
            }
        }
        [] => return x.clone(),
    };
    heads.clear();
    Plan::plain(dims, [batch, positions, positions], setup.attention).run(tape, q, k, v).view(x.shape)
}

fn input(tape: &mut Tape, setup: &Setup, stage: &Stage) -> Tensor {
    if stage.input == 0 {
        let shape = Shape::of(&[dim("B", setup.batch), dim("S", setup.seq)]);
        return tape.input("token ids", shape, crate::dtype::DType::Int64);
    }
    let shape: [Dim; 2] = [dim("B", setup.batch), dim("input", stage.input)];
    tape.input("pixels", Shape::of(&shape), setup.dtype)
}

/// Stages alone.
pub(crate) struct NetworkModel {
    stages: Vec<StageModel>,
    buffer_bytes: u64,
}

impl NetworkModel {
    pub(crate) fn build(builder: &mut Builder<'_>, network: &Network) -> NetworkModel {
        let buffer_bytes = network.buffer_bytes(builder.setup.dtype);
        let stages = network.stages.iter().map(|stage| StageModel::build(builder, stage)).collect();
        NetworkModel { stages, buffer_bytes }
    }
}

impl Model for NetworkModel {
    fn buffer_bytes(&self) -> u64 {
        self.buffer_bytes
    }

    fn inputs(&self, tape: &mut Tape, setup: &Setup) -> Vec<Tensor> {
        self.stages.iter().map(|stage| input(tape, setup, &stage.stage)).collect()
    }

    fn loss_style(&self) -> Option<LossStyle> {
        None
    }

    fn forward(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor], _call: &Call) -> Outputs {
        let mut outputs: Vec<Tensor> =
            self.stages.iter().zip(inputs).map(|(stage, input)| stage.forward(tape, setup, input)).collect();
        let logits = outputs.pop().unwrap_or_else(|| inputs[0].clone());
        // What an earlier stage gives is of the last one's graph.
        let logits = match outputs.first() {
            Some(_) => {
                let all: Vec<&Tensor> = outputs.iter().chain([&logits]).collect();
                tape.kernel("outputs of the stages", &all, &[], logits.shape)
            }
            None => logits,
        };
        Outputs { logits, loss: None, cache: Cache::default(), _others: outputs }
    }
}

/// A language model with encoders of images before it.
pub(crate) struct WithTowers {
    /// The encoders that run.
    towers: Vec<StageModel>,
    /// Encoders that hold their weights and do not run.
    _idle: Vec<StageModel>,
    inner: Box<dyn Model>,
}

impl WithTowers {
    pub(crate) fn build(builder: &mut Builder<'_>, towers: &[Stage], inner: Box<dyn Model>) -> WithTowers {
        let built = towers.iter().map(|stage| StageModel::build(builder, stage));
        let (idle, towers) = built.partition(|tower| tower.stage.positions == Some(0));
        WithTowers { towers, _idle: idle, inner }
    }
}

impl Model for WithTowers {
    fn inputs(&self, tape: &mut Tape, setup: &Setup) -> Vec<Tensor> {
        let mut all: Vec<Tensor> = if setup.seq > 1 {
            self.towers.iter().map(|tower| input(tape, setup, &tower.stage)).collect()
        } else {
            Vec::new()
        };
        all.extend(self.inner.inputs(tape, setup));
        all
    }

    fn cached_tokens(&self, layer: usize, tokens: u64) -> u64 {
        self.inner.cached_tokens(layer, tokens)
    }

    fn loss_style(&self) -> Option<LossStyle> {
        self.inner.loss_style()
    }

    fn buffer_bytes(&self) -> u64 {
        self.inner.buffer_bytes()
    }

    fn forward(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor], call: &Call) -> Outputs {
        let ids = inputs.last().cloned().unwrap_or_else(|| inputs[0].clone());
        if call.past_tokens == 0 && inputs.len() > self.towers.len() {
            let features: Vec<Tensor> =
                self.towers.iter().zip(inputs).map(|(tower, input)| tower.forward(tape, setup, input)).collect();
            tape.joined = features;
        }
        self.inner.forward(tape, setup, &[ids], call)
    }
}
