//! Pipelines of diffusers by name: the models of a generation, each with its configuration.
//!
//! # Source
//! The `config.json` of each model in its publisher's repository, the fields that are sizes.

use serde_json::{Value, json};

type Config = fn() -> Value;

/// Names of whole pipelines: the name of their transformer or `UNet`, and `-pipeline`.
pub(super) const PIPELINES: &[(&str, Config)] = &[
    // black-forest-labs/FLUX.1-schnell.
    ("flux.1-schnell-pipeline", || {
        json!({"_class_name": "FluxPipeline", "components": {
            "text_encoder": clip_l("CLIPTextModel"),
            "text_encoder_2": t5_xxl("t5", 32_128),
            "transformer": {"_class_name": "FluxTransformer2DModel", "in_channels": 64, "num_layers": 19, "num_single_layers": 38,
                "attention_head_dim": 128, "num_attention_heads": 24, "joint_attention_dim": 4096, "pooled_projection_dim": 768,
                "guidance_embeds": false},
            "vae": autoencoder(16, false)}})
    }),
    // stabilityai/stable-diffusion-xl-base-1.0.
    ("stable-diffusion-xl-base-1.0-pipeline", || {
        json!({"_class_name": "StableDiffusionXLPipeline", "components": {
            "text_encoder": clip_l("CLIPTextModel"),
            "text_encoder_2": clip_bigg(),
            "unet": {"_class_name": "UNet2DConditionModel", "sample_size": 128, "in_channels": 4, "out_channels": 4,
                "block_out_channels": [320, 640, 1280], "layers_per_block": 2, "cross_attention_dim": 2048,
                "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
                "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
                "transformer_layers_per_block": [1, 2, 10], "attention_head_dim": [5, 10, 20], "use_linear_projection": true,
                "addition_embed_type": "text_time", "addition_time_embed_dim": 256, "projection_class_embeddings_input_dim": 2816},
            "vae": autoencoder(4, true)}})
    }),
    // stabilityai/stable-diffusion-3-medium: diffusers, `scripts/convert_sd3_to_diffusers.py`.
    ("stable-diffusion-3-medium-pipeline", || {
        json!({"_class_name": "StableDiffusion3Pipeline", "components": {
            "text_encoder": clip_l("CLIPTextModelWithProjection"),
            "text_encoder_2": clip_bigg(),
            "text_encoder_3": t5_xxl("t5", 32_128),
            "transformer": {"_class_name": "SD3Transformer2DModel", "sample_size": 128, "patch_size": 2, "in_channels": 16, "out_channels": 16,
                "num_layers": 24, "attention_head_dim": 64, "num_attention_heads": 24, "joint_attention_dim": 4096,
                "caption_projection_dim": 1536, "pooled_projection_dim": 2048, "pos_embed_max_size": 192},
            "vae": autoencoder(16, false)}})
    }),
    // Qwen/Qwen-Image: the defaults of diffusers' classes; the text encoder is Qwen2.5-VL-7B, as comfyanonymous/ComfyUI,
    // `comfy/text_encoders/llama.py`, has it, with transformers' default image encoder.
    ("qwen-image-pipeline", || {
        json!({"_class_name": "QwenImagePipeline", "components": {
            "text_encoder": {"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"],
                "tie_word_embeddings": false,
                "text_config": {"model_type": "qwen2_5_vl_text", "vocab_size": 152_064, "hidden_size": 3584, "intermediate_size": 18_944,
                    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 128_000},
                "vision_config": {"model_type": "qwen2_5_vl", "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
                    "out_hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}},
            "transformer": {"_class_name": "QwenImageTransformer2DModel", "in_channels": 64, "out_channels": 16, "num_layers": 60,
                "attention_head_dim": 128, "num_attention_heads": 24, "joint_attention_dim": 3584},
            "vae": {"_class_name": "AutoencoderKLQwenImage"}}})
    }),
    // Wan-Video/Wan2.1, `wan/configs/wan_t2v_1_3B.py`, `wan_t2v_14B.py` and `wan/modules/t5.py`; Wan-Video/Wan2.2, `wan_t2v_A14B.py`. The
    // VAE is the default of diffusers' class.
    ("wan2.1-t2v-1.3b-pipeline", || wan(12, 8960, 30, 1)),
    ("wan2.1-t2v-14b-pipeline", || wan(40, 13_824, 40, 1)),
    ("wan2.2-t2v-a14b-pipeline", || wan(40, 13_824, 40, 2)),
];

/// A pipeline of Wan; 2.2 has a transformer for noisy videos, and another for those with little noise left.
fn wan(heads: u64, inner: u64, layers: u64, transformers: u64) -> Value {
    let transformer = json!({"_class_name": "WanTransformer3DModel", "in_channels": 16, "out_channels": 16, "num_layers": layers,
        "attention_head_dim": 128, "num_attention_heads": heads, "text_dim": 4096, "ffn_dim": inner});
    let second = if transformers == 2 { transformer.clone() } else { Value::Null };
    json!({"_class_name": "WanPipeline", "components": {
        "text_encoder": t5_xxl("umt5", 256_384), "transformer": transformer, "transformer_2": second,
        "vae": {"_class_name": "AutoencoderKLWan"}}})
}

/// The encoder of T5's largest size.
fn t5_xxl(model_type: &str, vocab: u64) -> Value {
    json!({"model_type": model_type, "architectures": ["T5EncoderModel"], "vocab_size": vocab, "d_model": 4096, "d_ff": 10_240,
        "d_kv": 64, "num_heads": 64, "num_layers": 24, "feed_forward_proj": "gated-gelu", "is_gated_act": true,
        "dense_act_fn": "gelu_new", "relative_attention_num_buckets": 32})
}

/// The text encoder of `OpenCLIP`'s ViT-bigG/14.
fn clip_bigg() -> Value {
    json!({"model_type": "clip_text_model", "architectures": ["CLIPTextModelWithProjection"], "hidden_size": 1280,
        "intermediate_size": 5120, "num_attention_heads": 20, "num_hidden_layers": 32, "projection_dim": 1280,
        "max_position_embeddings": 77, "vocab_size": 49_408, "hidden_act": "gelu"})
}

/// The text encoder of CLIP ViT-L/14.
fn clip_l(class: &str) -> Value {
    json!({"model_type": "clip_text_model", "architectures": [class], "hidden_size": 768, "intermediate_size": 3072,
        "num_attention_heads": 12, "num_hidden_layers": 12, "projection_dim": 768, "max_position_embeddings": 77, "vocab_size": 49_408,
        "hidden_act": "quick_gelu"})
}

/// An autoencoder of images with this many latent channels, and whether convolutions stand around them.
fn autoencoder(latent: u64, has_convolutions: bool) -> Value {
    json!({"_class_name": "AutoencoderKL", "in_channels": 3, "out_channels": 3, "latent_channels": latent,
        "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2, "sample_size": 1024, "force_upcast": true,
        "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D"],
        "up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D"],
        "use_quant_conv": has_convolutions, "use_post_quant_conv": has_convolutions})
}
