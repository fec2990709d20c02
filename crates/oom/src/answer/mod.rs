//! The answer to a log: what failed, why, and what to change, from everything that was found in it.

mod added;
mod engines;
mod flags;
mod frameworks;
mod general;
mod growth;
mod host;
mod libraries;
mod llama;
mod not_memory;
mod other_engines;
mod refusals;
mod sglang;
mod shape;
mod strongest;
mod summary;
mod tensorflow;
mod tensorrt;
mod tgi;
mod vllm;
mod warnings;
mod web;
mod written;

pub use flags::shares as printed;
use highwater_allocator::settings::{NEW_VARIABLE, VARIABLE, reads_new_variable};
use highwater_units::{counted, size};

use super::diagnosis::{Cause, Diagnosis, diagnosis};
use super::engine::EngineLog;
use super::less::{WITHOUT_NUMBERS, less};
use super::log::{AskedAt, Event, Found, Purpose, TracebackFrame};
use super::message::Kind;
use super::situation::{Situation, last_digit_bytes};
use super::steps::{FRAGMENTATION, Step, larger_page_file, record_a_snapshot, sort, steps};
use added::{
    flat_buffers, fused_attention, in_chunks, lost_variable, many_trained, of_one_sample, restart_kernel,
    restore_on_host, restored, shard, state_on_host, wait_for_launches,
};
use strongest::{absurd, is_absurd, strongest, weight};

/// What an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A message of PyTorch, by its place in [`Found::groups`].
    Message(usize),
    /// Another failure, by its place in [`Found::events`].
    Event(usize),
    /// A table of totals after a failure, by its place in [`Found::summaries`].
    Summary(usize),
}

/// Why a run failed and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it is about.
    pub subject: Subject,
    /// The numbers of PyTorch's message, if there is one.
    pub situation: Option<Situation>,
    /// Why.
    pub diagnosis: Diagnosis,
    /// What to change.
    pub steps: Vec<Step>,
}

/// More than a smaller share of a GPU frees.
const BEYOND_SHARE_BYTES: u64 = 32 << 30;

/// Scores of attention that are worth a word.
const LARGE_SCORES_BYTES: u64 = 1 << 30;

/// Slices whose memory an answer tells.
const SHOWN_SLICES: usize = 7;

/// Engines compute what they refuse: the line that does so is not the program's.
const ENGINES: [&str; 7] = ["vllm-", "sglang-", "tgi-", "trtllm-", "llama-", "ollama-", "lmdeploy"];

/// The answer; `None` if nothing that is known was found.
pub fn answer(found: &Found) -> Option<Answer> {
    let mut answer = of_log(found)?;
    written::adjust(&mut answer, found);
    Some(answer)
}

