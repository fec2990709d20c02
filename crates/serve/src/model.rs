//! A model as an engine holds it: each layer's cache, its weights, and the sizes that the profile run depends on.
//!
//! Everything is read by the shape of the configuration, so that a model without a name here is answered too.
//!
//! # Source
//! transformers 5.17, `models/*/configuration_*.py` (names of fields); vLLM, `vllm/config/model.py` (`get_num_kv_heads`,
//! `get_head_size`) and `vllm/model_executor/models` (which layers have which cache).

use serde_json::Value;

use crate::config::Fields;
use crate::error::ServeError;
use crate::weights::{Part, WeightList, parts};

/// More layers than any model has.
const MOST_LAYERS: u64 = 4096;

/// A model, as far as serving goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Vocabulary.
    pub vocab: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Width of the widest MLP that a token goes through.
    pub intermediate: u64,
    /// Experts that a token goes to, and their width; 0 for none.
    pub routed: (u64, u64),
    /// Query heads.
    pub heads: u64,
    /// Each layer's cache.
    pub layers: Vec<Cache>,
    /// The longest sequence that the configuration allows.
    pub max_positions: Option<u64>,
    /// Bytes of a number of the model's own type.
    pub element_bytes: u64,
    /// Bytes of the table of rotations: positions × rotated part × element.
    pub rotary_bytes: u64,
    /// An encoder of images or sound stands before the language model.
    pub has_encoder: bool,
    /// The weights, part by part.
    pub weights: WeightList,
    /// A name for the quantisation, empty for none.
    pub quantisation: String,
    /// Taken where the configuration does not say.
    pub assumed: Vec<String>,
}

/// What a layer keeps of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Keys and values of every token.
    Full(Heads),
    /// Keys and values of the newest tokens.
    Window(Heads, u64),
    /// One latent for keys and values (MLA), of so many numbers, and the indexer's width where attention is sparse.
    Latent {
        /// Numbers that keys and values share.
        latent: u64,
        /// Rotated numbers beside them.
        rope: u64,
        /// The indexer's head.
        indexer: Option<u64>,
    },
    /// A state of fixed size: Mamba, gated delta nets.
    State(State),
    /// Nothing of its own.
    Nothing,
}

/// Heads of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// How many.
    pub count: u64,
    /// Numbers of a key.
    pub key: u64,
    /// Numbers of a value.
    pub value: u64,
}

impl Heads {
    /// Numbers of a token on one of so many ranks: heads are divided, and repeated where there are fewer than ranks.
    pub fn numbers(self, ranks: u64) -> u64 {
        (self.count / ranks.max(1)).max(1).saturating_mul(self.key.saturating_add(self.value))
    }
}

/// The sizes of a recurrent state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Numbers of the recurrent state, divided by the ranks.
    pub recurrent: u64,
    /// Bytes of one of them where the configuration says so; the model's own type else.
    pub recurrent_bytes: Option<u64>,
    /// Channels of the convolution, divided by the ranks.
    pub channels: u64,
    /// Width of its kernel.
    pub kernel: u64,
}

impl State {
    /// Bytes of a request's state on one of so many ranks; each speculative token keeps one more column of the convolution.
    pub fn bytes(self, ranks: u64, element: u64, speculative: u64) -> u64 {
        let columns = self.kernel.saturating_sub(1).saturating_add(speculative);
        let convolution = columns.saturating_mul(self.channels / ranks.max(1)).saturating_mul(element);
        let recurrent = (self.recurrent / ranks.max(1)).saturating_mul(self.recurrent_bytes.unwrap_or(element));
        convolution.saturating_add(recurrent)
    }
}

