//! What was built from `ui/`.

/// The page.
pub(crate) const INDEX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/index.html"));
/// The program of the page.
pub(crate) const APP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/app.js"));
/// The program that makes its pictures.
pub(crate) const WORKER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/worker.js"));
/// Its style.
pub(crate) const STYLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/app.css"));

/// The calculator of `highwater estimate --web`, all of it in one file.
pub(crate) const CALCULATOR: &str = include_str!(concat!(env!("OUT_DIR"), "/calculator.html"));

/// Whether the page was built before the program was; if not, a page says how to build it.
pub fn is_built() -> bool {
    env!("HIGHWATER_UI_IS_BUILT") == "yes"
}

/// Whether the calculator was built before the program was; if not, a page says how to build it.
pub fn calculator_is_built() -> bool {
    env!("HIGHWATER_CALCULATOR_IS_BUILT") == "yes"
}