/// The answer by the log alone.
fn of_log(found: &Found) -> Option<Answer> {
    let mut situation = found.groups.first().map(|group| Situation::of_group(group, found.surroundings));
    if let Some(situation) = &mut situation {
        summary::complete(situation, found);
        refusals::complete(situation, found);
    }
    let of_host = situation.as_ref().and_then(|situation| full_host(situation, found));
    let event = of_host.or_else(|| strongest(found));
    let has_numbers = situation.as_ref().is_some_and(|situation| situation.kind != Kind::Driver);
    let (at, event) = match (event, &situation) {
        (Some((at, event)), None) => (at, event),
        (Some((at, event)), Some(situation))
            if of_host.is_some()
                || weight(event) >= if has_numbers { 3 } else { 2 } && !is_of_full_gpu(event, situation) =>
        {
            (at, event)
        }
        (_, Some(situation)) if situation.kind == Kind::Driver && found.groups[0].asked.pins_memory() => {
            let (diagnosis, mut steps) = host::pinned_of(None, found);
            if found.surroundings.is_windows {
                steps.insert(1, larger_page_file());
            }
            steps.splice(..0, found.surroundings.named.into_iter().flat_map(|named| named.of("host")));
            return Some(Answer { subject: Subject::Message(0), situation: None, diagnosis, steps });
        }
        (_, Some(situation)) if situation.kind == Kind::Driver && found.groups[0].asked.sets_up() => {
            let (mut diagnosis, mut steps) = libraries::set_up("the driver");
            if found.surroundings.is_notebook {
                steps.insert(1, restart_kernel());
            }
            diagnosis.notes.extend(asked(&found.groups[0].asked));
            return Some(Answer { subject: Subject::Message(0), situation: None, diagnosis, steps });
        }
        (_, Some(situation)) if situation.kind == Kind::MoreThanOneExabyte && found.surroundings.has_timed_out => {
            let (diagnosis, steps) = not_memory::after_timeout();
            return Some(Answer { subject: Subject::Message(0), situation: None, diagnosis, steps });
        }
        (_, Some(_)) => {
            return situation.map(|situation| {
                let purpose = situation.purpose;
                let is_server = situation.engine.is_some();
                let mut answer = of_message(situation, found);
                if !is_server
                    && matches!(answer.diagnosis.cause, Cause::TooBig | Cause::Fragmentation | Cause::OutsidePyTorch)
                {
                    growth::beside(&mut answer.diagnosis, &mut answer.steps, purpose, found, false);
                }
                answer
            });
        }
        (None, None) => return summary::explain(found),
    };
    // In the order in which they are worth a try: not each has a number.
    let (mut diagnosis, mut steps) = of_event(event, found)?;
    with_own(&mut steps, diagnosis.cause, event, found);
    replace_by_loading(&mut steps, diagnosis.cause, event, found);
    if let Some(limit) = event.bytes("limit").filter(|_| event.id == "single-allocation") {
        diagnosis.notes.extend(added::refused_below(limit, &mut steps, found));
    }
    if let Some(situation) = situation.as_ref().filter(|_| of_host.is_some()) {
        diagnosis.notes.push(format!(
            "the driver's refusal follows from that: it reports {} free on the GPU, and refused {}, because Windows commits memory of the host \
             for each allocation there",
            situation.free_bytes.map_or_else(|| "memory".to_owned(), size),
            situation.tried().unwrap_or_else(|| "a request".to_owned())
        ));
    }
    if matches!(diagnosis.cause, Cause::TooBig | Cause::Unknown)
        && ENGINES.iter().all(|engine| !event.id.starts_with(engine))
    {
        of_one_sample(&mut steps, found);
        diagnosis.notes.extend(many_trained(&mut steps, found));
    }
    let is_of_ollama = ["llama-", "ollama-"].iter().any(|engine| event.id.starts_with(engine));
    if let Some(variable) = found.events.iter().find(|other| other.id == "variable" && is_of_ollama) {
        // What the user wanted to set is not set.
        if not_memory::named_variable(variable).0 == "OLLAMA_GPU_OVERHEAD" {
            steps.retain(|step| step.id != "leave-margin");
        }
        steps.insert(0, not_memory::fix_variable(variable));
    }
    let is_of_engine = ENGINES.iter().any(|engine| event.id.starts_with(engine));
    if matches!(diagnosis.cause, Cause::HostMemory | Cause::TooBig | Cause::OutsidePyTorch) && !is_of_engine {
        let is_host = diagnosis.cause == Cause::HostMemory;
        growth::beside(&mut diagnosis, &mut steps, event.asked.purpose, found, is_host);
    }
    if matches!(diagnosis.cause, Cause::TooBig | Cause::OutsidePyTorch | Cause::OtherProcess | Cause::Unknown) {
        diagnosis.notes.extend(free_of_slices(found));
    }
    // A signal comes at any line.
    let is_signal = ["worker-killed", "worker-exited", "worker-died", "oom-kill", "limit-kill", "sigkill", "bus-error"];
    let has_requested = diagnosis.cause != Cause::NotMemory && !is_signal.contains(&event.id);
    if ENGINES.iter().all(|engine| !event.id.starts_with(engine)) && has_requested {
        diagnosis.notes.extend(asked(&event.asked));
    }
    Some(Answer { subject: Subject::Event(at), situation: situation.filter(|_| has_numbers), diagnosis, steps })
}

