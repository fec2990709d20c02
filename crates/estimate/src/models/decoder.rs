//! Decoder-only models in the manner of Llama, with everything that their families add.
//!
//! # Source
//! transformers 5.17: `modeling_llama.py`, `modeling_mistral.py`, `modeling_qwen2.py`, `modeling_qwen3.py`, `modeling_gemma*.py`,
//! `modeling_phi.py`, `modeling_phi3.py`, `modeling_gpt_neox.py`, `modeling_olmo.py`, `modeling_olmo2.py`.

use std::rc::Rc;

use super::builder::{Builder, Layered, Role};
use super::common::{activate, batch_and_tokens, causal_outputs, head, token_ids};
use super::experts::ExpertLayer;
use super::heads::{
    Cache, HeadDims, Plan, Rotary, as_heads, eager_mask, extend, position_ids, rotary_tables, window_mask,
};
use super::latent::LatentAttention;
use super::state::StateLayer;
use super::{Call, Model, Outputs, Past};
use crate::architecture::{Block, Decoder, DecoderNorm, MlpKind, QkNorm, Qkv, Top, repeating};
use crate::dtype::DType;
use crate::hybrid::{Feed, Mixer};
use crate::ops::{Cut, EagerStyle, Linear, LossStyle, Mask, Norm, NormKind};
use crate::quantization::WeightKind;
use crate::setup::{Attention, Setup};
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

/// Weights of a layer's own, or of the model's.
fn extras(builder: &mut Builder<'_>, config: &Decoder, layer: Option<u64>, prefix: String) -> Vec<Tensor> {
    builder.at(prefix);
    let own = config.hybrid.extras.iter().filter(|extra| extra.layer == layer);
    own.map(|extra| {
        let part = if extra.kind == WeightKind::Embedding { "embedding" } else { "mlp" };
        builder.weight(part, extra.name, extra.kind, &extra.shape)
    })
    .collect()
}

pub(crate) struct DecoderModel {
    extras: Vec<Tensor>,
    config: Rc<Decoder>,
    /// Of the first stage of a pipeline.
    tokens: Option<Tensor>,
    layers: Vec<Rc<Layered<Layer>>>,
    /// Of the last stage, as is the head.
    last_norm: Option<Norm>,
    head: Option<Linear>,
}

struct Layer {
    config: Rc<Decoder>,
    extras: Vec<Tensor>,
    index: u64,
    /// In the order of the forward pass.
    norms: Vec<Norm>,
    attention: AttentionWeights,
    mlp: Mlp,
}

enum AttentionWeights {
    Nothing,
    State(Box<StateLayer>),
    Both(Box<StateLayer>, Box<HeadWeights>),
    Heads(Box<HeadWeights>),
    Latent(Box<LatentAttention>),
}

struct HeadWeights {
    dims: HeadDims,
    /// Whether keys and values are those of an earlier layer.
    shares_kv: bool,
    /// Query, key and value; one where they are one product.
    projections: Vec<Linear>,
    output: Linear,
    q_norm: Option<Norm>,
    k_norm: Option<Norm>,
}

enum Mlp {
    Dense(Box<DenseMlp>),
    Experts(Box<ExpertLayer>),
    Nothing,
}

/// An MLP of one piece.
pub(crate) struct DenseMlp {
    kind: MlpKind,
    activation: crate::architecture::Activation,
    gate: Option<Linear>,
    up: Linear,
    down: Linear,
}

fn norm(builder: &mut Builder<'_>, kind: DecoderNorm, size: Dim) -> Norm {
    match kind {
        DecoderNorm::Rms => builder.norm("norm", NormKind::RmsLlama, size, false),
        DecoderNorm::RmsGemma => builder.norm("norm", NormKind::RmsGemma, size, false),
        DecoderNorm::RmsOlmo => builder.norm("norm", NormKind::RmsOlmo, size, false),
        DecoderNorm::Layer => builder.norm("norm", NormKind::Layer, size, true),
        DecoderNorm::LayerNoBias => builder.norm("norm", NormKind::Layer, size, false),
        DecoderNorm::LayerPlain => Norm { kind: NormKind::LayerFloat32, weight: None, bias: None },
    }
}

