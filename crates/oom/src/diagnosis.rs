//! Which cause it is.

use highwater_allocator::Memory;
use highwater_driver::context;
use highwater_units::{counted, percent, size};

pub use super::cause::Cause;
use super::log::Purpose;
use super::message::Kind;
use super::situation::{Limit, Situation};

/// Few devices have more.
const LARGE_DEVICE_BYTES: u64 = 80 << 30;
/// No device has so much.
const LARGEST_DEVICE_BYTES: u64 = 1 << 40;

/// A request of more than this part of the GPU is large itself.
pub(super) const LARGE_PART: u64 = 6;

/// Less than this is never the cause.
pub(crate) const WORTH_A_WORD_BYTES: u64 = 64 << 20;
/// So much is worth a word whatever is held.
const WORTH_A_STEP_BYTES: u64 = 256 << 20;

/// The cause, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The condition without which the request would have succeeded.
    pub cause: Cause,
    /// Other causes that contribute.
    pub also: Vec<Cause>,
    /// The sentence, for a person.
    pub text: String,
    /// Notes on reading the numbers.
    pub notes: Vec<String>,
}

/// Finds the cause.
pub fn diagnosis(situation: &Situation) -> Diagnosis {
    let mut causes = causes(situation);
    let cause = if causes.is_empty() { Cause::Unknown } else { causes.remove(0) };
    causes.retain(|&other| !matches!(other, Cause::TooBig));
    Diagnosis { cause, text: text(situation, cause), also: causes, notes: notes(situation, cause) }
}

/// Whether the reserved but unallocated memory would be enough in one piece, and is more than any program's small rest.
pub(super) fn is_fragmented(situation: &Situation) -> bool {
    let Some(unallocated) = situation.unallocated_bytes else { return false };
    let Some(shortage) = situation.shortage_bytes() else {
        return situation.tried_bytes.is_some_and(|tried| has_gaps_for(situation, tried));
    };
    shortage > 0 && unallocated >= shortage.max(crumbs(situation))
}

/// Whether the cache alone has more than a request needs, which was refused all the same: it is in pieces.
fn has_gaps_for(situation: &Situation, tried: u64) -> bool {
    situation.unallocated_bytes.is_some_and(|unallocated| unallocated >= tried.max(crumbs(situation)))
        && !situation.exceeds_single_allocation()
}

/// The rest that any program has in its segments: 2 % of them, and of small ones, whose segments are as large as others', 5 %.
fn crumbs(situation: &Situation) -> u64 {
    let held = situation.held_bytes.unwrap_or(0);
    WORTH_A_WORD_BYTES.max(held / 50).max(WORTH_A_STEP_BYTES.min(held / 20))
}

/// Reserved but unallocated memory that is not enough alone, but a good part of what is missing.
pub(super) fn nearly_enough(situation: &Situation) -> Option<(u64, u64)> {
    let (unallocated, missing) = (situation.unallocated_bytes?, situation.shortage_bytes()?);
    let is_worth_it = unallocated >= crumbs(situation) && unallocated >= missing / 10;
    (situation.is_printed && is_worth_it && unallocated < missing).then_some((unallocated, missing))
}

/// The memory of this process outside PyTorch, beyond a context.
pub(super) fn outside_beyond_context(situation: &Situation) -> u64 {
    situation.outside_bytes().unwrap_or(0).saturating_sub(context::AT_MOST_BYTES)
}

/// Unaccounted memory, beyond a context and the driver's own.
pub(super) fn untold_beyond_context(situation: &Situation) -> u64 {
    let is_most = || {
        let untold = situation.untold_bytes().unwrap_or(0);
        untold > situation.capacity_bytes.unwrap_or(0) / 2 && untold > situation.held_bytes.unwrap_or(0)
    };
    if situation.kind == Kind::Asynchronous && !is_most() {
        // The driver's pool keeps freed memory, which its message does not count; most of a GPU is more than that.
        return 0;
    }
    let kept = situation.capacity_bytes.unwrap_or(0) / 50 + context::AT_MOST_BYTES;
    situation.untold_bytes().unwrap_or(0).saturating_sub(kept)
}

