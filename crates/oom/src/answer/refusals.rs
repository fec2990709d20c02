//! Refusals of the driver that PyTorch warned of: beside a message that lacks its numbers, and alone.

use highwater_units::size;

use super::because;
use super::engines::end_others;
use super::flags::after_start;
use crate::diagnosis::{Cause, Diagnosis};
use crate::less::less;
use crate::log::{Event, Found, Refusal, has_gone_on};
use crate::situation::{Situation, last_digit_bytes};
use crate::steps::{Step, sort};

/// Those of the request of a message.
fn of_request(situation: &Situation, found: &Found) -> Vec<Refusal> {
    let Some(tried) = situation.tried_bytes else { return Vec::new() };
    found.refusals_of(situation.device, tried, last_digit_bytes(tried))
}

/// Fills in the numbers of the device that a message lacks, for it is cut.
pub(super) fn complete(situation: &mut Situation, found: &Found) {
    let refusals = of_request(situation, found);
    let Some(last) = refusals.last() else { return };
    situation.capacity_bytes = situation.capacity_bytes.or(Some(last.total_bytes));
    situation.free_bytes = situation.free_bytes.or(Some(last.free_bytes));
}

/// What they add to a message.
pub(super) fn note(situation: &Situation, found: &Found) -> Option<String> {
    let refusals = of_request(situation, found);
    let (first, last) = (refusals.first()?, refusals.last()?);
    let free = if first.free_bytes == last.free_bytes {
        format!("{} was free", size(last.free_bytes))
    } else {
        format!("{} was free at the first try and {} at the last", size(first.free_bytes), size(last.free_bytes))
    };
    let lines = match refusals.len() {
        1 => "a line of warning is of the same failure: the driver refused the request".to_owned(),
        several => format!(
            "{several} lines of warning are of the same failure: PyTorch asked the driver, released its cache and asked again"
        ),
    };
    Some(format!("{lines}; {free} of {}", size(last.total_bytes)))
}

/// The numbers of the last refusal, for an error that has lost its own.
pub(super) fn last_of(found: &Found) -> Option<String> {
    let last = found.refusals.last()?;
    Some(format!(
        "the warning before it has them: the program requested {}, and {} of {} was free",
        size(last.tried_bytes),
        size(last.free_bytes),
        size(last.total_bytes)
    ))
}

/// A refusal without a failure after it.
pub(super) fn explain(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    if event.id != "driver-refusal" {
        return None;
    }
    let bytes = |name| event.bytes(name).map_or_else(String::new, size);
    let request = format!(
        "the driver refused a request of {} with {} of {} free; PyTorch warns of each refusal, releases its cache and asks again",
        bytes("size"),
        bytes("free"),
        bytes("total")
    );
    let shrink = less(None, found.surroundings.is_training(), "the GPU is nearly full at that point".to_owned());
    let missing = event.requested().zip(event.bytes("free")).map(|(tried, free)| tried.saturating_sub(free));
    let mut of_engine =
        found.engine.as_ref().map(|log| after_start(log, missing, event.bytes("total"))).unwrap_or_default();
    sort(&mut of_engine);
    let (cause, text) = if has_gone_on(event) {
        (Cause::Warning, format!("{request}: the log goes on after it, so that the request was served then"))
    } else {
        (
            Cause::Unknown,
            format!("{request}: the text ends before it shows whether that helped; an error after it has more numbers"),
        )
    };
    // A server has no batch of its own to make smaller.
    let steps = if of_engine.is_empty() { vec![shrink, end_others(None, found)] } else { of_engine };
    Some((because(cause, text), steps))
}
