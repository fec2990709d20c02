//! What `highwater explain` says, for a person.

use std::io::{self, Write};

use highwater_analysis::category::Category;
use highwater_answers::frames;
use highwater_documents::{ExplainView, FailureExplainedView, GapsView, MessageView, ShareView, StepView};

use crate::printable::printable;
use crate::table::{Align, Table, broken, terminal_width};
use crate::units::{count, counted, size};

/// Prose is broken at this width where there is no terminal, or a wider one.
const WIDTH: usize = 100;
/// Cells of the longest bar.
const BAR: u128 = 40;
/// Messages and call sites that are listed.
const LISTED: usize = 8;
/// Failures that are listed.
const FAILURES: usize = 10;

/// Writes the whole answer.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write(out: &mut impl Write, view: &ExplainView<'_>, name: &str) -> io::Result<()> {
    let first = view.failures.first();
    match heading(view, first, name) {
        Some(heading) => {
            writeln!(out, "{heading}\n")?;
            paragraph(out, "", &format!("{}.", capitalised(&view.diagnosis.text)))?;
        }
        None => paragraph(out, "", &format!("{}: {}.", printable(name), view.diagnosis.text))?,
    }
    for note in &view.diagnosis.notes {
        paragraph(out, "", &format!("{}.", capitalised(note)))?;
    }
    if !view.disagreements.is_empty() {
        writeln!(out, "\nThe message and the snapshot do not tell of the same failure")?;
        for difference in &view.disagreements {
            paragraph(out, "  ", difference)?;
        }
    }
    write_shares(out, view)?;
    if let Some(failure) = first {
        write_evidence(out, failure)?;
    }
    write_steps(out, &view.steps)?;
    write_messages(out, view)?;
    write_failures(out, &view.failures)
}

/// Where it happened; `None` where nothing was found.
fn heading(view: &ExplainView<'_>, failure: Option<&FailureExplainedView<'_>>, name: &str) -> Option<String> {
    let name = printable(name);
    if let Some(failure) = failure {
        let entry = failure.entry.map_or_else(String::new, |entry| format!(" at entry {}", count(entry)));
        return Some(match (failure.simulated_card_bytes, failure.simulated_capacity_bytes) {
            (Some(card), _) => {
                format!("{name}, device {}: on a card of {} it runs out of memory{entry}", failure.device, size(card))
            }
            (None, Some(capacity)) => {
                format!("{name}, device {}: with {} it runs out of memory{entry}", failure.device, size(capacity))
            }
            (None, None) => format!("{name}, device {}: out of memory{entry}", failure.device),
        });
    }
    let message = view.message.as_ref()?;
    let rank = message.rank.map_or_else(String::new, |rank| format!(", rank {rank}"));
    let device = message.device.map_or_else(String::new, |device| format!(", GPU {device}"));
    let torch = message.torch.as_ref().map_or_else(String::new, |torch| format!(", in the words of torch {torch}"));
    let cut = if message.cut { "; the message is cut" } else { "" };
    Some(format!("{name}{rank}{device}: out of memory{torch}{cut}"))
}

/// What the device's memory adds up to.
fn write_shares(out: &mut impl Write, view: &ExplainView<'_>) -> io::Result<()> {
    if view.shares.len() < 2 {
        return Ok(());
    }
    let sum = view.shares.iter().map(|share| share.bytes).fold(0, u64::saturating_add).max(1);
    let capacity = view.message.as_ref().and_then(|message| message.capacity_bytes);
    match capacity {
        Some(capacity) => writeln!(out, "\nWho holds the {} of the device", size(capacity))?,
        None => writeln!(out, "\nWho holds the {} that is accounted for", size(sum))?,
    }
    let mut table = Table::new([("", Align::Right), ("", Align::Left), ("", Align::Left)]).indented(2);
    for share in &view.shares {
        table.row([size(share.bytes), holder(share), bar(share.bytes, sum)]);
    }
    table.write(out, terminal_width())
}

fn holder(share: &ShareView) -> String {
    match (share.holder, share.pid) {
        ("allocated", _) => "this process: in tensors".to_owned(),
        ("unallocated", _) => "this process: reserved by PyTorch, not in use".to_owned(),
        ("private-pools", _) => "this process: free in private pools (CUDA graphs)".to_owned(),
        ("outside-pytorch", _) => "this process: outside PyTorch (context, libraries)".to_owned(),
        ("process", Some(pid)) => format!("process {pid}"),
        ("others", _) => "others".to_owned(),
        ("untold", _) => "not told: the driver, contexts, processes that are not listed".to_owned(),
        _ => "free".to_owned(),
    }
}

fn bar(bytes: u64, sum: u64) -> String {
    let cells = (u128::from(bytes) * BAR).div_ceil(u128::from(sum)).min(BAR);
    "█".repeat(usize::try_from(cells).unwrap_or(0))
}

