//! What a script wrote in its sandbox, for people.

use std::io;
use std::path::Path;

use highwater_nullgpu::enforcement::Enforcement;
use highwater_nullgpu::outside::Outside;
use highwater_nullgpu::sandbox::{Writes, Written};

use super::text::{item, paragraph};
use crate::printable::printable;
use crate::style::Ink;
use crate::units::{counted, size};

/// Directories that are listed.
const LISTED: usize = 5;

pub(super) fn write(out: &mut impl Ink, writes: &Writes) -> io::Result<()> {
    let total = &writes.total;
    if *total == Written::default() {
        paragraph(out, "In its sandbox, the script wrote no files.")?;
    } else {
        paragraph(out, &format!("In its sandbox, the script wrote {}. These were deleted:", told(total)))?;
        write_directories(out, writes)?;
    }
    write_outside(out, &writes.outside)?;
    paragraph(out, &enforced(&writes.kernel))
}

/// The directories with most in them.
fn write_directories(out: &mut impl Ink, writes: &Writes) -> io::Result<()> {
    let mut directories: Vec<(&Path, &Written)> =
        writes.directories.iter().map(|(path, written)| (path.as_path(), written)).collect();
    directories.sort_by_key(|(_, written)| std::cmp::Reverse((written.bytes, written.files)));
    for (path, written) in directories.iter().take(LISTED) {
        item(out, &format!("`{}`: {}", printable(&path.to_string_lossy()), told(written)))?;
    }
    if directories.len() > LISTED {
        item(out, &counted(directories.len() - LISTED, "more directory", "more directories"))?;
    }
    Ok(())
}

/// Writes what a look at the files outside of the sandbox has found: the sandbox's own promise is no evidence.
fn write_outside(out: &mut impl Ink, outside: &Outside) -> io::Result<()> {
    let looked_at = counted(count(outside.looked_at), "file or directory", "files and directories");
    let places = "in its working directory and where it wrote";
    if outside.changed.is_empty() {
        return paragraph(out, &format!("Outside, nothing has changed: {looked_at} checked, {places}."));
    }
    let changed = outside.changed.len();
    paragraph(
        out,
        &format!(
            "Outside, {changed} of {looked_at} changed during the run, {places}, by the script or by another program:"
        ),
    )?;
    for path in outside.changed.iter().take(LISTED) {
        item(out, &format!("`{}`", printable(&path.to_string_lossy())))?;
    }
    if changed > LISTED {
        item(out, &counted(changed - LISTED, "more", "more"))?;
    }
    Ok(())
}

/// What the kernel held, and what it did not.
fn enforced(kernel: &Enforcement) -> String {
    match kernel {
        Enforcement::Enforced { landlock, truncation } => format!(
            "Enforced by the kernel (Landlock {landlock}): none of its processes could write, create, rename or \
             remove a file elsewhere. Not enforced: {}files' modes, owners and times",
            if *truncation { "" } else { "truncation (enforced from Linux 6.2), " }
        ),
        Enforcement::NotEnforced { reason } => format!(
            "Not enforced by the kernel ({}): a statically linked program, or one that calls the kernel itself, may \
             have written elsewhere",
            printable(reason)
        ),
    }
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// `3 files (1.00 KiB), of which 1 would have replaced one that is there; 2 would have been removed`
fn told(written: &Written) -> String {
    let files = counted(count(written.files), "file", "files");
    let replaced = match written.replaced {
        0 => String::new(),
        replaced => format!(", of which {replaced} would have replaced an existing one"),
    };
    let removed = match written.removed {
        0 => String::new(),
        removed => format!("; {removed} would have been removed"),
    };
    format!("{files} ({}){replaced}{removed}", size(written.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_said_with_what_it_would_have_done() {
        let written = Written { files: 3, bytes: 1 << 10, replaced: 1, removed: 2 };
        let outside = Outside { looked_at: 5, changed: vec!["/home/log\u{1b}[2J".into()] };
        let directories = [("/home/out".into(), written.clone())].into();
        let kernel = Enforcement::Enforced { landlock: 2, truncation: false };
        let text = text(&Writes { total: written, directories, outside, kernel });
        assert!(
            text.contains("3 files (1.00 KiB), of which 1 would have replaced an existing one; 2 would have been"),
            "{text}"
        );
        assert!(text.contains("`/home/out`: 3 files"), "{text}");
        assert!(
            text.contains("1 of 5 files and directories") && text.contains("or by another program: - `/home/log"),
            "{text}"
        );
        assert!(text.contains("Landlock 2") && text.contains("truncation") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn nothing_is_claimed_that_was_not_looked_at_or_enforced() {
        let text = text(&Writes::default());
        assert!(
            text.starts_with("In its sandbox, the script wrote no files. Outside, nothing has changed: 0 files and"),
            "{text}"
        );
        assert!(text.contains("Not enforced by the kernel (") && text.contains("may have written elsewhere"), "{text}");
    }

    fn text(writes: &Writes) -> String {
        let mut out = Vec::new();
        write(&mut out, writes).unwrap();
        let text = String::from_utf8(out).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
