//! A recording of the driver, and its JSON.

use std::borrow::Cow;

use highwater_problem::Problem;
use serde::{Deserialize, Serialize};

use crate::event::{Event, Kind, NO_STACK};
use crate::owner::{is_between, is_recorders, name};

const FORMAT: &str = "highwater-driver";
const VERSION: u32 = 1;

/// The devices of a recording, and the host: as many as a snapshot has at most, for each of them is replayed.
const DEVICES: std::ops::Range<i32> = crate::HOST..128;

/// A recording of the driver.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Facts about the recording itself.
    pub about: Format,
    /// The calls, in order.
    pub events: Vec<Event>,
}

/// A recording as its JSON has it, all but the events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Format {
    /// The GPU, where a dry run imitated it; empty for a real one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub imitated: String,
    /// The library by which it was recorded.
    pub cupti: String,
    /// Its version, as `cuptiGetVersion` says.
    pub cupti_version: u32,
    /// When it began and ended, in nanoseconds since the Unix epoch.
    pub started_ns: u64,
    /// See there.
    pub ended_ns: u64,
    /// Calls that were seen.
    pub seen: u64,
    /// How many of the first events stand for calls that were not kept: the memory that was live then.
    pub told_again: u64,
    /// Calls that have no Python stack because it would have taken too long to get.
    pub without_python: u64,
    /// Times in which nothing was recorded.
    pub gaps: Vec<Gap>,
    /// Memory of each card.
    pub capacities: Vec<(i32, u64)>,
    /// Devices that share the machine's memory. Changes of their free memory were not measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_measured: Vec<i32>,
    /// Paths of libraries.
    pub libraries: Vec<String>,
    /// The names that people know them by.
    pub names: Vec<String>,
    /// Native stacks, innermost frame first.
    pub stacks: Vec<Vec<Site>>,
    /// Stacks in named ranges of the program (NVTX). An event has its row with the bit [`SCOPED`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scoped: Vec<Scoped>,
    /// Names of ranges.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Python stacks.
    pub python: Vec<PythonStack>,
    /// Moments that the program named.
    pub marks: Vec<Mark>,
    /// What NVML said the process uses: for comparison.
    pub nvml: Vec<NvmlSample>,
    /// What the devices did, where a profiler tells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<Work>,
    /// When managed memory was touched, where a profiler tells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub touches: Vec<Touch>,
}

/// A native frame: a row of the libraries, and the function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Site(pub u32, pub String);

/// The bit of an event's stack that says that it is a row of [`Format::scoped`].
pub const SCOPED: u32 = 1 << 31;

/// A native stack, as a row of the stacks, and the named ranges around it, as rows of their names, the outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scoped(pub Option<u32>, pub Vec<u32>);

/// A Python stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PythonStack {
    /// Whether it is the main thread's at that time, because the calling thread had none of its own.
    pub of_main: bool,
    /// Which frame is the program's own: the first that is not of an installed package. A file may leave it out.
    #[serde(default = "unknown")]
    pub own: usize,
    /// Its frames, innermost first.
    pub frames: Vec<Line>,
}

fn unknown() -> usize {
    usize::MAX
}

impl PythonStack {
    /// A stack with these frames, innermost first.
    pub fn new(of_main: bool, frames: Vec<Line>) -> Self {
        let own = frames.iter().position(|Line(file, ..)| !is_installed(file)).unwrap_or(0);
        Self { of_main, own, frames }
    }

    /// The line of the program's own that is running.
    pub fn line(&self) -> Option<&Line> {
        self.frames.get(self.own).or_else(|| self.frames.first())
    }
}

/// Whether a file belongs to Python or to a package of others.
fn is_installed(file: &str) -> bool {
    let file = file.replace('\\', "/");
    file.starts_with('<') || INSTALLED.iter().any(|part| file.contains(part))
}

