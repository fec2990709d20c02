//! Measured rows and their set-ups.

use std::path::Path;

use highwater_estimate::{Architecture, Attention, DType, Loss, Mode, Optimizer, Setup, TorchRelease, read};
use serde_json::Value;

/// A measured row.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) architecture: Architecture,
    pub(crate) setup: Setup,
    pub(crate) parameters: u64,
    pub(crate) requested: u64,
    pub(crate) allocated: u64,
    pub(crate) reserved: u64,
}

/// The rows of a file in `testdata/estimates`.
pub(crate) fn rows(file: &str) -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/estimates").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| row(&serde_json::from_str(line).unwrap())).collect()
}

fn row(value: &Value) -> Row {
    let number = |name: &str| value[name].as_u64().unwrap();
    let word = |name: &str| value[name].as_str();
    let (name, architecture) = match value.get("config") {
        Some(config) => (config["model_type"].as_str().unwrap(), read::from_config_value(config).unwrap()),
        None => (word("kind").unwrap(), read::named(word("kind").unwrap()).unwrap()),
    };
    let mut setup = Setup::training(number("b"), number("s"));
    setup.dtype = word("dtype").and_then(DType::named).unwrap();
    setup.autocast = word("autocast").and_then(DType::named);
    setup.optimizer = match word("opt").unwrap() {
        "adamw" => Optimizer::AdamW,
        "adamw_fused" => Optimizer::AdamWFused,
        "adamw_loop" => Optimizer::AdamWLoop,
        "sgd" => Optimizer::Sgd,
        "sgd_momentum" => Optimizer::SgdMomentum,
        "adafactor" => Optimizer::Adafactor,
        other => panic!("{other}"),
    };
    setup.attention = if word("attn") == Some("eager") { Attention::Eager } else { Attention::Sdpa };
    setup.checkpointing = value["ckpt"] == true;
    setup.loss = if value["labels"] == true { Loss::Labels } else { Loss::MeanLogits };
    setup.mode = match word("mode").unwrap() {
        "train" => Mode::Train,
        "forward_nograd" => Mode::Forward,
        other => Mode::Generate { new_tokens: other.trim_start_matches("generate").parse().unwrap() },
    };
    if word("torch").is_some_and(|torch| torch.starts_with("2.15")) {
        setup.platform.torch = TorchRelease::V2_15;
    }
    Row {
        name: format!("{name} b{} s{} {} {:?}", setup.batch, setup.seq, setup.dtype, setup.mode),
        architecture,
        setup,
        parameters: number("n_params"),
        requested: number("requested_peak"),
        allocated: number("peak_allocated"),
        reserved: number("peak_reserved"),
    }
}
