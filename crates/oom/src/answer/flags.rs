//! The flags of engines, and what each frees.
//!
//! # Source
//! `spec/serving.md`, sections 2 and 3: the KV cache is what the engine's share of the GPU leaves behind weights,
//! activations and memory outside PyTorch; the profile run's sampler takes about 38 bytes for each sequence and entry of
//! the vocabulary.

use highwater_units::size;

use crate::engine::{EngineLog, Printed};
use crate::known::Decimal;
use crate::steps::Step;

/// Of vLLM's start-up, the share of the activations that a quarter of the sequences frees at most.
const SEQUENCES_QUARTER: (u64, u64) = (3, 4);
/// An engine's share is not raised beyond this: the context and graphs need the rest.
const MOST_SHARE: u64 = 970_000;

/// The step in which a cache's size is set. It is larger than the rounding of printed sizes.
const CACHE_STEP_BYTES: u64 = 64 << 20;

/// vLLM's share where none is set: 0.9, and 0.92 in the newest releases.
pub(super) const VLLM_SHARE: Decimal = Decimal { millionths: 920_000 };

/// All memory of the GPU, by the lines of an engine.
pub(super) fn total(log: &EngineLog, printed: &Printed) -> Option<u64> {
    printed.total_bytes.or_else(|| {
        let share = log.utilization.filter(|share| share.millionths > 0)?;
        Some(times(printed.budget_bytes?, 1_000_000, share.millionths))
    })
}

