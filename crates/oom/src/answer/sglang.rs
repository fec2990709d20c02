//! `SGLang`'s refusals and their causes.

use highwater_units::size;

use super::because;
use super::engines::missing_of_message;
use super::flags::{
    chunked_prefill, fewer_sequences, less_weights, lower_share, raise_share, share, smaller_cache_type, times,
    without_graphs,
};
use super::host::more_host_memory;
use crate::diagnosis::{Cause, Diagnosis};
use crate::engine::EngineLog;
use crate::known::Decimal;
use crate::log::{Event, Found, Group};
use crate::steps::Step;

/// The answer to a failure of `SGLang`.
pub(super) fn explain(event: &Event, log: &EngineLog, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    Some(match event.id {
        "sglang-pool" | "sglang-graphs" if is_between(found) => between(event, log, found),
        "sglang-pool" => pool(event, log),
        "sglang-graphs" => graphs(log, found),
        "sglang-request" => request(event, log),
        "sglang-prefill" | "sglang-decode" => batch(event, log, found),
        "sglang-slots" => slots(event),
        "sglang-leak" => leak(),
        "sglang-state" => state(event, log),
        "sglang-beside" => beside(event, log),
        "sglang-staging" => staging(),
        "sglang-vae" | "sglang-vae-tiled" => vae(event),
        "sglang-unbalanced" => unbalanced(),
        "sglang-host-cache" => host_cache(event),
        _ => return None,
    })
}

/// Shares that lie this far apart may have one between them that fits.
const FAR_APART: u64 = 30_000;

/// Whether the log has both failures: a pool without memory, and a full GPU beside the pool.
fn is_between(found: &Found) -> bool {
    let has = |id: &str| found.events.iter().any(|event| event.id == id);
    let is_full = |group: &Group| group.message.free_bytes < group.message.tried_bytes && !group.asked.loads();
    // A person names both shares, and the failure with one of them.
    let is_told = || {
        let shares = found.engine.as_ref().map_or(0, |log| log.shares_tried.len());
        shares > 1 && found.mention.as_ref().is_some_and(|mention| mention.text.contains("out of memory"))
    };
    has("sglang-pool") && (has("sglang-graphs") || found.groups.iter().any(is_full) || is_told())
}

/// One share is too small, and another too large.
fn between(event: &Event, log: &EngineLog, found: &Found) -> (Diagnosis, Vec<Step>) {
    let printed = log.printed();
    let shares = || log.shares_tried.iter().copied().chain(event.decimal("fraction"));
    let (low, high) = (shares().min(), shares().max());
    let numbers = found.groups.first().and_then(|group| Some((group.message.tried_bytes?, group.message.free_bytes?)));
    let numbers = numbers.map_or_else(String::new, |(tried, free)| {
        format!(": {} was requested, and {} was free", size(tried), size(free))
    });
    let apart = low.zip(high).filter(|(low, high)| low < high);
    let at =
        |of: Option<Decimal>| of.filter(|_| apart.is_some()).map_or_else(String::new, |of| format!(" ({})", share(of)));
    let text = format!(
        "two failures with opposite cures: with the smaller `mem_fraction_static`{} the weights fill the engine's share and the KV cache gets \
         nothing; with the larger one{} too little is left beside it for activations, CUDA graphs and other buffers{numbers}",
        at(low),
        at(high)
    );
    let middle = apart.filter(|(low, high)| high.millionths - low.millionths > FAR_APART).map(|(low, high)| {
        let middle = Decimal { millionths: u64::midpoint(low.millionths, high.millionths) };
        let detail = format!("{} is too small and {} too large", share(low), share(high));
        Step::new("between-shares", "try a share between the two", detail)
            .with(format!("--mem-fraction-static {}", share(middle)))
    });
    let less = Step::new(
        "less-beside-pool",
        "need less beside the pool, and keep the larger share: smaller and fewer CUDA graphs, and fewer tokens in one pass",
        "no share alone helps where the weights nearly fill the GPU; a draft model and its graphs lie there, too",
    );
    let less = less
        .with("--cuda-graph-max-bs 8 (or --disable-cuda-graph) --chunked-prefill-size 2048 --max-running-requests 16");
    let fewer = less_weights(log, &printed, missing_of_message(found));
    // What the text has changed without success is no first step.
    let is_tried = ["chunked-prefill-size", "max-running-requests", "cuda-graph-max-bs", "disable-cuda-graph"]
        .iter()
        .any(|name| found.command.names(name));
    let rest = if is_tried { [fewer, less] } else { [less, fewer] };
    let steps = middle.into_iter().chain(rest).collect();
    (because(Cause::EngineShare, text), steps)
}

