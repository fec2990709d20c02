//! Families that a row of the table cannot describe: layers that differ, recurrent states, weights that only one
//! family has.
//!
//! # Source
//! transformers 5.23, `models/*/modeling_*.py`: names and sizes of the parameters.

use serde_json::Value;

use super::config::choosable;
use super::fields::{ConfigError, Fields};
use crate::architecture::{Decoder, Experts, QkNorm};
use crate::hybrid::{Extra, Feed, GlobalHeads, Mixer, State};
use crate::quantization::WeightKind;

/// Adds the parts that only this family has to a decoder.
///
/// # Errors
/// If a field holds nonsense, or a value that is not known.
pub(super) fn amend(model_type: &str, fields: &mut Fields<'_>, decoder: &mut Decoder) -> Result<(), ConfigError> {
    match model_type {
        "gpt_oss" => {
            decoder.hybrid.sinks = true;
            if let Some(experts) = &mut decoder.experts {
                experts.biases = true;
            }
        }
        "llama4_text" | "llama4" => llama4(fields, decoder)?,
        "qwen3_next" | "qwen3_5_text" | "qwen3_5_moe_text" => gated_delta(model_type, fields, decoder)?,
        "glm4_moe_lite" | "mistral4" => sparse_layers(fields, decoder),
        "kimi_linear" => kimi_linear(fields, decoder)?,
        "mimo_v2_flash" => mimo(fields, decoder)?,
        "minimax_m3" | "minimax_m3_vl_text" => minimax_m3(fields, decoder)?,
        "glm4_moe" => {
            if fields.flag(&["use_qk_norm"], false)? {
                decoder.qk_norm = QkNorm::PerHead;
            }
            sparse_layers(fields, decoder);
        }
        "deepseek_v32" | "glm_moe_dsa" => {
            let heads = fields.count(&["index_n_heads"], if model_type == "glm_moe_dsa" { 32 } else { 64 })?;
            let size = fields.count(&["index_head_dim"], 128)?;
            if let Some(latent) = &mut decoder.latent {
                latent.indexer = (heads, size);
            }
            // Layers may use what the indexer of an earlier one found.
            if let Some(types) = fields.words(&["indexer_types"]) {
                decoder.hybrid.index_dims = types.iter().map(|kind| if *kind == "full" { size } else { 0 }).collect();
            }
            sparse_layers(fields, decoder);
        }
        "cohere" if fields.flag(&["use_qk_norm"], false)? => {
            let sizes = [("self_attn.q_norm", decoder.heads), ("self_attn.k_norm", decoder.kv_heads)];
            for (layer, (name, heads)) in each_layer(decoder.layers, &sizes) {
                own(decoder, Some(layer), name, WeightKind::Norm, &[heads, decoder.head_dim]);
            }
        }
        "stablelm" => {
            decoder.qkv_bias = fields.flag(&["use_qkv_bias"], false)?;
            if fields.flag(&["qk_layernorm"], false)? || fields.flag(&["use_parallel_residual"], false)? {
                return Err(not_computed(model_type, "`qk_layernorm` and `use_parallel_residual` are not supported"));
            }
        }
        // Its attention divides the hidden size, whatever `head_dim` says.
        "qwen2_vl" | "qwen2_vl_text" | "qwen2_5_vl" | "qwen2_5_vl_text" => {
            decoder.head_dim = super::config::heads_divide(decoder.hidden, decoder.heads)?;
            decoder.rotary_dim = decoder.head_dim;
        }
        "starcoder2" | "ernie4_5" => {
            let bias = fields.flag(&["use_bias"], model_type == "starcoder2")?;
            (decoder.qkv_bias, decoder.output_bias, decoder.mlp_bias) = (bias, bias, bias);
        }
        "seed_oss" => decoder.output_bias = fields.flag(&["attention_out_bias"], false)?,
        "phimoe" => decoder.head_bias = fields.flag(&["lm_head_bias"], false)?,
        "jamba" => jamba(fields, decoder)?,
        "mamba" | "falcon_mamba" => {
            let inner = fields.count_if(&["intermediate_size"])?;
            let inner = inner.unwrap_or(decoder.hidden.saturating_mul(fields.count_if(&["expand"])?.unwrap_or(2)));
            let sizes = Mamba1 {
                inner,
                state: fields.count_if(&["state_size"])?.unwrap_or(16),
                kernel: fields.count_if(&["conv_kernel"])?.unwrap_or(4),
                rank: rank(fields, "time_step_rank", decoder.hidden)?,
                bias: fields.flag(&["use_bias"], false)?,
                conv_bias: fields.flag(&["use_conv_bias"], true)?,
            };
            all_states(fields, decoder, sizes.state("mixer", false));
        }
        "mamba2" => {
            let inner = decoder.hidden.saturating_mul(fields.count_if(&["expand"])?.unwrap_or(2));
            let sizes = Mamba2 {
                inner,
                heads: fields.count(&["num_heads"], 128)?,
                state: fields.count_if(&["state_size"])?.unwrap_or(128),
                groups: fields.count_if(&["n_groups"])?.unwrap_or(8),
                kernel: fields.count_if(&["conv_kernel"])?.unwrap_or(4),
                bias: fields.flag(&["use_bias"], false)?,
                conv_bias: fields.flag(&["use_conv_bias"], true)?,
            };
            all_states(fields, decoder, sizes.state("mixer"));
        }
        "nemotron_h" => nemotron_h(fields, decoder)?,
        "granitemoehybrid" => granite_hybrid(fields, decoder)?,
        "falcon_h1" => falcon_h1(fields, decoder)?,
        "rwkv" => rwkv(fields, decoder)?,
        "gemma3n_text" => gemma3n(fields, decoder)?,
        "gemma4_text" => gemma4(fields, decoder)?,
        "cohere2" => {
            // A pattern of four, where the configuration has no `layer_types`.
            if fields.any(&["layer_types", "sliding_window_pattern"]).is_none() {
                decoder.sliding_layers = vec![true, true, true, false];
            }
            decoder.sliding_window = decoder.sliding_window.or(Some(4096));
        }
        _ => {}
    }
    Ok(())
}

