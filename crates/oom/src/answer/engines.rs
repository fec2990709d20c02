//! What engines that serve models refuse, and why.

use highwater_units::{counted, size};

use super::flags::{
    after_start, chunked_prefill, fewer_sequences, less_weights, lower_share, raise_share, shares, smaller_cache_type,
    times, total, without_graphs,
};
use super::{because, llama, tensorrt};
use crate::diagnosis::{Cause, Diagnosis};
use crate::engine::EngineLog;
use crate::log::{Event, Found};
use crate::situation::Situation;
use crate::steps::Step;

/// The answer to a failure of an engine.
pub(super) fn explain(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    let mut log = found.engine.clone().unwrap_or_default();
    let of_id = event.id.split('-').next().unwrap_or_default();
    log.engine = Some(match of_id {
        "vllm" => "vllm",
        "sglang" => "sglang",
        "tgi" => "tgi",
        "trtllm" => "tensorrt-llm",
        "llama" | "ollama" => return Some(llama::explain(event, log, found)),
        _ => return None,
    });
    let (mut diagnosis, mut steps) = match event.id {
        "vllm-no-blocks" | "vllm-autofit" => no_blocks(&log),
        "vllm-kv-too-small" | "vllm-seq-len" => too_long(event, &log),
        "vllm-blocks" => free_blocks(event, &log),
        "vllm-free-memory" => free_memory(event, &log, found),
        "vllm-sampler" | "vllm-pooler" => sampler(event, &log, found),
        "vllm-load" | "tgi-load" => load(&log),
        "vllm-external-weights" => external_weights(event, &log),
        "vllm-cpu-memory" => cpu_memory(event),
        "vllm-swap" => swap_space(),
        "vllm-profiling" => profiling(event),
        "vllm-cpu-reserved" => cpu_reserved(event),
        "vllm-sleep" => sleep(),
        "vllm-profile-run" => profile_run(event, &log),
        "vllm-states" => states(event, &log),
        "vllm-decode-pool" => decode_pool(event, &log),
        "vllm-decode-limit" => decode_limit(event),
        "vllm-encoder-cache" => encoder_cache(event),
        "vllm-cumem" => cumem(&log),
        "vllm-expandable" => expandable(),
        "sglang-pool" => sglang_pool(event, &log),
        "sglang-graphs" => sglang_graphs(&log, found),
        "sglang-prefill" | "sglang-decode" => sglang_batch(event, &log),
        "sglang-slots" => sglang_slots(),
        "sglang-state" => sglang_state(event, &log),
        "sglang-beside" => sglang_beside(event, &log),
        "sglang-staging" => sglang_staging(),
        "sglang-vae" | "sglang-vae-tiled" => sglang_vae(event),
        "sglang-unbalanced" => unbalanced(),
        "sglang-host-cache" => sglang_host_cache(event),
        "tgi-prefill" | "tgi-total" => tgi(event, &log),
        _ => tensorrt::of_llm(event, &log),
    };
    let is_name = |setting: &&str| setting.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    if let Some(setting) = event.text("setting").filter(is_name) {
        in_host_memory(setting, event, &mut diagnosis, &mut steps);
    }
    diagnosis.notes.extend(shares(&log));
    diagnosis.notes.extend(sleeps(&log));
    Some((diagnosis, steps))
}

/// A KV cache in the host's memory has a size of its own, not a share of a GPU.
fn in_host_memory(setting: &str, event: &Event, diagnosis: &mut Diagnosis, steps: &mut Vec<Step>) {
    if event.id == "vllm-no-blocks" {
        "the memory for the KV cache is too small for a single block".clone_into(&mut diagnosis.text);
        steps.clear();
    }
    steps.retain(|step| step.id == "shorter-context");
    let larger = Step::new(
        "raise-share",
        format!("give the KV cache more of the host's memory: `VLLM_{setting}`, in GiB"),
        "the weights need memory besides",
    );
    steps.push(larger.with(format!("VLLM_{setting}")));
}

fn no_blocks(log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let printed = log.printed();
    let deficit = printed.kv_cache_bytes.filter(|&bytes| bytes <= 0).map(i64::unsigned_abs);
    let over = match deficit {
        Some(deficit) if deficit > 0 => format!(" by {}", size(deficit)),
        _ => String::new(),
    };
    let text = format!(
        "weights, activations and memory outside PyTorch exceed the engine's share of the GPU{over}, so nothing is left for the KV cache"
    );
    let mut steps = Vec::new();
    steps.extend(raise_share(log, total(log, &printed), None, deficit));
    steps.push(fewer_sequences(log, &printed, deficit));
    steps.push(less_weights(log, &printed, deficit));
    // Only since 0.21 are they in the share.
    if printed.graph_estimate_bytes.is_some() {
        steps.extend(without_graphs(log, &printed, deficit));
    }
    (because(Cause::KvCache, text), steps)
}

