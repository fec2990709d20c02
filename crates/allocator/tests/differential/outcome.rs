//! What a case comes to, in PyTorch's allocator and in ours.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use highwater_allocator::TorchVersion;
use highwater_allocator::program::{self, Options, Program};

use crate::books;
use crate::cases::Case;
use crate::draft;

/// The three outputs of a run, or why there are none.
pub(crate) type Outcome = Result<[String; 3], String>;

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
                return Err("it does not end".to_owned());
            }
            std::thread::sleep(Duration::from_micros(500));
        };
        if !ended.success() {
            return Err(format!("it refuses the settings or crashes, {ended}"));
        }
        let outputs = [events, blocks, stats].map(|path| fs::read_to_string(path).expect("the oracle wrote it"));
        if !outputs[2].lines().any(|line| line.starts_with("errors,all,0,")) {
            return Err("it reports an error of its own".to_owned());
        }
        books::check(case, &outputs).map_err(|error| format!("its books do not agree, {error}"))?;
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
        let program = Program::parse(draft::file(&case.rows).as_bytes()).map_err(|error| error.to_string())?;
        let run = program::run(&program, &options).map_err(|error| error.to_string())?;
        Ok([run.events_csv(), run.blocks_csv(), run.stats_csv()])
    });
    catch_unwind(run).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("it panics: {}", message.unwrap_or("without a message")))
    })
}

/// How two outcomes compare.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    Equal,
    /// PyTorch fails. Whether we say so as well is not compared: we need not follow it there.
    TorchFails {
        as_do_we: bool,
    },
    /// What differs first.
    Differs(String),
}

pub(crate) fn compare(kind: &str, torch: &Outcome, ours: &Outcome) -> Verdict {
    match (torch, ours) {
        // Nothing but refused settings can fail there.
        (Err(error), Ok(_)) if kind == "settings" => Verdict::Differs(format!("torch fails, we do not: {error}")),
        (Err(_), ours) => Verdict::TorchFails { as_do_we: ours.is_err() },
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
