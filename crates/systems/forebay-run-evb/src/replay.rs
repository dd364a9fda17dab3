//! Plans for a capture: which sources it holds, found by reading it once before the run.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use forebay_evb::{MessageCheck, SOURCES_MAX, Step};
use forebay_link::pcap::{Capture, CaptureError};
use forebay_run::error::RunError;
use forebay_wire::hadtu::first_address;

use crate::error::EvbError;
use crate::plan::{Plan, ReplayPlan, SourceKey};
use crate::presets;

/// Longest wait for a source. The file's time is not ours, so this only ends what would hang.
pub const TIMEOUT_MS: u64 = 60_000;
/// Longest message that makes a port a source.
const MESSAGE_BYTES_MAX: u32 = 64 << 20;

/// What tells the sources of a capture apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SourceBy {
    /// The UDP port that a datagram was sent to.
    #[default]
    Port,
    /// The address in the id of a message's first sub-event.
    Id,
    /// The sender's address and port.
    Sender,
}

/// Which datagrams of a capture are replayed, and how fast.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Selection {
    /// What tells sources apart.
    pub by: SourceBy,
    /// First port; with `by` other than port, the only one.
    pub base_port: Option<u16>,
    /// Number of sources; by port and with a base port: these ports, whether anything came to them or not.
    pub sources: Option<u16>,
    /// Speed of the replay, 1.0 as captured; none: as fast as it goes.
    pub speed: Option<f64>,
}

/// A plan that builds from the capture `file`.
///
/// # Errors
/// The file is no capture, or no message of a source is in it.
pub fn plan(
    run_id: &str,
    run_dir: &Path,
    file: &Path,
    selection: &Selection,
) -> Result<Plan, RunError> {
    let file = file
        .canonicalize()
        .map_err(RunError::file("finding", file))?;
    let any_port = selection.by != SourceBy::Port && selection.base_port.is_none();
    let keys = match (selection.by, selection.base_port, selection.sources) {
        (SourceBy::Port, Some(base), Some(count)) => (base..=u16::MAX)
            .take(count.into())
            .map(Key::Port)
            .collect(),
        _ => survey(&file, selection)?,
    };
    let bind = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let mut plan = presets::plan(run_id, run_dir, bind, 0, keys.len());
    let by_port = selection.by == SourceBy::Port;
    let only_port = selection.base_port.unwrap_or(0);
    if !by_port {
        plan.ports = vec![SocketAddr::new(bind, only_port)];
    }
    let ring_bytes = presets::holding_ring_bytes(keys.len());
    for (index, (source, key)) in plan.sources.iter_mut().zip(&keys).enumerate() {
        source.ring_bytes = ring_bytes;
        match *key {
            Key::Port(port) => plan.ports[index] = SocketAddr::new(bind, port),
            Key::Id(id) => (source.port, source.key) = (0, SourceKey::SubEventId(id)),
            Key::Sender(from) => (source.port, source.key) = (0, SourceKey::Sender(from)),
        }
    }
    plan.receiver.socket_buffer_bytes = Some(0);
    plan.builder.timeout_ms = TIMEOUT_MS;
    let speed_milli = selection
        .speed
        .map(|speed| (speed * 1_000.0).round().max(1.0) as u64);
    plan.replay = Some(ReplayPlan {
        file,
        speed_milli,
        any_port,
    });
    Ok(plan)
}

/// What makes a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Port(u16),
    Id(u32),
    Sender(SocketAddr),
}

/// The sources of a capture, sorted: each that sent one good message, or the beginning of a long one.
fn survey(file: &Path, selection: &Selection) -> Result<Vec<Key>, RunError> {
    let broken = |source: CaptureError| EvbError::Capture {
        file: file.to_path_buf(),
        source,
    };
    let mut capture = Capture::open(file).map_err(broken)?;
    let mut keys = BTreeSet::new();
    // Where the file breaks off, the sources found so far are replayed; the run will say it.
    while let Ok(Some(captured)) = capture.next_datagram() {
        let port = captured.to.port();
        let wanted = match (selection.by, selection.base_port) {
            (_, None) => true,
            (SourceBy::Port, Some(base)) => port >= base,
            (_, Some(only)) => port == only,
        };
        if !wanted || !begins_message(&captured.payload) {
            continue;
        }
        let key = match selection.by {
            SourceBy::Port => Some(Key::Port(port)),
            SourceBy::Id => first_address(&captured.payload).map(Key::Id),
            SourceBy::Sender => Some(Key::Sender(captured.from)),
        };
        keys.extend(key);
    }
    let (found, asked) = (keys.len(), selection.sources.map(usize::from));
    let keys: Vec<_> = keys.into_iter().take(asked.unwrap_or(usize::MAX)).collect();
    if let Some(asked) = asked.filter(|asked| !keys.is_empty() && found < *asked) {
        return Err(EvbError::SourcesMissing {
            file: file.to_path_buf(),
            asked,
            found,
        }
        .into());
    }
    if keys.is_empty() || keys.len() > SOURCES_MAX {
        let counters = capture.counters();
        return Err(EvbError::Sources {
            file: file.to_path_buf(),
            found: keys.len(),
            most: SOURCES_MAX,
            datagrams: counters.datagrams,
            packets: counters.packets,
        }
        .into());
    }
    Ok(keys)
}

fn begins_message(payload: &[u8]) -> bool {
    let mut check = MessageCheck::new(MESSAGE_BYTES_MAX);
    matches!(
        check.handle_datagram(payload, payload.len()),
        Step::Complete(_) | Step::More
    )
}
