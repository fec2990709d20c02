//! What `highwater simulate FILE` answers, as text.

use std::io;

use highwater_answers::frames;
use highwater_documents::{FitView, PinningView, RunView, SimulateView, SiteView};
use highwater_findings::verdict::capitalised;

use crate::document::{Document, Section, Text};
use crate::style::{BAD, GOOD, Ink, PLAIN, STRONG, WARNING};
use crate::table::{Align, Cell, Table, terminal_width};
use crate::units::{count, counted, size};

/// Sites and calls that are listed.
const LISTED: usize = 5;
/// A line must have so many cells to list every card.
const ALL_CARDS: usize = 160;

/// Writes the whole answer.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write(out: &mut impl Ink, view: &SimulateView<'_>, name: &str) -> io::Result<()> {
    let width = terminal_width();
    document(view, name, width).write_text(out, width)
}

/// The whole answer, for lines of `width` cells if they have a limit.
pub(crate) fn document(view: &SimulateView<'_>, name: &str, width: Option<usize>) -> Document {
    let mut document =
        Document { title: format!("{name}, device {}: {}", view.device, replayed(view)).into(), ..Document::default() };
    if let Some(premise) = &view.premise {
        document
            .lead
            .push(Text::styled("The following may be inaccurate", WARNING).and(format!(": {premise}."), PLAIN));
    }
    document.lead.extend(view.verdict.iter().map(|verdict| Text::styled(sentence(&verdict.text), STRONG)));
    document.lead.extend(view.alarms.iter().map(|alarm| {
        Text::styled(format!("Avoid {}", settings(&alarm.conf)), WARNING).and(
            format!(": it raises the peak from {} to {}.", size(alarm.own_reserved_bytes), size(alarm.reserved_bytes)),
            PLAIN,
        )
    }));
    document.sections.extend(fit(view, width));
    document.sections.push(bound(view));
    document.sections.extend(runs(view));
    document.sections.extend(waterfall(view));
    document.sections.extend(sites(view));
    document.sections.extend(empty_caches(view));
    document
}

fn replayed(view: &SimulateView<'_>) -> String {
    let requests = counted(view.requests, "request", "requests");
    let (equal, entries) = (number(view.fidelity.equal), number(view.fidelity.entries));
    let version = &view.torch.version;
    if view.fidelity.first_difference.is_none() {
        let of = &view.torch.replayed;
        let runs = if of == version { String::new() } else { format!("; the runs follow those of torch {version}") };
        let come = if view.fidelity.entries == 1 {
            "the one entry comes".to_owned()
        } else {
            format!("all {entries} entries come")
        };
        format!("{requests}; with the rules of torch {of} {come} out as recorded{runs}")
    } else {
        format!("{requests}; the rules of torch {} explain {equal} of {entries} entries", view.torch.replayed)
    }
}

fn number(count_of: u64) -> String {
    count(usize::try_from(count_of).unwrap_or(usize::MAX))
}

fn settings(conf: &str) -> String {
    if conf.is_empty() { "(default)".to_owned() } else { conf.to_owned() }
}

fn sentence(text: &str) -> String {
    format!("{}.", capitalised(text))
}

/// The fit table: what is reserved without a limit, how little is enough, and which cards that is.
fn fit(view: &SimulateView<'_>, width: Option<usize>) -> Option<Section> {
    let first = view.fit.first()?;
    let lists_all = width.is_none_or(|width| width >= ALL_CARDS);
    let sizes: Vec<String> = first.cards.iter().map(|card| card.gigabytes.to_string()).collect();
    let all = format!("fits cards of GB ({})", sizes.join(" "));
    let cards = if lists_all { &all } else { "smallest card" };
    let (limitless, capacity_of, over) =
        (("no limit", Align::Right), ("capacity", Align::Right), ("vs. live", Align::Right));
    let (retries, set) = (("retries", Align::Right), ("settings", Align::Left));
    let mut section;
    let mut table;
    if view.ends_at_error {
        section = Section::new("Up to the error: reserved without a limit, and the least memory that gets past it");
        table = Table::new([limitless, capacity_of, over, retries, set]).optional(&[2, 3]);
    } else {
        section = Section::new("Reserved without a limit, and the least memory that is enough");
        table = Table::new([limitless, capacity_of, over, retries, (cards, Align::Left), set]).optional(&[2, 4, 3]);
    }
    table = table.indented(2).wrapped();
    let least = view.fit.iter().map(|fit| fit.min_capacity_bytes).min();
    for fit in &view.fit {
        let style = if Some(fit.min_capacity_bytes) == least { GOOD } else { PLAIN };
        let reserved = Cell::from(size(fit.ample_reserved_bytes));
        let capacity = Cell::new(capacity(fit), style);
        let over = Cell::from(format!("{:.2}x", fit.over_live_ratio));
        let retries = Cell::from(number(fit.num_alloc_retries));
        let settings = Cell::new(settings(&fit.conf), style);
        if view.ends_at_error {
            table.row([reserved, capacity, over, retries, settings]);
        } else {
            table.row([reserved, capacity, over, retries, fitting_cards(fit, lists_all).into(), settings]);
        }
    }
    section.table(table);
    if view.ends_at_error {
        section.line(
            "The recording ends at an out-of-memory error, and the program would have requested more: no capacity here is known to be enough.",
        );
    }
    Some(section)
}

