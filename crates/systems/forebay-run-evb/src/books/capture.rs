//! The books of a capture: its packets, its datagrams, and the link to the receivers.

use forebay_ledger::{Account, GroupId, LinkSpec, SchemaBuilder, Tally, Unit, reasons};

use super::PortWords;

/// Words of a capture that is replayed.
#[derive(Debug, Clone)]
pub struct CaptureWords {
    /// The group.
    pub group: GroupId,
    /// Its packets: those that became datagrams or parts of them, and the others by reason.
    pub packets: Account<CaptureDrop>,
    /// Its datagrams, and those of which a fragment is missing.
    pub datagrams: Account<ReassemblyDrop>,
    /// Datagrams to ports that are not replayed.
    pub not_selected: Tally,
}

reasons! {
    /// Why a packet of a capture gives no datagram.
    pub enum CaptureDrop {
        /// Another protocol.
        NotUdp = "not_udp",
        /// Cut by the capture's snap length.
        Truncated = "truncated",
        /// Its headers contradict themselves.
        Malformed = "malformed",
        /// The file ends, or cannot be read any further, within it.
        FileBroken = "file_broken",
    }
}

reasons! {
    /// Why fragments become no datagram.
    pub enum ReassemblyDrop {
        /// One of them is missing.
        FragmentMissing = "fragment_missing",
    }
}

/// Every datagram of the capture comes in at a receiver's account, or is one to another port.
pub(super) fn declare(schema: &mut SchemaBuilder, ports: &[PortWords]) -> CaptureWords {
    let group = schema.group("capture");
    let (_, packets) = schema.account(group, "capture", "file", Unit::Packets);
    let (id, datagrams) = schema.account(group, "reassembly", "file", Unit::Datagrams);
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
