//! Whole commands, on small real recordings of `testdata/`.

mod architecture;
mod check;
mod diff;
mod docs;
mod dryrun;
mod dryrun_cudnn;
mod dryrun_faults;
mod dryrun_ranks;
mod dryrun_values;
mod environment;
mod estimate;
mod explain;
mod export;
mod formats;
mod front;
mod hostile;
#[cfg(target_os = "linux")]
mod load;
mod manners;
mod profiler;
mod prose;
mod ranks;
#[cfg(unix)]
mod recording;
mod report;
mod repository;
mod run;
mod segments;
mod simulate;
mod sql;
mod terminal;
#[cfg(target_os = "linux")]
mod top;
mod trace;
mod view;
mod what_if;
mod whole_card;