/// One capacity, or a range where the driver's addresses decide.
fn capacity(fit: &FitView) -> String {
    let (least, most) = (size(fit.min_capacity_bytes), size(fit.min_capacity_any_order_bytes));
    if least == most { least } else { format!("{least} to {most}") }
}

fn fitting_cards(fit: &FitView, lists_all: bool) -> String {
    let mut fitting = fit.cards.iter().filter(|card| card.fits).map(|card| card.gigabytes);
    if lists_all {
        let fitting: Vec<String> = fitting.map(|gigabytes| gigabytes.to_string()).collect();
        return if fitting.is_empty() { "none".to_owned() } else { fitting.join(" ") };
    }
    fitting.next().map_or_else(|| "none".to_owned(), |gigabytes| format!("{gigabytes} GB"))
}

fn bound(view: &SimulateView<'_>) -> Section {
    let bound = &view.bound;
    let at = bound.live_entry.map_or_else(String::new, |entry| format!(" at entry {}", count(entry as usize)));
    let packed = if bound.proven_optimal {
        "; a layout of exactly this size exists".to_owned()
    } else if bound.packed_bytes > 0 {
        format!("; the best layout found needs {}", size(bound.packed_bytes))
    } else {
        String::new()
    };
    let mut section = Section::without_heading();
    let needs =
        if view.ends_at_error { "Up to the error the program itself needs" } else { "The program itself needs" };
    section.line(format!("{needs} {}{at}: no setting can need less{packed}.", size(bound.live_bytes)));
    section
}

/// The runs that were asked for.
fn runs(view: &SimulateView<'_>) -> Vec<Section> {
    let is_only_the_recording = view.verdict.is_some();
    let shown = || view.runs.iter().filter(|run| !is_only_the_recording || run.oom.is_some());
    if shown().next().is_none() {
        return Vec::new();
    }
    let heading = if is_only_the_recording { "The failure, replayed with the memory there was" } else { "Runs" };
    let mut section = Section::new(heading);
    let mut table = Table::new([
        ("for PyTorch", Align::Right),
        ("outcome", Align::Left),
        ("reserved", Align::Right),
        ("allocated", Align::Right),
        ("retries", Align::Right),
        ("settings", Align::Left),
    ])
    .indented(2)
    .wrapped();
    for run in shown() {
        table.row([
            run_capacity(run).into(),
            Cell::new(outcome(run, view.ends_at_error), if run.oom_entry.is_some() { BAD } else { GOOD }),
            reserved(run).into(),
            size(run.peak_allocated_bytes).into(),
            number(run.num_alloc_retries).into(),
            settings(&run.conf).into(),
        ]);
        if let Some(failure) = &run.oom {
            if !failure.at.place.is_empty() {
                table.below(format!("  at {}", frames::place_of(&failure.at)));
            }
            if let Some(pinning) = &failure.pinning {
                table.below(format!("  {}", in_the_way(pinning)));
            }
        }
        if let Some(reason) = run.reason.as_ref().filter(|_| view.premise.is_none() || run.oom_entry.is_none()) {
            table.below(format!("  may differ: {reason}"));
        }
    }
    section.table(table);
    let mut known: Vec<&str> = Vec::new();
    for run in shown() {
        let (Some(card), Some(total), Some(capacity)) = (run.card.as_deref(), run.card_total_bytes, run.capacity_bytes)
        else {
            continue;
        };
        if !known.contains(&card) {
            known.push(card);
            let context = size(total.saturating_sub(capacity));
            section.line(format!("{card}: {} in all, {context} of it for the CUDA context", size(total)));
        }
    }
    let mut sections = vec![section];
    if let Some(message) = shown().find_map(|run| run.oom.as_ref()?.message.as_ref()) {
        let mut section = Section::new("PyTorch's message for the first failure");
        section.line(message.as_str());
        sections.push(section);
    }
    sections
}

