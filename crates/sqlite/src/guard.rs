//! Which statements are let through.

use std::sync::{Mutex, PoisonError};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use crate::Reads;

/// Decides on every action of a statement while it is prepared.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    /// Tables are made and filled by this crate alone.
    #[default]
    Open,
    /// A question is looked at.
    Watching(Reads),
    /// Questions are asked.
    Shut,
}

impl Guard {
    /// From now on, notes what is read.
    pub(crate) fn watch(&self) {
        self.set(State::Watching(Vec::new()));
    }

    /// Ends a look at a question: what it reads.
    pub(crate) fn open(&self) -> Reads {
        match self.set(State::Open) {
            State::Watching(reads) => reads,
            State::Open | State::Shut => Vec::new(),
        }
    }

    /// From now on, lets nothing through but questions.
    pub(crate) fn shut(&self) {
        self.set(State::Shut);
    }

    fn set(&self, state: State) -> State {
        std::mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), state)
    }

    /// Whether an action is allowed.
    pub(crate) fn judge(&self, context: &AuthContext<'_>) -> Authorization {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Open) {
            return Authorization::Allow;
        }
        match context.action {
            AuthAction::Read { table_name, column_name } => {
                if let State::Watching(reads) = &mut *state {
                    reads.push((table_name.to_owned(), column_name.to_owned()));
                }
                Authorization::Allow
            }
            AuthAction::Function { function_name } if is_harmless(function_name) => Authorization::Allow,
            AuthAction::Select | AuthAction::Recursive => Authorization::Allow,
            _ => Authorization::Deny,
        }
    }
}

/// Whether a function only computes.
fn is_harmless(function: &str) -> bool {
    !["load_extension", "fts3_tokenizer", "sqlite_log", "rtreecheck", "fts5"]
        .iter()
        .any(|other| function.eq_ignore_ascii_case(other))
}
