//! Answers.