/// All that apply, the most telling first.
fn causes(situation: &Situation) -> Vec<Cause> {
    match situation.kind {
        Kind::MoreThanOneExabyte => return vec![Cause::NeverFits],
        Kind::Rejected => return vec![Cause::Limit],
        Kind::CustomAllocator => return vec![Cause::CustomAllocator],
        Kind::Driver => return vec![Cause::OutsidePyTorch],
        Kind::Exhausted | Kind::Asynchronous => {}
    }
    if situation.reserve_bytes.is_some() {
        return vec![Cause::Reserve];
    }
    let Some(tried) = situation.tried_bytes else { return Vec::new() };
    if situation.is_contradictory() && !situation.is_limited() {
        return vec![Cause::Contradiction];
    }
    if tried > situation.capacity_bytes.unwrap_or(LARGEST_DEVICE_BYTES) && situation.hidden_total_bytes().is_some() {
        return vec![Cause::Contradiction];
    }
    if tried > situation.capacity_bytes.unwrap_or(LARGEST_DEVICE_BYTES) {
        return vec![Cause::NeverFits];
    }
    let Some(shortage) = situation.shortage_bytes() else {
        // The free memory is not told.
        return match situation.headroom_at_most_bytes() {
            Some(_) if is_fragmented(situation) => vec![Cause::Fragmentation, Cause::TooBig],
            Some(most) if most < tried => vec![Cause::TooBig],
            Some(_) if situation.exceeds_single_allocation() => vec![Cause::Refused],
            // Messages of XPU have no free memory: much more was left than was requested.
            Some(most) if situation.backend == Some("XPU") && tried <= most / 2 => vec![Cause::Refused],
            None if tried > LARGE_DEVICE_BYTES => vec![Cause::TooBig],
            _ => Vec::new(),
        };
    };
    let is_limited = situation.is_limited();
    if shortage == 0 && !is_limited && !situation.is_full() {
        return vec![Cause::Refused];
    }
    let holds_unknown = situation.held_bytes.is_none() && situation.process_bytes.is_none();
    if holds_unknown && situation.others_total_bytes() < shortage && !is_limited {
        // Half a message: who has what is not told.
        return Vec::new();
    }
    let brings = |bytes: u64| bytes >= shortage.max(WORTH_A_WORD_BYTES);
    let mut causes = Vec::new();
    // Above the GPU's capacity, memory has spilled to the host: closing gaps does not help.
    let fragmentation = is_fragmented(situation) && !situation.has_expandable_segments && !situation.exceeds_capacity();
    // In one piece this request would fit, and a later one would not.
    // Nor is the placement of blocks to blame where a whole model is gathered on one GPU.
    let is_impossible = situation.is_impossible() || situation.purpose == Some(Purpose::Gather);
    // A line that requests a good part of the GPU for all logits can compute them in parts, so gaps are not to blame either.
    let is_first = !is_impossible && !is_usual_rest(situation) && !situation.is_of_all_logits();
    if fragmentation && is_first {
        causes.push(Cause::Fragmentation);
    }
    if brings(situation.private_bytes) {
        causes.push(Cause::PrivatePools);
    }
    if is_limited {
        causes.push(Cause::Limit);
    } else {
        // Where a limit is in the way, what others give back does not help.
        let outside = outside_beyond_context(situation).max(untold_beyond_context(situation));
        let others = situation.others_total_bytes();
        // What nobody measures is of those that are listed without an amount.
        let untold = if situation.unmeasured() > 0 { untold_beyond_context(situation) } else { 0 };
        let (others, outside) =
            if untold > others { (untold, outside_beyond_context(situation)) } else { (others, outside) };
        let mut whose = vec![(others, Cause::OtherProcess), (outside, Cause::OutsidePyTorch)];
        whose.sort_by_key(|&(bytes, _)| std::cmp::Reverse(bytes));
        // Where most of the memory in use is not this process's, or others are named that have half as much, its own gaps are a
        // side matter.
        let beyond = situation.held_bytes.unwrap_or(0) / if whose[0].1 == Cause::OtherProcess { 2 } else { 1 };
        if whose[0].0 > beyond && brings(whose[0].0) && causes.first() == Some(&Cause::Fragmentation) {
            causes.remove(0);
            causes.push(whose.remove(0).1);
            causes.push(Cause::Fragmentation);
        }
        // Every program has some memory outside PyTorch: NCCL's buffers, workspaces, the driver's own. Of what nobody names, a part
        // is this process's, too, so that it has to be large beside what PyTorch holds.
        let usual = situation.capacity_bytes.unwrap_or(0) / 20;
        let is_untold = untold_beyond_context(situation) > outside_beyond_context(situation);
        let of_untold = (situation.held_bytes.unwrap_or(0) / 2).min(situation.capacity_bytes.unwrap_or(0) / 6);
        let least = if is_untold { usual.max(of_untold) } else { usual };
        // Weights that are still to come need more than the contexts of a few other processes would release.
        let is_of_weights = situation.purpose == Some(Purpose::Load)
            && situation.held_bytes > situation.capacity_bytes.map(|capacity| capacity / 3 * 2);
        let is_cause = |&(bytes, cause): &(u64, Cause)| {
            let is_enough = !is_of_weights || bytes > situation.held_bytes.unwrap_or(0) / 2;
            // A process that has no more than a context explains little.
            is_enough && brings(bytes) && bytes >= if cause == Cause::OutsidePyTorch { least } else { usual }
        };
        causes.extend(whose.into_iter().filter(is_cause).map(|(_, cause)| cause));
    }
    let held = situation.held_bytes.unwrap_or(0);
    let is_leftover = situation.is_notebook && tried < held / 4;
    // A model that is being loaded is seen, and an earlier one only supposed.
    if is_leftover && situation.purpose != Some(Purpose::Load) {
        causes.push(Cause::Leftover);
    }
    causes.push(Cause::TooBig);
    if is_leftover && situation.purpose == Some(Purpose::Load) {
        causes.push(Cause::Leftover);
    }
    if fragmentation && !is_first {
        causes.push(Cause::Fragmentation);
    }
    causes
}

