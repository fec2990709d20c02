//! A model's shape as an engine that serves it sees it: the layers with what each keeps of a sequence, vocabulary, experts.

use crate::architecture::{Architecture, Body};
use crate::dtype::DType;
use crate::hybrid::{Feed, Mixer};

/// A model's shape as an engine that serves it sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedShape {
    /// Vocabulary, rows of the embedding.
    pub vocab: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Query heads.
    pub heads: u64,
    /// Width of the widest dense MLP; of an expert where every layer has experts.
    pub intermediate: u64,
    /// Whether the MLP has a gate.
    pub is_gated: bool,
    /// The layers that keep something of a sequence, and those that do not, in order.
    pub layers: Vec<ServedLayer>,
    /// Experts, where there are any.
    pub experts: Option<ServedExperts>,
    /// Whether head and embedding share their weight.
    pub tied: bool,
    /// The longest sequence.
    pub max_positions: Option<u64>,
    /// The type of the weights where the model says so.
    pub dtype: Option<DType>,
    /// The encoder of images, where there is one.
    pub vision: Option<ServedVision>,
    /// The encoder of an encoder-decoder: its layers keep nothing, its length decides the cross attention's cache.
    pub encoder_positions: Option<u64>,
    /// Numbers of a head that are rotated: of both kinds of layers, where windows have a table of their own.
    pub rotary_dim: u64,
}

/// A layer of a served model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedLayer {
    /// What it keeps.
    pub cache: LayerCache,
    /// Its cache in an engine where no layer uses the keys and values of an earlier one.
    pub own: LayerCache,
    /// Whether its MLP is a mixture of experts.
    pub has_experts: bool,
}

/// What a layer keeps of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerCache {
    /// Keys and values of every token.
    Full {
        /// Heads of keys and values.
        kv_heads: u64,
        /// Size of a key.
        key_dim: u64,
        /// Size of a value.
        value_dim: u64,
    },
    /// Keys and values of the last tokens.
    Window {
        /// Heads of keys and values.
        kv_heads: u64,
        /// Size of a key.
        key_dim: u64,
        /// Size of a value.
        value_dim: u64,
        /// How many tokens.
        tokens: u64,
        /// Whether the window is a chunk of the sequence instead of the last tokens (Llama 4).
        is_chunk: bool,
    },
    /// A latent of every token, of which all heads' keys and values are made; not cut by tensor parallelism.
    Latent {
        /// Size of the latent.
        rank: u64,
        /// Size of the rotated key.
        rope_dim: u64,
        /// Size of the indexer's key, 0 without one.
        index_dim: u64,
    },
    /// A state of a fixed size for each sequence.
    State {
        /// Channels of the convolution.
        channels: u64,
        /// Width of its kernel.
        kernel: u64,
        /// Numbers of the recurrent state.
        recurrent: u64,
    },
    /// Keys and values of every token, and a state beside them.
    Beside {
        /// Heads of keys and values.
        kv_heads: u64,
        /// Size of a key and of a value.
        head_dim: u64,
        /// Channels of the convolution.
        channels: u64,
        /// Width of its kernel.
        kernel: u64,
        /// Numbers of the recurrent state.
        recurrent: u64,
    },
    /// Keys and values of every token, and beside them the key of an indexer.
    Indexed {
        /// Heads of keys and values.
        kv_heads: u64,
        /// Size of a key and of a value.
        head_dim: u64,
        /// Size of the indexer's key, in the cache's type.
        index_dim: u64,
    },
    /// Keys and values of the encoder's output beside those of every token.
    Cross {
        /// Heads of keys and values.
        kv_heads: u64,
        /// Size of a key and of a value.
        head_dim: u64,
    },
    /// Those of an earlier layer, or nothing.
    Nothing,
}

impl LayerCache {
    /// The caches that it consists of: two where attention and a state, or an indexer, are side by side.
    pub fn parts(self) -> [LayerCache; 2] {
        match self {
            LayerCache::Beside { kv_heads, head_dim, channels, kernel, recurrent } => [
                LayerCache::Full { kv_heads, key_dim: head_dim, value_dim: head_dim },
                LayerCache::State { channels, kernel, recurrent },
            ],
            LayerCache::Indexed { kv_heads, head_dim, index_dim } => [
                LayerCache::Full { kv_heads, key_dim: head_dim, value_dim: head_dim },
                LayerCache::Latent { rank: index_dim, rope_dim: 0, index_dim: 0 },
            ],
            whole => [whole, LayerCache::Nothing],
        }
    }

