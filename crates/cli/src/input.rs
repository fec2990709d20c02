//! The files that a command works on: opened, decompressed, read with a progress bar; snapshots redacted if asked.

use std::io::{self, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use highwater_documents::columns::with_calls;
use highwater_snapshot::{Snapshot, Unpacking};
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::Problem;

/// How much a compressed file may become.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct SizeArgs {
    /// Unpack a compressed file of any size; by default, more than 64 MiB and 200 times the file's size is refused
    #[arg(long)]
    allow_any_size: bool,
}

impl SizeArgs {
    /// What the reader is told.
    pub(crate) const fn unpacking(self) -> Unpacking {
        if self.allow_any_size { Unpacking::Unbounded } else { Unpacking::Bounded }
    }
}

/// The options that every command with a snapshot has.
#[derive(Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// The snapshot: pickle, JSON, HTML page, or an SQLite export of Nsight Systems, gzipped or not; `-` reads standard input
    pub(crate) file: PathBuf,
    /// With a file of Nsight Systems: a snapshot of the same run, shown on the same clock
    #[arg(long, value_name = "SNAPSHOT")]
    pub(crate) with: Option<PathBuf>,
    /// Strip the directories from all paths in the snapshot
    #[arg(long)]
    pub(crate) redact: bool,
    /// Only this device
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u32>,
    #[command(flatten)]
    pub(crate) size: SizeArgs,
}

impl InputArgs {
    /// Reads the snapshot.
    ///
    /// # Errors
    /// If nothing of a snapshot can be read, or the device that was asked for is not in it.
    pub(crate) fn read(&self) -> anyhow::Result<Snapshot> {
        self.read_with(|_| ()).map(|(snapshot, ())| snapshot)
    }

    /// Reads the snapshot and looks at it before it is redacted: it is directories that tell whose code a frame is.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn read_with<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> anyhow::Result<(Snapshot, T)> {
        self.chosen(self.read_whole()?, look)
    }

    /// As [`read_with`](Self::read_with), with entries on every device that the viewer draws.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn read_drawn<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> anyhow::Result<(Snapshot, T)> {
        let snapshot = self.read_whole()?;
        self.chosen(with_calls(&snapshot).unwrap_or(snapshot), look)
    }

    fn read_whole(&self) -> Result<Snapshot, Problem> {
        let Some(with) = &self.with else { return read_snapshot(&self.file, self.size) };
        let mut snapshot = read_snapshot(with, self.size)?;
        highwater_nsight::read_beside(&self.file, &mut snapshot)?;
        Ok(snapshot)
    }

    fn chosen<T>(&self, mut snapshot: Snapshot, look: impl FnOnce(&Snapshot) -> T) -> anyhow::Result<(Snapshot, T)> {
        snapshot.check_device(&self.name(), self.device)?;
        let seen = look(&snapshot);
        if self.redact {
            snapshot.redact();
        }
        Ok((snapshot, seen))
    }

    /// The devices that the command shall show, ascending.
    pub(crate) fn devices(&self, snapshot: &Snapshot) -> Vec<u32> {
        self.device.map_or_else(|| snapshot.devices(), |device| vec![device])
    }

    /// How a message calls the input.
    pub(crate) fn name(&self) -> String {
        name(&self.file)
    }

    /// The file's name without its directories, for a title.
    pub(crate) fn short_name(&self) -> String {
        short_name(&self.file)
    }

    /// The file's name without its directories, as it is.
    pub(crate) fn file_name(&self) -> String {
        let last = self.file.file_name().map(|name| name.to_string_lossy().into_owned());
        if is_stdin(&self.file) { self.name() } else { last.unwrap_or_else(|| self.name()) }
    }
}

/// Reads a snapshot.
///
/// # Errors
/// If nothing of one can be read.
pub(crate) fn read_snapshot(file: &Path, size: SizeArgs) -> Result<Snapshot, Problem> {
    if highwater_nsight::is_profile(file) {
        return highwater_nsight::read(file);
    }
    let bytes = open(file).map_err(|error| unreadable(file, &error))?;
    highwater_nsight::read_stream(bytes, size.unpacking(), &name(file))
}

