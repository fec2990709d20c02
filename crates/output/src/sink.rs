//! Where the data go: standard output, or a file that is never overwritten unasked.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;
use highwater_problem::Problem;
use highwater_units::size;

use crate::printable::{Lines, printable};
use crate::whole_file::WholeFile;

/// The destination of a command's output.
pub type Sink = BufWriter<Place>;

/// Where the data go.
#[derive(Debug)]
pub enum Place {
    /// Standard output.
    Stdout(io::Stdout),
    /// A file, which takes its place when all is written.
    File(WholeFile),
}

impl Write for Place {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::File(file) => file.flush(),
        }
    }
}

impl Place {
    /// Ends the writing: a file takes its place.
    fn finish(self) -> io::Result<()> {
        match self {
            Self::Stdout(_) => Ok(()),
            Self::File(file) => file.finish(),
        }
    }
}

const BUFFER_BYTES: usize = 256 << 10;

/// The path that stands for standard output.
pub const STDOUT: &str = "-";

/// Whether a path stands for standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new(STDOUT)
}

/// Lets `write` write to a file, or to standard output, and reports the file on standard error, if it was one.
///
/// # Errors
/// If the file already exists and `force` is not given, or it cannot be written: the old file stays unchanged.
pub fn write_to(path: &Path, force: bool, write: impl FnOnce(&mut Sink) -> io::Result<()>) -> anyhow::Result<()> {
    if is_stdout(path) {
        return to_stdout(write);
    }
    let cannot_write = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => Problem::new(format!("cannot write `{}`", path.display())).because(error),
    };
    let file = WholeFile::create(path, force).map_err(cannot_write)?;
    let mut out = Sink::with_capacity(BUFFER_BYTES, Place::File(file));
    let written = write(&mut out).and_then(|()| out.into_inner().map_err(io::IntoInnerError::into_error));
    written.and_then(Place::finish).map_err(cannot_write)?;
    let bytes = std::fs::metadata(path).with_context(|| format!("cannot read `{}` again", path.display()))?.len();
    // The file is written; that nobody can be told is no failure.
    let _ = note(&format!("wrote {} ({})", path.display(), size(bytes)));
    Ok(())
}

/// That a file is there already.
pub fn exists(path: &Path) -> Problem {
    Problem::new(format!("`{}` already exists", path.display())).hint("overwrite it with `--force`")
}

/// Lets `write` write to standard output.
///
/// # Errors
/// Those of `write`; a broken pipe is one: a reader that has seen enough is no failure.
pub fn to_stdout(write: impl FnOnce(&mut Sink) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = Sink::with_capacity(BUFFER_BYTES, Place::Stdout(io::stdout()));
    write(&mut out).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// Lets `write` write lines for people to standard output: no control character but their ends gets there, whoever's text
/// it is in.
///
/// # Errors
/// As [`to_stdout`].
pub fn text_to_stdout(write: impl FnOnce(&mut Lines<&mut Sink>) -> io::Result<()>) -> anyhow::Result<()> {
    to_stdout(|out| write(&mut Lines::for_stdout(out)))
}

/// Says something that is not data.
///
/// # Errors
/// Those of standard error.
pub fn note(text: &str) -> io::Result<()> {
    writeln!(io::stderr(), "{}", printable(text))
}

/// Writes a JSON document and ends the line.
///
/// # Errors
/// Those of `out`.
pub fn write_json(out: &mut impl Write, document: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, document)?;
    writeln!(out)
}