/// Whether a message's unused memory is no more than what any program has in its segments at a peak: the request would fit without
/// gaps, and the next one would not. An engine's segments are mostly its pool, whose gaps are its own.
pub(super) fn is_usual_rest(situation: &Situation) -> bool {
    let is_small = || {
        let rest = situation.unallocated_bytes.zip(situation.held_bytes);
        rest.is_some_and(|(rest, held)| rest < held / 10)
    };
    situation.is_printed
        && situation.engine.is_none()
        && situation.private_bytes == 0
        && !situation.follows_evaluation
        && is_small()
}

/// The failure of a requested simulation, in a sentence.
fn supposed(situation: &Situation, cause: Cause, memory: Memory) -> String {
    let amount = |bytes: Option<u64>| size(bytes.unwrap_or(0));
    let tried = situation.tried().unwrap_or_else(|| size(0));
    let held = amount(situation.held_bytes);
    let place = match memory {
        Memory::Card { total_bytes, outside_bytes } => format!(
            "on a GPU with {}, of which {} is for PyTorch,",
            size(total_bytes),
            size(total_bytes.saturating_sub(outside_bytes))
        ),
        Memory::Limit(bytes) => format!("with a limit of {}", size(bytes)),
        Memory::Ample => "with unlimited memory".to_owned(),
    };
    let unallocated = situation.unallocated_bytes.unwrap_or(0);
    let rest = match cause {
        Cause::NeverFits => "more than the total at once".to_owned(),
        Cause::Fragmentation => format!(
            "{} more could be reserved, and {} of the reserved memory is unused, but in pieces that are too small \
             or in segments partly in use: this is fragmentation",
            amount(situation.headroom_bytes()),
            size(unallocated)
        ),
        Cause::PrivatePools => format!(
            "{} of the reserved memory is free, but only for private pools (CUDA graphs, `MemPool`)",
            size(situation.private_bytes)
        ),
        _ if situation.is_impossible() => {
            format!("and it needs {} at once with any settings", amount(situation.least_needed_bytes()))
        }
        _ if unallocated == 0 => format!("all of it in use; it is {} short", amount(situation.shortage_bytes())),
        _ => format!("all but {} of it in use; it is {} short", size(unallocated), amount(situation.shortage_bytes())),
    };
    format!("{place} this program runs out of memory: it requests {tried} when {held} is reserved, {rest}")
}

