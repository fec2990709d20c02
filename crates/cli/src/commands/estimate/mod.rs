//! `highwater estimate`: what a model needs, worked out from its configuration.

pub(crate) mod args;
mod serve;
mod serve_text;
mod text;
mod web;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;

pub(crate) use args::Args;
use highwater_analysis::{StackClasses, analyse_with};
use highwater_answers::model;
use highwater_documents::estimate::{AgainstRow, AgainstView, EstimateView, SweepRow, SweepView};
use highwater_estimate::{Architecture, Setup, estimate, simple};
pub(crate) use serve_text::beside_log;

use crate::error::Problem;
use crate::input::SizeArgs;
use crate::output::{self, to_stdout};
use crate::style::Ink;

/// The most values of a sweep.
const MOST_VALUES: usize = 64;

/// The answer, with as many terms as where the command line is not told.
///
/// # Errors
/// Those of `out`.
pub(crate) fn text(out: &mut impl Ink, view: &EstimateView) -> io::Result<()> {
    text::write(out, view, args::TERMS)
}

/// The answer about an engine.
///
/// # Errors
/// Those of `out`.
pub(crate) fn served_text(out: &mut impl Ink, view: &highwater_documents::serve::ServeView) -> io::Result<()> {
    served(view).write_text(out, crate::table::terminal_width())
}

/// The same, before it has a form.
pub(crate) fn served(view: &highwater_documents::serve::ServeView) -> crate::document::Document {
    serve_text::document(view)
}

/// Reads, estimates, prints.
///
/// # Errors
/// If there is no such model, or the set-up makes no sense.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.list {
        return to_stdout(|out| {
            highwater_estimate::read::catalogue_names().try_for_each(|name| writeln!(out, "{name}"))
        });
    }
    if args.web {
        return web::run(args);
    }
    if args.asks_an_engine() {
        return serve::run(args);
    }
    if let Some((name, _)) = args.engine.0.said.first() {
        return Err(Problem::new(format!("`--{name}` is a flag of an engine"))
            .hint("name the engine as well, such as `--serve vllm`")
            .into());
    }
    if !args.need.is_empty() {
        return Err(Problem::new("`--need` is a question about an engine")
            .hint("name it, such as `--serve vllm`")
            .into());
    }
    let (architecture, setup) = asked(args)?;
    let mut view = EstimateView::new(&architecture, &setup).map_err(Problem::from)?;
    if let Some(limit) = &args.fit {
        view = view.fitted(&architecture, &setup, args::card_bytes(limit)?);
    }
    let is_simple = args.method == args::Method::Simple;
    view.simple = is_simple.then(|| simple(view.estimate.parameters, &setup));
    view.sweep = args.sweep.as_ref().map(|range| sweep(&architecture, &setup, range)).transpose()?;
    if let Some(recording) = &args.against {
        view.against = Some(against(recording, args.size, &view)?);
    }
    output::print(args.format, &view, |_| text::document(&view, args.top))
}

/// The model and its set-up.
fn asked(args: &Args) -> Result<(Architecture, Setup), Problem> {
    let architecture = model::find(args.model.as_deref().unwrap_or_default())?.architecture()?;
    let setup = args.run.0.setup(&architecture)?;
    Ok((architecture, setup))
}

/// Estimates over `batch=1..64` or `seq=128,256`.
fn sweep(architecture: &Architecture, setup: &Setup, range: &str) -> Result<SweepView, Problem> {
    let wrong = || {
        Problem::new(format!("`--sweep {range}` is not a range"))
            .hint("give `batch=1..64` or `seq=128..8192`, which doubles, or a list as in `batch=1,2,4`")
    };
    let (name, values) = range.split_once('=').ok_or_else(wrong)?;
    let name = match name {
        "batch" => "batch",
        "seq" => "seq",
        _ => return Err(wrong()),
    };
    let values =
        values_of(values).filter(|values| !values.is_empty() && values.len() <= MOST_VALUES).ok_or_else(wrong)?;
    let rows = values
        .into_iter()
        .map(|value| {
            let tried = if name == "batch" { Setup { batch: value, ..*setup } } else { Setup { seq: value, ..*setup } };
            let answer = estimate(architecture, &tried);
            SweepRow {
                value,
                peak_requested_bytes: answer.peak_requested_bytes,
                total_bytes: answer.total_bytes,
                peak_phase: answer.peak_phase,
            }
        })
        .collect();
    Ok(SweepView { name, rows })
}

fn values_of(text: &str) -> Option<Vec<u64>> {
    let number = |text: &str| text.trim().parse::<u64>().ok().filter(|number| (1..=1 << 32).contains(number));
    match text.split_once("..") {
        None => text.split(',').map(number).collect(),
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            let mut values: Vec<u64> = std::iter::successors(Some(first), |value| value.checked_mul(2))
                .take_while(|value| *value < last)
                .collect();
            values.push(last);
            (first <= last).then_some(values)
        }
    }
}

/// The busiest device of a recording beside the estimate: each at its own peak of requested bytes, in requested bytes.
fn against(recording: &Path, size: SizeArgs, view: &EstimateView) -> Result<AgainstView, Problem> {
    let snapshot = crate::input::read_snapshot(recording, size)?;
    let analysis = analyse_with(&snapshot, StackClasses::new(&snapshot));
    let busiest = analysis.devices.iter().max_by_key(|device| device.timeline.requested_peak().bytes);
    let device = busiest.ok_or_else(|| Problem::new(format!("{} has no device", crate::input::name(recording))))?;
    let peak = device.timeline.requested_peak();
    let mut recorded: BTreeMap<&str, u64> = BTreeMap::new();
    for (row, lifetime) in device.live_rows(peak.entry) {
        *recorded.entry(device.decided(row).category.name()).or_default() += lifetime.requested_bytes;
    }
    let phases = peak.entry.and_then(|entry| {
        let iteration = &device.iterations.rows[device.iterations.containing(entry)?];
        iteration.phases.iter().find(|run| run.entries.contains(&entry.index()))
    });
    let estimated = &view.estimate;
    let by_category = estimated.breakdown.by_category().map(|(category, bytes)| (category.name(), bytes));
    let row = |(category, bytes): (&'static str, u64)| AgainstRow {
        category,
        estimated_bytes: bytes + if category == "workspace" { estimated.workspace_bytes } else { 0 },
        recorded_bytes: recorded.get(category).copied().unwrap_or(0),
    };
    Ok(AgainstView {
        snapshot: crate::input::short_name(recording),
        device: device.device,
        peak_requested_bytes: peak.bytes,
        peak_reserved_bytes: device.timeline.reserved_peak().bytes,
        peak_phase: phases.map(|run| run.phase.name()),
        unseen: device.recorded.unseen(),
        categories: by_category.into_iter().chain([("unknown", 0)]).map(row).collect(),
    })
}