fn not_computed(name: &str, reason: &str) -> ConfigError {
    ConfigError::NotComputed { name: name.to_owned(), reason: reason.to_owned() }
}

fn own(decoder: &mut Decoder, layer: Option<u64>, name: &'static str, kind: WeightKind, shape: &[u64]) {
    decoder.hybrid.extras.push(Extra { layer, name, kind, shape: shape.to_vec() });
}

fn each_layer<T: Copy>(layers: u64, list: &[T]) -> Vec<(u64, T)> {
    (0..layers).flat_map(|layer| list.iter().map(move |one| (layer, *one))).collect()
}

/// Drops assumptions about attention, for a model without it.
fn forget(fields: &mut Fields<'_>, names: &[&str]) {
    fields.assumptions.retain(|line| !names.iter().any(|name| line.starts_with(&format!("`{name}`"))));
}

/// Which layers have experts, where `mlp_layer_types` or a list of `moe_layer_freq` says it.
fn sparse_layers(fields: &Fields<'_>, decoder: &mut Decoder) {
    let Some(experts) = &mut decoder.experts else { return };
    let listed = fields.any(&["moe_layer_freq"]).is_some_and(|(_, value)| value.is_array());
    if let Some(types) = fields.words(&["mlp_layer_types"]) {
        experts.layers = types.iter().map(|kind| *kind != "dense").collect();
    } else if listed {
        experts.layers = fields.numbers(&["moe_layer_freq"]).iter().map(|is_sparse| *is_sparse != 0).collect();
    }
}

/// Windows with heads of their own between layers that see all tokens; values are smaller than keys.
fn mimo(fields: &mut Fields<'_>, decoder: &mut Decoder) -> Result<(), ConfigError> {
    sparse_layers(fields, decoder);
    let layers = decoder.layers;
    let pattern = fields.numbers(&["hybrid_layer_pattern"]);
    if fields.words(&["layer_types"]).is_none() {
        decoder.sliding_layers = match pattern.as_slice() {
            [] => (0..layers).map(|layer| layer > 0 && (layer + 1) % 6 != 0).collect(),
            pattern => pattern.iter().map(|slides| *slides != 0).collect(),
        };
    }
    decoder.sliding_window = decoder.sliding_window.or(Some(128));
    decoder.hybrid.value_dim = fields.count(&["v_head_dim"], 128)?;
    decoder.hybrid.global_heads =
        Some(GlobalHeads { kv_heads: decoder.kv_heads, head_dim: decoder.head_dim, values_are_keys: false });
    decoder.kv_heads = fields.count_if(&["swa_num_key_value_heads"])?.unwrap_or(8);
    if !decoder.heads.is_multiple_of(decoder.kv_heads) {
        return Err(ConfigError::Contradiction(format!(
            "`swa_num_key_value_heads` is {}, which does not divide `num_attention_heads`, {}",
            decoder.kv_heads, decoder.heads
        )));
    }
    let own_sizes = [("swa_head_dim", decoder.head_dim), ("swa_v_head_dim", decoder.hybrid.value_dim)];
    for (name, size) in own_sizes {
        if fields.count_if(&[name])?.is_some_and(|own| own != size) {
            return Err(not_computed("mimo_v2_flash", &format!("a `{name}` other than {size} is not supported")));
        }
    }
    let heads = decoder.heads;
    for layer in 0..layers {
        let has_sinks = if decoder.is_sliding(layer) {
            fields.flag(&["add_swa_attention_sink_bias"], true)?
        } else {
            fields.flag(&["add_full_attention_sink_bias"], false)?
        };
        if has_sinks {
            own(decoder, Some(layer), "self_attn.sinks", WeightKind::Other, &[heads]);
        }
    }
    Ok(())
}