/// What a snapshot shows beside the totals.
fn write_evidence(out: &mut impl Write, failure: &FailureExplainedView<'_>) -> io::Result<()> {
    if !failure.at.place.is_empty() {
        writeln!(out, "\nAsked for at {}", frames::place_of(&failure.at))?;
    }
    write_categories(out, failure)?;
    if !failure.call_sites.is_empty() {
        writeln!(out, "\nWhat was live, by call site")?;
        let mut table = Table::new([("", Align::Right), ("", Align::Right), ("", Align::Left)]).indented(2);
        for site in failure.call_sites.iter().take(LISTED) {
            table.row([size(site.bytes), counted(site.count, "block", "blocks"), frames::place_of(&site.at)]);
        }
        table.write(out, terminal_width())?;
        let rest = failure.call_sites.len().saturating_sub(LISTED);
        if rest > 0 {
            writeln!(out, "  … and {} more; `--format json` has them all", counted(rest, "call site", "call sites"))?;
        }
    }
    let mut sentences: Vec<String> = failure.gaps.iter().filter_map(gaps).collect();
    if let Some(pinning) = &failure.pinning {
        let from = pinning.call_sites.first().map_or_else(String::new, |site| {
            let share = if pinning.call_sites.len() == 1 { "" } else { "most of it " };
            format!(", {share}from {}", frames::place_of(&site.at))
        });
        let fewest = if pinning.is_smallest { "" } else { " (fewer may do)" };
        sentences.push(format!(
            "without {} of {}{fewest} the request would have been served{from}",
            counted(pinning.count, "live block", "live blocks"),
            size(pinning.bytes)
        ));
    }
    if let Some(simulation) = &failure.simulation {
        sentences.push(format!("replayed: {}", simulation.text));
    }
    if sentences.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    sentences.iter().try_for_each(|sentence| paragraph(out, "", &format!("{}.", capitalised(sentence))))
}

/// What was live, by what it is for, the largest first; nothing where that is not told of any.
fn write_categories(out: &mut impl Write, failure: &FailureExplainedView<'_>) -> io::Result<()> {
    let mut named = failure.categories.named();
    named.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    if named.iter().all(|&(name, bytes)| bytes == 0 || name == Category::Unknown.name()) {
        return Ok(());
    }
    let all = named.iter().map(|&(_, bytes)| bytes).fold(0, u64::saturating_add).max(1);
    writeln!(out, "\nWhat was live, by what it is for")?;
    let mut table = Table::new([("", Align::Right), ("", Align::Left), ("", Align::Left)]).indented(2);
    for (name, bytes) in named.into_iter().filter(|&(_, bytes)| bytes > 0) {
        table.row([size(bytes), name.replace('_', " "), bar(bytes, all)]);
    }
    table.write(out, terminal_width())
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
    Some(format!("reserved and free at that moment: {}", parts.join("; ")))
}

/// The steps, numbered.
fn write_steps(out: &mut impl Write, steps: &[StepView]) -> io::Result<()> {
    if steps.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nWhat to change, most effective first")?;
    for (number, step) in (1..).zip(steps) {
        let brings = match (step.brings_bytes, step.enough) {
            (Some(bytes), Some(true)) => format!(" [frees {}: enough]", size(bytes)),
            (Some(bytes), Some(false)) => format!(" [frees {}: not enough alone]", size(bytes)),
            (Some(bytes), None) => format!(" [frees up to {}]", size(bytes)),
            (None, _) => String::new(),
        };
        item(out, number, &format!("{}{brings}", capitalised(&step.title)))?;
        paragraph(out, "     ", &printable(&format!("{}.", capitalised(&step.detail))))?;
        if let Some(change) = &step.change {
            writeln!(out, "     → {}", printable(change))?;
        }
    }
    Ok(())
}

/// Messages, if there are several.
fn write_messages(out: &mut impl Write, view: &ExplainView<'_>) -> io::Result<()> {
    if view.message_count < 2 {
        return Ok(());
    }
    let different = view.messages.len() as u64 + view.messages_left_out;
    let what = if different == 1 { "all alike".to_owned() } else { format!("{} different", count(different)) };
    writeln!(out, "\n{} in all, {what}; the first is explained", counted(view.message_count, "message", "messages"))?;
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
    table.write(out, terminal_width())?;
    let rest = different - (view.messages.len().min(LISTED) as u64);
    if rest > 0 {
        writeln!(out, "  … and {} more; `--format json` has them", counted(rest, "kind", "kinds"))?;
    }
    Ok(())
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
fn write_failures(out: &mut impl Write, failures: &[FailureExplainedView<'_>]) -> io::Result<()> {
    if failures.len() < 2 {
        return Ok(());
    }
    writeln!(out, "\n{} more", counted(failures.len() - 1, "failure", "failures"))?;
    for failure in failures.iter().skip(1).take(FAILURES) {
        let entry = failure.entry.map_or_else(String::new, |entry| format!(", entry {}", count(entry)));
        let text = format!("device {}{entry}: {}", failure.device, failure.diagnosis.text);
        paragraph(out, "  ", &text)?;
    }
    let rest = (failures.len() - 1).saturating_sub(FAILURES);
    if rest > 0 {
        writeln!(out, "  … and {}; `--format json` has them all", count(rest))?;
    }
    Ok(())
}

fn item(out: &mut impl Write, number: usize, text: &str) -> io::Result<()> {
    let lines = broken(&printable(text), width().saturating_sub(5));
    lines.iter().enumerate().try_for_each(|(row, line)| match row {
        0 => writeln!(out, "{number:3}. {line}"),
        _ => writeln!(out, "     {line}"),
    })
}

fn paragraph(out: &mut impl Write, indent: &str, text: &str) -> io::Result<()> {
    broken(text, width().saturating_sub(indent.len())).iter().try_for_each(|line| writeln!(out, "{indent}{line}"))
}

fn width() -> usize {
    terminal_width().unwrap_or(WIDTH).min(WIDTH)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}", first.to_uppercase(), letters.as_str()))
}
