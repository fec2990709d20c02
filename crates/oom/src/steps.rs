//! Advice, the largest saving first.

use highwater_allocator::settings::VARIABLE;
use highwater_driver::context;
use highwater_units::{counted, size};

use super::diagnosis::{
    Cause, Diagnosis, WORTH_A_WORD_BYTES, is_fragmented, is_usual_rest, nearly_enough, outside_beyond_context,
    untold_beyond_context,
};
use super::less::{less, less_of_asynchronous, less_of_each_rank, missing};
use super::log::Purpose;
use super::message::Kind;
use super::situation::{Situation, last_digit_bytes};

/// Processes that are named in a step.
const NAMED: usize = 4;

/// Few GPUs have as much, and nearly all that was posted is from smaller ones.
const LARGEST_DEVICE_BYTES: u64 = 192 << 30;

/// Less free than this part of a GPU is nearly nothing.
const NEARLY_FULL_PART: u64 = 32;

/// A refusal with so many times the request free is no matter of the last free memory.
const REFUSED_TIMES: u64 = 8;

/// The steps against fragmentation.
pub(super) const FRAGMENTATION: [&str; 3] = ["expandable-segments", "max-split-size", "empty-cache"];

/// Something to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// A stable word for its kind.
    pub id: &'static str,
    /// The advice in one line.
    pub title: String,
    /// The numbers that it rests on.
    pub detail: String,
    /// The setting, line of code or command, where there is one.
    pub change: Option<String>,
    /// The saving, if it is known.
    pub brings_bytes: Option<u64>,
    /// Whether that alone would have let the request through.
    pub is_enough: Option<bool>,
}

impl Step {
    /// A step with an unknown saving.
    pub fn new(id: &'static str, title: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { id, title: title.into(), detail: detail.into(), change: None, brings_bytes: None, is_enough: None }
    }

    /// With its setting, line of code or command.
    pub(super) fn with(self, change: impl Into<String>) -> Self {
        Self { change: Some(change.into()), ..self }
    }

    /// With its saving, and the needed bytes.
    #[must_use]
    pub fn brings(self, bytes: u64, needed: Option<u64>) -> Self {
        Self { brings_bytes: Some(bytes), is_enough: needed.map(|needed| bytes >= needed), ..self }
    }
}

/// Advice for a situation, by its saving.
pub fn steps(situation: &Situation, diagnosis: &Diagnosis) -> Vec<Step> {
    let rules = [
        contradiction,
        limit,
        reserve,
        processes,
        fragmentation,
        private_pools,
        outside,
        notebook,
        single_allocation,
        refused,
        custom_allocator,
        small_total,
        request,
    ];
    let mut steps: Vec<Step> = rules.iter().filter_map(|rule| rule(situation, diagnosis)).collect();
    for step in &mut steps {
        judge(step, situation);
    }
    sort(&mut steps);
    // What cures the cause stands before what others would have to do.
    if diagnosis.cause == Cause::Fragmentation
        && let Some(at) = steps.iter().position(|step| FRAGMENTATION.contains(&step.id) && step.is_enough == Some(true))
    {
        steps[..=at].rotate_right(1);
    }
    if diagnosis.cause == Cause::Refused {
        // Enough was free, so memory that others release changes nothing, unless hardly anything was.
        let is_nearly_full =
            situation.free_bytes.zip(situation.capacity_bytes).is_some_and(|(free, all)| free < all / NEARLY_FULL_PART);
        let look = if situation.is_windows { "larger-page-file" } else { "look-at-device" };
        let first = if is_nearly_full { "free-outside" } else { look };
        steps.sort_by_key(|step| (step.id != first, step.id != look));
    }
    let mut own = situation.named.map(|named| named.options(situation.purpose)).unwrap_or_default();
    if situation.shares_memory || situation.backend == Some("MPS") {
        // What moves to the CPU stays in the same memory.
        own.retain(|step| step.id != "offload");
    }
    if meets_watermark(situation) {
        if own.is_empty() {
            own.extend(shrink(situation, diagnosis));
        } else if keeps_graphs(situation) {
            own.insert(0, restart_program(situation));
        }
        steps.splice(..0, own);
        return steps;
    }
    match shrink(situation, diagnosis) {
        Some(_) if !own.is_empty() => {
            // A small rest in pieces tells that the card is too small for the settings.
            let has_small_rest = diagnosis.cause == Cause::Fragmentation
                && !situation.follows_evaluation
                && situation.unallocated_bytes.zip(situation.held_bytes).is_some_and(|(rest, held)| rest < held / 10);
            let at = if has_small_rest { 0 } else { behind_what_brings_much(&steps, situation, diagnosis) };
            let mut own = own;
            if let Some(first) = own.first_mut() {
                first.detail = format!("{}; {}", missing(situation), first.detail);
            }
            steps.splice(at..at, own);
        }
        None if diagnosis.cause == Cause::Refused && situation.engine.is_none() => {
            // Less is a cure, a look at others is none.
            let look = steps.iter().position(|step| step.id == "look-at-device");
            // Where many times the request was free, it is the refusal that has to be understood.
            let was_empty = matches!(situation.backend, Some("HIP" | "ROCm"))
                && situation.free_bytes > situation.tried_bytes.map(|tried| tried.saturating_mul(REFUSED_TIMES));
            let at = look.map_or(steps.len(), |look| if was_empty { look + 1 } else { look });
            steps.splice(at..at, own);
        }
        None if diagnosis.cause == Cause::NeverFits && situation.engine.is_none() => {
            // No option brings back memory for it, only those that make the request itself smaller.
            let of_request = situation.named.map(|named| named.of("request")).unwrap_or_default();
            let rest = own.into_iter().filter(|step| !of_request.contains(step));
            let rest: Vec<Step> = rest.collect();
            let is_possible = !situation.has_wrong_size() && small_total(situation, diagnosis).is_none();
            let of_request: Vec<Step> = of_request.into_iter().filter(|_| is_possible).collect();
            // Its own words take the place of the general ones.
            steps.retain(|step| of_request.iter().all(|own| own.id != step.id));
            steps.splice(0..0, of_request);
            if !situation.has_wrong_size() {
                steps.extend(rest);
            }
        }
        Some(step) => steps.insert(behind_what_brings_much(&steps, situation, diagnosis), step),
        None => {}
    }
    steps
}

