//! Failures of engines that print no numbers, or few: `LMDeploy`, MLC, `ExLlama`, `KTransformers`, LM Studio.

use highwater_units::size;

use super::because;
use super::flags::share;
use crate::diagnosis::{Cause, Diagnosis};
use crate::known::Decimal;
use crate::log::{Event, Found, FrontEnd};
use crate::steps::Step;

/// The share of the free memory that `LMDeploy`'s cache takes where none is set.
const LMDEPLOY_SHARE: Decimal = Decimal { millionths: 800_000 };
/// From this share down, halving it frees too little to matter.
const SMALL_SHARE: Decimal = Decimal { millionths: 250_000 };

/// The answer to a failure of one of these engines.
pub(super) fn explain(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    Some(match event.id {
        "lmdeploy" => lmdeploy(event, found),
        "lmdeploy-cache" => lmdeploy_cache(),
        "lmdeploy-entries" => lmdeploy_entries(),
        "mlc" => mlc(event),
        "exllama" => exllama(found),
        "ktransformers" => ktransformers(event),
        "lmstudio" => lm_studio(event),
        _ => return None,
    })
}

fn shorter(title: &str, why: &str) -> Step {
    Step::new("shorter-context", title, why)
}

fn lmdeploy(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let now = found.engine.as_ref().and_then(|engine| engine.cache_max_entry_count);
    let is_small = now.is_some_and(|now| now <= SMALL_SHARE);
    // Buffers of requests and the cache come from an allocator; this file's functions are the weights' own.
    let is_of_weights = event.text("file").is_some_and(|file| file.starts_with("memory_utils"));
    let is_loading = event.asked.loads()
        || is_of_weights
        || event.asked.innermost.as_ref().is_some_and(|frame| {
            ["_create_weight", "_create_model_instance", "_from_hf"].contains(&frame.function.as_str())
        });
    let text = if is_loading {
        "the weights, with the buffers beside them, do not fit on the GPU: LMDeploy's engine was still loading the model"
    } else if is_small {
        "the weights, with the buffers beside them, do not fit on the GPU: the share of LMDeploy's KV cache is small already"
    } else {
        "LMDeploy's engine found too little memory on the GPU: its KV cache takes a share of the memory that is free after the weights, \
         and the rest must hold everything else"
    };
    let to = now.filter(|now| *now < LMDEPLOY_SHARE && !is_small).map_or(0.4, |now| now.value() / 2.0);
    let detail = match now {
        Some(now) => format!("it is {} of the memory that is free after the weights", share(now)),
        None => "by default it takes 80 % of the memory that is free after the weights (releases before 0.4: half of the GPU)".to_owned(),
    };
    let lower = Step::new("lower-share", "give the KV cache a smaller share of the GPU", detail)
        .with(format!("--cache-max-entry-count {to:.1}, or TurbomindEngineConfig(cache_max_entry_count={to:.1})"));
    let less = Step::new(
        "less-weights",
        "load less of the model on each GPU",
        "if it failed while it loaded, no share of the cache helps",
    )
    .with("--tp 2, or --model-format awq");
    let longest = found.engine.as_ref().and_then(|engine| engine.max_model_len);
    let grows = longest.map_or_else(
        || "buffers grow with both".to_owned(),
        |longest| format!("`session_len` is {longest}; buffers grow with both"),
    );
    let shorter =
        shorter("serve shorter requests, or fewer at once", &grows).with("--session-len 8192 --max-batch-size 32");
    let steps = match (is_loading, is_small) {
        (_, true) => vec![less, shorter],
        (true, false) => vec![less, lower, shorter],
        // A length that somebody set is the next to change.
        (false, false) if longest.is_some() => vec![lower, shorter, less],
        (false, false) => vec![lower, less, shorter],
    };
    (because(if is_loading || is_small { Cause::TooBig } else { Cause::EngineShare }, text), steps)
}

fn lmdeploy_cache() -> (Diagnosis, Vec<Step>) {
    let text = "LMDeploy's KV cache has no room for a request: too little memory is left for it beside the weights and the buffers, or its \
                share is too small";
    let steps = vec![
        Step::new(
            "raise-share",
            "give the KV cache a larger share of the memory that is free after the weights",
            "0.8 is the default",
        )
        .with("--cache-max-entry-count 0.9"),
        Step::new(
            "less-weights",
            "load less of the model on each GPU",
            "the cache gets the memory that the weights leave",
        )
        .with("--tp 2, or --model-format awq"),
        shorter("serve shorter requests, or fewer at once", "each takes its own blocks")
            .with("--session-len 8192 --max-batch-size 32"),
    ];
    (because(Cause::KvCache, text), steps)
}

