//! Which rank a recording is of: by what its recorder wrote, by its name, or by its device.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use highwater_documents::ranks::UnreadView;
use highwater_tables::rank_in_name;

use crate::digest::{DeviceDigest, Digest};

/// A row of the answer: a device of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) digest: &'a Digest,
    pub(crate) device: &'a DeviceDigest,
    /// Devices on which the process has next to nothing, beside its own.
    pub(crate) beside: Vec<&'a DeviceDigest>,
    pub(crate) rank: Option<u32>,
    pub(crate) host: Option<String>,
}

/// A process that has less than this part of its memory on another device only strayed there.
const STRAY_PART: u64 = 10;

/// The rows of a job, by rank; what is not compared; and remarks.
#[derive(Debug, Default)]
pub(crate) struct Numbered<'a> {
    pub(crate) rows: Vec<Row<'a>>,
    pub(crate) unread: Vec<UnreadView>,
    pub(crate) notes: Vec<String>,
}

/// Numbers the recordings.
pub(crate) fn number(digests: &[Digest]) -> Numbered<'_> {
    let mut numbered = Numbered::default();
    let mut of_files: Vec<(Option<u32>, Option<String>)> =
        digests.iter().map(|digest| (told(digest), host(digest))).collect();
    if of_files.iter().all(|(rank, _)| rank.is_none()) {
        let found = by_common_name(digests).or_else(|| by_devices(digests));
        for (own, rank) in of_files.iter_mut().zip(found.into_iter().flatten()) {
            own.0 = Some(rank);
        }
    }
    if let Some(first) = first_of_dry_run(digests, &of_files) {
        of_files[first].0 = Some(0);
    }
    if are_local(digests, &of_files) {
        numbered.notes.push("ranks are numbered anew on each host: the numbers in the files are local ones".to_owned());
        for (digest, (rank, host)) in digests.iter().zip(&mut of_files) {
            host.get_or_insert_with(|| folder(digest));
            *rank = None;
        }
    }
    let is_one_process = digests.len() == 1;
    for (digest, (rank, host)) in digests.iter().zip(of_files) {
        if digest.devices.is_empty() {
            let reason = "it has no entries and no segments: nothing was allocated, or nothing recorded";
            numbered.unread.push(UnreadView { file: digest.file.clone(), reason: reason.to_owned() });
            continue;
        }
        let most = digest.devices.iter().map(|device| device.peak_bytes).max().unwrap_or(0);
        let is_stray = |device: &&DeviceDigest| !is_one_process && device.peak_bytes < most / STRAY_PART;
        let beside: Vec<&DeviceDigest> = digest.devices.iter().filter(is_stray).collect();
        for device in digest.devices.iter().filter(|device| !is_stray(device)) {
            let rank = if is_one_process && digest.devices.len() > 1 { Some(device.device) } else { rank };
            numbered.rows.push(Row { digest, device, beside: beside.clone(), rank, host: host.clone() });
        }
    }
    without_twins(&mut numbered);
    numbered.rows.sort_by(|a, b| {
        let key = |row: &Row<'_>| {
            (row.rank.is_none(), row.rank, row.host.clone(), crate::files::natural(&row.digest.file), row.device.device)
        };
        key(a).cmp(&key(b))
    });
    numbered
}

/// The rank that a file tells by itself.
fn told(digest: &Digest) -> Option<u32> {
    digest.manifest.as_ref().and_then(|manifest| manifest.rank).or_else(|| in_name(&digest.file))
}

fn host(digest: &Digest) -> Option<String> {
    let host = digest.manifest.as_ref().and_then(|manifest| manifest.host.clone());
    host.filter(|host| !host.is_empty())
}

/// The number behind the last `rank` of a path: `rank3.pickle`, `snapshot_rank_3.pickle`, `rank-3/snapshot.pickle`.
pub(crate) fn in_name(path: &str) -> Option<u32> {
    let parts: Vec<&str> = path.rsplit(['/', '\\']).take(3).collect();
    parts.into_iter().find_map(rank_in_name).map(|(rank, _)| rank)
}

/// The text around the numbers of a name, and the numbers.
fn numbers(name: &str) -> (Vec<String>, Vec<u64>) {
    crate::files::parts(name).into_iter().unzip()
}

fn file_name(digest: &Digest) -> &str {
    digest.file.rsplit(['/', '\\']).next().unwrap_or(&digest.file)
}

