//! `highwater top`: what is on the GPUs right now.

mod csv;
mod outputs;
mod prometheus;
mod screen;
mod snapshot;
mod source;
mod table;
mod watched;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use highwater_documents::top::TopView;
use highwater_monitor::Sample;
use highwater_output::printable::Printable;
use highwater_output::sink::{note, text_to_stdout, to_stdout, write_json};
use highwater_output::table::terminal_width;

use self::outputs::Outputs;
use self::source::Source;

/// For people, or for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people: a screen, or with `--once` a table
    #[default]
    Text,
    /// For programs: one document per line, has a version, stays compatible
    Json,
    /// For spreadsheets: one row per process
    Csv,
}

/// The options of `highwater top`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Exit status: 0 when done, 2 if there is no GPU, or for bad usage or input.

Examples:
  highwater top                             the screen; `?` lists its keys
  highwater top --once                      a table
  highwater top --format csv --interval 0.1 > memory.csv
  highwater top -o run.hwlog --watch-pid 4711
  highwater top --replay run.hwlog
  highwater top --prometheus :9400
  highwater top --pid 4711 --snapshot now.pickle
      from a program that runs highwater's Python recorder")]
pub struct Args {
    /// Print a table once
    #[arg(long, conflicts_with = "samples")]
    once: bool,
    /// Output format; json and csv continue until you stop them, unless `--once` or `--samples` is given
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Seconds between samples, at least 0.01
    #[arg(long, value_name = "SECS", default_value = "1", value_parser = parse_interval)]
    interval: Duration,
    /// End after this many samples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    samples: Option<u64>,
    /// Only this process and its descendants; ends with it
    #[arg(long, value_name = "PID")]
    watch_pid: Option<u32>,
    /// Also write every sample to this file, for `--replay`
    #[arg(short, long, alias = "record", value_name = "FILE", conflicts_with = "replay")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
    /// Show a file that `--output` wrote instead of this machine
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Also serve Prometheus metrics, on the loopback only
    #[arg(long, value_name = ":PORT", value_parser = prometheus::parse_port, conflicts_with_all = ["replay", "once"])]
    prometheus: Option<u16>,
    /// Process for `--snapshot`
    #[arg(long, value_name = "PID", requires = "snapshot")]
    pid: Option<u32>,
    /// Request a snapshot from a process that runs highwater's recorder, and write it to this file
    #[arg(long, value_name = "FILE", requires = "pid", conflicts_with_all = ["output", "replay", "prometheus", "once"])]
    snapshot: Option<PathBuf>,
}

/// Seconds with decimals: `0.1`, `1`, also `100ms` and `1s`.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    let seconds = number.trim().parse::<f64>().map_err(|_| "expected seconds, as in `0.1`, `1` or `100ms`")? * unit;
    // A day is as good as never, and what is shorter than the driver's own period tells nothing new.
    if !(0.01..=86_400.0).contains(&seconds) {
        return Err("expected 0.01 to 86400 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Shows the GPUs.
///
/// # Errors
/// If there is no GPU, no such process, or a file cannot be read or written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let (Some(pid), Some(path)) = (args.pid, &args.snapshot) {
        return snapshot::write(pid, path, args.force);
    }
    let source = Source::open(args)?;
    let mut outputs = Outputs::open(args)?;
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    match args.format {
        Format::Text if !args.once && is_terminal => screen::run(args, source, outputs),
        // With something else to do, nothing is printed until it ends.
        Format::Text if outputs.is_any() && !args.once => follow(args, source, &mut outputs, |_| Ok(())),
        Format::Text => once(args, source, &mut outputs),
        Format::Json => {
            follow(args, source, &mut outputs, |sample| to_stdout(|out| write_json(out, &TopView::new(sample))))
        }
        Format::Csv => {
            to_stdout(csv::write_header)?;
            follow(args, source, &mut outputs, |sample| to_stdout(|out| csv::write(out, sample)))
        }
    }
}

/// One table: of now, or of the end of a log.
fn once(args: &Args, mut source: Source, outputs: &mut Outputs) -> anyhow::Result<()> {
    let mut last = None;
    while let Some(sample) = source.next()? {
        last = Some(sample);
        if args.replay.is_none() {
            break;
        }
    }
    let Some(sample) = last else { return Err(source.nothing().into()) };
    outputs.take(&sample)?;
    text_to_stdout(|out| table::write(out, &sample, terminal_width()))
}

/// Look after look, until there are no more or as many as were asked for.
fn follow(
    args: &Args,
    mut source: Source,
    outputs: &mut Outputs,
    mut print: impl FnMut(&Sample) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let most = if args.once { Some(1) } else { args.samples };
    let mut looks = 0;
    let mut last = None;
    while most.is_none_or(|most| looks < most) {
        source.wait(looks > 0);
        let Some(sample) = source.next()? else { break };
        outputs.take(&sample)?;
        looks += 1;
        if args.once && args.replay.is_some() {
            // The state at a log's end, as the table has it.
            looks = 0;
            last = Some(sample);
        } else {
            print(&sample)?;
        }
    }
    if let Some(sample) = last {
        looks = 1;
        print(&sample)?;
    }
    if looks == 0 {
        return Err(source.nothing().into());
    }
    if let Some(why) = source.why_ended() {
        note(&why)?;
    }
    io::stdout().flush()?;
    Ok(())
}

/// A sample as a table and as rows of CSV, and as the metrics of Prometheus: for a fuzz target.
///
/// # Errors
/// None: a vector takes all bytes.
pub fn printed(sample: &Sample) -> io::Result<(Vec<u8>, String)> {
    let mut out = Vec::new();
    table::write(&mut out, sample, Some(80))?;
    csv::write(&mut out, sample)?;
    Ok((out, prometheus::metrics(sample)))
}

/// The driver in a line.
pub fn driver_line(sample: &Sample) -> Printable {
    table::driver(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds() {
        assert_eq!(parse_interval("0.1"), Ok(Duration::from_millis(100)));
        assert_eq!(parse_interval("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(parse_interval("2s"), Ok(Duration::from_secs(2)));
        for text in ["", "0", "-1", "NaN", "inf", "1h", "0.001", "1e9"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }
}
