//! The answer: peaks by phase, the parts of the peak, and the error band.

use std::collections::HashMap;

use highwater_driver::context::TRAINING_BYTES;
use serde::Serialize;

use crate::architecture::{Architecture, Body, Evidence};
use crate::dtype::DType;
use crate::reserve::{Reserve, replay};
use crate::run::{Run, parameters, run, run_stage};
use crate::setup::{
    Attention, CacheKind, Keep, Loss, Mode, Offload, Optimizer, Quantisation, Setup, Sharding, TorchRelease,
};
use crate::sharding::{shard, stage};
use crate::stage::Stage;
use crate::tape::{Allocation, Books, Category, Event, Moment};
use crate::{pipeline, unknown};

const MIB: u64 = 1 << 20;

/// An estimate. Bytes are those of one card; peaks are without library workspaces unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The model's name.
    pub model: String,
    /// Its family.
    pub family: String,
    /// The number of its parameters.
    pub parameters: u64,
    /// The number of trained parameters, those of adapters included.
    pub trainable_parameters: u64,
    /// The peak of requested memory, without library workspaces.
    pub peak_requested_bytes: u64,
    /// The peak of allocated memory, with rounding, without library workspaces.
    pub peak_allocated_bytes: u64,
    /// Workspaces of cuBLAS, which PyTorch's allocator provides.
    pub workspace_bytes: u64,
    /// The expected reserved memory, workspaces included.
    pub peak_reserved_bytes: u64,
    /// The CUDA context, in addition.
    pub context_bytes: u64,
    /// Reserved bytes and the context.
    pub total_bytes: u64,
    /// Elements in the outputs of all modules per token, containers included, as forward hooks count them.
    pub activations_per_token: u64,
    /// Bytes kept for the backward pass, for one token.
    pub saved_bytes_per_token: u64,
    /// In words, when the peak is.
    pub peak_phase: String,
    /// The peak of each phase.
    pub phases: Vec<PhasePeak>,
    /// Live memory at the peak, by the categories of the report.
    pub breakdown: Breakdown,
    /// The terms of the peak, largest first.
    pub terms: Vec<Term>,
    /// The error band of the estimate.
    pub error_band: ErrorBand,
    /// The assumptions.
    pub assumptions: Vec<String>,
}

/// The input of [`Estimate::of_sums`], in bytes but for the number of parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sums {
    pub(crate) parameters: u64,
    pub(crate) peak: u64,
    pub(crate) workspace: u64,
    pub(crate) reserved: u64,
}

/// The peak of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhasePeak {
    /// The phase: `loading`, `forward`, `backward`, `first step`, `optimizer step`, `prefill`, `decode`.
    pub phase: &'static str,
    /// Requested bytes at most.
    pub peak_requested_bytes: u64,
}

/// Bytes at the peak by category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Breakdown {
    /// Weights and buffers of the model.
    pub parameter: u64,
    /// Their gradients.
    pub gradient: u64,
    /// State that the optimizer keeps.
    pub optimizer_state: u64,
    /// Kept for the backward pass.
    pub activation: u64,
    /// In inference, the keys and values that are kept from token to token.
    pub cache: u64,
    /// Data that the program feeds in.
    pub input: u64,
    /// Short-lived memory.
    pub temporary: u64,
    /// Memory that libraries keep.
    pub workspace: u64,
    /// Always 0, because an estimate knows every category; present as in the report.
    pub unknown: u64,
}

impl Breakdown {
    fn add(&mut self, category: Category, bytes: u64) {
        let place = match category {
            Category::Parameter => &mut self.parameter,
            Category::Gradient => &mut self.gradient,
            Category::OptimizerState => &mut self.optimizer_state,
            Category::Activation => &mut self.activation,
            Category::Cache => &mut self.cache,
            Category::Input => &mut self.input,
            Category::Temporary => &mut self.temporary,
            Category::Workspace => &mut self.workspace,
        };
        *place = place.saturating_add(bytes);
    }

