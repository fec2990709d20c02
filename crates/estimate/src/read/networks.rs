//! Encoders of images and sound, and diffusion transformers, as the lists of their weights.
//!
//! # Source
//! transformers 5.23, `models/*/modeling_*.py`; diffusers 0.42, `models/transformers/`: names and sizes of the
//! parameters.

use serde_json::{Map, Value};

use super::config::{heads_divide, layers_of};
use super::convolutions::sizes;
use super::fields::{ConfigError, Fields};
use crate::network::{Network, Piece, Stage, convolution, linear, norm, other, table};

/// Side of the image that is assumed where an encoder takes any.
const SIDE: u64 = 1024;

/// What the encoder of images takes and how its sizes are called.
fn stage(prefix: &'static str, layers_prefix: &'static str, width: u64, heads: u64, intermediate: u64) -> Stage {
    Stage {
        prefix,
        layers_prefix,
        input: 0,
        positions: None,
        width,
        heads,
        intermediate,
        before: Vec::new(),
        layers: Vec::new(),
        after: Vec::new(),
        buffer: 0,
        output_positions: None,
    }
}

/// The layer of `SigLIP`, CLIP and Llama 4: norms with biases, four products, an MLP.
fn plain_layer(width: u64, intermediate: u64) -> Vec<Piece> {
    vec![
        norm("layer_norm1", width, true),
        linear("self_attn.q_proj", width, width, true),
        linear("self_attn.k_proj", width, width, true),
        linear("self_attn.v_proj", width, width, true),
        linear("self_attn.out_proj", width, width, true),
        norm("layer_norm2", width, true),
        linear("mlp.fc1", intermediate, width, true),
        linear("mlp.fc2", width, intermediate, true),
    ]
}

/// A layer of Qwen's encoders, or of Pixtral: a gate in the MLP or none.
fn block(width: u64, intermediate: u64, gated: bool, bias: bool, norm_bias: bool) -> Vec<Piece> {
    let mut pieces = vec![
        norm("norm1", width, norm_bias),
        linear("attn.qkv", width.saturating_mul(3), width, bias),
        linear("attn.proj", width, width, bias),
        norm("norm2", width, norm_bias),
    ];
    if gated {
        pieces.push(linear("mlp.gate_proj", intermediate, width, bias));
        pieces.push(linear("mlp.up_proj", intermediate, width, bias));
    } else {
        pieces.push(linear("mlp.linear_fc1", intermediate, width, bias));
    }
    pieces.push(linear("mlp.down_proj", width, intermediate, bias));
    pieces
}

/// `[size, size]` or a number: patches of a side, and pixels in all.
fn patches(fields: &mut Fields<'_>, image: u64, patch: u64) -> Result<(u64, u64, u64), ConfigError> {
    let image = fields.sides("image_size", image)?;
    let patch = fields.sides("patch_size", patch)?;
    let count = (image[0] / patch[0].max(1)).saturating_mul(image[1] / patch[1].max(1));
    let channels = fields.count_if(&["num_channels", "in_channels", "in_chans"])?.unwrap_or(3);
    let pixels = image[0].saturating_mul(image[1]).saturating_mul(channels);
    Ok((count, pixels, channels.saturating_mul(patch[0]).saturating_mul(patch[1])))
}

/// `SigLIP`'s and CLIP's encoder of images.
pub(super) fn siglip(
    map: &Map<String, Value>,
    prefix: &'static str,
    layers: &'static str,
    is_clip: bool,
) -> Result<Stage, ConfigError> {
    let mut fields = Fields::new(map);
    let width = fields.count(&["hidden_size"], 768)?;
    let heads = fields.count(&["num_attention_heads"], 12)?;
    heads_divide(width, heads)?;
    let intermediate = fields.count(&["intermediate_size"], 3072)?;
    let (count, pixels, patch) = patches(&mut fields, 224, if is_clip { 32 } else { 16 })?;
    let mut stage = stage(prefix, layers, width, heads, intermediate);
    let positions = count.saturating_add(u64::from(is_clip));
    (stage.input, stage.positions) = (pixels, Some(positions));
    if is_clip {
        stage.before.push(other("embeddings.class_embedding", &[width]));
        stage.before.push(norm("pre_layrnorm", width, true));
    }
    stage.before.push(convolution("embeddings.patch_embedding", &[width, patch], !is_clip));
    stage.before.push(table("embeddings.position_embedding", &[positions, width]));
    let depth = layers_of(&mut fields, &["num_hidden_layers"], 12)?;
    stage.layers.push((depth, plain_layer(width, intermediate)));
    stage.after.push(norm("post_layernorm", width, true));
    if !is_clip && fields.flag(&["vision_use_head"], true)? {
        stage.after.extend([
            other("head.probe", &[width]),
            linear("head.attention.in_proj", width.saturating_mul(3), width, true),
            linear("head.attention.out_proj", width, width, true),
            norm("head.layernorm", width, true),
            linear("head.mlp.fc1", intermediate, width, true),
            linear("head.mlp.fc2", width, intermediate, true),
        ]);
    }
    Ok(stage)
}

