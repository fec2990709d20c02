//! The sizes of batches, sequences, vocabularies and heads that a log names.

use std::sync::LazyLock;

use crate::engine::Names;

/// Different sizes of one kind that are kept: with more, none is the run's.
const MAX_SIZES: usize = 4;
/// Of a line so much is read.
const LINE_BYTES: usize = 16 << 10;

/// Bytes that a line with such a size holds.
pub(super) const ANCHORS: [&str; 14] = [
    "atch size per device",
    "batch size",
    "batch_size",
    "batch-size",
    "vocab_size",
    "vocab-size",
    "seq_len",
    "seq-len",
    "max_length",
    "max-length",
    "cutoff_len",
    "cutoff-len",
    "attention_heads",
    "attention-heads",
];

/// What a size is of.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Batch,
    Sequence,
    Vocabulary,
    Heads,
}

static NAMES: LazyLock<Names<Kind>> = LazyLock::new(|| {
    Names::new(&[
        ("per_device_train_batch_size", Kind::Batch),
        ("train_micro_batch_size_per_gpu", Kind::Batch),
        ("micro_batch_size_per_gpu", Kind::Batch),
        ("micro_batch_size", Kind::Batch),
        ("train_batch_size", Kind::Batch),
        ("batch_size", Kind::Batch),
        ("Batch size per device ", Kind::Batch),
        ("batch size", Kind::Batch),
        ("max_seq_length", Kind::Sequence),
        ("max_seq_len", Kind::Sequence),
        ("seq_length", Kind::Sequence),
        ("seq_len", Kind::Sequence),
        ("sequence_length", Kind::Sequence),
        ("model_max_length", Kind::Sequence),
        ("max_length", Kind::Sequence),
        ("cutoff_len", Kind::Sequence),
        ("padded_vocab_size", Kind::Vocabulary),
        ("vocab_size", Kind::Vocabulary),
        ("num_attention_heads", Kind::Heads),
    ])
});

/// The different sizes that a log names, of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dimensions {
    /// Sequences in a batch.
    pub batches: Vec<u64>,
    /// Tokens in a sequence.
    pub sequences: Vec<u64>,
    /// Entries of the vocabulary.
    pub vocabularies: Vec<u64>,
    /// Heads of the attention.
    pub heads: Vec<u64>,
}

impl Dimensions {
    /// Takes the sizes that a line names.
    pub(super) fn read(&mut self, line: &[u8]) {
        let line = &line[..line.len().min(LINE_BYTES)];
        for (kind, value) in NAMES.values(line) {
            let sizes = match kind {
                Kind::Batch => &mut self.batches,
                Kind::Sequence => &mut self.sequences,
                Kind::Vocabulary => &mut self.vocabularies,
                Kind::Heads => &mut self.heads,
            };
            let size = value.trim().parse::<u64>().ok();
            if let Some(size) = size.filter(|size| *size > 0 && !sizes.contains(size))
                && sizes.len() <= MAX_SIZES
            {
                sizes.push(size);
            }
        }
    }

    /// The sizes of a kind; none where there are too many.
    pub(crate) fn of(sizes: &[u64]) -> &[u64] {
        if sizes.len() > MAX_SIZES { &[] } else { sizes }
    }
}