/// Heads with an indexer beside them, which chooses the blocks of tokens that they see.
fn minimax_m3(fields: &mut Fields<'_>, decoder: &mut Decoder) -> Result<(), ConfigError> {
    sparse_layers(fields, decoder);
    let dense = fields.count(&["dense_intermediate_size"], 12_288)?;
    let width = std::mem::replace(&mut decoder.intermediate, dense);
    if let Some(experts) = &mut decoder.experts {
        experts.shared_intermediate = fields.count_if(&["shared_intermediate_size"])?.unwrap_or(width);
        experts.sigmoid_router = true;
    }
    let mut inner = fields.object("sparse_attention_config").map(Fields::new);
    let number =
        |inner: &mut Option<Fields<'_>>, flat: &str, nested: &str, usual: u64| match fields.count_if(&[flat])? {
            Some(number) => Ok(number),
            None => match inner {
                Some(inner) => Ok(inner.count_if(&[nested])?.unwrap_or(usual)),
                None => Ok::<u64, ConfigError>(usual),
            },
        };
    let heads = number(&mut inner, "index_n_heads", "sparse_num_index_heads", 4)?;
    let size = number(&mut inner, "index_head_dim", "sparse_index_dim", 128)?;
    let is_sparse: Vec<bool> = match (fields.words(&["layer_types"]), &inner) {
        (Some(types), _) => types.iter().map(|kind| *kind == "minimax_m3_sparse").collect(),
        (None, Some(inner)) => inner.numbers(&["sparse_attention_freq"]).iter().map(|is| *is != 0).collect(),
        (None, None) => Vec::new(),
    };
    decoder.hybrid.index_dims = is_sparse.iter().map(|is_sparse| if *is_sparse { size } else { 0 }).collect();
    let hidden = decoder.hidden;
    for layer in (0..decoder.layers).filter(|layer| decoder.index_dim(*layer) > 0).collect::<Vec<_>>() {
        let sizes = [
            ("self_attn.indexer.q_proj", WeightKind::Linear, vec![heads.saturating_mul(size), hidden]),
            ("self_attn.indexer.k_proj", WeightKind::Linear, vec![size, hidden]),
            ("self_attn.indexer.q_norm", WeightKind::Norm, vec![size]),
            ("self_attn.indexer.k_norm", WeightKind::Norm, vec![size]),
        ];
        for (name, kind, shape) in sizes {
            own(decoder, Some(layer), name, kind, &shape);
        }
    }
    Ok(())
}

/// Delta attention with a gate for each channel, between layers of latent attention.
fn kimi_linear(fields: &mut Fields<'_>, decoder: &mut Decoder) -> Result<(), ConfigError> {
    // Kimi K3 adds residuals over blocks of layers, experts of a latent, and gates of full rank.
    for name in ["attn_res_block_size", "latent_moe_use_norm", "mla_use_output_gate"] {
        if fields.any(&[name]).is_some_and(|(_, value)| value != false) {
            return Err(not_computed("kimi_linear", &format!("its `{name}` is not supported")));
        }
    }
    sparse_layers(fields, decoder);
    if let Some(latent) = decoder.latent.as_mut().filter(|_| fields.any(&["q_lora_rank"]).is_none()) {
        latent.q_rank = 0;
        forget(fields, &["q_lora_rank"]);
    }
    let inner = fields.object("linear_attn_config").map(Fields::new);
    let number = |flat: &str, nested: &str, usual: u64| match (fields.count_if(&[flat])?, &inner) {
        (Some(number), _) => Ok(number),
        (None, Some(inner)) => Ok(inner.count_if(&[nested])?.unwrap_or(usual)),
        (None, None) => Ok::<u64, ConfigError>(usual),
    };
    let heads = number("linear_num_heads", "num_heads", 32)?;
    let size = number("linear_head_dim", "head_dim", 128)?;
    let kernel = number("linear_conv_kernel_dim", "short_conv_kernel_size", 4)?;
    // Layers are counted from one there.
    let full = inner.as_ref().map(|inner| inner.numbers(&["full_attn_layers"])).unwrap_or_default();
    decoder.hybrid.mixers = match full.as_slice() {
        [] => mixers(fields, decoder.layers, 4),
        full => (1..=decoder.layers)
            .map(|layer| if full.contains(&layer) { Mixer::Attention } else { Mixer::State })
            .collect(),
    };
    let (hidden, width) = (decoder.hidden, heads.saturating_mul(size));
    decoder.hybrid.state = Some(State {
        module: "self_attn",
        inputs: vec![("q_proj", width), ("k_proj", width), ("v_proj", width)],
        bias: false,
        channels: width.saturating_mul(3),
        kernel,
        conv_bias: false,
        weights: vec![
            ("dt_bias", WeightKind::Other, vec![width]),
            ("A_log", WeightKind::Other, vec![heads]),
            ("f_a_proj", WeightKind::Linear, vec![size, hidden]),
            ("f_b_proj", WeightKind::Linear, vec![width, size]),
            ("b_proj", WeightKind::Linear, vec![heads, hidden]),
            ("g_a_proj", WeightKind::Linear, vec![size, hidden]),
            ("g_b_proj", WeightKind::Linear, vec![width, size]),
            ("o_norm", WeightKind::Norm, vec![size]),
        ],
        inner: width,
        output: "o_proj",
        recurrent: width.saturating_mul(size),
    });
    Ok(())
}

