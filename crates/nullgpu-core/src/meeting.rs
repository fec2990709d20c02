//! Where the ranks of a communicator meet: a directory with a file of each, to which a rank adds what it calls, and what it sends if
//! that is small and known. The others read it. Nobody answers, so a rank can end before another has read what it said.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::hosts;
use crate::reduce::element_name;
use crate::settings;

/// Collectives that a rank may call before the others have called the first of them.
const LEAD: u64 = 16;
/// Calls that are kept of a rank.
const KEPT: usize = 4096;
/// The first wait between two looks, and the longest.
const LOOK: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(4));
/// From look to look at whether those that are waited for are still there.
const LOOK_ALIVE: Duration = Duration::from_millis(100);
/// As long as NCCL's own in PyTorch.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a rank calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
    Reduce,
    Broadcast,
    AllToAll,
    Split,
    Send,
    /// The rest only of the host's memory: NCCL has others in their place.
    Gather,
    Scatter,
    Barrier,
    MonitoredBarrier,
}

const KINDS: [(Kind, &str); 12] = [
    (Kind::AllReduce, "all_reduce"),
    (Kind::AllGather, "all_gather"),
    (Kind::ReduceScatter, "reduce_scatter"),
    (Kind::Reduce, "reduce"),
    (Kind::Broadcast, "broadcast"),
    (Kind::AllToAll, "all_to_all"),
    (Kind::Split, "split of a group"),
    (Kind::Send, "send"),
    (Kind::Gather, "gather"),
    (Kind::Scatter, "scatter"),
    (Kind::Barrier, "barrier"),
    (Kind::MonitoredBarrier, "monitored_barrier"),
];

impl Kind {
    fn number(self) -> u8 {
        u8::try_from(KINDS.iter().position(|(kind, _)| *kind == self).unwrap_or(0)).unwrap_or(0)
    }

    /// Whether all ranks have to give as many elements of one type.
    fn is_of_one_size(self) -> bool {
        !matches!(self, Kind::AllToAll | Kind::Split | Kind::Send)
    }

    pub(crate) fn name(self) -> &'static str {
        KINDS[usize::from(self.number())].1
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        KINDS.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }
}

/// One call of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Post {
    pub(crate) kind: Kind,
    /// `ncclDataType_t`; negative if type and count are unknown.
    pub(crate) element: i32,
    pub(crate) count: u64,
    /// The rank that sends to all, or is sent to.
    pub(crate) peer: i32,
    /// The program's line.
    pub(crate) place: String,
    /// What it sends, if that is known.
    pub(crate) bytes: Option<Vec<u8>>,
}

impl Post {
    pub(crate) fn write(&self) -> Vec<u8> {
        let place = &self.place.as_bytes()[..self.place.len().min(1000)];
        let mut body = vec![self.kind.number(), u8::from(self.bytes.is_some())];
        body.extend_from_slice(&self.element.to_le_bytes());
        body.extend_from_slice(&self.count.to_le_bytes());
        body.extend_from_slice(&self.peer.to_le_bytes());
        body.extend_from_slice(&u32::try_from(place.len()).unwrap_or(0).to_le_bytes());
        body.extend_from_slice(place);
        body.extend_from_slice(self.bytes.as_deref().unwrap_or_default());
        let mut record = u32::try_from(body.len()).unwrap_or(0).to_le_bytes().to_vec();
        record.extend_from_slice(&body);
        record
    }