/// `SigLIP`: both encoders.
pub(super) fn siglip_both(map: &Map<String, Value>) -> Result<Network, ConfigError> {
    let empty = Map::new();
    let part = |name: &str| map.get(name).and_then(Value::as_object).unwrap_or(&empty);
    let vision = siglip(part("vision_config"), "vision_model", "vision_model.encoder.layers", false)?;
    let mut fields = Fields::new(part("text_config"));
    let width = fields.count(&["hidden_size"], 768)?;
    let heads = fields.count(&["num_attention_heads"], 12)?;
    heads_divide(width, heads)?;
    let intermediate = fields.count(&["intermediate_size"], 3072)?;
    let positions = fields.count(&["max_position_embeddings"], 64)?;
    let mut text = stage("text_model", "text_model.encoder.layers", width, heads, intermediate);
    text.positions = Some(positions);
    text.before = vec![
        table("embeddings.token_embedding", &[fields.count(&["vocab_size"], 32_000)?, width]),
        table("embeddings.position_embedding", &[positions, width]),
    ];
    text.layers.push((layers_of(&mut fields, &["num_hidden_layers"], 12)?, plain_layer(width, intermediate)));
    let projected = fields.count_if(&["projection_size"])?.unwrap_or(width);
    text.after = vec![
        norm("final_layer_norm", width, true),
        linear("head", projected, width, true),
        other("logit_scale", &[1]),
        other("logit_bias", &[1]),
    ];
    Ok(Network { stages: vec![vision, text] })
}

/// CLIP's encoder of text by itself, with its projection where `architectures` names it.
pub(super) fn clip_text(map: &Map<String, Value>) -> Result<Network, ConfigError> {
    let mut fields = Fields::new(map);
    let width = fields.count(&["hidden_size"], 512)?;
    let heads = fields.count(&["num_attention_heads"], 8)?;
    heads_divide(width, heads)?;
    let intermediate = fields.count(&["intermediate_size"], 2048)?;
    let positions = fields.count(&["max_position_embeddings"], 77)?;
    let mut text = stage("text_model", "text_model.encoder.layers", width, heads, intermediate);
    text.positions = Some(positions);
    text.before = vec![
        table("embeddings.token_embedding", &[fields.count(&["vocab_size"], 49_408)?, width]),
        table("embeddings.position_embedding", &[positions, width]),
    ];
    text.layers.push((layers_of(&mut fields, &["num_hidden_layers"], 12)?, plain_layer(width, intermediate)));
    text.after = vec![norm("final_layer_norm", width, true)];
    let projects = fields.words(&["architectures"]).is_some_and(|names| names.contains(&"CLIPTextModelWithProjection"));
    if projects {
        text.after.push(linear("text_projection", fields.count(&["projection_dim"], 512)?, width, false));
    }
    Ok(Network { stages: vec![text] })
}

