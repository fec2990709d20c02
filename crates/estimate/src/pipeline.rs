//! Pipelines of diffusers: models that run one after the other, for an image.

use serde_json::{Map, Value};

use crate::architecture::{Architecture, Body};
use crate::dtype::DType;
use crate::estimate::{Breakdown, ErrorBand, Estimate, PhasePeak, Sums, Term, peak_of};
use crate::quantization::Weight;
use crate::read::component_at;
use crate::reserve::replay;
use crate::run::run;
use crate::setup::{Mode, Offload, Setup};
use crate::tape::{Books, Category};

/// A pipeline, as its `model_index.json` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// Its models, in the order in which they run.
    pub components: Vec<Component>,
    /// Whether guidance runs each image with and without the text at once.
    pub doubles_batch: bool,
    /// Tokens of a text.
    pub text_tokens: u64,
    /// The type of the numbers of its VAE.
    pub decoding: Decoding,
    /// Height, width and frames without `--height`, `--width` and `--frames`.
    pub usual: [u64; 3],
}

/// The type of a VAE's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoding {
    /// That of the other models.
    AsGiven,
    /// float32 in place of float16, where its configuration says so.
    Upcast,
    /// float32, as diffusers' documentation loads it.
    Float32,
}

/// What is generated: an image, or the frames of a video.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Canvas {
    pub(crate) height: u64,
    pub(crate) width: u64,
    /// 1 for an image.
    pub(crate) frames: u64,
    /// Whether the model's numbers have 16 bits.
    pub(crate) is_half: bool,
}

impl Pipeline {
    fn canvas(&self, setup: &Setup) -> Canvas {
        let [height, width, frames] = self.usual;
        Canvas {
            height: setup.height.unwrap_or(height),
            width: setup.width.unwrap_or(width),
            frames: setup.frames.filter(|_| frames > 1).unwrap_or(frames),
            is_half: setup.dtype != DType::Float32,
        }
    }
}

/// A model of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// What it is called.
    pub label: &'static str,
    /// What it does.
    pub role: Role,
    /// Its configuration.
    pub config: Map<String, Value>,
}

/// What a model of a pipeline does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Encodes the text.
    Text,
    /// Runs once for each step of the denoising.
    Denoiser,
    /// Turns latents into pixels.
    Decoder,
}

impl Role {
    fn phase(self) -> &'static str {
        match self {
            Role::Text => "text encoding",
            Role::Denoiser => "denoising",
            Role::Decoder => "decoding",
        }
    }
}

/// A model's bytes.
struct Share {
    label: &'static str,
    role: Role,
    parameters: u64,
    weights: u64,
    /// The largest weight of one module.
    largest: u64,
    /// What its forward pass needs above the weights.
    temporary: u64,
    /// Its buffers, which offloading by modules leaves on the GPU.
    buffers: u64,
    /// Bytes of the weights that the forward pass was counted with.
    loaded: u64,
    books: Books,
}

fn share_of(pipeline: &Pipeline, component: &Component, setup: &Setup) -> Option<Share> {
    let asks = || component.config.get("force_upcast").and_then(Value::as_bool).unwrap_or(true);
    let upcasts = component.role == Role::Decoder
        && match pipeline.decoding {
            Decoding::AsGiven => false,
            Decoding::Upcast => setup.dtype == DType::Float16 && asks(),
            Decoding::Float32 => true,
        };
    let dtype = if upcasts { DType::Float32 } else { setup.dtype };
    let canvas = Canvas { is_half: dtype != DType::Float32, ..pipeline.canvas(setup) };
    let architecture = component_at(component, canvas).ok()?;
    let times = if pipeline.doubles_batch && component.role == Role::Denoiser { 2 } else { 1 };
    let own = Setup {
        mode: Mode::Forward,
        batch: setup.batch.saturating_mul(times),
        seq: pipeline.text_tokens.min(architecture.max_positions.unwrap_or(u64::MAX)),
        dtype,
        lora: None,
        ..*setup
    };
    let run = run(&architecture, &own)?;
    let buffers = match &architecture.body {
        Body::Network(network) => network.buffer_bytes(dtype),
        _ => 0,
    };
    let loaded = run.parameters.saturating_mul(dtype.bytes());
    let weights = crate::models::weights(&architecture, dtype).unwrap_or_default();
    let largest = weights.iter().map(Weight::parameters).max().unwrap_or(0).saturating_mul(dtype.bytes());
    // The encoder's half of an autoencoder is there, too.
    let whole = match component.role {
        Role::Decoder => crate::read::parameters_of(component).unwrap_or(run.parameters),
        _ => run.parameters,
    };
    Some(Share {
        label: component.label,
        role: component.role,
        parameters: whole,
        weights: whole.saturating_mul(dtype.bytes()),
        largest,
        temporary: peak_of(&run.books).saturating_sub(loaded).saturating_sub(buffers),
        buffers,
        loaded,
        books: run.books,
    })
}

/// A share in percent, to a tenth.
fn percent(share: u64, of: u64) -> f64 {
    let thousandths = u32::try_from(share.saturating_mul(1000) / of.max(1)).unwrap_or(u32::MAX);
    f64::from(thousandths) / 10.0
}

