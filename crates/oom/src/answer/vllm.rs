//! vLLM's refusals and their causes.

use highwater_units::size;

use super::because;
use super::engines::{end_others, load, missing_of_message};
use super::flags::{
    VLLM_SHARE, fewer_sequences, less_weights, lower_share, raise_share, share, smaller_cache_type, times, total,
    without_graphs,
};
use crate::diagnosis::{Cause, Diagnosis};
use crate::engine::EngineLog;
use crate::log::{Event, Found};
use crate::situation::Situation;
use crate::steps::Step;

/// A share of fewer hundredths of a GPU holds no model.
const LEAST_SHARE: u64 = 10;

/// The answer to a failure of vLLM.
pub(super) fn explain(event: &Event, log: &EngineLog, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    let (mut diagnosis, mut steps) = match event.id {
        "vllm-no-blocks" | "vllm-autofit" => no_blocks(log),
        "vllm-kv-too-small" | "vllm-seq-len" => too_long(event, log),
        "vllm-blocks" => free_blocks(event, log),
        "vllm-request" => request(event, log),
        "vllm-free-memory" => free_memory(event, log, found),
        "vllm-sampler" | "vllm-pooler" => sampler(event, log, found),
        "vllm-load" => load(log),
        "vllm-external-weights" => external_weights(event, log),
        "vllm-cpu-memory" => cpu_memory(event),
        "vllm-swap" => swap_space(),
        "vllm-pinned" => pinned(),
        "vllm-profiling" => profiling(event),
        "vllm-cpu-reserved" => cpu_reserved(event),
        "vllm-sleep" => sleep(),
        "vllm-profile-run" => profile_run(event, log),
        "vllm-states" => states(event, log),
        "vllm-decode-pool" => decode_pool(event, log),
        "vllm-decode-limit" => decode_limit(event),
        "vllm-encoder-cache" => encoder_cache(event),
        "vllm-cumem" => cumem(log, found),
        "vllm-expandable" => expandable(),
        _ => return None,
    };
    let is_name = |setting: &&str| setting.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    if let Some(setting) = event.text("setting").filter(is_name) {
        in_host_memory(setting, event, &mut diagnosis, &mut steps);
    }
    Some((diagnosis, steps))
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

/// The second model runner keeps its tables in pinned memory, which the first one does not.
fn pinned() -> (Diagnosis, Vec<Step>) {
    let text = "vLLM's model runner needs pinned memory of the host that the GPU reads itself (UVA), and it is off: under WSL \
                vLLM pins memory only where it is told to; neither memory is full";
    let steps = vec![
        Step::new(
            "raise-limit",
            "let vLLM pin memory under WSL",
            "off by default there, because each tensor costs some time",
        )
        .with("VLLM_WSL2_ENABLE_PIN_MEMORY=1"),
        Step::new(
            "other-runner",
            "use the first model runner, which needs no pinned memory",
            "as long as a release has it",
        )
        .with("VLLM_USE_V2_MODEL_RUNNER=0"),
    ];
    (because(Cause::Limit, text), steps)
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

/// A prompt that no number of free blocks can hold.
fn request(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let printed = log.printed();
    let of = event.number("length").map_or_else(String::new, |tokens| format!(" of {tokens} tokens"));
    if let Some(limit) = event.number("limit") {
        let text = format!(
            "the engine refused a prompt{of}: its own limit of {limit} tokens is smaller (`max_model_len`, or `max_num_batched_tokens` without \
             chunked prefill); the GPU is not full"
        );
        let shorter = Step::new("shorter-context", "send a shorter prompt", "other requests go on");
        let raise = Step::new("raise-limit", "raise the limit, if the KV cache has room for it", "it is a setting");
        return (because(Cause::Limit, text), vec![shorter, raise.with("--max-model-len, --max-num-batched-tokens")]);
    }
    let tokens = printed
        .kv_tokens
        .or_else(|| printed.gpu_blocks.map(|blocks| blocks.saturating_mul(printed.block_size.unwrap_or(16))));
    let holds = tokens.map_or_else(String::new, |tokens| format!(", which holds {tokens} tokens"));
    let text = format!(
        "a prompt{of} is longer than the whole KV cache{holds}: the engine refused it, and it would not fit in an empty cache either"
    );
    let shorter = Step::new(
        "shorter-context",
        "send a shorter prompt, or bound requests by `max_model_len`",
        "the cache has to hold one request in full",
    );
    let shorter =
        shorter.with(tokens.map_or_else(|| "--max-model-len".to_owned(), |tokens| format!("--max-model-len {tokens}")));
    let mut steps = vec![shorter];
    steps.extend(raise_share(log, total(log, &printed), None, None));
    steps.extend(smaller_cache_type(log, None, None));
    steps.push(less_weights(log, &printed, None));
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
    let of = now.map_or_else(String::new, |of| format!(" ({} of {})", share(of), size(total)));
    let stages = found.surroundings.stages.count_ones();
    let who = if stages > 1 {
        format!("most likely another of this program's own {stages} stages, whose lines are in the log")
    } else {
        "such as another process, an earlier run that has not ended, or NCCL and contexts of other ranks".to_owned()
    };
    let text = format!(
        "the engine's share is {}{of}, and only {} was free at its start: something else already held {} of the GPU, {who}",
        size(wanted),
        size(free),
        size(used)
    );
    // One percentage point below the free share of the GPU.
    let part = times(free, 100, total.max(1));
    let fits = part.saturating_sub(1);
    let lower = Step::new(
        "lower-share",
        "request no more than is free: lower `gpu_memory_utilization`",
        format!("{} is {part} % of the GPU; weights and the KV cache must fit in that", size(free)),
    )
    .with(format!("--gpu-memory-utilization 0.{fits:02}"));
    let others = end_others(Some((used, missing)), found);
    let others = Step {
        detail: format!(
            "{}; workers of an earlier server (`VLLM::EngineCore`, `VLLM::Worker`) may outlive it",
            others.detail
        ),
        ..others
    };
    let mut steps = vec![others];
    if fits >= LEAST_SHARE {
        steps.push(lower.brings(missing, Some(missing)));
    }
    if stages > 1 {
        // What is to be ended is a part of the same program.
        steps.rotate_left(1);
        let apart = Step::new(
            "own-device",
            "put the stages on different GPUs, or start this stage before the others",
            "each stage takes its share of the whole GPU, and looks for it once, at its start",
        );
        steps.insert(
            steps.len() - 1,
            apart.with("devices and gpu_memory_utilization of each stage in its configuration"),
        );
    }
    (because(Cause::OtherProcess, text), steps)
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

fn external_weights(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let held = event.bytes("held").map_or_else(String::new, |held| format!(", {},", size(held)));
    let text =
        format!("the weights{held} that another process holds for this engine exceed the engine's share of the GPU");
    let missing = event.bytes("held").zip(event.bytes("requested")).map(|(held, share)| held.saturating_sub(share));
    let steps = raise_share(log, event.bytes("total"), event.decimal("utilization"), missing).into_iter();
    (because(Cause::EngineShare, text), steps.chain([less_weights(log, &log.printed(), missing)]).collect())
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

/// Whether it is vLLM's trial at the start that failed: it was running it, and has printed nothing of its KV cache.
pub(super) fn is_trial(log: &EngineLog, found: &Found) -> bool {
    let printed = log.printed();
    let has_pool = printed.kv_cache_bytes.is_some() || printed.kv_tokens.is_some() || printed.gpu_blocks.is_some();
    log.engine == Some("vllm") && found.surroundings.profiles && !has_pool
}

/// Whether weights and activations of the trial are more than the engine's share: without gaps they fit the GPU, and no cache is left.
pub(super) fn leaves_no_cache(situation: &Situation, log: &EngineLog) -> bool {
    let share = log.utilization.unwrap_or(VLLM_SHARE);
    let needed = situation.allocated_bytes.zip(situation.tried_bytes).map(|(held, tried)| held.saturating_add(tried));
    let of = situation.capacity_bytes.map(|capacity| times(capacity, share.millionths, 1_000_000));
    needed.zip(of).is_some_and(|(needed, of)| needed > of)
}

/// Why it failed.
pub(super) fn trial(situation: &Situation) -> String {
    let amount = |bytes: Option<u64>| bytes.map_or_else(|| "an unknown amount".to_owned(), size);
    format!(
        "the activations of the engine's trial at its start do not fit beside the weights: it requested {}, and {} was free; the trial \
         computes the largest batch before there is a KV cache, so no share of the GPU helps",
        amount(situation.tried_bytes),
        amount(situation.free_bytes)
    )
}

/// The same where PyTorch's numbers are missing.
pub(super) fn trial_without_numbers(log: &EngineLog, found: &Found) -> (Diagnosis, Vec<Step>) {
    let tokens = found.surroundings.multimodal_tokens;
    let tokens = tokens.map_or_else(String::new, |tokens| format!(" ({tokens} tokens)"));
    let items = if found.surroundings.has_multimodal_items {
        format!(", with as many and as large images and videos as a request may have{tokens}")
    } else {
        String::new()
    };
    let text = format!(
        "the GPU had no memory for vLLM's trial at its start, which computes the largest batch{items}, before there is a KV cache: no request was \
         served yet, and no share of the GPU helps"
    );
    let mut steps = smaller_trial(log, None, found.surroundings.has_multimodal_items);
    // The log speaks of their tokens.
    steps.sort_by_key(|step| step.id != "fewer-items");
    (because(Cause::TooBig, text), steps)
}

/// What makes the largest batch smaller.
pub(super) fn smaller_trial(log: &EngineLog, missing: Option<u64>, has_items: bool) -> Vec<Step> {
    let printed = log.printed();
    let items = Step::new(
        "fewer-items",
        "allow fewer or smaller images and videos in a request: the trial encodes as many as a request may have",
        "each takes the encoder's activations and its own tokens",
    )
    .with("--limit-mm-per-prompt '{\"image\": 1, \"video\": 0}', --mm-processor-kwargs '{\"max_pixels\": 602112}' (Qwen-VL)");
    let items = has_items.then_some(items);
    let rest = [super::flags::batched_tokens(log), less_weights(log, &printed, missing)];
    [fewer_sequences(log, &printed, missing)].into_iter().chain(items).chain(rest).collect()
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

/// The engine's pool cannot be had again.
pub(super) fn cumem(log: &EngineLog, found: &Found) -> (Diagnosis, Vec<Step>) {
    let is_sglang = log.engine == Some("sglang");
    let by = if is_sglang { "torch_memory_saver, memory saver" } else { "cumem, sleep mode" };
    // A trainer calls its engine, and servers that share a GPU are woken by what schedules them.
    let is_server = found.surroundings.wakes_server && !found.surroundings.trains;
    let who = if is_server {
        "another server on the GPU that is awake, or that has released only a part of its memory in its sleep"
    } else {
        "the trainer, its cache, or another process"
    };
    let text = format!(
        "the driver had no memory for the engine's pool ({by}): when it wakes up it takes the memory of weights and KV cache again, and \
         something has taken that in the meantime: {who}"
    );
    let printed = log.printed();
    let in_parts = Step::new(
        "wake-in-parts",
        "wake up in two steps: the weights first, the KV cache after they are updated",
        "the cache then need not fit beside both copies of the weights",
    );
    let release = if is_server {
        Step::new(
            "end-process",
            "put the other servers of this GPU to sleep, and see that their memory is free, before this one wakes up",
            "sleep mode releases the pool alone: the CUDA context, graphs and memory outside the pool stay",
        )
        .with("nvidia-smi on that machine, at that moment; POST /sleep?level=1 of the others first")
    } else {
        Step::new(
            "release-trainer",
            "release the trainer's memory before the engine wakes up: offload parameters and optimizer, and empty PyTorch's cache",
            "cached memory of PyTorch counts as used for the engine",
        )
        .with("torch.cuda.empty_cache()")
    };
    let steps = vec![
        release,
        lower_share(log, total(log, &printed), None),
        in_parts.with(if is_sglang {
            "resume_memory_occupation(tags=[\"weights\"]), then resume_memory_occupation(tags=[\"kv_cache\"])"
        } else {
            "wake_up(tags=[\"weights\"]), then wake_up(tags=[\"kv_cache\"])"
        }),
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
