//! The words for what can be chosen, with what each means: those of the command line, of a request and of the page.

use crate::dtype::DType;
use crate::setup::{
    Attention, CacheKind, Keep, LoraTargets, Loss, Mode, Offload, Optimizer, Quantisation, Sharding, TorchRelease,
};

/// A set of things with names, of which one is chosen.
pub trait Choice: Copy + PartialEq + 'static {
    /// Name, value, and what it means where the name does not say it. The first is taken if nobody chooses.
    const ALL: &'static [(&'static str, Self, &'static str)];

    /// How the help calls one.
    const VALUE: &'static str = "NAME";

    /// The one of a name.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|&(_, value, _)| value)
    }

    /// The one that is taken if nobody chooses.
    fn first() -> Self {
        Self::ALL[0].1
    }

    /// Its first name; empty for what cannot be chosen.
    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, value, _)| *value == self).map_or("", |&(name, ..)| name)
    }
}

/// Tokens that `generate` makes if nobody says how many.
pub(crate) const NEW_TOKENS: u64 = 64;

impl Choice for Optimizer {
    const ALL: &'static [(&'static str, Optimizer, &'static str)] = &[
        ("adamw", Optimizer::AdamW, ""),
        ("adamw-fused", Optimizer::AdamWFused, ""),
        ("adamw-foreach-off", Optimizer::AdamWLoop, ""),
        ("adamw-amsgrad", Optimizer::AdamWAmsgrad, ""),
        ("adam", Optimizer::AdamW, ""),
        ("sgd", Optimizer::Sgd, ""),
        ("sgd-momentum", Optimizer::SgdMomentum, ""),
        ("rmsprop", Optimizer::RmsProp, ""),
        ("adagrad", Optimizer::Adagrad, ""),
        ("adadelta", Optimizer::Adadelta, ""),
        ("nadam", Optimizer::NAdam, ""),
        ("radam", Optimizer::RAdam, ""),
        ("adamax", Optimizer::Adamax, ""),
        ("adafactor", Optimizer::Adafactor, ""),
        ("muon", Optimizer::Muon, ""),
        ("lion", Optimizer::Lion, ""),
        ("adamw8bit", Optimizer::AdamW8bit, ""),
        ("paged-adamw8bit", Optimizer::PagedAdamW8bit, ""),
        ("lion8bit", Optimizer::Lion8bit, ""),
    ];
}

impl Choice for Attention {
    const ALL: &'static [(&'static str, Attention, &'static str)] =
        &[("sdpa", Attention::Sdpa, ""), ("eager", Attention::Eager, ""), ("flash", Attention::Flash, "")];
}

impl Choice for Loss {
    const ALL: &'static [(&'static str, Loss, &'static str)] = &[
        ("labels", Loss::Labels, "`model(**x, labels=…).loss`"),
        ("mean-logits", Loss::MeanLogits, "`model(**x).logits.mean()`"),
    ];
}

impl Choice for Keep {
    const ALL: &'static [(&'static str, Keep, &'static str)] =
        &[("outputs", Keep::Outputs, "`out = model(**x)`"), ("loss", Keep::Loss, "`loss = model(**x).loss`")];
}

impl Choice for Mode {
    const ALL: &'static [(&'static str, Mode, &'static str)] = &[
        ("train", Mode::Train, "Forward, backward, step"),
        ("forward", Mode::Forward, "One forward pass without gradients"),
        ("generate", Mode::Generate { new_tokens: NEW_TOKENS }, "The prompt and new tokens"),
    ];
}

impl Choice for CacheKind {
    const ALL: &'static [(&'static str, CacheKind, &'static str)] = &[
        ("dynamic", CacheKind::Dynamic, ""),
        ("static", CacheKind::Static, ""),
        ("8", CacheKind::Quantised { bits: 8 }, ""),
        ("4", CacheKind::Quantised { bits: 4 }, ""),
        ("2", CacheKind::Quantised { bits: 2 }, ""),
    ];

    const VALUE: &'static str = "KIND";

    /// Also as in `8bit` and `8-bit`.
    fn named(name: &str) -> Option<CacheKind> {
        let name = name.trim_end_matches("bit").trim_end_matches('-');
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|&(_, value, _)| value)
    }
}

