//! What happens to every look beside being shown: the log, and the numbers for Prometheus.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use highwater_monitor::Sample;
use highwater_monitor::log::Writer;
use highwater_output::sink::{exists, note};
use highwater_problem::Problem;
use highwater_units as units;

use super::{Args, prometheus};

/// The log and the last look for Prometheus.
pub(super) struct Outputs {
    log: Option<(PathBuf, Writer<File>)>,
    served: Option<Arc<Mutex<Sample>>>,
}

impl Outputs {
    /// Opens what was asked for.
    ///
    /// # Errors
    /// The file is there already or cannot be written, or the port is taken.
    pub(super) fn open(args: &Args) -> Result<Self, Problem> {
        let interval_us = u64::try_from(args.interval.as_micros()).unwrap_or(u64::MAX);
        let log = args.output.as_deref().map(|path| create(path, args.force, interval_us)).transpose()?;
        let served = args.prometheus.map(prometheus::serve).transpose()?;
        Ok(Self { log, served })
    }

    /// Whether there is any.
    pub(super) fn is_any(&self) -> bool {
        self.log.is_some() || self.served.is_some()
    }

    /// Writes a look down.
    ///
    /// # Errors
    /// The log cannot be written.
    pub(super) fn take(&mut self, sample: &Sample) -> Result<(), Problem> {
        if let Some((path, log)) = &mut self.log {
            log.add(sample).map_err(|error| cannot_write(path, &error))?;
        }
        if let Some(served) = &self.served {
            // A reader that panicked left a sample all the same.
            *served.lock().unwrap_or_else(PoisonError::into_inner) = sample.clone();
        }
        Ok(())
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        if let Some((path, _)) = &self.log
            && let Ok(found) = std::fs::metadata(path)
        {
            // The file is written; that nobody can be told is no failure.
            let _ = note(&format!("wrote {} ({})", path.display(), units::size(found.len())));
        }
    }
}

fn create(path: &Path, force: bool, interval_us: u64) -> Result<(PathBuf, Writer<File>), Problem> {
    let mut options = OpenOptions::new();
    options.write(true);
    let opened =
        if force { options.create(true).truncate(true).open(path) } else { options.create_new(true).open(path) };
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => cannot_write(path, &error),
    })?;
    let log = Writer::new(file, interval_us).map_err(|error| cannot_write(path, &error))?;
    Ok((path.to_owned(), log))
}

fn cannot_write(path: &Path, error: &io::Error) -> Problem {
    Problem::new(format!("cannot write `{}`", path.display())).because(error)
}