/// Puts what helps while weights are loaded in the place of smaller batches and inputs, which are not there yet.
fn replace_by_loading(steps: &mut [Step], cause: Cause, event: &Event, found: &Found) {
    let is_of_gpu = matches!(cause, Cause::TooBig | Cause::Unknown | Cause::OutsidePyTorch);
    if !is_of_gpu || !event.asked.loads() || ENGINES.iter().any(|engine| event.id.starts_with(engine)) {
        return;
    }
    for step in steps.iter_mut().filter(|step| step.id == "shrink" && step.change.is_none()) {
        *step = less(Some(Purpose::Load), found.surroundings.is_training(), std::mem::take(&mut step.detail));
    }
}

/// Puts the program's own options in the place of general advice that comes first.
fn with_own(steps: &mut Vec<Step>, cause: Cause, event: &Event, found: &Found) {
    const GENERAL: [&str; 6] =
        ["shrink", "smaller-model", "less-weights", "smaller-optimizer", "evaluate-in-parts", "tile-decode"];
    let Some(named) = found.surroundings.named.filter(|_| ENGINES.iter().all(|engine| !event.id.starts_with(engine)))
    else {
        return;
    };
    // A builder's shapes are not the program's settings.
    if event.id.starts_with("tensorrt") {
        return;
    }
    let Some(first) = steps.first().map(|step| step.id) else { return };
    let own = match (cause, first) {
        (Cause::HostMemory, "less-host-memory" | "more-host-memory") => named.of("host"),
        (Cause::TooBig | Cause::Unknown | Cause::OutsidePyTorch, first) if GENERAL.contains(&first) => {
            found.surroundings.own_steps(event.asked.purpose)
        }
        _ => return,
    };
    if own.first().is_some_and(|step| step.id == first) {
        steps.remove(0);
    }
    steps.retain(|step| !own.contains(step));
    steps.splice(..0, own);
}

