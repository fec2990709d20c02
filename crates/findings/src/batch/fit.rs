//! The peak as a function of the batch, fitted to recordings of one program at several batch sizes.
//!
//! The peak is no line: it is the highest of several moments, each of which has its own. At a small batch it may be the
//! optimizer's, which the batch does not touch, and at a larger one that of the activations. So the line is fitted to one moment
//! of the program, that of the largest recording's peak, and what never grows stands beside it as a floor:
//!
//! ```text
//! peak(batch) = max(floor, fixed + slope × batch)
//! ```
//!
//! Where three or more points lie on no line but bend upwards, as attention's do with the length of sequences, a term with
//! the square of the batch is added.

use std::ops::Range;

use highwater_analysis::Analysis;
use highwater_analysis::device::DeviceAnalysis;
use highwater_snapshot::Snapshot;

use super::ratio::{Ratio, Sizes, has_squares, ratio, ratio_of_inputs};
use super::{Level, levels};

/// The peak by the batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchFit {
    /// What of each recording it was fitted to.
    pub covers: Covers,
    /// Each recording.
    pub points: Vec<Point>,
    /// What does not grow with the batch, at the moment that the batch decides.
    pub fixed_bytes: u64,
    /// What a batch of size 1 adds: of the first recording's batch, or a row if rows are told.
    pub bytes_per_batch: f64,
    /// What its square adds; 0 where the points lie on a line.
    pub bytes_per_batch_squared: f64,
    /// The least peak, however small the batch.
    pub floor_bytes: u64,
    /// The unit of the batch is a row.
    pub is_by_rows: bool,
    /// Inputs say another ratio than the rows that were told, first recording to this one: of the first such recording.
    pub contradiction: Option<(usize, Ratio)>,
}

/// What of a recording a fit goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covers {
    /// This iteration of each: the last that all have whole.
    Iteration(usize),
    /// All of it: one of them has no iterations.
    Recording,
}

/// A recording in a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its batch, in the fit's unit.
    pub batch: Ratio,
    /// Its peak.
    pub peak_bytes: u64,
    /// What the fit says of its peak.
    pub fitted_bytes: u64,
}

impl Point {
    /// How far off the fit is.
    pub fn residual_bytes(&self) -> u64 {
        self.peak_bytes.abs_diff(self.fitted_bytes)
    }
}

/// Why there is no fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFit {
    /// The recordings are of one process.
    OneProcess,
    /// Sizes of blocks are exact in some, estimates in others.
    Sizes,
    /// No category tells what could grow.
    Categories,
    /// The inputs and activations of recordings have no clear ratio.
    Ratio,
    /// All have the same batch.
    SameBatch,
    /// Two recordings, and sequences are longer in one: attention grows with their square.
    Squares,
    /// The peak does not grow with it, or neither as a line could nor as a curve that bends upwards.
    NotLinear,
}

impl NoFit {
    /// The reason, as a fragment.
    pub const fn text(self) -> &'static str {
        match self {
            Self::OneProcess => "the recordings are two dumps of one process",
            Self::Sizes => "the sizes of blocks are exact in one recording and estimates in another",
            Self::Categories => "no inputs, activations or intermediates could be identified",
            Self::Ratio => "the inputs and activations of the recordings do not differ by a clear ratio",
            Self::SameBatch => "the recordings have the same batch size",
            Self::Squares => {
                "the sequences are longer in one recording: attention grows with the square of their length, so \
                 fitting a curve takes a third recording"
            }
            Self::NotLinear => "the peaks fit neither a line that rises with the batch nor a curve that bends upwards",
        }
    }
}

impl BatchFit {
    /// The peak of a batch, as the fit has it.
    pub fn peak_bytes(&self, batch: f64) -> u64 {
        let grown = batch * (self.bytes_per_batch + self.bytes_per_batch_squared * batch);
        self.floor_bytes.max(whole(to_float(self.fixed_bytes) + grown))
    }

    /// Whether the points bend.
    pub fn is_curve(&self) -> bool {
        self.bytes_per_batch_squared > 0.0
    }

