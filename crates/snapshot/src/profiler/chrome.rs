//! Chrome traces: the instant events named `[memory]`, and the ranges around them.
//!
//! One pass over the events, of which only numbers and names are kept. They come in no order that can be relied upon, so
//! entries and stacks are made at the end.
//!
//! # Source
//! Traces of PyTorch v2.11; the arguments are those of `torch::profiler::impl::ExtraFields<EventType::Allocation>`.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::json::{AnyScalar, Scalar, Word};
use super::ledger::{Misfit, Moment};
use super::ranges::{Range, Wanted, stacks};
use super::{Ledger, Profile, ProfileForm, warn_of_form};
use crate::annotations::{Annotation, Stage};
use crate::decode::keys;
use crate::decode::store::{Interner, next_row};
use crate::error::ErrorKind;
use crate::limits::MAX_DEVICES;
use crate::room;
use crate::snapshot::Snapshot;
use crate::strings::StringTable;
use crate::warnings::{Place, Warnings};
use crate::{StackId, StringId};

/// What such an event is called.
const MEMORY: &str = "[memory]";

/// `c10::DeviceType`: the host's memory.
const CPU: i64 = 0;

/// `c10::DeviceType`: CUDA, and AMD's, which PyTorch calls CUDA.
const CUDA: i64 = 1;

/// Times from here on, in microseconds, count from the Unix epoch, not from the trace's own base: later than 2001.
const ABSOLUTE_NS: i64 = 1_000_000_000_000_000_000;

/// One event of memory.
#[derive(Clone, Copy, Debug)]
struct Memory {
    device_type: i64,
    device: i64,
    address: u64,
    /// Above 0 for an allocation, below for a free.
    bytes: i64,
    /// What the allocator said was allocated after it.
    total_bytes: Option<u64>,
    reserved_bytes: u64,
    at: Wanted,
}

/// What is kept of a trace.
pub(crate) struct Chrome {
    strings: StringTable,
    memory: Vec<Memory>,
    /// Operators and Python functions.
    ranges: Vec<Range>,
    /// Scopes that the program, or PyTorch, has named.
    scopes: Vec<Range>,
    /// Process and thread, each a number or a name.
    threads: Interner<[(bool, u64); 2]>,
    unreadable: u64,
    failure: Option<ErrorKind>,
}

impl Default for Chrome {
    fn default() -> Self {
        Self {
            strings: keys::vocabulary(),
            memory: Vec::new(),
            ranges: Vec::new(),
            scopes: Vec::new(),
            threads: Interner::default(),
            unreadable: 0,
            failure: None,
        }
    }
}

/// Reads the list of events into what is kept.
pub(crate) struct Events<'a>(pub(crate) &'a mut Chrome);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of trace events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(event) = items.next_element_seed(Event::default())? {
            self.0.take(event);
        }
        Ok(())
    }
}

const EVENT_KEYS: [&str; 7] = ["cat", "name", "pid", "tid", "ts", "dur", "args"];
const ARGUMENT_KEYS: [&str; 6] = ["Addr", "Bytes", "Device Type", "Device Id", "Total Allocated", "Total Reserved"];

/// One event, as far as it matters.
#[derive(Default)]
struct Event {
    /// In the order of [`EVENT_KEYS`], without the arguments.
    values: [Option<Scalar>; EVENT_KEYS.len() - 1],
    arguments: Arguments,
}

/// In the order of [`ARGUMENT_KEYS`].
#[derive(Default)]
struct Arguments([Option<Scalar>; ARGUMENT_KEYS.len()]);

impl<'de> DeserializeSeed<'de> for Event {
    type Value = Self;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Event {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace event")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut pairs: A) -> Result<Self, A::Error> {
        while let Some(key) = pairs.next_key_seed(Word(&EVENT_KEYS))? {
            match key {
                Some(key) if key < self.values.len() => self.values[key] = Some(pairs.next_value_seed(AnyScalar)?),
                Some(_) => self.arguments = pairs.next_value_seed(Arguments::default())?,
                None => drop(pairs.next_value::<IgnoredAny>()?),
            }
        }
        Ok(self)
    }
}

