//! The calls of this process that give and take memory, as a recording of a driver has them.
//!
//! What `highwater-cupti` records of a real driver, the null GPU knows itself: it is the driver. The format is described in
//! docs/driver.md and read by `highwater-outside`, which knows nothing of where a recording comes from.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::fmt::Write as _;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use highwater_callers::{Addresses, Patience, Reader, Stack};

use crate::settings;

/// Calls that are kept. An event takes 64 bytes.
const EVENTS_MAX: usize = 1_000_000;
/// The device of memory of the host.
pub(crate) const HOST: i32 = -1;
/// A row of none.
const NONE: u32 = u32::MAX;

macro_rules! kinds {
    ($($kind:ident $name:literal,)*) => {
        /// What a call did; docs/driver.md says what each means.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($kind,)*
        }

        /// Their names in a recording.
        const KINDS: &[&str] = &[$($name,)*];
    };
}

kinds! {
    Context "context",
    Launch "launch",
    Module "module",
    Stream "stream",
    Device "device",
    Managed "managed",
    Free "free",
    Host "host",
    HostFree "host_free",
    Register "register",
    Unregister "unregister",
    StreamOrdered "stream_ordered",
    StreamOrderedFree "stream_ordered_free",
    Pool "pool",
    Create "create",
    Retain "retain",
    Release "release",
    Map "map",
    Unmap "unmap",
}

/// A call.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) device: i32,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) extra: u64,
}

impl Event {
    pub(crate) fn new(kind: Kind, device: usize, address: u64, bytes: u64) -> Self {
        Event { kind, device: i32::try_from(device).unwrap_or(0), address, bytes, extra: 0 }
    }

    pub(crate) fn of_host(kind: Kind, address: usize, bytes: usize) -> Self {
        Event { kind, device: HOST, address: address as u64, bytes: bytes as u64, extra: 0 }
    }
}

/// Who calls, where a library stands for the one that would.
pub(crate) type Maker = (&'static str, &'static str);

struct Row {
    event: Event,
    time_ns: u64,
    thread: u32,
    stack: u32,
    python: u32,
}

/// Values that have rows.
struct Rows<T> {
    rows: HashMap<T, u32>,
}

impl<T: Eq + Hash + Clone> Rows<T> {
    fn row(&mut self, value: T) -> u32 {
        let next = u32::try_from(self.rows.len()).unwrap_or(NONE);
        *self.rows.entry(value).or_insert(next)
    }

    /// In the order of their rows.
    fn all(&self) -> Vec<&T> {
        let mut all: Vec<_> = self.rows.iter().collect();
        all.sort_unstable_by_key(|(_, row)| **row);
        all.into_iter().map(|(value, _)| value).collect()
    }
}

#[derive(Default)]
struct Ledger {
    seen: u64,
    rows: Vec<Row>,
    /// When the first call came that was not kept.
    full_ns: Option<u64>,
    stacks: Rows<(Option<Maker>, Addresses)>,
    pythons: Rows<Stack>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Rows { rows: HashMap::new() }
    }
}

static LEDGER: Mutex<Option<Ledger>> = Mutex::new(None);
static PYTHON: OnceLock<Option<Reader>> = OnceLock::new();

fn ledger() -> MutexGuard<'static, Option<Ledger>> {
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The system's number of this thread.
fn thread() -> u32 {
    thread_local! {
        static THREAD: Cell<Option<u32>> = const { Cell::new(None) };
    }
    THREAD.get().unwrap_or_else(|| {
        let link = std::fs::read_link("/proc/thread-self").ok();
        let number = link.and_then(|path| path.file_name()?.to_str()?.parse().ok()).unwrap_or(0);
        THREAD.set(Some(number));
        number
    })
}

fn push(event: Event, stack: u32, python: u32) {
    let (time_ns, thread) = (now_ns(), thread());
    let mut ledger = ledger();
    let ledger = ledger.get_or_insert_default();
    ledger.seen += 1;
    if ledger.rows.len() < EVENTS_MAX {
        ledger.rows.push(Row { event, time_ns, thread, stack, python });
    } else {
        ledger.full_ns.get_or_insert(time_ns);
    }
}