/// The scheduler let a request in for which there was no block.
fn free_blocks(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let printed = log.printed();
    let blocks = event.number("blocks").map_or_else(String::new, |blocks| format!(": {blocks} were needed"));
    let text = format!(
        "the KV cache had no free block for a request that the scheduler had let in{blocks}; the GPU itself is not full, and several \
         releases counted blocks wrongly (sliding windows, other caches in the same pool)"
    );
    let newer = Step::new("record", "use a newer release of vLLM", "the scheduler should wait instead of failing");
    let mut steps = vec![fewer_sequences(log, &printed, None)];
    steps.extend(raise_share(log, total(log, &printed), None, None));
    steps.push(newer);
    (because(Cause::KvCache, text), steps)
}

fn too_long(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let printed = log.printed();
    let wanted = event.number("max_model_len").or(log.max_model_len);
    let of = wanted.map_or_else(String::new, |tokens| format!(" of {tokens} tokens"));
    let (needed, available) = (event.bytes("needed"), event.bytes("available"));
    let missing = needed.zip(available).map(|(needed, available)| needed.saturating_sub(available));
    let tokens = event.number("tokens");
    // Where the release does not say how much fits, a model without windows fits in proportion.
    let in_proportion = || Some(times(wanted?, available?, needed?));
    let fits = event.number("fits").or(tokens).or_else(in_proportion).filter(|&fits| fits > 0);
    let text = match (needed, available, tokens) {
        (Some(needed), Some(available), _) => format!(
            "the KV cache is too small for one request{of}: that needs {}, and {} is left for the cache",
            size(needed),
            size(available)
        ),
        (.., Some(tokens)) => format!("the KV cache is too small for one request{of}: it holds {tokens} tokens"),
        _ => format!("the KV cache is too small for one request{of}"),
    };
    let title = "serve shorter requests: `max_model_len`";
    let mut shorter = match fits {
        Some(fits) => {
            let estimate = if event.number("fits").is_some() {
                "the engine estimates"
            } else if tokens.is_some() {
                "the engine says"
            } else {
                "in proportion"
            };
            Step::new("shorter-context", title, format!("{estimate} that {fits} tokens fit"))
                .with(format!("--max-model-len {}", fits / 16 * 16))
        }
        None => Step::new("shorter-context", title, "the cache grows with it").with("--max-model-len"),
    };
    if let Some(missing) = missing.filter(|_| fits.is_some()) {
        shorter = shorter.brings(missing, Some(missing));
    }
    let mut steps = vec![shorter];
    steps.extend(smaller_cache_type(log, needed, missing));
    steps.extend(raise_share(log, total(log, &printed), None, missing));
    // A cache of a given size does not grow by the memory that others leave.
    if log.kv_cache_setting_bytes.is_none() {
        steps.push(fewer_sequences(log, &printed, missing));
        steps.push(less_weights(log, &printed, missing));
    }
    (because(Cause::KvCache, text), steps)
}

fn free_memory(event: &Event, log: &EngineLog, found: &Found) -> (Diagnosis, Vec<Step>) {
    let (free, total, wanted) = (event.bytes("free"), event.bytes("total"), event.bytes("requested"));
    let (Some(free), Some(total), Some(wanted)) = (free, total, wanted) else {
        return (
            because(Cause::OtherProcess, "less of the GPU is free than the engine's share"),
            vec![end_others(None, found)],
        );
    };
    let (missing, used) = (wanted.saturating_sub(free), total.saturating_sub(free));
    let now = event.decimal("utilization").or(log.utilization);
    let of = now.map_or_else(String::new, |of| format!(" ({} of {})", super::flags::share(of), size(total)));
    let text = format!(
        "the engine's share is {}{of}, and only {} was free at its start: something else already held {} of the GPU, \
         such as another \
         process, an earlier run that has not ended, or NCCL and contexts of other ranks",
        size(wanted),
        size(free),
        size(used)
    );
    // A hundredth less than what is free.
    let fits = times(free, 100, total.max(1)).saturating_sub(1);
    let lower = Step::new(
        "lower-share",
        "request no more than is free: lower `gpu_memory_utilization`",
        format!("{} is {fits} % of the GPU; weights and the KV cache must fit in that", size(free)),
    )
    .with(format!("--gpu-memory-utilization 0.{fits:02}"));
    (
        because(Cause::OtherProcess, text),
        vec![end_others(Some((used, missing)), found), lower.brings(missing, Some(missing))],
    )
}

