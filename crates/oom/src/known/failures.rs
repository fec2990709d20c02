//! Every failure that is known by its words, beside PyTorch's own message.

use std::sync::LazyLock;

use super::{Row, engines, host, libraries, not_memory};

/// The rows. Of those with the same `id` the first that a text matches counts, so the one with more numbers stands first.
pub(crate) static FAILURES: LazyLock<Vec<Row>> =
    LazyLock::new(|| [engines::ROWS, libraries::ROWS, host::ROWS, not_memory::ROWS].concat());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::find;
    use crate::message::Read;

    #[test]
    fn every_row_begins_with_words_that_stand_for_something() {
        for row in FAILURES.iter() {
            let is_whole = row.pattern.starts_with("{^}");
            let pattern = row.pattern.strip_prefix("{^}").unwrap_or(row.pattern);
            let words = pattern.split('{').next().unwrap_or_default();
            assert!(words.len() >= if is_whole { 5 } else { 7 }, "{}", row.pattern);
            assert!(row.anchor().len() >= 5, "{}: {}", row.pattern, row.anchor());
        }
    }

    #[test]
    fn a_posted_text_is_found() {
        let text =
            b"maxseqlen(34736),(24.0GiBKVcacheisneeded,whichislargerthantheavailableKVcachememory(3.18GiB).Basedonthe\
            availablememory,theestimatedmaximummodellengthis4592.";
        let found = FAILURES.iter().find(|row| matches!(find(row.pattern, text), Read::Found(..))).unwrap();
        assert_eq!(found.id, "vllm-kv-too-small");
    }
}