/// T5's encoder by itself; UMT5 has a table of relative positions in every layer.
pub(super) fn t5_encoder(map: &Map<String, Value>, has_tables: bool) -> Result<Network, ConfigError> {
    let mut fields = Fields::new(map);
    let width = fields.count(&["d_model"], 512)?;
    let heads = fields.count(&["num_heads"], 8)?;
    let inner = heads.saturating_mul(fields.count(&["d_kv"], 64)?);
    let intermediate = fields.count(&["d_ff"], 2048)?;
    let depth = layers_of(&mut fields, &["num_layers"], 6)?;
    let buckets = fields.count(&["relative_attention_num_buckets"], 32)?;
    let is_gated = fields.word(&["feed_forward_proj"])?.unwrap_or("relu").starts_with("gated-");
    let mut stage = stage("encoder", "encoder.block", width, heads, intermediate);
    stage.before = vec![table("shared", &[fields.count(&["vocab_size"], 32_128)?, width])];
    let mut layer = vec![norm("layer.0.layer_norm", width, false)];
    layer.extend(["q", "k", "v"].map(|_| linear("layer.0.SelfAttention.qkv", inner, width, false)));
    layer.push(linear("layer.0.SelfAttention.o", width, inner, false));
    layer.push(norm("layer.1.layer_norm", width, false));
    if is_gated {
        layer.push(linear("layer.1.DenseReluDense.wi_0", intermediate, width, false));
    }
    layer.push(linear("layer.1.DenseReluDense.wi", intermediate, width, false));
    layer.push(linear("layer.1.DenseReluDense.wo", width, intermediate, false));
    let positions = other("relative_attention_bias", &[buckets, heads]);
    if has_tables {
        layer.insert(0, positions);
    } else {
        stage.before.push(positions);
    }
    stage.layers.push((depth, layer));
    stage.after = vec![norm("final_layer_norm", width, false)];
    Ok(Network { stages: vec![stage] })
}

/// `DINOv2`.
pub(super) fn dinov2(map: &Map<String, Value>) -> Result<Network, ConfigError> {
    let mut fields = Fields::new(map);
    let width = fields.count(&["hidden_size"], 768)?;
    let heads = fields.count(&["num_attention_heads"], 12)?;
    heads_divide(width, heads)?;
    let ratio = fields.count_if(&["mlp_ratio"])?.unwrap_or(4);
    let intermediate = width.saturating_mul(ratio);
    let (count, pixels, patch) = patches(&mut fields, 224, 14)?;
    let bias = fields.flag(&["qkv_bias"], true)?;
    let is_swiglu = fields.flag(&["use_swiglu_ffn"], false)?;
    let mut stage = stage("embeddings", "encoder.layer", width, heads, intermediate);
    (stage.input, stage.positions) = (pixels, Some(count.saturating_add(1)));
    stage.before = vec![
        other("cls_token", &[width]),
        other("mask_token", &[width]),
        table("position_embeddings", &[count.saturating_add(1), width]),
        convolution("patch_embeddings.projection", &[width, patch], true),
    ];
    if !fields.flag(&["use_mask_token"], true)? {
        stage.before.remove(1);
    }
    let mut layer = vec![
        norm("norm1", width, true),
        linear("attention.q_proj", width, width, bias),
        linear("attention.k_proj", width, width, bias),
        linear("attention.v_proj", width, width, bias),
        linear("attention.o_proj", width, width, true),
        other("layer_scale1.lambda1", &[width]),
        norm("norm2", width, true),
    ];
    if is_swiglu {
        // Two thirds of the width, rounded up to a multiple of eight; both halves in one product.
        let half = (intermediate.saturating_mul(2) / 3).div_ceil(8).saturating_mul(8);
        layer.push(linear("mlp.weights_in", half.saturating_mul(2), width, true));
        layer.push(linear("mlp.weights_out", width, half, true));
    } else {
        layer.push(linear("mlp.fc1", intermediate, width, true));
        layer.push(linear("mlp.fc2", width, intermediate, true));
    }
    layer.push(other("layer_scale2.lambda1", &[width]));
    stage.layers.push((layers_of(&mut fields, &["num_hidden_layers"], 12)?, layer));
    stage.after = vec![norm("layernorm", width, true)];
    if fields.words(&["architectures"]).is_some_and(|names| names.contains(&"Dinov2ForImageClassification")) {
        // The class token beside the mean of the patches.
        let labels = super::convolutions::labels(&mut fields)?;
        stage.after.push(linear("classifier", labels, width.saturating_mul(2), true));
    }
    Ok(Network { stages: vec![stage] })
}