impl Model {
    /// Reads a configuration.
    ///
    /// # Errors
    /// If a size is missing or nonsense, or the quantisation is unknown.
    pub fn read(name: &str, config: &Value) -> Result<Model, ServeError> {
        let all =
            Fields(config.as_object().ok_or_else(|| ServeError::Config("the configuration is not an object".into()))?);
        let text = ["text_config", "llm_config", "language_config"].into_iter().find_map(|name| all.object(name));
        let fields = text.unwrap_or(all);
        let mut assumed = Vec::new();
        let hidden = fields.size(&["hidden_size", "d_model", "n_embd", "dim"])?;
        let count = fields.size(&["num_hidden_layers", "n_layer", "num_layers", "n_layers"])?;
        if count > MOST_LAYERS {
            return Err(ServeError::Config(format!(
                "the configuration has {count} layers: no model has more than {MOST_LAYERS}"
            )));
        }
        let heads = fields.size_or(&["num_attention_heads", "n_head", "n_heads"], 0)?;
        let layers = caches(fields, hidden, count, heads, &mut assumed)?;
        let kinds = [all, fields].map(|fields| fields.word(&["dtype", "torch_dtype"]));
        let element_bytes = match kinds[1].or(kinds[0]) {
            Some("float32") => {
                assumed.push("the checkpoint's float32 is loaded as float16, the engines' default".to_owned());
                2
            }
            _ => 2,
        };
        let max_positions = fields.size_if(&["max_position_embeddings", "n_positions", "max_sequence_length"])?;
        let (weights, quantisation) = parts(all, fields, &layers, hidden, element_bytes)?;
        let routed = (
            fields.size_or(&["num_experts_per_tok", "top_k_experts", "moe_topk"], 0)?,
            fields.size_or(&["moe_intermediate_size", "intermediate_size"], 0)?,
        );
        let has_experts = fields.any(&["num_experts", "num_local_experts", "n_routed_experts"]).is_some();
        let rotated = rotated(fields, &layers);
        Ok(Model {
            name: name.to_owned(),
            vocab: fields.size_or(&["vocab_size", "padded_vocab_size"], all.size_or(&["vocab_size"], 0)?)?,
            hidden,
            intermediate: dense_width(fields, hidden)?,
            routed: if has_experts { routed } else { (0, 0) },
            heads,
            rotary_bytes: max_positions.unwrap_or(0).saturating_mul(rotated).saturating_mul(element_bytes),
            layers,
            max_positions,
            element_bytes,
            has_encoder: all.object("vision_config").is_some() || all.object("audio_config").is_some(),
            weights,
            quantisation,
            assumed,
        })
    }

    /// Bytes of the weights of a part, on all ranks together.
    pub fn weights_of(&self, part: Part) -> u64 {
        self.weights.iter().filter(|weight| weight.part == part).fold(0, |sum, weight| sum.saturating_add(weight.bytes))
    }
}

/// The widest MLP that a token goes through as a whole.
fn dense_width(fields: Fields<'_>, hidden: u64) -> Result<u64, ServeError> {
    let width = fields.size_if(&["intermediate_size", "ffn_dim", "n_inner", "d_ff"])?;
    Ok(width.unwrap_or(hidden.saturating_mul(4)))
}

/// Numbers of a head that are rotated.
fn rotated(fields: Fields<'_>, layers: &[Cache]) -> u64 {
    let factor = fields
        .any(&["partial_rotary_factor", "rotary_pct"])
        .or_else(|| fields.object("rope_parameters")?.any(&["partial_rotary_factor"]))
        .and_then(|(_, value)| value.as_f64())
        .map_or(1.0, |factor| factor.clamp(0.0, 1.0));
    let width = layers.iter().find_map(|cache| match cache {
        Cache::Full(heads) | Cache::Window(heads, _) => Some(heads.key),
        Cache::Latent { rope, .. } => Some(*rope),
        Cache::State(_) | Cache::Nothing => None,
    });
    crate::arithmetic::share(width.unwrap_or(0), factor)
}

