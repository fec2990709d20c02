//! The processes of a run: they are started, waited for and, if need be, ended with all that they have started.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io, thread};

use crate::enforcement::{self, Enforcement};

/// The file that says which rank failed first; crates/nullgpu-core knows it (`meeting`).
const FAILED: &str = "failed";
/// Waits this long from look to look.
const STEP: Duration = Duration::from_millis(20);
/// Time for the other ranks to fail by themselves, once one has failed; then they are asked to end, and then ended.
const AFTER_FAILURE: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(20)];
/// Time for a program that should have ended, or was asked to, to leave what it has recorded.
pub(crate) const GRACE: Duration = Duration::from_secs(30);

/// How processes are to be run.
pub(crate) struct Plan<'a> {
    /// What is started, one process each.
    pub(crate) commands: Vec<Command>,
    /// The directory of the run. For each process that has ended a file is made there, [`ended_file`], for the others to see.
    pub(crate) directory: &'a Path,
    /// Whether the kernel is to keep them from writing elsewhere.
    pub(crate) restricted: bool,
    /// They are ended at this time.
    pub(crate) until: Option<Instant>,
    /// Once this is set they are asked to end, and ended if they do not.
    pub(crate) end: &'a AtomicBool,
}

/// What became of them.
pub(crate) struct Ended {
    /// That of the first that failed, else of the last.
    pub(crate) status: ExitStatus,
    /// How each of them ended, in the order in which that was noticed.
    pub(crate) ends: Vec<End>,
    /// Whether they were ended because it was time.
    pub(crate) timed_out: bool,
    /// What the kernel held.
    pub(crate) enforcement: Enforcement,
    /// What they have started, and goes on.
    pub(crate) family: Family,
}

/// The end of a process.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// Its number among those that were started.
    pub(crate) number: usize,
    pub(crate) status: ExitStatus,
    pub(crate) noticed: SystemTime,
    /// Whether it ended before anybody asked it to.
    pub(crate) by_itself: bool,
}

/// The file that says that a process has ended, or needs the others no more; `highwater_dryrun/farewell.py` knows it.
fn ended_file(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("{number}.ended"))
}

impl Plan<'_> {
    /// Starts the processes and waits until all have ended.
    ///
    /// # Errors
    /// One cannot be started.
    pub(crate) fn run(self) -> io::Result<Ended> {
        // In a thread of its own: what the kernel forbids, it forbids to a thread. The thread stays until the last process has
        // ended, for they are told when it ends (`parent` in crates/nullgpu-core).
        let run = || {
            let enforcement =
                if self.restricted { enforcement::restrict_thread(self.directory) } else { Enforcement::default() };
            self.start_and_wait(enforcement)
        };
        thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn start_and_wait(mut self, enforcement: Enforcement) -> io::Result<Ended> {
        let family = Family::gather();
        let mut children = Vec::new();
        for command in &mut self.commands {
            match command.spawn() {
                Ok(child) => children.push(child),
                Err(error) => {
                    family.end(&mut children);
                    return Err(error);
                }
            }
        }
        let (status, ends, timed_out) = self.wait(&mut children, &family)?;
        Ok(Ended { status, ends, timed_out, enforcement, family })
    }

    /// Waits for all; after the first that fails, or when it is time, the others are given a moment and ended.
    fn wait(&self, children: &mut [Child], family: &Family) -> io::Result<(ExitStatus, Vec<End>, bool)> {
        let mut until = self.until;
        let soon = |until: Option<Instant>, patience: Duration| {
            let soon = Instant::now() + patience;
            Some(until.map_or(soon, |until| until.min(soon)))
        };
        let mut first_failure: Option<ExitStatus> = None;
        let mut ends = Vec::new();
        let mut ask_at = None;
        let mut timed_out = false;
        let mut asked = false;
        let mut by_itself = true;
        let mut running: BTreeSet<usize> = (0..children.len()).collect();
        loop {
            let mut last = None;
            for (number, child) in children.iter_mut().enumerate() {
                let Some(status) = child.try_wait()? else { continue };
                if !status.success() && first_failure.is_none() {
                    // The others end when they wait for it, and say why.
                    let _ = fs::write(self.directory.join(FAILED), format!("rank {number} ended ({status})"));
                }
                if running.remove(&number) {
                    ends.push(End { number, status, noticed: SystemTime::now(), by_itself });
                    // Where there is no room for it, the others wait until the run is ended.
                    let _ = fs::write(ended_file(self.directory, number), "");
                }
                if !status.success() && first_failure.is_none() {
                    first_failure = Some(status);
                    ask_at = Some(Instant::now() + AFTER_FAILURE[0]);
                    until = soon(until, AFTER_FAILURE[1]);
                }
                last = Some(status);
            }
            let status = first_failure.or(last);
            if let (true, Some(status)) = (running.is_empty(), status) {
                if asked || timed_out {
                    family.end(children);
                }
                return Ok((status, ends, timed_out));
            }
            if !asked && self.end.load(Ordering::Relaxed) {
                asked = true;
                until = soon(until, GRACE);
                ask_at = Some(Instant::now());
            }
            // One that hangs leaves word of where it was.
            if ask_at.is_some_and(|at| Instant::now() >= at) {
                ask_at = None;
                by_itself = false;
                for &number in &running {
                    interrupt(&children[number]);
                }
            }
            if until.is_some_and(|until| Instant::now() > until) {
                timed_out |= first_failure.is_none() && !asked;
                by_itself = false;
                family.end(children);
                until = None;
            }
            thread::sleep(STEP);
        }
    }
}