    /// Each category with its bytes.
    pub fn by_category(&self) -> [(Category, u64); 8] {
        [
            (Category::Parameter, self.parameter),
            (Category::Gradient, self.gradient),
            (Category::OptimizerState, self.optimizer_state),
            (Category::Activation, self.activation),
            (Category::Cache, self.cache),
            (Category::Input, self.input),
            (Category::Temporary, self.temporary),
            (Category::Workspace, self.workspace),
        ]
    }
}

/// A term of the peak: tensors of the same kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Term {
    /// Its category.
    pub category: Category,
    /// The part of the model or of the step.
    pub part: &'static str,
    /// The value.
    pub name: &'static str,
    /// The number of tensors.
    pub count: u64,
    /// All of them together.
    pub bytes: u64,
    /// The formula of the bytes: count × sizes × bytes of a number.
    pub formula: String,
}

/// The error band of an estimate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorBand {
    /// The requested peak is expected to be at least this.
    pub low_bytes: u64,
    /// The requested peak is expected to be at most this.
    pub high_bytes: u64,
    /// The larger deviation, in percent.
    pub percent: f64,
    /// The evidence for the band.
    pub evidence: &'static str,
}

impl Estimate {
    /// The estimate of an architecture of which only sums are known: its phases, terms and error band are still to
    /// come.
    pub(crate) fn of_sums(architecture: &Architecture, sums: Sums) -> Estimate {
        Estimate {
            model: architecture.name.clone(),
            family: architecture.family.to_owned(),
            parameters: sums.parameters,
            trainable_parameters: sums.parameters,
            peak_requested_bytes: sums.peak,
            peak_allocated_bytes: sums.peak,
            workspace_bytes: sums.workspace,
            peak_reserved_bytes: sums.reserved,
            context_bytes: TRAINING_BYTES,
            total_bytes: sums.reserved.saturating_add(TRAINING_BYTES),
            activations_per_token: 0,
            saved_bytes_per_token: 0,
            peak_phase: String::new(),
            phases: Vec::new(),
            breakdown: Breakdown::default(),
            terms: Vec::new(),
            error_band: ErrorBand { low_bytes: sums.peak, high_bytes: sums.peak, percent: 0.0, evidence: "" },
            assumptions: architecture.assumptions.clone(),
        }
    }

    /// The memory on the GPU at the upper end of the error band: what has to be there for the run to fit.
    pub fn highest_total_bytes(&self) -> u64 {
        self.total_bytes.saturating_add(self.error_band.high_bytes.saturating_sub(self.peak_requested_bytes))
    }

    /// The memory on the GPU at the lower end of the error band: with less the run does not fit.
    pub fn lowest_total_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.peak_requested_bytes.saturating_sub(self.error_band.low_bytes))
    }
}

/// No machine has as much memory: a larger need is a mistake, and sums may have saturated.
pub const MOST_BYTES: u64 = 1 << 60;

/// Estimates a model in a set-up.
pub fn estimate(architecture: &Architecture, setup: &Setup) -> Estimate {
    if let Body::Pipeline(pipeline) = &architecture.body {
        return pipeline::estimate(architecture, pipeline, setup);
    }
    match largest_stage(architecture, setup) {
        Some((run, walk)) => of_run(architecture, setup, &run, &walk),
        None => unknown::estimate(architecture, setup),
    }
}

/// The run of the rank that needs most, and a walk over it.
fn largest_stage(architecture: &Architecture, setup: &Setup) -> Option<(Run, Walk)> {
    let own = stage(architecture, setup.parallel.pipeline);
    let finish = |mut run: Run| {
        shard(&mut run.books, setup, &own);
        let walk = walk(&run.books);
        (run, walk)
    };
    if !is_pipeline(architecture, setup) {
        return run(&own, setup).map(finish);
    }
    // More stages than layers would have nothing to run.
    let stages = Stage::of(setup.parallel.pipeline.min(architecture.layers().max(2))).into_iter();
    let runs = stages.filter_map(|stage| run_stage(&own, setup, Some(stage)).map(finish));
    runs.max_by_key(|(_, walk)| walk.peak)
}

