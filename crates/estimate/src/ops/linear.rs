//! Products with weights.

use crate::dtype::DType;
use crate::shape::{Dim, Shape};
use crate::tape::{Edge, Tape, Tensor};

/// `nn.Linear`, or the `Conv1D` of GPT-2, whose weight lies the other way.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    pub(crate) weight: Tensor,
    pub(crate) bias: Option<Tensor>,
    pub(crate) output: Dim,
    /// Whether it is a `Conv1D`: its weight is not transposed.
    pub(crate) is_conv1d: bool,
    /// Adapters of `LoRA`, if it has them.
    pub(crate) adapter: Option<Box<Adapter>>,
    /// Weights kept in four bits: as large as this says, and made whole for each product.
    pub(crate) quantised: Option<Shape>,
    /// How tensor-parallel ranks share it.
    pub(crate) cut: Cut,
}

/// How tensor-parallel ranks share a linear layer, whose sizes are then those of one rank.
///
/// # Source
/// transformers 5.17, `distributed/tensor_parallel.py`: `colwise`, `colwise_gather_output`, `rowwise`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Each has the whole.
    Whole,
    /// Each has some outputs.
    Outputs,
    /// Each has some outputs, which are gathered.
    GatheredOutputs,
    /// Each has some inputs: outputs are summed over the ranks.
    Inputs,
}

impl Linear {
    /// The layer, shared in this way.
    pub(crate) fn cut(self, cut: Cut) -> Linear {
        Linear { cut, ..self }
    }
}

/// A low-rank adapter of a linear layer.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    pub(crate) down: Linear,
    pub(crate) up: Linear,
    pub(crate) dropout: f64,
    pub(crate) dtype: DType,
}

impl Tape {
    /// A linear layer as a module.
    pub(crate) fn linear(&mut self, name: &'static str, x: &Tensor, layer: &Linear) -> Tensor {
        let given;
        let x = match layer.cut {
            Cut::Outputs | Cut::GatheredOutputs => {
                given = self.given_to_ranks(x);
                &given
            }
            Cut::Whole | Cut::Inputs => x,
        };
        let output = match &layer.adapter {
            None => self.product(name, x, layer),
            Some(adapter) => self.adapted(name, x, layer, adapter),
        };
        let output = match layer.cut {
            Cut::Inputs => self.summed_over_ranks(name, output),
            Cut::GatheredOutputs => self.gathered_from_ranks(name, output),
            Cut::Whole | Cut::Outputs => output,
        };
        self.module_output(&output);
        output
    }

    /// `base(x) + up(down(dropout(x.to(type)))) * scaling`.
    ///
    /// # Source
    /// peft 0.21, `tuners/lora/layer.py`, `Linear.forward`.
    fn adapted(&mut self, name: &'static str, x: &Tensor, layer: &Linear, adapter: &Adapter) -> Tensor {
        let base = self.product(name, x, layer);
        let part = self.part("adapters");
        let cast = self.to("input in the adapter's type", x, adapter.dtype);
        let dropped = self.dropout("adapters", cast, adapter.dropout);
        let low = self.product("adapter: low-rank product", &dropped, &adapter.down);
        drop(dropped);
        let high = self.product("adapter: product", &low, &adapter.up);
        drop(low);
        let scaled = self.scale("adapter: scaled product", &high);
        drop(high);
        let sum = self.add("output with adapter", &base, &scaled);
        drop((base, scaled));
        let dtype = x.dtype;
        let result =
            self.to("output with adapter, cast back", &sum, if self.autocast.is_some() { sum.dtype } else { dtype });
        self.part(part);
        result
    }

    /// The operands as autocast wants them.
    ///
    /// # Source
    /// PyTorch v2.11, `aten/src/ATen/autocast_mode.cpp`, `cached_cast`: casts of parameters are kept until autocast is left.
    /// The arguments are cast from the last to the first.
    fn autocast_operand(&mut self, name: &'static str, x: &Tensor) -> Tensor {
        let Some(lower) = self.autocast.filter(|_| x.dtype == DType::Float32) else { return x.clone() };
        if let Some(cast) = self.cached_cast(x.edge) {
            return cast;
        }
        let edge = x.edge;
        let cast = self.to(name, x, lower);
        self.keep_cast(edge, &cast);
        cast
    }

