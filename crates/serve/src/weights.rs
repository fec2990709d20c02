//! The weights of a model, matrix by matrix, with how tensor parallelism divides each.
//!
//! # Source
//! vLLM, `vllm/model_executor/layers/linear.py` (column, row and QKV parallel layers; a KV head is repeated where there are fewer than
//! ranks), `vocab_parallel_embedding.py` (the vocabulary is padded to 64 and divided); norms and routers are on every rank.

use highwater_estimate::WeightKind;
use serde_json::Value;

use crate::arithmetic::product;
use crate::config::Fields;
use crate::error::ServeError;
use crate::model::Cache;
use crate::quant::Quant;

/// All weights of a model.
pub type WeightList = Vec<Weight>;

/// A part of the model, as the engine's table names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The table of embeddings.
    Embedding,
    /// A layer's attention, or what stands in its place.
    Attention,
    /// A layer's MLP.
    Mlp,
    /// A layer's experts.
    Experts,
    /// The head.
    Head,
    /// The encoder of images or sound.
    Encoder,
}

/// How ranks divide a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Each rank has all of it.
    Whole,
    /// Each of the tensor-parallel ranks has its share.
    Ranks,
    /// Heads of keys and values: at least one a rank.
    Heads(u64),
}

/// A weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// The layer that it is of.
    pub layer: Option<u32>,
    /// The part.
    pub part: Part,
    /// How ranks divide it.
    pub split: Split,
    /// As loaded, all ranks together.
    pub bytes: u64,
    /// Outputs and inputs of a product, 0 for what is none.
    pub sides: (u64, u64),
}

impl Weight {
    /// Bytes on one of so many tensor-parallel ranks.
    pub fn on_rank(&self, ranks: u64) -> u64 {
        match self.split {
            Split::Whole => self.bytes,
            Split::Ranks => self.bytes.div_ceil(ranks.max(1)),
            Split::Heads(count) => self.bytes.div_ceil(ranks.clamp(1, count.max(1))),
        }
    }
}

struct Builder<'a> {
    list: WeightList,
    quant: &'a Quant,
    element: u64,
    layer: Option<u32>,
}

impl Builder<'_> {
    fn linear(&mut self, part: Part, module: &str, split: Split, outputs: u64, inputs: u64) {
        let bytes = self.quant.bytes(module, WeightKind::Linear, &[outputs, inputs], self.element);
        self.list.push(Weight { layer: self.layer, part, split, bytes, sides: (outputs, inputs) });
    }

    fn experts(&mut self, module: &str, count: u64, outputs: u64, inputs: u64) {
        let bytes = self.quant.bytes(module, WeightKind::Experts, &[count, outputs, inputs], self.element);
        self.list.push(Weight { layer: self.layer, part: Part::Experts, split: Split::Ranks, bytes, sides: (0, 0) });
    }

    fn plain(&mut self, part: Part, split: Split, numbers: u64) {
        let bytes = numbers.saturating_mul(self.element);
        self.list.push(Weight { layer: self.layer, part, split, bytes, sides: (0, 0) });
    }
}

/// The weights of a configuration, and the name of their quantisation.
///
/// # Errors
/// If a size is nonsense, or the quantisation is unknown.
pub(crate) fn parts(
    all: Fields<'_>,
    fields: Fields<'_>,
    layers: &[Cache],
    hidden: u64,
    element: u64,
) -> Result<(WeightList, String), ServeError> {
    let quant = Quant::of(all)?;
    let mut build = Builder { list: Vec::new(), quant: &quant, element, layer: None };
    let vocab = fields.size_or(&["vocab_size", "padded_vocab_size"], all.size_or(&["vocab_size"], 0)?)?;
    let tied = fields.flag("tie_word_embeddings", all.flag("tie_word_embeddings", is_tied_family(fields)));
    build.plain(Part::Embedding, Split::Ranks, product([vocab.next_multiple_of(64), hidden]));
    for (at, cache) in layers.iter().enumerate() {
        build.layer = u32::try_from(at).ok();
        mixer(&mut build, fields, cache, hidden, at)?;
        let is_alone = matches!(fields.word(&["model_type"]), Some("mamba" | "mamba2" | "falcon_mamba"));
        if !is_alone {
            mlp(&mut build, fields, hidden, at)?;
        }
        build.plain(Part::Attention, Split::Whole, hidden.saturating_mul(2));
    }
    build.layer = None;
    if !tied {
        let head = quant.bytes("lm_head", WeightKind::Head, &[vocab.next_multiple_of(64), hidden], element);
        build.list.push(Weight { layer: None, part: Part::Head, split: Split::Ranks, bytes: head, sides: (0, 0) });
    }
    build.plain(Part::Head, Split::Whole, hidden);
    for name in ["vision_config", "audio_config"] {
        if let Some(tower) = all.object(name) {
            encoder(&mut build, tower, hidden)?;
        }
    }
    let label = quant.label();
    Ok((build.list, label))
}

