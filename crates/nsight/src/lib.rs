//! Reads the SQLite files that Nsight Systems exports (`nsys export --type sqlite`), as recordings of the driver.
//!
//! Nsight Systems makes tables as it needs them, and their columns differ between releases. This reads those that are there, and names the
//! missing ones.
//!
//! # Source
//! "SQLite Export Schema Reference" of the documentation of Nsight Systems 2021.5, and the queries in it: the tables, the numbers of kinds
//! and operations, and how process and thread are packed in one number. The queries of the reports and the list of changes up to schema
//! 3.20.3 that come with 2025.3: devices are those of `TARGET_INFO_GPU.id`, named ranges have the kinds 59, 60, 70 and 71.
//!
//! # Design constraints
//!
//! - A file is opened as [`highwater_sqlite`] opens those of others: read-only, nothing in it is run, and questions have limits.
//! - A table is read once, from its start to its end, and only rows that an allocation refers to are kept: memory grows with the
//!   allocations, not with the file.

mod align;
mod annotations;
mod export;
mod names;
mod rows;
mod scopes;
mod stacks;
mod touches;
mod work;

use std::io::{self, Cursor, Read as _};
use std::path::{Path, PathBuf};

use highwater_outside::{Event, Format, HOST, Kind, NO_STACK, Recording, SCOPED, Scoped, Site};
use highwater_problem::Problem;
use highwater_snapshot::{Encoding, Place, Profile, ProfileForm, Snapshot, Unpacking, decompressed};
use highwater_sqlite::{Database, Limits};
use rustc_hash::FxHashMap;

use crate::export::exported;
use crate::rows::{Columns, Table, columns_of};
use crate::scopes::Scopes;
use crate::stacks::Stacks;
use crate::touches::Managed;

/// The table with the allocations.
const ALLOCATIONS: &str = "CUDA_GPU_MEMORY_USAGE_EVENTS";
/// Changes of pools beside allocations.
const POOLS: &str = "CUDA_GPU_MEMORY_POOL_EVENTS";
/// Calls of the API.
const CALLS: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
/// Texts by number.
const TEXTS: &str = "StringIds";

/// Allocations at most: a file with more is of something else, or made to hurt.
const MAX_ALLOCATIONS: usize = 8_000_000;
/// Bits of an address: those above tell processes apart.
pub(crate) const ADDRESS_BITS: u32 = 57;
/// A thread has so many bits; above them its process has as many, and then the machine.
const THREAD_BITS: u32 = 24;
const THREAD_MASK: i64 = (1 << THREAD_BITS) - 1;
/// Texts longer than this are cut: a function's name with its templates may be long.
const MAX_TEXT_BYTES: usize = 1024;

/// Whether a file is a profile of Nsight Systems: its report by the name, or an SQLite database by its first bytes.
pub fn is_profile(path: &Path) -> bool {
    export::is_report(path) || is_sqlite(path)
}

/// Whether a file is an SQLite database, by its first bytes.
fn is_sqlite(path: &Path) -> bool {
    let mut start = [0; DATABASE.len()];
    // A pipe would lose what is read of it.
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    is_file && std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && &start == DATABASE
}

/// The first bytes of an SQLite database.
const DATABASE: &[u8; 16] = b"SQLite format 3\0";

/// Reads a file as a snapshot with no segments of PyTorch's, whose recording of the driver has its allocations.
///
/// # Errors
/// If it is not what Nsight Systems exports, or has no allocations.
pub fn read(path: &Path) -> Result<Snapshot, Problem> {
    read_shown(path, &quoted(path))
}

