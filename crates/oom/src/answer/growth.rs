//! Memory that grows while a program runs: alone, and beside a failure.

use highwater_units::size;

use super::because;
use crate::diagnosis::{Cause, Diagnosis};
use crate::log::{Event, Figure, Found, Growth, Purpose};
use crate::steps::{FRAGMENTATION, Step};

/// So many readings before a failure show that it came of growth.
const LEAST_READINGS: u64 = 6;

/// Or so many, where the last is several times the first.
const FEW_READINGS: u64 = 5;

/// A log without a failure, whose figures grow.
pub(super) fn explain(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    if event.id != "growth" {
        return None;
    }
    let grown = found.growths.iter().find(|growth| growth.is_of_memory())?;
    let text = format!(
        "the log has no error, but memory grows in it: {}; if the growth goes on, the program runs out of memory, but a pool that warms up grows at first, too",
        sentence(grown)
    );
    let mut steps = vec![keep_less(grown)];
    if !grown.is_of_host() {
        steps.push(
            Step::new(
                "record",
                "record a few iterations: the snapshot shows which lines keep memory from one iteration to the next",
                "figures show that memory grows, and not whose",
            )
            .with("highwater run train.py; then `highwater report` with the file that it writes"),
        );
    }
    Some((because(Cause::Warning, text), steps))
}

/// The figure that grew before a failure: of this memory, or a count.
fn before_failure(found: &Found, is_host: bool) -> Option<&Growth> {
    found.growths.iter().find(|growth| {
        let fits = match growth.of {
            Figure::Gpu => !is_host,
            Figure::Host => is_host,
            Figure::Memory => true,
            Figure::WithoutUnit => is_host == growth.is_of_host(),
            Figure::Count => return !is_host && growth.is_large(),
        };
        // Memory that is left falls while a server starts, too.
        let is_steep = !growth.is_rest && growth.readings >= FEW_READINGS && growth.last / 3 >= growth.first;
        let is_before = found.groups.first().is_none_or(|group| growth.lines.0 < group.line);
        // Which no start-up does: by the same amount each time.
        let is_even = growth.is_even && growth.last / 2 >= growth.first;
        is_before && fits && growth.is_large() && (growth.readings >= LEAST_READINGS || is_steep || is_even)
    })
}

/// Says what grew before a failure, and puts its cure first; `is_host` where the host's memory failed.
pub(super) fn beside(
    diagnosis: &mut Diagnosis,
    steps: &mut Vec<Step>,
    purpose: Option<Purpose>,
    found: &Found,
    is_host: bool,
) {
    let Some(grown) = before_failure(found, is_host) else { return };
    // A model that is still being loaded, too, fills the GPU step by step.
    if matches!(purpose, Some(Purpose::Load | Purpose::Gather)) {
        return;
    }
    diagnosis.notes.push(format!("the log shows growth before the failure: {}", sentence(grown)));
    if diagnosis.cause != Cause::Fragmentation {
        // What is kept fills gaps, too.
        steps.retain(|step| !FRAGMENTATION.contains(&step.id));
    }
    let is_own = steps.first().is_some_and(|step| step.id == "bound-growth");
    if !is_own {
        steps.insert(0, keep_less(grown));
    }
}

/// What grew, from where to where.
fn sentence(growth: &Growth) -> String {
    let label = match growth.label.as_str() {
        "" => "a number without a label".to_owned(),
        label => format!("`{label}`"),
    };
    let verb = if growth.is_rest { "falls" } else { "rises" };
    let (first, last) = growth.lines;
    let each = match growth.of {
        Figure::Count => growth.each().to_string(),
        Figure::WithoutUnit => match (growth.each() / 1000, growth.each() % 1000) {
            (whole, 0) => whole.to_string(),
            (whole, part) => format!("{whole}.{part:03}"),
        },
        _ => size(growth.each()),
    };
    format!(
        "{label} {verb} from {} (line {first}) to {} (line {last}) over {} readings, on average by {} per reading",
        growth.printed.0, growth.printed.1, growth.readings, each
    )
}

/// To keep less from one step to the next.
fn keep_less(growth: &Growth) -> Step {
    match growth.of {
        Figure::Count => Step::new(
            "bound-growth",
            "bound the elements that the program adds while it runs: their number, or the memory of each",
            "memory grows with it, so a smaller batch only delays the failure",
        ),
        _ if growth.is_of_host() => Step::new(
            "bound-growth",
            "find the objects that the host keeps from step to step: lists of results, caches, workers that touch shared objects",
            "keep results on disk, bound caches, and hold data sets in arrays rather than in lists of Python objects",
        )
        .with("DataLoader(persistent_workers=False), np.array instead of list, del and gc.collect()"),
        _ => Step::new(
            "bound-growth",
            "find the tensors that the program keeps from step to step, and keep fewer: losses and outputs with their graph, lists, caches, replay buffers",
            "memory grows with each step, so a smaller batch only delays the failure",
        )
        .with("total += loss.item(); outputs.append(out.detach().cpu())"),
    }
}
