//! `config.json` as transformers writes it.
//!
//! # Source
//! transformers 5.17, `models/*/configuration_*.py`: names and defaults of the fields.

use serde_json::{Map, Value};

use super::families::{DecoderFamily, ExpertFamily, Window, decoder_family};
use super::fields::{ConfigError, Fields};
use super::quantization::quantization;
use super::{convolutions, diffusion, hybrids, networks, pipeline, unet, video};
use crate::architecture::{
    Activation, Architecture, Bert, Block, Body, Clip, Decoder, Evidence, Experts, Gpt2, Latent, ModernBert,
    ModernBertBiases, QkNorm, T5, Top, Unknown, Vit, Whisper,
};
use crate::dtype::DType;
use crate::hybrid::Hybrid;
use crate::network::Network;
use crate::pipeline::Canvas;

/// More layers than any model has: what says so is wrong.
const MOST_LAYERS: u64 = 4096;

/// Reads a `config.json`.
///
/// # Errors
/// [`ConfigError`]: it is no JSON object, a field holds nonsense, fields contradict each other, or the architecture is
/// not known and its size cannot be told.
pub fn from_config(text: &[u8]) -> Result<Architecture, ConfigError> {
    from_config_value(&json_of(text)?)
}

/// A configuration's JSON, with the `Infinity` that Python writes read as null, and its `NaN` as 0: no size is one of
/// them.
///
/// # Errors
/// [`ConfigError::NotJson`].
pub(super) fn json_of(text: &[u8]) -> Result<Value, ConfigError> {
    let not_json = |error: serde_json::Error| ConfigError::NotJson(error.to_string());
    let first = match serde_json::from_slice(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let Some(mended) = without_infinities(text) else { return Err(not_json(first)) };
    serde_json::from_slice(&mended).map_err(|_| not_json(first))
}

/// The text with `Infinity`, `-Infinity` and `NaN` outside of strings replaced, in as many bytes; `None` if it has
/// none.
fn without_infinities(text: &[u8]) -> Option<Vec<u8>> {
    let mut mended = text.to_vec();
    let (mut at, mut is_in_text, mut has_any) = (0, false, false);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' if is_in_text => at += 1,
            b'"' => is_in_text = !is_in_text,
            _ if !is_in_text => {
                let rest = &text[at..];
                if let Some(word) =
                    ["-Infinity", "Infinity", "NaN"].iter().find(|word| rest.starts_with(word.as_bytes()))
                {
                    let null = format!("{:<1$}", if *word == "NaN" { "0" } else { "null" }, word.len());
                    mended[at..at + word.len()].copy_from_slice(null.as_bytes());
                    has_any = true;
                    at += word.len() - 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    has_any.then_some(mended)
}

/// Reads a configuration that is parsed already.
///
/// # Errors
/// As [`from_config`].
pub fn from_config_value(value: &Value) -> Result<Architecture, ConfigError> {
    let map = value.as_object().ok_or(ConfigError::NotAnObject(match value {
        Value::Array(_) => "a list",
        Value::String(_) => "a text",
        Value::Null => "null",
        _ => "a number or a truth value",
    }))?;
    let model_type = map.get("model_type").and_then(Value::as_str).unwrap_or("unknown");
    if let Some(class) = map.get("_class_name").and_then(Value::as_str) {
        if class.ends_with("Pipeline") {
            return pipeline::pipeline(class, map);
        }
        return of_diffusers(class, map, None);
    }
    let text = map.get("text_config").and_then(Value::as_object);
    let has_images = map.get("vision_config").is_some_and(Value::is_object);
    let mut architecture = match (text, model_type) {
        (None, "qwen2_vl" | "qwen2_5_vl") if has_images => with_towers(model_type, map, map)?,
        (Some(_), "clip" | "siglip") | (None, _) => of_type(model_type, map)?,
        (Some(text), _) => with_towers(model_type, map, text)?,
    };
    architecture.dtype = dtype_of(map).or(architecture.dtype);
    architecture.quantization = quantization(map)?;
    Ok(architecture)
}

/// A model of diffusers that generates this canvas, or without one the canvas it was made for.
pub(super) fn of_diffusers(
    class: &str,
    map: &Map<String, Value>,
    canvas: Option<Canvas>,
) -> Result<Architecture, ConfigError> {
    let name: String = class.chars().take(60).collect();
    let mut fields = Fields::new(map);
    let (body, assumptions) = match class {
        "UNet2DConditionModel" | "UNet2DModel" => {
            let latents = canvas.map(|canvas| [canvas.height, canvas.width].map(|side| (side / 8).max(1)));
            let chain = unet::unet(class, &mut fields, latents)?;
            (Body::Chain(chain), fields.assumptions)
        }
        "AutoencoderKL" => {
            let chain = unet::autoencoder(class, &mut fields, unet::Way::There)?;
            (Body::Chain(chain), fields.assumptions)
        }
        _ if video::is_known(class) => {
            let chain = video::autoencoder(class, &mut fields, canvas)?;
            (Body::Chain(chain), fields.assumptions)
        }
        _ if diffusion::is_known(class) => {
            let (network, assumptions) = diffusion::network(class, map, canvas)?;
            (Body::Network(network), assumptions)
        }
        _ => {
            let reason = "this class of diffusers is not supported".to_owned();
            return Err(ConfigError::NotComputed { name, reason });
        }
    };
    Ok(Architecture {
        name,
        family: "diffusers",
        evidence: Evidence::Shapes,
        body,
        towers: Vec::new(),
        max_positions: None,
        dtype: dtype_of(map),
        quantization: None,
        counted_parameters: None,
        assumptions,
    })
}

/// A language model with encoders beside it.
fn with_towers(
    model_type: &str,
    map: &Map<String, Value>,
    text: &Map<String, Value>,
) -> Result<Architecture, ConfigError> {
    let inner = text.get("model_type").and_then(Value::as_str).unwrap_or(match model_type {
        "gemma3n" => "gemma3n_text",
        "gemma4" => "gemma4_text",
        "qwen3_vl" => "qwen3_vl_text",
        "qwen3_vl_moe" => "qwen3_vl_moe_text",
        "qwen3_5" => "qwen3_5_text",
        "qwen3_5_moe" => "qwen3_5_moe_text",
        "llava" | "llava_next" => "llama",
        "mistral3" => "mistral",
        other => other,
    });
    // The outer configuration says whether the head is tied, where both say it, and which class it is.
    let mut text = text.clone();
    text.remove("architectures");
    if let Some(tied) = map.get("tie_word_embeddings").filter(|tied| tied.is_boolean()) {
        text.insert("tie_word_embeddings".to_owned(), tied.clone());
    }
    if model_type == "mistral3" && !text.contains_key("tie_word_embeddings") {
        // The outer configuration decides, and its default is another than the text's.
        text.insert("tie_word_embeddings".to_owned(), Value::Bool(true));
    }
    let mut architecture = of_type(inner, &text)?;
    let hidden = match &architecture.body {
        Body::Decoder(decoder) => Some(decoder.hidden),
        _ => None,
    };
    let has_images = map.get("vision_config").is_some_and(Value::is_object);
    let tower = match hidden.filter(|_| has_images) {
        Some(hidden) => networks::tower(model_type, map, hidden)?,
        None => None,
    };
    match tower {
        Some(tower) => {
            architecture.assumptions.push(format!(
                "one image per sequence: its {} patches give {} of the `--seq` tokens",
                tower.positions.unwrap_or(0),
                tower.output_positions.or(tower.positions).unwrap_or(0)
            ));
            architecture.towers = vec![tower];
            let sound = hidden.filter(|_| model_type == "gemma4").map(|hidden| networks::gemma4_sound(map, hidden));
            if let Some(sound) = sound.transpose()?.flatten() {
                architecture.assumptions.push("no audio input: the encoder is loaded but does not run".to_owned());
                architecture.towers.push(sound);
            }
            architecture.evidence = architecture.evidence.max(Evidence::Shapes);
        }
        None if ["vision_config", "audio_config"].iter().any(|name| map.get(*name).is_some_and(Value::is_object)) => {
            architecture
                .assumptions
                .push("only the language model is estimated, without vision or audio encoders".to_owned());
            architecture.evidence = architecture.evidence.max(Evidence::Shapes);
        }
        None => {}
    }
    model_type.clone_into(&mut architecture.name);
    Ok(architecture)
}

fn dtype_of(map: &Map<String, Value>) -> Option<DType> {
    ["dtype", "torch_dtype"].iter().find_map(|name| map.get(*name)).and_then(Value::as_str).and_then(DType::named)
}

fn of_type(model_type: &str, map: &Map<String, Value>) -> Result<Architecture, ConfigError> {
    let mut fields = Fields::new(map);
    let known: Option<(&'static str, Evidence, Body)> = match model_type {
        "gpt2" => Some(("gpt2", Evidence::Measured, gpt2(&mut fields)?)),
        "bert" => Some(("bert", Evidence::Measured, bert(&mut fields, false)?)),
        "roberta" | "xlm-roberta" | "camembert" => Some(("roberta", Evidence::DryRun, bert(&mut fields, true)?)),
        "modernbert" => Some(("modernbert", Evidence::DryRun, modernbert(&mut fields)?)),
        "vit" => Some(("vit", Evidence::Measured, Body::Vit(vit(&mut fields, "labels")?))),
        "clip" => Some(("clip", Evidence::DryRun, clip(map, &mut fields)?)),
        "siglip" => Some(("siglip", Evidence::Shapes, Body::Network(networks::siglip_both(map)?))),
        "siglip_vision_model" => {
            let stage = networks::siglip(map, "", "encoder.layers", false)?;
            Some(("siglip", Evidence::Shapes, Body::Network(Network { stages: vec![stage] })))
        }
        "dinov2" => Some(("dinov2", Evidence::Shapes, Body::Network(networks::dinov2(map)?))),
        "bart" => Some(("bart", Evidence::Shapes, Body::Network(networks::bart(map)?))),
        "wav2vec2" => Some(("wav2vec2", Evidence::Shapes, Body::Network(networks::wav2vec2(map)?))),
        "resnet" => Some(("resnet", Evidence::Shapes, Body::Chain(convolutions::resnet(&mut fields)?))),
        "convnext" => Some(("convnext", Evidence::Shapes, Body::Chain(convolutions::convnext(&mut fields)?))),
        "segformer" => Some(("segformer", Evidence::Shapes, Body::Chain(convolutions::segformer(&mut fields)?))),
        "swin" => Some(("swin", Evidence::Shapes, Body::Chain(convolutions::swin(&mut fields)?))),
        "detr" => Some(("detr", Evidence::Shapes, Body::Chain(convolutions::detr(&mut fields)?))),
        "clip_text_model" => Some(("clip", Evidence::Shapes, Body::Network(networks::clip_text(map)?))),
        "t5" | "mt5" | "umt5"
            if fields
                .words(&["architectures"])
                .is_some_and(|names| names.iter().any(|name| name.ends_with("EncoderModel"))) =>
        {
            Some(("t5", Evidence::Shapes, Body::Network(networks::t5_encoder(map, model_type == "umt5")?)))
        }
        "t5" | "mt5" => Some(("t5", Evidence::DryRun, t5(&mut fields)?)),
        "whisper" => Some(("whisper", Evidence::DryRun, whisper(&mut fields)?)),
        _ => decoder_family(model_type)
            .map(|family| {
                let mut body = decoder(family, &mut fields)?;
                if let Body::Decoder(decoder) = &mut body {
                    hybrids::amend(model_type, &mut fields, decoder)?;
                }
                Ok::<_, ConfigError>((family.name, family.evidence, body))
            })
            .transpose()?,
    };
    let (family, mut evidence, body) = match known {
        Some(known) => known,
        None => unknown(model_type, &mut fields)?,
    };
    check_class(family, &mut fields, &mut evidence)?;
    let max_positions = match &body {
        Body::T5(_) | Body::Unknown(_) | Body::Vit(_) | Body::Network(_) | Body::Chain(_) | Body::Pipeline(_) => None,
        Body::Whisper(whisper) => Some(whisper.target_positions),
        Body::Clip(clip) => Some(clip.positions),
        // RoBERTa's positions begin behind the padding token's.
        Body::Bert(bert) if bert.is_roberta => Some(bert.positions.saturating_sub(2)),
        _ => fields.count_if(&["max_position_embeddings", "n_positions"])?,
    };
    Ok(Architecture {
        name: model_type.to_owned(),
        family,
        evidence,
        body,
        towers: Vec::new(),
        max_positions,
        dtype: None,
        quantization: None,
        counted_parameters: None,
        assumptions: fields.assumptions,
    })
}

/// What `architectures` says to lie on the last layer.
fn top(fields: &mut Fields<'_>) -> Result<Top, ConfigError> {
    let class = fields.words(&["architectures"]).and_then(|names| names.first().copied()).unwrap_or_default();
    let of_tokens = class.ends_with("ForTokenClassification");
    if of_tokens || class.ends_with("ForSequenceClassification") {
        return Ok(Top::Labels { count: convolutions::labels(fields)?, of_tokens });
    }
    Ok(if class.ends_with("Model") && !class.ends_with("LMHeadModel") { Top::Nothing } else { Top::Words })
}

/// Refuses classes that leave out half of the model that is computed, and names those whose head is another.
fn check_class(family: &str, fields: &mut Fields<'_>, evidence: &mut Evidence) -> Result<(), ConfigError> {
    let Some(class) = fields.words(&["architectures"]).and_then(|names| names.first().copied()) else { return Ok(()) };
    let half: &[&str] = match family {
        "clip" | "siglip" => &["ForImageClassification"],
        "bart" | "whisper" | "t5" => &["ForCausalLM", "ForAudioClassification"],
        _ => &[],
    };
    if half.iter().any(|end| class.ends_with(end)) {
        return Err(ConfigError::NotComputed {
            name: family.to_owned(),
            reason: format!("its class `{}` is not supported", class.chars().take(60).collect::<String>()),
        });
    }
    let other = ["ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice"];
    let has_top = !matches!(family, "modernbert" | "gpt2" | "bart" | "t5" | "wav2vec2");
    if other.iter().any(|end| class.ends_with(end)) && !(has_top && class.ends_with("Classification")) {
        fields.assumptions.push(format!(
            "`architectures` names `{}`: estimated with the head that the family has for its vocabulary",
            class.chars().take(60).collect::<String>()
        ));
        *evidence = (*evidence).max(Evidence::Shapes);
    }
    Ok(())
}

fn decoder(family: DecoderFamily, fields: &mut Fields<'_>) -> Result<Body, ConfigError> {
    let [vocab, hidden, intermediate, layers, heads] = family.defaults;
    let vocab = fields.count(&["vocab_size"], vocab)?;
    let hidden = fields.count(&["hidden_size"], hidden)?;
    let layers = layers_of(fields, &["num_hidden_layers"], layers)?;
    let heads = fields.count(&["num_attention_heads"], heads)?;
    let intermediate = fields.count(&["intermediate_size"], intermediate)?;
    let kv_heads = fields
        .count_if(&["num_key_value_heads"])?
        .unwrap_or(family.kv_heads.filter(|_| heads == family.defaults[4]).unwrap_or(heads));
    let latent = latent(family, fields)?;
    let head_dim = match fields.count_if(&["head_dim"])? {
        Some(size) => size,
        None if latent.is_some() => hidden.div_ceil(heads),
        None => match family.head_dim {
            Some(size) => size,
            None => heads_divide(hidden, heads)?,
        },
    };
    if latent.is_none() && heads % kv_heads != 0 {
        return Err(ConfigError::Contradiction(format!(
            "`num_key_value_heads` is {kv_heads}, which does not divide `num_attention_heads`, {heads}"
        )));
    }
    let qkv_bias = fields.flag(&["attention_bias", "qkv_bias"], family.qkv_bias)?;
    let activation = activation(fields, &["hidden_activation", "hidden_act"], family.activation)?;
    let dropout = fields.probability(&["attention_dropout"], 0.0)?;
    let sliding = sliding(family, fields, layers)?;
    let cap = |fields: &Fields<'_>, name, default: bool| {
        Ok::<bool, ConfigError>(match fields.any(&[name]) {
            Some(_) => fields.number(&[name])?.is_some(),
            None => default && !fields.says_null(name),
        })
    };
    Ok(Body::Decoder(Decoder {
        vocab,
        hidden,
        layers,
        heads,
        kv_heads,
        head_dim,
        intermediate,
        tied: fields.flag(&["tie_word_embeddings"], family.tied)?,
        norm: family.norm,
        block: match family.block {
            Block::ParallelTwoNorms if !fields.flag(&["use_parallel_residual"], true)? => Block::Pre,
            block => block,
        },
        qkv_bias: family.fixed.qkv.unwrap_or(qkv_bias),
        output_bias: family.fixed.output.unwrap_or(qkv_bias),
        mlp_bias: match family.fixed.mlp {
            Some(fixed) => fixed,
            None => fields.flag(&["mlp_bias"], false)?,
        },
        head_bias: family.fixed.head,
        top: top(fields)?,
        qkv: family.qkv,
        mlp: family.mlp,
        activation,
        qk_norm: if family.may_norm_qk && fields.flag(&["qk_layernorm"], false)? {
            QkNorm::PerHead
        } else {
            family.qk_norm
        },
        rotary_dim: rotary_dim(family, fields, head_dim)?,
        // Configurations that slide nowhere write 0.
        sliding_window: Some(fields.count_or_zero(&["sliding_window"])?).filter(|window| *window > 0),
        sliding_layers: sliding,
        attention_cap: cap(fields, "attn_logit_softcapping", family.soft_caps)?,
        logit_cap: cap(fields, "final_logit_softcapping", family.soft_caps)?,
        embedding_scale: family.embedding_scale,
        rotary_in_float32: family.rotary_in_float32,
        rotary_tables: family.rotary_tables,
        embedding_dropout: fields.probability(
            &["embd_pdrop"],
            if family.hidden_dropout_at_embedding { fields.probability(&["hidden_dropout"], 0.0)? } else { 0.0 },
        )?,
        residual_dropout: fields.probability(&["resid_pdrop", "hidden_dropout"], 0.0)?,
        attention_dropout: dropout,
        experts: experts(family, fields, layers, intermediate)?.map(choosable).transpose()?,
        latent,
        hybrid: Hybrid::default(),
    }))
}

pub(super) fn heads_divide(hidden: u64, heads: u64) -> Result<u64, ConfigError> {
    if hidden.is_multiple_of(heads) {
        return Ok(hidden / heads);
    }
    Err(ConfigError::Contradiction(format!(
        "`hidden_size` is {hidden}, which `num_attention_heads`, {heads}, does not divide, and there is no `head_dim`"
    )))
}

pub(super) fn layers_of(fields: &mut Fields<'_>, names: &[&str], default: u64) -> Result<u64, ConfigError> {
    let layers = fields.count(names, default)?;
    if layers > MOST_LAYERS {
        return Err(ConfigError::Contradiction(format!(
            "`{}` is {layers}: no model has more than {MOST_LAYERS} layers",
            names[0]
        )));
    }
    Ok(layers)
}

fn rotary_dim(family: DecoderFamily, fields: &Fields<'_>, head_dim: u64) -> Result<u64, ConfigError> {
    let inner = fields.object("rope_parameters").map(Fields::new);
    let named = match inner.as_ref().map(|inner| inner.number(&["partial_rotary_factor"])).transpose()?.flatten() {
        Some(factor) => Some(factor),
        None => fields.number(&["partial_rotary_factor", "rotary_pct"])?,
    };
    let factor = named.unwrap_or(family.rotary_factor);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a part of a head, as Python computes it"
    )]
    let size = (head_dim as f64 * factor.clamp(0.0, 1.0)) as u64;
    Ok(size.min(head_dim))
}

