//! The books of a capture: its packets, its datagrams, and the link to the receivers.

use forebay_ledger::{Account, GroupId, LinkSpec, SchemaBuilder, Tally, Unit};

use super::PortWords;

/// Words of a capture that is replayed.
#[derive(Debug, Clone)]
pub struct CaptureWords {
    /// The group.
    pub group: GroupId,
    /// Its packets: those that became datagrams or parts of them, and the others by reason.
    pub packets: Account,
    /// Its datagrams, and those of which a fragment is missing.
    pub datagrams: Account,
    /// Datagrams to ports that are not replayed.
    pub not_selected: Tally,
}

/// Why a packet of a capture gives no datagram; the order is that of the ledger's reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureDrop {
    /// Another protocol.
    NotUdp,
    /// Cut by the capture's snap length.
    Truncated,
    /// Its headers contradict themselves.
    Malformed,
    /// The file ends, or cannot be read any further, within it.
    FileBroken,
}

impl CaptureDrop {
    /// All reasons, in the ledger's order.
    pub const NAMES: [&'static str; 4] = ["not_udp", "truncated", "malformed", "file_broken"];
}

/// Every datagram of the capture comes in at a receiver's account, or is one to another port.
pub(super) fn declare(schema: &mut SchemaBuilder, ports: &[PortWords]) -> CaptureWords {
    let group = schema.group("capture");
    let (_, packets) = schema.account(group, "capture", "file", Unit::Packets, &CaptureDrop::NAMES);
    let (id, datagrams) = schema.account(
        group,
        "reassembly",
        "file",
        Unit::Datagrams,
        &["fragment_missing"],
    );
    let not_selected = schema.link_drop(group);
    let mut link = LinkSpec::new("capture", "file")
        .from(id)
        .drops("not_selected", not_selected);
    for port in ports {
        for far in port
            .sources
            .iter()
            .map(|source| source.receiver_id)
            .chain(port.stray_id)
        {
            link = link.to(far);
        }
    }
    schema.link(link.bound_items(crate::receiver::REPLAY_BATCH));
    CaptureWords {
        group,
        packets,
        datagrams,
        not_selected,
    }
}
