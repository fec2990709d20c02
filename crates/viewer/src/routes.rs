//! What can be asked for. `docs/viewer-data.md` lists it.

use std::ops::Range;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use highwater_answers::what_if::card;
use highwater_documents::ranks::UnreadView;
use highwater_units::parse_size;

use crate::assets;
use crate::calculator::{content_security_policy, write_calculator};
use crate::comparing::Wanted;
use crate::download;
use crate::guard::guard;
use crate::html::PageOptions;
use crate::outline::Part;
use crate::reader::json;
use crate::refusal::Refusal;
use crate::server::Served;
use crate::simulator::WhatIf;
use crate::upload::{self, pipe, too_large};

type Answer = Result<Response, Refusal>;

const JSON: &str = "application/json";
const NUMBERS: &str = "application/octet-stream";

/// Settings or capacities in one question: what a person compares, not what a machine searches through.
const MAX_CHOICES: usize = 32;

/// Parts of a curve: twice the pixels of a wide screen.
const MAX_PARTS: usize = 8192;

/// Stretches of sections in one request: `STRETCHES_MAX` in `ui/src/worker/stretches.ts`.
const MAX_STRETCHES: usize = 256;

/// Longest stretch, in bytes: more is a section's own request.
const MAX_STRETCH_BYTES: usize = 1 << 16;

/// Files in one request: `TOGETHER` in `ui/src/views/ranks/arrivals.ts`.
const MAX_OUTLINES: usize = 128;

/// Longest place in the address of a page: a search and some choices.
const MAX_PLACE_BYTES: usize = 4096;

/// Longest name of a file on the page.
const MAX_NAME_CHARS: usize = 255;

/// Everything, behind the guard.
pub(crate) fn router(served: Arc<Served>) -> Router {
    Router::new()
        .route("/{token}", get(slash))
        .route("/{token}/", get(|| async { page("text/html; charset=utf-8", assets::INDEX) }))
        .route("/{token}/app.js", get(|| async { page("text/javascript; charset=utf-8", assets::APP) }))
        .route("/{token}/worker.js", get(|| async { page("text/javascript; charset=utf-8", assets::WORKER) }))
        .route("/{token}/app.css", get(|| async { page("text/css; charset=utf-8", assets::STYLE) }))
        .route("/{token}/calculator.html", get(calculator))
        .route("/{token}/api/files", get(list).post(drop_file))
        .route("/{token}/api/files/{id}/manifest", get(manifest))
        .route("/{token}/api/files/{id}/sections/{*name}", get(section))
        .route("/{token}/api/files/{id}/stretches", get(stretches))
        .route("/{token}/api/files/{id}/simulate", get(simulate))
        .route("/{token}/api/files/{id}/simulate/progress", get(simulate_progress))
        .route("/{token}/api/files/{id}/curves", get(curves))
        .route("/{token}/api/outlines", get(outlines))
        .route("/{token}/api/ranks", get(ranks))
        .route("/{token}/api/files/{id}/diff", get(diff))
        .route("/{token}/api/files/{id}/diff/stacks", get(diff_stacks))
        .route("/{token}/api/files/{id}/page", get(single_page))
        .fallback(|| async { Refusal::not_found("there is nothing here") })
        .method_not_allowed_fallback(|| async {
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this address does not allow that method")
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&served), guard))
        .with_state(served)
}

/// The page's own addresses are relative: they need the slash.
async fn slash(State(served): State<Arc<Served>>) -> Response {
    let to = format!("/{}/", served.token);
    let to = HeaderValue::from_str(&to).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, to)]).into_response()
}

fn page(kind: &'static str, bytes: &'static [u8]) -> Response {
    answer(kind, Bytes::from_static(bytes))
}

fn answer(kind: &'static str, bytes: impl Into<Body>) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(kind))], bytes.into()).into_response()
}

/// The calculator of `highwater estimate --web`.
async fn calculator(State(served): State<Arc<Served>>) -> Answer {
    let failed = || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the page cannot be made");
    let mut page = Vec::new();
    write_calculator(&mut page, &served.inputs).map_err(|error| failed().because(error))?;
    let policy = HeaderValue::try_from(content_security_policy());
    let policy = policy.unwrap_or(HeaderValue::from_static("default-src 'none'"));
    Ok(([(CONTENT_SECURITY_POLICY, policy)], answer("text/html; charset=utf-8", page)).into_response())
}