/// That a file could not be read; of a directory, which command takes it.
pub(crate) fn unreadable(file: &Path, error: &highwater_snapshot::Error) -> Problem {
    directory(file).unwrap_or_else(|| error.problem(&name(file)))
}

/// That a file is needed, where there is a directory.
pub(crate) fn directory(path: &Path) -> Option<Problem> {
    if !path.is_dir() {
        return None;
    }
    let shown = path.display();
    let hint = if path.join("config.json").is_file() {
        format!("`highwater estimate {shown}` works out what the model in it needs")
    } else {
        format!(
            "`highwater ranks {shown}` compares the snapshots in it, `highwater view {shown}` shows them; other commands \
             take the files one by one"
        )
    };
    Some(Problem::new(format!("`{shown}` is a directory")).hint(hint))
}

/// How a message calls a file; `-` is standard input.
pub(crate) fn name(file: &Path) -> String {
    if is_stdin(file) { "standard input".to_owned() } else { format!("`{}`", file.display()) }
}

/// A file's name without its directories, for a title.
pub(crate) fn short_name(file: &Path) -> String {
    let last = file.file_name().map_or_else(|| file.to_string_lossy(), |name| name.to_string_lossy());
    if is_stdin(file) { name(file) } else { crate::printable::printable(&last).into_owned() }
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

/// Opens a file, or standard input, to be read with a progress bar.
pub(crate) fn open(file: &Path) -> Result<Box<dyn Read>, highwater_snapshot::Error> {
    if is_stdin(file) {
        return Ok(Box::new(WithProgress::new(io::stdin().lock(), None)));
    }
    let file = highwater_snapshot::open_file(file)?;
    let total = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
    Ok(Box::new(WithProgress::new(file, total)))
}

/// The most text that a file may hold, decompressed: a hundred million rows of a request program.
const MAX_TEXT_BYTES: u64 = 4 << 30;

/// The text of a file or standard input, gzipped, or zstd, or plain.
///
/// # Errors
/// If it cannot be read, or is too long.
pub(crate) fn read_text(file: &Path, size: SizeArgs) -> Result<Vec<u8>, Problem> {
    let cannot_read = |cause: String| Problem::new(format!("{} cannot be read", name(file))).because(cause);
    let mut text = Vec::new();
    let packed = open(file).map_err(|error| cannot_read(error.to_string()))?;
    let source = match highwater_snapshot::decompressed(packed, size.unpacking()) {
        Ok(source) => source,
        Err(error) => return Err(cannot_read(error.to_string())),
    };
    source
        .take(MAX_TEXT_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(|error| crate::error::unpacked(&name(file), error))?;
    if text.len() as u64 > MAX_TEXT_BYTES {
        return Err(cannot_read(format!("it holds more than {} of text", crate::units::size(MAX_TEXT_BYTES))));
    }
    Ok(text)
}

/// Reading that takes less shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// A reader that shows on a terminal how far it is.
struct WithProgress<R> {
    inner: R,
    total: Option<u64>,
    done: u64,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl<R> WithProgress<R> {
    fn new(inner: R, total: Option<u64>) -> Self {
        Self { inner, total, done: 0, started: Instant::now(), bar: None }
    }

    fn show(&mut self) {
        if self.bar.is_none() && self.started.elapsed() > PATIENCE && io::stderr().is_terminal() {
            self.bar = Some(bar(self.total));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
        }
    }
}

impl<R: Read> Read for WithProgress<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.done += count as u64;
        self.show();
        Ok(count)
    }
}

impl<R> Drop for WithProgress<R> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "reading {wide_bar} {binary_bytes} of {binary_total_bytes}"),
        None => (ProgressBar::new_spinner(), "reading {spinner} {binary_bytes}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the template is well-formed"))
}
