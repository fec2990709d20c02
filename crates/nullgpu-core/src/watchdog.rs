//! PyTorch's watchdog of collectives, and the time it needs. The tensors of a collective live until its work is waited for, or until
//! the watchdog, a thread of `ProcessGroupNCCL` that looks ten times a second, has seen that the work is done and the next collective
//! begins (`shelvesToUnstash_` in its header). DDP never waits for the work itself, so its old buckets live until
//! the watchdog has looked. On a card it has time to look while the program waits for the card. Here nothing takes time, so a program that
//! waits for the card is held until the watchdog has looked.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// From look to look: `kWatchdogThreadSleepMillis`.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);
/// Fewer bytes of tensors are not worth the time.
const BYTES_WORTH_WAITING_FOR: u64 = 1 << 20;
/// There may be no watchdog: other libraries call NCCL, too.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Works {
    /// By stream: bytes of the collectives that no event has followed yet.
    begun: HashMap<u64, u64>,
    /// By event: the work that ends with it, until the watchdog has seen that it is done.
    unseen: HashMap<u64, Work>,
    /// The thread that looks, and its directory in `/proc`.
    watchdog: Option<(ThreadId, PathBuf)>,
    /// Nobody looked for too long.
    has_no_watchdog: bool,
}

struct Work {
    bytes: u64,
    begun_by: ThreadId,
}

impl Works {
    fn begin(&mut self, stream: u64, bytes: u64) {
        *self.begun.entry(stream).or_default() += bytes;
    }

    fn record(&mut self, event: u64, stream: u64) {
        match self.begun.remove(&stream) {
            Some(bytes) => self.unseen.insert(event, Work { bytes, begun_by: thread::current().id() }),
            None => self.unseen.remove(&event),
        };
    }

    /// Whether it is the watchdog that asks for this event.
    fn watches(&self, event: u64) -> bool {
        self.unseen.get(&event).is_some_and(|work| work.begun_by != thread::current().id())
    }

    fn see(&mut self, event: u64) {
        self.unseen.remove(&event);
        let directory = fs::read_link("/proc/thread-self").map(|path| Path::new("/proc").join(path));
        self.watchdog = directory.ok().map(|directory| (thread::current().id(), directory));
    }
}

static WORKS: Mutex<Option<Works>> = Mutex::new(None);
static SEEN: Condvar = Condvar::new();

fn works() -> MutexGuard<'static, Option<Works>> {
    WORKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A collective over so many bytes begins.
pub(crate) fn begins(stream: u64, bytes: u64) {
    works().get_or_insert_default().begin(stream, bytes);
}

/// An event is recorded. The first one after a collective ends its work.
pub(crate) fn recorded(event: u64, stream: u64) {
    if let Some(works) = works().as_mut() {
        works.record(event, stream);
    }
}

/// Whether it is the watchdog that asks for this event.
pub(crate) fn watches(event: u64) -> bool {
    works().as_ref().is_some_and(|works| works.watches(event))
}

/// The watchdog was told that this event is done.
pub(crate) fn sees(event: u64) {
    if let Some(works) = works().as_mut() {
        works.see(event);
        SEEN.notify_all();
    }
}

pub(crate) fn forget(event: u64) {
    if let Some(works) = works().as_mut() {
        works.unseen.remove(&event);
    }
}

/// The program waits for the card: so long that the watchdog sees all works that are done, by the event with which they end. Whether
/// there was anything to see.
pub(crate) fn has_time(is_done: impl Fn(u64) -> bool) -> bool {
    let begun = Instant::now();
    let mut anything = false;
    let mut guard = works();
    while let Some(works) = guard.as_mut().filter(|works| !works.has_no_watchdog) {
        let unseen: u64 = works.unseen.iter().filter(|(event, _)| is_done(**event)).map(|(_, work)| work.bytes).sum();
        if unseen < BYTES_WORTH_WAITING_FOR {
            break;
        }
        anything = true;
        works.has_no_watchdog = begun.elapsed() > PATIENCE;
        guard = SEEN.wait_timeout(guard, PERIOD).unwrap_or_else(PoisonError::into_inner).0;
    }
    let watchdog = guard.as_ref().and_then(|works| works.watchdog.clone());
    drop(guard);
    let watchdog = watchdog.filter(|(thread, _)| anything && *thread != thread::current().id());
    // What it has seen it notes before it sleeps again.
    while let Some((_, directory)) = &watchdog
        && is_running(directory)
        && begun.elapsed() < PATIENCE
    {
        thread::sleep(Duration::from_millis(1));
    }
    anything
}

/// Whether a thread does anything, by the letter behind its name in parentheses.
fn is_running(thread: &Path) -> bool {
    let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_the_card_lasts_until_the_watchdog_has_seen_large_works() {
        begins(1, 3 << 20);
        recorded(7, 1);
        recorded(8, 1);
        assert!(!watches(7) && !watches(8), "the watchdog is another thread");
        let looks = thread::spawn(|| {
            assert!(watches(7) && !watches(8), "the first event after a collective ends its work");
            sees(7);
        });
        has_time(|_| true);
        assert!(works().as_ref().is_some_and(|works| works.unseen.is_empty() && works.watchdog.is_some()));
        looks.join().unwrap();

        begins(1, 1000);
        recorded(9, 1);
        begins(2, 3 << 20);
        recorded(10, 2);
        assert!(!has_time(|event| event == 9));
        assert!(works().as_ref().is_some_and(|works| works.unseen.len() == 2 && !works.has_no_watchdog));
        forget(10);
        recorded(9, 1);
        assert!(
            works().as_ref().is_some_and(|works| works.unseen.is_empty()),
            "an event that is recorded anew ends other work"
        );
    }
}
