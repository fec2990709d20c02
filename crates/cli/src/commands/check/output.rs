//! What a check says: one line a rule, or annotations.

use std::collections::BTreeSet;
use std::io::{self, Write};

use highwater_documents::check::{CheckView, RuleView};

use crate::document::{Document, Section, Text};
use crate::printable::Printable;
use crate::style::{BAD, GOOD, Ink};
use crate::table::{Align, Cell, Table, terminal_width};
use crate::units::percent;
use crate::units::{count, size};

/// The answer in a line, and below it a line a rule.
///
/// # Errors
/// Those of `out`.
pub(crate) fn text(out: &mut impl Ink, view: &CheckView) -> io::Result<()> {
    document(view).write_text(out, terminal_width())
}

/// The answer, and a row for each rule.
pub(super) fn document(view: &CheckView) -> Document {
    let several = view.rules.iter().map(|rule| rule.device).collect::<BTreeSet<_>>().len() > 1;
    let mut table = Table::new([("", Align::Left), ("", Align::Left), ("", Align::Left)]).wrapped();
    for rule in &view.rules {
        let mark = if rule.passed { Cell::new("ok", GOOD) } else { Cell::new("FAIL", BAD) };
        let device = if several { format!("device {}: ", rule.device) } else { String::new() };
        table.row([mark, name(rule).into(), format!("{device}{}", sentence(rule)).into()]);
    }
    let failed = view.rules.iter().filter(|rule| !rule.passed).count();
    let answer = format!("{} passed, {failed} failed", view.rules.len() - failed);
    let mut section = Section::without_heading();
    section.table(table);
    Document {
        title: Text::styled(answer, if failed == 0 { GOOD } else { BAD }),
        lead: Vec::new(),
        sections: vec![section],
    }
}

/// An error of the workflow for each rule that fails; the others as text.
///
/// # Source
/// GitHub, "Workflow commands for GitHub Actions": `::error title=…::message`, with `%`, line ends, `:` and `,` escaped.
pub(super) fn github(out: &mut impl Write, view: &CheckView, file: &str) -> io::Result<()> {
    for rule in &view.rules {
        let message = Printable::new(format!("{file}, device {}: {}", rule.device, sentence(rule)));
        if rule.passed {
            writeln!(out, "ok  {}: {message}", name(rule))?;
        } else {
            let title = escaped(&format!("highwater {}", name(rule))).replace(':', "%3A").replace(',', "%2C");
            writeln!(out, "::error title={title}::{}", escaped(&message))?;
        }
    }
    Ok(())
}

/// A line's text for a command; its line ends are escapes already.
fn escaped(text: &str) -> String {
    text.replace('%', "%25")
}

fn name(rule: &RuleView) -> String {
    if rule.baseline { format!("{} (baseline)", rule.rule) } else { rule.rule.to_owned() }
}

/// What was needed, what is allowed, and where.
fn sentence(rule: &RuleView) -> Printable {
    let limit = amount(rule.limit_bytes, rule.limit_share);
    if rule.measured_bytes.is_none() && rule.measured_share.is_none() {
        let reason = rule.reason.as_deref().unwrap_or_default();
        return format!("cannot be measured: {reason} ({limit} allowed)").into();
    }
    let over = match (rule.measured_bytes, rule.limit_bytes) {
        (Some(bytes), Some(limit)) if bytes > limit => format!(", {} over the limit", size(bytes - limit)),
        _ => String::new(),
    };
    let after = rule.entry.map_or_else(String::new, |entry| format!(", after entry {}", count(entry)));
    let largest = rule.call_site.as_ref().zip(rule.call_site_bytes);
    let largest = largest.map_or_else(String::new, |(site, bytes)| format!("; most at {site}: {}", size(bytes)));
    let caveat = rule.reason.as_ref().map_or_else(String::new, |caveat| format!(" ({caveat})"));
    let measured = amount(rule.measured_bytes, rule.measured_share);
    format!("{measured} of {limit}{over}{after}{largest}{caveat}").into()
}

fn amount(bytes: Option<u64>, share: Option<f64>) -> String {
    match (bytes, share) {
        (Some(bytes), _) => size(bytes),
        (None, share) => percent(share.unwrap_or_default()),
    }
}
