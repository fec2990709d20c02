//! Decoders of today, as rows of the table of families; what a row cannot say, `hybrids` adds.
//!
//! # Source
//! transformers 5.23, `models/*/configuration_*.py` and `modeling_*.py`; parameter counts of
//! `testdata/estimates/parameters.jsonl`.

use super::families::{AS_SAID, DecoderFamily, ExpertFamily, FixedBiases, GEMMA, LLAMA, QWEN2, Window};
use crate::architecture::{Block, DecoderNorm, Evidence, MlpKind, QkNorm};

/// No row here was compared with runs.
const SOURCE: DecoderFamily = DecoderFamily { evidence: Evidence::Source, ..LLAMA };

const NO_BIASES: FixedBiases = FixedBiases { qkv: Some(false), output: Some(false), mlp: Some(false), head: false };

/// Norms of Qwen 3.5's kind, gated attention between layers with a state.
const QWEN_NEXT: DecoderFamily = DecoderFamily {
    name: "qwen3_next",
    defaults: [151_936, 2048, 5632, 48, 16],
    kv_heads: Some(2),
    head_dim: Some(256),
    norm: DecoderNorm::RmsGemma,
    qk_norm: QkNorm::PerHead,
    rotary_factor: 0.25,
    ..SOURCE
};

/// Layers that are a state or an MLP alone.
const STATES: DecoderFamily = DecoderFamily {
    name: "mamba",
    defaults: [50_280, 768, 1536, 32, 1],
    block: Block::Single,
    tied: true,
    rotary_factor: 0.0,
    fixed: NO_BIASES,
    ..SOURCE
};

const COHERE: DecoderFamily = DecoderFamily {
    name: "cohere",
    defaults: [256_000, 8192, 22_528, 40, 64],
    tied: true,
    norm: DecoderNorm::LayerNoBias,
    block: Block::ParallelOneNorm,
    ..SOURCE
};

const GLM: DecoderFamily = DecoderFamily {
    name: "glm",
    defaults: [151_552, 4096, 13_696, 40, 32],
    kv_heads: Some(2),
    head_dim: Some(128),
    mlp: MlpKind::GatedTogether,
    qkv_bias: true,
    fixed: FixedBiases { output: Some(false), mlp: Some(false), ..AS_SAID },
    rotary_factor: 0.5,
    ..SOURCE
};

