//! `highwater completions SHELL`.

use clap_complete::Shell;

use crate::args;
use crate::output;

/// Options of `highwater completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  highwater completions bash > /etc/bash_completion.d/highwater")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the completion script.
///
/// # Errors
/// Those of standard output.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "highwater", &mut script);
    output::to_stdout(|out| std::io::Write::write_all(out, &script))
}
