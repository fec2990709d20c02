//! Every distinct string once.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::StringId;
use crate::error::ErrorKind;
use crate::room;
use crate::spans::span;

/// The distinct strings of a snapshot, in order of first appearance.
///
/// One buffer holds all text; row `i` ends at `ends[i]` and begins where the row before it ends.
#[derive(Clone, Debug, Default)]
pub struct StringTable {
    text: String,
    ends: Vec<usize>,
    index: HashTable<u32>,
    /// With a seed of its own: a file cannot choose strings whose hashes collide.
    hasher: DefaultHashBuilder,
    short: ShortStrings,
}

impl StringTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The id of `text`, which is added if it is new.
    pub fn intern(&mut self, text: &str) -> StringId {
        if let Some(id) = self.short.get(text.as_bytes()) {
            return id;
        }
        let hash = self.hasher.hash_one(text);
        let (all, ends) = (&self.text, &self.ends);
        let id = match self.index.find(hash, |&row| &all[span(ends, row)] == text) {
            Some(&row) => StringId::new(row),
            None => self.push(text, hash),
        };
        self.short.put(text.as_bytes(), id);
        id
    }

    /// Makes room for another text of so many bytes.
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<(), ErrorKind> {
        self.text.try_reserve(bytes).map_err(|_| ErrorKind::OutOfMemory)?;
        room::make(&mut self.ends, 1)?;
        let (all, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        let hash = |&row: &u32| hasher.hash_one(&all[span(ends, row)]);
        self.index.try_reserve(1, hash).map_err(|_| ErrorKind::OutOfMemory)
    }

    fn push(&mut self, text: &str, hash: u64) -> StringId {
        let id = StringId::from_index(self.ends.len());
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let (all, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        self.index.insert_unique(hash, id.get(), |&row| hasher.hash_one(&all[span(ends, row)]));
        id
    }

    /// As [`intern`](Self::intern), for bytes known to be short and to recur, if they were seen before.
    pub(crate) fn recall(&self, bytes: &[u8]) -> Option<StringId> {
        self.short.get(bytes)
    }

    /// The text of `id`; empty for [`StringId::MISSING`].
    pub fn get(&self, id: StringId) -> &str {
        if id == StringId::MISSING { "" } else { &self.text[span(&self.ends, id.get())] }
    }

    /// The id of `text`, if it is in the table.
    pub fn find(&self, text: &str) -> Option<StringId> {
        let hash = self.hasher.hash_one(text);
        self.index.find(hash, |&row| &self.text[span(&self.ends, row)] == text).map(|&row| StringId::new(row))
    }

    /// Replaces every text; the ids stay, also where two texts become equal.
    pub(crate) fn rewrite(&mut self, change: impl Fn(StringId, &str) -> String) {
        let old = std::mem::take(self);
        for row in 0..old.len() {
            let id = StringId::from_index(row);
            let text = change(id, old.get(id));
            self.push(&text, self.hasher.hash_one(text.as_str()));
        }
    }

    /// Number of strings, distinct unless they were rewritten.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no string.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// A small cache in front of the table: PyTorch writes some short strings (`N/A`) anew with each entry.
#[derive(Clone, Debug)]
struct ShortStrings {
    slots: Vec<(u64, StringId)>,
}

impl Default for ShortStrings {
    fn default() -> Self {
        Self { slots: vec![(u64::MAX, StringId::MISSING); 256] }
    }
}

impl ShortStrings {
    /// Up to seven bytes and their number in one word: equal words, equal strings.
    fn key(bytes: &[u8]) -> Option<u64> {
        if bytes.len() > 7 {
            return None;
        }
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        word[7] = u8::try_from(bytes.len()).ok()?;
        Some(u64::from_le_bytes(word))
    }

    fn slot(key: u64) -> usize {
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize
    }

    fn get(&self, bytes: &[u8]) -> Option<StringId> {
        let key = Self::key(bytes)?;
        let (found, id) = self.slots[Self::slot(key)];
        (found == key).then_some(id)
    }

    fn put(&mut self, bytes: &[u8], id: StringId) {
        if let Some(key) = Self::key(bytes) {
            self.slots[Self::slot(key)] = (key, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_text_has_one_id_and_every_text_comes_back() {
        let mut table = StringTable::new();
        let texts = ["", "N/A", "alloc", "a longer string than eight bytes", "é", "N/A", ""];
        let ids: Vec<_> = texts.iter().map(|t| table.intern(t)).collect();
        assert_eq!(ids[1], ids[5]);
        assert_eq!(ids[0], ids[6]);
        assert_eq!(table.len(), 5);
        for (text, id) in texts.iter().zip(&ids) {
            assert_eq!(table.get(*id), *text);
            assert_eq!(table.find(text), Some(*id));
        }
        assert_eq!(table.find("absent"), None);
        assert_eq!(table.get(StringId::MISSING), "");
    }
}
