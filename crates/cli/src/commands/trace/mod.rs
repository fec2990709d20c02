//! `highwater trace FILE`: the entries, one line each.

mod filter;
mod text;

use highwater_analysis::callsite::Sites;
use highwater_documents::trace::{Selected, TraceView};
use highwater_snapshot::{Entry, EntryId};

use crate::args::{Format, SitesArgs};
use crate::input::InputArgs;
use crate::{output, warnings};
use filter::{Filter, FilterArgs};

/// Entries of a device that are shown as text unless `--top` says otherwise.
const DEFAULT_LIMIT: usize = 1000;

/// Options of `highwater trace`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: the history of the block at an address, with whole stacks
  highwater trace run.pickle --address 0x7f8b40000000 --covering --stacks")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    sites: SitesArgs,
    /// Show at most this many entries of each device, the oldest first; 0 for all [default: 1000 as text, all as JSON]
    #[arg(long, alias = "limit", value_name = "N")]
    top: Option<usize>,
    /// Print the whole stack below each entry
    #[arg(long)]
    stacks: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    filter: FilterArgs,
}

impl Args {
    fn limit(&self) -> usize {
        self.format.limit(self.top, DEFAULT_LIMIT)
    }
}

/// Lists the entries.
///
/// # Errors
/// If the snapshot cannot be read, a filter names what is not in it, or the output cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (snapshot, sites) = args.input.read_with(|snapshot| Sites::with(snapshot, args.sites.lines()))?;
    let filter = Filter::new(&args.filter, &snapshot)?;
    let accepts = |id: EntryId, entry: &Entry| filter.accepts(id, entry);
    let traces: Vec<_> = args
        .input
        .devices(&snapshot)
        .into_iter()
        .map(|device| Selected { snapshot: &snapshot, sites: &sites, device, accepts: &accepts, limit: args.limit() })
        .collect();
    match args.format {
        Format::Text => {
            output::text_to_stdout(|out| text::write(out, &traces, args.stacks))?;
            warnings::print(&snapshot.warnings)?;
        }
        Format::Json => {
            let document = TraceView::new(&traces, &snapshot.warnings);
            output::to_stdout(|out| output::write_json(out, &document))?;
        }
    }
    Ok(())
}