/// Each layer's cache.
fn caches(
    fields: Fields<'_>,
    hidden: u64,
    count: u64,
    heads: u64,
    assumed: &mut Vec<String>,
) -> Result<Vec<Cache>, ServeError> {
    let kinds = kinds(fields, count)?;
    if let Some(rank) = fields.size_if(&["kv_lora_rank"])? {
        let rope = fields.size_or(&["qk_rope_head_dim"], 64)?;
        let indexer = fields.size_if(&["index_head_dim"])?;
        let latent = Cache::Latent { latent: rank, rope, indexer };
        let of = |kind: &Kind| if *kind == Kind::State { state(fields, hidden) } else { Ok(latent) };
        return kinds.iter().map(of).collect();
    }
    let needs_heads = kinds.iter().any(|kind| matches!(kind, Kind::Full | Kind::Window));
    if needs_heads && heads == 0 {
        return Err(ServeError::Config(
            "the configuration has no `num_attention_heads`: the cache cannot be computed".into(),
        ));
    }
    let key = match fields.size_if(&["head_dim", "attention_head_dim", "kv_channels"])? {
        Some(size) => size,
        None if heads > 0 => hidden / heads,
        None => 0,
    };
    let is_single = fields.is("multi_query");
    let kv =
        match fields.size_if(&["num_key_value_heads", "num_kv_heads", "multi_query_group_num", "attention_groups"])? {
            Some(kv) => kv,
            None if is_single => 1,
            None => {
                if needs_heads {
                    assumed.push("`num_key_value_heads` is missing: as many as query heads".to_owned());
                }
                heads
            }
        };
    let value = fields.size_or(&["v_head_dim"], key)?;
    let own = Heads { count: kv, key, value };
    // Gemma 4: layers that see everything have heads of their own.
    let global_key = fields.size_if(&["global_head_dim"])?;
    let global = match global_key {
        None => own,
        Some(key) => Heads { count: fields.size_or(&["num_global_key_value_heads"], kv)?, key, value: key },
    };
    let window = fields.size_if(&["sliding_window", "attention_chunk_size", "sliding_window_size"])?;
    let per_layer = per_layer_heads(fields, heads);
    // Gemma 3n and 4: the last layers use what the earlier ones keep.
    let shared = fields.size_or(&["num_kv_shared_layers"], 0)?.min(count);
    let mut caches = Vec::new();
    for (at, kind) in (0_u64..).zip(&kinds) {
        let cache = match kind {
            _ if at >= count - shared && matches!(kind, Kind::Full | Kind::Window) => Cache::Nothing,
            Kind::Full => match usize::try_from(at).ok().and_then(|at| per_layer.as_ref()?.get(at).copied()) {
                Some(0) => Cache::Nothing,
                Some(count) => Cache::Full(Heads { count, ..own }),
                None => Cache::Full(global),
            },
            Kind::Window => window.map_or(Cache::Full(own), |window| Cache::Window(own, window)),
            Kind::State => state(fields, hidden)?,
            Kind::Nothing => Cache::Nothing,
        };
        caches.push(cache);
    }
    Ok(caches)
}

/// Heads of keys and values by layer, where they differ: `OpenELM`, Nemotron's `block_configs`.
fn per_layer_heads(fields: Fields<'_>, heads: u64) -> Option<Vec<u64>> {
    if let Some(list) = fields.numbers("num_key_value_heads_per_layer").or_else(|| fields.numbers("num_kv_heads")) {
        return Some(list);
    }
    let blocks = fields.any(&["block_configs"])?.1.as_array()?;
    let of = |block: &Value| {
        let attention = block.get("attention")?;
        let group = attention.get("n_heads_in_group").and_then(Value::as_u64);
        Some(group.filter(|group| *group > 0).map_or(0, |group| heads / group))
    };
    blocks.iter().map(of).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Full,
    Window,
    State,
    Nothing,
}

