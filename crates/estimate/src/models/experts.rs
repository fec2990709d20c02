//! Mixtures of experts.
//!
//! # Source
//! transformers 5.17, `integrations/moe.py`, `grouped_mm_experts_forward`; the routers of `modeling_mixtral.py`,
//! `modeling_qwen2_moe.py`, `modeling_qwen3_moe.py`, `modeling_deepseek_v3.py`.

use super::builder::{Builder, Role};
use super::common::activate;
use super::decoder::DenseMlp;
use crate::architecture::{Activation, Decoder, Experts};
use crate::dtype::DType;
use crate::ops::Linear;
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

pub(crate) struct ExpertLayer {
    experts: Experts,
    activation: Activation,
    router: Linear,
    /// Gate and way up in one, or the way up.
    gate_up: Tensor,
    down: Tensor,
    biases: Vec<Tensor>,
    /// Products before and after, where experts work on fewer numbers.
    narrow: Option<(Linear, Linear)>,
    shared: Option<DenseMlp>,
    shared_gate: Option<Linear>,
}

impl ExpertLayer {
    pub(crate) fn build(builder: &mut Builder<'_>, config: &Decoder, experts: &Experts) -> ExpertLayer {
        let (h, i) = (dim("h", config.hidden), dim("i_e", experts.intermediate));
        let count = dim("E", experts.count);
        let both = if experts.gated { dim("2i_e", experts.intermediate.saturating_mul(2)) } else { i };
        let outer = h;
        let h = if experts.latent > 0 { dim("h_e", experts.latent) } else { h };
        let narrow = (experts.latent > 0).then(|| {
            let mut product =
                |name, output, input| builder.named(name).linear("mlp", Role::Mlp, output, input, config.mlp_bias);
            (product("fc1_latent_proj", h, outer), product("fc2_latent_proj", outer, h))
        });
        let mut biases = Vec::new();
        if experts.biases {
            biases.push(builder.named("experts.gate_up_proj_bias").parameter("experts", &[count, both]));
            biases.push(builder.named("experts.down_proj_bias").parameter("experts", &[count, h]));
        }
        let up = if experts.gated { "experts.gate_up_proj" } else { "experts.up_proj" };
        let mlp = experts.beside_mlp.then(|| builder.leave());
        let router = if experts.beside_mlp { "router.proj" } else { "gate" };
        ExpertLayer {
            biases,
            narrow,
            activation: config.activation,
            router: builder.named(router).linear("router", Role::Head, count, outer, experts.biases),
            gate_up: builder.named(up).parameter("experts", &[count, both, h]),
            down: builder.named("experts.down_proj").parameter("experts", &[count, h, i]),
            shared: (experts.shared_intermediate > 0).then(|| {
                let inner = if experts.shared_gate { "shared_expert" } else { "shared_experts" };
                let outer = builder.enter(inner);
                if let Some(mlp) = mlp {
                    builder.at(mlp);
                }
                let shared = DenseMlp::build(builder, config, experts.shared_intermediate);
                builder.at(outer);
                shared
            }),
            shared_gate: experts
                .shared_gate
                .then(|| builder.named("shared_expert_gate").linear("router", Role::Head, dim("1", 1), outer, false)),
            experts: experts.clone(),
        }
    }

    pub(crate) fn forward(&self, tape: &mut Tape, x: &Tensor) -> Tensor {
        let part = tape.part("experts");
        // Qwen's shared expert comes before the others, DeepSeek's after them.
        let run_shared = |tape: &mut Tape| self.shared.as_ref().map(|shared| shared.forward(tape, x));
        let early = self.shared_gate.as_ref().and_then(|_| run_shared(tape));
        tape.part("router");
        let weights = self.route(tape, x);
        tape.part("experts");
        let routed = match &self.narrow {
            None => self.run_experts(tape, x, &weights),
            Some((down, up)) => {
                let low = tape.linear("experts: inputs made narrow", x, down);
                let routed = self.run_experts(tape, &low, &weights);
                tape.linear("experts: outputs made wide", &routed, up)
            }
        };
        drop(weights);
        let shared = early.or_else(|| run_shared(tape));
        let output = match shared {
            None => routed,
            Some(mut shared) => {
                if let Some(gate) = &self.shared_gate {
                    let score = tape.linear("gate of the shared expert", x, gate);
                    let opened = tape.activation_of_output("gate of the shared expert", &score);
                    shared = tape.mul("gated shared expert", &opened, &shared);
                }
                tape.add("experts added", &routed, &shared)
            }
        };
        tape.part(part);
        output
    }

    /// Scores of all experts, and of those chosen for each token.
    fn route(&self, tape: &mut Tape, x: &Tensor) -> Tensor {
        let rows = x.shape.rows();
        let chosen = with(rows, dim("r", self.experts.per_token));
        let logits = if self.experts.router_in_float32 {
            let wide = tape.to("router: input in float32", x, DType::Float32);
            let weight = tape.to("router: weight in float32", &self.router.weight, DType::Float32);
            tape.linear("router: logits", &wide, &Linear { weight, ..self.router.clone() })
        } else {
            tape.linear("router: logits", x, &self.router)
        };
        let wide = tape.to("router: logits in float32", &logits, DType::Float32);
        drop(logits);
        let scores = tape.activation_of_output("router: scores", &wide);
        drop(wide);
        let ids = tape.alloc("router: chosen experts", chosen, DType::Int64);
        let mut weights = self.gather(tape, "router: chosen scores", &scores, &ids, chosen);
        if self.experts.renormalised {
            let sums = tape.alloc("router: sums of chosen scores", rows, DType::Float32);
            let kept = tape.save(&sums);
            weights = tape.scale("router: chosen scores, made to one", &weights);
            drop((sums, kept));
        }
        weights
    }

