//! Runs a program over the null GPU, and collects what its processes leave.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind};
use crate::interpreter::Interpreter;
use crate::prepare::{Machine, Prepared, prepare};
use crate::processes::{GRACE, Plan};
use crate::sandbox::{Sandbox, Writes};
use crate::{cudnn, failed, injected, libraries, own_directory};

/// What is to be run, and how.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Who runs it.
    pub interpreter: &'a Interpreter,
    /// The script, or `-m` and a module, and its arguments: what follows `python`.
    pub arguments: &'a [OsString],
    /// What the program is to find.
    pub machine: Machine,
    /// How it is to be watched and ended.
    pub watch: Watch,
    /// How many ranks of it there are to be.
    pub ranks: Ranks,
    /// Whether what the program writes is to be kept in the run's directory.
    pub sandbox: bool,
    /// Whether what the program prints is thrown away.
    pub silent: bool,
    /// Once this is set the program is asked to end, as by Ctrl-C, and is ended if it does not.
    pub end: &'a AtomicBool,
}

/// How a program is watched.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// It ends after so many steps of an optimizer.
    pub steps: Option<u64>,
    /// It ends after this time.
    pub timeout: Option<Duration>,
    /// Values of small tensors are not kept: the program's operators are not looked at.
    pub without_values: bool,
    /// What is assumed of values that are not known, by operator, or at a line alone, by `FILE:LINE`.
    pub assume: BTreeMap<String, String>,
    /// Weights are made of nothing.
    pub fake_weights: bool,
    /// When the work of a stream is done.
    pub timing: Timing,
}

/// When the work of a stream is done: memory that another stream uses is free only then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// As soon as it is asked for.
    #[default]
    AtOnce,
    /// About when a card would have done it.
    Card,
    /// When the program waits for it.
    Late,
    /// As soon as it is asked for until an optimizer has stepped, then when the program waits for it.
    LateAfterFirstStep,
}

impl Timing {
    /// As crates/nullgpu-core reads it.
    fn name(self) -> &'static str {
        match self {
            Timing::Card => "card",
            Timing::AtOnce => "at-once",
            Timing::Late => "late",
            Timing::LateAfterFirstStep => "late-after-first-step",
        }
    }
}

/// How many processes run the program, and what they are told of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranks {
    /// One process, which is told nothing.
    #[default]
    Alone,
    /// So many, as `torchrun` starts them on one machine.
    Launched(u32),
    /// One, which believes to be one of so many.
    Imagined {
        /// So many.
        ranks: u32,
        /// The one that it is.
        rank: u32,
    },
}

/// The note that a process left, written by `highwater_dryrun/notes.py`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its `sys.argv`.
    pub arguments: Vec<String>,
    /// Its number among several processes.
    pub rank: Option<u32>,
    /// Their number.
    pub world_size: Option<u32>,
    /// The ranks of each process group that it has made, if it ran as one of imagined ranks.
    #[serde(default, skip_serializing)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub groups: Vec<Vec<u32>>,
    /// The version of PyTorch.
    pub torch: String,
    /// How it ended.
    pub how: Ending,
    /// The exception or signal that ended it.
    #[serde(default)]
    pub error: String,
    /// Its position in the code then, if no message names it.
    #[serde(default)]
    pub stack: String,
    /// The program's innermost line when it ended, as `file:line function`, if no message names it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// The other rank that it waited for when it ended, and the call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
    /// The steps of the optimizer that made the most.
    pub steps: u64,
    /// Its recording, complete from the first allocation on; empty if it could not be written.
    pub snapshot: PathBuf,
    /// PyTorch's own peaks.
    pub devices: Vec<Peaks>,
    /// The first allocation that failed for lack of memory.
    pub failed: Option<Failure>,
    /// Reads of unknown values.
    #[serde(default)]
    pub reads: Vec<Read>,
    /// The assumptions about unknown values.
    #[serde(default)]
    pub assumed: Vec<Read>,
    /// Whether a size was assumed, from a mask or a choice of experts, that could as well be another.
    #[serde(default)]
    pub could_differ: bool,
    /// The last read of an unknown value before it failed; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_read: Option<Read>,
    /// Whether `torch.compile` was at work.
    #[serde(default)]
    pub compiled: bool,
    /// Whether `torch.backends.cudnn.benchmark` was on at the end.
    #[serde(default)]
    pub benchmarked: bool,
    /// Imported modules that compute on the processor here, but on the GPU in a real run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_gpu: Vec<String>,
    /// Whether later streams would free memory later, in a run where streams finish at once.
    #[serde(default)]
    pub timing_decides: bool,
    /// Whether the workspaces of convolutions are estimates: the installed cuDNN, if there is one, did not tell them.
    #[serde(default)]
    pub convolutions_estimated: bool,
    /// Its peak in the host's memory.
    pub host_peak_bytes: u64,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// By itself.
    Exit,
    /// After the requested number of steps.
    Steps,
    /// By an out-of-memory error that it did not catch.
    Oom,
    /// By another exception, or a status that is not zero.
    Error,
    /// It took too long.
    Timeout,
    /// By a signal.
    Crash,
    /// By the user.
    Interrupted,
}

