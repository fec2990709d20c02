//! Well-known models by name.

use serde_json::{Value, json};

use super::config::from_config_value;
use crate::architecture::Architecture;
use crate::dtype::DType;

/// The names of the catalogue, in its order.
pub fn catalogue_names() -> impl Iterator<Item = &'static str> {
    all().map(|(name, _)| *name)
}

fn all() -> impl Iterator<Item = &'static (&'static str, Config)> {
    MODELS
        .iter()
        .chain(super::catalogue_today::TODAY)
        .chain(super::catalogue_published::PUBLISHED)
        .chain(super::catalogue_pipelines::PIPELINES)
}

/// A model of the catalogue, by its name there or on the hub: `llama3.1-8b`, `meta-llama/Llama-3.1-8B-Instruct`.
///
/// Case, the publisher, dashes and the suffix of a tuned version make no difference.
pub fn named(name: &str) -> Option<Architecture> {
    let (name, config) = catalogued(name)?;
    let mut architecture = from_config_value(&config()).ok()?;
    name.clone_into(&mut architecture.name);
    architecture.dtype = published(name).or(architecture.dtype);
    Some(architecture)
}

/// The configuration behind a name of the catalogue, with the catalogue's own name for it.
pub fn configuration(name: &str) -> Option<(&'static str, Value)> {
    let (name, config) = catalogued(name)?;
    Some((name, config()))
}

fn catalogued(name: &str) -> Option<(&'static str, Config)> {
    /// Ends of names on the hub that say how a model was trained further.
    const TUNED: [&str; 11] =
        ["-instruct", "-chat", "-hf", "-it", "-pt", "-base", "-deduped", "-uncased", "-bf16", "-thinking", "-2506"];
    let short = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let mut short = ["meta-", "nvidia-"].iter().find_map(|maker| short.strip_prefix(maker)).unwrap_or(&short);
    loop {
        let known = HUB.iter().find(|(hub, _)| *hub == short).map_or(short, |(_, name)| name);
        if let Some(&(name, config)) = all().find(|(name, _)| joined(name) == joined(known)) {
            return Some((name, config));
        }
        short = TUNED.iter().find_map(|end| short.strip_suffix(end))?;
    }
}

/// A name without its dashes.
fn joined(name: &str) -> String {
    name.replace(['-', '_'], "")
}

/// Names on the hub that differ from those of the catalogue in more than dashes. Other versions have other sizes.
const HUB: &[(&str, &str)] = &[
    ("tinyllama-1.1b-chat-v1.0", "tinyllama-1.1b"),
    ("mistral-7b-v0.3", "mistral-7b"),
    ("mistral-7b-instruct-v0.3", "mistral-7b"),
    ("mistral-nemo-base-2407", "mistral-nemo-12b"),
    ("mistral-nemo-instruct-2407", "mistral-nemo-12b"),
    ("mixtral-8x22b-v0.1", "mixtral-8x22b"),
    ("mixtral-8x22b-instruct-v0.1", "mixtral-8x22b"),
    ("mistral-small-3.1-24b-instruct-2503", "mistral-small-3.1-24b"),
    ("mixtral-8x7b-v0.1", "mixtral-8x7b"),
    ("mixtral-8x7b-instruct-v0.1", "mixtral-8x7b"),
    ("phi-3-mini-4k-instruct", "phi-3-mini"),
    ("olmo-2-1124-7b", "olmo2-7b"),
    ("deepseek-v3-0324", "deepseek-v3"),
    ("deepseek-r1", "deepseek-v3"),
    ("vit-base-patch16-224", "vit-base"),
    ("vit-large-patch16-224", "vit-large"),
];

/// The type of the weights in the publisher's `config.json`; nothing for float32.
fn published(name: &str) -> Option<DType> {
    const BFLOAT16: [&str; 9] =
        ["qwen", "llama3", "tinyllama", "smollm2", "mistral", "mixtral", "gemma", "phi-3", "deepseek"];
    const FLOAT16: [&str; 4] = ["llama-2", "phi-2", "pythia", "whisper-large"];
    let begins = |with: &[&str]| with.iter().any(|family| name.starts_with(family));
    match () {
        () if begins(&BFLOAT16) => Some(DType::BFloat16),
        () if begins(&FLOAT16) => Some(DType::Float16),
        () => None,
    }
}

type Config = fn() -> Value;

