//! Makes parameters, frozen or trained, with the adapters that a set-up asks for.

use std::rc::Rc;

use crate::dtype::DType;
use crate::ops::{Adapter, Cut, Linear, Norm, NormKind};
use crate::quantization::{AtProduct, Quantization, Stored, Weight, WeightKind};
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

/// A layer, whose parameters are a group of their own where ranks share them out.
pub(crate) struct Layered<T> {
    layer: T,
    pub(crate) group: usize,
}

impl<T> std::ops::Deref for Layered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.layer
    }
}

/// Makes the parameters of a model.
pub(crate) struct Builder<'a> {
    pub(crate) tape: &'a mut Tape,
    pub(crate) setup: Setup,
    /// How the checkpoint's weights are quantised.
    quantization: Option<&'a Quantization>,
    /// The module that the next weights are in.
    prefix: String,
    /// The name of the next one in it.
    name: Option<&'static str>,
    weights: Vec<Weight>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(tape: &'a mut Tape, setup: &Setup, quantization: Option<&'a Quantization>) -> Builder<'a> {
        Builder { tape, setup: *setup, quantization, prefix: String::new(), name: None, weights: Vec::new() }
    }

    /// The weights that were made.
    pub(crate) fn finish(self) -> Vec<Weight> {
        self.weights
    }
}