fn of_message(situation: Situation, found: &Found) -> Answer {
    let mut diagnosis = diagnosis(&situation);
    let mut steps = steps(&situation, &diagnosis);
    if let Some(group) = found.groups.first() {
        diagnosis.notes.extend(asked(&group.asked));
        if group.asked.gathers_state() {
            steps.insert(0, state_on_host());
        }
        if situation.has_wrong_size() {
            added::find_wrong_size(&mut steps, group);
        }
        let is_large = situation.tried_bytes >= Some(LARGE_SCORES_BYTES) && situation.engine.is_none();
        if is_large
            && group.asked.attends_to_images()
            && matches!(diagnosis.cause, Cause::TooBig | Cause::NeverFits | Cause::Unknown)
        {
            diagnosis.notes.push(added::PATCHES.to_owned());
            steps.insert(0, added::fewer_pixels());
        }
        let error = |tried| last_digit_bytes(tried).div_ceil(2);
        let shape = |tried| shape::shape(tried, error(tried), &found.dimensions);
        diagnosis.notes.extend(situation.tried_bytes.and_then(shape));
        let follows = |event: &&Event| event.id == "level-zero" && event.line > group.line;
        if situation.backend == Some("XPU") && found.events.iter().any(|event| follows(&event)) {
            diagnosis.notes.push(
                "the driver's errors after it follow from it: the process cannot use the GPU any more, and has to be started again".to_owned(),
            );
        }
        diagnosis.notes.extend(summary::note(group.message.device, found));
        diagnosis.notes.extend(refusals::note(&situation, found));
        if found.surroundings.loads_otherwise {
            diagnosis.notes.push(
                "the loader catches this error and tries to load the same part in another way, so the log goes on: the error that ends the \
                 program is a later one"
                    .to_owned(),
            );
        }
        if situation.follows_evaluation && diagnosis.cause == Cause::Fragmentation {
            steps.insert(steps.len().min(1), added::release_after_evaluation(&situation));
        }
        if found.surroundings.loses_variable {
            diagnosis.notes.push(lost_variable(&mut steps));
        }
        diagnosis.notes.extend(several_ranks(found));
        if let Some(slice) = slice_of(&situation, found) {
            diagnosis.notes.push(format!(
                "this GPU is a slice (MIG) of {}, whatever the whole GPU has: the rest belongs to other slices, and this process cannot use it",
                size(slice)
            ));
            let larger = Step::new(
                "larger-slice",
                "request a larger slice of the GPU, or a whole one",
                "a job gets the slice that it requests; its memory cannot grow while it runs",
            );
            let at = steps.iter().position(|step| step.id == "shrink").map_or(steps.len(), |at| at + 1);
            steps.insert(
                at,
                larger.with("nvidia-smi -L; --gres=gpu:3g.20gb:1 (Slurm), nvidia.com/mig-3g.20gb: 1 (Kubernetes)"),
            );
        }
        if situation.engine.is_none() {
            diagnosis.notes.extend(many_trained(&mut steps, found));
        }
        if let Some(times) = flat_buffers(&situation).filter(|_| group.asked.is_backward()) {
            diagnosis.notes.push(format!(
                "PyTorch holds {times} times the request in tensors, to the last digits: most likely weights and optimizer state in flat \
                 buffers of all parameters, and the request is one more for their gradients, whose size no batch changes"
            ));
            steps.insert(0, shard());
        }
    }
    if let Some((major, minor)) = situation.torch
        && found.surroundings.names_new_variable
        && !reads_new_variable((major, minor))
    {
        diagnosis.notes.push(format!(
            "the CUDA allocator of torch {major}.{minor} does not read `{NEW_VARIABLE}`{}: before 2.10 set `{VARIABLE}`",
            if (major, minor) == (2, 9) { ", although its warning advises that name" } else { "" }
        ));
    }
    if let Some(engine) = situation.engine {
        // Its name alone may be known.
        let log = found.engine.clone().unwrap_or_default();
        let log = EngineLog { engine: Some(engine), ..log };
        let is_trial = vllm::is_trial(&log, found) && situation.kind != Kind::Driver;
        let is_loading = !is_trial && is_loading(&situation, &log, found);
        let beyond = || engines::beyond_share(&situation, diagnosis.cause, &log).filter(|_| !is_loading);
        if is_trial && !matches!(diagnosis.cause, Cause::OtherProcess | Cause::NeverFits | Cause::Refused) {
            diagnosis.cause = Cause::TooBig;
            diagnosis.text = vllm::trial(&situation);
        } else if let Some(text) = engines::beside_pool(&situation, diagnosis.cause, &log).or_else(beyond) {
            diagnosis.cause = Cause::EngineShare;
            diagnosis.text = text;
        } else if situation.kind == Kind::Driver && found.surroundings.captures_graphs {
            diagnosis.cause = Cause::EngineShare;
            engines::CAPTURE.clone_into(&mut diagnosis.text);
        }
        steps.extend(if is_loading {
            flags::while_loading(&log, situation.shortage_bytes())
        } else if is_trial {
            vllm::smaller_trial(&log, situation.shortage_bytes(), found.surroundings.has_multimodal_items)
        } else {
            flags::after_start(&log, situation.shortage_bytes(), situation.capacity_bytes)
        });
        if found.groups.first().is_some_and(|group| group.asked.loads()) {
            // No sequence is there yet.
            steps.retain(|step| step.id != "fewer-sequences");
            steps.extend(flags::offloaded_weights(&log));
        }
        sort(&mut steps);
        if is_trial {
            // The batch is a setting, the model is what is to be served.
            steps.sort_by_key(|step| step.id == "less-weights");
            if found.groups.first().is_some_and(|group| group.asked.is_of_layer())
                && !found.surroundings.has_multimodal_items
            {
                // The sampler's test with all sequences comes after the layers.
                steps.sort_by_key(|step| step.id != "fewer-batched-tokens");
            }
            if vllm::leaves_no_cache(&situation, &log) {
                steps.sort_by_key(|step| FRAGMENTATION.contains(&step.id));
            }
        }
        if found.surroundings.warms_up && !is_trial && !is_loading {
            // The sampler's test with all sequences at once is the largest part of the warm-up.
            diagnosis.notes.push(
                "the log names vLLM's warm-up after the KV cache is laid out: there it captures CUDA graphs and tests the sampler with \
                 `max_num_seqs` sequences at once"
                    .to_owned(),
            );
            steps.sort_by_key(|step| step.id != "fewer-sequences");
        } else if diagnosis.cause == Cause::EngineShare {
            // Gaps between its buffers are of its own making where its share leaves too little.
            steps.sort_by_key(|step| (step.id != "lower-share", FRAGMENTATION.contains(&step.id)));
        }
        // Its own flags before what only looks; where enough was free, memory that others release changes nothing.
        let is_refused = diagnosis.cause == Cause::Refused;
        steps.sort_by_key(|step| step.id == "look-at-device" || is_refused && step.id == "free-outside");
        if situation.tried_bytes >= Some(BEYOND_SHARE_BYTES) {
            // One request of that size holds all scores of an attention, or a whole batch of images: no share of the GPU brings it.
            steps.sort_by_key(|step| step.id != "fewer-batched-tokens");
        }
        if engine == "tgi" && found.groups.first().is_some_and(|group| group.asked.of_client) {
            // The warm-up went well, and a request failed.
            steps.sort_by_key(|step| step.id != "lower-share");
        }
        diagnosis.notes.extend(flags::shares(&log));
        diagnosis.notes.extend(engines::sleeps(&log));
    } else {
        let group = found.groups.first();
        let has_own = situation.named.is_some_and(|named| !named.options(situation.purpose).is_empty());
        if group.is_some_and(|group| group.asked.attends())
            && situation.tried_bytes >= Some(LARGE_SCORES_BYTES)
            && matches!(diagnosis.cause, Cause::TooBig | Cause::NeverFits | Cause::Unknown)
            && (!has_own || diagnosis.cause == Cause::NeverFits && situation.backend == Some("HIP"))
        {
            // On AMD's GPUs the fused kernels have to be turned on, whatever the program.
            let at = steps.iter().position(|step| step.id == "shrink").unwrap_or(0);
            steps.insert(at, fused_attention(&situation));
        }
        if diagnosis.cause == Cause::NeverFits && situation.purpose == Some(Purpose::Calibrate) {
            steps.insert(
                0,
                less(
                    situation.purpose,
                    situation.is_training,
                    "all samples go through a layer at once, on one GPU, so more GPUs do not help".to_owned(),
                ),
            );
        }
        if group.is_some_and(|group| group.asked.restores_to_gpu) {
            if situation.kind == Kind::Driver {
                steps.retain(|step| step.id != "less-weights");
            }
            let is_of_ranks = diagnosis.cause == Cause::OtherProcess && situation.ranks_like_this().is_some();
            if is_of_ranks
                || matches!(
                    diagnosis.cause,
                    Cause::TooBig | Cause::OutsidePyTorch | Cause::Fragmentation | Cause::Unknown
                )
            {
                if is_of_ranks {
                    // The model itself fits where each rank has its own GPU.
                    steps.retain(|step| step.id != "less-weights");
                }
                steps.insert(0, restore_on_host());
            }
            if diagnosis.cause == Cause::Unknown {
                diagnosis.cause = Cause::OutsidePyTorch;
                diagnosis.text = restored(&situation);
            }
        }
        if found.groups.first().is_some_and(|group| group.asked.holds_logits()) {
            let at = steps.iter().position(|step| step.id == "shrink").unwrap_or(steps.len());
            let own = situation.named.map(|named| named.of("logits")).unwrap_or_default();
            // Its options for a step may stand there.
            let at = steps.iter().position(|step| step.id == "shrink" || step.id == "offload").unwrap_or(at);
            let at = if situation.is_of_all_logits() { 0 } else { at };
            if own.is_empty() {
                steps.insert(at, in_chunks(situation.tried_bytes));
            } else {
                // Its options for a step may be the same, with the numbers.
                let (same, rest): (Vec<Step>, Vec<Step>) =
                    steps.into_iter().partition(|step| own.iter().any(|own| own.title == step.title));
                let own =
                    own.into_iter().map(|own| same.iter().find(|step| step.title == own.title).cloned().unwrap_or(own));
                steps = rest;
                let at = at.min(steps.len());
                steps.splice(at..at, own);
            }
        }
        if found.events.iter().any(|event| event.id == "on-cpu") {
            // One crowded image decides the peak: the next is as large without gaps.
            steps.sort_by_key(|step| FRAGMENTATION.contains(&step.id));
        }
        let grows = matches!(situation.purpose, Some(Purpose::Evaluate | Purpose::Collect | Purpose::Grow));
        if grows && diagnosis.cause != Cause::Fragmentation {
            // What is kept from one call to the next fills gaps, too.
            steps.retain(|step| !FRAGMENTATION.contains(&step.id));
        }
        let own = found.surroundings.own_steps(found.groups.first().and_then(|group| group.asked.purpose));
        if situation.kind == Kind::Driver && !own.is_empty() {
            // Only the models can give way; a snapshot helps the program's authors. A trainer's error does not say which call failed.
            let is_unknown = found.surroundings.is_training() == Some(true)
                && group.is_some_and(|group| group.asked.innermost.is_none() && group.asked.purpose.is_none());
            if is_unknown && !situation.is_windows {
                let look = steps.iter().position(|step| step.id == "look-at-device").map_or(0, |at| at + 1);
                steps.insert(look, wait_for_launches());
                steps.extend(own);
            } else {
                steps.splice(..0, own);
            }
            if situation.is_windows {
                steps.insert(1, larger_page_file());
            }
            if found.surroundings.keeps_weights_on_host && found.surroundings.pins_weights {
                added::PINNED_PART.clone_into(&mut diagnosis.text);
                steps.insert(0, added::without_pinned_memory());
            } else if found.surroundings.keeps_weights_on_host {
                steps.insert(1, added::without_pinned_memory());
            }
        } else if situation.kind == Kind::Driver {
            // What the program was doing comes before a look at others.
            let restores = steps.first().is_some_and(|step| step.id == "map-location");
            // PyTorch's own allocator would have printed its numbers while a model moved to the GPU: a context alone did not fit.
            let is_of_work = |purpose| !matches!(purpose, Purpose::Gather | Purpose::Load);
            let known = !restores && situation.purpose.is_some_and(is_of_work);
            steps.insert(
                if known { 0 } else { steps.len() },
                less(situation.purpose, situation.is_training, WITHOUT_NUMBERS.to_owned()),
            );
            let behind_look = steps.iter().position(|step| step.id == "look-at-device").map_or(0, |at| at + 1);
            if situation.is_notebook {
                steps.insert(behind_look, restart_kernel());
            } else if group.is_some_and(|group| group.asked.innermost.is_none() || group.asked.only_looks()) {
                steps.insert(behind_look, wait_for_launches());
            }
            steps.push(record_a_snapshot(&situation));
        } else if diagnosis.cause != Cause::NeverFits {
            steps.push(record_a_snapshot(&situation));
        }
        of_one_sample(&mut steps, found);
    }
    Answer { subject: Subject::Message(0), situation: Some(situation), diagnosis, steps }
}

