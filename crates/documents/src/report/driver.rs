//! The whole card, where the driver was recorded: PyTorch's segments and all that is outside them.

use std::collections::BTreeMap;

use highwater_outside::{Event, Kind, Line, Moment, OwnerTotal, Recording, Role, Timeline};

/// The memory of the process on its GPUs.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DriverView {
    /// Calls of the driver that were seen.
    pub calls: u64,
    /// The number of calls in the file. Of the other calls the file has only memory that is still live.
    pub kept: u64,
    /// Calls without a Python stack because it would have taken too long to get.
    pub without_python: u64,
    /// The GPU that a dry run imitated; absent for a real one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imitated: Option<String>,
    /// Kernels and copies, where a profiler counted them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<WorkView>,
    /// Managed allocations of which a profiler says when they were touched, the largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<TouchedView>,
    /// Times in which nothing was recorded.
    pub gaps: Vec<DriverGapView>,
    /// Each GPU on which the process has memory.
    pub cards: Vec<CardUseView>,
}

/// Work of a device, of one kind.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkView {
    /// CUDA ordinal.
    pub device: i32,
    /// `kernels`, or the direction of the copy.
    pub what: String,
    /// Their number.
    pub count: u64,
    /// The bytes that were copied.
    pub bytes: u64,
    /// When the last ended, in microseconds since the Unix epoch.
    pub last_us: i64,
}

/// A managed allocation, and when it was touched.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TouchedView {
    /// CUDA ordinal.
    pub device: i32,
    /// Its first byte.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// The call site in words, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// When it was touched last, in microseconds since the Unix epoch.
    pub last_us: i64,
    /// From then to the end of the recording, in microseconds.
    pub untouched_us: i64,
    /// Its accesses, the last one first.
    pub touches: Vec<TouchView>,
}

/// Accesses of one kind.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TouchView {
    /// The direction in which pages moved, or the processor that faulted.
    pub what: String,
    /// How many.
    pub count: u64,
    /// The bytes that were moved.
    pub bytes: u64,
    /// When the last one ended, in microseconds since the Unix epoch.
    pub last_us: i64,
}

/// A time in which the driver was not recorded.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DriverGapView {
    /// When it began, in microseconds since the Unix epoch.
    pub from_us: i64,
    /// When it ended; null if it did not.
    pub to_us: Option<i64>,
    /// Why.
    pub why: String,
}

/// A process's memory on a GPU.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CardUseView {
    /// CUDA ordinal.
    pub device: i32,
    /// The GPU's memory, if it is known.
    pub capacity_bytes: Option<u64>,
    /// The moment of the highest use, of all owners together.
    pub peak: CardMomentView,
    /// Whether it is the machine's memory, so that context, code, streams and graphs were not measured: other programs
    /// change the free memory, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_machines: bool,
    /// The use at the dump.
    pub end_bytes: u64,
    /// The sum beside NVML's figure for the process, at each moment when NVML was read.
    pub compared: Vec<ComparedView>,
}

/// A process's memory on a GPU at a moment.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CardMomentView {
    /// When, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// The sum over the owners that count.
    pub bytes: u64,
    /// The owners, the largest first; those that do not count come last.
    pub owners: Vec<OwnerView>,
}

/// Memory of one owner.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnerView {
    /// Its kind: `pytorch`, `library`, `code`, `kernels`, `graphs`, `streams`, `context`; `managed`, `pinned` and
    /// `unexplained` do not count.
    pub role: &'static str,
    /// The library, where the role does not say it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub library: String,
    /// The words for it.
    pub title: String,
    /// Whether it is part of the sum.
    pub counts: bool,
    /// Bytes; negative if more was freed than the recording saw allocated.
    pub bytes: i64,
    /// Live allocations, or changes that were measured.
    pub allocations: usize,
    /// By call site, the most bytes first.
    pub sites: Vec<DriverSiteView>,
}

/// Live allocations of one line of the program and one function of the library.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DriverSiteView {
    /// Bytes that were requested.
    pub bytes: u64,
    /// Allocations.
    pub allocations: usize,
    /// The function of the library that the program, or another library, called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The operator of PyTorch around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The program's named ranges (NVTX) around it, the outermost first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The line of the program's own: file, line, function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<DriverLineView>,
    /// The native stack of its first allocation, innermost first, if the site is one of the owner's 20 largest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub native: Vec<DriverFrameView>,
}

/// A native frame.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DriverFrameView {
    /// The library's file.
    pub library: String,
    /// The function as the library exports it, C++ mangled; empty if it does not.
    pub function: String,
}