fn llama4(fields: &mut Fields<'_>, decoder: &mut Decoder) -> Result<(), ConfigError> {
    let layers = decoder.layers;
    let step = fields.count_if(&["interleave_moe_layer_step"])?.unwrap_or(1);
    let named = fields.any(&["moe_layers"]).map(|_| fields.numbers(&["moe_layers"]));
    let width = decoder.intermediate;
    decoder.intermediate = fields.count(&["intermediate_size_mlp"], 16_384)?;
    if let Some(experts) = &mut decoder.experts {
        experts.shared_intermediate = width;
        experts.layers = (0..layers)
            .map(|layer| match &named {
                Some(named) => named.contains(&layer),
                None => (layer + 1) % step == 0,
            })
            .collect();
    }
    let chunk = fields.count_if(&["attention_chunk_size"])?.unwrap_or(8192);
    let no_rope = fields.numbers(&["no_rope_layers"]);
    decoder.hybrid.has_chunks = true;
    decoder.sliding_window = Some(chunk);
    decoder.sliding_layers = match fields.words(&["layer_types"]) {
        Some(types) => types.iter().map(|kind| *kind == "chunked_attention").collect(),
        None if !no_rope.is_empty() => no_rope.iter().map(|rotates| *rotates != 0).collect(),
        None => vec![true, true, true, false],
    };
    Ok(())
}

/// Layers of a kind that `layer_types` names, or all but each so-manyth.
fn mixers(fields: &Fields<'_>, layers: u64, every: u64) -> Vec<Mixer> {
    match fields.words(&["layer_types", "layers_block_type"]) {
        Some(types) => types
            .iter()
            .map(|kind| if matches!(*kind, "linear_attention" | "mamba") { Mixer::State } else { Mixer::Attention })
            .collect(),
        None => (1..=layers)
            .map(|layer| if every > 0 && layer.is_multiple_of(every) { Mixer::Attention } else { Mixer::State })
            .collect(),
    }
}

fn gated_delta(model_type: &str, fields: &mut Fields<'_>, decoder: &mut Decoder) -> Result<(), ConfigError> {
    let key_heads = fields.count(&["linear_num_key_heads"], 16)?;
    let value_heads = fields.count(&["linear_num_value_heads"], 32)?;
    let key_dim = fields.count(&["linear_key_head_dim"], 128)?;
    let value_dim = fields.count(&["linear_value_head_dim"], 128)?;
    let kernel = fields.count_if(&["linear_conv_kernel_dim"])?.unwrap_or(4);
    let (keys, values) = (key_heads.saturating_mul(key_dim), value_heads.saturating_mul(value_dim));
    let channels = keys.saturating_mul(2).saturating_add(values);
    let inputs = if model_type == "qwen3_next" {
        vec![("in_proj_qkvz", channels.saturating_add(values)), ("in_proj_ba", value_heads.saturating_mul(2))]
    } else {
        vec![("in_proj_qkv", channels), ("in_proj_z", values), ("in_proj_b", value_heads), ("in_proj_a", value_heads)]
    };
    decoder.hybrid.query_gate = true;
    decoder.hybrid.mixers = mixers(fields, decoder.layers, fields.count_if(&["full_attention_interval"])?.unwrap_or(4));
    decoder.hybrid.state = Some(State {
        module: "linear_attn",
        inputs,
        bias: false,
        channels,
        kernel,
        conv_bias: false,
        weights: vec![
            ("dt_bias", WeightKind::Other, vec![value_heads]),
            ("A_log", WeightKind::Other, vec![value_heads]),
            ("norm", WeightKind::Norm, vec![value_dim]),
        ],
        inner: values,
        output: "out_proj",
        recurrent: value_heads.saturating_mul(key_dim).saturating_mul(value_dim),
    });
    if model_type == "qwen3_5_moe_text" {
        forget(fields, &["intermediate_size"]);
    }
    Ok(())
}

