//! The settings of a recording.

use highwater_allocator::{Settings, TorchVersion};
use highwater_snapshot::{Setting, Snapshot};

/// The settings that a snapshot was recorded under, as far as it tells, for the rules of a version.
///
/// The last string that was given to the parser, and over it what the file records as values: they differ if the
/// string was given by another route, or its parsing failed.
///
/// # Source
/// `spec/snapshot-format.md` section 8.
pub fn recorded_settings(snapshot: &Snapshot, torch: TorchVersion) -> Settings {
    let recorded = &snapshot.settings;
    let mut settings = Settings::new(torch);
    if let Some(conf) = recorded.conf() {
        // A string that this version refuses leaves the defaults, as it did in the recorded program.
        let _ = settings.parse(conf);
    }
    if let Some(Setting::Int(_)) = recorded.get("max_split_size") {
        settings.max_split_bytes = recorded.max_split_bytes().unwrap_or(highwater_allocator::settings::UNLIMITED);
    }
    if let Some(threshold) = recorded.garbage_collection_threshold() {
        settings.garbage_collection_threshold = threshold;
    }
    if let Some(on) = recorded.expandable_segments() {
        settings.expandable_segments = on;
    }
    if let Some(Setting::Table(rows)) = recorded.get("roundup_power2_divisions") {
        for (interval, divisions) in rows {
            let (Ok(interval), Setting::Int(divisions)) = (interval.parse::<u64>(), divisions) else {
                continue;
            };
            let entry = interval.checked_ilog2().map_or(0, |log| log.min(15) as usize);
            settings.roundup_power2_divisions[entry] = u64::try_from(*divisions).unwrap_or(0);
        }
    }
    settings
}