/// `bytes × numerator / denominator`.
pub(super) fn times(bytes: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(bytes) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// `0.95`.
pub(super) fn share(share: Decimal) -> String {
    format!("{:.2}", share.value())
}

/// A larger share of the GPU for the engine: what is missing if that fits, or as much as is left.
pub(super) fn raise_share(
    log: &EngineLog,
    total: Option<u64>,
    used: Option<Decimal>,
    missing: Option<u64>,
) -> Option<Step> {
    let is_sglang = log.engine == Some("sglang");
    if let Some(cache) = log.kv_cache_setting_bytes {
        // It takes the place of the share, which is then not looked at.
        let to = cache.saturating_add(missing.unwrap_or(1 << 30)).next_multiple_of(CACHE_STEP_BYTES);
        let title = "give the KV cache more of the GPU: `kv_cache_memory_bytes`, which is set and replaces the share";
        let step = Step::new(
            "raise-share",
            title,
            format!("it is {}; weights, activations and graphs need the rest", size(cache)),
        );
        let step = step.with(format!("--kv-cache-memory-bytes {to}"));
        return Some(match missing {
            Some(missing) => step.brings(missing, Some(missing)),
            None => step,
        });
    }
    let (flag, name) = if is_sglang {
        ("--mem-fraction-static", "`mem_fraction_static`")
    } else {
        ("--gpu-memory-utilization", "`gpu_memory_utilization`")
    };
    let now = used.or(if is_sglang { log.mem_fraction_static } else { log.utilization });
    let title = format!("give the engine a larger share of the GPU: {name}");
    let (Some(total), Some(now)) = (total, now) else {
        let detail = "each 0.01 adds a hundredth of the GPU's memory to the KV cache; the rest must hold the CUDA \
             context, graphs, \
                      and other processes";
        return Some(Step::new("raise-share", title, detail).with(format!("{flag} 0.95")));
    };
    if now.millionths + 10_000 > MOST_SHARE {
        return None;
    }
    // To the next hundredth that is enough.
    let wanted = missing.map(|missing| now.millionths + times(missing, 1_000_000, total).div_ceil(10_000) * 10_000);
    let to = wanted.filter(|&wanted| wanted <= MOST_SHARE).unwrap_or(MOST_SHARE);
    let brings = times(total, to - now.millionths, 1_000_000);
    let detail = format!(
        "it is {}; each 0.01 adds {}, and the rest of the {} must hold the memory of other processes{}",
        share(now),
        size(total / 100),
        size(total),
        if is_sglang { ", activations and CUDA graphs" } else { " and, before vLLM 0.21, the CUDA graphs" }
    );
    let step = Step::new("raise-share", title, detail);
    Some(step.with(format!("{flag} {:.2}", Decimal { millionths: to }.value())).brings(brings, missing))
}

/// A smaller share, for what is allocated beside it.
pub(super) fn lower_share(log: &EngineLog, total: Option<u64>, missing: Option<u64>) -> Step {
    let is_sglang = log.engine == Some("sglang");
    if let Some(cache) = log.kv_cache_setting_bytes {
        let to = cache.saturating_sub(missing.unwrap_or(1 << 30)) >> 20 << 20;
        let title =
            "leave more of the GPU outside the KV cache: lower `kv_cache_memory_bytes`, which replaces the share";
        let step = Step::new("lower-share", title, format!("it is {}", size(cache)));
        return step.with(format!("--kv-cache-memory-bytes {to}")).brings(cache - to, missing);
    }
    let (flag, name) = if is_sglang {
        ("--mem-fraction-static", "`mem_fraction_static`")
    } else {
        ("--gpu-memory-utilization", "`gpu_memory_utilization`")
    };
    let now = if is_sglang { log.mem_fraction_static } else { log.utilization };
    let title = format!("leave more of the GPU outside the engine's pool: lower {name}");
    let (Some(total), Some(now)) = (total, now) else {
        let detail = "each 0.01 less leaves a hundredth of the GPU's memory for allocations after the KV cache; it costs tokens in \
                      the cache";
        return Step::new("lower-share", title, detail).with(format!("{flag} with 0.05 less"));
    };
    let down = missing.map_or(50_000, |missing| (times(missing, 1_000_000, total).div_ceil(10_000) + 1) * 10_000);
    let to = now.millionths.saturating_sub(down.min(300_000));
    let brings = times(total, now.millionths - to, 1_000_000);
    let detail =
        format!("it is {}; each 0.01 less frees {} and costs as much of the KV cache", share(now), size(total / 100));
    let step = Step::new("lower-share", title, detail);
    step.with(format!("{flag} {:.2}", Decimal { millionths: to }.value())).brings(brings, missing)
}

/// Fewer sequences at once.
pub(super) fn fewer_sequences(log: &EngineLog, printed: &Printed, missing: Option<u64>) -> Step {
    let now = log.max_num_seqs;
    let to = now.map_or(64, |now| (now / 4).max(1));
    if log.engine == Some("sglang") {
        let step = Step::new(
            "fewer-sequences",
            "capture CUDA graphs for fewer requests at once",
            "each captured batch size keeps its buffers outside the fraction",
        );
        return step.with(format!("--cuda-graph-max-bs {}", to.min(32)));
    }
    let title = "serve fewer sequences at once: `max_num_seqs`";
    let rule = "at start the engine tests the sampler with all of them, which takes about 38 bytes for each sequence \
         and vocabulary entry";
    let (numerator, denominator) = SEQUENCES_QUARTER;
    let freed = printed.activation_peak_bytes.map(|peak| times(peak, numerator, denominator));
    let step = match (now, printed.activation_peak_bytes) {
        (Some(now), Some(peak)) => {
            Step::new("fewer-sequences", title, format!("it is {now}; {rule}; activations peaked at {}", size(peak)))
        }
        (None, Some(peak)) => {
            Step::new("fewer-sequences", title, format!("{rule}; activations peaked at {}", size(peak)))
        }
        _ => Step::new("fewer-sequences", title, rule),
    };
    let step = step.with(format!("--max-num-seqs {to}"));
    match freed {
        Some(freed) if missing.is_none_or(|missing| freed < missing) => step.brings(freed, missing),
        // The batch's tokens may be the larger part of the peak.
        Some(freed) => step.brings(freed, None),
        None => step,
    }
}

/// No CUDA graphs.
pub(super) fn without_graphs(log: &EngineLog, printed: &Printed, missing: Option<u64>) -> Option<Step> {
    if log.is_eager == Some(true) {
        return None;
    }
    let flag = if log.engine == Some("sglang") { "--disable-cuda-graph" } else { "--enforce-eager" };
    let step = Step::new(
        "without-graphs",
        "run without CUDA graphs, or capture fewer sizes",
        "graphs keep buffers for each batch size; without them decoding is slower",
    );
    let step = step.with(flag);
    Some(match printed.graph_bytes.or(printed.graph_estimate_bytes) {
        Some(bytes) => step.brings(bytes, missing),
        None => step,
    })
}

/// A KV cache of 8 bits.
pub(super) fn smaller_cache_type(log: &EngineLog, needed: Option<u64>, missing: Option<u64>) -> Option<Step> {
    if log.kv_dtype.as_deref().is_some_and(|dtype| dtype.contains("fp8") || dtype.contains("int8")) {
        return None;
    }
    let (flag, about) = match log.engine {
        Some("llama.cpp") => {
            ("--cache-type-k q8_0 --cache-type-v q8_0 --flash-attn on", "8-bit keys and values take 53 % of the memory")
        }
        Some("ollama") => {
            ("OLLAMA_KV_CACHE_TYPE=q8_0 OLLAMA_FLASH_ATTENTION=1", "8-bit keys and values take 53 % of the memory")
        }
        Some("sglang") => ("--kv-cache-dtype fp8_e5m2", "8-bit keys and values take half of the memory"),
        _ => ("--kv-cache-dtype fp8", "8-bit keys and values take half of the memory"),
    };
    let step = Step::new("smaller-cache-type", "store the KV cache in 8 bits", about).with(flag);
    Some(match needed {
        Some(needed) => step.brings(needed / 2, missing),
        None => step,
    })
}

/// More GPUs, or smaller weights.
pub(super) fn less_weights(log: &EngineLog, printed: &Printed, missing: Option<u64>) -> Step {
    let title = "load less of the model on each GPU: more GPUs in parallel, or quantised weights";
    let parallel = log.tensor_parallel.unwrap_or(1).max(1) * 2;
    let flag = match log.engine {
        Some("sglang" | "lmdeploy") => "--tp",
        Some("tensorrt-llm") => "--tp_size",
        Some("tgi") => "--num-shard",
        _ => "--tensor-parallel-size",
    };
    let step = match printed.weights_bytes.or(printed.consumed_bytes) {
        Some(weights) => {
            let detail = format!(
                "the weights take {} on each GPU; twice as many GPUs, or 8 instead of 16 bits, halve that",
                size(weights)
            );
            Step::new("less-weights", title, detail).brings(weights / 2, missing)
        }
        None => Step::new("less-weights", title, "twice as many GPUs, or 8 instead of 16 bits, halve the weights"),
    };
    step.with(format!("{flag} {parallel}"))
}

/// What helps where PyTorch's allocator fails after the engine has started, or while it starts.
pub(super) fn after_start(log: &EngineLog, missing: Option<u64>, capacity: Option<u64>) -> Vec<Step> {
    let printed = log.printed();
    let total = total(log, &printed).or(capacity);
    match log.engine {
        Some("vllm") => {
            let has_pool = printed.kv_cache_bytes.is_some_and(|bytes| bytes > 0) || printed.kv_tokens.is_some();
            // Where it printed nothing, nothing says that it was still loading; nor does a command that sets its share.
            let is_set = log.model.is_some() && log.utilization.is_none();
            let has_printed = log.version.is_some() || is_set || printed.total_bytes.is_some();
            let mut steps = Vec::new();
            if has_pool || printed.weights_bytes.is_some() || !has_printed {
                steps.push(lower_share(log, total, missing));
                steps.push(fewer_sequences(log, &printed, missing));
                steps.push(batched_tokens(log));
                steps.extend(without_graphs(log, &printed, missing));
            } else {
                steps.extend(while_loading(log, missing));
            }
            steps
        }
        Some("sglang") => {
            let mut steps = vec![lower_share(log, total, missing), chunked_prefill(log)];
            steps.extend(without_graphs(log, &printed, missing));
            steps
        }
        Some("tgi") => vec![
            Step::new(
                "smaller-prefill",
                "warm up with fewer tokens",
                "the warm-up computes this many tokens at once, and the KV cache gets the rest",
            )
            .with("--max-batch-prefill-tokens 2048"),
            Step::new(
                "lower-share",
                "leave more of the GPU outside the KV cache",
                "if it fails while it serves, requests need more than the warm-up did",
            )
            .with("--cuda-memory-fraction 0.9, a lower --max-batch-total-tokens"),
        ],
        Some("llama.cpp" | "ollama") => vec![Step::new(
            "shorter-context",
            "use a shorter context, or put fewer layers on the GPU",
            "the KV cache and the buffers of the graph grow with the context",
        )],
        // Others have settings of their own.
        _ => Vec::new(),
    }
}

/// What helps where the weights themselves do not fit: no share of the GPU, for that is the cache's.
pub(super) fn while_loading(log: &EngineLog, missing: Option<u64>) -> Vec<Step> {
    let printed = log.printed();
    let in_16_bits = log.dtype.as_deref().filter(|dtype| dtype.contains("float32") || *dtype == "float").map(|dtype| {
        let title = "load the weights in 16 bits: that halves them";
        Step::new("less-weights", title, format!("`dtype` is {dtype}, 4 bytes for each parameter")).with("--dtype half")
    });
    let fewer = matches!(log.engine, Some("vllm" | "sglang")).then(|| fewer_sequences(log, &printed, missing));
    in_16_bits.into_iter().chain([less_weights(log, &printed, missing)]).chain(fewer).collect()
}

/// A part of the weights in the host's memory.
pub(super) fn offloaded_weights(log: &EngineLog) -> Option<Step> {
    let is_of_it = matches!(log.engine, Some("vllm" | "sglang"));
    is_of_it.then(|| {
        Step::new("offload", "keep a part of the weights in the host's memory", "the engine then is much slower")
            .with("--cpu-offload-gb 8")
    })
}

/// Fewer tokens in a pass of vLLM.
pub(super) fn batched_tokens(log: &EngineLog) -> Step {
    let to = log.max_num_batched_tokens.map_or(2048, |now| (now / 2).max(256));
    Step::new(
        "fewer-batched-tokens",
        "compute fewer tokens in one pass: `max_num_batched_tokens`",
        "activations take about 6 bytes for each token and entry of the widest layer, and the engine tests the \
         vision encoder with them",
    )
    .with(format!("--max-num-batched-tokens {to}"))
}

/// Fewer tokens in a pass of `SGLang`.
pub(super) fn chunked_prefill(log: &EngineLog) -> Step {
    let to = log.max_num_batched_tokens.map_or(2048, |now| (now / 2).max(256));
    Step::new(
        "fewer-batched-tokens",
        "compute fewer tokens in one pass: `chunked_prefill_size`",
        "activations live outside the fraction; SGLang itself reserves about 1.5 MiB for each of these tokens",
    )
    .with(format!("--chunked-prefill-size {to}"))
}

/// What the engine printed of its memory, as a sentence; `None` if it is nothing.
pub fn shares(log: &EngineLog) -> Option<String> {
    let printed = log.printed();
    let mut parts = Vec::new();
    let mut part = |name: &str, bytes: Option<u64>| parts.extend(bytes.map(|bytes| format!("{name} {}", size(bytes))));
    part("weights", printed.weights_bytes);
    part("weights and memory outside PyTorch", printed.consumed_bytes);
    part("the activations' peak", printed.activation_peak_bytes);
    part("memory outside PyTorch", printed.non_torch_bytes);
    part("KV cache", printed.kv_cache_bytes.and_then(|bytes| u64::try_from(bytes).ok()));
    part("CUDA graphs", printed.graph_bytes);
    part("compute buffers", printed.compute_bytes);
    if let Some(deficit) = printed.kv_cache_bytes.filter(|&bytes| bytes < 0) {
        parts.push(format!("KV cache −{}", size(deficit.unsigned_abs())));
    }
    if log.engine == Some("ollama") {
        // What it estimated before it loaded.
        let layers = printed
            .layers_on_gpu
            .zip(printed.layers)
            .map_or_else(String::new, |(some, all)| format!(" with {some} of {all} layers on the GPU"));
        parts.extend(printed.partial_bytes.map(|bytes| format!("{} needed{layers}, by its own estimate", size(bytes))));
        parts.extend(printed.required_bytes.map(|bytes| format!("{} needed in all", size(bytes))));
        parts.extend(printed.free_before_bytes.map(|bytes| format!("{} free before", size(bytes))));
    }
    if parts.is_empty() {
        return None;
    }
    let budget = match (printed.budget_bytes, log.utilization) {
        (Some(budget), Some(of)) => format!(", of a budget of {} (utilisation {})", size(budget), share(of)),
        (Some(budget), None) => format!(", of a budget of {}", size(budget)),
        (None, Some(of)) => format!(", at a utilisation of {}", share(of)),
        (None, None) => String::new(),
    };
    Some(format!("the engine printed: {}{budget}", parts.join(", ")))
}
