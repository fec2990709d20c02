//! Questions in the words of the command line, answered with documents: for the command line, and for Python without one.
//!
//! # Design constraints
//!
//! - Prints nothing and writes no file; reads only what describes a model.
//! - A word that is not known is a [`Problem`] that says what is.

pub mod check;
pub mod diff;
pub mod frames;
pub mod model;
pub mod moment;
pub mod serve;
pub mod sql;
pub mod what_if;

use highwater_allocator::TorchVersion;
use highwater_analysis::Analysis;
use highwater_documents::SimulateView;
use highwater_documents::check::CheckView;
use highwater_documents::estimate::EstimateView;
use highwater_estimate::Request;
use highwater_problem::Problem;
use highwater_snapshot::EntryId;
use highwater_units::parse_size;
use highwater_whatif::Watch;
use serde::Serialize;

use crate::diff::Comparison;
use crate::moment::Moment;
use crate::what_if::Asked;

/// The device and the entry after which each device is shown: `at` is an entry's number, `peak`, `oom` or `end`.
///
/// # Errors
/// If it is none of these, or no device has that moment.
pub fn moments(analysis: &Analysis<'_>, at: &str, device: Option<u32>) -> Result<Vec<(u32, Option<EntryId>)>, Problem> {
    let moment: Moment = at.parse().map_err(|why| Problem::new(format!("`{at}` is not a moment")).because(why))?;
    let devices = moment.devices(analysis, &chosen(analysis, device)?)?;
    let shown = analysis.devices.iter().filter(|shown| devices.contains(&shown.device));
    Ok(shown.map(|device| (device.device, moment.entry(device))).collect())
}

/// The devices that are meant: all, or the one that is named.
///
/// # Errors
/// If there is no such device.
pub fn chosen(analysis: &Analysis<'_>, device: Option<u32>) -> Result<Vec<u32>, Problem> {
    analysis.snapshot.check_device("the snapshot", device)?;
    Ok(analysis.devices.iter().map(|own| own.device).filter(|own| device.is_none_or(|one| one == *own)).collect())
}

/// The comparison of `highwater diff`: each recording beside the first. `at` is `peak`, `end` or `iteration:N`.
///
/// # Errors
/// If `at` is no moment, or the recordings have no such iteration, or no such device in common.
pub fn comparison<'a>(
    names: Vec<String>,
    analyses: &'a [&'a Analysis<'a>],
    at: Option<&str>,
    device: Option<u32>,
) -> Result<Comparison<'a>, Problem> {
    let moment =
        |at: &str| diff::moment(at).map_err(|why| Problem::new(format!("`{at}` is not a moment")).because(why));
    let at = at.map(moment).transpose()?;
    let device = device.map(|device| vec![device]);
    Comparison::new(names, analyses, diff::Asked { at, device, ..diff::Asked::default() })
}

/// The document of `highwater check`. A budget is the name of a rule, such as `max-peak-reserved`, and its limit, such as `16GiB` or
/// `10%`.
///
/// # Errors
/// If there is no such rule, an amount is none, or there is nothing to check.
pub fn check_view(
    analysis: &Analysis<'_>,
    budgets: &[(String, String)],
    device: Option<u32>,
) -> Result<CheckView, Problem> {
    let limits = budgets.iter().map(|(rule, amount)| check::limit(rule, amount)).collect::<Result<Vec<_>, _>>()?;
    let devices = chosen(analysis, device)?;
    let shown: Vec<_> = analysis.devices.iter().filter(|shown| devices.contains(&shown.device)).collect();
    let rows = check::rows(analysis, &shown, &limits);
    if rows.is_empty() {
        let hint = "give a budget, and a recording of a program that allocates on a device";
        return Err(Problem::new("there is nothing to check").hint(hint));
    }
    Ok(CheckView::new(analysis, &rows))
}

/// What is asked of the simulator, in the words of the command line.
#[derive(Clone, Debug, Default)]
pub struct WhatIf {
    /// Settings, as in `PYTORCH_ALLOC_CONF`.
    pub confs: Vec<String>,
    /// What the allocator may reserve, such as `16GiB`.
    pub capacities: Vec<String>,
    /// Cards, by memory or name.
    pub cards: Vec<String>,
    /// Whose rules, such as `2.11`.
    pub torch: Option<String>,
    /// Only this device.
    pub device: Option<u32>,
}

/// The document of `highwater simulate`.
///
/// # Errors
/// If the snapshot has nothing to run again, or settings, capacities, cards or the version are not known.
pub fn simulate_view<'a>(analysis: &Analysis<'a>, name: &str, asked: &WhatIf) -> Result<SimulateView<'a>, Problem> {
    let capacity = |text: &String| {
        parse_size(text).map_err(|why| Problem::new(format!("`{text}` is not a capacity")).because(why))
    };
    let version = |text: &String| {
        text.parse::<TorchVersion>().map_err(|why| Problem::new(format!("`{text}` is not a version")).because(why))
    };
    let capacities = asked.capacities.iter().map(capacity).collect::<Result<Vec<_>, _>>()?;
    let torch = asked.torch.as_ref().map(version).transpose()?;
    chosen(analysis, asked.device)?;
    let asked =
        Asked { confs: &asked.confs, capacities: &capacities, cards: &asked.cards, torch, device: asked.device };
    let (_, view) = asked.answered(analysis, name, &Watch::default())?;
    Ok(view)
}

/// The document of `highwater estimate`. The model is a name, a path, or the text of a `config.json`; `options` are those of the
/// command line without their dashes, as a JSON object: `{"batch": 16}`.
///
/// # Errors
/// If there is no such model, or an option is none or makes no sense.
pub fn estimate_view(model: &str, options: &str) -> Result<EstimateView, Problem> {
    let architecture = if model.trim_start().starts_with('{') {
        highwater_estimate::read::from_config(model.as_bytes()).map_err(|error| {
            Problem::new("the configuration does not describe a model that can be estimated").because(error)
        })?
    } else {
        model::find(model)?.architecture()?
    };
    let options = serde_json::from_str(options)
        .map_err(|error| Problem::new("the options are not a JSON object").because(error))?;
    let setup = Request::from_json(&options)?.setup(&architecture)?;
    Ok(EstimateView::new(&architecture, &setup)?)
}

/// A document as JSON.
pub fn json(document: &impl Serialize) -> String {
    // The documents are made of strings, numbers and lists of them.
    serde_json::to_string(document).expect("it is JSON")
}
