//! The answer of `highwater estimate --serve` for people.

use highwater_documents::serve::{GpuView, NeedView, ServeAgainstView, ServeView};
use highwater_serve::Answer;

use super::text::gpu;
use crate::document::{Document, Section, Text};
use crate::style::{BAD, GOOD, PLAIN, STRONG};
use crate::table::{Align, Cell, Table};
use crate::units::{count, counted, size};

/// The answer.
pub(super) fn document(view: &ServeView) -> Document {
    let answer = &view.answer;
    let mut document = Document { title: title(answer), lead: vec![summary(answer)], sections: Vec::new() };
    document.sections.extend(concurrency(answer));
    document.sections.push(budget(answer));
    document.sections.extend(view.need.as_ref().map(need));
    document.sections.extend(view.fit.as_ref().map(|fit| gpus(fit)));
    document.sections.extend(view.against.as_ref().map(beside_log));
    document.sections.push(changes(answer));
    let mut assumed = Section::new("Assumed");
    answer.assumed.iter().for_each(|line| assumed.point(line.as_str(), None::<Text>));
    if !view.ignored_flags.is_empty() {
        let flags = view.ignored_flags.join(", ");
        assumed.point(format!("flags without a known effect on memory: {flags}"), None::<Text>);
    }
    document.sections.push(assumed);
    document
}

/// Bytes, which may be missing.
fn signed(bytes: i64) -> String {
    let sign = if bytes < 0 { "−" } else { "" };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}

/// A number of requests: two digits.
fn requests(number: f64) -> String {
    if number >= 100.0 { format!("{number:.0}") } else { format!("{number:.2}") }
}

fn title(answer: &Answer) -> Text {
    let place = match answer.cards {
        1 => gpu(&answer.card).to_owned(),
        cards => format!("{cards} × {}", gpu(&answer.card)),
    };
    let release = if answer.engine_version == "any" {
        answer.engine.title().to_owned()
    } else {
        format!("{} {}", answer.engine.title(), answer.engine_version)
    };
    let (verb, style) = if answer.starts { ("starts", GOOD) } else { ("does not start", BAD) };
    Text::styled(format!("{} ", answer.model), STRONG).and(verb, style).and(format!(" in {release} on {place}."), PLAIN)
}

fn summary(answer: &Answer) -> Text {
    if let Some(refusal) = &answer.refusal {
        return Text::styled(format!("{}.", first_upper(&refusal.sentence)), BAD);
    }
    if answer.token_bytes == 0 && answer.blocks.is_none() {
        let kept = signed(answer.kv_cache_bytes);
        return Text::styled(
            format!("The model keeps no cache from token to token; {kept} of the budget stay free."),
            PLAIN,
        );
    }
    let blocks = match (answer.blocks, answer.block_tokens) {
        (Some(blocks), Some(tokens)) if tokens > 1 => format!(" in {} blocks of {}", count(blocks), count(tokens)),
        _ => String::new(),
    };
    Text::styled(format!("Cache: {}", signed(answer.kv_cache_bytes)), STRONG).and(
        format!(
            ", {} tokens{blocks}: {} requests of {} tokens at once. The longest context is {} tokens.",
            count(answer.tokens),
            requests(answer.concurrency),
            count(answer.max_model_len),
            count(answer.longest_context_tokens)
        ),
        PLAIN,
    )
}

fn first_upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn concurrency(answer: &Answer) -> Option<Section> {
    if !answer.starts || answer.concurrency_at.is_empty() {
        return None;
    }
    let mut section = Section::new("Requests at once");
    let mut table = Table::new([("tokens", Align::Right), ("requests", Align::Right)]).indented(2);
    for row in &answer.concurrency_at {
        table.row([count(row.tokens), requests(row.requests)]);
    }
    section.table(table);
    Some(section)
}

