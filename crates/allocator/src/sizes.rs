//! How large a block and a segment are for a request.

use crate::settings::Settings;

/// Sizes of blocks are multiples of this.
pub const MIN_BLOCK: u64 = 512;
/// The largest rounded size of the small pool.
pub const SMALL_MAX: u64 = 1 << 20;
/// The segment of the small pool.
pub const SMALL_SEGMENT: u64 = 2 << 20;
/// Rounded sizes from here on get a segment of their own size.
pub const MIN_LARGE: u64 = 10 << 20;
/// Segments of such sizes are multiples of this.
pub const ROUND_LARGE: u64 = 2 << 20;
/// Requests from here on are refused at once.
pub const TOO_LARGE: u64 = 1 << 60;

impl Settings {
    /// The size of the block for a request.
    #[inline]
    pub fn round(&self, request: u64) -> u64 {
        if request < MIN_BLOCK {
            return MIN_BLOCK;
        }
        let entry = (request.ilog2().saturating_sub(20) as usize).min(15);
        let divisions = self.roundup_power2_divisions[entry];
        if divisions > 1 && request > MIN_BLOCK * divisions {
            let power = 1 << request.ilog2();
            if request == power {
                return request;
            }
            let step = power / divisions;
            return if step == 0 { 2 * power } else { request.next_multiple_of(step) };
        }
        request.next_multiple_of(MIN_BLOCK)
    }

    /// What the driver is asked for.
    #[inline]
    pub fn segment_bytes(&self, rounded: u64) -> u64 {
        if rounded <= SMALL_MAX {
            SMALL_SEGMENT
        } else if rounded < MIN_LARGE {
            self.large_segment_bytes
        } else {
            rounded.next_multiple_of(ROUND_LARGE)
        }
    }
}
