//! Normalisation.

use crate::dtype::DType;
use crate::tape::{Edge, Tape, Tensor};

/// How a norm is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NormKind {
    /// `nn.LayerNorm`: one kernel.
    Layer,
    /// `layer_norm` of a copy in float32, cast back (`OLMo`).
    LayerFloat32,
    /// The `RMSNorm` that Llama has in Python: in float32, cast back, times the weight.
    RmsLlama,
    /// Gemma's: cast back after the product with one plus the weight, in float32.
    RmsGemma,
    /// `OLMo` 2's: times the weight in float32, then cast back.
    RmsOlmo,
    /// T5's: the input keeps its type, the square is taken in float32; cast to the weight's type if that is 16-bit.
    RmsT5,
}

/// A norm with its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Norm {
    pub(crate) kind: NormKind,
    pub(crate) weight: Option<Tensor>,
    pub(crate) bias: Option<Tensor>,
}

impl Tape {
    /// `nn.LayerNorm` of what does not lie row by row: the kernel gets a dense copy, forward and backward; what is kept is the input.
    pub(crate) fn norm_of_strided(&mut self, x: &Tensor, norm: &Norm) -> Tensor {
        let part = self.part("norm");
        let output = self.layer_norm(x, norm, false);
        self.part(part);
        self.module_output(&output);
        output
    }

    /// A norm as a module.
    pub(crate) fn norm(&mut self, x: &Tensor, norm: &Norm) -> Tensor {
        let part = self.part("norm");
        let output = match norm.kind {
            NormKind::Layer => self.layer_norm(x, norm, true),
            NormKind::LayerFloat32 => {
                let wide = self.to("norm: input in float32", x, DType::Float32);
                let output = self.layer_norm(&wide, norm, true);
                drop(wide);
                self.to("norm output", &output, x.dtype)
            }
            NormKind::RmsLlama => self.rms_norm_llama(x, norm),
            NormKind::RmsGemma => self.rms_norm_gemma(x, norm),
            NormKind::RmsOlmo => {
                let wide = self.to("norm: input in float32", x, DType::Float32);
                let normalised = self.normalised(&wide, &wide);
                drop(wide);
                let weighted = self.weighted(norm, normalised);
                self.to("norm output", &weighted, x.dtype)
            }
            NormKind::RmsT5 => self.rms_norm_t5(x, norm),
        };
        self.part(part);
        self.module_output(&output);
        output
    }

    /// `layer_norm`: keeps its input, and mean and reciprocal deviation of each row in float32. Autocast runs it in float32, with
    /// copies of weights of a lower type.
    ///
    /// # Source
    /// PyTorch v2.11, `aten/src/ATen/native/cuda/layer_norm_kernel.cu`; `aten/src/ATen/autocast_mode.h`, the float32 list.
    fn layer_norm(&mut self, x: &Tensor, norm: &Norm, is_dense: bool) -> Tensor {
        let cast;
        let x = match self.autocast {
            Some(_) => {
                cast = self.to("norm: input in float32", x, DType::Float32);
                &cast
            }
            None => x,
        };
        let is_lower = |own: &Tensor| self.autocast.is_some() && own.dtype != DType::Float32;
        let is_cast = norm.weight.as_ref().is_some_and(is_lower);
        let own = [&norm.weight, &norm.bias].map(|own| match own {
            Some(own) if is_cast => Some(self.to("norm: weight in float32", own, DType::Float32)),
            own => own.clone(),
        });
        let operands: Vec<&Tensor> = [x].into_iter().chain(own.iter().flatten()).collect();
        let records = self.records(&operands);
        let kept = records.then(|| self.save(x));
        let kept_casts: Vec<Tensor> =
            own.iter().flatten().filter(|_| records && is_cast).map(|own| self.save(own)).collect();
        let rows = x.shape.rows();
        let dense = (!is_dense).then(|| self.alloc("norm: dense copy of the input", x.shape, x.dtype));
        let output = self.alloc("norm output", x.shape, x.dtype);
        let mean = self.alloc("norm: mean", rows, DType::Float32);
        let deviation = self.alloc("norm: reciprocal deviation", rows, DType::Float32);
        drop(dense);
        let Some(kept) = kept else { return output };
        let kept = (kept, self.save(&mean), self.save(&deviation), kept_casts);
        drop((mean, deviation));
        let edges: Vec<_> = operands.iter().map(|operand| (operand.edge, operand.shape, operand.dtype)).collect();
        self.record(&operands, output, move |tape, grad| {
            let dense = (!is_dense).then(|| tape.alloc("norm: dense copy of the input", grad.shape, grad.dtype));
            let grads = edges
                .iter()
                .map(|&(edge, shape, dtype)| {
                    (edge != Edge::Nowhere).then(|| tape.alloc_grad(edge, "gradients", shape, dtype))
                })
                .collect();
            drop((grad, kept, dense));
            grads
        })
    }

