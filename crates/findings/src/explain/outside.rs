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

#[cfg(test)]
mod tests {
    use highwater_analysis::analyse;
    use highwater_oom::Cause;
    use highwater_outside::{Event, Format, Kind, NO_STACK, PythonStack, Site};
    use highwater_snapshot::Snapshot;

    use super::*;
    use crate::explain::{Asked, failures};

    const GIB: u64 = 1 << 30;

    /// A recording in which NCCL has so much, with a line, when the first request of a snapshot fails.
    fn with_nccl(snapshot: &mut Snapshot, bytes: u64) {
        let (held, free, time_ns) = {
            let analysis = analyse(snapshot);
            let event = &analysis.devices[0].oom[0];
            let time_us = snapshot.traces[0].time_us(event.entry).unwrap();
            (event.totals.reserved_bytes, event.device_free_bytes.unwrap_or(0), time_us.unsigned_abs() * 1000)
        };
        let event = |kind, address, bytes: u64, stack, python| Event {
            kind,
            time_ns: time_ns - 1000,
            device: 0,
            thread: 1,
            stack,
            python,
            address,
            bytes: bytes.cast_signed(),
            extra: 0,
        };
        let line = Line("/home/user/train.py".to_owned(), 17, "main".to_owned());
        let about = Format {
            capacities: vec![(0, held + free + bytes + GIB / 2)],
            libraries: vec!["/t/libc10_cuda.so".to_owned(), "/n/libnccl.so.2".to_owned()],
            stacks: vec![vec![Site(0, String::new())], vec![Site(1, "ncclCommInitRank".to_owned())]],
            python: vec![PythonStack::new(false, vec![line])],
            ..Format::default()
        };
        let events = vec![
            event(Kind::Context, 0, GIB / 2, NO_STACK, NO_STACK),
            event(Kind::Device, 1 << 42, held, 0, NO_STACK),
            event(Kind::Create, 7, bytes, 1, 0),
            Event { time_ns: time_ns + 1_000_000, ..event(Kind::Create, 8, 90 * GIB, 1, 0) },
        ];
        snapshot.extras.push((Snapshot::DRIVER.to_owned(), Recording { about, events }.to_json()));
    }

    #[test]
    fn the_library_is_named_when_memory_outside_pytorch_was_the_cause() {
        let mut snapshot = highwater_testkit::recording("oom_whole_gpu");
        with_nccl(&mut snapshot, 20 * GIB);
        let analysis = analyse(&snapshot);
        let failure = &failures(&analysis, &analysis.devices[0], None, Asked::default())[0];
        assert_eq!(failure.diagnosis.cause, Cause::OutsidePyTorch);
        let notes = failure.diagnosis.notes.join("\n");
        assert!(notes.contains("had 20.50 GiB outside PyTorch's allocator"), "{notes}");
        assert!(notes.contains("NCCL 20.00 GiB (`train.py:17`), CUDA context 512.00 MiB"), "{notes}");
        let step = failure.steps.iter().find(|step| step.id == "free-outside").unwrap();
        assert_eq!(step.title, "free or shrink the allocations of NCCL, most of them made at `train.py:17`");
        assert!(step.is_enough == Some(true), "{step:?}");
    }

    #[test]
    fn a_context_alone_is_no_cause() {
        let mut snapshot = highwater_testkit::recording("oom_whole_gpu");
        let before = {
            let analysis = analyse(&snapshot);
            failures(&analysis, &analysis.devices[0], None, Asked::default())[0].diagnosis.cause
        };
        with_nccl(&mut snapshot, 1 << 20);
        let analysis = analyse(&snapshot);
        let failure = &failures(&analysis, &analysis.devices[0], None, Asked::default())[0];
        assert_eq!(failure.diagnosis.cause, before);
        assert!(failure.steps.iter().all(|step| step.id != "free-outside"));
    }
}