/// A request beyond the pool.
fn request(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let (length, fits) = (event.number("length"), event.number("fits").or_else(|| event.number("context")));
    let of = length.map_or_else(String::new, |tokens| format!(" of {tokens} tokens"));
    let limit = fits.map_or_else(String::new, |tokens| format!(", {tokens} tokens"));
    let printed = log.printed();
    // A little of the pool is kept back for the answer.
    let is_pool = printed.kv_tokens.zip(fits).map(|(pool, fits)| fits.saturating_add(64) >= pool);
    let is_pool = if event.number("context").is_some() { Some(false) } else { is_pool };
    let which = match is_pool {
        Some(true) => "the size of the KV cache's pool",
        Some(false) if event.number("context").is_some() => "the model's context length",
        Some(false) => "the context length, because the KV cache's pool is larger",
        None => "the KV cache's pool or the context length, whichever is smaller",
    };
    let of_pool = is_pool != Some(false);
    let text = format!(
        "a request{of} is longer than the engine allows{limit}: the limit is {which}; the GPU is not full, and other requests go on"
    );
    let shorter =
        Step::new("shorter-context", "send a shorter prompt, or let the engine cut it", "other requests go on")
            .with("--allow-auto-truncate");
    let raise = if of_pool {
        raise_share(log, printed.free_before_bytes, None, None)
    } else {
        Some(
            Step::new("raise-limit", "raise the context length, if the model allows it", "it is a setting")
                .with("--context-length"),
        )
    };
    let smaller = of_pool.then(|| smaller_cache_type(log, None, None)).flatten();
    let cause = if of_pool { Cause::KvCache } else { Cause::Limit };
    (because(cause, text), [shorter].into_iter().chain(raise).chain(smaller).collect())
}

fn pool(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let mut printed = log.printed();
    // The line after the weights tells both where the one before them is missing.
    let before = printed.weights_bytes.zip(printed.free_after_weights_bytes).map(|(weights, after)| weights + after);
    printed.free_before_bytes = printed.free_before_bytes.or(before);
    let now = event.decimal("fraction").or(log.mem_fraction_static);
    let of = now.map_or_else(String::new, |now| format!(" (`mem_fraction_static` {})", share(now)));
    let room = match (printed.free_before_bytes, printed.weights_bytes, now) {
        (Some(free), Some(weights), Some(now)) => format!(
            ": of {} free before loading it may use {}, and the weights take {}",
            size(free),
            size(times(free, now.millionths, 1_000_000)),
            size(weights)
        ),
        _ => String::new(),
    };
    let missing = match (printed.free_before_bytes, printed.free_after_weights_bytes, now) {
        (Some(before), Some(after), Some(now)) => {
            let slack = times(before, 1_000_000_u64.saturating_sub(now.millionths), 1_000_000);
            Some(slack.saturating_sub(after)).filter(|&missing| missing > 0)
        }
        _ => None,
    };
    let text =
        format!("the weights alone fill the engine's share of the GPU{of}, so nothing is left for the KV cache{room}");
    let raise = raise_share(log, printed.free_before_bytes, now, missing).map(|step| match event.decimal("least") {
        // The engine has computed it; the KV cache needs more than nothing.
        Some(least) => {
            let to = (least.millionths / 10_000 + 3).min(99);
            let detail = format!("the engine reports that it loads with {} or more", share(least));
            Step { detail, ..step }.with(format!("--mem-fraction-static 0.{to:02}"))
        }
        None => step,
    });
    let steps = raise.into_iter().chain([less_weights(log, &printed, missing)]).collect();
    (because(Cause::KvCache, text), steps)
}

/// Caches beside the keys and values: states of linear attention, windows.
fn state(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let left = event.bytes("available").map_or_else(String::new, |left| format!(" ({})", size(left)));
    let text = format!("the per-request caches of windows or states take all of the memory for the KV cache{left}");
    let mut steps = vec![fewer_running("each has its own state, or its own window")];
    steps.extend(raise_share(log, log.printed().free_before_bytes, None, None));
    (because(Cause::KvCache, text), steps)
}

