//! The page that needs no server: the viewer, and its data packed into one file.
//!
//! Everything from the snapshot is base64 of gzip, so nothing of it can be markup, whatever it says.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::{Analysis, parallel};
use highwater_documents::answer::{self, Question};
use highwater_documents::columns::{self, Columns, Encoding, Kind, Section, SectionInfo, WhatIf, columns};
use highwater_documents::{explain, report};
use highwater_units::count;
use highwater_whatif::{Replayed, Watch, replayable};
use sha2::{Digest as _, Sha256};

use crate::assets;

/// What goes into the page.
#[derive(Clone, Debug, Default)]
pub struct PageOptions {
    /// Leave out lifetimes smaller than this.
    pub least_bytes: Option<u64>,
    /// Answer the usual questions of the simulator in it; `None` where that is quick.
    pub what_if: Option<bool>,
    /// The place that it opens on, as the text after `#` in the viewer's address; empty for the beginning.
    pub place: String,
}

/// Entries up to which the simulator answers in some seconds.
const QUICK_ENTRIES: usize = 300_000;

/// Rows by which the encoding of a column is chosen.
const SAMPLE_ROWS: usize = 1 << 16;

/// Unpacks the programs, and lets them run: the worker's address is where the page looks for it.
const BOOTSTRAP: &str = "(async () => {
const unpack = async id => {
  const text = document.getElementById(id).textContent;
  let at = 0;
  const pieces = new ReadableStream({pull(out) {
    if (at >= text.length) return out.close();
    out.enqueue(Uint8Array.from(atob(text.slice(at, at += 1 << 20)), c => c.charCodeAt(0)));
  }});
  const bytes = await new Response(pieces.pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
  return URL.createObjectURL(new Blob([bytes], {type: 'text/javascript'}));
};
try {
  const [app, worker] = await Promise.all([unpack('app.js'), unpack('worker.js')]);
  globalThis.__highwaterWorkerUrl = worker;
  const script = document.createElement('script');
  script.src = app;
  script.onerror = () => document.body.append('The program of this page is blocked here, perhaps by a notebook. Open the snapshot with \
`highwater view`, or save it with `highwater export --to html` and open that file in a browser.');
  document.body.append(script);
} catch (error) {
  document.body.append(`This page cannot unpack itself (${error}). Was the file cut, or is the browser older than 2023?`);
}
})();
";

/// What the page may load: only what is in it.
fn content_security_policy() -> String {
    let bootstrap = STANDARD.encode(Sha256::digest(BOOTSTRAP.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{bootstrap}' blob:; worker-src blob:; style-src 'unsafe-inline'; \
         img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
}

/// Writes the page of a snapshot. If the watch is stopped while the simulator answers, the page holds part of its answer.
///
/// # Errors
/// Those of `out`.
pub fn write_page(
    out: &mut impl Write,
    analysis: &Analysis<'_>,
    name: &str,
    options: &PageOptions,
    watch: &Watch,
) -> io::Result<()> {
    let Columns { mut manifest, sections } =
        columns(analysis, name, &columns::Options { least_bytes: options.least_bytes });
    let mut packed = packed_columns(&sections);
    for (name, pack) in &packed {
        if let Some(info) = manifest.info_mut(name) {
            info.encoding = pack.encoding;
        }
    }
    packed.retain(|(_, pack)| !pack.bytes.is_empty());
    let replayed = replayed(analysis, options.what_if, watch);
    match what_if(analysis, replayed.as_ref()) {
        Ok(answer) => {
            manifest.what_if = WhatIf::Precomputed;
            manifest.sections.insert("what_if".to_owned(), SectionInfo::JSON);
            packed.push(("what_if".to_owned(), Packed::text(&answer)?));
        }
        Err(reason) => {
            manifest.what_if = WhatIf::LeftOut;
            manifest.what_if_reason = Some(reason);
        }
    }
    // Without the simulator, the numbers of the error alone tell.
    let of_device = |device: &DeviceAnalysis<'_>| {
        replayed.as_ref().ok().filter(|(number, _)| *number == device.device).map(|(_, replayed)| replayed)
    };
    if let Some(explained) = explain(analysis, of_device) {
        packed.push(("explain".to_owned(), Packed::text(&json(&explained)?)?));
    }
    packed.push(("report".to_owned(), Packed::text(&json(&report(analysis))?)?));
    packed.push(("frames".to_owned(), Packed::text(&json(&columns::frames(analysis))?)?));

    let [head, tail] = skeleton();
    out.write_all(head.as_bytes())?;
    if !options.place.is_empty() {
        // Not gzipped, for the page needs it before anything else.
        write_packed(out, "place", options.place.as_bytes())?;
    }
    write_packed(out, "manifest", &gzip(&json(&manifest)?)?)?;
    for (name, pack) in &packed {
        write_packed(out, &format!("section:{name}"), &pack.bytes)?;
    }
    write_packed(out, "app.js", &gzip(assets::APP)?)?;
    write_packed(out, "worker.js", &gzip(assets::WORKER)?)?;
    write!(out, "<script>{BOOTSTRAP}</script>")?;
    out.write_all(tail.as_bytes())
}

/// The page as it was built, with its style in it, cut where its program is loaded: there the data come in.
fn skeleton() -> [String; 2] {
    let index = String::from_utf8_lossy(assets::INDEX);
    let policy = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">", content_security_policy());
    let style = String::from_utf8_lossy(assets::STYLE);
    let (mut head, mut tail) = match around(&index, "<script", "app.js", "</script>") {
        Some((head, tail)) => (head.to_owned(), tail.to_owned()),
        None => (index.into_owned(), String::new()),
    };
    if let Some((before, after)) = around(&head, "<link", "app.css", ">") {
        head = format!("{before}<style>{style}</style>{after}");
    }
    // Before anything that it rules.
    match head.split_once("<head>") {
        Some((before, after)) => head = format!("{before}<head>\n{policy}{after}"),
        None => head.push_str(&policy),
    }
    if !tail.ends_with('\n') {
        tail.push('\n');
    }
    [head, tail]
}

