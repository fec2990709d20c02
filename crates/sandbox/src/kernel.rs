//! The kernel's own directories: `/dev`, `/proc` and `/sys`.
//!
//! What is written there stays there, but for the links with which `/proc` leads out again: to where a process is (`cwd`), to the
//! root (`root`), and to what it has open (`fd/5`, also as `/dev/fd/5`). The kernel does not follow them by their text, so a path
//! through one of them has to be taken apart here.

use crate::abi;
use crate::path::{self, Path};
use crate::system::{self, Errno};
use crate::walk::{self, Found, Step};

/// The step from one of these directories to what has `name` there. A link is one only if it is to be followed by its text.
///
/// # Errors
/// The path is too long.
pub(crate) fn step(directory: &Path, name: &[u8]) -> Result<Step, Errno> {
    let Ok(step) = walk::step(directory, name) else {
        // What may not be looked at the kernel will refuse, or not, by its own rules.
        return Ok(Step { real: Path::joined(directory.as_bytes(), name)?, found: Found::Thing });
    };
    match &step.found {
        Found::Link(target) if !leads_to_a_path(&step.real, target) => {
            Ok(Step { real: step.real, found: Found::Thing })
        }
        _ => Ok(step),
    }
}

/// Whether the target of a link is the path of what it leads to.
fn leads_to_a_path(link: &Path, target: &Path) -> bool {
    let Some(rest) = path::below(link.as_bytes(), b"/proc") else { return true };
    let Some((process, rest)) = path::first_name(rest) else { return true };
    let is_own = process == b"self" || process == b"thread-self";
    if path::first_name(rest).is_none() {
        // Who follows `self` may be another process than this one: a child that it starts.
        return !is_own;
    }
    if !is_own && !process.iter().all(u8::is_ascii_digit) {
        return true;
    }
    // Pipes and sockets have names without a slash; what was removed has no path any more.
    let text = target.as_bytes();
    text.starts_with(b"/") && !text.ends_with(b" (deleted)") && !is_open_for_writing(link)
}

/// Whether a link is that of a descriptor through which could be written anyway: standard output, say, that is a file outside.
fn is_open_for_writing(link: &Path) -> bool {
    path::parent(link.as_bytes()).ends_with(b"/fd")
        && system::metadata(link).is_ok_and(|metadata| metadata.st_mode & abi::S_IWUSR != 0)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd as _;

    use super::*;

    fn found(path: &str) -> Found {
        let (directory, name) = path.rsplit_once('/').unwrap();
        step(&Path::of(directory.as_bytes()).unwrap(), name.as_bytes()).unwrap().found
    }

    fn leads_out(path: &str) -> bool {
        matches!(found(path), Found::Link(_))
    }

    #[test]
    fn links_that_lead_out_are_told_from_those_that_lead_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        let (writer, reader) = (File::create(&file).unwrap(), File::open(&file).unwrap());
        let link = |file: &File| format!("/proc/self/fd/{}", file.as_raw_fd());
        let process = std::process::id();
        for out in
            ["/proc/self/cwd", "/proc/thread-self/root", &format!("/proc/{process}/cwd"), &link(&reader), "/dev/fd"]
        {
            assert!(leads_out(out), "{out}");
        }
        for inside in ["/proc/self", "/proc/self/status", "/proc/self/ns/mnt", &link(&writer), "/dev/null"] {
            assert!(!leads_out(inside), "{inside}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(!leads_out(&link(&reader)), "what was removed has no path");
        assert!(matches!(found("/proc/none"), Found::Nothing));
    }
}
