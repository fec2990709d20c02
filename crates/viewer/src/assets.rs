//! What was built from `ui/`.

/// The page.
pub(crate) const INDEX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/index.html"));
/// The program of the page.
pub(crate) const APP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/app.js"));
/// The program that makes its pictures.
pub(crate) const WORKER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/worker.js"));
/// Its style.
pub(crate) const STYLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/app.css"));

/// Whether the page was built before the program was; if not, a page says how to build it.
pub fn is_built() -> bool {
    env!("HIGHWATER_UI_IS_BUILT") == "yes"
}