/// BART with its head.
pub(super) fn bart(map: &Map<String, Value>) -> Result<Network, ConfigError> {
    let mut fields = Fields::new(map);
    let width = fields.count(&["d_model"], 1024)?;
    let vocab = fields.count(&["vocab_size"], 50_265)?;
    let positions = fields.count(&["max_position_embeddings"], 1024)?.saturating_add(2);
    let layer = |width: u64, intermediate: u64, is_decoder: bool| {
        let attention = |names: [&'static str; 5]| {
            let [norm_name, products @ ..] = names;
            let mut pieces: Vec<Piece> = products.map(|name| linear(name, width, width, true)).to_vec();
            pieces.push(norm(norm_name, width, true));
            pieces
        };
        let mut pieces = attention([
            "self_attn_layer_norm",
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.out_proj",
        ]);
        if is_decoder {
            pieces.extend(attention([
                "encoder_attn_layer_norm",
                "encoder_attn.q_proj",
                "encoder_attn.k_proj",
                "encoder_attn.v_proj",
                "encoder_attn.out_proj",
            ]));
        }
        pieces.extend([
            linear("fc1", intermediate, width, true),
            linear("fc2", width, intermediate, true),
            norm("final_layer_norm", width, true),
        ]);
        pieces
    };
    let mut stages = Vec::new();
    for is_decoder in [false, true] {
        let (side, prefix, layers) = if is_decoder {
            ("decoder", "model.decoder", "model.decoder.layers")
        } else {
            ("encoder", "model.encoder", "model.encoder.layers")
        };
        let names = [format!("{side}_attention_heads"), format!("{side}_ffn_dim"), format!("{side}_layers")];
        let heads = fields.count(&[&names[0]], 16)?;
        heads_divide(width, heads)?;
        let intermediate = fields.count(&[&names[1]], 4096)?;
        let depth = layers_of(&mut fields, &[&names[2]], 12)?;
        let mut stage = stage(prefix, layers, width, heads, intermediate);
        stage.before = vec![table("embed_positions", &[positions, width]), norm("layernorm_embedding", width, true)];
        if !is_decoder {
            stage.before.push(table("shared", &[vocab, width]));
        }
        stage.layers.push((depth, layer(width, intermediate, is_decoder)));
        if is_decoder {
            // The head is the table of embeddings once more: its product, without a weight of its own.
            let tied = fields.flag(&["tie_word_embeddings"], true)?;
            if tied {
                stage
                    .after
                    .push(Piece { kind: crate::quantization::WeightKind::Head, ..linear("lm_head", vocab, 0, false) });
            } else {
                stage.after.push(linear("lm_head", vocab, width, false));
            }
        }
        stages.push(stage);
    }
    Ok(Network { stages })
}

/// wav2vec 2.0 with its head for characters.
pub(super) fn wav2vec2(map: &Map<String, Value>) -> Result<Network, ConfigError> {
    /// The channels, lengths and steps of the convolutions, where a configuration has none.
    const KERNELS: [u64; 7] = [10, 3, 3, 3, 3, 2, 2];
    let mut fields = Fields::new(map);
    let list = |fields: &Fields<'_>, name: &str, default: &[u64]| match fields.any(&[name]) {
        Some(_) => fields.numbers(&[name]),
        None => default.to_vec(),
    };
    let width = fields.count(&["hidden_size"], 768)?;
    let heads = fields.count(&["num_attention_heads"], 12)?;
    heads_divide(width, heads)?;
    let intermediate = fields.count(&["intermediate_size"], 3072)?;
    let (channels, kernels) = (list(&fields, "conv_dim", &[512; 7]), list(&fields, "conv_kernel", &KERNELS));
    if channels.len() != kernels.len() || channels.is_empty() || channels.len() > 64 {
        return Err(ConfigError::Contradiction("`conv_dim` and `conv_kernel` are not lists of one length".to_owned()));
    }
    let bias = fields.flag(&["conv_bias"], false)?;
    let is_layer_norm = fields.word(&["feat_extract_norm"])? == Some("layer");
    let mut stage = stage("wav2vec2", "wav2vec2.encoder.layers", width, heads, intermediate);
    let mut input = 1;
    for (index, (&output, &kernel)) in channels.iter().zip(&kernels).enumerate() {
        stage.before.push(convolution("feature_extractor.conv_layers.conv", &[output, input, kernel], bias));
        if is_layer_norm || index == 0 {
            stage.before.push(norm("feature_extractor.conv_layers.layer_norm", output, true));
        }
        input = output;
    }
    let (kernel, groups) = (
        fields.count_if(&["num_conv_pos_embeddings"])?.unwrap_or(128),
        fields.count_if(&["num_conv_pos_embedding_groups"])?.unwrap_or(16),
    );
    stage.before.extend([
        norm("feature_projection.layer_norm", input, true),
        linear("feature_projection.projection", width, input, true),
        convolution("encoder.pos_conv_embed.conv", &[width, width / groups.max(1), kernel], true),
        other("encoder.pos_conv_embed.conv.original0", &[kernel]),
        norm("encoder.layer_norm", width, true),
    ]);
    let is_masked = fields.number(&["mask_time_prob"])?.unwrap_or(0.05) > 0.0
        || fields.number(&["mask_feature_prob"])?.unwrap_or(0.0) > 0.0;
    if is_masked {
        stage.before.push(other("masked_spec_embed", &[width]));
    }
    // Ten seconds at 16 kHz: a position for 320 samples.
    (stage.input, stage.positions) = (160_000, Some(499));
    let layer = vec![
        linear("attention.q_proj", width, width, true),
        linear("attention.k_proj", width, width, true),
        linear("attention.v_proj", width, width, true),
        linear("attention.out_proj", width, width, true),
        norm("layer_norm", width, true),
        linear("feed_forward.intermediate_dense", intermediate, width, true),
        linear("feed_forward.output_dense", width, intermediate, true),
        norm("final_layer_norm", width, true),
    ];
    stage.layers.push((layers_of(&mut fields, &["num_hidden_layers"], 12)?, layer));
    stage.after = vec![linear("lm_head", fields.count(&["vocab_size"], 32)?, width, true)];
    Ok(Network { stages: vec![stage] })
}

