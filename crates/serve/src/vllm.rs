//! vLLM's budget, V0 and V1: the cache is the rest of a share of the GPU.
//!
//! # Source
//! V1: `vllm/v1/worker/gpu_worker.py`, `vllm/v1/worker/gpu_model_runner.py` (profile run), `vllm/utils/mem_utils.py`,
//! `vllm/v1/core/kv_cache_utils.py`, `vllm/engine/arg_utils.py` (defaults). V0: `vllm/worker/worker.py`,
//! `vllm/config.py`.

mod outside;
mod profile;
mod runner;
mod states;

use highwater_driver::context::BARE_BYTES;
use highwater_estimate::LayerCache;
use highwater_estimate::read::configuration;
use highwater_units::count;

use crate::answer::{Rank, Refusal, RefusalKind};
use crate::arithmetic::{product, share, signed};
use crate::cache::{Group, Layout, Making, token_bytes};
use crate::cache_type::CacheType;
use crate::flags::Drafter;
use crate::model::{Loading, Model};
use crate::question::{Account, Question, requests};
use crate::version::Version;
use crate::weights::{Part, Split, Weight};
use outside::{graphs, host_counts, non_torch};
use runner::Runner;

const GIB: u64 = 1 << 30;

/// Since when windows and states have groups of their own.
const GROUPS_SINCE: Version = Version::new(0, 9, 2);
/// Since when printed tokens are concurrency times length: `vllm/v1/core/kv_cache_utils.py` of 0.20.2; 0.20.0 prints
/// blocks.
const TOKENS_BY_CONCURRENCY_SINCE: Version = Version::new(0, 20, 2);
/// Until when V1 takes 1,024 sequences on every GPU; then only on large ones. `vllm/engine/arg_utils.py` of 0.7.3
/// against 0.8.5.
const MANY_SEQUENCES_UNTIL: Version = Version::new(0, 8, 0);
/// The first release that lowers the batch to the tokens of its sequences, and the sequences to the batch:
/// `vllm/engine/arg_utils.py` of 0.11.2.
const FITS_BATCHES_SINCE: Version = Version::new(0, 11, 1);
/// Since when the buffers of adapters are in the weights. Until then they were allocated between two measurements, and
/// counted nowhere: `vllm/worker/model_runner.py`, `load_model` of 0.7.3 against 0.8.5.
const ADAPTERS_COUNT_SINCE: Version = Version::new(0, 8, 0);
/// Releases whose V0 rounds a token's latent up to 256 bytes: `_align_cache` of `vllm/worker/cache_engine.py` of 0.7.3.
const ALIGNS_LATENT: std::ops::Range<Version> = Version::new(0, 7, 3)..Version::new(0, 8, 0);
/// Since when states must have a block for every sequence: `vllm/config/compilation.py` of 0.24; 0.11 does not check.
const STATE_BLOCKS_CHECKED_SINCE: Version = Version::new(0, 24, 0);
/// Since when the default share is 0.92: `vllm/config/cache.py` of 0.20.2 against 0.19.1.
const LARGER_SHARE_SINCE: Version = Version::new(0, 20, 0);
/// The settings as this release fills them in.
struct Filled {
    runner: Runner,
    sequences: u64,
    batched: u64,
    /// V0's chunked prefill: the profile run samples nothing.
    is_chunked_v0: bool,
    memory_share: f64,
}

/// GPUs that get large batches by default: from 70 GiB on, but for the A100 and the GB10. `vllm/engine/arg_utils.py` of
/// 0.33 names the GB10; before, it is small because the driver does not tell its total memory, as a log of 0.13 shows.
fn is_large(question: &Question<'_>) -> bool {
    let is_small = |key: &str| key.starts_with("a100") || key == "gb10";
    question.total() >= 70 * GIB && question.card().is_none_or(|card| !is_small(card.key))
}

/// Sequences of a batch, as said or by default.
fn sequences(question: &Question<'_>) -> u64 {
    let is_v1 = runner::of(question) != Runner::V0;
    let has_many = is_v1 && (is_large(question) || question.release.version < MANY_SEQUENCES_UNTIL);
    question.settings.sequences.unwrap_or(if has_many { 1024 } else { 256 })
}

