//! What `highwater simulate FILE` answers, as text.

use std::io::{self, Write};

use highwater_answers::frames;
use highwater_documents::{FitView, PinningView, RunView, SimulateView, SiteView};

use crate::printable::printable;
use crate::table::{Align, Table, broken, terminal_width};
use crate::units::{count, counted, size};

/// Prose is broken at this width where there is no terminal.
const WIDTH: usize = 100;
/// Sites and calls that are listed.
const LISTED: usize = 5;

/// Writes the whole answer.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write(out: &mut impl Write, view: &SimulateView<'_>, name: &str) -> io::Result<()> {
    writeln!(out, "{name}, device {}: {}", view.device, replayed(view))?;
    if let Some(premise) = &view.premise {
        paragraph(out, &format!("Take what follows with care: {premise}."))?;
    }
    if let Some(verdict) = &view.verdict {
        writeln!(out)?;
        paragraph(out, &sentence(&verdict.text))?;
    }
    for alarm in &view.alarms {
        let text = format!(
            "Keep away from {}: it takes the peak from {} to {}.",
            settings(&alarm.conf),
            size(alarm.own_reserved_bytes),
            size(alarm.reserved_bytes)
        );
        paragraph(out, &text)?;
    }
    write_fit(out, view)?;
    write_bound(out, view)?;
    write_runs(out, view)?;
    write_waterfall(out, view)?;
    write_sites(out, view)?;
    write_empty_caches(out, view)
}

fn replayed(view: &SimulateView<'_>) -> String {
    let requests = counted(view.requests, "request", "requests");
    let (equal, entries) = (number(view.fidelity.equal), number(view.fidelity.entries));
    let version = &view.torch.version;
    if view.fidelity.first_difference.is_none() {
        let of = &view.torch.replayed;
        let runs = if of == version { String::new() } else { format!("; the runs are under those of torch {version}") };
        let come = if view.fidelity.entries == 1 {
            "the one entry comes".to_owned()
        } else {
            format!("all {entries} entries come")
        };
        format!("{requests}; under the rules of torch {of} {come} out as recorded{runs}")
    } else {
        format!("{requests}; the rules of torch {} explain {equal} of {entries} entries", view.torch.replayed)
    }
}

fn number(count_of: u64) -> String {
    count(usize::try_from(count_of).unwrap_or(usize::MAX))
}