impl Decoder {
    pub(crate) fn dims(&self, layer: u64) -> HeadDims {
        let (kv_heads, head_dim) = self.kv_of(layer);
        let dims = HeadDims::new(self.heads, kv_heads, head_dim);
        match self.value_dim(head_dim) {
            size if size == head_dim => dims,
            size => HeadDims { value_dim: dim("dv", size), ..dims },
        }
    }

    fn eager_style(&self) -> EagerStyle {
        EagerStyle { softmax_in_float32: true, scales: true, soft_cap: self.attention_cap }
    }

    /// A soft cap on scores runs in Python only.
    fn attention_of(&self, setup: &Setup) -> Attention {
        let _ = self;
        setup.attention
    }
}

impl DenseMlp {
    pub(crate) fn build(builder: &mut Builder<'_>, config: &Decoder, width: u64) -> DenseMlp {
        let (h, i) = (dim("h", config.hidden), dim("i", width));
        let bias = config.mlp_bias;
        let gate = (config.mlp == MlpKind::Gated)
            .then(|| builder.named("gate_proj").linear("mlp", Role::Mlp, i, h, bias).cut(Cut::Outputs));
        let up = match config.mlp {
            MlpKind::GatedTogether => {
                builder.named("gate_up_proj").linear("mlp", Role::Mlp, dim("2i", width.saturating_mul(2)), h, bias)
            }
            _ => builder.named("up_proj").linear("mlp", Role::Mlp, i, h, bias),
        }
        .cut(Cut::Outputs);
        let down = builder.named("down_proj").linear("mlp", Role::Mlp, h, i, bias).cut(Cut::Inputs);
        DenseMlp { kind: config.mlp, activation: config.activation, gate, up, down }
    }

    pub(crate) fn forward(&self, tape: &mut Tape, x: &Tensor) -> Tensor {
        tape.part("mlp");
        let output = match (&self.gate, self.kind) {
            (Some(gate), _) => {
                let gated = tape.linear("mlp: gate", x, gate);
                let active = activate(tape, self.activation, &gated);
                drop(gated);
                let up = tape.linear("mlp: up", x, &self.up);
                let product = tape.mul("mlp: gate by up", &active, &up);
                drop((active, up));
                tape.linear("mlp: down", &product, &self.down)
            }
            (None, MlpKind::GatedTogether) => {
                let both = tape.linear("mlp: gate and up", x, &self.up);
                let half = both.shape.with_last(dim("i", both.shape.last().size / 2));
                let mut parts = tape.split(&both, &[half, half]);
                drop(both);
                let (Some(up), Some(gate)) = (parts.pop(), parts.pop()) else { return x.clone() };
                let active = activate(tape, self.activation, &gate);
                let product = tape.mul("mlp: gate by up", &up, &active);
                drop((active, up));
                tape.linear("mlp: down", &product, &self.down)
            }
            _ => {
                let up = tape.linear("mlp: up", x, &self.up);
                let active = activate(tape, self.activation, &up);
                drop(up);
                tape.linear("mlp: down", &active, &self.down)
            }
        };
        tape.module_output(&output);
        output
    }
}

impl HeadWeights {
    fn build(builder: &mut Builder<'_>, config: &Decoder, layer: u64) -> HeadWeights {
        let dims = config.dims(layer);
        let shares_kv = config.shares_kv(layer);
        let (h, q, k) = (dim("h", config.hidden), dims.query_width(), dims.key_width());
        let bias = config.qkv_bias;
        if config.hybrid.sinks {
            builder.named("sinks").parameter("attention", &[dims.heads]);
        }
        let projections = if config.qkv == Qkv::Separate {
            let wide = if config.hybrid.query_gate { dim("2q", q.size.saturating_mul(2)) } else { q };
            let mut all = vec![builder.named("q_proj").linear("attention", Role::QueryValue, wide, h, bias)];
            if !shares_kv {
                all.push(builder.named("k_proj").linear("attention", Role::Attention, k, h, bias));
                let is_key = config.hybrid.global_heads.is_some_and(|global| global.values_are_keys);
                if !is_key || config.is_sliding(layer) {
                    let v = dims.value_width();
                    all.push(builder.named("v_proj").linear("attention", Role::QueryValue, v, h, bias));
                }
            }
            all
        } else {
            let all = dim("q+2k", q.size.saturating_add(k.size.saturating_mul(2)));
            vec![builder.named("qkv_proj").linear("attention", Role::QueryValue, all, h, bias)]
        };
        let inner = dims.output_width();
        let projections = projections.into_iter().map(|layer| layer.cut(Cut::Outputs)).collect();
        let output = builder.named("o_proj").linear("attention", Role::Attention, h, inner, config.output_bias);
        let output = output.cut(Cut::Inputs);
        let kind = match config.norm {
            DecoderNorm::RmsGemma => NormKind::RmsGemma,
            DecoderNorm::RmsOlmo => NormKind::RmsOlmo,
            DecoderNorm::Layer => NormKind::Layer,
            _ => NormKind::RmsLlama,
        };
        let bias = kind == NormKind::Layer;
        let (q_size, k_size) = match config.qk_norm {
            QkNorm::None => {
                return HeadWeights { dims, shares_kv, projections, output, q_norm: None, k_norm: None };
            }
            QkNorm::PerHead => (dims.head_dim, dims.head_dim),
            QkNorm::Whole => (q, k),
        };
        let q_norm = Some(builder.named("q_norm").norm("norm", kind, q_size, bias));
        let k_norm = (!shares_kv).then(|| builder.named("k_norm").norm("norm", kind, k_size, bias));
        HeadWeights { dims, shares_kv, projections, output, q_norm, k_norm }
    }