fn filled(question: &Question<'_>, assumed: &mut Vec<String>) -> Filled {
    let (settings, version) = (&question.settings, question.release.version);
    let runner = runner::of(question);
    let is_v0 = runner == Runner::V0;
    let max_len = question.max_len();
    let is_large = is_large(question);
    let is_latent = question.model.layers.iter().any(|cache| matches!(cache, LayerCache::Latent { .. }));
    let is_chunked_v0 = is_v0
        && !is_latent
        && settings
            .chunked_prefill
            .unwrap_or(max_len > 32 * 1024 && settings.batched_tokens.is_none() && !question.model.has_encoder);
    let mut sequences = sequences(question);
    let usual_batch = match () {
        () if is_v0 && is_chunked_v0 => {
            if version < Version::new(0, 7, 0) {
                512
            } else {
                2048
            }
        }
        () if is_v0 => max_len.max(2048),
        () if settings.chunked_prefill == Some(false) => max_len.max(2048),
        () if is_large => 8192,
        () => 2048,
    };
    let is_fitted = !is_v0 && version >= FITS_BATCHES_SINCE;
    let usual_batch = if is_fitted { usual_batch.min(product([sequences, max_len])) } else { usual_batch };
    let batched = settings.batched_tokens.unwrap_or(usual_batch);
    if is_fitted && settings.sequences.is_none() {
        sequences = sequences.min(batched);
    }
    let usual = if version >= LARGER_SHARE_SINCE { 0.92 } else { 0.9 };
    if settings.memory_share.is_none() && settings.cache_bytes.is_none() {
        assumed.push(format!("`--gpu-memory-utilization` {usual}, the default of this release"));
    }
    if settings.sequences.is_none() {
        assumed.push(format!("`--max-num-seqs` {sequences}, the default of this release on this GPU"));
    }
    if settings.batched_tokens.is_none() {
        assumed.push(format!("`--max-num-batched-tokens` {batched}, the default of this release on this GPU"));
    }
    let filled =
        Filled { runner, sequences, batched, is_chunked_v0, memory_share: settings.memory_share.unwrap_or(usual) };
    assumed.extend(profile::assumed(question, &filled).map(str::to_owned));
    filled
}

/// The account of all ranks.
pub(crate) fn account(question: &Question<'_>) -> Account {
    let (model, settings) = (question.model, &question.settings);
    let mut account = Account { max_len: question.max_len(), ..Account::default() };
    let filled = filled(question, &mut account.assumed);
    let total = question.total();
    let budget = share(total, filled.memory_share);
    let stages = question.stages();
    let mut ranks = Vec::new();
    let (mut blocks, mut layouts) = (Vec::new(), Vec::new());
    for (stage, layers) in stages.iter().enumerate() {
        let (is_first, is_last) = (stage == 0, stage + 1 == stages.len());
        let weights = weights(question, layers.clone(), is_first, is_last);
        let (activation, by) = profile::activation(question, &filled, is_first, is_last);
        let non_torch = non_torch(question, filled.runner);
        let graphs = graphs(question, &filled, layers.len());
        let left = [weights, activation, non_torch, graphs]
            .into_iter()
            .fold(signed(budget), |left, term| left.saturating_sub(signed(term)));
        let cache = settings.cache_bytes.map_or(left, signed);
        let making = making(question, &filled);
        let mut kept = model.layers[layers.clone()].to_vec();
        if is_last {
            kept.extend(drafted(question));
        }
        let layout = Layout::of(&kept, &making);
        let of_token = kept.iter().map(|cache| token_bytes(cache, &making));
        account.token_bytes = account.token_bytes.max(of_token.fold(0, u64::saturating_add));
        blocks.push(layout.as_ref().map(|layout| settings.forced_blocks.unwrap_or_else(|| layout.blocks(cache))));
        layouts.push(layout);
        for _ in 0..settings.tp() {
            ranks.push(Rank {
                rank: ranks.len() as u64,
                stage: stage as u64,
                total_bytes: total,
                budget_bytes: budget,
                weights_bytes: weights,
                activation_peak_bytes: activation,
                activation_by: by.clone(),
                non_torch_bytes: non_torch,
                graph_bytes: graphs,
                kv_cache_bytes: cache,
            });
        }
    }
    let peak = ranks.first().map_or(0, |rank: &Rank| rank.activation_peak_bytes);
    account.assumed.extend(profile::assumed_of_first(question, &filled, peak));
    account.ranks = ranks;
    capacity(question, &filled, &mut account, &blocks, &layouts);
    account.refusal = too_small(question, &filled).or_else(|| refusal(question, &filled, &account));
    unchecked(question, &filled, &mut account);
    account
}

