//! The documents that the analysis makes itself.

use highwater_analysis::view::columns::Manifest;
use highwater_analysis::view::{ExplainView, LiveView, ReportView, SimulateView};

use crate::Document;

impl Document for ReportView<'_> {
    const FORMAT: &'static str = "highwater-report";
    const VERSION: u32 = 1;
}

impl Document for ExplainView<'_> {
    const FORMAT: &'static str = "highwater-explain";
    const VERSION: u32 = 1;
}

impl Document for LiveView<'_> {
    const FORMAT: &'static str = "highwater-live";
    const VERSION: u32 = 1;
}

impl Document for SimulateView<'_> {
    const FORMAT: &'static str = "highwater-simulate";
    const VERSION: u32 = 1;
}

impl Document for Manifest {
    const FORMAT: &'static str = "highwater-view";
    const VERSION: u32 = 1;
}