    /// Query, key and value, not rotated yet.
    fn project(&self, tape: &mut Tape, x: &Tensor, run: &Run, plan: &Plan<'_>) -> (Tensor, Tensor, Tensor) {
        let dims = plan.dims;
        let rotates = run.config.rotary_dim > 0;
        let dtype = x.dtype;
        let copies_kv = plan.copies_kv_grad(tape, dtype);
        let (copies_q, copies_k) = (rotates || plan.copies_q_grad(tape, dtype), rotates || copies_kv);
        let q_shape = Shape::of(&[run.batch, run.tokens, dims.heads, dims.head_dim]);
        let k_shape = Shape::of(&[run.batch, run.tokens, dims.kv_heads, dims.head_dim]);
        let v_shape = k_shape.with_last(dims.value_dim);
        let is_plain = !run.config.hybrid.query_gate && self.projections.len() != 2 && !self.shares_kv;
        let [q, k, v] = match self.projections.as_slice() {
            all if !is_plain => self.project_some(tape, x, all, run, plan),
            [query, key, value] => {
                let mut projected = |name, layer, norm: Option<&Norm>, shape, copies, whole: bool| {
                    let flat = tape.linear(name, x, layer);
                    let flat = match norm.filter(|_| whole) {
                        Some(norm) => tape.norm(&flat, norm),
                        None => flat,
                    };
                    let heads = as_heads(tape, &flat, shape, copies);
                    drop(flat);
                    match norm.filter(|_| !whole) {
                        Some(norm) => tape.norm(&heads, norm),
                        None => heads,
                    }
                };
                let whole = run.config.qk_norm == QkNorm::Whole;
                let early = run.config.norm != DecoderNorm::RmsGemma;
                if early || self.q_norm.is_none() {
                    [
                        projected("queries", query, self.q_norm.as_ref(), q_shape, copies_q, whole),
                        projected("keys", key, self.k_norm.as_ref(), k_shape, copies_k, whole),
                        projected("values", value, None, v_shape, copies_kv, whole),
                    ]
                } else {
                    // Gemma 3 projects all three before it norms two.
                    let q = projected("queries", query, None, q_shape, copies_q, whole);
                    let k = projected("keys", key, None, k_shape, copies_k, whole);
                    let v = projected("values", value, None, v_shape, copies_kv, whole);
                    let normed = |tape: &mut Tape, x: Tensor, norm: &Option<Norm>| match norm {
                        Some(norm) => tape.norm(&x, norm),
                        None => x,
                    };
                    let q = normed(tape, q, &self.q_norm);
                    let k = normed(tape, k, &self.k_norm);
                    [q, k, v]
                }
            }
            [all, ..] => Self::project_together(tape, x, all, run, plan),
            [] => [x.clone(), x.clone(), x.clone()],
        };
        (q, k, v)
    }

