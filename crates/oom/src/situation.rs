//! The numbers of a failure, added up: the parts of the device's memory.

use highwater_allocator::{Memory, TorchVersion};

use highwater_units::{bounds, size_with_requested};

use super::diagnosis::LARGE_PART;
use super::log::{Group, Purpose, Side, Surroundings};
use super::message::{Kind, Message, Process};
use super::options::Named;

/// A process seen from outside its container is taken for this one if it has no more than this beside what is held.
const OWN_BESIDE_BYTES: u64 = 4 << 30;

/// So much of the free memory no request gets.
const KEPT_BYTES: u64 = 64 << 20;

/// The most memory of a machine whose CPU and GPU share it.
const LARGEST_APU_BYTES: u64 = 128 << 30;

/// Totals of whole GiB that only APUs have: GPUs with memory of their own, as large, keep a part of it.
const SHARED_TOTALS: [u64; 2] = [96 << 30, LARGEST_APU_BYTES];

/// Processes that one program has started have ids so close to each other, for each of them.
const NEAR_PIDS: u32 = 8;

/// A rank that computes on another GPU has no more than this here: a context and NCCL's buffers.
const LARGEST_RANK_BYTES: u64 = 2 << 30;
/// Processes that have a share of their own, of many.
const MAX_NAMED: usize = 8;
/// No computer has so much memory.
const NO_MEMORY_BYTES: u64 = 1 << 44;
/// Fewer may be alike by chance.
const LEAST_RANKS: usize = 3;
/// Processes with near ids that one program has started.
const LEAST_STARTED: u32 = 3;
/// The same of those that hold as much as this one, which is rarer.
const LEAST_LIKE_THIS: usize = 2;

/// A process on a GPU has no less than this.
const LEAST_CONTEXT_BYTES: u64 = 64 << 20;

/// The memory limit of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// So much was held, so it is no less.
    pub at_least_bytes: u64,
    /// So much was refused; equal to the other where the limit is known.
    pub at_most_bytes: u64,
}

impl Limit {
    /// A known limit.
    pub fn exactly(bytes: u64) -> Self {
        Self { at_least_bytes: bytes, at_most_bytes: bytes }
    }

    /// Whether it is known to the byte, or as printed.
    pub fn is_known(self) -> bool {
        self.at_least_bytes == self.at_most_bytes
    }
}

