//! The script: what the made-up machine is like.

/// The whole machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// What `nvmlSystemGetDriverVersion` says.
    pub driver: String,
    /// What `nvmlSystemGetCudaDriverVersion_v2` says: 13000 is 13.0.
    pub cuda: i32,
    /// The GPUs, in the order of their numbers.
    pub gpus: Vec<Gpu>,
    /// Functions that fail: name, GPU or all, status.
    pub errors: Vec<(String, Option<usize>, u32)>,
    /// Calls that fail by their number, from 1: number and status.
    pub failing_calls: Vec<(u32, u32)>,
    /// GPUs that are gone, and from which call on.
    pub lost: Vec<(usize, u32)>,
}

/// A GPU, or a part of one in MIG mode. Bytes, unless a key says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// `name`, with blanks as underscores.
    pub name: String,
    /// `uuid`
    pub uuid: String,
    /// `total`; 0 where memory is not the GPU's own (`NVML_ERROR_NOT_SUPPORTED`)
    pub total: u64,
    /// `used`
    pub used: u64,
    /// `reserved`, by the driver
    pub reserved: u64,
    /// `util`, in percent
    pub gpu_percent: u32,
    /// `memutil`, in percent
    pub memory_percent: u32,
    /// `temp`, in degrees Celsius
    pub temperature_c: u32,
    /// `power`, in milliwatts
    pub power_mw: u32,
    /// `limit`, in milliwatts
    pub limit_mw: u32,
    /// `ecc`: 0 is off
    pub ecc: u32,
    /// `corrected`: errors since the driver was loaded
    pub corrected: u64,
    /// `uncorrected`: errors since the driver was loaded
    pub uncorrected: u64,
    /// `bar1`
    pub bar1_total: u64,
    /// `bar1used`
    pub bar1_used: u64,
    /// The processes on it.
    pub processes: Vec<Process>,
    /// Its parts, if it is in MIG mode.
    pub parts: Vec<Gpu>,
}

impl Default for Gpu {
    fn default() -> Self {
        Self {
            name: "NVIDIA H200".into(),
            uuid: String::new(),
            total: 150_754_820_096,
            used: 0,
            reserved: 618_856_448,
            gpu_percent: 0,
            memory_percent: 0,
            temperature_c: 30,
            power_mw: 75_000,
            limit_mw: 700_000,
            ecc: 1,
            corrected: 0,
            uncorrected: 0,
            bar1_total: 262_144 << 20,
            bar1_used: 1 << 20,
            processes: Vec::new(),
            parts: Vec::new(),
        }
    }
}

/// A process on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// `pid`
    pub pid: u32,
    /// `bytes`; `None` where the driver does not tell
    pub bytes: Option<u64>,
    /// `kind=graphics`
    pub is_graphics: bool,
}

impl Script {
    /// What a script says; lines that it does not know say nothing.
    pub fn parse(text: &str) -> Self {
        let mut script = Self { driver: "580.159.04".into(), cuda: 13_000, ..Self::default() };
        for line in text.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            if let Some((first, rest)) = words.split_first() {
                script.line(first, rest);
            }
        }
        script
    }

    fn line(&mut self, first: &str, rest: &[&str]) {
        let at = |place: usize| rest.get(place).and_then(|word| word.parse::<u32>().ok());
        let gpu = value(rest, "gpu").and_then(|word| word.parse::<usize>().ok());
        match first {
            "driver" => self.driver = rest.join(" "),
            "cuda" => self.cuda = at(0).and_then(|version| version.try_into().ok()).unwrap_or_default(),
            "gpu" => {
                let number = self.gpus.len();
                self.gpus.push(Gpu::of(rest, &format!("GPU-{number:08}-0000-0000-0000-000000000000")));
            }
            "mig" => {
                if let Some(parent) = gpu.and_then(|gpu| self.gpus.get_mut(gpu)) {
                    let number = parent.parts.len();
                    parent.parts.push(Gpu::of(rest, &format!("MIG-{number:08}-0000-0000-0000-000000000000")));
                }
            }
            "process" => {
                if let Some(on) = gpu.and_then(|gpu| self.gpus.get_mut(gpu)) {
                    let part = value(rest, "mig").and_then(|word| word.parse::<usize>().ok());
                    let process = Process::of(rest);
                    match part.and_then(|part| on.parts.get_mut(part)) {
                        Some(part) => part.processes.push(process),
                        None => on.processes.push(process),
                    }
                }
            }
            "error" => {
                let name = rest.first().copied().unwrap_or_default().to_owned();
                self.errors.push((name, gpu, at(1).unwrap_or(999)));
            }
            "fail-call" => self.failing_calls.push((at(0).unwrap_or(0), at(1).unwrap_or(999))),
            "lost" => {
                let after = value(rest, "after").and_then(|word| word.parse().ok()).unwrap_or(0);
                self.lost.push((at(0).unwrap_or(0) as usize, after));
            }
            _ => {}
        }
    }
}

