//! Measured rows and their set-ups.

use highwater_estimate::{
    Architecture, Attention, CacheKind, DType, Keep, Lora, LoraTargets, Loss, Mode, Optimizer, Setup, Sharding,
    TorchRelease, read,
};
use highwater_testkit::testdata;
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

/// The rows of a file in `testdata/estimates`; of the stages of a pipeline, the one that needs most.
pub(crate) fn rows(file: &str) -> Vec<Row> {
    let mut all: Vec<(Value, Row)> = Vec::new();
    for line in lines(file) {
        let own = row(&line);
        let set_up = without_measurements(&line);
        match all.iter_mut().find(|(other, _)| line["rank"].is_u64() && *other == set_up) {
            Some((_, stage)) if stage.requested < own.requested => *stage = own,
            Some(_) => {}
            None => all.push((set_up, own)),
        }
    }
    all.into_iter().map(|(_, row)| row).collect()
}

/// What a line says of the set-up, whatever the rank.
fn without_measurements(line: &Value) -> Value {
    let mut set_up = line.clone();
    if let Some(fields) = set_up.as_object_mut() {
        for name in ["rank", "n_params", "requested_peak", "peak_allocated", "peak_reserved", "torch", "transformers"] {
            fields.remove(name);
        }
    }
    set_up
}

/// The lines of a file in `testdata/estimates`.
pub(crate) fn lines(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(testdata(format!("estimates/{file}"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn row(value: &Value) -> Row {
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
        "adamw" | "adam" => Optimizer::AdamW,
        "adamw_fused" => Optimizer::AdamWFused,
        "adamw_loop" => Optimizer::AdamWLoop,
        "adamw_amsgrad" => Optimizer::AdamWAmsgrad,
        "rmsprop" => Optimizer::RmsProp,
        "adagrad" => Optimizer::Adagrad,
        "adadelta" => Optimizer::Adadelta,
        "nadam" => Optimizer::NAdam,
        "radam" => Optimizer::RAdam,
        "adamax" => Optimizer::Adamax,
        "muon" => Optimizer::Muon,
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
    setup.accumulation = value["accumulation"].as_u64().unwrap_or(1);
    if word("keep") == Some("loss") {
        setup.keep = Keep::Loss;
    }
    if word("cache") == Some("static") {
        setup.cache = CacheKind::Static;
    }
    if let Some(rank) = value["lora"]["r"].as_u64() {
        let targets =
            if value["lora"]["targets"] == "all-linear" { LoraTargets::AllLinear } else { LoraTargets::QueryValue };
        let dropout = value["lora"]["dropout"].as_f64().unwrap_or(0.0);
        setup.lora = Some(Lora { rank, dropout, targets, dtype: DType::Float32 });
    }
    if let Some(ranks) = value["fsdp"].as_u64() {
        setup.parallel.sharding = Sharding::Fsdp;
        setup.parallel.world_size = ranks;
    }
    if let Some(ranks) = value["ddp"].as_u64() {
        setup.parallel.world_size = ranks;
        setup.parallel.sharding = match value["zero"].as_u64() {
            Some(1) => Sharding::Zero1,
            Some(2) => Sharding::Zero2,
            Some(3) => Sharding::Zero3,
            _ => Sharding::None,
        };
    }
    setup.parallel.tensor = value["tp"].as_u64().unwrap_or(1);
    setup.parallel.pipeline = value["pp"].as_u64().unwrap_or(1);
    if let Some(card) = word("gpu") {
        let platform = &mut setup.platform;
        (platform.compute_capability, platform.multiprocessors, platform.threads_per_multiprocessor) = match card {
            "t4" => ((7, 5), 40, 1024),
            "a100" => ((8, 0), 108, 2048),
            "rtx4090" => ((8, 9), 128, 1536),
            other => panic!("{other}"),
        };
    }
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