    fn read(body: &[u8]) -> Option<Self> {
        let (&[kind, known], rest) = body.split_first_chunk()?;
        let (element, rest) = rest.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let (peer, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (place, bytes) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        Some(Post {
            kind: KINDS.get(usize::from(kind))?.0,
            element: i32::from_le_bytes(*element),
            count: u64::from_le_bytes(*count),
            peer: i32::from_le_bytes(*peer),
            place: String::from_utf8_lossy(place).into_owned(),
            bytes: (known == 1).then(|| bytes.to_vec()),
        })
    }

    fn extent(&self) -> (u64, i32) {
        (self.count, self.element)
    }

    fn size_words(&self) -> String {
        format!("{} elements of {}", self.count, element_name(self.element))
    }

    /// The call in words.
    pub(crate) fn words(&self) -> String {
        let place = if self.place.is_empty() { String::new() } else { format!(" at {}", self.place) };
        format!("`{}`{place}", self.kind.name())
    }
}

/// Says that two ranks do not call the same as the call of this number, each given with its name; nothing if they do.
pub(crate) fn difference(at: u64, (mine, ours): (&str, &Post), (other, theirs): (&str, &Post)) -> Option<String> {
    let number = at + 1;
    if theirs.kind != ours.kind || theirs.peer != ours.peer {
        return Some(format!(
            "ranks call collectives in different orders: as number {number} of a group, {mine} calls {} and {other} calls {}",
            ours.words(),
            theirs.words(),
        ));
    }
    let is_known = ours.element >= 0 && theirs.element >= 0;
    (is_known && ours.kind.is_of_one_size() && theirs.extent() != ours.extent()).then(|| {
        format!(
            "ranks call a collective with different sizes: as number {number} of a group, {mine} calls {} with {} and {other} calls {} \
             with {}",
            ours.words(),
            ours.size_words(),
            theirs.words(),
            theirs.size_words(),
        )
    })
}

/// Calls of one sort, the first of them being the one with this number.
#[derive(Default)]
pub(crate) struct Calls {
    first: u64,
    posts: VecDeque<Post>,
}

impl Calls {
    pub(crate) fn push(&mut self, post: Post) {
        self.posts.push_back(post);
        if self.posts.len() > KEPT {
            self.posts.pop_front();
            self.first += 1;
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.first + self.posts.len() as u64
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Post> {
        self.posts.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }
}

/// A rank, as far as it has been read.
pub(crate) struct Member {
    file: File,
    read: u64,
    process: u32,
    /// Its number among all.
    global: i32,
    pub(crate) collectives: Calls,
    /// What it sends to this rank.
    sends: Calls,
    /// Its calls that were compared with this rank's.
    pub(crate) compared: u64,
}

/// The length of what stands at the beginning of a file: process and rank.
const HEADER: usize = 8;

impl Member {
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).ok()?;
        let (process, global) = header.split_first_chunk()?;
        Some(Member {
            file,
            read: HEADER as u64,
            process: u32::from_le_bytes(*process),
            global: i32::from_le_bytes(*global.first_chunk()?),
            collectives: Calls::default(),
            sends: Calls::default(),
            compared: 0,
        })
    }

    /// Reads what it has said since.
    pub(crate) fn catch_up(&mut self, own: i32) {
        let length = self.file.metadata().map_or(0, |metadata| metadata.len());
        let Some(new) = length.checked_sub(self.read).filter(|&new| new > 4) else { return };
        let mut bytes = vec![0; usize::try_from(new).unwrap_or(0)];
        if self.file.read_exact_at(&mut bytes, self.read).is_err() {
            return;
        }
        let mut rest = bytes.as_slice();
        while let Some((length, behind)) = rest.split_first_chunk() {
            let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
            let Some((body, next)) = behind.split_at_checked(length) else { break };
            rest = next;
            match Post::read(body) {
                Some(post) if post.kind != Kind::Send => self.collectives.push(post),
                Some(post) if post.peer == own => self.sends.push(post),
                _ => {}
            }
        }
        self.read = length - rest.len() as u64;
    }

    pub(crate) fn name(&self, number: usize) -> String {
        if self.global < 0 { format!("rank {number} of the group") } else { format!("rank {}", self.global) }
    }

    fn calls(&self, sort: Sort) -> &Calls {
        if sort == Sort::Collective { &self.collectives } else { &self.sends }
    }
}

/// Which of a rank's calls are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Collective,
    /// Those that send to this rank.
    Send,
}

/// The ranks of a communicator.
pub(crate) struct Meeting {
    name: String,
    rank: i32,
    own: Mutex<Own>,
    members: Mutex<Vec<Member>>,
}