/// For each layer whether it has the window.
fn sliding(family: DecoderFamily, fields: &Fields<'_>, layers: u64) -> Result<Vec<bool>, ConfigError> {
    if let Some(types) = fields.words(&["layer_types"]) {
        return Ok(types.iter().map(|kind| *kind == "sliding_attention").collect());
    }
    let pattern = fields.count_if(&["sliding_window_pattern"])?;
    Ok(match family.window {
        Window::UnlessNull => vec![!fields.says_null("sliding_window")],
        Window::IfThere => vec![fields.any(&["sliding_window"]).is_some()],
        Window::EveryOther => vec![true, false],
        Window::Pattern => (1..=pattern.unwrap_or(6).min(64)).map(|layer| layer < pattern.unwrap_or(6)).collect(),
        Window::FromLayer if fields.flag(&["use_sliding_window"], false)? => {
            let first = fields.count_or_zero(&["max_window_layers"])?;
            (0..layers).map(|layer| layer >= first).collect()
        }
        Window::FromLayer | Window::Never => vec![false],
    })
}

fn experts(
    family: DecoderFamily,
    fields: &mut Fields<'_>,
    layers: u64,
    intermediate: u64,
) -> Result<Option<Experts>, ConfigError> {
    let every = |fields: &Fields<'_>| -> Result<Vec<bool>, ConfigError> {
        let step = fields.count_if(&["decoder_sparse_step"])?.unwrap_or(1);
        let dense = fields.numbers(&["mlp_only_layers"]);
        Ok((0..layers).map(|layer| !dense.contains(&layer) && (layer + 1) % step == 0).collect())
    };
    Ok(Some(match family.experts {
        ExpertFamily::None => return Ok(None),
        ExpertFamily::Mixtral(count, per_token) => Experts {
            count: fields.count(&["num_local_experts", "num_experts"], count)?,
            per_token: fields.count(&["num_experts_per_tok", "experts_per_token"], per_token)?,
            intermediate,
            shared_intermediate: 0,
            shared_gate: false,
            gated: true,
            biases: false,
            latent: 0,
            renormalised: true,
            sigmoid_router: false,
            router_in_float32: false,
            beside_mlp: false,
            layers: vec![true],
        },
        ExpertFamily::Qwen { count, per_token, intermediate, shared } => Experts {
            count: fields.count(&["num_experts", "num_local_experts"], count)?,
            per_token: fields.count(&["num_experts_per_tok"], per_token)?,
            intermediate: fields.count(&["moe_intermediate_size"], intermediate)?,
            shared_intermediate: match shared {
                Some(width) => fields.count(&["shared_expert_intermediate_size"], width)?,
                None => 0,
            },
            shared_gate: shared.is_some(),
            gated: true,
            biases: false,
            latent: 0,
            renormalised: fields.flag(&["norm_topk_prob"], false)?,
            sigmoid_router: false,
            router_in_float32: false,
            beside_mlp: false,
            layers: every(fields)?,
        },
        ExpertFamily::DeepSeek { count, intermediate, shared, first_dense, has_sigmoid_router } => {
            let width = fields.count(&["moe_intermediate_size"], intermediate)?;
            let shared = fields.count_if(&["n_shared_experts", "num_shared_experts"])?.unwrap_or(shared);
            let first = match fields.any(&["first_k_dense_replace"]) {
                Some(_) => fields.count_or_zero(&["first_k_dense_replace"])?,
                None => first_dense,
            };
            Experts {
                count: fields.count(&["n_routed_experts", "num_local_experts", "num_experts"], count)?,
                per_token: fields.count(&["num_experts_per_tok", "num_experts_per_token"], 8)?,
                intermediate: width,
                shared_intermediate: width.saturating_mul(shared),
                shared_gate: false,
                gated: true,
                biases: false,
                latent: 0,
                renormalised: fields.flag(&["norm_topk_prob"], has_sigmoid_router)?,
                sigmoid_router: has_sigmoid_router,
                router_in_float32: true,
                beside_mlp: false,
                layers: (0..layers).map(|layer| layer >= first).collect(),
            }
        }
    }))
}

