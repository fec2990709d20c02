//! What several families' modules have alike: heads, activation functions, inputs and outputs of language models.
//!
//! # Source
//! transformers 5.17, `activations.py` and `models/*/modeling_*.py`.

use super::builder::{Builder, Role};
use super::heads::Cache;
use super::{Call, Outputs};
use crate::architecture::Activation;
use crate::dtype::DType;
use crate::ops::{Cut, Linear, LossStyle};
use crate::setup::Setup;
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

/// The head of a language model: the embedding's weight, or its own.
pub(crate) fn head(builder: &mut Builder<'_>, tied: Option<&Tensor>, v: Dim, h: Dim) -> Linear {
    match tied {
        None => builder.named("lm_head").linear("head", Role::Head, v, h, false),
        Some(weight) => {
            builder.record_tied(&[v, h]);
            Linear {
                weight: weight.clone(),
                bias: None,
                output: v,
                is_conv1d: false,
                adapter: None,
                quantised: None,
                cut: Cut::Whole,
            }
        }
    }
}

/// An activation function as a module.
pub(crate) fn activate(tape: &mut Tape, activation: Activation, x: &Tensor) -> Tensor {
    let output = match activation {
        Activation::Input => tape.activation_of_input("activation function", x),
        Activation::Output => tape.activation_of_output("activation function", x),
        Activation::QuickGelu => {
            let scaled = tape.scale("quick_gelu: scaled input", x);
            let sigmoid = tape.activation_of_output("quick_gelu: sigmoid", &scaled);
            drop(scaled);
            tape.mul("activation function", x, &sigmoid)
        }
        Activation::GeluNew => gelu_new(tape, x),
    };
    tape.module_output(&output);
    output
}

/// `0.5 * x * (1.0 + tanh(sqrt(2 / pi) * (x + 0.044715 * pow(x, 3.0))))`
///
/// Autocast runs `pow` in float32, and everything after it follows.
fn gelu_new(tape: &mut Tape, x: &Tensor) -> Tensor {
    let half = tape.scale("gelu_new: half the input", x);
    let wide = match tape.autocast {
        Some(_) => tape.to("gelu_new: input in float32", x, DType::Float32),
        None => x.clone(),
    };
    let cube = tape.pow("gelu_new: third power", &wide);
    drop(wide);
    let multiple = tape.scale("gelu_new: multiple of the third power", &cube);
    drop(cube);
    let sum = tape.add("gelu_new: sum", x, &multiple);
    drop(multiple);
    let argument = tape.scale("gelu_new: argument of tanh", &sum);
    drop(sum);
    let tanh = tape.activation_of_output("gelu_new: tanh", &argument);
    drop(argument);
    let shifted = tape.shift("gelu_new: one plus tanh", &tanh);
    drop(tanh);
    tape.mul("activation function", &half, &shifted)
}

/// Token ids, as the program makes them for each iteration.
pub(crate) fn token_ids(tape: &mut Tape, setup: &Setup) -> Vec<Tensor> {
    let shape = Shape::of(&[dim("B", setup.batch), dim("S", setup.seq)]);
    vec![tape.input("token ids", shape, DType::Int64)]
}

/// Batch and tokens of the ids.
pub(crate) fn batch_and_tokens(inputs: &[Tensor]) -> (Dim, Dim) {
    match inputs.first().map(|ids| ids.shape) {
        Some(shape) => (shape.at(0), shape.at(1)),
        None => (dim("B", 1), dim("S", 1)),
    }
}

/// Head and loss of a causal language model; without a head its last layer's output.
pub(crate) fn causal_outputs(
    tape: &mut Tape,
    last: Tensor,
    head: Option<&Linear>,
    capped: bool,
    call: &Call,
    cache: Cache,
) -> Outputs {
    tape.part("head");
    let (batch, tokens) = (last.shape.at(0), last.shape.at(1));
    let kept = if call.by_generate && tokens.size > 1 {
        last.view(Shape::of(&[batch, dim("1", 1), last.shape.last()]))
    } else {
        last.clone()
    };
    let Some(head) = head else {
        return Outputs { logits: last, loss: None, cache, _others: Vec::new() };
    };
    let mut logits = tape.linear("logits", &kept, head);
    if capped {
        logits = tape.scale("logits by the cap", &logits);
        logits = tape.activation_of_output("tanh of the logits", &logits);
        logits = tape.scale("capped logits", &logits);
    }
    let loss = call.with_labels.then(|| tape.label_loss(LossStyle::Causal, &logits, batch));
    drop((kept, last));
    Outputs { logits, loss, cache, _others: Vec::new() }
}
