//! Somebody who waits for the simulator: told how far it is, and missed when gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use highwater_allocator::Settings;
use highwater_whatif::{Conf, Progress};

/// One who waits.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    is_gone: AtomicBool,
    told: Mutex<Told>,
}

/// How far an answer is: the body of `simulate/progress`.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct Told {
    stage: Stage,
    /// Of the recording.
    entries: usize,
    /// Entries of the recording that were replayed as recorded.
    recorded_entries: usize,
    /// Settings of which all runs are done.
    settings_done: usize,
    settings: Vec<Row>,
}

#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Stage {
    /// Another question is answered first.
    #[default]
    Waiting,
    /// The recording is replayed as it was.
    Recording,
    /// It is run under the settings.
    Running,
}

/// How far the runs under one setting are.
#[derive(Clone, Debug, serde::Serialize)]
struct Row {
    conf: String,
    /// Runs that were begun.
    runs: usize,
    /// The entry that the last of them is at.
    at_entry: usize,
    #[serde(skip)]
    settings: Settings,
}

impl Waiting {
    /// Nobody waits any more.
    pub(crate) fn leave(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    /// What there is to be said now.
    pub(crate) fn told(&self) -> Told {
        self.lock().clone()
    }

    /// The answer is being made, from a recording of so many entries.
    pub(crate) fn begin(&self, entries: usize) {
        let mut told = self.lock();
        told.stage = Stage::Recording;
        told.entries = entries;
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Waiting {
    fn is_stopped(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    fn recorded(&self, entries: usize) {
        self.lock().recorded_entries = entries;
    }

    fn begin(&self, settings: &[Conf]) {
        let mut told = self.lock();
        told.stage = Stage::Running;
        told.recorded_entries = told.entries;
        let row =
            |(conf, settings): &Conf| Row { conf: conf.clone(), runs: 0, at_entry: 0, settings: settings.clone() };
        told.settings = settings.iter().map(row).collect();
    }

    fn ran(&self, settings: &Settings, steps: usize, of: usize) {
        let mut told = self.lock();
        let entries = told.entries;
        if let Some(row) = told.settings.iter_mut().find(|row| row.settings == *settings) {
            row.runs += usize::from(steps == 0);
            row.at_entry = (steps as u128 * entries as u128).checked_div(of as u128).map_or(0, |at| at as usize);
        }
    }

    fn step(&self) {
        self.lock().settings_done += 1;
    }
}
