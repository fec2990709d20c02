//! Forecasts beside numbers that engines printed, and the arithmetic of caches beside the engines' own.

use highwater_driver::CardOrSize;
use highwater_estimate::read::configuration;
use highwater_serve::{Answer, FLAGS, Flag, Loading, Model, Question, RefusalKind, Release, ServeError, Settings};
use proptest::prelude::*;
use serde_json::{Value, json};

const GIB: f64 = 1_073_741_824.0;

fn settings(flags: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in flags {
        Flag::named(name).unwrap_or_else(|| panic!("{name}")).set(&mut settings, value).unwrap();
    }
    settings
}

fn ask(config: &Value, serve: &str, gpu: &str, flags: &[(&str, &str)]) -> Answer {
    let model = Model::read("model", config, Loading::default()).unwrap();
    let gpu = CardOrSize::parse(gpu).unwrap();
    let question = Question { release: Release::parse(serve).unwrap(), model: &model, gpu, settings: settings(flags) };
    question.answer_with_changes().unwrap()
}

fn named(name: &str) -> Value {
    configuration(name).unwrap().1
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a GPU")]
fn gib(bytes: i64) -> f64 {
    bytes as f64 / GIB
}

#[test]
fn forecasts_are_within_two_percent_of_the_logs() {
    let facts: Value = serde_json::from_str(include_str!("../../../testdata/serving/facts.json")).unwrap();
    for fact in facts.as_array().unwrap() {
        let text = |name: &str| fact[name].as_str().unwrap();
        let flags: Vec<(&str, &str)> = fact["flags"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
            .collect();
        let answer = ask(&named(text("model")), text("serve"), text("gpu"), &flags);
        let rank = &answer.ranks[0];
        let terms = [
            ("kv_cache_gib", answer.kv_cache_bytes),
            ("weights_gib", i64::try_from(rank.weights_bytes).unwrap()),
            ("activation_peak_gib", i64::try_from(rank.activation_peak_bytes).unwrap()),
        ];
        for (name, bytes) in terms {
            let Some(printed) = fact[name].as_f64() else { continue };
            let own = gib(bytes);
            assert!((own / printed - 1.0).abs() <= 0.02, "{}: {name} {own:.3}, printed {printed}", text("what"));
        }
    }
}

/// Qwen 3.5 4B on vLLM 0.23 printed 235,706 tokens; with states at block borders Qwen 3.6 35B printed 569,878.
#[test]
fn recurrent_layers_raise_the_block_until_it_holds_a_state() {
    let hybrid = |hidden: u64, layers: u64, kv: u64| {
        json!({"model_type": "qwen3_5_text", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 16,
            "num_key_value_heads": kv, "head_dim": 256, "intermediate_size": 9216, "vocab_size": 248_320, "linear_num_value_heads": 32,
            "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32"})
    };
    let flags = [("max-model-len", "4096"), ("kv-cache-memory-bytes", "10.21GiB")];
    let answer = ask(&hybrid(2560, 32, 4), "vllm@0.23.0", "rtx4090", &flags);
    assert_eq!((answer.block_tokens, answer.tokens), (Some(528), 235_706));
    let flags = [
        ("max-model-len", "131072"),
        ("kv-cache-memory-bytes", "6.01GiB"),
        ("kv-cache-dtype", "fp8"),
        ("enable-prefix-caching", ""),
    ];
    let answer = ask(&hybrid(2048, 40, 2), "vllm@0.24.0", "rtx5090", &flags);
    assert_eq!((answer.block_tokens, answer.tokens), (Some(2096), 569_878));
}

/// By vLLM 0.24's own functions, called on the CPU: `benches/serving_functions.py`.
#[test]
fn blocks_and_requests_are_those_of_the_engines_own_functions() {
    let flags = [("max-model-len", "131072"), ("max-num-batched-tokens", "8192"), ("kv-cache-memory-bytes", "20GiB")];
    let mut gemma = named("gemma3-27b");
    gemma["max_position_embeddings"] = json!(131_072);
    for (config, blocks, requests) in [
        (named("llama3.1-8b"), 10_240, 1.25),
        (named("gpt-oss-20b"), 54_613, 6.267_990),
        (gemma, 16_384, 1.405_869),
        (named("mimo-v2-flash"), 29_127, 4.346_665),
        (named("minimax-m3"), 9763, 1.191_772),
        (named("deepseek-v3"), 19_099, 2.331_421),
    ] {
        let answer = ask(&config, "vllm@0.24.0", "h200", &flags);
        assert_eq!(answer.blocks, Some(blocks));
        assert!((answer.concurrency - requests).abs() < 1e-6, "{}", answer.concurrency);
    }
}

/// A quantised cache needs flash attention, which the change turns on.
#[test]
fn changes_are_given_without_flash_attention_too() {
    let answer = ask(&named("llama3.1-8b"), "llama.cpp", "h100", &[("flash-attn", "off")]);
    assert!(answer.starts && answer.changes.iter().any(|change| change.flag.contains("cache-type-v")));
}

/// Kimi K2 with 46.80 GiB printed 715,072 tokens, and eight times as many with eight context-parallel ranks.
#[test]
fn rotations_that_are_stretched_allow_longer_sequences() {
    let with = |fields: Value, serve: &str, flags: &[(&str, &str)]| {
        let mut config = named("qwen3-8b");
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let answer = ask(&config, serve, "h200", flags);
        (answer.max_model_len, answer.refusal.map(|refusal| refusal.kind))
    };
    let stretched = |method: &str| json!({"max_position_embeddings": 32_768, "rope_scaling": {"rope_type": method, "factor": 4.0, "original_max_position_embeddings": 32_768}});
    assert_eq!(with(stretched("yarn"), "vllm@0.24.0", &[]).0, 131_072);
    assert_eq!(with(stretched("yarn"), "vllm@0.24.0", &[("max-model-len", "131072")]).1, None);
    assert_eq!(
        with(stretched("yarn"), "vllm@0.24.0", &[("max-model-len", "131073")]).1,
        Some(RefusalKind::ContextBeyondModel)
    );
    // Newer releases take the configuration's number as the one after the stretch.
    assert_eq!(with(stretched("yarn"), "vllm@0.30.0", &[]).0, 32_768);
    assert_eq!(with(stretched("llama3"), "vllm@0.24.0", &[]).0, 32_768);
    assert_eq!(with(stretched("yarn"), "sglang@0.5.23", &[]).0, 32_768);
    let dynamic = json!({"max_position_embeddings": 32_768, "rope_parameters": {"full_attention": {"rope_type": "dynamic", "factor": 2.0}}});
    assert_eq!(with(dynamic.clone(), "vllm@0.24.0", &[]).0, 65_536);
    assert_eq!(with(dynamic, "sglang@0.5.23", &[]).0, 65_536);
    // Without a flag vLLM stays within the training, and goes further if asked.
    let long = json!({"max_position_embeddings": 131_072, "rope_scaling": {"type": "longrope", "original_max_position_embeddings": 4096}});
    assert_eq!(with(long.clone(), "vllm@0.24.0", &[]).0, 4096);
    assert_eq!(with(long.clone(), "vllm@0.24.0", &[("max-model-len", "131072")]), (131_072, None));
    assert_eq!(with(long, "vllm@0.10.0", &[]).0, 131_072);
}

#[test]
fn latent_attention_is_not_divided_but_by_context_parallelism() {
    let flags = [("tensor-parallel-size", "8"), ("kv-cache-memory-bytes", "46.80GiB")];
    let mut config = named("deepseek-v3");
    config["num_attention_heads"] = json!(64);
    let tokens = |flags: &[(&str, &str)]| ask(&config, "vllm@0.11.1", "h200", flags).tokens;
    let alone = tokens(&flags);
    assert!(alone.abs_diff(715_072) < 100, "{alone}");
    assert_eq!(tokens(&[&flags[..], &[("decode-context-parallel-size", "8")]].concat()), alone * 8);
}

#[test]
fn what_does_not_start_is_named() {
    let kind = |config: &Value, gpu: &str, flags: &[(&str, &str)]| {
        ask(config, "vllm@0.11.0", gpu, flags).refusal.map(|refusal| refusal.kind)
    };
    let (small, large) = (named("llama3.1-8b"), named("llama3.1-70b"));
    assert_eq!(kind(&large, "h100", &[]), Some(RefusalKind::WeightsDoNotFit));
    assert_eq!(kind(&small, "rtx3090", &[("gpu-memory-utilization", "0.5")]), Some(RefusalKind::NoCache));
    assert_eq!(kind(&small, "rtx3090", &[]), Some(RefusalKind::ContextTooLong));
    assert_eq!(kind(&small, "h100", &[("tensor-parallel-size", "3")]), Some(RefusalKind::HeadsDoNotDivide));
    assert_eq!(kind(&small, "h100", &[("max-model-len", "1M")]), Some(RefusalKind::ContextBeyondModel));
    assert_eq!(kind(&small, "h100", &[]), None);
}

#[test]
fn a_kind_of_model_that_an_engine_does_not_have_is_refused() {
    let model = Model::read("whisper", &named("whisper-base"), Loading::default()).unwrap();
    let ask = |serve: &str| {
        let gpu = CardOrSize::parse("rtx4090").unwrap();
        Question { release: Release::parse(serve).unwrap(), model: &model, gpu, settings: Settings::default() }.answer()
    };
    let refused = ask("llama.cpp").unwrap_err().to_string();
    assert!(refused.starts_with("llama.cpp does not serve `whisper`"), "{refused}");
    assert!(ask("vllm").is_ok());
}

#[test]
fn a_change_frees_what_the_answer_with_it_has_more() {
    let config = named("llama3.1-8b");
    let answer = ask(&config, "vllm@0.11.0", "h100", &[("max-model-len", "16000")]);
    let change = answer.changes.iter().find(|change| change.flag == "--max-num-seqs" && change.value == "256").unwrap();
    let changed = ask(&config, "vllm@0.11.0", "h100", &[("max-model-len", "16000"), ("max-num-seqs", "256")]);
    assert_eq!(change.frees_bytes, u64::try_from(changed.kv_cache_bytes - answer.kv_cache_bytes).unwrap());
    assert!(gib(i64::try_from(change.frees_bytes).unwrap()) > 3.4);
    // An engine that does not start is given a card that does.
    let answer = ask(&named("llama3.1-70b"), "vllm@0.11.0", "h100", &[("max-model-len", "4096")]);
    assert!(answer.changes.iter().any(|change| change.starts && change.flag == "--gpu"), "{:?}", answer.changes);
}

#[test]
fn configurations_without_their_fields_are_refused_by_name() {
    let refused = |config: &Value| Model::read("model", config, Loading::default()).unwrap_err().to_string();
    let llama = |field: &str, value: Value| json!({"model_type": "llama", field: value});
    assert!(refused(&json!({})).contains("does not give the size"));
    assert!(refused(&json!({"model_type": "wonder", "hidden_size": 8})).contains("family is unknown"));
    assert!(refused(&llama("hidden_size", json!(-8))).contains("`hidden_size`"));
    assert!(refused(&llama("num_hidden_layers", json!(99_999_999))).contains("layers"));
    assert!(refused(&llama("num_attention_heads", json!("many"))).contains("`num_attention_heads`"));
    assert!(refused(&json!({"model_type": "vit", "hidden_size": 768})).contains("generates no text"));
    let unknown = json!({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "quantization_config": {"quant_method": "new"}});
    assert!(refused(&unknown).contains("new"), "{}", refused(&unknown));
}

proptest! {
    /// Whatever a configuration and flags say: an answer or a refusal, never a panic.
    #[test]
    fn any_sizes_are_answered_or_refused(
        sizes in prop::collection::vec(0_u64..1 << 33, 12),
        layers in 0_u64..80,
        flags in prop::collection::vec((0..FLAGS.len(), 0_u64..1 << 33), 0..4),
        engine in 0_usize..4,
        window in any::<bool>(),
    ) {
        let mut config = json!({"model_type": "llama", "hidden_size": sizes[0], "num_hidden_layers": layers, "num_attention_heads": sizes[1] % 129,
            "num_key_value_heads": sizes[2], "head_dim": sizes[3], "vocab_size": sizes[4], "intermediate_size": sizes[5],
            "max_position_embeddings": sizes[6]});
        if window {
            config["model_type"] = json!(["gemma3_text", "mixtral", "qwen3_moe", "gemma4_text"][usize::try_from(sizes[11] % 4).unwrap()]);
            config["sliding_window"] = json!(sizes[7]);
            config["sliding_window_pattern"] = json!(sizes[8] % 9);
            config["num_local_experts"] = json!(sizes[9]);
            config["num_kv_shared_layers"] = json!(sizes[10] % 99);
        }
        let Ok(model) = Model::read("model", &config, Loading::default()) else { return Ok(()) };
        let mut settings = Settings::default();
        for (at, value) in flags {
            // A value that the flag does not take leaves the settings as they are.
            let _refused = FLAGS[at].set(&mut settings, &value.to_string());
        }
        let release = Release::parse(["vllm", "sglang", "llama.cpp", "transformers"][engine]).unwrap();
        let question = Question { release, model: &model, gpu: CardOrSize::parse("h100").unwrap(), settings };
        if let Ok(answer) = question.answer_with_changes() {
            prop_assert!(answer.concurrency.is_finite());
            prop_assert_eq!(answer.starts, answer.refusal.is_none());
        }
    }
}

/// Each flag that loads weights otherwise changes their bytes, or is refused by name.
#[test]
fn flags_of_loading_count_or_are_refused() {
    let config = named("llama3.1-8b");
    let read = |config: &Value, dtype, quantization| Model::read("model", config, Loading { dtype, quantization });
    let weights = |dtype, quantization| -> u64 {
        read(&config, dtype, quantization).unwrap().weights.iter().map(|weight| weight.bytes).sum()
    };
    let half = weights(None, None);
    assert_eq!(weights(Some("float32"), None), half * 2);
    assert!((half * 55 / 100..half * 58 / 100).contains(&weights(None, Some("fp8"))));
    assert!(weights(None, Some("bitsandbytes")) < half * 40 / 100);
    let refused = |config: &Value, dtype, quantization| read(config, dtype, quantization).unwrap_err().to_string();
    assert!(refused(&config, None, Some("awq")).contains("`--quantization awq` needs a checkpoint"));
    assert!(refused(&config, Some("int3"), None).contains("`--dtype int3`"));
    let mxfp4 = named("gpt-oss-20b");
    assert!(refused(&mxfp4, None, Some("fp8")).contains("contradicts the checkpoint, which is quantised with mxfp4"));
    assert!(read(&mxfp4, None, Some("mxfp4")).is_ok());
}

/// Experts are divided among the ranks of all replicas; a model without them refuses the flag, as vLLM does.
#[test]
fn experts_are_divided_among_all_ranks() {
    let weights = |name: &str, flags: &[(&str, &str)]| {
        let answer = ask(&named(name), "vllm@0.11.0", "h200", flags);
        (answer.ranks[0].weights_bytes, answer.refusal.map(|refusal| refusal.kind))
    };
    let (alone, _) = weights("qwen3-30b-a3b", &[]);
    let (replicas, _) = weights("qwen3-30b-a3b", &[("data-parallel-size", "8"), ("enable-expert-parallel", "")]);
    assert!(replicas < alone / 4, "{replicas} of {alone}");
    let (_, refusal) = weights("llama3.1-8b", &[("enable-expert-parallel", "")]);
    assert_eq!(refusal, Some(RefusalKind::NoExperts));
}

/// Qwen 3.6 27B with three tokens of multi-token prediction printed 623,873 tokens on vLLM 0.24: one block beside the 425 or 426 that
/// its cache, printed in hundredths, holds.
#[test]
fn layers_that_draft_have_a_cache() {
    let config = json!({"model_type": "qwen3_5_text", "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 24,
        "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 17408, "vocab_size": 248_320, "linear_num_value_heads": 48,
        "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 262_144});
    let flags = [
        ("tensor-parallel-size", "2"),
        ("kv-cache-dtype", "fp8_e5m2"),
        ("enable-prefix-caching", ""),
        ("max-num-seqs", "2"),
        ("kv-cache-memory-bytes", "11.055GiB"),
        ("speculative-config", r#"{"method": "mtp", "num_speculative_tokens": 3}"#),
    ];
    let answer = ask(&config, "vllm@0.24.0", "rtx3090", &flags);
    assert_eq!((answer.blocks, answer.tokens), (Some(426), 623_873));
}

/// `FlashInfer`'s sampler needs less, where a command line's environment asks for it.
#[test]
fn the_environment_of_a_command_line_chooses_the_sampler() {
    let model = Model::read("model", &named("llama3.1-8b"), Loading::default()).unwrap();
    let peak = |line: &str| {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mut settings = settings(&[("max-model-len", "8192")]);
        highwater_serve::Command::read(&words, &mut settings).unwrap();
        let gpu = CardOrSize::parse("h100").unwrap();
        let question = Question { release: Release::parse("vllm@0.11.0").unwrap(), model: &model, gpu, settings };
        question.answer().unwrap().ranks[0].activation_peak_bytes
    };
    assert!(peak("VLLM_USE_FLASHINFER_SAMPLER=1 vllm serve x") < peak("vllm serve x") / 2);
}

/// A flag that decides about memory and has no rule is named in the confidence.
#[test]
fn flags_without_a_rule_are_named() {
    let words: Vec<String> = "vllm serve x --hf-overrides {} --port 8000".split(' ').map(str::to_owned).collect();
    let mut settings = Settings::default();
    let command = highwater_serve::Command::read(&words, &mut settings).unwrap();
    assert_eq!(command.ignored, ["--port"]);
    let model = Model::read("model", &named("qwen3-8b"), Loading::default()).unwrap();
    let gpu = CardOrSize::parse("h100").unwrap();
    let question = Question { release: Release::parse("vllm").unwrap(), model: &model, gpu, settings };
    assert!(question.answer().unwrap().confidence.reason.contains("`--hf-overrides`"));
}

/// A drafter takes weights and cache: EAGLE's one layer, or a model of the catalogue. One that is not known is named.
#[test]
fn drafters_take_memory() {
    let config = named("llama3.1-8b");
    let with = |drafter: &str| {
        let text = format!(r#"{{"num_speculative_tokens": 3, {drafter}}}"#);
        let flags = [("max-model-len", "8192"), ("speculative-config", text.as_str())];
        ask(&config, "vllm@0.11.0", "h100", &flags)
    };
    let alone = ask(&config, "vllm@0.11.0", "h100", &[("max-model-len", "8192")]);
    let eagle = with(r#""method": "eagle3", "model": "x/llama-eagle3""#);
    let small = with(r#""model": "meta-llama/Llama-3.2-1B-Instruct""#);
    let weights = |answer: &Answer| answer.ranks[0].weights_bytes - alone.ranks[0].weights_bytes;
    assert_eq!(weights(&eagle), 2 * (218_112_000 + 4096 * (3 * 4096 + 32_000)));
    assert!(weights(&small).abs_diff(2 * 1_235_814_400) < 50_000_000, "{}", weights(&small));
    // A block is that of all layers: 32, 33, or 32 with 16 of half the size.
    let bytes = |answer: &Answer| u64::try_from(answer.kv_cache_bytes).unwrap() / answer.tokens / 4096;
    assert_eq!((bytes(&alone), bytes(&eagle), bytes(&small)), (32, 33, 40));
    assert!(with(r#""model": "x/unheard-of""#).confidence.reason.contains("not a model of the catalogue"));
}

/// With data-parallel attention the replicas' ranks hold all keys of their requests, and the experts stay divided.
#[test]
fn attention_in_replicas_has_all_heads() {
    let flags = [("tensor-parallel-size", "8"), ("mem-fraction-static", "0.9")];
    let replicas = [&flags[..], &[("data-parallel-size", "8"), ("enable-dp-attention", "")]].concat();
    let answer = |flags: &[(&str, &str)]| ask(&named("qwen3-235b-a22b"), "sglang@0.5.9", "h200", flags);
    let (divided, replicas) = (answer(&flags), answer(&replicas));
    assert!(replicas.ranks[0].weights_bytes > divided.ranks[0].weights_bytes);
    assert!(replicas.ranks[0].weights_bytes < divided.ranks[0].weights_bytes * 2);
    assert_eq!(replicas.ranks.len(), 8);
    assert!(replicas.tokens < divided.tokens, "{} and {}", replicas.tokens, divided.tokens);
}

/// Sizes that the engines refuse at their start are refused, with what they take.
#[test]
fn sizes_that_engines_refuse_are_named() {
    let block = Flag::named("block-size").unwrap();
    let refused = block.set(&mut Settings::default(), "17").unwrap_err().to_string();
    assert!(refused.contains("multiple of 16"), "{refused}");
    block.set(&mut Settings::default(), "528").unwrap();
    let replicas = |ranks: &str, replicas: &str| {
        let flags = [("tensor-parallel-size", ranks), ("data-parallel-size", replicas), ("enable-dp-attention", "")];
        ask(&named("qwen3-8b"), "sglang@0.5.9", "h100", &flags).refusal.map(|refusal| refusal.kind)
    };
    assert_eq!(replicas("2", "3"), Some(RefusalKind::HeadsDoNotDivide));
    assert_eq!(replicas("4", "2"), None);
}

/// A start of 0.20.0 on an RTX 5090 subtracts its graphs, 0.39 GiB, and one of 0.19.2 does not.
#[test]
fn graphs_count_since_0_20() {
    let model = named("qwen3-8b");
    let graphs = |serve: &str| ask(&model, serve, "h100", &[]).ranks[0].graph_bytes;
    assert_eq!(graphs("vllm@0.19.2"), 0);
    assert!(graphs("vllm@0.20.0") > 0);
}

/// Qwen2.5 7B with 128 sequences, on a GPU of 44.4 GiB: a first start of 0.22.0 printed a cache of 26.32 GiB.
#[test]
fn the_first_start_times_kernels_on_a_table_of_embeddings() {
    let model = named("qwen2.5-7b");
    let flags = [("gpu-memory-utilization", "0.95"), ("max-model-len", "4096"), ("max-num-seqs", "128")];
    let first = [&flags[..], &[("first-start", "")]].concat();
    let answer = |serve: &str, flags: &[(&str, &str)]| ask(&model, serve, "l40s", flags);
    assert!((gib(answer("vllm@0.22.0", &first).kv_cache_bytes) / 26.32 - 1.0).abs() < 0.01);
    let later = answer("vllm@0.22.0", &flags);
    assert!(later.kv_cache_bytes > answer("vllm@0.22.0", &first).kv_cache_bytes + (700 << 20));
    assert!(later.assumed.iter().any(|note| note.contains("--first-start")), "{:?}", later.assumed);
    // 0.11.0 times none, and without compilation there is nothing to time.
    assert_eq!(answer("vllm@0.11.0", &first).kv_cache_bytes, answer("vllm@0.11.0", &flags).kv_cache_bytes);
    let eager = [&first[..], &[("enforce-eager", "")]].concat();
    assert!(answer("vllm@0.22.0", &eager).kv_cache_bytes > later.kv_cache_bytes);
}

/// `llama-server` with nothing said: four sequences, each with a window, in one cache. Gemma 4 12B, whose windows are 1,024
/// tokens, printed 4,608 cells, and gpt-oss with windows of 128 printed 1,024.
#[test]
fn a_server_without_parallel_has_four_windows() {
    let cache = |name: &str, flags: &[(&str, &str)]| ask(&named(name), "llama.cpp", "h100", flags).kv_cache_bytes;
    let base = ("ctx-size", "65536");
    // 18 layers of each kind, eight heads of 64.
    let cells = |count: i64| 18 * count * 8 * 64 * 2 * 2;
    assert_eq!(cache("gpt-oss-120b", &[base]), cells(65_536) + cells(1024));
    assert_eq!(cache("gpt-oss-120b", &[base, ("parallel", "1")]), cells(65_536) + cells(768));
    // Caches of their own: each has its window and its part of the context.
    assert_eq!(cache("gpt-oss-120b", &[base, ("parallel", "4")]), cells(65_536) + cells(4 * 768));
    assert_eq!(cache("gpt-oss-120b", &[base, ("parallel", "4"), ("kv-unified", "")]), cells(65_536) + cells(1024));
}

/// By vLLM's own functions, called on the CPU: since 0.26 windows keep the tokens of two batches, and with several stages of more.
#[test]
fn windows_keep_the_batches_under_way_since_0_26() {
    let requests = |name: &str, serve: &str, more: &[(&str, &str)]| {
        let flags =
            [("kv-cache-memory-bytes", "20GiB"), ("max-model-len", "131072"), ("max-num-batched-tokens", "8192")];
        ask(&named(name), serve, "2000GiB", &[&flags[..], more].concat()).concurrency
    };
    let equal = |one: f64, other: f64| assert!((one - other).abs() < 1e-6, "{one} {other}");
    equal(requests("gpt-oss-20b", "vllm@0.25.1", &[]), 6.267_990_359_233_33);
    equal(requests("gpt-oss-20b", "vllm@0.26.0", &[]), 5.920_108_401_084_011);
    equal(requests("gpt-oss-20b", "vllm@0.33.0", &[]), 5.920_108_401_084_011);
    // The next batch waits for a search in the prompt.
    let searches = [("speculative-config", r#"{"method": "ngram", "num_speculative_tokens": 3}"#)];
    equal(requests("gpt-oss-20b", "vllm@0.26.0", &searches), 6.267_990_359_233_33);
}

/// Qwen 3.5 27B by vLLM's own functions, with the blocks of states that its layers ask for: prefixes are cached by default since 0.26, and a
/// long prompt leaves a state on its way since 0.33, where `FlashInfer` computes it.
#[test]
fn states_take_the_blocks_that_prefix_caching_needs() {
    let requests = |serve: &str, gpu: &str, more: &[(&str, &str)]| {
        let flags = [("kv-cache-memory-bytes", "20GiB"), ("max-model-len", "131072")];
        ask(&named("qwen3.5-27b"), serve, gpu, &[&flags[..], more].concat()).concurrency
    };
    let equal = |one: f64, other: f64| assert!((one - other).abs() < 1e-6, "{one} {other}");
    let (with, without) = ([("enable-prefix-caching", "")], [("no-enable-prefix-caching", "")]);
    let (kept, left) = (2.396_551_724_137_931, 2.355_932_203_389_830_4);
    equal(requests("vllm@0.25.1", "h100", &with), kept);
    assert!(requests("vllm@0.25.1", "h100", &[]) > kept);
    equal(requests("vllm@0.26.0", "h100", &[]), kept);
    assert!(requests("vllm@0.26.0", "h100", &without) > kept);
    equal(requests("vllm@0.33.0", "h100", &[]), left);
    equal(requests("vllm@0.33.0", "a100", &[]), kept);
}

/// Requests wait for a slot, also where the cache has room for more of them.
#[test]
fn llama_cpp_serves_no_more_requests_than_it_has_slots() {
    let at = |flags: &[(&str, &str)], tokens: u64| {
        let answer = ask(&named("llama3.1-8b"), "llama.cpp", "h100", &[&[("ctx-size", "32768")], flags].concat());
        answer.concurrency_at.iter().find(|at| at.tokens == tokens).unwrap().requests
    };
    let equal = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
    // Four slots in one cache by default.
    equal(at(&[], 1024), 4.0);
    equal(at(&[], 8192), 4.0);
    equal(at(&[("parallel", "1")], 8192), 1.0);
    equal(at(&[("parallel", "8"), ("kv-unified", "")], 8192), 4.0);
    // Caches of their own: a request that is longer than one fits in none.
    equal(at(&[("parallel", "8")], 4096), 8.0);
    equal(at(&[("parallel", "8")], 8192), 0.5);
}

/// Gemma 4 has an encoder of sound whose weights are loaded, and is profiled with videos: 0.19.2 printed six for 16,384 tokens.
#[test]
fn gemma_4_is_profiled_with_videos() {
    let peak = |tokens: &str| {
        let flags = [("max-num-batched-tokens", tokens), ("max-num-seqs", "2"), ("max-model-len", "32768")];
        let answer = ask(&named("gemma-4-31b"), "vllm@0.19.2", "h200", &flags);
        let rank = &answer.ranks[0];
        (rank.activation_peak_bytes, rank.activation_by.clone())
    };
    let (three, six) = (peak("8192"), peak("16384"));
    assert!(six.1.contains("image encoder"), "{}", six.1);
    assert_eq!(three.0 * 2, six.0);
    let small = ask(&named("gemma-4-e4b"), "vllm@0.22.1", "h100", &[]);
    assert!((gib(i64::try_from(small.ranks[0].weights_bytes).unwrap()) / 15.18 - 1.0).abs() < 0.02);
}

/// The pools of `SGLang` have a place for each of Gemma 4 E4B's 42 layers, though 18 take the keys and values of earlier ones: 0.85 of 112.86 GiB
/// printed 997,846 tokens.
#[test]
fn sglang_has_a_pool_for_layers_that_share_keys() {
    let model = Model::read("e4b", &named("gemma-4-e4b"), Loading::default()).unwrap();
    let flags = settings(&[("mem-fraction-static", "0.85"), ("gpu-memory", "112.86GiB")]);
    let gpu = flags.gpu(None).unwrap();
    let question = Question { release: Release::parse("sglang@0.5.15").unwrap(), model: &model, gpu, settings: flags };
    let tokens = question.answer().unwrap().tokens;
    assert!((980_000..1_020_000).contains(&tokens), "{tokens}");
}

/// `DeepSeek` V3.2 in 8 bits has 656 bytes of latent and 132 of indexer for a token and layer: 975,424 tokens printed 43.67 GiB. The budget
/// counted 576 of them until 0.5.3, and 708 until 0.5.7.
#[test]
fn sglang_counts_sparse_attention_in_three_ways() {
    let pool = |serve: &str| {
        let flags = [("kv-cache-dtype", "fp8_e4m3"), ("tp-size", "8"), ("mem-fraction-static", "0.8")];
        let answer = ask(&named("deepseek-v3.2"), serve, "b200", &flags);
        let tokens = i64::try_from(answer.tokens).unwrap();
        assert!((answer.kv_cache_bytes - tokens * 788 * 61).abs() < 788 * 61, "{serve}");
        answer.tokens
    };
    let (old, middle, new) = (pool("sglang@0.5.3"), pool("sglang@0.5.4"), pool("sglang@0.5.9"));
    assert!((old * 576).abs_diff(new * 788) < 788 && (middle * 708).abs_diff(new * 788) < 788, "{old} {middle} {new}");
}

/// V0 ended with 0.10; where only it is named, a release that had it answers.
#[test]
fn the_older_engine_has_older_releases() {
    let release = Release::parse("vllm").unwrap().with_v0(Some(true));
    assert_eq!(release.to_string(), "vllm@0.8.5+v0");
    let refused = settings(&[]).check(&Release::parse("vllm@0.11.0+v0").unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), "vllm 0.11.0+v0 does not have the older engine, V0: 0.10 was its last release");
    settings(&[]).check(&release).unwrap();
}

/// 0.26 on an L40S refuses Qwen 3.8 27B in 8 bits for its context, before it looks for a block for every state.
#[test]
fn a_context_that_does_not_fit_is_told_before_states_that_do_not() {
    let flags = [("gpu-memory-utilization", "0.86"), ("max-model-len", "131072"), ("kv-cache-memory-bytes", "7.04GiB")];
    let answer = ask(&named("qwen3.5-27b"), "vllm@0.26.0", "h200", &flags);
    assert_eq!(answer.refusal.unwrap().kind, RefusalKind::ContextTooLong);
    let flags = [("max-model-len", "8192"), ("kv-cache-memory-bytes", "7.04GiB")];
    let answer = ask(&named("qwen3.5-27b"), "vllm@0.26.0", "h200", &flags);
    assert_eq!(answer.refusal.unwrap().kind, RefusalKind::NoCache);
}

/// Qwen3-Next on a GPU of 64 GB with states in 16 bits prints 242,534 tokens in 5.85 GiB.
#[test]
fn states_have_the_type_that_is_said() {
    let tokens = |dtype: &str| {
        let flags = [
            ("max-model-len", "65536"),
            ("max-num-seqs", "4"),
            ("enable-prefix-caching", ""),
            ("mamba-ssm-cache-dtype", dtype),
            ("kv-cache-memory-bytes", "5.85GiB"),
        ];
        ask(&named("qwen3-next-80b-a3b"), "vllm@0.24.0", "h200", &flags).tokens
    };
    assert!((242_018..=242_534).contains(&tokens("float16")), "{}", tokens("float16"));
    assert!(tokens("float32") < tokens("float16"));
}

/// 0.11.0 on four RTX 3090 prints a budget of 153,600 tokens for one video of Qwen 3 VL, and 2.31 GiB of cache.
#[test]
fn a_prompt_without_images_profiles_none() {
    let cache = |flags: &[(&str, &str)]| {
        let flags = [&[("tensor-parallel-size", "4"), ("max-model-len", "65536")], flags].concat();
        let answer = ask(&named("qwen3-vl-30b-a3b"), "vllm@0.11.0", "rtx3090", &flags);
        (gib(answer.kv_cache_bytes), answer.ranks[0].weights_bytes)
    };
    let (with, weights) = cache(&[]);
    assert!((with - 2.31).abs() < 0.15, "{with}");
    let (unprofiled, same) = cache(&[("skip-mm-profiling", "")]);
    assert!(unprofiled > with + 1.0 && same == weights, "{unprofiled}");
    let (text, fewer) = cache(&[("limit-mm-per-prompt", r#"{"image": 0, "video": {"count": 0}}"#)]);
    assert!(text > unprofiled && fewer < weights, "{text}");
    assert_eq!(cache(&[("limit-mm-per-prompt", "image=2,video=0")]).1, weights);
}

/// `SGLang`'s own notebooks start with 20,480 tokens.
#[test]
fn a_pool_has_at_most_the_tokens_that_are_said() {
    let answer = ask(&named("qwen2.5-0.5b"), "sglang@0.5.9", "h100", &[("max-total-tokens", "20480")]);
    assert_eq!(answer.tokens, 20_480);
}

#[test]
fn limits_that_cannot_be_read_are_refused() {
    for value in ["", "two", "{}", r#"{"image": "two"}"#, "image=x"] {
        let refused = Flag::named("limit-mm-per-prompt").unwrap().set(&mut Settings::default(), value).unwrap_err();
        assert!(refused.to_string().contains("is not JSON such as"), "{refused}");
    }
}

/// `--language-model-only` is in the sources of 0.17.1, and not in those of 0.16.0.
#[test]
fn a_release_before_a_flag_does_not_have_it() {
    let flags = [("language-model-only", "")];
    let mut settings = Settings::default();
    Flag::named("language-model-only").unwrap().set(&mut settings, "").unwrap();
    let of = |engine: &str| settings.check(&Release::parse(engine).unwrap());
    assert!(matches!(of("vllm@0.16.0"), Err(ServeError::NotYet { name: "language-model-only", .. })));
    assert!(of("vllm@0.17.0").is_ok());
    let model = named("qwen3-vl-30b-a3b");
    let text = ask(&model, "vllm@0.24.0", "h100", &flags);
    assert!(text.kv_cache_bytes > ask(&model, "vllm@0.24.0", "h100", &[]).kv_cache_bytes);
}

/// Without common prefixes `SGLang` keeps a state for each running request, if a flag says how many: Qwen 3.8 27B, which has the sizes of
/// Qwen 3.5 27B but 0.78 GiB more of weights (12,780 tokens), printed 535,124 tokens with 0.80 of 111.73 GiB and 32 requests.
#[test]
fn states_without_common_prefixes_are_those_of_the_requests() {
    let tokens = |flags: &[(&str, &str)]| {
        let flags = [&[("gpu-memory", "112.32GiB"), ("mem-fraction-static", "0.80")], flags].concat();
        ask(&named("qwen3.5-27b"), "sglang@0.5.12", "112.32GiB", &flags).tokens
    };
    let running = ("max-running-requests", "32");
    let own = tokens(&[running, ("disable-radix-cache", "")]);
    assert!((own - 12_780).abs_diff(535_124) < 5351, "{own}");
    assert_eq!(tokens(&[("max-mamba-cache-size", "32")]), own);
    assert!(tokens(&[running]) < own * 2 / 3);
    assert!(tokens(&[running, ("mamba-full-memory-ratio", "0.1")]) > tokens(&[running]));
}

/// Attention and a state side by side in every layer: Falcon-H1 3B on 0.12.0 printed blocks of 2,080 tokens, and 83,968 tokens and 41.50 requests
/// in 5.28 GiB. A state has a block as long as the longest sequence, which is the smaller one there.
#[test]
fn attention_beside_states_has_both_caches() {
    let config = json!({"model_type": "falcon_h1", "hidden_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 10,
        "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 6144, "vocab_size": 65_537, "mamba_d_ssm": 4096,
        "mamba_n_heads": 32, "mamba_d_head": 128, "mamba_d_state": 256, "max_position_embeddings": 131_072});
    let flags = [("max-model-len", "2048"), ("max-num-seqs", "8"), ("kv-cache-memory-bytes", "5.28GiB")];
    let answer = ask(&config, "vllm@0.12.0", "15.47GiB", &flags);
    assert_eq!((answer.block_tokens, answer.tokens, answer.concurrency), (Some(2080), 83_968, 41.5));
    // One cache of keys and values, and a state for each sequence.
    let llama = |parallel: &str| {
        ask(&config, "llama.cpp", "h100", &[("ctx-size", "2048"), ("parallel", parallel)]).kv_cache_bytes
    };
    let state = 32 * (3 * (4096 + 2 * 256) + 4096 * 256) * 4;
    assert_eq!(llama("2") - llama("1"), state);
}

/// Marlin's kernels round experts up further: gpt-oss 20B printed 13.72 GiB on an A100, and 13.47 on an H100.
#[test]
fn experts_in_four_bits_are_rounded_as_their_kernels_need() {
    let weights = |gpu: &str| {
        let answer = ask(&named("gpt-oss-20b"), "vllm@0.19.0", gpu, &[]);
        gib(i64::try_from(answer.ranks[0].weights_bytes).unwrap())
    };
    assert!((weights("a100") - 13.72).abs() < 0.05, "{}", weights("a100"));
    assert!((weights("h100") - 13.47).abs() < 0.05, "{}", weights("h100"));
    assert!(weights("b200") > weights("a100"));
}

/// A start by less than the forecast's error says so, and so does a refusal.
#[test]
fn a_start_that_is_close_says_so() {
    let reason = |length: &str| {
        let answer = ask(&named("qwen3-8b"), "vllm@0.9.2", "l4", &[("max-model-len", length)]);
        (answer.starts, answer.confidence.reason)
    };
    let (starts, close) = reason("20000");
    assert!(starts && close.contains("to spare"), "{close}");
    let (starts, close) = reason("23000");
    assert!(!starts && close.contains("it may start"), "{close}");
    assert!(!reason("4096").1.contains("can be off by"));
}

/// LLaVA-NeXT on an H100 printed 14.08 GiB of weights, and five images of 2,928 tokens in a batch of 16,384.
#[test]
fn tiles_of_an_image_go_through_the_encoder() {
    let config = json!({"model_type": "llava_next", "tie_word_embeddings": false,
        "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
        "text_config": {"model_type": "mistral", "vocab_size": 32_064, "hidden_size": 4096, "intermediate_size": 14_336,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 32_768},
        "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
            "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14}});
    let model = Model::read("llava", &config, Loading::default()).unwrap();
    assert_eq!(model.vision.unwrap().tokens, 2928);
    let flags = [("max-model-len", "4096"), ("max-num-batched-tokens", "16384")];
    let answer = ask(&config, "vllm@0.10.2", "h100", &flags);
    assert!((gib(i64::try_from(answer.ranks[0].weights_bytes).unwrap()) - 14.08).abs() < 0.06);
    assert!((gib(answer.kv_cache_bytes) / 55.15 - 1.0).abs() < 0.02);
}

/// The GB10 has a small batch by default, as its log of 0.13.0 printed, for all its memory.
#[test]
fn a_gb10_is_a_small_gpu() {
    let batch = |gpu: &str| {
        let answer = ask(&named("qwen3-8b"), "vllm@0.13.0", gpu, &[("max-model-len", "4096")]);
        answer.assumed.into_iter().find(|line| line.contains("max-num-batched-tokens")).unwrap()
    };
    assert!(batch("gb10").contains(" 2048,"), "{}", batch("gb10"));
    assert!(batch("h100").contains(" 8192,"), "{}", batch("h100"));
}

/// Nemotron 3 Nano over two GPUs printed 183,744 tokens and 6.17 requests: 222 blocks of 4,176 tokens in five groups of six layers.
#[test]
fn states_of_two_gpus_have_their_groups() {
    let flags =
        [("tensor-parallel-size", "2"), ("max-model-len", "131072"), ("max-num-seqs", "8"), ("kv-cache-dtype", "fp8")];
    let flags = [&flags[..], &[("kv-cache-memory-bytes", "1.328GiB")]].concat();
    let answer = ask(&named("nemotron-3-nano-30b-a3b"), "vllm@0.13.0", "15.92GiB", &flags);
    assert_eq!((answer.block_tokens, answer.tokens), (Some(4176), 183_744));
    assert!((answer.concurrency - 6.17).abs() < 0.006, "{}", answer.concurrency);
}

/// `-c 0` is how llama.cpp is told to take the model's own context.
#[test]
fn a_context_of_zero_is_the_models_own() {
    let tokens = |length: &[(&str, &str)]| ask(&named("qwen3-8b"), "llama.cpp", "h100", length).tokens;
    assert_eq!(tokens(&[("ctx-size", "0")]), tokens(&[]));
    assert!(tokens(&[("ctx-size", "4096")]) < tokens(&[]));
}