/// To end what else uses the GPU.
pub(super) fn end_others(brings: Option<(u64, u64)>, found: &Found) -> Step {
    let listed: Vec<String> = found
        .processes
        .iter()
        .take(4)
        .map(|process| format!("process {} has {}", process.pid, size(process.bytes)))
        .collect();
    let detail = if listed.is_empty() {
        "an earlier run may still be alive without a window or a terminal".to_owned()
    } else {
        format!("the log's nvidia-smi lists: {}", listed.join(", "))
    };
    let step = Step::new("end-process", "end the other processes on the GPU that are not needed", detail)
        .with("nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv");
    match brings {
        Some((bytes, missing)) => step.brings(bytes, Some(missing)),
        None => step,
    }
}

fn sampler(event: &Event, log: &EngineLog, found: &Found) -> (Diagnosis, Vec<Step>) {
    let printed = log.printed();
    let requests = event.number("requests").or(log.max_num_seqs);
    let number = requests.map_or_else(|| "all".to_owned(), |requests| requests.to_string());
    let missing = missing_of_message(found);
    let what = if event.id == "vllm-pooler" { "pooler" } else { "sampler" };
    let text = format!(
        "the GPU was full when the engine tried its {what} with {number} requests (`max_num_seqs`) after it had allocated the KV cache: \
         the {what}'s buffers live outside the cache, and too little was left for them"
    );
    let log = EngineLog { max_num_seqs: requests, ..log.clone() };
    let mut fewer = fewer_sequences(&log, &printed, missing);
    // The sampler is all that failed: with a quarter of the requests it takes a quarter.
    fewer.is_enough = None;
    let capacity = found.groups.first().and_then(|group| group.message.capacity_bytes);
    (because(Cause::EngineShare, text), vec![fewer, lower_share(&log, total(&log, &printed).or(capacity), missing)])
}

/// That an engine's pool leaves too little beside it, where PyTorch's message alone says that memory is short; `None`
/// where the pool is not allocated yet, or something else is the cause.
pub(super) fn beside_pool(situation: &Situation, cause: Cause, log: &EngineLog) -> Option<String> {
    let printed = log.printed();
    let has_pool = printed.kv_tokens.is_some() || printed.kv_cache_bytes.is_some_and(|bytes| bytes > 0);
    if !has_pool || !matches!(cause, Cause::TooBig | Cause::Unknown | Cause::OutsidePyTorch) {
        return None;
    }
    let (tried, free) = (situation.tried_bytes?, situation.free_bytes?);
    let of = log.utilization.or(log.mem_fraction_static);
    let of = of.map_or_else(String::new, |of| format!(", at a share of {}", super::flags::share(of)));
    let pool = printed.kv_cache_bytes.and_then(|bytes| u64::try_from(bytes).ok());
    let pool = pool.map_or_else(String::new, |bytes| format!(" of {}", size(bytes)));
    Some(format!(
        "the engine's KV cache{pool}{of} leaves too little for what it allocates later (CUDA graphs, activations, NCCL): it requested {}, \
         and {} was free",
        size(tried),
        size(free)
    ))
}

/// What the first message of PyTorch lacks.
fn missing_of_message(found: &Found) -> Option<u64> {
    let message = &found.groups.first()?.message;
    Some(message.tried_bytes?.saturating_sub(message.free_bytes?)).filter(|&bytes| bytes > 0)
}

fn profiling(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = match (event.bytes("before"), event.bytes("after")) {
        (Some(before), Some(after)) => format!(": {} was free before and {} after it", size(before), size(after)),
        _ => String::new(),
    };
    let text = format!(
        "another process released memory of this GPU while the engine measured its own{numbers}, so its measurement is useless"
    );
    let step = Step::new(
        "start-alone",
        "start the engine when nothing else on this GPU starts or ends, one engine after the other",
        "the engine takes the difference of free memory for its own use",
    );
    (because(Cause::OtherProcess, text), vec![step])
}

