//! The ranks that made a run fail: the first that failed, one that ended while others waited for it, or one that hung.

use std::borrow::Cow;
use std::fmt::Write as _;

use highwater_nullgpu::run::{Ending, FailedRank, Outcome, Process};

use super::CauseView;

/// Ranks that are named one by one.
const NAMED: usize = 8;

/// The cause; nothing if no rank failed, or if nothing sets one of them apart.
pub(super) fn of(outcome: &Outcome) -> Option<CauseView> {
    let ranks: Vec<(u32, &Process)> =
        outcome.processes.iter().filter_map(|process| Some((process.rank?, process))).collect();
    let first = outcome.failed_rank.as_ref();
    let late = first.and_then(|first| late(first, &ranks));
    let hung = || first.is_none_or(|first| waited(first, &ranks)).then(|| hung(&ranks)).flatten();
    late.or_else(hung).or_else(|| failed(first?, &ranks))
}

/// What ended the process that is explained; before it, what ended the rank that is the cause, if that is another one.
pub(super) fn error<'a>(main: &'a Process, processes: &[Process], cause: Option<&CauseView>) -> Cow<'a, str> {
    let causes = cause.map_or(&[][..], |cause| &cause.ranks);
    let mut others = processes.iter().filter(|process| process.rank.is_some_and(|rank| causes.contains(&rank)));
    let Some(rank) = main.rank.filter(|rank| !causes.contains(rank) && !main.error.is_empty()) else {
        return Cow::Borrowed(&main.error);
    };
    others.find(|other| !other.error.is_empty()).map_or(Cow::Borrowed(&main.error), |other| {
        let number = other.rank.unwrap_or_default();
        Cow::Owned(format!("rank {number}: {}; then rank {rank}: {}", other.error, main.error))
    })
}

/// Whether the first that failed did so because it was time, or another rank kept it waiting.
fn waited(first: &FailedRank, ranks: &[(u32, &Process)]) -> bool {
    let process = ranks.iter().find(|(rank, _)| *rank == first.rank);
    process.is_some_and(|(_, process)| {
        process.how == Ending::Timeout || (first.ended_before.is_empty() && !process.waits_for.is_empty())
    })
}

fn is_late(process: &Process) -> bool {
    matches!(process.how, Ending::Timeout | Ending::Interrupted)
}

/// Those that were still at work when it was time to end, while the first that failed had done its own and waited for them to end.
fn late(first: &FailedRank, ranks: &[(u32, &Process)]) -> Option<CauseView> {
    let is_done = |process: &Process| matches!(process.how, Ending::Exit | Ending::Steps);
    let waits = ranks.iter().any(|(rank, process)| *rank == first.rank && is_done(process));
    let late: Vec<&(u32, &Process)> = ranks.iter().filter(|(_, process)| is_late(process)).collect();
    (waits && !late.is_empty()).then(|| CauseView {
        ranks: late.iter().map(|(rank, _)| *rank).collect(),
        text: format!("{}rank {} had ended", each(&late, "was still running"), first.rank),
    })
}

/// Where each of these was, with a semicolon behind it.
fn each(ranks: &[&(u32, &Process)], verb: &str) -> String {
    let mut text = String::new();
    for (rank, process) in ranks.iter().take(NAMED) {
        let place = if process.place.is_empty() { String::new() } else { format!(" at {}", process.place) };
        let _ = write!(text, "rank {rank} {verb}{place}; ");
    }
    text
}

/// One that others waited for when it was time to end, while it waited for nobody; or ranks that waited for each other.
fn hung(ranks: &[(u32, &Process)]) -> Option<CauseView> {
    let waiting: Vec<&(u32, &Process)> = ranks.iter().filter(|(_, process)| !process.waits_for.is_empty()).collect();
    let (first, waits) = waiting.first().map(|(rank, process)| (rank, &process.waits_for))?;
    let idle: Vec<&(u32, &Process)> =
        ranks.iter().filter(|(_, process)| is_late(process) && process.waits_for.is_empty()).collect();
    if idle.is_empty() && !waiting.iter().all(|(_, process)| is_late(process)) {
        return None;
    }
    if idle.is_empty() {
        let words = waiting.iter().take(NAMED).map(|(rank, process)| format!("rank {rank} for {}", process.waits_for));
        return Some(CauseView {
            ranks: waiting.iter().map(|(rank, _)| *rank).collect(),
            text: format!("the ranks waited for each other: {}", words.collect::<Vec<_>>().join("; ")),
        });
    }
    let text = format!("{}rank {first} waited for {waits}", each(&idle, "hung"));
    Some(CauseView { ranks: idle.iter().map(|(rank, _)| *rank).collect(), text })
}