/// Gemma 4's encoder of sound, a conformer, as it lies beside images and text: no sample has sound.
///
/// # Source
/// transformers 5.17, `models/gemma4/modeling_gemma4.py`, `Gemma4AudioModel`.
pub(super) fn gemma4_sound(map: &Map<String, Value>, hidden: u64) -> Result<Option<Stage>, ConfigError> {
    let Some(sound) = map.get("audio_config").and_then(Value::as_object) else { return Ok(None) };
    let mut fields = Fields::new(sound);
    let width = fields.count(&["hidden_size"], 1024)?;
    let heads = fields.count(&["num_attention_heads"], 8)?;
    let kernel = fields.count(&["conv_kernel_size"], 5)?;
    let output = fields.count(&["output_proj_dims"], 1536)?;
    let four = width.saturating_mul(4);
    let mut stage = stage("model.audio_tower", "model.audio_tower.layers", width, heads, four);
    stage.positions = Some(0);
    // Two convolutions, each of which halves the bands of the spectrum: there are as many as the first has channels.
    let &[first, second] = sizes(&fields, "subsampling_conv_channels", &[128, 32])?.as_slice() else {
        return Err(ConfigError::Contradiction("`subsampling_conv_channels` is not a list of two sizes".to_owned()));
    };
    let bands = first / 4;
    stage.before = vec![
        convolution("subsample_conv_projection.layer0.conv", &[first, 1, 3, 3], false),
        norm("subsample_conv_projection.layer0.norm", first, false),
        convolution("subsample_conv_projection.layer1.conv", &[second, first, 3, 3], false),
        norm("subsample_conv_projection.layer1.norm", second, false),
        linear("subsample_conv_projection.input_proj_linear", width, second * bands, false),
    ];
    let mut layer = Vec::new();
    for [one, two, before, after] in [
        ["ffw_layer_1", "ffw_layer_2", "pre_layer_norm", "post_layer_norm"],
        ["ffw_layer_3", "ffw_layer_4", "pre_layer_norm_2", "post_layer_norm_2"],
    ] {
        layer.extend([
            norm(before, width, false),
            linear(one, four, width, false),
            linear(two, width, four, false),
            norm(after, width, false),
        ]);
    }
    layer.extend([
        norm("norm_pre_attn", width, false),
        linear("self_attn.q_proj", width, width, false),
        linear("self_attn.k_proj", width, width, false),
        linear("self_attn.v_proj", width, width, false),
        linear("self_attn.relative_k_proj", width, width, false),
        other("self_attn.per_dim_scale", &[width / heads.max(1)]),
        linear("self_attn.post", width, width, false),
        norm("norm_post_attn", width, false),
        norm("lconv1d.pre_layer_norm", width, false),
        linear("lconv1d.linear_start", width.saturating_mul(2), width, false),
        convolution("lconv1d.depthwise_conv1d", &[width, 1, kernel], false),
        norm("lconv1d.conv_norm", width, false),
        linear("lconv1d.linear_end", width, width, false),
        norm("norm_out", width, false),
    ]);
    stage.layers.push((layers_of(&mut fields, &["num_hidden_layers"], 12)?, layer));
    stage.after = vec![
        linear("output_proj", output, width, true),
        linear("embed_audio.embedding_projection", hidden, output, false),
    ];
    Ok(Some(stage))
}