/// The facts of a failure, from a message, a snapshot or a simulated run; sizes are in bytes.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Situation {
    /// The component that refused the request.
    pub kind: Kind,
    /// Nothing failed: the question is about a run with this much memory.
    pub supposed: Option<Memory>,
    /// `CUDA`, `HIP`, `XPU`, `MPS`, as far as it is told.
    pub backend: Option<&'static str>,
    /// The device's ordinal.
    pub device: Option<u32>,
    /// The program's own request, if it is known in addition to the message's amount.
    pub requested_bytes: Option<u64>,
    /// The bytes requested from the driver: the amount of PyTorch's message.
    pub tried_bytes: Option<u64>,
    /// The device's memory.
    pub capacity_bytes: Option<u64>,
    /// Free memory of the driver.
    pub free_bytes: Option<u64>,
    /// The total memory of this process on the device.
    pub process_bytes: Option<u64>,
    /// This process is known by this id only: it stands among others, for it runs in a container.
    pub own_pid: Option<u32>,
    /// In blocks that the program holds, private pools' free blocks not counted.
    pub allocated_bytes: Option<u64>,
    /// In segments.
    pub held_bytes: Option<u64>,
    /// In segments and in no block that the program holds, private pools not counted.
    pub unallocated_bytes: Option<u64>,
    /// The text sets a lower limit than the platform's own.
    pub has_lowered_limit: bool,
    /// In free blocks of private pools.
    pub private_bytes: u64,
    /// The memory limit of this process.
    pub limit: Option<Limit>,
    /// Other processes on the device, the largest first.
    pub others: Vec<Process>,
    /// MPS: memory of Metal in this process beside PyTorch's tensors.
    pub others_bytes: u64,
    /// The amounts are printed ones, so each may be off by half a hundredth of its unit.
    pub is_printed: bool,
    /// The message prints an amount that the driver did not tell.
    pub has_unavailable: bool,
    /// The message has no process in it, as PyTorch's for Windows, where it does not ask the driver for them.
    pub names_no_process: bool,
    /// The engine whose log it is: `vllm`, `sglang`.
    pub engine: Option<&'static str>,
    /// The engine's pools exclude expandable segments (sleep mode, cumem).
    pub has_memory_pools: bool,
    /// The release of PyTorch, where something tells it.
    pub torch: Option<(u16, u16)>,
    /// The expandable-segment reserve that is too small.
    pub reserve_bytes: Option<u64>,
    /// Expandable segments are on.
    pub has_expandable_segments: bool,
    /// The release is so old that there are none.
    pub knows_expandable_segments: bool,
    /// The platform has none.
    pub lacks_expandable_segments: bool,
    /// The program ran in a notebook.
    pub is_notebook: bool,
    /// The program, if it is one with options of its own that are known.
    pub named: Option<Named>,
    /// Whether it trains, where the text tells.
    pub is_training: Option<bool>,
    /// The platform is Windows.
    pub is_windows: bool,
    /// The message is of one rank of a job.
    pub is_of_rank: bool,
    /// It fails after an evaluation, and not without one.
    pub follows_evaluation: bool,
    /// The text is of tests.
    pub is_test: bool,
    /// The GPU's memory is the host's: an APU.
    pub shares_memory: bool,
    /// The GPU's memory by the kernel's log.
    pub vram_bytes: Option<u64>,
    /// What the lines of the traceback were doing.
    pub purpose: Option<Purpose>,
    /// The lines compute with a number for each token and entry of the vocabulary.
    pub holds_logits: bool,
    /// The memory that the program needs at once with any allocator: requested and live, with the request that failed. Only a
    /// recording tells.
    pub needs_bytes: Option<u64>,
    /// The memory of the whole step in which the request failed; only a recording has it.
    pub whole_step: Option<StepNeed>,
}

/// The peak of a whole step that failed in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepNeed {
    /// This much at least.
    pub at_least_bytes: u64,
    /// And this much at most; `None` where nothing tells.
    pub at_most_bytes: Option<u64>,
}

impl StepNeed {
    /// In words, to follow "the whole step needs".
    pub fn amount(&self) -> String {
        bounds(self.at_least_bytes, self.at_most_bytes)
    }
}

/// A part of the device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whose.
    pub holder: Holder,
    /// The bytes.
    pub bytes: u64,
}

/// Who has a part of the device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Blocks that the program holds.
    Allocated,
    /// PyTorch's cache: reserved, in no block that the program holds.
    Unallocated,
    /// Free blocks of private pools.
    PrivatePools,
    /// This process, without PyTorch's allocator: context, kernels, NCCL, other libraries.
    OutsidePyTorch,
    /// Another process.
    Process(u32),
    /// Others that are not named.
    Others,
    /// No process.
    Free,
    /// What the numbers do not say: processes that are not listed, the driver; and of this process what is not PyTorch's,
    /// where it is not told apart.
    Untold,
}

impl Holder {
    /// The word of the JSON document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocated => "allocated",
            Self::Unallocated => "unallocated",
            Self::PrivatePools => "private-pools",
            Self::OutsidePyTorch => "outside-pytorch",
            Self::Process(_) => "process",
            Self::Others => "others",
            Self::Free => "free",
            Self::Untold => "untold",
        }
    }
}

