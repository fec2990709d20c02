//! Networks that are given operator by operator.

use std::rc::Rc;

use super::builder::Builder;
use super::heads::{Cache, HeadDims, Plan};
use super::{Call, Model, Outputs};
use crate::chain::{Chain, Op, Step};
use crate::dtype::DType;
use crate::ops::LossStyle;
use crate::quantization::WeightKind;
use crate::setup::Setup;
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

pub(crate) struct ChainModel {
    chain: Rc<Chain>,
    weights: Vec<Vec<Tensor>>,
    /// For each step the values that no step takes after it.
    last_uses: Vec<Vec<usize>>,
}

impl ChainModel {
    pub(crate) fn build(builder: &mut Builder<'_>, chain: &Chain) -> ChainModel {
        let weights = chain.steps.iter().map(|step| weights(builder, step)).collect();
        builder.at("");
        let mut last: Vec<usize> = (0..chain.steps.len()).collect();
        for (at, step) in chain.steps.iter().enumerate() {
            for input in &step.inputs {
                last[*input] = at;
            }
        }
        for [value, until] in &chain.held {
            last[*value] = last[*value].max(*until);
        }
        let mut last_uses = vec![Vec::new(); chain.steps.len()];
        for (value, at) in last.into_iter().enumerate().filter(|(value, at)| at > value) {
            last_uses[at].push(value);
        }
        ChainModel { chain: Rc::new(chain.clone()), weights, last_uses }
    }
}

fn weights(builder: &mut Builder<'_>, step: &Step) -> Vec<Tensor> {
    let Some(piece) = &step.weight else { return Vec::new() };
    builder.at(step.module.clone());
    let frozen = |builder: &mut Builder<'_>, sizes: &[u64]| {
        let sizes: Vec<Dim> = sizes.iter().map(|size| dim("n", *size)).collect();
        let dtype = builder.setup.dtype;
        builder.named("").frozen(step.part, Shape::of(&sizes), dtype)
    };
    let bias = [piece.bias];
    let bias: &[u64] = if piece.bias > 0 { &bias } else { &[] };
    if step.is_frozen {
        let mut all = vec![frozen(builder, &piece.shape)];
        all.extend(bias.iter().map(|size| frozen(builder, &[*size])));
        return all;
    }
    let mut all = vec![builder.weight(step.part, "", piece.kind, &piece.shape)];
    all.extend(bias.iter().map(|size| builder.weight(step.part, "bias", WeightKind::Other, &[*size])));
    all
}

/// Sizes of a batch of values, by the names that formulas have for them.
fn batch_of(setup: &Setup, sizes: &[u64]) -> Shape {
    let batch = dim("B", setup.batch);
    match *sizes {
        [channels, height, width] => Shape::of(&[batch, dim("c", channels), dim("y", height), dim("x", width)]),
        [positions, width] => Shape::of(&[batch, dim("P", positions), dim("w", width)]),
        _ => Shape::of(&[batch, dim("n", sizes.iter().fold(1, |all: u64, size| all.saturating_mul(*size)))]),
    }
}

impl ChainModel {
    fn step(&self, tape: &mut Tape, setup: &Setup, at: usize, inputs: &[Tensor]) -> Option<Tensor> {
        let step = &self.chain.steps[at];
        let shape = batch_of(setup, &step.shape);
        tape.part(step.part);
        let output = match step.op {
            Op::Input => return None,
            Op::Held => tape.alloc(step.name, shape, setup.dtype),
            Op::Table => tape.expand(self.weights[at].first()?, shape),
            Op::Kernel => {
                let inputs: Vec<&Tensor> = inputs.iter().collect();
                tape.kernel(step.name, &inputs, &self.weights[at], shape)
            }
            Op::Convolve => {
                let (input, weights) = (inputs.first()?, &self.weights[at]);
                let scratch = copies(input, weights.first()?, shape);
                tape.kernel_with_scratch(step.name, &[input], weights, shape, scratch)
            }
            Op::OfInput => tape.activation_of_input(step.name, inputs.first()?),
            Op::OfOutput => tape.activation_of_output(step.name, inputs.first()?),
            Op::View => return Some(inputs.first()?.view(shape)),
            Op::Copy => resized(tape, step.name, inputs.first()?, shape),
            Op::Add => tape.add(step.name, inputs.first()?, inputs.get(1)?),
            Op::AddInto => tape.add_in_place(inputs.first()?, inputs.get(1)?),
            Op::Join => tape.cat(step.name, &inputs.iter().collect::<Vec<_>>(), shape),
            Op::Dropout(part) => return Some(tape.dropout(step.part, inputs.first()?.clone(), part)),
            Op::Pool => {
                let places = tape.alloc("places of the maxima", shape, DType::Int64);
                let kept = tape.records(&[inputs.first()?]).then(|| tape.save(&places));
                let output = tape.kernel(step.name, &[inputs.first()?], &[], shape);
                let inner = output.clone();
                match kept {
                    None => output,
                    Some(kept) => tape.record(&[&inner], output, move |_, grad| {
                        drop(kept);
                        vec![Some(grad)]
                    }),
                }
            }
            Op::Attention(heads) => attend(tape, setup, heads, inputs)?.view(shape),
        };
        tape.module_output(&output);
        Some(output)
    }
}