    /// `F.linear`: an `mm`, or an `addmm` where there is a bias.
    ///
    /// # Source
    /// PyTorch v2.11, `aten/src/ATen/native/Linear.cpp`; gradients: `torch/csrc/autograd/FunctionsManual.cpp`,
    /// `mm_mat1_grad`, `mm_mat2_grad`. With a bias the input's gradient comes first, without one the weight's.
    pub(crate) fn product(&mut self, name: &'static str, x: &Tensor, layer: &Linear) -> Tensor {
        let whole;
        let weight = match layer.quantised {
            None => &layer.weight,
            Some(shape) => {
                whole = self.alloc("weight made whole from four bits", shape, x.dtype);
                &whole
            }
        };
        let (x, weight, bias) = self.product_operands(x, weight, layer);
        let shape = x.shape.with_last(layer.output);
        let operands: Vec<&Tensor> = [&x, &weight].into_iter().chain(bias.as_ref()).collect();
        if !self.records(&operands) {
            return self.alloc(name, shape, x.dtype);
        }
        let kept_x = weight.requires_grad().then(|| self.save(&x));
        // What is made whole is made again in the backward pass (bitsandbytes, `MatMul4Bit`), not kept.
        let kept_weight = x.requires_grad().then(|| match layer.quantised {
            None => self.save(&weight),
            Some(_) => Tensor { storage: None, ..weight.detached() },
        });
        let output = self.alloc(name, shape, x.dtype);
        let (x_edge, weight_edge, x_shape, weight_shape) = (x.edge, weight.edge, x.shape, weight.shape);
        let bias_edge = bias.as_ref().map(|bias| (bias.edge, bias.shape));
        let is_transposed = !layer.is_conv1d;
        let quantised = layer.quantised;
        let backward = move |tape: &mut Tape, grad: Tensor| {
            let of_input = |tape: &mut Tape| {
                let whole = quantised.map(|shape| tape.alloc("weight made whole from four bits", shape, grad.dtype));
                let gradient = kept_weight
                    .as_ref()
                    .map(|_| tape.alloc_grad(x_edge, "gradient of a product", x_shape, grad.dtype).through_view());
                drop(whole);
                gradient
            };
            let of_weight = |tape: &mut Tape| {
                let gradient =
                    kept_x.as_ref().map(|_| tape.alloc_grad(weight_edge, "gradients", weight_shape, grad.dtype));
                if is_transposed { gradient.map(Tensor::through_view) } else { gradient }
            };
            let (dx, dw) = if bias_edge.is_some() {
                let dx = of_input(tape);
                (dx, of_weight(tape))
            } else {
                let dw = of_weight(tape);
                (of_input(tape), dw)
            };
            let db = bias_edge.filter(|(edge, _)| *edge != Edge::Nowhere).map(|(edge, shape)| {
                let sum = tape.alloc_grad(edge, "gradients", shape, grad.dtype);
                tape.column_sum_scratch(grad.shape.numel() / shape.numel().max(1), shape.numel());
                sum
            });
            vec![dx, dw, db]
        };
        self.record(&operands, output, backward)
    }

    fn product_operands(&mut self, x: &Tensor, weight: &Tensor, layer: &Linear) -> (Tensor, Tensor, Option<Tensor>) {
        let cast = |tape: &mut Tape, bias: &Tensor| tape.autocast_operand("bias, cast by autocast", bias);
        // `Conv1D` calls `addmm(bias, x, weight)`, where the bias is the first argument.
        let late_bias = layer.is_conv1d;
        let early = layer.bias.as_ref().filter(|_| !late_bias).map(|bias| cast(self, bias));
        let weight = self.autocast_operand("weight, cast by autocast", weight);
        let x = self.autocast_operand("input, cast by autocast", x);
        let bias = early.or_else(|| layer.bias.as_ref().map(|bias| cast(self, bias)));
        (x, weight, bias)
    }

    /// `matmul` of two activations, a batch of products: keeps both.
    pub(crate) fn bmm(&mut self, name: &'static str, a: &Tensor, b: &Tensor, shape: Shape) -> Tensor {
        let a = self.autocast_operand("operand, cast by autocast", a);
        let b = self.autocast_operand("operand, cast by autocast", b);
        if !self.records(&[&a, &b]) {
            return self.alloc(name, shape, a.dtype);
        }
        let kept_a = b.requires_grad().then(|| self.save(&a));
        let kept_b = a.requires_grad().then(|| self.save(&b));
        let output = self.alloc(name, shape, a.dtype);
        let (shape_a, shape_b) = (a.shape, b.shape);
        self.record(&[&a, &b], output, move |tape, grad| {
            let of_b = kept_a.as_ref().map(|_| tape.alloc("gradient of a product", shape_b, grad.dtype).through_view());
            let of_a = kept_b.as_ref().map(|_| tape.alloc("gradient of a product", shape_a, grad.dtype).through_view());
            vec![of_a, of_b]
        })
    }
}