/// What stood in the way of a request, in a sentence.
fn in_the_way(pinning: &PinningView<'_>) -> String {
    let blocks = counted(pinning.count, "block", "blocks");
    let way = if pinning.in_place { "" } else { ": whole segments would have been released to the driver" };
    let fewest = if pinning.is_smallest { "" } else { " (fewer may be enough)" };
    let most = pinning.call_sites.first().map_or_else(String::new, |site| {
        let by = if pinning.call_sites.len() == 1 { "allocated" } else { "mostly allocated" };
        format!(" {by} at {}", frames::place_of(&site.at))
    });
    format!("freeing {blocks} of {}{most}{fewest} would have been enough{way}", size(pinning.bytes))
}

fn run_capacity(run: &RunView<'_>) -> String {
    let bytes = run.capacity_bytes.map_or_else(|| "no limit".to_owned(), size);
    match &run.card {
        Some(card) => format!("{card} ({bytes})"),
        None => bytes,
    }
}

fn outcome(run: &RunView<'_>, ends_at_error: bool) -> String {
    match run.oom_entry {
        Some(entry) => format!("fails at entry {}", count(entry as usize)),
        None if ends_at_error => "gets past the error".to_owned(),
        None => run.outcome.to_owned(),
    }
}

fn reserved(run: &RunView<'_>) -> String {
    let (least, most) = run.peak_reserved_range_bytes;
    if size(least) == size(most) { size(run.peak_reserved_bytes) } else { format!("{} to {}", size(least), size(most)) }
}

fn waterfall(view: &SimulateView<'_>) -> Option<Section> {
    if view.waterfall.is_empty() {
        return None;
    }
    let total: i64 = view.waterfall.iter().map(|bar| bar.bytes).sum();
    let mut section =
        Section::new(format!("Where the reserved peak of {} goes without a limit, by cause", signed(total)));
    let mut table = Table::new([("", Align::Right), ("", Align::Left)]).indented(2).wrapped();
    for bar in view.waterfall.iter().filter(|bar| bar.bytes != 0) {
        table.row([signed(bar.bytes), explained(bar.cause).to_owned()]);
    }
    section.table(table);
    Some(section)
}

fn explained(cause: &str) -> &str {
    match cause {
        "requested" => "requested by the program",
        "rounding" => "rounding of requests",
        "unsplit_slack" => "ends of blocks that are too small to split off",
        "stream_isolation" => "free memory of one stream that others cannot use",
        "private_pools" => "free memory of private pools that others cannot use",
        "delayed_frees" => "freed blocks that wait for another stream",
        "placement" => "free memory between blocks in use",
        other => other,
    }
}

fn signed(bytes: i64) -> String {
    let magnitude = size(bytes.unsigned_abs());
    if bytes < 0 { format!("-{magnitude}") } else { magnitude }
}

fn sites(view: &SimulateView<'_>) -> Option<Section> {
    let worth = |site: &&SiteView<'_>| site.hoisted_saves_bytes.max(site.pooled_saves_bytes) > 0;
    if !view.sites.iter().any(|site| worth(&site)) {
        return None;
    }
    let mut section = Section::new("Long-lived blocks that fragment memory: saved if they were");
    let mut table = Table::new([
        ("allocated first", Align::Right),
        ("in their own MemPool", Align::Right),
        ("blocks", Align::Right),
        ("where", Align::Left),
    ])
    .indented(2)
    .wrapped();
    for site in view.sites.iter().filter(worth).take(LISTED) {
        let place = frames::place_of(&site.at);
        table.row([signed(site.hoisted_saves_bytes), signed(site.pooled_saves_bytes), count(site.count), place]);
    }
    section.table(table);
    Some(section)
}

fn empty_caches(view: &SimulateView<'_>) -> Option<Section> {
    let all = view.empty_caches.first()?;
    let effect = match all.saved_bytes {
        0 => "did not lower the peak".to_owned(),
        saved if saved > 0 => format!("lowered the peak by {}", signed(saved)),
        cost => format!("raised the peak by {}", signed(-cost)),
    };
    let calls = counted(all.calls, "call", "calls");
    let drivers = usize::try_from(all.device_allocs.max(0)).unwrap_or(usize::MAX);
    let mut section = Section::without_heading();
    section.line(format!(
        "{calls} of `empty_cache()` {effect}, at the cost of {} to the driver.",
        counted(drivers, "more call", "more calls")
    ));
    Some(section)
}