async fn list(State(served): State<Arc<Served>>) -> Answer {
    #[derive(serde::Serialize)]
    struct Files<T> {
        files: T,
    }
    let files = serde_json::to_vec(&Files { files: served.shelf.list() });
    let failed = |error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the files cannot be listed").because(error);
    files.map(|files| answer(JSON, files)).map_err(|error: serde_json::Error| failed(error))
}

async fn drop_file(State(served): State<Arc<Served>>, RawQuery(query): RawQuery, request: Request) -> Answer {
    let mut name = None;
    for (key, value) in pairs(query.as_deref()) {
        match key.as_str() {
            "name" if name.is_none() => name = Some(value),
            _ => return Err(unknown(&key, "`name`")),
        }
    }
    let name = name.as_deref().map(short_name).filter(|name| !name.is_empty());
    let name =
        name.ok_or_else(|| Refusal::malformed("a dropped file needs a name").hint("use `api/files?name=run.pickle`"))?;
    let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > upload::MAX_BYTES) {
        return Err(too_large());
    }
    let (feed, incoming) = pipe();
    let id = served.shelf.add_dropped(name, incoming)?;
    feed.all_of(request.into_body()).await?;
    Ok((StatusCode::CREATED, answer(JSON, format!("{{\"id\":{id}}}"))).into_response())
}

/// A name without its directory, as long as one can read.
fn short_name(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    name.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect()
}

async fn manifest(State(served): State<Arc<Served>>, Path((_, id)): Path<(String, String)>) -> Answer {
    let shown = served.shelf.open(&id).await?.1;
    Ok(answer(JSON, shown.manifest.clone()))
}

async fn section(State(served): State<Arc<Served>>, Path((_, id, name)): Path<(String, String, String)>) -> Answer {
    let (file, shown) = served.shelf.open(&id).await?;
    match name.as_str() {
        "report" => shown.report(&file.name).await.map(|report| answer(JSON, report)),
        "explain" => shown.explain(&file.name).await.map(|explained| answer(JSON, explained)),
        "frames" => Ok(answer(JSON, shown.frames.clone())),
        name => {
            let section = shown.sections.get(name).cloned().ok_or_else(|| no_section(name))?;
            Ok(answer(NUMBERS, section))
        }
    }
}

fn no_section(name: &str) -> Refusal {
    Refusal::not_found(format!("there is no section `{name}`"))
}

