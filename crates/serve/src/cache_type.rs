//! The types of a cache, by their names in all engines.

use crate::version::Engine;

/// The type of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheType {
    /// As the model.
    Auto,
    /// 16 bits.
    Half,
    /// 32 bits.
    Float32,
    /// 8 bits.
    Fp8,
    /// Bits of 32 numbers together, with their scale: llama.cpp's types.
    Packed(u64),
}

impl CacheType {
    /// All names.
    const NAMES: &'static [(&'static str, CacheType)] = &[
        ("auto", CacheType::Auto),
        ("bfloat16", CacheType::Half),
        ("bf16", CacheType::Half),
        ("float16", CacheType::Half),
        ("f16", CacheType::Half),
        ("f32", CacheType::Float32),
        ("fp8", CacheType::Fp8),
        ("fp8_e4m3", CacheType::Fp8),
        ("fp8_e5m2", CacheType::Fp8),
        ("fp8_inc", CacheType::Fp8),
        ("fp8_ds_mla", CacheType::Fp8),
        ("q8_0", CacheType::Packed(34 * 8)),
        ("q6_0", CacheType::Packed(26 * 8)),
        ("q5_1", CacheType::Packed(24 * 8)),
        ("q5_0", CacheType::Packed(22 * 8)),
        ("q4_1", CacheType::Packed(20 * 8)),
        ("q4_0", CacheType::Packed(18 * 8)),
        ("iq4_nl", CacheType::Packed(18 * 8)),
        ("fp4_e2m1", CacheType::Packed(18 * 8)),
    ];

    /// The names that people choose among for an engine.
    pub fn usual_names(engine: Engine) -> &'static [&'static str] {
        match engine {
            Engine::Vllm | Engine::Sglang => &["auto", "fp8"],
            Engine::LlamaCpp => &["f16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"],
            Engine::Transformers => &[],
        }
    }

    pub(crate) fn named(name: &str) -> Option<CacheType> {
        let name = name.to_ascii_lowercase();
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Bytes of so many numbers.
    pub fn bytes(self, numbers: u64, element: u64) -> u64 {
        match self {
            CacheType::Auto => numbers.saturating_mul(element),
            CacheType::Half => numbers.saturating_mul(2),
            CacheType::Float32 => numbers.saturating_mul(4),
            CacheType::Fp8 => numbers,
            CacheType::Packed(bits) => numbers.saturating_mul(bits).div_ceil(256),
        }
    }
}
