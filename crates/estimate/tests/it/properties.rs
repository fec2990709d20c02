//! What holds of every set-up.

use highwater_estimate::{
    Attention, CacheKind, DType, Mode, Offload, Optimizer, Setup, Sharding, TorchRelease, estimate,
    peak_requested_bytes, read,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn config(kind: &str, layers: u64, kv: u64) -> Value {
    match kind {
        "gpt2" => json!({"model_type": "gpt2", "n_embd": 128, "n_layer": layers, "n_head": 4, "vocab_size": 1000}),
        "bert" => {
            json!({"model_type": "bert", "hidden_size": 128, "num_hidden_layers": layers, "num_attention_heads": 4,
            "intermediate_size": 512, "vocab_size": 1000})
        }
        _ => {
            json!({"model_type": kind, "hidden_size": 128, "num_hidden_layers": layers, "num_attention_heads": 4, "num_key_value_heads": kv,
            "head_dim": 32, "intermediate_size": 256, "vocab_size": 1000, "tie_word_embeddings": true})
        }
    }
}

fn setup(batch: u64, seq: u64, kind: u8) -> Setup {
    let setup = Setup::training(batch, seq);
    match kind {
        0 => setup,
        1 => Setup { dtype: DType::BFloat16, ..setup },
        _ => Setup { autocast: Some(DType::BFloat16), ..setup },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn more_never_needs_less(
        kind in prop::sample::select(vec!["llama", "qwen2", "qwen3", "gemma", "gpt2", "bert"]),
        layers in 1_u64..5,
        kv in prop::sample::select(vec![1_u64, 2, 4]),
        batch in 1_u64..6,
        seq in 1_u64..200,
        numbers in 0_u8..3,
    ) {
        let model = read::from_config_value(&config(kind, layers, kv)).unwrap();
        let own = peak_requested_bytes(&model, &setup(batch, seq, numbers));
        prop_assert!(peak_requested_bytes(&model, &setup(batch + 1, seq, numbers)) >= own);
        prop_assert!(peak_requested_bytes(&model, &setup(batch, seq + 1, numbers)) >= own);
        let deeper = read::from_config_value(&config(kind, layers + 1, kv)).unwrap();
        prop_assert!(peak_requested_bytes(&deeper, &setup(batch, seq, numbers)) >= own);
        let checkpointed = Setup { checkpointing: true, ..setup(batch, seq, numbers) };
        prop_assert!(peak_requested_bytes(&model, &checkpointed) <= own + 16 * seq);
    }

    #[test]
    fn a_longer_generation_never_needs_less(
        kind in prop::sample::select(vec!["llama", "gpt2", "t5"]),
        cache in prop::sample::select(vec![CacheKind::Dynamic, CacheKind::Static]),
        batch in 1_u64..6,
        seq in 1_u64..200,
        new_tokens in 1_u64..60,
    ) {
        let model = read::from_config_value(&match kind {
            "t5" => json!({"model_type": "t5", "d_model": 128, "num_layers": 2, "num_heads": 4, "d_kv": 32, "d_ff": 256, "vocab_size": 1000}),
            kind => config(kind, 2, 2),
        }).unwrap();
        let of = |batch, seq, new_tokens| {
            let setup = Setup { mode: Mode::Generate { new_tokens }, cache, ..Setup::training(batch, seq) };
            peak_requested_bytes(&model, &setup)
        };
        let own = of(batch, seq, new_tokens);
        prop_assert!(of(batch + 1, seq, new_tokens) >= own);
        prop_assert!(of(batch, seq + 1, new_tokens) >= own);
        prop_assert!(of(batch, seq, new_tokens + 1) >= own);
    }

    #[test]
    fn any_configuration_is_read_or_refused(text in "\\{(\"(model_type|hidden_size|num_hidden_layers|num_attention_heads)\":(\"llama\"|\"x\"|[0-9]{1,20}|-1|null|\\[\\]),?){0,4}\\}") {
        if let Ok(model) = read::from_config(text.as_bytes()) && model.layers() < 200 {
            let answer = estimate(&model, &Setup::training(1, 8));
            prop_assert!(answer.peak_requested_bytes > 0);
        }
    }
}

/// Moments of `AdamW`, and `DeepSpeed`'s weights in float32. FSDP's shares are rows, of which the first rank has the most.
#[test]
fn states_over_n_ranks_are_an_nth() {
    let model = read::named("qwen2.5-0.5b").unwrap();
    let mut setup = Setup::training(1, 8);
    setup.parallel.world_size = 64;
    for (sharding, bytes) in [(Sharding::Fsdp, 8), (Sharding::Zero1, 12), (Sharding::Zero2, 12), (Sharding::Zero3, 12)]
    {
        setup.parallel.sharding = sharding;
        let answer = estimate(&model, &setup);
        let (state, share) = (answer.breakdown.optimizer_state, answer.parameters * bytes / 64);
        assert!(state.abs_diff(share) < share / 100, "{sharding:?}: {state} beside {share}");
    }
}

#[test]
fn more_ranks_never_need_more() {
    let model = read::named("llama3.2-1b").unwrap();
    let peak = |change: &dyn Fn(&mut Setup)| {
        let mut setup = Setup { accumulation: 8, ..Setup::training(1, 64) };
        change(&mut setup);
        peak_requested_bytes(&model, &setup)
    };
    for ranks in [2, 4] {
        for sharding in [Sharding::Fsdp, Sharding::Zero1, Sharding::Zero2, Sharding::Zero3] {
            let of = |ranks| peak(&|setup| (setup.parallel.world_size, setup.parallel.sharding) = (ranks, sharding));
            assert!(of(2 * ranks) <= of(ranks), "{sharding:?} {ranks}");
        }
        let of = |ranks| peak(&|setup| setup.parallel.tensor = ranks);
        assert!(of(2 * ranks) <= of(ranks), "tensor {ranks}");
        let of = |ranks| peak(&|setup| setup.parallel.pipeline = ranks);
        assert!(of(2 * ranks) <= of(ranks), "pipeline {ranks}");
    }
}

#[test]
fn what_no_run_was_compared_with_has_a_wider_band() {
    let model = read::named("llama3.2-1b").unwrap();
    let percent = |setup: Setup| estimate(&model, &setup).error_band.percent;
    let plain = Setup::training(1, 64);
    let generation = Setup { mode: Mode::Generate { new_tokens: 8 }, ..plain };
    let mut newer = plain;
    newer.platform.torch = TorchRelease::V2_15;
    let dry_runs = percent(Setup { cache: CacheKind::Static, ..generation });
    assert!(percent(plain) < dry_runs);
    for unchecked in [
        newer,
        Setup { cache: CacheKind::Quantised { bits: 4 }, ..generation },
        Setup { optimizer: Optimizer::Lion, ..plain },
        Setup { attention: Attention::Flash, ..plain },
    ] {
        assert!(percent(unchecked) > dry_runs, "{unchecked:?}");
    }
}

/// diffusers keeps all models, one model or one module on the GPU.
#[test]
fn a_pipeline_needs_less_the_more_it_offloads() {
    for (name, parameters) in
        [("flux.1-schnell-pipeline", 16_861_000_000_u64), ("stable-diffusion-xl-base-1.0-pipeline", 3_468_000_000)]
    {
        let pipeline = read::named(name).unwrap();
        let of = |offload| {
            let setup = Setup { mode: Mode::Forward, dtype: DType::BFloat16, offload, ..Setup::training(1, 8) };
            estimate(&pipeline, &setup)
        };
        let [all, model, module] = [Offload::None, Offload::Model, Offload::Sequential].map(of);
        assert!(all.parameters.abs_diff(parameters) < parameters / 200, "{name}: {}", all.parameters);
        assert!(all.peak_requested_bytes > 2 * all.parameters, "{name}");
        assert!(model.peak_requested_bytes < all.peak_requested_bytes, "{name}");
        assert!(module.peak_requested_bytes < model.peak_requested_bytes / 2, "{name}");
        assert_eq!(
            all.phases.iter().map(|phase| phase.phase).collect::<Vec<_>>(),
            ["text encoding", "denoising", "decoding"]
        );
        let larger = Setup { height: Some(2048), width: Some(2048), ..Setup::training(1, 8) };
        let smaller = Setup { height: Some(512), width: Some(512), ..Setup::training(1, 8) };
        assert!(peak_requested_bytes(&pipeline, &larger) > peak_requested_bytes(&pipeline, &smaller));
    }
}

#[test]
fn a_pipeline_that_is_not_computed_is_refused_by_name() {
    let refusal = |config: Value| read::from_config_value(&config).unwrap_err().to_string();
    let said = refusal(json!({"_class_name": "LTXPipeline", "components": {}}));
    assert!(said.contains("LTXPipeline") && said.contains("not supported"), "{said}");
    let said =
        refusal(json!({"_class_name": "FluxPipeline", "components": {"vae": {"_class_name": "AutoencoderKLWan"}}}));
    assert!(said.contains("FluxPipeline"), "{said}");
    let said = refusal(json!({"_class_name": "FluxPipeline"}));
    assert!(said.contains("directory"), "{said}");
}
