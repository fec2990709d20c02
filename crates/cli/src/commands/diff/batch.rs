//! The peak by the batch, in words.

use highwater_documents::diff::{BatchView, CapacityView, DeviceDiffView};
use highwater_findings::verdict::capitalised;

use super::text::letter;
use crate::document::Section;
use crate::table::{Align, Table};
use crate::units::{count, counted, size};

/// What the fit says; where there is none, why, if it was asked for.
pub(super) fn section(diff: &DeviceDiffView<'_>, is_asked: bool) -> Option<Section> {
    let sentences = match (&diff.batch, diff.batch_unclear) {
        (Some(fit), _) => sentences(diff, fit),
        (None, Some(reason)) if is_asked => vec![format!("unknown: {reason}")],
        (None, _) => return None,
    };
    let mut section = Section::new("Peak by the batch");
    if let Some(fit) = &diff.batch {
        section.table(peaks(fit));
    }
    for sentence in &sentences {
        section.line(format!("{}.", capitalised(sentence)));
    }
    Some(section)
}

/// A few batches with their peaks: the reader need not multiply.
fn peaks(fit: &BatchView) -> Table {
    let mut table = Table::new([("batch", Align::Left), ("peak", Align::Right), ("recorded", Align::Left)]).indented(2);
    for peak in &fit.peaks {
        let recorded = fit.points.iter().enumerate().filter(|(_, point)| point.batch_ratio == peak.batch_ratio);
        let recorded: Vec<String> = recorded.map(|(i, _)| letter(i)).collect();
        let batch = match peak.batch_ratio {
            [rows, _] if fit.is_by_rows() => counted(rows, "row", "rows"),
            [1, 1] => "A's".to_owned(),
            [times, 1] => format!("{} × A's", count(times)),
            [times, per] => format!("{}/{} of A's", count(times), count(per)),
        };
        table.row([batch, size(peak.peak_bytes), recorded.join(", ")]);
    }
    table
}

fn sentences(diff: &DeviceDiffView<'_>, fit: &BatchView) -> Vec<String> {
    let per = if fit.is_by_rows() { "row" } else { "batch of A" };
    let slope = whole(fit.bytes_per_unit);
    let squared = match whole(fit.bytes_per_unit_squared) {
        0 => String::new(),
        bytes => format!(" + {} per {per} squared", size(bytes)),
    };
    let line = format!("{} fixed + {} per {per}{squared}", size(fit.fixed_bytes), size(slope));
    let counts = fit.points.iter().any(|point| point.fitted_bytes == fit.floor_bytes);
    let floor = if counts { format!(", and at least {} for any batch", size(fit.floor_bytes)) } else { String::new() };
    let what = match fit.iteration {
        Some(number) => format!("iteration {} of each", count(number)),
        None => "all of each recording".to_owned(),
    };
    let fitted = match fit.points.len() {
        2 => format!(
            "a line through two points, {what}: a recording of a third batch would show whether it is \
         really a line"
        ),
        3 if fit.is_curve() => format!(
            "a curve through three points, {what}, which are not on a line (attention grows with the square of the \
             length): a recording of a fourth batch would show whether it is really such a curve"
        ),
        _ if fit.is_curve() => format!(
            "a curve fitted to {what}, because the points are not on a line; its error is at most {} there, and it \
             may not continue beyond them",
            size(fit.largest_residual_bytes)
        ),
        _ => format!(
            "a line fitted to {what}, with an error of at most {} there; it may not continue beyond them",
            size(fit.largest_residual_bytes)
        ),
    };
    let mut sentences = vec![format!("{line}{floor}"), fitted];
    if let Some(contradiction) = fit.contradiction {
        sentences.push(format!(
            "judging by its inputs, {}'s batch is {} A's, which contradicts `--rows`",
            letter(contradiction.file),
            times(contradiction.batch_ratio)
        ));
    }
    if let Some(capacity) = &fit.capacity {
        sentences.push(largest(fit, diff, capacity));
    }
    sentences
}

fn times([times, per]: [u64; 2]) -> String {
    match (times, per) {
        (1, 1) => "as large as".to_owned(),
        (times, 1) => format!("{} times", count(times)),
        (times, per) => format!("{}/{} of", count(times), count(per)),
    }
}

/// What a capacity holds.
fn largest(fit: &BatchView, diff: &DeviceDiffView<'_>, capacity: &CapacityView) -> String {
    let beyond = diff.sides.iter().map(|side| side.peak_reserved_bytes.saturating_sub(side.peak_allocated_bytes));
    let beyond = beyond.max().unwrap_or(0);
    let also = format!(
        "a GPU also needs memory for the allocator's overhead (up to {} here) and the CUDA context",
        size(beyond)
    );
    let bytes = size(capacity.bytes);
    match capacity.largest_batch {
        None => {
            format!("no batch fits in {bytes}: the peak is at least {}", size(fit.floor_bytes.max(fit.fixed_bytes)))
        }
        Some(batch) if fit.is_by_rows() => {
            format!("at most {} fit in {bytes}; {also}", counted(whole(batch), "row", "rows"))
        }
        // Cut, not rounded: what is said fits.
        Some(batch) => {
            format!(
                "at most {} times A's batch fits in {bytes} (`--rows` gives it in rows); {also}",
                (batch * 100.0).floor() / 100.0
            )
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clips: a slope or a batch is above 0")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
