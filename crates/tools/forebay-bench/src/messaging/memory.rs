//! What a process occupies, as the kernel says it.

use forebay_run_net::registered_bytes;
use serde::Serialize;

/// Memory of this process at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Occupied {
    /// All that is resident (`VmRSS`).
    pub resident_bytes: u64,
    /// Of these, its own (`RssAnon`).
    pub anonymous_bytes: u64,
    /// Of these, shared memory (`RssShmem`): resident at the other side, too.
    pub shared_bytes: u64,
    /// What may not be paged out (`VmLck`).
    pub locked_bytes: u64,
    /// What may not be moved (`VmPin`), as some drivers of network cards account it.
    pub pinned_bytes: u64,
    /// What is registered with libfabric.
    pub registered_bytes: u64,
}

/// Memory of this process over a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Before anybody is connected.
    pub begun: Occupied,
    /// When all are connected.
    pub connected: Occupied,
    /// The last look while messages go, or when the last one has gone.
    pub used: Occupied,
}

impl Occupied {
    /// As it is now; what the kernel does not say is 0.
    #[must_use]
    pub fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            registered_bytes: registered_bytes(),
            ..Self::of(&status)
        }
    }

    /// That of another process; none when it has ended, or may not be looked at.
    #[must_use]
    pub fn of_process(pid: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Some(Self::of(&status)).filter(|occupied| occupied.resident_bytes > 0)
    }

    fn of(status: &str) -> Self {
        let bytes = |name: &str| {
            let mut lines = status.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = value.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
            kib.map_or(0, |kib| kib << 10)
        };
        Self {
            resident_bytes: bytes("VmRSS"),
            anonymous_bytes: bytes("RssAnon"),
            shared_bytes: bytes("RssShmem"),
            locked_bytes: bytes("VmLck"),
            pinned_bytes: bytes("VmPin"),
            registered_bytes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        let status = "Name:\tx\nVmLck:\t      12 kB\nVmPin:\t       0 kB\nVmRSS:\t    2048 kB\nRssAnon:\t    1024 kB\n";
        let expected = Occupied {
            resident_bytes: 2 << 20,
            anonymous_bytes: 1 << 20,
            locked_bytes: 12 << 10,
            ..Occupied::default()
        };
        assert_eq!(Occupied::of(status), expected);
        assert!(Occupied::now().resident_bytes > 0);
        assert!(Occupied::of_process(std::process::id()).is_some());
        assert_eq!(Occupied::of_process(u32::MAX), None);
    }
}
