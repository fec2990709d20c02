//! The answer of `highwater estimate` for people.

use std::io;

use highwater_documents::estimate::{AgainstView, CardView, EstimateView, FitView, SweepView};
use highwater_driver::Card;
use highwater_estimate::DEFAULT_CARD;

use crate::document::{Document, Section, Text};
use crate::report::category_style;
use crate::style::{BAD, DIM, GOOD, Ink, PLAIN, STRONG};
use crate::table::{Align, Cell, Table, terminal_width};
use crate::units::{count, counted, percent, size};

/// Cells of the bar.
const BAR: u64 = 54;

/// Letters of the bar, one for each category in the order of the breakdown.
const LETTERS: [char; 8] = ['P', 'G', 'O', 'A', 'C', 'I', 't', 'w'];

pub(super) fn write(out: &mut impl Ink, view: &EstimateView, terms: usize) -> io::Result<()> {
    document(view, terms).write_text(out, terminal_width())
}

/// The answer, with so many terms; 0 for all.
pub(super) fn document(view: &EstimateView, terms: usize) -> Document {
    let estimate = &view.estimate;
    let mut document = Document {
        title: Text::styled(format!("{} needs {} on the GPU", estimate.model, size(estimate.total_bytes)), STRONG)
            .and(format!(": {}.", setup(view)), PLAIN),
        lead: vec![cards(view)],
        sections: Vec::new(),
    };
    if let Some(fit) = &view.fit {
        document.lead.insert(0, fit_in_words(fit));
    }
    if let Some(text) = chosen_card(view).filter(|_| view.fit.is_none()) {
        document.lead.insert(0, text);
    }
    document.lead.push(parameters(view).into());
    document.sections.push(totals(view));
    document.sections.push(by_category(view));
    document.sections.push(phases(view));
    document.sections.push(largest_terms(view, terms));
    document.sections.extend(simple(view));
    document.sections.extend(view.fit.as_ref().map(changes));
    document.sections.extend(view.sweep.as_ref().map(sweep));
    document.sections.extend(view.against.as_ref().map(|recording| against(view, recording)));
    let mut assumed = Section::new("Assumed");
    estimate.assumptions.iter().for_each(|assumption| assumed.point(assumption.as_str(), None::<Text>));
    document.sections.push(assumed);
    document
}

fn setup(view: &EstimateView) -> String {
    let setup = &view.setup;
    let autocast = setup.autocast.as_ref().map_or_else(String::new, |dtype| format!(", autocast to {dtype}"));
    let checkpointing = if setup.checkpointing { ", checkpointing" } else { "" };
    let dtype = match &setup.configured_dtype {
        Some(configured) if *configured == setup.dtype => format!("{} as configured", setup.dtype),
        Some(configured) => format!("{} (configured: {configured})", setup.dtype),
        None => setup.dtype.clone(),
    };
    let tokens = if takes_tokens(view) { format!(" {} tokens,", count(setup.seq)) } else { String::new() };
    format!("batch {},{tokens} {dtype}{autocast}{checkpointing}", count(setup.batch))
}

/// Whether the sequence's length matters: it does not where an image's sides do.
fn takes_tokens(view: &EstimateView) -> bool {
    view.estimate.activations_per_token > 0
}

fn parameters(view: &EstimateView) -> String {
    let estimate = &view.estimate;
    let trained = if estimate.trainable_parameters == estimate.parameters {
        String::new()
    } else {
        format!(", {} of them (or of adapters) trained", count(estimate.trainable_parameters))
    };
    let listed = view.counted_parameters.filter(|counted| *counted != estimate.parameters);
    let listed =
        listed.map_or_else(String::new, |listed| format!("; the file of weights lists {} elements", count(listed)));
    format!("{} parameters{trained}{listed}.", count(estimate.parameters))
}

/// Whether it fits the GPU that was asked about; the usual one is among the others.
fn chosen_card(view: &EstimateView) -> Option<Text> {
    let card = view.cards.iter().find(|card| card.name == view.setup.gpu && card.name != DEFAULT_CARD)?;
    let (verdict, style) = match (card.fits, card.may_fit) {
        (true, _) => ("It fits", GOOD),
        (false, true) => ("It may fit", BAD),
        (false, false) => ("It does not fit", BAD),
    };
    let name = format!("{verdict} {} ({} in all)", gpu(card.name), size(card.memory_bytes));
    Some(Text::styled(name, style).and(format!(": {}.", spare(card)), PLAIN))
}

/// The spare bytes are those at the upper end of the error band.
fn spare(card: &CardView) -> String {
    let bytes = size(card.spare_bytes.unsigned_abs());
    if card.spare_bytes < 0 { format!("up to {bytes} missing") } else { format!("at least {bytes} to spare") }
}

