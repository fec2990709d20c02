//! What `highwater explain` says, for a person.

use std::io;

use highwater_analysis::category::Category;
use highwater_answers::frames;
use highwater_documents::{ErrorView, ExplainView, FailureExplainedView, GapsView, MessageView, ShareView, StepView};
use highwater_findings::verdict::capitalised;

use crate::commands::estimate::beside_log;
use crate::document::{Document, Section, Text};
use crate::report::{bar, category_style};
use crate::style::{BAD, DIM, GOOD, HINT, Ink, PLAIN, STRONG};
use crate::table::{Align, Cell, Table, terminal_width};
use crate::units::{count, counted, size};

/// Messages and call sites that are listed.
const LISTED: usize = 8;
/// Failures that are listed.
const FAILURES: usize = 10;

/// Writes the whole answer.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write(out: &mut impl Ink, view: &ExplainView<'_>, name: &str) -> io::Result<()> {
    document(view, name).write_text(out, terminal_width())
}

/// The whole answer; `name` is what it is about.
pub(super) fn document(view: &ExplainView<'_>, name: &str) -> Document {
    let first = view.failures.first();
    let mut document = Document::default();
    match heading(view, first, name) {
        Some(heading) => {
            document.title = Text::styled(heading, BAD);
            document.lead.push(Text::styled(format!("{}.", capitalised(&view.diagnosis.text)), STRONG));
        }
        None => document.title = Text::styled(format!("{name}: {}.", view.diagnosis.text), STRONG),
    }
    document.lead.extend(view.diagnosis.notes.iter().map(|note| format!("{}.", capitalised(note)).into()));
    if !view.disagreements.is_empty() {
        let mut section = Section::new("The message and the snapshot do not report the same failure");
        view.disagreements.iter().for_each(|difference| section.line(difference.as_str()));
        document.sections.push(section);
    }
    document.sections.extend(shares(view));
    if let Some(failure) = first {
        document.sections.extend(evidence(failure));
    }
    document.sections.extend(steps(view));
    document.sections.extend(view.forecast.as_ref().map(beside_log));
    if let Some(reason) = &view.no_forecast {
        let mut section = Section::new("Compared with a forecast");
        section.line(format!("{}.", capitalised(reason)));
        document.sections.push(section);
    }
    document.sections.extend(messages(view));
    document.sections.extend(errors(view));
    document.sections.extend(further(&view.failures));
    document
}

/// The heading of the advice.
const STEPS: &str = "What to change";
/// Notes and steps of an answer for an issue's comment.
const BRIEF: usize = 3;

/// The answer to a log, short enough for a comment on an issue: the cause, where the memory went, and the first steps.
/// A snapshot's answer stays whole.
pub(super) fn brief(view: &ExplainView<'_>, name: &str) -> Document {
    if !view.failures.is_empty() {
        return document(view, name);
    }
    let mut brief = document(view, name);
    brief.lead.truncate(1 + BRIEF);
    brief.sections = shares(view).into_iter().collect();
    let mut section = Section::new(STEPS);
    for (number, step) in (1..).zip(view.steps.iter().take(BRIEF)) {
        let change = step.change.as_ref().map_or_else(String::new, |change| format!(" → {change}"));
        section.step(number, title(step, view), [format!("{}.{change}", capitalised(&step.detail))]);
    }
    let rest = view.steps.len().saturating_sub(BRIEF);
    if rest > 0 {
        section.line(format!("… and {} more {}.", count(rest), if rest == 1 { "step" } else { "steps" }));
    }
    let others = view.messages.len().max(1) - 1 + view.errors.len().saturating_sub(usize::from(view.error.is_some()));
    if others > 0 {
        section.line(format!("The log has {} more {}.", count(others), if others == 1 { "error" } else { "errors" }));
    }
    brief.sections.push(section);
    brief
}

