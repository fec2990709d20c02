//! The answer of `highwater estimate` for people.

use std::io::{self, Write};

use highwater_documents::estimate::{AgainstView, EstimateView, FitView, SweepView};

use crate::printable::printable;
use crate::table::{Align, Table, terminal_width};
use crate::units::{count, size};

/// Cells of the bar.
const BAR: u64 = 60;

/// Letters of the bar, one for each category in the order of the breakdown.
const LETTERS: [char; 7] = ['P', 'G', 'O', 'A', 'I', 't', 'w'];

pub(super) fn write(out: &mut impl Write, view: &EstimateView, terms: usize) -> io::Result<()> {
    let estimate = &view.estimate;
    let setup = &view.setup;
    let trained = if estimate.trainable_parameters == estimate.parameters {
        String::new()
    } else {
        format!(", {} of them or of adapters trained", count(estimate.trainable_parameters))
    };
    writeln!(out, "{}: {} parameters{trained}", printable(&estimate.model), count(estimate.parameters))?;
    if let Some(counted) = view.counted_parameters.filter(|counted| *counted != estimate.parameters) {
        writeln!(out, "the file of weights lists {} numbers", count(counted))?;
    }
    let autocast = setup.autocast.as_ref().map_or_else(String::new, |dtype| format!(", autocast to {dtype}"));
    let checkpointing = if setup.checkpointing { ", checkpointing" } else { "" };
    writeln!(
        out,
        "batch {}, {} tokens, {}{autocast}{checkpointing}\n",
        count(setup.batch),
        count(setup.seq),
        setup.dtype
    )?;
    write_totals(out, view)?;
    write_bar(out, view)?;
    write_phases(out, view)?;
    write_terms(out, view, terms)?;
    write_cards(out, view)?;
    if let Some(simple) = &view.simple {
        writeln!(out, "\nThe simple formula (`--method simple`), for comparison:")?;
        writeln!(
            out,
            "  derived: model + state + max(gradients + intermediates, activations)   {}",
            size(simple.derived_bytes)
        )?;
        writeln!(
            out,
            "  summary: model + state + max(gradients, intermediates, activations)    {}",
            size(simple.summary_bytes)
        )?;
        writeln!(out, "  with {} activations per token", count(simple.activations_per_token))?;
    }
    if let Some(fit) = &view.fit {
        write_fit(out, fit)?;
    }
    if let Some(sweep) = &view.sweep {
        write_sweep(out, sweep)?;
    }
    if let Some(against) = &view.against {
        write_against(out, view, against)?;
    }
    writeln!(out, "\nAssumed:")?;
    for assumption in &estimate.assumptions {
        writeln!(out, "- {}", printable(assumption))?;
    }
    Ok(())
}

fn write_totals(out: &mut impl Write, view: &EstimateView) -> io::Result<()> {
    let estimate = &view.estimate;
    let band = &estimate.error_band;
    let mut table = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left)]).indented(2);
    let requested =
        format!("± {} %: {} to {}; {}", band.percent, size(band.low_bytes), size(band.high_bytes), band.evidence);
    table.row(["peak requested".to_owned(), size(estimate.peak_requested_bytes), requested]);
    table.row([
        "peak allocated".to_owned(),
        size(estimate.peak_allocated_bytes),
        "with the allocator's rounding".to_owned(),
    ]);
    let workspaces = format!("with {} of library workspaces", size(estimate.workspace_bytes));
    table.row(["peak reserved".to_owned(), size(estimate.peak_reserved_bytes), workspaces]);
    let context = format!("with {} of CUDA context", size(estimate.context_bytes));
    table.row(["on the card".to_owned(), size(estimate.total_bytes), context]);
    table.write(out, None)?;
    writeln!(out, "\nThe peak is in: {}.", estimate.peak_phase)?;
    if view.held_outputs_bytes > 0 {
        writeln!(out, "A script that holds the loss only needs {} less.", size(view.held_outputs_bytes))?;
    }
    writeln!(
        out,
        "For one token: {} bytes kept for the backward pass; {} values in the outputs of all modules.\n",
        count(estimate.saved_bytes_per_token),
        count(estimate.activations_per_token)
    )
}

fn write_bar(out: &mut impl Write, view: &EstimateView) -> io::Result<()> {
    let estimate = &view.estimate;
    let categories = estimate.breakdown.by_category();
    let peak = u128::from(estimate.peak_requested_bytes.max(1));
    let (mut bar, mut sum, mut drawn) = (String::new(), 0_u128, 0_u64);
    for (index, (_, bytes)) in categories.iter().enumerate() {
        sum += u128::from(*bytes);
        let end = u64::try_from((sum * u128::from(BAR) + peak / 2) / peak).unwrap_or(BAR).min(BAR);
        bar.extend(std::iter::repeat_n(LETTERS[index], usize::try_from(end.saturating_sub(drawn)).unwrap_or(0)));
        drawn = end.max(drawn);
    }
    writeln!(out, "  |{bar}|")?;
    let mut table = Table::new([("", Align::Left), ("", Align::Left), ("", Align::Right)]).indented(2);
    for (index, (category, bytes)) in categories.iter().enumerate().filter(|(_, (_, bytes))| *bytes > 0) {
        table.row([LETTERS[index].to_string(), category.name().replace('_', " "), size(*bytes)]);
    }
    table.write(out, None)
}