/// Whether MPS refused a request at its own limit. That is 1.7 times the working set that Metal recommends (`MPSAllocator.h`), about the
/// machine's memory, so that a higher one only makes the system swap; one that the user has lowered is another matter.
fn meets_watermark(situation: &Situation) -> bool {
    situation.backend == Some("MPS") && situation.limit.is_some() && !situation.has_lowered_limit
}

/// Where the step belongs that reduces the need: a side step that brings less than half of the missing bytes comes after it.
fn behind_what_brings_much(steps: &[Step], situation: &Situation, diagnosis: &Diagnosis) -> usize {
    let missing = situation.shortage_bytes().unwrap_or(0);
    let brings_little =
        |side: &Step| side.is_enough == Some(false) && side.brings_bytes.is_some_and(|brings| brings < missing / 2);
    // What closes gaps is a side step where they are not the cause.
    let closes_gaps = |side: &Step| FRAGMENTATION.contains(&side.id) && is_usual_rest(situation);
    // So is a search for other holders of memory, where the program itself is too large.
    let is_loading = situation.purpose == Some(Purpose::Load);
    let is_of_others = |side: &Step| match side.id {
        "free-outside" | "end-process" => true,
        // It costs nothing, and other steps do; weights that are still to come need more than contexts release.
        "own-device" => side.is_enough != Some(true) || is_loading,
        "restart-kernel" => is_loading,
        _ => false,
    };
    let is_fragmented = diagnosis.cause == Cause::Fragmentation;
    let is_side = |side: &Step| brings_little(side) || !is_fragmented && (closes_gaps(side) || is_of_others(side));
    let at = steps.iter().position(is_side).filter(|_| is_fragmented || diagnosis.cause == Cause::TooBig);
    at.unwrap_or(steps.len())
}

/// A saving that is enough for the failed request may not be enough for its whole step.
pub(super) fn judge(step: &mut Step, situation: &Situation) {
    if let (Some(true), Some(brings), Some((least, most))) =
        (step.is_enough, step.brings_bytes, situation.step_lacks_bytes())
    {
        step.is_enough = match most {
            _ if brings < least => Some(false),
            Some(most) if brings >= most => Some(true),
            _ => None,
        };
    }
}

/// Sufficient steps first, then by saving.
pub fn sort(steps: &mut [Step]) {
    steps.sort_by_key(|step| std::cmp::Reverse((step.is_enough == Some(true), step.brings_bytes)));
}

