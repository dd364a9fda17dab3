//! What machine this is, for the records of a run.

use std::fs;

/// The conditions of a measurement.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Host {
    /// The host's name.
    pub name: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's model.
    pub cpu_model: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Memory that can be had without swapping, bytes.
    pub memory_available_bytes: u64,
    /// Runnable tasks, mean of the last minute, five and fifteen minutes.
    pub load_average: [f64; 3],
}

impl Host {
    /// Asks the kernel; what it does not tell stays empty or 0.
    #[must_use]
    pub fn read() -> Self {
        let memory = text("/proc/meminfo");
        Self {
            name: text("/proc/sys/kernel/hostname").trim().to_owned(),
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu_model: field(&text("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cpus: crate::sched::cpu_count(),
            memory_bytes: kibibytes(&memory, "MemTotal"),
            memory_available_bytes: kibibytes(&memory, "MemAvailable"),
            load_average: parse_load(&text("/proc/loadavg")),
        }
    }
}

/// What the host's CPUs have spent since its start, in ticks of the kernel (`/proc/stat`, `Documentation/filesystems/proc.rst`).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CpuTicks {
    /// At work.
    pub busy: u64,
    /// Of these, at work for threads with a niceness above 0.
    pub nice: u64,
    /// With nothing to do, or waiting for I/O.
    pub idle: u64,
    /// With work at hand, while a hypervisor gave the CPU to somebody else.
    pub stolen: u64,
}

impl CpuTicks {
    /// Asks the kernel; 0 where it does not tell.
    #[must_use]
    pub fn read() -> Self {
        Self::parse(&text("/proc/stat"))
    }

    fn parse(text: &str) -> Self {
        let mut words = text
            .lines()
            .find_map(|line| line.strip_prefix("cpu "))
            .unwrap_or_default()
            .split_whitespace()
            .map(|word| word.parse().unwrap_or(0));
        let mut next = || words.next().unwrap_or(0_u64);
        let (user, nice, system, idle, iowait) = (next(), next(), next(), next(), next());
        let (irq, softirq, stolen) = (next(), next(), next());
        Self {
            busy: user + nice + system + irq + softirq,
            nice,
            idle: idle + iowait,
            stolen,
        }
    }

    /// All ticks.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.busy + self.idle + self.stolen
    }

    /// Those since `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(before.busy),
            nice: self.nice.saturating_sub(before.nice),
            idle: self.idle.saturating_sub(before.idle),
            stolen: self.stolen.saturating_sub(before.stolen),
        }
    }

    /// The time with work at hand since `before`, on all CPUs, in ticks.
    #[must_use]
    pub const fn with_work_since(self, before: Self) -> u64 {
        let since = self.since(before);
        since.busy + since.stolen
    }

    /// The part of the time with work at hand since `before` that a hypervisor took away.
    #[must_use]
    pub fn stolen_since(self, before: Self) -> f64 {
        let stolen = self.since(before).stolen as f64;
        stolen / (self.with_work_since(before) as f64).max(1.0)
    }
}

/// The value of a kernel setting such as `net.core.rmem_max`, if there is one.
#[must_use]
pub fn sysctl(name: &str) -> Option<String> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::read_to_string(path)
        .ok()
        .map(|value| value.trim().to_owned())
}

/// Size and free space of the file system that holds `path`, in bytes; none where it cannot be asked.
#[must_use]
pub fn file_system_bytes(path: &std::path::Path) -> Option<(u64, u64)> {
    let answer = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(answer.f_frsize);
    Some((bytes(answer.f_blocks), bytes(answer.f_bavail)))
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn field(text: &str, name: &str) -> Option<String> {
    let line = text
        .lines()
        .find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    line.split_once(':')
        .map(|(_, value)| value.trim().to_owned())
}

fn kibibytes(text: &str, name: &str) -> u64 {
    let value = field(text, name).unwrap_or_default();
    value
        .trim_end_matches("kB")
        .trim()
        .parse::<u64>()
        .map_or(0, |kib| kib.saturating_mul(1024))
}

fn parse_load(text: &str) -> [f64; 3] {
    let mut words = text
        .split_whitespace()
        .map(|word| word.parse().unwrap_or(0.0));
    std::array::from_fn(|_| words.next().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_texts() {
        assert_eq!(parse_load("0.50 1.25 2.00 1/234 5678\n"), [0.5, 1.25, 2.0]);
        assert_eq!(parse_load("junk"), [0.0; 3]);
        let before = CpuTicks::parse("cpu  100 2 30 1000 50 1 7 10 5 0\ncpu0 1 1 1 1\n");
        assert_eq!((before.busy, before.idle, before.stolen), (140, 1050, 10));
        assert_eq!(before.nice, 2);
        assert_eq!(before.total(), 1200, "the guest's time is in the user's");
        let after = CpuTicks::parse("cpu  160 2 30 2000 50 1 7 30\n");
        assert_eq!(after.with_work_since(before), 80);
        assert_eq!(after.since(before).idle, 1000);
        assert_eq!(before.since(after), CpuTicks::default());
        assert_eq!(after.stolen_since(before), 0.25);
        assert_eq!(before.stolen_since(before), 0.0);
        assert_eq!(CpuTicks::parse("junk"), CpuTicks::default());
        let memory = "MemTotal:       16384 kB\nMemAvailable:    1 kB\n";
        assert_eq!(
            (kibibytes(memory, "MemTotal"), kibibytes(memory, "Missing")),
            (16_777_216, 0)
        );
        assert_eq!(
            field(
                "processor : 0\nmodel name\t: Some CPU @ 2: GHz\n",
                "model name"
            )
            .unwrap(),
            "Some CPU @ 2: GHz"
        );
    }

    #[test]
    fn this_host_answers() {
        let host = Host::read();
        assert!(
            !host.kernel.is_empty()
                && host.cpus > 0
                && host.memory_bytes >= host.memory_available_bytes
        );
        assert!(CpuTicks::read().busy > 0);
        assert!(sysctl("net.core.rmem_max").is_some_and(|value| value.parse::<u64>().is_ok()));
        assert_eq!(sysctl("no.such.setting"), None);
        let (size, free) = file_system_bytes(std::path::Path::new("/")).unwrap();
        assert!(size > 0 && free <= size);
        assert_eq!(file_system_bytes(std::path::Path::new("/no/such")), None);
    }
}