/// Parts of paths of what is installed; PyTorch's own files may lie anywhere, such as where it was built.
const INSTALLED: [&str; 10] = [
    "/site-packages/",
    "/dist-packages/",
    "/lib/python3",
    "/torch/distributed/",
    "/torch/nn/modules/",
    "/torch/optim/",
    "/torch/autograd/",
    "/torch/utils/",
    "/torch/_",
    "/torch/overrides.py",
];

/// A Python frame: file, line and function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Line(pub String, pub u32, pub String);

/// A time in which nothing was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gap {
    /// When it began.
    pub from_ns: u64,
    /// When it ended; 0 if it did not.
    pub to_ns: u64,
    /// Why.
    pub why: String,
}

/// A moment that the program named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// When it was.
    pub time_ns: u64,
}

/// What NVML said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvmlSample {
    /// The time.
    pub time_ns: u64,
    /// On which device.
    pub device: i32,
    /// The bytes of this process.
    pub bytes: u64,
}

/// Work of a device, of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// On which device.
    pub device: i32,
    /// `kernels`, or the direction of the copy.
    pub what: String,
    /// Their number.
    pub count: u64,
    /// The bytes that were copied.
    pub bytes: u64,
    /// When the last ended.
    pub last_ns: u64,
}

/// Accesses of one kind to a managed allocation, as the driver sees them: it moves pages to who needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Touch {
    /// The address of the allocation, as its event has it.
    pub address: u64,
    /// When it was made.
    pub made_ns: u64,
    /// Which way its pages were moved, or whose page faults.
    pub what: String,
    /// How many.
    pub count: u64,
    /// The bytes that were moved.
    pub bytes: u64,
    /// When the last one ended.
    pub last_ns: u64,
}

#[derive(Serialize, Deserialize)]
struct File<'a> {
    format: Cow<'a, str>,
    version: u32,
    #[serde(flatten)]
    about: Cow<'a, Format>,
    /// Names of the kinds, by their numbers in `events`.
    kinds: Vec<Cow<'a, str>>,
    events: Columns,
}

/// The events by columns. `time_ns` and `address` are differences from the event before. `device`, `thread`, `stack`,
/// `python` and `extra` are pairs: a value, and how many events have it.
#[derive(Default, Serialize, Deserialize)]
struct Columns {
    kind: Vec<u8>,
    time_ns: Vec<i64>,
    address: Vec<i64>,
    bytes: Vec<i64>,
    device: Vec<i64>,
    thread: Vec<i64>,
    stack: Vec<i64>,
    python: Vec<i64>,
    extra: Vec<i64>,
}

impl Recording {
    /// Its JSON.
    pub fn to_json(&self) -> String {
        let mut columns = Columns::default();
        let (mut time_ns, mut address) = (0_u64, 0_u64);
        for event in &self.events {
            columns.kind.push(event.kind as u8);
            columns.time_ns.push(event.time_ns.wrapping_sub(time_ns).cast_signed());
            columns.address.push(event.address.wrapping_sub(address).cast_signed());
            columns.bytes.push(event.bytes);
            (time_ns, address) = (event.time_ns, event.address);
            for (column, value) in [
                (&mut columns.device, event.device.into()),
                (&mut columns.thread, event.thread.into()),
                (&mut columns.stack, row(event.stack)),
                (&mut columns.python, row(event.python)),
                (&mut columns.extra, event.extra.cast_signed()),
            ] {
                push_run(column, value);
            }
        }
        let file = File {
            format: FORMAT.into(),
            version: VERSION,
            about: Cow::Borrowed(&self.about),
            kinds: Kind::ALL.iter().map(|kind| kind.name().into()).collect(),
            events: columns,
        };
        serde_json::to_string(&file).expect("numbers and strings have a JSON")
    }