/// Families whose configurations leave the flag out where head and embedding are one.
fn is_tied_family(fields: Fields<'_>) -> bool {
    let model_type = fields.word(&["model_type"]).unwrap_or_default();
    model_type.starts_with("gemma") || matches!(model_type, "gpt2" | "cohere" | "cohere2" | "command_r")
}

/// Attention, or the recurrent layer in its place.
fn mixer(build: &mut Builder<'_>, fields: Fields<'_>, cache: &Cache, hidden: u64, at: usize) -> Result<(), ServeError> {
    let heads = fields.size_or(&["num_attention_heads", "n_head", "n_heads"], 1)?;
    let name = |module: &str| format!("model.layers.{at}.self_attn.{module}");
    let part = Part::Attention;
    match cache {
        Cache::Full(kv) | Cache::Window(kv, _) => {
            let gate = if fields.is("attn_output_gate") || is_gated_family(fields) { 2 } else { 1 };
            let query = product([heads, kv.key]);
            let keys = product([kv.count, kv.key]);
            let values = product([kv.count, kv.value]);
            build.linear(part, &name("q_proj"), Split::Ranks, query.saturating_mul(gate), hidden);
            build.linear(part, &name("k_proj"), Split::Heads(kv.count), keys, hidden);
            if !fields.is("attention_k_eq_v") || matches!(cache, Cache::Window(..)) {
                build.linear(part, &name("v_proj"), Split::Heads(kv.count), values, hidden);
            }
            build.linear(part, &name("o_proj"), Split::Ranks, hidden, product([heads, kv.value]));
            let has_bias =
                fields.is("attention_bias") || fields.is("qkv_bias") || fields.word(&["model_type"]) == Some("qwen2");
            if has_bias {
                build.plain(part, Split::Ranks, query.saturating_add(keys).saturating_add(values));
            }
        }
        Cache::Latent { latent, rope, indexer } => {
            let plain = fields.size_or(&["qk_nope_head_dim"], 128)?;
            let value = fields.size_or(&["v_head_dim"], 128)?;
            let query = product([heads, plain.saturating_add(*rope)]);
            match fields.size_if(&["q_lora_rank"])? {
                Some(rank) if rank > 0 => {
                    build.linear(part, &name("q_a_proj"), Split::Whole, rank, hidden);
                    build.linear(part, &name("q_b_proj"), Split::Ranks, query, rank);
                    if let Some(width) = indexer {
                        let count = fields.size_or(&["index_n_heads"], 64)?;
                        build.linear(part, &name("indexer.wq_b"), Split::Whole, product([count, *width]), rank);
                        build.linear(part, &name("indexer.wk"), Split::Whole, *width, hidden);
                    }
                }
                _ => build.linear(part, &name("q_proj"), Split::Ranks, query, hidden),
            }
            build.linear(part, &name("kv_a_proj_with_mqa"), Split::Whole, latent.saturating_add(*rope), hidden);
            let up = product([heads, plain.saturating_add(value)]);
            build.linear(part, &name("kv_b_proj"), Split::Ranks, up, *latent);
            // vLLM keeps the up-projection a second time, in the two halves that it multiplies into queries and outputs.
            build.plain(part, Split::Ranks, product([up, *latent]));
            build.linear(part, &name("o_proj"), Split::Ranks, hidden, product([heads, value]));
        }
        Cache::State(state) => {
            let name = |module: &str| format!("model.layers.{at}.linear_attn.{module}");
            let (inner, gates) = match fields.size_if(&["linear_num_value_heads"])? {
                Some(values) => {
                    (product([values, fields.size_or(&["linear_value_head_dim"], 128)?]), values.saturating_mul(2))
                }
                None => {
                    let width = fields.size_or(&["mamba_d_state", "ssm_state_size", "state_size"], 16)?.max(1);
                    (state.recurrent / width, fields.size_or(&["mamba_num_heads", "mamba_n_heads", "num_heads"], 0)?)
                }
            };
            build.linear(
                part,
                &name("in_proj"),
                Split::Ranks,
                state.channels.saturating_add(inner).saturating_add(gates),
                hidden,
            );
            build.linear(part, &name("out_proj"), Split::Ranks, hidden, inner);
            build.plain(part, Split::Ranks, product([state.channels, state.kernel]));
        }
        Cache::Nothing => {
            // A layer that uses another's cache still computes its queries.
            if fields.size_or(&["num_kv_shared_layers"], 0)? > 0 {
                let size = fields.size_or(&["head_dim"], 0)?;
                build.linear(part, &name("q_proj"), Split::Ranks, product([heads, size]), hidden);
                build.linear(part, &name("o_proj"), Split::Ranks, hidden, product([heads, size]));
            }
        }
    }
    Ok(())
}