/// Refuses to choose more experts than there are.
pub(super) fn choosable(experts: Experts) -> Result<Experts, ConfigError> {
    if experts.per_token <= experts.count {
        return Ok(experts);
    }
    Err(ConfigError::Contradiction(format!(
        "`num_experts_per_tok` is {}, more than there are experts, {}",
        experts.per_token, experts.count
    )))
}

fn latent(family: DecoderFamily, fields: &mut Fields<'_>) -> Result<Option<Latent>, ConfigError> {
    if !family.latent {
        return Ok(None);
    }
    Ok(Some(Latent {
        q_rank: if fields.says_null("q_lora_rank") { 0 } else { fields.count(&["q_lora_rank"], 1536)? },
        kv_rank: fields.count(&["kv_lora_rank"], 512)?,
        nope_dim: fields.count(&["qk_nope_head_dim"], 128)?,
        rope_dim: fields.count(&["qk_rope_head_dim"], 64)?,
        value_dim: fields.count(&["v_head_dim"], 128)?,
        indexer: (0, 0),
    }))
}

/// How an activation function is computed.
///
/// # Source
/// transformers 5.17, `activations.py`, `ACT2FN`.
fn activation(fields: &mut Fields<'_>, names: &[&str], default: &str) -> Result<Activation, ConfigError> {
    let name = fields.word(names)?.unwrap_or(default);
    Ok(match name {
        "silu" | "swish" | "gelu" | "gelu_pytorch_tanh" | "gelu_python" | "mish" => Activation::Input,
        "relu" | "tanh" | "sigmoid" | "relu6" => Activation::Output,
        "gelu_new" | "gelu_fast" | "gelu_accurate" => Activation::GeluNew,
        "quick_gelu" => Activation::QuickGelu,
        other => {
            fields.assumptions.push(format!("the activation function `{other}` is unknown: assumed to save its input"));
            Activation::Input
        }
    })
}