fn load(log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let share = if log.engine == Some("vllm") { " (`gpu_memory_utilization`)" } else { "" };
    let text = format!(
        "the weights do not fit on the GPU: the engine was still loading them, so no share of the GPU{share} helps"
    );
    (because(Cause::TooBig, text), super::flags::while_loading(log, None))
}

fn external_weights(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let held = event.bytes("held").map_or_else(String::new, |held| format!(", {},", size(held)));
    let text =
        format!("the weights{held} that another process holds for this engine exceed the engine's share of the GPU");
    let missing = event.bytes("held").zip(event.bytes("requested")).map(|(held, share)| held.saturating_sub(share));
    let steps = raise_share(log, event.bytes("total"), event.decimal("utilization"), missing).into_iter();
    (because(Cause::EngineShare, text), steps.chain([less_weights(log, &log.printed(), missing)]).collect())
}

/// vLLM on the CPU, whose share is one of the host's memory.
fn cpu_memory(event: &Event) -> (Diagnosis, Vec<Step>) {
    let (free, wanted) = (event.bytes("free"), event.bytes("requested"));
    let numbers = free.zip(wanted).map_or_else(String::new, |(free, wanted)| {
        format!(": the share is {}, and {} is available", size(wanted), size(free))
    });
    let text = format!("vLLM runs on the CPU, and the host has less memory than its share{numbers}");
    let lower = Step::new(
        "lower-share",
        "request no more than is available: lower `gpu_memory_utilization`, which on the CPU is a share of the host's memory",
        "the weights and the KV cache must fit in it",
    )
    .with("--gpu-memory-utilization 0.5, or VLLM_CPU_KVCACHE_SPACE=4");
    let missing = free.zip(wanted).map(|(free, wanted)| wanted.saturating_sub(free));
    let lower = match missing {
        Some(missing) => lower.brings(missing, Some(missing)),
        None => lower,
    };
    (because(Cause::HostMemory, text), vec![lower])
}

/// vLLM on the CPU, whose weights fill its share.
fn cpu_reserved(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event.bytes("used").zip(event.bytes("requested"));
    let numbers = numbers.map_or_else(String::new, |(used, share)| {
        format!(": they use {}, and the share is {}", size(used), size(share))
    });
    let text = format!(
        "vLLM runs on the CPU, and the weights and the runtime fill its share of the host's memory, so nothing is left for the KV \
         cache{numbers}"
    );
    let raise = Step::new(
        "raise-share",
        "give the engine a larger share of the host's memory: `gpu_memory_utilization`, which on the CPU is a share of that",
        "the system and other programs need the rest",
    )
    .with("--gpu-memory-utilization 0.8");
    (because(Cause::KvCache, text), vec![raise, super::host::more_host_memory()])
}

fn sleep() -> (Diagnosis, Vec<Step>) {
    let text = "less of the GPU was free after the engine had gone to sleep than before: another process allocated memory in the meantime, \
                so the engine's check failed";
    let step = Step::new(
        "start-alone",
        "put the engine to sleep while nothing else on this GPU allocates",
        "the engine compares the free memory of the whole GPU",
    );
    (because(Cause::OtherProcess, text), vec![step])
}

/// The trial at the start needs more than there is.
fn profile_run(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let needed = event.bytes("needed").map_or_else(String::new, |needed| format!(": it needs {}", size(needed)));
    let text =
        format!("the weights and the activations of the engine's trial at its start do not fit on the GPU{needed}");
    let printed = log.printed();
    let steps = vec![
        super::flags::batched_tokens(log),
        fewer_sequences(log, &printed, None),
        less_weights(log, &printed, None),
    ];
    (because(Cause::TooBig, text), steps)
}

/// Each running sequence has a state of its own.
fn states(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let blocks = event.number("blocks");
    let numbers = event.number("requests").zip(blocks);
    let numbers = numbers.map_or_else(String::new, |(requests, blocks)| {
        format!(": there are {blocks} for {requests} sequences (`max_num_seqs`)")
    });
    let text =
        format!("the cache has fewer states of linear attention than the engine serves sequences at once{numbers}");
    let printed = log.printed();
    let fewer = fewer_sequences(log, &printed, None);
    let fewer = match blocks.filter(|&blocks| blocks > 0) {
        Some(blocks) => fewer.with(format!("--max-num-seqs {blocks}")),
        None => fewer,
    };
    let raise = raise_share(log, total(log, &printed), None, None);
    (because(Cause::KvCache, text), [fewer].into_iter().chain(raise).collect())
}

