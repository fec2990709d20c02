//! Collectives over the host's memory. Gloo carries these, and waits forever if the ranks call different ones. So each rank posts its calls
//! and compares them with the calls that the others have posted: the last rank to call finds the difference. Nothing here waits.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ffi::{In, Out};
use crate::meeting::{self, Calls, Kind, Member, Post, begin_own, difference};
use crate::ranks;

/// A group of ranks, as one of them has it.
struct Group {
    place: PathBuf,
    rank: usize,
    file: File,
    calls: Calls,
    /// Those that have called something yet.
    members: Vec<Option<Member>>,
}

/// What a thread of this process waits for.
#[derive(Clone, Debug)]
enum Waiting {
    Collective { group: String, number: u64 },
    Message { from: i32, place: String },
}

/// By name.
static GROUPS: Mutex<BTreeMap<String, Group>> = Mutex::new(BTreeMap::new());
static WAITING: Mutex<Option<Waiting>> = Mutex::new(None);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Group {
    fn begin(directory: &Path, name: &str, ranks: usize, rank: usize) -> Option<Self> {
        let place = directory.join("hosts").join(name);
        let file = begin_own(&place, i32::try_from(rank).ok()?).ok()?;
        Some(Group { place, rank, file, calls: Calls::default(), members: (0..ranks).map(|_| None).collect() })
    }

    /// Reads what the others have said since.
    fn catch_up(&mut self) {
        for (number, member) in self.members.iter_mut().enumerate() {
            if number == self.rank {
                continue;
            }
            if member.is_none() {
                *member = Member::open(&self.place.join(number.to_string()));
            }
            if let Some(member) = member {
                // None of these sends.
                member.catch_up(-1);
            }
        }
    }

    /// Says what this rank calls; the number of the call.
    ///
    /// # Errors
    /// Another has called something else.
    fn say(&mut self, post: Post) -> Result<u64, String> {
        // Before the others are read: of two that call at once, one at least finds what the other has said.
        if self.file.write_all(&post.write()).is_err() {
            return Ok(self.calls.end());
        }
        self.calls.push(post);
        self.catch_up();
        let mine =
            meeting::own_rank().map_or_else(|| name_of(self.rank, self.members.len()), |rank| format!("rank {rank}"));
        for (number, member) in self.members.iter_mut().enumerate() {
            let Some(member) = member else { continue };
            let until = member.collectives.end().min(self.calls.end());
            for at in member.compared..until {
                if let (Some(theirs), Some(ours)) = (member.collectives.get(at), self.calls.get(at))
                    && let Some(why) = difference(at, (&mine, ours), (&member.name(number), theirs))
                {
                    return Err(why);
                }
            }
            member.compared = member.compared.max(until);
        }
        Ok(self.calls.end() - 1)
    }

    /// The first that has not called what this rank waits in, and the call.
    fn waits_for(&mut self, number: u64) -> Option<String> {
        self.catch_up();
        let has_called =
            |member: &Option<Member>| member.as_ref().is_some_and(|member| member.collectives.end() > number);
        let missing = (0..self.members.len()).find(|&at| at != self.rank && !has_called(&self.members[at]))?;
        let name = name_of(missing, self.members.len());
        let name = self.members[missing].as_ref().map_or(name, |member| member.name(missing));
        Some(format!("{name} in {}", self.calls.get(number)?.words()))
    }
}

/// A rank of a group of so many, of which nothing else is known.
fn name_of(rank: usize, group: usize) -> String {
    let all = meeting::all_ranks().and_then(|ranks| usize::try_from(ranks).ok());
    if all == Some(group) { format!("rank {rank}") } else { format!("rank {rank} of the group") }
}

/// What this process waits for over the host's memory, if it waits for another rank.
pub(crate) fn waited_for() -> Option<String> {
    let waiting = locked(&WAITING).clone()?;
    match waiting {
        Waiting::Collective { group, number } => locked(&GROUPS).get_mut(&group)?.waits_for(number),
        Waiting::Message { from, place } => Some(format!("rank {from} in `recv` at {place}")),
    }
}

