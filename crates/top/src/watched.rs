//! `--watch-pid`: one process and those below it.

use std::collections::HashSet;

use highwater_monitor::{Sample, processes};
use highwater_problem::Problem;

/// A process that is watched.
#[derive(Debug)]
pub(super) struct Watched {
    /// Its number.
    pub(super) pid: u32,
    /// When it was started: its number may be used again.
    started: Option<u64>,
    /// The numbers that were ever seen below it, for a child whose parent has ended belongs to it still.
    family: HashSet<u32>,
}

impl Watched {
    /// Begins to watch; one of a log need not be there any more.
    ///
    /// # Errors
    /// There is no such process.
    pub(super) fn new(pid: u32, is_here: bool) -> Result<Self, Problem> {
        let started = processes::read(pid).map(|process| process.started);
        if is_here && started.is_none() {
            return Err(Problem::new(format!("there is no process {pid}"))
                .hint("`highwater top --once` lists those that use a GPU"));
        }
        Ok(Self { pid, started: started.filter(|_| is_here), family: HashSet::from([pid]) })
    }

    /// Whether it still runs.
    pub(super) fn is_there(&self) -> bool {
        processes::read(self.pid).is_some_and(|process| Some(process.started) == self.started)
    }

    /// Keeps of a sample what belongs to it: its processes, and the GPUs with one of them.
    pub(super) fn keep(&mut self, sample: &mut Sample) {
        if self.started.is_some() {
            let below = processes::below(self.pid, &processes::all());
            self.family.extend(below.iter().map(|node| node.process.pid));
        }
        for gpu in &mut sample.gpus {
            gpu.processes.retain(|process| self.family.contains(&process.pid));
        }
        if sample.gpus.iter().any(|gpu| !gpu.processes.is_empty()) {
            sample.gpus.retain(|gpu| !gpu.processes.is_empty());
        }
    }
}