    /// `x * rsqrt(mean(x²) + eps)`; what the square is taken of and what is scaled may be of different types.
    fn normalised(&mut self, squared: &Tensor, scaled: &Tensor) -> Tensor {
        let rows = squared.shape.rows();
        let variance = self.mean_of_square(squared);
        let shifted = self.shift("norm: variance with epsilon", &variance.view(rows));
        let reciprocal = self.rsqrt(&shifted);
        drop(shifted);
        let normalised = self.mul("norm: normalised", scaled, &reciprocal);
        drop((variance, reciprocal));
        normalised
    }

    fn rms_norm_llama(&mut self, x: &Tensor, norm: &Norm) -> Tensor {
        let wide = self.to("norm: input in float32", x, DType::Float32);
        let normalised = self.normalised(&wide, &wide);
        drop(wide);
        let narrow = self.to("norm: normalised, cast back", &normalised, x.dtype);
        self.weighted(norm, narrow)
    }

    fn weighted(&mut self, norm: &Norm, x: Tensor) -> Tensor {
        match &norm.weight {
            Some(weight) => self.mul("norm output", weight, &x),
            None => x,
        }
    }

    /// `output = self._norm(x.float()); output = output * (1.0 + self.weight.float()); return output.type_as(x)`
    fn rms_norm_gemma(&mut self, x: &Tensor, norm: &Norm) -> Tensor {
        let wide = self.to("norm: input in float32", x, DType::Float32);
        let normalised = self.normalised(&wide, &wide);
        drop(wide);
        let output = match &norm.weight {
            None => normalised,
            Some(weight) => {
                let weight = self.to("norm: weight in float32", weight, DType::Float32);
                let factor = self.shift("norm: one plus the weight", &weight);
                self.mul("norm: weighted", &normalised, &factor)
            }
        };
        self.to("norm output", &output, x.dtype)
    }

    /// `variance = x.to(float32).pow(2).mean(-1); x = x * rsqrt(variance + eps); if weight is 16-bit: x = x.to(weight.dtype)`
    fn rms_norm_t5(&mut self, x: &Tensor, norm: &Norm) -> Tensor {
        let wide = self.to("norm: input in float32", x, DType::Float32);
        let rows = wide.shape.rows();
        let variance = self.mean_of_square(&wide);
        drop(wide);
        let shifted = self.shift("norm: variance with epsilon", &variance.view(rows));
        let reciprocal = self.rsqrt(&shifted);
        drop(shifted);
        let normalised = self.mul("norm: normalised", x, &reciprocal);
        drop((variance, reciprocal));
        let dtype = norm.weight.as_ref().map_or(x.dtype, |weight| weight.dtype);
        let narrow =
            if dtype.is_half() { self.to("norm: normalised, cast", &normalised, dtype) } else { normalised.clone() };
        drop(normalised);
        self.weighted(norm, narrow)
    }

    /// `x.pow(2).mean(-1, keepdim=True)`.
    fn mean_of_square(&mut self, x: &Tensor) -> Tensor {
        let square = self.pow("norm: square", x);
        let mean = self.alloc("norm: mean of the square", x.shape.rows(), x.dtype);
        if !self.records(&[&square]) {
            return mean;
        }
        let shape = x.shape;
        self.record(&[&square], mean, move |tape, grad| {
            let expanded = tape.alloc("norm: gradient of a mean", shape, grad.dtype);
            drop(grad);
            vec![Some(expanded)]
        })
    }

    /// `rsqrt`: keeps its output, whose third power its gradient takes.
    fn rsqrt(&mut self, x: &Tensor) -> Tensor {
        let records = self.records(&[x]);
        let output = self.alloc("norm: reciprocal root", x.shape, x.dtype);
        if !records {
            return output;
        }
        let kept = self.save(&output);
        self.record(&[x], output, move |tape, grad| {
            let half = tape.alloc("norm: half a gradient", grad.shape, grad.dtype);
            let cube = tape.alloc("norm: third power", grad.shape, grad.dtype);
            let gradient = tape.alloc("norm: gradient of a reciprocal root", grad.shape, grad.dtype);
            drop((half, cube, grad, kept));
            vec![Some(gradient)]
        })
    }
}
