//! Writes the schemas and the page of formats into the repository.

use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::create_dir_all(root.join("schemas"))?;
    highwater_schemas::files().iter().try_for_each(|(path, text)| fs::write(root.join(path), text))
}