fn text(situation: &Situation, cause: Cause) -> String {
    if let Some(memory) = situation.supposed {
        return supposed(situation, cause, memory);
    }
    let amount = |bytes: Option<u64>| bytes.map_or_else(|| "an unknown amount".to_owned(), size);
    let tried = situation.tried().unwrap_or_else(|| amount(None));
    let free = amount(situation.free_bytes);
    let held = amount(situation.held_bytes);
    let unallocated = amount(situation.unallocated_bytes);
    match cause {
        Cause::Limit if situation.kind == Kind::Rejected => format!(
            "a configured limit refused {tried}: `throw_on_cudamalloc_oom` is on, so requests that exceed \
             `per_process_memory_fraction` fail at once, without first releasing cached memory"
        ),
        Cause::Limit => limited(situation, &tried, &held),
        Cause::NeverFits if situation.kind == Kind::MoreThanOneExabyte => {
            "the program requested an exbibyte or more, which no device has: a size is wrong, such as a negative, overflowed or \
             overwritten one, and memory did not run out"
                .to_owned()
        }
        Cause::NeverFits if situation.capacity_bytes.is_none() => {
            format!("the program requested {tried} at once, which no GPU has")
        }
        Cause::NeverFits if situation.has_small_total() => format!(
            "ROCm shows a GPU of {}, {free} of it free, and the program requested {tried} at once: on an APU that total is a setting and may be \
             far below the memory of the machine; on a GPU with memory of its own the request can never fit",
            amount(situation.capacity_bytes)
        ),
        Cause::NeverFits => format!(
            "the request can never fit: the program requested {tried} at once{}, and the whole GPU has {}",
            match situation.purpose {
                _ if situation.has_wrong_size() =>
                    ", more than any GPU has, so a size is wrong (negative, overflowed or never set)",
                Some(Purpose::Load) => " for a model's weights",
                _ => "",
            },
            amount(situation.capacity_bytes)
        ),
        Cause::Fragmentation => {
            let room = match (situation.headroom_bytes(), situation.limit) {
                (Some(room), Some(_)) => format!("{} more could be reserved within the limit", size(room)),
                (Some(room), None) => format!("{} was free on the GPU", size(room)),
                (None, _) => "the free memory is unknown".to_owned(),
            };
            format!(
                "fragmentation: the program requested {tried}; {room}, and {unallocated} of the {held} reserved was \
                 unused, but in pieces that are too small or in segments partly in use"
            )
        }
        Cause::PrivatePools => format!(
            "private pools (CUDA graphs, `MemPool`) keep {} free, but only for themselves: the program requested \
             {tried} with {free} free on the GPU",
            size(situation.private_bytes)
        ),
        Cause::OtherProcess if situation.unmeasured() > 0 => unmeasured(situation, &tried, &free),
        Cause::OtherProcess => {
            let total = size(situation.others_total_bytes());
            let who = match &situation.others[..] {
                [] => "others".to_owned(),
                [one] => format!("process {}", one.pid),
                [first, ..] => format!(
                    "{}, the largest of them process {} with {},",
                    counted(situation.others.len(), "other process", "other processes"),
                    first.pid,
                    size(first.bytes)
                ),
            };
            if let Some(ranks) = situation.ranks_alike() {
                return format!(
                    "{ranks} other processes hold the same small amount of this GPU, {total} in all: nearly always ranks of one job that do not \
                     select a GPU of their own, so that each has a context here; the program requested {tried}, and only {free} was free"
                );
            }
            if let Some(ranks) = situation.ranks_like_this() {
                return format!(
                    "{ranks} other processes hold as much of this GPU as this one, {total} in all beside its own {held}: nearly always ranks of \
                     one job that all use this GPU; the program requested {tried}, and only {free} was free"
                );
            }
            let verb = if situation.others.len() == 1 { "has" } else { "have" };
            format!(
                "{who} {verb} {total} of this GPU: the program requested {tried}, and only {free} was free; this \
                 process itself holds {held}{}",
                siblings(situation)
            )
        }
        Cause::OutsidePyTorch => outside(situation, &tried, &free),
        Cause::Leftover => format!(
            "this notebook's process already holds {held}, probably from earlier cells or an earlier run: it \
             requested {tried}, and {free} was free"
        ),
        Cause::Reserve => format!(
            "the expandable-segment reserve, {}, is smaller than one request of {tried}, and a request cannot span two \
             segments",
            amount(situation.reserve_bytes)
        ),
        Cause::CustomAllocator => {
            format!("the custom allocator of a `MemPool` returned nothing for {tried}: it has its own limits")
        }
        Cause::Refused => {
            let part = match situation.backend {
                Some("HIP" | "ROCm") => {
                    "an APU's share of the host's memory, a limit of the kernel's driver, a partition"
                }
                Some("XPU") if situation.exceeds_single_allocation() => {
                    "drivers of Intel's GPUs refuse one allocation of 4 GiB or more unless relaxed limits are on"
                }
                Some("CUDA") | None => "a MIG slice, WSL, a virtual GPU",
                Some(_) => "a partition, a virtual GPU, a limit of the driver",
            };
            let reported = match situation.free_bytes {
                Some(_) => format!("it reports {free} free"),
                None => format!("the GPU has {} and PyTorch holds {held} of it", amount(situation.capacity_bytes)),
            };
            if situation.exceeds_single_allocation() {
                return format!(
                    "the program requested {tried} at once, and the driver refused it although {reported}: {part}; the GPU is not full"
                );
            }
            format!(
                "the program requested {tried}, and the driver refused it although {reported}: another \
                 process may have released memory a moment later, or this process cannot use part of the GPU ({part})"
            )
        }
        Cause::Contradiction if let Some(vram) = situation.hidden_total_bytes() => format!(
            "the kernel's log gives the GPU {}, and the driver shows PyTorch only {}, {free} of it free: the request of {tried} failed because \
             of that total, not because the memory is in use",
            size(vram),
            amount(situation.capacity_bytes)
        ),
        Cause::Contradiction => format!(
            "the driver's numbers contradict each other: {free} free of {} in all, so they do not show why a request of \
             {tried} failed; GPUs that share the host's memory (APUs) report the part that the firmware set aside as the \
             total, and the host's memory as free",
            amount(situation.capacity_bytes)
        ),
        Cause::TooBig if situation.capacity_bytes.is_none() && situation.held_bytes.is_none() => {
            format!(
                "the program requested {tried} at once, more than most GPUs have; the text ends before the other numbers"
            )
        }
        Cause::TooBig => {
            let crumbs = match situation.unallocated_bytes {
                Some(0) => ", all of it in use".to_owned(),
                Some(unallocated) => format!(", all but {} of it in use", size(unallocated)),
                None => String::new(),
            };
            let left = match (situation.free_bytes, situation.limit, situation.headroom_at_most_bytes()) {
                (None, None, Some(most)) => format!("at most {} left", size(most)),
                _ => format!("{free} left"),
            };
            let missing = amount(situation.least_shortage_bytes());
            let already = match (situation.held_bytes, situation.process_bytes) {
                (None, Some(process)) => format!("this process already had {}", size(process)),
                _ => format!("{held} was already reserved"),
            };
            let short = if situation.shortage_bytes() == Some(0) {
                "and the driver allocates none of the last free memory: the GPU is full".to_owned()
            } else if situation.is_within_rounding() {
                format!(
                    "the two amounts are equal within the rounding of the message, so it was at most {missing} short"
                )
            } else {
                format!("so it was at least {missing} short")
            };
            let what = match situation.purpose {
                Some(Purpose::Load) => {
                    "the model does not fit: the GPU was full before all of its weights were loaded; it"
                }
                Some(Purpose::Parts) => {
                    "one part of the pipeline, with its activations, fills the GPU, although the parts take turns on it: the program"
                }
                Some(Purpose::Whole) => {
                    "the whole pipeline is moved to the GPU, although an offload is to move one part at a time: the program"
                }
                Some(Purpose::Predict) => {
                    "this stage computes answers, for which each rank has the whole model unless it is sharded there, too: the program"
                }
                Some(Purpose::Grow) => {
                    "memory grows with the elements that the program adds while it trains, until there is no more: it"
                }
                Some(Purpose::Collect) => {
                    "the line that failed adds to a list or tensor, which grows with each call; it"
                }
                _ => "the program needs more memory than there is: it",
            };
            format!("{what} requested {tried} with {left}; {already}{crumbs}, {short}")
        }
        Cause::Unknown
        | Cause::KvCache
        | Cause::EngineShare
        | Cause::SleepResidue
        | Cause::KernelSharedMemory
        | Cause::HostMemory
        | Cause::SharedMemory
        | Cause::Warning
        | Cause::NotMemory => match situation.tried_bytes {
            Some(_) if situation.free_bytes.is_some() => {
                format!(
                    "the program requested {tried}, and {free} was free; the text does not show which process \
                 uses the rest"
                )
            }
            Some(_) => format!("a request of {tried} was refused; the text has too few numbers to show why"),
            None => "memory ran out; the text has too few numbers to show why".to_owned(),
        },
    }
}

