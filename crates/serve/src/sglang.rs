//! `SGLang`'s budget: what is left after the weights, but for a slack.
//!
//! # Source
//! `python/sglang/srt/model_executor/model_runner.py`, `model_runner_kv_cache_mixin.py`, `server_args.py`,
//! `mem_cache/memory_pool.py` of the 0.4.9, 0.5.9 and 0.5.23 wheels. Its pools have a place for every layer, also for
//! those that use the keys and values of an earlier one (Gemma 3n and 4): only `models/` reads `num_kv_shared_layers`.

use highwater_estimate::LayerCache;

use crate::answer::{Rank, Refusal, RefusalKind};
use crate::arithmetic::{product, quotient, ratio, share, signed};
use crate::cache::{Making, state_bytes, token_bytes};
use crate::cache_type::CacheType;
use crate::question::{Account, Question};
use crate::version::Version;
use crate::weights::Part;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Gone from the GPU when the process group is up, with one rank: the context and the libraries' first buffers.
///
/// # Source
/// An RTX 5090 prints 30.77 GiB before the weights of its 31.36.
const CONTEXT: u64 = 600 * MIB;
/// The same on a GPU that shares the host's memory, including the memory of the system and of other programs.
///
/// # Source
/// 17 starts on one GB10 of 119.63 GiB print 111.9 to 112.3 GiB before the weights.
const CONTEXT_SHARED: u64 = 7580 * MIB;
/// What NCCL takes between several ranks. Not checked.
const NCCL: u64 = 1024 * MIB;
/// The first release in which recurrent states get a share of the remaining memory, and how many times the cache's share:
/// `handle_max_mamba_cache` of 0.5.5 and 0.5.9 against 0.5.3. A flag gives their number or share; without common prefixes there is one for each
/// request, if a flag says how many run.
const STATES_SHARE_SINCE: Version = Version::new(0, 5, 5);
const STATES_TO_CACHE: f64 = 0.9;
/// States without that share.
const STATES: u64 = 512;

/// The account of all ranks.
pub(crate) fn account(question: &Question<'_>) -> Account {
    let (model, settings) = (question.model, &question.settings);
    let mut account = Account { max_len: question.max_len(), ..Account::default() };
    let total = question.total();
    let ranks = settings.tp();
    // With data-parallel attention each replica has all requests of its own, on its share of the ranks.
    let attention_ranks =
        if settings.attention_replicas { (ranks / settings.data.unwrap_or(1).max(1)).max(1) } else { ranks };
    let context = if question.shares_memory() { CONTEXT_SHARED } else { CONTEXT };
    let before = total.saturating_sub(context + if ranks > 1 { NCCL } else { 0 });
    let fraction = settings.memory_share.unwrap_or_else(|| {
        let fraction = usual_fraction(question);
        account.assumed.push(format!("`--mem-fraction-static` {fraction:.3}, the default of this release on this GPU"));
        fraction
    });
    let slack = before.saturating_sub(share(before, fraction));
    let making = Making {
        ranks: attention_ranks,
        block: 1,
        kind: settings.cache_type.unwrap_or(CacheType::Auto),
        element: model.element_bytes,
        state_element: model.state_bytes,
        has_groups: true,
        speculative: settings.speculative.unwrap_or(0),
        state_blocks: 1,
        latent_align: 1,
    };
    for (stage, layers) in question.stages().into_iter().enumerate() {
        let is_here = |weight: &&crate::weights::Weight| {
            weight.layer.map_or_else(
                || {
                    if weight.part == Part::Embedding || weight.part == Part::Encoder {
                        stage == 0
                    } else {
                        stage as u64 + 1 == settings.pp()
                    }
                },
                |layer| layers.contains(&(layer as usize)),
            )
        };
        let weights = model
            .weights
            .iter()
            .filter(is_here)
            .map(|weight| match weight.part {
                Part::Attention | Part::Absorbed | Part::Embedding => weight.on_rank(attention_ranks),
                _ => weight.on_rank(ranks),
            })
            .fold(model.rotary_bytes, u64::saturating_add);
        let left = [weights, slack].into_iter().fold(signed(before), |left, term| left.saturating_sub(signed(term)));
        let cache = left.saturating_sub(signed(states(question, &model.own_layers[layers.clone()], &making, left)));
        let counted = |cache: &LayerCache| counted(cache, &making, question.release.version);
        let (tokens, window_tokens, of_token) =
            pools(&model.own_layers[layers.clone()], settings.window_ratio.unwrap_or(0.8), cache, &counted);
        // What the pool takes of the slack, where its tokens have more bytes than were counted.
        let uncounted = model.own_layers[layers].iter().map(|cache| token_bytes(cache, &making) - counted(cache));
        let uncounted = product([tokens, uncounted.fold(0, u64::saturating_add)]);
        let of_token = of_token.saturating_add(uncounted / tokens.max(1));
        account.tokens = if stage == 0 { tokens } else { account.tokens.min(tokens) };
        account.token_bytes = account.token_bytes.max(of_token);
        if let Some(window) = window_tokens {
            account.assumed.push(format!(
                "{window} tokens of the windows' pool beside the full one's (`--swa-full-tokens-ratio`)"
            ));
        }
        for _ in 0..ranks {
            account.ranks.push(Rank {
                rank: account.ranks.len() as u64,
                stage: stage as u64,
                total_bytes: total,
                budget_bytes: before.saturating_sub(slack),
                weights_bytes: weights,
                activation_peak_bytes: slack.saturating_sub(uncounted),
                activation_by: "slack for activations and CUDA graphs; no profile run".to_owned(),
                non_torch_bytes: total - before,
                graph_bytes: 0,
                kv_cache_bytes: cache.saturating_add(signed(uncounted)),
            });
        }
    }
    let page = settings.block.unwrap_or(1);
    account.tokens = settings.most_tokens.map_or(account.tokens, |most| account.tokens.min(most));
    account.tokens = account.tokens / page.max(1) * page.max(1);
    account.block_tokens = Some(page);
    account.blocks = Some(account.tokens / page.max(1));
    account.longest = account.tokens;
    account.concurrency = question.lengths().map(|length| (length, ratio(account.tokens, length))).collect();
    account.refusal = refusal(&account);
    if settings.memory_share.is_none() {
        account.unchecked.push("the default of `--mem-fraction-static` was compared with one row".to_owned());
    }
    if settings.attention_replicas {
        account.unchecked.push("data-parallel attention was compared with one log, and is 3 % off there".to_owned());
    }
    if question.shares_memory() {
        account.unchecked.push("the GPU shares the host's memory, and other programs may use more of it".to_owned());
    }
    if ranks > 1 {
        account.unchecked.push("NCCL's buffers between ranks are assumed to take 1 GiB".to_owned());
    }
    account
}