/// Where it happened; `None` where nothing was found.
fn heading(view: &ExplainView<'_>, failure: Option<&FailureExplainedView<'_>>, name: &str) -> Option<String> {
    if let Some(failure) = failure {
        let entry = failure.entry.map_or_else(String::new, |entry| format!(" at entry {}", count(entry)));
        return Some(match (failure.simulated_card_bytes, failure.simulated_capacity_bytes) {
            (Some(card), _) => {
                format!("{name}, device {}: on a GPU with {} it runs out of memory{entry}", failure.device, size(card))
            }
            (None, Some(capacity)) => {
                format!("{name}, device {}: with {} it runs out of memory{entry}", failure.device, size(capacity))
            }
            (None, None) => format!("{name}, device {}: out of memory{entry}", failure.device),
        });
    }
    if let Some(error) = &view.error {
        let rank = error.rank.map_or_else(String::new, |rank| format!(", rank {rank}"));
        return Some(format!("{name}{rank}, line {}: {}", count(error.line), view.headline));
    }
    let message = view.message.as_ref()?;
    let rank = message.rank.map_or_else(String::new, |rank| format!(", rank {rank}"));
    let device = message.device.map_or_else(String::new, |device| format!(", GPU {device}"));
    let torch = message.torch.as_ref().map_or_else(String::new, |torch| format!(", in the words of torch {torch}"));
    let cut = if message.cut { "; the message is cut" } else { "" };
    let what = if view.headline.is_empty() { "out of memory" } else { view.headline };
    Some(format!("{name}{rank}{device}: {what}{torch}{cut}"))
}

/// What the device's memory adds up to.
fn shares(view: &ExplainView<'_>) -> Option<Section> {
    if view.shares.len() < 2 {
        return None;
    }
    let sum = view.shares.iter().map(|share| share.bytes).fold(0, u64::saturating_add).max(1);
    let capacity = view.message.as_ref().and_then(|message| message.capacity_bytes);
    let mut section = Section::new(match capacity {
        Some(capacity) => format!("Where the {} of the GPU went", size(capacity)),
        None => format!("Where the known {} went", size(sum)),
    });
    let mut table =
        Table::new([("", Align::Right), ("", Align::Left), ("", Align::Left)]).indented(2).optional(&[2]).wrapped();
    let is_metal = view.message.as_ref().is_some_and(|message| message.backend == Some("MPS"));
    for share in &view.shares {
        let style = if share.holder == "free" { DIM } else { PLAIN };
        let holder = holder(share, is_metal);
        table.row([size(share.bytes).into(), Cell::from(holder), Cell::new(bar(share.bytes, sum), style)]);
    }
    section.table(table);
    Some(section)
}

fn holder(share: &ShareView, is_metal: bool) -> String {
    match (share.holder, share.pid) {
        ("allocated", _) => "this process: in tensors".to_owned(),
        ("unallocated", _) => "this process: reserved by PyTorch, not in use".to_owned(),
        ("private-pools", _) => "this process: free in private pools (CUDA graphs)".to_owned(),
        ("outside-pytorch", _) => "this process: outside PyTorch (context, libraries)".to_owned(),
        ("process", Some(pid)) => format!("process {pid}"),
        // MPS counts them in this process.
        ("others", _) if is_metal => "this process: Metal, beside PyTorch's tensors".to_owned(),
        ("others", _) => "others".to_owned(),
        ("untold", _) => "unknown: the driver, contexts, unlisted processes".to_owned(),
        _ => "free".to_owned(),
    }
}

/// What a snapshot shows beside the totals.
fn evidence(failure: &FailureExplainedView<'_>) -> Vec<Section> {
    let mut sections = Vec::new();
    if !failure.at.place.is_empty() {
        let mut section = Section::without_heading();
        section.line(Text::styled("Requested at ", STRONG).and(frames::place_of(&failure.at), PLAIN));
        sections.push(section);
    }
    sections.extend(categories(failure));
    if !failure.call_sites.is_empty() {
        let mut section = Section::new("Live memory by call site");
        let mut table = Table::new([("", Align::Right), ("", Align::Right), ("", Align::Left)]).indented(2).wrapped();
        for site in failure.call_sites.iter().take(LISTED) {
            table.row([size(site.bytes), counted(site.count, "block", "blocks"), frames::place_of(&site.at)]);
        }
        section.table(table);
        let rest = failure.call_sites.len().saturating_sub(LISTED);
        if rest > 0 {
            section.line(format!(
                "… and {}; `--format json` has them all",
                counted(rest, "more call site", "more call sites")
            ));
        }
        sections.push(section);
    }
    let mut section = Section::without_heading();
    failure.gaps.iter().filter_map(gaps).for_each(|gaps| section.line(gaps));
    if let Some(pinning) = &failure.pinning {
        let from = pinning.call_sites.first().map_or_else(String::new, |site| {
            let share = if pinning.call_sites.len() == 1 { "" } else { "most of it from " };
            format!(" ({share}{})", frames::place_of(&site.at))
        });
        let fewest = if pinning.is_smallest { "" } else { "; fewer may be enough" };
        let blocks = match pinning.count {
            1 => format!("one {} block", size(pinning.bytes)),
            blocks => format!("{} blocks of {} in all", count(blocks), size(pinning.bytes)),
        };
        section.line(format!("Freeing {blocks}{from} would have been enough for this request{fewest}."));
    }
    if let Some(simulation) = &failure.simulation {
        section.line(format!("Replayed: {}.", simulation.text));
    }
    sections.extend((!section.is_empty()).then_some(section));
    sections
}