fn folder(digest: &Digest) -> String {
    let folder = Path::new(&digest.file).parent().and_then(Path::file_name);
    folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The one number in which names that are otherwise the same differ, where no two are equal.
fn by_common_name(digests: &[Digest]) -> Option<Vec<u32>> {
    let names: Vec<(Vec<String>, Vec<u64>)> = digests.iter().map(|digest| numbers(file_name(digest))).collect();
    let (around, first) = names.first()?;
    if names.len() < 2 || names.iter().any(|(other, _)| other != around) {
        return None;
    }
    let column = |at: usize| names.iter().map(move |(_, numbers)| numbers[at]);
    let distinct = |at: &usize| column(*at).collect::<BTreeSet<u64>>().len() == names.len();
    // A time or a process differs, too; ranks are as many as there are files, or few more.
    let is_small = |at: &usize| column(*at).all(|number| number < 4 * names.len() as u64 + 4);
    let columns: Vec<usize> = (0..first.len()).filter(distinct).filter(is_small).collect();
    let [at] = columns[..] else { return None };
    column(at).map(|number| u32::try_from(number).ok()).collect()
}

/// The devices, where each recording has one of its own.
fn by_devices(digests: &[Digest]) -> Option<Vec<u32>> {
    let main =
        |digest: &Digest| digest.devices.iter().max_by_key(|device| device.peak_bytes).map(|device| device.device);
    let devices: Vec<u32> = digests.iter().map(main).collect::<Option<_>>()?;
    let distinct: BTreeSet<u32> = devices.iter().copied().collect();
    (devices.len() > 1 && distinct.len() == devices.len()).then_some(devices)
}

/// The recording of rank 0 beside `run.rank1.pickle`: `highwater dryrun -o run.pickle` leaves it without a number.
fn first_of_dry_run(digests: &[Digest], of_files: &[(Option<u32>, Option<String>)]) -> Option<usize> {
    let mut unnumbered = (0..digests.len()).filter(|&at| of_files[at].0.is_none());
    let (first, None) = (unnumbered.next()?, unnumbered.next()) else { return None };
    let name = digests[first].file.replacen(".pickle", "", 1);
    let is_of = |(digest, (rank, _)): (&Digest, &(Option<u32>, Option<String>))| {
        rank.is_some_and(|rank| rank > 0 && digest.file.replacen(&format!(".rank{rank}.pickle"), "", 1) == name)
    };
    let others = digests.iter().zip(of_files).filter(|&one| is_of(one)).count();
    (others > 0 && others + 1 == digests.len()).then_some(first)
}

/// Whether each directory numbers its ranks for itself, at the same time: then it is a host's.
fn are_local(digests: &[Digest], of_files: &[(Option<u32>, Option<String>)]) -> bool {
    if digests.iter().any(|digest| digest.manifest.as_ref().is_some_and(|manifest| manifest.rank.is_some())) {
        return false;
    }
    let mut by_folder: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for (digest, (rank, _)) in digests.iter().zip(of_files) {
        let parent = Path::new(&digest.file).parent().unwrap_or(Path::new("")).to_string_lossy().into_owned();
        let Some(rank) = rank else { return false };
        if !by_folder.entry(parent).or_default().insert(*rank) {
            return false;
        }
    }
    let mut sets = by_folder.values();
    let Some(first) = sets.next() else { return false };
    by_folder.len() > 1 && first.len() > 1 && sets.all(|other| other == first) && are_of_one_time(digests)
}

fn are_of_one_time(digests: &[Digest]) -> bool {
    let times: Vec<[i64; 2]> = digests.iter().filter_map(time_of).collect();
    let (begins, ends) = (times.iter().map(|time| time[0]).max(), times.iter().map(|time| time[1]).min());
    times.len() == digests.len() && begins.zip(ends).is_some_and(|(begins, ends)| begins <= ends)
}

/// From the first entry to the last.
pub(crate) fn time_of(digest: &Digest) -> Option<[i64; 2]> {
    let times = || digest.devices.iter().filter_map(|device| device.time_us);
    Some([times().map(|time| time[0]).min()?, times().map(|time| time[1]).max()?])
}

/// Keeps one of several files of a rank: that which goes on longest.
fn without_twins(numbered: &mut Numbered<'_>) {
    let mut best: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    let mut dropped = BTreeSet::new();
    // A failure's dump and the last one of its process are both right, and the last has all of it.
    let later = |row: &Row<'_>| (time_of(row.digest).map(|time| time[1]), row.device.entries);
    for (at, row) in numbered.rows.iter().enumerate() {
        let Some(rank) = row.rank else { continue };
        let entry = best.entry((rank, row.device.device)).or_insert(at);
        if *entry == at {
            continue;
        }
        let (kept, other) = if later(row) > later(&numbered.rows[*entry]) { (at, *entry) } else { (*entry, at) };
        *entry = kept;
        dropped.insert((other, kept));
    }
    for &(other, kept) in &dropped {
        let (other, kept) = (&numbered.rows[other], &numbered.rows[kept]);
        let rank = other.rank.unwrap_or(0);
        let (file, by) = (other.digest.file.clone(), file_name(kept.digest).to_owned());
        if is_failure_of(file_name(other.digest), &by) || is_failure_of(&by, file_name(other.digest)) {
            numbered.notes.push(format!(
                "rank {rank} has a file of a failure and one of its end: `{by}` goes further and is compared"
            ));
        } else {
            let reason = format!("it is another file of rank {rank}: `{by}` goes on longer and is compared");
            numbered.unread.push(UnreadView { file, reason });
        }
    }
    let mut at = 0;
    numbered.rows.retain(|_| {
        at += 1;
        !dropped.iter().any(|&(other, _)| other == at - 1)
    });
}

/// Whether a name is that of the dump at a failure, of the recording with the other name.
fn is_failure_of(failure: &str, whole: &str) -> bool {
    failure.replacen(".oom", "", 1) == whole && failure != whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_taken_for_one_with_other_numbers() {
        assert_ne!(numbers("a1b1.pickle").0, numbers("a#b1.pickle").0);
        assert_eq!(numbers("a1b1.pickle").0, numbers("a20b3.pickle").0);
    }

    #[test]
    fn ranks_are_read_from_the_names_that_programs_give() {
        for (name, rank) in [
            ("ranks/rank3.pickle", Some(3)),
            ("rank_12_memory_snapshot.pickle.gz", Some(12)),
            ("iteration_10/rank7_memory_snapshot.pickle", Some(7)),
            ("out/rank-5/snapshot.pickle", Some(5)),
            ("train.rank0.pickle", Some(0)),
            ("snapshot-world8-RANK=2.pkl", Some(2)),
            ("host3_local_rank_1.pickle", None),
            ("snapshot.pickle", None),
            ("ranks/a.pickle", None),
            ("rank99999999999999999.pickle", None),
        ] {
            assert_eq!(in_name(name), rank, "{name}");
        }
    }
}
