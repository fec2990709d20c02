//! Under which version's rules a recording is replayed: a snapshot does not record its version.

use highwater_allocator::{Settings, TorchVersion};
use highwater_analysis::Reconstruction;
use highwater_analysis::recorded_settings::recorded_settings;
use highwater_analysis::torch_version::torch_version;
use highwater_snapshot::Snapshot;

use super::recording::{Replay, replay, watched_replay};
use crate::progress::Watch;

/// A version, and the replays under its rules.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The version.
    pub torch: TorchVersion,
    /// What it was chosen by.
    pub by: ChosenBy,
    /// The recorded settings as this version reads them.
    pub settings: Settings,
    /// The replay of each device, in the order given.
    pub replays: Vec<Replay>,
}

/// Why a version was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenBy {
    /// It was asked for.
    Request,
    /// The file's keys tell it, or it is the newest that they leave open, all of the same rules or with nothing to replay.
    Keys,
    /// Of the versions that the keys leave open, its replay agrees most; it is the newest of equals.
    Replay,
}

impl ChosenBy {
    /// The word of the JSON documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "flag",
            Self::Keys => "file",
            Self::Replay => "replay",
        }
    }
}

impl Choice {
    /// The version that was asked for.
    pub fn asked(snapshot: &Snapshot, devices: &[&Reconstruction<'_>], torch: TorchVersion) -> Self {
        let settings = recorded_settings(snapshot, torch);
        let replays = devices.iter().map(|device| replay(snapshot, device, &settings)).collect();
        Self { torch, by: ChosenBy::Request, settings, replays }
    }

    /// Entries that are equal, over all devices.
    fn equal(&self) -> u64 {
        self.replays.iter().map(|replay| replay.fidelity.equal).sum()
    }

    fn is_exact(&self) -> bool {
        self.replays.iter().all(|replay| replay.fidelity.is_exact())
    }
}

/// The version that the file's own keys show, else the one whose replay agrees most, the newest of equals.
///
/// Replays every device once for each kind of rules that the keys leave open, from the newest on, until one agrees
/// entirely.
///
/// Ends early if the watch is stopped; the choice is then none to go by.
pub fn choose(snapshot: &Snapshot, devices: &[&Reconstruction<'_>], watch: &Watch) -> Choice {
    let mut kinds: Vec<(TorchVersion, Settings)> = Vec::new();
    for torch in candidates(snapshot) {
        let settings = recorded_settings(snapshot, torch);
        if !kinds.iter().any(|(_, known)| known.decides_like(&settings)) {
            kinds.push((torch, settings));
        }
    }
    if devices.iter().all(|device| device.entries.is_empty()) {
        kinds.truncate(1);
    }
    let by = if kinds.len() > 1 { ChosenBy::Replay } else { ChosenBy::Keys };
    let mut best: Option<Choice> = None;
    for (torch, settings) in kinds {
        let replays = devices.iter().map(|device| watched_replay(snapshot, device, &settings, watch)).collect();
        let choice = Choice { torch, by, settings, replays };
        if best.as_ref().is_none_or(|best| choice.equal() > best.equal()) {
            let is_exact = choice.is_exact();
            best = Some(choice);
            if is_exact || watch.is_stopped() {
                break;
            }
        }
    }
    best.expect("there is a candidate")
}

/// The versions that write such a file, the newest first, as far as their rules are known; at least one.
fn candidates(snapshot: &Snapshot) -> Vec<TorchVersion> {
    let span = torch_version(snapshot);
    // Versions older than the oldest whose rules are known are replayed under its rules.
    let known = |version: &str| version.parse().unwrap_or(TorchVersion::OLDEST);
    let (oldest, newest) = (known(span.at_least), span.at_most.map_or(TorchVersion::NEWEST, known));
    let versions: Vec<_> = TorchVersion::all().rev().filter(|version| (oldest..=newest).contains(version)).collect();
    if versions.is_empty() { vec![TorchVersion::NEWEST] } else { versions }
}