fn limit(situation: &Situation, diagnosis: &Diagnosis) -> Option<Step> {
    if situation.kind == Kind::Rejected {
        return Some(
            Step::new(
                "drop-rejection",
                "turn `throw_on_cudamalloc_oom` off",
                "the allocator then releases cached memory and tries again before a request fails",
            )
            .with(format!("{}=throw_on_cudamalloc_oom:False", settings_variable(situation))),
        );
    }
    // A limit that the question supposes is nothing to change.
    if situation.supposed.is_some() {
        return None;
    }
    let is_concerned = diagnosis.cause == Cause::Limit || diagnosis.also.contains(&Cause::Limit);
    let limit = situation.limit.filter(|_| is_concerned)?;
    let beside = situation.held_bytes.unwrap_or(0).saturating_add(situation.others_bytes);
    let at_error = beside.saturating_add(situation.tried_bytes?);
    // Amounts that are printed alike differ by less than the last digit.
    let beyond = if situation.is_printed && limit.is_known() {
        limit.at_most_bytes.saturating_add(last_digit_bytes(limit.at_most_bytes))
    } else {
        0
    };
    let needed = at_error.max(situation.needs_bytes.unwrap_or(0)).max(beyond);
    let fraction = situation.capacity_bytes.filter(|&capacity| needed < capacity).map(|capacity| {
        let percent = needed.saturating_mul(100).div_ceil(capacity);
        if percent >= 100 { String::new() } else { format!("; the least that is enough is 0.{percent:02}") }
    });
    let change = match situation.backend {
        Some("MPS") => "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 (no limit: the system may swap or stall)".to_owned(),
        _ => format!("torch.cuda.set_per_process_memory_fraction(1.0){}", fraction.unwrap_or_default()),
    };
    let detail_of_mps = meets_watermark(situation)
        .then_some("; the default limit is about the machine's memory, and beyond it the system swaps");
    let of = if limit.is_known() { format!(" of {}", size(limit.at_most_bytes)) } else { String::new() };
    let Some(free) = situation.free_bytes else {
        let step = Step::new(
            "raise-limit",
            format!("raise the limit{of}"),
            format!("this request needs a limit of {} or more{}", size(needed), detail_of_mps.unwrap_or_default()),
        );
        return Some(step.with(change));
    };
    // What the limit keeps the process from.
    let brings = free.saturating_sub(limit.at_most_bytes.saturating_sub(situation.held_bytes.unwrap_or(0)));
    if brings == 0 {
        return None;
    }
    let others = match situation.whole_step.as_ref().filter(|whole| whole.at_most_bytes.is_some()) {
        Some(whole) => format!("the whole step {} plus the allocator's overhead", whole.amount()),
        None => "later ones may need more".to_owned(),
    };
    let detail =
        format!("{} was free on the GPU; this request needs a limit of {} or more, {others}", size(free), size(needed));
    let step = Step::new("raise-limit", format!("raise or remove the limit{of}"), detail);
    Some(step.with(change).brings(brings, Some(needed.saturating_sub(limit.at_most_bytes))))
}

fn contradiction(situation: &Situation, diagnosis: &Diagnosis) -> Option<Step> {
    if diagnosis.cause != Cause::Contradiction {
        return None;
    }
    let (capacity, free) = (situation.capacity_bytes?, situation.free_bytes?);
    let kernel = situation
        .hidden_total_bytes()
        .map_or_else(String::new, |vram| format!(" ({} by the kernel's log)", size(vram)));
    let detail = format!(
        "the total is {}{kernel}, the free memory {}; PyTorch cannot use more than the total that it sees",
        size(capacity),
        size(free)
    );
    Some(match situation.backend {
        Some("HIP" | "ROCm") if situation.hidden_total_bytes().is_some() => Step::new(
            "raise-shared-memory",
            "use a newer kernel and ROCm, which count the memory that the firmware sets aside; or set little of it aside, and raise the kernel's \
             limit of pages",
            format!("{detail}; more memory set aside would not be seen either"),
        )
        .with("Linux 6.16.9 or newer; or 512 MB in the firmware and ttm.pages_limit=N, with N = GiB × 262144"),
        Some("HIP" | "ROCm") => more_for_graphics(detail),
        _ => Step::new("look-at-device", "compare the totals of the driver's own tool with the message", detail)
            .with(tool(situation)),
    })
}

