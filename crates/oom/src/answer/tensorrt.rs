//! `TensorRT`'s builder and runtime, and TensorRT-LLM.

use highwater_units::size;

use super::because;
use super::flags::less_weights;
use super::libraries::asked;
use crate::diagnosis::{Cause, Diagnosis};
use crate::engine::EngineLog;
use crate::log::{Event, Found};
use crate::steps::Step;

/// A part of TensorRT-LLM's executor beside the KV cache.
struct Part {
    /// The value of an event with the memory that was free for it.
    free: &'static str,
    name: &'static str,
    /// What it is sized by, as TensorRT-LLM itself advises.
    settings: &'static str,
}

const PARTS: [Part; 6] = [
    Part { free: "sampler_free", name: "the sampler", settings: "max_seq_len, max_attention_window" },
    Part { free: "drafter_free", name: "the drafter", settings: "max_seq_len, max_draft_len" },
    Part { free: "speculative_free", name: "speculative decoding", settings: "max_seq_len, max_batch_size" },
    Part { free: "trial_free", name: "the KV cache of its trial run", settings: "max_num_tokens" },
    Part { free: "tokens_free", name: "the buffers beside the model", settings: "max_num_tokens, max_batch_size" },
    Part { free: "free", name: "one of its components", settings: "max_batch_size, max_num_tokens, max_seq_len" },
];

/// The answer to a failure of `TensorRT` alone.
pub(super) fn explain(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    event.id.starts_with("tensorrt").then(|| of_builder(event, found))
}

/// The size of a workspace: releases up to 9 print whole MiB without their unit.
fn workspace(event: &Event) -> String {
    match event.number("raw") {
        Some(mebibytes) if event.id == "tensorrt-tactic" && mebibytes < 1 << 20 => {
            format!(" of {}", size(mebibytes << 20))
        }
        _ => asked(event),
    }
}

/// The answer to a failure while an engine is built, or runs.
pub(super) fn of_builder(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let has = |id: &str| found.events.iter().any(|event| event.id == id);
    if has("tensorrt-load") {
        return of_engine(event, found);
    }
    let shapes = Step::new(
        "shrink",
        "build for smaller shapes: a smaller largest batch, resolution or length in the optimization profile",
        "workspaces and activations are sized for the largest shape",
    );
    let scratch = event.id == "tensorrt-scratch";
    let is_llm = scratch || found.engine.as_ref().and_then(|log| log.engine) == Some("tensorrt-llm");
    let shapes =
        shapes.with(if is_llm { "max_batch_size, max_num_tokens, max_seq_len" } else { "trtexec --maxShapes=..." });
    if scratch {
        let text = format!(
            "a plugin of the network needs scratch memory{} for the largest shapes that the engine is built for{}",
            asked(event),
            event
                .bytes("left_raw")
                .map_or_else(String::new, |left| format!(", and the builder may use {}", size(left)))
        );
        let raise = Step::new(
            "larger-workspace",
            "raise the limit of the builder's workspace",
            "only where the GPU has more memory than the limit",
        )
        .with("IBuilderConfig::setMemoryPoolLimit(kWORKSPACE, ...)");
        return (because(Cause::TooBig, text), vec![shapes, raise]);
    }
    let is_without_tactic = has("tensorrt-node") && event.requested().is_some();
    // The error line behind a tactic that is only skipped says the same as one that ends the build.
    let (cause, text) = if has("tensorrt-tactic") && !has("tensorrt-node") {
        let text = format!(
            "TensorRT's builder had no memory for a tactic's workspace{}{} and skipped it: the build goes on with others, and the engine \
             may only be slower",
            workspace(event),
            event.bytes("free").map_or_else(String::new, |free| format!(", with {} available,", size(free)))
        );
        (Cause::Warning, text)
    } else {
        let text = format!(
            "TensorRT could not allocate memory{} on the GPU: while it builds, it tries tactics with their workspaces beside the network; \
             while it runs, each context has its own activations{}",
            asked(event),
            if is_without_tactic {
                "; no other tactic was left for a node of the network, so a smaller limit of the workspace does not help: the node has to \
                 become smaller"
            } else {
                ""
            }
        );
        (Cause::TooBig, text)
    };
    let workspace = Step::new(
        "smaller-workspace",
        "limit the builder's workspace to memory that is free",
        "tactics beyond the limit are not tried",
    )
    .with("IBuilderConfig::setMemoryPoolLimit(kWORKSPACE, 4 << 30), or trtexec --memPoolSize=workspace:4096");
    let first = if is_llm { [shapes, workspace] } else { [workspace, shapes] };
    // Nothing has failed yet.
    let wait = (cause == Cause::Warning).then(|| {
        Step::new(
            "let-it-finish",
            "let the build finish: nothing is wrong unless it ends with an error of its own",
            "TensorRT tries many tactics, and skips those whose workspace does not fit",
        )
    });
    let steps = wait
        .into_iter()
        .chain(first)
        // Without a tactic for a node the build ends, whatever the limit.
        .filter(|step| step.id != "smaller-workspace" || !is_without_tactic)
        .chain([Step::new(
            "free-gpu",
            "build while nothing else uses the GPU",
            "frameworks in the same process keep their caches",
        )
        .with("torch.cuda.empty_cache(), or TF_FORCE_GPU_ALLOW_GROWTH=true")])
        .collect();
    (because(cause, text), steps)
}