/// Blocks, tokens, concurrency.
fn capacity(
    question: &Question<'_>,
    filled: &Filled,
    account: &mut Account,
    blocks: &[Option<u64>],
    layouts: &[Option<Layout>],
) {
    let fewest = blocks.iter().flatten().min().copied();
    let Some((layout, blocks)) = layouts.iter().flatten().next().zip(fewest) else {
        account.longest = account.max_len;
        return;
    };
    // With context parallelism a block has as many tokens on each of the ranks.
    let context = question.settings.decode_context.unwrap_or(1).max(1);
    let under_way = product([runner::batches(question, filled.runner), filled.batched]);
    let of = |tokens: u64| layout.blocks_of(tokens.div_ceil(context), under_way);
    account.blocks = Some(blocks);
    account.block_tokens = Some(layout.block);
    account.concurrency = question.lengths().map(|length| (length, requests(blocks, of(length)))).collect();
    let groups = layout.groups.len() as u64;
    let concurrency = account.concurrency.first().map_or(0.0, |(_, requests)| *requests);
    account.tokens = if filled.runner != Runner::V0 && question.release.version >= TOKENS_BY_CONCURRENCY_SINCE {
        share(account.max_len, concurrency)
    } else {
        // A state has a block of its own, as long as the longest sequence, unless it is kept at the borders of others.
        let has_states = layout.groups.iter().any(|group| matches!(group, Group::State(_)));
        let has_own_block = has_states && !states::are_kept(question);
        let smallest = if has_own_block { layout.block.min(account.max_len) } else { layout.block };
        product([blocks / groups.max(1), smallest, context])
    };
    account.longest = layout.longest(blocks, under_way).saturating_mul(context);
    let needed = signed(product([of(account.max_len), layout.block_bytes]));
    account.spare = account.ranks.iter().map(|rank| rank.kv_cache_bytes.saturating_sub(needed)).min();
    if layout.padding > 0 {
        account.assumed.push(format!("{} layers of padding, which make groups of layers equal", layout.padding));
    }
}

fn making(question: &Question<'_>, filled: &Filled) -> Making {
    let settings = &question.settings;
    Making {
        ranks: settings.tp(),
        block: settings.block.unwrap_or(16),
        kind: settings.cache_type.unwrap_or(CacheType::Auto),
        element: question.model.element_bytes,
        state_element: settings.state_bytes.unwrap_or(question.model.state_bytes),
        has_groups: filled.runner != Runner::V0 && question.release.version >= GROUPS_SINCE,
        speculative: settings.speculative.unwrap_or(0),
        state_blocks: states::blocks(question),
        latent_align: if filled.runner == Runner::V0 && ALIGNS_LATENT.contains(&question.release.version) {
            256
        } else {
            1
        },
    }
}

/// Layers of the model's own kind that draft: those that predict more tokens, or EAGLE's one.
fn drafting_layers(question: &Question<'_>) -> u64 {
    match question.settings.drafter {
        Drafter::OwnLayers => question.model.predicting_layers,
        Drafter::Eagle => 1,
        Drafter::Nothing | Drafter::Checkpoint => 0,
    }
}

/// A drafter that is a model of the catalogue.
fn drafter(question: &Question<'_>) -> Option<Model> {
    let name =
        question.settings.drafter_model.as_deref().filter(|_| question.settings.drafter == Drafter::Checkpoint)?;
    let (known, config) = configuration(name)?;
    Model::read(known, &config, Loading::default()).ok()
}