/// Bytes that a convolution copies into cuDNN's layout: input, filter and output, where the filter is wider than a pixel.
///
/// # Source
/// What the null GPU answers, whose rules were measured (`crates/nullgpu-core/src/cudnn/convolution.rs`). Filters for each group of channels
/// have kernels without copies, and so have images of few channels in 32 bits.
fn copies(input: &Tensor, filter: &Tensor, output: Shape) -> u64 {
    let (window, channels) = (filter.shape.last().size, input.shape.at(1).size);
    let is_grouped = filter.shape.at(1).size != channels;
    if window <= 1 || is_grouped || (channels <= 4 && input.dtype == DType::Float32) {
        return 0;
    }
    let elements =
        [input.shape, filter.shape, output].iter().fold(0_u64, |sum, shape| sum.saturating_add(shape.numel()));
    elements.saturating_mul(input.dtype.bytes())
}

/// What keeps nothing, and whose gradient is a tensor of the input's size.
fn resized(tape: &mut Tape, name: &'static str, x: &Tensor, shape: Shape) -> Tensor {
    let output = tape.alloc(name, shape, x.dtype);
    if !tape.records(&[x]) {
        return output;
    }
    let (edge, from) = (x.edge, x.shape);
    tape.record(&[x], output, move |tape, grad| {
        vec![Some(tape.alloc_grad(edge, "gradient of a copy", from, grad.dtype))]
    })
}

fn attend(tape: &mut Tape, setup: &Setup, heads: u64, inputs: &[Tensor]) -> Option<Tensor> {
    let (q, k, v) = (inputs.first()?, inputs.get(1)?, inputs.get(2)?);
    let width = q.shape.last().size;
    let dims = HeadDims::new(heads, heads, width / heads.max(1));
    let plan = Plan::plain(dims, [q.shape.at(0), q.shape.at(1), k.shape.at(1)], setup.attention);
    let heads_of = |x: &Tensor| x.view(Shape::of(&[x.shape.at(0), x.shape.at(1), dims.heads, dims.head_dim]));
    Some(plan.run(tape, heads_of(q), heads_of(k), heads_of(v)))
}

impl Model for ChainModel {
    fn inputs(&self, tape: &mut Tape, setup: &Setup) -> Vec<Tensor> {
        let inputs = self.chain.steps.iter().filter(|step| step.op == Op::Input);
        inputs.map(|step| tape.input(step.name, batch_of(setup, &step.shape), setup.dtype)).collect()
    }

    fn loss_style(&self) -> Option<LossStyle> {
        None
    }

    fn buffer_bytes(&self) -> u64 {
        self.chain.steps.iter().fold(0, |sum, step| sum.saturating_add(step.buffer_bytes))
    }

    fn forward(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor], _call: &Call) -> Outputs {
        let mut fed = inputs.iter();
        let mut values: Vec<Option<Tensor>> = vec![None; self.chain.steps.len()];
        for (at, step) in self.chain.steps.iter().enumerate() {
            let taken: Vec<Tensor> = step.inputs.iter().filter_map(|input| values[*input].clone()).collect();
            values[at] = match step.op {
                Op::Input => fed.next().cloned(),
                _ => self.step(tape, setup, at, &taken),
            };
            drop(taken);
            for value in &self.last_uses[at] {
                values[*value] = None;
            }
        }
        let logits = values.pop().flatten().unwrap_or_else(|| inputs[0].clone());
        Outputs { logits, loss: None, cache: Cache::default(), _others: Vec::new() }
    }
}