impl<'de> DeserializeSeed<'de> for Arguments {
    type Value = Self;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Arguments {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the arguments of a trace event")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut pairs: A) -> Result<Self, A::Error> {
        while let Some(key) = pairs.next_key_seed(Word(&ARGUMENT_KEYS))? {
            match key {
                Some(key) => self.0[key] = Some(pairs.next_value_seed(AnyScalar)?),
                None => drop(pairs.next_value::<IgnoredAny>()?),
            }
        }
        Ok(self)
    }
}

/// What is limited.
const TOO_MANY: &str = "the number of trace events";

impl Chrome {
    fn take(&mut self, event: Event) {
        if let Err(kind) = self.try_take(event) {
            self.failure.get_or_insert(kind);
            // What is over the limit is not shown: nothing is gained by keeping it.
            self.memory = Vec::new();
            self.ranges = Vec::new();
            self.scopes = Vec::new();
        }
    }

    fn try_take(&mut self, event: Event) -> Result<(), ErrorKind> {
        let [category, name, process, thread, start, duration] = event.values;
        let Some(Scalar::Text(name)) = name else { return Ok(()) };
        let time_ns = start.and_then(|time| time.as_ns());
        if name == MEMORY {
            let thread = self.thread(process, thread)?;
            match memory(&event.arguments, time_ns, thread) {
                Some(memory) if memory.bytes != 0 => room::push(&mut self.memory, memory)?,
                Some(_) => {}
                None => self.unreadable += 1,
            }
            return next_row(self.memory.len(), TOO_MANY).map(drop);
        }
        let Some(Scalar::Text(category)) = category else { return Ok(()) };
        let is_scope = category == "user_annotation";
        let (Some(start_ns), Some(length_ns), true) = (
            time_ns,
            duration.and_then(|length| length.as_ns()),
            is_scope || category == "cpu_op" || category == "python_function",
        ) else {
            return Ok(());
        };
        let thread = self.thread(process, thread)?;
        self.strings.make_room(name.len())?;
        let name = self.strings.intern(&name);
        let range = Range { thread, start_ns, end_ns: start_ns.saturating_add(length_ns.max(0)), name };
        let rows = if is_scope { &mut self.scopes } else { &mut self.ranges };
        room::push(rows, range)?;
        next_row(rows.len().max(self.strings.len()), TOO_MANY).map(drop)
    }

    fn thread(&mut self, process: Option<Scalar>, thread: Option<Scalar>) -> Result<u32, ErrorKind> {
        let key = [self.part_of_thread(process)?, self.part_of_thread(thread)?];
        self.threads.intern(key)
    }

    /// A process or a thread by its number or by its name, and which of the two it is.
    fn part_of_thread(&mut self, id: Option<Scalar>) -> Result<(bool, u64), ErrorKind> {
        Ok(match id {
            Some(Scalar::Text(text)) => {
                self.strings.make_room(text.len())?;
                (true, u64::from(self.strings.intern(&text).get()))
            }
            Some(number) => (false, number.as_u64().unwrap_or(u64::MAX)),
            None => (false, u64::MAX),
        })
    }

