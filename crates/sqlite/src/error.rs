//! SQLite's errors in words, with their place in the query.

use highwater_problem::Problem;
use rusqlite::{Error, ErrorCode};

use crate::Limits;

/// What is wrong with a query, and where.
pub(crate) fn problem(error: &Error, sql: &str, limits: Limits) -> Problem {
    let not_answered = || Problem::new("the query cannot be answered");
    let told = match error {
        Error::SqlInputError { offset, .. } => usize::try_from(*offset).ok(),
        _ => None,
    };
    let message = message(error);
    let end = || (message == "incomplete input").then(|| sql.trim_end().len());
    if let Some(offset) = told.or_else(|| place_of_name(sql, &message)).or_else(end) {
        let (line, column) = place(sql, offset);
        return Problem::new(format!("line {line}, column {column} of the query: {message}"));
    }
    match error {
        Error::MultipleStatement => {
            not_answered().because("there is more than one statement in it").hint("ask one question at a time")
        }
        _ => match error.sqlite_error_code() {
            Some(ErrorCode::AuthorizationForStatementDenied) => {
                Problem::new("the query does more than read the tables")
                    .because(message)
                    .hint("ask with `SELECT`: tables cannot be changed, and no file or extension can be loaded")
            }
            Some(ErrorCode::OperationInterrupted) => not_answered()
                .because(format!("it did not end within {} million steps of SQLite", limits.steps / 1_000_000))
                .hint("select fewer rows before they are joined"),
            Some(ErrorCode::OutOfMemory) => {
                not_answered().because(format!("it needs more than {} MiB of memory", limits.memory_bytes >> 20))
            }
            _ => not_answered().because(message),
        },
    }
}

/// The error of a file that somebody else wrote, which messages call `shown`.
pub(crate) fn unreadable(error: &Error, shown: &str, limits: Limits) -> Problem {
    let problem = Problem::new(format!("{shown} cannot be read as an SQLite database"));
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => problem
            .because(format!("{}: another program is writing it", message(error)))
            .hint("wait until that program has finished"),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            problem.because(message(error)).hint("copy the file again, or have the program that made it write it again")
        }
        Some(ErrorCode::OperationInterrupted) => {
            problem.because(format!("reading it takes more than {} million steps of SQLite", limits.steps / 1_000_000))
        }
        Some(ErrorCode::OutOfMemory) => {
            problem.because(format!("reading it takes more than {} MiB of memory", limits.memory_bytes >> 20))
        }
        _ => problem.because(message(error)),
    }
}

/// What SQLite says.
pub(crate) fn message(error: &Error) -> String {
    match error {
        Error::SqliteFailure(_, Some(message)) => message.clone(),
        Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

/// Where the name stands that a message ends with, of an error that SQLite gives no place: an unknown table.
fn place_of_name(sql: &str, message: &str) -> Option<usize> {
    let (_, name) = message.strip_prefix("no such table: ").map(|name| name.rsplit_once('.').unwrap_or(("", name)))?;
    let (lower, name) = (sql.to_ascii_lowercase(), name.to_ascii_lowercase());
    let is_word = |at: usize| {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        !lower[..at].ends_with(is_part) && !lower[at + name.len()..].starts_with(is_part)
    };
    lower.match_indices(&*name).map(|(at, _)| at).find(|&at| is_word(at))
}

/// The line and the column of a byte, both from 1.
fn place(sql: &str, offset: usize) -> (usize, usize) {
    let before = String::from_utf8_lossy(&sql.as_bytes()[..offset.min(sql.len())]);
    let last = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, last.chars().count() + 1)
}