/// Whether an engine was still loading: it says so, or it holds more than its share of the GPU, and a share bounds the
/// cache alone.
fn is_loading(situation: &Situation, log: &EngineLog, found: &Found) -> bool {
    let has_pool = log.ranks.iter().any(|rank| rank.kv_cache_bytes.is_some() || rank.kv_tokens.is_some());
    let exceeds_share = || {
        // Where its settings are in the log, and no share is among them.
        let default = (log.engine == Some("vllm") && log.model.is_some()).then_some(flags::VLLM_SHARE);
        // Not SGLang's share: activations lie outside it.
        let share = log.utilization.or(default)?;
        let of = flags::times(situation.capacity_bytes?, share.millionths, 1_000_000);
        Some(situation.held_bytes? > of.saturating_add(of / 20))
    };
    let allocates_cache = || {
        let innermost = found.groups.first().and_then(|group| group.asked.innermost.as_ref());
        innermost.is_some_and(|frame| frame.function.contains("kv_cache"))
    };
    // While weights are loaded hardly any of the reserved memory is unused; activations leave gaps.
    let rest = situation.unallocated_bytes.zip(situation.held_bytes);
    let has_gaps = rest.is_some_and(|(rest, held)| rest > held / 50);
    let is_full = || !has_pool && !has_gaps && !allocates_cache() && exceeds_share() == Some(true);
    let loads = found.groups.first().is_some_and(|group| group.asked.loads());
    loads
        || found.surroundings.fails_while_loading && !has_pool
        || found.events.iter().any(|event| matches!(event.id, "vllm-load" | "tgi-load"))
        || is_full()
}