pub(super) fn family(model_type: &str) -> Option<DecoderFamily> {
    Some(match model_type {
        "gpt_oss" => DecoderFamily {
            name: "gpt_oss",
            defaults: [201_088, 2880, 2880, 36, 64],
            kv_heads: Some(8),
            head_dim: Some(64),
            qkv_bias: true,
            window: Window::EveryOther,
            experts: ExpertFamily::Mixtral(128, 4),
            ..SOURCE
        },
        "llama4_text" | "llama4" => DecoderFamily {
            name: "llama4",
            defaults: [202_048, 5120, 8192, 48, 40],
            kv_heads: Some(8),
            head_dim: Some(128),
            experts: ExpertFamily::Mixtral(16, 1),
            ..SOURCE
        },
        "qwen3_next" => DecoderFamily {
            experts: ExpertFamily::Qwen { count: 512, per_token: 10, intermediate: 512, shared: Some(512) },
            ..QWEN_NEXT
        },
        "qwen3_5_text" => {
            DecoderFamily { name: "qwen3_5", defaults: [248_320, 4096, 12_288, 32, 16], kv_heads: Some(4), ..QWEN_NEXT }
        }
        "qwen3_5_moe_text" => DecoderFamily {
            name: "qwen3_5_moe",
            defaults: [248_320, 2048, 512, 40, 16],
            experts: ExpertFamily::Qwen { count: 256, per_token: 8, intermediate: 512, shared: Some(512) },
            ..QWEN_NEXT
        },
        "glm4_moe" => DecoderFamily {
            name: "glm4_moe",
            defaults: [151_552, 4096, 10_944, 46, 96],
            kv_heads: Some(8),
            fixed: FixedBiases { output: Some(false), mlp: Some(false), ..AS_SAID },
            rotary_factor: 0.5,
            experts: ExpertFamily::DeepSeek {
                count: 128,
                intermediate: 1408,
                shared: 1,
                first_dense: 1,
                has_sigmoid_router: true,
            },
            ..SOURCE
        },
        "mimo_v2_flash" => DecoderFamily {
            name: "mimo_v2_flash",
            defaults: [152_576, 4096, 16_384, 48, 64],
            kv_heads: Some(4),
            head_dim: Some(192),
            rotary_factor: 0.334,
            rotary_tables: 2,
            experts: ExpertFamily::DeepSeek {
                count: 256,
                intermediate: 2048,
                shared: 0,
                first_dense: 1,
                has_sigmoid_router: true,
            },
            ..SOURCE
        },
        "minimax_m3" | "minimax_m3_vl_text" => DecoderFamily {
            name: "minimax_m3",
            defaults: [200_064, 6144, 3072, 60, 64],
            kv_heads: Some(4),
            head_dim: Some(128),
            norm: DecoderNorm::RmsGemma,
            qk_norm: QkNorm::PerHead,
            rotary_factor: 0.5,
            experts: ExpertFamily::Mixtral(128, 4),
            ..SOURCE
        },
        "glm" => GLM,
        "glm4" => DecoderFamily { name: "glm4", block: Block::Sandwich, ..GLM },
        "gemma3n_text" => DecoderFamily {
            name: "gemma3n",
            evidence: Evidence::Source,
            defaults: [262_400, 2048, 16_384, 35, 8],
            kv_heads: Some(2),
            block: Block::Sandwich,
            norm: DecoderNorm::Rms,
            rotary_tables: 2,
            window: Window::Pattern,
            qk_norm: QkNorm::PerHead,
            soft_caps: false,
            ..GEMMA
        },
        "gemma4_text" => DecoderFamily {
            name: "gemma4",
            evidence: Evidence::Source,
            defaults: [262_144, 2304, 9216, 30, 8],
            kv_heads: Some(4),
            block: Block::Sandwich,
            norm: DecoderNorm::Rms,
            rotary_tables: 2,
            window: Window::Pattern,
            qk_norm: QkNorm::PerHead,
            ..GEMMA
        },
        "cohere" => COHERE,
        "cohere2" => DecoderFamily { name: "cohere2", window: Window::Pattern, ..COHERE },
        "granite" => DecoderFamily { name: "granite", ..SOURCE },
        "granitemoe" => DecoderFamily { name: "granitemoe", experts: ExpertFamily::Mixtral(8, 2), ..SOURCE },
        "falcon_h1" => DecoderFamily {
            name: "falcon_h1",
            evidence: Evidence::Shapes,
            defaults: [128_000, 4096, 14_336, 32, 32],
            kv_heads: Some(8),
            embedding_scale: true,
            ..LLAMA
        },
        "granitemoehybrid" => DecoderFamily { name: "granitemoehybrid", ..SOURCE },
        "jamba" => DecoderFamily {
            name: "jamba",
            defaults: [65_536, 4096, 14_336, 32, 32],
            kv_heads: Some(8),
            rotary_factor: 0.0,
            experts: ExpertFamily::Mixtral(16, 2),
            ..SOURCE
        },
        "mamba" | "falcon_mamba" => STATES,
        "mamba2" => DecoderFamily { name: "mamba2", defaults: [32_768, 4096, 8192, 64, 1], tied: false, ..STATES },
        "nemotron_h" => DecoderFamily {
            name: "nemotron_h",
            defaults: [131_072, 4096, 21_504, 52, 32],
            kv_heads: Some(8),
            head_dim: Some(128),
            tied: false,
            mlp: MlpKind::Plain,
            activation: "relu",
            fixed: AS_SAID,
            ..STATES
        },
        "rwkv" => DecoderFamily {
            name: "rwkv",
            defaults: [50_277, 4096, 16_384, 32, 1],
            norm: DecoderNorm::Layer,
            mlp: MlpKind::Plain,
            activation: "relu",
            rotary_factor: 0.0,
            fixed: NO_BIASES,
            ..SOURCE
        },
        "phimoe" => DecoderFamily {
            name: "phimoe",
            defaults: [32_064, 4096, 6400, 32, 32],
            kv_heads: Some(8),
            norm: DecoderNorm::Layer,
            window: Window::IfThere,
            experts: ExpertFamily::Mixtral(16, 2),
            ..SOURCE
        },
        "starcoder2" => DecoderFamily {
            name: "starcoder2",
            defaults: [49_152, 3072, 12_288, 30, 24],
            kv_heads: Some(2),
            tied: true,
            norm: DecoderNorm::Layer,
            mlp: MlpKind::Plain,
            activation: "gelu_pytorch_tanh",
            qkv_bias: true,
            fixed: FixedBiases { mlp: Some(true), ..AS_SAID },
            window: Window::IfThere,
            ..SOURCE
        },
        "stablelm" => DecoderFamily {
            name: "stablelm",
            defaults: [50_304, 2560, 6912, 32, 32],
            norm: DecoderNorm::Layer,
            rotary_factor: 0.25,
            fixed: FixedBiases { output: Some(false), mlp: Some(false), ..AS_SAID },
            ..SOURCE
        },
        "ministral3" => DecoderFamily {
            name: "ministral3",
            defaults: [131_072, 4096, 14_336, 34, 32],
            kv_heads: Some(8),
            head_dim: Some(128),
            fixed: NO_BIASES,
            window: Window::IfThere,
            ..SOURCE
        },
        "seed_oss" => DecoderFamily {
            name: "seed_oss",
            defaults: [155_136, 4096, 27_648, 64, 80],
            kv_heads: Some(8),
            head_dim: Some(128),
            qkv_bias: true,
            fixed: FixedBiases { output: Some(false), ..AS_SAID },
            ..SOURCE
        },
        "smollm3" => DecoderFamily {
            name: "smollm3",
            defaults: [128_256, 2048, 11_008, 36, 16],
            kv_heads: Some(4),
            tied: true,
            window: Window::FromLayer,
            ..SOURCE
        },
        "exaone4" => DecoderFamily {
            name: "exaone4",
            defaults: [102_400, 4096, 16_384, 32, 32],
            block: Block::Post,
            qk_norm: QkNorm::PerHead,
            fixed: NO_BIASES,
            window: Window::IfThere,
            ..SOURCE
        },
        "nemotron" => DecoderFamily {
            name: "nemotron",
            defaults: [256_000, 6144, 24_576, 32, 48],
            norm: DecoderNorm::Layer,
            mlp: MlpKind::Plain,
            activation: "relu",
            rotary_factor: 0.5,
            ..SOURCE
        },
        "minimax_m2" => DecoderFamily {
            name: "minimax_m2",
            defaults: [200_064, 3072, 1536, 62, 48],
            kv_heads: Some(8),
            head_dim: Some(128),
            qk_norm: QkNorm::Whole,
            fixed: NO_BIASES,
            experts: ExpertFamily::Mixtral(256, 8),
            ..SOURCE
        },
        "ernie4_5" => DecoderFamily {
            name: "ernie4_5",
            defaults: [103_424, 1024, 3072, 18, 16],
            kv_heads: Some(2),
            head_dim: Some(128),
            tied: true,
            ..SOURCE
        },
        "olmoe" => DecoderFamily {
            name: "olmoe",
            defaults: [50_304, 2048, 2048, 16, 16],
            qk_norm: QkNorm::Whole,
            experts: ExpertFamily::Mixtral(64, 8),
            ..SOURCE
        },
        "hunyuan_v1_dense" => DecoderFamily {
            name: "hunyuan_v1_dense",
            defaults: [290_943, 4096, 11_008, 32, 32],
            qk_norm: QkNorm::PerHead,
            ..SOURCE
        },
        "helium" => DecoderFamily {
            name: "helium",
            defaults: [48_000, 2560, 7040, 24, 20],
            head_dim: Some(128),
            fixed: FixedBiases { output: Some(false), ..AS_SAID },
            ..SOURCE
        },
        "qwen2_audio_text" => QWEN2,
        _ => return None,
    })
}