/// PyTorch's own peaks of a device, `torch.cuda.memory_stats()`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peaks {
    /// Which.
    pub device: u32,
    /// `requested_bytes.all.peak`
    pub peak_requested_bytes: u64,
    /// `allocated_bytes.all.peak`
    pub peak_allocated_bytes: u64,
    /// `active_bytes.all.peak`
    pub peak_active_bytes: u64,
    /// `reserved_bytes.all.peak`
    pub peak_reserved_bytes: u64,
    /// `num_alloc_retries`
    pub num_alloc_retries: u64,
    /// `num_ooms`
    pub num_ooms: u64,
}

/// An allocation that failed because the GPU was full.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// On which device.
    pub device: u32,
    /// How large.
    pub requested_bytes: u64,
    /// The number of all failures.
    pub count: u64,
    /// The recording up to there.
    pub snapshot: PathBuf,
}

/// Reads of one kind, from one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Read {
    /// The operator.
    pub what: String,
    /// The program's line, as `file:line function`.
    pub place: String,
    /// Their number.
    pub count: u64,
    /// Whether the value can change the allocations.
    #[serde(default)]
    pub may_matter: bool,
    /// The assumption, if one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assumed: Option<String>,
}

/// What the null GPU was asked, and could not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unanswered {
    /// Functions that asked for a size that is not known; they were told none.
    pub guessed: Vec<String>,
    /// Functions that have no answer but success.
    pub unanswered: Vec<String>,
}

/// What became of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What each process left that used CUDA: ranks in their order, else the one that reserved most first.
    pub processes: Vec<Process>,
    /// What the processes were not told.
    pub unanswered: Unanswered,
    /// How the program ended, as the system says it; of several ranks, the first that failed.
    pub status: ExitStatus,
    /// The first of several ranks that failed, which were launched or which the script has started.
    pub failed_rank: Option<FailedRank>,
    /// Whether it had to be ended because it took too long.
    pub timed_out: bool,
    /// How long it ran.
    pub duration: Duration,
    /// What it wrote, if that was kept in a sandbox.
    pub writes: Option<Writes>,
    /// Whether it was asked to end.
    pub asked_to_end: bool,
    /// Why a process could not leave what it recorded, a full disk say.
    pub unwritten: Option<String>,
}

/// A rank that failed before any other did.
#[derive(Clone, Debug)]
pub struct FailedRank {
    /// Its number.
    pub rank: u32,
    /// How its process ended, as the system says it.
    pub status: ExitStatus,
    /// The ranks that had ended well by then.
    pub ended_before: Vec<u32>,
}

impl Process {
    /// The rank that it waited for when it ended, if that is known by its number among all.
    pub(crate) fn awaited_rank(&self) -> Option<u32> {
        // As crates/nullgpu-core writes it (`name` in `meeting`): a rank that is only known within a group has more words.
        let (number, _) = self.waits_for.strip_prefix("rank ")?.split_once(" in ")?;
        number.parse().ok()
    }

    /// A process cannot see the status that it ends with; its parent does.
    fn judge(&mut self, status: ExitStatus) {
        if self.how == Ending::Exit && !status.success() {
            self.how = Ending::Error;
            self.error = status.to_string();
        }
    }
}

