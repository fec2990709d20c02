//! The facts of a recording, from the columns of a snapshot: lifetimes, totals, categories, iterations, growth.
//!
//! ```no_run
//! let snapshot = highwater_snapshot::Snapshot::open("run.pickle")?;
//! let analysis = highwater_analysis::analyse(&snapshot);
//! for device in &analysis.devices {
//!     println!("device {}: {} bytes allocated at the peak", device.device, device.timeline.allocated_peak().bytes);
//! }
//! # Ok::<(), highwater_snapshot::Error>(())
//! ```
//!
//! # Design constraints
//!
//! - Pure functions: no file, no clock, no printing. The same snapshot gives the same answer.
//! - Exact, or marked: a number that a snapshot cannot tell is absent, or comes with its bounds and the reason.
//! - Devices are never summed: each has its own [`DeviceAnalysis`].
//! - A million entries in a tenth of a second: passes over columns, one hash table of live blocks.
//!
//! More than 9,000 lines, because categories, iterations and growth are evidence for each other: optimizer state is known by the steps
//! that it outlives, and steps by the state that they leave. In two crates, each would publish its evidence for the other alone.

mod backward;
pub mod blocks;
pub mod callsite;
pub mod category;
pub mod device;
pub mod folding;
pub mod fragmentation;
pub mod growth;
pub mod initial;
pub mod iteration;
pub mod lifetime;
pub mod native;
pub mod oom;
pub mod outline;
pub mod parallel;
pub mod phase;
pub mod place;
pub mod reconstruction;
pub mod recorded_settings;
mod repetition;
mod rollout;
pub mod scope;
pub mod stats;
pub mod timeline;
pub mod torch_version;

use std::sync::Arc;

use highwater_outside::Recording;
use highwater_problem::Problem;
use highwater_snapshot::{Place, Snapshot, Warnings};

pub use device::DeviceAnalysis;
pub use reconstruction::Reconstruction;

/// The analysis of a whole snapshot.
#[derive(Clone, Debug)]
pub struct Analysis<'a> {
    /// What was analysed.
    pub snapshot: &'a Snapshot,
    /// One for each device with entries or segments, by device index.
    pub devices: Vec<DeviceAnalysis<'a>>,
    /// The call sites of its stacks.
    pub sites: callsite::Sites,
    /// What the driver did, where that was recorded.
    pub driver: Option<Recording>,
    /// What does not fit together in the file; the reader's own warnings are the snapshot's.
    pub warnings: Warnings,
}

impl<'a> Analysis<'a> {
    /// The device that matters most: one that ran out of memory, else the one with the highest peak; `None` if there is none.
    pub fn leading(&self) -> Option<&DeviceAnalysis<'a>> {
        self.devices
            .iter()
            .max_by_key(|device| (!device.oom.is_empty(), device.peak().bytes, std::cmp::Reverse(device.device)))
    }

    /// The analysis of a device.
    pub fn device(&self, device: u32) -> Option<&DeviceAnalysis<'a>> {
        self.devices.iter().find(|analysis| analysis.device == device)
    }
}

/// What the frames say: made before a snapshot is redacted, for it is directories that tell whose code a frame is.
#[derive(Clone, Debug)]
pub struct StackClasses {
    sites: callsite::Sites,
    phases: phase::StackPhases,
    origins: category::origin::StackOrigins,
}

impl StackClasses {
    /// Looks at every stack of a snapshot.
    pub fn new(snapshot: &Snapshot) -> Self {
        Self::with(snapshot, callsite::Lines::default())
    }

    /// As [`new`](Self::new), with the lines that shall stand for stacks.
    pub fn with(snapshot: &Snapshot, lines: callsite::Lines) -> Self {
        let sites = callsite::Sites::with(snapshot, lines);
        let phases = phase::StackPhases::new(snapshot, &sites);
        let origins = category::origin::StackOrigins::new(snapshot, &sites, &phases);
        Self { sites, phases, origins }
    }
}

/// Analyses every device of a snapshot.
pub fn analyse(snapshot: &Snapshot) -> Analysis<'_> {
    analyse_with(snapshot, StackClasses::new(snapshot))
}

/// As [`analyse`], for a snapshot that was redacted after its stacks were looked at.
pub fn analyse_with(snapshot: &Snapshot, classes: StackClasses) -> Analysis<'_> {
    analyse_beside(snapshot, classes, |_| ()).0
}

/// As [`analyse_with`], with something else that is done of the reconstructed devices while stacks are read.
pub fn analyse_beside<'a, T>(
    snapshot: &'a Snapshot,
    classes: StackClasses,
    meanwhile: impl FnOnce(&[Arc<Reconstruction<'a>>]) -> T,
) -> (Analysis<'a>, T) {
    let StackClasses { sites, phases, origins } = classes;
    let stacks = device::Stacks { sites: &sites, phases: &phases, origins: &origins };
    let mut warnings = Warnings::default();
    let settings = blocks::followed_settings(snapshot);
    let reconstruct = |device| Arc::new(Reconstruction::new(snapshot, device, &settings, &mut warnings));
    let reconstructions: Vec<_> = snapshot.devices().into_iter().map(reconstruct).collect();
    let interpret = || {
        let devices = reconstructions.iter().cloned();
        devices.map(|device| DeviceAnalysis::new(snapshot, device, &settings, stacks)).collect()
    };
    let (devices, done) = parallel::both(interpret, || meanwhile(&reconstructions));
    let driver = snapshot.extra(Snapshot::DRIVER).map(Recording::from_json).and_then(|read| {
        let warn = |problem: Problem| {
            let parts = std::iter::once(problem.what()).chain(problem.causes().iter().map(String::as_str));
            let text = parts.chain(problem.what_to_do()).collect::<Vec<_>>().join(": ");
            warnings.add("bad-driver-recording", text, Place::default());
        };
        read.map_err(warn).ok()
    });
    (Analysis { snapshot, devices, sites, driver, warnings }, done)
}