/// The encoder of images beside a language model, and what leads from one to the other; the text's hidden size is
/// `hidden`.
///
/// # Errors
/// [`ConfigError::NotComputed`] for an encoder that is not known.
pub(super) fn tower(model_type: &str, map: &Map<String, Value>, hidden: u64) -> Result<Option<Stage>, ConfigError> {
    let empty = Map::new();
    let vision = map.get("vision_config").and_then(Value::as_object).unwrap_or(&empty);
    let outer = Fields::new(map);
    let kind = vision.get("model_type").and_then(Value::as_str);
    Ok(Some(match model_type {
        "gemma3" => {
            let mut stage = siglip(vision, "model.vision_tower", "model.vision_tower.encoder.layers", false)?;
            stage.after.push(norm("multi_modal_projector.mm_soft_emb_norm", stage.width, false));
            stage.after.push(linear("multi_modal_projector.mm_input_projection_weight", hidden, stage.width, false));
            stage.output_positions = Some(outer.count_if(&["mm_tokens_per_image"])?.unwrap_or(256));
            stage
        }
        "llava" | "llava_next" => {
            let is_clip = matches!(kind, None | Some("clip_vision_model"));
            if !is_clip && kind != Some("siglip_vision_model") {
                return Err(ConfigError::NotComputed {
                    name: model_type.to_owned(),
                    reason: format!("its image encoder, `{}`, is unknown", kind.unwrap_or_default()),
                });
            }
            let mut stage = siglip(vision, "model.vision_tower", "model.vision_tower.encoder.layers", is_clip)?;
            let bias = outer.flag(&["multimodal_projector_bias"], true)?;
            stage.after.push(linear("multi_modal_projector.linear_1", hidden, stage.width, bias));
            stage.after.push(linear("multi_modal_projector.linear_2", hidden, hidden, bias));
            if model_type == "llava_next" {
                stage.after.push(other("image_newline", &[hidden]));
                tiled(map, &mut Fields::new(vision), &mut stage)?;
            }
            stage
        }
        "qwen2_vl" | "qwen2_5_vl" | "qwen3_vl" | "qwen3_vl_moe" | "qwen3_5" | "qwen3_5_moe" => {
            qwen(model_type, vision, hidden)?
        }
        "mistral3" => {
            if !matches!(kind, None | Some("pixtral")) {
                return Ok(None);
            }
            pixtral(vision, &outer, hidden)?
        }
        "gemma4" => {
            let mut fields = Fields::new(vision);
            let width = fields.count(&["hidden_size"], 768)?;
            let heads = fields.count(&["num_attention_heads"], 12)?;
            let intermediate = fields.count(&["intermediate_size"], 3072)?;
            let size = fields.count_if(&["head_dim"])?.unwrap_or(64);
            let inner = heads.saturating_mul(size);
            let keys = fields.count_if(&["num_key_value_heads"])?.unwrap_or(heads).saturating_mul(size);
            let patch = fields.count_if(&["patch_size"])?.unwrap_or(16);
            let table_size = fields.count_if(&["position_embedding_size"])?.unwrap_or(10_240);
            let mut stage =
                stage("model.vision_tower", "model.vision_tower.encoder.layers", width, heads, intermediate);
            stage.before = vec![
                table("patch_embedder.position_embedding_table", &[2, table_size, width]),
                linear("patch_embedder.input_proj", width, patch.saturating_mul(patch).saturating_mul(3), false),
            ];
            let layer = vec![
                norm("input_layernorm", width, false),
                linear("self_attn.q_proj", inner, width, false),
                linear("self_attn.k_proj", keys, width, false),
                linear("self_attn.v_proj", keys, width, false),
                norm("self_attn.q_norm", size, false),
                norm("self_attn.k_norm", size, false),
                linear("self_attn.o_proj", width, inner, false),
                norm("post_attention_layernorm", width, false),
                norm("pre_feedforward_layernorm", width, false),
                linear("mlp.gate_proj", intermediate, width, false),
                linear("mlp.up_proj", intermediate, width, false),
                linear("mlp.down_proj", width, intermediate, false),
                norm("post_feedforward_layernorm", width, false),
            ];
            stage.layers.push((layers_of(&mut fields, &["num_hidden_layers"], 16)?, layer));
            stage.after.push(linear("embed_vision.embedding_projection", hidden, width, false));
            // 280 tokens of three by three patches.
            (stage.input, stage.positions, stage.output_positions) =
                (280 * 9 * patch * patch * 3, Some(280 * 9), Some(280));
            stage
        }
        "llama4" => llama4(vision, hidden)?,
        _ => return Ok(None),
    }))
}