/// On an APU the GPU's memory is a part of the host's, which settings choose.
fn more_for_graphics(detail: impl Into<String>) -> Step {
    Step::new(
        "raise-shared-memory",
        "let the GPU use more of the host's memory: raise the kernel's limit of pages, or the memory that the firmware \
         sets aside for graphics, and use a newer ROCm",
        detail,
    )
    .with("ttm.pages_limit=N on the kernel's command line, with N = GiB × 262144")
}

/// A device whose total is all that stands in the way, and may be a setting.
fn small_total(situation: &Situation, diagnosis: &Diagnosis) -> Option<Step> {
    let capacity = situation.capacity_bytes?;
    (diagnosis.cause == Cause::NeverFits && situation.has_small_total()).then(|| {
        more_for_graphics(format!(
            "on an APU the total is a setting: ROCm sees {}, nearly all of it free",
            size(capacity)
        ))
    })
}

fn reserve(situation: &Situation, _: &Diagnosis) -> Option<Step> {
    let (reserve, tried) = (situation.reserve_bytes?, situation.tried_bytes?);
    let step = Step::new(
        "raise-reserve",
        "raise the expandable-segment reserve, or unset it",
        format!("it is {}, and one request was for {}", size(reserve), size(tried)),
    );
    Some(step.with("expandable_segments_reserve, expandable_segments_reserve_by_class"))
}

fn processes(situation: &Situation, diagnosis: &Diagnosis) -> Option<Step> {
    let total = situation.others_total_bytes();
    if diagnosis.cause == Cause::OtherProcess && situation.unmeasured() > 0 {
        return Some(unmeasured(situation));
    }
    if diagnosis.cause == Cause::NeverFits
        || situation.is_limited()
        || total < WORTH_A_WORD_BYTES
        || situation.others.is_empty()
    {
        return None;
    }
    let mut named: Vec<String> = situation
        .others
        .iter()
        .take(NAMED)
        .map(|process| format!("process {} has {}", process.pid, size(process.bytes)))
        .collect();
    let rest = situation.others.len().saturating_sub(NAMED);
    if rest > 0 {
        named.push(format!("and {} more", counted(rest, "process", "processes")));
    }
    let shortage = situation.shortage_bytes();
    if let Some(ranks) = situation.ranks_alike() {
        let step = Step::new(
            "own-device",
            "give each rank its own GPU, before its first use of CUDA or NCCL",
            format!(
                "{ranks} other processes hold the same small amount here: nearly always ranks of the same job that have set up CUDA on this GPU, too; \
                 if they are not, they are an earlier run's",
            ),
        );
        return Some(
            step.brings(total, shortage)
                .with("torch.cuda.set_device(local_rank), or one GPU in CUDA_VISIBLE_DEVICES for each rank"),
        );
    }
    if let Some(ranks) = situation.ranks_like_this() {
        let step = Step::new(
            "own-device",
            "give each rank of the job its own GPU, before it loads anything",
            format!(
                "{ranks} other processes hold as much here as this one: nearly always ranks of the same job that all use this GPU; if they are \
                 not, they are earlier runs that are still alive",
            ),
        );
        return Some(
            step.brings(total, shortage)
                .with("torch.cuda.set_device(local_rank), model.to(f\"cuda:{local_rank}\"), or one GPU in CUDA_VISIBLE_DEVICES for each rank"),
        );
    }
    if situation.is_test && situation.others.len() > 1 {
        let step = Step::new(
            "fewer-workers",
            "run fewer workers of the test run on this GPU at once, or give each a GPU of its own; and free what tests keep",
            format!(
                "{}: the largest is of a worker whose tests keep memory, as a fixture, a reference cycle or PyTorch's cache does",
                named.join(", ")
            ),
        );
        return Some(step.brings(total, shortage).with(
            "pytest -n 1, or a CUDA_VISIBLE_DEVICES for each PYTEST_XDIST_WORKER; gc.collect(); torch.cuda.empty_cache() after each test",
        ));
    }
    let own = situation.process_bytes.or(situation.held_bytes).unwrap_or(0);
    let alike = situation.others.iter().filter(|other| own > 0 && other.bytes.abs_diff(own) < own / 4).count();
    let hint = if alike > 0 {
        "; as much as this one: an earlier run that is still alive, or ranks of one job that all use this GPU \
         (`torch.cuda.set_device(local_rank)`)"
    } else {
        ""
    };
    let pids: Vec<String> = situation.others.iter().take(NAMED).map(|process| process.pid.to_string()).collect();
    let step = Step::new(
        "end-process",
        "end other processes on this GPU that are not needed, or use another GPU",
        format!("{}{hint}", named.join(", ")),
    );
    let brings = step.brings(total, shortage);
    Some(brings.with(format!("ps -o pid,user,lstart,cmd -p {}; then kill those that are not needed", pids.join(","))))
}

