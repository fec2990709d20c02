//! The tables of `torch.cuda.memory_summary` in a log.
//!
//! # Source
//! torch 2.11, `torch/cuda/memory.py`: the same rows since 1.4, with `KB`, `MB` and `GB` for `KiB`, `MiB` and `GiB` up to 1.12, without
//! `Requested memory` up to 1.12, without the rows of pools if `abbreviated`. `torch_npu` and XPU print the same with their own name.

use memchr::memmem;
use rustc_hash::FxHashMap;

use super::{Found, leading_number};
use crate::message::{Read, amount, without_blanks};

/// Tables that are kept, and processes that may be printing one.
const MAX_SUMMARIES: usize = 64;

/// What the first line of a table holds.
const HEADER: &str = "memory summary, device ID";
/// What its second line holds, and the rows, with the row's place in [`MemorySummary::rows`].
const OOMS: &str = "OOMs: ";
const RETRIES: &str = "retries: ";
const ROWS: [&str; 5] =
    ["Allocated memory  ", "Active memory  ", "Requested memory  ", "GPU reserved memory", "Non-releasable memory"];

/// Bytes that a line of a table holds.
pub(super) const ANCHORS: [&str; 7] = [HEADER, OOMS, ROWS[0], ROWS[1], ROWS[2], ROWS[3], ROWS[4]];

/// A table of the allocator's totals; sizes are in bytes, as printed: whole units, rounded down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySummary {
    /// The line of its heading, from 1 on.
    pub line: u64,
    /// The process in the job.
    pub rank: Option<u32>,
    /// The device's ordinal.
    pub device: Option<u32>,
    /// Requests that failed.
    pub ooms: u64,
    /// Times that the driver refused, and the allocator released its cache and tried again.
    pub retries: u64,
    /// Now and at the peak: allocated, active, requested, reserved, and free in segments that are in use.
    rows: [Option<(u64, u64)>; ROWS.len()],
}

impl MemorySummary {
    /// In blocks that tensors own, now and at the peak.
    pub fn allocated(&self) -> Option<(u64, u64)> {
        self.rows[0]
    }

    /// The same with blocks that wait for another stream.
    pub fn active(&self) -> Option<(u64, u64)> {
        self.rows[1]
    }

    /// Before rounding; since 1.13.
    pub fn requested(&self) -> Option<(u64, u64)> {
        self.rows[2]
    }

    /// In segments.
    pub fn reserved(&self) -> Option<(u64, u64)> {
        self.rows[3]
    }

    /// Free in segments that are partly in use, so that the driver cannot have it back.
    pub fn non_releasable(&self) -> Option<(u64, u64)> {
        self.rows[4]
    }
}

/// Reads tables line by line, of each writer its own.
#[derive(Clone, Debug, Default)]
pub(super) struct SummaryReader {
    /// The table that a writer is printing, by its place in [`Found::summaries`].
    open: FxHashMap<Vec<u8>, usize>,
}

impl SummaryReader {
    /// Takes a line of a writer.
    pub(super) fn read(&mut self, body: &[u8], key: &[u8], rank: Option<u32>, found: &mut Found) {
        if let Some(device) = after(body, HEADER) {
            if found.summaries.len() >= MAX_SUMMARIES || self.open.len() >= MAX_SUMMARIES {
                self.open.remove(key);
                return;
            }
            self.open.insert(key.to_vec(), found.summaries.len());
            let device = leading_number(device.trim_ascii_start());
            found.summaries.push(MemorySummary { line: found.lines + 1, rank, device, ..MemorySummary::default() });
            return;
        }
        let Some(summary) = self.open.get(key).and_then(|&at| found.summaries.get_mut(at)) else { return };
        let count = |words| after(body, words).and_then(|rest| leading_number(rest.trim_ascii_start())).map(u64::from);
        if let (Some(ooms), Some(retries)) = (count(OOMS), count(RETRIES)) {
            (summary.ooms, summary.retries) = (ooms, retries);
            return;
        }
        for (row, name) in summary.rows.iter_mut().zip(ROWS) {
            if let Some(rest) = after(body, name) {
                let mut cells = rest.split(|&byte| byte == b'|').skip(1).map(bytes);
                if let (Some(Some(now)), Some(Some(peak))) = (cells.next(), cells.next()) {
                    *row = Some((now, peak));
                }
            }
        }
        // The last of its rows of bytes.
        if summary.rows[ROWS.len() - 1].is_some() {
            self.open.remove(key);
        }
    }
}

fn after<'l>(line: &'l [u8], words: &str) -> Option<&'l [u8]> {
    memmem::find(line, words.as_bytes()).map(|at| &line[at + words.len()..])
}

/// `1062 MiB`, `1062 MB`, `512 B`: all powers of 1024.
fn bytes(cell: &[u8]) -> Option<u64> {
    // A number that ends the text may go on; a cell is whole.
    let text = [&*without_blanks(cell), b"|"].concat();
    match amount(&text, true) {
        Read::Found(bytes, _) => Some(bytes),
        Read::Absent | Read::Short => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::LogReader;

    const MIB: u64 = 1 << 20;

    #[test]
    fn tables_of_two_ranks_between_each_other_are_read_old_and_new() {
        let mut log = LogReader::new();
        log.push(
            b"[rank0]: |===========================================================================|\n\
              [rank0]: |                  PyTorch CUDA memory summary, device ID 0                 |\n\
              [rank1]: |                  PyTorch CUDA memory summary, device ID 1                 |\n\
              [rank0]: |            CUDA OOMs: 1            |        cudaMalloc retries: 6         |\n\
              [rank1]: |            CUDA OOMs: 0            |        cudaMalloc retries: 0         |\n\
              [rank0]: | Allocated memory      |    1062 MB |    4877 MB |   89299 MB |   88237 MB |\n\
              [rank1]: | Allocated memory      |  76800 KiB |      2 GiB |   89299 MiB |   88237 MiB |\n\
              [rank0]: |       from large pool |    1048 MB |    4865 MB |   89263 MB |   88215 MB |\n\
              [rank0]: | GPU reserved memory   |   12420 MB |   12420 MB |   16924 MB |    4504 MB |\n\
              [rank1]: | Requested memory      |  70000 KiB |      2 GiB |   89299 MiB |   88237 MiB |\n\
              [rank0]: | Non-releasable memory |    1429 MB |    3000 MB |   50000 MB |   48571 MB |\n\
              [rank0]: | Allocations           |     512    |     600    |   10000    |    9488    |\n",
        );
        let found = log.finish();
        let [first, second] = &found.summaries[..] else { panic!("{:?}", found.summaries) };
        assert_eq!((first.rank, first.device, first.ooms, first.retries), (Some(0), Some(0), 1, 6));
        assert_eq!((first.allocated(), first.requested()), (Some((1062 * MIB, 4877 * MIB)), None));
        assert_eq!(first.reserved(), Some((12420 * MIB, 12420 * MIB)));
        assert_eq!(first.non_releasable(), Some((1429 * MIB, 3000 * MIB)));
        assert_eq!((second.rank, second.allocated()), (Some(1), Some((75 * MIB, 2048 * MIB))));
        assert_eq!(second.requested(), Some((70000 << 10, 2048 * MIB)));
    }
}
