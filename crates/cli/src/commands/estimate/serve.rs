//! `highwater estimate --serve`: whether an engine serves a model on a GPU.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use highwater_answers::serve::{Asked, answer};

use super::args::Args;
use super::serve_text;
use crate::error::Problem;
use crate::output;

/// Options of training that mean something to an engine, too.
const SHARED: [&str; 2] = ["gpu", "dtype"];

/// Reads, computes, prints.
///
/// # Errors
/// If the model, the engine, the GPU or a flag is unknown, or flags contradict each other.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let view = answer(asked(args)?)?;
    output::print(args.format, &view, |_| serve_text::document(&view))
}

/// The question that the arguments ask.
///
/// # Errors
/// If there is an option that engines do not have, or the log cannot be read.
pub(super) fn asked(args: &Args) -> Result<Asked, Problem> {
    let said = args.run.0.words();
    if let Some((name, _)) = said.iter().find(|(name, _)| !SHARED.contains(name)) {
        return Err(Problem::new(format!("`--{name}` does not go with `--serve`"))
            .hint("leave it out: an engine has flags of its own"));
    }
    let word = |wanted: &str| said.iter().find(|(name, _)| *name == wanted).map(|(_, word)| word.clone());
    Ok(Asked {
        model: args.model.clone(),
        engine: args.serve.clone(),
        gpu: word("gpu"),
        dtype: word("dtype"),
        settings: args.engine.0.clone(),
        command: args.command.clone(),
        need: (!args.need.is_empty()).then(|| args.need.join(" ")),
        against: args.against.as_deref().map(log).transpose()?,
        fit: args.fit.iter().flat_map(|list| list.split(',')).map(|gpu| gpu.trim().to_owned()).collect(),
    })
}

/// The longest log that is read.
const LOG_LIMIT: u64 = 64 << 20;

/// A log, by its name and its first bytes.
fn log(path: &Path) -> Result<(String, Vec<u8>), Problem> {
    let name = crate::input::short_name(path);
    let failed = |error: std::io::Error| Problem::new(format!("`{}` cannot be read", path.display())).because(error);
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(LOG_LIMIT).read_to_end(&mut bytes).map_err(failed)?;
    Ok((name, bytes))
}