/// Who the others are, where they seem to be of one run.
fn siblings(situation: &Situation) -> &'static str {
    if situation.others.len() > 1 && situation.is_test {
        "; most likely workers of one test run that share the GPU"
    } else if situation.started_together() {
        "; their ids are close to each other, so that one program has probably started them all: ranks or workers that share the GPU"
    } else {
        ""
    }
}

/// Processes that the driver lists without their memory.
fn unmeasured(situation: &Situation, tried: &str, free: &str) -> String {
    let held = size(situation.held_bytes.unwrap_or(0));
    let who = match situation.unmeasured() {
        1 => "another process is".to_owned(),
        several => format!("{several} other processes are"),
    };
    let ranks = if situation.started_together() {
        "; their ids follow each other: nearly always ranks of one job that all load onto this GPU"
    } else {
        ""
    };
    format!(
        "{who} on this GPU, and the driver does not show how much each has (the zeros are no amounts): beside the {held} of this process, {} \
         is in use; the program requested {tried}, and {free} was free{ranks}",
        size(situation.untold_bytes().unwrap_or(0))
    )
}

fn limited(situation: &Situation, tried: &str, held: &str) -> String {
    let limit = match situation.limit {
        Some(limit) if limit.is_known() => size(limit.at_most_bytes),
        Some(Limit { at_least_bytes, at_most_bytes }) => {
            format!("between {} and {}", size(at_least_bytes), size(at_most_bytes))
        }
        None => "not told".to_owned(),
    };
    let room = match (situation.free_bytes, situation.tried_bytes) {
        (Some(free), Some(tried)) if free >= tried => {
            format!("; the GPU itself still had {} free", size(free))
        }
        (Some(free), _) => format!("; the GPU itself had only {} free, too", size(free)),
        _ => String::new(),
    };
    if situation.backend == Some("MPS") {
        return format!(
            "the limit of MPS, {limit} (`PYTORCH_MPS_HIGH_WATERMARK_RATIO`), refused a request of {tried}: PyTorch \
             held {held}, and {} was held by Metal for this process beside it (cached buffers, graphs, other libraries)",
            size(situation.others_bytes)
        );
    }
    format!(
        "a per-process memory limit refused a request of {tried}: this process may reserve {limit} \
         (`set_per_process_memory_fraction`, or `per_process_memory_fraction` in the settings), and {held} was \
         reserved{room}"
    )
}

