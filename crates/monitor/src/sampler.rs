//! Asks NVML for everything, again and again.

use std::ffi::{OsStr, OsString};

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use crate::absence::Absence;
use crate::gpu;
use crate::processes::Known;
use crate::sample::{Driver, GpuSample, MigPart, Sample};

/// The library's name where the system finds it.
const LIBRARY: &str = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" };

/// The variable that names another one.
const VARIABLE: &str = "HIGHWATER_NVML";

/// Used bytes that no process has are worth a word from here on.
const UNSEEN_BYTES: u64 = 64 << 20;

/// How much is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Everything.
    All,
    /// Memory, processes and how busy the GPUs are; the rest as it was when all was asked last. What the driver answers slowly is
    /// then asked seldom.
    Quick,
}

/// What was told of a GPU that changes slowly, and the sample made with it.
type Look = (GpuSample, GpuSample);

/// NVML, loaded.
pub struct Sampler {
    nvml: Nvml,
    library: OsString,
    driver: Driver,
    known: Known,
    /// What was last told of each GPU and part that changes slowly, in order.
    slow: Vec<GpuSample>,
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler").field("library", &self.library).field("driver", &self.driver).finish_non_exhaustive()
    }
}

impl Sampler {
    /// Loads NVML: this library, else the one that the variable `HIGHWATER_NVML` names, else the system's.
    ///
    /// # Errors
    /// There is no driver, or it does not answer.
    pub fn open(library: Option<&OsStr>) -> Result<Self, Absence> {
        let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
        let library = library.map(OsString::from).or(named).unwrap_or_else(|| LIBRARY.into());
        let nvml = Nvml::builder().lib_path(&library).init().map_err(|error| absence(&library, &error))?;
        let cuda = nvml.sys_cuda_driver_version().ok();
        let driver = Driver {
            version: nvml.sys_driver_version().ok(),
            cuda: cuda.map(|version| format!("{}.{}", version / 1000, version % 1000 / 10)),
        };
        Ok(Self { nvml, library, driver, known: Known::new(), slow: Vec::new() })
    }

    /// The driver.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// A new sample; `time_us` is its time, in microseconds since the Unix epoch.
    ///
    /// # Errors
    /// The driver does not answer any more, or has no GPU.
    pub fn sample(&mut self, time_us: u64, detail: Detail) -> Result<Sample, Absence> {
        let count = self.nvml.device_count().map_err(|error| absence(&self.library, &error))?;
        let mut looks = Vec::new();
        for index in 0..count {
            self.add(index, detail, &mut looks);
        }
        if looks.is_empty() {
            return Err(Absence::NoGpu);
        }
        let (slow, mut gpus): (Vec<_>, Vec<_>) = looks.into_iter().unzip();
        self.slow = slow;
        self.name_processes(&mut gpus, detail);
        Ok(Sample { time_us, driver: self.driver.clone(), gpus })
    }

    /// Adds a GPU, and its parts if it is in MIG mode.
    fn add(&self, index: u32, detail: Detail, looks: &mut Vec<Look>) {
        match self.nvml.device_by_index(index) {
            Ok(device) => {
                let (slow, mut whole) = self.look(&device, index, None, detail);
                let parts = self.parts(&device, index, detail);
                if !parts.is_empty() {
                    whole.notes.push(
                        "in MIG mode: its instances are listed below it, and programs see one of these, not the \
                         whole GPU"
                            .to_owned(),
                    );
                }
                looks.push((slow, whole));
                looks.extend(parts);
            }
            Err(error) => looks.push(self.gone(index, &error)),
        }
    }

    /// A GPU that the driver lists but gives no handle of: its name as it was known, and no numbers.
    fn gone(&self, index: u32, error: &NvmlError) -> Look {
        let mut slow = GpuSample { index, name: "GPU".to_owned(), is_lost: true, ..GpuSample::default() };
        self.keep_name(&mut slow);
        let mut sample = GpuSample { is_lost: false, ..slow.clone() };
        gpu::note(&mut sample, "GPU", error);
        (slow, sample)
    }