/// A line of Python.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DriverLineView {
    /// The file.
    pub filename: String,
    /// Its line.
    pub line: u32,
    /// The function.
    pub name: String,
    /// Whether it is where the main thread was: the thread that called the driver runs no Python.
    pub of_main_thread: bool,
}

/// The sum, and NVML's figure at the same moment.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedView {
    /// When, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// The program's name for the moment.
    pub mark: String,
    /// The sum over the owners that count; none of them is computed from NVML's figure.
    pub bytes: u64,
    /// NVML's figure of the process.
    pub nvml_bytes: u64,
    /// NVML's figure less the sum: the remainder.
    pub left_bytes: i64,
}

pub(super) fn driver_view(recording: &Recording) -> DriverView {
    let timeline = Timeline::new(recording);
    let about = &recording.about;
    let cards = timeline.devices().map(|device| CardUseView {
        device,
        capacity_bytes: about.capacities.iter().find(|&&(of, _)| of == device).map(|&(_, bytes)| bytes),
        peak: moment_view(&timeline, &timeline.peak(device)),
        is_machines: about.not_measured.contains(&device),
        end_bytes: positive(timeline.end(device).bytes),
        compared: compared(&timeline, device),
    });
    DriverView {
        calls: about.seen,
        kept: (recording.events.len() as u64).saturating_sub(about.told_again),
        without_python: about.without_python,
        imitated: Some(about.imitated.clone()).filter(|card| !card.is_empty()),
        work: about
            .work
            .iter()
            .map(|work| WorkView {
                device: work.device,
                what: work.what.clone(),
                count: work.count,
                bytes: work.bytes,
                last_us: micros(work.last_ns),
            })
            .collect(),
        touched: touched(recording),
        gaps: about
            .gaps
            .iter()
            .map(|gap| DriverGapView {
                from_us: micros(gap.from_ns),
                to_us: (gap.to_ns > 0).then(|| micros(gap.to_ns)),
                why: gap.why.clone(),
            })
            .collect(),
        cards: cards.collect(),
    }
}

/// Rows of managed allocations at most.
const MAX_TOUCHED: usize = 1000;

fn touched(recording: &Recording) -> Vec<TouchedView> {
    let mut touches: BTreeMap<(u64, u64), Vec<TouchView>> = BTreeMap::new();
    for touch in &recording.about.touches {
        touches.entry((touch.made_ns, touch.address)).or_default().push(TouchView {
            what: touch.what.clone(),
            count: touch.count,
            bytes: touch.bytes,
            last_us: micros(touch.last_ns),
        });
    }
    let about = &recording.about;
    let work = about.work.iter().map(|work| work.last_ns).chain(about.touches.iter().map(|touch| touch.last_ns));
    let end_us = micros(work.fold(about.ended_ns, u64::max));
    let managed = recording.events.iter().filter(|event| event.kind == Kind::Managed);
    let mut all: Vec<_> = managed
        .filter_map(|event| {
            let mut touches = touches.remove(&(event.time_ns, event.address))?;
            touches.sort_by_key(|touch| std::cmp::Reverse(touch.last_us));
            let last_us = touches.first()?.last_us;
            Some(TouchedView {
                device: event.device,
                address: event.address,
                bytes: event.bytes.unsigned_abs(),
                site: site_of(recording, event),
                last_us,
                untouched_us: end_us.saturating_sub(last_us),
                touches,
            })
        })
        .collect();
    all.sort_by_key(|touched| std::cmp::Reverse(touched.bytes));
    all.truncate(MAX_TOUCHED);
    all
}

/// Where an event's memory was requested, in words, as far as it is known.
pub(crate) fn site_of(recording: &Recording, event: &Event) -> Option<String> {
    described(
        recording.function(event),
        recording.operator(event).as_deref(),
        recording.scope(event).as_deref(),
        line_of(recording, event).as_ref(),
    )
}

fn line_of(recording: &Recording, event: &Event) -> Option<DriverLineView> {
    let stack = recording.python(event)?;
    let Line(filename, line, name) = stack.line()?.clone();
    Some(DriverLineView { filename, line, name, of_main_thread: stack.of_main })
}

fn moment_view(timeline: &Timeline<'_>, moment: &Moment) -> CardMomentView {
    CardMomentView {
        time_us: micros(moment.time_ns),
        bytes: positive(moment.bytes),
        owners: moment.owners.iter().map(|total| owner_view(timeline, total)).collect(),
    }
}

