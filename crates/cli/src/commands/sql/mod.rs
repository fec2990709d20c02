//! `highwater sql PATH… QUERY`: questions about the tables of recordings.

mod text;

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum;
use highwater_answers::sql::Query;

use crate::error::Problem;
use crate::input::SizeArgs;
use crate::output::{to_stdout, write_json};
use crate::printable::Lines;
use crate::recordings::{Job, RunArgs, none_read, say_unread};
use crate::table::terminal_width;

/// The options of `highwater sql`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "highwater sql [OPTIONS] <PATH>... <QUERY>\n       highwater sql --tables")]
#[command(after_long_help = "Examples:
  highwater sql run.pickle \"select action, count(*) from entries group by 1\"
  highwater sql job/ \"select file, peak_allocated_bytes from devices\"
  highwater sql --tables     the tables and their columns

Queries run in SQLite, in memory. Only the columns that a query reads are loaded.")]
pub(crate) struct Args {
    /// Snapshots and folders of snapshots; then the query, or `-` to read it from standard input
    #[arg(required_unless_present = "tables", value_name = "PATH... QUERY", conflicts_with = "tables")]
    words: Vec<OsString>,
    /// List the tables and their columns
    #[arg(long)]
    tables: bool,
    /// Strip the directories from all paths in the snapshots
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    size: SizeArgs,
    /// As text and Markdown: rows to show; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 100)]
    top: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// For people, for programs, for an issue, or for a spreadsheet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// For programs: has a version, stays compatible
    Json,
    /// For pasting into an issue
    Markdown,
    /// For a spreadsheet
    Csv,
}

/// A query is a page of text at most.
const MAX_QUERY_BYTES: u64 = 1 << 20;

/// Reads, asks, prints.
///
/// # Errors
/// If the query is wrong, or no file can be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.tables {
        let width = terminal_width();
        to_stdout(|out| text::tables().write_text(&mut Lines::for_stdout(out), width))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (paths, sql) = args.paths_and_query()?;
    let query = Query::new(&sql)?;
    let job = Job::new(&paths, &args.run, args.size, args.redact)?;
    let mut count = 0;
    let unread = job.each(|recording| {
        count += 1;
        Ok(query.add(recording)?)
    })?;
    if count == 0 {
        return none_read(&unread);
    }
    let view = query.answer(unread)?;
    to_stdout(|out| match args.format {
        Format::Json => write_json(out, &view),
        Format::Csv => text::write_csv(out, &view),
        Format::Markdown => text::document(&view, args.top).write_markdown(out),
        Format::Text => {
            let width = terminal_width();
            text::document(&view, args.top).write_text(&mut Lines::for_stdout(out), width)
        }
    })?;
    Ok(say_unread(&view.unread))
}

impl Args {
    /// What stands before the last word, and the query that it is.
    fn paths_and_query(&self) -> anyhow::Result<(Vec<PathBuf>, String)> {
        let (last, paths) = self.words.split_last().context("the query is missing")?;
        if paths.is_empty() {
            let problem = Problem::new("a query needs a snapshot");
            let example = "`highwater sql run.pickle \"select * from devices\"`";
            return Err(problem.hint(format!("name files or folders before it: {example}")).into());
        }
        if last != "-" {
            if Path::new(last).exists() {
                let shown = last.to_string_lossy();
                let problem = Problem::new(format!("the last word, `{shown}`, is a file and not a query"));
                return Err(problem.hint("end with a query such as \"select * from devices\"").into());
            }
            let sql = last.to_str().context("the query is not UTF-8")?;
            return Ok((paths.iter().map(PathBuf::from).collect(), sql.to_owned()));
        }
        let mut sql = String::new();
        std::io::stdin()
            .take(MAX_QUERY_BYTES)
            .read_to_string(&mut sql)
            .context("cannot read the query from standard input")?;
        Ok((paths.iter().map(PathBuf::from).collect(), sql))
    }
}
