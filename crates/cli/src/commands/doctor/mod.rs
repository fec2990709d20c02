//! `highwater doctor`: the set-up at a glance, and what to change.

mod environment;
mod gpus;
mod text;
mod torch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use highwater_documents::doctor::{DoctorView, Severity, Torch};
use highwater_monitor::{Absence, Detail, Sample, Sampler};

use crate::args::Format;
use crate::commands::CHECK_FAILED;
use crate::output::{to_stdout, write_json};
use crate::printable::Lines;
use crate::table::terminal_width;

/// The options of `highwater doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit status: 0 if nothing is wrong (advice is not), 1 if something is, 2 where there is no GPU.

Examples:
  highwater doctor
  highwater doctor --python .venv/bin/python --format json"
)]
pub(crate) struct Args {
    /// The interpreter that has torch; it is asked for its version, torch is not imported
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Looks at everything once.
///
/// # Errors
/// There is no GPU, which is said after everything else; or the interpreter cannot be asked.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let looked = look();
    let torch = args.python.as_deref().map(torch::ask).transpose()?;
    let document = examined(looked.as_ref(), torch, &|name| std::env::var(name).ok());
    to_stdout(|out| match args.format {
        Format::Json => write_json(out, &document),
        Format::Text => text::write(&mut Lines(out), &document, terminal_width()),
    })?;
    if let Err(absence) = looked {
        return Err(crate::error::Problem::from(absence).into());
    }
    let is_wrong = document.findings.iter().any(|finding| finding.severity == Severity::Problem);
    Ok(if is_wrong { ExitCode::from(CHECK_FAILED) } else { ExitCode::SUCCESS })
}

fn look() -> Result<Sample, Absence> {
    let time_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    Sampler::open(None)?.sample(u64::try_from(time_us).unwrap_or(u64::MAX), Detail::All)
}

/// What is known, and what is to be said of it, the worst first.
fn examined(
    looked: Result<&Sample, &Absence>,
    torch: Option<Torch>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> DoctorView {
    let mut findings = Vec::new();
    let gpus = looked.ok().cloned();
    if let Some(sample) = &gpus {
        gpus::examine(sample, variable("CUDA_VISIBLE_DEVICES").as_deref(), &mut findings);
    }
    if let Some(torch) = &torch {
        torch::examine(torch, gpus.as_ref(), &mut findings);
    }
    let version = torch.as_ref().and_then(torch::version);
    let settings = environment::read(version, variable, &mut findings);
    DoctorView::new(looked.cloned().map_err(ToString::to_string), torch, settings, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(variables: &[(&str, &str)]) -> Vec<&'static str> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let document = examined(Ok(&Sample::default()), None, &variable);
        document.findings.iter().map(|finding| finding.id).collect()
    }

    #[test]
    fn settings_are_read_by_pytorchs_rules() {
        assert_eq!(ids(&[]), ["no-expandable-segments"]);
        assert_eq!(ids(&[("PYTORCH_ALLOC_CONF", "expandable_segments:True")]), [""; 0]);
        assert_eq!(ids(&[("PYTORCH_ALLOC_CONF", "expandable_segment:True")])[..1], ["refused-settings"]);
        assert_eq!(
            ids(&[("PYTORCH_CUDA_ALLOC_CONF", ""), ("PYTORCH_ALLOC_CONF", "expandable_segments:True")])[..1],
            ["hidden-settings"]
        );
    }

    #[test]
    fn settings_that_do_not_go_together_are_named() {
        let with = |conf| ids(&[("PYTORCH_ALLOC_CONF", conf)]);
        assert_eq!(with("expandable_segments:True,max_split_size_mb:128"), ["split-and-expandable"]);
        assert_eq!(with("backend:cudaMallocAsync,max_split_size_mb:128"), ["ignored-by-backend"]);
        assert_eq!(with("expandable_segments:True,garbage_collection_threshold:0.2"), ["eager-collection"]);
        assert_eq!(with("expandable_segments:True,max_split_size_mb:20")[..1], ["split-and-expandable"]);
        assert_eq!(
            ids(&[("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"), ("PYTORCH_ALLOC_CONF", "expandable_segments:True")])[..1],
            ["no-caching"]
        );
        assert!(ids(&[("CUDA_MODULE_LOADING", "EAGER")]).contains(&"eager-loading"));
        assert!(ids(&[("CUDA_LAUNCH_BLOCKING", "1")]).contains(&"launch-blocking"));
    }
}
