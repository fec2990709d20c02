//! The memory of this process outside PyTorch's allocator at a failure, where the driver was recorded.

use highwater_analysis::Analysis;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::oom::OutOfMemory;
use highwater_oom::{Situation, Step};
use highwater_outside::{Line, OwnerTotal, Recording, Role, Timeline};
use highwater_units::size;

/// Owners that are named.
const NAMED: usize = 4;

/// The memory of this process outside PyTorch's allocator.
pub(super) struct Outside {
    /// With PyTorch's segments.
    process_bytes: u64,
    capacity_bytes: Option<u64>,
    /// Whose it is, the most bytes first.
    owners: Vec<Owner>,
}

struct Owner {
    title: String,
    bytes: u64,
    /// Whether the program can have less of it: a library's allocations, not a context.
    is_librarys: bool,
    /// The line with most of it.
    line: Option<String>,
}

impl Outside {
    /// At the failure; nothing where the driver or the time was not recorded.
    pub(super) fn at(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>, event: &OutOfMemory) -> Option<Self> {
        let recording = analysis.driver.as_ref()?;
        let trace = analysis.snapshot.traces.get(usize::try_from(device.device).ok()?)?;
        let time_ns = u64::try_from(trace.time_us(event.entry)?).ok()?.saturating_mul(1000);
        let ordinal = i32::try_from(device.device).ok()?;
        let timeline = Timeline::new(recording);
        let moment = timeline.after(ordinal, timeline.events_until(time_ns));
        let is_outside = |total: &&OwnerTotal| total.owner.role.counts() && total.owner.role != Role::Pytorch;
        let owners = moment.owners.iter().filter(is_outside).map(|total| Owner::new(recording, total));
        Some(Self {
            process_bytes: u64::try_from(moment.bytes).ok().filter(|&bytes| bytes > 0)?,
            capacity_bytes: recording.about.capacities.iter().find(|(of, _)| *of == ordinal).map(|&(_, bytes)| bytes),
            owners: owners.collect(),
        })
    }

    /// Adds what nothing else told.
    pub(super) fn tell(&self, situation: &mut Situation) {
        situation.process_bytes = situation.process_bytes.or(Some(self.process_bytes));
        situation.capacity_bytes = situation.capacity_bytes.or(self.capacity_bytes);
    }

    /// Whose it is, in a sentence.
    pub(super) fn note(&self) -> Option<String> {
        let all: u64 = self.owners.iter().map(|owner| owner.bytes).fold(0, u64::saturating_add);
        let named: Vec<_> = self.owners.iter().take(NAMED).map(Owner::told).collect();
        let more = if self.owners.len() > NAMED { " and others" } else { "" };
        (!named.is_empty()).then(|| {
            format!(
                "this process had {} outside PyTorch's allocator when the request failed, by the driver's recording: {}{more}",
                size(all),
                named.join(", ")
            )
        })
    }

    /// Says in the step about memory outside PyTorch which library to look at.
    pub(super) fn advise(&self, steps: &mut [Step]) {
        let Some(step) = steps.iter_mut().find(|step| step.id == "free-outside") else { return };
        let Some(owner) = self.owners.iter().find(|owner| owner.is_librarys) else { return };
        step.title = match &owner.line {
            Some(line) => format!("free or shrink the allocations of {}, most of them made at {line}", owner.title),
            None => format!("free or shrink the allocations of {}", owner.title),
        };
        if let Some(note) = self.note() {
            step.detail = note;
        }
    }
}

impl Owner {
    fn new(recording: &Recording, total: &OwnerTotal) -> Self {
        let largest = total.live.iter().max_by_key(|event| event.bytes);
        let line = largest.and_then(|event| recording.python(event)).and_then(|stack| stack.line());
        let place = |Line(file, line, _): &Line| {
            let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
            format!("`{file}:{line}`")
        };
        Self {
            title: total.owner.title(),
            bytes: u64::try_from(total.bytes).unwrap_or(0),
            is_librarys: total.owner.role == Role::Library,
            line: line.map(place),
        }
    }

    fn told(&self) -> String {
        let line = self.line.as_ref().filter(|_| self.is_librarys);
        let line = line.map_or_else(String::new, |line| format!(" ({line})"));
        format!("{} {}{line}", self.title, size(self.bytes))
    }
}
