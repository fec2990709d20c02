//! `highwater estimate --web`: the calculator in the browser, served or as one page.

use std::io::Write as _;
use std::path::Path;

use highwater_answers::model;
use highwater_estimate::read::Model;
use highwater_viewer::{Options, Viewer, calculator_is_built, write_calculator};

use super::args::Args;
use super::serve;
use crate::commands::view;
use crate::error::Problem;
use crate::output::{to_stdout, write_to};

/// Serves the calculator until Ctrl-C, or writes it.
///
/// # Errors
/// If there is no such model, the port is taken, or the page cannot be written.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if !calculator_is_built() {
        return Err(Problem::new("this build of highwater has no calculator")
            .because("it was built before the page in `ui/`, or without Rust's target `wasm32-unknown-unknown`")
            .hint("`make ui build` builds both, and reports anything missing")
            .into());
    }
    let inputs = inputs(args)?;
    if let Some(path) = &args.page.output {
        return write_to(path, args.page.force, |out| write_calculator(out, &inputs));
    }
    let options = Options { port: args.page.port, inputs, ..Options::default() };
    let viewer = Viewer::open(&[], &options).map_err(Problem::from)?;
    let address = viewer.calculator_address();
    to_stdout(|out| writeln!(out, "The calculator is at {address}\nPress Ctrl-C to stop"))?;
    view::serve(viewer, &address, args.page.no_open)
}

/// What the page begins with: the model and the options that were given, by the words of its address.
fn inputs(args: &Args) -> Result<Vec<(String, String)>, Problem> {
    let owned = |(name, word): (&str, String)| (name.to_owned(), word);
    let (given, asked) = if args.asks_an_engine() {
        let (model, words) = highwater_answers::serve::words(&serve::asked(args)?)?;
        (Some(model), words)
    } else {
        (args.model.clone(), args.run.0.words().into_iter().map(owned).collect())
    };
    let model = given.map(|given| model_words(&given)).transpose()?;
    Ok(model.into_iter().flatten().map(owned).chain(asked).collect())
}

/// A model by its name, or by the contents of its files.
fn model_words(given: &str) -> Result<Vec<(&'static str, String)>, Problem> {
    Ok(match model::find(given)? {
        Model::Named(name) => vec![("model", name)],
        Model::Described(files) => {
            // Its own name only: the page may be mailed.
            let name = Path::new(given).file_name().unwrap_or(given.as_ref());
            // What is made of strings, numbers and lists of them is JSON.
            vec![
                ("file", serde_json::to_string(&files).unwrap_or_default()),
                ("from", name.to_string_lossy().into_owned()),
            ]
        }
    })
}
