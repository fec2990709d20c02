//! The peak by the batch, in words.

use std::io::{self, Write};

use highwater_findings::batch::{BatchFit, Covers, NoFit, Ratio};
use highwater_findings::diff::DeviceDiff;

use super::Asked;
use super::text::letter;
use crate::table::{broken, terminal_width};
use crate::units::{count, counted, size};

/// Prose is broken at this width where there is no terminal, or a wider one.
const WIDTH: usize = 100;

/// Writes what the fit says; where there is none, why, if it was asked for.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(
    out: &mut impl Write,
    asked: &Asked,
    diff: &DeviceDiff<'_>,
    batch: &Result<BatchFit, NoFit>,
) -> io::Result<()> {
    let sentences = match batch {
        Ok(fit) => sentences(asked, diff, fit),
        Err(reason) if asked.rows.is_some() || asked.capacity_bytes.is_some() => {
            vec![format!("not told: {}", reason.text())]
        }
        Err(_) => return Ok(()),
    };
    writeln!(out, "\n  Peak by the batch")?;
    let width = terminal_width().unwrap_or(WIDTH).min(WIDTH).saturating_sub(4);
    sentences.iter().flat_map(|sentence| broken(sentence, width)).try_for_each(|line| writeln!(out, "    {line}"))
}

fn sentences(asked: &Asked, diff: &DeviceDiff<'_>, fit: &BatchFit) -> Vec<String> {
    let per = if fit.is_by_rows { "row" } else { "batch of A" };
    let slope = whole(fit.bytes_per_batch);
    let squared = match whole(fit.bytes_per_batch_squared) {
        0 => String::new(),
        bytes => format!(" + {} per {per} squared", size(bytes)),
    };
    let line = format!("{} fixed + {} per {per}{squared} ({})", size(fit.fixed_bytes), size(slope), compared(fit));
    let counts = fit.points.iter().any(|point| point.fitted_bytes == fit.floor_bytes);
    let floor =
        if counts { format!(", and at least {}, whatever the batch", size(fit.floor_bytes)) } else { String::new() };
    let what = match fit.covers {
        Covers::Iteration(number) => format!("iteration {} of each", count(number)),
        Covers::Recording => "all of each recording".to_owned(),
    };
    let fitted = match fit.points.len() {
        2 => format!("a line through two points, {what}: a recording of a third batch would tell whether it is one"),
        3 if fit.is_curve() => format!(
            "a curve through three points, {what}, which lie on no line (attention grows with the square of the length): a \
             recording of a fourth batch would tell whether it is one"
        ),
        _ if fit.is_curve() => format!(
            "a curve fitted to {what}, for the points lie on no line; it is off by at most {} there, and may not go on \
             beyond them",
            size(fit.largest_residual_bytes())
        ),
        _ => format!(
            "a line fitted to {what}, which is off by at most {} there; it may not go on beyond them",
            size(fit.largest_residual_bytes())
        ),
    };
    let mut sentences = vec![format!("{line}{floor}"), fitted];
    if let Some((i, ratio)) = fit.contradiction {
        sentences.push(format!(
            "by its inputs {}'s batch is {} A's, which `--rows` does not say",
            letter(i),
            times(ratio)
        ));
    }
    if let Some(capacity) = asked.capacity_bytes {
        sentences.push(largest(fit, diff, capacity));
    }
    sentences
}

/// How the recordings' batches relate.
fn compared(fit: &BatchFit) -> String {
    let others = fit.points.iter().enumerate().skip(usize::from(!fit.is_by_rows));
    let others: Vec<String> = others
        .map(|(i, point)| {
            if fit.is_by_rows {
                format!("{} has {}", letter(i), counted(point.batch.times, "row", "rows"))
            } else {
                format!("{}'s batch is {} A's", letter(i), times(point.batch))
            }
        })
        .collect();
    others.join(", ")
}

fn times(ratio: Ratio) -> String {
    match (ratio.times, ratio.per) {
        (1, 1) => "as large as".to_owned(),
        (times, 1) => format!("{} times", count(times)),
        (times, per) => format!("{}/{} of", count(times), count(per)),
    }
}

/// What a capacity holds.
fn largest(fit: &BatchFit, diff: &DeviceDiff<'_>, capacity: u64) -> String {
    let beyond = |peak: &highwater_analysis::timeline::Totals| peak.reserved_bytes.saturating_sub(peak.allocated_bytes);
    let beyond = diff.sides.iter().map(|side| beyond(&side.peak)).max().unwrap_or(0);
    let also = format!(
        "beside it a card has to hold what the allocator reserves beyond what is allocated (up to {} here) and the CUDA context",
        size(beyond)
    );
    match fit.largest_batch(capacity) {
        None => format!("{} holds no batch: the peak is {} at least", size(capacity), size(fit.peak_bytes(0.0))),
        Some(batch) if fit.is_by_rows => {
            format!("{} holds {} at most; {also}", size(capacity), counted(whole(batch), "row", "rows"))
        }
        // Cut, not rounded: what is said fits.
        Some(batch) => {
            format!("{} holds {} times A's batch at most; {also}", size(capacity), (batch * 100.0).floor() / 100.0)
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clips: a slope or a batch is above 0")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
