//! From a request to the size of its block and of the segment it needs.

use crate::settings::Settings;

/// Sizes of blocks are multiples of this many bytes, and no block is smaller.
pub const MIN_BLOCK_BYTES: u64 = 512;
/// Rounded sizes up to this use the small pool.
pub const SMALL_MAX_BYTES: u64 = 1 << 20;
/// The size of a segment of the small pool, and the page of a small expandable segment.
pub const SMALL_SEGMENT_BYTES: u64 = 2 << 20;
/// Rounded sizes from here on get a segment of their own size.
pub const MIN_LARGE_BYTES: u64 = 10 << 20;
/// The size of a segment for smaller requests of the large pool, unless [`Settings::large_segment_bytes`] says another.
pub const LARGE_SEGMENT_BYTES: u64 = 20 << 20;
/// Segments made to measure are multiples of this many bytes.
pub const LARGE_GRANULE_BYTES: u64 = 2 << 20;

/// The divisions' first entry is for sizes up to 2 MiB: log2 of 1 MiB.
const FIRST_DIVISION_LOG2: u32 = 20;

impl Settings {
    /// The size of the block for `request` bytes.
    ///
    /// At least `request`, and a multiple of [`MIN_BLOCK_BYTES`] as long as every division is below 2^55: from there on
    /// PyTorch's own arithmetic overflows, and so does this. Sizes that `u64` cannot hold become the largest it can;
    /// PyTorch refuses requests from 2^60 bytes before it rounds them.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 3; `round_size` in `c10/cuda/CUDACachingAllocator.cpp`.
    #[inline]
    pub fn round(&self, request: u64) -> u64 {
        let request = request.max(MIN_BLOCK_BYTES);
        let entry = request.ilog2().saturating_sub(FIRST_DIVISION_LOG2).min(15);
        let divisions = self.roundup_power2_divisions[entry as usize];
        if divisions > 1 && request > MIN_BLOCK_BYTES.wrapping_mul(divisions) {
            return round_to_division(request, divisions);
        }
        round_up(request, MIN_BLOCK_BYTES)
    }

    /// The size of the segment asked of the driver for a block of `rounded` bytes.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 4; `get_allocation_size` in `c10/cuda/CUDACachingAllocator.cpp`.
    #[inline]
    pub fn segment_bytes(&self, rounded: u64) -> u64 {
        if rounded <= SMALL_MAX_BYTES {
            SMALL_SEGMENT_BYTES
        } else if rounded < MIN_LARGE_BYTES {
            self.large_segment_bytes
        } else {
            round_up(rounded, LARGE_GRANULE_BYTES)
        }
    }
}

/// `size` rounded up to a multiple of `granule`, a power of two; the largest multiple if that is beyond `u64`.
const fn round_up(size: u64, granule: u64) -> u64 {
    size.saturating_add(granule - 1) & !(granule - 1)
}

