//! Reads of a device's memory by the host: what they are told, and how many there were that nobody could tell anything.
//!
//! Whoever knows what an operator is about to read says so beforehand ([`highwater_nullgpu_answer_reads`]); the operator then
//! allocates as it would have on a real card.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ffi::{In, Out};

static UNKNOWN: AtomicU64 = AtomicU64::new(0);
static UNKNOWN_BYTES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// What the reads that follow in this thread are told, the next one first.
    static ANSWERS: RefCell<VecDeque<Vec<u8>>> = const { RefCell::new(VecDeque::new()) };
}

/// How often a program read a value of a device that is not known.
pub(crate) fn unknown() -> u64 {
    UNKNOWN.load(Ordering::Relaxed)
}

/// How many bytes those were.
pub(crate) fn unknown_bytes() -> u64 {
    UNKNOWN_BYTES.load(Ordering::Relaxed)
}

/// Counts a read that was told nothing.
pub(crate) fn note_unknown(size: usize) {
    UNKNOWN.fetch_add(1, Ordering::Relaxed);
    UNKNOWN_BYTES.fetch_add(size as u64, Ordering::Relaxed);
}

/// What a read of this many bytes is told, if the next answer is one of as many; a 64-bit number answers for 32 bits too.
pub(crate) fn answer(size: usize) -> Option<Vec<u8>> {
    let fits = |answer: &Vec<u8>| answer.len() == size || (answer.len(), size) == (8, 4);
    let next = |answers: &mut VecDeque<Vec<u8>>| answers.front().is_some_and(fits).then(|| answers.pop_front())?;
    // At the end of a thread there may be reads, but no answers any more.
    let mut answer = ANSWERS.try_with(|answers| next(&mut answers.borrow_mut())).ok()??;
    answer.truncate(size);
    Some(answer)
}

/// How often a program read a value of a device that is not known, by any thread.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_unknown_reads() -> u64 {
    unknown()
}

/// Says what the reads that follow in this thread are told; what was said before is forgotten.
///
/// `packed` is the address of `size` bytes: of each answer its length, as a 64-bit word, and its bytes.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_answer_reads(packed: usize, size: usize) {
    let bytes = In::from(Out::of_argument(packed)).read_bytes(size);
    let mut answers = VecDeque::new();
    let mut rest = bytes.as_slice();
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::try_from(u64::from_ne_bytes(*length)).unwrap_or(usize::MAX);
        let Some((answer, next)) = behind.split_at_checked(length) else { break };
        answers.push_back(answer.to_vec());
        rest = next;
    }
    // As above: a thread that is ending reads nothing more.
    let _ = ANSWERS.try_with(|kept| kept.replace(answers));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_told_in_order_and_only_what_fits() {
        let packed: Vec<u8> = [(4_u64, vec![1, 2, 3, 4]), (1, vec![9]), (8, vec![5; 8])]
            .into_iter()
            .flat_map(|(length, bytes)| [length.to_ne_bytes().to_vec(), bytes].concat())
            .collect();
        highwater_nullgpu_answer_reads(packed.as_ptr() as usize, packed.len());
        assert_eq!(answer(4), Some(vec![1, 2, 3, 4]));
        assert_eq!(answer(8), None, "the next one has another size, and waits");
        assert_eq!(answer(1), Some(vec![9]));
        assert_eq!(std::thread::spawn(|| answer(8)).join().unwrap(), None, "another thread is told nothing");
        assert_eq!(answer(4), Some(vec![5; 4]), "the lower half of a number");
        highwater_nullgpu_answer_reads(packed.as_ptr() as usize, 10);
        assert_eq!(answer(4), None, "what was said before is forgotten, and half an answer is none");
    }
}