fn gpt2(fields: &mut Fields<'_>) -> Result<Body, ConfigError> {
    let hidden = fields.count(&["n_embd", "hidden_size"], 768)?;
    let heads = fields.count(&["n_head", "num_attention_heads"], 12)?;
    heads_divide(hidden, heads)?;
    Ok(Body::Gpt2(Gpt2 {
        vocab: fields.count(&["vocab_size"], 50_257)?,
        hidden,
        layers: layers_of(fields, &["n_layer", "num_hidden_layers"], 12)?,
        heads,
        intermediate: fields.count_if(&["n_inner"])?.unwrap_or(hidden.saturating_mul(4)),
        positions: fields.count(&["n_positions", "max_position_embeddings"], 1024)?,
        tied: fields.flag(&["tie_word_embeddings"], true)?,
        activation: activation(fields, &["activation_function"], "gelu_new")?,
        dropouts: (
            fields.probability(&["embd_pdrop"], 0.1)?,
            fields.probability(&["resid_pdrop"], 0.1)?,
            fields.probability(&["attn_pdrop"], 0.1)?,
        ),
    }))
}

fn bert(fields: &mut Fields<'_>, is_roberta: bool) -> Result<Body, ConfigError> {
    let hidden = fields.count(&["hidden_size"], 768)?;
    let heads = fields.count(&["num_attention_heads"], 12)?;
    heads_divide(hidden, heads)?;
    Ok(Body::Bert(Bert {
        vocab: fields.count(&["vocab_size"], if is_roberta { 50_265 } else { 30_522 })?,
        hidden,
        layers: layers_of(fields, &["num_hidden_layers"], 12)?,
        heads,
        intermediate: fields.count(&["intermediate_size"], 3072)?,
        positions: fields.count(&["max_position_embeddings"], 512)?,
        token_types: fields.count(&["type_vocab_size"], 2)?,
        activation: activation(fields, &["hidden_act"], "gelu")?,
        dropouts: (
            fields.probability(&["hidden_dropout_prob"], 0.1)?,
            fields.probability(&["attention_probs_dropout_prob"], 0.1)?,
        ),
        tied: fields.flag(&["tie_word_embeddings"], true)?,
        is_roberta,
        top: top(fields)?,
    }))
}