/// Others that are listed without their memory.
fn unmeasured(situation: &Situation) -> Step {
    let (untold, shortage) = (untold_beyond_context(situation), situation.shortage_bytes());
    if situation.started_together() {
        return Step::new(
            "own-device",
            "give each rank of the job its own GPU, before it loads anything, and leave moving the model to the launcher's library",
            format!(
                "{} other processes with ids that follow each other are on this GPU; a smaller batch does not help while they load",
                situation.unmeasured()
            ),
        )
        .brings(untold, shortage)
        .with(
            "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])); device_map={\"\": local_rank}, no .to(\"cuda\") by hand; \
             accelerate launch, deepspeed or torchrun",
        );
    }
    let pids: Vec<String> = situation.others.iter().take(NAMED).map(|process| process.pid.to_string()).collect();
    Step::new(
        "end-process",
        "end other processes on this GPU that are not needed, or use another GPU",
        format!("{} is in use beside this process", size(situation.untold_bytes().unwrap_or(0))),
    )
    .brings(untold, shortage)
    .with(format!("ps -o pid,user,lstart,cmd -p {}; then kill those that are not needed", pids.join(",")))
}

fn fragmentation(situation: &Situation, diagnosis: &Diagnosis) -> Option<Step> {
    // Without any gap it does not fit either.
    if diagnosis.cause == Cause::NeverFits {
        return None;
    }
    let is_of_use = !situation.exceeds_capacity() && (is_fragmented(situation) || nearly_enough(situation).is_some());
    if !is_of_use || situation.has_expandable_segments || situation.is_limited() && !is_fragmented(situation) {
        return None;
    }
    let unallocated = situation.unallocated_bytes?;
    if situation.has_memory_pools {
        // vLLM's cumem and SGLang's memory saver stop at start where expandable segments are on.
        let step = Step::new(
            "empty-cache",
            "empty PyTorch's cache before the engine wakes up, and after it sleeps",
            format!(
                "{} is reserved but unallocated; expandable segments do not go together with the engine's sleep mode",
                size(unallocated)
            ),
        );
        return Some(step.with("torch.cuda.empty_cache()").brings(unallocated, situation.shortage_bytes()));
    }
    let detail = format!(
        "{} is reserved but unallocated, in pieces; to see whether the rest of the run fits, run `highwater \
         simulate` on a snapshot",
        size(unallocated)
    );
    // Windows counts the last byte of a GPU as used and names no process; on Linux the driver leaves some MiB, and names them.
    let seems_windows = situation.names_no_process && situation.free_bytes == Some(0);
    let step = if seems_windows && !situation.lacks_expandable_segments {
        Step::new(
            "max-split-size",
            "keep large blocks whole: the numbers are those of Windows, which has no expandable segments",
            detail,
        )
        .with(format!(
            "{0}=max_split_size_mb:512; on Linux, WSL included, {0}=expandable_segments:True",
            settings_variable(situation)
        ))
    } else if situation.lacks_expandable_segments && matches!(situation.backend, None | Some("CUDA" | "HIP")) {
        Step::new("max-split-size", "keep large blocks whole: this platform has no expandable segments", detail)
            .with(format!("{}=max_split_size_mb:512", settings_variable(situation)))
    } else if situation.knows_expandable_segments {
        Step::new("expandable-segments", "turn on expandable segments, so that free pieces can be merged", detail)
            .with(format!("{}=expandable_segments:True", settings_variable(situation)))
    } else if matches!(situation.backend, None | Some("CUDA" | "HIP")) {
        Step::new(
            "max-split-size",
            "keep large blocks whole, or better, use torch 2.1 or newer, which has expandable segments",
            detail,
        )
        .with("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512")
    } else {
        Step::new("empty-cache", "empty the cache where the sizes of requests change", detail)
    };
    Some(step.brings(unallocated, situation.shortage_bytes()))
}