fn owner_view(timeline: &Timeline<'_>, total: &OwnerTotal) -> OwnerView {
    OwnerView {
        role: total.owner.role.name(),
        library: total.owner.library.clone(),
        title: total.owner.title(),
        counts: total.owner.role.counts(),
        bytes: total.bytes,
        allocations: total.live.len(),
        // PyTorch's own history says more of its segments.
        sites: if total.owner.role == Role::Pytorch { Vec::new() } else { sites(timeline.recording(), total) },
    }
}

/// Where memory of the driver was requested, in words, as far as it is known.
fn described(
    function: Option<&str>,
    operator: Option<&str>,
    scope: Option<&str>,
    line: Option<&DriverLineView>,
) -> Option<String> {
    let function = function.filter(|name| !name.starts_with("_Z")).map(|name| format!("by {name}"));
    let operator = operator.map(|name| format!("in {name}"));
    let scope = scope.map(|name| format!("in range {name}"));
    let line = line.map(|line| {
        let whose = if line.of_main_thread { "while the main thread was at" } else { "at" };
        format!("{whose} {}:{} {}", line.filename, line.line, line.name)
    });
    let parts: Vec<String> = [function, operator, scope, line].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

impl DriverSiteView {
    /// Where it is, in words, as far as it is known.
    pub fn described(&self) -> Option<String> {
        described(self.function.as_deref(), self.operator.as_deref(), self.scope.as_deref(), self.line.as_ref())
    }
}

fn sites(recording: &Recording, total: &OwnerTotal) -> Vec<DriverSiteView> {
    type Key = (Option<DriverLineView>, Option<String>, Option<String>, Option<String>);
    let mut sums: BTreeMap<Key, (u64, usize, &Event)> = BTreeMap::new();
    for event in &total.live {
        let line = line_of(recording, event);
        let function = recording.function(event).map(str::to_owned);
        let key = (line, function, recording.operator(event), recording.scope(event));
        let sum = sums.entry(key).or_insert((0, 0, event));
        sum.0 = sum.0.saturating_add(event.bytes.unsigned_abs());
        sum.1 += 1;
    }
    let mut sites: Vec<_> = sums
        .into_iter()
        .map(|((line, function, operator, scope), (bytes, allocations, first))| {
            let site = DriverSiteView { bytes, allocations, function, operator, scope, line, native: Vec::new() };
            (site, first)
        })
        .collect();
    sites.sort_by_key(|(site, _)| std::cmp::Reverse(site.bytes));
    for (site, first) in sites.iter_mut().take(WITH_NATIVE) {
        let frame = |(library, function): (&str, &str)| DriverFrameView {
            library: library.to_owned(),
            function: function.to_owned(),
        };
        site.native = recording.native(first).map(frame).collect();
    }
    sites.into_iter().map(|(site, _)| site).collect()
}

/// Sites of an owner whose native stacks are in the document.
const WITH_NATIVE: usize = 20;

fn compared(timeline: &Timeline<'_>, device: i32) -> Vec<ComparedView> {
    let about = &timeline.recording().about;
    let samples: Vec<_> = about.nvml.iter().filter(|sample| sample.device == device).collect();
    let step = samples.len().div_ceil(MAX_COMPARED).max(1);
    let is_shown = |row: usize| row.is_multiple_of(step) || row + 1 == samples.len();
    let mut shown: Vec<_> = (0..samples.len()).filter(|&row| is_shown(row)).map(|row| samples[row]).collect();
    shown.sort_by_key(|sample| sample.time_ns);
    let events: Vec<usize> = shown.iter().map(|sample| timeline.events_until(sample.time_ns)).collect();
    let compare = |(sample, bytes): (&highwater_outside::NvmlSample, i64)| {
        let mark = about.marks.iter().find(|mark| mark.time_ns == sample.time_ns);
        ComparedView {
            time_us: micros(sample.time_ns),
            mark: mark.map(|mark| mark.name.clone()).unwrap_or_default(),
            bytes: positive(bytes),
            nvml_bytes: sample.bytes,
            left_bytes: i64::try_from(sample.bytes).unwrap_or(i64::MAX).saturating_sub(bytes),
        }
    };
    shown.into_iter().zip(timeline.sums(device, &events)).map(compare).collect()
}

/// Moments at which the sum is shown beside NVML's figure, about.
const MAX_COMPARED: usize = 64;

fn micros(time_ns: u64) -> i64 {
    i64::try_from(time_ns / 1000).unwrap_or(i64::MAX)
}

fn positive(bytes: i64) -> u64 {
    u64::try_from(bytes).unwrap_or(0)
}
