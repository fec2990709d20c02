//! How far the simulator is.

use std::io::IsTerminal as _;
use std::sync::OnceLock;
use std::time::Duration;

use highwater_whatif::{Conf, Progress, Watch};
use indicatif::{ProgressBar, ProgressStyle};

/// How many settings are done, on a terminal.
#[derive(Debug, Default)]
pub(crate) struct SimulationBar(OnceLock<ProgressBar>);

impl SimulationBar {
    /// Has it shown while somebody waits.
    pub(crate) fn watch() -> Watch {
        Watch::new(Self::default())
    }
}

impl Progress for SimulationBar {
    fn begin(&self, settings: &[Conf]) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let style = ProgressStyle::with_template("simulating {wide_bar} {pos} of {len} settings {elapsed}");
        let bar = ProgressBar::new(settings.len() as u64).with_style(style.expect("the template is well-formed"));
        bar.enable_steady_tick(Duration::from_millis(200));
        // It begins once.
        let _ = self.0.set(bar);
    }

    fn step(&self) {
        if let Some(bar) = self.0.get() {
            bar.inc(1);
        }
    }

    fn end(&self) {
        if let Some(bar) = self.0.get() {
            bar.finish_and_clear();
        }
    }
}
