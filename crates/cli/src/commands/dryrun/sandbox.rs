//! What a script wrote in its sandbox, for people.

use std::io::{self, Write};
use std::path::Path;

use highwater_nullgpu::sandbox::{Writes, Written};

use super::text::{item, paragraph};
use crate::printable::printable;
use crate::units::{counted, size};

/// Directories that are listed.
const LISTED: usize = 5;

pub(super) fn write(out: &mut impl Write, writes: &Writes) -> io::Result<()> {
    let total = &writes.total;
    if *total == Written::default() {
        return paragraph(out, "In its sandbox the script wrote no file.");
    }
    paragraph(
        out,
        &format!(
            "In its sandbox the script wrote {}. That was thrown away, and nothing outside has changed:",
            told(total)
        ),
    )?;
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

/// `3 files (1.00 KiB), of which 1 would have replaced one that is there; 2 would have been removed`
fn told(written: &Written) -> String {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let files = counted(count(written.files), "file", "files");
    let replaced = match written.replaced {
        0 => String::new(),
        replaced => format!(", of which {replaced} would have replaced one that is there"),
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
        let writes = Writes { total: written.clone(), directories: [("/home/out".into(), written)].into() };
        let mut out = Vec::new();
        write(&mut out, &writes).unwrap();
        let text = String::from_utf8(out).unwrap().replace('\n', " ");
        assert!(
            text.contains("3 files (1.00 KiB), of which 1 would have replaced one that is there; 2 would have been"),
            "{text}"
        );
        assert!(text.contains("`/home/out`: 3 files"), "{text}");
        let mut out = Vec::new();
        write(&mut out, &Writes::default()).unwrap();
        assert_eq!(out, b"In its sandbox the script wrote no file.\n");
    }
}
