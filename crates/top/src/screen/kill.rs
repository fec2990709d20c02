//! Signals to a process, which must be the one that was meant.

use std::io;

use highwater_monitor::processes;

/// How hard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// Asks it to end.
    Term,
    /// Ends it.
    Kill,
}

impl Signal {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Term => "SIGTERM",
            Self::Kill => "SIGKILL",
        }
    }
}

/// A process that is to get a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) pid: u32,
    /// When it was started: the number may be used again before the question is answered.
    started: u64,
    pub(super) command: String,
    pub(super) signal: Signal,
}

impl Target {
    /// A process as it is now; `None` if it is not to be seen from here.
    pub(super) fn new(pid: u32, signal: Signal) -> Option<Self> {
        let process = processes::read(pid)?;
        Some(Self { pid, started: process.started, command: process.command, signal })
    }

    /// Sends it.
    ///
    /// # Errors
    /// The process has ended, or is another user's.
    pub(super) fn send(&self) -> io::Result<()> {
        if processes::read(self.pid).map(|process| process.started) != Some(self.started) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the process has ended"));
        }
        send(self.pid, self.signal)
    }
}

#[cfg(unix)]
fn send(pid: u32, signal: Signal) -> io::Result<()> {
    use rustix::process::{Pid, kill_process};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no process has that pid"))?;
    let signal = match signal {
        Signal::Term => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
    };
    Ok(kill_process(pid, signal)?)
}

#[cfg(not(unix))]
fn send(_pid: u32, _signal: Signal) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system cannot send signals"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    #[test]
    fn only_the_process_that_was_meant_gets_the_signal() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let target = Target::new(child.id(), Signal::Term).unwrap();
        let other = Target { started: target.started + 1, ..target.clone() };
        assert_eq!(other.send().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(child.try_wait().unwrap(), None);
        target.send().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        assert_eq!(Target::new(4_000_000_000, Signal::Kill), None);
    }
}
