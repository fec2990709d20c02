//! Models of which only the size is known.

use crate::architecture::{Architecture, Body, Unknown};
use crate::estimate::{Breakdown, ErrorBand, Estimate, PhasePeak, Sums, Term};
use crate::setup::{Mode, Optimizer, Setup};
use crate::tape::Category;

/// Bytes of activations for a token and a hidden unit of a layer, in bytes of a number: the Llama rows of
/// `spec/memory-formulas.md` section 4.2 are 15 to 45.
const VALUES_PER_UNIT: u64 = 40;

/// Library workspaces, and the ends of segments.
const WORKSPACE: u64 = 64 << 20;

/// Copies of the parameters that an optimizer keeps, and that its step needs beside them, in hundredths.
fn optimizer_copies(optimizer: Optimizer) -> (u64, u64) {
    match optimizer {
        Optimizer::Sgd => (0, 0),
        Optimizer::Adafactor => (1, 10),
        Optimizer::SgdMomentum => (100, 0),
        Optimizer::RmsProp => (100, 100),
        Optimizer::Lion | Optimizer::Muon => (100, 10),
        Optimizer::Adagrad => (100, 200),
        Optimizer::AdamWFused => (200, 0),
        Optimizer::AdamWLoop => (200, 10),
        Optimizer::AdamWAmsgrad => (300, 100),
        Optimizer::Adadelta => (200, 200),
        Optimizer::AdamW8bit | Optimizer::PagedAdamW8bit => (52, 0),
        Optimizer::Lion8bit => (26, 0),
        Optimizer::AdamW | Optimizer::NAdam | Optimizer::RAdam | Optimizer::Adamax => (200, 100),
    }
}

/// So many hundredths of the weights.
fn share(weights: u64, hundredths: u64) -> u64 {
    (weights / 100).saturating_mul(hundredths)
}

/// Estimates from the parameter count, with a guess of the activations.
pub(crate) fn estimate(architecture: &Architecture, setup: &Setup) -> Estimate {
    let guess = Unknown { parameters: 0, largest: 0, hidden: None, layers: None, vocab: None };
    let known = match &architecture.body {
        Body::Unknown(known) => known,
        _ => &guess,
    };
    let parameters = architecture.counted_parameters.unwrap_or(known.parameters);
    let weights = parameters.saturating_mul(setup.dtype.bytes());
    let (hidden, layers) = shape_of(known, parameters);
    let tokens = setup.batch.saturating_mul(setup.seq);
    let is_training = setup.mode == Mode::Train;
    let per_token = hidden.saturating_mul(layers).saturating_mul(VALUES_PER_UNIT).saturating_mul(setup.dtype.bytes());
    let activations =
        if is_training { per_token.saturating_mul(tokens) } else { per_token.saturating_mul(tokens) / layers.max(1) };
    let logits = known.vocab.unwrap_or(32_000).saturating_mul(tokens).saturating_mul(if is_training { 14 } else { 6 });
    let (state, intermediates) = optimizer_copies(setup.optimizer);
    let of = |hundredths: u64| if is_training { share(weights, hundredths) } else { 0 };
    let (state, intermediates) = (of(state), of(intermediates));
    let gradients = if is_training { weights } else { 0 };
    let backward = weights.saturating_add(state).saturating_add(activations).saturating_add(logits);
    let step = weights.saturating_add(state).saturating_add(gradients).saturating_add(intermediates);
    let is_step = step > backward;
    let peak = backward.max(step);
    let breakdown = Breakdown {
        parameter: weights,
        optimizer_state: state,
        gradient: if is_step { gradients } else { 0 },
        activation: if is_step { 0 } else { activations },
        temporary: if is_step { intermediates } else { logits },
        ..Breakdown::default()
    };
    let terms = breakdown
        .by_category()
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(category, bytes)| term(category, bytes))
        .collect();
    let reserved = peak.saturating_add(peak / 10).saturating_add(WORKSPACE);
    let sums = Sums { parameters, peak, workspace: WORKSPACE, reserved };
    let mut estimate = Estimate::of_sums(architecture, sums);
    estimate.assumptions.push(format!(
        "the architecture is unknown: activations are a guess from the number of parameters, as if it had {layers} \
         layers of {hidden}"
    ));
    Estimate {
        activations_per_token: per_token / setup.dtype.bytes(),
        saved_bytes_per_token: per_token,
        peak_phase: match (is_training, is_step) {
            (false, _) => "forward".to_owned(),
            (true, true) => "optimizer step".to_owned(),
            (true, false) => "backward, around the loss".to_owned(),
        },
        phases: vec![
            PhasePeak { phase: "backward", peak_requested_bytes: backward },
            PhasePeak { phase: "optimizer step", peak_requested_bytes: step },
        ],
        breakdown,
        terms,
        error_band: ErrorBand {
            low_bytes: step.min(peak / 100 * 60),
            high_bytes: peak.saturating_add(peak / 100 * 60),
            percent: 60.0,
            evidence: "the architecture is unknown: only its number of parameters",
        },
        ..estimate
    }
}

fn term(category: Category, bytes: u64) -> Term {
    Term {
        category,
        part: "model",
        name: category.name(),
        count: 1,
        bytes,
        formula: "from the number of parameters".to_owned(),
    }
}

/// Hidden size and layers that such a number of parameters usually has: 12·h² a layer, and layers about h/128.
fn shape_of(known: &Unknown, parameters: u64) -> (u64, u64) {
    let mut hidden = 128_u64;
    while hidden < 1 << 16
        && hidden.saturating_mul(hidden).saturating_mul(12).saturating_mul((hidden / 128).max(1)) < parameters
    {
        hidden += 128;
    }
    (known.hidden.unwrap_or(hidden), known.layers.unwrap_or((hidden / 128).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_times_the_largest_number_of_weights_is_no_small_number() {
        assert_eq!(share(1000, 52), 520);
        assert_eq!(share(u64::MAX, 300), u64::MAX);
    }
}