    /// Whether it keeps something of every token, and nothing else.
    pub fn sees_all(&self) -> bool {
        matches!(self, LayerCache::Full { .. } | LayerCache::Latent { .. } | LayerCache::Indexed { .. })
    }

    /// Whether it has a state of a fixed size.
    pub fn has_state(self) -> bool {
        self.parts().iter().any(|part| matches!(part, LayerCache::State { .. }))
    }
}

/// Experts of a served model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedExperts {
    /// Their number.
    pub count: u64,
    /// How many a token goes to.
    pub per_token: u64,
    /// Width of one.
    pub intermediate: u64,
    /// Width of the shared one, 0 for none.
    pub shared_intermediate: u64,
}

/// The encoder of images of a served model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedVision {
    /// Hidden size.
    pub hidden: u64,
    /// Layers.
    pub layers: u64,
    /// Heads.
    pub heads: u64,
    /// Width of the MLP.
    pub intermediate: u64,
    /// Numbers of a patch of the image.
    pub patch: u64,
    /// Patches of an image of the encoder's own size, or of the largest that is usual.
    pub patches: u64,
    /// Patches of the largest image that engines profile.
    pub most_patches: u64,
    /// Tokens that it becomes in the language model.
    pub tokens: u64,
    /// Vectors that a token becomes: more than one where features of inner layers go with it.
    pub outputs: u64,
    /// Whether the MLP is gated.
    pub is_gated: bool,
}

impl Architecture {
    /// The shape for engines that serve; `None` for a model that generates no text, or of which only the size is known.
    pub fn served(&self) -> Option<ServedShape> {
        let empty = ServedShape {
            vocab: 0,
            hidden: 0,
            heads: 0,
            intermediate: 0,
            is_gated: false,
            layers: Vec::new(),
            experts: None,
            tied: false,
            max_positions: self.max_positions,
            dtype: self.dtype,
            vision: self.towers.first().map(vision),
            encoder_positions: None,
            rotary_dim: 0,
        };
        let plain =
            |layers: u64, cache| (0..layers).map(|_| ServedLayer { cache, own: cache, has_experts: false }).collect();
        let own = |heads: u64, hidden: u64| {
            let size = hidden / heads.max(1);
            LayerCache::Full { kv_heads: heads, key_dim: size, value_dim: size }
        };
        Some(match &self.body {
            Body::Decoder(body) => ServedShape {
                vocab: body.vocab,
                hidden: body.hidden,
                heads: body.heads,
                intermediate: body.intermediate,
                is_gated: body.mlp != crate::architecture::MlpKind::Plain,
                layers: (0..body.layers)
                    .map(|index| ServedLayer {
                        cache: if body.shares_kv(index) { LayerCache::Nothing } else { body.own_cache(index) },
                        own: body.own_cache(index),
                        has_experts: body.feed(index) == Feed::Experts,
                    })
                    .collect(),
                experts: body.experts.as_ref().map(|experts| ServedExperts {
                    count: experts.count,
                    per_token: experts.per_token,
                    intermediate: experts.intermediate,
                    shared_intermediate: experts.shared_intermediate,
                }),
                tied: body.tied,
                rotary_dim: match (body.latent, body.hybrid.global_heads) {
                    (Some(latent), _) => latent.rope_dim,
                    // A table for windows, and one for the layers that see all tokens, over the whole of their heads.
                    (None, Some(global)) => body.rotary_dim.saturating_add(global.head_dim),
                    (None, None) => body.rotary_dim.saturating_mul(body.rotary_tables.max(1)),
                },
                ..empty
            },
            Body::Gpt2(body) => ServedShape {
                vocab: body.vocab,
                hidden: body.hidden,
                heads: body.heads,
                intermediate: body.intermediate,
                layers: plain(body.layers, own(body.heads, body.hidden)),
                tied: body.tied,
                ..empty
            },
            Body::T5(body) => ServedShape {
                vocab: body.vocab,
                hidden: body.hidden,
                heads: body.heads,
                intermediate: body.intermediate,
                is_gated: body.gated,
                layers: plain(body.decoder_layers, LayerCache::Cross { kv_heads: body.heads, head_dim: body.head_dim }),
                tied: body.tied,
                ..empty
            },
            Body::Whisper(body) => ServedShape {
                vocab: body.vocab,
                hidden: body.hidden,
                heads: body.decoder_heads,
                intermediate: body.decoder_intermediate,
                layers: plain(
                    body.decoder_layers,
                    LayerCache::Cross {
                        kv_heads: body.decoder_heads,
                        head_dim: body.hidden / body.decoder_heads.max(1),
                    },
                ),
                tied: body.tied,
                encoder_positions: Some(body.source_positions),
                ..empty
            },
            // Nothing is kept from token to token.
            Body::Bert(body) => ServedShape {
                vocab: body.vocab,
                hidden: body.hidden,
                heads: body.heads,
                intermediate: body.intermediate,
                layers: plain(body.layers, LayerCache::Nothing),
                tied: body.tied,
                ..empty
            },
            Body::ModernBert(body) => ServedShape {
                vocab: body.vocab,
                hidden: body.hidden,
                heads: body.heads,
                intermediate: body.intermediate,
                is_gated: true,
                layers: plain(body.layers, LayerCache::Nothing),
                tied: body.tied,
                ..empty
            },
            Body::Vit(_) | Body::Clip(_) | Body::Network(_) | Body::Chain(_) | Body::Pipeline(_) | Body::Unknown(_) => {
                return None;
            }
        })
    }
}

