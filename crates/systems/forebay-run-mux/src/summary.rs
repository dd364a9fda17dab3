//! What a multiplexer's run came to.

use std::collections::BTreeMap;

use forebay_mux::account::ClientCounts;
use forebay_run::record::Record;
use forebay_sys::confine::Confined;
use serde::Serialize;

use crate::config::ClientSettings;
use crate::control::Changed;

/// The record of a multiplexer.
pub type MuxRecord = Record<MuxSummary>;

/// What it has to say beside what every record says.
#[derive(Clone, Debug, Serialize)]
pub struct MuxSummary {
    /// The card.
    pub interface: String,
    /// The driver of it, as the file names it.
    pub driver: &'static str,
    /// How frames came and went by it.
    pub driver_mode: &'static str,
    /// Its threads: with 2, frames go in one of their own.
    pub driver_threads: u8,
    /// Frames that came from it.
    pub frames_in: u64,
    /// Frames that it took, answers of the responder among them.
    pub frames_out: u64,
    /// Answers to questions for addresses of clients that the card took.
    pub answers: u64,
    /// What the daemon gave away of its rights; nothing: `confine` is false.
    pub confined: Option<ConfinedSummary>,
    /// Connections that came.
    pub connections: u64,
    /// Those that got no place, by reason; of the control socket as `control_…`.
    pub refused: BTreeMap<&'static str, u64>,
    /// Settings that were changed while it ran, the last 256.
    pub changes: Vec<SettingChange>,
    /// All of them.
    pub changes_made: u64,
    /// Bells that were rung for clients.
    pub signals: u64,
    /// What the engine's own audit leaves over, in items.
    pub engine_residual_items: u64,
    /// Each place for a client, in the order of the file.
    pub clients: Vec<ClientSummary>,
}

/// What holds of the daemon's confinement, as the kernel says.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ConfinedSummary {
    /// Threads that are confined: all of them.
    pub threads: usize,
    /// No thread has a capability.
    pub no_capabilities: bool,
    /// None could come back from the bounding set. False where the daemon had no right to empty it, as one that was not started as root.
    pub no_bounding_set: bool,
    /// No program that is started could have more rights.
    pub no_new_privileges: bool,
    /// System calls are filtered (seccomp).
    pub system_calls: bool,
    /// Version of landlock that holds files; nothing: this kernel has none.
    pub landlock: Option<u32>,
}

impl From<Confined> for ConfinedSummary {
    fn from(held: Confined) -> Self {
        Self {
            threads: held.threads,
            no_capabilities: held.is_without_capabilities,
            no_bounding_set: held.is_bounded,
            no_new_privileges: held.is_without_new_privileges,
            system_calls: held.is_filtered,
            landlock: held.landlock,
        }
    }
}

/// A setting that was changed while it ran.
#[derive(Clone, Debug, Serialize)]
pub struct SettingChange {
    /// When, in s since the begin.
    pub at_s: f64,
    /// The user that said it.
    pub uid: u32,
    /// Its process.
    pub pid: u32,
    /// The setting, before and after.
    #[serde(flatten)]
    pub change: Changed,
}

/// What became of a place, all clients that had it together.
#[derive(Clone, Debug, Serialize)]
pub struct ClientSummary {
    /// Its name.
    pub name: String,
    /// It is trusted: its packets are copied when they go, and not when they are handed over.
    pub is_trusted: bool,
    /// It reads frames where the driver has received them, and has no copies.
    pub is_sharing: bool,
    /// Clients that had the place.
    pub connected: u64,
    /// How they were parted with, by reason.
    pub parted: BTreeMap<&'static str, u64>,
    /// Times that the daemon heard it ring; several before it looked are one.
    pub bells: u64,
    /// Of these, ones since which, and since the one before, nothing was taken from it.
    pub idle_bells: u64,
    /// Frames that came for it.
    pub frames_for: u64,
    /// Frames that it was given.
    pub frames_given: u64,
    /// Their bytes.
    pub bytes_given: u64,
    /// Buffers that it gave back.
    pub buffers_returned: u64,
    /// Packets that it handed over.
    pub packets_asked: u64,
    /// Packets of it that the card took.
    pub packets_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// The longest that one of its packets waited, in ns.
    pub sojourn_ns_max: u64,
    /// Lies of it by name: of buffers that it gave back as `return.NAME`, of packets as `send.NAME`.
    pub lies: BTreeMap<String, u64>,
}

impl ClientSummary {
    pub(crate) fn of(
        said: &ClientSettings,
        connected: u64,
        parted: BTreeMap<&'static str, u64>,
        [bells, idle_bells]: [u64; 2],
        counts: &ClientCounts<'_>,
    ) -> Self {
        let (receive, transmit) = (counts.receive, counts.transmit);
        let mut lies = BTreeMap::new();
        for (why, lied) in receive.faults.iter().filter(|(_, lied)| *lied > 0) {
            lies.insert(format!("return.{}", why.name()), lied);
        }
        for (why, lost) in transmit.dropped.iter() {
            if let forebay_ledger::OneOf::First(fault) = why
                && lost.items > 0
            {
                lies.insert(format!("send.{}", fault.name()), lost.items);
            }
        }
        Self {
            name: said.name.clone().unwrap_or_default(),
            is_trusted: said.trusted,
            is_sharing: said.shares(),
            connected,
            parted,
            bells,
            idle_bells,
            frames_for: counts.delivery.came.items,
            frames_given: counts.delivery.given.items,
            bytes_given: counts.delivery.given.bytes,
            buffers_returned: receive.taken_back.items,
            packets_asked: transmit.asked.items,
            packets_sent: transmit.sent.items,
            bytes_sent: transmit.sent.bytes,
            sojourn_ns_max: transmit.sojourn_max_ns,
            lies,
        }
    }
}