/// The caches of what drafts: a model's own, or each layer's as that of the last layer that sees all tokens.
fn drafted(question: &Question<'_>) -> Vec<LayerCache> {
    if let Some(drafter) = drafter(question) {
        return drafter.layers;
    }
    let sees_all = |cache: &&LayerCache| cache.sees_all();
    let last = question.model.layers.iter().rev().find(sees_all).copied();
    last.into_iter().cycle().take(usize::try_from(drafting_layers(question)).unwrap_or(0)).collect()
}

/// Bytes of what drafts on a rank: a model's own; else those of the last layer with such a cache, and a product of two
/// hidden states, or of three with a head for EAGLE.
///
/// # Source
/// vLLM, `vllm/model_executor/models/qwen3_5_mtp.py` and `llama_eagle3.py`; published EAGLE 3 drafters have 32,000
/// entries.
fn drafter_weights(question: &Question<'_>, of: impl Fn(&Weight) -> u64) -> u64 {
    const EAGLE_ENTRIES: u64 = 32_000;
    let (model, ranks) = (question.model, question.settings.tp());
    if let Some(drafter) = drafter(question) {
        return drafter
            .weights
            .iter()
            .map(|weight| weight.on_rank(ranks))
            .fold(drafter.rotary_bytes, u64::saturating_add);
    }
    let last = model.layers.iter().rposition(LayerCache::sees_all).and_then(|at| u32::try_from(at).ok());
    let layer = model.weights.iter().filter(|weight| weight.layer.is_some() && weight.layer == last).map(of);
    let joined = match question.settings.drafter {
        Drafter::Eagle => product([model.hidden, 3 * model.hidden + EAGLE_ENTRIES / ranks, model.element_bytes]),
        _ => product([2, model.hidden, model.hidden, model.element_bytes]),
    };
    product([drafting_layers(question), layer.fold(joined, u64::saturating_add)])
}

/// Weights of a rank as they are loaded.
fn weights(question: &Question<'_>, layers: std::ops::Range<usize>, is_first: bool, is_last: bool) -> u64 {
    let (model, settings) = (question.model, &question.settings);
    let ranks = settings.tp();
    let tied = !model.weights.iter().any(|weight| weight.part == Part::Head && weight.split == Split::Ranks);
    let is_here = |weight: &Weight| match (weight.layer, weight.part) {
        (Some(layer), _) => layers.contains(&(layer as usize)),
        (None, Part::Embedding) => is_first || is_last && tied,
        (None, Part::Encoder) => is_first && !settings.text_only,
        (None, _) => is_last,
    };
    let here = model.weights.iter().filter(|weight| is_here(weight));
    // Experts are divided among the ranks of all replicas: in their width, or as wholes.
    let all = ranks.saturating_mul(settings.data.unwrap_or(1));
    let padded = expert_padding(question, if settings.expert_parallel { 1 } else { all });
    let of = |weight: &Weight| match (weight.part, weight.split) {
        (Part::Experts, Split::Ranks) if settings.expert_parallel => {
            share(weight.as_wholes(all, model.experts), padded)
        }
        (Part::Experts, Split::Ranks) => share(weight.on_rank(all), padded),
        _ => weight.on_rank(ranks),
    };
    let mut bytes = here.clone().map(of).fold(0, u64::saturating_add);
    if settings.lora && question.release.version >= ADAPTERS_COUNT_SINCE {
        bytes = bytes.saturating_add(lora(question, here.map(|weight| (weight.sides, weight.split))));
    }
    if is_last {
        bytes = bytes.saturating_add(drafter_weights(question, of));
    }
    // The table of rotations is on every rank; what is offloaded is not.
    bytes.saturating_sub(settings.offload_bytes.unwrap_or(0)).saturating_add(model.rotary_bytes)
}