/// Reads a snapshot or a profile that comes as a stream, compressed or not: a pipe, or a file that was dropped on a page. Messages call it
/// `shown`.
///
/// A profile lies in a temporary file meanwhile, for SQLite reads where it likes.
///
/// # Errors
/// Those of [`read`] and of a snapshot, or if there is no place for the temporary file.
pub fn read_stream(source: impl io::Read, unpacking: Unpacking, shown: &str) -> Result<Snapshot, Problem> {
    let unreadable = |error: highwater_snapshot::Error| error.problem(shown);
    let mut whole = decompressed(source, unpacking).map_err(unreadable)?;
    let mut start = Vec::new();
    let broken = |error: io::Error| Problem::new(format!("{shown} cannot be read")).because(error);
    whole.by_ref().take(DATABASE.len() as u64).read_to_end(&mut start).map_err(broken)?;
    let is_database = start == DATABASE;
    let mut whole = Cursor::new(start).chain(whole);
    let name = Path::new(shown.trim_matches('`'));
    if !is_database && !export::is_named_report(name) {
        return Snapshot::read_with(whole, unpacking).map_err(unreadable);
    }
    let kept = |error: io::Error| {
        Problem::new(format!("{shown} cannot be read"))
            .because(format!("a profile is kept in a temporary file while it is read: {error}"))
            .hint("give it as a file, or set `TMPDIR` to a directory with room for it")
    };
    let folder = tempfile::tempdir().map_err(kept)?;
    // `nsys` goes by the extension.
    let mut path: PathBuf = folder.path().join("profile");
    path.set_extension(name.extension().filter(|_| !is_database).unwrap_or("sqlite".as_ref()));
    let copied = std::fs::File::create(&path).and_then(|mut file| io::copy(&mut whole, &mut file));
    copied.map_err(kept)?;
    read_shown(&path, shown)
}

/// How messages call a file.
fn quoted(path: &Path) -> String {
    format!("`{}`", path.display())
}

fn read_shown(path: &Path, shown: &str) -> Result<Snapshot, Problem> {
    let read = recording_of(path, shown)?;
    let mut snapshot = Snapshot::empty();
    snapshot.encoding = Encoding::Sqlite;
    snapshot.profile = Some(Profile { form: ProfileForm::Nsight, preexisting: Vec::new(), knows_start: true });
    snapshot.bytes = path.metadata().map_or(0, |metadata| metadata.len());
    put(&mut snapshot, &read, 0);
    Ok(snapshot)
}

/// Adds a file's recording to a snapshot of the same run, whose clock it gets by the segments that both know.
///
/// # Errors
/// Those of [`read`], or if they have no segment in common.
pub fn read_beside(path: &Path, snapshot: &mut Snapshot) -> Result<(), Problem> {
    let mut read = recording_of(path, &quoted(path))?;
    let difference_ns = align::align(&mut read.recording, snapshot).ok_or_else(|| {
        Problem::new(format!("`{}` and the snapshot are of different runs", path.display()))
            .because("no segment of PyTorch's has its address and size in both")
            .hint("give the snapshot that the profiled process wrote")
    })?;
    snapshot.extras.retain(|(key, _)| key != Snapshot::DRIVER);
    put(snapshot, &read, difference_ns);
    Ok(())
}