/// The cards that it fits, the smallest first.
fn cards(view: &EstimateView) -> Text {
    let mut fitting: Vec<_> = view.cards.iter().filter(|card| card.fits).collect();
    fitting.sort_by_key(|card| card.memory_bytes);
    let mut may_fit: Vec<_> = view.cards.iter().filter(|card| card.may_fit).collect();
    may_fit.sort_by_key(|card| card.memory_bytes);
    let may_fit: Vec<&str> = may_fit.iter().map(|card| gpu(card.name)).collect();
    let band = view.estimate.error_band.percent;
    let Some((smallest, larger)) = fitting.split_first() else {
        if !may_fit.is_empty() {
            return Text::styled(format!("It may fit {}", may_fit.join(", ")), BAD)
                .and(format!(": the error band of {band} % exceeds the memory of the largest known GPU."), PLAIN);
        }
        let largest = view.cards.iter().max_by_key(|card| card.memory_bytes);
        let missing = largest.map_or(0, |card| card.spare_bytes.unsigned_abs());
        return Text::styled("It does not fit on any single known GPU", BAD)
            .and(format!("; the largest is up to {} too small.", size(missing)), PLAIN);
    };
    let text =
        Text::styled(format!("It fits {}", gpu(smallest.name)), GOOD).and(format!(" ({})", spare(smallest)), PLAIN);
    let text = if larger.is_empty() {
        text.and(".", PLAIN)
    } else {
        let names: Vec<&str> = larger.iter().map(|card| gpu(card.name)).collect();
        text.and(format!(" and {}: {}.", counted(names.len(), "larger GPU", "larger GPUs"), names.join(", ")), PLAIN)
    };
    if may_fit.is_empty() {
        return text;
    }
    text.and(format!(" It may fit {} (within the error band of {band} %).", may_fit.join(", ")), PLAIN)
}

/// The name of a GPU by its key, as people write it.
pub(super) fn gpu(key: &str) -> &str {
    Card::named(key).map_or(key, |card| card.short_name())
}

fn totals(view: &EstimateView) -> Section {
    let estimate = &view.estimate;
    let band = &estimate.error_band;
    let mut table = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left)]).indented(2).wrapped();
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
    table.row(["on the GPU".to_owned(), size(estimate.total_bytes), context]);
    let mut section = Section::new("Peak");
    section.table(table);
    section.line(format!("Peak phase: {}.", estimate.peak_phase));
    if view.held_outputs_bytes > 0 {
        section.line(format!("Keeping only the loss, not the outputs, saves {}.", size(view.held_outputs_bytes)));
    }
    if takes_tokens(view) {
        section.line(format!(
            "For one token: {} bytes kept for the backward pass; {} elements in the outputs of all modules.",
            count(estimate.saved_bytes_per_token),
            count(estimate.activations_per_token)
        ));
    }
    section
}

fn by_category(view: &EstimateView) -> Section {
    let estimate = &view.estimate;
    let categories = estimate.breakdown.by_category();
    let peak = u128::from(estimate.peak_requested_bytes.max(1));
    let (mut bar, mut sum, mut drawn) = (Text::from("|"), 0_u128, 0_u64);
    for ((category, bytes), letter) in categories.iter().zip(LETTERS) {
        sum += u128::from(*bytes);
        let end = u64::try_from((sum * u128::from(BAR) + peak / 2) / peak).unwrap_or(BAR).min(BAR);
        let cells = usize::try_from(end.saturating_sub(drawn)).unwrap_or(0);
        bar = bar.and(letter.to_string().repeat(cells), category_style(category.name()));
        drawn = end.max(drawn);
    }
    let mut table =
        Table::new([("", Align::Left), ("", Align::Left), ("", Align::Right), ("", Align::Right)]).indented(2);
    for ((category, bytes), letter) in categories.iter().zip(LETTERS).filter(|((_, bytes), _)| *bytes > 0) {
        let style = category_style(category.name());
        #[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
        let share = percent(*bytes as f64 / peak as f64);
        let name = category.name().replace('_', " ");
        table.row([Cell::new(letter.to_string(), style), name.into(), size(*bytes).into(), Cell::new(share, DIM)]);
    }
    let mut section = Section::new("At the peak, by category");
    section.picture([bar.and("|", PLAIN)]);
    section.table(table);
    section
}

fn phases(view: &EstimateView) -> Section {
    let mut table = Table::new([("", Align::Left), ("", Align::Right)]).indented(2);
    let most = view.estimate.phases.iter().map(|phase| phase.peak_requested_bytes).max();
    for phase in &view.estimate.phases {
        let style = if Some(phase.peak_requested_bytes) == most { STRONG } else { PLAIN };
        table.row([Cell::new(phase.phase, style), Cell::new(size(phase.peak_requested_bytes), style)]);
    }
    let mut section = Section::new("Phases");
    section.table(table);
    section
}

