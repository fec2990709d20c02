//! Which PyTorch wrote a snapshot, as far as the file tells: it does not record its version.

use highwater_snapshot::{Action, Layout, PoolId, Snapshot, StringId};

/// A span of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TorchVersion {
    /// The lowest version that writes such a file.
    pub at_least: &'static str,
    /// The highest one, where a newer one would have written more.
    pub at_most: Option<&'static str>,
}

impl TorchVersion {
    /// The versions of the span whose allocator is known, the newest first; the nearest one where there is none.
    pub fn rules(&self) -> Vec<highwater_allocator::TorchVersion> {
        use highwater_allocator::TorchVersion as Known;
        let oldest = self.at_least.parse().unwrap_or(Known::OLDEST);
        let newest = self.at_most.map_or(Known::NEWEST, |version| version.parse().unwrap_or(Known::OLDEST));
        let mut span: Vec<Known> =
            (0..=u16::MAX).map(Known::v2).take_while(|&v| v <= newest).filter(|&v| v >= oldest).collect();
        span.reverse();
        span
    }

    /// Whether the file tells one version.
    pub fn is_known(&self) -> bool {
        self.at_most == Some(self.at_least)
    }
}

impl std::fmt::Display for TorchVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at_most {
            Some(version) if version == self.at_least => f.write_str(version),
            Some(version) => write!(f, "{} to {version}", self.at_least),
            None => write!(f, "{} or newer", self.at_least),
        }
    }
}

/// The span of versions whose keys the file has.
///
/// # Source
/// `spec/snapshot-format.md` section 11.
pub fn torch_version(snapshot: &Snapshot) -> TorchVersion {
    let span = |at_least, at_most| TorchVersion { at_least, at_most };
    let entries = || snapshot.traces.iter().filter(|trace| !trace.is_empty());
    if snapshot.layout == Layout::SegmentList {
        return span("1.4", None);
    }
    let has_setting = |key| snapshot.settings.get(key).is_some();
    let has_extra = |key: &str| {
        snapshot
            .strings
            .find(key)
            .is_some_and(|id| entries().any(|trace| trace.extras.iter().any(|&(_, (k, _))| k == id)))
    };
    if has_extra("internal_metadata") {
        return span("2.15", None);
    }
    if snapshot.host.is_some() || entries().any(|trace| trace.actions().contains(&Action::ANNOTATE)) {
        return span("2.14", None);
    }
    if has_setting("max_round_threshold") {
        return span("2.13", None);
    }
    if entries().any(|trace| trace.pools().constant() != Some(PoolId::MISSING)) {
        return span("2.12", Some("2.12"));
    }
    if entries().any(|trace| trace.user_metadata().constant() != Some(StringId::MISSING)) {
        return span("2.10", Some("2.11"));
    }
    if has_setting("graph_capture_record_stream_reuse") {
        return span("2.9", Some(if entries().next().is_some() { "2.9" } else { "2.12" }));
    }
    if !snapshot.settings.entries.is_empty() {
        return span("2.3", Some("2.8"));
    }
    if entries().any(highwater_snapshot::EntryTable::has_times) {
        return span("2.2", Some("2.2"));
    }
    span("2.0", if entries().next().is_some() { Some("2.1") } else { None })
}
