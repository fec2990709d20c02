//! Models of today by name, each with the source of its numbers.
//!
//! # Source
//! Where nothing else is said: the defaults of the family's configuration in transformers 5.23 or diffusers 0.42, whose documentation
//! names the checkpoint, and whose number of parameters, counted on the meta device, is the release's.

use serde_json::{Value, json};

type Config = fn() -> Value;

/// Names as their publishers have them on the hub, in lower case, without the publisher and the end of a tuned version.
pub(super) const TODAY: &[(&str, Config)] = &[
    // openai/gpt-oss-20b, `config.json`, as slime (THUDM/slime, `scripts/models/gpt-oss-20B.sh`) has it: 20.9 billion parameters.
    ("gpt-oss-20b", || gpt_oss(24, 32)),
    // `GptOssConfig`: 116.8 billion.
    ("gpt-oss-120b", || gpt_oss(36, 128)),
    // `Llama4TextConfig`, the text alone: 107.8 billion.
    ("llama-4-scout-17b-16e", || {
        json!({"model_type": "llama4_text", "vocab_size": 202_048, "hidden_size": 5120, "intermediate_size": 8192, "num_hidden_layers": 48,
            "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size_mlp": 16_384, "num_local_experts": 16,
            "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "max_position_embeddings": 131_072, "dtype": "bfloat16"})
    }),
    // `Qwen3NextConfig`: 79.7 billion.
    ("qwen3-next-80b-a3b", || {
        json!({"model_type": "qwen3_next", "vocab_size": 151_936, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 48,
            "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "moe_intermediate_size": 512, "num_experts": 512,
            "num_experts_per_tok": 10, "norm_topk_prob": true, "shared_expert_intermediate_size": 512, "linear_num_key_heads": 16,
            "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
            "max_position_embeddings": 32_768, "dtype": "bfloat16"})
    }),
    // `Qwen3_5MoeTextConfig`, the text alone: 34.7 billion.
    ("qwen3.5-35b-a3b", || {
        json!({"model_type": "qwen3_5_moe_text", "vocab_size": 248_320, "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16,
            "num_key_value_heads": 2, "head_dim": 256, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts": 256,
            "num_experts_per_tok": 8, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
            "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "max_position_embeddings": 32_768, "dtype": "bfloat16"})
    }),
    // `Ministral3Config`, the text alone: 8.5 billion.
    ("ministral-3-8b", || {
        json!({"model_type": "ministral3", "vocab_size": 131_072, "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 34,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 262_144, "dtype": "bfloat16"})
    }),
    // `GlmConfig`: 9.4 billion.
    ("glm-4-9b", || {
        json!({"model_type": "glm", "vocab_size": 151_552, "hidden_size": 4096, "intermediate_size": 13_696, "num_hidden_layers": 40,
            "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "attention_bias": true, "max_position_embeddings": 131_072,
            "dtype": "bfloat16"})
    }),
    // `GlmMoeDsaConfig`: 743.9 billion.
    ("glm-5", || {
        json!({"model_type": "glm_moe_dsa", "vocab_size": 154_880, "hidden_size": 6144, "intermediate_size": 12_288, "num_hidden_layers": 78,
            "num_attention_heads": 64, "num_key_value_heads": 64, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
            "num_experts_per_tok": 8, "first_k_dense_replace": 3, "norm_topk_prob": true, "q_lora_rank": 2048, "kv_lora_rank": 512,
            "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256, "index_n_heads": 32, "index_head_dim": 128,
            "max_position_embeddings": 202_752, "dtype": "bfloat16"})
    }),
    // `DeepseekV32Config`: 671.9 billion.
    ("deepseek-v3.2", || deepseek_v32()),
    ("deepseek-v3.2-exp", || deepseek_v32()),
    // `CohereConfig`: 35.0 billion.
    ("c4ai-command-r-v01", || {
        json!({"model_type": "cohere", "vocab_size": 256_000, "hidden_size": 8192, "intermediate_size": 22_528, "num_hidden_layers": 40,
            "num_attention_heads": 64, "num_key_value_heads": 64, "max_position_embeddings": 8192, "dtype": "float16"})
    }),
    // `JambaConfig`: 51.6 billion.
    ("jamba-v0.1", || {
        json!({"model_type": "jamba", "vocab_size": 65_536, "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "num_experts": 16, "num_experts_per_tok": 2, "max_position_embeddings": 262_144,
            "dtype": "bfloat16"})
    }),
    // `SmolLM3Config`: 3.08 billion.
    ("smollm3-3b", || {
        json!({"model_type": "smollm3", "vocab_size": 128_256, "hidden_size": 2048, "intermediate_size": 11_008, "num_hidden_layers": 36,
            "num_attention_heads": 16, "num_key_value_heads": 4, "tie_word_embeddings": true, "max_position_embeddings": 32_768,
            "dtype": "bfloat16"})
    }),
    // `Mistral4Config`, the text alone: 119.0 billion.
    ("mistral-small-4-119b-2603", || {
        json!({"model_type": "mistral4", "vocab_size": 131_072, "hidden_size": 4096, "intermediate_size": 12_288, "num_hidden_layers": 36,
            "num_attention_heads": 32, "num_key_value_heads": 32, "moe_intermediate_size": 2048, "n_routed_experts": 128,
            "n_shared_experts": 1, "num_experts_per_tok": 4, "first_k_dense_replace": 0, "norm_topk_prob": true, "q_lora_rank": 1024,
            "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 64, "v_head_dim": 128, "max_position_embeddings": 1_048_576,
            "dtype": "bfloat16"})
    }),
    // `KimiLinearConfig`: 49.1 billion.
    ("kimi-linear-48b-a3b", || {
        json!({"model_type": "kimi_linear", "vocab_size": 163_840, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 27,
            "num_attention_heads": 32, "num_key_value_heads": 32, "moe_intermediate_size": 1024, "num_experts": 256,
            "num_experts_per_token": 8, "num_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": null, "kv_lora_rank": 512,
            "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "linear_num_heads": 32, "linear_head_dim": 128,
            "linear_conv_kernel_dim": 4, "max_position_embeddings": 1_048_576, "dtype": "bfloat16"})
    }),
    // `MiniMaxM2Config`: 228.7 billion.
    ("minimax-m2", || {
        json!({"model_type": "minimax_m2", "vocab_size": 200_064, "hidden_size": 3072, "intermediate_size": 1536, "num_hidden_layers": 62,
            "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "num_local_experts": 256, "num_experts_per_tok": 8,
            "max_position_embeddings": 196_608, "dtype": "bfloat16"})
    }),
    // `Ernie4_5Config`: 0.36 billion.
    ("ernie-4.5-0.3b", || {
        json!({"model_type": "ernie4_5", "vocab_size": 103_424, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 18,
            "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 128, "tie_word_embeddings": true, "max_position_embeddings": 131_072,
            "dtype": "bfloat16"})
    }),
    // `StableLmConfig`: 2.8 billion.
    ("stablelm-3b-4e1t", || {
        json!({"model_type": "stablelm", "vocab_size": 50_304, "hidden_size": 2560, "intermediate_size": 6912, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096, "dtype": "bfloat16"})
    }),
    // `SiglipConfig`: 203 million.
    ("siglip-base-patch16-224", || {
        let sizes = json!({"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
            "image_size": 224, "patch_size": 16, "vocab_size": 32_000, "max_position_embeddings": 64});
        json!({"model_type": "siglip", "vision_config": sizes.clone(), "text_config": sizes})
    }),
    // `Dinov2Config`: 86 million.
    (
        "dinov2-base",
        || json!({"model_type": "dinov2", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "image_size": 224, "patch_size": 14}),
    ),
    // `Wav2Vec2Config`: 94 million.
    ("wav2vec2-base-960h", || {
        json!({"model_type": "wav2vec2", "vocab_size": 32, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
            "num_attention_heads": 12})
    }),
    // `BartConfig`: 406 million.
    ("bart-large", || {
        json!({"model_type": "bart", "vocab_size": 50_265, "d_model": 1024, "encoder_layers": 12, "decoder_layers": 12,
            "encoder_attention_heads": 16, "decoder_attention_heads": 16, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096,
            "max_position_embeddings": 1024})
    }),
    // `FluxTransformer2DModel`: 11.9 billion.
    ("flux.1-schnell", || {
        json!({"_class_name": "FluxTransformer2DModel", "in_channels": 64, "num_layers": 19, "num_single_layers": 38, "attention_head_dim": 128,
            "num_attention_heads": 24, "joint_attention_dim": 4096, "pooled_projection_dim": 768, "guidance_embeds": false, "dtype": "bfloat16"})
    }),
    // `QwenImageTransformer2DModel`: 20.4 billion.
    ("qwen-image", || {
        json!({"_class_name": "QwenImageTransformer2DModel", "in_channels": 64, "out_channels": 16, "num_layers": 60, "attention_head_dim": 128,
            "num_attention_heads": 24, "joint_attention_dim": 3584, "dtype": "bfloat16"})
    }),
    // `WanTransformer3DModel`: 14.3 billion.
    ("wan2.1-t2v-14b", || {
        json!({"_class_name": "WanTransformer3DModel", "in_channels": 16, "out_channels": 16, "num_layers": 40, "attention_head_dim": 128,
            "num_attention_heads": 40, "text_dim": 4096, "ffn_dim": 13_824, "dtype": "bfloat16"})
    }),
];

/// # Source
/// `quantization_config` of the publisher's `config.json`: mxfp4, without attention, routers, embeddings and head.
fn gpt_oss(layers: u64, experts: u64) -> Value {
    json!({"model_type": "gpt_oss", "vocab_size": 201_088, "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": layers,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "attention_bias": true, "sliding_window": 128,
        "num_local_experts": experts, "num_experts_per_tok": 4, "max_position_embeddings": 131_072, "dtype": "bfloat16",
        "quantization_config": {"quant_method": "mxfp4",
            "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}})
}

/// # Source
/// deepseek-ai/DeepSeek-V3.2-Exp, `inference/config_671B_v3.2.json` (fp8) and `inference/model.py` (blocks of 128 by 128).
fn deepseek_v32() -> Value {
    json!({"model_type": "deepseek_v32", "vocab_size": 129_280, "hidden_size": 7168, "intermediate_size": 18_432, "num_hidden_layers": 61,
        "num_attention_heads": 128, "num_key_value_heads": 128, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
        "num_experts_per_tok": 8, "first_k_dense_replace": 3, "norm_topk_prob": true, "q_lora_rank": 1536, "kv_lora_rank": 512,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "index_n_heads": 64, "index_head_dim": 128,
        "max_position_embeddings": 163_840, "dtype": "bfloat16",
        "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}})
}

#[cfg(test)]
mod tests {
    use super::TODAY;
    use crate::{DType, weights};

    /// Counted by transformers and diffusers on the meta device.
    #[test]
    fn each_has_the_parameters_of_its_release() {
        let counted = [
            ("gpt-oss-20b", 20_914_757_184),
            ("gpt-oss-120b", 116_829_156_672),
            ("llama-4-scout-17b-16e", 107_769_861_120),
            ("qwen3-next-80b-a3b", 79_674_391_296),
            ("qwen3.5-35b-a3b", 34_660_610_688),
            ("ministral-3-8b", 8_489_553_920),
            ("glm-4-9b", 9_399_951_360),
            ("glm-5", 743_911_199_232),
            ("deepseek-v3.2", 671_877_929_216),
            ("c4ai-command-r-v01", 34_980_831_232),
            ("jamba-v0.1", 51_570_323_328_u64),
            ("smollm3-3b", 3_075_098_624),
            ("mistral-small-4-119b-2603", 118_972_826_624),
            ("kimi-linear-48b-a3b", 49_133_074_464),
            ("minimax-m2", 228_689_748_992),
            ("ernie-4.5-0.3b", 360_748_032),
            ("stablelm-3b-4e1t", 2_795_443_200),
            ("siglip-base-patch16-224", 203_155_970),
            ("dinov2-base", 85_725_696),
            ("wav2vec2-base-960h", 94_396_320),
            ("bart-large", 406_291_456),
            ("flux.1-schnell", 11_891_178_560),
            ("qwen-image", 20_430_401_088),
            ("wan2.1-t2v-14b", 14_288_491_584),
        ];
        for (name, parameters) in counted {
            let model = crate::read::named(name).unwrap();
            let all = weights(&model, DType::BFloat16).unwrap();
            let sum: u64 = all.iter().filter(|one| !one.is_tied).map(crate::Weight::parameters).sum();
            assert_eq!(sum, parameters, "{name}");
        }
        assert!(TODAY.iter().all(|(name, _)| crate::read::named(name).is_some()));
    }

    /// 12.8 GiB and 60.8 GiB on the hub: experts in 4.25 bits, the rest in bfloat16.
    #[test]
    fn gpt_oss_takes_what_its_files_take() {
        for (name, mib) in [("openai/gpt-oss-20b", 13_107), ("openai/gpt-oss-120b", 62_259)] {
            let model = crate::read::named(name).unwrap();
            let bytes: u64 = weights(&model, DType::BFloat16).unwrap().iter().map(|one| one.stored.bytes()).sum();
            assert!((bytes >> 20).abs_diff(mib) < mib / 100, "{name}: {bytes}");
        }
    }
}
