//! `highwater simulate FILE`: a recording under other settings, with less memory, on other cards.

use std::process::ExitCode;

use anyhow::Context as _;
use highwater_analysis::{StackClasses, analyse_with};
use highwater_answers::what_if::Asked;

use super::Args;
use super::what_if_text;
use crate::args::FormatToPaste;
use crate::output;
use crate::progress::SimulationBar;

/// Reads, replays, runs, answers.
///
/// # Errors
/// If the snapshot cannot be read, or settings or a card are not what PyTorch or this program knows.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let input = args.input().context("`simulate` needs a snapshot")?;
    let (snapshot, classes) = input.read_with(|snapshot| StackClasses::with(snapshot, args.sites.lines()))?;
    let analysis = analyse_with(&snapshot, classes);
    let asked = Asked {
        confs: &args.conf,
        capacities: &args.capacity,
        cards: &args.card,
        torch: args.torch,
        device: args.device,
    };
    let (_, view) = asked.answered(&analysis, &input.name(), &SimulationBar::watch())?;
    output::print(args.format, &view, |width| what_if_text::document(&view, &input.short_name(), width))?;
    if args.format != FormatToPaste::Json {
        crate::warnings::print_all(&analysis)?;
    }
    Ok(ExitCode::SUCCESS)
}
