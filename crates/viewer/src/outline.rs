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
    /// JSON, as are the next two.
    peaks: Bytes,
    tile: Bytes,
    heat: Bytes,
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

    /// A part of it, as JSON.
    pub(crate) fn part(&self, part: Part) -> &Bytes {
        match part {
            Part::Peaks => &self.peaks,
            Part::Tile => &self.tile,
            Part::Heat => &self.heat,
        }
    }
}

/// What a view of all files draws of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The curves in no parts.
    Peaks,
    /// The curves in the parts of a small picture.
    Tile,
    /// The row of each device in a heat map.
    Heat,
}

impl Part {
    /// The part with the curves in so many parts, if there is one.
    pub(crate) fn of_curves(parts: usize) -> Option<Self> {
        match parts {
            0 => Some(Self::Peaks),
            TILE_PARTS => Some(Self::Tile),
            _ => None,
        }
    }
}