/// Whether stages of a pipeline are run micro-batch by micro-batch; else one that has both ends is.
fn is_pipeline(architecture: &Architecture, setup: &Setup) -> bool {
    setup.parallel.pipeline > 1
        && setup.mode == Mode::Train
        && matches!(architecture.body, Body::Decoder(_))
        && architecture.towers.is_empty()
}

/// The peak of requested memory alone, for searches.
pub fn peak_requested_bytes(architecture: &Architecture, setup: &Setup) -> u64 {
    if let Body::Pipeline(pipeline) = &architecture.body {
        return pipeline::estimate(architecture, pipeline, setup).peak_requested_bytes;
    }
    match largest_stage(architecture, setup) {
        Some((_, walk)) => walk.peak,
        None => unknown::estimate(architecture, setup).peak_requested_bytes,
    }
}

fn of_run(architecture: &Architecture, setup: &Setup, run: &Run, walk: &Walk) -> Estimate {
    let is_part = setup.parallel.tensor > 1 || setup.parallel.pipeline > 1;
    let whole = is_part.then(|| parameters(architecture, setup)).flatten();
    let (parameters, trained) = whole.unwrap_or((run.parameters, run.trained));
    let workspaces = workspaces(setup, architecture);
    let workspace_bytes = workspaces.iter().fold(0_u64, |sum, one| sum.saturating_add(*one));
    let reserve = replay(&run.books, &workspaces, setup.platform.torch)
        .unwrap_or(Reserve { allocated: walk.peak, reserved: walk.peak.saturating_add(workspace_bytes) });
    let (breakdown, terms) = at_peak(run, walk);
    let tokens = tokens(architecture, setup);
    let total_bytes = reserve.reserved.saturating_add(TRAINING_BYTES);
    Estimate {
        model: architecture.name.clone(),
        family: architecture.family.to_owned(),
        parameters,
        trainable_parameters: trained,
        peak_requested_bytes: walk.peak,
        peak_allocated_bytes: reserve.allocated,
        workspace_bytes,
        peak_reserved_bytes: reserve.reserved,
        context_bytes: TRAINING_BYTES,
        total_bytes,
        activations_per_token: run.module_outputs / tokens.max(1),
        saved_bytes_per_token: walk.saved / tokens.max(1),
        peak_phase: walk.phase(&run.books),
        phases: walk.phases(),
        breakdown,
        terms,
        error_band: band(architecture, setup, walk.peak),
        assumptions: assumptions(architecture, setup),
    }
}

/// Tokens of a micro-batch; images count by their patches.
fn tokens(architecture: &Architecture, setup: &Setup) -> u64 {
    let of_one = match &architecture.body {
        Body::Vit(vit) => crate::models::patches_of(vit).saturating_add(1),
        Body::Network(network) => network.stages.last().and_then(|stage| stage.positions).unwrap_or(setup.seq),
        Body::Chain(_) | Body::Pipeline(_) => 1,
        _ => setup.seq,
    };
    setup.batch.saturating_mul(of_one)
}

/// What cuBLAS works in: one for each thread that multiplies, and cuBLASLt's beside it where products have biases.
///
/// # Source
/// `spec/memory-formulas.md` section 9: 32 MiB on compute capability 9.0, else 8,519,680 bytes; torch 2.11 keeps one
/// for the forward and one for the backward thread, 2.15 gives it back.
fn workspaces(setup: &Setup, architecture: &Architecture) -> Vec<u64> {
    let one = if setup.platform.compute_capability == (9, 0) { 32 * MIB } else { 8_519_680 };
    let threads = if setup.mode == Mode::Train && setup.platform.torch < TorchRelease::V2_15 { 2 } else { 1 };
    let has_biases = !matches!(&architecture.body, Body::Decoder(decoder) if !decoder.qkv_bias && !decoder.mlp_bias);
    let mut all = vec![one; threads];
    if has_biases && setup.platform.torch < TorchRelease::V2_15 {
        all.push(MIB);
    }
    all
}