/// Dimensions as their publishers' `config.json` have them.
const MODELS: &[(&str, Config)] = &[
    ("gpt2", || gpt2(768, 12, 12)),
    ("gpt2-medium", || gpt2(1024, 24, 16)),
    ("gpt2-large", || gpt2(1280, 36, 20)),
    ("gpt2-xl", || gpt2(1600, 48, 25)),
    ("qwen2.5-0.5b", || qwen2(896, 24, 14, 2, 4864, 151_936, true)),
    ("qwen2.5-1.5b", || qwen2(1536, 28, 12, 2, 8960, 151_936, true)),
    ("qwen2.5-3b", || qwen2(2048, 36, 16, 2, 11_008, 151_936, true)),
    ("qwen2.5-7b", || qwen2(3584, 28, 28, 4, 18_944, 152_064, false)),
    ("qwen2.5-14b", || qwen2(5120, 48, 40, 8, 13_824, 152_064, false)),
    ("qwen2.5-32b", || qwen2(5120, 64, 40, 8, 27_648, 152_064, false)),
    ("qwen2.5-72b", || qwen2(8192, 80, 64, 8, 29_568, 152_064, false)),
    ("qwen3-0.6b", || qwen3(1024, 28, 16, 3072, true)),
    ("qwen3-1.7b", || qwen3(2048, 28, 16, 6144, true)),
    ("qwen3-4b", || qwen3(2560, 36, 32, 9728, true)),
    ("qwen3-8b", || qwen3(4096, 36, 32, 12_288, false)),
    ("qwen3-14b", || qwen3(5120, 40, 40, 17_408, false)),
    ("qwen3-32b", || qwen3(5120, 64, 64, 25_600, false)),
    ("qwen3-30b-a3b", || {
        json!({"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
            "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
            "norm_topk_prob": true, "vocab_size": 151_936, "max_position_embeddings": 40_960, "decoder_sparse_step": 1})
    }),
    ("llama-2-7b", || llama(4096, 32, 32, 32, 11_008, 32_000, false, 4096)),
    ("llama-2-13b", || llama(5120, 40, 40, 40, 13_824, 32_000, false, 4096)),
    ("llama-2-70b", || llama(8192, 80, 64, 8, 28_672, 32_000, false, 4096)),
    ("llama3-8b", || llama(4096, 32, 32, 8, 14_336, 128_256, false, 8192)),
    ("llama3.1-8b", || llama(4096, 32, 32, 8, 14_336, 128_256, false, 131_072)),
    ("llama3.1-70b", || llama(8192, 80, 64, 8, 28_672, 128_256, false, 131_072)),
    ("llama3.2-1b", || llama(2048, 16, 32, 8, 8192, 128_256, true, 131_072)),
    ("llama3.2-3b", || llama(3072, 28, 24, 8, 8192, 128_256, true, 131_072)),
    ("tinyllama-1.1b", || llama(2048, 22, 32, 4, 5632, 32_000, false, 2048)),
    ("smollm2-135m", || llama(576, 30, 9, 3, 1536, 49_152, true, 8192)),
    ("smollm2-360m", || llama(960, 32, 15, 5, 2560, 49_152, true, 8192)),
    ("smollm2-1.7b", || llama(2048, 24, 32, 32, 8192, 49_152, true, 8192)),
    ("mistral-7b", || {
        json!({"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "intermediate_size": 14_336, "vocab_size": 32_768, "sliding_window": null, "max_position_embeddings": 32_768})
    }),
    ("mistral-nemo-12b", || {
        json!({"model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8,
            "head_dim": 128, "intermediate_size": 14_336, "vocab_size": 131_072, "sliding_window": null, "max_position_embeddings": 131_072})
    }),
    ("mixtral-8x7b", || {
        json!({"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "intermediate_size": 14_336, "vocab_size": 32_000, "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 32_768})
    }),
    ("gemma-2b", || gemma("gemma", 2048, 18, 8, 1, 256, 16_384, 256_000)),
    ("gemma-7b", || gemma("gemma", 3072, 28, 16, 16, 256, 24_576, 256_000)),
    ("gemma2-2b", || gemma("gemma2", 2304, 26, 8, 4, 256, 9216, 256_000)),
    ("gemma2-9b", || gemma("gemma2", 3584, 42, 16, 8, 256, 14_336, 256_000)),
    ("gemma2-27b", || gemma("gemma2", 4608, 46, 32, 16, 128, 36_864, 256_000)),
    ("gemma3-270m", || gemma3(640, 18, 4, 1, 256, 2048, 262_144, 512)),
    ("gemma3-1b", || gemma3(1152, 26, 4, 1, 256, 6912, 262_144, 512)),
    ("gemma3-4b", || gemma3(2560, 34, 8, 4, 256, 10_240, 262_208, 1024)),
    ("gemma3-12b", || gemma3(3840, 48, 16, 8, 256, 15_360, 262_208, 1024)),
    ("gemma3-27b", || gemma3(5376, 62, 32, 16, 128, 21_504, 262_208, 1024)),
    ("phi-2", || {
        json!({"model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 10_240,
            "vocab_size": 51_200, "partial_rotary_factor": 0.4, "resid_pdrop": 0.1, "max_position_embeddings": 2048})
    }),
    ("phi-3-mini", || {
        json!({"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
            "intermediate_size": 8192, "vocab_size": 32_064, "sliding_window": 2047, "max_position_embeddings": 4096})
    }),
    ("pythia-160m", || neox(768, 12, 12, 3072, 50_304)),
    ("pythia-410m", || neox(1024, 24, 16, 4096, 50_304)),
    ("pythia-1.4b", || neox(2048, 24, 16, 8192, 50_304)),
    ("pythia-6.9b", || neox(4096, 32, 32, 16_384, 50_432)),
    ("olmo-1b", || {
        json!({"model_type": "olmo", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16, "intermediate_size": 8192,
            "vocab_size": 50_304, "tie_word_embeddings": true, "max_position_embeddings": 2048})
    }),
    ("olmo2-7b", || {
        json!({"model_type": "olmo2", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11_008,
            "vocab_size": 100_352, "max_position_embeddings": 4096})
    }),
    ("deepseek-v2-lite", || {
        json!({"model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16, "intermediate_size": 10_944,
            "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
            "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
            "vocab_size": 102_400, "max_position_embeddings": 163_840})
    }),
    ("deepseek-v3", || {
        json!({"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "intermediate_size": 18_432,
            "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
            "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
            "norm_topk_prob": true, "vocab_size": 129_280, "max_position_embeddings": 163_840})
    }),
    ("bert-base", || bert("bert", 768, 12, 12, 3072, 30_522, 512, 2)),
    ("bert-large", || bert("bert", 1024, 24, 16, 4096, 30_522, 512, 2)),
    ("roberta-base", || bert("roberta", 768, 12, 12, 3072, 50_265, 514, 1)),
    ("roberta-large", || bert("roberta", 1024, 24, 16, 4096, 50_265, 514, 1)),
    ("modernbert-base", || {
        json!({"model_type": "modernbert", "hidden_size": 768, "num_hidden_layers": 22, "num_attention_heads": 12, "intermediate_size": 1152,
            "vocab_size": 50_368, "max_position_embeddings": 8192})
    }),
    ("modernbert-large", || {
        json!({"model_type": "modernbert", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "intermediate_size": 2624,
            "vocab_size": 50_368, "max_position_embeddings": 8192})
    }),
    ("vit-base", || vit(768, 12, 12, 3072, 16)),
    ("vit-large", || vit(1024, 24, 16, 4096, 16)),
    ("clip-vit-base-patch32", || clip(768, 12, 12, 3072, 32, 512, 12, 8, 2048, 512)),
    ("clip-vit-large-patch14", || clip(1024, 24, 16, 4096, 14, 768, 12, 12, 3072, 768)),
    ("t5-small", || t5(512, 64, 8, 2048, 6, 32_128)),
    ("t5-base", || t5(768, 64, 12, 3072, 12, 32_128)),
    ("t5-large", || t5(1024, 64, 16, 4096, 24, 32_128)),
    ("whisper-tiny", || whisper(384, 4, 6, 1536, 80, 51_865)),
    ("whisper-base", || whisper(512, 6, 8, 2048, 80, 51_865)),
    ("whisper-small", || whisper(768, 12, 12, 3072, 80, 51_865)),
    ("whisper-medium", || whisper(1024, 24, 16, 4096, 80, 51_865)),
    ("whisper-large-v3", || whisper(1280, 32, 20, 5120, 128, 51_866)),
];

fn gpt2(hidden: u64, layers: u64, heads: u64) -> Value {
    json!({"model_type": "gpt2", "n_embd": hidden, "n_layer": layers, "n_head": heads, "n_positions": 1024, "vocab_size": 50_257})
}

#[expect(clippy::too_many_arguments, reason = "a table's columns")]
fn llama(hidden: u64, layers: u64, heads: u64, kv: u64, width: u64, vocab: u64, tied: bool, positions: u64) -> Value {
    json!({"model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv,
        "intermediate_size": width, "vocab_size": vocab, "tie_word_embeddings": tied, "max_position_embeddings": positions})
}

fn qwen2(hidden: u64, layers: u64, heads: u64, kv: u64, width: u64, vocab: u64, tied: bool) -> Value {
    json!({"model_type": "qwen2", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv,
        "intermediate_size": width, "vocab_size": vocab, "tie_word_embeddings": tied, "max_position_embeddings": 32_768})
}

fn qwen3(hidden: u64, layers: u64, heads: u64, width: u64, tied: bool) -> Value {
    json!({"model_type": "qwen3", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": 8,
        "head_dim": 128, "intermediate_size": width, "vocab_size": 151_936, "tie_word_embeddings": tied, "max_position_embeddings": 40_960})
}

#[expect(clippy::too_many_arguments, reason = "a table's columns")]
fn gemma(kind: &str, hidden: u64, layers: u64, heads: u64, kv: u64, head: u64, width: u64, vocab: u64) -> Value {
    json!({"model_type": kind, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv,
        "head_dim": head, "intermediate_size": width, "vocab_size": vocab, "max_position_embeddings": 8192, "sliding_window": 4096})
}

#[expect(clippy::too_many_arguments, reason = "a table's columns")]
fn gemma3(hidden: u64, layers: u64, heads: u64, kv: u64, head: u64, width: u64, vocab: u64, window: u64) -> Value {
    json!({"model_type": "gemma3_text", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv,
        "head_dim": head, "intermediate_size": width, "vocab_size": vocab, "max_position_embeddings": 32_768, "sliding_window": window,
        "sliding_window_pattern": 6})
}

fn neox(hidden: u64, layers: u64, heads: u64, width: u64, vocab: u64) -> Value {
    json!({"model_type": "gpt_neox", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": width,
        "vocab_size": vocab, "rotary_pct": 0.25, "max_position_embeddings": 2048})
}

#[expect(clippy::too_many_arguments, reason = "a table's columns")]
fn bert(kind: &str, hidden: u64, layers: u64, heads: u64, width: u64, vocab: u64, positions: u64, types: u64) -> Value {
    json!({"model_type": kind, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": width,
        "vocab_size": vocab, "max_position_embeddings": positions, "type_vocab_size": types})
}

fn vit(hidden: u64, layers: u64, heads: u64, width: u64, patch: u64) -> Value {
    json!({"model_type": "vit", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": width,
        "image_size": 224, "patch_size": patch, "num_channels": 3, "num_labels": 1000})
}

#[expect(clippy::too_many_arguments, reason = "a table's columns")]
fn clip(vh: u64, vl: u64, vn: u64, vi: u64, patch: u64, th: u64, tl: u64, tn: u64, ti: u64, projection: u64) -> Value {
    json!({"model_type": "clip", "projection_dim": projection,
        "vision_config": {"hidden_size": vh, "num_hidden_layers": vl, "num_attention_heads": vn, "intermediate_size": vi, "patch_size": patch, "image_size": 224},
        "text_config": {"hidden_size": th, "num_hidden_layers": tl, "num_attention_heads": tn, "intermediate_size": ti, "vocab_size": 49_408,
            "max_position_embeddings": 77}})
}

fn t5(hidden: u64, head: u64, heads: u64, width: u64, layers: u64, vocab: u64) -> Value {
    json!({"model_type": "t5", "d_model": hidden, "d_kv": head, "num_heads": heads, "d_ff": width, "num_layers": layers, "vocab_size": vocab,
        "relative_attention_num_buckets": 32, "feed_forward_proj": "relu"})
}

fn whisper(hidden: u64, layers: u64, heads: u64, width: u64, mel: u64, vocab: u64) -> Value {
    json!({"model_type": "whisper", "d_model": hidden, "encoder_layers": layers, "decoder_layers": layers, "encoder_attention_heads": heads,
        "decoder_attention_heads": heads, "encoder_ffn_dim": width, "decoder_ffn_dim": width, "num_mel_bins": mel, "vocab_size": vocab,
        "max_source_positions": 1500, "max_target_positions": 448})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_by_their_names_on_the_hub() {
        for (hub, name, dtype) in [
            ("meta-llama/Llama-3.1-8B", "llama3.1-8b", Some(DType::BFloat16)),
            ("meta-llama/Meta-Llama-3-8B-Instruct", "llama3-8b", Some(DType::BFloat16)),
            ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b", Some(DType::Float16)),
            ("Qwen/Qwen2.5-1.5B-Instruct", "qwen2.5-1.5b", Some(DType::BFloat16)),
            ("google/gemma-2-2b-it", "gemma2-2b", Some(DType::BFloat16)),
            ("google/gemma-2b", "gemma-2b", Some(DType::BFloat16)),
            ("openai-community/gpt2", "gpt2", None),
            ("google-bert/bert-base-uncased", "bert-base", None),
            ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b", Some(DType::BFloat16)),
            ("deepseek-ai/DeepSeek-V2-Lite-Chat", "deepseek-v2-lite", Some(DType::BFloat16)),
            ("openai/whisper-base", "whisper-base", None),
        ] {
            let found = named(hub).unwrap_or_else(|| panic!("{hub}"));
            assert_eq!((found.name.as_str(), found.dtype), (name, dtype), "{hub}");
        }
        // Another vocabulary, another window, another model.
        for unknown in ["mistralai/Mistral-7B-v0.1", "bert-base-cased", "nomodel", "", "-instruct"] {
            assert!(named(unknown).is_none(), "{unknown}");
        }
        for (hub, name) in HUB {
            assert_eq!(named(hub).map(|found| found.name).as_deref(), Some(*name));
        }
    }
}