/// Buffers that live outside the fraction.
fn beside(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let (needed, free) = (event.bytes("needed"), event.bytes("free"));
    let numbers = needed
        .zip(free)
        .map_or_else(String::new, |(needed, free)| format!(": it needs {}, and {} is free", size(needed), size(free)));
    let text =
        format!("`mem_fraction_static` leaves too little of the GPU for a buffer that lives outside of it{numbers}");
    let missing = needed.zip(free).map(|(needed, free)| needed.saturating_sub(free)).filter(|&missing| missing > 0);
    let lower = lower_share(log, log.printed().free_before_bytes, missing);
    let smaller = needed.map(|_| {
        Step::new("smaller-pool", "make the pool for checkpoints of states smaller", "it has this many entries")
            .with("--int8-mamba-ckpt-size")
    });
    (because(Cause::EngineShare, text), [lower].into_iter().chain(smaller).collect())
}

/// Buffers between the servers that prefill and those that decode.
fn staging() -> (Diagnosis, Vec<Step>) {
    let text = "the pool in which a decoding server receives the KV cache of a prefill server is too small for a request; the GPU is not full";
    let raise = Step::new("raise-limit", "make the staging pool larger", "it has a fixed size, in MiB")
        .with("SGLANG_DISAGG_STAGING_POOL_SIZE_MB");
    let fewer = fewer_running("each has its part of the pool while it is transferred");
    (because(Cause::Limit, text), vec![raise, fewer])
}

/// A VAE that decodes images or videos.
fn vae(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = "the GPU was full when the VAE decoded the latents: its activations grow with the pixels and frames, and the transformer and the \
                text encoder, which have finished, still hold their weights";
    let tile =
        Step::new("tile-vae", "decode in tiles", "only one tile's activations exist at once").with("--vae-tiling");
    let offload = Step::new(
        "offload",
        "keep the finished components in the host's memory",
        "offloading the VAE itself moves its weights, not its activations",
    )
    .with("--cpu-offload-components dit,text_encoder");
    let shrink = Step::new("shrink", "lower the resolution or the number of frames", "the activations grow with both");
    let steps = (event.id == "sglang-vae").then_some(tile).into_iter().chain([offload, shrink]).collect();
    (because(Cause::TooBig, text), steps)
}

/// The second level of the cache, in the host's memory.
fn host_cache(event: &Event) -> (Diagnosis, Vec<Step>) {
    let (needed, free) = (event.bytes("needed"), event.bytes("free"));
    if let (Some(needed), None) = (needed, free) {
        let text = format!("the host had no memory to pin for the hierarchical cache's part of {}", size(needed));
        return (because(Cause::HostMemory, text), vec![smaller_host_cache(), more_host_memory()]);
    }
    let Some((needed, free)) = needed.zip(free) else {
        let text =
            "the hierarchical cache's part in host memory is smaller than the KV cache on the GPU, which it must hold";
        let larger = Step::new(
            "larger-host-cache",
            "make the host's part larger than the GPU's, or serve without it",
            "the ratio has to be above 1",
        )
        .with("--hicache-ratio 2, or no --enable-hierarchical-cache");
        return (because(Cause::Limit, text), vec![larger]);
    };
    let text = format!(
        "the hierarchical cache needs {} of the host's memory, and {} is free: this is the CPU's memory, not the GPU's",
        size(needed),
        size(free)
    );
    let missing = needed.saturating_sub(free);
    let smaller = smaller_host_cache().brings(missing, Some(missing));
    (because(Cause::HostMemory, text), vec![smaller, more_host_memory()])
}

fn smaller_host_cache() -> Step {
    Step::new(
        "smaller-host-cache",
        "make the host's part of the cache smaller, or serve without it",
        "each rank has one of its own, in GB or as a ratio to the KV cache on the GPU",
    )
    .with("--hicache-size 32, or a lower --hicache-ratio")
}

fn fewer_running(why: &str) -> Step {
    Step::new("fewer-requests", "run fewer requests at once, or shorter ones", why).with("--max-running-requests 32")
}

fn slots(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event
        .number("requests")
        .zip(event.number("open_slots"))
        .map_or_else(String::new, |(requests, open)| format!(" ({requests} requests, and slots for {open})"));
    let text =
        format!("more requests ran than the engine's table has slots for{numbers}: the table is full, not the GPU");
    (because(Cause::KvCache, text), vec![fewer_running("the table's size is fixed at start")])
}

