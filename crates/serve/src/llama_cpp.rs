//! llama.cpp: no budget; the cache of the whole context is allocated at load.
//!
//! # Source
//! `src/llama-kv-cache.cpp`, `src/llama-kv-cache-iswa.cpp` of the mainline; the fork by ikawrakow, `src/llama.cpp`, keeps windows
//! whole, and of latent attention only the latent.

use highwater_estimate::LayerCache;

use crate::answer::{Rank, Refusal, RefusalKind};
use crate::arithmetic::{product, ratio, share, signed};
use crate::cache_type::CacheType;
use crate::question::{Account, Question};
use crate::weights::Part;

const MIB: u64 = 1 << 20;

/// A process's context. Between 0.3 and 0.5 GiB; in none of llama.cpp's own figures.
const CONTEXT: u64 = 400 * MIB;
/// Contexts are padded to so many cells.
const CELLS: u64 = 256;
/// The default number of slots of `llama-server`. They share one cache.
///
/// # Source
/// `tools/server/server.cpp`: `--parallel` is -1, "auto", since November 2025. Logs of builds after print `n_seq_max = 4` and `kv_unified = true`.
const SLOTS: u64 = 4;

/// How the context is divided.
#[derive(Clone, Copy)]
struct Streams {
    /// Sequences at once.
    sequences: u64,
    /// Caches: one for all sequences, or one for each.
    count: u64,
    /// Cells of each.
    cells: u64,
}

impl Streams {
    fn of(question: &Question<'_>, context: u64) -> Streams {
        let settings = &question.settings;
        let usual = if question.release.is_ik { 1 } else { SLOTS };
        let sequences = settings.sequences.unwrap_or(usual).max(1);
        let count = if settings.unified || settings.sequences.is_none() { 1 } else { sequences };
        Streams { sequences, count, cells: (context / count).max(1).next_multiple_of(CELLS) }
    }

    /// Requests of a length at once: as many as the caches hold, and no more than there are slots. Less than one if it is too long.
    fn requests(self, context: u64, length: u64) -> f64 {
        let of_cache = ratio(context / self.count, length).min(ratio(self.sequences, self.count));
        if of_cache < 1.0 { of_cache } else { of_cache * ratio(self.count, 1) }
    }
}

/// The account.
pub(crate) fn account(question: &Question<'_>) -> Account {
    let (model, settings) = (question.model, &question.settings);
    let context = question.max_len();
    let mut account = Account { max_len: context, ..Account::default() };
    if settings.max_len.is_none() {
        account.assumed.push(format!("`--ctx-size` {context}, the model's own"));
    }
    if let Some(most) = question.longest_len().filter(|most| context > *most) {
        account.assumed.push(format!(
            "the model was trained for {} tokens: llama.cpp starts with a longer context and warns",
            highwater_units::count(most)
        ));
    }
    let streams = Streams::of(question, context);
    if settings.sequences.is_none() && streams.sequences > 1 {
        account.assumed.push(format!(
            "`--parallel` {} with one cache for all, the default of `llama-server`; `llama-cli` has one sequence",
            streams.sequences
        ));
    }
    let batch = settings.batched_tokens.unwrap_or(512);
    let cache = model.layers.iter().map(|cache| layer(question, cache, streams, batch)).fold(0, u64::saturating_add);
    let (weights, on_host) = weights(question);
    let layers = model.layers.len() as u64;
    let on_gpu = settings.gpu_layers.map_or(layers, |count| count.min(layers));
    // The cache of a layer is where the layer is.
    let cache_here = share(cache, ratio(on_gpu, layers.max(1)));
    let compute = compute(question, streams.cells, batch);
    let total = question.total();
    let needed = weights.saturating_add(cache_here).saturating_add(compute).saturating_add(CONTEXT);
    account.spare = Some(signed(total).saturating_sub(signed(needed)));
    account.tokens = context;
    let one = Streams { sequences: 1, count: 1, cells: CELLS };
    let of_token = model.layers.iter().map(|cache| layer(question, cache, one, 0) / CELLS);
    account.token_bytes = of_token.fold(0, u64::saturating_add);
    account.concurrency = question.lengths().map(|length| (length, streams.requests(context, length))).collect();
    account.longest = context / streams.count;
    account.ranks = vec![Rank {
        rank: 0,
        stage: 0,
        total_bytes: total,
        budget_bytes: total,
        weights_bytes: weights,
        activation_peak_bytes: compute,
        activation_by: format!("compute buffer of {batch} tokens"),
        non_torch_bytes: CONTEXT,
        graph_bytes: 0,
        kv_cache_bytes: signed(cache_here),
    }];
    if on_host > 0 {
        account.assumed.push(format!(
            "{} of the weights and {} of the cache stay in the host's memory",
            highwater_units::size(on_host),
            highwater_units::size(cache.saturating_sub(cache_here))
        ));
    }
    if needed > total {
        let sentence = format!(
            "weights, cache and buffers need {}, the GPU has {}",
            highwater_units::size(needed),
            highwater_units::size(total)
        );
        let kind = if weights > total { RefusalKind::WeightsDoNotFit } else { RefusalKind::NoCache };
        account.refusal = Some(Refusal { kind, sentence });
    }
    account
        .unchecked
        .push("the compute buffer is what logits and hidden states of a batch need: other graphs need more".to_owned());
    account
}