fn failed(failed: &FailedRank, ranks: &[(u32, &Process)]) -> Option<CauseView> {
    let process = ranks.iter().find(|(rank, _)| *rank == failed.rank).map(|(_, process)| *process);
    if process.is_some_and(|process| process.how == Ending::Timeout) {
        return None;
    }
    let status = failed.status.to_string();
    let error = process.map(|process| process.error.as_str()).filter(|error| !error.is_empty());
    let mut text = format!("rank {} failed first: {}", failed.rank, error.unwrap_or(&status));
    let mut causes = vec![failed.rank];
    if error.is_none() && status.contains("SIGKILL") {
        text += "; the system kills processes like this if the host has too little memory";
    }
    if !failed.ended_before.is_empty() {
        let gone = failed.ended_before.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let noun = if failed.ended_before.len() == 1 { "rank" } else { "ranks" };
        let _ = write!(text, "; {noun} {gone} had ended before, without an error");
        causes.extend(&failed.ended_before);
        causes.sort_unstable();
    }
    Some(CauseView { ranks: causes, text })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use serde_json::json;

    use super::*;

    fn process(how: &str, error: &str, place: &str, waits_for: &str) -> Process {
        serde_json::from_value(json!({
            "pid": 1, "arguments": [], "rank": 0, "world_size": 2, "torch": "", "how": how, "error": error, "place": place,
            "waits_for": waits_for, "steps": 0, "snapshot": "", "devices": [], "failed": null, "host_peak_bytes": 0,
        }))
        .unwrap()
    }

    fn first(rank: u32, status: i32, ended_before: &[u32]) -> FailedRank {
        FailedRank { rank, status: ExitStatus::from_raw(status), ended_before: ended_before.to_vec() }
    }

    #[test]
    fn the_first_that_failed_is_the_cause() {
        let (other, own) =
            (process("error", "closed by peer", "", ""), process("error", "ValueError: no luck", "", ""));
        let cause = failed(&first(1, 256, &[]), &[(0, &other), (1, &own)]).unwrap();
        assert_eq!((cause.ranks, cause.text.as_str()), (vec![1], "rank 1 failed first: ValueError: no luck"));
        let cause = failed(&first(1, 9, &[]), &[(0, &other)]).unwrap();
        assert!(cause.text.contains("SIGKILL") && cause.text.contains("too little memory"), "{}", cause.text);
    }

    #[test]
    fn the_error_of_the_cause_comes_first() {
        let mut own = process("error", "closed by peer", "", "");
        let mut other = process("error", "ValueError: no luck", "", "");
        other.rank = Some(1);
        let processes = [own.clone(), other.clone()];
        let cause = CauseView { ranks: vec![1], text: String::new() };
        assert_eq!(error(&own, &processes, Some(&cause)), "rank 1: ValueError: no luck; then rank 0: closed by peer");
        assert_eq!(error(&other, &processes, Some(&cause)), "ValueError: no luck");
        assert_eq!(error(&own, &processes, None), "closed by peer");
        own.error.clear();
        assert_eq!(error(&own, &processes, Some(&cause)), "", "it did not fail");
    }

    #[test]
    fn one_that_ended_before_is_named_too() {
        let (own, other) = (process("error", "closed by peer", "", ""), process("exit", "", "", ""));
        let cause = failed(&first(0, 256, &[1]), &[(0, &own), (1, &other)]).unwrap();
        assert_eq!(
            (cause.ranks, cause.text.as_str()),
            (vec![0, 1], "rank 0 failed first: closed by peer; rank 1 had ended before, without an error")
        );
    }

    #[test]
    fn one_that_waits_for_nobody_hung() {
        let waits = |other| format!("rank {other} in `recv` at a.py:3 <module>");
        let (waiting, idle) = (process("timeout", "", "", &waits(1)), process("timeout", "", "a.py:9 work", ""));
        let cause = hung(&[(0, &waiting), (1, &idle)]).unwrap();
        assert_eq!(
            (cause.ranks, cause.text.as_str()),
            (vec![1], "rank 1 hung at a.py:9 work; rank 0 waited for rank 1 in `recv` at a.py:3 <module>")
        );
        let back = process("timeout", "", "", &waits(0));
        let cause = hung(&[(0, &waiting), (1, &back)]).unwrap();
        assert!(cause.text.starts_with("the ranks waited for each other: rank 0 for rank 1 in"), "{}", cause.text);
        assert_eq!(hung(&[(0, &idle)]), None, "a run that only took too long");

        // A rank at its end waits for the others, in no call of its own, until it is time.
        let done = process("exit", "", "", "");
        let cause = late(&first(0, 124 << 8, &[]), &[(0, &done), (1, &idle)]).unwrap();
        assert_eq!(
            (cause.ranks, cause.text.as_str()),
            (vec![1], "rank 1 was still running at a.py:9 work; rank 0 had ended")
        );
        assert_eq!(late(&first(0, 256, &[]), &[(0, &done), (1, &done)]), None);

        // A rank that fails because of another fails first, if the other hangs, but not if the other failed.
        let gave_up = process("error", "waited 10 minutes for rank 1", "", &waits(1));
        let slow = process("interrupted", "", "a.py:9 work", "");
        assert!(waited(&first(0, 256, &[]), &[(0, &gave_up), (1, &slow)]));
        assert_eq!(hung(&[(0, &gave_up), (1, &slow)]).unwrap().ranks, [1]);
        let own = process("error", "ValueError: no luck", "", "");
        assert!(!waited(&first(1, 256, &[]), &[(0, &gave_up), (1, &own), (2, &slow)]));
    }
}