/// The lines that asked for the memory, in a sentence.
fn asked(at: &AskedAt) -> Option<String> {
    let innermost = at.innermost.as_ref().filter(|frame| !frame.source.starts_with("raise "))?;
    if at.of_client {
        return None;
    }
    let place = |frame: &TracebackFrame| {
        // A box around a traceback may be cut.
        if frame.file.is_empty() && frame.line == 0 {
            return format!("`{}`", frame.source.replace('`', "'"));
        }
        if frame.file.is_empty() {
            return format!("line {} (`{}`)", frame.line, frame.source.replace('`', "'"));
        }
        let text =
            if frame.source.is_empty() { String::new() } else { format!(" (`{}`)", frame.source.replace('`', "'")) };
        // A notebook's traceback names the line below the function, and may be cut before it.
        let line = if frame.line == 0 { String::new() } else { format!(":{}", frame.line) };
        format!("{}{line} {}{text}", short(&frame.file), frame.function)
    };
    if at.only_looks() {
        return Some(format!(
            "the error appeared in {}, which only looks at the memory or waits for the GPU: an earlier request failed, or the GPU had no memory left for this process's context",
            place(innermost)
        ));
    }
    let allocates = at.allocates().map_or_else(String::new, |what| format!(": it allocates {what}"));
    Some(match &at.own {
        Some(own) if own != innermost => format!("requested by {}, inside {}{allocates}", place(own), place(innermost)),
        _ => format!("requested by {}{allocates}", place(innermost)),
    })
}