fn largest_terms(view: &EstimateView, limit: usize) -> Section {
    let all = &view.estimate.terms;
    let shown = if limit == 0 { all.len() } else { limit.min(all.len()) };
    let mut table = Table::new([
        ("size", Align::Right),
        ("category", Align::Left),
        ("part", Align::Left),
        ("allocation", Align::Left),
        ("formula", Align::Left),
    ])
    .indented(2)
    .optional(&[2]);
    for term in &all[..shown] {
        let category = Cell::new(term.category.name().replace('_', " "), category_style(term.category.name()));
        table.row([
            size(term.bytes).into(),
            category,
            term.part.into(),
            term.name.into(),
            term.formula.as_str().into(),
        ]);
    }
    let mut section = Section::new("The largest terms at the peak");
    section.table(table);
    if shown < all.len() {
        let rest: u64 = all[shown..].iter().fold(0, |sum, term| sum.saturating_add(term.bytes));
        section.line(format!("… and {} more with {}; `--top 0` shows all", all.len() - shown, size(rest)));
    }
    section
}

fn simple(view: &EstimateView) -> Option<Section> {
    let simple = view.simple.as_ref()?;
    let mut table = Table::new([("", Align::Right), ("", Align::Left)]).indented(2).wrapped();
    let derived = "derived: model + state + max(gradients + intermediates, activations)";
    let summary = "summary: model + state + max(gradients, intermediates, activations)";
    table.row([size(simple.derived_bytes), derived.to_owned()]);
    table.row([size(simple.summary_bytes), summary.to_owned()]);
    let mut section = Section::new("The simple formula (`--method simple`), for comparison");
    section.table(table);
    section.line(format!("with {} activations per token", count(simple.activations_per_token)));
    Some(section)
}

/// Whether it fits the card that was asked about, and which batch does.
fn fit_in_words(fit: &FitView) -> Text {
    let batch = fit.largest_batch.map_or_else(
        || "not even batch 1 fits".to_owned(),
        |batch| format!("the largest batch that fits is {}", count(batch)),
    );
    let (verdict, style) = match (fit.fits, fit.may_fit) {
        (true, _) => ("It fits", GOOD),
        (false, true) => ("It may fit", BAD),
        (false, false) => ("It does not fit", BAD),
    };
    Text::styled(format!("{verdict} a GPU with {} in all", size(fit.limit_bytes)), style)
        .and(format!("; {batch}."), PLAIN)
}

fn changes(fit: &FitView) -> Section {
    let mut section = Section::new(format!("To fit a GPU with {}", size(fit.limit_bytes)));
    let mut table =
        Table::new([("", Align::Left), ("on the GPU", Align::Right), ("change", Align::Left)]).indented(2).wrapped();
    for change in &fit.changes {
        let mark = if change.fits { Cell::new("fits", GOOD) } else { "no".into() };
        let cost = if change.cost == "nothing" { String::new() } else { format!("; {}", change.cost) };
        table.row([mark, size(change.total_bytes).into(), format!("{}{cost}", change.change).into()]);
    }
    section.table(table);
    section
}

fn sweep(sweep: &SweepView) -> Section {
    let most = sweep.rows.iter().map(|row| row.total_bytes).max().unwrap_or(1).max(1);
    let mut table = Table::new([
        (sweep.name, Align::Right),
        ("peak requested", Align::Right),
        ("on the GPU", Align::Right),
        ("peak in", Align::Left),
        ("", Align::Left),
    ])
    .indented(2)
    .optional(&[4]);
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
    let mut section = Section::new(format!("By {}", sweep.name));
    section.table(table);
    section
}

fn against(view: &EstimateView, against: &AgainstView) -> Section {
    let mut section = Section::new(format!(
        "Compared with {} (device {}), requested bytes at the peak of each",
        against.snapshot, against.device
    ));
    let mut table =
        Table::new([("", Align::Left), ("estimate", Align::Right), ("recording", Align::Right)]).indented(2);
    let estimate = &view.estimate;
    for row in against.categories.iter().filter(|row| row.estimated_bytes > 0 || row.recorded_bytes > 0) {
        let name = Cell::new(row.category.replace('_', " "), category_style(row.category));
        table.row([name, size(row.estimated_bytes).into(), size(row.recorded_bytes).into()]);
    }
    let requested = estimate.peak_requested_bytes.saturating_add(estimate.workspace_bytes);
    table.row(["peak requested, workspaces included".to_owned(), size(requested), size(against.peak_requested_bytes)]);
    table.row(["peak reserved".to_owned(), size(estimate.peak_reserved_bytes), size(against.peak_reserved_bytes)]);
    section.table(table);
    let recorded = against.peak_phase.map_or_else(String::new, |phase| format!("; the recording's in: {phase}"));
    section.line(format!("The estimate's peak is in: {}{recorded}.", estimate.peak_phase));
    section.picture(against.unseen.map(|unseen| format!("The recording: {unseen}.")));
    section
}