fn modernbert(fields: &mut Fields<'_>) -> Result<Body, ConfigError> {
    let hidden = fields.count(&["hidden_size"], 768)?;
    let heads = fields.count(&["num_attention_heads"], 12)?;
    heads_divide(hidden, heads)?;
    Ok(Body::ModernBert(ModernBert {
        vocab: fields.count(&["vocab_size"], 50_368)?,
        hidden,
        layers: layers_of(fields, &["num_hidden_layers"], 22)?,
        heads,
        intermediate: fields.count(&["intermediate_size"], 1152)?,
        global_every: fields.count_if(&["global_attn_every_n_layers"])?.unwrap_or(3),
        window: fields.count_if(&["local_attention"])?.unwrap_or(128),
        tied: fields.flag(&["tie_word_embeddings"], true)?,
        biases: ModernBertBiases {
            attention: fields.flag(&["attention_bias"], false)?,
            mlp: fields.flag(&["mlp_bias"], false)?,
            norm: fields.flag(&["norm_bias"], false)?,
            head: fields.flag(&["classifier_bias"], false)?,
            decoder: fields.flag(&["decoder_bias"], true)?,
        },
    }))
}

fn vit(fields: &mut Fields<'_>, labels: &str) -> Result<Vit, ConfigError> {
    let hidden = fields.count(&["hidden_size"], 768)?;
    let heads = fields.count(&["num_attention_heads"], 12)?;
    heads_divide(hidden, heads)?;
    let image = fields.sides("image_size", 224)?;
    let patch = fields.sides("patch_size", if labels == "labels" { 16 } else { 32 })?;
    if patch[0] > image[0] || patch[1] > image[1] {
        let [[height, width], [patch_height, patch_width]] = [image, patch];
        return Err(ConfigError::Contradiction(format!(
            "`patch_size` is {patch_height} × {patch_width}, larger than `image_size`, {height} × {width}"
        )));
    }
    let counted = fields.object("id2label").map(|labels| u64::try_from(labels.len()).unwrap_or(u64::MAX));
    let classes = match fields.count_if(&["num_labels"])?.or(counted.filter(|count| *count > 0)) {
        Some(classes) => classes,
        None => {
            if labels == "labels" {
                fields.assume("num_labels", "2");
            }
            2
        }
    };
    Ok(Vit {
        image,
        patch,
        channels: fields.count_if(&["num_channels"])?.unwrap_or(3),
        hidden,
        layers: layers_of(fields, &["num_hidden_layers"], 12)?,
        heads,
        intermediate: fields.count(&["intermediate_size"], 3072)?,
        labels: classes,
        activation: activation(fields, &["hidden_act"], if labels == "labels" { "gelu" } else { "quick_gelu" })?,
        qkv_bias: fields.flag(&["qkv_bias"], true)?,
        dropouts: (
            fields.probability(&["hidden_dropout_prob"], 0.0)?,
            fields.probability(&["attention_probs_dropout_prob", "attention_dropout"], 0.0)?,
        ),
    })
}

