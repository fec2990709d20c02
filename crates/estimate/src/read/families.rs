//! What the decoders that are known by a `model_type` have in common, as a table: `config` reads a configuration by it.
//!
//! # Source
//! transformers 5.17, `models/*/configuration_*.py` and `modeling_*.py`.

use crate::architecture::{Block, DecoderNorm, Evidence, MlpKind, QkNorm, Qkv};

/// What the decoders of a `model_type` have in common.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "columns of a table")]
pub(super) struct DecoderFamily {
    pub(super) name: &'static str,
    pub(super) evidence: Evidence,
    /// `vocab_size`, `hidden_size`, `intermediate_size`, `num_hidden_layers`, `num_attention_heads`.
    pub(super) defaults: [u64; 5],
    pub(super) kv_heads: Option<u64>,
    pub(super) head_dim: Option<u64>,
    pub(super) tied: bool,
    pub(super) norm: DecoderNorm,
    pub(super) block: Block,
    pub(super) qkv: Qkv,
    pub(super) mlp: MlpKind,
    pub(super) activation: &'static str,
    pub(super) qk_norm: QkNorm,
    /// Whether query, key and value have biases unless `attention_bias` says otherwise.
    pub(super) qkv_bias: bool,
    pub(super) fixed: FixedBiases,
    /// Whether `qk_layernorm` may ask for norms of queries and keys.
    pub(super) may_norm_qk: bool,
    /// The part of a head that is rotated.
    pub(super) rotary_factor: f64,
    pub(super) rotary_in_float32: bool,
    /// Tables of rotations: windows have one of their own in some.
    pub(super) rotary_tables: u64,
    pub(super) window: Window,
    /// Whether attention and logits are capped unless the configuration says otherwise.
    pub(super) soft_caps: bool,
    pub(super) embedding_scale: bool,
    /// Whether `hidden_dropout` is the embedding's dropout, too.
    pub(super) hidden_dropout_at_embedding: bool,
    pub(super) experts: ExpertFamily,
    /// Whether keys and values are kept as latents.
    pub(super) latent: bool,
}

/// Biases that the code has whatever the configuration says.
#[derive(Clone, Copy)]
pub(super) struct FixedBiases {
    pub(super) qkv: Option<bool>,
    /// As those of query, key and value, if not fixed.
    pub(super) output: Option<bool>,
    pub(super) mlp: Option<bool>,
    pub(super) head: bool,
}

pub(super) const AS_SAID: FixedBiases = FixedBiases { qkv: None, output: None, mlp: None, head: false };

/// Which layers attend in a window, where `layer_types` does not say it.
#[derive(Clone, Copy)]
pub(super) enum Window {
    Never,
    /// All, unless `sliding_window` is null.
    UnlessNull,
    /// All, if there is a `sliding_window`.
    IfThere,
    /// Every other, from the first on.
    EveryOther,
    /// All but each one of `sliding_window_pattern`.
    Pattern,
    /// Those from `max_window_layers` on, if `use_sliding_window` says so.
    FromLayer,
}

/// Where the fields of experts are, and what they are if a configuration lacks them.
#[derive(Clone, Copy)]
pub(super) enum ExpertFamily {
    None,
    /// As many of one width, `num_local_experts` or `num_experts`; so many for a token.
    Mixtral(u64, u64),
    Qwen {
        count: u64,
        per_token: u64,
        intermediate: u64,
        /// Width of the expert that all tokens share, behind a gate.
        shared: Option<u64>,
    },
    DeepSeek {
        count: u64,
        intermediate: u64,
        /// How many experts all tokens share.
        shared: u64,
        first_dense: u64,
        /// Whether the router is a sigmoid, whose weights are made to sum to one.
        has_sigmoid_router: bool,
    },
}

