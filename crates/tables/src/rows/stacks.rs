use std::io;

use crate::declaration::table;
use crate::{Recording, Rows};

table! {
    /// A frame of a stack, by its place there.
    "stacks" => Stack<'a>, by fill_stacks {
        /// The snapshot.
        file: &'a str,
        /// The stack's number in the snapshot.
        stack: usize,
        /// The place in the stack: 0 is the innermost.
        position: usize,
        /// The frame: a number of the table `frames`.
        frame: usize,
    }
}

table! {
    /// A frame: a function at a line.
    "frames" => Frame<'a>, by fill_frames {
        /// The snapshot.
        file: &'a str,
        /// The frame's number in the snapshot.
        frame: usize,
        /// The function.
        function: &'a str,
        /// The file of its source.
        source: &'a str,
        /// The line; null where it is not known.
        line: Option<u64>,
        /// Whose code it is: `user`, `torch`, `generated`, `python`, `native` or `unwinding`. `user` is also a library's that is not
        /// PyTorch's.
        owner: &'a str,
    }
}

fn fill_stacks(recording: &Recording<'_>, rows: &mut Rows<'_>) -> io::Result<()> {
    for (stack, frames) in recording.analysis.snapshot.stacks.iter() {
        for (position, frame) in frames.iter().enumerate() {
            Stack { file: &recording.id.file, stack: stack.index(), position, frame: frame.index() }.send(rows)?;
        }
    }
    Ok(())
}

fn fill_frames(recording: &Recording<'_>, rows: &mut Rows<'_>) -> io::Result<()> {
    let snapshot = recording.analysis.snapshot;
    for (id, frame) in snapshot.frames.iter() {
        let row = Frame {
            file: &recording.id.file,
            frame: id.index(),
            function: snapshot.text(frame.name),
            source: snapshot.text(frame.filename),
            line: Some(frame.line).filter(|&line| line != 0 && line != u64::MAX),
            owner: recording.analysis.sites.owner(id).name(),
        };
        row.send(rows)?;
    }
    Ok(())
}
