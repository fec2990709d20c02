//! Models of today by name, by their published configurations.
//!
//! # Source
//! Where nothing else is said: the publisher's `config.json` as ai-dynamo/aiconfigurator has it (095f58a,
//! `aic-core/src/aiconfigurator_core/model_configs`), the fields that are sizes; the number of parameters is what transformers 5.23 counts on
//! the meta device.

use serde_json::{Value, json};

type Config = fn() -> Value;

/// Names as their publishers have them on the hub, in lower case, without the publisher and the end of a tuned version.
pub(super) const PUBLISHED: &[(&str, Config)] = &[
    // Qwen/Qwen3-235B-A22B, 235.1 billion.
    ("qwen3-235b-a22b", || {
        json!({"head_dim": 128, "hidden_size": 4096, "intermediate_size": 12_288, "max_position_embeddings": 40_960,
                "model_type": "qwen3_moe", "moe_intermediate_size": 1536, "norm_topk_prob": true, "num_attention_heads": 64,
                "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 94, "num_key_value_heads": 4,
                "tie_word_embeddings": false, "vocab_size": 151_936, "dtype": "bfloat16"})
    }),
    // Qwen/Qwen3-Coder-480B-A35B-Instruct, 480.2 billion.
    ("qwen3-coder-480b-a35b", || {
        json!({"head_dim": 128, "hidden_size": 6144, "intermediate_size": 8192, "max_position_embeddings": 262_144,
                "model_type": "qwen3_moe", "moe_intermediate_size": 2560, "norm_topk_prob": true, "num_attention_heads": 96,
                "num_experts": 160, "num_experts_per_tok": 8, "num_hidden_layers": 62, "num_key_value_heads": 8,
                "shared_expert_intermediate_size": 0, "tie_word_embeddings": false, "vocab_size": 151_936, "dtype": "bfloat16"})
    }),
    // Qwen/Qwen3-VL-8B-Instruct, 8.8 billion.
    ("qwen3-vl-8b", || {
        json!({"model_type": "qwen3_vl", "tie_word_embeddings": false, "dtype": "bfloat16",
                "text_config": {"head_dim": 128, "hidden_size": 4096, "intermediate_size": 12_288, "max_position_embeddings": 262_144,
                    "model_type": "qwen3_vl_text", "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8,
                    "vocab_size": 151_936},
                "vision_config": {"deepstack_visual_indexes": [8, 16, 24], "depth": 27, "hidden_size": 1152, "intermediate_size": 4304,
                    "model_type": "qwen3_vl", "num_heads": 16, "num_position_embeddings": 2304, "out_hidden_size": 4096,
                    "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}})
    }),
    // Qwen/Qwen3-VL-32B-Instruct, 33.4 billion.
    ("qwen3-vl-32b", || {
        json!({"model_type": "qwen3_vl", "tie_word_embeddings": false, "dtype": "bfloat16",
                "text_config": {"head_dim": 128, "hidden_size": 5120, "intermediate_size": 25_600, "max_position_embeddings": 262_144,
                    "model_type": "qwen3_vl_text", "num_attention_heads": 64, "num_hidden_layers": 64, "num_key_value_heads": 8,
                    "vocab_size": 151_936},
                "vision_config": {"deepstack_visual_indexes": [8, 16, 24], "depth": 27, "hidden_size": 1152, "intermediate_size": 4304,
                    "model_type": "qwen3_vl", "num_heads": 16, "num_position_embeddings": 2304, "out_hidden_size": 5120,
                    "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}})
    }),
    // Qwen/Qwen3-VL-30B-A3B-Instruct, 31.1 billion.
    ("qwen3-vl-30b-a3b", || {
        json!({"model_type": "qwen3_vl_moe", "tie_word_embeddings": false, "dtype": "bfloat16",
                "text_config": {"head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 262_144,
                    "model_type": "qwen3_vl_moe_text", "moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32,
                    "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
                    "vocab_size": 151_936},
                "vision_config": {"deepstack_visual_indexes": [8, 16, 24], "depth": 27, "hidden_size": 1152, "intermediate_size": 4304,
                    "model_type": "qwen3_vl_moe", "num_heads": 16, "num_position_embeddings": 2304, "out_hidden_size": 2048,
                    "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}})
    }),
    // Qwen/Qwen3-VL-235B-A22B-Instruct, 235.7 billion.
    ("qwen3-vl-235b-a22b", || {
        json!({"model_type": "qwen3_vl_moe", "tie_word_embeddings": false, "dtype": "bfloat16",
                "text_config": {"head_dim": 128, "hidden_size": 4096, "intermediate_size": 12_288, "max_position_embeddings": 262_144,
                    "model_type": "qwen3_vl_moe_text", "moe_intermediate_size": 1536, "norm_topk_prob": true,
                    "num_attention_heads": 64, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 94,
                    "num_key_value_heads": 4, "vocab_size": 151_936},
                "vision_config": {"deepstack_visual_indexes": [8, 16, 24], "depth": 27, "hidden_size": 1152, "intermediate_size": 4304,
                    "model_type": "qwen3_vl_moe", "num_heads": 16, "num_position_embeddings": 2304, "out_hidden_size": 4096,
                    "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}})
    }),
    // Qwen/Qwen3.5-27B, 27.4 billion.
    ("qwen3.5-27b", || {
        json!({"model_type": "qwen3_5", "tie_word_embeddings": false, "dtype": "bfloat16",
                "text_config": {"full_attention_interval": 4, "head_dim": 256, "hidden_size": 5120, "intermediate_size": 17_408,
                    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 48,
                    "linear_value_head_dim": 128, "max_position_embeddings": 262_144, "model_type": "qwen3_5_text",
                    "mtp_num_hidden_layers": 1, "num_attention_heads": 24, "num_hidden_layers": 64, "num_key_value_heads": 4,
                    "vocab_size": 248_320, "mamba_ssm_dtype": "float32"},
                "vision_config": {"deepstack_visual_indexes": [], "depth": 27, "hidden_size": 1152, "intermediate_size": 4304,
                    "model_type": "qwen3_5", "num_heads": 16, "num_position_embeddings": 2304, "out_hidden_size": 5120,
                    "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}})
    }),
    // Qwen/Qwen3.5-122B-A10B, 122.6 billion.
    ("qwen3.5-122b-a10b", || {
        json!({"model_type": "qwen3_5_moe", "tie_word_embeddings": false, "dtype": "bfloat16",
                "text_config": {"full_attention_interval": 4, "head_dim": 256, "hidden_size": 3072, "linear_conv_kernel_dim": 4,
                    "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 64, "linear_value_head_dim": 128,
                    "max_position_embeddings": 262_144, "model_type": "qwen3_5_moe_text", "moe_intermediate_size": 1024,
                    "mtp_num_hidden_layers": 1, "num_attention_heads": 32, "num_experts": 256, "num_experts_per_tok": 8,
                    "num_hidden_layers": 48, "num_key_value_heads": 2, "shared_expert_intermediate_size": 1024, "vocab_size": 248_320,
                    "mamba_ssm_dtype": "float32"},
                "vision_config": {"deepstack_visual_indexes": [], "depth": 27, "hidden_size": 1152, "intermediate_size": 4304,
                    "model_type": "qwen3_5_moe", "num_heads": 16, "num_position_embeddings": 2304, "out_hidden_size": 3072,
                    "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}})
    }),
    // Qwen/Qwen3.5-397B-A17B, 396.8 billion.
    ("qwen3.5-397b-a17b", || {
        json!({"model_type": "qwen3_5_moe", "tie_word_embeddings": false, "dtype": "bfloat16",
                "text_config": {"full_attention_interval": 4, "head_dim": 256, "hidden_size": 4096, "linear_conv_kernel_dim": 4,
                    "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 64, "linear_value_head_dim": 128,
                    "max_position_embeddings": 262_144, "model_type": "qwen3_5_moe_text", "moe_intermediate_size": 1024,
                    "mtp_num_hidden_layers": 1, "num_attention_heads": 32, "num_experts": 512, "num_experts_per_tok": 10,
                    "num_hidden_layers": 60, "num_key_value_heads": 2, "shared_expert_intermediate_size": 1024, "vocab_size": 248_320,
                    "mamba_ssm_dtype": "float32"},
                "vision_config": {"deepstack_visual_indexes": [], "depth": 27, "hidden_size": 1152, "intermediate_size": 4304,
                    "model_type": "qwen3_5_moe", "num_heads": 16, "num_position_embeddings": 2304, "out_hidden_size": 4096,
                    "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}})
    }),
    // nvidia/Qwen3.6-27B-NVFP4, 27.4 billion.
    ("qwen3.6-27b", || {
        json!({"model_type": "qwen3_5", "tie_word_embeddings": false, "dtype": "bfloat16",
                "text_config": {"full_attention_interval": 4, "head_dim": 256, "hidden_size": 5120, "intermediate_size": 17_408,
                    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 48,
                    "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32", "max_position_embeddings": 262_144,
                    "model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1, "num_attention_heads": 24, "num_hidden_layers": 64,
                    "num_key_value_heads": 4, "tie_word_embeddings": false, "vocab_size": 248_320},
                "vision_config": {"deepstack_visual_indexes": [], "depth": 27, "hidden_size": 1152, "intermediate_size": 4304,
                    "model_type": "qwen3_5_vision", "num_heads": 16, "num_position_embeddings": 2304, "out_hidden_size": 5120,
                    "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}})
    }),
    // nvidia/Qwen3.6-35B-A3B-NVFP4, 35.1 billion.
    ("qwen3.6-35b-a3b", || {
        json!({"model_type": "qwen3_5_moe", "tie_word_embeddings": false, "dtype": "bfloat16",
                "text_config": {"full_attention_interval": 4, "head_dim": 256, "hidden_size": 2048, "linear_conv_kernel_dim": 4,
                    "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
                    "mamba_ssm_dtype": "float32", "max_position_embeddings": 262_144, "model_type": "qwen3_5_moe_text",
                    "moe_intermediate_size": 512, "mtp_num_hidden_layers": 1, "num_attention_heads": 16, "num_experts": 256,
                    "num_experts_per_tok": 8, "num_hidden_layers": 40, "num_key_value_heads": 2,
                    "shared_expert_intermediate_size": 512, "tie_word_embeddings": false, "vocab_size": 248_320},
                "vision_config": {"deepstack_visual_indexes": [], "depth": 27, "hidden_size": 1152, "intermediate_size": 4304,
                    "model_type": "qwen3_5_moe_vision", "num_heads": 16, "num_position_embeddings": 2304, "out_hidden_size": 2048,
                    "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}})
    }),
    // google/gemma-4-26B-A4B, 25.8 billion.
    ("gemma-4-26b-a4b", || {
        json!({"model_type": "gemma4", "tie_word_embeddings": true, "dtype": "bfloat16",
                "text_config": {"attention_k_eq_v": true, "enable_moe_block": true, "global_head_dim": 512, "head_dim": 256, "hidden_size": 2816,
                    "hidden_size_per_layer_input": 0, "intermediate_size": 2112, "max_position_embeddings": 262_144,
                    "model_type": "gemma4_text", "moe_intermediate_size": 704, "num_attention_heads": 16, "num_experts": 128,
                    "num_global_key_value_heads": 2, "num_hidden_layers": 30, "num_key_value_heads": 8, "sliding_window": 1024,
                    "tie_word_embeddings": true, "top_k_experts": 8, "vocab_size": 262_144},
                "vision_config": {"head_dim": 72, "hidden_size": 1152, "intermediate_size": 4304, "model_type": "gemma4_vision",
                    "num_attention_heads": 16, "num_hidden_layers": 27, "num_key_value_heads": 16, "patch_size": 16,
                    "pooling_kernel_size": 3, "position_embedding_size": 10_240}})
    }),
    // nvidia/Gemma-4-31B-IT-NVFP4, 31.3 billion.
    ("gemma-4-31b", || {
        json!({"model_type": "gemma4", "tie_word_embeddings": true, "dtype": "bfloat16",
                "text_config": {"attention_k_eq_v": true, "enable_moe_block": false, "global_head_dim": 512, "head_dim": 256, "hidden_size": 5376,
                    "hidden_size_per_layer_input": 0, "intermediate_size": 21_504, "max_position_embeddings": 262_144,
                    "model_type": "gemma4_text", "num_attention_heads": 32, "num_global_key_value_heads": 4, "num_hidden_layers": 60,
                    "num_key_value_heads": 16, "sliding_window": 1024, "tie_word_embeddings": true, "vocab_size": 262_144},
                "vision_config": {"head_dim": 72, "hidden_size": 1152, "intermediate_size": 4304, "model_type": "gemma4_vision",
                    "num_attention_heads": 16, "num_hidden_layers": 27, "num_key_value_heads": 16, "patch_size": 16,
                    "pooling_kernel_size": 3, "position_embedding_size": 10_240}})
    }),
    // google/gemma-4-E4B-it, 7.9 billion: rasbt/LLMs-from-scratch, ch05/17_gemma4, has the text's sizes; the encoders are those that
    // transformers 5.17 writes for `google/gemma-4-e2b-it` (`models/gemma4/configuration_gemma4.py`).
    ("gemma-4-e4b", || {
        let text = json!({"hidden_size": 2560, "intermediate_size": 10_240, "num_hidden_layers": 42, "num_key_value_heads": 2,
                "num_kv_shared_layers": 18});
        gemma_4_small(text, 6)
    }),
    // google/gemma-4-E2B-it, 5.1 billion, from the same place.
    ("gemma-4-e2b", || {
        let text = json!({"hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 35, "num_key_value_heads": 1,
                "num_kv_shared_layers": 20, "use_double_wide_mlp": true});
        gemma_4_small(text, 5)
    }),
    // meta-llama/Llama-4-Maverick-17B-128E-Instruct, the text alone: 400.7 billion.
    ("llama-4-maverick-17b-128e", || {
        json!({"head_dim": 128, "hidden_size": 5120, "interleave_moe_layer_step": 2, "intermediate_size": 8192,
                "intermediate_size_mlp": 16_384, "max_position_embeddings": 1_048_576, "model_type": "llama4_text",
                "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8,
                "num_local_experts": 128, "vocab_size": 202_048, "dtype": "bfloat16"})
    }),
    // moonshotai/Kimi-K2-Instruct, 1,026.4 billion.
    ("kimi-k2", || {
        json!({"first_k_dense_replace": 1, "hidden_size": 7168, "intermediate_size": 18_432, "kv_lora_rank": 512,
                "max_position_embeddings": 131_072, "model_type": "kimi_k2", "moe_intermediate_size": 2048, "n_routed_experts": 384,
                "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 64, "num_experts_per_tok": 8,
                "num_hidden_layers": 61, "num_key_value_heads": 64, "num_nextn_predict_layers": 0, "q_lora_rank": 1536,
                "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "tie_word_embeddings": false, "v_head_dim": 128,
                "vocab_size": 163_840, "dtype": "bfloat16"})
    }),
    // zai-org/GLM-5.1, 743.9 billion.
    ("glm-5.1", || {
        json!({"first_k_dense_replace": 3, "head_dim": 64, "hidden_size": 6144, "index_head_dim": 128, "index_n_heads": 32,
                "intermediate_size": 12_288, "kv_lora_rank": 512, "max_position_embeddings": 202_752, "moe_intermediate_size": 2048,
                "model_type": "glm_moe_dsa", "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true,
                "num_attention_heads": 64, "num_experts_per_tok": 8, "num_hidden_layers": 78, "num_key_value_heads": 64,
                "num_nextn_predict_layers": 1, "q_lora_rank": 2048, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
                "tie_word_embeddings": false, "v_head_dim": 256, "vocab_size": 154_880, "dtype": "bfloat16"})
    }),
    // MiniMaxAI/MiniMax-M2.5, 228.7 billion.
    ("minimax-m2.5", || {
        json!({"model_type": "minimax_m2", "num_hidden_layers": 62, "hidden_size": 3072, "num_attention_heads": 48,
                "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 1536, "vocab_size": 200_064, "num_experts_per_tok": 8,
                "num_local_experts": 256, "max_position_embeddings": 196_608, "tie_word_embeddings": false, "dtype": "bfloat16"})
    }),
    // zai-org/GLM-5.2, 743.4 billion: indexers in the first three layers, and then in each fourth.
    ("glm-5.2", || {
        let has_indexer = |layer: u64| layer < 3 || (layer - 2).is_multiple_of(4);
        let indexers: Vec<&str> = (0..78).map(|layer| if has_indexer(layer) { "full" } else { "shared" }).collect();
        json!({"first_k_dense_replace": 3, "hidden_size": 6144, "index_head_dim": 128, "index_n_heads": 32, "indexer_types": indexers,
                "intermediate_size": 12_288, "kv_lora_rank": 512, "max_position_embeddings": 1_048_576, "moe_intermediate_size": 2048,
                "model_type": "glm_moe_dsa", "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true,
                "num_attention_heads": 64, "num_experts_per_tok": 8, "num_hidden_layers": 78, "num_key_value_heads": 64,
                "num_nextn_predict_layers": 1, "q_lora_rank": 2048, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
                "tie_word_embeddings": false, "v_head_dim": 256, "vocab_size": 154_880, "dtype": "bfloat16"})
    }),
    // MiniMaxAI/MiniMax-M3, the text alone: 426.2 billion.
    ("minimax-m3", || {
        let sparse: Vec<u64> = (0..60).map(|layer| u64::from(layer >= 3)).collect();
        json!({"model_type": "minimax_m3", "num_hidden_layers": 60, "hidden_size": 6144, "num_attention_heads": 64,
                "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 3072, "dense_intermediate_size": 12_288,
                "shared_intermediate_size": 3072, "vocab_size": 200_064, "num_experts_per_tok": 4, "num_local_experts": 128,
                "moe_layer_freq": sparse, "max_position_embeddings": 1_048_576, "tie_word_embeddings": false, "dtype": "bfloat16",
                "sparse_attention_config": {"sparse_attention_freq": sparse, "sparse_index_dim": 128, "sparse_num_index_heads": 4}})
    }),
    // XiaomiMiMo/MiMo-V2-Flash, 308.8 billion.
    ("mimo-v2-flash", || {
        let windows: Vec<u64> =
            (0..48_u64).map(|layer| u64::from(layer > 0 && !(layer + 1).is_multiple_of(6))).collect();
        let sparse: Vec<u64> = (0..48).map(|layer| u64::from(layer > 0)).collect();
        json!({"model_type": "mimo_v2_flash", "num_hidden_layers": 48, "hidden_size": 4096, "num_attention_heads": 64,
                "num_key_value_heads": 4, "swa_num_key_value_heads": 8, "head_dim": 192, "v_head_dim": 128, "swa_head_dim": 192,
                "swa_v_head_dim": 128, "intermediate_size": 16_384, "vocab_size": 152_576, "max_position_embeddings": 262_144,
                "sliding_window": 128, "hybrid_layer_pattern": windows, "moe_layer_freq": sparse, "moe_intermediate_size": 2048,
                "n_routed_experts": 256, "num_experts_per_tok": 8, "norm_topk_prob": true, "partial_rotary_factor": 0.334,
                "tie_word_embeddings": false, "dtype": "bfloat16",
                "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}})
    }),
    // nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16, 549.3 billion.
    ("nemotron-3-ultra-550b-a55b", || {
        json!({"conv_kernel": 4, "head_dim": 128, "hidden_size": 8192,
                "hybrid_override_pattern":
                    "MEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
                "intermediate_size": 5120, "mamba_head_dim": 64, "mamba_num_heads": 256, "mamba_ssm_cache_dtype": "float32",
                "max_position_embeddings": 262_144, "model_type": "nemotron_h", "moe_intermediate_size": 5120, "moe_latent_size": 2048,
                "moe_shared_expert_intermediate_size": 10_240, "n_groups": 8, "n_routed_experts": 512, "n_shared_experts": 1,
                "norm_topk_prob": true, "num_attention_heads": 64, "num_experts_per_tok": 22, "num_hidden_layers": 108,
                "num_key_value_heads": 2, "num_nextn_predict_layers": 1, "ssm_state_size": 128, "tie_word_embeddings": false,
                "vocab_size": 131_072, "dtype": "bfloat16"})
    }),
    // nvidia/Nemotron-H-56B-Base-8K, 56.3 billion.
    ("nemotron-h-56b-base-8k", || {
        json!({"conv_kernel": 4, "hidden_size": 8192,
                "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
                "intermediate_size": 32_768, "mamba_head_dim": 64, "mamba_num_heads": 256, "max_position_embeddings": 8192,
                "model_type": "nemotron_h", "n_groups": 8, "num_attention_heads": 64, "num_hidden_layers": 118,
                "num_key_value_heads": 8, "ssm_state_size": 256, "tie_word_embeddings": false, "vocab_size": 131_072,
                "dtype": "bfloat16"})
    }),
    // nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16, 31.6 billion.
    ("nemotron-3-nano-30b-a3b", || {
        json!({"conv_kernel": 4, "head_dim": 128, "hidden_size": 2688,
                "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "intermediate_size": 1856,
                "mamba_head_dim": 64, "mamba_num_heads": 64, "mamba_ssm_cache_dtype": "float32", "max_position_embeddings": 262_144,
                "model_type": "nemotron_h", "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712, "n_groups": 8,
                "n_routed_experts": 128, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 32,
                "num_experts_per_tok": 6, "num_hidden_layers": 52, "num_key_value_heads": 2, "ssm_state_size": 128,
                "tie_word_embeddings": false, "vocab_size": 131_072, "dtype": "bfloat16"})
    }),
    // nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8, 120.7 billion.
    ("nemotron-3-super-120b-a12b", || {
        json!({"conv_kernel": 4, "head_dim": 128, "hidden_size": 4096,
                "hybrid_override_pattern": "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME",
                "intermediate_size": 2688, "mamba_head_dim": 64, "mamba_num_heads": 128, "mamba_ssm_cache_dtype": "float32",
                "max_position_embeddings": 262_144, "model_type": "nemotron_h", "moe_intermediate_size": 2688, "moe_latent_size": 1024,
                "moe_shared_expert_intermediate_size": 5376, "n_groups": 8, "n_routed_experts": 512, "n_shared_experts": 1,
                "norm_topk_prob": true, "num_attention_heads": 32, "num_experts_per_tok": 22, "num_hidden_layers": 88,
                "num_key_value_heads": 2, "num_nextn_predict_layers": 1, "ssm_state_size": 128, "tie_word_embeddings": false,
                "vocab_size": 131_072, "dtype": "bfloat16"})
    }),
    // meta-llama/Meta-Llama-3.1-405B, 405.9 billion.
    ("llama3.1-405b", || {
        json!({"hidden_size": 16_384, "intermediate_size": 53_248, "max_position_embeddings": 131_072, "model_type": "llama",
                "num_attention_heads": 128, "num_hidden_layers": 126, "num_key_value_heads": 8, "tie_word_embeddings": false,
                "vocab_size": 128_256, "dtype": "bfloat16"})
    }),
    // mistralai/Mixtral-8x22B-v0.1, 140.6 billion.
    ("mixtral-8x22b", || {
        json!({"hidden_size": 6144, "intermediate_size": 16_384, "max_position_embeddings": 65_536, "model_type": "mixtral",
                "num_attention_heads": 48, "num_experts_per_tok": 2, "num_hidden_layers": 56, "num_key_value_heads": 8,
                "num_local_experts": 8, "tie_word_embeddings": false, "vocab_size": 32_000, "dtype": "bfloat16"})
    }),
    // zai-org/GLM-4.7, its fields as a test of alibaba/rtp-llm has them (`glm4_moe`), 352.8 billion without the layer that drafts.
    ("glm-4.7", || glm_4()),
    // zai-org/GLM-4.7-Flash, as vLLM's test of `Glm4MoeLiteConfig` and the defaults of transformers' have it, 29.9 billion without the layer
    // that drafts.
    ("glm-4.7-flash", || {
        json!({"model_type": "glm4_moe_lite", "vocab_size": 154_880, "hidden_size": 2048, "intermediate_size": 10_240,
                "moe_intermediate_size": 1536, "num_hidden_layers": 47, "num_attention_heads": 20, "num_key_value_heads": 20,
                "max_position_embeddings": 202_752, "q_lora_rank": 768, "kv_lora_rank": 512, "qk_nope_head_dim": 192,
                "qk_rope_head_dim": 64, "v_head_dim": 256, "n_routed_experts": 64, "n_shared_experts": 1, "num_experts_per_tok": 4,
                "first_k_dense_replace": 1, "num_nextn_predict_layers": 1, "tie_word_embeddings": false, "dtype": "bfloat16"})
    }),
    // zai-org/GLM-4.6, the same sizes.
    ("glm-4.6", || glm_4()),
    // ibm-granite/granite-4.0-h-small, its `config.json` as public notes quote it; heads of Mamba by `GraniteMoeHybridConfig`, 32.2 billion.
    ("granite-4.0-h-small", || {
        let layers: Vec<&str> = (0..40).map(|layer| if layer % 10 == 5 { "attention" } else { "mamba" }).collect();
        json!({"model_type": "granitemoehybrid", "vocab_size": 100_352, "hidden_size": 4096, "intermediate_size": 768,
            "shared_intermediate_size": 1536, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8,
            "num_local_experts": 72, "num_experts_per_tok": 10, "mamba_d_state": 128, "mamba_d_conv": 4, "mamba_expand": 2,
            "mamba_n_heads": 128, "mamba_n_groups": 1, "tie_word_embeddings": true, "layer_types": layers,
            "max_position_embeddings": 131_072, "dtype": "bfloat16"})
    }),
    // microsoft/phi-4, its `config.json` as public notes quote it, 14.7 billion.
    ("phi-4", || {
        json!({"model_type": "phi3", "vocab_size": 100_352, "hidden_size": 5120, "intermediate_size": 17_920, "num_hidden_layers": 40,
            "num_attention_heads": 40, "num_key_value_heads": 10, "max_position_embeddings": 16_384, "dtype": "bfloat16"})
    }),
    // Mistral Small 3.1 and 3.2: the defaults of `Mistral3Config`, head and embeddings apart as published, 24.0 billion.
    ("mistral-small-3.2-24b", || mistral_small()),
    ("mistral-small-3.1-24b", || mistral_small()),
    // Embedding and reranking models: the publishers' `config.json` as public repositories carry it beside the weights.
    // sentence-transformers/all-MiniLM-L6-v2 (openeuler-mirror/eulerpublisher, `models/`), 22.7 million.
    ("all-minilm-l6-v2", || encoder("bert", 384, 6, 12, 512)),
    // BAAI/bge-small-en-v1.5 (silence-breaker/SFT-MoE, `models/`), 33.4 million.
    ("bge-small-en-v1.5", || encoder("bert", 384, 12, 12, 512)),
    // BAAI/bge-large-en-v1.5 (arshargithub/reference_doc_processing_rag, `models/`), 335.1 million.
    ("bge-large-en-v1.5", || encoder("bert", 1024, 24, 16, 512)),
    // BAAI/bge-m3 (vminh16/VI-Legal-RAG, `models/`), 567.8 million.
    ("bge-m3", || encoder("xlm-roberta", 1024, 24, 16, 8194)),
    // BAAI/bge-reranker-v2-m3 (ahmedghosaini/crag-meta, `models/`), the same with a score.
    ("bge-reranker-v2-m3", || encoder("xlm-roberta", 1024, 24, 16, 8194)),
    // intfloat/multilingual-e5-base (Gomez12/OpenTeddy, `models/`), 278.0 million.
    ("multilingual-e5-base", || encoder("xlm-roberta", 768, 12, 12, 514)),
    // Qwen/Qwen3.5-9B: the defaults of `Qwen3_5Config`, 9.4 billion.
    ("qwen3.5-9b", || {
        json!({"model_type": "qwen3_5", "tie_word_embeddings": false, "dtype": "bfloat16",
            "text_config": {"model_type": "qwen3_5_text", "vocab_size": 248_320, "hidden_size": 4096, "intermediate_size": 12_288,
                "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256,
                "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
                "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1,
                "max_position_embeddings": 262_144},
            "vision_config": {"model_type": "qwen3_5", "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16,
                "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 2304,
                "out_hidden_size": 4096}})
    }),
];

fn glm_4() -> Value {
    json!({"model_type": "glm4_moe", "vocab_size": 151_552, "hidden_size": 5120, "intermediate_size": 12_288, "num_hidden_layers": 92,
        "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "moe_intermediate_size": 1536, "n_routed_experts": 160,
        "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 3, "use_qk_norm": true, "attention_bias": true,
        "num_nextn_predict_layers": 1, "max_position_embeddings": 202_752, "dtype": "bfloat16"})
}

fn mistral_small() -> Value {
    json!({"model_type": "mistral3", "tie_word_embeddings": false, "dtype": "bfloat16", "spatial_merge_size": 2,
        "text_config": {"model_type": "mistral", "vocab_size": 131_072, "hidden_size": 5120, "intermediate_size": 32_768,
            "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": false,
            "max_position_embeddings": 131_072},
        "vision_config": {"model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
            "num_attention_heads": 16, "head_dim": 64, "image_size": 1540, "patch_size": 14}})
}

/// An encoder of texts, four times as wide in its layers' middle.
fn encoder(kind: &str, hidden: u64, layers: u64, heads: u64, positions: u64) -> Value {
    let (vocab, types) = if kind == "bert" { (30_522, 2) } else { (250_002, 1) };
    json!({"model_type": kind, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "intermediate_size": 4 * hidden, "vocab_size": vocab, "max_position_embeddings": positions, "type_vocab_size": types})
}

/// A Gemma 4 with an encoder of sound: one in `every` layers attends to all tokens.
fn gemma_4_small(mut text: Value, every: u64) -> Value {
    let layers = text["num_hidden_layers"].as_u64().unwrap_or(0);
    let kind = |layer: u64| if layer.is_multiple_of(every) { "full_attention" } else { "sliding_attention" };
    text["layer_types"] = (1..=layers).map(kind).collect();
    for (name, value) in [
        ("global_head_dim", 512),
        ("head_dim", 256),
        ("hidden_size_per_layer_input", 256),
        ("max_position_embeddings", 131_072),
        ("num_attention_heads", 8),
        ("sliding_window", 512),
        ("vocab_size", 262_144),
        ("vocab_size_per_layer_input", 262_144),
    ] {
        text[name] = json!(value);
    }
    text["model_type"] = json!("gemma4_text");
    text["tie_word_embeddings"] = json!(true);
    json!({"model_type": "gemma4", "tie_word_embeddings": true, "dtype": "bfloat16", "text_config": text,
        "vision_config": {"head_dim": 64, "hidden_size": 768, "intermediate_size": 3072, "model_type": "gemma4_vision",
            "num_attention_heads": 12, "num_hidden_layers": 16, "num_key_value_heads": 12, "patch_size": 16, "pooling_kernel_size": 3,
            "position_embedding_size": 10_240},
        "audio_config": {"model_type": "gemma4_audio"}})
}

#[cfg(test)]
mod tests {
    use super::PUBLISHED;
    use crate::{DType, weights};

    /// Counted by transformers on the meta device.
    #[test]
    fn each_has_the_parameters_of_its_release() {
        let counted = [
            ("qwen3-235b-a22b", 235_093_634_560_u64),
            ("qwen3-coder-480b-a35b", 480_154_875_392),
            ("qwen3-vl-8b", 8_767_123_696),
            ("qwen3-vl-32b", 33_357_390_064),
            ("qwen3-vl-30b-a3b", 31_070_754_032),
            ("qwen3-vl-235b-a22b", 235_670_022_896),
            ("qwen3.5-27b", 27_356_728_560),
            ("qwen3.5-122b-a10b", 122_562_817_776),
            ("qwen3.5-397b-a17b", 396_802_360_816),
            ("qwen3.6-27b", 27_356_728_560),
            ("qwen3.6-35b-a3b", 35_107_181_936),
            ("gemma-4-26b-a4b", 25_805_933_872),
            ("gemma-4-31b", 31_273_086_512),
            ("gemma-4-e4b", 7_941_100_832),
            ("gemma-4-e2b", 5_104_297_504),
            ("llama-4-maverick-17b-128e", 400_711_848_960),
            ("kimi-k2", 1_026_408_209_408),
            ("glm-5.1", 743_911_199_232),
            ("glm-5.2", 743_377_000_704),
            ("minimax-m3", 426_174_565_632),
            ("mimo-v2-flash", 308_778_768_832),
            ("nemotron-3-ultra-550b-a55b", 549_308_968_960),
            ("minimax-m2.5", 228_689_748_992),
            ("nemotron-h-56b-base-8k", 56_324_350_464),
            ("nemotron-3-nano-30b-a3b", 31_577_937_344),
            ("nemotron-3-super-120b-a12b", 120_668_687_360),
            ("llama3.1-405b", 405_853_388_800),
            ("mixtral-8x22b", 140_620_634_112),
            ("glm-4.7", 352_797_814_784),
            ("glm-4.7-flash", 29_943_390_976),
            ("granite-4.0-h-small", 32_207_337_984),
            ("phi-4", 14_659_507_200),
            ("qwen3.5-9b", 9_409_813_744),
        ];
        for (name, parameters) in counted {
            let model = crate::read::named(name).unwrap_or_else(|| panic!("{name}"));
            let all = weights(&model, DType::BFloat16).unwrap();
            let sum: u64 = all.iter().filter(|one| !one.is_tied).map(crate::Weight::parameters).sum();
            assert_eq!(sum, parameters, "{name}");
        }
        assert!(PUBLISHED.iter().all(|(name, _)| crate::read::named(name).is_some()));
    }

    #[test]
    fn names_of_the_hub_are_found() {
        for name in [
            "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
            "Qwen/Qwen3-Coder-480B-A35B-Instruct",
            "google/gemma-4-31B-it",
            "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
            "meta-llama/Llama-3.1-405B-Instruct",
            "moonshotai/Kimi-K2-Instruct",
        ] {
            assert!(crate::read::named(name).is_some(), "{name}");
        }
    }
}