/// What was live, by what it is for, the largest first; nothing where that is not told of any.
fn categories(failure: &FailureExplainedView<'_>) -> Option<Section> {
    let mut named = failure.categories.named();
    named.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    if named.iter().all(|&(name, bytes)| bytes == 0 || name == Category::Unknown.name()) {
        return None;
    }
    let all = named.iter().map(|&(_, bytes)| bytes).fold(0, u64::saturating_add).max(1);
    let mut section = Section::new("Live memory by category");
    let mut table =
        Table::new([("", Align::Right), ("", Align::Left), ("", Align::Left)]).indented(2).optional(&[2]).wrapped();
    for (name, bytes) in named.into_iter().filter(|&(_, bytes)| bytes > 0) {
        let bar = Cell::new(bar(bytes, all), category_style(name));
        table.row([size(bytes).into(), Cell::from(name.replace('_', " ")), bar]);
    }
    section.table(table);
    Some(section)
}

fn gaps(gaps: &GapsView) -> Option<String> {
    if gaps.usable_bytes + gaps.elsewhere_bytes + gaps.private_bytes == 0 {
        return None;
    }
    let mut parts = Vec::new();
    if gaps.usable_bytes > 0 {
        parts.push(format!(
            "{} in {} of {}, the largest {}",
            size(gaps.usable_bytes),
            counted(gaps.pieces, "piece", "pieces"),
            counted(gaps.segments, "segment", "segments"),
            size(gaps.largest_bytes)
        ));
    }
    if gaps.elsewhere_bytes > 0 {
        parts.push(format!("{} of other streams or sizes", size(gaps.elsewhere_bytes)));
    }
    if gaps.private_bytes > 0 {
        parts.push(format!("{} in private pools", size(gaps.private_bytes)));
    }
    Some(format!("Reserved and free at that moment: {}.", parts.join("; ")))
}

/// The steps, numbered.
fn steps(view: &ExplainView<'_>) -> Option<Section> {
    // Of other failures few steps have a number, and a step that costs nothing may stand before one that frees more.
    let savings: Vec<u64> = view.steps.iter().map(|step| step.brings_bytes.unwrap_or(0)).collect();
    let is_by_saving = savings.first() > Some(&0) && savings.is_sorted_by(|one, next| one >= next);
    let order = if view.error.is_none() && is_by_saving { ", largest saving first" } else { "" };
    let mut section = Section::new(format!("{STEPS}{order}"));
    for (number, step) in (1..).zip(&view.steps) {
        let detail = Text::from(format!("{}.", capitalised(&step.detail)));
        let change = step.change.as_ref().map(|change| Text::from("→ ").and(change.as_str(), HINT));
        section.step(number, title(step, view), [Some(detail), change].into_iter().flatten());
    }
    (!section.is_empty()).then_some(section)
}