/// The environment variable with the allocator's settings: the one that every release reads.
fn settings_variable(situation: &Situation) -> &'static str {
    match situation.backend {
        Some("HIP" | "ROCm") => "PYTORCH_HIP_ALLOC_CONF",
        Some("NPU") => "PYTORCH_NPU_ALLOC_CONF",
        _ => VARIABLE,
    }
}

fn private_pools(situation: &Situation, _: &Diagnosis) -> Option<Step> {
    let bytes = situation.private_bytes;
    // An engine's pools are its own business: it has flags for them.
    if bytes < WORTH_A_WORD_BYTES || situation.engine.is_some() {
        return None;
    }
    let step = Step::new(
        "share-pools",
        "let CUDA graphs share one pool, capture fewer of them, or delete those no longer used",
        format!("{} is free in private pools, and other requests cannot use it", size(bytes)),
    );
    let step = step.brings(bytes, situation.shortage_bytes());
    Some(step.with("torch.cuda.graph(g, pool=first_graph.pool())"))
}

fn outside(situation: &Situation, diagnosis: &Diagnosis) -> Option<Step> {
    if situation.kind == Kind::Driver {
        let step = Step::new(
            "look-at-device",
            "see which processes use the GPU's memory",
            "the error has no numbers: it comes from the driver, not from PyTorch's allocator",
        );
        return Some(step.with(match tool(situation) {
            "nvidia-smi" => "nvidia-smi --query-compute-apps=pid,used_memory --format=csv",
            other => other,
        }));
    }
    let (own, untold) = (outside_beyond_context(situation), untold_beyond_context(situation));
    let is_usual = own.max(untold) < situation.capacity_bytes.unwrap_or(0) / 20;
    let is_of_no_use = diagnosis.cause == Cause::NeverFits || situation.is_limited();
    if is_of_no_use || own.max(untold) < 256 << 20 || is_usual {
        return None;
    }
    if own >= untold && situation.engine.is_some() {
        // NCCL and graphs of the engine.
        return None;
    }
    let step = if own >= untold {
        let detail = format!(
            "{} of this process is outside PyTorch; a context takes up to {}, and the rest is NCCL's buffers, \
             cuBLAS and cuDNN workspaces, or another library (TensorFlow and JAX reserve most of a GPU by default)",
            size(situation.outside_bytes()?),
            size(context::AT_MOST_BYTES)
        );
        Step::new("free-outside", "find which other library in this process uses the GPU", detail)
    } else if situation.unmeasured() > 0 {
        return None;
    } else if situation.shares_memory {
        Step::new(
            "raise-shared-memory",
            "see what else uses the machine's memory and how much of it the GPU may use: free memory of the host, such as a second copy of the \
             weights, or raise the kernel's limit or the firmware's share",
            format!(
                "{} is neither free nor held by PyTorch; CPU and GPU share the total, and what moves to the CPU stays in the same memory",
                size(situation.untold_bytes()?)
            ),
        )
        .with(
            "free -g; rocm-smi --showmeminfo vram gtt; ttm.pages_limit=N on the kernel's command line, with N = GiB × 262144 (older kernels: \
             amdgpu.gttsize); ComfyUI: --disable-mmap",
        )
    } else {
        let detail =
            format!("{} is neither free nor used by a process that the message lists", size(situation.untold_bytes()?));
        Step::new(
            "free-outside",
            "find which other processes use the GPU: the message does not list all of them",
            detail,
        )
        .with(match situation.kind {
            // Its users run it at home, where another GPU may be free.
            Kind::Asynchronous => {
                format!("{}; CUDA_VISIBLE_DEVICES=1 for another GPU (ComfyUI: --cuda-device 1)", tool(situation))
            }
            _ => format!("{}, on the host rather than in the container", tool(situation)),
        })
    };
    Some(step.brings(own.max(untold), situation.shortage_bytes()))
}

/// The program of the driver that lists who uses a device.
fn tool(situation: &Situation) -> &'static str {
    match situation.backend {
        Some("HIP" | "ROCm") => "rocm-smi --showpids",
        Some("NPU") => "npu-smi info",
        Some("XPU") => "xpu-smi ps",
        _ => "nvidia-smi",
    }
}