/// What PyTorch's message has of the request, which may be cut behind it.
fn of_message(found: &Found) -> String {
    let Some(message) = found.groups.first().map(|group| &group.message) else { return String::new() };
    let device = message.device.map_or_else(String::new, |device| format!(" on GPU {device}"));
    let free = message.free_bytes.map_or_else(String::new, |free| format!(", and {} was free", size(free)));
    message.tried_bytes.map_or_else(String::new, |tried| format!("; it requested {}{device}{free}", size(tried)))
}

fn graphs(log: &EngineLog, found: &Found) -> (Diagnosis, Vec<Step>) {
    let printed = log.printed();
    let left = printed
        .free_after_pool_bytes
        .map_or_else(String::new, |left| format!(": {} was left beside the pool", size(left)));
    let text = format!(
        "the GPU was full when the engine captured CUDA graphs: they live outside `mem_fraction_static`, and the KV cache had taken too \
         much{left}{}",
        of_message(found)
    );
    let missing = missing_of_message(found);
    let mut steps = vec![lower_share(log, printed.free_before_bytes, missing), fewer_sequences(log, &printed, missing)];
    steps.extend(without_graphs(log, &printed, missing));
    (because(Cause::EngineShare, text), steps)
}

fn batch(event: &Event, log: &EngineLog, found: &Found) -> (Diagnosis, Vec<Step>) {
    if let Some((tokens, available)) = event.number("tokens").zip(event.number("available"))
        && available >= tokens
    {
        let text = format!(
            "the KV cache has {available} tokens to give, and could not give {tokens}: its pages, or another pool beside it (states of linear \
             attention, windows), were short; neither the cache nor the GPU is full"
        );
        let fewer = fewer_running("each takes whole pages, and its own state or window");
        let page = found.command.set("page-size").and_then(|flag| flag.value.as_deref()?.parse::<u64>().ok());
        if let Some(page) = page.filter(|&page| page > 1 && available / page < tokens) {
            let text = format!(
                "the KV cache has {available} tokens left, and could not give {tokens}: with pages of {page} tokens these are {} pages, and each \
                 running request may need a new one; the scheduler counted tokens, and the GPU is not full",
                available / page
            );
            let single = newer().with("pip install -U sglang; until then --page-size 1");
            return (because(Cause::KvCache, text), vec![single, fewer]);
        }
        return (because(Cause::KvCache, text), vec![newer(), chunked_prefill(log), fewer]);
    }
    if let Some(part) = found.surroundings.pool_use.filter(|part| part.millionths < HALF) {
        let text = format!(
            "the KV cache was not full, with {} % of it in use at the last reading, and its scheduler found no place for these tokens: its \
             bookkeeping is wrong, or other places are short (pages, states, windows)",
            part.millionths / 10_000
        );
        return (because(Cause::KvCache, text), vec![newer(), fewer_running("each takes places of its own")]);
    }
    let text = match event.id {
        "sglang-prefill" => "the KV cache has no room for the tokens of this prompt: the cache is full, not the GPU",
        _ => "the KV cache has no room for the next tokens of the running requests: the cache is full, not the GPU",
    };
    let printed = log.printed();
    let mut steps = Vec::new();
    steps.extend(raise_share(log, printed.free_before_bytes, None, None));
    steps.push(fewer_running("each keeps its tokens in the cache"));
    steps.push(chunked_prefill(log));
    (because(Cause::KvCache, text), steps)
}

/// Half of a pool, in millionths.
const HALF: u64 = 500_000;

fn newer() -> Step {
    Step::new(
        "newer-release",
        "use a newer SGLang: a request that fits should wait, not end the scheduler",
        "the scheduler's count of free tokens or pages was wrong",
    )
}

/// The scheduler's sums do not add up.
fn leak() -> (Diagnosis, Vec<Step>) {
    let text = "SGLang's scheduler counts fewer free tokens of its KV cache than there should be: an error of its bookkeeping, and neither the \
                cache nor the GPU is full";
    (because(Cause::NotMemory, text), vec![newer()])
}

fn unbalanced() -> (Diagnosis, Vec<Step>) {
    let text =
        "the GPUs of this engine do not have the same free memory at its start: another process uses some of them";
    let step = Step::new(
        "end-process",
        "find the process on the GPU with the least free memory, or start on GPUs that are free",
        "the engine sizes its pool by the smallest",
    )
    .with("nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv");
    (because(Cause::OtherProcess, text), vec![step])
}