/// Since when the budget counts the indexer's keys of sparse attention, and the scales and wider rotated part of its
/// latent in 8 bits: until then they come out of the slack.
///
/// # Source
/// `profile_max_num_token` of 0.5.3 against 0.5.4 (sgl-project/sglang#11309), and of 0.5.7 against 0.5.9.
const INDEXER_COUNTS_SINCE: Version = Version::new(0, 5, 4);
const SCALES_COUNT_SINCE: Version = Version::new(0, 5, 9);

/// Bytes of a token in one layer, as the budget counts them.
fn counted(cache: &LayerCache, making: &Making, version: Version) -> u64 {
    let LayerCache::Latent { rank, rope_dim, index_dim: 1.. } = *cache else { return token_bytes(cache, making) };
    if version >= SCALES_COUNT_SINCE {
        return token_bytes(cache, making);
    }
    let latent = making.kind.bytes(rank.saturating_add(rope_dim), making.element);
    if version < INDEXER_COUNTS_SINCE {
        return latent;
    }
    let without = LayerCache::Latent { rank, rope_dim, index_dim: 0 };
    let indexer = Making { kind: CacheType::Auto, ..*making };
    latent.saturating_add(token_bytes(cache, &indexer).saturating_sub(token_bytes(&without, &indexer)))
}

/// Tokens of the full pool, of the windows' pool if there is one, and bytes of a token.
fn pools(
    layers: &[LayerCache],
    window_ratio: f64,
    bytes: i64,
    counted: &dyn Fn(&LayerCache) -> u64,
) -> (u64, Option<u64>, u64) {
    let bytes = u64::try_from(bytes).unwrap_or(0);
    let sum = |of: &dyn Fn(&LayerCache) -> bool| {
        layers.iter().filter(|cache| of(cache)).map(counted).fold(0, u64::saturating_add)
    };
    let windows = sum(&|cache| matches!(cache, LayerCache::Window { .. }));
    let full = sum(&|cache| !matches!(cache, LayerCache::Window { .. }));
    if windows == 0 || full == 0 {
        return (bytes / (windows + full).max(1), None, windows + full);
    }
    let tokens = quotient(bytes, full, windows, window_ratio);
    (tokens, Some(share(tokens, window_ratio)), full)
}

