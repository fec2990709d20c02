//! The rank that failed first, of ranks that were launched or that a script has started itself.
//!
//! A rank that fails takes the others along, so the order decides. A rank that could still speak left a note before the others could
//! notice that it is gone: the note's time counts. Of one that was killed only the time is known at which its starter noticed.

use std::fs;
use std::path::Path;
use std::process::ExitStatus;
use std::time::SystemTime;

use crate::processes;
use crate::run::{Ending, FailedRank, Process};

/// The end of a rank.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) rank: u32,
    pub(crate) status: ExitStatus,
    /// When its starter noticed.
    pub(crate) noticed: SystemTime,
    /// Whether nobody had ended it.
    pub(crate) by_itself: bool,
}

impl From<processes::End> for End {
    fn from(end: processes::End) -> Self {
        let processes::End { number, status, noticed, by_itself } = end;
        End { rank: u32::try_from(number).unwrap_or(u32::MAX), status, noticed, by_itself }
    }
}

/// The first that failed.
pub(crate) fn first(ends: &[End], processes: &[Process], directory: &Path) -> Option<FailedRank> {
    let process_of = |rank: u32| processes.iter().find(|process| process.rank == Some(rank));
    let said = |end: &End| process_of(end.rank).and_then(|process| modified(directory, process.pid, "json"));
    let when = |end: &End| said(end).map_or(end.noticed, |said| said.min(end.noticed));
    let failures = || ends.iter().filter(|end| end.by_itself && !end.status.success());
    let first = failures().min_by_key(|end| when(end))?;
    let awaited = process_of(first.rank).and_then(Process::awaited_rank);
    // That one may have been noticed too late.
    let silent = failures().find(|end| Some(end.rank) == awaited && said(end).is_none());
    let first = silent.unwrap_or(first);
    let before = when(first);
    let was_before = |end: &&End| end.noticed <= before || Some(end.rank) == awaited;
    Some(FailedRank {
        rank: first.rank,
        status: first.status,
        ended_before: ends.iter().filter(|end| end.status.success()).filter(was_before).map(|end| end.rank).collect(),
    })
}

/// The ends of the ranks that the script has started, as `highwater_dryrun/children.py` noted them.
pub(crate) fn of_script(directory: &Path, processes: &[Process]) -> Vec<End> {
    let mut ends: Vec<End> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".rank")?.parse().ok())
        .filter_map(|process| of_process(directory, process, processes))
        .collect();
    ends.sort_unstable_by_key(|end| end.rank);
    ends
}

fn of_process(directory: &Path, pid: u32, processes: &[Process]) -> Option<End> {
    let number = |kind: &str| -> Option<i32> {
        fs::read_to_string(directory.join(format!("{pid}.{kind}"))).ok()?.trim().parse().ok()
    };
    let failed =
        |process: &&Process| process.pid == pid && matches!(process.how, Ending::Error | Ending::Oom | Ending::Crash);
    // Some starters do not care how it ended.
    let code = number("status").or_else(|| processes.iter().find(failed).map(|_| 1))?;
    let noticed = modified(directory, pid, "status").or_else(|| modified(directory, pid, "json"))?;
    let rank = u32::try_from(number("rank")?).ok()?;
    Some(End { rank, status: status_of(code)?, noticed, by_itself: code != ENDED_BY_STARTER })
}

/// `SIGTERM`, as Python says it.
const ENDED_BY_STARTER: i32 = -15;

/// A status as Python says it: that of a signal is negative.
#[cfg(unix)]
fn status_of(code: i32) -> Option<ExitStatus> {
    use std::os::unix::process::ExitStatusExt as _;
    Some(ExitStatus::from_raw(if code < 0 { code.checked_neg()? } else { code.checked_shl(8)? }))
}

#[cfg(not(unix))]
fn status_of(_: i32) -> Option<ExitStatus> {
    None
}

/// When one of the files that a process leaves, or that is left of it, was written.
fn modified(directory: &Path, pid: u32, kind: &str) -> Option<SystemTime> {
    fs::metadata(directory.join(format!("{pid}.{kind}"))).and_then(|metadata| metadata.modified()).ok()
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// A file that was written at this second.
    fn left(directory: &Path, name: &str, text: &str, second: u64) {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        File::options().append(true).open(path).unwrap().set_modified(at(second)).unwrap();
    }

    fn process(directory: &Path, rank: u32, how: &str, waits_for: &str, second: u64) -> Process {
        let pid = 100 + rank;
        let note = serde_json::json!({
            "pid": pid, "arguments": [], "rank": rank, "world_size": 3, "torch": "", "how": how, "waits_for": waits_for, "steps": 0,
            "snapshot": "", "devices": [], "failed": null, "host_peak_bytes": 0,
        });
        left(directory, &format!("{pid}.json"), &note.to_string(), second);
        serde_json::from_value(note).unwrap()
    }

    fn end(rank: u32, code: i32, second: u64) -> End {
        End { rank, status: status_of(code).unwrap(), noticed: at(second), by_itself: code != ENDED_BY_STARTER }
    }

    #[test]
    fn the_first_that_said_so_is_the_cause_whoever_was_noticed_first() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        let processes =
            [process(place, 0, "error", "rank 1 in `barrier` at a.py:2", 20), process(place, 1, "error", "", 10)];
        let failed = first(&[end(0, 1, 30), end(1, 1, 30)], &processes, place).unwrap();
        assert_eq!((failed.rank, failed.ended_before), (1, vec![]));
    }

    #[test]
    fn one_that_was_killed_is_the_cause_if_the_first_that_failed_waited_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        let processes = [process(place, 0, "error", "rank 1 in `barrier` at a.py:2", 20)];
        let failed = first(&[end(0, 1, 30), end(1, -9, 30), end(2, -15, 5)], &processes, place).unwrap();
        assert_eq!((failed.rank, failed.status.to_string()), (1, "signal: 9 (SIGKILL)".to_owned()));
        let failed = first(&[end(0, 1, 30), end(1, 0, 30), end(2, 0, 25)], &processes, place).unwrap();
        assert_eq!((failed.rank, failed.ended_before), (0, vec![1]), "it ended too early, and the other one later");
    }

    #[test]
    fn ranks_that_a_script_starts_are_known_by_what_they_and_their_starters_leave() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        let processes = [process(place, 0, "interrupted", "", 40), process(place, 2, "error", "", 50)];
        for (name, text, second) in [
            ("100.rank", "0", 1),
            ("101.rank", "1", 1),
            ("102.rank", "2", 1),
            ("103.rank", "3", 1),
            ("100.status", "-15", 45),
            ("101.status", "7", 30),
            ("200.rank", "no number", 1),
        ] {
            left(place, name, text, second);
        }
        let ends = of_script(place, &processes);
        assert_eq!(ends.iter().map(|end| end.rank).collect::<Vec<_>>(), [0, 1, 2], "nothing is known of rank 3");
        let failed = first(&ends, &processes, place).unwrap();
        assert_eq!((failed.rank, failed.status.code()), (1, Some(7)));
    }
}
