//! The host's settings against what a run needs of them: each with what it should be, why, and the command to mend it.
//!
//! [`Facts`] are read from the host; [`examine`] only compares, so that every rule has a test without a host of its own.

mod facts;

use serde::Serialize;

pub use facts::Facts;

/// Bytes of a page of memory.
const PAGE_BYTES: u64 = 4096;
/// Descriptors of a run beside its sockets.
const FILES_BESIDE_SOCKETS: u64 = 256;
/// Packets between a network interface and the IP stack, per CPU.
const BACKLOG_PACKETS: u64 = 10_000;
/// Memory for fragments that suits sources with a water mark of 32 kB behind an MTU of 1,500.
const FRAGMENT_BYTES: u64 = 64 << 20;
/// Longest datagram that one Ethernet frame carries.
const FRAME_PAYLOAD_BYTES: u64 = 1472;

/// The name of the check of memory.
pub const MEMORY: &str = "memory available";

/// What a run needs of its host.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Needs {
    /// UDP sockets.
    pub sockets: u64,
    /// Receive buffer asked for each, in bytes.
    pub socket_buffer_bytes: u64,
    /// Memory in all, in bytes.
    pub memory_bytes: u64,
    /// Longest message, in bytes.
    pub message_bytes_max: u64,
    /// Whether a stage asks for real-time priority.
    pub real_time: bool,
    /// Whether datagrams come from another host.
    pub remote: bool,
}

impl Needs {
    /// What two runs need that are at work together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            sockets: self.sockets + other.sockets,
            socket_buffer_bytes: self.socket_buffer_bytes.max(other.socket_buffer_bytes),
            memory_bytes: self.memory_bytes + other.memory_bytes,
            message_bytes_max: self.message_bytes_max.max(other.message_bytes_max),
            real_time: self.real_time || other.real_time,
            remote: self.remote || other.remote,
        }
    }
}

/// How a setting stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// As it should be.
    Good,
    /// This host does not tell, or does not have it.
    Unknown,
    /// The run works; it would bear more otherwise.
    Advice,
    /// The run may lose data, or not start.
    Warning,
}

impl Standing {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Unknown => "unknown",
            Self::Advice => "advice",
            Self::Warning => "warning",
        }
    }
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// How it stands.
    pub standing: Standing,
    /// What it is.
    pub found: String,
    /// What it should be.
    pub wanted: String,
    /// Why.
    pub why: &'static str,
    /// The command to mend it; empty when there is nothing to mend.
    pub remedy: String,
}

/// Compares the host with what a run needs.
#[must_use]
pub fn examine(facts: &Facts, needs: &Needs) -> Vec<Check> {
    vec![
        socket_buffer(facts, needs),
        udp_mem(facts, needs),
        backlog(facts, needs),
        fragments(facts, needs),
        memory(facts, needs),
        open_files(facts, needs),
        shared_memory(facts),
        locked_memory(facts, needs),
        real_time(facts, needs),
        governor(facts),
    ]
}

/// A setting with a number that must not be lower.
fn at_least(
    name: &'static str,
    found: Option<u64>,
    wanted: u64,
    low: Standing,
    why: &'static str,
    remedy: String,
) -> Check {
    let standing = match found {
        None => Standing::Unknown,
        Some(found) if found >= wanted => Standing::Good,
        Some(_) => low,
    };
    let mend = matches!(standing, Standing::Advice | Standing::Warning);
    Check {
        name,
        standing,
        found: found.map_or_else(|| "not told".into(), shown),
        wanted: format!("at least {wanted}"),
        why,
        remedy: if mend { remedy } else { String::new() },
    }
}

fn shown(number: u64) -> String {
    if number == u64::MAX {
        "unlimited".into()
    } else {
        number.to_string()
    }
}

fn socket_buffer(facts: &Facts, needs: &Needs) -> Check {
    let wanted = needs.socket_buffer_bytes;
    let why = "a socket's buffer holds what comes while the receiver is not running; the kernel cuts it to net.core.rmem_max unless the process may go beyond";
    let remedy = format!("sysctl -w net.core.rmem_max={wanted}");
    let granted = facts.granted_buffer_bytes;
    let mut check = at_least(
        "socket buffer",
        granted,
        wanted,
        Standing::Warning,
        why,
        remedy,
    );
    if let Some(limit) = facts.rmem_max_bytes {
        check.found += &format!(" (net.core.rmem_max = {limit})");
    }
    check
}