/// Some bytes of some sections, one after the other: a page that shows one moment needs single numbers of columns that it does not hold.
async fn stretches(
    State(served): State<Arc<Served>>,
    Path((_, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Answer {
    let wanted = wanted_stretches(query.as_deref())?;
    let (_, shown) = served.shelf.open(&id).await?;
    let mut bytes = Vec::new();
    for Stretch { name, bytes: range } in &wanted {
        let section = shown.sections.get(name).ok_or_else(|| no_section(name))?;
        bytes.extend_from_slice(section.get(range.clone()).ok_or_else(|| {
            Refusal::malformed(format!("`{name}` ends before byte {}", range.end))
                .hint(format!("it has {} bytes", section.len()))
        })?);
    }
    Ok(answer(NUMBERS, bytes))
}

/// Bytes of a section.
struct Stretch {
    name: String,
    bytes: Range<usize>,
}

fn wanted_stretches(query: Option<&str>) -> Result<Vec<Stretch>, Refusal> {
    let mut wanted = Vec::new();
    for (key, value) in pairs(query) {
        match key.as_str() {
            "of" => wanted.push(stretch(&value).ok_or_else(|| {
                Refusal::malformed(format!("`of={value}` is not a stretch of a section"))
                    .hint(format!("use `of=0/offset:0-2048`, of at most {MAX_STRETCH_BYTES} bytes"))
            })?),
            _ => return Err(unknown(&key, "`of`")),
        }
    }
    if wanted.len() > MAX_STRETCHES {
        return Err(Refusal::malformed(format!("the request has {} stretches", wanted.len()))
            .hint(format!("request at most {MAX_STRETCHES} at a time")));
    }
    Ok(wanted)
}

/// `NAME:FROM-TO`, without the byte at `TO`.
fn stretch(text: &str) -> Option<Stretch> {
    let (name, range) = text.rsplit_once(':')?;
    let (from, to) = range.split_once('-')?;
    let bytes: Range<usize> = from.parse().ok()?..to.parse().ok()?;
    (bytes.start < bytes.end && bytes.end - bytes.start <= MAX_STRETCH_BYTES)
        .then(|| Stretch { name: name.to_owned(), bytes })
}

/// The parts of a request that are read here, without a server: what `crates/fuzz-targets` holds to. Returns the status that each
/// would be refused with.
#[doc(hidden)]
pub fn read_request(query: &str, stretches: &str) -> [Option<u16>; 2] {
    let status = |problem: Refusal| problem.into_response().status().as_u16();
    assert!(short_name(query).chars().count() <= MAX_NAME_CHARS);
    [question(Some(query)).err().map(status), wanted_stretches(Some(stretches)).err().map(status)]
}

async fn simulate(
    State(served): State<Arc<Served>>,
    Path((_, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Answer {
    let question = question(query.as_deref())?;
    let (file, shown) = served.shelf.open(&id).await?;
    shown.simulate(&file.name, question).await.map(|answered| answer(JSON, answered))
}

/// Totals over time, for small pictures and for several recordings on one axis.
async fn curves(
    State(served): State<Arc<Served>>,
    Path((_, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Answer {
    let file = served.shelf.get(&id)?;
    let mut parts = 1024;
    for (key, value) in pairs(query.as_deref()) {
        match key.as_str() {
            "parts" => {
                let number = value.parse().ok().filter(|&parts| parts <= MAX_PARTS);
                parts = number.ok_or_else(|| {
                    Refusal::malformed(format!("`parts={value}` is not a number of parts"))
                        .hint(format!("give one up to {MAX_PARTS}; 0 gives the peaks alone"))
                })?;
            }
            _ => return Err(unknown(&key, "`parts`")),
        }
    }
    if let Some(part) = Part::of_curves(parts) {
        return Ok(answer(JSON, file.outline().await?.part(part).clone()));
    }
    served.shelf.shown(&file).await?.curves(&file.name, parts).await.map(|curves| answer(JSON, curves))
}

/// The same part of many files, by their numbers: a request for each of a thousand would take the page longer than they do. A file of which
/// nothing can be shown is left out.
async fn outlines(State(served): State<Arc<Served>>, RawQuery(query): RawQuery) -> Answer {
    let (mut wanted, mut files) = (None, Vec::new());
    for (key, value) in pairs(query.as_deref()) {
        match key.as_str() {
            "of" => {
                let known = [("peaks", Part::Peaks), ("heat", Part::Heat)];
                let known = known.into_iter().find(|(name, _)| *name == value).map(|(_, part)| part);
                wanted = Some(known.ok_or_else(|| {
                    Refusal::malformed(format!("`of={value}` is not a part of an outline"))
                        .hint("use `of=peaks` or `of=heat`")
                })?);
            }
            "files" => {
                for id in value.split(',') {
                    files.push((id.to_owned(), served.shelf.get(id)?));
                }
            }
            _ => return Err(unknown(&key, "`of` and `files`")),
        }
    }
    let part =
        wanted.ok_or_else(|| Refusal::malformed("there is no part to show").hint("add `of=peaks` or `of=heat`"))?;
    if files.len() > MAX_OUTLINES {
        return Err(Refusal::malformed(format!("the request names {} files", files.len()))
            .hint(format!("name at most {MAX_OUTLINES} at a time")));
    }
    let mut all = serde_json::Map::new();
    for (id, file) in files {
        if let Ok(outline) = file.outline().await {
            let part = serde_json::from_slice(outline.part(part)).unwrap_or_default();
            all.insert(id, part);
        }
    }
    Ok(answer(JSON, json(&all)))
}

/// The document of `highwater ranks` of all files.
async fn ranks(State(served): State<Arc<Served>>) -> Answer {
    let (mut digests, mut unread) = (Vec::new(), Vec::new());
    for file in served.shelf.all() {
        match file.outline().await {
            Ok(outline) => digests.push(outline.digest.clone()),
            Err(refusal) => {
                unread.push(UnreadView { file: file.name.clone(), reason: refusal.problem.what().to_owned() });
            }
        }
    }
    let failed = |error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the ranks cannot be compared").because(error);
    let view = serde_json::to_vec(&highwater_ranks::compare(digests, unread));
    view.map(|view| answer(JSON, view)).map_err(|error: serde_json::Error| failed(error))
}

/// What changed from this file to another: the document of `highwater diff`.
async fn diff(
    State(served): State<Arc<Served>>,
    Path((_, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Answer {
    compare(&served, &id, query.as_deref(), Wanted::Numbers).await
}

/// The stacks of both files in one tree.
async fn diff_stacks(
    State(served): State<Arc<Served>>,
    Path((_, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Answer {
    compare(&served, &id, query.as_deref(), Wanted::Stacks).await
}

async fn compare(served: &Served, id: &str, query: Option<&str>, wanted: Wanted) -> Answer {
    let (mut with, mut devices) = (None, None);
    for (key, value) in pairs(query) {
        match key.as_str() {
            "with" => with = Some(value),
            "device" => {
                let both = value.split_once(',').and_then(|(a, b)| Some([a.parse().ok()?, b.parse().ok()?]));
                devices = Some(both.ok_or_else(|| {
                    Refusal::malformed(format!("`device={value}` names no device of each file"))
                        .hint("give two numbers, such as `device=0,1`")
                })?);
            }
            _ => return Err(unknown(&key, "`with` and `device`")),
        }
    }
    let with = with.ok_or_else(|| Refusal::malformed("there is no file to compare with").hint("add `with=1`"))?;
    let ((file, shown), (other, there)) = (served.shelf.open(id).await?, served.shelf.open(&with).await?);
    let names = [file.name.clone(), other.name.clone()];
    shown.compare(&there, names, devices, wanted).await.map(|compared| answer(JSON, compared))
}

/// How far the answer to the same question is; `null` if nobody waits for it.
async fn simulate_progress(
    State(served): State<Arc<Served>>,
    Path((_, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Answer {
    let question = question(query.as_deref())?;
    let told = served.shelf.open(&id).await?.1.progress(&question);
    let failed = |error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "there is no telling").because(error);
    serde_json::to_vec(&told).map(|told| answer(JSON, told)).map_err(|error: serde_json::Error| failed(error))
}

/// The page that needs no server, as a download. It is sent while it is made, and ends with the client.
async fn single_page(
    State(served): State<Arc<Served>>,
    Path((_, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Answer {
    let place = place(query.as_deref())?;
    let (file, shown) = served.shelf.open(&id).await?;
    let (out, body) = download::pipe();
    shown.page(&file.name, PageOptions { place, ..PageOptions::default() }, out)?;
    let disposition = HeaderValue::try_from(format!("attachment; filename=\"{}.html\"", plain_name(&file.name)));
    let disposition = disposition.unwrap_or(HeaderValue::from_static("attachment"));
    Ok(([(CONTENT_DISPOSITION, disposition)], answer("text/html; charset=utf-8", Body::new(body))).into_response())
}

fn place(query: Option<&str>) -> Result<String, Refusal> {
    let mut place = String::new();
    for (key, value) in pairs(query) {
        match key.as_str() {
            "place" => place = value,
            _ => return Err(unknown(&key, "`place`")),
        }
    }
    if place.len() > MAX_PLACE_BYTES {
        return Err(Refusal::malformed(format!("the place has {} bytes", place.len()))
            .hint(format!("a page opens on a place of at most {MAX_PLACE_BYTES} bytes: shorten the search")));
    }
    Ok(place)
}

/// A file's name in letters that need no quotes anywhere, without its ending.
fn plain_name(name: &str) -> String {
    let packed = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    let stem = packed.rsplit_once('.').map_or(packed, |(stem, _)| stem);
    stem.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
}

fn question(query: Option<&str>) -> Result<WhatIf, Refusal> {
    let mut question = WhatIf::default();
    for (key, value) in pairs(query) {
        match key.as_str() {
            "device" => {
                let device = value.parse().map_err(|_| {
                    Refusal::malformed(format!("`device={value}` is not a device"))
                        .hint("give its number, such as `device=0`")
                })?;
                question.device = Some(device);
            }
            "conf" => question.confs.push(value),
            "capacity" => {
                let bytes = parse_size(&value).map_err(|why| {
                    Refusal::malformed(format!("`{value}` is not a size"))
                        .because(why)
                        .hint("give one such as `capacity=16GiB`")
                })?;
                question.capacities.push(bytes);
            }
            "card" => {
                // The simulator looks it up: here an unknown one is refused before it waits for others.
                card(&value).map_err(|problem| Refusal { status: StatusCode::BAD_REQUEST, problem })?;
                question.cards.push(value);
            }
            _ => return Err(unknown(&key, "`device`, `conf`, `capacity` and `card`")),
        }
    }
    if question.confs.len() > MAX_CHOICES || question.capacities.len() + question.cards.len() > MAX_CHOICES {
        return Err(Refusal::malformed(format!("the request compares more than {MAX_CHOICES} settings or capacities"))
            .hint("compare fewer at a time"));
    }
    Ok(question)
}

fn pairs(query: Option<&str>) -> impl Iterator<Item = (String, String)> + '_ {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.map(|(key, value)| (key.into_owned(), value.into_owned()))
}

fn unknown(key: &str, known: &str) -> Refusal {
    Refusal::malformed(format!("`{key}` is not a parameter here")).hint(format!("known: {known}"))
}