struct Own {
    file: File,
    collectives: Calls,
    received: Vec<u64>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Meeting {
    /// Meets the other ranks, and waits until all are there.
    pub(crate) fn join(directory: &Path, name: &str, ranks: i32, rank: i32) -> Result<Self, String> {
        let place = directory.join("meetings").join(name);
        let own = begin_own(&place, rank).map_err(|error| format!("cannot write to `{}`: {error}", place.display()))?;
        let count = usize::try_from(ranks).unwrap_or(0);
        let mut members = Vec::with_capacity(count);
        let mut wait = Wait::new(directory);
        while members.len() < count {
            match Member::open(&place.join(members.len().to_string())) {
                Some(member) => members.push(member),
                None => wait.look(
                    || {
                        let number = members.len();
                        enough_left(directory, count).map_or(Ok(()), |ended| {
                            Err(format!("rank {ended} has ended, and rank {number} of a group of {count} never came"))
                        })
                    },
                    || format!("rank {} of a group of {count} to join it", members.len()),
                )?,
            }
        }
        let own = Own { file: own, collectives: Calls::default(), received: vec![0; count] };
        Ok(Meeting { name: name.to_owned(), rank, own: Mutex::new(own), members: Mutex::new(members) })
    }

    /// The name of a part of this group that a split made.
    pub(crate) fn part(&self, number: u64, color: i32) -> String {
        format!("{}-{number}-{color}", self.name)
    }

    /// Says what this rank calls, and gives the number of the call; waits for those that are far behind.
    pub(crate) fn post(&self, directory: &Path, post: Post) -> Result<u64, String> {
        let number = {
            let mut own = locked(&self.own);
            own.file.write_all(&post.write()).map_err(|error| format!("cannot write what a rank calls: {error}"))?;
            if post.kind == Kind::Send {
                return Ok(0);
            }
            own.collectives.push(Post { bytes: None, ..post });
            own.collectives.end() - 1
        };
        if let Some(behind) = number.checked_sub(LEAD) {
            for member in 0..self.size() {
                self.wait_for(directory, member, Sort::Collective, behind)?;
            }
        }
        self.compare()?;
        Ok(number)
    }

    /// The number of the next message from a rank.
    pub(crate) fn next_from(&self, member: usize) -> u64 {
        let mut own = locked(&self.own);
        own.received.get_mut(member).map_or(0, |received| {
            *received += 1;
            *received - 1
        })
    }

    pub(crate) fn size(&self) -> usize {
        locked(&self.members).len()
    }

    /// What a rank called, once it has; nothing if that is too long ago.
    pub(crate) fn wait_for(
        &self,
        directory: &Path,
        member: usize,
        sort: Sort,
        number: u64,
    ) -> Result<Option<Post>, String> {
        let mut wait = Wait::new(directory);
        loop {
            let (process, global, name) = {
                let mut members = locked(&self.members);
                let Some(member_now) = members.get_mut(member) else { return Ok(None) };
                if member_now.calls(sort).end() <= number {
                    member_now.catch_up(self.rank);
                }
                if member_now.calls(sort).end() > number {
                    let post = member_now.calls(sort).get(number).cloned();
                    drop(members);
                    self.compare()?;
                    return Ok(post);
                }
                (member_now.process, member_now.global, member_now.name(member))
            };
            let own = || match sort {
                Sort::Collective => locked(&self.own).collectives.get(number).map_or_else(String::new, Post::words),
                Sort::Send => "`recv`".to_owned(),
            };
            wait.look(
                || {
                    // One that is gone may have spoken just before.
                    if !gone(directory, process, global) || self.has_said(member, sort, number) {
                        return Ok(());
                    }
                    Err(format!("{name} has ended, and this rank waits for it in {}", own()))
                },
                || format!("{name} in {}", own()),
            )?;
        }
    }

    fn has_said(&self, member: usize, sort: Sort, number: u64) -> bool {
        locked(&self.members).get_mut(member).is_some_and(|member| {
            member.catch_up(self.rank);
            member.calls(sort).end() > number
        })
    }

    /// Compares what the others call with what this rank calls.
    fn compare(&self) -> Result<(), String> {
        let own = locked(&self.own);
        let mut members = locked(&self.members);
        let mine = members
            .get(usize::try_from(self.rank).unwrap_or(0))
            .map_or_else(String::new, |member| member.name(usize::try_from(self.rank).unwrap_or(0)));
        for (number, member) in members.iter_mut().enumerate() {
            let until = member.collectives.end().min(own.collectives.end());
            for at in member.compared..until {
                let (Some(theirs), Some(ours)) = (member.collectives.get(at), own.collectives.get(at)) else {
                    continue;
                };
                if let Some(why) = difference(at, (&mine, ours), (&member.name(number), theirs)) {
                    return Err(why);
                }
            }
            member.compared = member.compared.max(until);
        }
        Ok(())
    }
}

pub(crate) fn begin_own(place: &Path, rank: i32) -> io::Result<File> {
    fs::create_dir_all(place)?;
    // The others shall see it with its beginning, or not at all.
    let hidden = place.join(format!(".{rank}"));
    let mut file = OpenOptions::new().create(true).append(true).open(&hidden)?;
    let global = own_rank().unwrap_or(-1);
    file.write_all(&[std::process::id().to_le_bytes(), global.to_le_bytes()].concat())?;
    fs::rename(&hidden, place.join(rank.to_string()))?;
    Ok(file)
}

/// A wait for another rank.
struct Wait<'a> {
    directory: &'a Path,
    begun: Instant,
    looked: Instant,
    pause: Duration,
    told: bool,
    in_vain: bool,
}

