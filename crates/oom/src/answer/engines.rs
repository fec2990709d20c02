//! Finds the serving engine of an event, and has the answers that several engines share.

use highwater_units::{counted, size};

use super::flags::{VLLM_SHARE, share, shares, times, while_loading};
use super::{BEYOND_SHARE_BYTES, because, llama, sglang, tensorrt, tgi, vllm};
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
    let (mut diagnosis, steps) = match of_id {
        "vllm" => vllm::explain(event, &log, found)?,
        "sglang" => sglang::explain(event, &log, found)?,
        "tgi" => tgi::explain(event, &log)?,
        _ => tensorrt::of_llm(event, &log),
    };
    diagnosis.notes.extend(shares(&log));
    diagnosis.notes.extend(sleeps(&log));
    Some((diagnosis, steps))
}

/// The weights themselves do not fit.
pub(super) fn load(log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let share = if log.engine == Some("vllm") { " (`gpu_memory_utilization`)" } else { "" };
    let text = format!(
        "the weights do not fit on the GPU: the engine was still loading them, so no share of the GPU{share} helps"
    );
    (because(Cause::TooBig, text), while_loading(log, None))
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
        let alive = if found.surroundings.is_notebook {
            "each notebook's kernel keeps its memory until it is shut down, and an earlier run may still be alive"
        } else {
            "an earlier run may still be alive without a window or a terminal"
        };
        alive.to_owned()
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

/// That graphs do not fit, where the error has no numbers.
pub(super) const CAPTURE: &str = "the GPU had no memory while the engine captured CUDA graphs: they live beside its share of the GPU, and \
                                  weights and KV cache had filled that";

/// That an engine's pool leaves too little beside it, where PyTorch's message alone says that memory is short; `None`
/// where the pool is not allocated yet, or something else is the cause.
pub(super) fn beside_pool(situation: &Situation, cause: Cause, log: &EngineLog) -> Option<String> {
    let printed = log.printed();
    // Graphs are captured when the pool is there.
    let has_graphs = matches!(log.engine, Some("vllm" | "sglang")) && situation.private_bytes > 0;
    let has_pool = has_graphs || printed.kv_tokens.is_some() || printed.kv_cache_bytes.is_some_and(|bytes| bytes > 0);
    if !has_pool || !matches!(cause, Cause::TooBig | Cause::Unknown | Cause::OutsidePyTorch | Cause::PrivatePools) {
        return None;
    }
    let (tried, free) = (situation.tried_bytes?, situation.free_bytes?);
    let of = log.utilization.or(log.mem_fraction_static);
    let of = of.map_or_else(String::new, |of| format!(", at a share of {},", share(of)));
    let pool = printed.kv_cache_bytes.and_then(|bytes| u64::try_from(bytes).ok());
    let pool = pool.map_or_else(String::new, |bytes| format!(" of {}", size(bytes)));
    Some(format!(
        "the engine's KV cache{pool}{of} leaves too little for what it allocates later (CUDA graphs, activations, NCCL): it requested {}, \
         and {} was free",
        size(tried),
        size(free)
    ))
}

/// That an engine holds more than its share of the GPU, where PyTorch's message alone says that memory is short: weights and KV cache
/// fill the share, so what is too large lies beside them. `None` where it holds less, where its share is not known, or where something
/// else is the cause.
pub(super) fn beyond_share(situation: &Situation, cause: Cause, log: &EngineLog) -> Option<String> {
    let told = log.utilization.or(log.mem_fraction_static);
    let is_cause = match cause {
        // Free blocks of its graphs' pools are its own, too.
        Cause::TooBig | Cause::OutsidePyTorch | Cause::PrivatePools => true,
        // Gaps in what the engine holds are of its own making where it was given too much.
        Cause::Fragmentation => told.is_some() && !situation.has_memory_pools,
        _ => false,
    };
    let of = told.or((log.engine == Some("vllm")).then_some(VLLM_SHARE)).filter(|_| is_cause)?;
    let held = situation.process_bytes.or(situation.held_bytes)?;
    let budget = times(situation.capacity_bytes?, of.millionths, 1_000_000);
    let (tried, free) = (situation.tried_bytes?, situation.free_bytes?);
    (held > budget && tried < BEYOND_SHARE_BYTES).then(|| {
        format!(
            "the engine holds {}, more than its share of the GPU, {} ({}{}): weights and KV cache fill the share, and its activations, CUDA \
             graphs and NCCL buffers do not fit in the rest; it requested {}, and {} was free",
            size(held),
            size(budget),
            share(of),
            if told.is_some() { "" } else { " by default" },
            size(tried),
            size(free)
        )
    })
}

/// What the first message of PyTorch lacks.
pub(super) fn missing_of_message(found: &Found) -> Option<u64> {
    let message = &found.groups.first()?.message;
    Some(message.tried_bytes?.saturating_sub(message.free_bytes?)).filter(|&bytes| bytes > 0)
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