    /// Queries with a gate, keys that are values, too, or queries alone.
    fn project_some(&self, tape: &mut Tape, x: &Tensor, all: &[Linear], run: &Run, plan: &Plan<'_>) -> [Tensor; 3] {
        let dims = plan.dims;
        let q_shape = Shape::of(&[run.batch, run.tokens, dims.heads, dims.head_dim]);
        let k_shape = Shape::of(&[run.batch, run.tokens, dims.kv_heads, dims.head_dim]);
        let mut projected = |name, layer: Option<&Linear>, norm: &Option<Norm>, shape: Shape| {
            let flat = tape.linear(name, x, layer?);
            let heads = tape.view_with_copied_grad(&flat, shape);
            Some(match norm {
                Some(norm) => tape.norm(&heads, norm),
                None => heads,
            })
        };
        // The gate lies beside the queries, head by head; what is kept of it is what the output is multiplied with.
        let q = projected("queries", all.first(), &self.q_norm, q_shape);
        let k = projected("keys", all.get(1), &self.k_norm, k_shape);
        let v = projected("values", all.get(2), &None, k_shape);
        let nothing = |shape| Tensor { storage: None, ..x.view(shape).detached() };
        let q = q.unwrap_or_else(|| nothing(q_shape));
        let k = k.unwrap_or_else(|| nothing(k_shape));
        let v = v.unwrap_or_else(|| k.clone());
        [q, k, v]
    }

    fn project_together(tape: &mut Tape, x: &Tensor, all: &Linear, run: &Run, plan: &Plan<'_>) -> [Tensor; 3] {
        let dims = plan.dims;
        let joined = tape.linear("query, key and value", x, all);
        let q_shape = Shape::of(&[run.batch, run.tokens, dims.heads, dims.head_dim]);
        let k_shape = Shape::of(&[run.batch, run.tokens, dims.kv_heads, dims.head_dim]);
        if run.config.qkv == Qkv::ByHead {
            // The gradient of the pieces lies head by head, and is copied for the projection.
            let heads = tape.view_with_copied_grad(&joined, joined.shape);
            let mut parts = tape.split(&heads, &[q_shape, k_shape, k_shape]);
            let (Some(v), Some(k), Some(q)) = (parts.pop(), parts.pop(), parts.pop()) else {
                return [x.clone(), x.clone(), x.clone()];
            };
            return [q, k, v];
        }
        let dtype = x.dtype;
        let copies_kv = plan.copies_kv_grad(tape, dtype);
        let q = tape.slice(&joined, q_shape);
        let k = tape.slice(&joined, k_shape);
        let v = tape.slice(&joined, k_shape);
        [as_heads(tape, &q, q_shape, true), as_heads(tape, &k, k_shape, true), as_heads(tape, &v, k_shape, copies_kv)]
    }

    fn forward(
        &self,
        tape: &mut Tape,
        x: &Tensor,
        run: &Run,
        is_sliding: bool,
        cache: &mut Cache,
        past: &mut Past,
    ) -> Tensor {
        tape.part("attention");
        let config = &run.config;
        let dims = self.dims;
        let keys = match config.sliding_window {
            // A layer with a window keeps one token less than it once it is past the prompt.
            Some(window) if is_sliding && past.is_some() => dim("W", run.keys.size.min(window)),
            _ => run.keys,
        };
        let plan = Plan {
            dims,
            batch: run.batch,
            queries: run.tokens,
            keys,
            mask: if is_sliding && run.window_mask.is_some() { run.window_mask.as_ref() } else { run.mask.as_ref() },
            is_causal: true,
            dropout: config.attention_dropout,
            eager: config.eager_style(),
            cached: run.use_cache,
            is_packed: false,
            q_by_heads: !rotates_whole(config) || config.qkv == Qkv::Sliced,
            attention: config.attention_of(&run.setup),
        };
        let (mut q, mut k, mut v) = self.project(tape, x, run, &plan);
        tape.part("attention");
        if let Some(rotary) = run.rotary_of(is_sliding) {
            let turned = (rotate(tape, &q, rotary, config), rotate(tape, &k, rotary, config));
            (q, k) = turned;
        }
        if run.use_cache && self.shares_kv {
            cache.layers.push((k.detached(), v.detached()));
        } else if run.use_cache {
            let (past_keys, past_values) = past.take().unzip();
            let place = run.capacity.map_or(keys, |capacity| {
                dim(
                    "S_max",
                    match config.sliding_window {
                        Some(window) if is_sliding => capacity.min(window),
                        _ => capacity,
                    },
                )
            });
            let shape = Shape::of(&[run.batch, place, dims.kv_heads, dims.head_dim]);
            let keys = extend(tape, "keys in the cache", past_keys.as_ref(), &k, shape, k.dtype);
            drop(past_keys);
            let shape = shape.with_last(dims.value_dim);
            let values = extend(tape, "values in the cache", past_values.as_ref(), &v, shape, k.dtype);
            drop(past_values);
            (k, v) = (keys, values);
            cache.layers.push((k.detached(), v.detached()));
        }
        let held = (q.detached(), k.detached(), v.detached());
        let output = plan.run(tape, q, k, v);
        let mut output = output.view(Shape::of(&[run.batch, run.tokens, dims.output_width()]));
        if config.hybrid.query_gate {
            let gate = tape.alloc("attention: gate", output.shape, output.dtype);
            let opened = tape.activation_of_output("attention: gate", &gate);
            drop(gate);
            output = tape.mul("attention: gated output", &output, &opened);
        }
        let projected = tape.linear("attention: projection", &output, &self.output);
        drop((output, held));
        tape.module_output(&projected);
        projected
    }
}

