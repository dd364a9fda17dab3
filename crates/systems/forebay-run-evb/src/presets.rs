//! Plans made from a few numbers: what the command line builds on.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

// Ranges of the emulator's settings, for a program that asks a user for them.
pub use forebay_emu::{
    MAX_SOURCES as EMULATED_SOURCES_MAX, RATE_HZ, SUBEVENT_BYTES, WATER_MARK_BYTES_MIN,
};

use forebay_sys::cgroup;
use forebay_sys::host::Host;

use crate::config::SinkSettings;
use crate::plan::{
    Backpressure, BuilderPlan, Plan, ReceiverPlan, SinkKind, SinkPlan, SourceKey, SourcePlan,
};

/// Least and largest ring of a source, in bytes. The largest holds twice the default time-out at 8 MB/s.
const RING_BYTES: (u64, u64) = (256 << 10, 16 << 20);
/// What all of them together may take, in bytes, and as a part of the memory of the host, or of what its control group leaves a process.
const RINGS_BYTES_MAX: u64 = 2 << 30;
const RINGS_OF_MEMORY: u64 = 4;
/// Largest ring where a full one holds the input back, so that there is no time-out that it must last; in bytes.
const HOLDING_RING_BYTES: u64 = 4 << 20;
/// Receive buffer asked of the kernel for each socket, and for all of them.
const SOCKET_BUFFER_BYTES: (u64, u64) = (4 << 20, 1 << 30);

/// Size of each source's ring when there are `sources` of them on this host.
#[must_use]
pub fn ring_bytes(sources: usize) -> u64 {
    let host_bytes = Host::read().memory_bytes;
    let limit_bytes = cgroup::memory_limit_bytes().unwrap_or(u64::MAX);
    ring_bytes_in(host_bytes.min(limit_bytes), sources)
}

/// The same for an input that is held back by a full ring.
#[must_use]
pub fn holding_ring_bytes(sources: usize) -> u64 {
    ring_bytes(sources).min(HOLDING_RING_BYTES)
}

/// The same where so much memory may be used; 0: nobody knows how much.
fn ring_bytes_in(memory_bytes: u64, sources: usize) -> u64 {
    let all = match memory_bytes / RINGS_OF_MEMORY {
        0 => RINGS_BYTES_MAX,
        part => part.min(RINGS_BYTES_MAX),
    };
    let share = all / sources.max(1) as u64;
    let power = if share.is_power_of_two() {
        share
    } else {
        share.next_power_of_two() / 2
    };
    power.clamp(RING_BYTES.0, RING_BYTES.1)
}

/// Receive buffer of each socket when there are `ports` of them.
#[must_use]
pub fn socket_buffer_bytes(ports: usize) -> usize {
    (SOCKET_BUFFER_BYTES.1 / ports.max(1) as u64).clamp(1 << 20, SOCKET_BUFFER_BYTES.0) as usize
}

/// A plan for `sources` sources on ports from `base_port` on (0: any free ones) at `bind`.
#[must_use]
pub fn plan(run_id: &str, run_dir: &Path, bind: IpAddr, base_port: u16, sources: usize) -> Plan {
    let port = |index: usize| {
        if base_port == 0 {
            0
        } else {
            base_port.saturating_add(index as u16)
        }
    };
    let ring_bytes = ring_bytes(sources);
    let source = |index: usize| SourcePlan {
        name: format!("source{index}"),
        port: index,
        key: SourceKey::Port,
        ring_bytes,
    };
    Plan {
        run_id: run_id.to_owned(),
        run_dir: run_dir.to_path_buf(),
        ports: (0..sources)
            .map(|index| SocketAddr::new(bind, port(index)))
            .collect(),
        sources: (0..sources).map(source).collect(),
        receiver: ReceiverPlan {
            bind,
            socket_buffer_bytes: Some(socket_buffer_bytes(sources)),
            ..ReceiverPlan::default()
        },
        builder: BuilderPlan::default(),
        sinks: Vec::new(),
        generator: None,
        leak: None,
        run_min: 0,
        stall: None,
        replay: None,
        elinks: None,
    }
}

/// A sink of files in `directory`.
#[must_use]
pub fn file_sink(directory: PathBuf, prefix: &str) -> SinkPlan {
    let said = SinkSettings {
        prefix: prefix.to_owned(),
        ..SinkSettings::default()
    };
    SinkPlan {
        name: "file".into(),
        kind: SinkKind::File(said.file(directory)),
        queue_bytes: said.queue_bytes,
        backpressure: Backpressure::Block {
            limit_ms: said.block_ms_max,
        },
    }
}

/// A sink at the remote mover `peer`. One that stalls loses its own events by name, and holds nobody up.
#[must_use]
pub fn tcp_sink(peer: SocketAddr) -> SinkPlan {
    let said = SinkSettings::default();
    SinkPlan {
        name: "tcp".into(),
        kind: SinkKind::Tcp(said.tcp(peer)),
        queue_bytes: said.queue_bytes,
        backpressure: Backpressure::Drop,
    }
}

/// A sink that counts and forgets.
#[must_use]
pub fn null_sink() -> SinkPlan {
    SinkPlan {
        name: "null".into(),
        kind: SinkKind::Null,
        queue_bytes: 1 << 20,
        backpressure: Backpressure::Drop,
    }
}

/// E-links of these publishers, their trigger numbers in the first 4 bytes of a chunk.
#[cfg(test)]
pub(crate) fn elinks(publishers: &[&str]) -> crate::plan::ElinksPlan {
    crate::plan::ElinksPlan {
        publishers: publishers.iter().copied().map(str::to_owned).collect(),
        said: crate::plan::ElinkSettings {
            l1id_offset_bytes: 0,
            l1id_bytes: 4,
            buffer_count: 8,
            ..Default::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn rings_share_what_the_host_can_give() {
        let mib = |memory_bytes, sources| ring_bytes_in(memory_bytes, sources) as f64 / 1048576.0;
        assert_eq!(mib(24 * GIB, 1), 16.0);
        assert_eq!(mib(24 * GIB, 90), 16.0);
        assert_eq!(mib(8 * GIB, 128), 16.0, "2 GiB in all");
        assert_eq!(mib(24 * GIB, 129), 8.0);
        assert_eq!(mib(24 * GIB, 1024), 2.0);
        assert_eq!(mib(4 * GIB, 90), 8.0, "a quarter of the host's memory");
        assert_eq!(mib(GIB / 4, 1024), 0.25);
        assert_eq!(mib(0, 90), 16.0);
    }

    /// Twice the default time-out of 4,000 sub-events of 1,170 bytes in a second, as they lie in a ring.
    #[test]
    fn the_default_holds_twice_the_time_out_of_the_demonstration() {
        let seconds = 2.0 * BuilderPlan::default().timeout_ms as f64 / 1e3;
        assert!(ring_bytes_in(8 * GIB, 90) as f64 > seconds * 4_000.0 * 1_200.0);
    }
}