/// Images and videos are decoded on the GPU that serves the model.
fn decode_pool(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let (reserved, available) = (event.bytes("reserved"), event.bytes("available"));
    let numbers = reserved.zip(available).map_or_else(String::new, |(reserved, available)| {
        format!(": it reserves {}, and {} is left for the KV cache", size(reserved), size(available))
    });
    let text = format!("decoding of images and videos on the GPU takes all of the memory for the KV cache{numbers}");
    let smaller = Step::new(
        "smaller-share",
        "reserve less for decoding, or decode on the CPU",
        "raw frames and the decoders' caches share the GPU with the KV cache",
    )
    .with("--mm-ipc-gpu-memory-gb 1");
    let raise = raise_share(log, total(log, &log.printed()), None, None);
    (because(Cause::KvCache, text), [smaller].into_iter().chain(raise).collect())
}

/// A bound on the memory that one input may take once it is decoded.
fn decode_limit(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event.bytes("raw").zip(event.bytes("limit_raw"));
    let numbers =
        numbers.map_or_else(String::new, |(asked, limit)| format!(": it needs {} of {}", size(asked), size(limit)));
    let text = format!(
        "a decoded image, video, audio or tensor of a request is larger than the engine's limit for one{numbers}; no memory is full"
    );
    let shrink = Step::new(
        "shrink",
        "send a smaller input: a shorter recording, fewer or smaller frames",
        "the limit bounds the memory that one request can take",
    );
    let raise = Step::new(
        "raise-limit",
        "raise the limit, if there is memory for it",
        "the message names the \
         setting",
    );
    let raise = raise.with("--mm-ipc-gpu-memory-gb, VLLM_MAX_AUDIO_DECODE_BYTES or VLLM_MAX_EMBED_DECODE_BYTES");
    (because(Cause::Limit, text), vec![raise, shrink])
}

fn encoder_cache(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event.number("tokens").zip(event.number("limit"));
    let numbers =
        numbers.map_or_else(String::new, |(tokens, limit)| format!(": {tokens} tokens, and the cache has {limit}"));
    let text = format!("one image, video or recording has more tokens than the encoder's cache holds{numbers}");
    let larger = Step::new(
        "raise-limit",
        "compute more tokens in one pass: the encoder's cache holds that many, or as many as the largest input needs",
        "it is allocated at start",
    )
    .with("--max-num-batched-tokens, --limit-mm-per-prompt");
    let smaller = Step::new(
        "shrink",
        "send a smaller image or a shorter video",
        "the number of tokens grows with \
         its pixels",
    );
    (because(Cause::Limit, text), vec![larger, smaller])
}

fn swap_space() -> (Diagnosis, Vec<Step>) {
    let text = "the swap space of all GPUs, which is host memory, exceeds 70 % of it";
    let step = Step::new("smaller-share", "reserve less of the host's memory", "vLLM 0.8 or newer does not use it")
        .with("--swap-space 0");
    (because(Cause::HostMemory, text), vec![step])
}

fn cumem(log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let text = "the driver had no memory for the engine's pool (cumem, sleep mode): when it wakes up it takes the memory of weights and KV \
                cache again, and something has taken that in the meantime: the trainer, its cache, or another process";
    let printed = log.printed();
    let steps = vec![
        Step::new(
            "release-trainer",
            "release the trainer's memory before the engine wakes up: offload parameters and optimizer, and empty PyTorch's cache",
            "cached memory of PyTorch counts as used for the engine",
        )
        .with("torch.cuda.empty_cache()"),
        lower_share(log, total(log, &printed), None),
        Step::new(
            "wake-in-parts",
            "wake up in two steps: the weights first, the KV cache after they are updated",
            "the cache then need not fit beside both copies of the weights",
        )
        .with("wake_up(tags=[\"weights\"]), then wake_up(tags=[\"kv_cache\"])"),
    ];
    (because(Cause::EngineShare, text), steps)
}

fn expandable() -> (Diagnosis, Vec<Step>) {
    let text = "the engine's sleep mode has its own memory pools, which do not work with expandable segments, so it refuses to start";
    let step = Step::new(
        "drop-expandable-segments",
        "turn expandable segments off for the engine's process",
        "they are set in the environment",
    )
    .with("unset PYTORCH_CUDA_ALLOC_CONF");
    (because(Cause::EngineShare, text), vec![step])
}

