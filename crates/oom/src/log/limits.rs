//! The limit on the host's memory that a job or container has, where the log names it: Kubernetes, Slurm, Docker; and the part of an engine's
//! cache that is in use.

use memchr::memmem;

use super::Surroundings;
use super::table::Seen;
use crate::known::Decimal;

/// Bytes that a line must hold to be looked at here.
pub(super) const ANCHORS: [&str; 12] = [
    "imits:",
    "equests:",
    "memory:",
    "memory\":",
    "--mem",
    "mem_limit",
    "mem_mb=",
    "emory Limit",
    PROSE[0],
    PROSE[1],
    PROSE[2],
    POOL_USE,
];
/// How `SGLang` tells the part of its KV cache that is in use, with each batch.
pub(super) const POOL_USE: &str = "token usage: ";
/// How people tell a limit.
const PROSE: [&str; 3] = ["emory was changed to ", "emory limit of ", "emory is limited to "];
/// Lines from `Limits:` to its memory: processors, devices and storage may stand between them.
const NEAR_LINES: u64 = 8;

/// Looks for limits line by line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LimitReader {
    /// The last line in which the memory of `Limits:` may stand.
    until: u64,
    /// Different limits were read: nothing says whose process was killed.
    is_ambiguous: bool,
}

impl LimitReader {
    /// Takes the limit of a line; of several different ones, such as those of a pod's containers, none counts.
    pub(super) fn read(&mut self, line: &[u8], number: u64, words: &Seen, surroundings: &mut Surroundings) {
        if words.has(POOL_USE) {
            surroundings.pool_use = after(line, &[POOL_USE.as_bytes()]).and_then(pool_use).or(surroundings.pool_use);
        }
        // In one line of JSON the requests may stand before or behind.
        let in_limits = memmem::find(line, b"imits").map(|at| &line[at..]);
        if words.has("imits:") || in_limits.is_some_and(|_| words.has("memory\":")) {
            self.until = number + NEAR_LINES;
        }
        if words.has("equests:") && in_limits.is_none() {
            self.until = 0;
        }
        let own = in_limits.map_or(line, |text| &text[..memmem::find(text, b"equests").unwrap_or(text.len())]);
        let of_pod = (number <= self.until)
            .then(|| after(own, &[b"memory:", b"memory\":"]))
            .flatten()
            .and_then(|text| quantity(text, true));
        let of_command = || {
            if !words.has_any(&["--mem", "mem_limit", "mem_mb="]) {
                return None;
            }
            after(line, &[b"--mem=", b"--mem ", b"--memory=", b"--memory ", b"mem_limit:", b"mem_limit=", b"mem_mb="])
        };
        let of_report = || {
            let text = words.has("emory Limit").then(|| after(line, &[b"emory Limit:", b"emory Limit**:"]));
            quantity(text.flatten()?, true)
        };
        let of_prose = || {
            let text = words.has_any(&PROSE).then(|| after(line, &PROSE.map(str::as_bytes)));
            quantity(text.flatten()?, true)
        };
        let found =
            of_pod.or_else(of_report).or_else(of_prose).or_else(|| of_command().and_then(|text| quantity(text, false)));
        if let Some(bytes) = found.filter(|_| !self.is_ambiguous) {
            self.is_ambiguous = surroundings.memory_limit_bytes.is_some_and(|known| known != bytes);
            surroundings.memory_limit_bytes = (!self.is_ambiguous).then_some(bytes);
        }
    }
}

/// `0.24, #queue-req: 0`.
pub(super) fn pool_use(text: &[u8]) -> Option<Decimal> {
    let length = text.iter().take(8).take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    Decimal::parse(std::str::from_utf8(&text[..length]).ok()?)
}

/// The text behind the first of these words that a line has.
fn after<'l>(line: &'l [u8], words: &[&[u8]]) -> Option<&'l [u8]> {
    words.iter().find_map(|words| memmem::find(line, words).map(|at| &line[at + words.len()..]))
}

/// `300Mi`, `64G`, `8g`: with SI units, as pods and reports have them, `M` is a million, elsewhere a power of 1024. A number without a
/// unit is Slurm's or Snakemake's, of MiB, and nothing with SI units, where it would be bytes.
fn quantity(text: &[u8], has_si_units: bool) -> Option<u64> {
    let skipped = text.iter().take_while(|byte| byte.is_ascii_whitespace() || b"\"'=".contains(byte)).take(16).count();
    let text = &text[skipped..];
    let digits = text.iter().take(12).take_while(|byte| byte.is_ascii_digit()).count();
    let number: u64 = std::str::from_utf8(&text[..digits]).ok()?.parse().ok().filter(|&number| number > 0)?;
    let unit = text.get(digits).map(u8::to_ascii_lowercase);
    let power = match unit {
        Some(b'k') => 1,
        Some(b'm') => 2,
        Some(b'g') => 3,
        Some(b't') => 4,
        // Of the words behind, none is part of a number.
        Some(byte) if byte.is_ascii_alphanumeric() || byte == b'.' => return None,
        _ if has_si_units => return None,
        _ => return number.checked_mul(1 << 20),
    };
    let is_binary = !has_si_units || text.get(digits + 1) == Some(&b'i');
    let base: u64 = if is_binary { 1024 } else { 1000 };
    number.checked_mul(base.checked_pow(power)?)
}

#[cfg(test)]
mod tests {
    use crate::LogReader;

    fn limit(log: &str) -> Option<u64> {
        let mut reader = LogReader::new();
        reader.push(log.as_bytes());
        reader.finish().surroundings.memory_limit_bytes
    }

    #[test]
    fn a_limit_is_read_from_a_pod_a_job_and_a_container() {
        for (log, bytes) in [
            (
                "    Limits:\n      cpu:     100m\n      memory:  300Mi\n    Requests:\n      memory:  200Mi\n",
                300 << 20,
            ),
            (
                "resources:\n  requests:\n    memory: 30Gi\n  limits:\n    nvidia.com/gpu: 1\n    memory: 40G\n",
                40_000_000_000,
            ),
            (
                "\"resources\":{\"limits\":{\"cpu\":\"4\",\"memory\":\"8Gi\"},\"requests\":{\"memory\":\"1Gi\"}}",
                8 << 30,
            ),
            ("#SBATCH --mem=64Gb\n", 64 << 30),
            ("srun --mem 8000 python train.py", 8000 << 20),
            ("docker run --memory=8g --gpus all image\n", 8 << 30),
            ("    mem_limit: 512m\n", 512 << 20),
            ("> **Memory Limit**: 1000Gi  \n", 1000 << 30),
            ("    resources: mem_mb=14000, mem_mib=13352, disk_mb=1000\n", 14000 << 20),
        ] {
            assert_eq!(limit(log), Some(bytes), "{log}");
        }
    }

    #[test]
    fn other_memory_is_no_limit() {
        for log in [
            "    Requests:\n      memory:  200Mi\n",
            "Available KV cache memory: 40.61 GiB\n",
            "--mem-fraction-static 0.9\n",
            "Limits:\n  cpu: 1\n\n\n\n\n\n\n\n\n\nmemory: 5Gi\n",
            "Limits:\n  memory: 0\n  memory: 1.5Gi\n",
            "--memory 99999999999999t",
            "\"limits\":{\"cpu\":\"4\"},\"requests\":{\"memory\":\"1Gi\"}",
            "Limits:\n  memory: 8Gi\nsidecar:\n Limits:\n  memory: 100Mi\nmodel:\n Limits:\n  memory: 8Gi\n",
        ] {
            assert_eq!(limit(log), None, "{log}");
        }
    }
}
