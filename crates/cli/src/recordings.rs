//! Many recordings in one command: which files they are of, what each is, and what becomes of those that cannot be
//! read.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use highwater_analysis::{StackClasses, analyse_with};
use highwater_documents::ranks::UnreadView;
use highwater_export::parquet::{self, Target};
use highwater_ranks::expand;
use highwater_tables::{Recording, RunId};

use crate::commands::CHECK_FAILED;
use crate::error::Problem;
use crate::input::{SizeArgs, read_snapshot};
use crate::output::{exists, note};
use crate::units::{counted, size};

/// How the rows of tables are told apart.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// In tables: the name of the run [default: from the names of the files and folders]
    #[arg(long = "run", value_name = "NAME")]
    name: Option<String>,
}

impl RunArgs {
    /// Whether a name was given.
    pub(crate) fn is_given(&self) -> bool {
        self.name.is_some()
    }
}

/// The recordings of a command.
#[derive(Debug)]
pub(crate) struct Job {
    files: Vec<(PathBuf, RunId)>,
    /// What was no file.
    unread: Vec<UnreadView>,
    size: SizeArgs,
    redact: bool,
}

impl Job {
    /// Looks for the files.
    ///
    /// # Errors
    /// If a path cannot be on this machine, or there is no file.
    pub(crate) fn new(paths: &[PathBuf], run: &RunArgs, size: SizeArgs, redact: bool) -> Result<Self, Problem> {
        let found = expand(paths)?;
        let id = |path: &PathBuf| {
            let mut id = RunId::of_path(path);
            id.run = run.name.clone().unwrap_or(id.run);
            if redact {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                id.file = format!("{}/{}", id.run, name.unwrap_or_default());
            }
            id
        };
        let files: Vec<_> = found.files.iter().map(|path| (path.clone(), id(path))).collect();
        let job = Self { files, unread: found.unread, size, redact };
        if job.files.is_empty() {
            let listed: Vec<_> = job.unread.iter().map(|one| format!("`{}`: {}", one.file, one.reason)).collect();
            let problem = Problem::new("there is no snapshot to read");
            return Err(match &listed[..] {
                [] => problem.hint("name snapshots, or folders with files such as `rank0.pickle`"),
                listed => listed.iter().fold(problem, Problem::because),
            });
        }
        Ok(job)
    }

    /// Reads the files one by one; gives those that cannot be read, or not to their end.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn each(
        &self,
        mut work: impl FnMut(&Recording<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<UnreadView>> {
        let mut unread = self.unread.clone();
        for number in 0..self.files.len() {
            if let Some(why) = self.read(number, &mut work)? {
                unread.push(why);
            }
        }
        Ok(unread)
    }

    /// Reads a file; why it cannot be read, or not to its end, if so.
    fn read(
        &self,
        number: usize,
        work: &mut dyn FnMut(&Recording<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<UnreadView>> {
        let (path, id) = &self.files[number];
        let mut snapshot = match read_snapshot(path, self.size) {
            Ok(snapshot) => snapshot,
            Err(problem) => {
                // The file is named before the reason.
                let name = crate::input::name(path);
                let what = problem
                    .what()
                    .strip_prefix(&*name)
                    .map_or_else(|| problem.what().to_owned(), |rest| format!("it{rest}"));
                let parts = std::iter::once(&what).chain(problem.causes()).map(String::as_str);
                let reason = parts.collect::<Vec<_>>().join(": ");
                return Ok(Some(UnreadView { file: id.file.clone(), reason }));
            }
        };
        let classes = StackClasses::new(&snapshot);
        if self.redact {
            snapshot.redact();
        }
        let analysis = analyse_with(&snapshot, classes);
        work(&Recording::new(id, &analysis))?;
        Ok(snapshot.cut.as_ref().map(|cut| UnreadView {
            file: id.file.clone(),
            reason: format!("it is incomplete, and was read as far as possible: {}", cut.reason),
        }))
    }

    /// Writes the tables of all recordings, one recording at a time on each core.
    ///
    /// # Errors
    /// If a file is there already, or cannot be written.
    pub(crate) fn write_tables(&self, target: &Target<'_>) -> anyhow::Result<ExitCode> {
        let mut parts: BTreeMap<(&str, Option<u32>), usize> = BTreeMap::new();
        let mut targets = Vec::new();
        for (_, id) in &self.files {
            let part = parts.entry((&id.run, id.rank)).or_default();
            targets.push(Target { part: *part, ..*target });
            *part += 1;
        }
        for ((_, id), target) in self.files.iter().zip(&targets).filter(|_| !target.force) {
            if let Some(path) = target.tables().map(|table| target.path(table, id)).find(|path| path.exists()) {
                return Err(exists(&path).into());
            }
        }
        let (count, written, unread) = self.in_parallel(&targets)?;
        if target.force {
            for (_, id) in &self.files {
                parquet::remove_further(target, id, parts[&(&*id.run, id.rank)])?;
            }
        }
        if count == 0 {
            return none_read(&unread);
        }
        let recordings = counted(count, "recording", "recordings");
        // The tables are written; that nobody can be told is no failure.
        let _ = note(&format!("wrote the tables of {recordings} to {} ({})", target.out.display(), size(written)));
        Ok(say_unread(&unread))
    }

    /// Writes each recording to its target: how many, their bytes, and the files that could not be read, or not to
    /// their end.
    fn in_parallel(&self, targets: &[Target<'_>]) -> anyhow::Result<(usize, u64, Vec<UnreadView>)> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new((0, 0, Vec::new()));
        let worker = || -> anyhow::Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(target) = targets.get(number) else { return Ok(()) };
                let mut written = None;
                let unread = self.read(number, &mut |recording| {
                    written = Some(parquet::write(recording, target).map_err(|error| not_written(target, error))?);
                    Ok(())
                });
                // The others need not go on with what cannot end well.
                let unread = unread.inspect_err(|_| next.store(targets.len(), Ordering::Relaxed))?;
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                done.0 += usize::from(written.is_some());
                done.1 += written.unwrap_or(0);
                done.2.extend(unread.map(|why| (number, why)));
            }
        };
        let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get).min(targets.len());
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
            let own = worker();
            let others =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            others.fold(own, Result::and)
        })?;
        let (count, bytes, mut unread) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        unread.sort_by_key(|(number, _)| *number);
        Ok((count, bytes, self.unread.iter().cloned().chain(unread.into_iter().map(|(_, why)| why)).collect()))
    }
}

fn not_written(target: &Target<'_>, error: io::Error) -> Problem {
    Problem::new(format!("cannot write tables to `{}`", target.out.display())).because(error)
}

/// That nothing could be read.
///
/// # Errors
/// Always.
pub(crate) fn none_read(unread: &[UnreadView]) -> anyhow::Result<ExitCode> {
    const TOLD: usize = 20;
    let problem = Problem::new("none of the files can be read");
    Err(unread
        .iter()
        .take(TOLD)
        .fold(problem, |problem, one| problem.because(format!("`{}`: {}", one.file, one.reason)))
        .into())
}

/// Lists the files that could not be read, or not to their end, and gives the exit status.
pub(crate) fn say_unread(unread: &[UnreadView]) -> ExitCode {
    for UnreadView { file, reason } in unread {
        // Nobody is left to tell if standard error is closed.
        let _ = note(&format!("not read, or in part: `{file}`: {reason}"));
    }
    if unread.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(CHECK_FAILED) }
}
