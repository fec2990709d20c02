//! `DeepSeek`'s latent attention.
//!
//! # Source
//! transformers 5.17, `models/deepseek_v3/modeling_deepseek_v3.py`, `models/deepseek_v2/modeling_deepseek_v2.py`.

use super::Past;
use super::builder::{Builder, Role};
use super::decoder::Run;
use super::heads::{Cache, HeadDims, Plan, Rotary, extend};
use crate::architecture::{Decoder, Latent};
use crate::ops::{EagerStyle, Linear, Norm, NormKind};
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

pub(crate) struct LatentAttention {
    latent: Latent,
    /// Down, norm, up; or one product.
    q_down: Option<(Linear, Norm)>,
    q_up: Linear,
    kv_down: Linear,
    kv_norm: Norm,
    kv_up: Linear,
    output: Linear,
}

impl LatentAttention {
    pub(crate) fn build(builder: &mut Builder<'_>, config: &Decoder, latent: Latent) -> LatentAttention {
        let h = dim("h", config.hidden);
        let of_heads = |symbol, size: u64| dim(symbol, config.heads.saturating_mul(size));
        let q = of_heads("nh(dn+dr)", latent.nope_dim.saturating_add(latent.rope_dim));
        let (q_rank, kv_rank) = (dim("rq", latent.q_rank), dim("rkv", latent.kv_rank));
        let q_down = (latent.q_rank > 0).then(|| {
            let down = builder.named("q_a_proj").linear("attention", Role::QueryValue, q_rank, h, config.qkv_bias);
            (down, builder.named("q_a_layernorm").norm("norm", NormKind::RmsLlama, q_rank, false))
        });
        let q_up = builder.named(if latent.q_rank > 0 { "q_b_proj" } else { "q_proj" }).linear(
            "attention",
            Role::QueryValue,
            q,
            if latent.q_rank > 0 { q_rank } else { h },
            false,
        );
        let joined = dim("rkv+dr", latent.kv_rank.saturating_add(latent.rope_dim));
        LatentAttention {
            latent,
            q_down,
            q_up,
            kv_down: builder.named("kv_a_proj_with_mqa").linear(
                "attention",
                Role::Attention,
                joined,
                h,
                config.qkv_bias,
            ),
            kv_norm: builder.named("kv_a_layernorm").norm("norm", NormKind::RmsLlama, kv_rank, false),
            kv_up: builder.named("kv_b_proj").linear(
                "attention",
                Role::QueryValue,
                of_heads("nh(dn+dv)", latent.nope_dim.saturating_add(latent.value_dim)),
                kv_rank,
                false,
            ),
            output: builder.named("o_proj").linear(
                "attention",
                Role::Attention,
                h,
                of_heads("nh·dv", latent.value_dim),
                config.output_bias,
            ),
        }
    }

    fn dims(&self, config: &Decoder) -> HeadDims {
        let heads = dim("nh", config.heads);
        HeadDims {
            heads,
            kv_heads: heads,
            head_dim: dim("dn+dr", self.latent.nope_dim.saturating_add(self.latent.rope_dim)),
            value_dim: dim("dv", self.latent.value_dim),
        }
    }