/// What stands before and after the element that names a file.
fn around<'t>(text: &'t str, open: &str, file: &str, close: &str) -> Option<(&'t str, &'t str)> {
    let named = text.find(&format!("\"{file}\"")).or_else(|| text.find(&format!("\"./{file}\"")))?;
    let start = text[..named].rfind(open)?;
    let end = named + text[named..].find(close)? + close.len();
    Some((&text[..start], &text[end..]))
}

fn write_packed(out: &mut impl Write, id: &str, packed: &[u8]) -> io::Result<()> {
    write!(out, "<script type=\"application/x-highwater\" id=\"{id}\">")?;
    // A multiple of three bytes is whole characters of base64.
    for piece in packed.chunks(3 << 16) {
        out.write_all(STANDARD.encode(piece).as_bytes())?;
    }
    out.write_all(b"</script>\n")
}

/// A section, packed.
struct Packed {
    encoding: Encoding,
    bytes: Vec<u8>,
}

impl Packed {
    fn text(text: &[u8]) -> io::Result<Self> {
        Ok(Self { encoding: Encoding::Raw, bytes: gzip(text)? })
    }

    /// A column, in the encoding that is likely to be smallest.
    fn column(name: &str, section: &Section, start: Option<&Section>) -> Self {
        if section.constant.is_some() || section.length == 0 {
            return Self { encoding: Encoding::Raw, bytes: Vec::new() };
        }
        let choices: &[Encoding] = match section.kind {
            Kind::F64 | Kind::Json => &[Encoding::Raw],
            _ if name.ends_with("/end") && start.is_some() => &[Encoding::Length, Encoding::Raw],
            _ => &[Encoding::Delta, Encoding::Varint, Encoding::Raw],
        };
        let encoding = match choices {
            [only] => *only,
            choices => {
                let (sample, start) = (section.sample(SAMPLE_ROWS), start.map(|start| start.sample(SAMPLE_ROWS)));
                let packed_bytes = |encoding: &&Encoding| {
                    gzip(&sample.encoded(**encoding, start.as_ref())).map_or(usize::MAX, |packed| packed.len())
                };
                choices.iter().min_by_key(packed_bytes).copied().unwrap_or(Encoding::Raw)
            }
        };
        // Writing to memory does not fail.
        let bytes = gzip(&section.encoded(encoding, start)).unwrap_or_default();
        Self { encoding, bytes }
    }
}

fn packed_columns(sections: &std::collections::BTreeMap<String, Section>) -> Vec<(String, Packed)> {
    // The longest first, for the others fit beside it.
    let mut order: Vec<(&String, &Section)> = sections.iter().collect();
    order.sort_by_key(|(_, section)| std::cmp::Reverse(section.bytes.len()));
    let mut packed = parallel::map(&order, |&(name, section)| {
        let start = name.strip_suffix("/end").and_then(|device| sections.get(&format!("{device}/start")));
        (name.clone(), Packed::column(name, section, start))
    });
    packed.sort_by(|a, b| a.0.cmp(&b.0));
    packed
}

/// The device that the simulator is asked about, by its number, and its program; or why it is not asked.
fn replayed(analysis: &Analysis<'_>, wanted: Option<bool>, watch: &Watch) -> Result<(u32, Replayed), String> {
    if wanted == Some(false) {
        return Err("the page was made with `--no-what-if`".to_owned());
    }
    let device = replayable(analysis, "the snapshot", None).map_err(|problem| {
        let parts = std::iter::once(problem.what()).chain(problem.causes().iter().map(String::as_str));
        parts.collect::<Vec<_>>().join(": ")
    })?;
    if wanted.is_none() && device.entries.len() > QUICK_ENTRIES {
        return Err(format!(
            "the trace has {} entries, so the simulation would have taken long: `highwater export --to html \
             --what-if` runs it anyway, `highwater view` runs it on demand",
            count(device.entries.len())
        ));
    }
    Ok((device.device, Replayed::watched(analysis.snapshot, device, None, watch)))
}

/// The answers to the usual questions, as JSON; or why there are none.
fn what_if(analysis: &Analysis<'_>, replayed: Result<&(u32, Replayed), &String>) -> Result<Vec<u8>, String> {
    let (number, replayed) = replayed.map_err(String::clone)?;
    let device = analysis.device(*number).ok_or_else(|| format!("there is no device {number}"))?;
    let question = Question { with_timelines: true, ..Question::default() };
    json(&answer::answer(replayed, analysis, device, &question)).map_err(|error| error.to_string())
}

fn json(document: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(document)?)
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::best());
    packer.write_all(bytes)?;
    packer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_cut_out() {
        let page =
            "<head><link rel=\"stylesheet\" href=\"app.css\"></head><body><script src=\"./app.js\"></script>\n</body>";
        assert_eq!(
            around(page, "<link", "app.css", ">"),
            Some(("<head>", "</head><body><script src=\"./app.js\"></script>\n</body>"))
        );
        let (before, after) = around(page, "<script", "app.js", "</script>").expect("it is there");
        assert!(before.ends_with("<body>"));
        assert_eq!(after, "\n</body>");
        assert_eq!(around(page, "<script", "worker.js", "</script>"), None);
    }

    #[test]
    fn the_bootstrap_closes_no_tag() {
        assert!(!BOOTSTRAP.contains("</"));
        assert!(!String::from_utf8_lossy(assets::STYLE).to_ascii_lowercase().contains("</style"));
    }
}