/// How much larger experts in MXFP4 become when their kernels' sizes are rounded up.
///
/// # Source
/// vLLM 0.13, `vllm/model_executor/layers/quantization/mxfp4.py`, `get_mxfp4_backend` and `create_weights`: the hidden
/// size to 256. With Marlin also the width to 128: as in 0.10, and later on GPUs for which Triton's kernels are not
/// made, which are those before the H100 and after the B200. With `FlashInfer`'s on a B200 the width to 256.
/// gpt-oss-20b prints 13.47 GiB on an H100 in 0.11 and 13.72 on an A100 in 0.19, gpt-oss-120b 65.97 in 0.10.1 and 64.38
/// in 0.11.
fn expert_padding(question: &Question<'_>, ranks: u64) -> f64 {
    let model = question.model;
    if !model.quantisation.to_ascii_lowercase().contains("mxfp4") {
        return 1.0;
    }
    let padded = |size: u64, to: u64| crate::arithmetic::ratio(size.next_multiple_of(to), size);
    let width = (model.routed.1 / ranks).max(1);
    let capability = question.card().map_or((9, 0), |card| card.compute_capability);
    let is_marlin = question.release.version < Version::new(0, 11, 0) || !((9, 0)..(11, 0)).contains(&capability);
    let of_width = match capability {
        _ if is_marlin => padded(width, 128),
        (10, _) => padded(width, 256),
        _ => 1.0,
    };
    padded(model.hidden, 256) * of_width
}

/// Entries of the vocabulary that an adapter may add, until 0.12.
const ADDED_ENTRIES: u64 = 256;
const ADDED_ENTRIES_UNTIL: Version = Version::new(0, 12, 0);
/// Families whose embeddings and head take adapters.
///
/// # Source
/// vLLM 0.11, classes with `embedding_modules` in `vllm/model_executor/models`; Mistral and Phi 3 are Llama's class
/// there.
const ADAPTED_EMBEDDINGS: &[&str] = &[
    "llama",
    "mistral",
    "mixtral",
    "phi3",
    "phimoe",
    "granite",
    "granitemoe",
    "granitemoehybrid",
    "cohere",
    "cohere2",
    "exaone4",
    "jamba",
    "bamba",
    "falcon_h1",
    "nemotron",
    "nemotron_h",
    "minicpm",
    "apertus",
    "lfm2",
];

/// Buffers for adapters: two matrices beside each product, and beside embeddings and head where the family's take
/// adapters.
///
/// # Source
/// vLLM, `vllm/lora/layers/`, `create_lora_weights`: the matrix on the divided side is divided; those of the
/// vocabulary are whole.
fn lora(question: &Question<'_>, weights: impl Iterator<Item = ((u64, u64), Split)>) -> u64 {
    let settings = &question.settings;
    let (model, ranks) = (question.model, settings.tp());
    let rank = settings.lora_rank.unwrap_or(16);
    let beside = |numbers: u64| product([numbers, rank, settings.loras.unwrap_or(1), model.element_bytes]);
    let products = weights.filter(|((outputs, _), _)| *outputs > 0).map(|((outputs, inputs), split)| {
        let outputs = if split == Split::Whole { outputs } else { outputs / ranks };
        beside(outputs.saturating_add(inputs))
    });
    let products = products.fold(0, u64::saturating_add);
    if !ADAPTED_EMBEDDINGS.contains(&model.family) {
        return products;
    }
    let added = if question.release.version < ADDED_ENTRIES_UNTIL { ADDED_ENTRIES } else { 0 };
    let entries = product([added, model.hidden, settings.loras.unwrap_or(1), model.element_bytes]);
    let table = beside(model.vocab.saturating_add(added).saturating_add(model.hidden)).saturating_add(entries);
    products.saturating_add(product([2, table]))
}

/// Batches that the engine does not take.
///
/// # Source
/// `vllm/config/scheduler.py`: a batch holds every sequence, and without chunked prefill the longest one.
fn too_small(question: &Question<'_>, filled: &Filled) -> Option<Refusal> {
    let sentence = if filled.batched < filled.sequences {
        format!(
            "batches of {} tokens are smaller than their {} sequences",
            count(filled.batched),
            count(filled.sequences)
        )
    } else if question.settings.chunked_prefill == Some(false) && filled.batched < question.max_len() {
        format!(
            "batches of {} tokens do not hold the longest sequence of {} without chunked prefill",
            count(filled.batched),
            count(question.max_len())
        )
    } else {
        return None;
    };
    Some(Refusal { kind: RefusalKind::BatchTooSmall, sentence })
}