    /// The largest batch whose peak is within so many bytes; `None` if none is. Whole rows, if rows are told.
    pub fn largest_batch(&self, capacity_bytes: u64) -> Option<f64> {
        if capacity_bytes < self.floor_bytes.max(self.fixed_bytes) {
            return None;
        }
        let rest = to_float(capacity_bytes - self.fixed_bytes);
        let (linear, square) = (self.bytes_per_batch, self.bytes_per_batch_squared);
        // In this form it is the line's where nothing is squared.
        let batch = 2.0 * rest / (linear + (linear * linear + 4.0 * square * rest).sqrt());
        // What is a whole number of rows shall stay one.
        let batch = if self.is_by_rows { (batch + 1e-9).floor() } else { batch };
        (batch > 0.0).then_some(batch)
    }

    /// The largest of the residuals.
    pub fn largest_residual_bytes(&self) -> u64 {
        self.points.iter().map(Point::residual_bytes).max().unwrap_or(0)
    }
}

/// Fits the peak of a device of each recording, by their numbers, to several batch sizes. `rows` are those of each recording's batch, if known; else
/// inputs or activations made at the same lines tell how many times the first recording's batch each has.
///
/// # Errors
/// The reason why there is none.
pub fn fit(analyses: &[&Analysis<'_>], devices: &[u32], rows: Option<&[u64]>) -> Result<BatchFit, NoFit> {
    let sides: Vec<(&Analysis<'_>, &DeviceAnalysis<'_>)> = analyses
        .iter()
        .copied()
        .zip(devices)
        .filter_map(|(analysis, &device)| Some((analysis, analysis.device(device)?)))
        .collect();
    let Some((_, first)) = sides.first() else { return Err(NoFit::Categories) };
    if sides.iter().any(|(_, side)| side.by != first.by) {
        return Err(NoFit::Sizes);
    }
    let covers = covers(sides.iter().map(|(_, side)| *side));
    let made: Vec<Sizes<'_>> =
        sides.iter().map(|(analysis, side)| Sizes::new(analysis, side, &entries(side, covers))).collect();
    let by = if rows.is_some() { ratio_of_inputs } else { ratio };
    let told: Vec<Option<Ratio>> = made.iter().map(|side| by(&made[0], side)).collect();
    let (batches, contradiction) = match rows {
        Some(rows) => by_rows(rows, &told)?,
        None => (told.into_iter().map(|ratio| ratio.ok_or(NoFit::Ratio)).collect::<Result<Vec<_>, _>>()?, None),
    };
    if batches.len() != sides.len() {
        return Err(NoFit::Ratio);
    }
    if let [first, second] = &made[..]
        && let Some(ratio) =
            Ratio::new(batches[1].times.saturating_mul(batches[0].per), batches[1].per.saturating_mul(batches[0].times))
        && has_squares(first, second, ratio)
    {
        return Err(NoFit::Squares);
    }
    let courses: Vec<Vec<Level>> =
        sides.iter().map(|(analysis, side)| course(side, analysis.snapshot, covers)).collect();
    let line = line(&batches, &courses)?;
    Ok(BatchFit { covers, is_by_rows: rows.is_some(), contradiction, ..line })
}

/// The batches that were told, and the first recording whose inputs say otherwise.
type Told = (Vec<Ratio>, Option<(usize, Ratio)>);

fn by_rows(rows: &[u64], told: &[Option<Ratio>]) -> Result<Told, NoFit> {
    let batches: Vec<Ratio> = rows.iter().filter_map(|&rows| Ratio::new(rows, 1)).collect();
    let first = *rows.first().ok_or(NoFit::Ratio)?;
    let differs = told.iter().zip(rows).enumerate().find_map(|(i, (&told, &rows))| {
        let told = told.filter(|&told| Some(told) != Ratio::new(rows, first))?;
        Some((i, told))
    });
    Ok((batches, differs))
}

/// The last iteration that every recording has whole, for the first has no optimizer state before its step.
fn covers<'a, 's: 'a>(devices: impl Iterator<Item = &'a DeviceAnalysis<'s>>) -> Covers {
    let last = devices.map(|device| device.iterations.rows.iter().rposition(|iteration| iteration.is_complete));
    // `None` is the least.
    last.min().flatten().map_or(Covers::Recording, Covers::Iteration)
}