/// Warnings of a file: their ids and texts.
type Warned = Vec<(&'static str, String)>;

/// A file's recording.
struct Read {
    recording: Recording,
    scopes: Scopes,
    /// What is to be added to times of the file.
    epoch_ns: u64,
    warned: Warned,
}

/// Adds a file to a snapshot, whose clock is so far ahead.
fn put(snapshot: &mut Snapshot, read: &Read, difference_ns: i64) {
    for (id, message) in &read.warned {
        snapshot.warnings.add(id, message.clone(), Place::default());
    }
    annotations::annotate(snapshot, read, difference_ns);
    snapshot.extras.push((Snapshot::DRIVER.to_owned(), read.recording.to_json()));
}

fn recording_of(path: &Path, shown: &str) -> Result<Read, Problem> {
    let exported = exported(path, shown)?;
    let file = exported.path();
    // Before SQLite, which finds such a file damaged and does not say how.
    if let Some((there, whole)) = cut(&file) {
        return Err(Problem::new(format!("{shown} is cut"))
            .because(format!("it has {there} of {whole} bytes"))
            .hint("copy it again, or export it again with `nsys export --type sqlite`"));
    }
    let database = Database::open_untrusted(&file, shown, Limits::default())?;
    let allocations = columns_of(&database, ALLOCATIONS)?;
    if allocations.is_empty() {
        return Err(absent(&database, shown)?);
    }
    let needed = ["start", "bytes", "memKind", "memoryOperationType", "address"];
    if let Some(missing) = needed.iter().find(|name| !allocations.contains(name)) {
        return Err(Problem::new(format!("{shown} cannot be read")).because(format!(
            "its table `{ALLOCATIONS}` has no column `{missing}`: it is of a release of Nsight Systems that highwater does not know"
        )));
    }
    let mut reader = Reader {
        database: &database,
        about: Format::default(),
        rows: FxHashMap::default(),
        scoped: FxHashMap::default(),
        libraries: FxHashMap::default(),
        scopes: Scopes::default(),
        warned: Vec::new(),
    };
    let epoch_ns = reader.epoch_ns()?;
    let recording = reader.recording(&allocations, epoch_ns)?;
    if recording.events.is_empty() {
        return Err(Problem::new(format!("{shown} has no memory allocations"))
            .because(format!("the table `{ALLOCATIONS}` is empty"))
            .hint(WITH_MEMORY));
    }
    Ok(Read { recording, scopes: reader.scopes, epoch_ns, warned: reader.warned })
}

/// The bytes that are there and that should be, of a file that lacks some: SQLite itself reads them as zeros.
fn cut(path: &Path) -> Option<(u64, u64)> {
    let mut file = std::fs::File::open(path).ok()?;
    let there = file.metadata().ok()?.len();
    let mut head = [0; 100];
    file.read_exact(&mut head).ok()?;
    if !head.starts_with(DATABASE) {
        return None;
    }
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    // The count of pages holds if the last who wrote knew of it.
    let is_counted = number(24) == number(92);
    let page = match u16::from_be_bytes([head[16], head[17]]) {
        1 => 65_536,
        bytes => u64::from(bytes),
    };
    let whole = page * u64::from(number(28));
    (is_counted && there < whole).then_some((there, whole))
}

/// How a profile gets allocations.
const WITH_MEMORY: &str = "profile with `nsys profile --cuda-memory-usage=true`, then `nsys export --type sqlite`";

/// Why there are no allocations.
fn absent(database: &Database, shown: &str) -> Result<Problem, Problem> {
    let is_nsights = !columns_of(database, TEXTS)?.is_empty() || !columns_of(database, CALLS)?.is_empty();
    let problem = Problem::new(format!("{shown} has no memory allocations"));
    Ok(if is_nsights {
        problem.because(format!("there is no table `{ALLOCATIONS}`")).hint(WITH_MEMORY)
    } else {
        problem
            .because("it is an SQLite database of another program than Nsight Systems")
            .hint("give what `nsys export --type sqlite` writes")
    })
}

/// An allocation as its table has it.
struct Allocated {
    event: Event,
    process: i64,
    correlation: i64,
    /// A variable of a module, which lies beside its code; no call made it.
    is_variable: bool,
}

struct Reader<'d> {
    database: &'d Database,
    about: Format,
    /// Rows of the recording's stacks, by the file's stack and process.
    rows: FxHashMap<(u32, usize), u32>,
    /// Rows of its stacks in named ranges.
    scoped: FxHashMap<Scoped, u32>,
    /// Rows of its libraries, by module and process.
    libraries: FxHashMap<(String, Option<i64>), u32>,
    scopes: Scopes,
    warned: Warned,
}