impl Situation {
    /// The state of a run with this much memory when a request fails.
    pub fn of_run(device: u32, memory: Memory, failure: &highwater_allocator::OutOfMemory) -> Self {
        let (limit, total_bytes, outside_bytes) = match memory {
            Memory::Ample => (None, None, 0),
            Memory::Limit(bytes) => (Some(Limit::exactly(bytes)), None, 0),
            Memory::Card { total_bytes, outside_bytes } => (None, Some(total_bytes), outside_bytes),
        };
        let held = failure.reserved_bytes;
        let of_process = held.saturating_add(outside_bytes);
        Self {
            supposed: Some(memory),
            device: Some(device),
            requested_bytes: Some(failure.requested_bytes),
            tried_bytes: Some(failure.segment_bytes),
            capacity_bytes: total_bytes,
            free_bytes: total_bytes.map(|total| total.saturating_sub(of_process)),
            process_bytes: total_bytes.map(|_| of_process),
            allocated_bytes: Some(failure.allocated_bytes),
            held_bytes: Some(held),
            unallocated_bytes: Some(held.saturating_sub(failure.allocated_bytes)),
            limit,
            knows_expandable_segments: true,
            ..Self::default()
        }
    }

    /// The facts of a message.
    pub fn of_message(message: &Message, surroundings: Surroundings) -> Self {
        let held = message.held_bytes();
        let private = message.private_bytes.unwrap_or(0);
        // A process has no less than what it holds: then the driver did not tell.
        let process = message.process_bytes.filter(|&bytes| held.is_none_or(|held| bytes >= held - held / 50));
        let mut others = message.other_processes.clone();
        others.sort_by_key(|process| (std::cmp::Reverse(process.bytes), process.pid));
        let own = own_process(&others, message, held);
        if let Some(own) = own {
            others.retain(|process| *process != own);
        }
        let last_release = message.releases.map_or(TorchVersion::NEWEST.numbers(), |releases| releases.last);
        Self {
            kind: message.kind,
            supposed: None,
            backend: message.backend,
            device: message.device,
            requested_bytes: None,
            tried_bytes: message.tried_bytes,
            capacity_bytes: message.capacity_bytes,
            free_bytes: message.free_bytes,
            process_bytes: process.or(own.map(|own| own.bytes)),
            own_pid: own.map(|own| own.pid),
            allocated_bytes: message.allocated_bytes.map(|allocated| allocated.saturating_sub(private)),
            held_bytes: held,
            unallocated_bytes: message.unallocated_bytes(),
            private_bytes: private,
            limit: message.limit_bytes.map(Limit::exactly),
            has_lowered_limit: surroundings.lowers_watermark,
            others,
            others_bytes: message.others_bytes.unwrap_or(0),
            is_printed: true,
            has_unavailable: message.has_unavailable || process.is_none() && message.process_bytes.is_some(),
            names_no_process: names_no_process(message),
            engine: surroundings.engine,
            has_memory_pools: surroundings.has_memory_pools,
            torch: surroundings.torch,
            reserve_bytes: message.reserve_bytes,
            has_expandable_segments: message.has_expandable_segments || surroundings.has_expandable_segments,
            knows_expandable_segments: last_release >= (2, 1)
                && matches!(message.backend, None | Some("CUDA" | "HIP" | "ROCm" | "NPU")),
            is_notebook: surroundings.is_notebook,
            named: surroundings.named,
            is_training: surroundings.is_training(),
            is_windows: surroundings.is_windows,
            is_of_rank: message.rank.is_some(),
            follows_evaluation: surroundings.follows_evaluation,
            is_test: surroundings.is_test,
            shares_memory: matches!(message.backend, Some("HIP" | "ROCm"))
                && (surroundings.shares_memory
                    || message.capacity_bytes.is_some_and(|total| SHARED_TOTALS.contains(&total))),
            vram_bytes: surroundings.vram_bytes,
            lacks_expandable_segments: surroundings.lacks_expandable_segments,
            purpose: None,
            holds_logits: false,
            needs_bytes: None,
            whole_step: None,
        }
    }

    /// The facts of a message of a log: its traceback tells a server from a trainer in the same job.
    pub fn of_group(group: &Group, surroundings: Surroundings) -> Self {
        let engine = match group.asked.side {
            Some(Side::Engine(engine)) => Some(engine),
            Some(Side::Trainer) => None,
            None => surroundings.engine,
        };
        Self {
            engine,
            purpose: surroundings.work(group.asked.purpose_in(&surroundings)),
            holds_logits: group.asked.holds_logits(),
            ..Self::of_message(&group.message, surroundings)
        }
    }

