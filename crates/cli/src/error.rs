//! How an error is printed, and which exit status it gives.
//!
//! ```text
//! error: `run.pickle` is not a memory snapshot
//!   caused by: byte 0: expected a pickle header (0x80), found 0x50 0x4b (a zip archive)
//! hint: this looks like a `torch.save` file; write a snapshot with …
//! ```

use std::io::{self, Write as _};
use std::process::ExitCode;

pub use highwater_problem::Problem;
use highwater_snapshot::ErrorKind;

use crate::printable::printable;
use crate::style::{self, BAD, HINT};
use crate::table::{broken_around_code, error_width};

/// Bad usage or bad input.
pub(crate) const BAD_INPUT: u8 = 2;

/// A text whose bytes, under any compression, could not be read; `name` is how the user knows it.
pub(crate) fn unpacked(name: &str, error: io::Error) -> Problem {
    let error = highwater_snapshot::Error::of_reading(error);
    match error.kind() {
        ErrorKind::Overgrown { .. } | ErrorKind::OutOfMemory => error.problem(name),
        _ => Problem::new(format!("{name} cannot be read")).because(error),
    }
}

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
    let mut err = style::stderr();
    let width = error_width();
    writeln!(err, "{BAD}error:{BAD:#}{}", lines("error:", &error.to_string(), width))?;
    let problem = error.downcast_ref::<Problem>();
    let causes = error.chain().skip(1).map(ToString::to_string);
    for cause in problem.map_or_else(Vec::new, |problem| problem.causes().to_vec()).into_iter().chain(causes) {
        writeln!(err, "  caused by:{}", lines("  caused by:", &cause, width))?;
    }
    if let Some(hint) = problem.and_then(Problem::what_to_do) {
        writeln!(err, "{HINT}hint:{HINT:#}{}", lines("hint:", hint, width))?;
    }
    Ok(())
}

/// A text behind its label, which is printed already: in a terminal broken into lines, with commands whole.
fn lines(label: &str, text: &str, width: Option<usize>) -> String {
    const INDENT: &str = "    ";
    const NARROWEST: usize = 40;
    let whole = format!("{label} {}", printable(text));
    let shown = match width {
        Some(width) => {
            let room = width.saturating_sub(INDENT.len()).max(NARROWEST);
            broken_around_code(&whole, room).join(&format!("\n{INDENT}"))
        }
        None => whole,
    };
    shown[label.len()..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_lines_that_begin_below_their_label() {
        let text = "`highwater diff a b` shows what changed, `highwater view a b` both";
        assert_eq!(lines("hint:", text, None), format!(" {text}"));
        assert_eq!(
            lines("hint:", text, Some(44)),
            " `highwater diff a b` shows what\n    changed, `highwater view a b` both"
        );
        assert_eq!(lines("  caused by:", "1 \u{1b}[2J", Some(9)), " 1 \\u{1b}[2J");
    }
}