/// A walk over the books.
struct Walk {
    peak: u64,
    /// The event at which the peak is reached.
    at: usize,
    /// The phase of that event, and of which iteration.
    moment: Moment,
    peaks: Vec<(Moment, u64)>,
    /// Kept for the backward pass, at its begin.
    saved: u64,
}

/// The peak of requested memory of a run.
pub(crate) fn peak_of(books: &Books) -> u64 {
    walk(books).peak
}

fn walk(books: &Books) -> Walk {
    let mut current = 0_u64;
    let mut moment = Moment::Load;
    let mut walk = Walk { peak: 0, at: 0, moment, peaks: Vec::new(), saved: 0 };
    let mut before_forward = 0;
    let mut held = 0;
    for (index, event) in books.events.iter().enumerate() {
        match *event {
            Event::Begin(next) => {
                moment = next;
                match next {
                    Moment::Forward => before_forward = current,
                    Moment::Backward => {
                        held = current.saturating_sub(before_forward);
                    }
                    _ => {}
                }
                walk.saved = held;
            }
            Event::Alloc(id) => current = current.saturating_add(books.allocations[id as usize].bytes),
            Event::Free(id) => current = current.saturating_sub(books.allocations[id as usize].bytes),
        }
        match walk.peaks.iter_mut().find(|(known, _)| *known == moment) {
            Some((_, peak)) => *peak = (*peak).max(current),
            None => walk.peaks.push((moment, current)),
        }
        // Of equal peaks in different phases the later is told: it comes back in every iteration.
        if current > walk.peak || (current == walk.peak && moment != walk.moment) {
            (walk.peak, walk.at, walk.moment) = (current, index, moment);
        }
    }
    walk
}

/// Parts of the loss, on either way.
fn is_of_loss(allocation: &Allocation) -> bool {
    matches!(allocation.what.part, "loss" | "head" | "backward")
}

impl Walk {
    fn phases(&self) -> Vec<PhasePeak> {
        let named =
            self.peaks.iter().map(|&(moment, peak)| PhasePeak { phase: name(moment), peak_requested_bytes: peak });
        named.collect()
    }

    /// In words, when the peak is.
    fn phase(&self, books: &Books) -> String {
        let phase = name(self.moment);
        if !matches!(self.moment, Moment::Forward | Moment::Backward) {
            return phase.to_owned();
        }
        let since = books.events[..=self.at].iter().rposition(|event| matches!(event, Event::Begin(_))).unwrap_or(0);
        let made: Vec<&Allocation> = books.events[since..=self.at]
            .iter()
            .filter_map(|event| match event {
                Event::Alloc(id) => books.allocations.get(*id as usize),
                _ => None,
            })
            .collect();
        // Backward the loss comes first; forward it comes last.
        let around_loss = if self.moment == Moment::Backward {
            made.iter().all(|allocation| is_of_loss(allocation) || allocation.what.part == "embedding")
        } else {
            made.last().is_some_and(|allocation| is_of_loss(allocation))
        };
        if around_loss { format!("{phase}, around the loss") } else { phase.to_owned() }
    }
}

/// The name of a phase.
fn name(moment: Moment) -> &'static str {
    match moment {
        Moment::Load => "loading",
        Moment::Forward => "forward",
        Moment::Backward => "backward",
        Moment::Step => "optimizer step",
        Moment::FirstStep => "first step",
        Moment::Prefill => "prefill",
        Moment::Decode => "decode",
    }
}