/// A rest that grows with each sleep.
pub(super) fn sleeps(log: &EngineLog) -> Option<String> {
    let rest = log.ranks.iter().map(|rank| &rank.sleep_in_use_bytes).max_by_key(|rest| rest.len())?;
    let (first, last) = (*rest.first()?, *rest.last()?);
    (rest.len() > 1 && last > first + first / 10).then(|| {
        format!(
            "after {} the memory still in use grew from {} to {}: something keeps memory that was allocated between them",
            counted(rest.len(), "sleep", "sleeps"),
            size(first),
            size(last)
        )
    })
}

fn sglang_pool(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let printed = log.printed();
    let now = event.decimal("fraction").or(log.mem_fraction_static);
    let of = now.map_or_else(String::new, |now| format!(" (`mem_fraction_static` {})", super::flags::share(now)));
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
            let detail = format!("the engine reports that it loads with {} or more", super::flags::share(least));
            Step { detail, ..step }.with(format!("--mem-fraction-static 0.{to:02}"))
        }
        None => step,
    });
    let steps = raise.into_iter().chain([less_weights(log, &printed, missing)]).collect();
    (because(Cause::KvCache, text), steps)
}

/// Caches beside the keys and values: states of linear attention, windows.
fn sglang_state(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let left = event.bytes("available").map_or_else(String::new, |left| format!(" ({})", size(left)));
    let text = format!("the per-request caches of windows or states take all of the memory for the KV cache{left}");
    let mut steps = vec![fewer_running("each has its own state, or its own window")];
    steps.extend(raise_share(log, log.printed().free_before_bytes, None, None));
    (because(Cause::KvCache, text), steps)
}

/// Buffers that live outside the fraction.
fn sglang_beside(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
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
fn sglang_staging() -> (Diagnosis, Vec<Step>) {
    let text = "the pool in which a decoding server receives the KV cache of a prefill server is too small for a request; the GPU is not full";
    let raise = Step::new("raise-limit", "make the staging pool larger", "it has a fixed size, in MiB")
        .with("SGLANG_DISAGG_STAGING_POOL_SIZE_MB");
    let fewer = fewer_running("each has its part of the pool while it is transferred");
    (because(Cause::Limit, text), vec![raise, fewer])
}

/// `SGLang` that makes images or videos.
fn sglang_vae(event: &Event) -> (Diagnosis, Vec<Step>) {
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
fn sglang_host_cache(event: &Event) -> (Diagnosis, Vec<Step>) {
    let (needed, free) = (event.bytes("needed"), event.bytes("free"));
    if let (Some(needed), None) = (needed, free) {
        let text = format!("the host had no memory to pin for the hierarchical cache's part of {}", size(needed));
        return (because(Cause::HostMemory, text), vec![smaller_host_cache(), super::host::more_host_memory()]);
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
    (because(Cause::HostMemory, text), vec![smaller, super::host::more_host_memory()])
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

fn sglang_slots() -> (Diagnosis, Vec<Step>) {
    let text = "more requests ran than the engine's table has slots for: the table is full, not the GPU";
    (because(Cause::KvCache, text), vec![fewer_running("the table's size is fixed at start")])
}

fn sglang_graphs(log: &EngineLog, found: &Found) -> (Diagnosis, Vec<Step>) {
    let printed = log.printed();
    let left = printed
        .free_after_pool_bytes
        .map_or_else(String::new, |left| format!(": {} was left beside the pool", size(left)));
    let text = format!(
        "the GPU was full when the engine captured CUDA graphs: they live outside `mem_fraction_static`, and the KV cache had taken too \
         much{left}"
    );
    let missing = missing_of_message(found);
    let mut steps = vec![lower_share(log, printed.free_before_bytes, missing), fewer_sequences(log, &printed, missing)];
    steps.extend(without_graphs(log, &printed, missing));
    (because(Cause::EngineShare, text), steps)
}

fn sglang_batch(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
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

fn tgi(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let tokens = event.number("tokens").map_or_else(|| "all".to_owned(), |tokens| tokens.to_string());
    if event.id == "tgi-total" {
        let text = format!(
            "the KV cache that fits beside the weights and the warm-up holds fewer than the {tokens} tokens of one \
             request"
        );
        let shorter = Step::new("shorter-context", "serve shorter requests", "the cache must hold one request in full")
            .with("--max-total-tokens 4096");
        let mut steps = vec![shorter];
        steps.extend(after_start(log, None, None));
        return (because(Cause::KvCache, text), steps);
    }
    let text = format!(
        "the GPU cannot hold the warm-up's {tokens} prefill tokens beside the weights, so no KV cache could be allocated"
    );
    (because(Cause::KvCache, text), after_start(log, None, None))
}
