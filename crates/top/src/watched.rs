//! `--watch-pid`: one process and those below it.

use std::collections::{BTreeMap, HashMap};

use highwater_monitor::Sample;
use highwater_monitor::processes::{self, Process};
use highwater_problem::Problem;

/// A process that is watched.
#[derive(Debug)]
pub(super) struct Watched {
    /// Its number.
    pub(super) pid: u32,
    /// When it was started: its number may be used again.
    started: Option<u64>,
    /// Those that were seen below it, and when they were started: a child whose parent has ended belongs to it still, and a process that
    /// got the number of one that has ended does not.
    family: HashMap<u32, u64>,
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
        Ok(Self { pid, started: started.filter(|_| is_here), family: HashMap::from([(pid, started.unwrap_or(0))]) })
    }

    /// Whether it still runs.
    pub(super) fn is_there(&self) -> bool {
        processes::read(self.pid).is_some_and(|process| Some(process.started) == self.started)
    }

    /// Keeps of a sample what belongs to it: its processes, and the GPUs with one of them.
    pub(super) fn keep(&mut self, sample: &mut Sample) {
        if self.started.is_some() {
            self.follow(&processes::all());
        }
        for gpu in &mut sample.gpus {
            gpu.processes.retain(|process| self.family.contains_key(&process.pid));
        }
        if sample.gpus.iter().any(|gpu| !gpu.processes.is_empty()) {
            sample.gpus.retain(|gpu| !gpu.processes.is_empty());
        }
    }

    /// Sees who is in the family now.
    fn follow(&mut self, all: &BTreeMap<u32, Process>) {
        self.family.retain(|pid, started| all.get(pid).is_none_or(|process| process.started == *started));
        let below = processes::below(self.pid, all);
        self.family.extend(below.iter().map(|node| (node.process.pid, node.process.started)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(processes: &[(u32, u32, u64)]) -> BTreeMap<u32, Process> {
        let process = |&(pid, parent, started)| (pid, Process { pid, parent, started, command: String::new(), uid: 0 });
        processes.iter().map(process).collect()
    }

    #[test]
    fn a_number_that_is_used_again_is_no_child() {
        let mut watched = Watched { pid: 10, started: Some(1), family: HashMap::from([(10, 1)]) };
        let mut family = |processes: &[(u32, u32, u64)]| {
            watched.follow(&seen(processes));
            let mut family: Vec<u32> = watched.family.keys().copied().collect();
            family.sort_unstable();
            family
        };
        assert_eq!(family(&[(10, 1, 1), (11, 10, 2), (12, 11, 3)]), [10, 11, 12]);
        // 11 has ended, and its child belongs to the first process of the system now.
        assert_eq!(family(&[(10, 1, 1), (12, 1, 3)]), [10, 11, 12]);
        // Another program got both numbers, and one of them below it.
        assert_eq!(family(&[(10, 1, 1), (11, 1, 7), (12, 11, 8)]), [10]);
        assert_eq!(family(&[(10, 1, 1), (12, 10, 9)]), [10, 12]);
    }
}