    /// Reads a recording from its JSON.
    ///
    /// # Errors
    /// If it is something else, or of a newer version.
    pub fn from_json(text: &str) -> Result<Self, Problem> {
        let wrong = |why: String| Problem::new("the recording of the driver cannot be read").because(why);
        let file: File<'_> = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if file.format != FORMAT {
            return Err(wrong(format!("its format is not `{FORMAT}`")));
        }
        if file.version > VERSION {
            return Err(wrong(format!("its version is {}, and this program reads up to {VERSION}", file.version))
                .hint("update highwater"));
        }
        let kinds: Vec<Option<Kind>> = file.kinds.iter().map(|name| Kind::named(name)).collect();
        let columns = &file.events;
        let mut runs =
            [&columns.device, &columns.thread, &columns.stack, &columns.python, &columns.extra].map(|of| Runs::new(of));
        let (mut time_ns, mut address) = (0_u64, 0_u64);
        let mut events = Vec::with_capacity(columns.kind.len());
        let singles = columns.kind.iter().zip(&columns.time_ns).zip(&columns.address).zip(&columns.bytes);
        for (((&kind, &later), &further), &bytes) in singles {
            time_ns = time_ns.wrapping_add(later.cast_unsigned());
            address = address.wrapping_add(further.cast_unsigned());
            let [device, thread, stack, python, extra] = runs.each_mut().map(Runs::take);
            // A newer kind changes memory in a way that is not known here.
            let Some(kind) = kinds.get(usize::from(kind)).copied().flatten() else { continue };
            let device = i32::try_from(device).ok().filter(|device| DEVICES.contains(device));
            let device = device
                .ok_or_else(|| wrong("it has a device above 127, the most that a recording may have".to_owned()))?;
            events.push(Event {
                kind,
                time_ns,
                device,
                thread: u32::try_from(thread).unwrap_or(0),
                stack: u32::try_from(stack).unwrap_or(NO_STACK),
                python: u32::try_from(python).unwrap_or(NO_STACK),
                address,
                bytes,
                extra: extra.cast_unsigned(),
            });
        }
        let mut about = file.about.into_owned();
        for stack in about.python.iter_mut().filter(|stack| stack.own == unknown()) {
            *stack = PythonStack::new(stack.of_main, std::mem::take(&mut stack.frames));
        }
        Ok(Self { about, events })
    }

    /// The path of the library that requested an event's memory.
    pub fn library(&self, event: &Event) -> Option<&str> {
        self.library_row(event).map(|row| self.about.libraries[row].as_str())
    }

    /// The name of that library.
    pub(crate) fn library_name(&self, event: &Event) -> Option<String> {
        let row = self.library_row(event)?;
        let known = self.about.names.get(row).filter(|name| !name.is_empty());
        Some(known.cloned().unwrap_or_else(|| name(&self.about.libraries[row])))
    }

    fn library_row(&self, event: &Event) -> Option<usize> {
        let rows = self.sites(event).iter().map(|site| site.0 as usize);
        rows.into_iter().find(|&row| self.about.libraries.get(row).is_some_and(|path| !is_between(path)))
    }

    /// The row of an event's native stack, whatever ranges are around it.
    pub(crate) fn native_row(&self, event: &Event) -> Option<u32> {
        match self.scoped(event) {
            Some(scoped) => scoped.0,
            None => Some(event.stack),
        }
    }

    /// The native stack of an event.
    fn sites(&self, event: &Event) -> &[Site] {
        self.native_row(event).and_then(|row| self.about.stacks.get(row as usize)).map_or(&[], Vec::as_slice)
    }

    /// The stack of an event that is in named ranges.
    fn scoped(&self, event: &Event) -> Option<&Scoped> {
        let is_scoped = event.stack != NO_STACK && event.stack & SCOPED != 0;
        is_scoped.then(|| self.about.scoped.get((event.stack & !SCOPED) as usize)).flatten()
    }

    /// The native frames of an event, innermost first, without the recorder's own: library and function.
    pub fn native(&self, event: &Event) -> impl Iterator<Item = (&str, &str)> {
        let named = |site: &Site| self.about.libraries.get(site.0 as usize).map(String::as_str);
        let frames = self.sites(event).iter().filter_map(move |site| Some((named(site)?, site.1.as_str())));
        frames.skip_while(|&(library, _)| is_recorders(library))
    }

    /// The Python stack of an event.
    pub fn python(&self, event: &Event) -> Option<&PythonStack> {
        self.about.python.get(event.python as usize)
    }

    /// The function of the library that asked: the last one on its way out of that library, which is the one that was
    /// called.
    pub fn function(&self, event: &Event) -> Option<&str> {
        let is_plumbing = |site: &&Site| self.about.libraries.get(site.0 as usize).is_none_or(|path| is_between(path));
        let mut frames = self.sites(event).iter().skip_while(is_plumbing);
        let first = frames.next()?;
        let of_it = frames.take_while(|site| site.0 == first.0);
        std::iter::once(first).chain(of_it).map(|site| site.1.as_str()).filter(|name| !name.is_empty()).last()
    }

    /// The named ranges of the program around an event, the outermost first, between slashes.
    pub fn scope(&self, event: &Event) -> Option<String> {
        let rows = self.scoped(event)?.1.iter();
        let names: Vec<&str> =
            rows.filter_map(|&row| self.about.scopes.get(row as usize)).map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join("/"))
    }

    /// The operator of PyTorch in an event's native stack, such as `aten::mm`.
    pub fn operator(&self, event: &Event) -> Option<String> {
        // `at::_ops::mm::call(…)`, as Nsight Systems has it, or mangled: `_ZN2at4_ops2mm4call…`.
        self.sites(event).iter().find_map(|Site(_, symbol)| {
            if let Some(rest) = symbol.strip_prefix("at::_ops::") {
                return rest.split_once("::").map(|(name, _)| format!("aten::{name}"));
            }
            let rest = symbol.strip_prefix("_ZN2at4_ops")?;
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let length: usize = rest[..digits].parse().ok()?;
            rest.get(digits..digits.checked_add(length)?).map(|name| format!("aten::{name}"))
        })
    }
}