fn entries(device: &DeviceAnalysis<'_>, covers: Covers) -> Range<usize> {
    match covers {
        Covers::Iteration(number) => {
            device.iterations.rows.get(number).map_or(0..device.entries.len(), |iteration| iteration.entries.clone())
        }
        Covers::Recording => 0..device.entries.len(),
    }
}

/// The levels after each of the entries that count.
fn course(device: &DeviceAnalysis<'_>, snapshot: &Snapshot, covers: Covers) -> Vec<Level> {
    let range = entries(device, covers);
    let levels = levels(device, snapshot);
    levels.into_iter().skip(1 + range.start).take(range.len()).collect()
}

/// Fits the line; `covers` and the like are the caller's.
fn line(batches: &[Ratio], courses: &[Vec<Level>]) -> Result<BatchFit, NoFit> {
    let sides = || batches.iter().zip(courses);
    let (largest, course) = sides().max_by(|a, b| a.0.value().total_cmp(&b.0.value())).ok_or(NoFit::Ratio)?;
    let (smallest, least) = sides().min_by(|a, b| a.0.value().total_cmp(&b.0.value())).ok_or(NoFit::Ratio)?;
    if largest == smallest {
        return Err(NoFit::SameBatch);
    }
    let most_batch = course.iter().map(|level| level.batch_bytes).max().unwrap_or(0);
    if most_batch == 0 {
        return Err(NoFit::Categories);
    }
    let peak = course.iter().max_by_key(|level| level.bytes()).copied().unwrap_or_default();
    // Where even the largest batch does not decide the peak, the line is that of the moment at which it counts most.
    let is_decided_by_batch = peak.batch_bytes >= most_batch / 2;
    let moment = |batch: Ratio, course: &[Level]| {
        // Batches are small, or rows: so the products stay far below 2^128, and clip beyond.
        let times = largest.times.saturating_mul(batch.per);
        let per = largest.per.saturating_mul(batch.times);
        let key = |level: &&Level| if is_decided_by_batch { level.with_batch(times, per) } else { level.batch_bytes };
        course.iter().max_by_key(key).map_or(0, |level| level.bytes())
    };
    let measured: Vec<(f64, f64)> =
        sides().map(|(&batch, course)| (batch.value(), to_float(moment(batch, course)))).collect();
    let (fixed, slope, square) = polynomial(&measured)?;
    let floor_bytes = least.iter().map(|level| level.fixed_bytes).max().unwrap_or(0);
    let mut fit = BatchFit {
        covers: Covers::Recording,
        points: Vec::new(),
        fixed_bytes: whole(fixed),
        bytes_per_batch: slope,
        bytes_per_batch_squared: square,
        floor_bytes,
        is_by_rows: false,
        contradiction: None,
    };
    let point = |(&batch, course): (&Ratio, &Vec<Level>)| Point {
        batch,
        peak_bytes: course.iter().map(|level| level.bytes()).max().unwrap_or(0),
        fitted_bytes: fit.peak_bytes(batch.value()),
    };
    fit.points = sides().map(point).collect();
    Ok(fit)
}

/// Points that are this far off a line, of 1 of what they rise, lie on none.
const OFF_THE_LINE: f64 = 0.01;

/// Constant, slope and square: of a line, or of a curve where three or more points bend upwards.
fn polynomial(points: &[(f64, f64)]) -> Result<(f64, f64, f64), NoFit> {
    let (fixed, slope) = least_squares(points).ok_or(NoFit::SameBatch)?;
    let rises = |f: fn(f64, f64) -> f64| points.iter().map(|point| point.1).reduce(f).unwrap_or(0.0);
    let most_off = (rises(f64::max) - rises(f64::min)) * OFF_THE_LINE;
    let fits = |(fixed, slope, square): (f64, f64, f64)| {
        points.iter().all(|&(x, y)| (fixed + x * (slope + x * square) - y).abs() <= most_off)
    };
    if points.len() == 2 || fits((fixed, slope, 0.0)) {
        return if slope < 1.0 || fixed < 0.0 { Err(NoFit::NotLinear) } else { Ok((fixed, slope, 0.0)) };
    }
    let curve = least_squares_of_curve(points).filter(|&curve| fits(curve));
    curve.filter(|&(fixed, slope, square)| fixed >= 0.0 && slope >= 0.0 && square > 0.0).ok_or(NoFit::NotLinear)
}