/// Sizes of Mamba 1.
struct Mamba1 {
    inner: u64,
    state: u64,
    kernel: u64,
    rank: u64,
    bias: bool,
    conv_bias: bool,
}

impl Mamba1 {
    fn state(&self, module: &'static str, has_norms: bool) -> State {
        let (inner, state) = (self.inner, self.state);
        let mut weights = vec![
            ("A_log", WeightKind::Other, vec![inner, state]),
            ("D", WeightKind::Other, vec![inner]),
            ("x_proj", WeightKind::Linear, vec![self.rank.saturating_add(state.saturating_mul(2)), inner]),
            ("dt_proj", WeightKind::Linear, vec![inner, self.rank]),
            ("dt_proj.bias", WeightKind::Other, vec![inner]),
        ];
        if has_norms {
            weights.extend([
                ("dt_layernorm", WeightKind::Norm, vec![self.rank]),
                ("b_layernorm", WeightKind::Norm, vec![state]),
                ("c_layernorm", WeightKind::Norm, vec![state]),
            ]);
        }
        State {
            module,
            inputs: vec![("in_proj", inner.saturating_mul(2))],
            bias: self.bias,
            channels: inner,
            kernel: self.kernel,
            conv_bias: self.conv_bias,
            weights,
            inner,
            output: "out_proj",
            recurrent: inner.saturating_mul(state),
        }
    }
}

/// Sizes of Mamba 2.
struct Mamba2 {
    inner: u64,
    heads: u64,
    state: u64,
    groups: u64,
    kernel: u64,
    bias: bool,
    conv_bias: bool,
}

impl Mamba2 {
    fn state(&self, module: &'static str) -> State {
        let (inner, heads) = (self.inner, self.heads);
        let channels = inner.saturating_add(self.groups.saturating_mul(self.state).saturating_mul(2));
        State {
            module,
            inputs: vec![("in_proj", inner.saturating_add(channels).saturating_add(heads))],
            bias: self.bias,
            channels,
            kernel: self.kernel,
            conv_bias: self.conv_bias,
            weights: vec![
                ("dt_bias", WeightKind::Other, vec![heads]),
                ("A_log", WeightKind::Other, vec![heads]),
                ("D", WeightKind::Other, vec![heads]),
                ("norm", WeightKind::Norm, vec![inner]),
            ],
            inner,
            output: "out_proj",
            recurrent: inner.saturating_mul(self.state),
        }
    }
}

/// A rank that may be `auto`: a sixteenth of the hidden size.
fn rank(fields: &Fields<'_>, name: &str, hidden: u64) -> Result<u64, ConfigError> {
    match fields.any(&[name]) {
        None => Ok(hidden.div_ceil(16)),
        Some((_, value)) if value.as_str() == Some("auto") => Ok(hidden.div_ceil(16)),
        Some(_) => Ok(fields.count_if(&[name])?.unwrap_or(1)),
    }
}

fn all_states(fields: &mut Fields<'_>, decoder: &mut Decoder, state: State) {
    let layers = usize::try_from(decoder.layers).unwrap_or(0);
    decoder.hybrid.mixers = vec![Mixer::State; layers];
    decoder.hybrid.feeds = vec![Feed::Nothing; layers];
    decoder.hybrid.state = Some(state);
    forget(fields, &["num_attention_heads", "intermediate_size"]);
}

fn jamba(fields: &mut Fields<'_>, decoder: &mut Decoder) -> Result<(), ConfigError> {
    let period = |name: &str, default| Ok::<u64, ConfigError>(fields.count_if(&[name])?.unwrap_or(default));
    let offset = |name: &str, default| match fields.any(&[name]) {
        None => Ok(default),
        Some(_) => fields.count_or_zero(&[name]),
    };
    let (attention, attention_at) = (period("attn_layer_period", 8)?, offset("attn_layer_offset", 4)?);
    let (sparse, sparse_at) = (period("expert_layer_period", 2)?, offset("expert_layer_offset", 1)?);
    let is_at = |layer: u64, period: u64, offset: u64| layer % period == offset;
    let layers = decoder.layers;
    decoder.hybrid.mixers = (0..layers)
        .map(|layer| if is_at(layer, attention, attention_at) { Mixer::Attention } else { Mixer::State })
        .collect();
    let has_many = decoder.experts.as_ref().is_some_and(|experts| experts.count > 1);
    decoder.hybrid.feeds = (0..layers)
        .map(|layer| if has_many && is_at(layer, sparse, sparse_at) { Feed::Experts } else { Feed::Dense })
        .collect();
    let sizes = Mamba1 {
        inner: decoder.hidden.saturating_mul(period("mamba_expand", 2)?),
        state: period("mamba_d_state", 16)?,
        kernel: period("mamba_d_conv", 4)?,
        rank: rank(fields, "mamba_dt_rank", decoder.hidden)?,
        bias: fields.flag(&["mamba_proj_bias"], false)?,
        conv_bias: fields.flag(&["mamba_conv_bias"], true)?,
    };
    decoder.hybrid.state = Some(sizes.state("mamba", true));
    Ok(())
}

