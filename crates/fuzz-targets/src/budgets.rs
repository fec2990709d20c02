//! `highwater.toml`.

/// A file of budgets is read, or refused with a reason.
pub fn budgets(bytes: &[u8]) {
    if let Err(problem) = highwater_cli::fuzzing::read_budgets(bytes.to_vec()) {
        assert!(!problem.to_string().is_empty());
    }
}
