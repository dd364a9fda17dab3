//! What the host says of itself.

use std::path::Path;

use forebay_sys::host::{Host, file_system_bytes, sysctl};
use forebay_sys::socket::{UdpOptions, bind_udp};

/// Bit of CAP_IPC_LOCK and of CAP_SYS_NICE (linux/capability.h).
const IPC_LOCK: u32 = 14;
const SYS_NICE: u32 = 23;
/// First letters of lines in `/proc/self/limits`.
const OPEN_FILES: &str = "Max open files";
const LOCKED_MEMORY: &str = "Max locked memory";
const REAL_TIME: &str = "Max realtime priority";

/// Settings of the host and rights of this process; none where the host does not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Receive buffer that a socket got when it asked for what the run asks for, in bytes: tried, not concluded.
    pub granted_buffer_bytes: Option<u64>,
    /// `net.core.rmem_max`.
    pub rmem_max_bytes: Option<u64>,
    /// Third value of `net.ipv4.udp_mem`.
    pub udp_mem_pages: Option<u64>,
    /// `net.core.netdev_max_backlog`.
    pub netdev_max_backlog: Option<u64>,
    /// `net.ipv4.ipfrag_high_thresh`.
    pub fragment_bytes: Option<u64>,
    /// Memory that can be had without swapping.
    pub memory_available_bytes: Option<u64>,
    /// Hard limit of open files.
    pub open_files: Option<u64>,
    /// Room in `/dev/shm`.
    pub shared_memory_free_bytes: Option<u64>,
    /// Limit of locked memory.
    pub locked_memory_bytes: Option<u64>,
    /// Whether that limit does not count.
    pub may_lock_memory: bool,
    /// Highest real-time priority by limit.
    pub real_time_priority: Option<u64>,
    /// Whether that limit does not count.
    pub may_set_priority: bool,
    /// Frequency governor of the first CPU.
    pub governor: Option<String>,
}

impl Facts {
    /// Asks the host; a socket is tried with a buffer of `socket_buffer_bytes`.
    #[must_use]
    pub fn read(socket_buffer_bytes: u64) -> Self {
        let limits = text("/proc/self/limits").unwrap_or_default();
        let status = text("/proc/self/status").unwrap_or_default();
        let number = |name| sysctl(name).and_then(|value| value.parse().ok());
        Self {
            granted_buffer_bytes: granted(socket_buffer_bytes),
            rmem_max_bytes: number("net.core.rmem_max"),
            udp_mem_pages: sysctl("net.ipv4.udp_mem")
                .and_then(|value| value.split_whitespace().nth(2)?.parse().ok()),
            netdev_max_backlog: number("net.core.netdev_max_backlog"),
            fragment_bytes: number("net.ipv4.ipfrag_high_thresh"),
            memory_available_bytes: Some(Host::read().memory_available_bytes)
                .filter(|bytes| *bytes > 0),
            open_files: limit(&limits, OPEN_FILES),
            shared_memory_free_bytes: file_system_bytes(Path::new("/dev/shm"))
                .map(|(_, free)| free),
            locked_memory_bytes: limit(&limits, LOCKED_MEMORY),
            may_lock_memory: has_capability(&status, IPC_LOCK),
            real_time_priority: limit(&limits, REAL_TIME),
            may_set_priority: has_capability(&status, SYS_NICE),
            governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .map(|text| text.trim().to_owned()),
        }
    }
}

fn text(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The buffer that a socket gets when it asks for so much.
fn granted(bytes: u64) -> Option<u64> {
    let options = UdpOptions {
        receive_buffer_bytes: usize::try_from(bytes).ok(),
        ..UdpOptions::default()
    };
    let bound = bind_udp(([127, 0, 0, 1], 0).into(), &options).ok()?;
    Some(bound.receive_buffer_bytes as u64)
}

/// The hard limit of a line of `/proc/self/limits`: name, soft, hard, unit.
fn limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// Whether the effective set of `/proc/self/status` holds a capability.
fn has_capability(status: &str, bit: u32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set >> bit & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_texts() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 1048576              files\n\
                      Max locked memory         8388608              unlimited            bytes\n";
        assert_eq!(limit(limits, OPEN_FILES), Some(1_048_576));
        assert_eq!(limit(limits, LOCKED_MEMORY), Some(u64::MAX));
        assert_eq!(limit(limits, REAL_TIME), None);
        let status = "Name:\tx\nCapEff:\t0000000000804000\n";
        assert!(has_capability(status, IPC_LOCK) && has_capability(status, SYS_NICE));
        assert!(!has_capability(status, 12) && !has_capability("", IPC_LOCK));
    }
}