fn nemotron_h(fields: &mut Fields<'_>, decoder: &mut Decoder) -> Result<(), ConfigError> {
    const DEFAULT: &str = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-";
    let kinds: Vec<char> = match (fields.words(&["layers_block_type"]), fields.word(&["hybrid_override_pattern"])?) {
        // Newer versions of transformers write `linear_attention` and `full_attention`.
        (Some(types), _) => types
            .iter()
            .map(|kind| match *kind {
                "mamba" | "linear_attention" => 'M',
                "attention" | "full_attention" => '*',
                "moe" => 'E',
                "mlp" => '-',
                _ => '?',
            })
            .collect(),
        (None, Some(pattern)) => pattern.chars().take(4096).collect(),
        (None, None) => {
            fields.assume("hybrid_override_pattern", &format!("`{DEFAULT}`"));
            DEFAULT.chars().collect()
        }
    };
    if kinds.is_empty() || kinds.iter().any(|kind| !matches!(kind, 'M' | '*' | '-' | 'E')) {
        return Err(ConfigError::BadField {
            field: "hybrid_override_pattern".to_owned(),
            found: "something else".to_owned(),
            expected: "a letter for each layer: `M`, `*`, `-` or `E` (in `layers_block_type`: `mamba`, `attention`, \
                       `mlp` or `moe`)",
        });
    }
    forget(fields, &["num_hidden_layers"]);
    decoder.layers = kinds.len() as u64;
    let mixer = |kind: &char| match kind {
        'M' => Mixer::State,
        '*' => Mixer::Attention,
        _ => Mixer::Nothing,
    };
    let feed = |kind: &char| match kind {
        '-' => Feed::Dense,
        'E' => Feed::Experts,
        _ => Feed::Nothing,
    };
    decoder.hybrid.mixers = kinds.iter().map(mixer).collect();
    decoder.hybrid.feeds = kinds.iter().map(feed).collect();
    let heads = fields.count(&["mamba_num_heads"], 128)?;
    let bias = fields.flag(&["use_bias"], false)?;
    let sizes = Mamba2 {
        inner: heads.saturating_mul(fields.count(&["mamba_head_dim"], 64)?),
        heads,
        state: fields.count(&["ssm_state_size"], 128)?,
        groups: fields.count(&["n_groups"], 8)?,
        kernel: fields.count_if(&["conv_kernel"])?.unwrap_or(4),
        bias: fields.flag(&["mamba_proj_bias"], bias)?,
        conv_bias: fields.flag(&["use_conv_bias"], true)?,
    };
    decoder.hybrid.state = Some(sizes.state("mixer"));
    if kinds.contains(&'E') {
        decoder.experts = Some(choosable(Experts {
            count: fields.count(&["n_routed_experts"], 8)?,
            per_token: fields.count(&["num_experts_per_tok"], 2)?,
            intermediate: fields.count(&["moe_intermediate_size"], 7688)?,
            gated: false,
            biases: false,
            latent: fields.count_if(&["moe_latent_size"])?.unwrap_or(0),
            shared_intermediate: fields.count(&["moe_shared_expert_intermediate_size"], 7688)?,
            shared_gate: false,
            renormalised: fields.flag(&["norm_topk_prob"], true)?,
            sigmoid_router: true,
            router_in_float32: true,
            beside_mlp: false,
            layers: vec![true],
        })?);
    }
    Ok(())
}

fn granite_hybrid(fields: &mut Fields<'_>, decoder: &mut Decoder) -> Result<(), ConfigError> {
    decoder.hybrid.mixers = mixers(fields, decoder.layers, 0);
    let sizes = Mamba2 {
        inner: decoder.hidden.saturating_mul(fields.count_if(&["mamba_expand"])?.unwrap_or(2)),
        heads: fields.count(&["mamba_n_heads"], 128)?,
        state: fields.count(&["mamba_d_state"], 256)?,
        groups: fields.count(&["mamba_n_groups"], 1)?,
        kernel: fields.count_if(&["mamba_d_conv"])?.unwrap_or(4),
        bias: fields.flag(&["mamba_proj_bias"], false)?,
        conv_bias: fields.flag(&["mamba_conv_bias"], true)?,
    };
    decoder.hybrid.state = Some(sizes.state("mamba"));
    let shared = fields.count(&["shared_intermediate_size"], 1024)?;
    let count = match fields.any(&["num_local_experts"]) {
        None => 8,
        Some(_) => fields.count_or_zero(&["num_local_experts"])?,
    };
    if count == 0 {
        decoder.intermediate = shared;
        return Ok(());
    }
    decoder.experts = Some(choosable(Experts {
        count,
        per_token: fields.count(&["num_experts_per_tok"], 2)?,
        intermediate: decoder.intermediate,
        gated: true,
        biases: false,
        latent: 0,
        shared_intermediate: shared,
        shared_gate: false,
        renormalised: true,
        sigmoid_router: false,
        router_in_float32: false,
        beside_mlp: false,
        layers: vec![true],
    })?);
    Ok(())
}

