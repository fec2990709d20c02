//! The memory of GPUs that have none of their own: GB10, Jetson. It is the machine's, and `/proc/meminfo` tells of it.

use crate::sample::Memory;

/// The machine's memory; `None` where the system does not tell.
pub(crate) fn memory() -> Option<Memory> {
    parse(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// What `MemAvailable` does not count is in use, by programs and the system.
fn parse(meminfo: &str) -> Option<Memory> {
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    };
    let total_bytes = bytes("MemTotal")?;
    let free_bytes = bytes("MemAvailable")?.min(total_bytes);
    Some(Memory { total_bytes, used_bytes: total_bytes - free_bytes, free_bytes, reserved_bytes: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_memory_is_the_gpus() {
        // As on a GB10 with 128 GB: the format is that of `proc_pid_meminfo(5)`.
        let text = "MemTotal:       125582040 kB\nMemFree:        93210344 kB\nMemAvailable:   118031360 kB\nBuffers:          100 kB\n";
        let memory = parse(text).unwrap();
        assert_eq!((memory.total_bytes, memory.free_bytes), (125_582_040 << 10, 118_031_360 << 10));
        assert_eq!(memory.used_bytes, memory.total_bytes - memory.free_bytes);
        for odd in [
            "",
            "MemTotal: 5 kB",
            "MemTotal: 99999999999999999999 kB\nMemAvailable: 1 kB",
            "MemTotal: x kB\nMemAvailable: 1 kB",
        ] {
            assert_eq!(parse(odd), None, "{odd}");
        }
        assert_eq!(parse("MemTotal: 5 kB\nMemAvailable: 9 kB").unwrap().used_bytes, 0);
    }
}
