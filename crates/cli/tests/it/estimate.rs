//! `highwater estimate`: names, files, options, and what is refused.

use std::fs;

use highwater_testkit::testdata;
use serde_json::Value;
use tempfile::TempDir;

use crate::run::command;

/// What the command answers to these words: exit status, standard output and error.
fn estimate(words: &[&str]) -> (i32, String, String) {
    let output = command().arg("estimate").args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn document(words: &[&str]) -> Value {
    let (code, out, err) = estimate(&[words, &["--format", "json"]].concat());
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

/// What is printed about an input that is refused.
fn refused(words: &[&str]) -> String {
    let (code, out, err) = estimate(words);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    err
}

#[test]
fn the_document_has_what_others_rely_on() {
    let document =
        document(&["qwen2.5-1.5b", "--batch", "16", "--seq", "256", "--loss", "mean-logits", "--keep", "loss"]);
    assert_eq!((&document["format"], &document["version"]), (&"highwater-estimate".into(), &1.into()));
    let bytes = |name: &str| document[name].as_u64().unwrap();
    assert_eq!(bytes("parameters"), 1_543_714_304);
    assert_eq!(bytes("activations_per_token"), 1_266_304);
    assert_eq!(bytes("total_bytes"), bytes("peak_reserved_bytes") + bytes("context_bytes"));
    let sum: u64 = document["breakdown"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(sum, bytes("peak_requested_bytes"));
    let terms: u64 = document["terms"].as_array().unwrap().iter().filter_map(|term| term["bytes"].as_u64()).sum();
    assert_eq!(terms, sum);
    assert_eq!(document["peak_phase"], "backward, around the loss");
}

#[test]
fn the_gpu_that_is_named_comes_first() {
    let lead = |words: &[&str]| estimate(words).1.lines().nth(2).unwrap_or_default().to_owned();
    assert!(lead(&["llama3.1-8b", "--gpu", "RTX 4090"]).starts_with("It does not fit RTX 4090 (23.64 GiB in all): "));
    assert!(lead(&["gpt2", "--gpu", "t4"]).starts_with("It fits T4 (14.56 GiB in all): "));
    assert!(lead(&["gpt2"]).contains("larger GPUs: "), "the usual one is among the others");
    assert!(lead(&["gpt2", "--gpu", "t4", "--fit", "24GiB"]).starts_with("It fits a GPU with 24.00 GiB in all"));
}

#[test]
fn the_text_says_it_all() {
    let (code, out, err) =
        estimate(&["gpt2", "--batch", "4", "--seq", "512", "--method", "simple", "--sweep", "batch=1..8"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for part in [
        "124,439,808 parameters",
        "peak requested",
        "The largest terms",
        "It fits RTX 4060 ",
        "derived:",
        "summary:",
        "Assumed",
    ] {
        assert!(out.contains(part), "{part} is not in {out}");
    }
}

#[test]
fn what_to_change_is_ranked() {
    let document = document(&["llama3.1-8b", "--seq", "2048", "--dtype", "bfloat16", "--fit", "24GiB"]);
    let changes = document["fit"]["changes"].as_array().unwrap();
    let fits: Vec<bool> = changes.iter().map(|change| change["fits"].as_bool().unwrap()).collect();
    assert!(fits.is_sorted_by(|a, b| a >= b), "those that fit stand first: {fits:?}");
    assert!(fits[0], "something fits");
}

#[test]
fn a_directory_with_weights_is_counted_and_shards_stay_inside() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let header = br#"{"a":{"dtype":"BF16","shape":[1000,1000],"data_offsets":[0,0]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header);
    fs::write(path("model.safetensors"), file).unwrap();
    let model = folder.path().to_str().unwrap();
    assert_eq!(document(&[model])["parameters"], 1_000_000);
    fs::write(path("model.safetensors.index.json"), r#"{"weight_map":{"a":"../../etc/passwd"}}"#).unwrap();
    assert!(refused(&[model]).contains("outside its directory"));
}

#[test]
fn bad_input_is_named() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let heads = write("heads.json", br#"{"model_type":"llama","hidden_size":100,"num_attention_heads":3}"#);
    assert!(refused(&[&heads]).contains("does not divide"));
    let hostile = write("hostile.safetensors", &[(1_u64 << 60).to_le_bytes().as_slice(), b"{}"].concat());
    assert!(refused(&[&hostile]).contains("1152921504606846976"));
    let short = write("short.safetensors", &[500_u64.to_le_bytes().as_slice(), b"{"].concat());
    assert!(refused(&[&short]).contains("ends within its header"));
    let unknown = write("unknown.json", br#"{"model_type":"wonder"}"#);
    assert!(refused(&[&unknown]).contains("`wonder` is unknown"));
    assert!(refused(&["gpt2", "--batch", "0"]).contains("`--batch 0`"));
    assert!(refused(&["no-such-model"]).contains("or a known model name"));
    assert!(refused(&["gpt2", "--batch", "4294967296", "--seq", "4294967296"]).contains("exbibyte"));
}

#[test]
fn what_is_beyond_the_model_is_said_and_what_is_not_known_refused() {
    let long = document(&["gpt2", "--seq", "5000"]);
    let assumed = long["assumptions"].to_string();
    assert!(assumed.contains("longer than the model supports, 1024"), "{assumed}");
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("config.json");
    let config = r#"{"model_type":"wonder","hidden_size":1024,"num_attention_heads":16,"num_hidden_layers":8,"vocab_size":5000}"#;
    fs::write(&path, config).unwrap();
    let refused = estimate(&[path.to_str().unwrap()]);
    assert_eq!(refused.0, 2);
    assert!(refused.2.contains("`wonder` cannot be estimated"), "{}", refused.2);
    assert!(refused.2.contains("model.safetensors"), "{}", refused.2);
}

#[test]
fn the_calculator_is_written_once_and_begins_with_what_was_given() {
    let folder = TempDir::new().unwrap();
    let page = folder.path().join("page.html");
    let page = page.to_str().unwrap();
    let words = ["gpt2", "--batch", "8", "--checkpointing", "--web", "-o", page];
    if !highwater_viewer::calculator_is_built() {
        assert!(refused(&words).contains("no calculator"));
        return;
    }
    assert_eq!(estimate(&words).0, 0);
    let text = fs::read_to_string(page).unwrap();
    // `model=gpt2&batch=8&checkpointing=true`
    assert!(text.contains("id=\"inputs\">bW9kZWw9Z3B0MiZiYXRjaD04JmNoZWNrcG9pbnRpbmc9dHJ1ZQ==</script>"));
    assert!(refused(&words).contains("already exists"));
    assert_eq!(estimate(&[&words[..], &["--force"]].concat()).0, 0);
    assert!(refused(&["no-such-model", "--web"]).contains("or a known model name"));
    // `model=qwen3-8b&serve=vllm@0.11.0&gpu=l4&serve.max-model-len=8192&serve.enforce-eager=true`, as the page writes it.
    let served = "bW9kZWw9cXdlbjMtOGImc2VydmU9dmxsbSU0MDAuMTEuMCZncHU9bDQmc2VydmUubWF4LW1vZGVsLWxlbj04MTkyJnNlcnZlLmVuZm9yY2UtZWFnZXI9dHJ1ZQ==";
    let flags = ["--max-model-len", "8192", "--enforce-eager"];
    let ends = ["--web", "-o", page, "--force"];
    let asked = [&["qwen3-8b", "--serve", "vllm@0.11.0", "--gpu", "l4"], &flags[..], &ends].concat();
    assert_eq!(estimate(&asked).0, 0);
    assert!(fs::read_to_string(page).unwrap().contains(served));
    let release = ["--serve", "vllm@0.11.0", "--gpu", "l4"];
    let pasted = [&release[..], &ends, &["--", "vllm", "serve", "qwen3-8b"], &flags].concat();
    assert_eq!(estimate(&pasted).0, 0);
    assert!(fs::read_to_string(page).unwrap().contains(served));
    assert!(refused(&["gpt2", "--serve", "vllm", "--ctx-size", "8", "--web"]).contains("does not have `--ctx-size`"));
    assert!(refused(&["gpt2", "--serve", "vllm", "--batch", "8", "--web"]).contains("does not go with `--serve`"));
}

#[test]
fn what_belongs_to_the_calculator_needs_it() {
    assert!(refused(&["gpt2", "-o", "page.html"]).contains("--web"));
    assert!(refused(&["gpt2", "--web", "--format", "json"]).contains("cannot be used with"));
    assert!(refused(&["gpt2", "--optimizer", "best"]).contains("adamw-fused"));
}

/// A recording of GPT-2's training on an H200, whose program holds the loss only.
#[test]
fn a_recording_stands_beside_the_estimate_category_by_category() {
    let recording = testdata("categories/gpt2_adamw.pickle.gz");
    let words = ["gpt2", "--batch", "4", "--seq", "256", "--keep", "loss", "--against", recording.to_str().unwrap()];
    let against = &document(&words)["against"];
    assert_eq!(against["peak_phase"], "backward");
    assert_eq!(against["peak_requested_bytes"], 3_338_212_364_u64);
    let mut recorded = 0;
    for row in against["categories"].as_array().unwrap() {
        let [estimate, recording] = ["estimated_bytes", "recorded_bytes"].map(|name| row[name].as_u64().unwrap());
        assert!(estimate.abs_diff(recording) <= 8, "{row}");
        recorded += recording;
    }
    assert_eq!(recorded, 3_338_212_364, "the categories add up to the peak");
    let (code, out, err) = estimate(&words);
    assert_eq!((code, err.as_str()), (0, ""));
    let line = |start: &str| out.lines().rfind(|line| line.trim_start().starts_with(start)).unwrap_or_default();
    assert!(line("The estimate's peak is in").contains("the recording's in: backward"), "{out}");
    assert_eq!(line("activation").matches("1.27 GiB").count(), 2, "{out}");
}

#[test]
fn more_experts_than_there_are_and_odd_sides_are_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("config.json");
    let path = path.to_str().unwrap();
    fs::write(path, r#"{"model_type":"mixtral","num_local_experts":4,"num_experts_per_tok":9}"#).unwrap();
    assert!(refused(&[path]).contains("`num_experts_per_tok` is 9"));
    fs::write(path, r#"{"model_type":"vit","image_size":[224,224,3]}"#).unwrap();
    assert!(refused(&[path]).contains("height and width"));
}