fn write_phases(out: &mut impl Write, view: &EstimateView) -> io::Result<()> {
    writeln!(out, "\nPhases:")?;
    let mut table = Table::new([("", Align::Left), ("", Align::Right)]).indented(2);
    for phase in &view.estimate.phases {
        table.row([phase.phase.to_owned(), size(phase.peak_requested_bytes)]);
    }
    table.write(out, None)
}

fn write_terms(out: &mut impl Write, view: &EstimateView, limit: usize) -> io::Result<()> {
    let all = &view.estimate.terms;
    let shown = if limit == 0 { all.len() } else { limit.min(all.len()) };
    writeln!(out, "\nThe largest terms at the peak:")?;
    let mut table = Table::new([
        ("size", Align::Right),
        ("category", Align::Left),
        ("part", Align::Left),
        ("what", Align::Left),
        ("formula", Align::Left),
    ])
    .indented(2);
    for term in &all[..shown] {
        let category = term.category.name().replace('_', " ");
        table.row([size(term.bytes), category, term.part.to_owned(), term.name.to_owned(), term.formula.clone()]);
    }
    table.write(out, terminal_width())?;
    if shown < all.len() {
        let rest: u64 = all[shown..].iter().fold(0, |sum, term| sum.saturating_add(term.bytes));
        writeln!(out, "  and {} more with {}: `--terms 0` shows all", all.len() - shown, size(rest))?;
    }
    Ok(())
}

fn write_cards(out: &mut impl Write, view: &EstimateView) -> io::Result<()> {
    let fitting: Vec<String> = view
        .cards
        .iter()
        .filter(|card| card.fits)
        .map(|card| format!("{} ({} to spare)", card.name, size(card.spare_bytes.unsigned_abs())))
        .collect();
    match fitting.as_slice() {
        [] => {
            let largest = view.cards.iter().max_by_key(|card| card.memory_bytes);
            let missing = largest.map_or(0, |card| card.spare_bytes.unsigned_abs());
            writeln!(out, "\nIt fits none of the cards that are known; the largest lacks {}.", size(missing))
        }
        [..] => writeln!(out, "\nIt fits: {}.", fitting.join(", ")),
    }
}

fn write_fit(out: &mut impl Write, fit: &FitView) -> io::Result<()> {
    let batch = fit.largest_batch.map_or_else(
        || "not even batch 1 fits".to_owned(),
        |batch| format!("the largest batch that fits is {}", count(batch)),
    );
    let verdict = if fit.fits { "it fits as it is" } else { "it does not fit as it is" };
    writeln!(out, "\nTo fit {}: {verdict}; {batch}.", size(fit.limit_bytes))?;
    let mut table =
        Table::new([("", Align::Left), ("on the card", Align::Right), ("change", Align::Left), ("costs", Align::Left)])
            .indented(2);
    for change in &fit.changes {
        let mark = if change.fits { "fits" } else { "no" };
        table.row([mark.to_owned(), size(change.total_bytes), change.change.clone(), change.cost.to_owned()]);
    }
    table.write(out, terminal_width())
}

fn write_sweep(out: &mut impl Write, sweep: &SweepView) -> io::Result<()> {
    writeln!(out)?;
    let most = sweep.rows.iter().map(|row| row.total_bytes).max().unwrap_or(1).max(1);
    let mut table = Table::new([
        (sweep.name, Align::Right),
        ("peak requested", Align::Right),
        ("on the card", Align::Right),
        ("peak in", Align::Left),
        ("", Align::Left),
    ])
    .indented(2);
    for row in &sweep.rows {
        let cells = u128::from(row.total_bytes) * 30 / u128::from(most);
        let bar = "#".repeat(usize::try_from(cells).unwrap_or(0));
        table.row([
            count(row.value),
            size(row.peak_requested_bytes),
            size(row.total_bytes),
            row.peak_phase.clone(),
            bar,
        ]);
    }
    table.write(out, None)
}

fn write_against(out: &mut impl Write, view: &EstimateView, against: &AgainstView) -> io::Result<()> {
    writeln!(
        out,
        "\nBeside {} (device {}), requested bytes at the peak of each:",
        printable(&against.snapshot),
        against.device
    )?;
    let mut table =
        Table::new([("", Align::Left), ("estimate", Align::Right), ("recording", Align::Right)]).indented(2);
    let estimate = &view.estimate;
    for row in against.categories.iter().filter(|row| row.estimated_bytes > 0 || row.recorded_bytes > 0) {
        table.row([row.category.replace('_', " "), size(row.estimated_bytes), size(row.recorded_bytes)]);
    }
    let requested = estimate.peak_requested_bytes.saturating_add(estimate.workspace_bytes);
    table.row(["peak requested, workspaces included".to_owned(), size(requested), size(against.peak_requested_bytes)]);
    table.row(["peak reserved".to_owned(), size(estimate.peak_reserved_bytes), size(against.peak_reserved_bytes)]);
    table.row(["peak in".to_owned(), estimate.peak_phase.clone(), against.peak_phase.unwrap_or("").to_owned()]);
    table.write(out, None)?;
    match against.unseen {
        Some(unseen) => writeln!(out, "  Of the recording: {unseen}."),
        None => Ok(()),
    }
}