impl Reader<'_> {
    fn recording(&mut self, columns: &Columns, epoch_ns: u64) -> Result<Recording, Problem> {
        let mut allocated = self.allocations(columns)?;
        // Rows are in the order of their end; the state follows times.
        allocated.sort_by_key(|row| row.event.time_ns);
        let wanted = allocated.iter().map(|row| (row.process, row.correlation)).collect();
        let stacks = Stacks::read(self.database, &wanted, &mut self.warned)?;
        drop(wanted);
        let mut processes: Vec<i64> = allocated.iter().map(|row| row.process).collect();
        processes.sort_unstable();
        processes.dedup();
        let of_call = |row: &Allocated| {
            let found = stacks.by_call.get(&(row.process, row.correlation));
            (found.map_or(row.process << THREAD_BITS, |found| found.global_thread), row.event.time_ns.cast_signed())
        };
        let calls: Vec<_> = allocated.iter().map(of_call).collect();
        self.scopes = Scopes::read(self.database, &calls, &mut self.warned)?;
        self.about.scopes = self.scopes.take_names();
        self.about.work = work::work(self.database, epoch_ns)?;
        let mut events = Vec::with_capacity(allocated.len());
        let mut managed = Managed::default();
        for (call, row) in allocated.iter().enumerate() {
            let process = processes.binary_search(&row.process).unwrap_or(0);
            let found = stacks.by_call.get(&(row.process, row.correlation));
            let stack = found.map_or(NO_STACK, |found| found.stack);
            // Processes have the same addresses: the highest bits, which no address has, tell them apart.
            let address = row.event.address ^ ((process as u64) << ADDRESS_BITS);
            managed.follow(row.process, row.event.address, &Event { address, ..row.event });
            events.push(Event {
                time_ns: row.event.time_ns.wrapping_add(epoch_ns),
                thread: found.map_or(0, |found| found.thread),
                stack: if row.is_variable {
                    self.stack_of(VARIABLES, &stacks, &processes, process, call)
                } else {
                    self.stack_of(stack, &stacks, &processes, process, call)
                },
                address,
                ..row.event
            });
        }
        self.about.touches = touches::touches(self.database, &managed, THREAD_BITS)?;
        for touch in &mut self.about.touches {
            touch.made_ns = touch.made_ns.wrapping_add(epoch_ns);
            touch.last_ns = touch.last_ns.wrapping_add(epoch_ns);
        }
        self.about.seen = events.len() as u64;
        self.about.started_ns = events.first().map_or(0, |event| event.time_ns);
        self.about.ended_ns = events.last().map_or(0, |event| event.time_ns);
        self.about.capacities = self.capacities()?;
        if stacks.by_call.values().all(|found| found.stack == NO_STACK) {
            self.warned.push((
                "no-backtraces",
                "the file has no backtraces of CUDA calls, so no library is known: profile with `--cudabacktrace=all:0`"
                    .to_owned(),
            ));
        }
        Ok(Recording { about: std::mem::take(&mut self.about), events })
    }

    fn allocations(&mut self, columns: &Columns) -> Result<Vec<Allocated>, Problem> {
        let table = Table::new(self.database, ALLOCATIONS, columns);
        let names = [
            "start",
            "bytes",
            "memKind",
            "memoryOperationType",
            "address",
            "globalPid",
            "deviceId",
            "correlationId",
            "streamId",
            "localMemoryPoolAddress",
            "localMemoryPoolSize",
            "localMemoryPoolUtilizedSize",
        ];
        let mut rows = Vec::new();
        let (mut odd, mut is_full) = (0_u64, false);
        table.read(&names, |row| {
            if rows.len() >= MAX_ALLOCATIONS {
                is_full = true;
                return;
            }
            let number = |at: usize| row[at].unwrap_or(0);
            let pool = row[9].filter(|&address| address != 0);
            let Some(kind) = kind_of(number(2), number(3), pool.is_some()) else {
                odd += u64::from(number(2) != PAGEABLE);
                return;
            };
            let event = Event {
                kind,
                time_ns: number(0).cast_unsigned(),
                device: if matches!(kind, Kind::Host | Kind::HostFree) {
                    HOST
                } else {
                    i32::try_from(number(6)).unwrap_or(0)
                },
                thread: 0,
                stack: NO_STACK,
                python: NO_STACK,
                address: number(4).cast_unsigned(),
                bytes: number(1).max(0),
                extra: number(8).cast_unsigned(),
            };
            let place = (number(5) >> THREAD_BITS, row[7].unwrap_or(-1));
            let allocated =
                |event, is_variable| Allocated { event, process: place.0, correlation: place.1, is_variable };
            rows.push(allocated(event, number(2) == STATIC));
            if let Some(pool) = pool {
                let event = Event {
                    kind: Kind::Pool,
                    address: pool.cast_unsigned(),
                    bytes: number(10).max(0),
                    extra: number(11).cast_unsigned(),
                    ..event
                };
                rows.push(allocated(event, false));
            }
        })?;
        self.pools(&mut rows)?;
        if odd > 0 {
            self.warned.push((
                "unknown-memory-kind",
                format!("{odd} allocations are of a kind that highwater does not know; left out"),
            ));
        }
        if is_full {
            self.warned.push((
                "too-many-allocations",
                format!("the file has more than {MAX_ALLOCATIONS} allocations; the later ones are left out"),
            ));
        }
        Ok(rows)
    }

    /// Adds what pools have after they were made, trimmed or destroyed.
    fn pools(&self, rows: &mut Vec<Allocated>) -> Result<(), Problem> {
        let columns = columns_of(self.database, POOLS)?;
        if ["start", "address", "operationType"].iter().any(|name| !columns.contains(name)) {
            return Ok(());
        }
        let names = [
            "start",
            "globalPid",
            "deviceId",
            "address",
            "operationType",
            "correlationId",
            "localMemoryPoolSize",
            "localMemoryPoolUtilizedSize",
        ];
        Table::new(self.database, POOLS, &columns).read(&names, |row| {
            let number = |at: usize| row[at].unwrap_or(0);
            let kind = match number(4) {
                // Made, and trimmed; without a size nothing is told.
                1 | 3 if row[6].is_some() => Kind::Pool,
                2 => Kind::PoolDestroy,
                _ => return,
            };
            if rows.len() < MAX_ALLOCATIONS {
                let event = Event {
                    kind,
                    time_ns: number(0).cast_unsigned(),
                    device: i32::try_from(number(2)).unwrap_or(0),
                    thread: 0,
                    stack: NO_STACK,
                    python: NO_STACK,
                    address: number(3).cast_unsigned(),
                    bytes: number(6).max(0),
                    extra: number(7).cast_unsigned(),
                };
                let (process, correlation) = (number(1) >> THREAD_BITS, row[5].unwrap_or(-1));
                rows.push(Allocated { event, process, correlation, is_variable: false });
            }
        })
    }

    /// The number of a stack in the recording: one for each process and named ranges that have it.
    fn stack_of(&mut self, stack: u32, stacks: &Stacks, processes: &[i64], process: usize, call: usize) -> u32 {
        let row = self.row_of(stack, stacks, processes, process);
        let ranges = self.scopes.of(call);
        if ranges.is_empty() || stack == VARIABLES {
            return row;
        }
        let scoped = Scoped((row != NO_STACK).then_some(row), ranges.to_vec());
        if let Some(&row) = self.scoped.get(&scoped) {
            return row;
        }
        let row = u32::try_from(self.about.scoped.len()).unwrap_or(NO_STACK) | SCOPED;
        self.about.scoped.push(scoped.clone());
        self.scoped.insert(scoped, row);
        row
    }

    /// The row of a stack in the recording: one for each process that has it.
    fn row_of(&mut self, stack: u32, stacks: &Stacks, processes: &[i64], process: usize) -> u32 {
        if let Some(&row) = self.rows.get(&(stack, process)) {
            return row;
        }
        // The bits above a process's number tell machines apart.
        let several = (processes.len() > 1).then(|| processes[process] & THREAD_MASK);
        let row = match stacks.frames(stack) {
            Some(frames) => self.add_stack(frames, several),
            None if stack == VARIABLES => {
                self.add_stack(vec![("variables of modules".to_owned(), String::new())], several)
            }
            None if several.is_some() => self.add_stack(vec![(String::new(), String::new())], several),
            None => NO_STACK,
        };
        self.rows.insert((stack, process), row);
        row
    }

    fn add_stack(&mut self, frames: Vec<(String, String)>, process: Option<i64>) -> u32 {
        let sites = frames.into_iter().map(|(module, symbol)| Site(self.library(module, process), symbol)).collect();
        self.about.stacks.push(sites);
        u32::try_from(self.about.stacks.len() - 1).unwrap_or(NO_STACK)
    }

    fn library(&mut self, module: String, process: Option<i64>) -> u32 {
        let about = &mut self.about;
        *self.libraries.entry((module, process)).or_insert_with_key(|(module, process)| {
            let known = if module.is_empty() { "unknown library".to_owned() } else { highwater_outside::name(module) };
            about.libraries.push(if module.is_empty() { "unknown".to_owned() } else { module.clone() });
            about.names.push(process.map_or_else(|| known.clone(), |process| format!("{known} of process {process}")));
            u32::try_from(about.libraries.len() - 1).unwrap_or(NO_STACK)
        })
    }

    /// When the profile began, in nanoseconds since the Unix epoch: times in the file count from there.
    fn epoch_ns(&self) -> Result<u64, Problem> {
        let name = "TARGET_INFO_SESSION_START_TIME";
        let columns = columns_of(self.database, name)?;
        let mut epoch = 0;
        if columns.contains(&"utcEpochNs") {
            Table::new(self.database, name, &columns).read(&["utcEpochNs"], |row| epoch = row[0].unwrap_or(0))?;
        }
        Ok(epoch.cast_unsigned())
    }

    /// Memory of each device.
    fn capacities(&self) -> Result<Vec<(i32, u64)>, Problem> {
        let name = "TARGET_INFO_GPU";
        let columns = columns_of(self.database, name)?;
        let mut found = Vec::new();
        if columns.contains(&"totalMemory") && columns.contains(&"id") {
            Table::new(self.database, name, &columns).read(&["id", "totalMemory"], |row| {
                if let [Some(device), Some(bytes)] = row[..]
                    && let (Ok(device), Ok(bytes)) = (i32::try_from(device), u64::try_from(bytes))
                    && found.len() < 128
                {
                    found.push((device, bytes));
                }
            })?;
        }
        Ok(found)
    }
}

/// The stack of variables of modules.
const VARIABLES: u32 = NO_STACK - 1;
/// `CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC`
const STATIC: i64 = 5;
/// `CUDA_MEMOPR_MEMORY_KIND_PAGEABLE`: memory of the host that is not pinned, which is not the card's.
const PAGEABLE: i64 = 0;

/// The kind of an event, by the file's kind of memory and operation.
fn kind_of(memory: i64, operation: i64, is_pooled: bool) -> Option<Kind> {
    Some(match (memory, operation) {
        (1, 0) => Kind::Host,
        (1, 1) => Kind::HostFree,
        (2, 0) if is_pooled => Kind::StreamOrdered,
        (2, 1) if is_pooled => Kind::StreamOrderedFree,
        // Static variables of a module lie beside its code.
        (2 | 5, 0) => Kind::Device,
        (2 | 4 | 5 | 6, 1) => Kind::Free,
        (3, 0) => Kind::Array,
        (3, 1) => Kind::ArrayDestroy,
        (4 | 6, 0) => Kind::Managed,
        _ => return None,
    })
}
