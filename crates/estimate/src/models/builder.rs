//! Makes parameters, frozen or trained, with the adapters that a set-up asks for.

use crate::dtype::DType;
use crate::ops::{Adapter, Linear, Norm, NormKind};
use crate::setup::{LoraTargets, Quantisation, Setup};
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

/// What a linear layer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Queries or values, or both in one product.
    QueryValue,
    /// The rest of attention.
    Attention,
    /// An MLP.
    Mlp,
    /// The head, a classifier, a router: never adapted.
    Head,
}

/// Makes the parameters of a model.
pub(crate) struct Builder<'a> {
    pub(crate) tape: &'a mut Tape,
    pub(crate) setup: Setup,
}

impl Builder<'_> {
    fn is_trained(&self) -> bool {
        self.setup.lora.is_none()
    }

    /// A parameter of a part of the model.
    pub(crate) fn parameter(&mut self, part: &'static str, shape: &[Dim]) -> Tensor {
        let dtype = self.setup.dtype;
        let is_trained = self.is_trained();
        self.tape.part(part);
        self.tape.parameter(Shape::of(shape), dtype, is_trained)
    }

    /// A linear layer of so many outputs and inputs.
    pub(crate) fn linear(&mut self, part: &'static str, role: Role, output: Dim, input: Dim, bias: bool) -> Linear {
        self.product(part, role, output, input, bias, false)
    }

    /// The `Conv1D` of GPT-2.
    pub(crate) fn conv1d(&mut self, part: &'static str, role: Role, output: Dim, input: Dim) -> Linear {
        self.product(part, role, output, input, true, true)
    }

    fn product(
        &mut self,
        part: &'static str,
        role: Role,
        output: Dim,
        input: Dim,
        bias: bool,
        is_conv1d: bool,
    ) -> Linear {
        let whole = if is_conv1d { Shape::of(&[input, output]) } else { Shape::of(&[output, input]) };
        let quantised = (role != Role::Head && self.setup.quantisation != Quantisation::None).then_some(whole);
        let weight = match quantised {
            None => self.parameter(part, whole.dims()),
            Some(shape) => self.quantised_weight(part, shape),
        };
        let bias = bias.then(|| self.parameter(part, &[output]));
        let adapter = self.adapter(role, output, input).map(Box::new);
        Linear { weight, bias, output, is_conv1d, adapter, quantised }
    }

    /// Four bits a weight, a scale for 64, and with double quantisation those in eight bits with one for 256.
    ///
    /// # Source
    /// bitsandbytes 0.50, `functional.py`, `quantize_4bit`.
    fn quantised_weight(&mut self, part: &'static str, shape: Shape) -> Tensor {
        let values = shape.numel();
        let blocks = values.div_ceil(64);
        let scales = match self.setup.quantisation {
            Quantisation::Nf4Double => blocks.saturating_add(4 * blocks.div_ceil(256)),
            _ => blocks.saturating_mul(4),
        };
        self.tape.part(part);
        let bytes = dim("N/2 + scales", values.div_ceil(2).saturating_add(scales));
        self.tape.parameter(Shape::of(&[bytes]), DType::Byte, false)
    }

    fn adapter(&mut self, role: Role, output: Dim, input: Dim) -> Option<Adapter> {
        let lora = self.setup.lora?;
        let is_target = match lora.targets {
            LoraTargets::QueryValue => role == Role::QueryValue,
            LoraTargets::Attention => matches!(role, Role::QueryValue | Role::Attention),
            LoraTargets::AllLinear => role != Role::Head,
        };
        if !is_target {
            return None;
        }
        let rank = dim("r", lora.rank);
        self.tape.part("adapters");
        let down = self.tape.parameter(Shape::of(&[rank, input]), lora.dtype, true);
        let up = self.tape.parameter(Shape::of(&[output, rank]), lora.dtype, true);
        let plain =
            |weight, output| Linear { weight, bias: None, output, is_conv1d: false, adapter: None, quantised: None };
        Some(Adapter { down: plain(down, rank), up: plain(up, output), dropout: lora.dropout, dtype: lora.dtype })
    }

    /// A norm over the last size.
    pub(crate) fn norm(&mut self, part: &'static str, kind: NormKind, size: Dim, bias: bool) -> Norm {
        let weight = Some(self.parameter(part, &[size]));
        let bias = bias.then(|| self.parameter(part, &[size]));
        Norm { kind, weight, bias }
    }
}