fn outside(situation: &Situation, tried: &str, free: &str) -> String {
    if situation.kind == Kind::Driver {
        return "the driver had no memory for a user other than PyTorch's allocator: a CUDA context, a kernel, \
                cuBLAS, cuDNN or NCCL; the GPU was full, or another process had filled it (torch 0.4 prints the same where its \
                own allocator has no memory for a tensor)"
            .to_owned();
    }
    let (own, untold) = (situation.outside_bytes().unwrap_or(0), situation.untold_bytes().unwrap_or(0));
    if outside_beyond_context(situation) >= untold_beyond_context(situation) {
        format!(
            "{} of this process's memory is outside PyTorch's allocator (context, NCCL, other libraries): the \
             program requested {tried}, and {free} was free",
            size(own)
        )
    } else {
        if situation.shares_memory {
            return format!(
                "the machine's memory is shared between CPU and GPU, and of the total {} is neither free nor held by PyTorch in this process: \
                 programs and files in the host's memory, a second copy of the weights among them, or a part that the kernel's limit keeps from \
                 the GPU; the program requested {tried}, and {free} was free",
                size(untold)
            );
        }
        let apu =
            if matches!(situation.backend, Some("HIP" | "ROCm")) { "; on an APU, the host's own programs" } else { "" };
        let pool =
            if situation.kind == Kind::Asynchronous { "; or the driver's pool keeps it from earlier work" } else { "" };
        format!(
            "{} of the GPU is used by processes that the message does not name (those of other containers or users, \
             or this process outside PyTorch{apu}{pool}): the program requested {tried}, and {free} was free",
            size(untold)
        )
    }
}

