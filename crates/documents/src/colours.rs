//! The colours of categories: one table for the terminal, the page and the calculator.

/// Each category's word, with red, green and blue from 0 to 255.
///
/// The hues are those of PyTorch's memory profiler, where it has the category. `make schemas` writes the page's copy of this table.
pub const CATEGORY_COLOURS: [(&str, [u8; 3]); 9] = [
    ("parameter", [0x44, 0xaa, 0x77]),
    ("gradient", [0x44, 0x77, 0xaa]),
    ("optimizer_state", [0xdd, 0xbb, 0x44]),
    ("activation", [0xe0, 0x69, 0x5e]),
    ("cache", [0x22, 0x88, 0x77]),
    ("input", [0xbb, 0x88, 0x55]),
    ("temporary", [0xaa, 0x66, 0xbb]),
    ("workspace", [0x77, 0xbb, 0xdd]),
    UNKNOWN,
];

const UNKNOWN: (&str, [u8; 3]) = ("unknown", [0x98, 0xa1, 0xac]);

/// The colour of a category: red, green and blue from 0 to 255. A word that is none has that of `unknown`.
pub fn category_colour(name: &str) -> [u8; 3] {
    CATEGORY_COLOURS.iter().find(|(known, _)| *known == name).map_or(UNKNOWN.1, |(_, colour)| *colour)
}
