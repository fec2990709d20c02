//! Compares estimates with measured rows: `rows FILE… [--trace]`.
#![allow(missing_docs, clippy::all, clippy::pedantic, clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)]
use highwater_estimate::*;
use serde_json::Value;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let trace = args.iter().any(|a| a == "--trace");
    let mut errors = Vec::new();
    for file in args.iter().filter(|a| !a.starts_with("--")) {
        for line in std::fs::read_to_string(file).unwrap().lines().filter(|l| !l.trim().is_empty()) {
            let row: Value = serde_json::from_str(line).unwrap();
            let name;
            let arch = match row.get("config") {
                Some(config) => {
                    name = config["model_type"].as_str().unwrap().to_string();
                    read::from_config_value(config).unwrap()
                }
                None => {
                    name = row["kind"].as_str().unwrap().to_string();
                    read::named(&name).unwrap()
                }
            };
            let mut s = Setup::training(row["b"].as_u64().unwrap(), row["s"].as_u64().unwrap());
            s.dtype = DType::named(row["dtype"].as_str().unwrap()).unwrap();
            s.autocast = row["autocast"].as_str().and_then(DType::named);
            s.optimizer = match row["opt"].as_str().unwrap_or("adamw") {
                "adamw" => Optimizer::AdamW,
                "adamw_fused" => Optimizer::AdamWFused,
                "adamw_loop" => Optimizer::AdamWLoop,
                "sgd" => Optimizer::Sgd,
                "sgd_momentum" => Optimizer::SgdMomentum,
                "adafactor" => Optimizer::Adafactor,
                "rmsprop" => Optimizer::RmsProp,
                o => panic!("{o}"),
            };
            s.attention = if row["attn"] == "eager" { Attention::Eager } else { Attention::Sdpa };
            s.checkpointing = row["ckpt"] == true;
            s.loss = if row["labels"] == false { Loss::MeanLogits } else { Loss::Labels };
            s.keep = if row["keep"] == false { Keep::Loss } else { Keep::Outputs };
            let mode = row["mode"].as_str().unwrap_or("train");
            s.mode = if mode == "train" {
                Mode::Train
            } else if let Some(n) = mode.strip_prefix("generate") {
                Mode::Generate { new_tokens: n.parse().unwrap() }
            } else {
                Mode::Forward
            };
            if row["torch"].as_str().is_some_and(|t| t.starts_with("2.15")) {
                s.platform.torch = TorchRelease::V2_15;
            }
            let (n, peak) = debug_peak(&arch, &s, trace);
            let Some(truth) = row["requested_peak"].as_u64() else {
                println!("no truth {name} {}", row["error"]);
                continue;
            };
            let e = (peak as f64 / truth as f64 - 1.0) * 100.0;
            errors.push(e.abs());
            println!(
                "{:14} b{} s{} {} {} {} {} {} {} {mode}: {} {} {e:+.4}% ({:+}) {}",
                name,
                row["b"],
                row["s"],
                row["dtype"].as_str().unwrap(),
                row["autocast"].as_str().unwrap_or("-"),
                row["opt"].as_str().unwrap_or(""),
                row["attn"].as_str().unwrap_or(""),
                if s.checkpointing { "ckpt" } else { "" },
                row["labels"],
                truth,
                peak,
                peak as i64 - truth as i64,
                if row["n_params"].as_u64().is_some_and(|t| t != n) {
                    format!("PARAMS {} vs {n}", row["n_params"])
                } else {
                    String::new()
                }
            );
        }
    }
    errors.sort_by(f64::total_cmp);
    if let (Some(max), Some(median)) = (errors.last(), errors.get(errors.len() / 2)) {
        println!(
            "n {} median {median:.4}% p90 {:.4}% p95 {:.4}% max {max:.3}%",
            errors.len(),
            errors[errors.len() * 9 / 10],
            errors[(errors.len() * 95).div_ceil(100) - 1]
        );
    }
}