    fn look(&self, device: &Device<'_>, index: u32, mig: Option<MigPart>, detail: Detail) -> Look {
        let slow = match (detail, self.before(index, mig)) {
            // A GPU that was lost may be back, with all there is to know of it.
            (Detail::Quick, Some(before)) if !before.is_lost => before.clone(),
            _ => {
                let mut fresh = GpuSample { index, mig, ..GpuSample::default() };
                gpu::slow(device, &mut fresh);
                fresh
            }
        };
        let mut sample = slow.clone();
        gpu::quick(device, &mut sample);
        if sample.is_lost {
            sample = GpuSample {
                index,
                mig,
                name: sample.name,
                uuid: sample.uuid,
                is_lost: true,
                notes: sample.notes,
                ..GpuSample::default()
            };
            self.keep_name(&mut sample);
        }
        (GpuSample { is_lost: sample.is_lost, name: sample.name.clone(), uuid: sample.uuid.clone(), ..slow }, sample)
    }

    /// Takes over what a GPU was called before it was lost.
    fn keep_name(&self, sample: &mut GpuSample) {
        if let Some(before) = self.before(sample.index, sample.mig) {
            sample.name.clone_from(&before.name);
            sample.uuid.clone_from(&before.uuid);
        }
    }

    fn parts(&self, device: &Device<'_>, index: u32, detail: Detail) -> Vec<Look> {
        // MIG mode is the administrator's to change, and wants a reset: whether there are parts is asked seldom.
        let had_parts = self.slow.iter().any(|gpu| gpu.index == index && gpu.mig.is_some());
        if detail == Detail::Quick && !had_parts && !self.slow.is_empty() {
            return Vec::new();
        }
        if !device.mig_mode().is_ok_and(|mode| mode.current == 1) {
            return Vec::new();
        }
        let most = device.mig_device_count().unwrap_or(0);
        let part = |part| {
            let device = device.mig_device_by_index(part).ok()?;
            Some(self.look(&device, index, Some(MigPart { index: part }), detail))
        };
        (0..most).filter_map(part).collect()
    }

    fn before(&self, index: u32, mig: Option<MigPart>) -> Option<&GpuSample> {
        self.slow.iter().find(|gpu| gpu.index == index && gpu.mig == mig)
    }

    /// Gives the processes their users and command lines, and says what no process has.
    fn name_processes(&mut self, gpus: &mut [GpuSample], detail: Detail) {
        let mut seen = Vec::new();
        for gpu in gpus {
            for process in &mut gpu.processes {
                seen.push(process.pid);
                if let Some((user, command)) = self.known.look(process.pid, detail == Detail::All) {
                    (process.user, process.command) = (Some(user), Some(command));
                }
            }
            count_unseen(gpu);
        }
        self.known.keep(&seen);
    }
}

/// How much of the used memory belongs to no process that is told.
fn count_unseen(gpu: &mut GpuSample) {
    let told = gpu.processes.iter().try_fold(0_u64, |sum, process| Some(sum.saturating_add(process.bytes?)));
    // What other programs use of a machine's memory is not the GPU's.
    gpu.unseen_bytes = gpu
        .memory
        .filter(|_| !gpu.shares_memory)
        .zip(told)
        .map(|(memory, told)| memory.used_bytes.saturating_sub(told));
    if told.is_none() {
        gpu.notes.push("the driver does not report how much some processes use".to_owned());
    }
    let unnamed = gpu.processes.iter().filter(|process| process.command.is_none()).count();
    if unnamed > 0 {
        gpu.notes.push(
            "processes without a name are outside this container or belong to another user: `/proc` does not show \
             them"
                .to_owned(),
        );
    } else if gpu.unseen_bytes.is_some_and(|bytes| bytes >= UNSEEN_BYTES) && gpu.mig.is_none() {
        gpu.notes.push(
            "some of the used memory belongs to a process that is not shown: in another container, or just ending"
                .to_owned(),
        );
    }
}

fn absence(library: &OsStr, error: &NvmlError) -> Absence {
    Absence::of(&library.to_string_lossy(), error)
}