fn udp_mem(facts: &Facts, needs: &Needs) -> Check {
    // The kernel counts whole buffers: twice what is asked for.
    let pages = (2 * needs.socket_buffer_bytes)
        .saturating_mul(needs.sockets)
        .div_ceil(PAGE_BYTES);
    let why = "the bound for all UDP sockets together, in pages; beyond it the kernel drops although a socket has room";
    let (low, pressure) = (pages / 2, pages / 4 * 3);
    let remedy = format!("sysctl -w net.ipv4.udp_mem=\"{low} {pressure} {pages}\"");
    at_least(
        "net.ipv4.udp_mem",
        facts.udp_mem_pages,
        pages,
        Standing::Warning,
        why,
        remedy,
    )
}

fn backlog(facts: &Facts, needs: &Needs) -> Check {
    let why = "the queue between an interface (loopback too) and the IP stack, per CPU; full, it drops before the socket, where no socket counts it";
    let remedy = format!("sysctl -w net.core.netdev_max_backlog={BACKLOG_PACKETS}");
    let low = if needs.remote {
        Standing::Warning
    } else {
        Standing::Advice
    };
    at_least(
        "net.core.netdev_max_backlog",
        facts.netdev_max_backlog,
        BACKLOG_PACKETS,
        low,
        why,
        remedy,
    )
}

fn fragments(facts: &Facts, needs: &Needs) -> Check {
    let why = "memory for unfinished datagrams of several frames, shared by the whole host; what it cannot hold is lost and counted for the host only";
    let remedy = format!("sysctl -w net.ipv4.ipfrag_high_thresh={FRAGMENT_BYTES}");
    let fragmented = needs.remote && needs.message_bytes_max > FRAME_PAYLOAD_BYTES;
    let low = if fragmented {
        Standing::Warning
    } else {
        Standing::Advice
    };
    at_least(
        "net.ipv4.ipfrag_high_thresh",
        facts.fragment_bytes,
        FRAGMENT_BYTES,
        low,
        why,
        remedy,
    )
}

fn memory(facts: &Facts, needs: &Needs) -> Check {
    let why = "queues, socket buffers and ledger are taken whole; memory that is not there makes the kernel end processes";
    let remedy =
        "give sources, sinks and emulated cards smaller queues and buffers, or the run a larger host".to_owned();
    at_least(
        MEMORY,
        facts.memory_available_bytes,
        needs.memory_bytes,
        Standing::Warning,
        why,
        remedy,
    )
}

fn open_files(facts: &Facts, needs: &Needs) -> Check {
    let wanted = needs.sockets + FILES_BESIDE_SOCKETS;
    let why = "each socket is a descriptor; the limit meant is the hard one, to which the program raises its own";
    let remedy = format!("ulimit -Hn {wanted} (systemd: LimitNOFILE={wanted})");
    at_least(
        "open files",
        facts.open_files,
        wanted,
        Standing::Warning,
        why,
        remedy,
    )
}

fn shared_memory(facts: &Facts) -> Check {
    let why = "the live ledger lies there, so that no disk can delay the data path; rings are memory files and do not count";
    let remedy = "mount -o remount,size=256M /dev/shm".to_owned();
    at_least(
        "/dev/shm free",
        facts.shared_memory_free_bytes,
        64 << 20,
        Standing::Warning,
        why,
        remedy,
    )
}

fn locked_memory(facts: &Facts, needs: &Needs) -> Check {
    let why = "a stage with real-time priority locks its memory, so that it never waits for a page; without the right it does not start";
    let remedy = format!(
        "ulimit -l {} (systemd: LimitMEMLOCK=infinity)",
        needs.memory_bytes / 1024
    );
    let found = if facts.may_lock_memory {
        Some(u64::MAX)
    } else {
        facts.locked_memory_bytes
    };
    let low = if needs.real_time {
        Standing::Warning
    } else {
        Standing::Advice
    };
    at_least("locked memory", found, needs.memory_bytes, low, why, remedy)
}

fn real_time(facts: &Facts, needs: &Needs) -> Check {
    let allowed = facts.may_set_priority || facts.real_time_priority.is_some_and(|limit| limit > 0);
    let standing = match (allowed, needs.real_time) {
        (true, _) => Standing::Good,
        (false, true) => Standing::Warning,
        (false, false) => Standing::Unknown,
    };
    Check {
        name: "real-time priority",
        standing,
        found: if allowed {
            "allowed".into()
        } else {
            "not allowed".into()
        },
        wanted: if needs.real_time {
            "allowed".into()
        } else {
            "allowed, if a stage shall have it".into()
        },
        why: "a receiver that always gets its time slice needs less buffer; off by default",
        remedy: if standing == Standing::Warning {
            "ulimit -r 10 (systemd: LimitRTPRIO=10), or CAP_SYS_NICE".into()
        } else {
            String::new()
        },
    }
}

