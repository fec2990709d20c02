//! Layers with a recurrent state: Mamba 1 and 2, the gated delta rule. Products, a convolution over the last tokens, a scan.
//!
//! # Source
//! transformers 5.23, `modeling_mamba.py`, `modeling_mamba2.py`, `modeling_qwen3_next.py`, by the shapes of their weights; the scan is
//! taken as one kernel that keeps its inputs, as `mamba-ssm` and `flash-linear-attention` have it.

use super::Past;
use super::builder::{Builder, Role};
use super::heads::Cache;
use crate::hybrid::State;
use crate::ops::Linear;
use crate::quantization::WeightKind;
use crate::shape::{Shape, dim};
use crate::tape::{Tape, Tensor};

pub(crate) struct StateLayer {
    state: State,
    inputs: Vec<Linear>,
    convolution: Vec<Tensor>,
    weights: Vec<Tensor>,
    output: Linear,
}

impl StateLayer {
    pub(crate) fn build(builder: &mut Builder<'_>, hidden: u64, state: &State) -> StateLayer {
        let h = dim("h", hidden);
        let linear = |builder: &mut Builder<'_>, name, output, input| {
            builder.named(name).linear("attention", Role::Attention, output, input, state.bias)
        };
        let inputs = state.inputs.iter().map(|&(name, width)| linear(builder, name, dim("w", width), h)).collect();
        let mut convolution = Vec::new();
        if state.kernel > 0 {
            let sizes = [state.channels, 1, state.kernel];
            convolution.push(builder.weight("attention", "conv1d", WeightKind::Convolution, &sizes));
            if state.conv_bias {
                convolution.push(builder.weight("attention", "conv1d.bias", WeightKind::Other, &[state.channels]));
            }
        }
        let weights = state.weights.iter().map(|(name, kind, sizes)| builder.weight("attention", name, *kind, sizes));
        let weights = weights.collect();
        let output = linear(builder, state.output, h, dim("inner", state.inner));
        StateLayer { state: state.clone(), inputs, convolution, weights, output }
    }

    pub(crate) fn forward(
        &self,
        tape: &mut Tape,
        x: &Tensor,
        use_cache: bool,
        cache: &mut Cache,
        past: &mut Past,
    ) -> Tensor {
        tape.part("attention");
        let (batch, tokens) = (x.shape.at(0), x.shape.at(1));
        let wide = |width| Shape::of(&[batch, tokens, dim("inner", width)]);
        let projected: Vec<Tensor> =
            self.inputs.iter().map(|layer| tape.linear("state: products of the input", x, layer)).collect();
        let first: Vec<&Tensor> = projected.iter().take(1).collect();
        let convolved = tape.kernel("state: convolution", &first, &self.convolution, wide(self.state.channels));
        let of_scan: Vec<&Tensor> = [&convolved].into_iter().chain(projected.iter().skip(1)).collect();
        let scanned = tape.kernel("state: scan", &of_scan, &self.weights, wide(self.state.inner));
        drop(projected);
        if use_cache {
            *past = None;
            let one = |width| Shape::of(&[batch, dim("1", 1), dim("state", width)]);
            let conv = self.state.channels.saturating_mul(self.state.kernel);
            let keys = tape.alloc("convolution's state in the cache", one(conv), x.dtype);
            let values = tape.alloc("recurrent state in the cache", one(self.state.recurrent), x.dtype);
            cache.layers.push((keys, values));
        }
        let output = tape.linear("state: projection", &scanned, &self.output);
        tape.module_output(&output);
        output
    }
}