/// The answer to a failure while a built engine is loaded.
fn of_engine(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let failed = found.events.iter().find(|event| event.id == "tensorrt" && event.requested().is_some());
    let text = format!(
        "the GPU had no memory{} for a built TensorRT engine: its weights are allocated as a whole when it is loaded",
        asked(failed.unwrap_or(event))
    );
    let free = Step::new(
        "free-gpu",
        "load the engine before others, or release what is no longer needed",
        "frameworks in the same process keep their caches, and each engine has its own weights",
    )
    .with("torch.cuda.empty_cache(), or TF_FORCE_GPU_ALLOW_GROWTH=true");
    let stream = Step::new(
        "smaller-engine",
        "build the engine with smaller weights, or keep a part of them in the host's memory",
        "16 or 8 bits; TensorRT 10 can stream weights",
    )
    .with("trtexec --fp16, or --allowWeightStreaming --weightStreamingBudget=...");
    (because(Cause::TooBig, text), vec![free, super::engines::end_others(None, found), stream])
}

/// The answer to a failure of TensorRT-LLM.
pub(super) fn of_llm(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    match (event.id, event.bytes("model_free"), event.bytes("model_total")) {
        ("trtllm-cache", ..) => cache(log),
        (_, Some(free), Some(total)) => model(log, free, total),
        _ => executor(event, log),
    }
}

/// Its KV cache has less than one block for a sequence.
fn cache(log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let text = "TensorRT-LLM's KV cache has too few blocks for a single sequence: hardly any memory was left for it beside the weights and \
                buffers";
    let steps = vec![
        Step::new(
            "raise-share",
            "give the KV cache more of the memory that is free",
            "its blocks come out of that share",
        )
        .with("kv_cache_config.free_gpu_memory_fraction: 0.9"),
        Step::new(
            "lower-model-len",
            "allow shorter sequences, smaller batches and fewer beams",
            "buffers are sized for the largest, and beams multiply the blocks of a sequence",
        )
        .with("max_seq_len, max_batch_size, max_num_tokens, max_beam_width"),
        less_weights(log, &log.printed(), None),
    ];
    (because(Cause::KvCache, text), steps)
}

/// An engine that is built for so many sequences has large buffers, whatever it serves.
const LARGE_BATCH: u64 = 64;

/// The weights do not fit.
fn model(log: &EngineLog, free: u64, total: u64) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "the GPU had no memory for the model itself: {} of {} was free when TensorRT-LLM began to load it",
        size(free),
        size(total)
    );
    let steps = vec![
        less_weights(log, &log.printed(), None),
        Step::new("fewer-sequences", "allow fewer tokens at once", "buffers are sized for the largest batch")
            .with("max_num_tokens, max_batch_size"),
    ];
    (because(Cause::TooBig, text), steps)
}

fn executor(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let asked = event.requested().map_or_else(String::new, |bytes| format!(" for {}", size(bytes)));
    let of_total = event.bytes("kv_total").map_or_else(String::new, |total| format!(" of {}", size(total)));
    let model = event.bytes("before").zip(event.bytes("after")).filter(|(before, after)| before > after);
    let model = model.map_or_else(String::new, |(before, after)| format!("; the model takes {}", size(before - after)));
    let cache = event.bytes("kv_free").map_or_else(String::new, |free| {
        format!(
            "; when the KV cache was created, {}{of_total} was free: it takes a share of that, and needs buffers beside it{model}",
            size(free)
        )
    });
    let part = PARTS.iter().find_map(|part| Some((part, event.bytes(part.free)?)));
    let at = part.zip(event.bytes("total")).map_or_else(String::new, |((part, free), total)| {
        format!("; before it allocated {}, {} of {} was free", part.name, size(free), size(total))
    });
    let text = format!(
        "the GPU had no memory{asked} when TensorRT-LLM built its executor: weights, buffers and the KV cache do not fit \
         together{cache}{at}"
    );
    let fewer = |change: &str| {
        Step::new(
            "fewer-sequences",
            "build or run with a smaller batch and fewer tokens",
            match log.max_num_seqs {
                Some(batch) => {
                    format!("buffers are sized for the largest batch, {batch} here, when the engine is built")
                }
                None => "buffers are sized for the largest batch".to_owned(),
            },
        )
        .with(change)
    };
    let lower = Step::new(
        "lower-share",
        "give the KV cache a smaller share of the free memory",
        "it is a share of the memory that is free after the engine is loaded; activations need the rest",
    )
    .with("kv_cache_config.free_gpu_memory_fraction: 0.8");
    let steps = match part {
        Some((part, _)) => vec![fewer(part.settings), lower],
        // Its own buffers are allocated before there is a cache.
        None if event.text("engine").is_some() || log.max_num_seqs >= Some(LARGE_BATCH) => {
            vec![fewer("max_batch_size, max_num_tokens, max_seq_len"), lower]
        }
        None => vec![lower, fewer("max_batch_size, max_num_tokens, max_seq_len")],
    };
    (because(Cause::EngineShare, text), steps)
}
