//! Transformers of diffusers: one step over an image's latents and the text.
//!
//! # Source
//! diffusers 0.42, `models/transformers/transformer_flux.py`, `transformer_sd3.py`, `transformer_wan.py`,
//! `transformer_qwenimage.py`: names and sizes of the parameters.

use serde_json::{Map, Value};

use super::config::layers_of;
use super::fields::{ConfigError, Fields};
use super::video::latent_frames;
use crate::network::{Network, Piece, Stage, convolution, linear, norm, other, table};
use crate::pipeline::Canvas;

/// The classes that are known.
pub(super) fn is_known(class: &str) -> bool {
    matches!(
        class,
        "FluxTransformer2DModel" | "SD3Transformer2DModel" | "WanTransformer3DModel" | "QwenImageTransformer2DModel"
    )
}

/// Latents of an image of 1,024 by 1,024: an eighth of its sides, in patches of two by two.
const IMAGE: u64 = 64 * 64;

/// Latents of a video of 81 frames of 832 by 480: a quarter of the frames, an eighth of the sides, patches of two by
/// two.
const VIDEO: u64 = 21 * 52 * 30;

/// Three products of an attention with its output's.
fn attention(names: [&'static str; 4], width: u64) -> Vec<Piece> {
    names.map(|name| linear(name, width, width, true)).to_vec()
}

fn feed(names: [&'static str; 2], width: u64, inner: u64) -> [Piece; 2] {
    [linear(names[0], inner, width, true), linear(names[1], width, inner, true)]
}

const OWN: [&str; 4] = ["attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0"];
const ADDED: [&str; 4] = ["attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj", "attn.to_add_out"];

fn embedder(names: [&'static str; 2], width: u64, input: u64) -> [Piece; 2] {
    [linear(names[0], width, input, true), linear(names[1], width, width, true)]
}

const TIME: [&str; 2] = ["time_text_embed.timestep_embedder.linear_1", "time_text_embed.timestep_embedder.linear_2"];
const TEXT: [&str; 2] = ["time_text_embed.text_embedder.linear_1", "time_text_embed.text_embedder.linear_2"];
const GUIDANCE: [&str; 2] =
    ["time_text_embed.guidance_embedder.linear_1", "time_text_embed.guidance_embedder.linear_2"];

/// The network of a class, of the configuration that diffusers writes.
///
/// # Errors
/// If a field holds nonsense.
pub(super) fn network(
    class: &str,
    map: &Map<String, Value>,
    canvas: Option<Canvas>,
) -> Result<(Network, Vec<String>), ConfigError> {
    let mut fields = Fields::new(map);
    // A patch of two by two latents, each of eight by eight pixels.
    let image = canvas.map(|canvas| (canvas.height / 16).max(1).saturating_mul((canvas.width / 16).max(1)));
    let video = match (image, canvas) {
        (Some(image), Some(canvas)) => latent_frames(canvas.frames).saturating_mul(image),
        _ => VIDEO,
    };
    let image = image.unwrap_or(IMAGE);
    let heads = fields.count(&["num_attention_heads"], if class.starts_with("Wan") { 40 } else { 24 })?;
    let size = fields.count(&["attention_head_dim"], if class.starts_with("SD3") { 64 } else { 128 })?;
    let width = heads.saturating_mul(size);
    let inner = width.saturating_mul(4);
    let mut stage = Stage {
        prefix: "",
        layers_prefix: "transformer_blocks",
        input: 0,
        positions: Some(image.saturating_add(512)),
        width,
        heads,
        intermediate: inner,
        before: embedder(TIME, width, 256).to_vec(),
        layers: Vec::new(),
        after: Vec::new(),
        buffer: 0,
        output_positions: None,
    };
    let text = fields.count_if(&["joint_attention_dim", "text_dim"])?;
    let modulation = |name, count: u64| linear(name, width.saturating_mul(count), width, true);
    match class {
        "FluxTransformer2DModel" => {
            let channels = fields.count(&["in_channels"], 64)?;
            if fields.flag(&["guidance_embeds"], false)? {
                stage.before.extend(embedder(GUIDANCE, width, 256));
            }
            stage.before.extend(embedder(TEXT, width, fields.count(&["pooled_projection_dim"], 768)?));
            stage.before.push(linear("context_embedder", width, text.unwrap_or(4096), true));
            stage.before.push(linear("x_embedder", width, channels, true));
            let mut double = vec![modulation("norm1.linear", 6), modulation("norm1_context.linear", 6)];
            double.extend(attention(OWN, width));
            double.extend(attention(ADDED, width));
            double.extend(
                ["attn.norm_q", "attn.norm_k", "attn.norm_added_q", "attn.norm_added_k"]
                    .map(|name| norm(name, size, false)),
            );
            double.extend(feed(["ff.net.0.proj", "ff.net.2"], width, inner));
            double.extend(feed(["ff_context.net.0.proj", "ff_context.net.2"], width, inner));
            let mut single = vec![modulation("norm.linear", 3), linear("proj_mlp", inner, width, true)];
            single.extend(["attn.to_q", "attn.to_k", "attn.to_v"].map(|name| linear(name, width, width, true)));
            single.extend(["attn.norm_q", "attn.norm_k"].map(|name| norm(name, size, false)));
            single.push(linear("proj_out", width, width.saturating_add(inner), true));
            let (doubles, singles) =
                (layers_of(&mut fields, &["num_layers"], 19)?, layers_of(&mut fields, &["num_single_layers"], 38)?);
            stage.layers = vec![(doubles, double), (singles, single)];
            let patch = fields.count_if(&["patch_size"])?.unwrap_or(1);
            let output = fields.count_if(&["out_channels"])?.unwrap_or(channels);
            stage.after = vec![
                modulation("norm_out.linear", 2),
                linear("proj_out", patch.saturating_mul(patch).saturating_mul(output), width, true),
            ];
            stage.input = image.saturating_mul(channels);
        }
        "SD3Transformer2DModel" => {
            let channels = fields.count(&["in_channels"], 16)?;
            let patch = fields.count_if(&["patch_size"])?.unwrap_or(2);
            let pooled = fields.count(&["pooled_projection_dim"], 2048)?;
            let depth = layers_of(&mut fields, &["num_layers"], 18)?;
            let has_norm = fields.any(&["qk_norm"]).is_some();
            stage.before.extend(embedder(TEXT, width, pooled));
            stage.before.push(linear("context_embedder", width, text.unwrap_or(4096), true));
            stage.before.push(convolution("pos_embed.proj", &[width, channels, patch, patch], true));
            let places = fields.count_if(&["pos_embed_max_size"])?.unwrap_or(96);
            stage.buffer = places.saturating_mul(places).saturating_mul(width);
            let dual = fields.numbers(&["dual_attention_layers"]);
            for index in 0..depth {
                let is_last = index + 1 == depth;
                let is_dual = dual.contains(&index);
                let mut layer = vec![
                    modulation("norm1.linear", if is_dual { 9 } else { 6 }),
                    modulation("norm1_context.linear", if is_last { 2 } else { 6 }),
                ];
                layer.extend(attention(OWN, width));
                let mut added = attention(ADDED, width);
                if is_last {
                    added.pop();
                }
                layer.extend(added);
                if has_norm {
                    let names = ["attn.norm_q", "attn.norm_k", "attn.norm_added_q", "attn.norm_added_k"];
                    layer.extend(names.map(|name| norm(name, size, false)));
                }
                if is_dual {
                    layer.extend(attention(["attn2.to_q", "attn2.to_k", "attn2.to_v", "attn2.to_out.0"], width));
                    if has_norm {
                        layer.extend(["attn2.norm_q", "attn2.norm_k"].map(|name| norm(name, size, false)));
                    }
                }
                layer.extend(feed(["ff.net.0.proj", "ff.net.2"], width, inner));
                if !is_last {
                    layer.extend(feed(["ff_context.net.0.proj", "ff_context.net.2"], width, inner));
                }
                stage.layers.push((1, layer));
            }
            let output = fields.count_if(&["out_channels"])?.unwrap_or(16);
            stage.after = vec![
                modulation("norm_out.linear", 2),
                linear("proj_out", patch.saturating_mul(patch).saturating_mul(output), width, true),
            ];
            stage.input = image.saturating_mul(channels).saturating_mul(4);
        }
        "WanTransformer3DModel" => {
            let inner = fields.count(&["ffn_dim"], 13_824)?;
            let channels = fields.count(&["in_channels"], 16)?;
            let frequencies = fields.count_if(&["freq_dim"])?.unwrap_or(256);
            if fields.any(&["image_dim", "added_kv_proj_dim"]).is_some() {
                return Err(ConfigError::NotComputed {
                    name: class.to_owned(),
                    reason: "the variant that takes an image is not supported".to_owned(),
                });
            }
            stage.layers_prefix = "blocks";
            stage.intermediate = inner;
            stage.before = vec![
                other("scale_shift_table", &[2, width]),
                convolution("patch_embedding", &[width, channels, 2, 2], true),
                linear("condition_embedder.time_proj", width.saturating_mul(6), width, true),
            ];
            stage.before.extend(embedder(
                ["condition_embedder.time_embedder.linear_1", "condition_embedder.time_embedder.linear_2"],
                width,
                frequencies,
            ));
            stage.before.extend(embedder(
                ["condition_embedder.text_embedder.linear_1", "condition_embedder.text_embedder.linear_2"],
                width,
                text.unwrap_or(4096),
            ));
            let mut layer = vec![other("scale_shift_table", &[6, width])];
            layer.extend(attention(["attn1.to_q", "attn1.to_k", "attn1.to_v", "attn1.to_out.0"], width));
            layer.extend(["attn1.norm_q", "attn1.norm_k"].map(|name| norm(name, width, false)));
            if fields.flag(&["cross_attn_norm"], true)? {
                layer.push(norm("norm2", width, true));
            }
            layer.extend(attention(["attn2.to_q", "attn2.to_k", "attn2.to_v", "attn2.to_out.0"], width));
            layer.extend(["attn2.norm_q", "attn2.norm_k"].map(|name| norm(name, width, false)));
            layer.extend(feed(["ffn.net.0.proj", "ffn.net.2"], width, inner));
            stage.layers.push((layers_of(&mut fields, &["num_layers"], 40)?, layer));
            let output = fields.count_if(&["out_channels"])?.unwrap_or(16);
            stage.after = vec![linear("proj_out", output.saturating_mul(4), width, true)];
            (stage.input, stage.positions) = (video.saturating_mul(channels).saturating_mul(4), Some(video));
        }
        _ => {
            let channels = fields.count(&["in_channels"], 64)?;
            let text = text.unwrap_or(3584);
            stage.before.push(norm("txt_norm", text, false));
            stage.before.push(linear("img_in", width, channels, true));
            stage.before.push(linear("txt_in", width, text, true));
            if fields.flag(&["use_additional_t_cond"], false)? {
                stage.before.push(table("time_text_embed.addition_t_embedding", &[2, width]));
            }
            let mut layer = vec![modulation("img_mod.1", 6), modulation("txt_mod.1", 6)];
            layer.extend(attention(OWN, width));
            layer.extend(attention(ADDED, width));
            layer.extend(
                ["attn.norm_q", "attn.norm_k", "attn.norm_added_q", "attn.norm_added_k"]
                    .map(|name| norm(name, size, false)),
            );
            layer.extend(feed(["img_mlp.net.0.proj", "img_mlp.net.2"], width, inner));
            layer.extend(feed(["txt_mlp.net.0.proj", "txt_mlp.net.2"], width, inner));
            stage.layers.push((layers_of(&mut fields, &["num_layers"], 60)?, layer));
            let patch = fields.count_if(&["patch_size"])?.unwrap_or(2);
            let output = fields.count_if(&["out_channels"])?.unwrap_or(16);
            stage.after = vec![
                modulation("norm_out.linear", 2),
                linear("proj_out", patch.saturating_mul(patch).saturating_mul(output), width, true),
            ];
            stage.input = image.saturating_mul(channels);
        }
    }
    fields.assumptions.push(if class.starts_with("Wan") {
        "the transformer alone, for a video of 81 frames of 832 × 480; the text encoder and the VAE are estimated by \
         their own configurations"
            .to_owned()
    } else {
        "the transformer alone, for an image of 1,024 × 1,024 and 512 tokens of text; the text encoders and the VAE are \
         estimated by their own configurations"
            .to_owned()
    });
    Ok((Network { stages: vec![stage] }, fields.assumptions))
}
