//! The weights of a model, matrix by matrix, with how tensor parallelism divides each.
//!
//! # Source
//! vLLM, `vllm/model_executor/layers/linear.py` (column, row and QKV parallel layers; a KV head is repeated where there are fewer than
//! ranks), `vocab_parallel_embedding.py` (the vocabulary is padded to 64 and divided), `fused_moe/layer.py` (experts are divided in
//! their width, or as wholes with expert parallelism); norms, routers and biases of row-parallel layers are on every rank.

use highwater_estimate::WeightKind;

use crate::arithmetic::{product, ratio, share};

/// All weights of a model.
pub type WeightList = Vec<Weight>;

/// A part of the model, as the engine's table names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The table of embeddings.
    Embedding,
    /// A layer's attention, or what stands in its place.
    Attention,
    /// Latent attention's up-projection once more, as vLLM and `SGLang` multiply it.
    Absorbed,
    /// A layer's MLP.
    Mlp,
    /// A layer's experts.
    Experts,
    /// The head.
    Head,
    /// The encoder of images or sound.
    Encoder,
}

/// How ranks divide a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Each rank has all of it.
    Whole,
    /// Each of the tensor-parallel ranks has its share.
    Ranks,
    /// Heads of keys and values: at least one a rank.
    Heads(u64),
}

/// A weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// The layer that it is of.
    pub layer: Option<u32>,
    /// The part.
    pub part: Part,
    /// How ranks divide it.
    pub split: Split,
    /// As loaded, all ranks together.
    pub bytes: u64,
    /// Outputs and inputs of a product, 0 for what is none.
    pub sides: (u64, u64),
}

impl Weight {
    /// A weight of the checkpoint, by its module's name in transformers.
    pub(crate) fn of(weight: &highwater_estimate::Weight, kv_heads: Option<u64>) -> Weight {
        let names: Vec<&str> = weight.module.split('.').collect();
        let is_encoder = ["visual", "vision", "audio", "image", "multi_modal"]
            .iter()
            .any(|word| names.iter().any(|part| part.starts_with(word)));
        let layer = names
            .windows(2)
            .find(|pair| pair[0] == "layers")
            .filter(|_| !is_encoder)
            .and_then(|pair| pair[1].parse().ok());
        let part = match weight.kind {
            _ if is_encoder => Part::Encoder,
            WeightKind::Embedding if layer.is_none() => Part::Embedding,
            WeightKind::Experts => Part::Experts,
            _ if names.contains(&"experts") => Part::Experts,
            _ if layer.is_some() && (names.contains(&"mlp") || names.contains(&"router")) => Part::Mlp,
            _ if layer.is_some() || matches!(names[0], "attention" | "mlp" | "experts") => Part::Attention,
            _ => Part::Head,
        };
        let mut bytes = weight.stored.bytes();
        if let (WeightKind::Embedding | WeightKind::Head, &[vocab, _]) = (weight.kind, weight.shape.as_slice()) {
            // The vocabulary is padded to 64.
            bytes = share(bytes, ratio(vocab.next_multiple_of(64), vocab));
        }
        let sides = match (weight.kind, weight.shape.as_slice()) {
            (WeightKind::Linear, &[outputs, inputs]) => (outputs, inputs),
            _ => (0, 0),
        };
        Weight { layer, part, split: split(&names, weight.kind, kv_heads), bytes, sides }
    }

    /// Bytes on one of so many tensor-parallel ranks.
    pub fn on_rank(&self, ranks: u64) -> u64 {
        match self.split {
            Split::Whole => self.bytes,
            Split::Ranks => self.bytes.div_ceil(ranks.max(1)),
            Split::Heads(count) => self.bytes.div_ceil(ranks.clamp(1, count.max(1))),
        }
    }

    /// Bytes of experts on one of so many ranks that have them as wholes.
    pub(crate) fn as_wholes(&self, ranks: u64, experts: u64) -> u64 {
        product([self.bytes / experts.max(1), experts.div_ceil(ranks.max(1))])
    }
}

/// How ranks divide a module.
fn split(names: &[&str], kind: WeightKind, kv_heads: Option<u64>) -> Split {
    let is_bias = names.last() == Some(&"bias");
    let name = names.get(names.len().saturating_sub(if is_bias { 2 } else { 1 })).copied().unwrap_or_default();
    match (kind, name) {
        (WeightKind::Embedding | WeightKind::Head | WeightKind::Experts, _) => Split::Ranks,
        // Down to the latent, and the indexer.
        (WeightKind::Norm | WeightKind::Router, _) | (_, "q_a_proj" | "kv_a_proj_with_mqa") => Split::Whole,
        _ if names.contains(&"indexer") => Split::Whole,
        (_, "k_proj" | "v_proj") => kv_heads.map_or(Split::Ranks, Split::Heads),
        (_, "o_proj" | "down_proj" | "out_proj" | "dense" | "proj" | "experts.down_proj_bias" | "down_proj_bias")
            if is_bias =>
        {
            Split::Whole
        }
        (_, "down_proj_bias" | "patch_embed") => Split::Whole,
        _ => Split::Ranks,
    }
}

#[cfg(test)]
mod tests {
    use highwater_estimate::{DType, read, weights};

    use super::*;

    /// On one rank there is all of a checkpoint; on several, all of it together with what each repeats.
    #[test]
    fn ranks_have_the_whole_model_together() {
        for name in ["llama3.1-8b", "qwen3-30b-a3b", "deepseek-v3.2", "gpt-oss-20b", "jamba-v0.1", "qwen3-next-80b-a3b"]
        {
            let architecture = read::named(name).unwrap();
            let all = weights(&architecture, DType::BFloat16).unwrap();
            for weight in all.iter().filter(|weight| !weight.is_tied) {
                let own = Weight::of(weight, Some(2));
                assert!(own.on_rank(1) >= weight.stored.bytes(), "{name}: {}", weight.module);
                assert!(own.on_rank(4).saturating_mul(4) >= own.bytes, "{name}: {}", weight.module);
                let is_in_a_layer = weight.module.contains(".layers.");
                assert_eq!(own.layer.is_some(), is_in_a_layer, "{name}: {}", weight.module);
            }
        }
    }
}
