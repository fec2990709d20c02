//! The configuration that a GGUF file's metadata amount to.

use serde_json::{Map, Value, json};

/// Architectures of llama.cpp whose family has another name here.
///
/// # Source
/// `MODEL_ARCH_NAMES` of the gguf package, and what `convert_hf_to_gguf.py` makes them from.
const FAMILIES: &[(&str, &str)] = &[
    ("command-r", "cohere"),
    ("deepseek2", "deepseek_v3"),
    ("gemma3", "gemma3_text"),
    ("glm4moe", "glm4_moe"),
    ("gpt-oss", "gpt_oss"),
    ("gptneox", "gpt_neox"),
    ("hunyuan-dense", "hunyuan_v1_dense"),
    ("minimax-m2", "minimax_m2"),
    ("phi2", "phi"),
    ("qwen2moe", "qwen2_moe"),
    ("qwen2vl", "qwen2"),
    ("qwen3moe", "qwen3_moe"),
    ("qwen3vl", "qwen3"),
    ("qwen3vlmoe", "qwen3_moe"),
];

/// Fields, and the keys behind the architecture's name that have their numbers.
const FIELDS: &[(&str, &str)] = &[
    ("hidden_size", "embedding_length"),
    ("num_hidden_layers", "block_count"),
    ("intermediate_size", "feed_forward_length"),
    ("num_attention_heads", "attention.head_count"),
    ("num_key_value_heads", "attention.head_count_kv"),
    ("head_dim", "attention.key_length"),
    ("max_position_embeddings", "context_length"),
    ("vocab_size", "vocab_size"),
    ("num_experts", "expert_count"),
    ("num_local_experts", "expert_count"),
    ("n_routed_experts", "expert_count"),
    ("num_experts_per_tok", "expert_used_count"),
    ("moe_intermediate_size", "expert_feed_forward_length"),
    ("shared_expert_intermediate_size", "expert_shared_feed_forward_length"),
    ("n_shared_experts", "expert_shared_count"),
    ("first_k_dense_replace", "leading_dense_block_count"),
    ("q_lora_rank", "attention.q_lora_rank"),
    ("kv_lora_rank", "attention.kv_lora_rank"),
];

/// Architectures whose windows llama.cpp keeps, too.
const WINDOWED: &[&str] = &["cohere2", "exaone4", "gemma2", "gemma3", "gpt-oss"];

/// The configuration that the metadata amount to.
pub(super) fn config_of(metadata: &Map<String, Value>) -> Map<String, Value> {
    let kind = metadata.get("general.architecture").and_then(Value::as_str).unwrap_or("unknown");
    let number = |name: &str| metadata.get(&format!("{kind}.{name}")).and_then(most);
    let mut config = Map::new();
    let has_experts = number("expert_count").is_some_and(|count| count > 0);
    let family = match kind {
        "llama" if has_experts => "mixtral",
        _ => FAMILIES.iter().find(|(known, _)| *known == kind).map_or(kind, |(_, family)| family),
    };
    config.insert("model_type".to_owned(), json!(family));
    for (field, key) in FIELDS {
        if let Some(value) = number(key) {
            config.insert((*field).to_owned(), json!(value));
        }
    }
    if let Some(window) = number("attention.sliding_window").filter(|_| WINDOWED.contains(&kind)) {
        config.insert("sliding_window".to_owned(), json!(window));
    }
    // A head of latent attention: later files give the latent's own sizes under the plain names.
    if config.contains_key("kv_lora_rank") {
        let rotary = number("rope.dimension_count").unwrap_or(64);
        let keys = number("attention.key_length_mla").or_else(|| number("attention.key_length"));
        let values = number("attention.value_length_mla").or_else(|| number("attention.value_length"));
        config.remove("head_dim");
        config.insert("num_key_value_heads".to_owned(), json!(number("attention.head_count")));
        config.insert("qk_rope_head_dim".to_owned(), json!(rotary));
        config.insert("qk_nope_head_dim".to_owned(), json!(keys.map(|keys| keys.saturating_sub(rotary))));
        config.insert("v_head_dim".to_owned(), json!(values));
        config.entry("q_lora_rank").or_insert(Value::Null);
    }
    if !config.contains_key("vocab_size")
        && let Some(count) = metadata.get("tokenizer.ggml.tokens").and_then(Value::as_u64)
    {
        config.insert("vocab_size".to_owned(), json!(count));
    }
    config
}

/// A number; of a list, which has one for each layer, the largest.
fn most(value: &Value) -> Option<u64> {
    match value {
        Value::Array(list) => list.iter().filter_map(Value::as_u64).max(),
        _ => value.as_u64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, Value)]) -> Map<String, Value> {
        config_of(&pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
    }

    /// The metadata of a large latent model as its converter writes them.
    #[test]
    fn latent_attention_has_the_sizes_of_its_heads() {
        let read = config(&[
            ("general.architecture", json!("deepseek2")),
            ("deepseek2.attention.head_count", json!(128)),
            ("deepseek2.attention.head_count_kv", json!(1)),
            ("deepseek2.attention.key_length", json!(576)),
            ("deepseek2.attention.key_length_mla", json!(192)),
            ("deepseek2.attention.value_length", json!(512)),
            ("deepseek2.attention.value_length_mla", json!(128)),
            ("deepseek2.attention.kv_lora_rank", json!(512)),
            ("deepseek2.rope.dimension_count", json!(64)),
        ]);
        assert_eq!(read["model_type"], "deepseek_v3");
        assert_eq!((&read["qk_nope_head_dim"], &read["v_head_dim"]), (&json!(128), &json!(128)));
    }

    #[test]
    fn experts_and_lists_are_read() {
        let read = config(&[
            ("general.architecture", json!("llama")),
            ("llama.expert_count", json!(8)),
            ("llama.attention.head_count_kv", json!([8, 8, 0])),
        ]);
        assert_eq!((&read["model_type"], &read["num_key_value_heads"]), (&json!("mixtral"), &json!(8)));
    }
}