/// Whether heads are rotated as a whole; else two parts are joined to a new tensor, which lies head by head.
fn rotates_whole(config: &Decoder) -> bool {
    config.rotary_dim >= config.head_dim && config.qkv != Qkv::ByHead
}

/// Rotary embedding of a query or key, of the whole head or of its first part.
fn rotate(tape: &mut Tape, x: &Tensor, rotary: &Rotary, config: &Decoder) -> Tensor {
    if rotates_whole(config) {
        let turned = tape.rotate(x, &rotary.cos, &rotary.sin);
        return if config.rotary_in_float32 { tape.to("rotary output, cast back", &turned, x.dtype) } else { turned };
    }
    let turned = tape.slice(x, x.shape.with_last(dim("rot", config.rotary_dim)));
    let passed = tape.slice(x, x.shape.with_last(dim("d-rot", config.head_dim.saturating_sub(config.rotary_dim))));
    let rotated = tape.rotate(&turned, &rotary.cos, &rotary.sin);
    tape.cat("rotary: both parts", &[&rotated, &passed], x.shape)
}

/// What the layers of a forward pass share.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) config: Rc<Decoder>,
    pub(crate) setup: Setup,
    pub(crate) batch: Dim,
    pub(crate) tokens: Dim,
    pub(crate) keys: Dim,
    pub(crate) rotary: Vec<Rotary>,
    pub(crate) mask: Option<Mask>,
    pub(crate) window_mask: Option<Mask>,
    pub(crate) use_cache: bool,
    pub(crate) capacity: Option<u64>,
    /// Positions, which every layer is given.
    pub(crate) _positions: Tensor,
}

impl Run {
    fn rotary_of(&self, is_sliding: bool) -> Option<&Rotary> {
        if is_sliding { self.rotary.last() } else { self.rotary.first() }
    }
}

impl Layer {
    fn build(builder: &mut Builder<'_>, config: &Rc<Decoder>, index: u64) -> Layer {
        let h = dim("h", config.hidden);
        let extras = extras(builder, config, Some(index), format!("model.layers.{index}"));
        builder.at(format!("model.layers.{index}.self_attn"));
        let attention = match (config.mixer(index), &config.hybrid.state, config.latent) {
            (Mixer::Nothing, ..) => AttentionWeights::Nothing,
            (mixer @ (Mixer::State | Mixer::Both), Some(state), _) => {
                let heads = (mixer == Mixer::Both).then(|| Box::new(HeadWeights::build(builder, config, index)));
                builder.at(format!("model.layers.{index}.{}", state.module));
                let state = Box::new(StateLayer::build(builder, config.hidden, state));
                match heads {
                    Some(heads) => AttentionWeights::Both(state, heads),
                    None => AttentionWeights::State(state),
                }
            }
            (_, _, Some(latent)) => AttentionWeights::Latent(Box::new(LatentAttention::build(
                builder,
                config,
                config.latent_of(index, latent),
            ))),
            _ => AttentionWeights::Heads(Box::new(HeadWeights::build(builder, config, index))),
        };
        builder.at(format!("model.layers.{index}.mlp"));
        let width = if config.shares_kv(index) { config.hybrid.shared_kv_width.max(1) } else { 1 };
        let mlp = match (config.feed(index), &config.experts) {
            (Feed::Nothing, _) => Mlp::Nothing,
            (Feed::Experts, Some(experts)) => Mlp::Experts(Box::new(ExpertLayer::build(builder, config, experts))),
            _ => Mlp::Dense(Box::new(DenseMlp::build(builder, config, config.intermediate.saturating_mul(width)))),
        };
        let count = match config.block {
            Block::Sandwich => 4,
            Block::ParallelOneNorm | Block::Single => 1,
            _ => 2,
        };
        builder.at(format!("model.layers.{index}"));
        let norms = (0..count).map(|_| norm(builder, config.norm, h)).collect();
        Layer { config: Rc::clone(config), extras, index, norms, attention, mlp }
    }

