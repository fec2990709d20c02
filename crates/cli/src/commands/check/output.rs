//! What a check says: one line a rule, JSON, or annotations.

use std::io::{self, Write};

use crate::units::percent;
use highwater_analysis::Analysis;
use highwater_analysis::budget::{Amount, Largest, Measured};
use highwater_analysis::place::place;

use super::Row;
use crate::output::write_json;
use crate::printable::Printable;
use crate::units::{count, size};

/// One line a rule.
pub(crate) fn text(out: &mut impl Write, analysis: &Analysis<'_>, rows: &[Row]) -> io::Result<()> {
    let several = analysis.devices.len() > 1;
    let width = rows.iter().map(|row| row.rule().len()).max().unwrap_or(0);
    for row in rows {
        let mark = if row.checked.holds() { "ok  " } else { "FAIL" };
        let device = if several { format!("device {}: ", row.device) } else { String::new() };
        writeln!(out, "{mark}  {:width$}  {device}{}", row.rule(), sentence(analysis, row))?;
    }
    let failed = rows.iter().filter(|row| !row.checked.holds()).count();
    writeln!(out, "{} passed, {failed} failed", rows.len() - failed)
}

/// An error of the workflow for each rule that fails; the others as text.
///
/// # Source
/// GitHub, "Workflow commands for GitHub Actions": `::error title=…::message`, with `%`, line ends, `:` and `,` escaped.
pub(super) fn github(out: &mut impl Write, analysis: &Analysis<'_>, file: &str, rows: &[Row]) -> io::Result<()> {
    for row in rows {
        let message = Printable::new(format!("{file}, device {}: {}", row.device, sentence(analysis, row)));
        if row.checked.holds() {
            writeln!(out, "ok  {}: {message}", row.rule())?;
        } else {
            let title = escaped(&format!("highwater {}", row.rule())).replace(':', "%3A").replace(',', "%2C");
            writeln!(out, "::error title={title}::{}", escaped(&message))?;
        }
    }
    Ok(())
}

/// A line's text for a command; its line ends are escapes already.
fn escaped(text: &str) -> String {
    text.replace('%', "%25")
}

/// `highwater-check`.
#[derive(serde::Serialize)]
pub(crate) struct CheckView {
    format: &'static str,
    version: u32,
    passed: bool,
    rules: Vec<RuleView>,
}

/// One rule, applied to one device.
#[derive(serde::Serialize)]
struct RuleView {
    rule: &'static str,
    /// The limit is what the baseline needed, with the tolerance.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    baseline: bool,
    device: u32,
    passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured_share: Option<f64>,
    /// The entry after which it is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<u32>,
    /// The call site with the most bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    call_site: Option<String>,
    /// Why it is not known, or not for sure.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The document for programs.
pub(super) fn json(out: &mut impl Write, analysis: &Analysis<'_>, rows: &[Row]) -> io::Result<()> {
    write_json(out, &view(analysis, rows))
}

/// What the document for programs says.
pub(crate) fn view(analysis: &Analysis<'_>, rows: &[Row]) -> CheckView {
    let rules = rows.iter().map(|row| rule(analysis, row)).collect();
    let passed = rows.iter().all(|row| row.checked.holds());
    CheckView { format: "highwater-check", version: 1, passed, rules }
}

fn rule(analysis: &Analysis<'_>, row: &Row) -> RuleView {
    let bytes = |amount| if let Amount::Bytes(bytes) = amount { Some(bytes) } else { None };
    let share = |amount| if let Amount::Share(share) = amount { Some(share) } else { None };
    let measured = row.checked.measured.as_ref().ok();
    let amount = measured.map(|measured| measured.amount);
    RuleView {
        rule: row.checked.measure.rule(),
        baseline: row.is_baseline,
        device: row.device,
        passed: row.checked.holds(),
        limit_bytes: bytes(row.checked.limit),
        limit_share: share(row.checked.limit),
        measured_bytes: amount.and_then(bytes),
        measured_share: amount.and_then(share),
        entry: measured.and_then(|measured| measured.entry).map(highwater_snapshot::EntryId::get),
        call_site: measured.and_then(|measured| measured.largest).map(|largest| place(analysis, largest.site)),
        reason: match &row.checked.measured {
            Ok(measured) => measured.caveat.clone(),
            Err(reason) => Some((*reason).to_owned()),
        },
    }
}

/// What was needed, what is allowed, and where.
fn sentence(analysis: &Analysis<'_>, row: &Row) -> Printable {
    let limit = row.checked.limit;
    let measured = match &row.checked.measured {
        Ok(measured) => measured,
        Err(reason) => return format!("cannot be measured: {reason} ({} allowed)", amount(limit)).into(),
    };
    let over = match (measured.amount, limit) {
        (Amount::Bytes(bytes), Amount::Bytes(limit)) if bytes > limit => format!(", {} too much", size(bytes - limit)),
        _ => String::new(),
    };
    let after = measured.entry.map_or_else(String::new, |entry| format!(", after entry {}", count(entry.index())));
    format!("{} of {}{over}{after}{}", amount(measured.amount), amount(limit), details(analysis, measured)).into()
}

fn details(analysis: &Analysis<'_>, measured: &Measured) -> String {
    let largest = measured.largest.map_or_else(String::new, |Largest { site, bytes }| {
        format!("; most at {}: {}", place(analysis, site), size(bytes))
    });
    let caveat = measured.caveat.as_ref().map_or_else(String::new, |caveat| format!(" ({caveat})"));
    format!("{largest}{caveat}")
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Bytes(bytes) => size(bytes),
        Amount::Share(share) => percent(share),
    }
}
