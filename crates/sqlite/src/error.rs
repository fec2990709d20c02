//! SQLite's errors in words, with their place in the query.

use highwater_problem::Problem;
use rusqlite::{Error, ErrorCode};

use crate::Limits;

/// What is wrong with a query, and where.
pub(crate) fn problem(error: &Error, sql: &str, limits: Limits) -> Problem {
    let not_answered = || Problem::new("the query cannot be answered");
    if let Error::SqlInputError { msg, offset, .. } = error
        && let Ok(offset) = usize::try_from(*offset)
    {
        let (line, column) = place(sql, offset);
        return Problem::new(format!("line {line}, column {column} of the query: {msg}"));
    }
    match error {
        Error::MultipleStatement => {
            not_answered().because("there is more than one statement in it").hint("ask one question at a time")
        }
        _ => match error.sqlite_error_code() {
            Some(ErrorCode::AuthorizationForStatementDenied) => {
                Problem::new("the query does more than read the tables")
                    .because(message(error))
                    .hint("ask with `SELECT`: tables cannot be changed, and no file or extension can be loaded")
            }
            Some(ErrorCode::OperationInterrupted) => not_answered()
                .because(format!("it did not end within {} million steps of SQLite", limits.steps / 1_000_000))
                .hint("select fewer rows before they are joined"),
            Some(ErrorCode::OutOfMemory) => {
                not_answered().because(format!("it needs more than {} MiB of memory", limits.memory_bytes >> 20))
            }
            _ => not_answered().because(message(error)),
        },
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

/// The line and the column of a byte, both from 1.
fn place(sql: &str, offset: usize) -> (usize, usize) {
    let before = String::from_utf8_lossy(&sql.as_bytes()[..offset.min(sql.len())]);
    let last = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, last.chars().count() + 1)
}
