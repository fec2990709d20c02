//! vLLM's cache as it is laid out: pages, groups of layers, blocks, and the blocks that a request needs.
//!
//! # Source
//! vLLM, `vllm/v1/core/kv_cache_utils.py` (groups, padding, unified pages, capacity), `vllm/v1/kv_cache_interface.py` (pages of each
//! kind), `vllm/model_executor/models/config.py` (blocks raised to a recurrent state's page).

use highwater_estimate::LayerCache;

use crate::cache_type::CacheType;

/// How the cache is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Making {
    /// Tensor-parallel ranks.
    pub(crate) ranks: u64,
    /// Tokens of a block, as set.
    pub(crate) block: u64,
    /// Type of the cache.
    pub(crate) kind: CacheType,
    /// Bytes of a number of the model's type.
    pub(crate) element: u64,
    /// Bytes of a number of a recurrent state.
    pub(crate) state_element: u64,
    /// Whether this release has groups: older ones cache windows whole.
    pub(crate) has_groups: bool,
    /// Speculative tokens.
    pub(crate) speculative: u64,
    /// Blocks that hold a request's state, without those of drafts.
    pub(crate) state_blocks: u64,
    /// To how many bytes a token's latent is rounded up.
    pub(crate) latent_align: u64,
}

/// Layers that share blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Every token, so many a block.
    Full(u64),
    /// The newest tokens: window, tokens of a block.
    Window(u64, u64),
    /// So many blocks of a request, whatever its length.
    State(u64),
}

/// A cache of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Tokens of the smallest block.
    pub(crate) block: u64,
    /// The groups, each with as many layers.
    pub(crate) groups: Vec<Group>,
    /// Bytes of a block, over the layers of a group.
    pub(crate) block_bytes: u64,
    /// Layers that groups are padded with.
    pub(crate) padding: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Full,
    Window(u64),
    State,
}

struct Same {
    kind: Kind,
    layers: u64,
    /// Bytes of a token of one layer; of a state, all of it.
    unit: u64,
}

/// Numbers of a token on one of so many ranks: heads are divided, and repeated where there are fewer than ranks.
fn numbers(kv_heads: u64, sizes: u64, ranks: u64) -> u64 {
    (kv_heads / ranks.max(1)).max(1).saturating_mul(sizes)
}

/// Bytes of a token in one layer on a rank.
pub(crate) fn token_bytes(cache: &LayerCache, making: &Making) -> u64 {
    let of = |kv_heads, sizes| making.kind.bytes(numbers(kv_heads, sizes, making.ranks), making.element);
    match *cache {
        LayerCache::Full { kv_heads, key_dim, value_dim } | LayerCache::Window { kv_heads, key_dim, value_dim, .. } => {
            of(kv_heads, key_dim.saturating_add(value_dim))
        }
        LayerCache::Cross { kv_heads, head_dim } => of(kv_heads, head_dim.saturating_mul(2)),
        LayerCache::Latent { rank, rope_dim, index_dim } => {
            let is_eight_bits = making.kind == CacheType::Fp8;
            // Sparse attention in 8 bits keeps four scales and the rotated part in 16 bits: 656 bytes for 512 + 64.
            let own = match index_dim {
                1.. if is_eight_bits => {
                    rank.saturating_add(rank.div_ceil(128) * 4).saturating_add(rope_dim.saturating_mul(2))
                }
                _ => making.kind.bytes(rank.saturating_add(rope_dim), making.element),
            };
            // The indexer keeps its key in 8 bits, with a scale.
            own.next_multiple_of(making.latent_align.max(1))
                .saturating_add(index_dim.saturating_add(index_dim.div_ceil(128) * 4))
        }
        LayerCache::Beside { .. } | LayerCache::Indexed { .. } => {
            cache.parts().iter().map(|part| token_bytes(part, making)).sum()
        }
        LayerCache::State { .. } | LayerCache::Nothing => 0,
    }
}

/// Bytes of a request's state in one layer on a rank; each speculative token keeps one more column of the convolution.
pub(crate) fn state_bytes(cache: &LayerCache, making: &Making) -> u64 {
    let (LayerCache::State { channels, kernel, recurrent } | LayerCache::Beside { channels, kernel, recurrent, .. }) =
        *cache
    else {
        return 0;
    };
    let ranks = making.ranks.max(1);
    let columns = kernel.saturating_sub(1).saturating_add(making.speculative);
    let convolution = columns.saturating_mul(channels / ranks).saturating_mul(making.element);
    convolution.saturating_add((recurrent / ranks).saturating_mul(making.state_element))
}