fn settings(conf: &str) -> String {
    if conf.is_empty() { "(default)".to_owned() } else { printable(conf).into_owned() }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

fn paragraph(out: &mut impl Write, text: &str) -> io::Result<()> {
    broken(text, terminal_width().unwrap_or(WIDTH)).iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn heading(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "\n{text}")
}

/// The fit table: how little is enough, and which cards that is.
fn write_fit(out: &mut impl Write, view: &SimulateView<'_>) -> io::Result<()> {
    let Some(first) = view.fit.first() else { return Ok(()) };
    let title = if view.ends_at_error {
        "Up to the error: the reserved peak without a limit, and the smallest capacity that gets past it"
    } else {
        "The reserved peak without a limit, and the smallest capacity from which on nothing fails"
    };
    heading(out, title)?;
    let sizes: Vec<String> = first.cards.iter().map(|card| card.gigabytes.to_string()).collect();
    let cards = if sizes.is_empty() { String::new() } else { format!("fits cards, GB (of {})", sizes.join(" ")) };
    let mut table = Table::new([
        ("reserved", Align::Right),
        ("capacity", Align::Right),
        ("over live", Align::Right),
        ("retries", Align::Right),
        ("settings", Align::Left),
        (&cards, Align::Left),
    ])
    .indented(2);
    for fit in &view.fit {
        table.row([
            size(fit.ample_reserved_bytes),
            capacity(fit),
            format!("{:.2}x", fit.over_live_ratio),
            number(fit.num_alloc_retries),
            settings(&fit.conf),
            fitting_cards(fit),
        ]);
    }
    table.write(out, terminal_width())?;
    if view.ends_at_error {
        writeln!(out)?;
        let text = "The recording ends at an out-of-memory error, and the program would have gone on to ask for more: no capacity here \
                    is known to be enough for it.";
        paragraph(out, text)?;
    }
    Ok(())
}

/// One capacity, or a range where the driver's addresses decide.
fn capacity(fit: &FitView) -> String {
    let (least, most) = (size(fit.min_capacity_bytes), size(fit.min_capacity_any_order_bytes));
    if least == most { least } else { format!("{least} to {most}") }
}

fn fitting_cards(fit: &FitView) -> String {
    let fitting: Vec<String> =
        fit.cards.iter().filter(|card| card.fits).map(|card| card.gigabytes.to_string()).collect();
    if fitting.is_empty() && !fit.cards.is_empty() { "none".to_owned() } else { fitting.join(" ") }
}

fn write_bound(out: &mut impl Write, view: &SimulateView<'_>) -> io::Result<()> {
    let bound = &view.bound;
    let at = bound.live_entry.map_or_else(String::new, |entry| format!(" at entry {}", count(entry as usize)));
    let packed = if bound.proven_optimal {
        "; a placement of all blocks in exactly that much exists".to_owned()
    } else if bound.packed_bytes > 0 {
        format!("; the best placement found that knows the future needs {}", size(bound.packed_bytes))
    } else {
        String::new()
    };
    let holds =
        if view.ends_at_error { "Up to the error the program itself holds" } else { "The program itself holds" };
    writeln!(out)?;
    paragraph(out, &format!("{holds} {}{at}: no setting can need less{packed}.", size(bound.live_bytes)))
}

/// The runs that were asked for.
fn write_runs(out: &mut impl Write, view: &SimulateView<'_>) -> io::Result<()> {
    let is_only_the_recording = view.verdict.is_some();
    let shown = || view.runs.iter().filter(|run| !is_only_the_recording || run.oom.is_some());
    if shown().next().is_none() {
        return Ok(());
    }
    heading(out, if is_only_the_recording { "The failure, run again with the memory there was" } else { "Runs" })?;
    let mut table = Table::new([
        ("capacity", Align::Right),
        ("outcome", Align::Left),
        ("reserved", Align::Right),
        ("allocated", Align::Right),
        ("retries", Align::Right),
        ("settings", Align::Left),
    ])
    .indented(2);
    for run in shown() {
        table.row([
            run_capacity(run),
            outcome(run, view.ends_at_error),
            reserved(run),
            size(run.peak_allocated_bytes),
            number(run.num_alloc_retries),
            settings(&run.conf),
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
            table.below(format!("  {}: {}", run.confidence, printable(reason)));
        }
    }
    table.write(out, terminal_width())?;
    match shown().find_map(|run| run.oom.as_ref()?.message.as_ref()) {
        Some(message) => {
            heading(out, "PyTorch would have said, of the first that fails")?;
            paragraph(out, message)
        }
        None => Ok(()),
    }
}

/// What stood in the way of a request, in a sentence.
fn in_the_way(pinning: &PinningView<'_>) -> String {
    let blocks = counted(pinning.count, "block", "blocks");
    let way = if pinning.in_place { "in their place" } else { "as whole segments would have gone back to the driver" };
    let fewest = if pinning.is_smallest { "" } else { " (fewer may do)" };
    let most = pinning.call_sites.first().map_or_else(String::new, |site| {
        let from = if pinning.call_sites.len() == 1 { "from" } else { "most of their bytes from" };
        format!(", {from} {}", frames::place_of(&site.at))
    });
    format!("without {blocks} of {}{fewest} it would have been served, {way}{most}", size(pinning.bytes))
}

fn run_capacity(run: &RunView<'_>) -> String {
    let bytes = run.capacity_bytes.map_or_else(|| "unlimited".to_owned(), size);
    match &run.card {
        Some(card) => format!("{} ({bytes})", printable(card)),
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

fn write_waterfall(out: &mut impl Write, view: &SimulateView<'_>) -> io::Result<()> {
    if view.waterfall.is_empty() {
        return Ok(());
    }
    let total: i64 = view.waterfall.iter().map(|bar| bar.bytes).sum();
    heading(
        out,
        &format!(
            "Where the reserved peak of {} goes, without a limit: how much less it would be without each cause",
            signed(total)
        ),
    )?;
    let mut table = Table::new([("", Align::Right), ("", Align::Left)]).indented(2);
    for bar in view.waterfall.iter().filter(|bar| bar.bytes != 0) {
        table.row([signed(bar.bytes), explained(bar.cause).to_owned()]);
    }
    table.write(out, terminal_width())
}

fn explained(cause: &str) -> &str {
    match cause {
        "requested" => "asked for by the program",
        "rounding" => "rounding of requests",
        "unsplit_slack" => "ends of blocks that are not worth splitting off",
        "stream_isolation" => "free memory of one stream that another cannot use",
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

fn write_sites(out: &mut impl Write, view: &SimulateView<'_>) -> io::Result<()> {
    let worth = |site: &&SiteView<'_>| site.hoisted_saves_bytes.max(site.pooled_saves_bytes) > 0;
    if !view.sites.iter().any(|site| worth(&site)) {
        return Ok(());
    }
    heading(out, "Long-lived blocks in the way: what moving those of one call site would save")?;
    let mut table = Table::new([
        ("if allocated first", Align::Right),
        ("if in a pool of their own", Align::Right),
        ("blocks", Align::Right),
        ("where", Align::Left),
    ])
    .indented(2);
    for site in view.sites.iter().filter(worth).take(LISTED) {
        let place = frames::place_of(&site.at);
        table.row([signed(site.hoisted_saves_bytes), signed(site.pooled_saves_bytes), count(site.count), place]);
    }
    table.write(out, terminal_width())
}

fn write_empty_caches(out: &mut impl Write, view: &SimulateView<'_>) -> io::Result<()> {
    let Some(all) = view.empty_caches.first() else { return Ok(()) };
    let effect = match all.saved_bytes {
        0 => "did not lower the peak".to_owned(),
        saved if saved > 0 => format!("lowered the peak by {}", signed(saved)),
        cost => format!("raised the peak by {}", signed(-cost)),
    };
    let calls = counted(all.calls, "call", "calls");
    let drivers = usize::try_from(all.device_allocs.max(0)).unwrap_or(usize::MAX);
    writeln!(out)?;
    paragraph(
        out,
        &format!(
            "{calls} of `empty_cache()` {effect}, at the price of {} to the driver.",
            counted(drivers, "more call", "more calls")
        ),
    )
}