/// Bytes of a layer's cache.
fn layer(question: &Question<'_>, cache: &LayerCache, streams: Streams, batch: u64) -> u64 {
    let settings = &question.settings;
    let is_ik = question.release.is_ik;
    let keys = settings.cache_type.unwrap_or(CacheType::Half);
    let values = settings.value_type.unwrap_or(CacheType::Half);
    let cells = streams.cells.saturating_mul(streams.count);
    let both = |kv_heads: u64, key_dim: u64, value_dim: u64, cells: u64| {
        let of = |kind: CacheType, width: u64| kind.bytes(product([kv_heads, width, cells]), 2);
        of(keys, key_dim).saturating_add(of(values, value_dim))
    };
    match *cache {
        LayerCache::Full { kv_heads, key_dim, value_dim } => both(kv_heads, key_dim, value_dim, cells),
        LayerCache::Cross { kv_heads, head_dim } => both(kv_heads, head_dim, head_dim, cells),
        LayerCache::Window { kv_heads, key_dim, value_dim, tokens, .. } => {
            let is_whole = is_ik || settings.window_full;
            // Every sequence of a cache has its own window.
            let windows = tokens.saturating_mul(streams.sequences / streams.count);
            let kept = windows.saturating_add(batch).next_multiple_of(CELLS).saturating_mul(streams.count);
            both(kv_heads, key_dim, value_dim, if is_whole { cells } else { cells.min(kept) })
        }
        LayerCache::Latent { rank, rope_dim, .. } => {
            let values = settings.value_type.unwrap_or(keys);
            let own = keys.bytes(product([rank.saturating_add(rope_dim), cells]), 2);
            // The mainline keeps the latent once more as values; the fork's modes 2 and 3 do not.
            let again = values.bytes(product([rank, cells]), 2);
            let keeps_latent_only = is_ik && settings.latent_mode.unwrap_or(3) > 1;
            if keeps_latent_only { own } else { own.saturating_add(again) }
        }
        LayerCache::State { channels, kernel, recurrent } => {
            let numbers = channels.saturating_mul(kernel.saturating_sub(1)).saturating_add(recurrent);
            product([numbers, 4, streams.sequences])
        }
        LayerCache::Beside { .. } | LayerCache::Indexed { .. } => {
            cache.parts().iter().map(|part| layer(question, part, streams, batch)).fold(0, u64::saturating_add)
        }
        LayerCache::Nothing => 0,
    }
}

/// Weights on the GPU, and those that stay on the host.
fn weights(question: &Question<'_>) -> (u64, u64) {
    let model = question.model;
    let layers = model.layers.len() as u64;
    let here = question.settings.gpu_layers.unwrap_or(layers + 1);
    // The last layers come first to the GPU, and the head after all of them.
    let first = layers.saturating_sub(here);
    let (mut on_gpu, mut on_host) = (0_u64, 0_u64);
    for weight in model.weights.iter().filter(|weight| weight.part != Part::Absorbed) {
        let is_on_gpu = match (weight.layer, weight.part) {
            (Some(layer), _) => u64::from(layer) >= first,
            // The table of embeddings stays on the host.
            (None, Part::Embedding) => false,
            (None, _) => here > layers,
        };
        let sum = if is_on_gpu { &mut on_gpu } else { &mut on_host };
        *sum = sum.saturating_add(weight.bytes);
    }
    (on_gpu, on_host)
}

/// The compute buffer: what the prompt's graph needs beside the weights.
///
/// # Source
/// With flash attention the logits of a batch and its hidden states once or twice, in 32 bits: 312.75 MiB for Qwen3-235B and 522.62
/// for Gemma 3 27B with batches of 512, to the MiB. Without it the scores of all heads as well.
fn compute(question: &Question<'_>, cells: u64, batch: u64) -> u64 {
    let model = question.model;
    let hidden = if model.routed.0 > 0 { 2 } else { 1 };
    let logits = product([batch, model.vocab.saturating_add(product([hidden, model.hidden])), 4]);
    let scores = if question.settings.flash == Some(false) { product([model.heads, cells, batch, 4]) } else { 0 };
    logits.max(scores)
}
