//! The fast answers against slow and simple ones, on random traces: whole, wrapped, and contradicting themselves.

use std::collections::BTreeMap;

use highwater_analysis::analyse;
use highwater_analysis::lifetime::Lifetime;
use highwater_snapshot::{Action, EntryId, EntryTable};
use highwater_testkit::entry;
use highwater_testkit::made::{SLOT, State, requests, simulate, snapshot};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn totals_lifetimes_and_the_state_before_equal_a_replay(requests in requests(), share in 0.0..1.0_f64) {
        let (entries, states) = simulate(&requests);
        prop_assume!(!entries.is_empty());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "small")]
        let skip = (share * entries.len() as f64) as usize;
        let before = if skip == 0 { State::default() } else { states[skip - 1].clone() };
        let kept = &states[skip..];
        let snapshot = snapshot(&entries, skip, states.last().unwrap());
        let analysis = analyse(&snapshot);
        let Some(device) = analysis.devices.first() else {
            prop_assert!(kept.is_empty() && before.segments.is_empty());
            return Ok(());
        };
        // The simple allocator cuts memory into slots, PyTorch's to size.
        prop_assert!(analysis.warnings.iter().all(|warning| warning.id == "block-sizes"), "{:?}", analysis.warnings);

        // Before the first entry.
        prop_assert_eq!(device.timeline.start().requested_bytes, before.requested_bytes());
        prop_assert_eq!(device.timeline.start().reserved_bytes, before.reserved_bytes());
        let runs: BTreeMap<u64, u64> = device.segments_before.iter().map(|run| (run.address, run.bytes / SLOT)).collect();
        prop_assert_eq!(&runs, &before.segments);
        let live: BTreeMap<u64, (u64, bool)> = device
            .live(None)
            .map(|l| (l.address, (l.requested_bytes, l.awaits_free_at_start())))
            .collect();
        prop_assert_eq!(&live, &before.blocks);
        prop_assert_eq!(device.recorded.from_start, before == State::default());

        // After each entry.
        for (row, state) in kept.iter().enumerate() {
            let id = EntryId::from_index(row);
            let totals = device.timeline.after(id);
            prop_assert_eq!(totals.requested_bytes, state.requested_bytes());
            prop_assert_eq!(totals.reserved_bytes, state.reserved_bytes());
            let live: BTreeMap<u64, (u64, bool)> =
                device.live(Some(id)).map(|l| (l.address, (l.requested_bytes, l.awaits_free_after(id)))).collect();
            prop_assert_eq!(&live, &state.blocks);
        }
        let walked: Vec<_> = device.timeline.iter(0..kept.len()).map(|(_, totals)| totals.requested_bytes).collect();
        let want: Vec<_> = kept.iter().map(State::requested_bytes).collect();
        prop_assert_eq!(&walked, &want);

        // The peaks.
        let highest = want.iter().copied().chain([before.requested_bytes()]).max().unwrap();
        prop_assert_eq!(device.timeline.requested_peak().bytes, highest);
        let reserved = kept.iter().map(State::reserved_bytes).chain([before.reserved_bytes()]).max().unwrap();
        prop_assert_eq!(device.timeline.reserved_peak().bytes, reserved);
        if let Some(entry) = device.timeline.requested_peak().entry {
            prop_assert_eq!(want.iter().position(|&bytes| bytes == highest), Some(entry.index()));
        }
        let envelope = device.timeline.envelope(7);
        prop_assert_eq!(envelope.iter().map(|t| t.requested_bytes).max(), want.iter().copied().max());
    }

    /// Any entries over any segments: the totals are those of the lifetimes, and nothing panics.
    #[test]
    fn contradictions_are_warnings(rows in prop::collection::vec((0..9_u8, 0..6_u64, 0..3_u64), 0..200)) {
        let names = Action::NAMES;
        let mut entries = EntryTable::default();
        for &(action, address, size) in &rows {
            let action = Action::from_name(names[usize::from(action)]).unwrap();
            entries.push(entry(action, address * SLOT, size * 512));
        }
        let state = State {
            segments: BTreeMap::from([(0, 3)]),
            blocks: BTreeMap::from([(0, (700, false)), (SLOT, (512, true))]),
        };
        let snapshot = snapshot(&entries, 0, &state);
        let analysis = analyse(&snapshot);
        let device = &analysis.devices[0];
        for id in entries.ids() {
            let (after, size) = (Some(id), |l: &Lifetime| device.blocks().of(l, &snapshot));
            let totals = device.timeline.after(id);
            prop_assert_eq!(totals.requested_bytes, device.live(after).map(|l| l.requested_bytes).sum::<u64>());
            prop_assert_eq!(totals.active_bytes, device.live(after).map(size).sum::<u64>());
            let owned = device.live(after).filter(|l| !l.awaits_free(after));
            prop_assert_eq!(totals.allocated_bytes, owned.map(size).sum::<u64>());
        }
    }
}