/// A number of sequences, before the cache had a share of the GPU.
fn lmdeploy_entries() -> (Diagnosis, Vec<Step>) {
    let text = "LMDeploy's KV cache has no entry for another sequence of the batch: in this release `cache_max_entry_count` is the number of \
                sequences that it holds";
    let steps = vec![
        Step::new(
            "raise-share",
            "let the cache hold as many sequences as the batch may have, or make the batch smaller",
            "each entry takes the memory of the longest sequence, at any length",
        )
        .with("cache_max_entry_count and max_batch_size (config.ini)"),
        shorter("serve shorter sequences, so that more of them fit", "an entry is as large as the longest of them")
            .with("session_len=2048 (config.ini)"),
    ];
    (because(Cause::KvCache, text), steps)
}

fn mlc(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = match (event.bytes("free"), event.bytes("weights"), event.bytes("buffers")) {
        (Some(free), Some(weights), Some(buffers)) => {
            format!(": of {}, the weights take {} and the buffers {}", size(free), size(weights), size(buffers))
        }
        _ => String::new(),
    };
    let text = format!("MLC's share of the GPU does not hold the weights, the buffers and a KV cache{numbers}");
    let steps = vec![
        Step::new("raise-share", "give the engine a larger share of the GPU", "0.85 is the default")
            .with("--overrides \"gpu_memory_utilization=0.95\""),
        shorter(
            "serve shorter requests, and prefill fewer tokens at once",
            "the KV cache and the buffers grow with them",
        )
        .with("--overrides \"context_window_size=4096;prefill_chunk_size=512\""),
        Step::new("less-weights", "load less of the model on each GPU", "twice as many GPUs halve the weights")
            .with("--overrides \"tensor_parallel_shards=2\", or a model of 4 bits"),
    ];
    (because(Cause::KvCache, text), steps)
}

fn exllama(found: &Found) -> (Diagnosis, Vec<Step>) {
    let text = "the model and its whole KV cache do not fit on the GPUs: ExLlama allocates both while it loads, and keeps memory for a \
                forward pass on each GPU";
    let [size, bits] = if found.surroundings.front_end == Some(FrontEnd::WebUi) {
        ["ctx-size: 16384", "cache-type: q8, or q4"]
    } else {
        ["max_seq_len and cache_size (TabbyAPI), -cs 16384", "cache_mode: Q8, or Q4 (TabbyAPI), -cq 8"]
    };
    let steps = vec![
        shorter("use a smaller cache", "it is allocated whole, whatever a request needs").with(size),
        Step::new("smaller-cache-type", "store the cache in 4 to 8 bits", "8 bits take half of the memory of 16")
            .with(bits),
        Step::new(
            "offload",
            "keep experts on the CPU, or use a smaller quantisation",
            "in a model with experts, most weights belong to them",
        )
        .with("cpu_moe_offload_layers (TabbyAPI, ExLlamaV3)"),
    ];
    (because(Cause::TooBig, text), steps)
}

fn ktransformers(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event.decimal("free").zip(event.decimal("weights")).map_or_else(String::new, |(free, weights)| {
        format!(": they take {:.1} GB, and the share is {:.1} GB", weights.value(), free.value())
    });
    let text = format!("the weights that KTransformers keeps on the GPUs are larger than its share of them{numbers}");
    let steps = vec![
        Step::new("offload", "keep more experts on the CPU", "the GPU then holds attention and shared experts alone")
            .with("--kt-num-gpu-experts 0, or a rule file that names fewer layers for cuda"),
        Step::new(
            "raise-share",
            "give the engine a larger share of the GPUs, or more GPUs",
            "the rest must hold the KV cache",
        )
        .with("gpu_memory_utilization"),
    ];
    (because(Cause::TooBig, text), steps)
}

/// More memory than a desktop has.
const BEYOND_DESKTOP_BYTES: u64 = 128 << 30;

fn lm_studio(event: &Event) -> (Diagnosis, Vec<Step>) {
    let needed = event.bytes("needed").map_or_else(String::new, |needed| format!(", {},", size(needed)));
    let text = format!(
        "LM Studio refused to load the model before it tried: its estimate of the memory{needed} is more than its guardrail allows"
    );
    let mut steps = vec![
        shorter(
            "load with a shorter context",
            "the KV cache for all of it is allocated at start, and is part of the estimate",
        )
        .with("lms load MODEL --context-length 8192"),
        Step::new(
            "smaller-model",
            "use a smaller model or quantisation, or unload others",
            "models that are loaded count",
        ),
        Step::new(
            "raise-limit",
            "relax the guardrail, if the estimate is too high",
            "a load that does not fit may freeze the machine",
        )
        .with("Settings, Hardware, Model loading guardrails"),
    ];
    if event.bytes("needed") >= Some(BEYOND_DESKTOP_BYTES) {
        // Hardly a machine with a window has so much.
        steps.retain(|step| step.id != "raise-limit");
    }
    (because(Cause::Limit, text), steps)
}