/// Bytes of recurrent states, which are taken out of what is left first.
fn states(question: &Question<'_>, layers: &[LayerCache], making: &Making, left: i64) -> u64 {
    let of_request = layers.iter().map(|cache| state_bytes(cache, making)).fold(0, u64::saturating_add);
    if of_request == 0 {
        return 0;
    }
    let settings = &question.settings;
    let replicas = if settings.attention_replicas { settings.data.unwrap_or(1).max(1) } else { 1 };
    let running = settings.sequences.map(|sequences| sequences / replicas);
    if question.release.version < STATES_SHARE_SINCE {
        return product([of_request, running.unwrap_or(STATES)]);
    }
    let said = settings.states.map(|states| states / replicas);
    match said.or(running.filter(|_| settings.prefix_caching == Some(false))) {
        Some(states) => product([of_request, states]),
        None => {
            let times = settings.states_to_cache.unwrap_or(STATES_TO_CACHE);
            share(u64::try_from(left).unwrap_or(0), times / (1.0 + times)) / of_request * of_request
        }
    }
}

/// The share that is static if nobody says.
fn usual_fraction(question: &Question<'_>) -> f64 {
    let (settings, version) = (&question.settings, question.release.version);
    let total = question.total();
    let ranks = settings.tp().saturating_mul(settings.pp());
    // Until 0.4.8 by the number of ranks alone.
    if version < Version::new(0, 4, 9) {
        return match settings.tp() {
            16.. => 0.79,
            8.. => 0.81,
            4.. => 0.85,
            2.. => 0.87,
            _ => 0.88,
        };
    }
    let reserved = if version < Version::new(0, 5, 0) {
        match total / GIB {
            0..35 => 2867 * MIB + ranks * GIB / 10,
            35..90 => 9728 * MIB + ranks * GIB / 2,
            90..160 => 12 * GIB + ranks * GIB / 2,
            _ => 32 * GIB,
        }
    } else {
        let (chunk, few, many) = match total / GIB {
            0..20 => (2048, 8, 8),
            20..35 => (2048, 24, 80),
            35..60 => (4096, 32, 160),
            60..160 => (8192, 256, 512),
            _ => (16_384, 512, 512),
        };
        let chunk = settings.batched_tokens.unwrap_or(chunk);
        let batch = settings.graph_batch.unwrap_or(if settings.tp() < 4 { few } else { many });
        let reserved = 512 * MIB + chunk.max(2048) * 3 * MIB / 2 + batch * 2 * MIB + ranks * GIB / 8;
        // Data-parallel attention pads its batches.
        let padding = if batch > 300 { 9 * MIB / 2 } else { 3 * MIB };
        let padded =
            if settings.attention_replicas { product([batch, settings.data.unwrap_or(1), padding]) } else { 0 };
        let reserved = reserved.saturating_add(padded);
        if total > 60 * GIB { reserved.max(10 * GIB) } else { reserved }
    };
    let fraction = 1.0 - ratio(reserved, total);
    let fraction = (fraction.clamp(0.0, 1.0) * 1000.0).round() / 1000.0;
    if question.model.has_encoder { fraction * beside_encoder(question) } else { fraction }
}

/// By how much an encoder of images lowers the share: the more, the larger it is beside ViT-L.
///
/// # Source
/// `adjust_mem_fraction_for_vlm` of 0.5.9. It looks for `num_hidden_layers`, which Qwen's encoders do not have, and
/// takes 24 then.
fn beside_encoder(question: &Question<'_>) -> f64 {
    const LAYERS: u64 = 24;
    const HIDDEN: u64 = 1024;
    if question.release.version < Version::new(0, 5, 0) {
        return 0.9;
    }
    let (layers, hidden) = question.model.vision.map_or((LAYERS, HIDDEN), |vision| {
        (if question.model.kind.starts_with("qwen") { LAYERS } else { vision.layers }, vision.hidden)
    });
    let size = ratio(product([layers, hidden, hidden]), product([LAYERS, HIDDEN, HIDDEN]));
    0.95 * (1.0 - 0.1 * (size - 1.0)).clamp(0.8, 1.05)
}

fn refusal(account: &Account) -> Option<Refusal> {
    let worst = account.ranks.iter().min_by_key(|rank| rank.kv_cache_bytes)?;
    let size = |bytes: u64| highwater_units::size(bytes);
    if worst.weights_bytes > worst.total_bytes {
        let sentence = format!(
            "the weights take {} of a rank, the GPU has {}",
            size(worst.weights_bytes),
            size(worst.total_bytes)
        );
        return Some(Refusal { kind: RefusalKind::WeightsDoNotFit, sentence });
    }
    if worst.kv_cache_bytes > 0 {
        return None;
    }
    let sentence = format!(
        "no memory is left for the cache: `--mem-fraction-static` must be higher by {}",
        highwater_units::percent(ratio(worst.kv_cache_bytes.unsigned_abs(), worst.total_bytes))
    );
    Some(Refusal { kind: RefusalKind::NoCache, sentence })
}
