//! Estimates beside measured peaks.
#![expect(clippy::cast_precision_loss, reason = "shares of bytes")]

use highwater_estimate::{DType, Keep, Loss, Offload, Setup, estimate, read};
use highwater_testkit::repository;
use serde_json::Value;

use crate::rows::{Row, lines, rows};

/// Deviations in percent, the smallest first.
struct Errors {
    requested: Vec<f64>,
    allocated: Vec<f64>,
    reserved: Vec<f64>,
}

fn off(estimated: u64, measured: u64) -> f64 {
    (estimated as f64 / measured as f64 - 1.0).abs() * 100.0
}

fn at(sorted: &[f64], percent: usize) -> f64 {
    sorted[((sorted.len() * percent).div_ceil(100)).clamp(1, sorted.len()) - 1]
}

fn errors(rows: &[Row]) -> Errors {
    let mut errors = Errors { requested: Vec::new(), allocated: Vec::new(), reserved: Vec::new() };
    for row in rows {
        let answer = estimate(&row.architecture, &row.setup);
        let adapters = if row.setup.lora.is_some() { answer.trainable_parameters } else { 0 };
        assert_eq!(answer.parameters + adapters, row.parameters, "{}", row.name);
        errors.requested.push(off(answer.peak_requested_bytes, row.requested));
        errors.allocated.push(off(answer.peak_allocated_bytes, row.allocated));
        errors.reserved.push(off(answer.peak_reserved_bytes, row.reserved));
    }
    for list in [&mut errors.requested, &mut errors.allocated, &mut errors.reserved] {
        list.sort_by(f64::total_cmp);
    }
    errors
}

#[test]
fn runs_on_an_h200_are_met() {
    let errors = errors(&rows("h200.jsonl"));
    assert!(at(&errors.requested, 50) <= 0.05, "{:?}", errors.requested);
    assert!(at(&errors.requested, 95) <= 1.0, "{:?}", errors.requested);
    assert!(at(&errors.requested, 100) <= 6.0, "{:?}", errors.requested);
    assert!(at(&errors.allocated, 50) <= 0.5, "{:?}", errors.allocated);
    assert!(at(&errors.reserved, 50) <= 5.0, "{:?}", errors.reserved);
}

#[test]
fn dry_runs_of_other_families_are_met() {
    let errors = errors(&rows("nullgpu.jsonl"));
    assert!(at(&errors.requested, 50) <= 0.05, "{:?}", errors.requested);
    assert!(at(&errors.requested, 95) <= 1.0, "{:?}", errors.requested);
    assert!(at(&errors.requested, 100) <= 6.0, "{:?}", errors.requested);
    assert!(at(&errors.allocated, 50) <= 0.5, "{:?}", errors.allocated);
}

#[test]
fn dry_runs_of_other_setups_are_met() {
    let errors = errors(&rows("nullgpu_setups.jsonl"));
    assert!(at(&errors.requested, 50) <= 0.05, "{:?}", errors.requested);
    assert!(at(&errors.requested, 95) <= 1.0, "{:?}", errors.requested);
    assert!(at(&errors.requested, 100) <= 6.0, "{:?}", errors.requested);
    assert!(at(&errors.allocated, 50) <= 0.5, "{:?}", errors.allocated);
}

#[test]
fn dry_runs_of_several_ranks_are_met() {
    let rows = rows("nullgpu_parallel.jsonl");
    for row in &rows {
        let answer = estimate(&row.architecture, &row.setup);
        let (estimated, measured) = (answer.peak_requested_bytes, row.requested);
        assert!(
            off(estimated, measured) <= 1.0,
            "{}, {:?}: {estimated} beside {measured}",
            row.name,
            row.setup.parallel
        );
        assert!(answer.error_band.percent <= 3.0, "{}, {:?}", row.name, row.setup.parallel);
    }
    let errors = errors(&rows);
    assert!(at(&errors.requested, 95) <= 0.1, "{:?}", errors.requested);
    assert!(at(&errors.allocated, 95) <= 0.5, "{:?}", errors.allocated);
    assert!(at(&errors.reserved, 50) <= 1.0, "{:?}", errors.reserved);
}