/// The encoder of images, and the largest image that engines profile with it.
///
/// # Source
/// Qwen's encoders take images of up to 12,845,056 pixels, which become 16,384 tokens: vLLM's log of Qwen 3.8 27B prints a budget of
/// 16,384 tokens for one image of the largest size. The others resize every image to one size.
fn vision(tower: &crate::network::Stage) -> ServedVision {
    const MOST_TOKENS: u64 = 16_384;
    let patches = tower.positions.unwrap_or(0);
    let tokens = tower.output_positions.unwrap_or(patches);
    let has_any_size = tower.prefix == "model.visual";
    let tokens_of_largest = if has_any_size { MOST_TOKENS } else { tokens };
    ServedVision {
        hidden: tower.width,
        layers: tower.depth(),
        heads: tower.heads,
        intermediate: tower.intermediate,
        patch: tower.input / patches.max(1),
        patches,
        most_patches: if has_any_size { tokens_of_largest.saturating_mul(patches / tokens.max(1)) } else { patches },
        tokens: tokens_of_largest,
        outputs: tower
            .after
            .iter()
            .filter(|piece| piece.name == "deepstack_merger_list.norm")
            .fold(1, |sum, _| sum + 1),
        is_gated: tower.layers.iter().flat_map(|(_, pieces)| pieces).any(|piece| piece.name.contains("gate_proj")),
    }
}

impl crate::architecture::Decoder {
    fn own_cache(&self, index: u64) -> LayerCache {
        match (self.mixer(index), &self.hybrid.state) {
            (Mixer::Nothing, _) => return LayerCache::Nothing,
            (mixer @ (Mixer::State | Mixer::Both), Some(state)) => {
                let (channels, kernel, recurrent) = (state.channels, state.kernel, state.recurrent);
                if mixer == Mixer::State {
                    return LayerCache::State { channels, kernel, recurrent };
                }
                let (kv_heads, head_dim) = self.kv_of(index);
                return LayerCache::Beside { kv_heads, head_dim, channels, kernel, recurrent };
            }
            _ => {}
        }
        if let Some(latent) = self.latent {
            let (rank, rope_dim, index_dim) =
                (latent.kv_rank, latent.rope_dim, self.latent_of(index, latent).indexer.1);
            return LayerCache::Latent { rank, rope_dim, index_dim };
        }
        let (kv_heads, key_dim) = self.kv_of(index);
        let (value_dim, index_dim) = (self.value_dim(key_dim), self.index_dim(index));
        if index_dim > 0 {
            return LayerCache::Indexed { kv_heads, head_dim: key_dim, index_dim };
        }
        match self.sliding_window.filter(|_| self.is_sliding(index)) {
            Some(tokens) => {
                LayerCache::Window { kv_heads, key_dim, value_dim, tokens, is_chunk: self.hybrid.has_chunks }
            }
            None => LayerCache::Full { kv_heads, key_dim, value_dim },
        }
    }
}