    /// The memory that the allocator could certainly still reserve: free memory, within the limit.
    pub fn headroom_bytes(&self) -> Option<u64> {
        // On MPS what others hold counts towards the limit.
        let held = self.held_bytes.map(|held| held.saturating_add(self.others_bytes));
        let within_limit = self.limit.and_then(|limit| Some(limit.at_least_bytes.saturating_sub(held?)));
        match (self.free_bytes, within_limit) {
            (Some(free), Some(limit)) => Some(free.min(limit)),
            (free, limit) => free.or(limit),
        }
    }

    /// The most that the allocator could still have reserved, where only the sizes of the device and of what is held are told.
    pub fn headroom_at_most_bytes(&self) -> Option<u64> {
        let held = self.held_bytes?.saturating_add(self.others_total_bytes());
        self.headroom_bytes().or_else(|| Some(self.capacity_bytes?.saturating_sub(held)))
    }

    /// Whether the request is larger than the 4 GiB that drivers of Intel's GPUs allow for one allocation by default.
    pub fn exceeds_single_allocation(&self) -> bool {
        self.backend == Some("XPU") && self.tried_bytes.is_some_and(|tried| tried >= 4 << 30)
    }

    /// All that the allocator could surely have held.
    pub fn available_bytes(&self) -> Option<u64> {
        Some(self.held_bytes?.saturating_add(self.headroom_bytes()?))
    }

    /// How much the whole step lacks, at least and at most; `None` where no recording tells of more than the request.
    pub fn step_lacks_bytes(&self) -> Option<(u64, Option<u64>)> {
        let whole = self.whole_step.as_ref().filter(|whole| whole.at_most_bytes.is_some())?;
        let available = self.available_bytes()?;
        let lacks = |bytes: u64| bytes.saturating_sub(available);
        Some((lacks(whole.at_least_bytes), whole.at_most_bytes.map(lacks)))
    }

    /// How much more was needed from the driver, at most.
    pub fn shortage_bytes(&self) -> Option<u64> {
        let (tried, headroom) = (self.tried_bytes?, self.headroom_bytes()?);
        // Two amounts that are printed alike differ by less than the last digit.
        let at_least = if self.is_within_rounding() { last_digit_bytes(tried.max(headroom)) } else { 0 };
        Some(tried.saturating_sub(headroom).max(at_least))
    }

    /// How much more was needed at least, also where the free memory is not told.
    pub fn least_shortage_bytes(&self) -> Option<u64> {
        self.shortage_bytes().or_else(|| Some(self.tried_bytes?.saturating_sub(self.headroom_at_most_bytes()?)))
    }

    /// Whether the request is a large part of the GPU, and lines that compute with all logits made it: in parts it need not be so large.
    pub fn is_of_all_logits(&self) -> bool {
        let part = self.tried_bytes.zip(self.capacity_bytes);
        self.holds_logits && part.is_some_and(|(tried, capacity)| tried > capacity / LARGE_PART)
    }

    /// Whether the message prints the request and the free memory alike, so that either may be the larger.
    pub fn is_within_rounding(&self) -> bool {
        let (Some(tried), Some(headroom)) = (self.tried_bytes, self.headroom_bytes()) else { return false };
        self.is_printed && tried > 0 && tried.abs_diff(headroom) < last_digit_bytes(tried.max(headroom))
    }

    /// Whether hardly anything is free, though a little more than was requested: the driver keeps that for itself, or it is in pieces.
    pub fn is_full(&self) -> bool {
        let (Some(tried), Some(free)) = (self.tried_bytes, self.free_bytes) else { return false };
        self.is_printed && tried > 0 && free.saturating_sub(tried) <= KEPT_BYTES
    }