    fn attend(&self, tape: &mut Tape, x: &Tensor, run: &Run, cache: &mut Cache, past: &mut Past) -> Tensor {
        let is_sliding = repeating(&self.config.sliding_layers, self.index);
        match &self.attention {
            AttentionWeights::Nothing => x.clone(),
            AttentionWeights::State(state) => state.forward(tape, x, run.use_cache, cache, past),
            AttentionWeights::Both(state, heads) => {
                // Each has a multiple of the layer's input.
                let scaled = tape.scale("state: scaled input", x);
                let mut own = Cache::default();
                let mixed = state.forward(tape, &scaled, run.use_cache, &mut own, &mut None);
                drop(scaled);
                cache.of_states.extend(own.layers);
                let mixed = tape.scale("state: scaled output", &mixed);
                let scaled = tape.scale("attention: scaled input", x);
                let attended = heads.forward(tape, &scaled, run, is_sliding, cache, past);
                drop(scaled);
                let attended = tape.scale("attention: scaled output", &attended);
                tape.add("state and attention", &mixed, &attended)
            }
            AttentionWeights::Heads(heads) => heads.forward(tape, x, run, is_sliding, cache, past),
            AttentionWeights::Latent(latent) => latent.forward(tape, x, run, cache, past),
        }
    }

    fn feed(&self, tape: &mut Tape, x: &Tensor) -> Tensor {
        match &self.mlp {
            Mlp::Dense(mlp) => mlp.forward(tape, x),
            Mlp::Experts(experts) => experts.forward(tape, x),
            Mlp::Nothing => x.clone(),
        }
    }

    fn forward(&self, tape: &mut Tape, x: &Tensor, run: &Run, cache: &mut Cache, past: &mut Past) -> Tensor {
        let dropout = self.config.residual_dropout;
        let output = match (self.config.block, self.norms.as_slice()) {
            (Block::Pre, [before_attention, before_mlp]) => {
                let normed = tape.norm(x, before_attention);
                let attended = self.attend(tape, &normed, run, cache, past);
                drop(normed);
                let attended = self.drop_out(tape, attended, dropout);
                let x = tape.add("residual", x, &attended);
                drop(attended);
                let normed = tape.norm(&x, before_mlp);
                let fed = self.feed(tape, &normed);
                drop(normed);
                let fed = self.drop_out(tape, fed, dropout);
                tape.add("residual", &x, &fed)
            }
            (Block::Sandwich, [before_attention, after_attention, before_mlp, after_mlp]) => {
                let normed = tape.norm(x, before_attention);
                let attended = self.attend(tape, &normed, run, cache, past);
                drop(normed);
                let normed = tape.norm(&attended, after_attention);
                drop(attended);
                let x = tape.add("residual", x, &normed);
                drop(normed);
                let normed = tape.norm(&x, before_mlp);
                let fed = self.feed(tape, &normed);
                drop(normed);
                let normed = tape.norm(&fed, after_mlp);
                drop(fed);
                tape.add("residual", &x, &normed)
            }
            (Block::Post, [after_attention, after_mlp]) => {
                let attended = self.attend(tape, x, run, cache, past);
                let normed = tape.norm(&attended, after_attention);
                drop(attended);
                let x = tape.add("residual", x, &normed);
                drop(normed);
                let fed = self.feed(tape, &x);
                let normed = tape.norm(&fed, after_mlp);
                drop(fed);
                tape.add("residual", &x, &normed)
            }
            (Block::Single, [norm]) => {
                let normed = tape.norm(x, norm);
                let mixed = match (&self.attention, &self.mlp) {
                    (AttentionWeights::Nothing, _) => {
                        if run.use_cache {
                            cache
                                .layers
                                .push((normed.view(Shape::of(&[])).detached(), normed.view(Shape::of(&[])).detached()));
                        }
                        self.feed(tape, &normed)
                    }
                    _ => self.attend(tape, &normed, run, cache, past),
                };
                drop(normed);
                tape.add("residual", x, &mixed)
            }
            (Block::ParallelOneNorm, [norm]) => {
                let normed = tape.norm(x, norm);
                let attended = self.attend(tape, &normed, run, cache, past);
                let attended = self.drop_out(tape, attended, dropout);
                let fed = self.feed(tape, &normed);
                let fed = self.drop_out(tape, fed, dropout);
                let sum = tape.add("residual", &attended, &fed);
                tape.add("residual", &sum, x)
            }
            (Block::ParallelTwoNorms, [before_attention, before_mlp]) => {
                let normed = tape.norm(x, before_attention);
                let attended = self.attend(tape, &normed, run, cache, past);
                drop(normed);
                let attended = self.drop_out(tape, attended, dropout);
                let normed = tape.norm(x, before_mlp);
                let fed = self.feed(tape, &normed);
                drop(normed);
                let fed = self.drop_out(tape, fed, dropout);
                let sum = tape.add("residual", &fed, &attended);
                tape.add("residual", &sum, x)
            }
            _ => x.clone(),
        };
        let output = if self.extras.is_empty() {
            output
        } else {
            tape.part("mlp");
            tape.kernel("weights of the layer's own", &[&output], &self.extras, output.shape)
        };
        tape.module_output(&output);
        output
    }