fn budget(answer: &Answer) -> Section {
    let mut section = Section::new("Budget of a rank");
    let stages = answer.ranks.iter().map(|rank| rank.stage).max().map_or(0, |last| last + 1);
    for stage in 0..stages {
        let Some(rank) = answer.ranks.iter().find(|rank| rank.stage == stage) else { continue };
        if stages > 1 {
            section.line(format!("Stage {stage}"));
        }
        let mut table = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left)]).indented(2).wrapped();
        let total = format!("of the GPU's {}", size(rank.total_bytes));
        table.row([Cell::from("budget"), size(rank.budget_bytes).into(), total.into()]);
        table.row([Cell::from("weights"), size(rank.weights_bytes).into(), "as loaded".into()]);
        table.row(["activation peak".to_owned(), size(rank.activation_peak_bytes), rank.activation_by.clone()]);
        table.row(["outside PyTorch", &size(rank.non_torch_bytes), "context, kernels, NCCL"]);
        if rank.graph_bytes > 0 {
            table.row(["CUDA graphs", &size(rank.graph_bytes), ""]);
        }
        let (name, style) = if rank.kv_cache_bytes > 0 { ("cache", GOOD) } else { ("missing", BAD) };
        table.row([Cell::new(name, style), Cell::new(size(rank.kv_cache_bytes.unsigned_abs()), style), "".into()]);
        section.table(table);
    }
    section.line(format!("Confidence: {}.", answer.confidence.reason));
    section
}

fn changes(answer: &Answer) -> Section {
    let mut section = Section::new("What to change, largest saving first");
    let mut table =
        Table::new([("flag", Align::Left), ("frees", Align::Right), ("tokens", Align::Right), ("", Align::Left)])
            .indented(2)
            .wrapped();
    for change in &answer.changes {
        let flag = format!("{} {}", change.flag, change.value);
        let starts = if change.starts { "" } else { "; still does not start" };
        table.row([
            flag.trim().to_owned(),
            size(change.frees_bytes),
            count(change.tokens),
            format!("{}{starts}", change.costs),
        ]);
    }
    if !answer.changes.is_empty() {
        section.table(table);
    }
    section
}

fn need(need: &NeedView) -> Section {
    let mut section = Section::new(format!("For {} requests of {} tokens", count(need.requests), count(need.tokens)));
    let mut table = Table::new([
        ("GPUs", Align::Left),
        ("memory", Align::Right),
        ("requests", Align::Right),
        ("flags", Align::Left),
    ])
    .indented(2)
    .wrapped();
    for way in &need.ways {
        table.row([
            format!("{} × {}", way.cards, gpu(&way.card)),
            size(way.memory_bytes),
            requests(way.concurrency),
            way.flags.join(" "),
        ]);
    }
    if need.ways.is_empty() {
        section.line("Not even 16 of any known GPU can serve them.");
    } else {
        section.table(table);
    }
    section
}

fn gpus(fit: &[GpuView]) -> Section {
    let mut section = Section::new("By GPU");
    let mut table = Table::new([
        ("GPU", Align::Left),
        ("", Align::Left),
        ("cache", Align::Right),
        ("tokens", Align::Right),
        ("requests", Align::Right),
        ("longest context", Align::Right),
    ])
    .indented(2);
    for row in fit {
        let (verdict, style) = if row.starts { ("starts", GOOD) } else { ("no", BAD) };
        table.row([
            Cell::from(gpu(&row.card)),
            Cell::new(verdict, style),
            signed(row.kv_cache_bytes).into(),
            count(row.tokens).into(),
            requests(row.concurrency).into(),
            count(row.longest_context_tokens).into(),
        ]);
    }
    section.table(table);
    section.line(counted(fit.len(), "GPU was tried.", "GPUs were tried."));
    section
}

/// A log beside the forecast.
pub(crate) fn beside_log(against: &ServeAgainstView) -> Section {
    let mut section = Section::new(format!("Compared with {}", against.log));
    let mut table = Table::new([("", Align::Left), ("forecast", Align::Right), ("printed", Align::Right)]).indented(2);
    for term in &against.terms {
        let shown = |number: f64| {
            if term.is_bytes { signed(whole(number)) } else { count(u64::try_from(whole(number)).unwrap_or(0)) }
        };
        table.row([term.term.clone(), shown(term.forecast), shown(term.printed)]);
    }
    section.table(table);
    if let Some(term) = &against.differs_most {
        section.line(format!("The largest difference: {term}."));
    }
    section
}

#[expect(clippy::cast_possible_truncation, reason = "bytes of a GPU; a float's cast saturates")]
fn whole(number: f64) -> i64 {
    number as i64
}
