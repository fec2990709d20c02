//! Where in the viewer something is seen.

use highwater_findings::Finding;
use serde::Serialize;

use crate::report::{DeviceView, GrowthView, IterationView};

/// A place of the viewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ViewerPlaceView {
    /// The words on the button that leads there.
    pub words: &'static str,
    /// The view: `timeline`, `state`, `segments`, `stacks` or `what-if`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["timeline", "state", "segments", "stacks", "what-if"])))]
    pub view: &'static str,
    /// The entry to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u32>,
    /// The entries to select.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionView>,
    /// The words to search for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The allocator settings to ask the simulator about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conf: Option<String>,
}

/// A range of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SelectionView {
    /// The first entry.
    pub from: usize,
    /// The entry after the last.
    pub to: usize,
}

impl ViewerPlaceView {
    fn new(words: &'static str, view: &'static str) -> Self {
        Self { words, view, cursor: None, selection: None, query: None, conf: None }
    }

    fn at(self, entry: u32) -> Self {
        Self { cursor: Some(entry), ..self }
    }
}

/// The places of a finding.
pub(crate) fn of_finding(finding: &Finding, device: &DeviceView<'_>) -> Vec<ViewerPlaceView> {
    let place = ViewerPlaceView::new;
    match finding.id {
        "oom" => device.oom.first().map(|first| of_error(first.entry)).unwrap_or_default(),
        "growth" => device.growth_places.clone(),
        "allocator-settings" => {
            vec![ViewerPlaceView { conf: finding.conf.clone(), ..place("try these settings", "what-if") }]
        }
        "varying-shapes" | "reserved-unused" => match device.peak.reserved_entry {
            Some(entry) => vec![
                place("segments over time", "segments").at(entry),
                place("state at the reserved peak", "state").at(entry),
            ],
            None => vec![place("segments over time", "segments")],
        },
        "awaiting-free" => device
            .peak
            .active_entry
            .map(|entry| place("state at the active peak", "state").at(entry))
            .into_iter()
            .collect(),
        "truncated" | "late-recording" => {
            let before = place("memory allocated before the recording", "timeline").at(0);
            vec![ViewerPlaceView { query: Some("before".to_owned()), ..before }]
        }
        "no-stacks" | "private-pools" | "empty-cache" => Vec::new(),
        _ => device.at_peak.entry.map(|entry| place("state at the peak", "state").at(entry)).into_iter().collect(),
    }
}

/// The places of an out-of-memory error: its entry, and the state that it met.
pub(crate) fn of_error(entry: u32) -> Vec<ViewerPlaceView> {
    let place = ViewerPlaceView::new;
    vec![place("in the timeline", "timeline").at(entry), place("state at the error", "state").at(entry)]
}

/// The places of memory that iterations leave behind: those that count, with a search for the first call site.
pub(crate) fn of_growth(
    first: Option<&GrowthView<'_>>,
    counted: Option<[usize; 2]>,
    iterations: &[IterationView],
) -> Vec<ViewerPlaceView> {
    let (Some(first), Some([from, to])) = (first, counted) else { return Vec::new() };
    let range = SelectionView { from: iterations[from].start_entry, to: iterations[to].end_entry + 1 };
    let selected = |words, view| ViewerPlaceView { selection: Some(range), ..ViewerPlaceView::new(words, view) };
    let timeline = selected("the memory it leaves behind, in the timeline", "timeline");
    vec![ViewerPlaceView { query: query(first), ..timeline }, selected("stacks of the memory that is kept", "stacks")]
}

/// A search for a call site.
fn query(site: &GrowthView<'_>) -> Option<String> {
    if let Some(label) = site.label {
        return Some(format!("\"{label}\""));
    }
    let frame = site.frames.first()?;
    Some(if frame.line > 0 { format!("\"{}:{}\"", frame.filename, frame.line) } else { format!("\"{}\"", frame.name) })
}

#[cfg(test)]
mod tests {
    use highwater_snapshot::Snapshot;

    use super::*;

    fn places(recording: &str) -> Vec<(&'static str, Vec<ViewerPlaceView>)> {
        let path = format!("{}/../../testdata/recordings/{recording}", env!("CARGO_MANIFEST_DIR"));
        let snapshot = Snapshot::open(&path).unwrap();
        let analysis = highwater_analysis::analyse(&snapshot);
        let report = crate::report(&analysis);
        let device = &report.devices[0];
        assert_eq!(device.growth.is_empty(), device.growth_places.is_empty());
        device.findings.iter().map(|finding| (finding.id, finding.places.clone())).collect()
    }

    #[test]
    fn an_error_is_seen_at_its_entry_and_in_the_state_that_it_met() {
        let all = places("oom_gpt2_8gib.pickle.gz");
        let (_, of_error) = all.iter().find(|(id, _)| *id == "oom").unwrap();
        let [timeline, state] = &of_error[..] else { panic!("{of_error:?}") };
        assert_eq!((timeline.view, state.view), ("timeline", "state"));
        assert!(timeline.cursor.is_some() && timeline.cursor == state.cursor);
    }

    #[test]
    fn settings_are_tried_as_the_finding_recommends_them() {
        let all = places("annotated.pickle.gz");
        let (_, of_settings) = all.iter().find(|(id, _)| *id == "allocator-settings").unwrap();
        let [try_them] = &of_settings[..] else { panic!("{of_settings:?}") };
        assert_eq!((try_them.view, try_them.conf.as_deref()), ("what-if", Some("expandable_segments:True")));
    }

    #[test]
    fn growth_is_seen_over_the_iterations_that_count() {
        let frames = vec![crate::FrameView { name: "f", filename: "a b.py", line: 3 }];
        let site = GrowthView {
            bytes_per_iteration: 1,
            bytes: 2,
            count: 2,
            iterations: 2,
            counted: 2,
            label: None,
            at: crate::PlaceView::default(),
            frames,
        };
        let iterations: Vec<_> = (0..5).map(|row| IterationView::spanning(row * 10, row * 10 + 9)).collect();
        let all = of_growth(Some(&site), Some([1, 3]), &iterations);
        assert_eq!(all[0].selection, Some(SelectionView { from: 10, to: 40 }));
        assert_eq!(all[0].query.as_deref(), Some("\"a b.py:3\""));
        assert_eq!(all[1].query, None);
        assert!(of_growth(None, Some([1, 3]), &iterations).is_empty());
        assert!(of_growth(Some(&site), None, &iterations).is_empty());
    }
}