/// The last three parts of a path.
fn short(path: &str) -> String {
    let parts: Vec<&str> = path.rsplit(['/', '\\']).take(3).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

/// The memory of the slice of a GPU that the message is of, where the text names one.
fn slice_of(situation: &Situation, found: &Found) -> Option<u64> {
    let capacity = situation.capacity_bytes?;
    let of_name = found.surroundings.slice_gb.map(|gigabytes| u64::from(gigabytes) << 30);
    let slice = found.slice_bytes.or(of_name)?;
    // A name is the rounded size.
    (slice.abs_diff(capacity) <= slice / 8).then_some(capacity)
}

/// What is free in the slices of nvidia-smi's table, where the error has no numbers.
fn free_of_slices(found: &Found) -> Option<String> {
    let (_, first) = found.slices.first()?;
    let one = |(used, total): &(u64, u64)| format!("{} of {}", size(total.saturating_sub(*used)), size(*total));
    let free: Vec<String> = found.slices.iter().take(SHOWN_SLICES).map(one).collect();
    let more = if found.slices.len() > SHOWN_SLICES { ", and others" } else { "" };
    Some(format!(
        "the GPU is cut into slices (MIG), and a process has only its own, such as {}, whatever the whole GPU has; free by the table in the \
         text: {}{more}",
        size(*first),
        free.join(", ")
    ))
}

/// Which rank failed first, where several did.
fn several_ranks(found: &Found) -> Option<String> {
    let mut ranks: Vec<u32> = Vec::new();
    for rank in found.groups.iter().filter_map(|group| group.message.rank) {
        if !ranks.contains(&rank) && ranks.len() < 1024 {
            ranks.push(rank);
        }
    }
    let first = ranks.first().filter(|_| ranks.len() > 1)?;
    Some(format!(
        "{} of the log ran out of memory; rank {first} is the first in it",
        counted(ranks.len(), "rank", "ranks")
    ))
}

/// The failure of Windows' commit limit that explains why the driver refused a small request with much free.
fn full_host<'f>(situation: &Situation, found: &'f Found) -> Option<(usize, &'f Event)> {
    let is_refused = diagnosis(situation).cause == Cause::Refused;
    found.events.iter().enumerate().find(|(_, event)| is_refused && event.id == "page-file")
}