/// What a thread of this process waits for just now, for a person who wants to know why nothing goes on.
static WAITED_FOR: Mutex<Option<String>> = Mutex::new(None);

/// What this process waits for, if it waits for another rank.
pub(crate) fn waited_for() -> Option<String> {
    locked(&WAITED_FOR).clone().or_else(hosts::waited_for)
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        // A rank that fails because of another is asked for the reason later.
        if !self.in_vain {
            *locked(&WAITED_FOR) = None;
        }
    }
}

impl<'a> Wait<'a> {
    fn new(directory: &'a Path) -> Self {
        let now = Instant::now();
        Wait { directory, begun: now, looked: now, pause: LOOK.0, told: false, in_vain: false }
    }

    /// Waits a moment. `alive` fails if it would be in vain; `what` says what is waited for.
    fn look(&mut self, alive: impl FnOnce() -> Result<(), String>, what: impl Fn() -> String) -> Result<(), String> {
        let looked = self.look_now(alive, what);
        self.in_vain = looked.is_err();
        looked
    }

    fn look_now(
        &mut self,
        alive: impl FnOnce() -> Result<(), String>,
        what: impl Fn() -> String,
    ) -> Result<(), String> {
        /// After so long a person wants to know.
        const SAID_AFTER: Duration = Duration::from_secs(60);
        if self.pause == LOOK.0 {
            *locked(&WAITED_FOR) = Some(what());
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 3 / 2).min(LOOK.1);
        if self.looked.elapsed() < LOOK_ALIVE {
            return Ok(());
        }
        self.looked = Instant::now();
        if let Ok(text) = fs::read_to_string(self.directory.join("failed")) {
            return Err(format!("{}, and this rank waits for {}", text.trim(), what()));
        }
        alive()?;
        *locked(&WAITED_FOR) = Some(what());
        if self.begun.elapsed() > PATIENCE {
            return Err(format!("waited {} minutes for {}", PATIENCE.as_secs() / 60, what()));
        }
        if !self.told && self.begun.elapsed() > SAID_AFTER {
            self.told = true;
            let rank = own_rank().map_or_else(String::new, |rank| rank.to_string());
            // Nobody else could say it: the program is waiting.
            let _ = writeln!(io::stderr(), "highwater: rank {rank} has waited a minute for {}", what());
        }
        Ok(())
    }
}

/// The file that the parent makes when a rank's process has ended: `ended_file` in crates/nullgpu.
fn has_ended(directory: &Path, rank: i32) -> bool {
    directory.join(format!("{rank}.ended")).exists()
}

/// One that has ended, if too few are left for a group of so many.
fn enough_left(directory: &Path, wanted: usize) -> Option<i32> {
    let all = all_ranks()?;
    let ended: Vec<i32> = (0..all).filter(|&rank| has_ended(directory, rank)).collect();
    let left = usize::try_from(all).ok()?.saturating_sub(ended.len());
    ended.first().copied().filter(|_| left < wanted)
}

/// Whether a process is gone, or needs the others no more.
fn gone(directory: &Path, process: u32, rank: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().next());
    let dead = matches!(state, None | Some("Z" | "X"));
    dead || (rank >= 0 && has_ended(directory, rank))
}

/// This process's rank, and the number of ranks, if the program has told it otherwise than by its environment.
static TOLD: Mutex<Option<(i32, i32)>> = Mutex::new(None);

