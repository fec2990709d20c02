//! The ranks of a job.

use std::path::PathBuf;

use highwater_documents::ranks::UnreadView;
use highwater_problem::Problem;
use highwater_ranks::{Digest, compare, expand, is_recording, read_all};
use highwater_snapshot::Unpacking;
use pyo3::prelude::*;

use crate::error::Failure;

/// How much a compressed input may become.
fn unpacking(allow_any_size: bool) -> Unpacking {
    if allow_any_size { Unpacking::Unbounded } else { Unpacking::Bounded }
}

/// Whether a file in a directory has the name of a recording.
#[pyfunction]
pub(crate) fn is_recording_name(name: &str) -> bool {
    is_recording(name)
}

/// Digests as JSON, and of each file that cannot be read the name and the reason.
type Read = (Vec<String>, Vec<(String, String)>);

/// The digests of files and directories on this machine.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
pub(crate) fn digests_of_paths(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    jobs: Option<usize>,
    allow_any_size: bool,
) -> Result<Read, Failure> {
    py.detach(|| {
        let mut found = expand(&paths)?;
        found.check_one_job()?;
        let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
        let (mut digests, unread) = read_all(&found.files, jobs, unpacking(allow_any_size), |_, _| ());
        found.attach(&mut digests);
        found.unread.extend(unread);
        let unread = found.unread.into_iter().map(|unread| (unread.file, unread.reason)).collect();
        Ok((digests.iter().map(highwater_answers::json).collect(), unread))
    })
}

/// The document of `highwater ranks`, and its text, of digests as JSON.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
pub(crate) fn compare_digests(
    py: Python<'_>,
    digests: Vec<String>,
    unread: Vec<(String, String)>,
) -> Result<(String, String), Failure> {
    py.detach(|| {
        let read = |text: &String| {
            serde_json::from_str::<Digest>(text)
                .map_err(|error| Problem::new("the text is not a digest of a recording").because(error))
        };
        let digests = digests.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let unread = unread.into_iter().map(|(file, reason)| UnreadView { file, reason }).collect();
        let view = compare(digests, unread);
        Ok((highwater_answers::json(&view), highwater_cli::texts::ranks_text(&view)))
    })
}