/// Whether a call that the driver refused as invalid follows from a full GPU, by the numbers of PyTorch's message.
fn is_of_full_gpu(event: &Event, situation: &Situation) -> bool {
    event.id == "vllm-cumem-invalid" && situation.shortage_bytes() > Some(0)
}

fn of_event(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    let has_copies = || llama::copies(event, found.engine.as_ref()?, found).is_some().then_some(());
    if let Some(bytes) = event.requested().filter(|_| is_absurd(event) && has_copies().is_none()) {
        return Some(absurd(event, bytes));
    }
    let is_same = |other: &&Event| other.id == "runtime" && other.line == event.line && other.rank == event.rank;
    if let Some(other) = found.events.iter().find(is_same).filter(|_| event.id == "llama-buffer") {
        // MXNet prints the same words behind its own.
        return libraries::explain(other, found);
    }
    engines::explain(event, found)
        .or_else(|| other_engines::explain(event, found))
        .or_else(|| tensorrt::explain(event, found))
        .or_else(|| libraries::explain(event, found))
        .or_else(|| host::explain(event, found))
        .or_else(|| general::explain(event, found))
        .or_else(|| web::explain(event))
        .or_else(|| warnings::explain(event, found))
        .or_else(|| refusals::explain(event, found))
        .or_else(|| not_memory::explain(event, found))
        .or_else(|| growth::explain(event, found))
}

/// A diagnosis without notes.
fn because(cause: Cause, text: impl Into<String>) -> Diagnosis {
    Diagnosis { cause, also: Vec::new(), text: text.into(), notes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogReader;
    use crate::known::FAILURES;

    fn answer_to(log: &str) -> Answer {
        let mut reader = LogReader::new();
        reader.push(log.as_bytes());
        answer(&reader.finish()).unwrap()
    }

    #[test]
    fn what_exceeds_the_gpu_is_missing_rather_than_the_request() {
        let answer = answer_to(
            "RuntimeError: CUDA out of memory. Tried to allocate 42.00 MiB (GPU 0; 24.00 GiB total capacity; 53.19 GiB already allocated; 0 bytes \
             free; 53.57 GiB reserved in total by PyTorch)",
        );
        let detail = &answer.steps[0].detail;
        assert!(detail.contains("29.57 GiB more than the GPU") && !detail.contains("42.00 MiB"), "{detail}");
    }

    #[test]
    fn a_frame_whose_line_is_cut_has_no_number() {
        let answer = answer_to(
            "~/lib/python3.8/site-packages/torch/tensor.py in backward(self, gradient)\n    219                 retain_graph=retain_graph,\n\
             RuntimeError: [enforce fail at CPUAllocator.cpp:65] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 359661568 \
             bytes. Error code 12 (Cannot allocate memory)\n",
        );
        let notes = &answer.diagnosis.notes;
        assert!(notes.iter().any(|note| note.contains("tensor.py backward")), "{notes:?}");
    }

    #[test]
    fn several_buffers_of_one_size_hold_all_parameters() {
        let log = |allocated: &str| {
            format!(
                "  File \"/home/u/train.py\", line 7, in step\n    loss.backward()\n\
                 RuntimeError: CUDA out of memory. Tried to allocate 21.06 GiB (GPU 3; 79.35 GiB total capacity; {allocated} GiB already \
                 allocated; 8.57 GiB free; 68.48 GiB reserved in total by PyTorch)"
            )
        };
        assert_eq!(answer_to(&log("63.19")).steps[0].id, "shard-state");
        assert_ne!(answer_to(&log("61.19")).steps[0].id, "shard-state");
    }

    #[test]
    fn every_known_failure_has_an_answer() {
        for row in FAILURES.iter() {
            let event = Event {
                id: row.id,
                origin: row.origin,
                rank: None,
                line: 1,
                count: 1,
                values: Vec::new(),
                asked: AskedAt::default(),
            };
            let found = Found { events: vec![event.clone()], ..Found::default() };
            let (diagnosis, steps) = of_event(&event, &found).unwrap_or_else(|| panic!("{} has no answer", row.id));
            assert!(!diagnosis.text.is_empty() && !steps.is_empty(), "{}", row.id);
        }
    }
}
