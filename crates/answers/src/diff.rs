//! Recordings side by side.

use highwater_analysis::Analysis;
use highwater_documents::diff::{Compared, DiffView};
use highwater_findings::batch::{NoFit, fit};
use highwater_findings::diff::{Moment, SettingDiff, compare_devices, matching_devices, settings};
use highwater_problem::Problem;
use highwater_units::counted;

/// What is asked of recordings.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// When to compare.
    pub at: Option<Moment>,
    /// Only this device, or that of each recording.
    pub device: Option<Vec<u32>>,
    /// Rows in the batch of each recording.
    pub rows: Option<Vec<u64>>,
    /// Memory that the largest batch is to fit.
    pub capacity_bytes: Option<u64>,
}

/// All that is printed.
pub struct Comparison<'a> {
    /// What the recordings are called.
    files: Vec<String>,
    analyses: &'a [&'a Analysis<'a>],
    asked: Asked,
    devices: Vec<Compared<'a>>,
    settings: Vec<SettingDiff<'a>>,
}

/// When to compare, as it is said on the command line: `peak`, `end` or `iteration:N`.
///
/// # Errors
/// The words that are known, if the text is none of them.
pub fn moment(text: &str) -> Result<Moment, &'static str> {
    match text {
        "peak" => Ok(Moment::Peak),
        "end" => Ok(Moment::End),
        _ => text
            .strip_prefix("iteration:")
            .and_then(|number| number.parse().ok())
            .map(Moment::Iteration)
            .ok_or("expected `peak`, `end` or `iteration:N`"),
    }
}

impl<'a> Comparison<'a> {
    /// Compares recordings; `files` is what they are called.
    ///
    /// # Errors
    /// If they have no such device in common, or one of them has no such iteration.
    pub fn new(files: Vec<String>, analyses: &'a [&'a Analysis<'a>], asked: Asked) -> Result<Self, Problem> {
        if let Some(rows) = asked.rows.as_ref().filter(|rows| rows.len() != files.len()) {
            let (rows, files) = (counted(rows.len(), "number", "numbers"), counted(files.len(), "file", "files"));
            return Err(Problem::new(format!("`--rows` has {rows} for {files}"))
                .hint("give the rows of each file's batch, in the order of the files: `--rows 8,16`"));
        }
        let of_each: Vec<Vec<u32>> =
            analyses.iter().map(|analysis| analysis.devices.iter().map(|device| device.device).collect()).collect();
        let matching = chosen_devices(asked.device.as_deref(), &of_each, &files)?;
        if let Some(Moment::Iteration(number)) = asked.at {
            matching.iter().try_for_each(|devices| check_iteration(&files, analyses, devices, number))?;
        }
        let diffs = matching.iter().filter_map(|devices| compare_devices(analyses, devices, asked.at));
        let devices = diffs.map(|(at, diff)| {
            let batch = match diff.later_by {
                Some(_) => Err(NoFit::OneProcess),
                None => fit(analyses, &diff.devices, asked.rows.as_deref()),
            };
            Compared { at, diff, batch }
        });
        let devices = devices.collect();
        Ok(Self { files, analyses, devices, settings: settings(analyses), asked })
    }

    /// The document for programs.
    pub fn view(&self) -> DiffView<'_> {
        DiffView::new(self.files.clone(), self.analyses, &self.devices, &self.settings, self.asked.capacity_bytes)
    }
}

/// The devices to compare, a number for each file: those that are asked for, or else those that match.
///
/// # Errors
/// If a file has no such device, or none match.
pub fn chosen_devices(asked: Option<&[u32]>, of_each: &[Vec<u32>], files: &[String]) -> Result<Vec<Vec<u32>>, Problem> {
    let matching = match asked {
        None => matching_devices(of_each),
        Some(&[device]) => vec![vec![device; files.len()]],
        Some(devices) if devices.len() == files.len() => vec![devices.to_vec()],
        Some(devices) => {
            let (devices, files) = (counted(devices.len(), "number", "numbers"), counted(files.len(), "file", "files"));
            return Err(Problem::new(format!("`--device` has {devices} for {files}"))
                .hint("give one number for all files, or one for each, in their order: `--device 0,1`"));
        }
    };
    let is_there = |devices: &Vec<u32>| devices.iter().zip(of_each).all(|(device, of)| of.contains(device));
    if matching.is_empty() || !matching.iter().all(is_there) {
        return Err(none_in_common(files, of_each));
    }
    Ok(matching)
}

/// Says if a recording ends before the iteration that is asked for.
fn check_iteration(
    names: &[String],
    analyses: &[&Analysis<'_>],
    devices: &[u32],
    number: usize,
) -> Result<(), Problem> {
    for ((name, analysis), &device) in names.iter().zip(analyses).zip(devices) {
        let there = analysis.device(device).map_or(0, |device| device.iterations.rows.len());
        if number >= there {
            let what = format!("`{name}` has no iteration {number} on device {device}");
            return Err(Problem::new(what).hint(match there {
                0 => "no iterations were found in it; compare at `peak` or `end`".to_owned(),
                _ => format!("it has iterations 0 to {}", there - 1),
            }));
        }
    }
    Ok(())
}

fn none_in_common(names: &[String], of_each: &[Vec<u32>]) -> Problem {
    let has: Vec<String> = names
        .iter()
        .zip(of_each)
        .map(|(name, devices)| {
            let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
            format!("`{name}` has {}", if devices.is_empty() { "none".to_owned() } else { devices.join(", ") })
        })
        .collect();
    let problem = Problem::new("the snapshots have no device in common").because(has.join("; "));
    problem.hint("give one device for each, in the order of the files: `--device 0,1`")
}