    /// A gather by ids, which are kept; its gradient is as large as the source.
    fn gather(&self, tape: &mut Tape, name: &'static str, x: &Tensor, ids: &Tensor, shape: Shape) -> Tensor {
        let _ = self;
        let kept = tape.records(&[x]).then(|| tape.save(ids));
        let output = tape.alloc(name, shape, x.dtype);
        let Some(kept) = kept else { return output };
        let whole = x.shape;
        tape.record(&[x], output, move |tape, grad| {
            let gradient = tape.alloc("gradient of a gather", whole, grad.dtype);
            drop((grad, kept));
            vec![Some(gradient)]
        })
    }

    /// Tokens sorted by expert, two grouped products, sorted back and summed.
    fn run_experts(&self, tape: &mut Tape, x: &Tensor, weights: &Tensor) -> Tensor {
        let rows = x.shape.rows().numel();
        let pairs = dim("T·r", rows.saturating_mul(self.experts.per_token));
        let one = Shape::of(&[pairs]);
        let hidden = x.shape.last();
        let dtype = tape.autocast.unwrap_or(x.dtype);
        let sorted = tape.alloc("experts: sorted ids", one, DType::Int64);
        let order = tape.alloc("experts: order of tokens", one, DType::Int64);
        let picks = tape.alloc("experts: picked tokens", one, DType::Int64);
        let selected = self.gather(tape, "experts: tokens, sorted", x, &picks, with(one, hidden));
        let sample_weights = self.gather(tape, "experts: weights, sorted", weights, &order, one);
        let sentinels = tape.alloc("experts: mask", one, DType::Byte);
        let wide = if self.experts.gated { 2 } else { 1 };
        let i = dim("2i_e", self.experts.intermediate.saturating_mul(wide));
        let up = self.grouped(tape, "experts: gate and up", &selected, &self.gate_up, i, dtype);
        let up = {
            let masked = tape.masked("experts: masked", &up, &sentinels);
            drop(up);
            masked
        };
        let half = with(one, dim("i_e", self.experts.intermediate));
        let product = if self.experts.gated {
            let mut parts = tape.split(&up, &[half, half]);
            drop(up);
            let (Some(up), Some(gate)) = (parts.pop(), parts.pop()) else { return x.clone() };
            let active = activate(tape, self.activation, &gate);
            drop(gate);
            tape.mul("experts: gate by up", &active, &up)
        } else {
            activate(tape, self.activation, &up)
        };
        let product = if self.biases.is_empty() {
            product
        } else {
            tape.kernel("experts: biases added", &[&product], &self.biases, product.shape)
        };
        let down = self.grouped(tape, "experts: down", &product, &self.down, hidden, dtype);
        drop(product);
        let down = {
            let masked = tape.masked("experts: masked", &down, &sentinels);
            drop(down);
            masked
        };
        let weighted = tape.mul("experts: weighted", &down, &sample_weights);
        let back = tape.alloc("experts: order back", one, DType::Int64);
        let unsorted = self.gather(tape, "experts: tokens, in order again", &weighted, &back, weighted.shape);
        drop((weighted, picks));
        let sum = tape.alloc("experts: sum", x.shape, unsorted.dtype);
        let sum =
            if tape.records(&[&unsorted]) { tape.record(&[&unsorted], sum, |_, grad| vec![Some(grad)]) } else { sum };
        drop((unsorted, down, selected, sample_weights, sentinels, sorted, order));
        tape.to("experts: output", &sum, x.dtype)
    }

    /// `grouped_mm`: one product for each expert; keeps input and weight.
    fn grouped(
        &self,
        tape: &mut Tape,
        name: &'static str,
        x: &Tensor,
        weight: &Tensor,
        output: Dim,
        dtype: DType,
    ) -> Tensor {
        let _ = self;
        let x = tape.to("experts: input, cast", x, weight.dtype);
        let _ = dtype;
        let shape = x.shape.with_last(output);
        let records = tape.records(&[&x, weight]);
        if !records {
            return tape.alloc(name, shape, x.dtype);
        }
        let kept_x = weight.requires_grad().then(|| tape.save(&x));
        let kept_weight = x.requires_grad().then(|| tape.save(weight));
        let result = tape.alloc(name, shape, x.dtype);
        let (x_shape, edge, weight_shape) = (x.shape, weight.edge, weight.shape);
        tape.record(&[&x, weight], result, move |tape, grad| {
            let of_x = kept_weight.as_ref().map(|_| tape.alloc("gradient of a product", x_shape, grad.dtype));
            let of_weight =
                kept_x.as_ref().map(|_| tape.alloc_grad(edge, "gradients", weight_shape, grad.dtype).through_view());
            vec![of_x, of_weight]
        })
    }
}

/// A shape with one more size.
fn with(shape: Shape, last: Dim) -> Shape {
    let sizes: Vec<Dim> = shape.dims().iter().copied().chain([last]).collect();
    Shape::of(&sizes)
}