/// A step with its saving.
fn title(step: &StepView, view: &ExplainView<'_>) -> Text {
    let missing = view.diagnosis.missing_bytes;
    let saving = match (step.brings_bytes, step.enough) {
        (Some(bytes), Some(true)) => (format!(" [frees {}: enough]", size(bytes)), GOOD),
        (Some(bytes), Some(false)) if missing.is_some_and(|missing| bytes >= missing) => {
            (format!(" [frees {}: enough for this request, not for the whole step]", size(bytes)), PLAIN)
        }
        (Some(bytes), Some(false)) => {
            let of = missing.map_or_else(String::new, |missing| format!(" of the {} missing", size(missing)));
            (format!(" [frees {}{of}: not enough alone]", size(bytes)), PLAIN)
        }
        (Some(bytes), None) => (format!(" [frees up to {}]", size(bytes)), PLAIN),
        (None, _) => (String::new(), PLAIN),
    };
    Text::styled(capitalised(&step.title), STRONG).and(saving.0, saving.1)
}

/// Messages, if there are several.
fn messages(view: &ExplainView<'_>) -> Option<Section> {
    if view.message_count < 2 {
        return None;
    }
    let different = view.messages.len() as u64 + view.messages_left_out;
    let kinds = if different == 1 { "all alike".to_owned() } else { format!("{} different", count(different)) };
    let all = counted(view.message_count, "message", "messages");
    let mut section = Section::new(format!("{all} in all, {kinds}; the first is explained"));
    let mut table = Table::new([
        ("line", Align::Right),
        ("times", Align::Right),
        ("rank", Align::Right),
        ("GPU", Align::Right),
        ("tried", Align::Right),
        ("free", Align::Right),
        ("allocated", Align::Right),
        ("cause", Align::Left),
    ])
    .indented(2);
    for message in view.messages.iter().take(LISTED) {
        table.row(row(message));
    }
    section.table(table);
    let rest = different - (view.messages.len().min(LISTED) as u64);
    if rest > 0 {
        section.line(format!("… and {}; `--format json` has them", counted(rest, "more kind", "more kinds")));
    }
    Some(section)
}

/// Failures by their words, if there are more than the one that is explained.
fn errors(view: &ExplainView<'_>) -> Option<Section> {
    let shown = usize::from(view.error.is_some());
    if view.errors.len() <= shown {
        return None;
    }
    let mut section = Section::new("Other errors in the log");
    let mut table = Table::new([
        ("line", Align::Right),
        ("times", Align::Right),
        ("rank", Align::Right),
        ("from", Align::Left),
        ("error", Align::Left),
    ])
    .indented(2);
    // A pool that requests a tenth less with each try fails once, and each try has the code of CUDA in its line.
    let is_retry = |error: &ErrorView| {
        view.error.as_ref().is_some_and(|told| {
            told.id == "xla-device" && told.rank == error.rank && (told.id == error.id || error.id == "runtime")
        })
    };
    let others: Vec<_> =
        view.errors.iter().filter(|error| view.error.as_ref() != Some(error) && !is_retry(error)).collect();
    if others.is_empty() {
        return None;
    }
    for error in others.iter().take(LISTED) {
        let rank = error.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
        table.row([count(error.line), count(error.count), rank, error.origin.to_owned(), error.id.to_owned()]);
    }
    section.table(table);
    let rest = others.len().saturating_sub(LISTED);
    if rest > 0 {
        section.line(format!("… and {}; `--format json` has them", counted(rest, "more error", "more errors")));
    }
    Some(section)
}

fn row(message: &MessageView) -> [String; 8] {
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), size);
    let number = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    [
        count(message.line),
        count(message.count),
        number(message.rank),
        number(message.device),
        bytes(message.tried_bytes),
        bytes(message.free_bytes),
        bytes(message.allocated_bytes),
        message.cause.to_owned(),
    ]
}

/// Further failures of a snapshot.
fn further(failures: &[FailureExplainedView<'_>]) -> Option<Section> {
    if failures.len() < 2 {
        return None;
    }
    let mut section = Section::new(counted(failures.len() - 1, "more failure", "more failures"));
    for failure in failures.iter().skip(1).take(FAILURES) {
        let entry = failure.entry.map_or_else(String::new, |entry| format!(", entry {}", count(entry)));
        section.line(format!("device {}{entry}: {}", failure.device, failure.diagnosis.text));
    }
    let rest = (failures.len() - 1).saturating_sub(FAILURES);
    if rest > 0 {
        section.line(format!("… and {}; `--format json` has them all", count(rest)));
    }
    Some(section)
}
