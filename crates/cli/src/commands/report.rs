//! `highwater report`: what filled the GPU, and when.

use std::time::Instant;

use highwater_analysis::{StackClasses, analyse_beside};
use highwater_documents::{self, TimingsView};
use highwater_findings::{IDS, studies};

use crate::args::{FormatToPaste, SitesArgs};
use crate::input::InputArgs;
use crate::output::{OutputArgs, write_json};
use crate::printable::Lines;
use crate::report::{self, Options};
use crate::table::terminal_width;
use crate::units::parse_size;

/// The options of `highwater report`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  highwater report run.pickle --format markdown --redact")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    sites: SitesArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: FormatToPaste,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
    /// Draw the capacity of the device, such as `80GiB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<u64>,
    /// Leave out the findings of this kind, such as `freed-late`; may be repeated
    #[arg(long, value_name = "ID", value_parser = clap::builder::PossibleValuesParser::new(IDS))]
    ignore: Vec<String>,
    /// Print how long reading and analysing took
    #[arg(long)]
    timings: bool,
}

/// Reads, analyses, reports.
///
/// # Errors
/// If the snapshot cannot be read or the report cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let begun = Instant::now();
    let (snapshot, (read_secs, classes)) = args
        .input
        .read_with(|snapshot| (begun.elapsed().as_secs_f64(), StackClasses::with(snapshot, args.sites.lines())))?;
    let is_left_out = |id: &str| args.ignore.iter().any(|ignored| ignored == id);
    let is_wanted = |device: u32| args.input.device.is_none_or(|wanted| device == wanted);
    let (mut analysis, studies) = analyse_beside(&snapshot, classes, |devices| {
        let wanted = devices.iter().map(|device| &**device).filter(|device| is_wanted(device.device));
        studies(&snapshot, wanted, is_left_out)
    });
    analysis.devices.retain(|device| is_wanted(device.device));
    let width = if args.format == FormatToPaste::Text && args.output.is_stdout() { terminal_width() } else { None };
    let mut report = highwater_documents::report_but(&analysis, studies, is_left_out, report::columns(width));
    let analyse_secs = begun.elapsed().as_secs_f64() - read_secs;
    report.timings = args.timings.then_some(TimingsView { read_secs, analyse_secs });
    let options = Options { top: args.top.max(1), capacity_bytes: args.capacity, width, leads_on: true };
    args.output.write(|out| match args.format {
        FormatToPaste::Json => write_json(out, &report),
        FormatToPaste::Text => {
            let document = report::document(&report, &args.input.short_name(), options);
            let mut lines = if args.output.is_stdout() { Lines::for_stdout(out) } else { Lines::plain(out) };
            document.write_text(&mut lines, width)
        }
        FormatToPaste::Markdown => report::document(&report, &args.input.short_name(), options).write_markdown(out),
    })?;
    if let Some(timings) = report.timings.filter(|_| args.format != FormatToPaste::Json) {
        // Timing that nobody can be told of is no failure.
        let _ = crate::output::note(&format!(
            "read in {:.3} s, analysed in {:.3} s",
            timings.read_secs, timings.analyse_secs
        ));
    }
    Ok(())
}