fn text(address: usize, size: usize) -> String {
    String::from_utf8_lossy(&In::from(Out::of_argument(address)).read_bytes(size)).into_owned()
}

/// What is said of a call where ranks cannot meet.
const UNKNOWN: i64 = -2;

/// Says that this rank of a group calls a collective: the number of the call, −1 if another rank has called something else (why, says
/// `highwater_nullgpu_failure`), or −2 if that cannot be known. The group's name and the collective's have so many bytes; `peer` is the
/// rank that gives to all or gets from all, else −1. All ranks give so many elements of one type, by `ncclDataType_t`; the type is negative
/// if that is not known.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_host_calls(
    group: usize,
    group_size: usize,
    ranks: u32,
    rank: u32,
    kind: usize,
    kind_size: usize,
    peer: i32,
    count: u64,
    element: i32,
) -> i64 {
    let name = text(group, group_size);
    let (Some(directory), Some(kind)) = (meeting::directory(), Kind::of_name(&text(kind, kind_size))) else {
        return UNKNOWN;
    };
    let mut groups = locked(&GROUPS);
    if !groups.contains_key(&name) {
        let Some(new) = Group::begin(directory, &name, ranks as usize, rank as usize) else { return UNKNOWN };
        groups.insert(name.clone(), new);
    }
    let Some(group) = groups.get_mut(&name) else { return UNKNOWN };
    let post = Post { kind, element, count, peer, place: ranks::place(), bytes: None };
    group.say(post).map_or_else(
        |why| {
            ranks::fail(&why);
            -1
        },
        |number| i64::try_from(number).unwrap_or(UNKNOWN),
    )
}

/// Says that this process waits in the call of this number of a group; or, if that is negative, for a message from rank `from`; or, if
/// that is negative too, for nothing any more.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_host_waits(group: usize, group_size: usize, number: i64, from: i32) {
    *locked(&WAITING) = match (u64::try_from(number), from) {
        (Ok(number), _) => Some(Waiting::Collective { group: text(group, group_size), number }),
        (_, 0..) => Some(Waiting::Message { from, place: ranks::place() }),
        _ => None,
    };
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn post(kind: Kind, place: &str) -> Post {
        Post { kind, element: 0, count: 0, peer: -1, place: place.to_owned(), bytes: None }
    }

    fn two(test: &str) -> (PathBuf, Group, Group) {
        let directory = std::env::temp_dir().join(format!("highwater-hosts-{test}-{}", std::process::id()));
        let group = |rank| Group::begin(&directory, "a", 2, rank).unwrap();
        (directory.clone(), group(0), group(1))
    }

    #[test]
    fn the_last_to_call_finds_another_order_and_names_both_lines() {
        let (directory, mut first, mut second) = two("order");
        for group in [&mut first, &mut second] {
            assert_eq!(group.say(post(Kind::Barrier, "both.py:1")), Ok(0));
        }
        assert_eq!(first.say(post(Kind::AllReduce, "a.py:1")), Ok(1));
        assert_eq!(first.say(post(Kind::Gather, "a.py:2")), Ok(2), "nobody waits for the other");
        let error = second.say(post(Kind::Gather, "b.py:2")).unwrap_err();
        assert!(error.contains("as number 2 of a group"), "{error}");
        assert!(error.contains("`gather` at b.py:2") && error.contains("`all_reduce` at a.py:1"), "{error}");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn one_that_has_not_called_is_waited_for() {
        let (directory, mut first, mut second) = two("missing");
        first.say(post(Kind::Scatter, "a.py:1")).unwrap();
        let waits_for = first.waits_for(0).unwrap();
        assert!(waits_for.starts_with("rank 1") && waits_for.ends_with("in `scatter` at a.py:1"), "{waits_for}");
        second.say(post(Kind::Scatter, "a.py:1")).unwrap();
        assert_eq!(first.waits_for(0), None);
        fs::remove_dir_all(directory).unwrap();
    }
}