/// Why it does not start.
fn refusal(question: &Question<'_>, filled: &Filled, account: &Account) -> Option<Refusal> {
    let gib = |bytes: i64| highwater_units::size(bytes.unsigned_abs());
    let worst = account.ranks.iter().min_by_key(|rank| rank.kv_cache_bytes)?;
    let refused = |kind, sentence| Some(Refusal { kind, sentence });
    if worst.weights_bytes > worst.total_bytes {
        return refused(
            RefusalKind::WeightsDoNotFit,
            format!(
                "the weights take {} of a rank, the GPU has {}",
                gib(signed(worst.weights_bytes)),
                gib(signed(worst.total_bytes))
            ),
        );
    }
    // The context of the process is there, too, though it does not count against the budget.
    let profile = [worst.activation_peak_bytes, worst.non_torch_bytes, BARE_BYTES]
        .into_iter()
        .fold(worst.weights_bytes, u64::saturating_add);
    if profile > worst.total_bytes {
        return refused(
            RefusalKind::ProfileDoesNotFit,
            format!(
                "weights and profile run need {}, the GPU has {}",
                gib(signed(profile)),
                gib(signed(worst.total_bytes))
            ),
        );
    }
    let has_cache = question.model.layers.iter().any(|cache| *cache != LayerCache::Nothing);
    if worst.kv_cache_bytes <= 0 && has_cache {
        return refused(
            RefusalKind::NoCache,
            format!("no memory is left for the cache: the budget is exceeded by {}", gib(worst.kv_cache_bytes)),
        );
    }
    if has_cache && account.longest < account.max_len {
        return refused(
            RefusalKind::ContextTooLong,
            format!(
                "one sequence of {} tokens does not fit the cache of {}: it holds {} tokens at most",
                count(account.max_len),
                gib(worst.kv_cache_bytes),
                count(account.longest)
            ),
        );
    }
    // Graphs come after the cache.
    let decoding = filled.sequences;
    if let Some(blocks) = account.blocks.filter(|blocks| *blocks < decoding)
        && question.model.layers.iter().any(|cache| cache.has_state())
        && !question.settings.eager
        && question.release.version >= STATE_BLOCKS_CHECKED_SINCE
    {
        let sentence = format!("{decoding} sequences need a block each for their states, and the cache has {blocks}");
        return refused(RefusalKind::NoCache, sentence);
    }
    None
}

/// Terms without a rule that was checked.
fn unchecked(question: &Question<'_>, filled: &Filled, account: &mut Account) {
    if question.model.has_encoder {
        let reason = match question.model.vision {
            Some(_) => {
                "the profile run of the image encoder follows from its source, and was compared with one log only"
            }
            None => "the profile run of this encoder is not in the activation peak",
        };
        account.unchecked.push(reason.to_owned());
    }
    match question.settings.drafter {
        Drafter::Nothing => {}
        Drafter::OwnLayers => {
            account.unchecked.push(
                "the draft layers are assumed to be like the model's last layer, with twice the \
                     input"
                    .to_owned(),
            );
        }
        Drafter::Eagle => {
            account.unchecked.push(
                "EAGLE's drafter is assumed to be one of the model's layers with a head of 32,000 \
                     entries"
                    .to_owned(),
            );
        }
        Drafter::Checkpoint => {
            let reason = match drafter(question) {
                Some(_) => "the drafter is assumed to be the catalogue's model, divided among the ranks",
                None => "the drafter is not a model of the catalogue: its weights and cache are not counted",
            };
            account.unchecked.push(reason.to_owned());
        }
    }
    if account.ranks.iter().any(|rank| rank.graph_bytes > 0) {
        account.unchecked.push(
            "CUDA graphs follow the number of captures and the size of a layer: nine logs, within 0.3 GiB".to_owned(),
        );
    }
    if host_counts(question, filled.runner) {
        account.unchecked.push(
            "the GPU shares the host's memory, so everything that a start allocates counts: two starts with the same \
             flags differed by 3.4 GiB"
                .to_owned(),
        );
    }
    if let Some(reason) = profile::unchecked(question, filled) {
        account.unchecked.push(reason.to_owned());
    }
}
