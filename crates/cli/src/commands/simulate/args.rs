//! The options of `highwater simulate`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use highwater_allocator::{AddressPolicy, TorchVersion};

use crate::args::{FormatToPaste, SitesArgs};
use crate::input::{InputArgs, SizeArgs};
use crate::units::parse_size;

/// Options of `highwater simulate`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  highwater simulate run.pickle --conf expandable_segments:True --capacity 16GiB
  highwater simulate run.pickle --verify
  highwater simulate --requests program.csv --capacity 8GiB
  highwater simulate --requests program.csv --events events.csv --stats -")]
pub(crate) struct Args {
    /// The snapshot: pickle, JSON or HTML page, gzipped or not; `-` reads standard input
    #[arg(required_unless_present = "requests", conflicts_with = "requests")]
    file: Option<PathBuf>,
    /// Allocator settings, as in `PYTORCH_ALLOC_CONF`; `''` is PyTorch's default; repeat it to compare
    #[arg(long, value_name = "SETTINGS", conflicts_with = "verify")]
    pub(super) conf: Vec<String>,
    /// Limit on reserved memory, such as `16GiB`, or with `--requests` the device's memory; repeat it to compare
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "verify")]
    pub(super) capacity: Vec<u64>,
    /// GPU, by its memory or its name: its memory for PyTorch is the limit; repeat it to compare
    #[arg(long, alias = "gpu", value_name = "SIZE|NAME", conflicts_with_all = ["verify", "requests"])]
    pub(super) card: Vec<String>,
    /// Follow the rules of this torch release, such as `2.11` [default: those that the snapshot shows; with `--requests` the newest]
    #[arg(long, value_name = "VERSION")]
    pub(super) torch: Option<TorchVersion>,
    /// Only this device
    #[arg(long, value_name = "N", conflicts_with = "requests")]
    pub(super) device: Option<u32>,
    /// Strip the directories from all paths in the snapshot
    #[arg(long, conflicts_with = "requests")]
    redact: bool,
    #[command(flatten)]
    pub(super) size: SizeArgs,
    #[command(flatten)]
    pub(super) sites: SitesArgs,
    /// Replay the recorded settings, and check that each entry is predicted as recorded
    #[arg(long, conflicts_with = "requests")]
    pub(super) verify: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: FormatToPaste,
    #[command(flatten)]
    pub(super) requests: RequestArgs,
}

/// Options of `highwater simulate --requests`.
#[derive(Debug, clap::Args)]
///
/// `requires = "requests"` would not do: clap waives it where what is required conflicts with FILE.
#[command(next_help_heading = "Request programs")]
pub(super) struct RequestArgs {
    /// Run this request program, or log of RAPIDS RMM, gzipped or not; `-` reads standard input
    #[arg(id = "requests", long = "requests", value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Rule for the addresses of segments: `driver`, `first-fit`, `descending`, `bump`, `random:SEED` or `script:FILE`
    /// [default: driver, and the summary shows differences with the others]
    #[arg(long, value_name = "POLICY", conflicts_with = "file")]
    pub(super) va: Option<Va>,
    /// The device's memory that other processes use
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "0", conflicts_with = "file")]
    pub(super) outside: u64,
    /// Stop at the first request that fails
    #[arg(long, conflicts_with = "file")]
    pub(super) stop_on_oom: bool,
    /// Write every event to this CSV file; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub(super) events: Option<PathBuf>,
    /// Write the block maps, at each `snapshot` and at the end, to this CSV file
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub(super) blocks: Option<PathBuf>,
    /// Write the statistics at the end to this CSV file
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub(super) stats: Option<PathBuf>,
    /// Overwrite these files if they exist
    #[arg(long, conflicts_with = "file")]
    pub(super) force: bool,
}

impl Args {
    /// The snapshot; `None` with `--requests`.
    pub(super) fn input(&self) -> Option<InputArgs> {
        let file = self.file.clone()?;
        Some(InputArgs { file, with: None, redact: self.redact, device: self.device, size: self.size })
    }
}

impl RequestArgs {
    /// The files to write, each with its option.
    pub(super) fn outputs(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let outputs = [("--events", &self.events), ("--blocks", &self.blocks), ("--stats", &self.stats)];
        outputs.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)))
    }
}

/// An address policy, its file not yet read.
#[derive(Clone, Debug)]
pub(super) enum Va {
    /// A rule.
    Rule(AddressPolicy),
    /// `script:FILE`.
    Script(PathBuf),
}

impl FromStr for Va {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("script:") {
            Some("") => Err("`script:` needs a file".to_owned()),
            Some(file) => Ok(Self::Script(file.into())),
            None => text.parse().map(Self::Rule).map_err(|_| {
                "expected `driver`, `first-fit`, `descending`, `bump`, `random:SEED` or `script:FILE`".to_owned()
            }),
        }
    }
}