fn notes(situation: &Situation, cause: Cause) -> Vec<String> {
    let mut notes = Vec::new();
    if situation.has_unavailable {
        notes.push(
            "the message prints an amount of 2^64 bytes (17179869184.00 GiB), or none, for this process: the driver does not report \
             its memory, as under WSL, in some containers and on some APUs, so memory outside PyTorch is unknown"
                .to_owned(),
        );
    }
    if let (Some(held), Some(capacity)) = (situation.held_bytes, situation.capacity_bytes)
        && situation.exceeds_capacity()
    {
        notes.push(format!(
            "PyTorch holds {}, more than the GPU's {}: the driver has moved a part to the host's memory (the fallback to \
             system memory on Windows, or an APU), or an engine's sleep mode has released memory that still counts",
            size(held),
            size(capacity)
        ));
    }
    if let (Cause::Fragmentation, Some(tried), Some(capacity)) =
        (cause, situation.tried_bytes, situation.capacity_bytes)
        && tried > capacity / LARGE_PART
        && situation.is_printed
    {
        notes.push(format!(
            "this one request is {} of the GPU: without gaps it fits, and computing less at once helps as well",
            percent(ratio(tried, capacity))
        ));
    }
    if let Some(pid) = situation.own_pid {
        let why = if situation.others.is_empty() {
            "the driver lists no other process on the GPU".to_owned()
        } else {
            format!("process {pid} holds the same amount")
        };
        notes.push(format!(
            "process {pid} is probably this one: in a container PyTorch does not know its own id, and {why}"
        ));
    }
    // What the message advises, where it would bring nothing.
    let is_allocators =
        situation.kind == Kind::Exhausted && situation.tried_bytes.is_some() && situation.supposed.is_none();
    if is_allocators
        && cause != Cause::Fragmentation
        && let (Some(unallocated), Some(held)) = (situation.unallocated_bytes, situation.held_bytes)
        && held > 0
        && situation.backend != Some("XPU")
    {
        let share = ratio(unallocated, held);
        if situation.has_expandable_segments {
            notes.push("the program already follows PyTorch's fragmentation hint".to_owned());
        } else if cause == Cause::NeverFits {
            notes.push(
                "PyTorch's fragmentation hint does not apply: the request is larger than the GPU, with or without gaps"
                    .to_owned(),
            );
        } else if let Some((unallocated, missing)) = nearly_enough(situation) {
            notes.push(format!(
                "PyTorch's fragmentation hint helps, but is not enough alone: {} of the {} that are missing is reserved but \
                 unallocated, and {} more would still be missing",
                size(unallocated),
                size(missing),
                size(missing - unallocated)
            ));
        } else if !is_fragmented(situation) {
            let unused = match unallocated {
                0 => "all reserved memory is in use".to_owned(),
                _ => format!("only {} ({}) of reserved memory is unallocated", size(unallocated), percent(share)),
            };
            notes.push(format!("PyTorch's fragmentation hint does not apply: {unused}"));
        }
    }
    notes
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
