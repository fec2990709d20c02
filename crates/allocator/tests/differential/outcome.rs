//! What a case comes to, in PyTorch's allocator and in ours.

use std::fmt::{self, Display};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use highwater_allocator::TorchVersion;
use highwater_allocator::program::{self, Options, Program, RunError};

use crate::books;
use crate::cases::Case;
use crate::draft;

/// The three outputs of a run, or why there are none.
pub(crate) type Outcome = Result<[String; 3], Failed>;

/// A run that did not come to its end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failed {
    /// The row that was refused, from 0; `None` if it is not one row's fault.
    pub(crate) row: Option<usize>,
    pub(crate) why: &'static str,
    pub(crate) details: String,
}

impl Failed {
    fn at_all(why: &'static str, details: impl Display) -> Self {
        Self { row: None, why, details: details.to_string() }
    }
}

impl Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Some(row) => write!(f, "{} in row {row}, {}", self.why, self.details),
            None => write!(f, "{}, {}", self.why, self.details),
        }
    }
}

pub(crate) const OUTPUTS: [&str; 3] = ["events", "blocks", "stats"];

/// A program that torch does not bring to an end in this time has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// PyTorch's own allocator in one version: see `oracle/README.md`.
pub(crate) struct Oracle {
    pub(crate) program: PathBuf,
    pub(crate) torch: TorchVersion,
    folder: PathBuf,
}

impl Oracle {
    /// The oracles in the folders of `all`.
    pub(crate) fn find(all: &Path) -> Vec<Self> {
        let folders = fs::read_dir(all).unwrap_or_else(|error| panic!("{}: {error}", all.display()));
        let mut found: Vec<Self> = folders.filter_map(|folder| Self::open(&folder.expect("readable").path())).collect();
        assert!(!found.is_empty(), "no folder of {} has an oracle; `make oracle` builds them", all.display());
        found.sort_by_key(|oracle| oracle.torch);
        found
    }

    fn open(built: &Path) -> Option<Self> {
        let program = fs::canonicalize(built.join("oracle")).ok()?;
        let version = fs::read_to_string(built.join("VERSION")).ok()?;
        let folder = scratch().join(format!("oracle-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder of tests can be written");
        Some(Self { program, torch: version.trim().parse().expect("a known version"), folder })
    }

    /// Runs the case.
    ///
    /// `randomised`: with the heap at other addresses in every run. PyTorch keeps some sets in their order.
    pub(crate) fn run(&self, case: &Case, randomised: bool) -> Outcome {
        let [input, events, blocks, stats] =
            ["program", "events", "blocks", "stats"].map(|name| self.folder.join(format!("{name}.csv")));
        fs::write(&input, draft::file(&case.rows)).expect("the folder of tests can be written");
        let mut command = Command::new(&self.program);
        command.arg("--program").arg(&input).args(case.options());
        command.arg("--events").arg(&events).arg("--blocks").arg(&blocks).arg("--stats").arg(&stats);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if randomised {
            command.env("ORACLE_KEEP_ASLR", "1");
        }
        let mut child = command.spawn().expect("the oracle starts");
        let begun = Instant::now();
        let ended = loop {
            if let Some(ended) = child.try_wait().expect("the oracle is a child") {
                break ended;
            }
            if begun.elapsed() > PATIENCE {
                child.kill().expect("the oracle is a child");
                child.wait().expect("the oracle is a child");
                return Err(Failed::at_all("it does not end", format_args!("not in {PATIENCE:?}")));
            }
            std::thread::sleep(Duration::from_micros(500));
        };
        if !ended.success() {
            return Err(Failed::at_all("it refuses the settings or crashes", ended));
        }
        let outputs = [events, blocks, stats].map(|path| fs::read_to_string(path).expect("the oracle wrote it"));
        if let Some(event) = outputs[0].lines().find(|line| line.contains(",error,")) {
            let row = event.split(',').next().and_then(|row| row.parse().ok());
            return Err(Failed { row, why: "it reports an error of its own", details: event.to_owned() });
        }
        books::check(case, &outputs).map_err(|error| Failed::at_all("its books do not agree", error))?;
        Ok(outputs)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // What is left behind lies in the folder of the build.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Where tests may write.
pub(crate) fn scratch() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Runs the case on our allocator; a panic is an error like another.
pub(crate) fn ours(case: &Case) -> Outcome {
    let options = Options {
        torch: case.torch,
        conf: case.conf.clone(),
        capacity_bytes: case.capacity_bytes,
        outside_bytes: case.outside_bytes,
        addresses: case.addresses.parse().expect("a known policy"),
        stop_on_oom: case.stop_on_oom,
    };
    let run = AssertUnwindSafe(|| {
        let program = Program::parse(draft::file(&case.rows).as_bytes())
            .map_err(|error| Failed::at_all("it does not read the program", error))?;
        let run = program::run(&program, &options).map_err(|error| {
            let row = match &error {
                RunError::SettingsOfRow { op, .. } | RunError::PoolCreate { op } | RunError::Undefined { op, .. } => {
                    Some(*op)
                }
                _ => None,
            };
            Failed { row, why: "it stops", details: error.to_string() }
        })?;
        Ok([run.events_csv(), run.blocks_csv(), run.stats_csv()])
    });
    catch_unwind(run).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(Failed::at_all("it panics", message.unwrap_or("without a message")))
    })
}

/// How two outcomes compare.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    Equal,
    /// PyTorch fails. Where it crashes we need not follow it; its errors are ours as well, in the same row.
    TorchFails {
        why: &'static str,
        as_do_we: bool,
    },
    /// What differs first.
    Differs(String),
}

pub(crate) fn compare(kind: &str, torch: &Outcome, ours: &Outcome) -> Verdict {
    match (torch, ours) {
        // Nothing but refused settings can fail there.
        (Err(error), Ok(_)) if kind == "settings" || error.row.is_some() => {
            Verdict::Differs(format!("torch fails, we do not: {error}"))
        }
        // Ours may come first: PyTorch goes on for a while with books that do not agree.
        (Err(torch), Err(ours)) if torch.row.is_some() && torch.row < ours.row => {
            Verdict::Differs(format!("other errors\n  torch: {torch}\n  ours:  {ours}"))
        }
        (Err(error), ours) => Verdict::TorchFails { why: error.why, as_do_we: ours.is_err() },
        (Ok(_), Err(error)) => Verdict::Differs(format!("we fail, torch does not: {error}")),
        (Ok(torch), Ok(ours)) => {
            let first = OUTPUTS.iter().zip(torch.iter().zip(ours)).find_map(|(name, (torch, ours))| {
                let number = torch.lines().zip(ours.lines()).take_while(|(a, b)| a == b).count();
                let line = |text: &str| text.lines().nth(number).unwrap_or("the end").to_owned();
                (torch != ours).then(|| {
                    format!("line {} of the {name}\n  torch: {}\n  ours:  {}", number + 1, line(torch), line(ours))
                })
            });
            first.map_or(Verdict::Equal, Verdict::Differs)
        }
    }
}
