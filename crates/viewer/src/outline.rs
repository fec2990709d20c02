//! The part of a file that stays when its columns go: the rows of the views that show all files at once.

use axum::body::Bytes;
use highwater_analysis::Analysis;
use highwater_documents::columns;
use highwater_ranks::{Digest, digest};

use crate::reader::json;

/// Parts of the small picture of a file: `PARTS` in `ui/src/views/ranks/tile.tsx`.
const TILE_PARTS: usize = 300;

/// Some kilobytes about a file.
#[derive(Debug)]
pub(crate) struct Outline {
    /// JSON: the curves in no parts.
    peaks: Bytes,
    /// JSON: the curves in [`TILE_PARTS`].
    tile: Bytes,
    /// JSON: the row of each device in a heat map of many ranks.
    pub(crate) heat: Bytes,
    /// The file in a comparison of ranks.
    pub(crate) digest: Digest,
}

impl Outline {
    pub(crate) fn of(name: &str, analysis: &Analysis<'_>) -> Self {
        Self {
            peaks: json(&columns::curves(analysis, 0)),
            tile: json(&columns::curves(analysis, TILE_PARTS)),
            heat: json(&columns::heat(analysis)),
            digest: digest(name, analysis),
        }
    }

    /// Whether it has the curves in so many parts.
    pub(crate) fn has_curves(parts: usize) -> bool {
        [0, TILE_PARTS].contains(&parts)
    }

    /// The curves in some of the parts that it has, as JSON.
    pub(crate) fn curves(&self, parts: usize) -> Bytes {
        if parts == 0 { self.peaks.clone() } else { self.tile.clone() }
    }
}