impl Run<'_> {
    /// Runs the program; its processes leave their files in `directory`, a directory of this user's own.
    ///
    /// What is loaded into them is kept in `cache` from run to run, if that is this user's own too
    /// ([`own_directory::make`]), else it is made in `directory`. What the program prints goes to standard error,
    /// unless it is silent.
    ///
    /// # Errors
    /// There is no PyTorch for CUDA, something cannot be written, or the program cannot be started.
    pub fn run(&self, cache: Option<&Path>, directory: &Path) -> Result<Outcome, Error> {
        let own = cache.filter(|cache| own_directory::make(cache).is_ok());
        let stubs = own.map_or_else(|| directory.join("stubs"), Path::to_owned);
        let core = libraries::write_core(&stubs)?;
        let prepared = prepare(&self.interpreter.site_packages, &self.interpreter.other_packages, &core, &stubs)?;
        let python = injected::write(directory)?;
        let room = Room::reserve(directory)?;
        let trace = directory.join("calls.jsonl");
        let machine = Machine { trace: Some(trace.clone()), ..self.machine.clone() };
        let sandbox = self.sandbox.then(|| Sandbox::new(directory, &stubs)).transpose()?;
        let engines = cudnn::EngineServer::open(self.interpreter, &prepared, &machine, &python, directory);
        let begun = Instant::now();
        let commands = self.rank_variables().into_iter().map(|variables| {
            let mut command = self.command(&prepared, &machine, &python, directory, sandbox.as_ref());
            command.envs(variables).envs(engines.as_ref().map(cudnn::EngineServer::variable));
            command
        });
        let plan = Plan {
            commands: commands.collect(),
            directory,
            restricted: self.sandbox,
            until: self.watch.timeout.map(|timeout| begun + timeout + GRACE),
            end: self.end,
        };
        let ended = plan.run().map_err(|error| Error::new(&self.interpreter.program, Kind::NotStarted(error)))?;
        let duration = begun.elapsed();
        let mut processes = notes(directory)?;
        let failed_rank = match self.ranks {
            Ranks::Launched(_) => {
                let ends: Vec<_> = ended.ends.into_iter().map(failed::End::from).collect();
                failed::first(&ends, &processes, directory)
            }
            Ranks::Alone => failed::first(&failed::of_script(directory, &processes), &processes, directory),
            Ranks::Imagined { .. } => None,
        };
        // One that only asked for its devices is none of our business.
        processes.retain(|process| !process.devices.is_empty());
        // A program that was cut short could not see to it itself.
        if processes.iter().any(|process| matches!(process.how, Ending::Steps | Ending::Timeout)) {
            ended.family.end_others();
        }
        if let [only] = processes.as_mut_slice() {
            only.judge(ended.status);
        }
        Ok(Outcome {
            processes,
            unanswered: unanswered(&trace),
            status: ended.status,
            failed_rank,
            timed_out: ended.timed_out,
            duration,
            writes: sandbox.map(|sandbox| sandbox.writes(ended.enforcement)),
            asked_to_end: self.end.load(Ordering::Relaxed),
            unwritten: room.message(),
        })
    }

    fn command(
        &self,
        prepared: &Prepared,
        machine: &Machine,
        python: &Path,
        directory: &Path,
        sandbox: Option<&Sandbox>,
    ) -> Command {
        let inherited = std::env::var_os("LD_PRELOAD");
        let preload = sandbox.map_or(inherited.clone(), |sandbox| Some(sandbox.preload(inherited)));
        let mut command = Command::new(&self.interpreter.program);
        command
            .args(self.arguments)
            // It speaks of other cards.
            .env_remove("CUDA_VISIBLE_DEVICES")
            .envs(prepared.environment(machine, preload))
            .envs(sandbox.into_iter().flat_map(Sandbox::variables))
            .env("PYTHONPATH", in_front(python, std::env::var_os("PYTHONPATH")))
            .env("HIGHWATER_DRYRUN", self.wishes(&prepared.preload[0], directory))
            .env("HIGHWATER_NULLGPU_PARENT", std::process::id().to_string())
            .env("HIGHWATER_NULLGPU_TIMING", self.watch.timing.name())
            .envs(self.meeting_place(directory))
            .envs(compiler_variables(&prepared.stubs, directory))
            .stdout(if self.silent { Stdio::null() } else { io::stderr().into() })
            .stderr(if self.silent { Stdio::null() } else { Stdio::inherit() });
        command
    }

    /// Where ranks find each other; a script may start its own. One that imagines the others is to look for nobody.
    fn meeting_place<'a>(&self, directory: &'a Path) -> Option<(&'static str, &'a Path)> {
        (!matches!(self.ranks, Ranks::Imagined { .. })).then_some(("HIGHWATER_NULLGPU_RANKS", directory))
    }

    /// The settings that `highwater_dryrun/settings.py` reads.
    fn wishes(&self, core: &Path, directory: &Path) -> String {
        let deadline = self.watch.timeout.map(|timeout| {
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() + timeout.as_secs_f64()
        });
        let imagined = match self.ranks {
            Ranks::Imagined { ranks, .. } => ranks,
            _ => 0,
        };
        serde_json::json!({
            "directory": directory,
            "core": core,
            "steps": self.watch.steps,
            "deadline": deadline,
            "values": !self.watch.without_values,
            "assume": self.watch.assume,
            "fake_weights": self.watch.fake_weights,
            "imagined_ranks": imagined,
            "launched_ranks": if let Ranks::Launched(ranks) = self.ranks { ranks } else { 0 },
            "sandbox": self.sandbox,
        })
        .to_string()
    }

    /// What each process has in its environment that the others have not.
    fn rank_variables(&self) -> Vec<Vec<(&'static str, String)>> {
        let (started, believed) = match self.ranks {
            Ranks::Alone => return vec![Vec::new()],
            Ranks::Launched(ranks) => (0..ranks, ranks),
            Ranks::Imagined { ranks, rank } => (rank..rank + 1, ranks),
        };
        let local = believed.min(self.machine.devices).max(1);
        let port = free_port();
        let variables = |rank: u32| {
            vec![
                ("RANK", rank.to_string()),
                ("LOCAL_RANK", (rank % local).to_string()),
                ("WORLD_SIZE", believed.to_string()),
                ("LOCAL_WORLD_SIZE", local.to_string()),
                ("GROUP_RANK", (rank / local).to_string()),
                ("MASTER_ADDR", "127.0.0.1".to_owned()),
                ("MASTER_PORT", port.to_string()),
            ]
        };
        started.map(variables).collect()
    }
}