pub(super) const LLAMA: DecoderFamily = DecoderFamily {
    name: "llama",
    evidence: Evidence::Measured,
    defaults: [32_000, 4096, 11_008, 32, 32],
    kv_heads: None,
    head_dim: None,
    tied: false,
    norm: DecoderNorm::Rms,
    block: Block::Pre,
    qkv: Qkv::Separate,
    mlp: MlpKind::Gated,
    activation: "silu",
    qk_norm: QkNorm::None,
    qkv_bias: false,
    fixed: AS_SAID,
    may_norm_qk: false,
    rotary_factor: 1.0,
    rotary_in_float32: false,
    rotary_tables: 1,
    window: Window::Never,
    soft_caps: false,
    embedding_scale: false,
    hidden_dropout_at_embedding: false,
    experts: ExpertFamily::None,
    latent: false,
};

pub(super) const QWEN2: DecoderFamily = DecoderFamily {
    name: "qwen2",
    defaults: [151_936, 4096, 22_016, 32, 32],
    kv_heads: Some(32),
    qkv_bias: true,
    fixed: FixedBiases { output: Some(false), ..AS_SAID },
    window: Window::FromLayer,
    ..LLAMA
};

pub(super) const GEMMA: DecoderFamily = DecoderFamily {
    name: "gemma",
    evidence: Evidence::DryRun,
    defaults: [256_000, 3072, 24_576, 28, 16],
    kv_heads: Some(16),
    head_dim: Some(256),
    tied: true,
    norm: DecoderNorm::RmsGemma,
    activation: "gelu_pytorch_tanh",
    embedding_scale: true,
    ..LLAMA
};