impl Choice for Offload {
    const ALL: &'static [(&'static str, Offload, &'static str)] = &[
        ("none", Offload::None, ""),
        ("model", Offload::Model, "`enable_model_cpu_offload()`"),
        ("sequential", Offload::Sequential, "`enable_sequential_cpu_offload()`"),
    ];

    const VALUE: &'static str = "KIND";
}

impl Choice for LoraTargets {
    const ALL: &'static [(&'static str, LoraTargets, &'static str)] = &[
        ("query-value", LoraTargets::QueryValue, "Queries and values, the default of peft"),
        ("attention", LoraTargets::Attention, "All projections of attention"),
        ("all-linear", LoraTargets::AllLinear, "Every linear layer but the head"),
    ];
}

/// A stage of `ZeRO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroStage(Sharding);

impl ZeroStage {
    pub(crate) fn sharding(self) -> Sharding {
        self.0
    }
}

impl Choice for ZeroStage {
    const ALL: &'static [(&'static str, ZeroStage, &'static str)] = &[
        ("0", ZeroStage(Sharding::None), "Nothing is sharded"),
        ("1", ZeroStage(Sharding::Zero1), "Optimizer state"),
        ("2", ZeroStage(Sharding::Zero2), "Optimizer state and gradients"),
        ("3", ZeroStage(Sharding::Zero3), "Optimizer state, gradients and parameters"),
    ];

    const VALUE: &'static str = "STAGE";
}

impl Choice for DType {
    const ALL: &'static [(&'static str, DType, &'static str)] =
        &[("float32", DType::Float32, ""), ("bfloat16", DType::BFloat16, ""), ("float16", DType::Float16, "")];

    const VALUE: &'static str = "TYPE";

    /// Also `torch.bfloat16` and the usual short names.
    fn named(name: &str) -> Option<DType> {
        DType::named(name)
    }
}

impl Choice for Quantisation {
    const ALL: &'static [(&'static str, Quantisation, &'static str)] =
        &[("nf4", Quantisation::Nf4, ""), ("nf4-double", Quantisation::Nf4Double, "Quantise its scales too")];
}

impl Choice for TorchRelease {
    const ALL: &'static [(&'static str, TorchRelease, &'static str)] =
        &[("2.11", TorchRelease::V2_11, ""), ("2.15", TorchRelease::V2_15, "")];

    const VALUE: &'static str = "VERSION";

    /// Any release: the rules of the newest that is not newer hold.
    fn named(name: &str) -> Option<TorchRelease> {
        let mut parts = name.split('.').map(str::parse::<u32>);
        match (parts.next(), parts.next()) {
            (Some(Ok(2)), Some(Ok(minor))) if minor >= 15 => Some(TorchRelease::V2_15),
            (Some(Ok(2)), Some(Ok(_))) => Some(TorchRelease::V2_11),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_name_names_its_value<T: Choice + std::fmt::Debug>() {
        for &(name, value, _) in T::ALL {
            assert_eq!(T::named(name), Some(value), "{name}");
            assert_eq!(T::named(value.name()), Some(value), "{name}");
        }
        assert_eq!(T::named(""), None);
    }

    #[test]
    fn names_are_unique_and_found() {
        every_name_names_its_value::<Optimizer>();
        every_name_names_its_value::<Attention>();
        every_name_names_its_value::<Loss>();
        every_name_names_its_value::<Keep>();
        every_name_names_its_value::<Mode>();
        every_name_names_its_value::<CacheKind>();
        every_name_names_its_value::<LoraTargets>();
        every_name_names_its_value::<Quantisation>();
        every_name_names_its_value::<TorchRelease>();
        every_name_names_its_value::<ZeroStage>();
        every_name_names_its_value::<DType>();
        assert_eq!(TorchRelease::named("2.16.1"), Some(TorchRelease::V2_15));
    }
}