impl Layout {
    /// The layout of these layers; `None` if none keeps anything.
    pub(crate) fn of(layers: &[LayerCache], making: &Making) -> Option<Layout> {
        let mut kinds: Vec<Same> = Vec::new();
        for cache in layers.iter().flat_map(|cache| cache.parts()) {
            let (kind, unit) = match &cache {
                LayerCache::Nothing => continue,
                LayerCache::State { .. } => (Kind::State, state_bytes(&cache, making)),
                LayerCache::Window { tokens, .. } if making.has_groups => {
                    (Kind::Window(*tokens), token_bytes(&cache, making))
                }
                _ => (Kind::Full, token_bytes(&cache, making)),
            };
            match kinds.iter_mut().find(|same| same.kind == kind && same.unit == unit) {
                Some(same) => same.layers += 1,
                None => kinds.push(Same { kind, layers: 1, unit }),
            }
        }
        let first = kinds.first()?;
        if kinds.iter().all(|same| same.kind == first.kind) {
            let (group, block) = match first.kind {
                Kind::Full => (Group::Full(making.block), making.block),
                Kind::Window(window) => (Group::Window(window, making.block), making.block),
                Kind::State => (Group::State(1), 1),
            };
            let units = kinds.iter().map(|same| same.unit.saturating_mul(same.layers));
            let block_bytes = units.fold(0, u64::saturating_add).saturating_mul(block);
            return Some(Layout { block: making.block, groups: vec![group], block_bytes, padding: 0 });
        }
        Some(grouped(&kinds, making))
    }

    /// Blocks in so many bytes.
    pub(crate) fn blocks(&self, bytes: i64) -> u64 {
        u64::try_from(bytes).unwrap_or(0) / self.block_bytes.max(1)
    }

    /// Blocks that a request of so many tokens needs, of which so many are in batches under way.
    pub(crate) fn blocks_of(&self, tokens: u64, under_way: u64) -> u64 {
        self.groups.iter().fold(0, |sum: u64, group| {
            sum.saturating_add(match *group {
                Group::Full(block) => tokens.div_ceil(block.max(1)),
                Group::Window(window, block) => {
                    window.saturating_sub(1).saturating_add(under_way).min(tokens).div_ceil(block.max(1)) + 1
                }
                Group::State(blocks) => blocks,
            })
        })
    }

    /// The longest request that so many blocks hold.
    pub(crate) fn longest(&self, blocks: u64, under_way: u64) -> u64 {
        let (mut least, mut most) = (0_u64, 1 << 34);
        while least < most {
            let middle = least + (most - least).div_ceil(2);
            if self.blocks_of(middle, under_way) <= blocks { least = middle } else { most = middle - 1 }
        }
        least
    }
}

/// Layers of several kinds: groups of as many layers, pages of one size.
fn grouped(kinds: &[Same], making: &Making) -> Layout {
    let state = kinds.iter().filter(|same| same.kind == Kind::State).map(|same| same.unit).max().unwrap_or(0);
    let smallest = kinds.iter().filter(|same| same.kind != Kind::State).map(|same| same.unit).min().unwrap_or(1).max(1);
    // A block of attention is raised, in steps of its own size, until it holds a state.
    let block = match state {
        0 => making.block,
        state => making.block.saturating_mul(state.div_ceil(making.block.saturating_mul(smallest).max(1)).max(1)),
    };
    let page = kinds
        .iter()
        .map(|same| if same.kind == Kind::State { 0 } else { block.saturating_mul(same.unit) })
        .max()
        .unwrap_or(0)
        .max(state);
    let least = kinds.iter().map(|same| same.layers).min().unwrap_or(1);
    let most = kinds.iter().map(|same| same.layers).max().unwrap_or(1);
    let size = if most * 2 < least * 3 { most } else { least };
    let (mut groups, mut padding) = (Vec::new(), 0);
    let mut smallest_block = u64::MAX;
    for same in kinds {
        // A kind with a smaller page has more tokens in a block, if its pages fill the larger one, and is padded otherwise.
        let own = block.saturating_mul(same.unit).max(1);
        let tokens = block.saturating_mul(if page.is_multiple_of(own) { page / own } else { 1 });
        let group = match same.kind {
            Kind::Full => Group::Full(tokens),
            Kind::Window(window) => Group::Window(window, tokens),
            Kind::State => Group::State(making.state_blocks + making.speculative),
        };
        if same.kind != Kind::State {
            smallest_block = smallest_block.min(tokens);
        }
        let count = same.layers.div_ceil(size.max(1));
        padding += count * size - same.layers;
        groups.extend((0..count).map(|_| group));
    }
    Layout { block: smallest_block, groups, block_bytes: page.saturating_mul(size), padding }
}
