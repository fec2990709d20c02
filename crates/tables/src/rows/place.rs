//! Call sites in words, each made once: millions of rows share few of them.

use highwater_analysis::Analysis;
use highwater_analysis::callsite::Site;
use highwater_analysis::place::place_and_caller;
use highwater_snapshot::StackId;
use rustc_hash::FxHashMap;

/// A call site, and the program's own line that it was called from, where that is another.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) call_site: String,
    pub(super) called_from: Option<String>,
}

/// The words of the sites that were met.
pub(super) struct Places<'a> {
    analysis: &'a Analysis<'a>,
    rows: FxHashMap<(Site, StackId), usize>,
    words: Vec<Words>,
}

impl<'a> Places<'a> {
    pub(super) fn new(analysis: &'a Analysis<'a>) -> Self {
        Self { analysis, rows: FxHashMap::default(), words: Vec::new() }
    }

    /// Of a site, and the stack that it stands for.
    pub(super) fn of(&mut self, site: Site, stack: StackId) -> &Words {
        let row = *self.rows.entry((site, stack)).or_insert_with(|| {
            let (call_site, called_from) = place_and_caller(self.analysis.snapshot, &self.analysis.sites, site, stack);
            self.words.push(Words { call_site, called_from });
            self.words.len() - 1
        });
        &self.words[row]
    }
}