fn row(row: u32) -> i64 {
    if row == NO_STACK { -1 } else { row.into() }
}

fn push_run(column: &mut Vec<i64>, value: i64) {
    match column.as_mut_slice() {
        [.., last, times] if *last == value => *times += 1,
        _ => column.extend([value, 1]),
    }
}

/// Reads pairs of a value and how often it comes.
struct Runs<'a> {
    pairs: &'a [i64],
    left: i64,
}

impl<'a> Runs<'a> {
    fn new(pairs: &'a [i64]) -> Self {
        Self { pairs, left: pairs.get(1).copied().unwrap_or(0) }
    }

    /// The next value; -1 when there is none.
    fn take(&mut self) -> i64 {
        while let [value, _, rest @ ..] = self.pairs {
            if self.left > 0 {
                self.left -= 1;
                return *value;
            }
            self.pairs = rest;
            self.left = rest.get(1).copied().unwrap_or(0);
        }
        -1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_event() -> impl Strategy<Value = Event> {
        let places =
            (-1..4_i32, 0..3_u32, prop_oneof![Just(NO_STACK), 0..3_u32], prop_oneof![Just(NO_STACK), 0..3_u32]);
        (0..Kind::ALL.len(), any::<u64>(), any::<u64>(), any::<i64>(), any::<u64>(), places).prop_map(
            |(kind, time_ns, address, bytes, extra, (device, thread, stack, python))| Event {
                kind: Kind::ALL[kind],
                time_ns,
                device,
                thread,
                stack,
                python,
                address,
                bytes,
                extra,
            },
        )
    }

    #[test]
    fn a_recording_has_no_more_devices_than_a_machine() {
        let of = |device: i32| {
            let event = Event {
                kind: Kind::ALL[0],
                time_ns: 0,
                device,
                thread: 0,
                stack: NO_STACK,
                python: NO_STACK,
                address: 0,
                bytes: 1,
                extra: 0,
            };
            Recording::from_json(&Recording { events: vec![event], ..Recording::default() }.to_json())
        };
        assert!(of(127).is_ok() && of(crate::HOST).is_ok());
        assert!(of(128).is_err() && of(-2).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(events in prop::collection::vec(any_event(), 0..40)) {
            let recording = Recording { events, ..Recording::default() };
            let read = Recording::from_json(&recording.to_json()).unwrap();
            prop_assert_eq!(read.events, recording.events);
        }
    }

    #[test]
    fn columns_of_any_length_are_read() {
        let text = r#"{"format":"highwater-driver","version":1,"kinds":["device","new kind"],"events":{"kind":[0,0,1,9],
            "time_ns":[5,1,1,1],"address":[1,1,1,1],"bytes":[7,7,7,7],"device":[0,-3,0],"thread":[],"stack":[1],"python":[],"extra":[2,1]}}"#;
        let read = Recording::from_json(text).unwrap();
        let shown: Vec<_> = read.events.iter().map(|event| (event.kind, event.device, event.extra)).collect();
        assert_eq!(shown, [(Kind::Device, -1, 2), (Kind::Device, -1, u64::MAX)]);
        for (text, expected) in
            [("{", "EOF"), (r#"{"format":"x","version":1,"kinds":[],"events":{}}"#, "missing field")]
        {
            let error = format!("{:?}", Recording::from_json(text).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
        let newer = text.replace("\"version\":1", "\"version\":2");
        assert!(format!("{:?}", Recording::from_json(&newer).unwrap_err()).contains("update highwater"));
    }

    #[test]
    fn the_programs_own_frame_is_found_where_a_file_leaves_it_out() {
        let text = r#"{"format":"highwater-driver","version":1,"kinds":[],"events":{"kind":[],"time_ns":[],"address":[],"bytes":[],"device":[],
            "thread":[],"stack":[],"python":[],"extra":[]},"python":[{"frames":[["/src/torch/distributed/c10d.py",1,"all_reduce"],["/home/u/train.py",7,"main"]]},
            {"own":0,"frames":[["/x/site-packages/a.py",1,"a"],["/home/u/train.py",7,"main"]]}]}"#;
        let python = Recording::from_json(text).unwrap().about.python;
        let lines: Vec<_> = python.iter().map(|stack| stack.line().map(|line| line.1)).collect();
        assert_eq!(lines, [Some(7), Some(1)]);
    }

    #[test]
    fn the_library_is_the_first_that_is_not_between() {
        let stack = vec![
            Site(0, "cuMemAlloc_v2".to_owned()),
            Site(1, "cudaMalloc".to_owned()),
            Site(2, String::new()),
            Site(2, "cublasCreate_v2".to_owned()),
            Site(3, "_ZN2at4_ops2mm4callERKNS_6TensorES4_".to_owned()),
        ];
        let libraries =
            ["/l/libcuda.so.1", "/l/libcudart.so.13", "/l/libcublas.so.13", "/l/libtorch_cpu.so"].map(str::to_owned);
        let recording = Recording {
            about: Format { libraries: libraries.to_vec(), stacks: vec![stack], ..Format::default() },
            events: Vec::new(),
        };
        let event = Event {
            kind: Kind::Device,
            time_ns: 0,
            device: 0,
            thread: 0,
            stack: 0,
            python: 0,
            address: 0,
            bytes: 0,
            extra: 0,
        };
        assert_eq!(recording.library(&event), Some("/l/libcublas.so.13"));
        assert_eq!(recording.function(&event), Some("cublasCreate_v2"));
        assert_eq!(recording.operator(&event).as_deref(), Some("aten::mm"));
        let none = Event { stack: NO_STACK, ..event };
        assert_eq!((recording.library(&none), recording.operator(&none)), (None, None));
    }
}