fn notebook(situation: &Situation, _: &Diagnosis) -> Option<Step> {
    let held = situation.held_bytes.filter(|_| situation.is_notebook && !situation.is_limited())?;
    let step = Step::new(
        "restart-kernel",
        "restart the kernel, or delete the tensors of earlier cells",
        format!(
            "this process holds {}; after an error, the traceback itself keeps the tensors of the failed cell alive",
            size(held)
        ),
    );
    let step = step.brings(held, None);
    Some(step.with(
        "del model, optimizer; import gc, sys; sys.last_traceback = None; gc.collect(); torch.cuda.empty_cache()",
    ))
}

fn single_allocation(situation: &Situation, diagnosis: &Diagnosis) -> Option<Step> {
    (diagnosis.cause == Cause::Refused && situation.exceeds_single_allocation()).then(|| {
        Step::new(
            "relax-limits",
            "allow allocations of 4 GiB or more, or request less at once",
            "the driver's default limit is 4 GiB for one allocation on several of Intel's GPUs",
        )
        .with("UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1")
    })
}

fn refused(situation: &Situation, diagnosis: &Diagnosis) -> Option<Step> {
    if diagnosis.cause != Cause::Refused || situation.exceeds_single_allocation() {
        return None;
    }
    if situation.backend == Some("MPS") {
        let step = Step::new(
            "other-device",
            "run on the CPU, or on a Mac whose GPU the program may use",
            "virtual Macs, such as those of CI services, show a GPU that has no memory for anybody",
        );
        return Some(step.with("device = \"cpu\""));
    }
    if situation.is_windows {
        return Some(larger_page_file());
    }
    let own = situation.named.map(|named| named.options(situation.purpose)).unwrap_or_default();
    if situation.names_no_process && own.is_empty() {
        let step = larger_page_file();
        return Some(Step { title: format!("on Windows, {}", step.title), ..step });
    }
    if matches!(situation.backend, Some("HIP" | "ROCm")) {
        let step = Step::new(
            "look-at-device",
            "run it again after a restart, and watch the memory of the GPU and of the host; then see whether driver and ROCm fit each other",
            "if the same request fails with the same memory free, the limit is the driver's or the host's, which backs each allocation (WSL, \
             Windows, an APU), and no setting of PyTorch moves it",
        );
        return Some(step.with(
            "rocm-smi --showmeminfo vram gtt --showpids --showdriverversion; free -g; sudo dmesg | tail; sysctl vm.max_map_count",
        ));
    }
    let step = Step::new(
        "look-at-device",
        "run it again, and watch which processes use the GPU's memory",
        "if the same request fails with the same memory free, the limit is the driver's or the partition's, and no setting of PyTorch \
         moves it",
    );
    Some(step.with(tool(situation)))
}

/// Windows commits memory of the system for each allocation on a GPU.
pub(super) fn larger_page_file() -> Step {
    Step::new(
        "larger-page-file",
        "make the paging file larger, or let Windows manage it, and restart",
        "Windows counts allocations, those on the GPU included, towards its commit limit, RAM and paging file together: at that limit the driver \
         refuses requests although the GPU has free memory",
    )
    .with("SystemPropertiesPerformance.exe, Advanced, Virtual memory")
}

fn custom_allocator(situation: &Situation, _: &Diagnosis) -> Option<Step> {
    (situation.kind == Kind::CustomAllocator).then(|| {
        Step::new(
            "custom-allocator",
            "check the custom allocator of the `MemPool`",
            "it returned a null pointer; PyTorch's own allocator did not run out of memory",
        )
    })
}