    /// The snapshot; `base_time_ns` is what times count from.
    pub(super) fn into_snapshot(mut self, base_time_ns: Option<i64>) -> Result<Snapshot, ErrorKind> {
        if let Some(kind) = self.failure {
            return Err(kind);
        }
        let mut warnings = Warnings::default();
        if self.unreadable > 0 {
            let message = "events of memory without an address, a size or a time are left out";
            warnings.add_times("profiler-event", message, Place::default(), self.unreadable);
        }
        let shown = choose(&mut self.memory, &mut warnings).ok_or(ErrorKind::ProfileWithoutMemory)?;
        self.memory.sort_by_key(|event| event.at.time_ns);
        let base_ns = base_time_ns.filter(|_| self.memory[0].at.time_ns < ABSOLUTE_NS).unwrap_or(0);
        let to_us = |time_ns: i64| time_ns.saturating_add(base_ns).div_euclid(1000);

        let mut snapshot = Snapshot { strings: self.strings, warnings, ..Snapshot::empty() };
        let wanted: Vec<Wanted> = self.memory.iter().map(|event| event.at).collect();
        let stacks = stacks(self.ranges, &wanted, &mut snapshot)?;
        snapshot.annotations = annotations(&self.scopes, to_us);
        let devices = self.memory.iter().filter_map(|event| usize::try_from(event.device).ok()).max().unwrap_or(0) + 1;
        let mut profile = Profile {
            form: ProfileForm::ChromeTrace,
            preexisting: Vec::new(),
            // What the CPU's allocator had handed out before anybody profiled, it never counted.
            knows_start: shown != CPU && self.memory.iter().all(|event| event.total_bytes.is_some()),
        };
        for device in 0..devices {
            let is_own = |event: &Memory| usize::try_from(event.device) == Ok(device);
            let rows = self.memory.iter().zip(&stacks).filter(|(event, _)| is_own(event));
            let events: Vec<(Memory, StackId)> = rows.map(|(event, stack)| (*event, *stack)).collect();
            let device = u32::try_from(device).expect("some hundred devices at most");
            let (ledger, preexisting) = entries(&events, device, shown, to_us, &mut snapshot.warnings)?;
            snapshot.traces.push(ledger.table);
            profile.preexisting.push(preexisting);
        }
        let reserved = self.memory.iter().map(|event| event.reserved_bytes).max().unwrap_or(0);
        let more = match reserved {
            0 => String::new(),
            _ => format!(", except for a total: up to {reserved} bytes were reserved on one device"),
        };
        warn_of_form(&mut snapshot.warnings, ProfileForm::ChromeTrace, &more);
        snapshot.profile = Some(profile);
        Ok(snapshot)
    }
}

/// Reads the arguments of a `[memory]` event; `None` if they do not say what happened.
fn memory(arguments: &Arguments, time_ns: Option<i64>, thread: u32) -> Option<Memory> {
    let [address, bytes, device_type, device, total, reserved] = &arguments.0;
    let number = |value: &Option<Scalar>| value.as_ref().and_then(Scalar::as_i64);
    let total_of = |value: &Option<Scalar>| number(value).and_then(|bytes| u64::try_from(bytes).ok());
    Some(Memory {
        address: address.as_ref()?.as_u64()?,
        bytes: number(bytes)?,
        device_type: number(device_type).unwrap_or(CPU),
        device: number(device).unwrap_or(0),
        total_bytes: total_of(total),
        reserved_bytes: total_of(reserved).unwrap_or(0),
        at: Wanted { thread, time_ns: time_ns? },
    })
}

/// Keeps the events of one kind of device: CUDA's if there are any, else another accelerator's, else the CPU's as those of
/// device 0. The kind; `None` if there is no event.
fn choose(events: &mut Vec<Memory>, warnings: &mut Warnings) -> Option<i64> {
    let rank = |device_type: i64| match device_type {
        CUDA => (0, 0),
        CPU => (2, 0),
        other => (1, other),
    };
    let shown = events.iter().map(|event| event.device_type).min_by_key(|&device_type| rank(device_type))?;
    let all = events.len();
    events.retain(|event| event.device_type == shown);
    let others = (all - events.len()) as u64;
    if others > 0 {
        let message = "the trace also has memory of the CPU, or of another kind of device; it is left out";
        warnings.add_times("profiler-other-devices", message, Place::default(), others);
    }
    match shown {
        CUDA => {}
        CPU => {
            let message = "the trace covers only the CPU's memory: device 0 is the CPU";
            warnings.add("profiler-cpu", message, Place::default());
            for event in events.iter_mut() {
                event.device = 0;
            }
        }
        other => {
            let message = format!("the devices are not CUDA devices, but of PyTorch's device type {other}");
            warnings.add("profiler-device-type", message, Place::default());
        }
    }
    let known = events.len();
    let is_shown = |event: &Memory| usize::try_from(event.device).is_ok_and(|device| device < MAX_DEVICES);
    events.retain(is_shown);
    let unknown = (known - events.len()) as u64;
    if unknown > 0 {
        let message = format!("events of devices other than 0 to {} are left out", MAX_DEVICES - 1);
        warnings.add_times("many-devices", message, Place::default(), unknown);
    }
    if events.is_empty() { None } else { Some(shown) }
}

