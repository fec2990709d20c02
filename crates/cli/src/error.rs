//! How an error is printed, and which exit status it gives.
//!
//! ```text
//! error: `run.pickle` is not a memory snapshot
//!   caused by: byte 0: expected a pickle header (0x80), found 0x50 0x4b (a zip archive)
//! hint: this looks like a `torch.save` file; write a snapshot with …
//! ```

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use highwater_snapshot::ErrorKind;

use crate::printable::printable;

/// Bad usage or bad input.
pub(crate) const BAD_INPUT: u8 = 2;

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// An error in the three parts that a user reads: what, why, and what to do.
#[derive(Debug)]
pub struct Problem {
    what: String,
    cause: Option<String>,
    hint: Option<String>,
}

impl Problem {
    /// A sentence without a full stop, values in backticks.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None, hint: None }
    }

    /// Adds why.
    pub(crate) fn because(self, cause: impl fmt::Display) -> Self {
        Self { cause: Some(cause.to_string()), ..self }
    }

    /// Adds what to do.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// What was wrong: a sentence without a full stop.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Why.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// What to do about it.
    pub fn what_to_do(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// A text whose bytes, under any compression, could not be read; `name` is how the user knows it.
    pub(crate) fn unpacked(name: &str, error: io::Error) -> Self {
        let error = highwater_snapshot::Error::of_reading(error);
        match error.kind() {
            ErrorKind::Overgrown { .. } | ErrorKind::OutOfMemory => Self::unreadable(name, &error),
            _ => Self::new(format!("{name} cannot be read")).because(error),
        }
    }

    /// A file that could not be read; `name` is how the user knows it.
    pub(crate) fn unreadable(name: &str, error: &highwater_snapshot::Error) -> Self {
        let problem = Self::new(format!("{name} {}", error.headline())).because(error);
        Self { hint: error.hint().map(str::to_owned), ..problem }
    }
}

impl From<highwater_cards::NeitherCardNorSize> for Problem {
    fn from(error: highwater_cards::NeitherCardNorSize) -> Self {
        let problem = Self::new(error.to_string()).hint(error.hint());
        match error.cause {
            Some(cause) => problem.because(cause),
            None => problem,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Problem {}

/// Prints an error and gives the exit status.
///
/// A reader that has seen enough (`highwater trace … | head`) is no error.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    // Nobody is left to tell if standard error is closed.
    let _ = print(error);
    ExitCode::from(BAD_INPUT)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn print(error: &anyhow::Error) -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    writeln!(err, "{ERROR}error:{ERROR:#} {}", printable(&error.to_string()))?;
    let problem = error.downcast_ref::<Problem>();
    let causes = error.chain().skip(1).map(ToString::to_string);
    for cause in problem.and_then(|problem| problem.cause.clone()).into_iter().chain(causes) {
        writeln!(err, "  caused by: {}", printable(&cause))?;
    }
    if let Some(hint) = problem.and_then(|problem| problem.hint.as_deref()) {
        writeln!(err, "{HINT}hint:{HINT:#} {}", printable(hint))?;
    }
    Ok(())
}
