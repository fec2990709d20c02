//! Where budgets come from: flags first, then a file.
//!
//! ```toml
//! [budget]
//! max_peak_reserved = "16GiB"
//! max_fragmentation = "10%"
//! baseline = "last-release.pickle"
//! tolerance = "2%"
//! ```

use std::path::{Path, PathBuf};

use highwater_answers::check::parse_share;
use highwater_findings::budget::{Amount, Measure};

use super::{Args, Limits};
use crate::error::Problem;
use crate::input::SizeArgs;
use crate::units::{SizeError, parse_bytes, parse_size};

/// The file that is read unasked.
const DEFAULT_FILE: &str = "highwater.toml";

/// What is to be checked.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    /// In the order of the measures.
    pub(super) limits: Vec<(Measure, Amount)>,
    pub(super) baseline: Option<PathBuf>,
    /// A share.
    pub(super) tolerance: f64,
}

/// The flags, and what they leave open from the file.
///
/// # Errors
/// If the file cannot be read or is not understood, or nothing is limited.
pub(super) fn gather(args: &Args) -> Result<Budgets, Problem> {
    let file = match &args.config {
        Some(path) => Some(path.as_path()),
        None => Some(Path::new(DEFAULT_FILE)).filter(|path| path.is_file()),
    };
    let written = file.map(read).transpose()?.unwrap_or_default();
    let limits = Measure::ALL
        .into_iter()
        .filter_map(|measure| Some((measure, of_flags(&args.limits, measure).or(of_flags(&written.limits, measure))?)))
        .collect::<Vec<_>>();
    let baseline = args.baseline.clone().or(written.baseline);
    let tolerance = args.tolerance.or(written.tolerance).unwrap_or(0.0);
    if limits.is_empty() && baseline.is_none() {
        let hint = "give one, such as `--max-peak-reserved 16GiB` or `--baseline old.pickle`, or put it in \
             `highwater.toml`";
        return Err(Problem::new("there is no budget to check").hint(hint));
    }
    Ok(Budgets { limits, baseline, tolerance })
}

fn of_flags(limits: &Limits, measure: Measure) -> Option<Amount> {
    match measure {
        Measure::PeakRequested => limits.max_peak_requested.map(Amount::Bytes),
        Measure::PeakAllocated => limits.max_peak_allocated.map(Amount::Bytes),
        Measure::PeakReserved => limits.max_peak_reserved.map(Amount::Bytes),
        Measure::GrowthPerIteration => limits.max_growth_per_iteration.map(Amount::Bytes),
        Measure::Fragmentation => limits.max_fragmentation.map(Amount::Share),
    }
}

/// What a file says.
#[derive(Debug, Default)]
struct Written {
    limits: Limits,
    baseline: Option<PathBuf>,
    tolerance: Option<f64>,
}

fn read(path: &Path) -> Result<Written, Problem> {
    // `std::fs` is kept out by lint, so that no message lacks its path: this one has it.
    parse(path, crate::input::read_text(path, SizeArgs::default())?)
}

/// Reads the text of a file of budgets.
///
/// # Errors
/// It is not a table of known budgets; `path` is for the message.
fn parse(path: &Path, text: Vec<u8>) -> Result<Written, Problem> {
    let problem =
        |why: String| Problem::new(format!("the budgets in `{}` cannot be used", path.display())).because(why);
    let text = String::from_utf8(text).map_err(|_| problem("it is not UTF-8".to_owned()))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| problem(error.message().to_owned()))?;
    let Some(budget) = table.get("budget") else {
        return Err(problem("it does not have a `[budget]` table".to_owned()));
    };
    let budget = budget.as_table().ok_or_else(|| problem("`budget` is not a table".to_owned()))?;
    let mut written = Written::default();
    for (key, value) in budget {
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            _ => return Err(problem(format!("`{key}` is neither a string nor a whole number"))),
        };
        let said =
            |size: Result<u64, SizeError>| size.map(Some).map_err(|why| problem(format!("`{key} = {text}`: {why}")));
        let size = || said(parse_size(&text));
        let share = || parse_share(&text).map(Some).map_err(|why| problem(format!("`{key} = {text}`: {why}")));
        match key.as_str() {
            "max_peak_requested" => written.limits.max_peak_requested = size()?,
            "max_peak_allocated" => written.limits.max_peak_allocated = size()?,
            "max_peak_reserved" => written.limits.max_peak_reserved = size()?,
            "max_growth_per_iteration" => written.limits.max_growth_per_iteration = said(parse_bytes(&text))?,
            "max_fragmentation" => written.limits.max_fragmentation = share()?,
            // Beside the file that names it.
            "baseline" => written.baseline = Some(path.parent().unwrap_or(Path::new("")).join(text)),
            "tolerance" => written.tolerance = share()?,
            _ => {
                let known: Vec<String> = Measure::ALL.iter().map(|measure| measure.rule().replace('-', "_")).collect();
                return Err(problem(format!("`{key}` is not a budget"))
                    .hint(format!("known: {}, baseline, tolerance", known.join(", "))));
            }
        }
    }
    Ok(written)
}

/// Reads budgets and forgets them: for [`crate::fuzzing`].
///
/// # Errors
/// As for a file.
pub(crate) fn read_budgets(text: Vec<u8>) -> Result<(), Problem> {
    parse(Path::new(DEFAULT_FILE), text).map(drop)
}
