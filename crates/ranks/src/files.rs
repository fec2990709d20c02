//! The files of a job: found in directories, read in parallel, one at a time for each core; of each only its digest stays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use highwater_documents::ranks::UnreadView;
use highwater_problem::Problem;
use highwater_snapshot::{Snapshot, Unpacking};

use crate::digest::{Digest, digest};
use crate::manifest::{self, Manifest};

/// Directories in directories, at most: a rank or a host has one, a run has one.
const DEEPEST: usize = 4;

/// More files are not looked at.
const MOST_FILES: usize = 100_000;

/// How the names of recordings end, without what they are compressed with.
const ENDINGS: [&str; 4] = [".pickle", ".pkl", JSON, ".html"];

/// How other files' names end, too.
const JSON: &str = ".json";

/// What was found under the paths of a job.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The files that may be recordings, in order of their names.
    pub files: Vec<PathBuf>,
    /// What the recorder wrote beside them.
    pub manifests: Vec<Manifest>,
    /// What cannot be read, and why.
    pub unread: Vec<UnreadView>,
    /// Files in directories that are nobody's recording.
    pub others: usize,
}

impl Found {
    /// Checks that the files are of one job, by their names: `ddp.rank0` and `fsdp.rank0` are not.
    ///
    /// # Errors
    /// If there are several jobs, and none has most of the files.
    pub fn check_one_job(&self) -> Result<(), Problem> {
        let mut jobs: BTreeMap<String, Vec<&PathBuf>> = BTreeMap::new();
        for file in &self.files {
            let Some(job) = job(&file.to_string_lossy()) else { return Ok(()) };
            jobs.entry(job).or_default().push(file);
        }
        let several: Vec<_> = jobs.values().filter(|files| files.len() > 1).collect();
        let most = jobs.values().map(Vec::len).max().unwrap_or(0);
        if several.len() < 2 || most * 2 > self.files.len() {
            return Ok(());
        }
        let example = several[0][0].to_string_lossy();
        let at = example.to_ascii_lowercase().rfind("rank").map_or(example.len(), |at| at + "rank".len());
        Err(Problem::new(format!("these {} files are of {} jobs", self.files.len(), several.len()))
            .because("the names differ in more than the rank")
            .hint(format!("give the files of one job, such as `highwater ranks '{}*'`", &example[..at])))
    }

    /// Gives recordings without a manifest the one that lies beside them.
    pub fn attach(&self, digests: &mut [Digest]) {
        for digest in digests.iter_mut().filter(|digest| digest.manifest.is_none()) {
            let name = digest.file.rsplit(['/', '\\']).next().unwrap_or(&digest.file);
            let bare = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
            let is_of = |manifest: &&Manifest| manifest.recording.as_deref().is_some_and(|of| of == name || of == bare);
            digest.manifest = self.manifests.iter().find(is_of).cloned();
        }
    }
}

/// A file's name without its rank and its directories, in lower case; `None` if it names no rank.
fn job(path: &str) -> Option<String> {
    let name = path.rsplit(['/', '\\']).next()?.to_ascii_lowercase().replacen(".oom", "", 1);
    crate::numbering::in_name(&name)?;
    let at = name.rfind("rank")? + "rank".len();
    let rest = name[at..].trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    // Behind the rank stand its host and how it is packed.
    Some(format!("{}#{}", &name[..at], if rest.contains("pickle") { "" } else { rest }))
}

/// The recordings under paths: files as they are, and of directories what has the name of a recording.
///
/// # Errors
/// If a path does not exist, or is an address of a store that only the Python package reads.
pub fn expand(paths: &[PathBuf]) -> Result<Found, Problem> {
    let mut found = Found::default();
    for path in paths {
        let text = path.to_string_lossy();
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(Problem::new(format!("`{text}` is not a path on this machine"))
                .because(format!("this program does not read from {scheme}"))
                .hint(format!("in Python, `highwater.ranks(\"{text}\")` reads it by fsspec; or copy the files here")));
        }
        if path.is_dir() {
            walk(path, DEEPEST, &mut found);
        } else if path.exists() {
            add(path.clone(), true, &mut found);
        } else if let Some(matches) = matching(path) {
            for path in matches {
                add(path, true, &mut found);
            }
        } else {
            found.unread.push(UnreadView { file: text.into_owned(), reason: "there is no such file".to_owned() });
        }
    }
    found.files.sort_by_key(|path| natural(&path.to_string_lossy()));
    found.files.dedup();
    Ok(found)
}

/// The files whose name matches the last part of a path, where that has a `*` or `?` that no shell has expanded.
fn matching(path: &Path) -> Option<Vec<PathBuf>> {
    let pattern = path.file_name()?.to_str().filter(|name| name.contains(['*', '?']))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).take(MOST_FILES);
    let fits = |path: &PathBuf| path.file_name().is_some_and(|name| fits(&name.to_string_lossy(), pattern));
    let found: Vec<PathBuf> = names.filter(fits).collect();
    (!found.is_empty()).then_some(found)
}