    fn drop_out(&self, tape: &mut Tape, x: Tensor, p: f64) -> Tensor {
        let _ = self;
        if p > 0.0 { tape.dropout("residual", x, p) } else { x }
    }
}

impl DecoderModel {
    pub(crate) fn build(builder: &mut Builder<'_>, config: &Decoder) -> DecoderModel {
        let config = Rc::new(config.of_tensor_rank(builder.tape.tensor_ranks));
        let h = dim("h", config.hidden);
        let of_rank = builder.tape.of_rank("V", config.vocab);
        // Only an embedding that is the head is shared by tensor-parallel ranks.
        let v = if config.tied { of_rank } else { dim("V", config.vocab) };
        let ends = builder.tape.ends;
        let tokens = ends.first.then(|| builder.named("model.embed_tokens").parameter("embedding", &[v, h]));
        let layers =
            (0..config.layers).map(|index| builder.layer(|builder| Layer::build(builder, &config, index))).collect();
        builder.at("model");
        let last_norm = ends.last.then(|| norm(builder, config.norm, h));
        builder.at("");
        let head = match config.top {
            _ if !ends.last => None,
            Top::Nothing => None,
            Top::Labels { count, of_tokens } => {
                Some(builder.named("score").linear("head", Role::Head, dim("labels", count), h, of_tokens))
            }
            Top::Words => {
                let mut head = head(builder, tokens.as_ref().filter(|_| config.tied), of_rank, h);
                if config.head_bias {
                    head.bias = Some(builder.parameter("head", &[of_rank]));
                }
                Some(head.cut(Cut::GatheredOutputs))
            }
        };
        let extras = extras(builder, &config, None, "model".to_owned());
        builder.at("");
        DecoderModel { extras, config, tokens, layers, last_norm, head }
    }

    #[expect(clippy::too_many_arguments, reason = "what a forward pass has at hand")]
    fn prepare(
        &self,
        tape: &mut Tape,
        setup: &Setup,
        batch: Dim,
        tokens: Dim,
        call: &Call,
        dtype: DType,
        positions: Tensor,
    ) -> Run {
        let config = &self.config;
        let keys = dim("S", tokens.size.saturating_add(call.past_tokens));
        let attends = Setup { attention: config.attention_of(setup), ..*setup };
        let mask = eager_mask(tape, &attends, batch, tokens, keys);
        let has_window = config.sliding_layers.iter().any(|&slides| slides);
        let window_mask = if has_window && mask.is_none() {
            let near = dim("W", keys.size.min(config.sliding_window.unwrap_or(u64::MAX)));
            let near = if call.past_tokens > 0 { near } else { keys };
            window_mask(tape, batch, tokens, near, config.sliding_window, call.by_generate)
        } else if has_window {
            eager_mask(tape, &attends, batch, tokens, keys)
        } else {
            None
        };
        let size = dim("d", config.latent.map_or(config.rotary_dim, |latent| latent.rope_dim));
        let tables = if config.rotary_dim == 0 { 0 } else { config.rotary_tables };
        let dtype = if config.rotary_in_float32 { DType::Float32 } else { dtype };
        let rows = if call.by_generate { Shape::of(&[batch, tokens]) } else { Shape::of(&[tokens]) };
        let rotary = (0..tables).map(|_| rotary_tables(tape, rows, size, dtype)).collect();
        // The rotary module's outputs are shared by the sequences; for a token it gives as much as its table is wide.
        tape.module_outputs = tape.module_outputs.saturating_add(
            batch.size.saturating_mul(tokens.size).saturating_mul(size.size.saturating_mul(2)).saturating_mul(tables),
        );
        let use_cache = call.use_cache && !(setup.checkpointing && tape.is_training());
        Run {
            config: Rc::clone(config),
            setup: *setup,
            batch,
            tokens,
            keys,
            rotary,
            mask,
            window_mask,
            use_cache,
            capacity: call.capacity,
            _positions: positions,
        }
    }
}