    #[expect(clippy::similar_names, reason = "queries, keys and values, each with and without rotation")]
    pub(crate) fn forward(&self, tape: &mut Tape, x: &Tensor, run: &Run, cache: &mut Cache, past: &mut Past) -> Tensor {
        tape.part("attention");
        let config = &run.config;
        let dims = self.dims(config);
        let plan = Plan {
            dims,
            batch: run.batch,
            queries: run.tokens,
            keys: run.keys,
            mask: run.mask.as_ref(),
            is_causal: true,
            dropout: config.attention_dropout,
            eager: EagerStyle { softmax_in_float32: true, scales: true, soft_cap: false },
            cached: false,
            is_packed: false,
            q_by_heads: true,
            attention: run.setup.attention,
        };
        let (heads, rope, nope) = (dims.heads, dim("dr", self.latent.rope_dim), dim("dn", self.latent.nope_dim));
        let per_head = |last: Dim| Shape::of(&[run.batch, run.tokens, heads, last]);
        let flat = match &self.q_down {
            None => tape.linear("queries", x, &self.q_up),
            Some((down, norm)) => {
                let low = tape.linear("queries, low rank", x, down);
                let normed = tape.norm(&low, norm);
                drop(low);
                tape.part("attention");
                tape.linear("queries", &normed, &self.q_up)
            }
        };
        let q = tape.view_with_copied_grad(&flat, per_head(dims.head_dim));
        drop(flat);
        let mut q_parts = tape.split(&q, &[per_head(nope), per_head(rope)]);
        drop(q);
        let joined = tape.linear("keys and values, low rank", x, &self.kv_down);
        let token = |last: Dim| Shape::of(&[run.batch, run.tokens, last]);
        let mut kv_parts = tape.split(&joined, &[token(dim("rkv", self.latent.kv_rank)), token(rope)]);
        drop(joined);
        let (Some(k_rope), Some(low), Some(q_rope), Some(q_nope)) =
            (kv_parts.pop(), kv_parts.pop(), q_parts.pop(), q_parts.pop())
        else {
            return x.clone();
        };
        let mut low = {
            let normed = tape.norm(&low, &self.kv_norm);
            drop(low);
            normed
        };
        tape.part("attention");
        let (q_rope, mut k_rope) = match run.rotary.first() {
            Some(rotary) => (rotate_pairs(tape, &q_rope, rotary), rotate_pairs(tape, &k_rope, rotary)),
            None => (q_rope, k_rope),
        };
        if run.use_cache {
            // The latents are cached, not the heads made of them.
            let (past_keys, past_values) = past.take().unzip();
            let shape = |last| Shape::of(&[run.batch, run.keys, last]);
            let lows =
                extend(tape, "latents in the cache", past_keys.as_ref(), &low, shape(low.shape.last()), low.dtype);
            drop(past_keys);
            let ropes =
                extend(tape, "rotated keys in the cache", past_values.as_ref(), &k_rope, shape(rope), low.dtype);
            drop(past_values);
            (low, k_rope) = (lows, ropes);
            cache.layers.push((low.detached(), k_rope.detached()));
        }
        let q = tape.cat("queries, both parts", &[&q_nope, &q_rope], per_head(dims.head_dim));
        let all_keys = |last: Dim| Shape::of(&[run.batch, run.keys, heads, last]);
        let value = dims.value_dim;
        let up = tape.linear("keys and values", &low, &self.kv_up);
        let up = {
            let split = tape.view_with_copied_grad(&up, all_keys(dim("dn+dv", nope.size.saturating_add(value.size))));
            drop(up);
            split
        };
        let mut up_parts = tape.split(&up, &[all_keys(nope), all_keys(value)]);
        drop(up);
        let (Some(v), Some(k_nope)) = (up_parts.pop(), up_parts.pop()) else { return x.clone() };
        let spread = tape.expand(&k_rope, all_keys(rope));
        let k = tape.cat("keys, both parts", &[&k_nope, &spread], all_keys(dims.head_dim));
        let held = (q.detached(), k.detached(), v.detached());
        let output = plan.run(tape, q, k, v);
        let output = output.view(token(dim("nh·dv", heads.size.saturating_mul(value.size))));
        let projected = tape.linear("attention: projection", &output, &self.output);
        drop((output, held, q_nope, q_rope, k_nope, k_rope, spread, low));
        tape.module_output(&projected);
        projected
    }
}

/// Rotation of interleaved pairs: `cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin])`.
fn rotate_pairs(tape: &mut Tape, x: &Tensor, rotary: &Rotary) -> Tensor {
    let half = x.shape.with_last(dim("dr/2", x.shape.last().size / 2));
    let even = tape.slice(x, half);
    let odd = tape.slice(x, half);
    let mut combined = |a: &Tensor, b: &Tensor| {
        let cosine = tape.mul("rotary: by the cosine", a, &rotary.cos);
        let sine = tape.mul("rotary: by the sine", b, &rotary.sin);
        tape.add("rotary: half", &cosine, &sine)
    };
    let (first, second) = (combined(&even, &odd), combined(&odd, &even));
    tape.cat("rotary output", &[&first, &second], x.shape)
}