/// Whether a name fits a pattern of `*` and `?`, in time that is linear for each of its stars.
fn fits(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) = (name.chars().collect(), pattern.chars().collect());
    let (mut at, mut own, mut star) = (0, 0, None);
    while at < name.len() {
        match pattern.get(own) {
            Some('*') => {
                star = Some((own, at));
                own += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == name[at] => {
                at += 1;
                own += 1;
            }
            _ => {
                let Some((back, from)) = star else { return false };
                star = Some((back, from + 1));
                own = back + 1;
                at = from + 1;
            }
        }
    }
    pattern[own..].iter().all(|&rest| rest == '*')
}

fn walk(folder: &Path, deeper: usize, found: &mut Found) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            found.unread.push(UnreadView { file: folder.display().to_string(), reason: error.to_string() });
            return;
        }
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).take(MOST_FILES).collect();
    paths.sort();
    for path in paths {
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if is_hidden || found.files.len() >= MOST_FILES {
            continue;
        }
        if path.is_dir() {
            // A link may lead back up.
            if deeper > 0 && !path.is_symlink() {
                walk(&path, deeper - 1, found);
            }
        } else {
            add(path, false, found);
        }
    }
}

/// Adds a file; one that was not named must have the name of a recording.
fn add(path: PathBuf, is_named: bool, found: &mut Found) {
    if manifest::is_one(&path) {
        match manifest::read(&path) {
            Ok(manifest) => found.manifests.push(manifest),
            Err(reason) => found.unread.push(UnreadView { file: path.display().to_string(), reason }),
        }
        return;
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if is_named || is_recording(&name) {
        found.files.push(path);
    } else {
        found.others += 1;
    }
}

/// Whether a file has the name of a recording. JSON files say many things, so that theirs must speak of memory or traces.
pub fn is_recording(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let bare = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    let is_other_json = bare.ends_with(JSON) && !["trace", "snapshot", "memory"].iter().any(|word| bare.contains(word));
    ENDINGS.iter().any(|ending| bare.ends_with(ending)) && !is_other_json && !bare.ends_with(manifest::ENDING)
}

/// A key that sorts names by text, and by number where both have one: `rank2` before `rank10`. Names that differ have different keys.
pub fn natural(name: &str) -> (Vec<(String, u64)>, String) {
    (parts(name), name.to_owned())
}

/// The stretches of a name without digits, each with the number that follows it, or 0.
pub(crate) fn parts(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0_u64)];
    let mut is_number = false;
    for letter in name.chars() {
        let last = parts.len() - 1;
        match letter.to_digit(10) {
            Some(digit) => {
                parts[last].1 = parts[last].1.saturating_mul(10).saturating_add(u64::from(digit));
                is_number = true;
            }
            None if is_number => {
                parts.push((letter.to_string(), 0));
                is_number = false;
            }
            None => parts[last].0.push(letter),
        }
    }
    parts
}

/// The digests of files, in their order, and those that cannot be read. `read` is told how many are done, of how many.
///
/// Each of `threads` reads one file at a time: memory is bounded by the largest files.
pub fn read_all(
    files: &[PathBuf],
    threads: usize,
    unpacking: Unpacking,
    read: impl Fn(usize, usize) + Sync,
) -> (Vec<Digest>, Vec<UnreadView>) {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<(usize, Result<Digest, UnreadView>)>> = Mutex::new(Vec::with_capacity(files.len()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(number) else { break };
            let result = read_one(file, unpacking);
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, result));
            read(done.fetch_add(1, Ordering::Relaxed) + 1, files.len());
        }
    };
    thread::scope(|scope| {
        // Where no more threads can be had, this one reads alone.
        for _ in 1..threads.clamp(1, files.len().max(1)) {
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|&(number, _)| number);
    let (mut digests, mut unread) = (Vec::new(), Vec::new());
    for (_, result) in results {
        match result {
            Ok(digest) => digests.push(digest),
            Err(why) => unread.push(why),
        }
    }
    (digests, unread)
}

fn read_one(file: &Path, unpacking: Unpacking) -> Result<Digest, UnreadView> {
    let name = file.display().to_string();
    let refused = |reason: String| UnreadView { file: name.clone(), reason };
    let bytes = highwater_snapshot::open_file(file).map_err(|error| refused(error.to_string()))?;
    let snapshot = Snapshot::read_with(bytes, unpacking).map_err(|error| refused(error.to_string()))?;
    let analysis = highwater_analysis::analyse(&snapshot);
    Ok(digest(&name, &analysis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_of_their_numbers() {
        let mut names =
            ["rank10.pickle", "rank2b.pickle", "rank2.pickle.gz", "rank2.pickle", "rank1.pickle", "a.pickle"];
        names.sort_by_key(|name| natural(name));
        let sorted = ["a.pickle", "rank1.pickle", "rank2.pickle", "rank2.pickle.gz", "rank2b.pickle", "rank10.pickle"];
        assert_eq!(names, sorted);
    }

    #[test]
    fn patterns_that_no_shell_expanded_are_understood() {
        assert!(fits("rank12.pickle.gz", "rank*.pickle*"));
        assert!(fits("rank1.pickle", "rank?.pickle"));
        assert!(!fits("rank12.pickle", "rank?.pickle"));
        assert!(!fits("other.pickle", "rank*"));
        assert!(fits("anything", "*"));
    }
}