/// Triton is told where the driver is. What it compiles, and Inductor chooses, is for this run only: a real card's
/// choices are found in the same caches.
fn compiler_variables(stubs: &Path, directory: &Path) -> [(&'static str, PathBuf); 3] {
    [
        ("TRITON_LIBCUDA_PATH", stubs.to_owned()),
        ("TRITON_CACHE_DIR", directory.join("triton")),
        ("TORCHINDUCTOR_CACHE_DIR", directory.join("inductor")),
    ]
}

fn in_front(path: &Path, others: Option<OsString>) -> OsString {
    let mut all = path.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// A port that nobody listens at just now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    listener.map_or(29_500, |address| address.port())
}

/// A file with room in it, reserved at the beginning: a process that finds the disk full leaves word there.
struct Room(PathBuf);

impl Room {
    /// `highwater_dryrun/notes.py` knows name and length.
    const NAME: &str = "unwritten.txt";
    const BYTES: usize = 4096;

    fn reserve(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(Room::NAME);
        fs::write(&path, vec![b' '; Room::BYTES]).map_err(|error| Error::new(&path, Kind::Write(error)))?;
        Ok(Room(path))
    }

    /// The word that was left.
    fn message(&self) -> Option<String> {
        let bytes = fs::read(&self.0).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// The notes in a directory.
fn notes(directory: &Path) -> Result<Vec<Process>, Error> {
    let fail = |error| Error::new(directory, Kind::Write(error));
    let mut processes = Vec::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = fs::read(&path).map_err(|error| Error::new(&path, Kind::Write(error)))?;
            let process: Process =
                serde_json::from_slice(&text).map_err(|error| Error::new(&path, Kind::Write(error.into())))?;
            processes.push(process);
        }
    }
    let reserved = |process: &Process| process.devices.iter().map(|peaks| peaks.peak_reserved_bytes).max();
    processes
        .sort_by_key(|process| (process.rank.unwrap_or(u32::MAX), std::cmp::Reverse(reserved(process)), process.pid));
    Ok(processes)
}

/// A line of the trace, as far as it is of interest.
#[derive(Deserialize)]
struct Calls {
    guessed: Vec<String>,
    unanswered: Vec<String>,
}

fn unanswered(trace: &Path) -> Unanswered {
    let mut all = Unanswered::default();
    // No process may have had anything to say.
    let text = fs::read_to_string(trace).unwrap_or_default();
    for calls in text.lines().filter_map(|line| serde_json::from_str::<Calls>(line).ok()) {
        all.guessed.extend(calls.guessed);
        all.unanswered.extend(calls.unanswered);
    }
    for names in [&mut all.guessed, &mut all.unanswered] {
        names.sort_unstable();
        names.dedup();
    }
    all
}