fn clip(map: &Map<String, Value>, fields: &mut Fields<'_>) -> Result<Body, ConfigError> {
    let empty = Map::new();
    let part = |name: &str| map.get(name).and_then(Value::as_object).unwrap_or(&empty);
    let mut text = Fields::new(part("text_config"));
    let mut vision = Fields::new(part("vision_config"));
    let clip = Clip {
        vision: vit(&mut vision, "tower")?,
        vocab: text.count(&["vocab_size"], 49_408)?,
        hidden: text.count(&["hidden_size"], 512)?,
        layers: layers_of(&mut text, &["num_hidden_layers"], 12)?,
        heads: text.count(&["num_attention_heads"], 8)?,
        intermediate: text.count(&["intermediate_size"], 2048)?,
        positions: text.count(&["max_position_embeddings"], 77)?,
        activation: activation(&mut text, &["hidden_act"], "quick_gelu")?,
        projection: fields.count(&["projection_dim"], 512)?,
    };
    heads_divide(clip.hidden, clip.heads)?;
    fields.assumptions.append(&mut text.assumptions);
    fields.assumptions.append(&mut vision.assumptions);
    Ok(Body::Clip(clip))
}

fn t5(fields: &mut Fields<'_>) -> Result<Body, ConfigError> {
    let layers = layers_of(fields, &["num_layers"], 6)?;
    let decoder_layers = fields.count_if(&["num_decoder_layers"])?.unwrap_or(layers).min(MOST_LAYERS);
    let projection = fields.word(&["feed_forward_proj"])?.unwrap_or("relu");
    let gated = projection.starts_with("gated-");
    let act = match projection.strip_prefix("gated-").unwrap_or(projection) {
        // `gated-gelu` means `gelu_new`, for compatibility (`configuration_t5.py`).
        "gelu" if gated => Activation::GeluNew,
        "relu" => Activation::Output,
        "gelu_new" => Activation::GeluNew,
        _ => Activation::Input,
    };
    Ok(Body::T5(T5 {
        vocab: fields.count(&["vocab_size"], 32_128)?,
        hidden: fields.count(&["d_model"], 512)?,
        head_dim: fields.count(&["d_kv"], 64)?,
        heads: fields.count(&["num_heads"], 8)?,
        intermediate: fields.count(&["d_ff"], 2048)?,
        layers,
        decoder_layers,
        buckets: fields.count(&["relative_attention_num_buckets"], 32)?,
        gated,
        activation: act,
        dropout: fields.probability(&["dropout_rate"], 0.1)?,
        // Head and embedding are one in the T5 family; the flag only says whether the decoder's output is scaled.
        tied: true,
        scales_output: fields.flag(&["tie_word_embeddings"], true)?,
    }))
}