    /// Whether the driver reports more free memory than there is, as it does for GPUs that share the host's memory.
    pub fn is_contradictory(&self) -> bool {
        let over = |capacity: u64, free: u64| free > capacity.saturating_add(last_digit_bytes(free));
        self.capacity_bytes.zip(self.free_bytes).is_some_and(|(capacity, free)| over(capacity, free))
    }

    /// Whether PyTorch holds more than the GPU has, beyond what rounding explains: a part is in the host's memory.
    pub fn exceeds_capacity(&self) -> bool {
        let beyond = |held: u64, capacity: u64| held > capacity.saturating_add(capacity / 50);
        self.is_printed
            && !self.is_contradictory()
            && self.held_bytes.zip(self.capacity_bytes).is_some_and(|(held, capacity)| beyond(held, capacity))
    }

    /// The least that the program is sure to need: at once, or in the step that failed.
    pub fn least_needed_bytes(&self) -> Option<u64> {
        self.needs_bytes.max(self.whole_step.map(|whole| whole.at_least_bytes))
    }

    /// Whether the program needs more than there is, however its blocks are placed.
    pub fn is_impossible(&self) -> bool {
        let of_device = self.free_bytes.zip(self.held_bytes).map(|(free, held)| free.saturating_add(held));
        // Where it is not known, it refused so much.
        let of_limit = self.limit.map(|limit| limit.at_most_bytes.saturating_sub(u64::from(!limit.is_known())));
        let most = of_device.into_iter().chain(of_limit).min();
        self.least_needed_bytes().zip(most).is_some_and(|(needed, most)| needed > most)
    }

    /// The amount of PyTorch's message, with the program's own request if that prints differently.
    pub fn tried(&self) -> Option<String> {
        let tried = self.tried_bytes?;
        if self.is_printed && tried >= 1 << 40 {
            // PyTorch has no larger unit than GiB.
            let hundredths = (u128::from(tried) * 100 + (1 << 29)) >> 30;
            return Some(format!("{}.{:02} GiB", hundredths / 100, hundredths % 100));
        }
        Some(size_with_requested(tried, self.requested_bytes.unwrap_or(tried)))
    }

    /// Whether the limit, rather than the device, stood in the way.
    pub fn is_limited(&self) -> bool {
        let (Some(limit), Some(tried)) = (self.limit, self.tried_bytes) else { return false };
        let needed = self.held_bytes.unwrap_or(0).saturating_add(self.others_bytes).saturating_add(tried);
        // Printed amounts are off by half a hundredth of a unit: what meets the limit exactly may have exceeded it.
        needed.saturating_add(needed / 500) >= limit.at_most_bytes
    }

    /// This process's memory that is not PyTorch's allocator's.
    pub fn outside_bytes(&self) -> Option<u64> {
        // Of a message that is cut before it, what is reserved beside the tensors is not known.
        self.unallocated_bytes?;
        Some(self.process_bytes?.saturating_sub(self.held_bytes?))
    }

    /// The rest of the device's memory.
    pub fn untold_bytes(&self) -> Option<u64> {
        let own = self.process_bytes.or(self.held_bytes)?;
        let others = self.others_total_bytes();
        let told = self.free_bytes?.saturating_add(own).saturating_add(others);
        Some(self.capacity_bytes?.saturating_sub(told))
    }

    /// The GPU's memory by the kernel's log, where the driver shows PyTorch much less.
    pub fn hidden_total_bytes(&self) -> Option<u64> {
        let capacity = self.capacity_bytes?;
        self.vram_bytes.filter(|&vram| vram > capacity.saturating_add(capacity / 8) && self.tried_bytes <= Some(vram))
    }

    /// Whether the request is so large that it can only be a mistake.
    pub fn has_wrong_size(&self) -> bool {
        self.kind == Kind::MoreThanOneExabyte || self.tried_bytes >= Some(NO_MEMORY_BYTES)
    }