fn request(situation: &Situation, diagnosis: &Diagnosis) -> Option<Step> {
    let exceeds_most = situation.capacity_bytes.is_none() && situation.tried_bytes > Some(LARGEST_DEVICE_BYTES);
    if diagnosis.cause != Cause::NeverFits && !exceeds_most || small_total(situation, diagnosis).is_some() {
        return None;
    }
    if situation.purpose == Some(Purpose::Load) && !situation.has_wrong_size() {
        let detail = match (situation.tried_bytes, situation.capacity_bytes) {
            (Some(tried), Some(capacity)) => format!(
                "one block of {} for weights cannot fit on a GPU with {}: in fewer bits they are a half or a quarter of that",
                size(tried),
                size(capacity)
            ),
            _ => "the weights are larger than any GPU: in fewer bits they are a half or a quarter of that".to_owned(),
        };
        return Some(less(situation.purpose, situation.is_training, detail));
    }
    if situation.has_wrong_size() {
        return Some(Step::new(
            "split-request",
            "find the wrong size: print the sizes of the tensors that the line of the traceback uses, before it, and see where they are set",
            "no GPU has that much memory: a size is negative, overflowed, was never set, or was overwritten by a kernel that ran before (run \
             that part without its fused or custom kernels, on the CPU, or with launches that wait); less work at once does not help",
        ));
    }
    let detail = match (situation.tried(), situation.capacity_bytes) {
        (Some(tried), Some(capacity)) => {
            format!(
                "one tensor of {tried} cannot fit on a GPU with {}, whatever the settings: often it holds all scores of an attention without a \
                 fused kernel, which grow with the square of the tokens or pixels, or a shape is wrong",
                size(capacity)
            )
        }
        (Some(tried), None) => format!(
            "hardly any GPU has {tried}: usually full attention, whose memory grows with the square of the tokens (an old torch, \
             or no fused kernel for this GPU), or a wrong shape"
        ),
        _ => "a shape is wrong".to_owned(),
    };
    let title = if situation.is_training == Some(true) {
        "request less at once: a smaller batch and shorter sequences or smaller inputs; check the shape that the line of the traceback creates"
    } else {
        "request less at once: a shorter or smaller input, in tiles or chunks; check the shape that the line of the traceback creates"
    };
    Some(Step::new("split-request", title, detail))
}

/// The advice that always helps, with its amount.
fn shrink(situation: &Situation, diagnosis: &Diagnosis) -> Option<Step> {
    if !matches!(situation.kind, Kind::Exhausted | Kind::Asynchronous | Kind::Rejected)
        || is_of_others(situation, diagnosis)
        || matches!(diagnosis.cause, Cause::NeverFits | Cause::Reserve | Cause::Refused | Cause::Contradiction)
        || situation.engine.is_some()
    {
        return None;
    }
    if keeps_graphs(situation) {
        let step = Step::new(
            "shrink",
            "compute on less at once: a shorter or smaller input, in chunks of one shape, because Metal keeps a graph and its buffers for each shape",
            format!(
                "allocations outside PyTorch's allocator hold {}, which torch.mps.empty_cache() does not release; {}",
                size(situation.others_bytes),
                missing(situation)
            ),
        );
        return Some(step);
    }
    if situation.kind == Kind::Asynchronous && situation.purpose.is_none() && situation.named.is_none() {
        return Some(less_of_asynchronous(missing(situation)));
    }
    if situation.purpose == Some(Purpose::Load) && situation.is_of_rank {
        return Some(less_of_each_rank(missing(situation)));
    }
    Some(less(situation.purpose, situation.is_training, missing(situation)))
}

/// Metal keeps buffers and graphs of every shape that it has seen.
fn keeps_graphs(situation: &Situation) -> bool {
    situation.backend == Some("MPS") && Some(situation.others_bytes) > situation.allocated_bytes
}

/// A program with a user interface lives for many inputs.
fn restart_program(situation: &Situation) -> Step {
    Step::new(
        "restart-process",
        "restart the program: Metal's graphs and buffers of earlier inputs then go; and use a newer torch",
        format!(
            "{} is held by Metal in this process beside PyTorch's tensors, and nothing releases it while the process lives",
            size(situation.others_bytes)
        ),
    )
}

/// Whether others have nearly the whole GPU: hardly any program is so small that it would fit beside them.
fn is_of_others(situation: &Situation, diagnosis: &Diagnosis) -> bool {
    let held = situation.held_bytes.zip(situation.capacity_bytes);
    matches!(diagnosis.cause, Cause::OtherProcess | Cause::OutsidePyTorch)
        && situation.kind != Kind::Driver
        && held.is_some_and(|(held, capacity)| held < capacity / 10)
}

/// The step that leads beyond a message.
pub fn record_a_snapshot(situation: &Situation) -> Step {
    /// Records, and writes the snapshot at the error.
    const RUN: &str = "highwater run train.py; then `highwater explain` with the file that it writes";
    let record = "record a snapshot of the next failure: it shows the live memory, the lines that allocated it, and \
     the effect of other settings";
    match situation.kind {
        Kind::Asynchronous => Step::new(
            "record",
            format!("switch back to PyTorch's own allocator for one run, and {record}"),
            "PyTorch keeps no history of allocations by `backend:cudaMallocAsync`, and a message holds only totals",
        )
        .with(format!("remove `backend:cudaMallocAsync` from PYTORCH_CUDA_ALLOC_CONF; {RUN}")),
        _ => Step::new("record", record, "a message holds only totals").with(RUN),
    }
}