#[test]
fn parameters_are_counted_as_transformers_counts_them() {
    let mut wrong = Vec::new();
    for line in lines("parameters.jsonl") {
        let model = match read::from_config_value(&line["config"]) {
            Ok(model) => model,
            Err(error) => {
                wrong.push(format!("{error} beside {line}"));
                continue;
            }
        };
        let counted = estimate(&model, &Setup::training(1, 8)).parameters;
        if line["n_params"] != counted {
            wrong.push(format!("{counted} beside {line}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Weights are exact, and the forward pass above them is within the printed band in each phase; the whole peak is within a few percent.
#[test]
fn dry_runs_of_pipelines_are_met() {
    for line in lines("pipelines.jsonl") {
        let name = line["name"].as_str().unwrap();
        let pipeline = read::from_config_value(&line["config"]).unwrap();
        let number = |field: &str| line[field].as_u64().unwrap();
        let offload = match line["offload"].as_str().unwrap() {
            "none" => Offload::None,
            "model" => Offload::Model,
            _ => Offload::Sequential,
        };
        let setup = Setup {
            dtype: DType::BFloat16,
            height: Some(number("height")),
            width: Some(number("width")),
            frames: Some(number("frames")),
            offload,
            ..Setup::training(1, 8)
        };
        let answer = estimate(&pipeline, &setup);
        assert_eq!(answer.parameters, number("n_params"), "{name}");
        let measured = line["peaks"].as_object().unwrap();
        // The recording has cuBLAS's workspace, too.
        let above = |peak: u64| peak - answer.workspace_bytes;
        let highest = above(measured.values().filter_map(Value::as_u64).max().unwrap());
        let estimated = answer.peak_requested_bytes;
        assert!(off(estimated, highest) <= 6.0, "{name}: {estimated} beside {highest}");
        let band = &answer.error_band;
        let slack = highest / 50;
        assert!(band.low_bytes <= highest + slack && highest <= band.high_bytes + slack, "{name}: {highest}, {band:?}");
        for phase in answer.phases.iter().filter(|_| offload == Offload::None) {
            let measured = above(measured[phase.phase].as_u64().unwrap());
            assert!(off(phase.peak_requested_bytes, measured) <= 6.0, "{name}, {}: {measured}", phase.phase);
        }
    }
}

/// `torch.mean(model(inputs).logits)` of Qwen2.5-1.5B in float32 with `AdamW`: 256 tokens a sequence. The measured peaks are
/// `requested_bytes.all.peak` of recordings on an H200, library workspaces included.
#[test]
fn the_example_of_the_blog_is_met() {
    let model = read::named("qwen2.5-1.5b").unwrap();
    for (batch, measured, phase) in
        [(16, 47_014_824_456, "backward, around the loss"), (2, 30_942_448_132, "optimizer step")]
    {
        let setup =
            Setup { loss: Loss::MeanLogits, keep: Keep::Loss, dtype: DType::Float32, ..Setup::training(batch, 256) };
        let answer = estimate(&model, &setup);
        let estimated = answer.peak_requested_bytes + answer.workspace_bytes;
        assert!(off(estimated, measured) <= 0.1, "{estimated} beside {measured}");
        assert_eq!(answer.peak_phase, phase);
        assert_eq!(answer.activations_per_token, 1_266_304);
    }
}

/// The table of `docs/estimate.md`: rows, then the median, the 95th percentile and the maximum of each peak's deviation.
#[test]
fn the_page_says_what_is_measured() {
    let page = std::fs::read_to_string(repository("docs/estimate.md")).unwrap();
    for file in ["h200.jsonl", "nullgpu.jsonl", "nullgpu_setups.jsonl", "nullgpu_parallel.jsonl"] {
        let rows = rows(file);
        let errors = errors(&rows);
        let cells = |list: &[f64]| format!("{:.3} %, {:.2} %, {:.1} %", at(list, 50), at(list, 95), at(list, 100));
        let line = format!(
            "| {} | {} | {} | {} |",
            rows.len(),
            cells(&errors.requested),
            cells(&errors.allocated),
            cells(&errors.reserved)
        );
        assert!(page.contains(&line), "`docs/estimate.md` lacks this of `{file}`: {line}");
    }
}