/// The value of `key=value` among the words.
fn value<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

impl Gpu {
    fn of(words: &[&str], uuid: &str) -> Self {
        let number = |key: &str, default: u64| value(words, key).and_then(|word| word.parse().ok()).unwrap_or(default);
        let small = |key: &str, default: u32| value(words, key).and_then(|word| word.parse().ok()).unwrap_or(default);
        let usual = Self::default();
        Self {
            name: value(words, "name").map_or(usual.name, |name| name.replace('_', " ")),
            uuid: value(words, "uuid").unwrap_or(uuid).to_owned(),
            total: number("total", usual.total),
            used: number("used", usual.used),
            reserved: number("reserved", usual.reserved),
            gpu_percent: small("util", usual.gpu_percent),
            memory_percent: small("memutil", usual.memory_percent),
            temperature_c: small("temp", usual.temperature_c),
            power_mw: small("power", usual.power_mw),
            limit_mw: small("limit", usual.limit_mw),
            ecc: small("ecc", usual.ecc),
            corrected: number("corrected", usual.corrected),
            uncorrected: number("uncorrected", usual.uncorrected),
            bar1_total: number("bar1", usual.bar1_total),
            bar1_used: number("bar1used", usual.bar1_used),
            processes: Vec::new(),
            parts: Vec::new(),
        }
    }
}

impl Process {
    fn of(words: &[&str]) -> Self {
        Self {
            pid: value(words, "pid").and_then(|word| word.parse().ok()).unwrap_or(0),
            bytes: value(words, "bytes").and_then(|word| word.parse().ok()),
            is_graphics: value(words, "kind") == Some("graphics"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_a_machine() {
        let script = Script::parse(
            "driver 535.1\ncuda 12020\ngpu name=NVIDIA_A100 total=100 used=7\nmig gpu=0 total=50\nprocess gpu=0 mig=0 pid=3\n\
             gpu ecc=0\nprocess gpu=1 pid=4 bytes=9 kind=graphics\nerror nvmlX 3 gpu=1\nfail-call 5 15\nlost 1 after=20\nwhat?",
        );
        assert_eq!((script.driver.as_str(), script.cuda, script.gpus.len()), ("535.1", 12020, 2));
        assert_eq!((script.gpus[0].name.as_str(), script.gpus[0].total, script.gpus[0].used), ("NVIDIA A100", 100, 7));
        assert_eq!(script.gpus[0].parts[0].processes, [Process { pid: 3, bytes: None, is_graphics: false }]);
        assert_eq!(script.gpus[1].processes, [Process { pid: 4, bytes: Some(9), is_graphics: true }]);
        assert_eq!(script.errors, [("nvmlX".to_owned(), Some(1), 3)]);
        assert_eq!((script.failing_calls, script.lost), (vec![(5, 15)], vec![(1, 20)]));
    }
}