/// The entries of one device, and how many of the first stand for what was there before.
fn entries(
    events: &[(Memory, StackId)],
    device: u32,
    device_type: i64,
    to_us: impl Fn(i64) -> i64,
    warnings: &mut Warnings,
) -> Result<(Ledger, u32), ErrorKind> {
    let mut ledger = Ledger::default();
    let moment =
        |event: &Memory, stack| Moment { time_us: to_us(event.at.time_ns), stack, category: StringId::MISSING };
    let before = bytes_before(events);
    let mut preexisting = 0;
    // The CPU's total counts what was allocated while anybody profiled, also if it was freed when nobody did.
    let lasting_bytes = if device_type == CPU { 0 } else { before.lasting_bytes };
    if let (Some(&(first, _)), 1..) = (events.first(), lasting_bytes) {
        let address = before.free_address;
        ledger.alloc(address, lasting_bytes, moment(&first, StackId::MISSING))?;
        preexisting = 1;
    }
    let mut expected = i128::from(before.all_bytes);
    let mut deviation = 0;
    for &(event, stack) in events {
        let place = Place::entry(device, u32::try_from(ledger.table.len()).unwrap_or(u32::MAX));
        let bytes = event.bytes.unsigned_abs();
        let misfit = if event.bytes > 0 {
            ledger.alloc(event.address, bytes, moment(&event, stack))?
        } else {
            ledger.free(event.address, bytes, moment(&event, stack))?
        };
        match misfit {
            Some(Misfit::NotFreed) => {
                let message =
                    "an address is allocated again without a free in the trace; it counts as freed at that point";
                warnings.add("missing-free", message, place);
            }
            Some(Misfit::OtherSize) => {
                let message = "a free has another size than the allocation at its address; the allocation's size \
                 counts";
                warnings.add("profiler-size", message, place);
            }
            Some(Misfit::FromBefore) | None => {}
        }
        expected += i128::from(event.bytes);
        if let Some(total) = event.total_bytes {
            // A gap is told where it opens, not with every event that follows.
            if i128::from(total) - expected != deviation {
                deviation = i128::from(total) - expected;
                let message = "`Total Allocated` is not the sum of the events before it: events are missing from \
                               the trace, or out of order, so peaks may be too low or too high";
                warnings.add("profiler-total", message, place);
            }
        }
    }
    Ok((ledger, preexisting))
}

/// What was allocated before the first event.
struct Before {
    /// In all, as the allocator says.
    all_bytes: u64,
    /// Of these, what is not freed in the trace.
    lasting_bytes: u64,
    /// An address that no event names.
    free_address: u64,
}

fn bytes_before(events: &[(Memory, StackId)]) -> Before {
    let all_bytes = events.first().and_then(|(event, _)| {
        let total = i128::from(event.total_bytes?) - i128::from(event.bytes);
        u64::try_from(total).ok()
    });
    let mut named = hashbrown::HashSet::new();
    let mut live = hashbrown::HashSet::new();
    let mut freed: u64 = 0;
    for (event, _) in events {
        named.insert(event.address);
        if event.bytes > 0 {
            live.insert(event.address);
        } else if !live.remove(&event.address) {
            freed = freed.saturating_add(event.bytes.unsigned_abs());
        }
    }
    let free_address =
        (1..=named.len() as u64 + 1).map(|page| page << 12).find(|address| !named.contains(address)).unwrap_or(0);
    let all_bytes = all_bytes.unwrap_or(freed);
    Before { all_bytes, lasting_bytes: all_bytes.saturating_sub(freed), free_address }
}

/// The scopes as `START` and `END`, in order of time, those that begin together from the outside in.
fn annotations(scopes: &[Range], to_us: impl Fn(i64) -> i64) -> Vec<Annotation> {
    let mut stages: Vec<_> = Vec::with_capacity(scopes.len() * 2);
    for scope in scopes {
        stages.push((scope.start_ns, 1, std::cmp::Reverse(scope.end_ns), Stage::Start, scope.name));
        let is_empty = i32::from(scope.start_ns == scope.end_ns);
        stages.push((scope.end_ns, 2 * is_empty, std::cmp::Reverse(scope.start_ns), Stage::End, scope.name));
    }
    stages.sort_by_key(|&(time, order, outer, ..)| (time, order, outer));
    let row = |(time, _, _, stage, name)| Annotation { stage, name, device: -1, time_us: Some(to_us(time)) };
    stages.into_iter().map(row).collect()
}