/// Which layer has which kind of cache.
fn kinds(fields: Fields<'_>, count: u64) -> Result<Vec<Kind>, ServeError> {
    let named = |kind: &str| match kind {
        "sliding_attention" | "chunked_attention" | "local" | "swa" | "sliding" => Kind::Window,
        "linear_attention" | "mamba" | "mamba2" | "recurrent" | "gated_delta_net" | "kda" => Kind::State,
        "mlp" | "moe" | "conv" => Kind::Nothing,
        _ => Kind::Full,
    };
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    if let Some(kinds) =
        fields.words("layer_types").or_else(|| fields.words("layers_block_type")).filter(|kinds| !kinds.is_empty())
    {
        return Ok(kinds.iter().cycle().take(most).map(|kind| named(kind)).collect());
    }
    // Nemotron's hybrids: M for Mamba, * for attention, - and E for an MLP.
    if let Some(pattern) = fields.word(&["hybrid_override_pattern"]) {
        let of = |letter: char| match letter {
            'M' => Kind::State,
            '*' => Kind::Full,
            _ => Kind::Nothing,
        };
        return Ok(pattern.chars().take(most).map(of).collect());
    }
    let model_type = fields.word(&["model_type"]).unwrap_or_default();
    let every = |period: u64, offset: u64, usual: Kind, other: Kind| {
        (0..count).map(|layer| if layer % period.max(1) == offset { other } else { usual }).collect()
    };
    if let Some(period) = fields.size_if(&["attn_layer_period"])? {
        return Ok(every(period, fields.size_or(&["attn_layer_offset"], 0)?, Kind::State, Kind::Full));
    }
    if fields.any(&["linear_num_value_heads"]).is_some() {
        let period = fields.size_or(&["full_attention_interval"], 4)?.max(1);
        return Ok(every(period, period - 1, Kind::State, Kind::Full));
    }
    if matches!(model_type, "mamba" | "mamba2" | "falcon_mamba") {
        return Ok(every(1, 0, Kind::State, Kind::State));
    }
    let has_window = fields.any(&["sliding_window"]).is_some();
    Ok(match model_type {
        _ if fields.any(&["attention_chunk_size"]).is_some() && model_type.starts_with("llama4") => {
            every(4, 3, Kind::Window, Kind::Full)
        }
        "gemma2" if has_window => every(2, 1, Kind::Window, Kind::Full),
        "gpt_oss" => every(2, 1, Kind::Window, Kind::Full),
        _ if let Some(period) = fields.size_if(&["sliding_window_pattern", "_sliding_window_pattern"])? => {
            every(period, period.saturating_sub(1), Kind::Window, Kind::Full)
        }
        "gemma3_text" | "gemma3" => every(6, 5, Kind::Window, Kind::Full),
        "cohere2" => every(4, 3, Kind::Window, Kind::Full),
        "mistral" | "mixtral" | "phi3" | "starcoder2" | "ministral" if has_window => {
            every(1, 0, Kind::Window, Kind::Window)
        }
        _ => every(1, 1, Kind::Full, Kind::Full),
    })
}

/// The state of a recurrent layer.
fn state(fields: Fields<'_>, hidden: u64) -> Result<Cache, ServeError> {
    let recurrent_bytes = match fields.word(&["mamba_ssm_dtype", "mamba_ssm_cache_dtype"]) {
        Some("float32") => Some(4),
        _ => None,
    };
    if let Some(values) = fields.size_if(&["linear_num_value_heads"])? {
        let keys = fields.size(&["linear_num_key_heads"])?;
        let (key, value) = (fields.size(&["linear_key_head_dim"])?, fields.size(&["linear_value_head_dim"])?);
        return Ok(Cache::State(State {
            recurrent: values.saturating_mul(key).saturating_mul(value),
            recurrent_bytes,
            channels: keys.saturating_mul(key).saturating_mul(2).saturating_add(values.saturating_mul(value)),
            kernel: fields.size_or(&["linear_conv_kernel_dim"], 4)?,
        }));
    }
    let inner = match fields.size_if(&["mamba_intermediate_size", "mamba_d_ssm"])? {
        Some(inner) => inner,
        None => match (
            fields.size_if(&["mamba_num_heads", "mamba_n_heads", "num_heads"])?,
            fields.size_if(&["mamba_head_dim", "mamba_d_head"])?,
        ) {
            (Some(heads), Some(size)) => heads.saturating_mul(size),
            _ => hidden.saturating_mul(fields.size_or(&["mamba_expand", "expand"], 2)?),
        },
    };
    let width = fields.size(&["mamba_d_state", "ssm_state_size", "state_size"])?;
    let groups = fields.size_or(&["mamba_n_groups", "n_groups"], 0)?;
    Ok(Cache::State(State {
        recurrent: inner.saturating_mul(width),
        recurrent_bytes,
        channels: inner.saturating_add(groups.saturating_mul(width).saturating_mul(2)),
        kernel: fields.size_or(&["mamba_d_conv", "conv_kernel", "d_conv"], 4)?,
    }))
}