/// The memory at the peak, by category and in detail.
fn at_peak(run: &Run, walk: &Walk) -> (Breakdown, Vec<Term>) {
    let books = &run.books;
    let mut live = vec![false; books.allocations.len()];
    for event in &books.events[..=walk.at] {
        match *event {
            Event::Alloc(id) => live[id as usize] = true,
            Event::Free(id) => live[id as usize] = false,
            Event::Begin(_) => {}
        }
    }
    let last_forward =
        books.events[..=walk.at].iter().rposition(|event| *event == Event::Begin(Moment::Forward)).unwrap_or(0);
    let (kept, fresh) = fates(run, last_forward);
    let mut breakdown = Breakdown::default();
    let mut terms: HashMap<(Category, &'static str, &'static str, String), (u64, u64)> = HashMap::new();
    for (id, allocation) in books.allocations.iter().enumerate().filter(|(id, _)| live[*id]) {
        let category = match allocation.what.category {
            // It waits to be added to another, and goes.
            Category::Gradient if kept[id] => Category::Temporary,
            Category::Activation if !run.is_training && allocation.what.name.ends_with("in the cache") => {
                Category::Cache
            }
            Category::Activation if !is_activation(run, allocation, kept[id], fresh[id]) => Category::Temporary,
            category => category,
        };
        breakdown.add(category, allocation.bytes);
        let shape = allocation.what.shape;
        let formula = if allocation.what.element_bytes == 1 {
            shape.to_string()
        } else {
            format!("{shape} × {} B", allocation.what.element_bytes)
        };
        let term = terms.entry((category, allocation.what.part, allocation.what.name, formula)).or_default();
        *term = (term.0 + 1, term.1.saturating_add(allocation.bytes));
    }
    let mut terms: Vec<Term> = terms
        .into_iter()
        .map(|((category, part, name, formula), (count, bytes))| Term {
            category,
            part,
            name,
            count,
            bytes,
            formula: if count == 1 { formula } else { format!("{count} × {formula}") },
        })
        .collect();
    terms.sort_by(|a, b| {
        let words = |term: &Term| (term.part, term.name, term.category);
        b.bytes.cmp(&a.bytes).then_with(|| words(a).cmp(&words(b))).then_with(|| a.formula.cmp(&b.formula))
    });
    (breakdown, terms)
}

/// For each allocation whether it lives until the backward pass after it, and whether it is of the newest forward pass.
fn fates(run: &Run, last_forward: usize) -> (Vec<bool>, Vec<bool>) {
    let books = &run.books;
    let count = books.allocations.len();
    let (mut kept, mut fresh) = (vec![false; count], vec![false; count]);
    let mut open = vec![false; count];
    let mut moment = Moment::Load;
    for (index, event) in books.events.iter().enumerate() {
        match *event {
            Event::Alloc(id) => {
                open[id as usize] = true;
                fresh[id as usize] = index >= last_forward;
            }
            Event::Free(id) => {
                open[id as usize] = false;
                if moment == Moment::Backward {
                    kept[id as usize] = true;
                }
            }
            Event::Begin(next) => moment = next,
        }
    }
    (kept, fresh)
}

/// Kept for the backward pass, also where the program holds it longer. Other outputs that the program holds are none.
fn is_activation(run: &Run, allocation: &Allocation, kept: bool, fresh: bool) -> bool {
    run.is_training && (allocation.is_saved || (kept && fresh))
}