/// An image of the largest size of `image_grid_pinpoints`: its tiles, and the whole of it on one more. The rows of the
/// tiles end with a token of their own.
///
/// # Source
/// transformers 5.23, `models/llava_next/modeling_llava_next.py`, `pack_image_features`. vLLM profiles images of 336 ×
/// 672 with 2,928 tokens.
fn tiled(map: &Map<String, Value>, fields: &mut Fields<'_>, stage: &mut Stage) -> Result<(), ConfigError> {
    let side = fields.count_if(&["image_size"])?.unwrap_or(336).max(1);
    let patches = (side / fields.count_if(&["patch_size"])?.unwrap_or(14).max(1)).max(1);
    let sizes = map.get("image_grid_pinpoints").and_then(Value::as_array);
    let grids = sizes.into_iter().flatten().take(256).filter_map(|size| {
        let of = |at: usize| size.get(at).and_then(Value::as_u64).map(|size| (size / side).clamp(1, 64));
        Some((of(0)?, of(1)?))
    });
    let (rows, columns) = grids.max_by_key(|(rows, columns)| rows * columns).unwrap_or((2, 2));
    let tiles = rows * columns + 1;
    stage.input = stage.input.saturating_mul(tiles);
    stage.positions = stage.positions.map(|positions| positions.saturating_mul(tiles));
    let (height, width) = (rows.saturating_mul(patches), columns.saturating_mul(patches));
    let of_tiles = height.saturating_mul(width.saturating_add(1));
    stage.output_positions = Some(patches.saturating_mul(patches).saturating_add(of_tiles));
    Ok(())
}

fn qwen(model_type: &str, vision: &Map<String, Value>, hidden: u64) -> Result<Stage, ConfigError> {
    let mut fields = Fields::new(vision);
    let is_two = model_type == "qwen2_vl";
    let is_two_five = model_type == "qwen2_5_vl";
    let default = if is_two || is_two_five { 1280 } else { 1152 };
    let width = if is_two { fields.count(&["embed_dim"], 1280)? } else { fields.count(&["hidden_size"], default)? };
    let heads = fields.count(&["num_heads"], 16)?;
    heads_divide(width, heads)?;
    let intermediate = if is_two {
        width.saturating_mul(fields.count_if(&["mlp_ratio"])?.unwrap_or(4))
    } else {
        fields.count(&["intermediate_size"], if is_two_five { 3420 } else { 4304 })?
    };
    let depth = layers_of(&mut fields, &["depth"], if is_two || is_two_five { 32 } else { 27 })?;
    let patch = fields.count_if(&["patch_size"])?.unwrap_or(if is_two || is_two_five { 14 } else { 16 });
    let frames = fields.count_if(&["temporal_patch_size"])?.unwrap_or(2);
    let merge = fields.count_if(&["spatial_merge_size"])?.unwrap_or(2);
    let merged = width.saturating_mul(merge).saturating_mul(merge);
    let output = if is_two { hidden } else { fields.count_if(&["out_hidden_size"])?.unwrap_or(hidden) };
    let is_new = !is_two && !is_two_five;
    let mut stage = stage("model.visual", "model.visual.blocks", width, heads, intermediate);
    stage.before.push(convolution("patch_embed.proj", &[width, 3, frames.saturating_mul(patch), patch], is_new));
    if is_new {
        let positions = fields.count_if(&["num_position_embeddings"])?.unwrap_or(2304);
        stage.before.push(table("pos_embed", &[positions, width]));
    }
    stage.layers.push((depth, block(width, intermediate, is_two_five, true, !is_two_five)));
    stage.after.push(norm(if is_new { "merger.norm" } else { "merger.ln_q" }, width, !is_two_five));
    stage.after.push(linear("merger.linear_fc1", merged, merged, true));
    stage.after.push(linear("merger.linear_fc2", output, merged, true));
    if model_type.starts_with("qwen3_vl") {
        let count = fields
            .any(&["deepstack_visual_indexes"])
            .map_or(3, |_| fields.numbers(&["deepstack_visual_indexes"]).len());
        for _ in 0..count.min(64) {
            stage.after.push(norm("deepstack_merger_list.norm", merged, true));
            stage.after.push(linear("deepstack_merger_list.linear_fc1", merged, merged, true));
            stage.after.push(linear("deepstack_merger_list.linear_fc2", output, merged, true));
        }
    }
    let side = (SIDE / patch.saturating_mul(merge).max(1)).max(1);
    let tokens = side.saturating_mul(side);
    stage.output_positions = Some(tokens);
    stage.positions = Some(tokens.saturating_mul(merge).saturating_mul(merge));
    stage.input = SIDE * SIDE * 3 * frames.min(16);
    Ok(stage)
}