    /// How many processes beside this one hold as much as it: ranks of one job that all use this GPU.
    pub fn ranks_like_this(&self) -> Option<usize> {
        let own = self.process_bytes.or(self.held_bytes)?;
        // A printed amount of PyTorch lacks the context; ranks that one program has started need not be equally far.
        let off = if self.started_together() { own / 4 } else { own / 16 };
        let is_alike = |process: &&Process| process.bytes.abs_diff(own) <= off;
        let alike = self.others.iter().filter(is_alike).count();
        (own >= LARGEST_RANK_BYTES && alike >= LEAST_LIKE_THIS && alike * 4 >= self.others.len() * 3).then_some(alike)
    }

    /// Whether `ROCm` shows an empty device that is smaller than the request, which may be an APU's setting rather than its memory.
    pub fn has_small_total(&self) -> bool {
        let (Some(capacity), Some(free), Some(tried)) = (self.capacity_bytes, self.free_bytes, self.tried_bytes) else {
            return false;
        };
        let is_empty = self.held_bytes.unwrap_or(0) < capacity / 50 && free > capacity / 10 * 9;
        // An absurd request stays one.
        is_empty && matches!(self.backend, Some("HIP" | "ROCm")) && tried > capacity && tried <= LARGEST_APU_BYTES
    }

    /// How many processes beside this one hold about the same small amount, no more than a context and NCCL's buffers need: ranks of a
    /// job that do not select a GPU of their own.
    pub fn ranks_alike(&self) -> Option<usize> {
        let middle = self.others.get(self.others.len() / 2)?.bytes;
        let is_alike = |process: &&Process| process.bytes.abs_diff(middle) <= middle / 50;
        let alike = self.others.iter().filter(is_alike).count();
        let is_small = middle <= LARGEST_RANK_BYTES && self.held_bytes.is_some_and(|held| held > middle);
        (is_small && alike >= LEAST_RANKS && alike * 4 >= self.others.len() * 3).then_some(alike)
    }

    /// How many processes the message lists without their memory, which the driver does not tell for each.
    pub fn unmeasured(&self) -> usize {
        if self.untold_bytes().is_none() {
            return 0;
        }
        self.others.iter().filter(|process| process.bytes == 0).count()
    }

    /// Whether the processes on the GPU, this one included, have ids close to each other: one program has started them all.
    pub fn started_together(&self) -> bool {
        let pids = || self.others.iter().map(|process| process.pid).chain(self.own_pid);
        let (Some(first), Some(last)) = (pids().min(), pids().max()) else { return false };
        let count = u32::try_from(pids().count()).unwrap_or(u32::MAX);
        count >= LEAST_STARTED && last - first <= NEAR_PIDS.saturating_mul(count)
    }

    /// Memory of other processes.
    pub fn others_total_bytes(&self) -> u64 {
        self.others.iter().map(|process| process.bytes).fold(self.others_bytes, u64::saturating_add)
    }

    /// The parts that the device's memory adds up to, as far as they are known; empty where its size is not.
    pub fn shares(&self) -> Vec<Share> {
        if self.is_contradictory() {
            return Vec::new();
        }
        let share = |holder, bytes: Option<u64>| bytes.filter(|&bytes| bytes > 0).map(|bytes| Share { holder, bytes });
        let own = [
            share(Holder::Allocated, self.allocated_bytes),
            share(Holder::Unallocated, self.unallocated_bytes),
            share(Holder::PrivatePools, Some(self.private_bytes)),
            share(Holder::OutsidePyTorch, self.outside_bytes()),
        ];
        let (named, more) = self.others.split_at(self.others.len().min(MAX_NAMED));
        let others = named.iter().map(|process| share(Holder::Process(process.pid), Some(process.bytes)));
        let more_bytes = more.iter().map(|process| process.bytes).fold(self.others_bytes, u64::saturating_add);
        let rest = [
            share(Holder::Others, Some(more_bytes)),
            share(Holder::Untold, self.untold_bytes().filter(|&bytes| bytes > self.rounding_bytes())),
            share(Holder::Free, self.free_bytes),
        ];
        own.into_iter().chain(others).chain(rest).flatten().collect()
    }

