//! The colours of categories, for the page.

use std::fmt::Write as _;

use highwater_documents::CATEGORY_COLOURS;

/// The table in TypeScript.
pub fn table() -> String {
    let mut out = "\
/** Made by `make schemas` of crates/documents/src/colours.rs: change that. */

/** The colour of each category, the same in the terminal. */
export const CATEGORY_COLOURS = {
"
    .to_owned();
    for (name, [red, green, blue]) in CATEGORY_COLOURS {
        // Writing to a string does not fail.
        let _ = writeln!(out, "  {name}: '#{red:02x}{green:02x}{blue:02x}',");
    }
    out + "} as const;\n"
}