/// What Ctrl-C does.
fn interrupt(child: &Child) {
    #[cfg(unix)]
    if let Some(process) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // It may just have ended.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::INT);
    }
    #[cfg(not(unix))]
    let _ = child;
}

/// All that descends from this process, but for what was there before.
///
/// Whose parent ends becomes a child of this process while this is there, so nobody gets lost.
pub(crate) struct Family {
    before: BTreeSet<u32>,
}

impl Family {
    fn gather() -> Self {
        #[cfg(target_os = "linux")]
        // Without it, those whose parents end get lost.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        Family {
            before: parents().filter(|&(_, parent)| parent == std::process::id()).map(|(child, _)| child).collect(),
        }
    }

    /// Ends them all, `children` first.
    fn end(&self, children: &mut [Child]) {
        for child in children.iter_mut() {
            // One that has just ended by itself cannot be ended any more.
            let _ = child.kill();
        }
        self.end_others();
    }

    /// Ends what goes on when the program itself has ended.
    pub(crate) fn end_others(&self) {
        /// New ones may come while they are being ended.
        const ROUNDS: u32 = 50;
        for _ in 0..ROUNDS {
            let others = self.members();
            if others.is_empty() {
                return;
            }
            others.into_iter().for_each(kill);
            thread::sleep(STEP);
        }
    }

    fn members(&self) -> BTreeSet<u32> {
        let all: Vec<(u32, u32)> = parents().collect();
        let mut members = BTreeSet::new();
        let mut parents = vec![std::process::id()];
        while let Some(parent) = parents.pop() {
            for &(child, of) in &all {
                if of == parent && !self.before.contains(&child) && members.insert(child) {
                    parents.push(child);
                }
            }
        }
        members
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        let _ = rustix::process::set_child_subreaper(None);
    }
}

fn kill(process: u32) {
    #[cfg(unix)]
    if let Some(process) = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = process;
}

/// Each process of the system that has not ended, with its parent; none where there is no `/proc`.
fn parents() -> impl Iterator<Item = (u32, u32)> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((process, parent_in(&stat)?))
    })
}

/// The parent in a text of `/proc/PID/stat`; nothing of a process that has ended and is only waited for.
fn parent_in(stat: &str) -> Option<u32> {
    // The name before it, in brackets, may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    (state != "Z").then(|| fields.next()?.parse().ok()).flatten()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
pub(crate) mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// Held by every test that starts processes: these here end all that this process has started meanwhile.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan<'a>(script: &str, directory: &'a Path, end: &'a AtomicBool) -> Plan<'a> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(directory);
        Plan { commands: vec![command], directory, restricted: false, until: None, end }
    }

    fn is_running(directory: &Path, name: &str) -> bool {
        let process: u32 = fs::read_to_string(directory.join(name)).unwrap().trim().parse().unwrap();
        parents().any(|(child, _)| child == process)
    }

    #[test]
    fn the_parent_is_behind_the_name() {
        assert_eq!(parent_in("12 (a) Z 9 (b) S 7 12"), Some(7));
        assert_eq!(parent_in("12 (sh) Z 7 12"), None);
        assert_eq!(parent_in(""), None);
    }

    #[test]
    fn what_is_asked_to_end_ends_with_all_that_it_started() {
        let _alone = alone();
        let directory = tempfile::tempdir().unwrap();
        // One that leaves its group, one whose parent has ended, and a program that says good-bye. A shell could not: one whose
        // starter ignores the signal does so, too.
        let script = "(setsid sleep 1000 & echo $! > away); (sleep 1000 & echo $! > orphan); exec python3 -c '
import signal, sys, time
def leave(*_): open(\"bye\", \"w\"); sys.exit(3)
signal.signal(signal.SIGINT, leave)
open(\"ready\", \"w\")
while True: time.sleep(0.01)'";
        let request = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            scope.spawn(|| {
                while !directory.path().join("ready").exists() {
                    thread::sleep(STEP);
                }
                request.store(true, Ordering::Relaxed);
            });
            plan(script, directory.path(), &request).run().unwrap()
        });
        assert_eq!((ended.status.code(), ended.timed_out), (Some(3), false));
        assert!(directory.path().join("bye").exists() && ended_file(directory.path(), 0).exists());
        assert!(!is_running(directory.path(), "away") && !is_running(directory.path(), "orphan"));
    }

    #[test]
    fn what_takes_too_long_is_ended_with_all_that_it_started() {
        let _alone = alone();
        let directory = tempfile::tempdir().unwrap();
        let end = AtomicBool::new(false);
        let script = "trap '' INT TERM; sleep 1000 & echo $! > child; wait; sleep 1000";
        let mut plan = plan(script, directory.path(), &end);
        plan.until = Some(Instant::now() + Duration::from_secs(2));
        let ended = plan.run().unwrap();
        assert!(ended.timed_out && !ended.status.success());
        assert!(!is_running(directory.path(), "child"));
    }

    #[test]
    fn what_ends_by_itself_leaves_who_goes_on() {
        let _alone = alone();
        let directory = tempfile::tempdir().unwrap();
        let end = AtomicBool::new(false);
        let ended = plan("(sleep 1000 & echo $! > away)", directory.path(), &end).run().unwrap();
        assert!(ended.status.success() && is_running(directory.path(), "away"));
        ended.family.end_others();
        assert!(!is_running(directory.path(), "away"));
    }
}