/// `size` rounded up to a `divisions`-th of the largest power of two not above it.
fn round_to_division(size: u64, divisions: u64) -> u64 {
    if size.is_power_of_two() {
        return size;
    }
    let floor = 1 << size.ilog2();
    match floor >> divisions.ilog2() {
        0 => round_up(size, floor),
        step => round_up(size, step),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::TorchVersion;

    fn with(conf: &str) -> Settings {
        let mut settings = Settings::new(TorchVersion::NEWEST);
        settings.parse(conf).unwrap();
        settings
    }

    /// The size of the block that is handed out of a new segment: a tail of up to 1 MiB is not split off a large one.
    fn block(rounded: u64, segment: u64) -> u64 {
        if rounded > SMALL_MAX_BYTES && segment - rounded <= SMALL_MAX_BYTES { segment } else { rounded }
    }

    /// The table of section 3: a request, then block and segment under four settings.
    #[test]
    fn blocks_and_segments_are_those_of_pytorch() {
        let settings =
            ["", "roundup_power2_divisions:4", "roundup_power2_divisions:8", "roundup_power2_divisions:[1:4,2:8,>:2]"];
        let small = 2_097_152;
        let large = 20_971_520;
        #[rustfmt::skip]
        let rows: [(u64, [(u64, u64); 4]); 13] = [
            (1, [(512, small); 4]),
            (513, [(1024, small); 4]),
            (1200, [(1536, small); 4]),
            (5000, [(5120, small); 4]),
            (700_000, [(700_416, small), (786_432, small), (720_896, small), (786_432, small)]),
            (1_048_576, [(1_048_576, small); 4]),
            (1_048_577, [(1_049_088, large), (1_310_720, large), (1_179_648, large), (1_310_720, large)]),
            (9_999_999, [(10_000_384, large), (10_485_760, 10_485_760), (10_485_760, 10_485_760), (12_582_912, 12_582_912)]),
            (10_485_759, [(10_485_760, 10_485_760), (10_485_760, 10_485_760), (10_485_760, 10_485_760), (12_582_912, 12_582_912)]),
            (10_485_761, [(10_486_272, 12_582_912), (12_582_912, 12_582_912), (12_582_912, 12_582_912), (12_582_912, 12_582_912)]),
            (20_971_521, [(20_972_032, 23_068_672), (25_165_824, 25_165_824), (23_068_672, 23_068_672), (25_165_824, 25_165_824)]),
            (33_554_433, [(33_554_944, 35_651_584), (41_943_040, 41_943_040), (37_748_736, 37_748_736), (50_331_648, 50_331_648)]),
            (100_000_000, [(100_663_296, 100_663_296); 4]),
        ];
        for (request, sizes) in rows {
            for (conf, (expected, segment)) in settings.iter().zip(sizes) {
                let settings = with(conf);
                let rounded = settings.round(request);
                let needed = settings.segment_bytes(rounded);
                assert_eq!((block(rounded, needed), needed), (expected, segment), "{request} with `{conf}`");
            }
        }
    }

    #[test]
    fn the_configured_segment_serves_sizes_below_10_mib() {
        let settings = with("large_segment_size_mb:64");
        assert_eq!(settings.segment_bytes(SMALL_MAX_BYTES), SMALL_SEGMENT_BYTES);
        assert_eq!(settings.segment_bytes(SMALL_MAX_BYTES + 512), 64 << 20);
        assert_eq!(settings.segment_bytes(MIN_LARGE_BYTES), MIN_LARGE_BYTES);
    }

    /// As PyTorch computes it, on wider numbers.
    fn naive(settings: &Settings, request: u64) -> u128 {
        let n = u128::from(request);
        let up = |step: u128| n.div_ceil(step) * step;
        let entry = (20..35).filter(|log2| n >= 1 << (log2 + 1)).count();
        let d = u128::from(settings.roundup_power2_divisions[entry]);
        let mut floor = 1;
        while floor * 2 <= n {
            floor *= 2;
        }
        match n {
            0..512 => 512,
            _ if d < 2 || n <= 512 * d => up(512),
            _ if floor == n => n,
            _ => up(floor / d),
        }
    }

    fn divisions() -> impl Strategy<Value = [u64; 16]> {
        proptest::array::uniform16(prop_oneof![Just(0), (0..12u32).prop_map(|log2| 1 << log2)])
    }

    fn request() -> impl Strategy<Value = u64> {
        // Every magnitude alike, and close to the powers of two.
        prop_oneof![
            (0..60u32, any::<u64>()).prop_map(|(bits, number)| number >> (63 - bits)),
            (0..60u32, 0..1025u64).prop_map(|(log2, more)| ((1 << log2) + more).saturating_sub(512)),
        ]
    }

    proptest! {
        #[test]
        fn rounding_is_as_pytorch_computes_it(divisions in divisions(), request in request()) {
            let settings = Settings { roundup_power2_divisions: divisions, ..with("") };
            let rounded = settings.round(request);
            prop_assert_eq!(u128::from(rounded), naive(&settings, request));
            prop_assert!(rounded >= request && rounded.is_multiple_of(512));
            prop_assert_eq!(settings.round(rounded), rounded, "a rounded size stays");
            if request >= 512 && request.is_power_of_two() {
                prop_assert_eq!(rounded, request, "a power of two stays");
            }
            let segment = settings.segment_bytes(rounded);
            prop_assert!(segment >= rounded);
        }

        #[test]
        fn rounding_grows_with_the_request_where_divisions_are_alike(log2 in 0..12u32, a in request(), b in request()) {
            let settings = Settings { roundup_power2_divisions: [1 << log2; 16], ..with("") };
            prop_assert!(settings.round(a.min(b)) <= settings.round(a.max(b)));
        }

        #[test]
        fn no_size_and_no_division_overflows(divisions in proptest::array::uniform16(any::<u64>()), size in any::<u64>()) {
            let settings = Settings { roundup_power2_divisions: divisions, ..with("") };
            settings.segment_bytes(settings.round(size));
            settings.segment_bytes(settings.round(u64::MAX - size % 4096));
        }
    }
}
