//! `highwater ranks`: the ranks of a job side by side, the odd ones explained.

mod text;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use highwater_documents::ranks::RanksView;
use highwater_ranks::{Found, compare, expand, read_all};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::FormatToPaste;
use crate::commands::CHECK_FAILED;
use crate::error::Problem;
use crate::{input, output};

/// Options of `highwater ranks`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  highwater ranks job/                        every rank's snapshot in a folder
  highwater ranks rank0.pickle rank1.pickle
  highwater ranks run.pickle                  the devices of one process
  highwater ranks job/ --each                 one line per rank, not per group
  highwater ranks job/ --format json | jq '.ranks[] | select(.is_outlier)'

Exit status: 0, or 1 if a file could not be read in full or a rank has no file; the answer lists them.")]
pub(crate) struct Args {
    /// Snapshots of the ranks of one job, directories of them, or patterns such as `job/rank*.pickle`
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Print a line for each rank, not for each group of ranks that are alike
    #[arg(long)]
    each: bool,
    /// Rows of each table; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 40)]
    top: usize,
    /// Read them on a Ray cluster: its address, or `auto`; with the Python package's command only
    #[arg(long, value_name = "ADDRESS")]
    ray: Option<String>,
    /// Files to read at the same time [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    #[command(flatten)]
    size: input::SizeArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: FormatToPaste,
}

/// The comparison as a document, with so many rows in each table.
pub(crate) fn document(view: &RanksView, each: bool, top: usize) -> crate::document::Document {
    text::document(view, text::Options { each, top: if top == 0 { usize::MAX } else { top } })
}

/// Reads all, compares, prints.
///
/// # Errors
/// If nothing can be read, or the files are of several jobs.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(address) = &args.ray {
        let hint = format!("`pip install highwater 'ray[data]'`, then `python -m highwater ranks --ray {address} …`");
        return Err(Problem::new("`--ray` needs the Python package").hint(hint).into());
    }
    let mut found = expand(&args.paths)?;
    found.check_one_job()?;
    let threads = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let bar = bar(found.files.len());
    let read = |done: usize, _| {
        if let Some(bar) = &bar {
            bar.set_position(done as u64);
        }
    };
    let (mut digests, unread) = read_all(&found.files, threads, args.size.unpacking(), read);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    found.unread.extend(unread);
    if digests.is_empty() {
        return Err(nothing(&found).into());
    }
    found.attach(&mut digests);
    let view = compare(digests, found.unread);
    output::print(args.format, &view, |_| document(&view, args.each, args.top))?;
    Ok(if view.unread.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(CHECK_FAILED) })
}

fn nothing(found: &Found) -> Problem {
    let problem = Problem::new("no rank's snapshot could be read");
    match &found.unread[..] {
        [] => problem.hint(format!(
            "highwater looks for files with these names: *.pickle, *.pkl, *.json, *.html, and these with .gz or .zst; \
             {} others are there",
            found.others
        )),
        unread => {
            const TOLD: usize = 5;
            let mut problem = problem;
            for why in unread.iter().take(TOLD) {
                problem = problem.because(format!("`{}`: {}", why.file, why.reason));
            }
            problem.hint("write a snapshot of each rank with `highwater run`, or with `torch.cuda.memory._dump_snapshot(f\"rank{rank}.pickle\")`")
        }
    }
}

/// How many files are read, on a terminal.
fn bar(files: usize) -> Option<ProgressBar> {
    const FEW: usize = 4;
    if files <= FEW || !std::io::stderr().is_terminal() {
        return None;
    }
    let style = ProgressStyle::with_template("reading {wide_bar} {pos} of {len} files {elapsed}");
    Some(ProgressBar::new(files as u64).with_style(style.expect("the template is well-formed")))
}