fn band(architecture: &Architecture, setup: &Setup, peak: u64) -> ErrorBand {
    let mut evidence = architecture.evidence;
    if is_unchecked(architecture, setup) {
        evidence = evidence.max(Evidence::Source);
    } else if is_dry_run_only(setup) {
        evidence = evidence.max(Evidence::DryRun);
    }
    let (percent, basis) = match evidence {
        Evidence::Measured => (1.5, "compared with runs on an H200 and with dry runs of the real libraries"),
        Evidence::DryRun => (3.0, "compared with dry runs of the real libraries"),
        Evidence::Source => (10.0, "derived from the sources, not compared with runs"),
        Evidence::Shapes => (25.0, "derived from the shapes of the layers, not compared with runs"),
        Evidence::Unknown => (40.0, "the architecture is unknown"),
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the peak")]
    #[expect(clippy::cast_precision_loss, reason = "a band needs no exact bytes")]
    let scaled = |factor: f64| (peak as f64 * factor) as u64;
    ErrorBand {
        low_bytes: scaled(1.0 - percent / 100.0),
        high_bytes: scaled(1.0 + percent / 100.0),
        percent,
        evidence: basis,
    }
}

/// Set-ups of which no run was looked at, or few that were far off.
fn is_unchecked(architecture: &Architecture, setup: &Setup) -> bool {
    let is_generation_of_others =
        matches!(setup.mode, Mode::Generate { .. }) && !matches!(architecture.body, Body::Decoder(_) | Body::Gpt2(_));
    let is_from_a_package = matches!(
        setup.optimizer,
        Optimizer::Lion | Optimizer::AdamW8bit | Optimizer::PagedAdamW8bit | Optimizer::Lion8bit
    );
    let is_other_card = !matches!(setup.platform.compute_capability, (9, 0) | (8, 0 | 9) | (7, 5));
    (is_spread(setup) && !is_spread_as_in_dry_runs(architecture, setup))
        || is_generation_of_others
        || is_from_a_package
        || is_other_card
        || setup.quantisation != Quantisation::None
        || architecture.quantization_in(setup).is_some()
        || matches!(setup.cache, CacheKind::Quantised { .. })
        || setup.attention == Attention::Flash
        || setup.platform.torch != TorchRelease::V2_11
}

/// Whether a run is of several ranks.
fn is_spread(setup: &Setup) -> bool {
    let parallel = setup.parallel;
    parallel.tensor > 1 || parallel.pipeline > 1 || parallel.world_size > 1
}

/// Runs of several ranks of which dry runs were compared: `nullgpu_parallel.jsonl` in `testdata/estimates`.
fn is_spread_as_in_dry_runs(architecture: &Architecture, setup: &Setup) -> bool {
    let parallel = setup.parallel;
    let is_compared = setup.mode == Mode::Train && setup.lora.is_none() && architecture.towers.is_empty();
    let (is_plain, is_attention_alone) = match &architecture.body {
        Body::Decoder(decoder) => (decoder.is_plain(), decoder.is_attention_alone()),
        _ => (false, false),
    };
    let is_replicated = is_plain || matches!(architecture.body, Body::Gpt2(_) | Body::Bert(_));
    let is_sharded = is_replicated || is_attention_alone || matches!(architecture.body, Body::ModernBert(_));
    // Those that a Trainer's optimizer goes through one by one.
    let is_one_by_one =
        matches!(setup.optimizer, Optimizer::AdamW | Optimizer::AdamWFused | Optimizer::Sgd | Optimizer::SgdMomentum);
    let is_zero = matches!(parallel.sharding, Sharding::Zero1 | Sharding::Zero2 | Sharding::Zero3);
    let is_zero = is_zero && parallel.world_size > 1;
    let is_whole = parallel.tensor <= 1 && parallel.pipeline <= 1;
    is_compared
        && match (parallel.tensor > 1, parallel.pipeline > 1) {
            _ if is_zero => is_whole && is_replicated && setup.autocast.is_none() && setup.dtype != DType::Float16,
            (false, false) if parallel.sharding == Sharding::Fsdp => is_sharded,
            (false, false) => is_replicated,
            (true, false) => {
                is_plain && is_one_by_one && (parallel.world_size <= 1 || parallel.sharding == Sharding::Fsdp)
            }
            (false, true) => is_plain && parallel.world_size <= 1 && setup.autocast.is_none(),
            (true, true) => is_plain && is_one_by_one && parallel.world_size <= 1 && setup.autocast.is_none(),
        }
}

/// Set-ups that were compared with dry runs, not with measurements.
fn is_dry_run_only(setup: &Setup) -> bool {
    is_spread(setup)
        || setup.lora.is_some()
        || setup.accumulation > 1
        || setup.cache == CacheKind::Static
        || setup.platform.compute_capability != (9, 0)
        || setup.dtype == DType::Float16
        || setup.autocast == Some(DType::Float16)
}

/// What is assumed of the libraries that spread a model over ranks.
fn assumptions_of_ranks(architecture: &Architecture, setup: &Setup) -> Vec<String> {
    let parallel = setup.parallel;
    let mut all = Vec::new();
    match parallel.sharding {
        _ if parallel.world_size <= 1 => {}
        Sharding::None => all.push(
            "`DistributedDataParallel` with buckets in addition to the gradients (`gradient_as_bucket_view=False`)"
                .to_owned(),
        ),
        Sharding::Fsdp => {
            all.push(
                "`fully_shard` on each layer and on the model; no rank makes the whole model, which is built on the meta device"
                    .to_owned(),
            );
            if let Some(lower) = setup.autocast {
                all.push(format!(
                    "parameters are gathered and gradients are reduced in {lower} (`MixedPrecisionPolicy`), as accelerate does \
                     it under autocast"
                ));
            }
        }
        Sharding::Zero1 | Sharding::Zero2 | Sharding::Zero3 => all.push(
            "ZeRO of DeepSpeed 0.19 with its default buckets of 500 million elements, and weights in float32 for the optimizer"
                .to_owned(),
        ),
    }
    let is_decoder = matches!(architecture.body, Body::Decoder(_));
    if parallel.tensor > 1 && is_decoder {
        all.push(
            "the tensor-parallel plan of transformers (`tp_plan`), and an optimizer that goes over the parameters one by one, as \
             its Trainer's does"
                .to_owned(),
        );
    }
    if is_pipeline(architecture, setup) {
        all.push(format!(
            "stages of `torch.distributed.pipelining` with the schedule 1F1B and {} (`--accumulation`); the answer is for the \
             stage that needs most",
            match setup.accumulation {
                1 => "one micro-batch".to_owned(),
                count => format!("{count} micro-batches"),
            }
        ));
    }
    all
}

fn assumptions(architecture: &Architecture, setup: &Setup) -> Vec<String> {
    let mut all = architecture.assumptions.clone();
    let of_pipelines = [
        ("height", setup.height.is_some()),
        ("width", setup.width.is_some()),
        ("frames", setup.frames.is_some()),
        ("offload", setup.offload != Offload::None),
    ];
    for (name, _) in of_pipelines.iter().filter(|(_, is_given)| *is_given) {
        all.push(format!("`--{name}` only affects pipelines of diffusers"));
    }
    if let Some(quantization) = &architecture.quantization {
        all.push(match architecture.quantization_in(setup) {
            Some(_) => format!("the weights as the checkpoint has them: {}", quantization.label),
            None => format!(
                "the checkpoint is quantised ({}); training without adapters needs its weights dequantised to {}: estimated \
                 so; use `--lora-rank` for adapters on the quantised weights",
                quantization.label, setup.dtype
            ),
        });
    }
    if setup.mode == Mode::Train {
        all.push(match setup.keep {
            Keep::Outputs => "the script keeps the model's output (logits and KV cache) until the end of the next \
             forward pass: `out = model(**x)`; use `--keep loss` if it keeps only the loss"
                .to_owned(),
            Keep::Loss => "the script keeps only the loss".to_owned(),
        });
        if setup.loss == Loss::Labels
            && matches!(architecture.body, Body::Vit(_) | Body::Clip(_) | Body::Network(_) | Body::Chain(_))
        {
            all.push("the loss is the mean of the logits: this head is estimated without labels".to_owned());
        }
        all.push(
            "`zero_grad()` sets gradients to `None`; no padding, so the only attention mask is that of a sliding \
             window"
                .to_owned(),
        );
    }
    if let Some(limit) = architecture.max_positions.filter(|limit| setup.seq > *limit) {
        all.push(format!("the sequence is longer than the model supports, {limit}: estimated as if it were supported"));
    }
    all.extend(assumptions_of_ranks(architecture, setup));
    if is_spread(setup) {
        all.push("NCCL's own buffers, a few hundred MiB to more than 1 GiB per GPU, are not included".to_owned());
    }
    if architecture.family == "gemma2" && setup.attention != Attention::Eager {
        all.push(
            "the soft cap on attention scores is left out, as in `sdpa`; `--attention eager` includes it".to_owned(),
        );
    }
    all
}
