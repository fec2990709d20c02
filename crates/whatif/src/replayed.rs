//! A recorded device with its program, taken out once for many questions.

use highwater_allocator::TorchVersion;
use highwater_analysis::Reconstruction;
use highwater_analysis::recorded_settings::recorded_settings;
use highwater_snapshot::Snapshot;

use crate::progress::Watch;
use crate::replay::{Choice, ChosenBy, choose};
use crate::study::Study;

/// A study, ready to be asked: the program under the rules that explain the recording best.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The program.
    pub study: Study,
    /// The version whose rules explain the recording.
    pub rules: TorchVersion,
    /// How the version was chosen.
    pub chosen_by: ChosenBy,
}

impl Replayed {
    /// Replays a device. The program is taken out under the rules that explain the recording best, whosever rules the runs
    /// are under: those of `torch` if one is given.
    pub fn new(snapshot: &Snapshot, device: &Reconstruction<'_>, torch: Option<TorchVersion>) -> Self {
        Self::watched(snapshot, device, torch, &Watch::default())
    }

    /// The same, with somebody who watches the replay and the runs to come. If the watch is stopped, it holds less than
    /// the recording.
    pub fn watched(
        snapshot: &Snapshot,
        device: &Reconstruction<'_>,
        torch: Option<TorchVersion>,
        watch: &Watch,
    ) -> Self {
        let Choice { torch: replayed, by, mut replays, .. } = choose(snapshot, &[device], watch);
        let (torch, by) = torch.map_or((replayed, by), |torch| (torch, ChosenBy::Request));
        let replay = replays.pop().expect("each device has a replay");
        let study = Study::of_replay(snapshot, device, torch, recorded_settings(snapshot, torch), replay);
        Self { study, rules: replayed, chosen_by: by }
    }
}
