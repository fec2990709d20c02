//! Settings to run under, as strings.

use std::fmt;

use highwater_allocator::settings::Backend;
use highwater_allocator::{ConfError, Settings};
use highwater_problem::Explained;

use crate::study::Study;

/// Settings with the string that gave them.
pub type Conf = (String, Settings);

/// Settings that cannot be run under.
#[derive(Clone, Debug)]
pub enum RefusedConf {
    /// PyTorch refuses them.
    ByTorch(ConfError),
    /// The driver's own allocator.
    Asynchronous,
}

impl fmt::Display for RefusedConf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByTorch(error) => error.fmt(f),
            Self::Asynchronous => {
                f.write_str("`backend:cudaMallocAsync` cannot be simulated: the driver manages its memory")
            }
        }
    }
}

impl std::error::Error for RefusedConf {}

impl Explained for RefusedConf {
    fn hint(&self) -> Option<String> {
        match self {
            Self::ByTorch(error) => error.hint(),
            Self::Asynchronous => {
                Some("a run without `--conf` shows the live memory, which is the least that it needs".to_owned())
            }
        }
    }
}

/// The settings that a string gives under the rules of a study.
///
/// # Errors
/// If PyTorch refuses them, or they choose an allocator that is not its own.
pub fn conf(study: &Study, conf: &str) -> Result<Conf, RefusedConf> {
    let settings = study.settings(conf).map_err(RefusedConf::ByTorch)?;
    if settings.backend == Backend::CudaMallocAsync {
        return Err(RefusedConf::Asynchronous);
    }
    Ok((conf.to_owned(), settings))
}