fn whisper(fields: &mut Fields<'_>) -> Result<Body, ConfigError> {
    let hidden = fields.count(&["d_model"], 384)?;
    let heads = fields.count(&["encoder_attention_heads"], 6)?;
    let decoder_heads = fields.count(&["decoder_attention_heads"], 6)?;
    heads_divide(hidden, heads)?;
    heads_divide(hidden, decoder_heads)?;
    Ok(Body::Whisper(Whisper {
        vocab: fields.count(&["vocab_size"], 51_865)?,
        hidden,
        layers: layers_of(fields, &["encoder_layers"], 4)?,
        decoder_layers: layers_of(fields, &["decoder_layers"], 4)?,
        heads,
        decoder_heads,
        intermediate: fields.count(&["encoder_ffn_dim"], 1536)?,
        decoder_intermediate: fields.count(&["decoder_ffn_dim"], 1536)?,
        tied: fields.flag(&["tie_word_embeddings"], true)?,
        mel_bins: fields.count(&["num_mel_bins"], 80)?,
        source_positions: fields.count(&["max_source_positions"], 1500)?,
        target_positions: fields.count(&["max_target_positions"], 448)?,
        dropout: fields.probability(&["dropout"], 0.0)?,
        attention_dropout: fields.probability(&["attention_dropout"], 0.0)?,
    }))
}

/// An architecture that is not known is one of which only the size is, if the configuration says it.
fn unknown(model_type: &str, fields: &mut Fields<'_>) -> Result<(&'static str, Evidence, Body), ConfigError> {
    let stated = fields.count_if(&["num_parameters", "n_params", "parameters"])?;
    let Some(parameters) = stated else {
        let is_sized = fields.any(&["hidden_size", "d_model", "n_embd", "dim"]).is_some();
        return Err(if is_sized {
            ConfigError::NotComputed {
                name: model_type.chars().take(60).collect(),
                reason: "its family is unknown, and models of the same size differ in their layers".to_owned(),
            }
        } else {
            ConfigError::UnknownSize(model_type.chars().take(60).collect())
        });
    };
    let hidden = fields.count_if(&["hidden_size", "d_model", "n_embd", "dim"])?;
    let layers = fields.count_if(&["num_hidden_layers", "n_layer", "num_layers", "n_layers"])?;
    let layers = layers.filter(|layers| *layers <= MOST_LAYERS);
    let body = Body::Unknown(Unknown { parameters, largest: parameters / 20, hidden, layers, vocab: None });
    Ok(("unknown", Evidence::Unknown, body))
}