    /// The possible error of sums of printed amounts.
    fn rounding_bytes(&self) -> u64 {
        let printed = 5 + u64::try_from(self.others.len()).unwrap_or(u64::MAX - 5);
        printed.saturating_mul((1 << 30) / 100)
    }
}

/// What the last printed digit of an amount stands for.
pub(super) fn last_digit_bytes(bytes: u64) -> u64 {
    match bytes {
        0..=1024 => 0,
        1025..=0x10_0000 => (1 << 10) / 100,
        0x10_0001..=0x4000_0000 => (1 << 20) / 100,
        _ => (1 << 30) / 100,
    }
}

/// Whether a whole message of a release that names processes has none.
fn names_no_process(message: &Message) -> bool {
    let is_whole = message.allocated_bytes.is_some() && message.unallocated_bytes().is_some() && !message.is_cut;
    let names_them = message.releases.is_some_and(|releases| releases.first >= (2, 1));
    is_whole
        && names_them
        && message.backend == Some("CUDA")
        && message.process_bytes.is_none()
        && message.other_processes.is_empty()
}

/// The listed process that is likely this one: in a container PyTorch does not know its own id.
fn own_process(listed: &[Process], message: &Message, held: Option<u64>) -> Option<Process> {
    if message.names_itself {
        return None;
    }
    let Some(held) = held.or(message.allocated_bytes) else {
        // Cut: one process that has all memory in use leaves none for the context of another.
        let used = message.capacity_bytes?.saturating_sub(message.free_bytes?);
        return listed.first().copied().filter(|only| listed.len() == 1 && used < only.bytes + LEAST_CONTEXT_BYTES);
    };
    let least = held - held / 200;
    let most = held.saturating_add(OWN_BESIDE_BYTES);
    let likely = listed.iter().filter(|process| process.bytes >= least && process.bytes <= most);
    let likely = likely.copied().min_by_key(|process| process.bytes);
    // The GPU has no room for this process beside it.
    let capacity = message.capacity_bytes.unwrap_or(u64::MAX);
    let only = listed.iter().copied().find(|process| process.bytes.saturating_add(least) > capacity);
    // The driver's list has this process, too, under whatever id.
    let single = listed.first().copied().filter(|_| listed.len() == 1);
    likely.or(only).or(single)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn situation(text: &str) -> Situation {
        Situation::of_message(&Message::parse(text).unwrap(), Surroundings::default())
    }

    #[test]
    fn the_parts_add_up_to_the_device() {
        let situation = situation(
            "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 139.80 GiB of which 83.96 GiB is \
             free. Process 412 has 15.72 GiB memory in use. Process 404 has 518.00 MiB memory in use. Process 411 has 14.22 \
             GiB memory in use. Process 410 has 12.68 GiB memory in use. Including non-PyTorch memory, this process has \
             12.68 GiB memory in use. 12.00 GiB allowed; Of the allocated memory 11.43 GiB is allocated by PyTorch, and \
             538.43 MiB is reserved by PyTorch but unallocated.",
        );
        let shares = situation.shares();
        let sum: u64 = shares.iter().map(|share| share.bytes).sum();
        assert!(sum.abs_diff(situation.capacity_bytes.unwrap()) < GIB / 10, "{sum}");
        assert_eq!(shares.first().unwrap().holder, Holder::Allocated);
        assert!(!shares.iter().any(|share| share.holder == Holder::Untold), "{shares:?}");
        assert!(situation.is_limited());
        assert!(situation.headroom_bytes().unwrap() < GIB / 10);
    }

    #[test]
    fn in_a_container_this_process_stands_among_the_others() {
        let situation = situation(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.00 GiB is \
             free. Process 77 has 2.10 GiB memory in use. Process 4711 has 20.50 GiB memory in use. Of the allocated \
             memory 19.50 GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but unallocated.",
        );
        assert_eq!(situation.own_pid, Some(4711));
        assert_eq!(situation.others, [Process { pid: 77, bytes: 2_254_857_830 }]);
        assert!(situation.outside_bytes().unwrap() < GIB);
    }
}