/// Notes which rank this process is, of how many.
pub(crate) fn tell(rank: i32, ranks: i32) {
    *locked(&TOLD) = Some((rank, ranks));
}

fn told(variable: &str, part: fn((i32, i32)) -> i32) -> Option<i32> {
    let told = *locked(&TOLD);
    told.map(part).or_else(|| std::env::var(variable).ok()?.parse().ok())
}

/// This process's number among all ranks, if it is one.
pub(crate) fn own_rank() -> Option<i32> {
    told("RANK", |(rank, _)| rank)
}

/// The number of all ranks.
pub(crate) fn all_ranks() -> Option<i32> {
    told("WORLD_SIZE", |(_, ranks)| ranks)
}

/// Where the ranks of this run meet, if there are others.
pub(crate) fn directory() -> Option<&'static PathBuf> {
    settings::get().ranks.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(kind: Kind, place: &str, bytes: Option<Vec<u8>>) -> Post {
        Post { kind, element: 7, count: 3, peer: -1, place: place.to_owned(), bytes }
    }

    /// Two that have met.
    fn two() -> (PathBuf, Meeting, Meeting) {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("highwater-meeting-{}-{number}", std::process::id()));
        let (first, second) = std::thread::scope(|scope| {
            let second = scope.spawn(|| Meeting::join(&directory, "a", 2, 1).unwrap());
            (Meeting::join(&directory, "a", 2, 0).unwrap(), second.join().unwrap())
        });
        (directory, first, second)
    }

    #[test]
    fn a_post_is_read_as_it_was_written() {
        for bytes in [None, Some(vec![]), Some(vec![1, 2, 3])] {
            let post = post(Kind::Broadcast, "train.py:7", bytes);
            assert_eq!(Post::read(&post.write()[4..]), Some(post));
        }
        assert_eq!(Post::read(&[9; 40]), None);
        assert_eq!(Post::read(&[0; 3]), None);
    }

    #[test]
    fn ranks_read_what_the_others_said() {
        let (directory, first, second) = two();
        first.post(&directory, post(Kind::AllReduce, "", Some(vec![4]))).unwrap();
        first.post(&directory, Post { peer: 1, ..post(Kind::Send, "", Some(vec![5])) }).unwrap();
        assert_eq!(second.post(&directory, post(Kind::AllReduce, "", None)), Ok(0));
        let told = |sort| second.wait_for(&directory, 0, sort, 0).unwrap().and_then(|post| post.bytes);
        assert_eq!([told(Sort::Collective), told(Sort::Send)], [Some(vec![4]), Some(vec![5])]);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn another_order_is_said_with_both_places() {
        let (directory, first, second) = two();
        first.post(&directory, post(Kind::AllReduce, "a.py:1", None)).unwrap();
        let own = second.post(&directory, post(Kind::Broadcast, "b.py:2", None));
        let error = own.and_then(|number| second.wait_for(&directory, 0, Sort::Collective, number)).unwrap_err();
        assert!(error.contains("`broadcast` at b.py:2") && error.contains("`all_reduce` at a.py:1"), "{error}");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn another_size_is_said_with_both_places() {
        let (directory, first, second) = two();
        first.post(&directory, post(Kind::AllReduce, "a.py:1", None)).unwrap();
        let own = second.post(&directory, Post { count: 4, ..post(Kind::AllReduce, "b.py:2", None) });
        let error = own.and_then(|number| second.wait_for(&directory, 0, Sort::Collective, number)).unwrap_err();
        assert!(error.contains("`all_reduce` at b.py:2 with 4 elements"), "{error}");
        assert!(error.contains("`all_reduce` at a.py:1 with 3 elements"), "{error}");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn nobody_waits_for_a_rank_that_failed() {
        let (directory, first, _second) = two();
        first.post(&directory, post(Kind::AllReduce, "a.py:1", None)).unwrap();
        fs::write(directory.join("failed"), "rank 1 ended (signal: 9)\n").unwrap();
        let error = first.wait_for(&directory, 1, Sort::Collective, 0).unwrap_err();
        assert!(error.starts_with("rank 1 ended (signal: 9), and this rank waits for"), "{error}");
        fs::remove_dir_all(directory).unwrap();
    }
}
