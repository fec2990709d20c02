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
            "text_encoder_2": {"model_type": "t5", "architectures": ["T5EncoderModel"], "vocab_size": 32_128, "d_model": 4096,
                "d_ff": 10_240, "d_kv": 64, "num_heads": 64, "num_layers": 24, "feed_forward_proj": "gated-gelu",
                "is_gated_act": true, "dense_act_fn": "gelu_new", "relative_attention_num_buckets": 32},
            "transformer": {"_class_name": "FluxTransformer2DModel", "in_channels": 64, "num_layers": 19, "num_single_layers": 38,
                "attention_head_dim": 128, "num_attention_heads": 24, "joint_attention_dim": 4096, "pooled_projection_dim": 768,
                "guidance_embeds": false},
            "vae": autoencoder(16, false)}})
    }),
    // stabilityai/stable-diffusion-xl-base-1.0.
    ("stable-diffusion-xl-base-1.0-pipeline", || {
        json!({"_class_name": "StableDiffusionXLPipeline", "components": {
            "text_encoder": clip_l("CLIPTextModel"),
            "text_encoder_2": {"model_type": "clip_text_model", "architectures": ["CLIPTextModelWithProjection"], "hidden_size": 1280,
                "intermediate_size": 5120, "num_attention_heads": 20, "num_hidden_layers": 32, "projection_dim": 1280,
                "max_position_embeddings": 77, "vocab_size": 49_408, "hidden_act": "gelu"},
            "unet": {"_class_name": "UNet2DConditionModel", "sample_size": 128, "in_channels": 4, "out_channels": 4,
                "block_out_channels": [320, 640, 1280], "layers_per_block": 2, "cross_attention_dim": 2048,
                "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
                "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
                "transformer_layers_per_block": [1, 2, 10], "attention_head_dim": [5, 10, 20], "use_linear_projection": true,
                "addition_embed_type": "text_time", "addition_time_embed_dim": 256, "projection_class_embeddings_input_dim": 2816},
            "vae": autoencoder(4, true)}})
    }),
];

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