impl Model for DecoderModel {
    fn inputs(&self, tape: &mut Tape, setup: &Setup) -> Vec<Tensor> {
        token_ids(tape, setup)
    }

    fn loss_style(&self) -> Option<LossStyle> {
        (self.config.top != Top::Nothing).then_some(LossStyle::Causal)
    }

    fn cached_tokens(&self, layer: usize, tokens: u64) -> u64 {
        match self.config.sliding_window {
            _ if matches!(self.config.mixer(layer as u64), Mixer::State | Mixer::Nothing) => 1,
            Some(window) if repeating(&self.config.sliding_layers, layer as u64) => tokens.min(window),
            _ => tokens,
        }
    }

    fn widths(&self) -> (u64, u64) {
        (self.config.hidden, self.config.vocab)
    }

    fn buffer_bytes(&self) -> u64 {
        let size = self.config.latent.map_or(self.config.rotary_dim, |latent| latent.rope_dim);
        size.saturating_mul(4).saturating_mul(self.config.rotary_tables)
    }

    fn forward(&self, tape: &mut Tape, setup: &Setup, inputs: &[Tensor], call: &Call) -> Outputs {
        let config = &self.config;
        let (batch, tokens) = batch_and_tokens(inputs);
        tape.part("embedding");
        let h = dim("h", config.hidden);
        let mut x = match &self.tokens {
            Some(table) if config.tied => tape.embedding_of_ranks("token embeddings", &inputs[0], table, h),
            Some(table) => tape.embedding("token embeddings", &inputs[0], table, h),
            None => inputs[0].clone(),
        };
        if config.embedding_scale && self.tokens.is_some() {
            x = tape.scale("scaled embeddings", &x);
        }
        if !self.extras.is_empty() {
            x = tape.kernel("weights of the model's own", &[&x], &self.extras, x.shape);
        }
        let features = std::mem::take(&mut tape.joined);
        if !features.is_empty() {
            let all: Vec<&Tensor> = [&x].into_iter().chain(&features).collect();
            x = tape.kernel("embeddings with those of images", &all, &[], x.shape);
        }
        drop(features);
        let embedded = x.detached();
        let ids = if call.by_generate { inputs[0].detached() } else { position_ids(tape, tokens) };
        let run = self.prepare(tape, setup, batch, tokens, call, x.dtype, ids);
        x = if config.embedding_dropout > 0.0 && self.tokens.is_some() {
            tape.dropout("embedding", x, config.embedding_dropout)
        } else {
            x
        };
        let mut cache = Cache::default();
        for (index, layer) in self.layers.iter().enumerate() {
            let mut past = call.take_past(index);
            x = tape.grouped(layer.group, &x, |tape, x| {
                if setup.checkpointing && tape.is_training() {
                    let (layer, run) = (Rc::clone(layer), run.clone());
                    tape.checkpoint(x, move |tape, x| layer.forward(tape, x, &run, &mut Cache::default(), &mut None))
                } else {
                    layer.forward(tape, x, &run, &mut cache, &mut past)
                }
            });
        }
        let last = match &self.last_norm {
            Some(norm) => tape.norm(&x, norm),
            None => x.clone(),
        };
        drop((x, embedded, run));
        causal_outputs(tape, last, self.head.as_ref(), config.logit_cap, call, cache)
    }
}