fn pixtral(vision: &Map<String, Value>, outer: &Fields<'_>, hidden: u64) -> Result<Stage, ConfigError> {
    let mut fields = Fields::new(vision);
    let width = fields.count(&["hidden_size"], 1024)?;
    let heads = fields.count(&["num_attention_heads"], 16)?;
    heads_divide(width, heads)?;
    let intermediate = fields.count(&["intermediate_size"], 4096)?;
    let (count, pixels, patch) = patches(&mut fields, 1540, 14)?;
    let mut stage = stage("model.vision_tower", "model.vision_tower.transformer.layers", width, heads, intermediate);
    stage.before = vec![convolution("patch_conv", &[width, patch], false), norm("ln_pre", width, false)];
    let layer = vec![
        norm("attention_norm", width, false),
        linear("attention.q_proj", width, width, false),
        linear("attention.k_proj", width, width, false),
        linear("attention.v_proj", width, width, false),
        linear("attention.o_proj", width, width, false),
        norm("ffn_norm", width, false),
        linear("feed_forward.gate_proj", intermediate, width, false),
        linear("feed_forward.up_proj", intermediate, width, false),
        linear("feed_forward.down_proj", width, intermediate, false),
    ];
    stage.layers.push((layers_of(&mut fields, &["num_hidden_layers"], 24)?, layer));
    let merge = outer.count_if(&["spatial_merge_size"])?.unwrap_or(2);
    let area = merge.saturating_mul(merge).max(1);
    let bias = outer.flag(&["multimodal_projector_bias"], false)?;
    stage.after = vec![
        norm("multi_modal_projector.norm", width, false),
        linear("multi_modal_projector.patch_merger.merging_layer", width, width.saturating_mul(area), false),
        linear("multi_modal_projector.linear_1", hidden, width, bias),
        linear("multi_modal_projector.linear_2", hidden, hidden, bias),
    ];
    (stage.input, stage.positions, stage.output_positions) = (pixels, Some(count), Some(count / area));
    Ok(stage)
}

fn llama4(vision: &Map<String, Value>, hidden: u64) -> Result<Stage, ConfigError> {
    let mut fields = Fields::new(vision);
    let width = fields.count(&["hidden_size"], 768)?;
    let heads = fields.count(&["num_attention_heads"], 16)?;
    heads_divide(width, heads)?;
    let intermediate = fields.count(&["intermediate_size"], 5632)?;
    let (count, pixels, patch) = patches(&mut fields, 448, 14)?;
    let positions = count.saturating_add(1);
    let mut stage = stage("vision_model", "vision_model.model.layers", width, heads, intermediate);
    (stage.input, stage.positions) = (pixels, Some(positions));
    stage.before = vec![
        other("class_embedding", &[width]),
        table("positional_embedding_vlm", &[positions, width]),
        linear("patch_embedding.linear", width, patch, false),
        norm("layernorm_pre", width, true),
    ];
    stage.layers.push((layers_of(&mut fields, &["num_hidden_layers"], 34)?, plain_layer(width, intermediate)));
    let input = fields.count(&["projector_input_dim"], 4096)?;
    let output = fields.count(&["projector_output_dim"], 4096)?;
    let last = fields.count(&["vision_output_dim"], 7680)?;
    stage.after = vec![
        norm("layernorm_post", width, true),
        linear("vision_adapter.mlp.fc1", input, intermediate, false),
        linear("vision_adapter.mlp.fc2", output, input, false),
        linear("multi_modal_projector.linear_1", hidden, last, false),
    ];
    // A quarter of the patches, four of them put together.
    stage.output_positions = Some(count / 4);
    Ok(stage)
}
