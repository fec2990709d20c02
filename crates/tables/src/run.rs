//! Which run and which rank a file is of.

use std::ops::Range;
use std::path::Path;

/// What a row says of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId {
    /// The file, as it was named.
    pub file: String,
    /// The run.
    pub run: String,
    /// The rank of the process that wrote it, where something shows it.
    pub rank: Option<u32>,
}

impl RunId {
    /// The rank as it stands in tables: -1 where nothing shows it, for what reads folders as columns does not always know missing values.
    pub fn rank_number(&self) -> i64 {
        self.rank.map_or(-1, i64::from)
    }
}

/// Endings that say how a file is written and not what it is of.
const ENDINGS: [&str; 7] = ["gz", "zst", "pickle", "pkl", "json", "html", "part"];

impl RunId {
    /// What the name of a file says: the rank is the number behind the word `rank` in it, or in the name of its folder; the rest of the
    /// name is the run, and where nothing is left, the folder's name is.
    pub fn of_path(path: &Path) -> Self {
        let file = path.display().to_string();
        let mut folders = path.ancestors().skip(1).filter_map(Path::file_name).map(|name| name.to_string_lossy());
        let name = path.file_name().map_or_else(|| file.as_str().into(), |name| name.to_string_lossy());
        let stem = stem(&name);
        let (rank, rest) = split(stem);
        let folder = folders.next().unwrap_or_default();
        let (rank, run) = match (rank, split(&folder)) {
            (Some(rank), _) if !rest.is_empty() => (Some(rank), rest),
            (Some(rank), _) => (Some(rank), folder.into_owned()),
            (None, (Some(rank), of_folder)) if of_folder.is_empty() => {
                (Some(rank), folders.next().map_or_else(|| rest, std::borrow::Cow::into_owned))
            }
            (None, (Some(rank), of_folder)) => (Some(rank), of_folder),
            (None, (None, _)) => (None, rest),
        };
        let run = if run.is_empty() { "run".to_owned() } else { run };
        Self { file, run, rank }
    }
}

/// A file's name without its endings.
fn stem(name: &str) -> &str {
    let mut stem = name;
    while let Some((rest, ending)) = stem.rsplit_once('.')
        && ENDINGS.contains(&ending.to_ascii_lowercase().as_str())
        && !rest.is_empty()
    {
        stem = rest;
    }
    stem
}

/// The rank that a name speaks of, and the name without it.
fn split(name: &str) -> (Option<u32>, String) {
    let Some((rank, place)) = rank_in_name(name) else { return (None, name.to_owned()) };
    let parts = [&name[..place.start], &name[place.end..]].map(|part| part.trim_matches(SEPARATORS));
    let rest = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
    (Some(rank), rest)
}

/// What stands between the parts of a name.
const SEPARATORS: [char; 9] = ['_', '-', '.', ' ', '=', '[', ']', '(', ')'];

/// The number behind the last word `rank` of a file's or folder's name, and where word and number stand in it: `rank3.pickle`,
/// `snapshot_rank_3`, `rank-3`. A local rank is not one, for every host has it.
pub fn rank_in_name(name: &str) -> Option<(u32, Range<usize>)> {
    const WORD: &str = "rank";
    // Of one length with the name.
    let lower = name.to_ascii_lowercase();
    let found = lower.match_indices(WORD).filter_map(|(at, _)| {
        if lower[..at].trim_end_matches(SEPARATORS).ends_with("local") {
            return None;
        }
        let number = lower[at + WORD.len()..].trim_start_matches(SEPARATORS);
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        let rank = number[..digits].parse().ok()?;
        Some((rank, at..name.len() - number.len() + digits))
    });
    found.last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_run_and_rank() {
        for (path, run, rank) in [
            ("run.pickle", "run", None),
            ("job7/train.rank12.pickle.gz", "train", Some(12)),
            ("fsdp2_qwen05b_rank2.pickle.gz", "fsdp2_qwen05b", Some(2)),
            ("job7/rank3.pickle", "job7", Some(3)),
            ("job7/rank_3/snapshot.pickle", "job7", Some(3)),
            ("job7-rank3/snapshot.pickle", "job7", Some(3)),
            ("rank0.step100.pickle", "step100", Some(0)),
            ("rank0.pickle", "run", Some(0)),
            ("local_rank1.pickle", "local_rank1", None),
            ("run[rank 4].pickle", "run", Some(4)),
            ("rank.pickle", "rank", None),
            ("rank99999999999.pickle", "rank99999999999", None),
            ("..", "..", None),
        ] {
            let id = RunId::of_path(Path::new(path));
            assert_eq!((id.run.as_str(), id.rank), (run, rank), "{path}");
        }
    }
}
