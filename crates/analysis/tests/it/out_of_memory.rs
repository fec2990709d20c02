//! What was live when memory ran out, at each place of a program's life, against what it really was.

use std::collections::BTreeMap;

use highwater_analysis::analyse;
use highwater_analysis::category::Category;
use highwater_testkit::{json_gz, open, testdata};

const PLACES: [&str; 8] =
    ["loading", "first_forward", "later_forward", "backward", "first_step", "later_step", "evaluation", "generation"];

/// The lists of a truth, those that are asked about.
const LISTS: [(&str, Category); 4] = [
    ("parameter", Category::Parameter),
    ("gradient", Category::Gradient),
    ("optimizer_state", Category::OptimizerState),
    ("cache", Category::Cache),
];

/// Bytes that were live at the error by what they were (`None`: in no list) and by what they were taken for.
fn confusion(place: &str, form: &str) -> BTreeMap<(Option<Category>, Category), u64> {
    let truth = json_gz(&testdata(format!("oom/places/{place}.truth.json.gz")));
    let mut was = BTreeMap::new();
    for (list, category) in LISTS {
        let addresses = truth["truth"][list].as_array().expect("a list").iter();
        was.extend(addresses.map(|address| (address.as_u64().expect("an address"), category)));
    }
    let snapshot = open(&format!("oom/places/{place}{form}"));
    let analysis = analyse(&snapshot);
    let [device] = &analysis.devices[..] else { panic!("{place}: one device") };
    let failure = device.oom.first().expect("a request failed");
    let mut found = BTreeMap::new();
    for (row, bytes) in device.counted_rows(Some(failure.entry), &snapshot) {
        let was = was.get(&device.lifetimes.rows[row].address).copied();
        *found.entry((was, device.decided(row).category)).or_default() += bytes;
    }
    found
}

#[test]
fn wherever_memory_runs_out_blocks_are_taken_for_what_they_were() {
    for place in PLACES {
        for form in ["", ".at_oom"] {
            let found = confusion(place, form);
            for (_, category) in LISTS {
                let sum = |holds: &dyn Fn(Option<Category>, Category) -> bool| -> u64 {
                    found.iter().filter(|&(&(was, taken), _)| holds(was, taken)).map(|(_, &bytes)| bytes).sum()
                };
                let was = sum(&|was, _| was == Some(category));
                let right = sum(&|was, taken| was == Some(category) && taken == category);
                let taken = sum(&|_, taken| taken == category);
                // Of a cache only what later calls made is told from what a forward pass keeps.
                let least = if category == Category::Cache { 45 } else { 95 };
                assert!(
                    right >= was / 100 * least,
                    "{place}{form}: {right} of {was} of {category:?} are told: {found:#?}"
                );
                assert!(
                    taken - right <= taken.max(was) / 20,
                    "{place}{form}: {taken} are taken for {category:?}: {found:#?}"
                );
            }
        }
    }
}