impl Builder<'_> {
    /// The weights that come are in this module.
    pub(crate) fn at(&mut self, prefix: impl Into<String>) {
        self.prefix = prefix.into();
    }

    /// The weights that come are in a module of this one; gives this one's name.
    pub(crate) fn enter(&mut self, name: &str) -> String {
        let inner = format!("{}.{name}", self.prefix);
        std::mem::replace(&mut self.prefix, inner)
    }

    /// The weights that come are in the module around this one; gives this one's name.
    pub(crate) fn leave(&mut self) -> String {
        let outer = self.prefix.rsplit_once('.').map_or_else(String::new, |(outer, _)| outer.to_owned());
        std::mem::replace(&mut self.prefix, outer)
    }

    /// The next weight is called so within its module.
    pub(crate) fn named(&mut self, name: &'static str) -> &mut Self {
        self.name = Some(name);
        self
    }

    fn module(&mut self, part: &'static str) -> String {
        let name = self.name.take().unwrap_or(part);
        match (self.prefix.is_empty(), name.is_empty()) {
            (true, _) => name.to_owned(),
            (false, true) => self.prefix.clone(),
            (false, false) => format!("{}.{name}", self.prefix),
        }
    }

    fn record(&mut self, module: String, kind: WeightKind, shape: &[Dim], stored: Stored) {
        let shape = shape.iter().map(|dim| dim.size).collect();
        self.weights.push(Weight { module, kind, shape, stored, is_tied: false });
    }

    /// A head that is another weight once more.
    pub(crate) fn record_tied(&mut self, shape: &[Dim]) {
        let shape = shape.iter().map(|dim| dim.size).collect();
        let (module, stored) = ("lm_head".to_owned(), Stored::default());
        self.weights.push(Weight { module, kind: WeightKind::Head, shape, stored, is_tied: true });
    }

    /// A layer.
    pub(crate) fn layer<T>(&mut self, build: impl FnOnce(&mut Self) -> T) -> Rc<Layered<T>> {
        let group = self.tape.begin_group();
        let layer = build(self);
        self.tape.end_group();
        Rc::new(Layered { layer, group })
    }

    fn is_trained(&self) -> bool {
        self.setup.lora.is_none()
    }

    /// A parameter of a part of the model.
    pub(crate) fn parameter(&mut self, part: &'static str, shape: &[Dim]) -> Tensor {
        let kind = match (part, shape.len()) {
            ("embedding", _) => WeightKind::Embedding,
            ("head", 2) => WeightKind::Head,
            ("norm", _) => WeightKind::Norm,
            ("experts", 3) => WeightKind::Experts,
            ("router", _) => WeightKind::Router,
            (_, 3..) => WeightKind::Convolution,
            _ => WeightKind::Other,
        };
        let module = self.module(part);
        self.weight_of(part, module, kind, shape).0
    }

    /// A weight of a kind, by its sizes.
    pub(crate) fn weight(&mut self, part: &'static str, name: &'static str, kind: WeightKind, sizes: &[u64]) -> Tensor {
        let shape: Vec<Dim> = sizes.iter().map(|size| dim("n", *size)).collect();
        let module = self.named(name).module(part);
        self.weight_of(part, module, kind, &shape).0
    }

    /// A parameter that is never trained.
    pub(crate) fn frozen(&mut self, part: &'static str, shape: Shape, dtype: DType) -> Tensor {
        let module = self.module(part);
        self.record(module, WeightKind::Embedding, shape.dims(), Stored::plain(shape.numel(), dtype.bytes()));
        self.tape.parameter(shape, dtype, false)
    }

    /// A weight as it is loaded, and whether it is quantised.
    fn weight_of(&mut self, part: &'static str, module: String, kind: WeightKind, shape: &[Dim]) -> (Tensor, bool) {
        let dtype = self.setup.dtype;
        let sizes: Vec<u64> = shape.iter().map(|dim| dim.size).collect();
        let stored = match self.quantization {
            Some(quantization) => quantization.stored(&module, kind, &sizes, dtype.bytes()),
            None => Stored::plain(Shape::of(shape).numel(), dtype.bytes()),
        };
        self.record(module, kind, shape, stored);
        self.tape.part(part);
        if stored.is_quantized {
            let bytes = Shape::of(&[dim("quantised", stored.bytes())]);
            return (self.tape.parameter(bytes, DType::Byte, false), true);
        }
        let is_trained = self.is_trained();
        (self.tape.parameter(Shape::of(shape), dtype, is_trained), false)
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
        let module = self.module(part);
        let kind = match (role, part) {
            (Role::Head, "router") => WeightKind::Router,
            (Role::Head, _) => WeightKind::Head,
            _ => WeightKind::Linear,
        };
        let of_bias = bias.then(|| format!("{module}.bias"));
        let (weight, quantised) = if role != Role::Head && self.setup.quantisation != Quantisation::None {
            (self.quantised_weight(part, module, whole), Some(whole))
        } else {
            let (weight, is_quantised) = self.weight_of(part, module, kind, whole.dims());
            let is_made_whole = self.quantization.is_some_and(|one| one.at_product == AtProduct::MadeWhole);
            (weight, (is_quantised && is_made_whole).then_some(whole))
        };
        let bias = of_bias.map(|module| self.weight_of(part, module, WeightKind::Other, &[output]).0);
        let adapter = self.adapter(role, output, input).map(Box::new);
        Linear { weight, bias, output, is_conv1d, adapter, quantised, cut: Cut::Whole }
    }

    /// What `--quantise` makes of a weight.
    fn quantised_weight(&mut self, part: &'static str, module: String, shape: Shape) -> Tensor {
        let format = crate::read::bits4(self.setup.quantisation == Quantisation::Nf4Double);
        let stored = format.stored(1, 1, shape.numel());
        self.record(module, WeightKind::Linear, shape.dims(), stored);
        self.tape.part(part);
        self.tape.parameter(Shape::of(&[dim("N/2 + scales", stored.bytes())]), DType::Byte, false)
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
        let plain = |weight, output| Linear {
            weight,
            bias: None,
            output,
            is_conv1d: false,
            adapter: None,
            quantised: None,
            cut: Cut::Whole,
        };
        Some(Adapter { down: plain(down, rank), up: plain(up, output), dropout: lora.dropout, dtype: lora.dtype })
    }

    /// A norm over the last size.
    pub(crate) fn norm(&mut self, part: &'static str, kind: NormKind, size: Dim, bias: bool) -> Norm {
        let module = self.module(part);
        let of_bias = format!("{module}.bias");
        let weight = Some(self.weight_of(part, module, WeightKind::Norm, &[size]).0);
        let bias = bias.then(|| self.weight_of(part, of_bias, WeightKind::Norm, &[size]).0);
        Norm { kind, weight, bias }
    }
}
