//! Processes as `/proc` has them: their users, commands and trees.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
#[cfg(target_os = "linux")]
use std::io::Read as _;

use crate::users::Users;

/// Bytes of a command line that are kept.
#[cfg(target_os = "linux")]
const COMMAND_BYTES: u64 = 4096;

/// A process as `/proc` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The process that started it, or that took it over.
    pub parent: u32,
    /// When it was started, in clock ticks since the machine was: the number may be used again, this is then another.
    pub started: u64,
    /// Its command line, or its name in brackets if it has none.
    pub command: String,
    /// Its user.
    pub uid: u32,
}

/// Reads one; `None` if it is not there, or not to be seen from here.
#[cfg(target_os = "linux")]
pub fn read(pid: u32) -> Option<Process> {
    use std::os::unix::fs::MetadataExt as _;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, parent, started) = parse_stat(&stat)?;
    let uid = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    Some(Process { pid, parent, started, command: command(pid).unwrap_or_else(|| format!("[{name}]")), uid })
}

/// Reads one: nowhere but on Linux.
#[cfg(not(target_os = "linux"))]
pub fn read(_pid: u32) -> Option<Process> {
    None
}

/// `1234 (name) S parent … started …`; the name may hold anything, brackets too.
#[cfg(any(test, target_os = "linux"))]
fn parse_stat(stat: &str) -> Option<(&str, u32, u64)> {
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1;
    let mut fields = after.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    // The third field above is the state's; the 22nd of the line is when it was started.
    let started = fields.nth(17)?.parse().ok()?;
    Some((name, parent, started))
}

/// The words of a command line, with blanks between them; `None` if there are none.
#[cfg(target_os = "linux")]
fn command(pid: u32) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(format!("/proc/{pid}/cmdline")).ok()?.take(COMMAND_BYTES).read_to_end(&mut bytes).ok()?;
    let words: Vec<_> = bytes.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
    let line = words.join(" ");
    Some(line.trim_end().to_owned()).filter(|line| !line.is_empty())
}

/// All that are to be seen, by their numbers.
pub fn all() -> BTreeMap<u32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter_map(|pid| Some((pid, read(pid)?))).collect()
}

/// A process in the tree of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// 0 for the topmost.
    pub depth: usize,
    /// The process.
    pub process: Process,
}

/// The processes above one, it, and all below it, as they stand in a tree: parents before their children, by number.
pub fn tree(pid: u32, all: &BTreeMap<u32, Process>) -> Vec<Node> {
    let mut above = Vec::new();
    let mut seen = HashSet::from([pid]);
    let mut next = all.get(&pid).map(|process| process.parent);
    while let Some(process) = next.and_then(|pid| all.get(&pid)) {
        // `/proc` is read while processes come and go: a number used again could close a circle.
        if !seen.insert(process.pid) {
            break;
        }
        above.push(process);
        next = Some(process.parent);
    }
    let mut nodes: Vec<_> =
        above.iter().rev().enumerate().map(|(depth, &process)| Node { depth, process: process.clone() }).collect();
    let first_depth = nodes.len();
    nodes.extend(below(pid, all).into_iter().map(|node| Node { depth: node.depth + first_depth, ..node }));
    nodes
}

/// A process and all below it.
pub fn below(pid: u32, all: &BTreeMap<u32, Process>) -> Vec<Node> {
    let mut children: BTreeMap<u32, Vec<&Process>> = BTreeMap::new();
    for process in all.values() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut nodes: Vec<Node> = Vec::new();
    let mut seen = HashSet::new();
    let mut waiting: Vec<_> = all.get(&pid).map(|process| (0, process)).into_iter().collect();
    while let Some((depth, process)) = waiting.pop() {
        if !seen.insert(process.pid) {
            continue;
        }
        nodes.push(Node { depth, process: process.clone() });
        let mut own = children.get(&process.pid).cloned().unwrap_or_default();
        // They are there by number; the last that waits comes first.
        own.reverse();
        waiting.extend(own.into_iter().map(|child| (depth + 1, child)));
    }
    nodes
}

/// What is known of the processes that were seen. `/proc` is asked again where somebody wants it anew: until then, a number that is
/// used again has the user and the command of the process before.
#[derive(Debug)]
pub(crate) struct Known {
    users: Users,
    processes: HashMap<u32, (String, String)>,
}

impl Known {
    pub(crate) fn new() -> Self {
        Self { users: Users::read(), processes: HashMap::new() }
    }

    /// A process's user and command line; `None` if it is not to be seen from here.
    ///
    /// A program names itself anew while it starts: `refresh` reads the command line again.
    pub(crate) fn look(&mut self, pid: u32, refresh: bool) -> Option<(String, String)> {
        if !refresh && let Some((user, command)) = self.processes.get(&pid) {
            return Some((user.clone(), command.clone()));
        }
        let Some(process) = read(pid) else {
            self.processes.remove(&pid);
            return None;
        };
        let user = self.users.name(process.uid);
        self.processes.insert(pid, (user.clone(), process.command.clone()));
        Some((user, process.command))
    }

    /// Forgets those that are not among these.
    pub(crate) fn keep(&mut self, pids: &[u32]) {
        self.processes.retain(|pid, _| pids.contains(pid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "12 (a) (b) R) S 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 8899 1000 2000";
        assert_eq!(parse_stat(stat), Some(("a) (b) R", 7, 8899)));
        assert_eq!(parse_stat("12 (a"), None);
        assert_eq!(parse_stat("12 (a) S 7"), None);
    }

    fn made_up(parents: &[(u32, u32)]) -> BTreeMap<u32, Process> {
        let process = |&(pid, parent)| Process { pid, parent, started: 0, command: String::new(), uid: 0 };
        parents.iter().map(process).map(|process| (process.pid, process)).collect()
    }

    fn shape(nodes: &[Node]) -> Vec<(usize, u32)> {
        nodes.iter().map(|node| (node.depth, node.process.pid)).collect()
    }

    #[test]
    fn a_tree_has_those_above_and_those_below() {
        let all = made_up(&[(1, 0), (5, 1), (6, 5), (8, 6), (7, 6), (9, 1)]);
        assert_eq!(shape(&tree(6, &all)), [(0, 1), (1, 5), (2, 6), (3, 7), (3, 8)]);
        assert_eq!(shape(&below(6, &all)), [(0, 6), (1, 7), (1, 8)]);
        assert_eq!(shape(&tree(77, &all)), []);
    }

    #[test]
    fn a_circle_ends() {
        let all = made_up(&[(5, 6), (6, 5), (3, 3)]);
        assert_eq!(shape(&tree(5, &all)), [(0, 6), (1, 5), (2, 6)]);
        assert_eq!(shape(&tree(3, &all)), [(0, 3)]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_there() {
        let own = read(std::process::id()).expect("this one");
        assert!(own.command.contains("highwater_monitor"), "{}", own.command);
        let all = all();
        assert!(tree(own.pid, &all).iter().any(|node| node.process.pid == own.pid));
        assert_eq!(Known::new().look(own.pid, false).map(|(_, command)| command), Some(own.command));
    }
}