pub(super) fn decoder_family(model_type: &str) -> Option<DecoderFamily> {
    let dry = Evidence::DryRun;
    Some(match model_type {
        "llama" => LLAMA,
        "mistral" | "ministral" => DecoderFamily {
            name: "mistral",
            evidence: dry,
            defaults: [32_000, 4096, 14_336, 32, 32],
            kv_heads: Some(8),
            window: Window::UnlessNull,
            ..LLAMA
        },
        "qwen2" | "mimo" | "qwen2_vl" | "qwen2_vl_text" | "qwen2_5_vl" | "qwen2_5_vl_text" => QWEN2,
        "qwen3" | "qwen3_vl_text" => DecoderFamily {
            name: "qwen3",
            evidence: dry,
            head_dim: Some(128),
            qk_norm: QkNorm::PerHead,
            qkv_bias: false,
            fixed: AS_SAID,
            ..QWEN2
        },
        "gemma" => GEMMA,
        "gemma2" => DecoderFamily {
            name: "gemma2",
            defaults: [256_000, 2304, 9216, 26, 8],
            kv_heads: Some(4),
            block: Block::Sandwich,
            window: Window::EveryOther,
            soft_caps: true,
            ..GEMMA
        },
        "gemma3_text" | "gemma3" => DecoderFamily {
            name: "gemma3",
            defaults: [262_208, 2304, 9216, 26, 8],
            kv_heads: Some(4),
            block: Block::Sandwich,
            rotary_tables: 2,
            window: Window::Pattern,
            qk_norm: QkNorm::PerHead,
            ..GEMMA
        },
        "phi" => DecoderFamily {
            name: "phi",
            evidence: dry,
            defaults: [51_200, 2048, 8192, 24, 32],
            norm: DecoderNorm::Layer,
            block: Block::ParallelOneNorm,
            mlp: MlpKind::Plain,
            activation: "gelu_new",
            qkv_bias: true,
            fixed: FixedBiases { qkv: Some(true), output: Some(true), mlp: Some(true), head: true },
            may_norm_qk: true,
            rotary_factor: 0.5,
            ..LLAMA
        },
        "phi3" => DecoderFamily {
            name: "phi3",
            evidence: dry,
            defaults: [32_064, 3072, 8192, 32, 32],
            qkv: Qkv::Sliced,
            mlp: MlpKind::GatedTogether,
            fixed: FixedBiases { output: Some(false), ..AS_SAID },
            window: Window::IfThere,
            ..LLAMA
        },
        "gpt_neox" => DecoderFamily {
            name: "gpt_neox",
            evidence: dry,
            defaults: [50_432, 6144, 24_576, 44, 64],
            norm: DecoderNorm::Layer,
            block: Block::ParallelTwoNorms,
            qkv: Qkv::ByHead,
            mlp: MlpKind::Plain,
            activation: "gelu",
            qkv_bias: true,
            fixed: FixedBiases { mlp: Some(true), ..AS_SAID },
            rotary_factor: 0.25,
            hidden_dropout_at_embedding: true,
            ..LLAMA
        },
        "olmo" => DecoderFamily {
            name: "olmo",
            evidence: dry,
            defaults: [50_304, 4096, 11_008, 32, 32],
            norm: DecoderNorm::LayerPlain,
            rotary_in_float32: true,
            ..LLAMA
        },
        "olmo2" | "olmo3" => DecoderFamily {
            name: "olmo2",
            evidence: dry,
            defaults: [50_304, 4096, 11_008, 32, 32],
            norm: DecoderNorm::RmsOlmo,
            block: Block::Post,
            qk_norm: QkNorm::Whole,
            rotary_in_float32: true,
            ..LLAMA
        },
        "mixtral" => DecoderFamily {
            name: "mixtral",
            evidence: dry,
            defaults: [32_000, 4096, 14_336, 32, 32],
            kv_heads: Some(8),
            window: Window::IfThere,
            experts: ExpertFamily::Mixtral(8, 2),
            ..LLAMA
        },
        "qwen2_moe" => DecoderFamily {
            name: "qwen2_moe",
            evidence: dry,
            defaults: [151_936, 2048, 5632, 24, 16],
            kv_heads: Some(16),
            experts: ExpertFamily::Qwen { count: 60, per_token: 4, intermediate: 1408, shared: Some(5632) },
            ..QWEN2
        },
        "qwen3_moe" | "qwen3_vl_moe_text" => DecoderFamily {
            name: "qwen3_moe",
            evidence: dry,
            defaults: [151_936, 2048, 6144, 24, 32],
            kv_heads: Some(4),
            qk_norm: QkNorm::PerHead,
            qkv_bias: false,
            fixed: AS_SAID,
            window: Window::Never,
            experts: ExpertFamily::Qwen { count: 128, per_token: 8, intermediate: 768, shared: None },
            ..QWEN2
        },
        "deepseek_v2" => DecoderFamily {
            name: "deepseek_v2",
            evidence: dry,
            defaults: [102_400, 4096, 11_008, 32, 32],
            experts: ExpertFamily::DeepSeek {
                count: 64,
                intermediate: 1407,
                shared: 2,
                first_dense: 0,
                has_sigmoid_router: false,
            },
            latent: true,
            ..LLAMA
        },
        "deepseek_v3" | "kimi_k2" | "deepseek_v32" | "glm_moe_dsa" => DecoderFamily {
            name: "deepseek_v3",
            evidence: dry,
            defaults: [129_280, 7168, 18_432, 61, 128],
            experts: ExpertFamily::DeepSeek {
                count: 256,
                intermediate: 2048,
                shared: 1,
                first_dense: 3,
                has_sigmoid_router: true,
            },
            latent: true,
            ..LLAMA
        },
        "mistral4" => DecoderFamily {
            name: "mistral4",
            evidence: Evidence::Source,
            defaults: [131_072, 4096, 12_288, 36, 32],
            experts: ExpertFamily::DeepSeek {
                count: 128,
                intermediate: 2048,
                shared: 1,
                first_dense: 0,
                has_sigmoid_router: false,
            },
            latent: true,
            ..LLAMA
        },
        "kimi_linear" => DecoderFamily {
            name: "kimi_linear",
            evidence: Evidence::Source,
            defaults: [163_840, 2304, 9216, 27, 32],
            experts: ExpertFamily::DeepSeek {
                count: 256,
                intermediate: 1024,
                shared: 1,
                first_dense: 1,
                has_sigmoid_router: true,
            },
            latent: true,
            rotary_factor: 0.0,
            ..LLAMA
        },
        "glm4_moe_lite" => DecoderFamily {
            name: "glm4_moe_lite",
            evidence: Evidence::Source,
            defaults: [154_880, 2048, 10_240, 47, 20],
            experts: ExpertFamily::DeepSeek {
                count: 64,
                intermediate: 1536,
                shared: 1,
                first_dense: 1,
                has_sigmoid_router: true,
            },
            latent: true,
            ..LLAMA
        },
        other => return super::families_today::family(other),
    })
}