/// The estimate of a generation.
pub(crate) fn estimate(architecture: &Architecture, pipeline: &Pipeline, setup: &Setup) -> Estimate {
    let shares: Vec<Share> =
        pipeline.components.iter().filter_map(|component| share_of(pipeline, component, setup)).collect();
    let sum_of = |of: fn(&Share) -> u64| shares.iter().fold(0_u64, |sum, share| sum.saturating_add(of(share)));
    let (all, buffers) = (sum_of(|share| share.weights), sum_of(|share| share.buffers));
    // A model leaves the GPU when the next one arrives. The negative prompt brings the first text encoder back while the last one is still
    // there.
    let texts: Vec<&Share> = shares.iter().filter(|share| share.role == Role::Text).collect();
    let beside = match texts.as_slice() {
        [first, .., last] if pipeline.doubles_batch => Some((last.label, first.weights)),
        _ => None,
    };
    let resident = |share: &Share| match setup.offload {
        Offload::None => all.saturating_add(buffers),
        Offload::Model => {
            let first = beside.filter(|(label, _)| *label == share.label).map_or(0, |(_, bytes)| bytes);
            share.weights.saturating_add(share.buffers).saturating_add(first)
        }
        Offload::Sequential => share.largest.saturating_add(buffers),
    };
    let mut phases: Vec<PhasePeak> = Vec::new();
    for share in &shares {
        let peak = resident(share).saturating_add(share.temporary);
        match phases.iter_mut().find(|phase| phase.phase == share.role.phase()) {
            Some(phase) => phase.peak_requested_bytes = phase.peak_requested_bytes.max(peak),
            None => phases.push(PhasePeak { phase: share.role.phase(), peak_requested_bytes: peak }),
        }
    }
    let highest = shares.iter().max_by_key(|share| resident(share).saturating_add(share.temporary));
    let (weights, temporary) = highest.map_or((0, 0), |share| (resident(share), share.temporary));
    let peak = weights.saturating_add(temporary);
    let workspace = if setup.platform.compute_capability == (9, 0) { 32 << 20 } else { 8_519_680 };
    // Only the highest model's segments are simulated: those of the models before it are reused.
    let simulated = highest.and_then(|share| replay(&share.books, &[workspace], setup.platform.torch).zip(Some(share)));
    let reserved = match simulated {
        Some((reserve, share)) => {
            reserve.reserved.saturating_sub(share.loaded.saturating_add(share.buffers)).saturating_add(weights)
        }
        None => peak.saturating_add(temporary / 10).saturating_add(workspace),
    };
    let term = |name: &'static str, category: Category, bytes: u64| Term {
        category,
        part: "model",
        name,
        count: 1,
        bytes,
        formula: if category == Category::Parameter { "weights" } else { "largest forward pass" }.to_owned(),
    };
    let is_here =
        |share: &&Share| setup.offload == Offload::None || highest.is_some_and(|one| one.label == share.label);
    let mut terms: Vec<Term> = shares
        .iter()
        .filter(is_here)
        .map(|share| {
            let bytes = if setup.offload == Offload::Sequential { share.largest } else { share.weights };
            term(share.label, Category::Parameter, bytes)
        })
        .collect();
    if let (Offload::Model, Some(share), Some((label, bytes)), Some(first)) =
        (setup.offload, highest, beside, texts.first())
        && label == share.label
    {
        terms.push(term(first.label, Category::Parameter, bytes));
    }
    let counted = terms.iter().fold(0_u64, |sum, term| sum.saturating_add(term.bytes));
    let of_buffers = weights.saturating_sub(counted);
    if of_buffers > 0 {
        terms.push(Term { formula: "tables".to_owned(), ..term("buffers", Category::Parameter, of_buffers) });
    }
    terms.push(term(highest.map_or("", |share| share.label), Category::Temporary, temporary));
    terms.sort_by_key(|term| std::cmp::Reverse(term.bytes));
    // Weights are exact, and the forward pass of each model is within a quarter.
    let at = |quarters: u64| {
        let peak_of = |share: &Share| resident(share).saturating_add(share.temporary / 4 * quarters);
        shares.iter().map(peak_of).max().unwrap_or(0)
    };
    let (low, high) = (at(3), at(5));
    let Canvas { height, width, frames, .. } = pipeline.canvas(setup);
    let parameters = shares.iter().fold(0_u64, |sum, share| sum.saturating_add(share.parameters));
    let mut estimate = Estimate::of_sums(architecture, Sums { parameters, peak, workspace, reserved });
    let picture = match frames {
        1 => format!("an image of {height} × {width}"),
        _ => format!("a video of {frames} frames of {height} × {width}"),
    };
    estimate.assumptions.push(format!("{picture}; each convolution copies its input, as cuDNN's kernels do"));
    if setup.frames.is_some() && pipeline.usual[2] == 1 {
        estimate.assumptions.push("`--frames` is for videos: it changes nothing here".to_owned());
    }
    Estimate {
        peak_phase: highest.map_or("", |share| share.role.phase()).to_owned(),
        phases,
        breakdown: Breakdown { parameter: weights, temporary, ..Breakdown::default() },
        terms,
        error_band: ErrorBand {
            low_bytes: low,
            high_bytes: high,
            percent: percent(high.saturating_sub(peak), peak),
            evidence: "weights exactly, forward passes from the shapes of their layers, within a quarter",
        },
        ..estimate
    }
}