/// Notes a call of which nobody asks who made it. No lock of this library is held meanwhile, here and below: the loader and Python
/// may be waited for.
pub(crate) fn note(event: Event) {
    push(event, NONE, NONE);
}

/// Notes a call with its stacks.
pub(crate) fn allocated(event: Event) {
    with_stacks(event, None);
}

/// Notes what a library would have done in a function of its own.
pub(crate) fn made_by(maker: Maker, event: Event) {
    with_stacks(event, Some(maker));
}

fn with_stacks(event: Event, maker: Option<Maker>) {
    let addresses = highwater_callers::here();
    // PyTorch's history has the Python stacks of its allocator's calls.
    let is_pytorchs = maker.is_none() && crate::caller::is_allocator();
    let reader = PYTHON.get().and_then(Option::as_ref).filter(|_| !is_pytorchs);
    let python = reader.and_then(Reader::read).filter(|stack| !stack.frames.is_empty());
    let (stack, python) = {
        let mut ledger = ledger();
        let ledger = ledger.get_or_insert_default();
        (ledger.stacks.row((maker, addresses)), python.map_or(NONE, |python| ledger.pythons.row(python)))
    };
    push(event, stack, python);
}

/// Begins to read Python stacks; the calling thread holds the interpreter's lock.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_nullgpu_read_python(is_main_thread: i32) {
    PYTHON.get_or_init(|| Reader::begin(is_main_thread != 0, Patience::OF_A_DRY_RUN));
}

/// The recording so far, as JSON; null if CUDA was not used. The text stays: a process asks for it once or twice.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_nullgpu_driver() -> *const c_char {
    let ended_ns = now_ns();
    let text = ledger().as_ref().map(|ledger| ledger.to_json(ended_ns));
    text.and_then(|text| CString::new(text).ok()).map_or(std::ptr::null(), |text| text.into_raw().cast_const())
}

