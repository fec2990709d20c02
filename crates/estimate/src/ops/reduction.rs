//! Sums over rows, and what the kernel works in.

use crate::dtype::DType;
use crate::shape::{Shape, dim};
use crate::tape::{Tape, Tensor};

/// How a column sum is spread over the card.
///
/// # Source
/// PyTorch v2.11, `aten/src/ATen/native/cuda/Reduce.cuh`, `setReduceConfig`, `ReduceConfig::global_memory_size` and
/// `semaphore_size`: columns are spread over blocks; if each thread still had 256 rows or more and there are few blocks, rows are spread
/// over blocks too, which meet in global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ColumnSum {
    scratch_bytes: u64,
    semaphore_bytes: u64,
}

const MAX_THREADS: u64 = 512;
const WARP: u64 = 32;

fn last_power_of_two(value: u64) -> u64 {
    if value == 0 { 1 } else { 1 << value.ilog2() }
}

impl ColumnSum {
    fn of(rows: u64, columns: u64, multiprocessors: u64, threads_of_one: u64) -> ColumnSum {
        let none = ColumnSum { scratch_bytes: 0, semaphore_bytes: 0 };
        if rows <= 1 || columns <= 1 {
            return none;
        }
        let vector = [4, 2, 1].into_iter().find(|vector| columns.is_multiple_of(*vector)).unwrap_or(1);
        let most_threads = MAX_THREADS / vector;
        let (width, height) = (last_power_of_two(columns / vector), last_power_of_two(rows));
        let block_width = width.min(WARP);
        let block_height = height.min(most_threads / block_width);
        let block_width = width.min(most_threads / block_height);
        let threads = block_width * block_height;
        let splits_rows = rows >= (block_height * 16).min(256);
        let (values, column_step) =
            if splits_rows { (rows.div_ceil(block_height), block_width) } else { (rows, block_width * block_height) };
        let grid = (columns / vector).div_ceil(column_step);
        let target = multiprocessors * (threads_of_one / threads.max(1));
        if !splits_rows || values < 256 || grid > target {
            return none;
        }
        let blocks = target.div_ceil(grid).min(values.div_ceil(16)).max(values.div_ceil(256));
        if blocks <= 1 {
            return none;
        }
        let scratch_bytes = columns.saturating_mul(4 * blocks * block_width * vector);
        ColumnSum { scratch_bytes, semaphore_bytes: grid.saturating_mul(4) }
    }
}

impl Tape {
    /// What `sum` over all rows of a matrix works in, once its output is there.
    pub(crate) fn column_sum_scratch(&mut self, rows: u64, columns: u64) {
        let sum = ColumnSum::of(rows, columns, self.platform.multiprocessors, self.platform.threads_per_multiprocessor);
        if sum.scratch_bytes > 0 {
            let scratch = self.scratch("column sum: partial sums", sum.scratch_bytes);
            let semaphores = self.scratch("column sum: semaphores", sum.semaphore_bytes);
            drop((scratch, semaphores));
        }
    }

    /// Bytes that a kernel works in.
    pub(crate) fn scratch(&mut self, name: &'static str, bytes: u64) -> Tensor {
        self.alloc_as(crate::tape::Category::Temporary, name, Shape::of(&[dim("bytes", bytes)]), DType::Byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bias_of_a_vocabulary_needs_what_was_measured_on_an_h200() {
        // BERT's decoder bias, 2,048 rows: 23,440,896 bytes in `testdata/estimates`.
        assert_eq!(ColumnSum::of(2048, 30_522, 132, 2048).scratch_bytes, 23_440_896);
        assert_eq!(ColumnSum::of(128, 30_522, 132, 2048).scratch_bytes, 0);
    }
}
