//! The sizes of batches, sequences, vocabularies and heads that a log names.

use crate::engine::value_of;

/// Different sizes of one kind that are kept: with more, none is the run's.
const MAX_SIZES: usize = 4;
/// Of a line so much is read.
const LINE_BYTES: usize = 16 << 10;

/// Bytes that a line with such a size holds.
pub(super) const ANCHORS: [&str; 12] = [
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

const BATCHES: [&str; 6] = [
    "per_device_train_batch_size",
    "train_micro_batch_size_per_gpu",
    "micro_batch_size_per_gpu",
    "micro_batch_size",
    "train_batch_size",
    "batch_size",
];
const SEQUENCES: [&str; 8] = [
    "max_seq_length",
    "max_seq_len",
    "seq_length",
    "seq_len",
    "sequence_length",
    "model_max_length",
    "max_length",
    "cutoff_len",
];
const VOCABULARIES: [&str; 2] = ["padded_vocab_size", "vocab_size"];
const HEADS: [&str; 1] = ["num_attention_heads"];

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
        let even: Vec<u8> = line.iter().map(|&byte| if byte == b'-' { b'_' } else { byte }).collect();
        let kinds: [(&[&str], &mut Vec<u64>); 4] = [
            (&BATCHES, &mut self.batches),
            (&SEQUENCES, &mut self.sequences),
            (&VOCABULARIES, &mut self.vocabularies),
            (&HEADS, &mut self.heads),
        ];
        for (names, sizes) in kinds {
            for name in names {
                let value = value_of(name, line, &even).and_then(|value| value.trim().parse::<u64>().ok());
                if let Some(size) = value.filter(|size| *size > 0 && !sizes.contains(size))
                    && sizes.len() <= MAX_SIZES
                {
                    sizes.push(size);
                }
            }
        }
    }

    /// The sizes of a kind; none where there are too many.
    pub(crate) fn of(sizes: &[u64]) -> &[u64] {
        if sizes.len() > MAX_SIZES { &[] } else { sizes }
    }
}