/// Families whose queries come with a gate of the same width.
fn is_gated_family(fields: Fields<'_>) -> bool {
    let model_type = fields.word(&["model_type"]).unwrap_or_default();
    model_type.starts_with("qwen3_next") || model_type.starts_with("qwen3_5")
}

/// A layer's MLP or experts.
fn mlp(build: &mut Builder<'_>, fields: Fields<'_>, hidden: u64, at: usize) -> Result<(), ServeError> {
    let layer = at as u64;
    let module = |name: &str| format!("model.layers.{at}.mlp.{name}");
    let width = match fields.any(&["intermediate_size"]).and_then(|(_, value)| value.as_array()) {
        Some(list) => list.get(at).and_then(Value::as_u64).unwrap_or(0),
        None => {
            fields.size_if(&["intermediate_size", "ffn_dim", "n_inner", "d_ff"])?.unwrap_or(hidden.saturating_mul(4))
        }
    };
    // Nemotron's hybrids have an MLP only in layers of their own.
    if let Some(pattern) = fields.word(&["hybrid_override_pattern"]) {
        return match pattern.chars().nth(at) {
            Some('-') => {
                dense(build, fields, &module, width, hidden);
                Ok(())
            }
            Some('E') => experts(build, fields, &module, hidden),
            _ => Ok(()),
        };
    }
    let count = fields.size_if(&["num_experts", "num_local_experts", "n_routed_experts"])?.unwrap_or(0);
    let first = fields.size_or(&["first_k_dense_replace"], 0)?;
    let step = fields
        .size_or(&["decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq", "expert_layer_period"], 1)
        .unwrap_or(1)
        .max(1);
    let offset = fields.size_or(&["expert_layer_offset"], step - 1)?;
    let is_dense = fields.numbers("mlp_only_layers").is_some_and(|layers| layers.contains(&layer));
    let chosen = fields.numbers("moe_layers");
    let is_sparse = count > 1
        && layer >= first
        && !is_dense
        && chosen.map_or(layer % step == offset % step, |layers| layers.contains(&layer));
    let has_both = fields.is("enable_moe_block");
    if is_sparse {
        experts(build, fields, &module, hidden)?;
    }
    if !is_sparse || has_both {
        let width = match fields.size_if(&["intermediate_size_mlp"])? {
            Some(dense) if count > 1 => dense,
            _ => width,
        };
        dense(build, fields, &module, width, hidden);
    }
    Ok(())
}