/// Constant, slope and square of the parabola that has the least sum of squares; through all points if there are three.
/// `None` if fewer than three batches differ.
fn least_squares_of_curve(points: &[(f64, f64)]) -> Option<(f64, f64, f64)> {
    // Batches are scaled to 1, so that the sums stay of one size.
    let scale = points.iter().map(|point| point.0).fold(0.0, f64::max);
    let mut rows = [[0.0_f64; 4]; 3];
    for &(x, y) in points {
        let powers = [1.0, x / scale, (x / scale) * (x / scale)];
        for (row, left) in rows.iter_mut().zip(powers) {
            row.iter_mut().zip([powers[0], powers[1], powers[2], y]).for_each(|(sum, right)| *sum += left * right);
        }
    }
    for pivot in 0..3 {
        let best = (pivot..3).max_by(|&a, &b| rows[a][pivot].abs().total_cmp(&rows[b][pivot].abs()))?;
        rows.swap(pivot, best);
        let divisor = rows[pivot][pivot];
        // Of sums that are 1 in size, this is what rounding leaves.
        if divisor.is_nan() || divisor.abs() < 1e-9 {
            return None;
        }
        rows[pivot].iter_mut().for_each(|value| *value /= divisor);
        let of_pivot = rows[pivot];
        for (_, row) in rows.iter_mut().enumerate().filter(|&(i, _)| i != pivot) {
            let times = row[pivot];
            row.iter_mut().zip(of_pivot).for_each(|(value, of_pivot)| *value -= times * of_pivot);
        }
    }
    Some((rows[0][3], rows[1][3] / scale, rows[2][3] / (scale * scale)))
}