fn governor(facts: &Facts) -> Check {
    let standing = match facts.governor.as_deref() {
        None => Standing::Unknown,
        Some("performance") => Standing::Good,
        Some(_) => Standing::Advice,
    };
    Check {
        name: "CPU governor",
        standing,
        found: facts
            .governor
            .clone()
            .unwrap_or_else(|| "none (a virtual machine?)".into()),
        wanted: "performance".into(),
        why: "a CPU that slowed down while idle is slow when the burst comes",
        remedy: if standing == Standing::Advice {
            "cpupower frequency-set -g performance".into()
        } else {
            String::new()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs() -> Needs {
        Needs {
            sockets: 90,
            socket_buffer_bytes: 4 << 20,
            memory_bytes: 1 << 30,
            message_bytes_max: 262_144,
            real_time: false,
            remote: true,
        }
    }

    fn plenty() -> Facts {
        Facts {
            granted_buffer_bytes: Some(4 << 20),
            rmem_max_bytes: Some(4 << 20),
            udp_mem_pages: Some(1 << 20),
            netdev_max_backlog: Some(10_000),
            fragment_bytes: Some(64 << 20),
            memory_available_bytes: Some(1 << 40),
            open_files: Some(u64::MAX),
            shared_memory_free_bytes: Some(1 << 30),
            locked_memory_bytes: Some(u64::MAX),
            may_lock_memory: false,
            real_time_priority: Some(0),
            may_set_priority: true,
            governor: Some("performance".into()),
        }
    }

    fn found<'a>(checks: &'a [Check], name: &str) -> &'a Check {
        checks.iter().find(|check| check.name == name).unwrap()
    }

    #[test]
    fn a_host_with_plenty_has_nothing_to_mend() {
        let checks = examine(&plenty(), &needs());
        assert!(
            checks
                .iter()
                .all(|check| check.standing == Standing::Good && check.remedy.is_empty()),
            "{checks:#?}"
        );
    }

    #[test]
    fn what_is_short_is_named_with_the_command_that_mends_it() {
        let poor = Facts {
            granted_buffer_bytes: Some(212_992),
            udp_mem_pages: Some(1000),
            open_files: Some(100),
            locked_memory_bytes: Some(8 << 20),
            ..plenty()
        };
        let checks = examine(&poor, &needs());
        let buffer = found(&checks, "socket buffer");
        assert_eq!(
            (buffer.standing, buffer.remedy.as_str()),
            (Standing::Warning, "sysctl -w net.core.rmem_max=4194304")
        );
        let udp_mem = found(&checks, "net.ipv4.udp_mem");
        assert_eq!(udp_mem.standing, Standing::Warning);
        // 90 sockets of 8 MiB in the kernel's count.
        assert!(udp_mem.remedy.ends_with(" 184320\""), "{}", udp_mem.remedy);
        assert_eq!(found(&checks, "open files").wanted, "at least 346");
        assert_eq!(found(&checks, "locked memory").standing, Standing::Advice);
    }

    #[test]
    fn priority_matters_to_those_who_ask_for_it() {
        let poor = Facts {
            may_set_priority: false,
            locked_memory_bytes: Some(8 << 20),
            ..plenty()
        };
        let standing = |real_time| {
            found(
                &examine(
                    &poor,
                    &Needs {
                        real_time,
                        ..needs()
                    },
                ),
                "real-time priority",
            )
            .standing
        };
        assert_eq!(
            (standing(false), standing(true)),
            (Standing::Unknown, Standing::Warning)
        );
        let locked = found(
            &examine(
                &poor,
                &Needs {
                    real_time: true,
                    ..needs()
                },
            ),
            "locked memory",
        )
        .standing;
        assert_eq!(locked, Standing::Warning);
    }

    #[test]
    fn a_host_that_tells_nothing_is_not_blamed() {
        let checks = examine(&Facts::default(), &needs());
        assert!(
            checks
                .iter()
                .all(|check| check.standing == Standing::Unknown),
            "{checks:#?}"
        );
    }

    #[test]
    fn this_host_is_examined() {
        let facts = Facts::read(1 << 20);
        assert!(
            facts.granted_buffer_bytes.is_some() && facts.open_files.is_some(),
            "{facts:?}"
        );
        assert!(facts.memory_available_bytes.is_some_and(|bytes| bytes > 0));
    }
}
