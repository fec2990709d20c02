//! Asks the processes of a sample that can answer how PyTorch uses their memory.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _};
use std::time::{Duration, Instant};

use crate::loaded;
use crate::recorder::{self, AskError};
use crate::sample::{GpuSample, Loaded, Sample, TorchDevice};
use crate::split;

/// Bytes that are read of the list of a process's mapped files: torch with its libraries has 500 KiB.
const MAPS_BYTES: u64 = 8 << 20;

/// How long a process that did not answer in time is left alone, at least: a watcher must not wait for it at every look.
const RESPITE: Duration = Duration::from_secs(2);

/// Of its time a watcher waits at most one part in so many for those that do not answer, however many they are.
const SHARE: u32 = 4;

/// How long the list of a process's libraries is believed. They are loaded as they are needed.
const LIBRARIES_LAST: Duration = Duration::from_secs(10);

/// The known facts of the processes that answer.
#[derive(Debug, Default)]
pub struct TorchWatch {
    silent: HashMap<u32, (Instant, String)>,
    libraries: HashMap<u32, (Instant, Vec<&'static str>)>,
    loaded: HashMap<u32, (Instant, Loaded)>,
}

impl TorchWatch {
    /// Adds to a sample how its processes use their memory.
    pub fn add(&mut self, sample: &mut Sample) {
        let mut asked: HashMap<u32, Result<Vec<TorchDevice>, String>> = HashMap::new();
        let gpus_of = count_gpus(sample);
        for gpu in &mut sample.gpus {
            for place in 0..gpu.processes.len() {
                let pid = gpu.processes[place].pid;
                if !asked.contains_key(&pid) && recorder::has_socket(pid) {
                    asked.insert(pid, self.ask(pid));
                }
                let is_alone = gpus_of.get(&pid) == Some(&1);
                match asked.get(&pid) {
                    Some(Ok(devices)) => self.split(gpu, place, devices, is_alone),
                    Some(Err(why)) => gpu.processes[place].torch_note = Some(why.clone()),
                    None => {}
                }
                let process = &mut gpu.processes[place];
                if process.torch.is_none() {
                    process.loaded = Some(self.loaded(process.pid, process.user.as_deref()));
                }
            }
        }
        self.silent.retain(|pid, _| gpus_of.contains_key(pid));
        self.libraries.retain(|pid, _| gpus_of.contains_key(pid));
        self.loaded.retain(|pid, _| gpus_of.contains_key(pid));
    }

    fn ask(&mut self, pid: u32) -> Result<Vec<TorchDevice>, String> {
        if let Some((until, why)) = self.silent.get(&pid)
            && Instant::now() < *until
        {
            return Err(why.clone());
        }
        self.silent.remove(&pid);
        recorder::memory(pid).map_err(|error| {
            let why = error.to_string();
            if matches!(error, AskError::Io { .. }) {
                self.silent.insert(pid, (Instant::now() + respite(self.silent.len() + 1), why.clone()));
            }
            why
        })
    }

    fn split(&mut self, gpu: &mut GpuSample, place: usize, devices: &[TorchDevice], is_alone: bool) {
        let told = devices.iter().find(|device| is_same(device, gpu)).or(match devices {
            // A torch that does not name its devices has but this one.
            [only] if is_alone => Some(only),
            _ => None,
        });
        let libraries = self.libraries(gpu.processes[place].pid);
        let process = &mut gpu.processes[place];
        if let (Some(told), Some(bytes)) = (told, process.bytes) {
            process.torch = Some(split::split(told, bytes, libraries));
        }
    }

    fn loaded(&mut self, pid: u32, user: Option<&str>) -> Loaded {
        let known = self.loaded.get(&pid).filter(|(read, _)| read.elapsed() <= LIBRARIES_LAST);
        if let Some((_, loaded)) = known {
            return loaded.clone();
        }
        let loaded = loaded::loaded(maps(pid), user);
        self.loaded.insert(pid, (Instant::now(), loaded.clone()));
        loaded
    }

    fn libraries(&mut self, pid: u32) -> &[&'static str] {
        let is_old = self.libraries.get(&pid).is_none_or(|(read, _)| read.elapsed() > LIBRARIES_LAST);
        if is_old {
            self.libraries.insert(pid, (Instant::now(), split::libraries(&maps(pid).unwrap_or_default())));
        }
        self.libraries.get(&pid).map_or(&[], |(_, names)| names)
    }
}

/// How long each of so many that do not answer is left alone. They are asked one after the other, so that their turns come apart.
fn respite(silent: usize) -> Duration {
    let turn = recorder::PATIENCE * SHARE;
    RESPITE.max(turn.saturating_mul(u32::try_from(silent).unwrap_or(u32::MAX)))
}

/// On how many GPUs each process is.
fn count_gpus(sample: &Sample) -> HashMap<u32, usize> {
    let mut counts = HashMap::new();
    for process in sample.gpus.iter().flat_map(|gpu| &gpu.processes) {
        *counts.entry(process.pid).or_default() += 1;
    }
    counts
}

/// Whether a process means this GPU, or this part of one: by what follows `GPU-` or `MIG-`.
fn is_same(device: &TorchDevice, gpu: &GpuSample) -> bool {
    let bare = |uuid: &str| uuid.trim_start_matches("GPU-").trim_start_matches("MIG-").to_ascii_lowercase();
    !device.uuid.is_empty() && gpu.uuid.as_deref().is_some_and(|uuid| bare(uuid) == bare(&device.uuid))
}

/// A process's mapped files.
fn maps(pid: u32) -> io::Result<String> {
    let mut bytes = Vec::new();
    let read = fs::File::open(format!("/proc/{pid}/maps"))?.take(MAPS_BYTES).read_to_end(&mut bytes);
    // What was read until it failed still names libraries.
    if bytes.is_empty() {
        read?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_do_not_answer_a_watcher_waits_a_quarter_of_its_time_at_most() {
        assert_eq!(respite(1), RESPITE);
        for silent in [8_u16, 100, 10_000] {
            assert!(respite(silent.into()) >= recorder::PATIENCE * u32::from(silent) * SHARE);
        }
    }
}