impl Ledger {
    fn to_json(&self, ended_ns: u64) -> String {
        let mut libraries: Rows<String> = Rows::default();
        let mut stacks = Vec::new();
        for (maker, addresses) in self.stacks.all() {
            let made = maker.map(|(library, function)| (library.to_owned(), function.to_owned()));
            let frames = made.into_iter().chain(addresses.resolve());
            let sites = frames.map(|(file, function)| format!("[{},{}]", libraries.row(file), quoted(&function)));
            stacks.push(format!("[{}]", sites.collect::<Vec<_>>().join(",")));
        }
        let pythons = self.pythons.all().into_iter().map(|stack| {
            let frames = stack.frames.iter();
            let frames =
                frames.map(|frame| format!("[{},{},{}]", quoted(&frame.file), frame.line, quoted(&frame.function)));
            format!(r#"{{"of_main":{},"frames":[{}]}}"#, stack.of_main, frames.collect::<Vec<_>>().join(","))
        });
        let pythons: Vec<_> = pythons.collect();
        let started_ns = self.rows.first().map_or(ended_ns, |row| row.time_ns);
        let capacity = settings::get().card.memory_bytes;
        let capacities: Vec<_> = (0..settings::get().devices).map(|device| format!("[{device},{capacity}]")).collect();
        let libraries: Vec<_> = libraries.all().into_iter().map(|path| quoted(path)).collect();
        let kinds: Vec<_> = KINDS.iter().map(|name| quoted(name)).collect();
        let gaps = self.full_ns.map_or_else(String::new, |from| {
            format!(r#"{{"from_ns":{from},"to_ns":0,"why":"a dry run keeps {EVENTS_MAX} calls"}}"#)
        });
        format!(
            r#"{{"format":"highwater-driver","version":1,"imitated":{card},"started_ns":{started_ns},"ended_ns":{ended_ns},"seen":{seen},"gaps":[{gaps}],"capacities":[{capacities}],"libraries":[{libraries}],"stacks":[{stacks}],"python":[{pythons}],"kinds":[{kinds}],"events":{events}}}"#,
            card = quoted(&settings::get().card.name),
            seen = self.seen,
            capacities = capacities.join(","),
            libraries = libraries.join(","),
            stacks = stacks.join(","),
            pythons = pythons.join(","),
            kinds = kinds.join(","),
            events = self.events(),
        )
    }

    /// The events by columns, as docs/driver.md describes them.
    fn events(&self) -> String {
        let single = |of: fn(&Event) -> u64| self.rows.iter().map(|row| of(&row.event).to_string()).collect::<Vec<_>>();
        let row = |row: u32| if row == NONE { -1 } else { i64::from(row) };
        let columns = [
            ("kind", single(|event| event.kind as u64)),
            ("time_ns", differences(self.rows.iter().map(|row| row.time_ns))),
            ("address", differences(self.rows.iter().map(|row| row.event.address))),
            ("bytes", single(|event| event.bytes)),
            ("device", runs(self.rows.iter().map(|row| row.event.device.into()))),
            ("thread", runs(self.rows.iter().map(|row| row.thread.into()))),
            ("stack", runs(self.rows.iter().map(|event| row(event.stack)))),
            ("python", runs(self.rows.iter().map(|event| row(event.python)))),
            ("extra", runs(self.rows.iter().map(|row| row.event.extra.cast_signed()))),
        ];
        let columns = columns.map(|(name, values)| format!(r#""{name}":[{}]"#, values.join(",")));
        format!("{{{}}}", columns.join(","))
    }
}

/// Each value less the one before.
fn differences(values: impl Iterator<Item = u64>) -> Vec<String> {
    let mut before = 0_u64;
    let mut difference = |value: u64| value.wrapping_sub(std::mem::replace(&mut before, value)).cast_signed();
    values.map(|value| difference(value).to_string()).collect()
}

/// Pairs of a value and how often it comes.
fn runs(values: impl Iterator<Item = i64>) -> Vec<String> {
    let mut runs: Vec<(i64, u64)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((last, times)) if *last == value => *times += 1,
            _ => runs.push((value, 1)),
        }
    }
    runs.into_iter().map(|(value, times)| format!("{value},{times}")).collect()
}

/// A text of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            ' '..='\u{7e}' => quoted.push(letter),
            _ => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    let _ = write!(quoted, "\\u{unit:04x}");
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use highwater_outside::Recording;

    use super::*;

    #[test]
    fn what_is_noted_is_read_as_a_recording() {
        note(Event::new(Kind::Context, 0, 0, 527 << 20));
        made_by(("libnccl.so", "ncclCommInitRank"), Event::new(Kind::Create, 0, 0xabc, 2 << 20));
        note(Event::new(Kind::Release, 0, 0xabc, 0));
        allocated(Event::of_host(Kind::Host, 0xdef, 4096));
        let text = ledger().as_ref().unwrap().to_json(now_ns());
        let recording = Recording::from_json(&text).unwrap();
        assert_eq!(recording.about.imitated, "NVIDIA H200");
        let of = |address| recording.events.iter().find(|event| event.address == address).unwrap();
        let made = of(0xabc);
        assert_eq!((made.kind.name(), made.bytes, made.thread), ("create", 2 << 20, thread()));
        assert_eq!((recording.library(made), recording.function(made)), (Some("libnccl.so"), Some("ncclCommInitRank")));
        assert_eq!((of(0xdef).device, of(0xdef).bytes), (highwater_outside::HOST, 4096));
        assert!(recording.library(of(0xdef)).is_some(), "the test's own program calls");
    }

    #[test]
    fn recordings_know_every_kind() {
        for name in KINDS {
            assert!(highwater_outside::Kind::named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn texts_and_columns_are_json() {
        assert_eq!(quoted("a\"\\\n\u{1f600}é"), r#""a\"\\\u000a\ud83d\ude00\u00e9""#);
        assert_eq!(differences([5, 7, 6].into_iter()), ["5", "2", "-1"]);
        assert_eq!(runs([3, 3, -1].into_iter()), ["3,2", "-1,1"]);
    }
}