fn dense(build: &mut Builder<'_>, fields: Fields<'_>, module: &dyn Fn(&str) -> String, width: u64, hidden: u64) {
    if is_gated(fields) {
        build.linear(Part::Mlp, &module("gate_proj"), Split::Ranks, width, hidden);
    }
    build.linear(Part::Mlp, &module("up_proj"), Split::Ranks, width, hidden);
    build.linear(Part::Mlp, &module("down_proj"), Split::Ranks, hidden, width);
}

fn experts(
    build: &mut Builder<'_>,
    fields: Fields<'_>,
    module: &dyn Fn(&str) -> String,
    hidden: u64,
) -> Result<(), ServeError> {
    let count = fields.size(&["num_experts", "num_local_experts", "n_routed_experts"])?;
    let width = fields.size(&["moe_intermediate_size", "intermediate_size"])?;
    build.plain(Part::Experts, Split::Whole, product([count, hidden]));
    let gates = if is_gated(fields) { 2 } else { 1 };
    build.experts(&module("experts.gate_up_proj"), count, width.saturating_mul(gates), hidden);
    build.experts(&module("experts.down_proj"), count, hidden, width);
    let shared = match fields.size_if(&[
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
    ])? {
        Some(width) => width,
        None => fields
            .size_or(&["n_shared_experts", "num_shared_experts"], u64::from(fields.is_llama4()))?
            .saturating_mul(width),
    };
    if shared > 0 {
        let module = |name: &str| module(&format!("shared_expert.{name}"));
        dense(build, fields, &module, shared, hidden);
    }
    Ok(())
}

impl Fields<'_> {
    /// Llama 4: every token goes to one more expert.
    fn is_llama4(self) -> bool {
        self.word(&["model_type"]).is_some_and(|model_type| model_type.starts_with("llama4"))
    }
}

/// Whether the MLP has a gate: all but the families that predate it, and those whose activation is a squared `ReLU`.
fn is_gated(fields: Fields<'_>) -> bool {
    let activation =
        fields.word(&["hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act"]).unwrap_or("silu");
    let model_type = fields.word(&["model_type"]).unwrap_or_default();
    let is_plain = matches!(
        model_type,
        "gpt2"
            | "gpt_neox"
            | "gptj"
            | "phi"
            | "opt"
            | "bloom"
            | "falcon"
            | "starcoder2"
            | "gpt_bigcode"
            | "stablelm_epoch"
            | "nemotron"
            | "mpt"
    );
    !is_plain && !matches!(activation, "relu2" | "gelu_new" | "relu")
}

/// An encoder of images or sound, by its own sizes.
fn encoder(build: &mut Builder<'_>, tower: Fields<'_>, hidden: u64) -> Result<(), ServeError> {
    let Some(width) = tower.size_if(&["hidden_size", "embed_dim", "d_model"])?.filter(|width| *width > 0) else {
        return Ok(());
    };
    let layers = tower.size_or(&["num_hidden_layers", "depth", "encoder_layers"], 0)?.min(4096);
    let inner = tower.size_or(&["intermediate_size", "encoder_ffn_dim"], width.saturating_mul(4))?;
    let model_type = tower.word(&["model_type"]).unwrap_or_default();
    let products = if matches!(model_type, "pixtral" | "qwen2_5_vl") { 3 } else { 2 };
    let layer = product([4, width, width]).saturating_add(product([products, width, inner]));
    build.plain(Part::Encoder, Split::Ranks, layer.saturating_mul(layers));
    let patch = tower.size_or(&["patch_size"], 14)?;
    build.plain(Part::Encoder, Split::Whole, product([patch, patch, 3, width]));
    // The projector: patches are merged, then two products into the language model's width.
    let merged = tower.size_or(&["spatial_merge_size"], 1)?.saturating_pow(2).saturating_mul(width);
    build.plain(Part::Encoder, Split::Ranks, product([merged, hidden]).saturating_add(product([hidden, hidden])));
    Ok(())
}