/// Attention and Mamba 2 side by side in every layer.
fn falcon_h1(fields: &mut Fields<'_>, decoder: &mut Decoder) -> Result<(), ConfigError> {
    let expanded = decoder.hidden.saturating_mul(fields.count_if(&["mamba_expand"])?.unwrap_or(2));
    let inner = if fields.says_null("mamba_d_ssm") { expanded } else { fields.count(&["mamba_d_ssm"], 1024)? };
    let sizes = Mamba2 {
        inner,
        heads: fields.count(&["mamba_n_heads"], 128)?,
        state: fields.count(&["mamba_d_state"], 256)?,
        groups: fields.count_if(&["mamba_n_groups"])?.unwrap_or(1),
        kernel: fields.count_if(&["mamba_d_conv"])?.unwrap_or(4),
        bias: fields.flag(&["mamba_proj_bias"], false)?,
        conv_bias: fields.flag(&["mamba_conv_bias"], true)?,
    };
    let mut state = sizes.state("mamba");
    if !fields.flag(&["mamba_rms_norm"], false)? {
        state.weights.retain(|(name, ..)| *name != "norm");
    }
    decoder.hybrid.mixers = vec![Mixer::Both; usize::try_from(decoder.layers).unwrap_or(0)];
    decoder.hybrid.state = Some(state);
    Ok(())
}

fn rwkv(fields: &mut Fields<'_>, decoder: &mut Decoder) -> Result<(), ConfigError> {
    let hidden = decoder.hidden;
    let inner = fields.count_if(&["attention_hidden_size"])?.unwrap_or(hidden);
    if fields.count_if(&["intermediate_size"])?.is_none() {
        decoder.intermediate = hidden.saturating_mul(4);
    }
    forget(fields, &["num_attention_heads", "intermediate_size"]);
    decoder.hybrid.mixers = vec![Mixer::State; usize::try_from(decoder.layers).unwrap_or(0)];
    decoder.hybrid.state = Some(State {
        module: "attention",
        inputs: vec![("key", inner), ("value", inner), ("receptance", inner)],
        bias: false,
        channels: inner,
        kernel: 0,
        conv_bias: false,
        weights: vec![
            ("time_decay", WeightKind::Other, vec![inner]),
            ("time_first", WeightKind::Other, vec![inner]),
            ("time_mix_key", WeightKind::Other, vec![hidden]),
            ("time_mix_value", WeightKind::Other, vec![hidden]),
            ("time_mix_receptance", WeightKind::Other, vec![hidden]),
        ],
        inner,
        output: "output",
        // Numerator, denominator and the largest exponent, and the last token before each half of the layer.
        recurrent: inner.saturating_mul(3).saturating_add(hidden.saturating_mul(2)),
    });
    for layer in 0..decoder.layers {
        own(decoder, Some(layer), "feed_forward.receptance", WeightKind::Linear, &[hidden, hidden]);
        own(decoder, Some(layer), "feed_forward.time_mix_key", WeightKind::Other, &[hidden]);
        own(decoder, Some(layer), "feed_forward.time_mix_receptance", WeightKind::Other, &[hidden]);
    }
    own(decoder, Some(0), "pre_ln", WeightKind::Norm, &[hidden]);
    own(decoder, Some(0), "pre_ln.bias", WeightKind::Norm, &[hidden]);
    Ok(())
}

/// Tables and products of embeddings that every layer gets of its own.
fn per_layer_inputs(fields: &mut Fields<'_>, decoder: &mut Decoder, default: u64) -> Result<(), ConfigError> {
    let width = match fields.any(&["hidden_size_per_layer_input"]) {
        None if fields.says_null("hidden_size_per_layer_input") => 0,
        None => default,
        Some(_) => fields.count_or_zero(&["hidden_size_per_layer_input"])?,
    };
    if width == 0 {
        return Ok(());
    }
    let vocab = fields.count(&["vocab_size_per_layer_input"], 262_144)?;
    let (hidden, all) = (decoder.hidden, decoder.layers.saturating_mul(width));
    own(decoder, None, "embed_tokens_per_layer", WeightKind::Embedding, &[vocab, all]);
    own(decoder, None, "per_layer_model_projection", WeightKind::Linear, &[all, hidden]);
    own(decoder, None, "per_layer_projection_norm", WeightKind::Norm, &[width]);
    for layer in 0..decoder.layers {
        own(decoder, Some(layer), "per_layer_input_gate", WeightKind::Linear, &[width, hidden]);
        own(decoder, Some(layer), "per_layer_projection", WeightKind::Linear, &[hidden, width]);
        own(decoder, Some(layer), "post_per_layer_input_norm", WeightKind::Norm, &[hidden]);
    }
    Ok(())
}