/// Intercept and slope of the line that has the least sum of squares; through both points if there are two.
fn least_squares(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    #[expect(clippy::cast_precision_loss, reason = "a number of files")]
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
    (spread > 0.0).then_some((y - slope * x, slope))
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a fit, which is exact to far less than 53 bits")]
fn to_float(bytes: u64) -> f64 {
    bytes as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clips: what is negative is 0")]
fn whole(bytes: f64) -> u64 {
    bytes.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn level(fixed: u64, batch: u64) -> Level {
        Level { fixed_bytes: fixed * MIB, batch_bytes: batch * MIB }
    }

    /// An iteration: a forward pass, and a step of the optimizer.
    fn iteration(batch: u64) -> Vec<Level> {
        vec![level(100, batch), level(100, 30 * batch), level(150, 20 * batch), level(400, 0)]
    }

    fn rows(of: &[u64]) -> Vec<Ratio> {
        of.iter().map(|&rows| Ratio::new(rows, 1).unwrap()).collect()
    }

    fn fitted(of: &[u64]) -> BatchFit {
        let courses: Vec<_> = of.iter().map(|&batch| iteration(batch)).collect();
        line(&rows(of), &courses).unwrap()
    }

    #[test]
    fn the_line_is_that_of_the_moment_which_the_batch_decides() {
        // At 2 rows the optimizer has the peak, at 16 the activations: a line through the peaks would say 6 MiB a row.
        let fit = fitted(&[2, 16]);
        assert_eq!((fit.fixed_bytes, fit.floor_bytes), (100 * MIB, 400 * MIB));
        assert!((fit.bytes_per_batch - 30.0 * 1_048_576.0).abs() < 1.0, "{fit:?}");
        assert_eq!(fit.peak_bytes(2.0), 400 * MIB);
        assert_eq!(fit.peak_bytes(32.0), 1060 * MIB);
        assert_eq!(fit.largest_residual_bytes(), 0);
    }

    #[test]
    fn a_peak_that_no_batch_decides_still_has_its_line() {
        let fit = fitted(&[1, 2]);
        assert_eq!((fit.fixed_bytes, fit.peak_bytes(10.0), fit.peak_bytes(20.0)), (100 * MIB, 400 * MIB, 700 * MIB));
    }

    #[test]
    fn the_largest_batch_is_within_the_capacity() {
        let mut fit = fitted(&[2, 16]);
        assert_eq!(fit.largest_batch(399 * MIB), None);
        assert_eq!(fit.largest_batch(400 * MIB), Some(10.0));
        assert_eq!(fit.largest_batch(1075 * MIB), Some(32.5));
        fit.is_by_rows = true;
        assert_eq!(fit.largest_batch(1075 * MIB), Some(32.0));
        for rows in 11..40_u32 {
            let peak = fit.peak_bytes(f64::from(rows));
            assert_eq!(fit.largest_batch(peak), Some(f64::from(rows)));
        }
    }

    #[test]
    fn several_recordings_make_a_line_and_say_how_far_they_lie_off() {
        let mut courses: Vec<_> = [16, 32, 64].map(iteration).into();
        courses[1][1].batch_bytes += 9 * MIB;
        let fit = line(&rows(&[16, 32, 64]), &courses).unwrap();
        assert!(fit.largest_residual_bytes() > 4 * MIB, "{fit:?}");
        assert!(fit.largest_residual_bytes() < 9 * MIB, "{fit:?}");
    }

    #[test]
    fn points_that_bend_upwards_lie_on_a_curve() {
        let attention = |batch: u64| vec![level(100, 3 * batch + batch * batch / 4), level(40, 0)];
        for batches in [&[4, 8, 16][..], &[4, 8, 16, 32, 64]] {
            let courses: Vec<_> = batches.iter().map(|&batch| attention(batch)).collect();
            let mut fit = line(&rows(batches), &courses).unwrap();
            assert!(fit.is_curve() && fit.largest_residual_bytes() <= 1, "{fit:?}");
            assert_eq!(fit.peak_bytes(128.0).next_multiple_of(MIB / 4), (100 + 384 + 4096) * MIB);
            let largest = fit.largest_batch((100 + 384 + 4096) * MIB).unwrap();
            assert!((largest - 128.0).abs() < 1e-3, "{largest}");
            fit.is_by_rows = true;
            assert_eq!(fit.largest_batch((100 + 384 + 4096) * MIB + 64), Some(128.0));
        }
    }

    #[test]
    fn points_of_neither_a_line_nor_a_curve_have_no_fit() {
        let of = |batches: &[u64], peak: fn(u64) -> u64| {
            let courses: Vec<_> = batches.iter().map(|&batch| vec![level(10, peak(batch))]).collect();
            line(&rows(batches), &courses)
        };
        assert_eq!(
            of(&[4, 8, 16, 32], |batch| 40 * u64::from(batch.ilog2())),
            Err(NoFit::NotLinear),
            "bends downwards"
        );
        assert_eq!(of(&[4, 8, 16, 32], |batch| if batch == 8 { 400 } else { 10 * batch }), Err(NoFit::NotLinear));
        assert_eq!(of(&[4, 8, 16, 32, 64], |batch| batch * batch * batch), Err(NoFit::NotLinear));
    }

    #[test]
    fn what_is_no_line_is_not_claimed() {
        let quadratic = |batch: u64| vec![level(10, batch * batch)];
        assert_eq!(line(&rows(&[2, 16]), &[quadratic(2), quadratic(16)]), Err(NoFit::NotLinear));
        assert_eq!(line(&rows(&[2, 16]), &[iteration(2), iteration(2)]), Err(NoFit::NotLinear));
        assert_eq!(line(&rows(&[2, 2]), &[iteration(2), iteration(2)]), Err(NoFit::SameBatch));
        let untold = vec![level(10, 0)];
        assert_eq!(line(&rows(&[2, 16]), &[untold.clone(), untold]), Err(NoFit::Categories));
    }

    #[test]
    fn sizes_beyond_all_bounds_do_not_panic() {
        let huge = vec![Level { fixed_bytes: u64::MAX, batch_bytes: u64::MAX }];
        let batches = [Ratio::ONE, Ratio { times: u64::MAX, per: 1 }];
        assert!(line(&batches, &[huge.clone(), huge]).is_err());
    }
}