fn gemma3n(fields: &mut Fields<'_>, decoder: &mut Decoder) -> Result<(), ConfigError> {
    decoder.hybrid.shared_kv_layers = match fields.any(&["num_kv_shared_layers"]) {
        None => 15,
        Some(_) => fields.count_or_zero(&["num_kv_shared_layers"])?,
    };
    decoder.sliding_window = decoder.sliding_window.or(Some(512));
    if fields.any(&["layer_types", "sliding_window_pattern"]).is_none() {
        decoder.sliding_layers = vec![true, true, true, true, false];
    }
    per_layer_inputs(fields, decoder, 256)?;
    let rank = fields.count_if(&["laurel_rank"])?.unwrap_or(64);
    let copies = fields.count_if(&["altup_num_inputs"])?.unwrap_or(4);
    let hidden = decoder.hidden;
    for layer in 0..decoder.layers {
        own(decoder, Some(layer), "altup.correct_output_scale", WeightKind::Other, &[hidden]);
        own(decoder, Some(layer), "altup.correction_coefs", WeightKind::Router, &[copies, copies]);
        own(
            decoder,
            Some(layer),
            "altup.prediction_coefs",
            WeightKind::Router,
            &[copies.saturating_mul(copies), copies],
        );
        own(decoder, Some(layer), "altup.modality_router", WeightKind::Router, &[copies, hidden]);
        own(decoder, Some(layer), "altup.router_norm", WeightKind::Norm, &[hidden]);
        own(decoder, Some(layer), "laurel.linear_left", WeightKind::Linear, &[rank, hidden]);
        own(decoder, Some(layer), "laurel.linear_right", WeightKind::Linear, &[hidden, rank]);
        own(decoder, Some(layer), "laurel.post_laurel_norm", WeightKind::Norm, &[hidden]);
    }
    for _ in 1..copies.min(64) {
        own(decoder, None, "altup_projections", WeightKind::Linear, &[hidden, hidden]);
        own(decoder, None, "altup_unembed_projections", WeightKind::Linear, &[hidden, hidden]);
    }
    Ok(())
}

fn gemma4(fields: &mut Fields<'_>, decoder: &mut Decoder) -> Result<(), ConfigError> {
    decoder.hybrid.shared_kv_layers = fields.count_or_zero(&["num_kv_shared_layers"])?;
    decoder.hybrid.shared_kv_width = if fields.flag(&["use_double_wide_mlp"], false)? { 2 } else { 1 };
    decoder.sliding_window = decoder.sliding_window.or(Some(512));
    decoder.hybrid.global_heads = Some(GlobalHeads {
        kv_heads: fields.count_if(&["num_global_key_value_heads"])?.unwrap_or(decoder.kv_heads),
        head_dim: fields.count_if(&["global_head_dim"])?.unwrap_or(512),
        values_are_keys: fields.flag(&["attention_k_eq_v"], false)?,
    });
    per_layer_inputs(fields, decoder, 256)?;
    if fields.flag(&["enable_moe_block"], false)? {
        let count = fields.count(&["num_experts"], 128)?;
        decoder.experts = Some(choosable(Experts {
            count,
            per_token: fields.count(&["top_k_experts"], 8)?,
            intermediate: fields.count(&["moe_intermediate_size", "expert_intermediate_size"], 704)?,
            gated: true,
            biases: false,
            latent: 0,
            // The MLP of one piece is beside the experts.
            shared_intermediate: decoder.intermediate,
            shared_gate: false,
            renormalised: true,
            sigmoid_router: false,
            router_in_float32: false,
            beside_mlp: true,
            layers: vec![true],
        })?);
        let hidden = decoder.hidden;
        for layer in 0..decoder.layers {
            own(decoder, Some(layer), "router.scale", WeightKind::Router, &[hidden]);
            own(decoder, Some(layer), "router.per_expert_scale", WeightKind::Router, &[count]);
            for name in ["post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"]
            {
                own(decoder, Some(layer), name, WeightKind::Norm, &[hidden]);
            }
        }
    }
    Ok(())
}

/// A width that is given for each layer, where all are one.
pub(super) fn one_width(value: &Value) -> Option<u64> {
    let list = value.as_array()?;
    let first = list.first()?.as_u64()?;
    list.iter().all(|width| width.as_u64() == Some(first)).then_some(first)
}
